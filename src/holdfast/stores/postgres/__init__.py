"""Store on a PostgreSQL server, for several machines. Any node can work on any session, one at a time.

A store belongs to the event loop that first uses it. Creating it does not connect: the first call does, and migrates
the schema. During an outage of the server, calls wait a few seconds and then fail; feeds wait without a limit.
"""

import asyncio
from collections.abc import Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from holdfast.core.integrity.reconcile import LogRepair
from holdfast.core.integrity.segments import Kept
from holdfast.core.limits.bounds import Bounds
from holdfast.errors import BadInputError, StoreBusyError, StoreUnreachableError
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
from holdfast.stores.postgres import directory, leases, reading, session_admin
from holdfast.stores.postgres.batch import Admit, Append, Extend
from holdfast.stores.postgres.connections import Address, Connections
from holdfast.stores.postgres.leases import Change, Work
from holdfast.stores.postgres.notify import Notifier
from holdfast.stores.postgres.writer import Writers
from holdfast.stores.rows import SessionRow, body_of, check_key, check_lease_term, open_call_error, seal_record
from holdfast.types.messages import BlobRef
from holdfast.types.records import (
    InboxRecord,
    LeasedRecord,
    Logged,
    WorkRecord,
    append_bookkeeping,
    client_id_of,
    owed,
    refs_in,
    refs_of,
)

if TYPE_CHECKING:
    from holdfast.stores.postgres.connections import Connection

# The limit of a B-tree index, with a margin: a third of a page of 8 KiB, see "B-Tree Indexes" in the manual.
KEY_BYTES_MAX = 2_600


