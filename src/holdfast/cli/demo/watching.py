"""Whoever watches the session over HTTP: every record once and in order, over every restart of the gateway.

What was seen is evidence: at the end it is held against what the store has.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress

import aiohttp

from holdfast.cli.demo.caller import Caller
from holdfast.core.records import AnyRecord, Logged
from holdfast.models.transport import BrokenOffError

# Between two tries to reach a gateway that is down.
_RETRY_SECONDS = 0.05


class Watcher:
    """Watches one session from its first record on."""

    def __init__(self, caller: Caller, tell: Callable[[Logged], None]) -> None:
        self._caller, self._tell = caller, tell
        self._came = asyncio.Condition()
        self.seen: list[Logged] = []
        # Records that came twice, or not in order.
        self.misplaced = 0

    @property
    def last_seq(self) -> int:
        """The number of the newest record that was seen."""
        return self.seen[-1].seq if self.seen else 0

    async def watch(self) -> None:
        """Watch without end; a gateway that goes away is asked again for what came since."""
        while True:
            with suppress(aiohttp.ClientError, BrokenOffError, OSError):
                async with self._caller.records(self.last_seq) as records:
                    async for logged in records:
                        await self._see(logged)
            await asyncio.sleep(_RETRY_SECONDS)

    async def until(self, is_it: Callable[[AnyRecord], bool], *, after: int) -> Logged:
        """Return the first record behind a number of which something is true, waiting for it to come."""

        def found() -> Logged | None:
            return next((logged for logged in self.seen if logged.seq > after and is_it(logged.record)), None)

        async with self._came:
            logged = await self._came.wait_for(found)
        assert logged is not None, "it was waited for"
        return logged

    async def reach(self, seq: int) -> None:
        """Wait until the record with this number has been seen."""
        async with self._came:
            await self._came.wait_for(lambda: self.last_seq >= seq)

    async def _see(self, logged: Logged) -> None:
        self.misplaced += logged.seq != self.last_seq + 1
        async with self._came:
            self.seen.append(logged)
            self._came.notify_all()
        self._tell(logged)
