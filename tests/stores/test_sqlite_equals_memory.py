"""Whatever is asked of them, the SQLite store and the store in memory answer alike."""

import asyncio
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from holdfast.core.limits.bounds import Bounds
from holdfast.errors import HoldfastError
from holdfast.ports import Lease, Snapshot, Store
from holdfast.stores.memory import MemoryStore
from holdfast.stores.sqlite import SqliteStore
from holdfast.stores.sqlite import batch as sqlite_batch
from holdfast.testing.builders import ManualClock, a_notice, a_turn_ended, an_input
from holdfast.types.records import CancelRequested

SESSIONS = st.sampled_from(["a", "b", "ü\x00'"])
OWNERS = st.sampled_from(["one", "two"])


class TwoStores(RuleBasedStateMachine):
    leases = Bundle("leases")

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(prefix="holdfast-test-")
        self.clock, bounds = ManualClock(), Bounds(inputs_waiting_max=3)
        self.loop = asyncio.new_event_loop()
        self.memory = MemoryStore(clock=self.clock, bounds=bounds)
        self.path = Path(self.folder.name) / "s.db"
        self.sqlite = SqliteStore(self.path, clock=self.clock, bounds=bounds)
        # Few enough that logs are read from both tables, and moved every now and then.
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(sqlite_batch, "RECENT_RECORDS_MAX", 4)

    def both(self, ask: Callable[[Store], Coroutine[Any, Any, Any]]) -> Any:
        answers = [self.loop.run_until_complete(answer_of(ask(store))) for store in (self.memory, self.sqlite)]
        assert answers[0] == answers[1]
        return answers[0][1]

    @rule(session=SESSIONS, text=st.sampled_from(["x", "y"]), client_id=st.sampled_from(["", "c1", "c2"]))
    def admit(self, session: str, text: str, client_id: str) -> None:
        self.both(lambda store: store.admit(session, an_input(text, client_id=client_id)))

    @rule(session=SESSIONS, query=st.sampled_from(["x", "y", "x y", ""]), limit=st.sampled_from([1, 10]))
    def search(self, session: str, query: str, limit: int) -> None:
        self.both(lambda store: store.search(session, query, limit=limit))

    @rule(session=SESSIONS)
    def cancel(self, session: str) -> None:
        self.both(lambda store: store.admit(session, CancelRequested(turn=1)))

    @rule(target=leases, session=SESSIONS, owner=OWNERS, seconds=st.sampled_from([1.0, 10.0]))
    def acquire(self, session: str, owner: str, seconds: float) -> Lease | None:
        lease = self.both(lambda store: store.acquire(session, owner, seconds=seconds))
        assert lease is None or isinstance(lease, Lease)
        return lease

    @rule(lease=leases, count=st.integers(0, 3), behind=st.sampled_from([0, 0, 0, 1]))
    def append(self, lease: Lease | None, count: int, behind: int) -> None:
        if lease is None:
            return
        info = self.both(lambda store: store.info(lease.session))
        after = (info.last_seq if info else 0) - behind
        records = [a_notice(str(number)) if number else a_turn_ended() for number in range(count)]
        self.both(lambda store: store.append(lease, records, after=after))

    @rule(lease=leases, seconds=st.sampled_from([1.0, 10.0]))
    def renew(self, lease: Lease | None, seconds: float) -> None:
        if lease is not None:
            self.both(lambda store: store.renew(lease, seconds=seconds))

    @rule(lease=leases)
    def release(self, lease: Lease | None) -> None:
        if lease is not None:
            self.both(lambda store: store.release(lease))

    @rule(lease=leases, seq=st.integers(0, 5))
    def save_snapshot(self, lease: Lease | None, seq: int) -> None:
        if lease is not None:
            self.both(lambda store: store.save_snapshot(lease, Snapshot(seq, bytes([seq]))))

    @rule(seconds=st.sampled_from([0.5, 1.0, 20.0]))
    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule()
    def forget_what_is_cached(self) -> None:
        self.sqlite._writer._connection._cache.forget()

    @rule(session=SESSIONS, after=st.integers(-1, 6), limit=st.none() | st.integers(0, 4))
    def read(self, session: str, after: int, limit: int | None) -> None:
        self.both(lambda store: store.read(session, after=after, limit=limit))

    @invariant()
    def both_know_the_same(self) -> None:
        self.both(everything_in)

    def teardown(self) -> None:
        self.patch.undo()
        self.loop.run_until_complete(self.memory.close())
        self.loop.run_until_complete(self.sqlite.close())
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()
        self.folder.cleanup()


async def everything_in(store: Store) -> list[object]:
    """Return all that a store can tell."""
    sessions = await store.sessions(limit=10)
    logs = [(await store.read(info.key), await store.load_snapshot(info.key)) for info in sessions]
    return [sessions, await store.pending(), logs]


async def answer_of(asked: Coroutine[Any, Any, Any]) -> tuple[str, Any]:
    """Return what came of a call: its value, or the error in words."""
    try:
        return "answer", await asked
    except HoldfastError as error:
        return f"{type(error).__name__}: {error}", None


TwoStores.TestCase.settings = settings(max_examples=15, stateful_step_count=25)
TestTwoStores = TwoStores.TestCase
