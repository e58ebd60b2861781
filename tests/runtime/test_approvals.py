"""Approvals: a tool call waits for a person, over restarts, and runs once or not at all."""

import asyncio
import contextlib
from collections.abc import Callable

import pytest

import holdfast
from holdfast.core.limits.bounds import Bounds
from holdfast.errors import BadInputError
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.engine.context import Engine
from holdfast.runtime.sessions.session import Session
from holdfast.stores.memory import MemoryStore
from holdfast.testing.builders import ManualClock, a_tool_call
from holdfast.testing.crashes import CrashingStore, CrashPoint, Died, check_log, every_point
from holdfast.testing.engines import FunctionModel, a_hold, an_engine, says
from holdfast.types.messages import Reply, Request, Role, ToolCall, ToolOutcome, ToolResult, text_of
from holdfast.types.records import ApprovalAnswered, ApprovalRequested, Logged, ToolSettled, ToolStarted
from tests.crashes.test_in_process import LEASE_SECONDS
from tests.e2e.world import at_rest
from tests.runtime.talks import next_record


def tools(effect: Callable[[str], None]) -> list[Callable[..., object]]:
    @holdfast.tool(approve=True)
    async def pay(amount: int) -> str:
        """Pay."""
        effect(f"pay {amount}")
        return "paid"

    @holdfast.tool(approve=lambda arguments: arguments["amount"] > 10)
    async def lend(amount: int) -> str:
        """Lend."""
        effect(f"lend {amount}")
        return "lent"

    return [pay, lend]


def respond(request: Request) -> Reply:
    newest = request.messages[-1]
    if newest.role is Role.TOOL:
        results = [part for part in newest.parts if isinstance(part, ToolResult)]
        return says(" / ".join(text_of(result.parts) for result in results))
    pay = a_tool_call("pay", '{"amount": 5}', call_id="pay-1")
    match text_of(newest.parts):
        case "both":
            return says("", pay, a_tool_call("lend", '{"amount": 1}', call_id="lend-1"))
        case "lend a lot":
            return says("", a_tool_call("lend", '{"amount": 50}', call_id="lend-1"))
        case "pay":
            return says("", pay)
        case _:
            return says("hello")


async def asked(session: Session) -> holdfast.Approval:
    """Wait until a call waits for an approval, and return it."""
    await next_record(session, ApprovalRequested)
    (waiting,) = await session.approvals()
    return waiting


async def test_a_call_waits_and_runs_once_it_is_approved() -> None:
    effects: list[str] = []
    async with a_hold(an_engine(FunctionModel(respond), tools=tools(effects.append))) as client:
        chat = await client.session("a")
        turn = await chat.post("both")
        waiting = await asked(chat)
        assert (waiting.tool, waiting.turn, waiting.arguments) == ("pay", turn, '{"amount": 5}')
        await next_record(chat, ToolSettled)
        assert effects == ["lend 1"], "a call that needs none does not wait"
        assert await chat.approve(waiting.request)
        assert not await chat.approve(waiting.request), "it was answered before"
        assert (await chat.wait(turn)).text == "paid / lent"
        assert effects == ["lend 1", "pay 5"]
        assert await chat.approvals() == []
        check_log(await chat.history(limit=1_000), accepted=[turn])


async def test_a_denied_call_does_not_run_and_the_model_reads_the_note() -> None:
    effects: list[str] = []
    async with a_hold(an_engine(FunctionModel(respond), tools=tools(effects.append))) as client:
        chat = await client.session("a")
        turn = await chat.post("lend a lot")
        assert await chat.deny((await asked(chat)).request, note="ask me tomorrow")
        answer = await chat.wait(turn)
        assert answer.text == "Not run: a person did not approve this call and said: ask me tomorrow."
        assert effects == []
        (settled,) = [one.record for one in await chat.history() if isinstance(one.record, ToolSettled)]
        assert settled.result.outcome is ToolOutcome.DENIED
        assert (await chat.send("hi")).text == "hello"


async def test_a_hook_decides_for_every_tool_and_one_that_fails_counts_as_yes() -> None:
    def rule(session: str, call: ToolCall) -> bool:
        if session == "broken":
            raise RuntimeError("the rule is broken")
        return call.name == "look" and session == "strict"

    @holdfast.tool
    def look() -> str:
        """Look."""
        return "seen"

    async with holdfast.open(":memory:", tools=[look], approve=rule) as client:
        assert (await (await client.session("lax")).send("call look")).text == "The tool look returned: seen"
        for key in ("strict", "broken"):
            chat = await client.session(key)
            turn = await chat.post("call look")
            await chat.approve((await asked(chat)).request)
            assert (await chat.wait(turn)).text == "The tool look returned: seen"


async def test_a_wrong_number_and_a_long_note_are_refused() -> None:
    async with a_hold(an_engine(FunctionModel(respond), tools=tools(print))) as client:
        chat = await client.session("a")
        turn = await chat.post("pay")
        waiting = await asked(chat)
        for number in (0, -1, 1, 999):
            with pytest.raises(BadInputError, match="has no approval request"):
                await chat.approve(number)
        with pytest.raises(BadInputError, match="maximum is 2,000"):
            await chat.deny(waiting.request, note="x" * 2_001)
        await chat.cancel(turn)
        with pytest.raises(holdfast.TurnFailedError, match="cancelled"):
            await chat.wait(turn)
        assert await chat.approvals() == []
        assert not await chat.approve(waiting.request), "its turn has ended"
        assert (await chat.send("hi")).text == "hello"


