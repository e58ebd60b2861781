"""Dying at every write of a turn with tools, and again while recovering: one outcome, nothing twice, nothing lost."""

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable

import pytest

from holdfast.ports import Store
from holdfast.stores.memory import MemoryStore
from holdfast.testing.builders import ManualClock
from holdfast.testing.crashes import CrashingStore, CrashPoint, Died, Side, check_log, every_point
from holdfast.testing.engines import a_hold, an_engine
from holdfast.types.messages import ToolOutcome
from holdfast.types.records import Logged, ToolSettled
from tests.crashes.scenario import BOUNDS, CLIENT_IDS, INPUTS, SESSION, a_model, tools

LEASE_SECONDS = 30.0


class World:
    """What outlives a process: the store, the effects of tools, and who was told "accepted"."""

    def __init__(self, make_store: Callable[[ManualClock], Store] | None = None) -> None:
        self.clock = ManualClock()
        self.store = make_store(self.clock) if make_store else MemoryStore(clock=self.clock, bounds=BOUNDS)
        self.effects: list[str] = []
        self.accepted: dict[str, int] = {}

    async def live(self, point: CrashPoint | None) -> int:
        """Be one process: send what nobody has accepted yet, work until done or dead; return how often it wrote."""
        store = CrashingStore(self.store, point)
        work = asyncio.create_task(self._work(store))
        dying = asyncio.create_task(store.died.wait())
        await asyncio.wait([work, dying], return_when=asyncio.FIRST_COMPLETED)
        for task in (work, dying):
            task.cancel()
        for task in (work, dying):
            with contextlib.suppress(asyncio.CancelledError, Died, BaseExceptionGroup):
                await task
        # Whoever held the lease is dead; nobody waits for it in this test.
        self.clock.advance(LEASE_SECONDS + 1)
        return store.writes

    async def _work(self, store: Store) -> None:
        engine = an_engine(a_model(), store=store, clock=self.clock, bounds=BOUNDS, tools=tools(self.effects.append))
        async with a_hold(engine, lease_seconds=LEASE_SECONDS) as client:
            session = await client.session(SESSION)
            for text, client_id in zip(INPUTS, CLIENT_IDS, strict=True):
                self.accepted[client_id] = await session.post(text, client_id=client_id)
            for turn in self.accepted.values():
                await session.wait(turn)

    async def records(self) -> list[Logged]:
        return await self.store.read(SESSION)


async def check(world: World) -> None:
    records = await world.records()
    check_log(records, accepted=world.accepted.values())
    # "pay" is called twice by the model; a call whose outcome is unknown may have run or not, but not again.
    unknown = sum(
        isinstance(logged.record, ToolSettled) and logged.record.result.outcome is ToolOutcome.UNKNOWN
        for logged in records
    )
    assert 2 - unknown <= world.effects.count("pay") <= 2
    assert world.effects.count("look_up") >= 1


@pytest.fixture(autouse=True)
async def _the_dead_are_silent(caplog: pytest.LogCaptureFixture) -> None:
    """A dead process does not log, and nobody collects what its tasks still had to say."""
    caplog.set_level(logging.CRITICAL)
    asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)


async def writes_of_an_undisturbed_life() -> int:
    world = World()
    writes = await world.live(None)
    await check(world)
    assert world.effects == ["pay", "look_up", "pay"]
    return writes


async def test_a_process_that_dies_at_any_write_is_continued_by_the_next() -> None:
    """FM-101, FM-102, FM-103, FM-110."""
    writes = await writes_of_an_undisturbed_life()
    assert writes >= 15, "the scenario must be worth killing"
    for point in every_point(writes):
        world = World()
        await world.live(point)
        await world.live(None)
        try:
            await check(world)
        except AssertionError as error:
            raise AssertionError(f"died {point}: {error}") from error


async def test_a_process_that_dies_while_it_recovers_is_continued_too() -> None:
    writes = await writes_of_an_undisturbed_life()
    points = list(every_point(writes))
    # All pairs take long and find no more: each first death meets every fifth second one, another fifth each time.
    for place, first in enumerate(points):
        for second in points[place % 5 :: 5]:
            world = World()
            await world.live(first)
            await world.live(second)
            await world.live(None)
            try:
                await check(world)
            except AssertionError as error:
                raise AssertionError(f"died {first}, then {second}: {error}") from error


@pytest.mark.parametrize("seed", range(20))
async def test_a_process_that_dies_again_and_again_gets_there(seed: int) -> None:
    rng = random.Random(seed)
    world = World()
    for _ in range(12):
        await world.live(CrashPoint(rng.randint(1, 12), rng.choice(list(Side))))
    await world.live(None)

    await check(world)
