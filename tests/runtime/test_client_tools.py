"""Tools that a client runs: the call is a record, the result is a record, and either side may die in between."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager

import pytest

from holdfast.core.limits.bounds import Bounds
from holdfast.errors import BadInputError
from holdfast.ports import Store
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.sessions.client import Client
from holdfast.runtime.sessions.session import Session
from holdfast.runtime.tools.function_tool import tool
from holdfast.stores.memory import MemoryStore
from holdfast.testing.builders import ManualClock
from holdfast.testing.crashes import CrashingStore, CrashPoint, Died, check_log, every_point
from holdfast.testing.engines import FunctionModel, a_hold, an_engine, says
from holdfast.types.messages import Reply, Request, Role, Text, ToolCall, ToolOutcome, ToolResult, ToolSpec, text_of
from holdfast.types.records import InputAdmitted, Logged, ResultSubmitted, ToolInterrupted, ToolSettled, ToolStarted

KEY = "telegram:42"
SOUND = ToolSpec("sound", "Sound the depth.", '{"type":"object"}')
CALL = ToolCall("call-1", "sound", '{"place":"Kiel"}')
# A tool's deadline of its own: shorter than the default, and longer than anything here takes.
BOUNDS = Bounds(client_result_seconds_max=600.0, interruptions_max=50)


def asks_once(request: Request) -> Reply:
    """Call the tool, and say its result when it is there: the same after a restart."""
    newest = request.messages[-1]
    if newest.role is Role.TOOL:
        (result,) = newest.parts
        assert isinstance(result, ToolResult)
        return says(f"{result.outcome}: {text_of(result.parts)}")
    return says("", CALL)


@asynccontextmanager
async def an_open_call(bounds: Bounds = BOUNDS) -> AsyncGenerator[tuple[Client, Session, int, Logged], None]:
    """A session in which the model has called a client's tool."""
    async with a_hold(an_engine(FunctionModel(asks_once), bounds=bounds)) as hold:
        session = await hold.session(KEY, tools=[SOUND])
        turn = await session.post("how deep?")
        yield hold, session, turn, await the_call(session)


async def the_call(session: Session, after: int = 0) -> Logged:
    async with aclosing(session.watch(after=after)) as feed:
        async for logged in feed:
            if isinstance(logged.record, ToolStarted):
                return logged
    raise AssertionError("feeds do not end")


def reply_of(call: Logged) -> int:
    assert isinstance(call.record, ToolStarted)
    return call.record.reply


async def test_the_result_that_a_client_submits_is_the_result_of_the_call() -> None:
    async with an_open_call() as (_, session, turn, call):
        assert call.record == ToolStarted(turn, "call-1", "sound", reply=call.seq - 1)
        assert await session.submit(reply_of(call), "call-1", ["12 fathoms"])

        answer = await session.wait(turn)

        assert answer.text == "done: 12 fathoms"
        assert await session.submit(reply_of(call), "call-1", ["13 fathoms"]) is False


async def test_the_first_of_two_results_counts() -> None:
    async with an_open_call() as (_, session, turn, call):
        submitted = [
            await session.submit(reply_of(call), "call-1", [text], is_failure=True) for text in ("first", "second")
        ]

        assert submitted == [True, False]
        assert (await session.wait(turn)).text == "failed: first"


async def test_the_model_is_told_of_the_clients_tools_beside_ours() -> None:
    @tool
    def look() -> str:
        """Look."""
        return "fog"

    model = FunctionModel(lambda _: says("ok"))
    async with a_hold(an_engine(model, tools=[look])) as hold:
        await (await hold.session(KEY, tools=[SOUND])).send("hi")
        await (await hold.session("another")).send("hi")

    told = [[spec.name for spec in request.tools] for request in model.requests]
    assert told == [["look", "recall", "sound"], ["look", "recall"]]


async def test_a_result_that_never_comes_is_unknown_after_its_deadline() -> None:
    async with an_open_call(Bounds(client_result_seconds_max=0.01)) as (_, session, turn, _call):
        answer = await session.wait(turn)

    assert answer.text.startswith("unknown: Outcome unknown: the client that runs sound did not report within 0.01")


async def test_a_turn_that_waits_for_a_client_can_be_cancelled() -> None:
    async with an_open_call() as (_, session, turn, _call):
        await session.cancel(turn)
        settled = [logged async for logged in _until_settled(session)]

    assert settled[-1].record.result.outcome is ToolOutcome.CANCELLED  # type: ignore[union-attr]


async def _until_settled(session: Session) -> AsyncGenerator[Logged, None]:
    async with aclosing(session.watch()) as feed:
        async for logged in feed:
            yield logged
            if isinstance(logged.record, ToolSettled):
                return


