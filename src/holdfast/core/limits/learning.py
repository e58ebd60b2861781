"""What calls teach about a model: its real limits, and how it counts tokens.

Declared limits are often wrong, missing, or not those of the endpoint in between. A refusal teaches what is too much, a
reply what is not; both are kept per endpoint and model, for all sessions, so the same wall is run into once.
"""

from msgspec.structs import replace

from holdfast.core.faults.replies import NEAR_LIMIT, is_short
from holdfast.core.limits.fit import Before, Sizes, cap_stated, sent
from holdfast.core.limits.sizing import calibrate
from holdfast.types.faults import Confidence, Fault, FaultKind, Unit
from holdfast.types.limits import Learned, Limits
from holdfast.types.messages import Usage

# What is assumed to fit after a refusal that states no number: a tenth less than what was refused. The estimate itself
# is off by about as much.
_BELOW_REFUSED = 0.9
# What a refusal without numbers teaches is never below this. No model that holds a conversation was made with less, so
# where less is refused, something else is wrong: a proxy that calls every failure too long, or adds a long prompt.
_WINDOW_LEAST = 2_048
# Nor below this part of what is declared: local servers give a model of 131,072 tokens 4,096, unless they are told
# otherwise. And never below half of a window that is declared to be very small.
_DECLARED_PART, _SMALL_PART = 32, 2
# What a server reads of two requests that it cuts differs by a message at most; much more was no cut.
_READ_APART = 1.25


def effective(declared: Limits, learned: Learned) -> Limits:
    """Return what to go by: the smaller of declared and learned, but never less than what was accepted."""
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
    """Return what is known after a request of these sizes was accepted."""
    accepted = replace(learned, accepted_wire_bytes=max(learned.accepted_wire_bytes, sizes.wire_bytes))
    if usage is None or usage.input_tokens <= 0:
        return accepted
    calibration = calibrate(learned.calibration, estimated=sizes.tokens, reported=usage.input_tokens)
    if calibration.readings <= learned.calibration.readings:
        # Not plausible: neither the calibration nor we believe that this was really read.
        return replace(accepted, calibration=calibration)
    return replace(accepted, calibration=calibration, accepted_tokens=max(learned.accepted_tokens, usage.input_tokens))


def after_suspicion(
    learned: Learned, suspected: Fault, usage: Usage | None, sizes: Sizes, *, is_cut: bool = False
) -> Learned:
    """Return what is known after less was sent on a suspicion, and answered.

    If now everything was read, the suspicion was right: the request before was cut to the window, without a word. If
    again only a part was, the model's count is wrong and not its window, and nobody need suspect it any more. An answer
    that `is_cut` although less was sent says nothing about the window: the model may write no longer ones.
    """
    if usage is None or suspected.limit is None:
        return learned
    if is_short(usage.input_tokens, sent(sizes, Limits(), learned.calibration, Before(is_plain=True))):
        return replace(learned, reports_all_read=False)
    if is_cut:
        return learned
    # A server that drops whole messages may have read more of another request than of this one.
    window = max(suspected.limit, learned.accepted_tokens)
    if window < _READ_APART * suspected.limit and usage.input_tokens <= suspected.limit:
        return replace(learned, window_tokens=_smaller(learned.window_tokens, window))
    return learned


def after_guess(learned: Learned, declared: Limits, guessed_tokens: int, sizes: Sizes) -> Learned:
    """Return what is known after a request was refused without a word, taken for too large, and less was answered.

    Where the request was far from a window that is known, something else may have been the reason: nothing is learned.
    """
    window, limit = effective(declared, learned).window_tokens, int(guessed_tokens * _BELOW_REFUSED)
    is_plausible = limit >= _least(declared) if window is None else guessed_tokens >= NEAR_LIMIT * window
    if not is_plausible or not learned.accepted_tokens <= limit or learned.calibration.estimate(sizes.tokens) > limit:
        return learned
    return replace(learned, window_tokens=_smaller(learned.window_tokens, limit))


def _least(declared: Limits) -> int:
    """Return the smallest window that a refusal may teach which names none."""
    window = declared.window_tokens
    return _WINDOW_LEAST if window is None else max(window // _DECLARED_PART, min(_WINDOW_LEAST, window // _SMALL_PART))


def after_fault(learned: Learned, declared: Limits, fault: Fault, sizes: Sizes) -> Learned:
    """Return what is known after a request of these sizes was refused. A guess teaches nothing."""
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
        # A limit that the request did not even reach is about something else.
        stated = None
    calibration = learned.calibration
    if stated is not None and fault.requested is not None:
        # Output that was asked for counts against the window, but was not read.
        read = fault.requested - (fault.output_requested or 0)
        calibration = calibrate(calibration, estimated=sizes.tokens, reported=read)
    limit = _limit(stated, learned.calibration.estimate(sizes.tokens), learned.accepted_tokens)
    if limit != stated and limit is not None and limit < _least(declared):
        limit = None
    return replace(
        learned,
        calibration=calibration,
        window_tokens=_smaller(learned.window_tokens, limit),
        counts_output=learned.counts_output or fault.output_requested is not None,
    )


def _limit(stated: int | None, refused: int, accepted: int) -> int | None:
    """Return the limit that a refusal shows; None where it contradicts what was accepted before."""
    if stated is not None and stated > accepted:
        return stated
    below = int(refused * _BELOW_REFUSED)
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
    """Return whether something changed that others should know at once.

    Limits always; what was accepted and how tokens are counted only when it has moved enough to matter, because every
    call moves it a little.
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
    # Fewer than before: the model behind the name has changed, and counting started again.
    has_moved = readings < readings_before or readings >= 2 * max(readings_before, 1)
    has_grown = (
        after.accepted_tokens > 1.25 * before.accepted_tokens
        or after.accepted_wire_bytes > 1.25 * before.accepted_wire_bytes
    )
    return has_moved or has_grown
