"""Store in one SQLite file: the default. Several processes may use the file at once; no server is needed.

A store belongs to the event loop that first uses it. One thread per store writes and a few others read. The event loop
itself accesses the disk only to open the store, and where that is cheaper than a thread: for a single small write (see
`writer`) and for small reads (see `reading`). It never waits for another process.

Never open the file with Python's own `sqlite3` in a process that has a store open on it: that is a second copy of
SQLite, and closing its connection drops the locks of the first (https://sqlite.org/howtocorrupt.html, section 2.2.1).
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import apsw
import msgspec

from holdfast.core.integrity.reconcile import LogRepair
from holdfast.core.integrity.segments import Kept
from holdfast.core.limits.bounds import Bounds
from holdfast.errors import StoppingError, StoreFullError, StorePathError
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
from holdfast.stores.feeds import Feed, FeedRegistry
from holdfast.stores.listing import listing_change
from holdfast.stores.rows import (
    SessionRow,
    body_of,
    check_key,
    check_lease_term,
    open_call_error,
    packed,
    seal_record,
)
from holdfast.stores.sqlite import blob_refs, directory, inspect, reading, session_admin
from holdfast.stores.sqlite import search as search_index
from holdfast.stores.sqlite.batch import Batch
from holdfast.stores.sqlite.file import OUT_OF_SPACE, BusyHandler, check_path, connect, full, prepare
from holdfast.stores.sqlite.process_lock import Instances
from holdfast.stores.sqlite.reading import Readers
from holdfast.stores.sqlite.reserve import RESERVE_BYTES, release_reserve
from holdfast.stores.sqlite.search import Slice
from holdfast.stores.sqlite.writer import Writer
from holdfast.types.messages import BlobRef
from holdfast.types.records import (
    InboxRecord,
    LeasedRecord,
    Logged,
    ReplyRecorded,
    WorkRecord,
    append_bookkeeping,
    client_id_of,
    owed,
    refs_in,
    refs_of,
)

# Records to read inline: a reader that follows a log finds a few, mostly none.
FEW_RECORDS = 16

# Writes of the search index after which it is merged, and steps of a merge: a tenth of a second of the writer.
_MERGED_AFTER_WRITES = 256
_MERGE_STEPS_MAX = 20

# Size of a turn end that may use the reserved disk space: a thousand outcomes at once with their messages, and a
# sixteenth of that space.
TURN_END_BYTES_MAX = RESERVE_BYTES // 16

ResultT = TypeVar("ResultT")


class SqliteStore:
    """Logs of sessions in one SQLite file.

    A lease belongs to the owner that the caller names *and* to this store object, so two processes with the same owner
    name are distinct. The folder `<path>-owners` next to the database has one locked file per open store. The kernel
    drops the lock of a dead process, so its leases are available at once, before they expire. Closing the last store
    removes the folder.
    """

    def __init__(self, path: str | Path, *, clock: Clock, bounds: Bounds | None = None) -> None:
        self._path, self._bounds = Path(path), bounds or Bounds()
        check_path(self._path)
        try:
            self._instances = _prepared(self._path)
        except StoreFullError:
            # A start on a full disk: a few pages are enough to end the turns of a dead process.
            if not release_reserve(self._path):
                raise
            self._instances = _prepared(self._path)
        self._registry = FeedRegistry()
        self._writer = Writer(self._path, self._instances, clock, self._registry)
        self._registry.on_first_wait = self._writer.start_polling
        self._readers = Readers(self._path, self._connect)
        # Writes of the search index since it was merged; those of earlier processes count as one.
        self._unmerged = 1

    @property
    def commits(self) -> int:
        """Number of commits. With the number of calls it shows how well writes are grouped."""
        return self._writer.commits

    async def admit(self, session: str, record: InboxRecord) -> Admission:
        """Append one inbox record; see `Log.admit`."""
        check_key(session)
        body = body_of(session, record)
        client_id = client_id_of(record)
        room = self._bounds.inputs_waiting_max if owed(record) else None
        refs, listed = refs_of(record), listing_change((record,))
        return await self._writer.run(
            lambda batch: batch.admit(session, body, client_id, inputs_waiting_max=room, refs=refs, listed=listed),
            size_bytes=len(body),
        )

    async def extend(self, session: str, records: Sequence[InboxRecord], *, after: int) -> int:
        """Append inbox records atomically; see `Appends.extend`."""
        check_key(session)
        # Not in the writer's thread: each call of zlib releases the GIL, and all sessions wait for the writer.
        rows = [(body, packed(body)) for body in (body_of(session, record) for record in records)]
        client_ids, (added, refs) = [client_id_of(record) for record in records], append_bookkeeping(records)
        room, listed = self._bounds.inputs_waiting_max, listing_change(records)
        return await self._writer.run(
            lambda batch: batch.extend(
                session, rows, client_ids, after=after, owed=added, inputs_waiting_max=room, refs=refs, listed=listed
            ),
            size_bytes=sum(len(body) for body, _ in rows),
        )

    async def find(self, session: str, client_ids: Sequence[str]) -> dict[str, int]:
        """Return the seqs of records by client id; see `Appends.find`."""
        check_key(session)
        found = await self._read_inline(lambda db: reading.client_ids(db, session, client_ids))
        return await self._read(lambda db: reading.client_ids(db, session, client_ids)) if found is None else found[0]

    async def append(self, lease: Lease, records: Sequence[LeasedRecord], *, after: int) -> int:
        """Append work records atomically; see `Log.append`."""
        check_key(lease.session)
        bodies = [body_of(lease.session, record) for record in records]
        added, refs = append_bookkeeping(records)
        size_bytes, listed = sum(map(len, bodies)), listing_change(records)
        return await self._writer.run(
            lambda batch: batch.append(lease, bodies, after=after, owed=added, refs=refs, listed=listed),
            size_bytes=size_bytes,
            # Replies would use up the reserve.
            ends_turn=added < 0 and size_bytes <= TURN_END_BYTES_MAX and not _has_reply(records),
        )

    async def read(self, session: str, *, after: int = 0, limit: int | None = None) -> list[Logged]:
        """Return records above `after`; see `Log.read`."""
        check_key(session)
        few = FEW_RECORDS if limit is None else min(limit, FEW_RECORDS)

        def read_newest(db: apsw.Connection) -> list[Logged]:
            newest = self._readers.recent.records(db, session, after, few) if after > 0 else None
            return reading.records(db, session, after, few) if newest is None else newest

        found = await self._read_inline(read_newest)
        if found is not None and (few == limit or len(found[0]) < few):
            return found[0]
        return await self._read(lambda db: reading.records(db, session, after, limit))

    def feed(self, session: str, *, after: int = 0) -> Feed:
        """Yield records as they are appended, those of other processes within some 25 ms; see `Log.feed`."""
        return Feed(self._registry, session, after, self._read_page)

    async def search(self, session: str, query: str, *, limit: int = 10) -> list[Hit]:
        """Search a session; see `SearchIndex.search`. Indexes new records first.

        On a full disk new records are not indexed, and only older ones are found.
        """
        check_key(session)

        def find_indexed(db: apsw.Connection) -> list[Hit] | None:
            # One query for an indexed session, because a search over thousands of sessions waits for each.
            return (
                search_index.find(db, session, query, limit) if search_index.next_slice(db, session) is None else None
            )

        found = await self._read(find_indexed)
        if found is not None:
            return found
        with suppress(StoreFullError):
            await self._index_all(session)
        return await self._read(lambda db: search_index.find(db, session, query, limit))

    async def candidates(self, sessions: Sequence[SessionInfo], query: str) -> list[str]:
        """Return the sessions that may match; see `SearchIndex.candidates`. A changed index is merged first."""
        if self._unmerged:
            with suppress(StoreFullError):
                await self._merge_index()
        return await self._read(lambda db: search_index.candidates(db, sessions, query))

    async def _merge_index(self) -> None:
        self._unmerged = 0
        for _ in range(_MERGE_STEPS_MAX):
            if not await self._writer.run(lambda batch: batch.merge_index(), is_synced=False):
                break

    async def _index_all(self, session: str) -> None:
        known = await self.info(session)
        while known is not None:
            part = await self._read(lambda db: search_index.next_slice(db, session))
            if part is None:
                break
            await self._index(part)
            if part.until >= known.last_seq or part.until <= part.after:
                # Records appended since the search began are left to the next one. Rows with wrong seqs do not advance
                # the index.
                break

    async def _index(self, part: Slice) -> None:
        await self._writer.run(lambda batch: batch.index(part), size_bytes=part.size_bytes)
        self._unmerged += 1
        if self._unmerged >= _MERGED_AFTER_WRITES:
            await self._merge_index()

    async def acquire(self, session: str, owner: str, *, seconds: float) -> Lease | None:
        """Take the lease of a session; see `Log.acquire`."""
        check_lease_term(session, owner, seconds)
        # A power loss ends all leases, and takes none of the records that were synced after this one was granted.
        return await self._writer.run(
            lambda batch: batch.acquire(session, owner, seconds), ends_turn=True, is_synced=False
        )

    async def renew(self, lease: Lease, *, seconds: float) -> Lease:
        """Extend a lease; see `Log.renew`."""
        check_lease_term(lease.session, lease.owner, seconds)
        return await self._writer.run(lambda batch: batch.renew(lease, seconds), is_synced=False)

    async def release(self, lease: Lease) -> None:
        """Release a lease; see `Log.release`."""
        check_key(lease.session)
        await self._writer.run(lambda batch: batch.release(lease), is_synced=False)

    async def save_snapshot(self, lease: Lease, snapshot: Snapshot) -> None:
        """Replace the snapshot; see `Snapshots.save_snapshot`."""
        check_key(lease.session)
        await self._writer.run(lambda batch: batch.save_snapshot(lease, snapshot), size_bytes=len(snapshot.body))

    async def live_rows(self, session: str, *, after: int = 0, limit: int) -> list[Kept]:
        """Return live rows exactly as stored; see `Maintenance.live_rows`."""
        check_key(session)
        return await self._read(lambda db: reading.live_rows(db, session, after, limit))

    async def seal(self, lease: Lease, segment: Segment, *, after: int) -> int:
        """Remove sealed rows; see `Maintenance.seal`. Indexes new records first."""
        check_key(lease.session)
        body = body_of(lease.session, seal_record(lease, segment))
        while (reread := await self._read(lambda db: search_index.next_read(db, lease.session))) <= segment.last:
            part = await self._read(lambda db: search_index.next_slice(db, lease.session))
            if part is None or part.until <= part.after:
                raise open_call_error(segment, reread)
            await self._index(part)
        return await self._writer.run(lambda batch: batch.seal(lease, segment, body, after=after))

    async def segments(self, session: str) -> list[Segment]:
        """Return the sealed segments, in order."""
        check_key(session)
        return await self._read_small(lambda db: blob_refs.segments(db, session))

    async def load_snapshot(self, session: str) -> Snapshot | None:
        """Return the newest snapshot, or None if it is damaged: the log can be folded again."""
        check_key(session)
        return await self._read_small(lambda db: reading.snapshot(db, session))

    async def blob_refs(self, session: str) -> list[BlobRef]:
        """Return the blobs that a session references; see `BlobRefs.blob_refs`."""
        check_key(session)
        return await self._read(lambda db: blob_refs.blob_refs(db, session))

    async def unshared_blobs(self, sessions: Collection[str]) -> list[BlobRef]:
        """Return the blobs that only these sessions reference; see `BlobRefs.unshared_blobs`."""
        return await self._read(lambda db: blob_refs.unshared_blobs(db, sessions))

    async def unscanned_sessions(self) -> list[str]:
        """Return the sessions with incomplete references; see `BlobRefs.unscanned_sessions`."""
        return await self._read(blob_refs.unscanned_sessions)

    async def add_blob_refs(self, session: str, refs: Collection[BlobRef]) -> None:
        """Add blob references; see `BlobRefs.add_blob_refs`."""
        check_key(session)
        await self._writer.run(lambda batch: batch.add_blob_refs(session, refs))

    async def info(self, session: str) -> SessionInfo | None:
        """Return the summary of a session, or None."""
        check_key(session)
        self._check_open()
        written = self._writer.info(session)
        if written is None:
            return await self._read_small(lambda db: reading.info(db, session))
        if self._writer.is_yield_due():
            # Nothing was waited for, so let other tasks run.
            await asyncio.sleep(0)
        return written

    async def sessions(self, *, after: str = "", limit: int = 100) -> list[SessionInfo]:
        """Return sessions in order of their keys."""
        return await self._read(lambda db: reading.sessions(db, after, limit))

    async def list_sessions(
        self, wanted: SessionFilter, *, order: SessionOrder, after: str = "", limit: int = 100
    ) -> SessionPage:
        """Return a page of sessions with their labels; see `Directory.list_sessions`."""
        return await self._read(lambda db: directory.list_sessions(db, wanted, order, after, limit))

    async def pending(self) -> list[str]:
        """Return the keys of all sessions with pending work, in order."""
        # Readiness probes and the watchdog come here: a store that cannot accept anything should not look ready.
        self._writer.check_place()
        return await self._read(reading.pending)

    async def check_rows(self, session: str, *, after: int | None = None, limit: int = 1_000) -> RowCheck:
        """Check the rows of a log; see `Maintenance.check_rows`."""
        check_key(session)
        return await self._read(lambda db: inspect.check_rows(db, session, after, limit))

    async def repair(
        self,
        lease: Lease,
        repairs: Sequence[LogRepair],
        records: Sequence[WorkRecord] = (),
        *,
        after: int,
    ) -> int:
        """Repair a log and report it there; see `Maintenance.repair`."""
        check_key(lease.session)
        bodies = [body_of(lease.session, record) for record in records]

        def work(db: apsw.Connection, row: SessionRow, now: float) -> int:
            row.check_after(after)
            session_admin.apply_repairs(db, row, repairs, bodies, now)
            blob_refs.insert_refs(db, row.number, refs_in(records))
            return row.last_seq

        return await self._writer.run(lambda batch: batch.change(lease, work), size_bytes=sum(map(len, bodies)))

    async def quarantine(self, session: str, *, after: str = "", limit: int = 100) -> list[Quarantined]:
        """Return quarantined rows; see `Maintenance.quarantine`."""
        check_key(session)
        return await self._read(lambda db: session_admin.quarantine(db, session, after, limit))

    async def adopt(self, lease: Lease, records: Sequence[Logged]) -> int:
        """Append records of another log; see `SessionAdmin.adopt`."""
        check_key(lease.session)

        def work(db: apsw.Connection, row: SessionRow, _now: float) -> int:
            return session_admin.adopt(db, row, records)

        size_bytes = sum(len(body_of(lease.session, logged.record)) for logged in records)
        return await self._writer.run(lambda batch: batch.change(lease, work), size_bytes=size_bytes)

    async def rename(self, lease: Lease, key: str, *, after: int | None = None) -> Lease:
        """Rename a session; see `SessionAdmin.rename`."""
        check_key(lease.session)
        check_key(key)

        def change_key(db: apsw.Connection, row: SessionRow, _now: float) -> None:
            row.check_after(after)
            session_admin.rename(db, row, key)

        def work(batch: Batch) -> None:
            batch.change(lease, change_key)
            batch.forget(key)

        await self._writer.run(work)
        return msgspec.structs.replace(lease, session=key)

    async def delete(self, lease: Lease) -> None:
        """Delete a session, some thousand rows per transaction; see `SessionAdmin.delete`."""
        check_key(lease.session)

        def work(db: apsw.Connection, row: SessionRow, _now: float) -> bool:
            return session_admin.delete_some(db, row)

        while await self._writer.run(lambda batch: batch.change(lease, work)):
            pass

    async def close(self) -> None:
        """Finish running calls, then release every thread, file and lock; see `Log.close`."""
        if self._registry.is_closed:
            return
        self._registry.close()
        await self._writer.close()
        await asyncio.to_thread(self._close_files)

    def _close_files(self) -> None:
        self._readers.close()
        self._instances.close()

    async def _read_page(self, session: str, after: int, limit: int) -> list[Logged]:
        return await self.read(session, after=after, limit=limit)

    async def _read(self, query: Callable[[apsw.Connection], ResultT]) -> ResultT:
        self._check_open()
        return await self._readers.query(query)

    async def _read_small(self, query: Callable[[apsw.Connection], ResultT]) -> ResultT:
        """Read something small, inline if possible."""
        found = await self._read_inline(query)
        return await self._read(query) if found is None else found[0]

    async def _read_inline(self, query: Callable[[apsw.Connection], ResultT]) -> tuple[ResultT] | None:
        self._check_open()
        return await self._readers.query_inline(query)

    def _check_open(self) -> None:
        if self._registry.is_closed:
            raise StoppingError(f"the store {self._path} is closed; open it again")

    def _connect(self, busy_handler: BusyHandler | None) -> apsw.Connection:
        """Open a read connection."""
        return connect(self._path, is_reader=True, busy_handler=busy_handler)


def _has_reply(records: Sequence[LeasedRecord]) -> bool:
    return any(isinstance(record, ReplyRecorded) for record in records)


def _prepared(path: Path) -> Instances:
    """Register this store, and create or migrate the file."""
    try:
        instances = Instances(path)
    except OSError as error:
        if error.errno in OUT_OF_SPACE:
            raise full(path) from error
        raise StorePathError(
            f"the folder {path}-owners cannot be used ({error.strerror}); remove the file in its place"
        ) from error
    try:
        prepare(path, instances)
    except BaseException:
        instances.close()
        raise
    return instances
