"""System clock."""

import asyncio
import time


class SystemClock:
    """The `Clock` port over the time of this machine."""

    def now(self) -> float:
        """Return seconds since the epoch."""
        return time.time()

    async def sleep(self, seconds: float) -> None:
        """Sleep on the event loop."""
        await asyncio.sleep(seconds)
