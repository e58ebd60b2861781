"""Commits and reads of a turn: records that share a commit, logs that stay open, sessions that learn side by side."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

import pytest

from holdfast.core.fold.session_state import Asked, Turn
from holdfast.core.limits.claims import Call
from holdfast.core.limits.fit import Sizes
from holdfast.ports import Lease, SessionInfo
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.engine import log as logs
from holdfast.runtime.engine.learning import LEARNED_KEY, Learning
from holdfast.runtime.engine.log import Log, OpenLogs
from holdfast.runtime.engine.runner import open_runner
from holdfast.stores.memory import MemoryStore
from holdfast.testing.builders import a_tool_call, an_input, lease_on
from holdfast.testing.engines import ScriptedModel, a_hold, an_engine, says
from holdfast.types.faults import Phase, Refusal
from holdfast.types.records import LeasedRecord, Logged


class WatchedStore(MemoryStore):
    """A store that remembers its appends and the records that it read, and can hold up a read of what was learned."""

    def __init__(self) -> None:
        super().__init__(clock=SystemClock())
        self.appends: list[list[str]] = []
        self.records_read = 0
        self.is_held_up = False
        self.reached = asyncio.Event()

    async def append(self, lease: Lease, records: Sequence[LeasedRecord], *, after: int) -> int:
        last = await super().append(lease, records, after=after)
        self.appends.append([type(record).__name__ for record in records])
        return last

    async def read(self, session: str, *, after: int = 0, limit: int | None = None) -> list[Logged]:
        if self.is_held_up and session == LEARNED_KEY and self.appends:
            self.reached.set()
            await asyncio.Event().wait()
        found = await super().read(session, after=after, limit=limit)
        self.records_read += len(found) if session != LEARNED_KEY else 0
        return found


@pytest.fixture
def store() -> WatchedStore:
    return WatchedStore()


def look() -> str:
    """Look."""
    return "seen"


async def test_records_without_an_effect_between_them_are_one_append(store: WatchedStore) -> None:
    model = ScriptedModel([says("wait", a_tool_call("look")), "done"])
    async with a_hold(an_engine(model, store=store, tools=[look])) as hold:
        await (await hold.session("s")).send("hello")

    assert store.appends == [
        ["TurnStarted", "AttemptStarted"],
        ["ReplyRecorded", "ToolStarted"],
        ["ToolSettled"],
        ["AttemptStarted"],
        ["ReplyRecorded", "TurnEnded"],
    ]


async def test_an_answer_that_waits_for_the_end_of_its_turn_is_written_when_the_runner_is_cancelled(
    store: WatchedStore,
) -> None:
    await store.admit("s", an_input("hello"))
    runner = await open_runner(
        await lease_on(store), an_engine(ScriptedModel(["an answer that cost something"]), store=store)
    )
    # The calls before the attempt are over then: the next read comes with the answer.
    store.is_held_up = True
    running = asyncio.create_task(runner.run())
    await store.reached.wait()
    assert [type(one.record).__name__ for one in await store.read("s")][-1] == "AttemptStarted"

    running.cancel()
    with suppress(asyncio.CancelledError):
        await running

    kinds = [type(one.record).__name__ for one in await store.read("s")]
    assert kinds == ["InputAdmitted", "TurnStarted", "AttemptStarted", "ReplyRecorded"]


async def test_the_next_turn_reads_only_the_records_since_the_last(store: WatchedStore) -> None:
    async with a_hold(an_engine(ScriptedModel(["fine"]), store=store)) as hold:
        chat = await hold.session("s")
        counts = []
        for _ in range(20):
            store.records_read = 0
            await chat.send("hello")
            counts.append(store.records_read)

    assert max(counts[10:]) <= max(counts[1:10]), "it does not grow with the session"


@pytest.mark.parametrize(
    ("fence", "created_at", "is_used"), [(4, 1.0, True), (5, 1.0, False), (3, 1.0, False), (4, 2.0, False)]
)
def test_a_log_is_used_again_under_the_very_next_lease_of_the_same_session(
    fence: int, created_at: float, *, is_used: bool
) -> None:
    opened, log = OpenLogs(), Log("s", Turn())
    opened.keep(_lease(3), SessionInfo("s", 1, 0, 1.0, 1.0), log)

    found = opened.take(_lease(fence), SessionInfo("s", 1, 0, created_at, 1.0))

    assert found is (log if is_used else None)
    assert opened.take(_lease(fence + 1), SessionInfo("s", 1, 0, 1.0, 1.0)) is None, "it is taken once"


def test_the_logs_that_stay_open_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "OPEN_LOGS_MAX", 2)
    monkeypatch.setattr(logs, "OPEN_LOGS_TOKENS_MAX", 100)
    opened = OpenLogs()
    for session, tokens in (("a", 1), ("b", 1), ("c", 1), ("d", 100)):
        turn = Turn(answered=Asked("m", tokens))
        opened.keep(_lease(1, session), SessionInfo(session, 1, 0, 1.0, 1.0), Log(session, turn))

    kept = [opened.take(_lease(2, name), SessionInfo(name, 1, 0, 1.0, 1.0)) is not None for name in "abcd"]
    assert kept == [False, False, False, True]


async def test_a_session_that_learns_nothing_new_waits_for_no_other(store: WatchedStore) -> None:
    learning, model = Learning(store), ScriptedModel(["fine"])
    unsent = Refusal("", Phase.ESTIMATE, cause="not sent")

    async with learning._changing, asyncio.timeout(60):
        is_window = await learning.observe(model, unsent, None, Call(Sizes(1, 1, 0, 0, 0)))

    assert not is_window


def _lease(fence: int, session: str = "s") -> Lease:
    return Lease(session=session, owner="worker", fence=fence, expires_at=1e9)
