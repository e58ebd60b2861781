"""In-memory store and blobs, for tests, demos and sessions that need not survive the process.

They keep the promises of the other stores except durability. Records are stored encoded, so that a record that cannot
be stored is rejected here too, and a reader never shares an object with a writer.
"""

import asyncio
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import msgspec

from holdfast.core.integrity.reconcile import BadRow, DropSnapshot, LogRepair, MarkMissing, Recount, Run, SetAside
from holdfast.core.integrity.segments import Kept
from holdfast.core.limits.bounds import Bounds
from holdfast.core.search.rank import Index, Reading, RowSize, read_rows, rebuild_row, snippet
from holdfast.errors import (
    BadInputError,
    ClientIdReusedError,
    RecordsSealedError,
    SeqMovedError,
    StoppingError,
)
from holdfast.ports import (
    Admission,
    Clock,
    Hit,
    Lease,
    Quarantined,
    RowCheck,
    Segment,
    SessionFilter,
    SessionInfo,
    SessionOrder,
    SessionPage,
    Snapshot,
)
from holdfast.stores.blobs import MemoryBlobs
from holdfast.stores.feeds import Feed, FeedRegistry
from holdfast.stores.listing import NO_CHANGE, ListingChange, listing_change, page_of_all, row_of
from holdfast.stores.rows import (
    SessionRow,
    body_of,
    check_key,
    check_lease_term,
    check_not_sealed,
    not_next_error,
    open_call_error,
    record_crc32,
    seal_record,
)
from holdfast.types.messages import BlobRef
from holdfast.types.records import (
    AnyRecord,
    DamageSetAside,
    InboxRecord,
    LeasedRecord,
    Logged,
    WorkRecord,
    client_id_of,
    decode_record,
    encode_record,
    owed,
    refs_in,
)

__all__ = ["MemoryBlobs", "MemoryStore"]

# There is one instance, and its leases end with it.
_INSTANCE = "memory"
_ALTERED = "its bytes are not a record"


