"""Learn a model's real limits and its token calibration from calls.

Declared limits are often wrong, missing, or not those of a proxy in between. An error response shows that a size is too
large, a reply that a size is accepted. Both are stored per endpoint and model, for all sessions, so each limit is
exceeded once.
"""

from msgspec.structs import replace

from holdfast.core.faults.replies import NEAR_LIMIT, is_short
from holdfast.core.limits.fit import Before, Sizes, cap_stated, sent
from holdfast.core.limits.sizing import calibrate
from holdfast.types.faults import Confidence, Fault, FaultKind, Unit
from holdfast.types.limits import Learned, Limits
from holdfast.types.messages import Usage

# Share of a rejected size that is assumed to fit if the error states no number. The estimate itself is off by about a
# tenth.
_ACCEPTED_SHARE = 0.9
# Smallest window learned from an error without numbers. No chat model has less, so rejection of a smaller request has
# another cause: a proxy that reports every failure as too long, or that adds a long prompt.
_WINDOW_MIN = 2_048
# Nor below this part of the declared window: local servers run a model of 131,072 tokens with 4,096 by default. For a
# very small declared window, not below half of it.
_DECLARED_DIVISOR, _SMALL_DIVISOR = 32, 2
# Reported usage of two truncated requests differs by one message at most; a larger ratio was not truncation.
_READ_RATIO_MAX = 1.25


def effective(declared: Limits, learned: Learned) -> Limits:
    """Return the limits in force: the smaller of declared and learned, but never less than an accepted size."""
    return replace(
        declared,
        window_tokens=_smaller(declared.window_tokens, learned.window_tokens, learned.accepted_tokens),
        output_tokens_max=_smaller(declared.output_tokens_max, learned.output_tokens_max),
        wire_bytes_max=_smaller(declared.wire_bytes_max, learned.wire_bytes_max, learned.accepted_wire_bytes),
        media_count_max=_smaller(declared.media_count_max, learned.media_count_max),
        media_bytes_max=_smaller(declared.media_bytes_max, learned.media_bytes_max),
        media_pixels_max=_smaller(declared.media_pixels_max, learned.media_pixels_max),
    )


def _smaller(declared: int | None, learned: int | None, accepted: int = 0) -> int | None:
    known = [limit for limit in (declared, learned) if limit is not None]
    return max(min(known), accepted) if known else None


def after_reply(learned: Learned, usage: Usage | None, sizes: Sizes) -> Learned:
    """Update the learned limits after an accepted request."""
    accepted = replace(learned, accepted_wire_bytes=max(learned.accepted_wire_bytes, sizes.wire_bytes))
    if usage is None or usage.input_tokens <= 0:
        return accepted
    calibration = calibrate(learned.calibration, estimated=sizes.tokens, reported=usage.input_tokens)
    if calibration.readings <= learned.calibration.readings:
        # The calibration rejected the reading as implausible, so it does not count as accepted either.
        return replace(accepted, calibration=calibration)
    return replace(accepted, calibration=calibration, accepted_tokens=max(learned.accepted_tokens, usage.input_tokens))


def after_suspicion(
    learned: Learned, suspected: Fault, usage: Usage | None, sizes: Sizes, *, is_cut: bool = False
) -> Learned:
    """Update the learned limits after a smaller request was answered that followed a suspected truncation.

    If the whole request was read now, the server truncated the previous one to its window. If again only a part was
    read, the reported usage is wrong and is ignored from now on. A reply that `is_cut` although less was sent teaches
    nothing about the window: the cause may be the model's output limit.
    """
    if usage is None or suspected.limit is None:
        return learned
    if is_short(usage.input_tokens, sent(sizes, Limits(), learned.calibration, Before(is_plain=True))):
        return replace(learned, reports_all_read=False)
    if is_cut:
        return learned
    # A server that drops whole messages may read more of one request than of another.
    window = max(suspected.limit, learned.accepted_tokens)
    if window < _READ_RATIO_MAX * suspected.limit and usage.input_tokens <= suspected.limit:
        return replace(learned, window_tokens=_smaller(learned.window_tokens, window))
    return learned


