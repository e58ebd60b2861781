"""Learn a model's real limits and its token calibration from calls.

Declared limits are often wrong, missing, or not those of a proxy in between. An explicit refusal lowers a limit, and a
reply raises it (`core/limits/claims.py`). A suspicion changes one request of one session; it becomes a claim only if
several independent ones agree. All is stored per endpoint and model, for all sessions: each limit is exceeded once.
"""

from msgspec.structs import replace

from holdfast.core.faults.replies import NEAR_LIMIT
from holdfast.core.limits.claims import (
    ACCEPTED_SHARE,
    LIMIT_FIELDS,
    REFUSED,
    REQUIRED,
    Call,
    accepted_size,
    after_accepted,
    after_claim,
    claim_of,
    enforced,
    refused_limit,
    window_min,
    with_claim,
    without_claim,
)
from holdfast.core.limits.fit import Before, Sizes
from holdfast.core.limits.parameters import EFFORT
from holdfast.core.limits.sizing import calibrate
from holdfast.types.faults import Fault, FaultKind, Unit
from holdfast.types.limits import Calibration, Claim, Evidence, Learned, Limits, Observation
from holdfast.types.messages import Usage

# Suspicions that must agree before they become a claim, and how many are kept.
_AGREEING, _OBSERVATIONS_MAX = 3, 8
# Usage of truncated requests differs by the template and by a message that is dropped as a whole; sizes of requests
# refused without a reason only bracket the limit.
_AGREE_RATIO = {Evidence.OBSERVED: 1.05, Evidence.UNEXPLAINED: 1.25}
# With a cache, usage may be what was added: if each request adds the same, only the cache explains equal numbers.
_ADDED_RATIO_MIN = 1.25
# A suspicion never sets a limit below this share of the declared window.
_DECLARED_SHARE = 0.5
# Usage below these tokens is that of a cached prefix. A cache misses up to this many tokens of the last request.
_READ_TOKENS_MIN, _CACHE_BLOCK_TOKENS = 1_000, 1_024
# From this size on, a model's count of a message is at least a tenth of our estimate, also of one repeated letter.
_ADDED_TOKENS, _ADDED_SHARE = 300, 0.1
# Two vocabularies differ by less on the same text.
_VOCABULARY_RATIO = 2.5
# Usage of a growing request never falls below this share, truncated or not, unless it leaves out cached tokens.
_FALLEN_SHARE = 0.7


def effective(declared: Limits, learned: Learned, now: float = 0.0) -> Limits:
    """Return the limits in force: the smaller of declared and claimed, but never less than an accepted size.

    A claim that is due for a test at the time `now` sets a higher limit.
    """
    limits: dict[str, int | None] = {}
    for field in LIMIT_FIELDS:
        claim, stated = claim_of(learned, field), getattr(declared, field)
        claimed = None if claim is None else enforced(claim, now)
        known: list[int] = [limit for limit in (stated, claimed) if limit is not None]
        limits[field] = max(min(known), accepted_size(learned, field)) if known else None
    return Limits(**limits)


# --- Replies ---


def after_reply(learned: Learned, usage: Usage | None, call: Call) -> Learned:
    """Update the learned limits after an accepted request."""
    sizes = call.sizes
    learned = replace(learned, accepted_wire_bytes=max(learned.accepted_wire_bytes, sizes.wire_bytes))
    learned = after_accepted(learned, "wire_bytes_max", sizes.wire_bytes)
    learned = after_accepted(learned, "media_count_max", sizes.media_count)
    learned = after_accepted(learned, "media_bytes_max", sizes.media_bytes_largest)
    learned = after_accepted(learned, "media_pixels_max", sizes.media_pixels_largest)
    if usage is None or usage.input_tokens <= 0:
        return learned
    learned = replace(learned, reports_all_read=_reports_all(learned, usage.input_tokens, call))
    calibration = learned.calibration
    if _is_whole(learned, usage.input_tokens, call):
        calibration = calibrate(calibration, estimated=sizes.tokens, reported=usage.input_tokens)
    if calibration.readings <= learned.calibration.readings:
        # The calibration rejected the reading as implausible, so it does not count as accepted either.
        return replace(learned, calibration=calibration)
    read = max(learned.accepted_tokens, usage.input_tokens)
    learned = after_accepted(replace(learned, calibration=calibration, accepted_tokens=read), "window_tokens", read)
    # What was read is no window.
    observations = tuple(one for one in learned.observations if one.value >= read)
    return replace(learned, observations=observations)


