"""Crash injection: a store that kills its process right before or right after a chosen write.

Both sides are needed. Crashes only after a write would miss code that acts first and records its intent later; crashes
only before it would miss code that ignores its own earlier writes.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import NoReturn

import msgspec

from holdfast.core.fold.session_state import InFlight, Turn
from holdfast.core.integrity.reconcile import LogRepair
from holdfast.core.integrity.segments import Kept
from holdfast.core.turn.transitions import evolve
from holdfast.ports import (
    Admission,
    Archive,
    Feed,
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
    Store,
)
from holdfast.types.messages import BlobRef, ToolCall
from holdfast.types.records import (
    InboxRecord,
    InputAdmitted,
    LeasedRecord,
    Logged,
    ReplyRecorded,
    ToolInterrupted,
    ToolSettled,
    ToolStarted,
    TurnEnded,
    WorkRecord,
)


class Side(StrEnum):
    """The side of the write: `BEFORE` loses it."""

    BEFORE = "before"
    AFTER = "after"


class CrashPoint(msgspec.Struct, frozen=True):
    """A crash point: the n-th write of the process, counted from 1."""

    write: int
    side: Side

    def __str__(self) -> str:
        return f"{self.side} write {self.write}"


def every_point(writes: int) -> Iterator[CrashPoint]:
    """Yield both sides of every write."""
    for write in range(1, writes + 1):
        yield CrashPoint(write, Side.BEFORE)
        yield CrashPoint(write, Side.AFTER)


class Died(BaseException):
    """The process is dead. Every later call raises this again."""


def die_in_process() -> NoReturn:
    """Simulate a crash within the process by an exception that no code of ours catches."""
    raise Died


class CrashingStore:
    """A store that counts its writes and dies at one of them. A dead store does nothing."""

    def __init__(
        self, store: Store, point: CrashPoint | None = None, *, die: Callable[[], NoReturn] = die_in_process
    ) -> None:
        self._store = store
        self._point = point
        self._die = die
        self.writes = 0
        self.died = asyncio.Event()

    def before_write(self) -> int:
        """Count a write and return its number: writes may overlap."""
        self.check_alive()
        self.writes += 1
        self.maybe_die(self.writes, Side.BEFORE)
        return self.writes

    def maybe_die(self, write: int, side: Side) -> None:
        """Die if this is the crash point."""
        if self._point == CrashPoint(write, side):
            self.died.set()
            self._die()

    def check_alive(self) -> None:
        """Die again if the store is dead."""
        if self.died.is_set():
            self._die()

    async def admit(self, session: str, record: InboxRecord) -> Admission:
        """A write."""
        write = self.before_write()
        admission = await self._store.admit(session, record)
        self.maybe_die(write, Side.AFTER)
        return admission

    async def extend(self, session: str, records: Sequence[InboxRecord], *, after: int) -> int:
        """A write."""
        write = self.before_write()
        last = await self._store.extend(session, records, after=after)
        self.maybe_die(write, Side.AFTER)
        return last

    async def find(self, session: str, client_ids: Sequence[str]) -> dict[str, int]:
        """Not a write."""
        self.check_alive()
        return await self._store.find(session, client_ids)

    async def append(self, lease: Lease, records: Sequence[LeasedRecord], *, after: int) -> int:
        """A write."""
        write = self.before_write()
        seq = await self._store.append(lease, records, after=after)
        self.maybe_die(write, Side.AFTER)
        return seq

    async def acquire(self, session: str, owner: str, *, seconds: float) -> Lease | None:
        """A write."""
        write = self.before_write()
        lease = await self._store.acquire(session, owner, seconds=seconds)
        self.maybe_die(write, Side.AFTER)
        return lease

    async def renew(self, lease: Lease, *, seconds: float) -> Lease:
        """A write."""
        write = self.before_write()
        renewed = await self._store.renew(lease, seconds=seconds)
        self.maybe_die(write, Side.AFTER)
        return renewed

    async def release(self, lease: Lease) -> None:
        """A write."""
        write = self.before_write()
        await self._store.release(lease)
        self.maybe_die(write, Side.AFTER)

    async def save_snapshot(self, lease: Lease, snapshot: Snapshot) -> None:
        """A write."""
        write = self.before_write()
        await self._store.save_snapshot(lease, snapshot)
        self.maybe_die(write, Side.AFTER)

    async def seal(self, lease: Lease, segment: Segment, *, after: int) -> int:
        """A write."""
        write = self.before_write()
        seq = await self._store.seal(lease, segment, after=after)
        self.maybe_die(write, Side.AFTER)
        return seq

    async def live_rows(self, session: str, *, after: int = 0, limit: int) -> list[Kept]:
        """Not a write."""
        self.check_alive()
        return await self._store.live_rows(session, after=after, limit=limit)

    async def segments(self, session: str) -> list[Segment]:
        """Not a write."""
        self.check_alive()
        return await self._store.segments(session)

    async def repair(
        self, lease: Lease, repairs: Sequence[LogRepair], records: Sequence[WorkRecord] = (), *, after: int
    ) -> int:
        """A write."""
        write = self.before_write()
        seq = await self._store.repair(lease, repairs, records, after=after)
        self.maybe_die(write, Side.AFTER)
        return seq

    async def adopt(self, lease: Lease, records: Sequence[Logged]) -> int:
        """A write."""
        write = self.before_write()
        seq = await self._store.adopt(lease, records)
        self.maybe_die(write, Side.AFTER)
        return seq

    async def rename(self, lease: Lease, key: str, *, after: int | None = None) -> Lease:
        """A write."""
        write = self.before_write()
        renamed = await self._store.rename(lease, key, after=after)
        self.maybe_die(write, Side.AFTER)
        return renamed

    async def delete(self, lease: Lease) -> None:
        """A write."""
        write = self.before_write()
        await self._store.delete(lease)
        self.maybe_die(write, Side.AFTER)

    async def check_rows(self, session: str, *, after: int | None = None, limit: int = 1_000) -> RowCheck:
        """Not a write."""
        self.check_alive()
        return await self._store.check_rows(session, after=after, limit=limit)

    async def quarantine(self, session: str, *, after: str = "", limit: int = 100) -> list[Quarantined]:
        """Not a write."""
        self.check_alive()
        return await self._store.quarantine(session, after=after, limit=limit)

    async def read(self, session: str, *, after: int = 0, limit: int | None = None) -> list[Logged]:
        """Not a write."""
        self.check_alive()
        return await self._store.read(session, after=after, limit=limit)

    def feed(self, session: str, *, after: int = 0) -> Feed:
        """Not a write."""
        self.check_alive()
        return self._store.feed(session, after=after)

    async def search(self, session: str, query: str, *, limit: int = 10) -> list[Hit]:
        """Not a write: the index can be rebuilt."""
        self.check_alive()
        return await self._store.search(session, query, limit=limit)

    async def candidates(self, sessions: Sequence[SessionInfo], query: str) -> list[str]:
        """Not a write."""
        self.check_alive()
        return await self._store.candidates(sessions, query)

    async def load_snapshot(self, session: str) -> Snapshot | None:
        """Not a write."""
        self.check_alive()
        return await self._store.load_snapshot(session)

    async def add_blob_refs(self, session: str, refs: Collection[BlobRef]) -> None:
        """A write."""
        write = self.before_write()
        await self._store.add_blob_refs(session, refs)
        self.maybe_die(write, Side.AFTER)

    async def blob_refs(self, session: str) -> list[BlobRef]:
        """Not a write."""
        self.check_alive()
        return await self._store.blob_refs(session)

    async def unshared_blobs(self, sessions: Collection[str]) -> list[BlobRef]:
        """Not a write."""
        self.check_alive()
        return await self._store.unshared_blobs(sessions)

    async def unscanned_sessions(self) -> list[str]:
        """Not a write."""
        self.check_alive()
        return await self._store.unscanned_sessions()

    async def info(self, session: str) -> SessionInfo | None:
        """Not a write."""
        self.check_alive()
        return await self._store.info(session)

    async def sessions(self, *, after: str = "", limit: int = 100) -> list[SessionInfo]:
        """Not a write."""
        self.check_alive()
        return await self._store.sessions(after=after, limit=limit)

    async def list_sessions(
        self, wanted: SessionFilter, *, order: SessionOrder, after: str = "", limit: int = 100
    ) -> SessionPage:
        """See `Directory.list_sessions`."""
        self.check_alive()
        return await self._store.list_sessions(wanted, order=order, after=after, limit=limit)

    async def pending(self) -> list[str]:
        """Not a write."""
        self.check_alive()
        return await self._store.pending()

    async def close(self) -> None:
        """Not a write: the store outlives the dead process."""


class CrashingArchive:
    """An archive whose writes count with those of a store, and that dies with it."""

    def __init__(self, archive: Archive, store: CrashingStore) -> None:
        self._archive, self._store = archive, store

    async def put(self, name: str, body: bytes) -> bool:
        """A write."""
        write = self._store.before_write()
        is_new = await self._archive.put(name, body)
        self._store.maybe_die(write, Side.AFTER)
        return is_new

    async def remove(self, name: str) -> None:
        """A write."""
        write = self._store.before_write()
        await self._archive.remove(name)
        self._store.maybe_die(write, Side.AFTER)

    async def get(self, name: str) -> bytes:
        """Not a write, but a step of sealing: the segment is read back and checked."""
        write = self._store.before_write()
        body = await self._archive.get(name)
        self._store.maybe_die(write, Side.AFTER)
        return body

    async def read(self, name: str, *, start: int, length: int) -> bytes:
        """Not a write."""
        self._store.check_alive()
        return await self._archive.read(name, start=start, length=length)

    async def names(self, prefix: str = "") -> list[str]:
        """Not a write."""
        self._store.check_alive()
        return await self._archive.names(prefix)


def check_log(records: Iterable[Logged], *, accepted: Iterable[int]) -> None:
    """Check the invariants of a log after any crashes of its writers.

    Every accepted input is in the log and has exactly one outcome, nothing is in flight, and no call has two results or
    was started twice unless it is idempotent.
    """
    records = list(records)
    turn = Turn()
    inputs: list[int] = []
    ended: list[int] = []
    calls: list[Logged] = []
    for logged in records:
        turn = evolve(turn, logged)
        match logged.record:
            case InputAdmitted():
                inputs.append(logged.seq)
            case TurnEnded(turn=number):
                ended.append(number)
            case ReplyRecorded() | ToolStarted() | ToolSettled() | ToolInterrupted():
                calls.append(logged)
            case _:
                pass
    lost = set(accepted) - set(inputs)
    assert not lost, f"accepted and lost: {sorted(lost)}"
    assert sorted(ended) == sorted(inputs), f"inputs {inputs}, outcomes {ended}"
    assert turn.in_flight is InFlight.REST, f"still in flight: {turn.in_flight}"
    _check_calls(calls)


def _check_calls(records: Iterable[Logged]) -> None:
    """Check that each call was started at most once, unless it is idempotent, and has at most one result."""
    starts: dict[str, int] = {}
    settled: set[str] = set()
    for logged in records:
        match logged.record:
            case ReplyRecorded(reply=reply):
                starts = {part.call_id: 0 for part in reply.parts if isinstance(part, ToolCall)}
                settled = set()
            case ToolStarted(call_id=call_id, is_idempotent=is_idempotent, reply=reply):
                starts[call_id] += 1
                # A client-side call is awaited again; the client identifies it by its id and runs it once.
                assert starts[call_id] == 1 or is_idempotent or reply, f"record {logged.seq}: {call_id} ran twice"
            case ToolSettled(result=result):
                assert result.call_id not in settled, f"record {logged.seq}: {result.call_id} has two results"
                settled.add(result.call_id)
            case _:
                pass