class PostgresStore:
    """Logs of sessions in the schema `holdfast` of a PostgreSQL database.

    A lease belongs to the owner that the caller names *and* to this store object, and expires by the clock of the
    server. A given `clock`, as in tests, replaces that clock.
    """

    def __init__(self, url: str, *, clock: Clock | None = None, bounds: Bounds | None = None) -> None:
        self._clock, self._bounds = clock, bounds or Bounds()
        self.connections = Connections(Address(url))
        self._registry = FeedRegistry()
        self._notifier = Notifier(self.connections, self._registry)
        self._registry.on_first_wait = self._notifier.wake
        self._writers = Writers(self.connections, clock, self._notifier.notify)

    @property
    def commits(self) -> int:
        """Number of batches written. With the number of calls it shows how well writes are grouped."""
        return self._writers.commits

    async def admit(self, session: str, record: InboxRecord) -> Admission:
        """Append one inbox record; see `Log.admit`."""
        _check_key(session)
        body = body_of(session, record)
        client_id = client_id_of(record)
        room = self._bounds.inputs_waiting_max if owed(record) else None
        admit = Admit(session, body, client_id, room, refs_of(record), listing_change((record,)))
        admission: Admission = await self._writers.of(session).run(admit)
        return admission

    async def extend(self, session: str, records: Sequence[InboxRecord], *, after: int) -> int:
        """Append inbox records atomically; see `Appends.extend`."""
        _check_key(session)
        bodies = [body_of(session, record) for record in records]
        names = [client_id_of(record) for record in records]
        added, refs = append_bookkeeping(records)
        room, listed = self._bounds.inputs_waiting_max, listing_change(records)
        extend = Extend(session, bodies, names, after, added, room, refs, listed)
        last: int = await self._writers.of(session).run(extend)
        return last

    async def find(self, session: str, client_ids: Sequence[str]) -> dict[str, int]:
        """Return the seqs of records by client id; see `Appends.find`."""
        check_key(session)
        return await self.connections.query(lambda db: reading.client_ids(db, session, client_ids))

    async def append(self, lease: Lease, records: Sequence[LeasedRecord], *, after: int) -> int:
        """Append work records atomically; see `Log.append`."""
        _check_key(lease.session)
        bodies = [body_of(lease.session, record) for record in records]
        append = Append(lease, bodies, after, *append_bookkeeping(records), listing_change(records))
        last: int = await self._writers.of(lease.session).run(append)
        return last

    async def read(self, session: str, *, after: int = 0, limit: int | None = None) -> list[Logged]:
        """Return records above `after`; see `Log.read`."""
        check_key(session)
        return await reading.records(self.connections, session, after, limit)

    def feed(self, session: str, *, after: int = 0) -> Feed:
        """Yield records as any node appends them, also across restarts of the server; see `Log.feed`."""
        self._notifier.watch(session)
        return Feed(self._registry, session, after, self._read_page)

    async def search(self, session: str, query: str, *, limit: int = 10) -> list[Hit]:
        """Search a session; see `SearchIndex.search`. Indexes new records first."""
        check_key(session)
        while (part := await self.connections.query(lambda db: reading.next_slice(db, session))) is not None:
            if not await self._index(session, part) or part.is_last:
                break
        return await self.connections.query(lambda db: reading.find(db, session, query, limit))

    async def candidates(self, sessions: Sequence[SessionInfo], query: str) -> list[str]:
        """Return the sessions that may match; see `SearchIndex.candidates`."""
        return await self.connections.query(lambda db: reading.candidates(db, sessions, query))

    async def _index(self, session: str, part: reading.Slice) -> bool:
        """Index a slice of records, and return whether the index advanced: damaged rows do not advance it."""
        until, found = await asyncio.to_thread(reading.indexed, session, part)
        await self.connections.query(partial(reading.write_slice, arguments=found))
        return until > part.until

    async def acquire(self, session: str, owner: str, *, seconds: float) -> Lease | None:
        """Take the lease of a session; see `Log.acquire`."""
        check_lease_term(session, owner, seconds)
        _check_key(session)
        given = await self.connections.query(
            lambda db: leases.acquire(db, session, owner, self._writers.instance, seconds=seconds, now=self._now())
        )
        if given is None:
            return None
        lease, kept = given
        self._writers.of(session).cache.put(kept)
        return lease

    async def holders(self) -> list[tuple[str, bool, int]]:
        """Return the lease holders of all nodes: owner, whether one of its leases is valid, and number of sessions."""
        return await self.connections.query(lambda db: leases.holders(db, now=self._now()))

    async def renew(self, lease: Lease, *, seconds: float) -> Lease:
        """Extend a lease; see `Log.renew`."""
        check_lease_term(lease.session, lease.owner, seconds)
        return await self.connections.query(lambda db: leases.renew(db, lease, seconds=seconds, now=self._now()))

    async def release(self, lease: Lease) -> None:
        """Release a lease; see `Log.release`."""
        check_key(lease.session)
        kept = await self.connections.query(lambda db: leases.release(db, lease))
        if kept is not None:
            self._writers.of(lease.session).cache.put(kept)

    async def save_snapshot(self, lease: Lease, snapshot: Snapshot) -> None:
        """Replace the snapshot; see `Snapshots.save_snapshot`."""
        check_key(lease.session)
        await self.connections.query(lambda db: leases.save_snapshot(db, lease, snapshot))

    async def load_snapshot(self, session: str) -> Snapshot | None:
        """Return the newest snapshot, or None if it is damaged: the log can be folded again."""
        check_key(session)
        return await self.connections.query(lambda db: leases.load_snapshot(db, session))

    async def live_rows(self, session: str, *, after: int = 0, limit: int) -> list[Kept]:
        """Return live rows exactly as stored; see `Maintenance.live_rows`."""
        check_key(session)
        return await self.connections.query(lambda db: reading.live_rows(db, session, after, limit))

    async def seal(self, lease: Lease, segment: Segment, *, after: int) -> int:
        """Remove sealed rows; see `Maintenance.seal`. Indexes new records first."""
        session = lease.session
        check_key(session)
        body = body_of(session, seal_record(lease, segment))
        while (reread := await self.connections.query(lambda db: reading.next_read(db, session))) <= segment.last:
            part = await self.connections.query(lambda db: reading.next_slice(db, session))
            if part is None or not await self._index(session, part):
                raise open_call_error(segment, reread)

        async def work(db: "Connection", row: SessionRow, now: float) -> int:
            row.check_after(after)
            return await session_admin.seal(db, row, segment, body, now)

        return await self._change(lease, work)

    async def segments(self, session: str) -> list[Segment]:
        """Return the sealed segments, in order."""
        check_key(session)
        return await self.connections.query(lambda db: reading.segments(db, session))

    async def blob_refs(self, session: str) -> list[BlobRef]:
        """Return the blobs that a session references; see `BlobRefs.blob_refs`."""
        check_key(session)
        return await self.connections.query(lambda db: session_admin.blob_refs(db, session))

    async def unshared_blobs(self, sessions: Collection[str]) -> list[BlobRef]:
        """Return the blobs that only these sessions reference; see `BlobRefs.unshared_blobs`."""
        return await self.connections.query(lambda db: session_admin.unshared_blobs(db, sessions))

    async def unscanned_sessions(self) -> list[str]:
        """Return the sessions with incomplete references; see `BlobRefs.unscanned_sessions`."""
        return await self.connections.query(session_admin.unscanned_sessions)

    async def add_blob_refs(self, session: str, refs: Collection[BlobRef]) -> None:
        """Add blob references; see `BlobRefs.add_blob_refs`."""
        check_key(session)
        await self.connections.query(lambda db: session_admin.add_blob_refs(db, session, refs))

    async def info(self, session: str) -> SessionInfo | None:
        """Return the summary of a session, or None."""
        check_key(session)
        return await self.connections.query(lambda db: reading.info(db, session))

    async def sessions(self, *, after: str = "", limit: int = 100) -> list[SessionInfo]:
        """Return sessions in order of their keys."""
        return await self.connections.query(lambda db: reading.sessions(db, after, limit))

    async def list_sessions(
        self, wanted: SessionFilter, *, order: SessionOrder, after: str = "", limit: int = 100
    ) -> SessionPage:
        """Return a page of sessions with their labels; see `Directory.list_sessions`."""
        return await self.connections.query(lambda db: directory.list_sessions(db, wanted, order, after, limit))

    async def pending(self) -> list[str]:
        """Return the keys of all sessions with pending work, in order."""
        return await self.connections.query(reading.pending)

    async def check_rows(self, session: str, *, after: int | None = None, limit: int = 1_000) -> RowCheck:
        """Check the rows of a log; see `Maintenance.check_rows`."""
        check_key(session)
        return await self.connections.query(lambda db: reading.check_rows(db, session, after, limit))

    async def repair(
        self, lease: Lease, repairs: Sequence[LogRepair], records: Sequence[WorkRecord] = (), *, after: int
    ) -> int:
        """Repair a log and report it there; see `Maintenance.repair`."""
        check_key(lease.session)
        bodies = [body_of(lease.session, record) for record in records]

        async def work(db: "Connection", row: SessionRow, now: float) -> int:
            row.check_after(after)
            await session_admin.insert_refs(db, row.number, refs_in(records))
            return await session_admin.apply_repairs(db, row, repairs, bodies, now)

        return await self._change(lease, work)

    async def quarantine(self, session: str, *, after: str = "", limit: int = 100) -> list[Quarantined]:
        """Return quarantined rows; see `Maintenance.quarantine`."""
        check_key(session)
        return await self.connections.query(lambda db: session_admin.quarantine(db, session, after, limit))

    async def adopt(self, lease: Lease, records: Sequence[Logged]) -> int:
        """Append records of another log; see `SessionAdmin.adopt`."""
        _check_key(lease.session)
        bodies = [body_of(lease.session, logged.record) for logged in records]

        async def work(db: "Connection", row: SessionRow, _now: float) -> int:
            return await session_admin.adopt(db, row, records, bodies)

        return await self._change(lease, work)

    async def rename(self, lease: Lease, key: str, *, after: int | None = None) -> Lease:
        """Rename a session; see `SessionAdmin.rename`."""
        check_key(lease.session)
        _check_key(key)

        async def work(db: "Connection", row: SessionRow, _now: float) -> int:
            row.check_after(after)
            return await session_admin.rename(db, row, key)

        await self._change(lease, work)
        for moved in (lease.session, key):
            self._writers.of(moved).cache.forget([moved])
        self._notifier.notify({key: ()})
        return msgspec.structs.replace(lease, session=key)

    async def delete(self, lease: Lease) -> None:
        """Delete a session, some thousand rows per transaction; see `SessionAdmin.delete`."""
        check_key(lease.session)

        async def work(db: "Connection", row: SessionRow, _now: float) -> int:
            return await session_admin.delete_some(db, row)

        while await self._change(lease, work):
            pass
        self._writers.of(lease.session).cache.forget([lease.session])

    async def _change(self, lease: Lease, work: Work) -> int:
        """Change a session under its lease, and wake its feeds."""
        change = Change(lease, work, self._now())
        answer = await change.make(self.connections)
        if change.row is not None:
            self._writers.of(lease.session).cache.put(change.row)
        self._notifier.notify({lease.session: ()})
        return answer

    async def close(self) -> None:
        """Finish running calls, then close every connection; see `Log.close`."""
        if self._registry.is_closed:
            return
        self._registry.close()
        await self._writers.close()
        await self._notifier.close()
        await self.connections.close()

    def _now(self) -> float | None:
        """Return the time of the given clock, or None for the clock of the server."""
        return None if self._clock is None else self._clock.now()

    async def _read_page(self, session: str, after: int, limit: int) -> list[Logged]:
        try:
            return await self.read(session, after=after, limit=limit)
        except (StoreUnreachableError, StoreBusyError):
            # A feed waits without a limit; `Notifier` wakes it when the server is back. Writers get the error.
            return []


def _check_key(session: str) -> None:
    check_key(session)
    if len(session.encode()) > KEY_BYTES_MAX:
        raise BadInputError(
            f"the session key {session[:40]!r}… is longer than the {KEY_BYTES_MAX:,} bytes that PostgreSQL can index"
        )
