"""A store and blobs that live in memory: for tests, demonstrations and sessions that need not outlive the process.

Same promises as the others, but for what a crash leaves: nothing. Records are kept as the bytes that a disk would hold,
so what cannot be stored is refused here too and a reader never shares an object with a writer.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Sequence

import msgspec

from holdfast.core.finding import Index, Reading, RowSize, read_rows, row_again
from holdfast.core.glimpse import glimpse
from holdfast.core.limits import Bounds
from holdfast.core.messages import BlobRef
from holdfast.core.records import AnyRecord, InboxRecord, InputAdmitted, LeasedRecord, Logged, decode_record, owed
from holdfast.core.segments import Kept
from holdfast.errors import BlobMissingError, ClientIdReusedError, RecordsSealedError, StoppingError
from holdfast.ports import Admission, Clock, Hit, Lease, Segment, SessionInfo, Snapshot
from holdfast.stores.feeds import Bells, Feed
from holdfast.stores.rows import (
    SessionRow,
    body_of,
    check_key,
    check_lease_term,
    not_next,
    not_settled,
    record_crc32,
    seal_of,
)

# There is one instance, and it cannot die before its leases do.
_INSTANCE = "memory"


class MemoryStore:
    """Logs of sessions in memory. Every call gives way to other tasks once, as a store on a disk does."""

    def __init__(self, *, clock: Clock, bounds: Bounds | None = None) -> None:
        self._clock, self._bounds = clock, bounds or Bounds()
        self._rows: dict[str, SessionRow] = {}
        # Live records, and what was sealed before them.
        self._logs: dict[str, list[Kept]] = {}
        self._segments: dict[str, list[Segment]] = {}
        self._client_ids: dict[tuple[str, str], tuple[int, bytes]] = {}
        self._snapshots: dict[str, Snapshot] = {}
        # What can be found in each session that was searched, and how far its log was read for that.
        self._indexes: dict[str, tuple[Index, Reading]] = {}
        self._bells = Bells()

    async def admit(self, session: str, record: InboxRecord) -> Admission:
        """Append one inbox record; see `Store.admit`."""
        row = await self._row(session)
        body = body_of(session, record)
        client_id = record.client_id if isinstance(record, InputAdmitted) else ""
        known = self._client_ids.get((session, client_id)) if client_id else None
        if known is not None:
            seq, known_body = known
            if known_body != body:
                raise ClientIdReusedError(session, client_id, seq)
            return Admission(seq, is_new=False)
        if owed(record):
            row.check_room(self._bounds.inputs_waiting_max)
        if client_id:
            self._client_ids[session, client_id] = row.last_seq + 1, body
        self._extend(row, [record], [body])
        return Admission(row.last_seq, is_new=True)

    async def append(self, lease: Lease, records: Sequence[LeasedRecord], *, after: int) -> int:
        """Append work records, all or none; see `Store.append`."""
        row = await self._row(lease.session)
        bodies = [body_of(lease.session, record) for record in records]
        row.check_lease(lease)
        row.check_after(after)
        self._extend(row, records, bodies)
        return row.last_seq

    async def read(self, session: str, *, after: int = 0, limit: int | None = None) -> list[Logged]:
        """Return records behind `after`; see `Store.read`."""
        await self._row(session)
        return self._records(session, after=max(after, 0), limit=limit)

    def _records(self, session: str, *, after: int, limit: int | None = None) -> list[Logged]:
        rows = self._kept(session, after=after, limit=limit)
        if rows and rows[0].seq > after + 1:
            raise RecordsSealedError(session, rows[0].seq - 1)
        return [Logged(row.seq, row.at, decode_record(row.body)) for row in rows]

    def _kept(self, session: str, *, after: int, limit: int | None) -> list[Kept]:
        start = max(after - self._sealed_until(session), 0)
        return self._logs.get(session, [])[start : None if limit is None else start + max(limit, 0)]

    def _sealed_until(self, session: str) -> int:
        sealed = self._segments.get(session)
        return sealed[-1].last if sealed else 0

    def feed(self, session: str, *, after: int = 0) -> Feed:
        """Yield records as they come; see `Store.feed`."""
        return Feed(self._bells, session, after, self._read_page)

    async def search(self, session: str, query: str, *, limit: int = 10) -> list[Hit]:
        """Return what answers a question best; see `Store.search`."""
        await self._row(session)
        index, _ = self._indexed(session)
        return [
            Hit(size.seq, scored.score, self._glimpse(session, size, query), size.call)
            for scored in index.find(query, limit=limit)
            for size in (index.rows[scored.row],)
        ]

    def _indexed(self, session: str) -> tuple[Index, Reading]:
        """Return the index of a session with everything in it, and how far its log was read."""
        index, read = self._indexes.get(session) or (Index(), Reading((), until=0, reread=1))
        read = read_rows(self._records(session, after=min(read.reread - 1, read.until)), after=read.until)
        for row in read.rows:
            index.add(row)
        self._indexes[session] = index, msgspec.structs.replace(read, rows=())
        return self._indexes[session]

    def _glimpse(self, session: str, size: RowSize, query: str) -> str:
        seqs = sorted({size.call, size.seq} - {0})
        if seqs[0] <= self._sealed_until(session):
            return ""
        records = [logged for seq in seqs for logged in self._records(session, after=seq - 1, limit=1)]
        return glimpse(row_again(size, records), query)

    async def acquire(self, session: str, owner: str, *, seconds: float) -> Lease | None:
        """Take the right to work on a session; see `Store.acquire`."""
        check_lease_term(session, owner, seconds)
        row = await self._row(session)
        now = self._clock.now()
        if not row.is_expired(now) and not row.is_held_by(owner, _INSTANCE):
            return None
        self._rows[session] = row
        return row.give_lease(owner, _INSTANCE, now + seconds)

    async def renew(self, lease: Lease, *, seconds: float) -> Lease:
        """Prolong a lease; see `Store.renew`."""
        check_lease_term(lease.session, lease.owner, seconds)
        row = await self._row(lease.session)
        row.check_lease(lease)
        return row.prolong_lease(self._clock.now() + seconds)

    async def release(self, lease: Lease) -> None:
        """Give a lease back; see `Store.release`."""
        row = await self._row(lease.session)
        if row.fence == lease.fence:
            row.end_lease()

    async def save_snapshot(self, lease: Lease, snapshot: Snapshot) -> None:
        """Keep a fold in place of the one before; see `Store.save_snapshot`."""
        row = await self._row(lease.session)
        row.check_lease(lease)
        self._snapshots[lease.session] = snapshot

    async def kept(self, session: str, *, after: int = 0, limit: int) -> list[Kept]:
        """Return live records exactly as they are kept; see `Store.kept`."""
        await self._row(session)
        return self._kept(session, after=max(after, 0), limit=limit)

    async def seal(self, lease: Lease, segment: Segment, *, after: int) -> int:
        """Take records out of the live ones; see `Store.seal`."""
        row = await self._row(lease.session)
        sealed = seal_of(lease, segment)
        body = body_of(lease.session, sealed)
        row.check_lease(lease)
        row.check_after(after)
        live = self._logs.get(lease.session, [])
        count = segment.last - segment.first + 1
        if len(live) < count or live[0].seq != segment.first:
            raise not_next(segment, live[0].seq if live else 0, row.last_seq)
        _, read = self._indexed(lease.session)
        if read.reread <= segment.last:
            raise not_settled(segment, read.reread)
        del live[:count]
        self._segments.setdefault(lease.session, []).append(segment)
        self._extend(row, [sealed], [body])
        return row.last_seq

    async def segments(self, session: str) -> list[Segment]:
        """Return what was sealed, in order."""
        await self._row(session)
        return list(self._segments.get(session, ()))

    async def load_snapshot(self, session: str) -> Snapshot | None:
        """Return the newest snapshot, if there is one."""
        await self._row(session)
        return self._snapshots.get(session)

    async def info(self, session: str) -> SessionInfo | None:
        """Return what is known of one session."""
        return (await self._row(session)).info()

    async def sessions(self, *, after: str = "", limit: int = 100) -> list[SessionInfo]:
        """Return sessions in order of their keys."""
        await self._give_way()
        behind = sorted(key for key in self._logs if key > after)
        found = [self._rows[key].info() for key in behind[: max(limit, 0)]]
        return [info for info in found if info is not None]

    async def owing(self) -> list[str]:
        """Return the keys of all sessions that owe an outcome, in order."""
        await self._give_way()
        return sorted(key for key, row in self._rows.items() if row.owed > 0)

    async def close(self) -> None:
        """End all feeds and take no more calls."""
        self._bells.close()

    async def _give_way(self) -> None:
        # Code that holds only while nothing else runs must fail over memory as it would over a disk.
        if self._bells.is_closed:
            raise StoppingError("the store was closed; open it again")
        await asyncio.sleep(0)

    async def _row(self, session: str) -> SessionRow:
        """Return a session's row. One that is not known yet is kept only when something is written to it."""
        check_key(session)
        await self._give_way()
        return self._rows.get(session) or SessionRow(session)

    async def _read_page(self, session: str, after: int, limit: int) -> list[Logged]:
        return await self.read(session, after=after, limit=limit)

    def _extend(self, row: SessionRow, records: Sequence[AnyRecord], bodies: Sequence[bytes]) -> None:
        if not records:
            return
        at = self._clock.now()
        self._rows[row.key] = row
        # The number in the checksum is a store's own; here there is none.
        self._logs.setdefault(row.key, []).extend(
            Kept(seq, at, record_crc32(0, seq, at, body), body) for seq, body in enumerate(bodies, row.last_seq + 1)
        )
        row.extend(len(records), sum(map(owed, records)), at)
        self._bells.ring([row.key])


class MemoryBlobs:
    """Original bytes in memory, by their SHA-256."""

    def __init__(self) -> None:
        self._blobs: dict[str, bytes] = {}

    async def put(self, chunks: AsyncIterator[bytes] | bytes) -> BlobRef:
        """Keep these bytes. A stream ends up in memory whole, as everything here does."""
        content = chunks if isinstance(chunks, bytes) else b"".join([chunk async for chunk in chunks])
        sha256 = hashlib.sha256(content).hexdigest()
        self._blobs.setdefault(sha256, content)
        return BlobRef(sha256, len(content))

    async def get(self, ref: BlobRef) -> bytes:
        """Return all bytes."""
        if ref.sha256 not in self._blobs:
            raise BlobMissingError(ref.sha256, "was never put here")
        return self._blobs[ref.sha256]

    async def read(self, ref: BlobRef, *, start: int, length: int) -> bytes:
        """Return a range of the bytes."""
        content = await self.get(ref)
        return content[max(start, 0) : max(start, 0) + max(length, 0)]