class MemoryStore:
    """Logs of sessions in memory. Every call yields to other tasks once, as a store on a disk does."""

    def __init__(self, *, clock: Clock, bounds: Bounds | None = None) -> None:
        self._clock, self._bounds = clock, bounds or Bounds()
        self._rows: dict[str, SessionRow] = {}
        # Live rows, and the segments sealed before them.
        self._logs: dict[str, list[Kept]] = {}
        self._segments: dict[str, list[Segment]] = {}
        self._client_ids: dict[tuple[str, str], tuple[int, bytes]] = {}
        self._snapshots: dict[str, Snapshot] = {}
        # The search index of each searched session, and the position up to which it covers the log.
        self._indexes: dict[str, tuple[Index, Reading]] = {}
        self._quarantine: dict[str, list[Quarantined]] = {}
        # The blobs that each session references, by hash.
        self._blob_refs: dict[str, dict[str, BlobRef]] = {}
        # All changes of the row of each session in the list of sessions.
        self._listing: dict[str, ListingChange] = {}
        self._registry = FeedRegistry()

    async def admit(self, session: str, record: InboxRecord) -> Admission:
        """Append one inbox record; see `Log.admit`."""
        row = await self._row(session)
        body = body_of(session, record)
        client_id = client_id_of(record)
        known = self._client_ids.get((session, client_id)) if client_id else None
        if known is not None:
            seq, known_body = known
            if known_body != body:
                raise ClientIdReusedError(session, client_id, seq)
            return Admission(seq, is_new=False)
        if owed(record):
            row.check_queue(self._bounds.inputs_waiting_max)
        if client_id:
            self._client_ids[session, client_id] = row.last_seq + 1, body
        self._extend(row, [record], [body])
        return Admission(row.last_seq, is_new=True)

    async def extend(self, session: str, records: Sequence[InboxRecord], *, after: int) -> int:
        """Append inbox records atomically; see `Appends.extend`."""
        row = await self._row(session)
        bodies = [body_of(session, record) for record in records]
        row.check_after(after)
        if any(map(owed, records)):
            row.check_queue(self._bounds.inputs_waiting_max)
        ids = [client_id_of(record) for record in records]
        for client_id in filter(None, ids):
            if (known := self._client_ids.get((session, client_id))) is not None:
                raise ClientIdReusedError(session, client_id, known[0])
        for seq, client_id, body in zip(range(after + 1, after + 1 + len(ids)), ids, bodies, strict=True):
            if client_id:
                self._client_ids[session, client_id] = seq, body
        self._extend(row, records, bodies)
        return row.last_seq

    async def find(self, session: str, client_ids: Sequence[str]) -> dict[str, int]:
        """Return the seqs of records by client id; see `Appends.find`."""
        await self._row(session)
        found = ((client_id, self._client_ids.get((session, client_id))) for client_id in client_ids)
        return {client_id: known[0] for client_id, known in found if known is not None}

    async def append(self, lease: Lease, records: Sequence[LeasedRecord], *, after: int) -> int:
        """Append work records atomically; see `Log.append`."""
        row = await self._row(lease.session)
        bodies = [body_of(lease.session, record) for record in records]
        row.check_lease(lease)
        row.check_after(after)
        self._extend(row, records, bodies)
        return row.last_seq

    async def read(self, session: str, *, after: int = 0, limit: int | None = None) -> list[Logged]:
        """Return records above `after`; see `Log.read`."""
        await self._row(session)
        return self._records(session, after=max(after, 0), limit=limit)

    def _records(self, session: str, *, after: int, limit: int | None = None) -> list[Logged]:
        rows = self._kept(session, after=after, limit=limit)
        if rows and rows[0].seq > after + 1:
            raise RecordsSealedError(session, rows[0].seq - 1)
        return [Logged(row.seq, row.at, _decoded(row.body)) for row in rows]

    def _kept(self, session: str, *, after: int, limit: int | None) -> list[Kept]:
        start = max(after - self._sealed_until(session), 0)
        return self._logs.get(session, [])[start : None if limit is None else start + max(limit, 0)]

    def _sealed_until(self, session: str) -> int:
        sealed = self._segments.get(session)
        return sealed[-1].last if sealed else 0

    def feed(self, session: str, *, after: int = 0) -> Feed:
        """Yield records as they are appended; see `Log.feed`."""
        return Feed(self._registry, session, after, self._read_page)

    async def search(self, session: str, query: str, *, limit: int = 10) -> list[Hit]:
        """Search a session; see `SearchIndex.search`."""
        await self._row(session)
        index, _ = self._indexed(session)
        return [
            Hit(size.seq, scored.score, self._snippet(session, size, query), size.call)
            for scored in index.find(query, limit=limit)
            for size in (index.rows[scored.row],)
        ]

    async def candidates(self, sessions: Sequence[SessionInfo], query: str) -> list[str]:
        """Return the sessions that may match; see `SearchIndex.candidates`."""
        return [one.key for one in sessions if self._indexed(one.key)[0].mentions(query)]

    def _indexed(self, session: str) -> tuple[Index, Reading]:
        """Bring the index of a session up to date, and return it with its position in the log."""
        index, read = self._indexes.get(session) or (Index(), Reading((), until=0, reread=1))
        read = read_rows(self._records(session, after=min(read.reread - 1, read.until)), after=read.until)
        for row in read.rows:
            index.add(row)
        self._indexes[session] = index, msgspec.structs.replace(read, rows=())
        return self._indexes[session]

    def _snippet(self, session: str, size: RowSize, query: str) -> str:
        seqs = sorted({size.call, size.seq} - {0})
        if seqs[0] <= self._sealed_until(session):
            return ""
        records = [logged for seq in seqs for logged in self._records(session, after=seq - 1, limit=1)]
        return snippet(rebuild_row(size, records), query)

    async def acquire(self, session: str, owner: str, *, seconds: float) -> Lease | None:
        """Take the lease of a session; see `Log.acquire`."""
        check_lease_term(session, owner, seconds)
        row = await self._row(session)
        now = self._clock.now()
        if not row.is_expired(now) and not row.is_held_by(owner, _INSTANCE):
            return None
        self._rows[session] = row
        return row.grant_lease(owner, _INSTANCE, now + seconds)

    async def renew(self, lease: Lease, *, seconds: float) -> Lease:
        """Extend a lease; see `Log.renew`."""
        check_lease_term(lease.session, lease.owner, seconds)
        row = await self._row(lease.session)
        row.check_lease(lease)
        return row.extend_lease(self._clock.now() + seconds)

    async def release(self, lease: Lease) -> None:
        """Release a lease; see `Log.release`."""
        row = await self._row(lease.session)
        if row.fence == lease.fence:
            row.clear_lease()

    async def save_snapshot(self, lease: Lease, snapshot: Snapshot) -> None:
        """Replace the snapshot; see `Snapshots.save_snapshot`."""
        row = await self._row(lease.session)
        row.check_lease(lease)
        self._snapshots[lease.session] = snapshot

    async def live_rows(self, session: str, *, after: int = 0, limit: int) -> list[Kept]:
        """Return live rows exactly as stored; see `Maintenance.live_rows`."""
        await self._row(session)
        return self._kept(session, after=max(after, 0), limit=limit)

    async def seal(self, lease: Lease, segment: Segment, *, after: int) -> int:
        """Remove sealed rows; see `Maintenance.seal`."""
        row = await self._row(lease.session)
        sealed = seal_record(lease, segment)
        body = body_of(lease.session, sealed)
        row.check_lease(lease)
        row.check_after(after)
        live = self._logs.get(lease.session, [])
        count = segment.last - segment.first + 1
        if len(live) < count or live[0].seq != segment.first:
            raise not_next_error(segment, live[0].seq if live else 0, row.last_seq)
        _, read = self._indexed(lease.session)
        if read.reread <= segment.last:
            raise open_call_error(segment, read.reread)
        del live[:count]
        self._segments.setdefault(lease.session, []).append(segment)
        self._extend(row, [sealed], [body])
        return row.last_seq

    async def segments(self, session: str) -> list[Segment]:
        """Return the sealed segments, in order."""
        await self._row(session)
        return list(self._segments.get(session, ()))

    async def load_snapshot(self, session: str) -> Snapshot | None:
        """Return the newest snapshot, or None."""
        await self._row(session)
        return self._snapshots.get(session)

    async def blob_refs(self, session: str) -> list[BlobRef]:
        """Return the blobs that a session references; see `BlobRefs.blob_refs`."""
        await self._row(session)
        refs = self._blob_refs.get(session, {})
        return [refs[sha256] for sha256 in sorted(refs)]

    async def unshared_blobs(self, sessions: Collection[str]) -> list[BlobRef]:
        """Return the blobs that only these sessions reference; see `BlobRefs.unshared_blobs`."""
        await self._yield_to_others()
        elsewhere = {sha256 for key, refs in self._blob_refs.items() if key not in sessions for sha256 in refs}
        own = {sha256: ref for key in sessions for sha256, ref in self._blob_refs.get(key, {}).items()}
        return [own[sha256] for sha256 in sorted(own.keys() - elsewhere)]

    async def unscanned_sessions(self) -> list[str]:
        """Return none: every append stores its references."""
        await self._yield_to_others()
        return []

    async def add_blob_refs(self, session: str, refs: Collection[BlobRef]) -> None:
        """Add blob references; see `BlobRefs.add_blob_refs`."""
        await self._row(session)
        if session in self._logs:
            self._add_refs(session, refs)

    def _add_refs(self, session: str, refs: Iterable[BlobRef]) -> None:
        for ref in refs:
            self._blob_refs.setdefault(session, {}).setdefault(ref.sha256, ref)

    async def info(self, session: str) -> SessionInfo | None:
        """Return the summary of a session, or None."""
        return (await self._row(session)).info()

    async def sessions(self, *, after: str = "", limit: int = 100) -> list[SessionInfo]:
        """Return sessions in order of their keys."""
        await self._yield_to_others()
        keys = sorted(key for key in self._logs if key > after)
        found = [self._rows[key].info() for key in keys[: max(limit, 0)]]
        return [info for info in found if info is not None]

    async def list_sessions(
        self, wanted: SessionFilter, *, order: SessionOrder, after: str = "", limit: int = 100
    ) -> SessionPage:
        """Return a page of sessions with their labels; see `Directory.list_sessions`."""
        await self._yield_to_others()
        known = [(info, self._rows[key].hour) for key in sorted(self._logs) if (info := self._rows[key].info())]
        rows = [row_of(info, self._listing.get(info.key, NO_CHANGE), hour) for info, hour in known]
        return page_of_all(rows, wanted, order, after, limit)

    async def pending(self) -> list[str]:
        """Return the keys of all sessions with pending work, in order."""
        await self._yield_to_others()
        return sorted(key for key, row in self._rows.items() if row.owed > 0)

    async def check_rows(self, session: str, *, after: int | None = None, limit: int = 1_000) -> RowCheck:
        """Check a log; see `Maintenance.check_rows`. In memory only tests alter rows."""
        await self._row(session)
        page = self._kept(session, after=max(after or 0, 0), limit=max(limit, 1))
        bad = [row.seq for row in page if _decoded(row.body) == DamageSetAside(_ALTERED)]
        intact = tuple(Run(row.seq, row.seq) for row in page if row.seq not in bad)
        until = page[-1].seq if len(page) == max(limit, 1) else None
        return RowCheck(intact, tuple(BadRow(seq, _ALTERED) for seq in bad), until)

    async def repair(
        self, lease: Lease, repairs: Sequence[LogRepair], records: Sequence[WorkRecord] = (), *, after: int
    ) -> int:
        """Repair a log and report it there; see `Maintenance.repair`."""
        row = await self._row(lease.session)
        bodies = [body_of(lease.session, record) for record in records]
        row.check_lease(lease)
        row.check_after(after)
        until = row.last_seq
        for repair in repairs:
            if isinstance(repair, Recount):
                row.owed = repair.owed
            elif isinstance(repair, DropSnapshot):
                self._snapshots.pop(lease.session, None)
            elif isinstance(repair, SetAside | MarkMissing) and self._sealed_until(lease.session) < repair.seq <= until:
                self._set_aside(lease.session, repair, until)
        if lease.session not in self._segments:
            # The sealed records are not readable here, so their index could not be rebuilt.
            self._indexes.pop(lease.session, None)
        owed_now = row.owed
        self._extend(row, records, bodies)
        row.owed = owed_now
        return row.last_seq

    def _set_aside(self, session: str, repair: SetAside | MarkMissing, until: int) -> None:
        log, aside, now = self._logs[session], self._quarantine.setdefault(session, []), self._clock.now()
        place, name = repair.seq - self._sealed_until(session) - 1, ""
        if isinstance(repair, SetAside):
            name = f"quarantine:{len(aside) + 1}"
            aside.append(Quarantined(name, repair.seq, repair.why, now, log[place].body))
        body = encode_record(DamageSetAside(repair.why, name, until, repair.is_owed))
        log[place] = Kept(repair.seq, now, record_crc32(0, repair.seq, now, body), body)

    async def quarantine(self, session: str, *, after: str = "", limit: int = 100) -> list[Quarantined]:
        """Return quarantined rows; see `Maintenance.quarantine`."""
        await self._row(session)
        start = int(after.rpartition(":")[2] or 0)
        return self._quarantine.get(session, [])[start : start + max(limit, 0)]

    async def adopt(self, lease: Lease, records: Sequence[Logged]) -> int:
        """Append records of another log; see `SessionAdmin.adopt`."""
        row = await self._row(lease.session)
        row.check_lease(lease)
        for seq, logged in enumerate(records, start=row.last_seq + 1):
            if logged.seq != seq:
                raise SeqMovedError(lease.session, logged.seq - 1, row.last_seq)
        for logged in records:
            body = body_of(lease.session, logged.record)
            if client_id := client_id_of(logged.record):
                self._client_ids.setdefault((lease.session, client_id), (logged.seq, body))
            self._extend(row, [logged.record], [body], at=logged.at)
        return row.last_seq

    async def rename(self, lease: Lease, key: str, *, after: int | None = None) -> Lease:
        """Rename a session; see `SessionAdmin.rename`."""
        row = await self._row(lease.session)
        row.check_lease(lease)
        check_key(key)
        row.check_after(after)
        if key in self._logs:
            raise BadInputError(f"session {key!r} already exists; choose another key")
        check_not_sealed(lease.session, key, self._segments.get(lease.session))
        for table in self._tables():
            table.pop(key, None)
            if lease.session in table:
                table[key] = table.pop(lease.session)
        ids = [known for known in self._client_ids if known[0] == lease.session]
        self._client_ids |= {(key, client_id): self._client_ids.pop((old, client_id)) for old, client_id in ids}
        row.key = key
        return msgspec.structs.replace(lease, session=key)

    async def delete(self, lease: Lease) -> None:
        """Delete a session; see `SessionAdmin.delete`."""
        row = await self._row(lease.session)
        row.check_lease(lease)
        for table in self._tables():
            table.pop(lease.session, None)
        self._client_ids = {known: seq for known, seq in self._client_ids.items() if known[0] != lease.session}

    def _tables(self) -> tuple[dict[str, Any], ...]:
        """All tables that are keyed by session."""
        tables = (self._rows, self._logs, self._snapshots, self._indexes, self._quarantine)
        return *tables, self._segments, self._blob_refs, self._listing

    async def close(self) -> None:
        """End all feeds; later calls raise `StoppingError`."""
        self._registry.close()

    async def _yield_to_others(self) -> None:
        # Code that is correct only without concurrency must fail here as it would on a disk.
        if self._registry.is_closed:
            raise StoppingError("the store was closed; open it again")
        await asyncio.sleep(0)

    async def _row(self, session: str) -> SessionRow:
        """Return the row of a session. A new row is stored only by a write."""
        check_key(session)
        await self._yield_to_others()
        return self._rows.get(session) or SessionRow(session)

    async def _read_page(self, session: str, after: int, limit: int) -> list[Logged]:
        return await self.read(session, after=after, limit=limit)

    def _extend(
        self, row: SessionRow, records: Sequence[AnyRecord], bodies: Sequence[bytes], at: float | None = None
    ) -> None:
        if not records:
            return
        at = self._clock.now() if at is None else at
        self._rows[row.key] = row
        # Sessions have no numbers here, so the checksum uses 0.
        self._logs.setdefault(row.key, []).extend(
            Kept(seq, at, record_crc32(0, seq, at, body), body) for seq, body in enumerate(bodies, row.last_seq + 1)
        )
        row.extend(len(records), sum(map(owed, records)), at)
        self._add_refs(row.key, refs_in(records))
        change = listing_change(records)
        if row.is_listed_anew(change, at):
            self._listing[row.key] = self._listing.get(row.key, NO_CHANGE).followed_by(change)
        self._registry.wake([row.key])


def _decoded(body: bytes) -> AnyRecord:
    """Return a record, or a placeholder if its bytes are damaged."""
    try:
        return decode_record(body)
    except msgspec.DecodeError:
        return DamageSetAside(_ALTERED)
