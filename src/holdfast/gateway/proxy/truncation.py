"""Answers that break off because the window is full, for clients to which that is an error: they get the whole one.

A model whose window nobody told writes until the window is full, and says only that its answer is not complete. Most
agents take what there is; Codex ends its turn with an error. But it asks again where a stream ends without an ending,
so it gets none, and what it then asks once more is made smaller first.
"""

import hashlib
import re
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from holdfast.core.limits.bounds import Bounds
from holdfast.gateway.proxy.request import Asked
from holdfast.types.faults import Confidence, Fault, FaultKind, Unit
from holdfast.types.messages import Reply, StopReason

# What such clients call themselves: "codex_exec/0.166.0", "codex_cli_rs/...", "codex_vscode/...".
_CLIENTS = re.compile(rb"codex", re.IGNORECASE)
# What a stream says of such an answer, at its very end.
BREAKS_OFF = b"response.incomplete"
# Keys whose newest answer of this kind is remembered, some 200 bytes each.
_OWNERS_MAX = 5_000
# Such a client asks again within seconds, and waits longer each time.
_SECONDS_MAX = 60.0
# Windows are multiples of one of these, and what a full one holds is counted to the token, give or take one. Of the
# answers that break off at a bound of their own length one in fifty looks like that.
_STEPS = (256, 500)
_OFF_BY = 1
# No model that holds a conversation was made with less.
_WINDOW_LEAST = 2_048


@dataclass(frozen=True)
class _Cut:
    request: bytes
    window_tokens: int
    at: float


def is_error_to(asked: Asked) -> bool:
    """Return whether a request's client takes an answer that is not complete for an error."""
    return any(name == b"user-agent" and _CLIENTS.match(text) for name, text in asked.headers)


class Cuts:
    """The newest answer of each key that was broken off because the window was full."""

    def __init__(self, now: Callable[[], float] = monotonic) -> None:
        self._now = now
        self._cuts: OrderedDict[str, _Cut] = OrderedDict()

    def learn(self, asked: Asked, reply: Reply, bounds: Bounds) -> bool:
        """Take an answer before its client knows how it ends; True: it filled the window, and is asked for again."""
        window = _full_window(asked, reply, bounds)
        if window is None:
            return False
        self._cuts[asked.owner] = _Cut(_digest(asked), window, self._now())
        self._cuts.move_to_end(asked.owner)
        while len(self._cuts) > _OWNERS_MAX:
            self._cuts.popitem(last=False)
        return True

    def has(self, owner: str) -> bool:
        """Return whether something of this key's may come again."""
        cut = self._cuts.get(owner)
        if cut is not None and self._now() - cut.at > _SECONDS_MAX:
            del self._cuts[owner]
            return False
        return cut is not None

    def asked_again(self, asked: Asked) -> Fault | None:
        """Return why a request is made smaller: its answer broke off, and here it is again."""
        if not self.has(asked.owner) or self._cuts[asked.owner].request != _digest(asked):
            return None
        window = self._cuts.pop(asked.owner).window_tokens
        return Fault(FaultKind.TOKEN_OVERFLOW, Confidence.GUESS, limit=window, requested=window, unit=Unit.TOKENS)


def _full_window(asked: Asked, reply: Reply, bounds: Bounds) -> int | None:
    """Return the window that an answer seems to have filled, None where it stopped for another reason."""
    assert asked.decoded is not None, "only what was read has an answer that is read"
    usage, most = reply.usage, asked.decoded.request.output_tokens_max
    if reply.stop_reason is not StopReason.LENGTH or usage is None or asked.held:
        return None
    if usage.output_tokens >= min(most or bounds.output_tokens_reserved, bounds.output_tokens_reserved):
        # It is as long as it was to be, or as our own sessions keep free for one.
        return None
    filled = usage.input_tokens + usage.output_tokens
    windows = [round(filled / step) * step for step in _STEPS]
    return next((one for one in windows if abs(one - filled) <= _OFF_BY and one >= _WINDOW_LEAST), None)


def _digest(asked: Asked) -> bytes:
    said = hashlib.blake2b(asked.prefix.encode(), digest_size=16)
    for one in asked.digests:
        said.update(one)
    return said.digest()
