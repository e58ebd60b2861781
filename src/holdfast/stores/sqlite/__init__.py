"""The store on one SQLite file: the default. Several processes may use the file at once; no server is needed.

A SQLite store belongs to the event loop that first uses it. Writing happens in one thread per store, reading in a few
others, so the event loop does not wait for the disk, but for opening, and where the disk takes less time than a thread
would cost: a single small write (see `writer`), and reading little (see `readers`). It never waits for another process.

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
from holdfast.ports import Admission, Clock, Hit, Lease, Quarantined, RowCheck, Segment, SessionInfo, Snapshot
from holdfast.stores.feeds import Bells, Feed
from holdfast.stores.rows import SessionRow, body_of, check_key, check_lease_term, not_settled, seal_of
from holdfast.stores.sqlite import blob_refs as naming
from holdfast.stores.sqlite import blob_refs as sealing
from holdfast.stores.sqlite import inspect as checking
from holdfast.stores.sqlite import reading, session_admin
from holdfast.stores.sqlite import repair as mending
from holdfast.stores.sqlite import search as searching
from holdfast.stores.sqlite.batch import Batch
from holdfast.stores.sqlite.file import OUT_OF_SPACE, Patience, check_place, connect, full, prepare
from holdfast.stores.sqlite.process_lock import Owners
from holdfast.stores.sqlite.reading import Readers
from holdfast.stores.sqlite.reserve import RESERVE_BYTES, give_up_reserve
from holdfast.stores.sqlite.search import Slice
from holdfast.stores.sqlite.writer import Writer
from holdfast.types.messages import BlobRef
from holdfast.types.records import (
    InboxRecord,
    InputAdmitted,
    LeasedRecord,
    Logged,
    WorkRecord,
    kept_beside,
    owed,
    refs_in,
    refs_of,
)

# So many records are read on the spot: whoever follows a log finds a few, mostly none.
FEW_RECORDS = 16

# What ends turns and may be written in the space that is kept for it: a thousand outcomes at once, each with its
# sentence, and a sixteenth of that space.
ENDING_BYTES_MAX = RESERVE_BYTES // 16

ResultT = TypeVar("ResultT")


class SqliteStore:
    """Logs of sessions in one SQLite file.

    A lease is held in the name of the owner that the caller gives *and* of this store object: two processes that call
    themselves the same are still two. Next to the database lies the folder `<path>-owners` with one locked file per
    open store; when a process dies, the kernel drops its lock and its leases can be taken at once, without waiting for
    them to expire. Closing the last store removes the folder.
    """

    def __init__(self, path: str | Path, *, clock: Clock, bounds: Bounds | None = None) -> None:
        self._path, self._bounds = Path(path), bounds or Bounds()
        check_place(self._path)
        try:
            self._owners = _moved_in(self._path)
        except StoreFullError:
            # A start on a full disk: some pages are enough, and what a dead process left can be ended.
            if not give_up_reserve(self._path):
                raise
            self._owners = _moved_in(self._path)
        self._bells = Bells()
        self._writer = Writer(self._path, self._owners, clock, self._bells)
        self._bells.on_first_wait = self._writer.nudge
        self._readers = Readers(self._path, self._connect)

    @property
    def commits(self) -> int:
        """How many transactions this store has committed: with the number of calls it tells how well they group."""
        return self._writer.commits

    async def admit(self, session: str, record: InboxRecord) -> Admission:
        """Append one inbox record; see `Store.admit`."""
        check_key(session)
        body = body_of(session, record)
        client_id = record.client_id if isinstance(record, InputAdmitted) else ""
        room = self._bounds.inputs_waiting_max if owed(record) else None
        refs = refs_of(record)
        return await self._writer.run(
            lambda batch: batch.admit(session, body, client_id, inputs_waiting_max=room, refs=refs),
            size_bytes=len(body),
        )

    async def append(self, lease: Lease, records: Sequence[LeasedRecord], *, after: int) -> int:
        """Append work records, all or none; see `Store.append`."""
        check_key(lease.session)
        bodies = [body_of(lease.session, record) for record in records]
        added, refs = kept_beside(records)
        size_bytes = sum(map(len, bodies))
        return await self._writer.run(
            lambda batch: batch.append(lease, bodies, after=after, owed=added, refs=refs),
            size_bytes=size_bytes,
            # An answer of megabytes would take the space of all others.
            is_ending=added < 0 and size_bytes <= ENDING_BYTES_MAX,
        )

    async def read(self, session: str, *, after: int = 0, limit: int | None = None) -> list[Logged]:
        """Return records behind `after`; see `Store.read`."""
        check_key(session)
        few = FEW_RECORDS if limit is None else min(limit, FEW_RECORDS)
        found = await self._read_here(lambda db: reading.records(db, session, after, few))
        if found is not None and (few == limit or len(found[0]) < few):
            return found[0]
        return await self._read(lambda db: reading.records(db, session, after, limit))

    def feed(self, session: str, *, after: int = 0) -> Feed:
        """Yield records as they come, from other processes within some 25 ms; see `Store.feed`."""
        return Feed(self._bells, session, after, self._read_page)

    async def search(self, session: str, query: str, *, limit: int = 10) -> list[Hit]:
        """Return what answers a question best; see `Store.search`. What is not indexed yet is indexed first.

        On a full disk it cannot be: what was indexed before is found.
        """
        check_key(session)

        def find_indexed(db: apsw.Connection) -> list[Hit] | None:
            # One that is indexed takes one look: whoever searches thousands of sessions waits for each.
            return searching.find(db, session, query, limit) if searching.next_slice(db, session) is None else None

        found = await self._read(find_indexed)
        if found is not None:
            return found
        with suppress(StoreFullError):
            await self._index_all(session)
        return await self._read(lambda db: searching.find(db, session, query, limit))

    async def candidates(self, sessions: Sequence[SessionInfo], query: str) -> list[str]:
        """Return where a search may find something; see `Store.mentioning`."""
        return await self._read(lambda db: searching.candidates(db, sessions, query))

    async def _index_all(self, session: str) -> None:
        known = await self.info(session)
        while known is not None:
            part = await self._read(lambda db: searching.next_slice(db, session))
            if part is None:
                break
            await self._index(part)
            if part.until >= known.last_seq or part.until <= part.after:
                # Whatever came since the search began may wait for the next one; rows whose numbers cannot be believed
                # lead no further.
                break

    async def _index(self, part: Slice) -> None:
        await self._writer.run(lambda batch: batch.index(part), size_bytes=part.size_bytes)

    async def acquire(self, session: str, owner: str, *, seconds: float) -> Lease | None:
        """Take the right to work on a session; see `Store.acquire`."""
        check_lease_term(session, owner, seconds)
        return await self._writer.run(lambda batch: batch.acquire(session, owner, seconds), is_ending=True)

    async def renew(self, lease: Lease, *, seconds: float) -> Lease:
        """Prolong a lease; see `Store.renew`."""
        check_lease_term(lease.session, lease.owner, seconds)
        return await self._writer.run(lambda batch: batch.renew(lease, seconds))

    async def release(self, lease: Lease) -> None:
        """Give a lease back; see `Store.release`."""
        check_key(lease.session)
        await self._writer.run(lambda batch: batch.release(lease))

    async def save_snapshot(self, lease: Lease, snapshot: Snapshot) -> None:
        """Keep a fold in place of the one before; see `Store.save_snapshot`."""
        check_key(lease.session)
        await self._writer.run(lambda batch: batch.save_snapshot(lease, snapshot), size_bytes=len(snapshot.body))

    async def live_rows(self, session: str, *, after: int = 0, limit: int) -> list[Kept]:
        """Return live records exactly as they are kept; see `Store.kept`."""
        check_key(session)
        return await self._read(lambda db: reading.live_rows(db, session, after, limit))

    async def seal(self, lease: Lease, segment: Segment, *, after: int) -> int:
        """Take records out of the live ones; see `Store.seal`. What is not indexed yet is indexed first."""
        check_key(lease.session)
        body = body_of(lease.session, seal_of(lease, segment))
        while (reread := await self._read(lambda db: searching.next_read(db, lease.session))) <= segment.last:
            part = await self._read(lambda db: searching.next_slice(db, lease.session))
            if part is None or part.until <= part.after:
                raise not_settled(segment, reread)
            await self._index(part)
        return await self._writer.run(lambda batch: batch.seal(lease, segment, body, after=after))

    async def segments(self, session: str) -> list[Segment]:
        """Return what was sealed, in order."""
        check_key(session)
        return await self._read_little(lambda db: sealing.segments(db, session))

    async def load_snapshot(self, session: str) -> Snapshot | None:
        """Return the newest snapshot. One that was damaged is as good as none: the log can be folded again."""
        check_key(session)
        return await self._read_little(lambda db: reading.snapshot(db, session))

    async def blob_refs(self, session: str) -> list[BlobRef]:
        """Return the blobs that a session names; see `Store.blob_refs`."""
        check_key(session)
        return await self._read(lambda db: naming.blob_refs(db, session))

    async def unshared_blobs(self, sessions: Collection[str]) -> list[BlobRef]:
        """Return the blobs that these sessions alone name; see `Store.unshared_blobs`."""
        return await self._read(lambda db: naming.unshared_blobs(db, sessions))

    async def unscanned_sessions(self) -> list[str]:
        """Return the sessions whose blobs are not known; see `Store.unscanned_sessions`."""
        return await self._read(naming.unscanned_sessions)

    async def add_blob_refs(self, session: str, refs: Collection[BlobRef]) -> None:
        """Note which blobs a session names; see `Store.add_blob_refs`."""
        check_key(session)
        await self._writer.run(lambda batch: batch.add_blob_refs(session, refs))

    async def info(self, session: str) -> SessionInfo | None:
        """Return what is known of one session."""
        check_key(session)
        return await self._read_little(lambda db: reading.info(db, session))

    async def sessions(self, *, after: str = "", limit: int = 100) -> list[SessionInfo]:
        """Return sessions in order of their keys."""
        return await self._read(lambda db: reading.sessions(db, after, limit))

    async def pending(self) -> list[str]:
        """Return the keys of all sessions that owe an outcome, in order."""
        return await self._read(reading.pending)

    async def check_rows(self, session: str, *, after: int | None = None, limit: int = 1_000) -> RowCheck:
        """Look at the rows of a log; see `Store.examine`."""
        check_key(session)
        return await self._read(lambda db: checking.check_rows(db, session, after, limit))

    async def repair(
        self,
        lease: Lease,
        repairs: Sequence[LogRepair],
        records: Sequence[WorkRecord] = (),
        *,
        after: int,
    ) -> int:
        """Repair a log and say so in it; see `Store.mend`."""
        check_key(lease.session)
        bodies = [body_of(lease.session, record) for record in records]

        def make(db: apsw.Connection, row: SessionRow, now: float) -> int:
            row.check_after(after)
            mending.apply_repairs(db, row, repairs, bodies, now)
            naming.insert_names(db, row.number, refs_in(records))
            return row.last_seq

        return await self._writer.run(lambda batch: batch.change(lease, make), size_bytes=sum(map(len, bodies)))

    async def quarantine(self, session: str, *, after: str = "", limit: int = 100) -> list[Quarantined]:
        """Return what was set aside of a session; see `Store.quarantine`."""
        check_key(session)
        return await self._read(lambda db: mending.quarantine(db, session, after, limit))

    async def adopt(self, lease: Lease, records: Sequence[Logged]) -> int:
        """Append records of another log; see `Store.adopt`."""
        check_key(lease.session)

        def make(db: apsw.Connection, row: SessionRow, _now: float) -> int:
            return session_admin.adopt(db, row, records)

        size_bytes = sum(len(body_of(lease.session, logged.record)) for logged in records)
        return await self._writer.run(lambda batch: batch.change(lease, make), size_bytes=size_bytes)

    async def rename(self, lease: Lease, key: str, *, after: int | None = None) -> Lease:
        """Give a session another key; see `Store.rename`."""
        check_key(lease.session)
        check_key(key)

        def make(db: apsw.Connection, row: SessionRow, _now: float) -> None:
            row.check_after(after)
            session_admin.rename(db, row, key)

        def work(batch: Batch) -> None:
            batch.change(lease, make)
            batch.forget(key)

        await self._writer.run(work)
        return msgspec.structs.replace(lease, session=key)

    async def delete(self, lease: Lease) -> None:
        """Remove a session, some thousand rows at a time; see `Store.delete`."""
        check_key(lease.session)

        def make(db: apsw.Connection, row: SessionRow, _now: float) -> bool:
            return session_admin.delete_some(db, row)

        while await self._writer.run(lambda batch: batch.change(lease, make)):
            pass

    async def close(self) -> None:
        """Finish what was asked for, then let go of every thread, file and lock; see `Store.close`."""
        if self._bells.is_closed:
            return
        self._bells.close()
        await self._writer.close()
        await asyncio.to_thread(self._let_go)

    def _let_go(self) -> None:
        self._readers.close()
        self._owners.close()

    async def _read_page(self, session: str, after: int, limit: int) -> list[Logged]:
        return await self.read(session, after=after, limit=limit)

    async def _read(self, query: Callable[[apsw.Connection], ResultT]) -> ResultT:
        self._check_open()
        return await self._readers.ask(query)

    async def _read_little(self, query: Callable[[apsw.Connection], ResultT]) -> ResultT:
        """Ask something that has a short answer."""
        found = await self._read_here(query)
        return await self._read(query) if found is None else found[0]

    async def _read_here(self, query: Callable[[apsw.Connection], ResultT]) -> tuple[ResultT] | None:
        self._check_open()
        return await self._readers.ask_here(query)

    def _check_open(self) -> None:
        if self._bells.is_closed:
            raise StoppingError(f"the store {self._path} was closed; open it again")

    def _connect(self, patience: Patience | None) -> apsw.Connection:
        """Open one more connection for reading."""
        return connect(self._path, is_reader=True, patience=patience)


def _moved_in(path: Path) -> Owners:
    """Return this store's place among its owners, with the file brought to the newest layout."""
    try:
        owners = Owners(path)
    except OSError as error:
        if error.errno in OUT_OF_SPACE:
            raise full(path) from error
        raise StorePathError(
            f"the folder {path}-owners cannot be used ({error.strerror}); remove what is in its place"
        ) from error
    try:
        prepare(path, owners)
    except BaseException:
        owners.close()
        raise
    return owners
