"""Savings of one proxied request: fold its new output, mask old output early, and compare the client's own request.

The decisions are made in core/proxy/savings.py; this module measures for them.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from holdfast.core.compaction.plan import plan_mask
from holdfast.core.fold.session_state import InFlight, Turn
from holdfast.core.limits.bounds import Bounds
from holdfast.core.limits.fit import measure
from holdfast.core.limits.prices import Prices
from holdfast.core.limits.savings import Compared, own_request
from holdfast.core.proxy.plan import RequestFacts
from holdfast.core.proxy.savings import folds, is_lasting, is_repaired, mask_sizes, may_save, plan_early_mask
from holdfast.core.view import messages_in_view
from holdfast.gateway.http.asgi import off_loop
from holdfast.models.dialects import SERVED
from holdfast.models.wire import MalformedRequestError
from holdfast.runtime.engine.context import Engine
from holdfast.runtime.engine.log import Log
from holdfast.types.messages import Message
from holdfast.types.records import OutputMasked, ReplyRecorded

__all__ = ["SAFE", "Considered", "SentRequest", "early_mask", "is_lasting", "output_folds", "pays_to_mask"]

SAFE = "safe"


class Considered(msgspec.Struct, frozen=True):
    """A request that may be changed to save money: its messages, and how many of them the log has."""

    messages: Sequence[Message]
    known: int
    state: Turn
    prices: Prices
    bounds: Bounds
    now: float


async def output_folds(
    considered: Considered, facts: RequestFacts, body_bytes: int
) -> Mapping[str, tuple[str, ...]] | None:
    """Return new tool output with its repeated lines folded, by call; None if the request may not be changed.

    A large body is read off the event loop.
    """
    if not may_save(facts, considered.state):
        return None
    messages, first, most = considered.messages, considered.known, considered.bounds.tool_output_bytes_max
    return await off_loop(body_bytes, lambda: folds(messages, first=first, bytes_max=most))


def pays_to_mask(considered: Considered, own_tokens: Callable[[], int]) -> bool:
    """Return whether masking old output of a request that came unchanged pays. `own_tokens` measures the request."""
    sizes = mask_sizes(considered.messages, keep=considered.bounds.outputs_kept)
    if not sizes.freed:
        return False
    return plan_early_mask(considered.state, considered.prices, sizes, own_tokens(), considered.now) is not None


def early_mask(log: Log, engine: Engine, own_tokens: int) -> OutputMasked | None:
    """Return the record that masks old tool output of a session to save money; None: it does not pay.

    `own_tokens` is the size of the client's own request.
    """
    turn, keep = log.turn, engine.bounds.outputs_kept
    if engine.offer.spec is None or turn.in_flight is not InFlight.READY:
        return None
    before = plan_mask(log.tail, masked_before=turn.masked_before, keep=keep)
    if before is None:
        return None
    sizes = mask_sizes(messages_in_view(log.tail, turn, pinned=log.pinned), keep=keep)
    payback = plan_early_mask(turn, engine.model_for(turn).prices, sizes, own_tokens, engine.clock.now())
    return None if payback is None else OutputMasked(turn.number, before, round(payback, 2))


class SentRequest(msgspec.Struct, frozen=True):
    """A changed body that was sent for a client, and the state of its session at that time."""

    dialect: str
    body: bytes
    turn: Turn
    # The provider rejects the client's own request.
    is_rejected: bool
    prices: Prices

    def compared(self, record: ReplyRecorded, own_tokens: int, now: float, *, is_added: bool) -> ReplyRecorded:
        """Return the record of an answer with the client's own request. It does not see an answer that `is_added`."""
        usage, turn = record.reply.usage, self.turn
        if usage is None:
            return record
        is_refused = self.is_rejected or is_repaired(turn)
        compared = Compared(own_tokens, self._tokens() or own_tokens, is_refused, is_added)
        own = own_request(compared, usage, self.prices, turn.cache, turn.view_changes, now)
        return msgspec.structs.replace(record, own_request=own)

    def _tokens(self) -> int | None:
        try:
            decoded = SERVED[self.dialect].decode_request(self.body, "", is_tolerant=True)
        except (MalformedRequestError, msgspec.DecodeError):
            return None
        return measure(decoded.request).tokens
