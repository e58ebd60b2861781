"""Builders of records and messages for tests, a manual clock, and the fixtures of the contract suites.

Every builder has defaults; a test passes only the values that it compares.
"""

import asyncio
import heapq
from abc import ABC, abstractmethod
from itertools import count

import pytest

from holdfast.core.limits.bounds import Bounds
from holdfast.ports import Lease, Log
from holdfast.types.messages import Reply, StopReason, Text, ToolCall, Usage
from holdfast.types.records import (
    AnyRecord,
    AttemptStarted,
    InputAdmitted,
    Logged,
    NoticePosted,
    Outcome,
    ReplyRecorded,
    TurnEnded,
    TurnStarted,
)


class ManualClock:
    """A clock that only `advance` moves. It wakes due sleepers, the earliest deadline first."""

    # Easy to recognise in a failing test: 2027-01-15 08:00:00 UTC.
    def __init__(self, start: float = 1_800_000_000.0) -> None:
        self._now = start
        self._order = count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._watchers: list[tuple[int, asyncio.Future[None]]] = []

    @property
    def sleepers(self) -> int:
        """Number of sleeping tasks."""
        return sum(not wake.done() for _, _, wake in self._sleepers)

    def now(self) -> float:
        """Return the current time."""
        return self._now

    async def sleep(self, seconds: float) -> None:
        """Sleep until the clock was advanced by this much. Zero or less returns at once."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        wake = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + seconds, next(self._order), wake))
        self._notify_watchers()
        await wake

    def advance(self, seconds: float) -> None:
        """Move time forward and wake due sleepers, the earliest deadline first.

        The sleepers run later in the event loop and see the new time.
        """
        assert seconds >= 0, "time does not run backwards"
        self._now += seconds
        while self._sleepers and self._sleepers[0][0] <= self._now:
            _, _, wake = heapq.heappop(self._sleepers)
            if not wake.done():
                wake.set_result(None)

    async def until_asleep(self, tasks: int = 1) -> None:
        """Wait until at least this many tasks sleep."""
        if self.sleepers >= tasks:
            return
        reached = asyncio.get_running_loop().create_future()
        self._watchers.append((tasks, reached))
        await reached

    def _notify_watchers(self) -> None:
        asleep = self.sleepers
        for tasks, reached in self._watchers:
            if asleep >= tasks and not reached.done():
                reached.set_result(None)
        self._watchers = [(tasks, reached) for tasks, reached in self._watchers if not reached.done()]


MODEL = "test:model"


def an_input(text: str = "hello", *, client_id: str = "") -> InputAdmitted:
    """Return an input."""
    return InputAdmitted(parts=(Text(text),), client_id=client_id)


def a_turn_started(turn: int = 1) -> TurnStarted:
    """Return the start of a turn."""
    return TurnStarted(turn=turn)


def an_attempt_started(turn: int = 1, attempt: int = 1, *, model: str = MODEL) -> AttemptStarted:
    """Return the start of a model call."""
    return AttemptStarted(turn=turn, attempt=attempt, model=model)


def a_message(text: str = "hi there", *calls: ToolCall, usage: Usage | None = None, model: str = MODEL) -> Reply:
    """Return a reply with text, tool calls, or both."""
    parts: tuple[Text | ToolCall, ...] = (Text(text), *calls) if text else calls
    stop_reason = StopReason.TOOL_CALLS if calls else StopReason.END
    return Reply(parts=parts, stop_reason=stop_reason, usage=usage, model=model)


def a_reply(text: str = "hi there", *calls: ToolCall, turn: int = 1, attempt: int = 1) -> ReplyRecorded:
    """Return the record of a reply."""
    return ReplyRecorded(turn=turn, attempt=attempt, reply=a_message(text, *calls))


def a_tool_call(name: str = "look_up", arguments: str = "{}", *, call_id: str = "call-1") -> ToolCall:
    """Return a tool call."""
    return ToolCall(call_id=call_id, name=name, arguments=arguments)


def a_turn_ended(turn: int = 1, outcome: Outcome = Outcome.ANSWERED, *, code: str = "") -> TurnEnded:
    """Return the end of a turn."""
    return TurnEnded(turn=turn, outcome=outcome, code=code)


def a_notice(sentence: str = "Something was cut.", *, code: str = "test") -> NoticePosted:
    """Return a notice to the user."""
    return NoticePosted(turn=1, code=code, sentence=sentence)


# Small enough for a test to fill the queue, large enough for all other tests.
INPUTS_WAITING_MAX = 20

# Session keys that are hard to store.
ODD_KEYS = (
    "telegram:42",
    "'; DROP TABLE sessions; --",
    'a "quoted" key',
    "slashes/../and\\more",
    "%_*?[]",
    " spaces ",
    "line\nbreak",
    "nul\x00inside",
    "nul\x00inside2",
    "nul",
    "Ünïcödé",
    "U\u0308ni",
    "\u200b",
    "会话",
    "😀",
    "\uffff",
    "CASE",
    "case",
    "0",
    "00",
    "k" * 256,
)


class StorePromises(ABC):
    """Fixtures of every contract."""

    @pytest.fixture
    def clock(self) -> ManualClock:
        """The clock that the store must use."""
        return ManualClock()

    @pytest.fixture
    def bounds(self) -> Bounds:
        """The bounds that the store must use."""
        return Bounds(inputs_waiting_max=INPUTS_WAITING_MAX)

    @abstractmethod
    @pytest.fixture
    def store(self) -> Log:
        """The store under test, empty. The fixture closes it."""


def require_ports(store: Log, *ports: type) -> None:
    """Skip a test if the store does not implement these optional ports."""
    missing = [port.__name__ for port in ports if not isinstance(store, port)]
    if missing:
        pytest.skip(f"the store does not implement {', '.join(missing)}")


async def lease_on(store: Log, session: str = "s", owner: str = "worker", *, seconds: float = 30.0) -> Lease:
    """Take a lease that must be free."""
    lease = await store.acquire(session, owner, seconds=seconds)
    assert lease is not None, f"the lease on {session!r} should be free"
    return lease


async def log_of(store: Log, session: str = "s") -> list[AnyRecord]:
    """Return all records of a session, after checking that their seqs start at 1 and have no gap."""
    logged = await store.read(session)
    assert [each.seq for each in logged] == list(range(1, len(logged) + 1))
    return [each.record for each in logged]


async def five_records(store: Log, session: str = "s") -> list[Logged]:
    """Append an input with the client id "c" and four notices, and return them."""
    await store.admit(session, an_input("first", client_id="c"))
    lease = await lease_on(store, session)
    await store.append(lease, [a_notice(f"notice {number}") for number in range(2, 6)], after=1)
    await store.release(lease)
    return await store.read(session)
