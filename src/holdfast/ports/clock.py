"""Time, as the engine needs it."""

from typing import Protocol


class Clock(Protocol):
    """Time, so that tests can set it."""

    def now(self) -> float:
        """Return seconds since the epoch."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return when this much time has passed."""
        ...
