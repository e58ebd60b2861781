"""A clock that stands still until a test moves it."""

import asyncio
import heapq
from itertools import count


class ManualClock:
    """Time as a test says it is: `advance` moves it and wakes whoever slept long enough, earliest deadline first."""

    # Any moment will do; this one is easy to recognise in a failing test: 2027-01-15 08:00:00 UTC.
    def __init__(self, start: float = 1_800_000_000.0) -> None:
        self._now = start
        self._order = count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._someone_slept: list[tuple[int, asyncio.Future[None]]] = []

    @property
    def sleepers(self) -> int:
        """How many tasks are asleep now."""
        return sum(not wake.done() for _, _, wake in self._sleepers)

    def now(self) -> float:
        """Return the moment that was set."""
        return self._now

    async def sleep(self, seconds: float) -> None:
        """Return when the clock was advanced by this much; at once for nothing or less."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        wake = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + seconds, next(self._order), wake))
        self._tell_watchers()
        await wake

    def advance(self, seconds: float) -> None:
        """Move time forward. Each sleeper whose time has come is woken, the earliest deadline first.

        What the sleepers do next happens when the event loop runs them; they then see the time at the end of the step.
        """
        assert seconds >= 0, "time does not run backwards"
        self._now += seconds
        while self._sleepers and self._sleepers[0][0] <= self._now:
            _, _, wake = heapq.heappop(self._sleepers)
            if not wake.done():
                wake.set_result(None)

    async def until_asleep(self, tasks: int = 1) -> None:
        """Return when at least this many tasks sleep, so that a test knows when there is someone to wake."""
        if self.sleepers >= tasks:
            return
        told = asyncio.get_running_loop().create_future()
        self._someone_slept.append((tasks, told))
        await told

    def _tell_watchers(self) -> None:
        asleep = self.sleepers
        for tasks, told in self._someone_slept:
            if asleep >= tasks and not told.done():
                told.set_result(None)
        self._someone_slept = [(tasks, told) for tasks, told in self._someone_slept if not told.done()]
