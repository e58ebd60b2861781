"""The store on a PostgreSQL server: for several machines. Any node can take any session, one at a time.

A PostgreSQL store belongs to the event loop that first uses it. Opening it does nothing yet: the first question
connects, and brings the database to the newest layout where it is not. While the server is gone, what is asked waits a
few seconds for it and is then refused; feeds wait as long as it takes.
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
from holdfast.ports import Admission, Clock, Hit, Lease, Quarantined, RowCheck, Segment, SessionInfo, Snapshot
from holdfast.stores.feeds import Bells, Feed
from holdfast.stores.postgres import leases, reading, session_admin
from holdfast.stores.postgres import reading as searching
from holdfast.stores.postgres import repair as mending
from holdfast.stores.postgres import session_admin as naming
from holdfast.stores.postgres.batch import Admit, Append
from holdfast.stores.postgres.connections import Address, Connections
from holdfast.stores.postgres.notify import News
from holdfast.stores.postgres.transaction import Change, Work
from holdfast.stores.postgres.writer import Writers
from holdfast.stores.rows import SessionRow, body_of, check_key, check_lease_term, not_settled, seal_of
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

if TYPE_CHECKING:
    from holdfast.stores.postgres.connections import Connection

# What an index of PostgreSQL takes, with some room: a third of its page of 8 KiB, see "B-Tree Indexes" in its manual.
KEY_BYTES_MAX = 2_600


class PostgresStore:
    """Logs of sessions in the schema `holdfast` of a PostgreSQL database.

    A lease is held in the name of the owner that the caller gives *and* of this store object, and ends by the server's
    clock. Whoever gives a `clock`, as tests do, has everything timed by that one instead.
    """

    def __init__(self, url: str, *, clock: Clock | None = None, bounds: Bounds | None = None) -> None:
        self._clock, self._bounds = clock, bounds or Bounds()
        self.connections = Connections(Address(url))
        self._bells = Bells()
        self._news = News(self.connections, self._bells)
        self._bells.on_first_wait = self._news.stir
        self._writers = Writers(self.connections, clock, self._news.tell)

    @property
    def commits(self) -> int:
        """How many batches this store has written: with the number of calls it tells how well they group."""
        return self._writers.commits

    async def admit(self, session: str, record: InboxRecord) -> Admission:
        """Append one inbox record; see `Store.admit`."""
        _check_key(session)
        body = body_of(session, record)
        client_id = record.client_id if isinstance(record, InputAdmitted) else ""
        room = self._bounds.inputs_waiting_max if owed(record) else None
        admit = Admit(session, body, client_id, room, refs_of(record))
        admission: Admission = await self._writers.of(session).run(admit)
        return admission

    async def append(self, lease: Lease, records: Sequence[LeasedRecord], *, after: int) -> int:
        """Append work records, all or none; see `Store.append`."""
        _check_key(lease.session)
        bodies = [body_of(lease.session, record) for record in records]
        append = Append(lease, bodies, after, *kept_beside(records))
        last: int = await self._writers.of(lease.session).run(append)
        return last

    async def read(self, session: str, *, after: int = 0, limit: int | None = None) -> list[Logged]:
        """Return records behind `after`; see `Store.read`."""
        check_key(session)
        return await reading.records(self.connections, session, after, limit)

    def feed(self, session: str, *, after: int = 0) -> Feed:
        """Yield records as they come, from whichever node, also across restarts of the server; see `Store.feed`."""
        self._news.watch(session)
        return Feed(self._bells, session, after, self._read_page)

    async def search(self, session: str, query: str, *, limit: int = 10) -> list[Hit]:
        """Return what answers a question best; see `Store.search`. What is not indexed yet is indexed first."""
        check_key(session)
        while (part := await self.connections.ask(lambda db: searching.next_slice(db, session))) is not None:
            if not await self._index(session, part) or part.is_last:
                break
        return await self.connections.ask(lambda db: searching.find(db, session, query, limit))

    async def candidates(self, sessions: Sequence[SessionInfo], query: str) -> list[str]:
        """Return where a search may find something; see `Store.mentioning`."""
        return await self.connections.ask(lambda db: searching.candidates(db, sessions, query))

    async def _index(self, session: str, part: searching.Slice) -> bool:
        """Index some records, and return whether that led any further: rows that cannot be believed do not."""
        until, found = await asyncio.to_thread(searching.indexed, session, part)
        await self.connections.ask(partial(searching.write_slice, arguments=found))
        return until > part.until

    async def acquire(self, session: str, owner: str, *, seconds: float) -> Lease | None:
        """Take the right to work on a session; see `Store.acquire`."""
        check_lease_term(session, owner, seconds)
        _check_key(session)
        given = await self.connections.ask(
            lambda db: leases.acquire(db, session, owner, self._writers.instance, seconds=seconds, now=self._now())
        )
        if given is None:
            return None
        lease, kept = given
        self._writers.of(session).cache.put(kept)
        return lease

    async def holders(self) -> list[tuple[str, bool, int]]:
        """Return who holds leases on any node: the owner, whether a lease of its runs, and how many sessions."""
        return await self.connections.ask(lambda db: leases.holders(db, now=self._now()))

    async def renew(self, lease: Lease, *, seconds: float) -> Lease:
        """Prolong a lease; see `Store.renew`."""
        check_lease_term(lease.session, lease.owner, seconds)
        return await self.connections.ask(lambda db: leases.renew(db, lease, seconds=seconds, now=self._now()))

    async def release(self, lease: Lease) -> None:
        """Give a lease back; see `Store.release`."""
        check_key(lease.session)
        kept = await self.connections.ask(lambda db: leases.release(db, lease))
        if kept is not None:
            self._writers.of(lease.session).cache.put(kept)

    async def save_snapshot(self, lease: Lease, snapshot: Snapshot) -> None:
        """Keep a fold in place of the one before; see `Store.save_snapshot`."""
        check_key(lease.session)
        await self.connections.ask(lambda db: leases.save_snapshot(db, lease, snapshot))

    async def load_snapshot(self, session: str) -> Snapshot | None:
        """Return the newest snapshot. One that was damaged is as good as none: the log can be folded again."""
        check_key(session)
        return await self.connections.ask(lambda db: leases.load_snapshot(db, session))

    async def live_rows(self, session: str, *, after: int = 0, limit: int) -> list[Kept]:
        """Return live records exactly as they are kept; see `Store.kept`."""
        check_key(session)
        return await self.connections.ask(lambda db: reading.live_rows(db, session, after, limit))

    async def seal(self, lease: Lease, segment: Segment, *, after: int) -> int:
        """Take records out of the live ones; see `Store.seal`. What is not indexed yet is indexed first."""
        session = lease.session
        check_key(session)
        body = body_of(session, seal_of(lease, segment))
        while (reread := await self.connections.ask(lambda db: searching.next_read(db, session))) <= segment.last:
            part = await self.connections.ask(lambda db: searching.next_slice(db, session))
            if part is None or not await self._index(session, part):
                raise not_settled(segment, reread)

        async def work(db: "Connection", row: SessionRow, now: float) -> int:
            row.check_after(after)
            return await mending.seal(db, row, segment, body, now)

        return await self._change(lease, work)

    async def segments(self, session: str) -> list[Segment]:
        """Return what was sealed, in order."""
        check_key(session)
        return await self.connections.ask(lambda db: reading.segments(db, session))

    async def blob_refs(self, session: str) -> list[BlobRef]:
        """Return the blobs that a session names; see `Store.blob_refs`."""
        check_key(session)
        return await self.connections.ask(lambda db: naming.blob_refs(db, session))

    async def unshared_blobs(self, sessions: Collection[str]) -> list[BlobRef]:
        """Return the blobs that these sessions alone name; see `Store.unshared_blobs`."""
        return await self.connections.ask(lambda db: naming.unshared_blobs(db, sessions))

    async def unscanned_sessions(self) -> list[str]:
        """Return the sessions whose blobs are not known; see `Store.unscanned_sessions`."""
        return await self.connections.ask(naming.unscanned_sessions)

    async def add_blob_refs(self, session: str, refs: Collection[BlobRef]) -> None:
        """Note which blobs a session names; see `Store.add_blob_refs`."""
        check_key(session)
        await self.connections.ask(lambda db: naming.add_blob_refs(db, session, refs))

    async def info(self, session: str) -> SessionInfo | None:
        """Return what is known of one session."""
        check_key(session)
        return await self.connections.ask(lambda db: reading.info(db, session))

    async def sessions(self, *, after: str = "", limit: int = 100) -> list[SessionInfo]:
        """Return sessions in order of their keys."""
        return await self.connections.ask(lambda db: reading.sessions(db, after, limit))

    async def pending(self) -> list[str]:
        """Return the keys of all sessions that owe an outcome, in order."""
        return await self.connections.ask(reading.pending)

    async def check_rows(self, session: str, *, after: int | None = None, limit: int = 1_000) -> RowCheck:
        """Look at the rows of a log; see `Store.examine`."""
        check_key(session)
        return await self.connections.ask(lambda db: reading.check_rows(db, session, after, limit))

    async def repair(
        self, lease: Lease, repairs: Sequence[LogRepair], records: Sequence[WorkRecord] = (), *, after: int
    ) -> int:
        """Repair a log and say so in it; see `Store.mend`."""
        check_key(lease.session)
        bodies = [body_of(lease.session, record) for record in records]

        async def work(db: "Connection", row: SessionRow, now: float) -> int:
            row.check_after(after)
            await naming.insert_names(db, row.number, refs_in(records))
            return await mending.apply_repairs(db, row, repairs, bodies, now)

        return await self._change(lease, work)

    async def quarantine(self, session: str, *, after: str = "", limit: int = 100) -> list[Quarantined]:
        """Return what was set aside of a session; see `Store.quarantine`."""
        check_key(session)
        return await self.connections.ask(lambda db: mending.quarantine(db, session, after, limit))

    async def adopt(self, lease: Lease, records: Sequence[Logged]) -> int:
        """Append records of another log; see `Store.adopt`."""
        _check_key(lease.session)
        bodies = [body_of(lease.session, logged.record) for logged in records]

        async def work(db: "Connection", row: SessionRow, _now: float) -> int:
            return await session_admin.adopt(db, row, records, bodies)

        return await self._change(lease, work)

    async def rename(self, lease: Lease, key: str, *, after: int | None = None) -> Lease:
        """Give a session another key; see `Store.rename`."""
        check_key(lease.session)
        _check_key(key)

        async def work(db: "Connection", row: SessionRow, _now: float) -> int:
            row.check_after(after)
            return await session_admin.rename(db, row, key)

        await self._change(lease, work)
        for moved in (lease.session, key):
            self._writers.of(moved).cache.forget([moved])
        self._news.tell({key: ()})
        return msgspec.structs.replace(lease, session=key)

    async def delete(self, lease: Lease) -> None:
        """Remove a session, some thousand rows at a time; see `Store.delete`."""
        check_key(lease.session)

        async def work(db: "Connection", row: SessionRow, _now: float) -> int:
            return await session_admin.delete_some(db, row)

        while await self._change(lease, work):
            pass
        self._writers.of(lease.session).cache.forget([lease.session])

    async def _change(self, lease: Lease, work: Work) -> int:
        """Change a session under its lease, and tell those who follow it."""
        change = Change(lease, work, self._now())
        answer = await change.make(self.connections)
        if change.row is not None:
            self._writers.of(lease.session).cache.put(change.row)
        self._news.tell({lease.session: ()})
        return answer

    async def close(self) -> None:
        """Finish what was asked for, then let go of every connection; see `Store.close`."""
        if self._bells.is_closed:
            return
        self._bells.close()
        await self._writers.close()
        await self._news.close()
        await self.connections.close()

    def _now(self) -> float | None:
        """The time by the clock that was given; None for the server's own."""
        return None if self._clock is None else self._clock.now()

    async def _read_page(self, session: str, after: int, limit: int) -> list[Logged]:
        try:
            return await self.read(session, after=after, limit=limit)
        except (StoreUnreachableError, StoreBusyError):
            # A feed waits as long as it takes, and is woken when the server is back: see `News`. Whoever writes is told
            # what is wrong.
            return []


def _check_key(session: str) -> None:
    check_key(session)
    if len(session.encode()) > KEY_BYTES_MAX:
        raise BadInputError(
            f"the session key {session[:40]!r}… has more than the {KEY_BYTES_MAX:,} bytes that PostgreSQL can index"
        )