def _is_whole(learned: Learned, read: int, call: Call) -> bool:
    """Return whether usage may count the whole request, so that it tells how the model counts."""
    if call.suspected or (call.added > 0 and read < ACCEPTED_SHARE * call.reported_before):
        return False
    return learned.reports_all_read or read >= ACCEPTED_SHARE * learned.calibration.estimate(call.sizes.tokens)


def _reports_all(learned: Learned, read: int, call: Call) -> bool:
    """Return whether the model's usage counts cached tokens too, by two requests of one session that grows."""
    before, added = call.reported_before, call.added
    if not before or added < _ADDED_TOKENS:
        return learned.reports_all_read
    if read < _FALLEN_SHARE * before and _may_be_added(read, added):
        return False
    return learned.reports_all_read or (read >= before + added // 2 and not _may_be_added(read, added))


def _may_be_added(read: int, added: int) -> bool:
    """Return whether usage may count only the part of a request that was not cached."""
    return read <= 1.5 * added + _CACHE_BLOCK_TOKENS


# --- Suspicions ---


def suspected_tokens(
    usage: Usage | None, sizes: Sizes, calibration: Calibration, before: Before, declared: Limits
) -> int:
    """Return the tokens that a model seems to have read of a larger request; 0 if it seems to have read all.

    Compared are readings of one session, not estimates: usage that stays the same while the request grows by another
    amount, or far less than another model's for the same messages.
    """
    if usage is None or not before.is_plain or not before.reports_all_read:
        return 0
    read = usage.input_tokens
    least = max(_DECLARED_SHARE * (declared.window_tokens or 0), _FALLEN_SHARE * before.accepted_tokens)
    if read < max(least, _READ_TOKENS_MIN):
        return 0
    if before.answered_reported:
        added = round(calibration.scale * (sizes.tokens - before.answered_raw))
        is_stuck = read + usage.cached_input_tokens - before.answered_reported <= _ADDED_SHARE * added
        is_level = read >= _FALLEN_SHARE * before.answered_reported and not _may_be_added(read, added)
        return read if added >= _ADDED_TOKENS and is_stuck and is_level else 0
    return read if read * _VOCABULARY_RATIO < before.other_reported else 0


def after_suspicion(learned: Learned, declared: Limits, call: Call) -> Learned:
    """Update the learned limits after a request that the model seems not to have read completely."""
    least = max(learned.accepted_tokens, _DECLARED_SHARE * (declared.window_tokens or 0))
    if not call.suspected or call.suspected < least or call.added < _ADDED_TOKENS:
        return learned
    return _observed(learned, Observation(Evidence.OBSERVED, call.suspected, call.added, call.record), call.at)


def after_guess(learned: Learned, declared: Limits, call: Call) -> Learned:
    """Update the learned limits after an unexplained error was taken for an overflow, and a smaller request succeeded.

    Nothing is learned if the request was far below a known window: the error may have had another cause.
    """
    window, limit = effective(declared, learned).window_tokens, int(call.guessed * ACCEPTED_SHARE)
    least = max(window_min(declared), int(_DECLARED_SHARE * (declared.window_tokens or 0)), learned.accepted_tokens)
    is_plausible = limit >= least and (window is None or call.guessed >= NEAR_LIMIT * window)
    if not is_plausible or learned.calibration.estimate(call.sizes.tokens) > limit:
        return learned
    return _observed(learned, Observation(Evidence.UNEXPLAINED, limit, record=call.record), call.at)


def _observed(learned: Learned, seen: Observation, at: float) -> Learned:
    """Add a suspicion, and claim a window if enough of them agree on it; one confirms a known claim."""
    claim, ratio = claim_of(learned, "window_tokens"), _AGREE_RATIO[seen.evidence]
    if claim is not None and claim.value <= seen.value * ratio:
        if not _is_near(claim.value, seen.value, ratio):
            # Above the claim nothing is news.
            return learned
        return with_claim(learned, replace(claim, confirmed=claim.confirmed + 1, confirmed_at=at, cuts=0))
    known = (*learned.observations, seen)[-_OBSERVATIONS_MAX:]
    agreeing = [one for one in known if one.evidence is seen.evidence and _is_near(one.value, seen.value, ratio)]
    if len({one.record for one in agreeing}) < _AGREEING or not _vary(agreeing):
        return replace(learned, observations=known)
    return with_claim(replace(learned, observations=()), _claim(seen.evidence, agreeing, at))


def _claim(evidence: Evidence, agreeing: list[Observation], at: float) -> Claim:
    # A server that drops whole messages may read more of one request than of another.
    values = [one.value for one in agreeing]
    value = max(values) if evidence is Evidence.OBSERVED else min(values)
    records = tuple(one.record for one in agreeing if one.record is not None)[-_AGREEING:]
    return Claim("window_tokens", value, evidence, at, at, records=records)


def _is_near(one: int, other: int, ratio: float) -> bool:
    return other <= one * ratio and one <= other * ratio


def _vary(observations: list[Observation]) -> bool:
    """Return whether requests grew by different amounts; requests refused without a reason need not."""
    added = [one.added for one in observations]
    return not min(added) or max(added) >= _ADDED_RATIO_MIN * min(added)


# --- Refusals ---


def after_fault(learned: Learned, declared: Limits, fault: Fault, call: Call) -> Learned:
    """Update the learned limits after an error response. A guessed fault teaches nothing."""
    claim = refused_limit(fault, declared, learned, call)
    if claim is None:
        return learned
    stated = claim.evidence is Evidence.STATED and fault.kind is FaultKind.TOKEN_OVERFLOW
    if stated and fault.unit is Unit.TOKENS and fault.requested is not None:
        # Requested output counts against the window, but is not input.
        read = fault.requested - (fault.output_requested or 0)
        calibration = calibrate(learned.calibration, estimated=call.sizes.tokens, reported=read)
        counts = learned.counts_output or fault.output_requested is not None
        learned = replace(learned, calibration=calibration, counts_output=counts)
    return after_claim(learned, claim)


# --- Parameters ---


def after_effort(learned: Learned, call: Call) -> Learned:
    """Update what is learned about the reasoning effort after an answer."""
    match call.effort:
        case "":
            return learned
        case "sent":
            return _without_refusal(learned, EFFORT)
        case how:
            return _with_parameter(learned, EFFORT, REFUSED if how == "left_out" else REQUIRED, "", call)


def after_parameters(learned: Learned, call: Call) -> Learned:
    """Update what is learned about refused parameters after an answer: one that was sent is not refused."""
    for name, said in call.left_out:
        learned = _with_parameter(learned, name, REFUSED, said, call)
    for name in sorted(call.tested):
        learned = _without_refusal(learned, name)
    return learned


def _without_refusal(learned: Learned, name: str) -> Learned:
    claim = claim_of(learned, name)
    return without_claim(learned, name) if claim is not None and claim.value == REFUSED else learned


def _with_parameter(learned: Learned, name: str, value: int, said: str, call: Call) -> Learned:
    claim = claim_of(learned, name)
    if claim is not None and claim.value == value:
        return with_claim(learned, replace(claim, confirmed=claim.confirmed + 1, confirmed_at=call.at))
    records = () if call.record is None else (call.record,)
    return with_claim(learned, Claim(name, value, Evidence.LEFT_OUT, call.at, call.at, records=records, said=said))


# --- Publishing ---


def is_news(before: Learned, after: Learned) -> bool:
    """Return whether a change is worth storing for other workers.

    Claims always; accepted sizes, calibration and counts of smaller requests only after a significant change, because
    every call moves them.
    """
    quiet = replace(
        after,
        calibration=before.calibration,
        accepted_tokens=before.accepted_tokens,
        accepted_wire_bytes=before.accepted_wire_bytes,
        claims=_without_counts(after.claims),
    )
    if quiet != replace(before, claims=_without_counts(before.claims)):
        return True
    readings, readings_before = after.calibration.readings, before.calibration.readings
    # Fewer than before: the model under this name changed, and the calibration was reset.
    has_moved = readings < readings_before or readings >= 2 * max(readings_before, 1)
    has_grown = (
        after.accepted_tokens > 1.25 * before.accepted_tokens
        or after.accepted_wire_bytes > 1.25 * before.accepted_wire_bytes
    )
    cuts = zip(before.claims, after.claims, strict=True)
    has_cut = any(new.cuts >= 2 * max(old.cuts, 1) for old, new in cuts)
    return has_moved or has_grown or has_cut


def _without_counts(claims: tuple[Claim, ...]) -> tuple[Claim, ...]:
    return tuple(replace(claim, cuts=0) for claim in claims)
