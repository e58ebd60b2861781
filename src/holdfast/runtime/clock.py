"""The time of this machine."""

import asyncio
import time


class SystemClock:
    """Real time."""

    def now(self) -> float:
        """Return seconds since the epoch."""
        return time.time()

    async def sleep(self, seconds: float) -> None:
        """Return when this much time has passed."""
        await asyncio.sleep(seconds)
