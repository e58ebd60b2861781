"""Which requests may go upstream before they are read, and how one that is on its way is taken or called back.

Reading a request takes longer than passing it on. One that cannot be too large, of conversations that are shown to the
model as they are, would go as it came whatever it says; so it goes first, and is read while the upstream works.
"""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress

from holdfast.gateway.dropin.upstream import Raw
from holdfast.models.transport import UnreachableError

# What a request is known by before it is read: enough for the model, the beginning of the system text and often the
# first message. Conversations that begin alike share it, and one that was rescued speaks for all of them.
_HEAD_BYTES = 1_024
# Heads that are remembered, 16 bytes each and a key.
_HEADS_MAX = 10_000


class PlainHeads:
    """Beginnings of requests behind which every conversation that was seen is shown to the model as it is."""

    def __init__(self) -> None:
        self._is_plain: OrderedDict[bytes, bool] = OrderedDict()

    def has(self, owner: str, body: bytes) -> bool:
        """Return whether a request begins like such conversations."""
        return self._is_plain.get(_head(owner, body), False)

    def learn(self, owner: str, body: bytes, *, is_plain: bool) -> None:
        """Take what became of a request. One that was not plain stays so: its conversation goes on."""
        head = _head(owner, body)
        self._is_plain[head] = is_plain and self._is_plain.get(head, True)
        self._is_plain.move_to_end(head)
        while len(self._is_plain) > _HEADS_MAX:
            self._is_plain.popitem(last=False)


def _head(owner: str, body: bytes) -> bytes:
    return hashlib.blake2b(owner.encode() + b"\0" + body[:_HEAD_BYTES], digest_size=16).digest()


class Ahead:
    """A request that is on its way. Whoever takes it gets its answer, once."""

    def __init__(self, sending: AbstractAsyncContextManager[Raw]) -> None:
        self._sending = sending
        self._begun = asyncio.create_task(sending.__aenter__(), name="send ahead")
        self.is_taken = False

    @asynccontextmanager
    async def take(self) -> AsyncGenerator[Raw, None]:
        """Give its answer as `Wire.send` does."""
        self.is_taken = True
        async with self._sent() as raw:
            yield raw

    async def drop(self) -> None:
        """Call it back unless it was taken, so that the upstream stops working."""
        if self.is_taken:
            return
        self._begun.cancel()
        with suppress(asyncio.CancelledError, UnreachableError):
            async with self._sent():
                pass

    @asynccontextmanager
    async def _sent(self) -> AsyncGenerator[Raw, None]:
        try:
            raw = await self._begun
        except asyncio.CancelledError:
            if self._begun.done() and not self._begun.cancelled():
                # It came in the very moment in which nobody wanted it any more.
                await self._sending.__aexit__(None, None, None)
            raise
        try:
            yield raw
        finally:
            await self._sending.__aexit__(None, None, None)


@asynccontextmanager
async def sent_ahead(sending: AbstractAsyncContextManager[Raw]) -> AsyncGenerator[Ahead, None]:
    """Send a request now; on the way out it is called back unless somebody took it."""
    ahead = Ahead(sending)
    try:
        # Two rounds of the loop: in the first it gets its connection, in the second it is written.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        yield ahead
    finally:
        await ahead.drop()
