"""Does a request fit what a model accepts? Asked before it is sent, by estimate.

A request that does not fit is refused here in the same form as a provider would refuse it, so that there is one way of
recovering and not two.
"""

import msgspec

from holdfast.core.limits.bounds import Bounds
from holdfast.core.limits.sizing import bytes_of_request, media_of_request, tokens_of_request
from holdfast.types.faults import Confidence, Fault, FaultKind, Sent, Unit
from holdfast.types.limits import Calibration, Limits
from holdfast.types.messages import Request

# What a dialect that must name a number asks for where nobody says how much.
_OUTPUT_TOKENS_USUAL = Bounds().output_tokens_reserved


class Sizes(msgspec.Struct, frozen=True):
    """What a request comes to, by estimate. `tokens` is raw: what a model counts for it is its calibration's to say."""

    tokens: int
    wire_bytes: int
    media_count: int
    media_bytes_largest: int
    media_pixels_largest: int


def measure(request: Request) -> Sizes:
    """Return what a request comes to."""
    media = media_of_request(request)
    return Sizes(
        tokens=tokens_of_request(request),
        wire_bytes=bytes_of_request(request),
        media_count=media.count,
        media_bytes_largest=media.bytes_largest,
        media_pixels_largest=media.pixels_largest,
    )


def misfit(sizes: Sizes, limits: Limits, calibration: Calibration, bounds: Bounds) -> Fault | None:
    """Return why a request would be refused, or None where nothing is known against it."""
    tokens = calibration.upper(sizes.tokens)
    room = None if limits.window_tokens is None else limits.window_tokens - output_reserved(limits, bounds)
    checks = (
        (FaultKind.TOKEN_OVERFLOW, Unit.TOKENS, tokens, room),
        (FaultKind.WIRE_OVERFLOW, Unit.BYTES, sizes.wire_bytes, limits.wire_bytes_max or bounds.wire_bytes_max),
        (FaultKind.MEDIA_OVERFLOW, Unit.COUNT, sizes.media_count, limits.media_count_max),
        (FaultKind.MEDIA_OVERFLOW, Unit.BYTES, sizes.media_bytes_largest, limits.media_bytes_max),
        (FaultKind.MEDIA_OVERFLOW, Unit.PIXELS, sizes.media_pixels_largest, limits.media_pixels_max),
    )
    for kind, unit, found, limit in checks:
        if limit is not None and found > limit:
            return Fault(kind, Confidence.LIKELY, limit=limit, requested=found, unit=unit)
    return None


def exceeds_alone(sizes: Sizes, limits: Limits, calibration: Calibration, bounds: Bounds) -> bool:
    """Return whether a request without a single message is too large already. By the likeliest count, not the worst."""
    window, wire = limits.window_tokens, limits.wire_bytes_max or bounds.wire_bytes_max
    return sizes.wire_bytes > wire or (window is not None and calibration.estimate(sizes.tokens) >= window)


def output_reserved(limits: Limits, bounds: Bounds) -> int:
    """Return how many tokens of the window are kept free for the answer: at most a quarter of it."""
    wanted = min(bounds.output_tokens_reserved, limits.output_tokens_max or bounds.output_tokens_reserved)
    return wanted if limits.window_tokens is None else min(wanted, limits.window_tokens // 4)


def output_tokens_max(sizes: Sizes, limits: Limits, calibration: Calibration) -> int | None:
    """Return how much output to ask for: all the model may write, clamped to what the window has left.

    None leaves it to the dialect, which may have to name a number; where the window has less left, it is told so.
    """
    if limits.window_tokens is None:
        return limits.output_tokens_max
    left = max(1, limits.window_tokens - calibration.upper(sizes.tokens))
    if limits.output_tokens_max is None:
        return left if left < _OUTPUT_TOKENS_USUAL else None
    return min(limits.output_tokens_max, left)


class Before(msgspec.Struct, frozen=True):
    """What earlier calls say about a request: what the model reports, what it took, what the session's last one had."""

    reports_all_read: bool = True
    accepted_tokens: int = 0
    # By estimate; 0: none was answered yet.
    answered_tokens: int = 0
    # Of the last that the same model answered: its raw estimate, and what the model reported; 0: nothing.
    answered_raw: int = 0
    answered_reported: int = 0
    # Nothing but text and calls: what images and thinking count for, and for how long, is not for us to foresee.
    is_plain: bool = False


NOTHING_BEFORE = Before()
# A request that is half as large again as the last one that was answered, and by more than a long message, is the
# likeliest reason why the next is refused without a word.
_GROWN_SHARE, _GROWN_TOKENS = 1.5, 2_000
# A message of this length is counted to within half of our estimate, whatever it says.
_ADDED_TOKENS = 300


def sent(sizes: Sizes, limits: Limits, calibration: Calibration, before: Before = NOTHING_BEFORE) -> Sent:
    """Return what the classifier should know of the request that was refused."""
    tokens, answered = calibration.estimate(sizes.tokens), before.answered_tokens
    return Sent(
        tokens=tokens,
        wire_bytes=sizes.wire_bytes,
        media_count=sizes.media_count,
        window_tokens=limits.window_tokens,
        wire_bytes_max=limits.wire_bytes_max,
        reports_all_read=before.reports_all_read,
        tokens_least=_least(sizes, calibration, before) if before.is_plain else None,
        has_grown=0 < answered <= min(tokens / _GROWN_SHARE, tokens - _GROWN_TOKENS),
    )


def _least(sizes: Sizes, calibration: Calibration, before: Before) -> int | None:
    """Return what a model hardly reports less than for a request that it reads whole; None where nobody can say.

    By how well its count is known. And by the request before: what was added to that one must be seen in the count, so
    that a window that is passed in small steps is noticed before the calibration follows it.
    """
    known: list[int] = []
    least = calibration.lower(sizes.tokens)
    if least is not None and least > before.accepted_tokens:
        # What was read whole once is not cut.
        known.append(least)
    added = round(calibration.scale * (sizes.tokens - before.answered_raw))
    if before.answered_reported and added >= _ADDED_TOKENS:
        known.append(before.answered_reported + added // 2)
    return max(known, default=None)


# --- How much output to ask for instead, where a refusal says that it was too much.


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
