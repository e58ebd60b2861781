"""Who works on what: one at a time, taken over when an owner dies, given up when it is lost."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping, Sequence

import pytest

from holdfast.errors import StoreBusyError
from holdfast.ports import Delta, Lease
from holdfast.runtime.maintenance.supervisor import Supervisor
from holdfast.runtime.sessions.session import Session
from holdfast.stores.memory import MemoryStore
from holdfast.testing.builders import ManualClock
from holdfast.testing.engines import FunctionModel, ScriptedModel, a_hold, an_engine, says
from holdfast.types.faults import Refusal
from holdfast.types.messages import Reply, Request, Text, text_of
from holdfast.types.records import InputAdmitted, LeasedRecord, Logged, ReplyRecorded, TurnEnded, TurnStarted
from tests.runtime.talks import KEY, HangingModel, ended_well

LEASE_SECONDS = 30.0


async def test_work_whose_owner_dies_elsewhere_is_found_and_taken_over() -> None:
    """FM-023, FM-042, FM-097: a lease is not a lock; nobody has to clean up after the dead."""
    clock = ManualClock()
    store = MemoryStore(clock=clock)
    async with a_hold(an_engine(ScriptedModel(["taken over"]), store=store, clock=clock), owner="living") as hold:
        dead = await store.acquire(KEY, "dead", seconds=LEASE_SECONDS)
        assert dead is not None
        await store.admit(KEY, InputAdmitted((Text("is anybody there?"),)))
        session = await hold.session(KEY)
        waiting = asyncio.create_task(_answer(session))

        for _ in range(4):
            await clock.until_asleep(1)
            clock.advance(10)
            await asyncio.sleep(0)

        assert await waiting == "taken over"
        await ended_well(session)


async def _answer(session: Session) -> str:
    """Wait for the answer without waking anybody: only the watchdog may find the work."""
    text = ""
    async for logged in session.watch():
        if isinstance(logged.record, ReplyRecorded):
            text = text_of(logged.record.reply.parts)
        if isinstance(logged.record, TurnEnded):
            break
    return text


async def test_a_session_that_another_worker_holds_is_left_to_it() -> None:
    clock = ManualClock()
    store = MemoryStore(clock=clock)
    model = ScriptedModel(["not asked"])
    async with a_hold(an_engine(model, store=store, clock=clock), owner="two"):
        other = await store.acquire(KEY, "one", seconds=3_600)
        assert other is not None
        await store.admit(KEY, InputAdmitted((Text("hi"),)))

        for _ in range(3):
            await clock.until_asleep(1)
            clock.advance(10)
            await asyncio.sleep(0)

        assert model.requests == []


async def test_a_worker_that_lost_its_lease_stops_and_the_other_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    """FM-121: a stale worker's writes are refused; the session has one history."""
    caplog.set_level(logging.WARNING)
    clock = ManualClock()
    store = MemoryStore(clock=clock)
    slow = HangingModel()
    async with a_hold(an_engine(slow, store=store, clock=clock), owner="slow") as hold:
        turn = await (await hold.session(KEY)).post("hi")
        await slow.speaking.wait()
        # The slow worker is held up past its lease, and another takes the session.
        clock._now += LEASE_SECONDS + 1
        async with a_hold(an_engine(ScriptedModel(["quick"]), store=store, clock=clock), owner="quick") as other:
            answer = await (await other.session(KEY)).wait(turn)
            assert answer.text == "quick"
            clock.advance(LEASE_SECONDS)
            await slow.closed.wait()
            await ended_well(await other.session(KEY))
    assert any(record.message == "lease lost" for record in caplog.records)


class HeldUpStore(MemoryStore):
    """A process's connection to a shared store that stalls between its first `TurnStarted` and the read after it."""

    def __init__(self, shared: MemoryStore) -> None:
        vars(self).update(vars(shared))
        self.stalled, self.resume = asyncio.Event(), asyncio.Event()
        self._has_started_turn = False

    async def append(self, lease: Lease, records: Sequence[LeasedRecord], *, after: int) -> int:
        last = await super().append(lease, records, after=after)
        self._has_started_turn |= any(isinstance(record, TurnStarted) for record in records)
        return last

    async def read(self, session: str, *, after: int = 0, limit: int | None = None) -> list[Logged]:
        if self._has_started_turn:
            self.stalled.set()
            await self.resume.wait()
        return await super().read(session, after=after, limit=limit)


class GatedModel(FunctionModel):
    """A model that answers once its gate is open."""

    def __init__(self, answer: str) -> None:
        super().__init__(lambda _: says(answer))
        self.called, self.gate = asyncio.Event(), asyncio.Event()

    async def stream(
        self, request: Request, blobs: Mapping[str, bytes]
    ) -> AsyncGenerator[Delta | Reply | Refusal, None]:
        self.called.set()
        await self.gate.wait()
        async for item in super().stream(request, blobs):
            yield item


async def test_a_worker_that_lost_its_lease_between_a_write_and_the_next_read_leaves_the_answer_to_the_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The records it then reads are of a turn in flight elsewhere, which its own state cannot continue."""
    caplog.set_level(logging.WARNING)
    clock = ManualClock()
    store = MemoryStore(clock=clock)
    stalling, quick = HeldUpStore(store), GatedModel("quick")
    async with a_hold(an_engine(ScriptedModel(["slow"]), store=stalling, clock=clock), owner="slow") as hold:
        session = await hold.session(KEY)
        turn = await session.post("hi")
        waiting = asyncio.create_task(session.wait(turn))
        await stalling.stalled.wait()
        # Set, not advanced: the renewal is held up as the worker is.
        clock._now += LEASE_SECONDS + 1
        async with a_hold(an_engine(quick, store=store, clock=clock), owner="quick") as other:
            await quick.called.wait()
            stalling.resume.set()
            # The slow worker reads, and stops.
            for _ in range(100):
                await asyncio.sleep(0)
            quick.gate.set()

            assert (await waiting).text == "quick"
            await ended_well(await other.session(KEY))
    assert [record.message for record in caplog.records] == ["lease lost"]


async def test_a_lease_is_kept_as_long_as_the_work_lasts() -> None:
    clock = ManualClock()
    store = MemoryStore(clock=clock)
    model = HangingModel()
    async with a_hold(an_engine(model, store=store, clock=clock), owner="one") as hold:
        await (await hold.session(KEY)).post("hi")
        await model.speaking.wait()

        for _ in range(10):
            await clock.until_asleep(2)
            clock.advance(LEASE_SECONDS / 3)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            await asyncio.sleep(0)

        assert await store.acquire(KEY, "two", seconds=LEASE_SECONDS) is None


async def test_a_watchdog_that_cannot_look_looks_again(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    engine = an_engine(ScriptedModel(["ok"]), clock=clock)
    looks = 0

    class Busy(MemoryStore):
        async def pending(self) -> list[str]:
            nonlocal looks
            looks += 1
            if looks == 2:
                raise StoreBusyError("the store is busy; try again")
            return await super().pending()

    object.__setattr__(engine, "store", Busy(clock=clock))
    supervisor = Supervisor(engine, owner="me")
    await supervisor.start()
    for _ in range(3):
        await clock.until_asleep(1)
        clock.advance(10)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    await supervisor.stop(grace_seconds=0)

    assert looks >= 3
    assert any(record.message == "watchdog scan failed" for record in caplog.records)