async def test_a_request_that_nobody_answers_is_denied_in_the_end() -> None:
    clock, effects = ManualClock(), list[str]()
    store = MemoryStore(clock=clock, bounds=Bounds())
    bounds = Bounds(approval_seconds_max=100.0)
    model = FunctionModel(respond)

    def engine() -> Engine:
        return an_engine(model, store=store, clock=clock, bounds=bounds, tools=tools(effects.append))

    async with a_hold(engine()) as client:
        chat = await client.session("a")
        turn = await chat.post("pay")
        await asked(chat)
    clock.advance(101)
    async with a_hold(engine()) as client:
        answer = await (await client.session("a")).wait(turn)
    assert "nobody answered the request within 100 seconds" in answer.text
    assert effects == []


async def test_a_session_that_waits_is_not_opened_again_and_again() -> None:
    """The watchdog looks every few seconds: each look would take the lease and read the log."""
    clock = ManualClock()
    counting = CrashingStore(MemoryStore(clock=clock, bounds=Bounds()))
    async with a_hold(an_engine(FunctionModel(respond), store=counting, clock=clock, tools=tools(print))) as client:
        chat = await client.session("a")
        await chat.post("pay")
        await asked(chat)
        await at_rest(client)
        writes = counting.writes
        for _ in range(5):
            await chat._supervisor._finish_pending("a", waits_for_lease=True)
        assert counting.writes == writes
        await chat.cancel()


# --- Crashes ---


class World:
    """What outlives a process: the store and the effects of tools."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = MemoryStore(clock=self.clock, bounds=Bounds())
        self.effects: list[str] = []

    async def live(self, point: CrashPoint | None, *, is_approved: bool = True) -> int:
        """Be one process: send, answer the question, wait; until done or dead. Return how often it wrote."""
        store = CrashingStore(self.store, point)
        tasks = [
            asyncio.create_task(self._work(store, is_approved=is_approved)),
            asyncio.create_task(store.died.wait()),
        ]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        for task in tasks:
            with contextlib.suppress(asyncio.CancelledError, Died, BaseExceptionGroup):
                await task
        self.clock.advance(LEASE_SECONDS + 1)
        return store.writes

    async def _work(self, store: CrashingStore, *, is_approved: bool) -> None:
        engine = an_engine(
            FunctionModel(respond),
            store=store,
            clock=self.clock,
            bounds=Bounds(interruptions_max=50),
            tools=tools(self.effects.append),
        )
        async with a_hold(engine, lease_seconds=LEASE_SECONDS) as client:
            chat = await client.session("a")
            turn = await chat.post("pay", client_id="one")
            request = (await next_record(chat, ApprovalRequested)).seq
            await (chat.approve(request) if is_approved else chat.deny(request))
            await chat.wait(turn)

    async def records(self) -> list[Logged]:
        return await self.store.read("a")


@pytest.mark.parametrize("is_approved", [True, False])
async def test_an_approval_survives_a_crash_before_and_after_each_write(
    caplog: pytest.LogCaptureFixture, *, is_approved: bool
) -> None:
    caplog.set_level("CRITICAL")
    asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)
    writes = await World().live(None, is_approved=is_approved)
    assert writes >= 6
    for point in every_point(writes):
        world = World()
        await world.live(point, is_approved=is_approved)
        await world.live(None, is_approved=is_approved)
        records = await world.records()
        check_log(records, accepted=[1])
        kinds = [type(one.record) for one in records]
        assert kinds.count(ApprovalRequested) == 1, f"died {point}"
        assert kinds.count(ToolStarted) == 1, f"died {point}"
        assert kinds.index(ApprovalRequested) < kinds.index(ApprovalAnswered) < kinds.index(ToolStarted)
        unknown = any(
            isinstance(one.record, ToolSettled) and one.record.result.outcome is ToolOutcome.UNKNOWN for one in records
        )
        assert world.effects in ([["pay 5"], []] if unknown else [["pay 5"]] if is_approved else [[]]), f"died {point}"


@pytest.mark.parametrize(("approves", "says_last"), [(True, "paid"), (False, "Not run")])
async def test_an_answer_from_a_process_without_the_tool_leaves_the_call_to_one_that_has_it(
    *, approves: bool, says_last: str
) -> None:
    effects: list[str] = []
    store = MemoryStore(clock=SystemClock(), bounds=Bounds())
    models = [FunctionModel(respond), FunctionModel(respond)]
    owner = an_engine(models[0], tools=tools(effects.append), store=store)
    without = an_engine(models[1], store=store)
    async with a_hold(owner, owner="one") as client, a_hold(without, owner="two") as other:
        chat, elsewhere = await client.session("a"), await other.session("a")
        turn = await chat.post("pay")
        request = (await asked(chat)).request
        assert await (elsewhere.approve(request) if approves else elsewhere.deny(request))
        assert says_last in (await elsewhere.wait(turn)).text
    assert effects == (["pay 5"] if approves else [])
    assert models[1].requests == [], "a process without the tool does not continue the turn"


async def test_a_call_that_no_process_can_run_ends_when_the_approval_would_have() -> None:
    clock, bounds = ManualClock(), Bounds(approval_seconds_max=600.0)
    store = MemoryStore(clock=clock, bounds=bounds)
    model = FunctionModel(respond)
    async with a_hold(an_engine(model, tools=tools(print), store=store, clock=clock, bounds=bounds)) as client:
        turn = await (await client.session("a")).post("pay")
        request = (await asked(await client.session("a"))).request
    async with a_hold(an_engine(model, store=store, clock=clock, bounds=bounds)) as other:
        chat = await other.session("a")
        assert await chat.approve(request)
        await at_rest(other)
        assert (await chat.state()).number == turn, "it waits for a process that has the tool"
        clock.advance(601.0)
        assert "there is no tool named" in (await chat.wait(turn)).text
