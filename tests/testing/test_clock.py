"""The clock that tests set."""

import asyncio

from holdfast.testing.builders import ManualClock


async def test_sleepers_wake_in_order_of_their_deadlines() -> None:
    clock, woken = ManualClock(), list[str]()

    async def sleep(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append(name)

    tasks = [
        asyncio.create_task(sleep(name, seconds)) for name, seconds in (("late", 30), ("early", 10), ("middle", 20))
    ]
    await clock.until_asleep(3)

    clock.advance(25)
    await asyncio.gather(tasks[1], tasks[2])
    assert (woken, clock.sleepers) == (["early", "middle"], 1)

    clock.advance(5)
    await asyncio.gather(*tasks)
    assert (woken, clock.sleepers) == (["early", "middle", "late"], 0)


async def test_time_moves_only_when_told() -> None:
    clock = ManualClock(100.0)
    await clock.sleep(0)
    await clock.sleep(-5)
    assert clock.now() == 100.0

    clock.advance(2.5)

    assert clock.now() == 102.5


async def test_a_cancelled_sleeper_is_not_counted_and_not_woken() -> None:
    clock = ManualClock()
    sleeper = asyncio.create_task(clock.sleep(10))
    await clock.until_asleep()

    sleeper.cancel()
    await asyncio.wait([sleeper])
    clock.advance(10)

    assert (sleeper.cancelled(), clock.sleepers) == (True, 0)


async def test_one_can_wait_until_someone_sleeps() -> None:
    clock = ManualClock()
    waiting = asyncio.create_task(clock.until_asleep(2))
    sleepers = [asyncio.create_task(clock.sleep(1)) for _ in range(2)]

    await waiting

    clock.advance(1)
    await asyncio.gather(*sleepers)
