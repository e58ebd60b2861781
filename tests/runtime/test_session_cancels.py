"""A person who cancels: at once, from anywhere, and nothing is left half done."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from holdfast.errors import TurnFailedError
from holdfast.ports import Lease
from holdfast.runtime.tools.function_tool import tool
from holdfast.stores.memory import MemoryStore
from holdfast.testing.builders import ManualClock, a_tool_call
from holdfast.testing.engines import ScriptedModel, a_hold, an_engine, refuses, says
from holdfast.types.messages import ToolOutcome
from holdfast.types.records import (
    Abandonment,
    AnyRecord,
    AttemptAbandoned,
    LeasedRecord,
    RungStarted,
    ToolSettled,
    TurnStarted,
)
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


class SlowCommitStore(MemoryStore):
    """A store that commits in order on a writer of its own, as SQLite does: cancelling a call does not stop its commit.

    The commit of a tool receipt waits for a gate, before or after it is on disk.
    """

    def __init__(self, *, is_on_disk: bool) -> None:
        super().__init__(clock=ManualClock())
        self.committing, self.gate = asyncio.Event(), asyncio.Event()
        self._is_on_disk = is_on_disk
        self._writer = asyncio.Lock()

    async def append(self, lease: Lease, records: Sequence[LeasedRecord], *, after: int) -> int:
        return await asyncio.shield(asyncio.ensure_future(self._commit(lease, records, after)))

    async def _commit(self, lease: Lease, records: Sequence[LeasedRecord], after: int) -> int:
        is_receipt = any(isinstance(record, ToolSettled) for record in records)
        async with self._writer:
            if is_receipt and not self._is_on_disk:
                await self._wait()
            last = await super().append(lease, records, after=after)
            if is_receipt and self._is_on_disk:
                await self._wait()
        return last

    async def _wait(self) -> None:
        self.committing.set()
        await self.gate.wait()


@pytest.mark.parametrize("is_on_disk", [False, True])
async def test_a_cancel_during_the_commit_of_a_tool_receipt_waits_for_it(*, is_on_disk: bool) -> None:
    """The receipt is kept, so the tool is neither recorded as cancelled nor run again."""
    runs = 0
    observed: list[AnyRecord] = []

    @tool
    async def once() -> str:
        """Count its runs."""
        nonlocal runs
        runs += 1
        return "done"

    store = SlowCommitStore(is_on_disk=is_on_disk)
    model = ScriptedModel([says("", a_tool_call("once")), "after"])
    engine = an_engine(model, store=store, tools=[once])
    engine = replace(engine, observe=lambda _, logged: observed.append(logged.record))
    async with a_hold(engine) as hold:
        session = await hold.session(KEY)
        turn = await session.post("hi")
        await store.committing.wait()

        await session.cancel(turn)
        # The cancel reaches the worker, which goes as far as it can before the commit returns.
        for _ in range(100):
            await asyncio.sleep(0)
        store.gate.set()

        with pytest.raises(TurnFailedError, match="cancelled"):
            await session.wait(turn)
        assert (await session.send("what happened?")).text == "after"
        records = [logged.record for logged in await ended_well(session)]
        (receipt,) = [record for record in records if isinstance(record, ToolSettled)]
        assert (receipt.result.outcome, runs) == (ToolOutcome.DONE, 1)
        assert [record for record in observed if isinstance(record, ToolSettled)] == [receipt]


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
