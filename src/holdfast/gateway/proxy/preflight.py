"""Does a client's request fit, before it is sent? Asked with care: a provider may know better than an estimate."""

from math import inf

from holdfast.core.limits.bounds import Bounds
from holdfast.core.limits.fit import output_reserved, output_that_fits
from holdfast.core.limits.usage import budgets_of
from holdfast.gateway.proxy.recorder import Measured
from holdfast.gateway.proxy.request import OUTPUT_FIELDS, Asked, Outbox, with_fields
from holdfast.models.dialects import SERVED
from holdfast.runtime.engine.learning import Known
from holdfast.types.faults import Confidence, Fault, FaultKind, Unit
from holdfast.types.limits import Limits
from holdfast.types.messages import Reply
from holdfast.types.usage import Budgets

# How many short answers go into what our own sessions keep free for one: a page each.
_SHORT_ANSWERS = 4


def too_large(asked: Asked, known: Known, bounds: Bounds) -> Fault | None:
    """Return why a request cannot fit, where that is all but certain: a provider may know better than an estimate."""
    room, body_bytes = room_for(known.limits, bounds), len(asked.body)
    # No token is shorter than a byte, so most requests need not be measured.
    if body_bytes > room and (tokens := known.calibration.estimate(asked.sizes.tokens)) > room:
        return Fault(FaultKind.TOKEN_OVERFLOW, Confidence.LIKELY, limit=int(room), requested=tokens, unit=Unit.TOKENS)
    wire = known.limits.wire_bytes_max
    if wire is not None and body_bytes > wire:
        return Fault(FaultKind.WIRE_OVERFLOW, Confidence.LIKELY, limit=wire, requested=body_bytes, unit=Unit.BYTES)
    return None


def room_for(limits: Limits, bounds: Bounds) -> float:
    """Return how many tokens a request may have.

    An answer that breaks off for want of room is an error to most agents, so a short one must have its place.
    """
    if limits.window_tokens is None:
        return inf
    return limits.window_tokens - output_reserved(limits, bounds) // _SHORT_ANSWERS


def with_output_that_fits(asked: Asked, known: Known, outbox: Outbox, bounds: Bounds) -> Asked:
    """Return a request that asks for less output, where all that it asks for is known to be refused; else as it is.

    Only for a server that was seen to count it against the window: to others it is the most that may come, no more.
    """
    assert asked.decoded is not None, "only what was read is measured"
    wanted, window = asked.decoded.request.output_tokens_max, known.limits.window_tokens
    if not known.counts_output or wanted is None or window is None or asked.held:
        return asked
    if known.calibration.estimate(asked.sizes.tokens) + wanted <= window:
        return asked
    most = output_that_fits(window, known.calibration.upper(asked.sizes.tokens), bounds)
    if most is None or most >= wanted:
        return asked
    outbox.notes["x-holdfast-rescued"] = "output_clamped"
    outbox.notes["x-holdfast-notice"] = (
        f"the answer may have {most:,} tokens: {wanted:,} and the request are more than the window of {window:,}"
    )
    body = with_fields(asked.body, dict.fromkeys(OUTPUT_FIELDS, most))
    return asked.with_body(SERVED[asked.dialect].settled(body))


def measured(asked: Asked, known: Known, reply: Reply, bounds: Bounds) -> Measured:
    """Return what a request took that was answered. Where the provider holds the history, it alone knows how much."""
    assert asked.decoded is not None, "only what was read is measured"
    model, request = asked.models[0], asked.decoded.request
    budgets = budgets_of(asked.sizes, known.limits, known.calibration, bounds)
    tokens, raw = known.calibration.estimate(asked.sizes.tokens), asked.sizes.tokens
    if asked.held:
        tokens, raw = (reply.usage.input_tokens if reply.usage is not None else 0), 0
        budgets = Budgets(tokens, budgets.tokens_max)
    return Measured(tokens, raw, request.output_tokens_max, budgets, model.prices.cost(reply.usage))
