"""Manual clock for tests."""

import asyncio
import heapq
from itertools import count


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
