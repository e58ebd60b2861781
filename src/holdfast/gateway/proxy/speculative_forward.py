"""Forward requests before parsing them; cancel if the parsed request must change.

Parsing takes longer than forwarding. A request that cannot be too large, of a conversation that is forwarded as it is,
is sent first and parsed while the upstream works. The cache only saves time: the plan is made from the parsed request.
"""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Coroutine
from typing import Any

from holdfast.gateway.proxy.upstream import UpstreamResponse

# A request is known by its first bytes before it is parsed: the model, the beginning of the system text and often the
# first message. Conversations with the same beginning share an entry; if one was recovered, the entry is not plain.
_HEAD_BYTES = 1_024
# Cached heads, 16 bytes each and a key.
_HEADS_MAX = 10_000
# Rounds of the event loop until a request has left: it gets its connection, it is written, it is sent.
_TURNS = 3


class PassThroughCache:
    """Cache of request heads whose conversations were all forwarded unchanged."""

    def __init__(self) -> None:
        self._is_plain: OrderedDict[bytes, bool] = OrderedDict()

    def has(self, owner: str, body: bytes) -> bool:
        """Return whether a request begins like such conversations."""
        return self._is_plain.get(_head(owner, body), False)

    def learn(self, owner: str, body: bytes, *, is_plain: bool) -> None:
        """Record if a request was forwarded unchanged. A head that once was not stays so."""
        head = _head(owner, body)
        self._is_plain[head] = is_plain and self._is_plain.get(head, True)
        self._is_plain.move_to_end(head)
        while len(self._is_plain) > _HEADS_MAX:
            self._is_plain.popitem(last=False)


def _head(owner: str, body: bytes) -> bytes:
    return hashlib.blake2b(owner.encode() + b"\0" + body[:_HEAD_BYTES], digest_size=16).digest()


class SpeculativeForward:
    """A request that was sent before it was parsed. Its response is taken once, or cancelled."""

    def __init__(self, sending: Coroutine[Any, Any, UpstreamResponse]) -> None:
        self._sending = asyncio.create_task(sending, name="speculative forward")
        self.is_taken = False

    async def sent(self) -> None:
        """Return when everything that can be sent without waiting is on the wire."""
        for _ in range(_TURNS):
            await asyncio.sleep(0)

    async def take(self) -> UpstreamResponse:
        """Return the response."""
        self.is_taken = True
        try:
            return await self._sending
        except asyncio.CancelledError:
            # The response may have arrived at the same time.
            self._close()
            raise

    async def cancel(self) -> None:
        """Cancel it unless it was taken, so that the upstream stops working."""
        if self.is_taken:
            return
        self._sending.cancel()
        await asyncio.wait([self._sending])
        self._close()

    def _close(self) -> None:
        sending = self._sending
        if sending.done() and not sending.cancelled() and sending.exception() is None:
            sending.result().close()
