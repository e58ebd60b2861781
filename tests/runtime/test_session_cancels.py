"""A person who cancels: at once, from anywhere, and nothing is left half done."""

import asyncio

import pytest

from holdfast.errors import TurnFailedError
from holdfast.runtime.tools.function_tool import tool
from holdfast.stores.memory import MemoryStore
from holdfast.testing.builders import a_tool_call
from holdfast.testing.clock import ManualClock
from holdfast.testing.engines import ScriptedModel, a_hold, an_engine, refuses, says
from holdfast.types.messages import ToolOutcome
from holdfast.types.records import Abandonment, AttemptAbandoned, RungStarted, ToolSettled, TurnStarted
from tests.runtime.talks import KEY, HangingModel, ended_well, next_record


async def test_a_cancel_stops_the_model_at_once() -> None:
    model = HangingModel()
    async with a_hold(an_engine(model)) as hold:
        session = await hold.session(KEY)
        turn = await session.post("hi")
        await model.speaking.wait()

        await session.cancel(turn)

        with pytest.raises(TurnFailedError) as failure:
            await session.wait(turn)
        assert failure.value.reason == "cancelled"
        assert model.closed.is_set()
        abandoned = (await next_record(session, AttemptAbandoned)).record
        assert abandoned == AttemptAbandoned(1, 1, Abandonment.CANCELLED)
        await ended_well(session)


async def test_a_cancel_from_another_worker_reaches_the_one_who_works() -> None:
    store = MemoryStore(clock=ManualClock())
    model = HangingModel()
    engines = an_engine(model, store=store), an_engine(model, store=store)
    async with a_hold(engines[0], owner="one") as one, a_hold(engines[1], owner="two") as two:
        turn = await (await one.session(KEY)).post("hi")
        await model.speaking.wait()

        await (await two.session(KEY)).cancel()

        with pytest.raises(TurnFailedError, match="cancelled"):
            await (await one.session(KEY)).wait(turn)


async def test_a_cancelled_tool_is_told_to_the_model_as_such() -> None:
    running = asyncio.Event()
    stopped = asyncio.Event()

    @tool
    async def slow() -> str:
        """Wait for ever."""
        running.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return "never"

    model = ScriptedModel([says("", a_tool_call("slow")), "after"])
    async with a_hold(an_engine(model, tools=[slow])) as hold:
        session = await hold.session(KEY)
        await session.post("hi")
        await running.wait()

        await session.cancel()
        answer = await session.send("what happened?")

        assert answer.text == "after"
        assert stopped.is_set()
        settled = (await next_record(session, ToolSettled)).record
        assert isinstance(settled, ToolSettled)
        assert settled.result.outcome is ToolOutcome.CANCELLED
        await ended_well(session)


async def test_cancelling_a_wait_does_not_wait() -> None:
    clock = ManualClock()
    async with a_hold(an_engine(ScriptedModel([refuses(529, "overloaded")]), clock=clock)) as hold:
        session = await hold.session(KEY)
        turn = await session.post("hi")
        await next_record(session, RungStarted)

        await session.cancel(turn)

        with pytest.raises(TurnFailedError, match="cancelled"):
            await session.wait(turn)
        await ended_well(session)


async def test_an_input_cancelled_while_it_waits_is_never_seen_by_the_model() -> None:
    model = HangingModel()
    engine = an_engine(model)
    async with a_hold(engine) as hold:
        session = await hold.session(KEY)
        first = await session.post("first")
        await model.speaking.wait()
        second = await session.post("second")

        await session.cancel(second)
        await session.cancel(first)

        for turn in (first, second):
            with pytest.raises(TurnFailedError, match="cancelled"):
                await session.wait(turn)
        started = [logged.record for logged in await session.history() if isinstance(logged.record, TurnStarted)]
        assert started == [TurnStarted(first)]
