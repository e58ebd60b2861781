"""One timer for all waits of a stream."""

import asyncio

import pytest

from holdfast.models.transport import IdleTimeout


async def test_many_waits_share_one_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    timers: list[float] = []
    call_at = loop.call_at

    def counted(when: float, *arguments: object) -> asyncio.TimerHandle:
        timers.append(when)
        return call_at(when, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(loop, "call_at", counted)
    async with IdleTimeout() as idle:
        for _ in range(1_000):
            idle.start(60.0)
            await asyncio.sleep(0)
            idle.stop()
        assert len(timers) == 1
        # A shorter wait needs an earlier one.
        idle.start(30.0)
        assert len(timers) == 2


async def test_a_wait_that_takes_too_long_ends_the_block() -> None:
    async def wait() -> None:
        async with IdleTimeout() as idle:
            idle.start(0.001)
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        await wait()


async def test_a_wait_after_others_has_its_whole_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The timer of the first wait fires in a later one, and is set again."""
    now = 0.0
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "time", lambda: now)
    fired: list[float] = []

    def noted(when: float, _check: object) -> asyncio.Handle:
        fired.append(when)
        return loop.call_soon(lambda: None)

    async with IdleTimeout() as idle:
        monkeypatch.setattr(loop, "call_at", noted)
        idle.start(10.0)
        now = 8.0
        idle.start(10.0)
        now = 10.0
        idle._check()
        assert fired == [10.0, 18.0]


async def test_time_between_two_waits_does_not_count() -> None:
    async with IdleTimeout() as idle:
        idle.start(0.0)
        idle.stop()
        idle._check()
        idle.start(60.0)
        await asyncio.sleep(0)