@pytest.mark.parametrize(("reply", "call_id"), [(0, "call-1"), (1, "call-1"), (5, "another"), (99, "call-1")])
async def test_a_result_of_a_call_that_nobody_was_told_to_run_is_refused(reply: int, call_id: str) -> None:
    async with an_open_call() as (_, session, _turn, call):
        before = await session.history()
        assert (reply, call_id) != (reply_of(call), "call-1")
        with pytest.raises(BadInputError, match="is not a call for a client"):
            await session.submit(reply, call_id, ["12"])
        assert await session.history() == before


@pytest.mark.parametrize(
    ("tools", "why"),
    [
        ([SOUND, SOUND], "one of this session's tools has that name"),
        ([ToolSpec("recall", "", "{}")], "one of the server's own tools has that name"),
        ([ToolSpec("so und", "", "{}")], "a name has 1 to 64"),
        ([ToolSpec("sound", "", "{")], "its parameters are not valid JSON"),
        ([ToolSpec("sound", "", "[]")], "must be a JSON Schema of type object"),
        ([ToolSpec("sound", "x" * 300_000, "{}")], "the maximum is 262,144"),
        ([ToolSpec(f"t{number}", "", "{}") for number in range(129)], "129 tools exceed the maximum of 128"),
    ],
)
async def test_tools_that_cannot_be_declared_are_refused_and_nothing_is_stored(tools: list[ToolSpec], why: str) -> None:
    async with a_hold(an_engine(FunctionModel(asks_once))) as hold:
        with pytest.raises(BadInputError, match=why):
            await hold.session(KEY, tools=tools)
        assert await hold.sessions() == []


async def test_a_result_survives_the_process_that_waits_for_it() -> None:
    store = MemoryStore(clock=SystemClock(), bounds=BOUNDS)

    def a_process() -> AbstractAsyncContextManager[Client]:
        return a_hold(an_engine(FunctionModel(asks_once), store=store, bounds=BOUNDS))

    async with a_process() as hold:
        session = await hold.session(KEY, tools=[SOUND])
        turn = await session.post("how deep?")
        call = await the_call(session)
    # Nobody runs while the client reports.
    await store.admit(KEY, ResultSubmitted(turn, reply_of(call), ToolResult("call-1", (Text("12 fathoms"),))))
    async with a_process() as hold:
        answer = await (await hold.session(KEY)).wait(turn)

    records = [logged.record for logged in await store.read(KEY)]
    assert answer.text == "done: 12 fathoms"
    assert [type(one) for one in records if isinstance(one, ToolStarted | ToolInterrupted)] == [
        ToolStarted,
        ToolInterrupted,
        ToolStarted,
    ]


LEASE_SECONDS = 30.0


class World:
    """A store, and processes on it with a client beside each."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = MemoryStore(clock=self.clock, bounds=BOUNDS)

    async def live(self, point: CrashPoint | None) -> int:
        """Be one process until all is done or it is dead; return how often it wrote."""
        store = CrashingStore(self.store, point)
        work = asyncio.create_task(self._work(store))
        dying = asyncio.create_task(store.died.wait())
        await asyncio.wait([work, dying], return_when=asyncio.FIRST_COMPLETED)
        for task in (work, dying):
            task.cancel()
        for task in (work, dying):
            with contextlib.suppress(asyncio.CancelledError, Died, BaseExceptionGroup):
                await task
        # Whoever held the lease is dead.
        self.clock.advance(LEASE_SECONDS + 1)
        return store.writes

    async def _work(self, store: Store) -> None:
        engine = an_engine(FunctionModel(asks_once), store=store, clock=self.clock, bounds=BOUNDS)
        async with a_hold(engine, lease_seconds=LEASE_SECONDS) as hold:
            session = await hold.session(KEY, tools=[SOUND])
            turn = await session.post("how deep?", client_id="m1")
            call = await the_call(session)
            await session.submit(reply_of(call), "call-1", ["12 fathoms"])
            assert (await session.wait(turn)).text == "done: 12 fathoms"


@pytest.fixture
async def _the_dead_are_silent(caplog: pytest.LogCaptureFixture) -> None:
    """A dead process does not log, and nobody collects what its tasks still had to say."""
    caplog.set_level(logging.CRITICAL)
    asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)


@pytest.mark.usefixtures("_the_dead_are_silent")
async def test_a_process_may_die_at_every_write_and_the_call_has_one_result() -> None:
    writes = await World().live(None)
    assert writes > 8, "the scenario must be worth killing"
    for point in every_point(writes):
        world = World()
        await world.live(point)
        await world.live(None)
        records = await world.store.read(KEY)
        check_log(records, accepted=[])
        settled = [one.record.result for one in records if isinstance(one.record, ToolSettled)]
        assert [text_of(result.parts) for result in settled] == ["12 fathoms"], str(point)
        assert sum(isinstance(one.record, InputAdmitted) for one in records) == 1, str(point)