def after_guess(learned: Learned, declared: Limits, guessed_tokens: int, sizes: Sizes) -> Learned:
    """Update the learned limits after an unexplained error was taken for an overflow, and a smaller request succeeded.

    Nothing is learned if the request was far below a known window: the error may have had another cause.
    """
    window, limit = effective(declared, learned).window_tokens, int(guessed_tokens * _ACCEPTED_SHARE)
    is_plausible = limit >= _window_min(declared) if window is None else guessed_tokens >= NEAR_LIMIT * window
    if not is_plausible or not learned.accepted_tokens <= limit or learned.calibration.estimate(sizes.tokens) > limit:
        return learned
    return replace(learned, window_tokens=_smaller(learned.window_tokens, limit))


def _window_min(declared: Limits) -> int:
    """Return the smallest window to learn from an error that states none."""
    window = declared.window_tokens
    return (
        _WINDOW_MIN if window is None else max(window // _DECLARED_DIVISOR, min(_WINDOW_MIN, window // _SMALL_DIVISOR))
    )


def after_fault(learned: Learned, declared: Limits, fault: Fault, sizes: Sizes) -> Learned:
    """Update the learned limits after a rejected request. A guessed fault teaches nothing."""
    if fault.confidence is Confidence.GUESS:
        return learned
    match fault.kind:
        case FaultKind.TOKEN_OVERFLOW:
            return _token_overflow(learned, declared, fault, sizes)
        case FaultKind.WIRE_OVERFLOW:
            stated = fault.limit if fault.unit is Unit.BYTES else None
            limit = _limit(stated, sizes.wire_bytes, learned.accepted_wire_bytes)
            return replace(learned, wire_bytes_max=_smaller(learned.wire_bytes_max, limit))
        case FaultKind.MEDIA_OVERFLOW:
            return _media_overflow(learned, fault, sizes)
        case FaultKind.BAD_REQUEST:
            return replace(learned, output_tokens_max=_smaller(learned.output_tokens_max, cap_stated(fault)))
        case _:
            return learned


def _token_overflow(learned: Learned, declared: Limits, fault: Fault, sizes: Sizes) -> Learned:
    stated = fault.limit if fault.unit is Unit.TOKENS else None
    if stated is not None and fault.requested is not None and not stated < fault.requested:
        # A limit that the request did not reach concerns something else.
        stated = None
    calibration = learned.calibration
    if stated is not None and fault.requested is not None:
        # Requested output counts against the window, but is not input.
        read = fault.requested - (fault.output_requested or 0)
        calibration = calibrate(calibration, estimated=sizes.tokens, reported=read)
    limit = _limit(stated, learned.calibration.estimate(sizes.tokens), learned.accepted_tokens)
    if limit != stated and limit is not None and limit < _window_min(declared):
        limit = None
    return replace(
        learned,
        calibration=calibration,
        window_tokens=_smaller(learned.window_tokens, limit),
        counts_output=learned.counts_output or fault.output_requested is not None,
    )


def _limit(stated: int | None, refused: int, accepted: int) -> int | None:
    """Return the limit that an error response implies; None if it contradicts an accepted request."""
    if stated is not None and stated > accepted:
        return stated
    below = int(refused * _ACCEPTED_SHARE)
    return below if below > accepted else None


def _media_overflow(learned: Learned, fault: Fault, sizes: Sizes) -> Learned:
    match fault.unit:
        case Unit.COUNT:
            limit = _limit(fault.limit, sizes.media_count, 0)
            return replace(learned, media_count_max=_smaller(learned.media_count_max, limit))
        case Unit.BYTES:
            limit = _limit(fault.limit, sizes.media_bytes_largest, 0)
            return replace(learned, media_bytes_max=_smaller(learned.media_bytes_max, limit))
        case Unit.PIXELS:
            limit = _limit(fault.limit, sizes.media_pixels_largest, 0)
            return replace(learned, media_pixels_max=_smaller(learned.media_pixels_max, limit))
        case _:
            return learned


def is_news(before: Learned, after: Learned) -> bool:
    """Return whether a change is worth storing for other workers.

    Limits always; accepted sizes and calibration only after a significant change, because every call moves them.
    """
    quiet = replace(
        after,
        calibration=before.calibration,
        accepted_tokens=before.accepted_tokens,
        accepted_wire_bytes=before.accepted_wire_bytes,
    )
    if quiet != before:
        return True
    readings, readings_before = after.calibration.readings, before.calibration.readings
    # Fewer than before: the model under this name changed, and the calibration was reset.
    has_moved = readings < readings_before or readings >= 2 * max(readings_before, 1)
    has_grown = (
        after.accepted_tokens > 1.25 * before.accepted_tokens
        or after.accepted_wire_bytes > 1.25 * before.accepted_wire_bytes
    )
    return has_moved or has_grown
