"""A store that implements `holdfast.ports.Log` and nothing else, as an outsider may write it.

A `Disk` outlives the store, so that a test can close one store and open another on the same records.
"""

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

from holdfast.core.limits.bounds import Bounds
from holdfast.errors import (
    BadInputError,
    ClientIdReusedError,
    LeaseLostError,
    QueueFullError,
    SeqMovedError,
    StoppingError,
)
from holdfast.ports import Admission, Clock, Lease, SessionInfo
from holdfast.types.records import (
    AnyRecord,
    InboxRecord,
    InputAdmitted,
    LeasedRecord,
    Logged,
    decode_record,
    encode_record,
    owed,
)


@dataclass
class Entry:
    """One session: its encoded records with their times, and its lease."""

    rows: list[tuple[float, bytes]] = field(default_factory=list)
    client_ids: dict[str, int] = field(default_factory=dict)
    owed: int = 0
    fence: int = 0
    owner: str = ""
    lease_until: float = 0.0


Disk = dict[str, Entry]


class MinimalStore:
    """Logs and leases in memory."""

    def __init__(self, disk: Disk, *, clock: Clock, bounds: Bounds) -> None:
        self._disk, self._clock, self._bounds = disk, clock, bounds
        self._is_closed = False
        self.changed = asyncio.Event()

    async def admit(self, session: str, record: InboxRecord) -> Admission:
        entry, body = self._entry(session), _encoded(record)
        client_id = record.client_id if isinstance(record, InputAdmitted) else ""
        if client_id in entry.client_ids:
            seq = entry.client_ids[client_id]
            if entry.rows[seq - 1][1] != body:
                raise ClientIdReusedError(session, client_id, seq)
            return Admission(seq, is_new=False)
        if owed(record) and entry.owed >= self._bounds.inputs_waiting_max:
            raise QueueFullError(session, entry.owed)
        seq = self._extend(entry, [record], [body])
        if client_id:
            entry.client_ids[client_id] = seq
        return Admission(seq, is_new=True)

    async def append(self, lease: Lease, records: Sequence[LeasedRecord], *, after: int) -> int:
        entry, bodies = self._leased(lease), [_encoded(record) for record in records]
        if after != len(entry.rows):
            raise SeqMovedError(lease.session, after, len(entry.rows))
        return self._extend(entry, records, bodies)

    async def read(self, session: str, *, after: int = 0, limit: int | None = None) -> list[Logged]:
        rows, first = self._entry(session).rows, max(after, 0)
        page = rows[first : None if limit is None else first + limit]
        return [Logged(seq, at, decode_record(body)) for seq, (at, body) in enumerate(page, start=first + 1)]

    def feed(self, session: str, *, after: int = 0) -> "MinimalFeed":
        return MinimalFeed(self, session, after)

    async def acquire(self, session: str, owner: str, *, seconds: float) -> Lease | None:
        if not owner or not owner.isprintable() or not 0 < seconds < math.inf:
            raise BadInputError("a lease needs a printable owner and a positive time")
        entry, now = self._entry(session), self._clock.now()
        if entry.owner not in {"", owner} and now < entry.lease_until:
            return None
        entry.owner, entry.fence, entry.lease_until = owner, entry.fence + 1, now + seconds
        return Lease(session, owner, entry.fence, now + seconds)

    async def renew(self, lease: Lease, *, seconds: float) -> Lease:
        entry = self._leased(lease)
        entry.lease_until = self._clock.now() + seconds
        return Lease(lease.session, lease.owner, lease.fence, entry.lease_until)

    async def release(self, lease: Lease) -> None:
        entry = self._entry(lease.session)
        if entry.fence == lease.fence:
            entry.owner = ""

    async def info(self, session: str) -> SessionInfo | None:
        entry = self._entry(session)
        if not entry.rows:
            return None
        return SessionInfo(session, len(entry.rows), entry.owed, entry.rows[0][0], entry.rows[-1][0])

    async def sessions(self, *, after: str = "", limit: int = 100) -> list[SessionInfo]:
        found = [await self.info(key) for key in sorted(self._disk) if key > after]
        return [known for known in found if known is not None][:limit]

    async def pending(self) -> list[str]:
        return sorted(key for key, entry in self._disk.items() if entry.owed > 0)

    async def close(self) -> None:
        self._is_closed = True
        self.wake_feeds()

    def _entry(self, key: str) -> Entry:
        if self._is_closed:
            raise StoppingError("the store was closed")
        if not key or key != key.encode(errors="replace").decode():
            raise BadInputError(f"{key!r} is not a session key")
        return self._disk.setdefault(key, Entry())

    def _leased(self, lease: Lease) -> Entry:
        entry = self._entry(lease.session)
        if not entry.owner or entry.fence != lease.fence:
            raise LeaseLostError(lease.session, lease.fence)
        return entry

    def _extend(self, entry: Entry, records: Sequence[AnyRecord], bodies: Sequence[bytes]) -> int:
        entry.rows += [(self._clock.now(), body) for body in bodies]
        entry.owed += sum(map(owed, records))
        self.wake_feeds()
        return len(entry.rows)

    def wake_feeds(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()


class MinimalFeed:
    """Records of a session as they are appended."""

    def __init__(self, store: MinimalStore, session: str, after: int) -> None:
        self._store, self._session, self._after = store, session, after
        self._is_closed = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Logged:
        while not self._is_closed:
            changed = self._store.changed
            try:
                page = await self._store.read(self._session, after=self._after, limit=1)
            except StoppingError:
                break
            if page:
                self._after = page[0].seq
                return page[0]
            await changed.wait()
        raise StopAsyncIteration

    async def aclose(self) -> None:
        self._is_closed = True
        self._store.wake_feeds()


def _encoded(record: AnyRecord) -> bytes:
    try:
        return encode_record(record)
    except UnicodeEncodeError as error:
        raise BadInputError("the text of a record is not well-formed Unicode") from error
