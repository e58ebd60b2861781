"""How much output to ask for instead, where a refusal says that it was too much.

Output is a budget of its own: a request may be refused although everything it sends would be read, because of how long
an answer it asks for. Then less is asked for and the same view is sent again, without any compaction.
"""

from holdfast.core.faults import Fault, FaultKind, Unit
from holdfast.core.limits import Bounds

# No model writes less at most; a smaller number in such a sentence is the least that may be asked for.
_CAP_TOKENS_MIN = 128
# A template that writes the date, or a tokenizer that joins differently, moves a count by a few tokens between calls.
_SPARE_TOKENS = 32


def cap_stated(fault: Fault) -> int | None:
    """Return the most that a model writes in one answer, where that is what a refusal is about; else None."""
    if fault.kind is not FaultKind.BAD_REQUEST or fault.unit is not Unit.TOKENS or fault.limit is None:
        return None
    if fault.limit < _CAP_TOKENS_MIN or (fault.requested is not None and fault.requested <= fault.limit):
        # A limit that was not even reached is about something else.
        return None
    return fault.limit


def clamped(fault: Fault, *, asked: int, prompt_tokens: int, bounds: Bounds) -> int | None:
    """Return how much output to ask for after a refusal; None where asking for less would not help.

    `asked` is what was asked for, `prompt_tokens` our own estimate of what was sent, for a refusal that does not say.
    """
    cap = cap_stated(fault)
    if cap is not None:
        return cap if cap < (fault.requested or asked) else None
    if fault.kind is not FaultKind.TOKEN_OVERFLOW or fault.limit is None or fault.output_requested is None:
        return None
    prompt = prompt_tokens if fault.requested is None else fault.requested - fault.output_requested
    room = output_that_fits(fault.limit, prompt, bounds)
    return room if room is not None and room < fault.output_requested else None


def output_that_fits(window_tokens: int, prompt_tokens: int, bounds: Bounds) -> int | None:
    """Return how much output a window leaves beside a request; None where that is no answer worth having."""
    room = window_tokens - prompt_tokens - _SPARE_TOKENS
    return room if room >= bounds.output_tokens_least else None
