"""Which requests may go upstream before they are read, and how one that is on its way is taken or called back.

Reading a request takes longer than passing it on. One that cannot be too large, of conversations that are shown to the
model as they are, would go as it came whatever it says; so it goes first, and is read while the upstream works.
"""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Coroutine
from typing import Any

from holdfast.gateway.proxy.upstream import Raw

# What a request is known by before it is read: enough for the model, the beginning of the system text and often the
# first message. Conversations that begin alike share it, and one that was rescued speaks for all of them.
_HEAD_BYTES = 1_024
# Heads that are remembered, 16 bytes each and a key.
_HEADS_MAX = 10_000
# Rounds of the loop until a request has left: in the first it gets its connection, in the second it is written, and at
# the end of that round it is sent.
_TURNS = 3


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

    def __init__(self, sending: Coroutine[Any, Any, Raw]) -> None:
        self._sending = asyncio.create_task(sending, name="send ahead")
        self.is_taken = False

    async def gone_out(self) -> None:
        """Return when all that can be sent without waiting is on the wire."""
        for _ in range(_TURNS):
            await asyncio.sleep(0)

    async def take(self) -> Raw:
        """Return its answer, as `Wire.send` does."""
        self.is_taken = True
        try:
            return await self._sending
        except asyncio.CancelledError:
            # It may have come in the very moment in which nobody wanted it any more.
            self._close()
            raise

    async def drop(self) -> None:
        """Call it back unless it was taken, so that the upstream stops working."""
        if self.is_taken:
            return
        self._sending.cancel()
        await asyncio.wait([self._sending])
        self._close()

    def _close(self) -> None:
        sending = self._sending
        if sending.done() and not sending.cancelled() and sending.exception() is None:
            sending.result().close()
