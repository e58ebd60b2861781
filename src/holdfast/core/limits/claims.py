"""Rules for claims: which refusal may lower which limit, what confirms, contradicts and probes a claim, and its words.

A claim is a learned limit with its evidence. It is used to shrink requests before they are sent, so a wrong one costs
every session of the store: only numbers that agree with the request in kind, unit and size are believed, and each claim
is tested again after a while.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Literal

import msgspec
from msgspec.structs import replace

from holdfast.core.limits.fit import Sizes
from holdfast.types.faults import Confidence, Fault, FaultKind, Unit
from holdfast.types.limits import Calibration, Claim, Evidence, Learned, Limits, Support

# Share of a rejected size that is assumed to fit if the error states no number. The estimate is off by about a tenth.
ACCEPTED_SHARE = 0.9
# Smallest window learned from an error without numbers. No chat model has less, so rejection of a smaller request has
# another cause: a proxy that reports every failure as too long, or that adds a long prompt.
_WINDOW_MIN = 2_048
# Nor below this part of the declared window: local servers run a model of 131,072 tokens with 4,096 by default. For a
# very small declared window, not below half of it.
_DECLARED_DIVISOR, _SMALL_DIVISOR = 32, 2
# A model counts at most this many times our estimate, and a provider may add a hidden prompt of this many tokens.
_COUNT_RATIO, _HIDDEN_TOKENS = 3.0, 40_000
# Texts that compress well, such as one repeated letter, have this many times fewer tokens than estimated.
_OVERESTIMATE = 8.0
# Our sizes of bodies and images are exact up to escapes, base64 and the unit of a megabyte.
_SIZE_RATIO = 2.0
# Records named by a claim, and characters of the provider's message.
_RECORDS_MAX, _SAID_CHARS = 3, 200


class Call(msgspec.Struct, frozen=True):
    """Facts about one call that teach something: the size of the request, its place in the session, and the time."""

    sizes: Sizes
    # Requested output limit; 0: none.
    asked: int = 0
    at: float = 0.0
    record: Support | None = None
    # Tokens by which the request has grown since the last one of the session to this model, and the usage of that one;
    # 0: unknown.
    added: int = 0
    reported_before: int = 0
    # Tokens that the model seems to have read of a larger request; 0: all.
    suspected: int = 0
    # Estimated size of a request that was refused without a reason before this smaller one was answered; 0: none.
    guessed: int = 0
    # The reasoning effort was sent; or left out, or added, after the request was refused with or without it; "": none.
    effort: Literal["sent", "left_out", "added", ""] = ""
    # Parameters that were left out after they were refused, each with the provider's message; and parameters that were
    # sent to test the claim that they are refused.
    left_out: tuple[tuple[str, str], ...] = ()
    tested: frozenset[str] = frozenset()


class _Rule(msgspec.Struct, frozen=True):
    """How a refusal of one kind and unit teaches a limit."""

    field: str
    # The size of the request in this unit.
    sent: Callable[[Call, Calibration], int]
    # Smallest value that is believed if the error states it, and if it does not; None: it must be stated.
    stated_min: int
    unstated_min: int | None


def _tokens(call: Call, calibration: Calibration) -> int:
    return calibration.estimate(call.sizes.tokens)


# A refusal whose kind and unit have no row teaches nothing. A stated number below the smallest value is about something
# else, such as a count or a configured range. Without a number, a small body is rejected for another reason: the lowest
# limits in use are 1 MiB (the default of nginx) and a few hundred KiB.
RULES: Mapping[tuple[FaultKind, Unit | None], _Rule] = MappingProxyType(
    {
        (FaultKind.TOKEN_OVERFLOW, Unit.TOKENS): _Rule("window_tokens", _tokens, 128, _WINDOW_MIN),
        (FaultKind.TOKEN_OVERFLOW, None): _Rule("window_tokens", _tokens, 128, _WINDOW_MIN),
        (FaultKind.WIRE_OVERFLOW, Unit.BYTES): _Rule(
            "wire_bytes_max", lambda call, _: call.sizes.wire_bytes, 1_024, 64 * 2**10
        ),
        (FaultKind.WIRE_OVERFLOW, None): _Rule(
            "wire_bytes_max", lambda call, _: call.sizes.wire_bytes, 1_024, 64 * 2**10
        ),
        (FaultKind.MEDIA_OVERFLOW, Unit.COUNT): _Rule("media_count_max", lambda call, _: call.sizes.media_count, 0, 1),
        (FaultKind.MEDIA_OVERFLOW, Unit.BYTES): _Rule(
            "media_bytes_max", lambda call, _: call.sizes.media_bytes_largest, 1_024, 1_024
        ),
        (FaultKind.MEDIA_OVERFLOW, Unit.PIXELS): _Rule(
            "media_pixels_max", lambda call, _: call.sizes.media_pixels_largest, 256, 256
        ),
        (FaultKind.BAD_REQUEST, Unit.TOKENS): _Rule("output_tokens_max", lambda call, _: call.asked, 128, None),
    }
)
# Values of claims about a parameter.
REFUSED, REQUIRED = 0, 1
LIMIT_FIELDS = tuple(dict.fromkeys(rule.field for rule in RULES.values()))


def refused_limit(fault: Fault, declared: Limits, learned: Learned, call: Call) -> Claim | None:
    """Return the claim that an error response makes; None if it teaches nothing."""
    rule = RULES.get((fault.kind, fault.unit))
    if rule is None or fault.confidence is Confidence.GUESS:
        return None
    sent, accepted = rule.sent(call, learned.calibration), accepted_size(learned, rule.field)
    if fault.limit is not None:
        is_believed = rule.stated_min <= fault.limit and fault.limit > accepted and _agrees(fault, rule, sent, call)
        value, evidence = (fault.limit if is_believed else None), Evidence.STATED
    else:
        value, evidence = _below(sent, rule, declared, accepted, fault), Evidence.REFUSED
    if value is None:
        return None
    records = () if call.record is None else (call.record,)
    return Claim(rule.field, value, evidence, call.at, call.at, records=records, said=fault.said[:_SAID_CHARS])


def _agrees(fault: Fault, rule: _Rule, sent: int, call: Call) -> bool:
    """Return whether the numbers of an error response can be about this request."""
    limit, requested = fault.limit or 0, fault.requested
    match rule.field:
        case "output_tokens_max":
            # Without a requested limit the dialect or the server has a default, which only the error names.
            return limit < (requested or sent or limit + 1)
        case "window_tokens":
            return _window_agrees(limit, requested, fault.output_requested, sent, call.asked)
        case "media_count_max":
            return limit < sent and (requested is None or limit < requested <= sent)
        case _ if requested is None:
            return limit < sent * _SIZE_RATIO
        case _:
            return limit < requested and sent / _SIZE_RATIO <= requested <= sent * _SIZE_RATIO


def _window_agrees(limit: int, requested: int | None, output: int | None, sent: int, asked: int) -> bool:
    most = sent * _COUNT_RATIO + _HIDDEN_TOKENS
    if requested is None:
        # Below the requested output, the number may be the limit of the output.
        return asked <= limit < most
    if output is None and requested == asked:
        return False
    read = requested - (output or 0)
    return limit < requested and sent / _OVERESTIMATE <= read <= most


def _below(sent: int, rule: _Rule, declared: Limits, accepted: int, fault: Fault) -> int | None:
    """Return a size that may fit, for an error that calls the request too large without a number."""
    # The status 413 alone is explicit about bytes.
    is_explicit = fault.confidence is Confidence.CERTAIN or fault.kind is FaultKind.WIRE_OVERFLOW
    if rule.unstated_min is None or not is_explicit:
        return None
    least = window_min(declared) if rule.field == "window_tokens" else rule.unstated_min
    value = int(sent * ACCEPTED_SHARE)
    return value if value >= least and value > accepted else None


def window_min(declared: Limits) -> int:
    """Return the smallest window to learn from an error that states none."""
    window = declared.window_tokens
    return (
        _WINDOW_MIN if window is None else max(window // _DECLARED_DIVISOR, min(_WINDOW_MIN, window // _SMALL_DIVISOR))
    )


def accepted_size(learned: Learned, field: str) -> int:
    """Return the largest accepted size in the unit of a limit; 0: not kept."""
    return {"window_tokens": learned.accepted_tokens, "wire_bytes_max": learned.accepted_wire_bytes}.get(field, 0)


# --- The claims of a model ---


def claim_of(learned: Learned, field: str) -> Claim | None:
    """Return the claim of a limit or a parameter; one without evidence for a limit of an earlier version."""
    found = next((claim for claim in learned.claims if claim.limit == field), None)
    if field not in LIMIT_FIELDS:
        return found
    value: int | None = getattr(learned, field)
    if value is None or (found is not None and found.value == value):
        return found if value is not None else None
    return Claim(field, value, Evidence.INHERITED)


def all_claims(learned: Learned) -> tuple[Claim, ...]:
    """Return the claims of a model: limits first, then refused parameters."""
    limits = (claim_of(learned, field) for field in LIMIT_FIELDS)
    parameters = (claim for claim in learned.claims if claim.limit not in LIMIT_FIELDS)
    return (*(claim for claim in limits if claim is not None), *parameters)


def parameters(learned: Learned, now: float, value: int, *, due: bool = False) -> frozenset[str]:
    """Return the names of the parameters that a model refuses (REFUSED) or requires (REQUIRED); if `due`, to test."""
    claims = (claim for claim in learned.claims if claim.limit not in LIMIT_FIELDS)
    return frozenset(claim.limit for claim in claims if claim.value == value and is_due(claim, now) is due)


def with_claim(learned: Learned, claim: Claim) -> Learned:
    """Return the learned limits with a claim in place of an earlier one about the same limit."""
    others = tuple(one for one in learned.claims if one.limit != claim.limit)
    value = {claim.limit: claim.value} if claim.limit in LIMIT_FIELDS else {}
    return replace(learned, claims=(*others, claim), **value)


def without_claim(learned: Learned, field: str) -> Learned:
    """Return the learned limits without the claim of a limit or parameter."""
    value = {field: None} if field in LIMIT_FIELDS else {}
    return replace(learned, claims=tuple(one for one in learned.claims if one.limit != field), **value)


def after_claim(learned: Learned, claim: Claim) -> Learned:
    """Return the learned limits after a refusal claims a limit: a lower claim replaces the known one or confirms it."""
    known = claim_of(learned, claim.limit)
    if known is None:
        return with_claim(learned, claim)
    records = (*known.records, *(one for one in claim.records if one not in known.records))[-_RECORDS_MAX:]
    is_lower = claim.value < known.value
    # A number that the provider states replaces a value that was derived, also if it is higher.
    is_better = claim.evidence is Evidence.STATED and known.evidence is not Evidence.STATED
    if is_lower or is_better:
        return with_claim(learned, replace(claim, records=records))
    if claim.evidence is Evidence.STATED and claim.value > known.value:
        # Two different numbers: the newer one counts, and an error of the reader does not stay.
        return with_claim(learned, replace(claim, records=records, contradicted=known.contradicted + 1))
    at = known.at or claim.at
    confirmed = replace(known, at=at, confirmed_at=claim.at, confirmed=known.confirmed + 1, cuts=0, records=records)
    return with_claim(learned, confirmed)


def after_accepted(learned: Learned, field: str, size: int) -> Learned:
    """Return the learned limits after a request of this size was accepted: a claim below it is contradicted.

    A value that was derived from a rejected size is raised while it stays below that size; any other claim goes.
    """
    claim = claim_of(learned, field)
    if claim is None or size <= claim.value:
        return learned
    if claim.evidence is Evidence.REFUSED and size < claim.value / ACCEPTED_SHARE:
        return with_claim(learned, replace(claim, value=size, contradicted=claim.contradicted + 1))
    return without_claim(learned, field)


# --- Probes ---

_DAY = 86_400.0
# Seconds after which a claim is tested with a larger request, and the requests that it may make smaller before that. A
# number of the provider changes with a new model or plan; a derived one may be wrong from the start.
_PROBES: Mapping[Evidence, tuple[float, int]] = MappingProxyType(
    {
        Evidence.STATED: (30 * _DAY, 64),
        Evidence.REFUSED: (_DAY, 8),
        Evidence.OBSERVED: (_DAY, 8),
        Evidence.UNEXPLAINED: (_DAY, 8),
        Evidence.LEFT_OUT: (30 * _DAY, 0),
        Evidence.INHERITED: (0.0, 0),
    }
)
# Each confirmation doubles the time and the requests until the next probe, up to a month of a derived claim.
_DOUBLINGS_MAX = 5
# While it is tested, a claim counts this much more. A sixth of a small window is reserved for the output, and the
# estimate has a margin of a third at first: less would not lead to a request above the claim.
_PROBE_FACTOR = 2.5


def is_due(claim: Claim, now: float) -> bool:
    """Return whether a claim should be tested: not confirmed for long, or the reason for many smaller requests."""
    seconds, cuts = _PROBES[claim.evidence]
    factor: int = 2 ** min(claim.confirmed, _DOUBLINGS_MAX)
    is_costly = bool(cuts) and claim.cuts >= cuts * factor
    return is_costly or now - max(claim.at, claim.confirmed_at) > seconds * factor


def enforced(claim: Claim, now: float) -> int:
    """Return the limit that a claim sets now: more than its value while it is due for a test."""
    return int(claim.value * _PROBE_FACTOR) + 1 if is_due(claim, now) else claim.value


def after_cut(learned: Learned, declared: Limits, fault: Fault) -> Learned:
    """Return the learned limits after a request was made smaller, before it was sent, because of a limit."""
    rule = RULES.get((fault.kind, fault.unit))
    claim = claim_of(learned, rule.field) if rule is not None else None
    if claim is None or claim.value >= (getattr(declared, claim.limit) or claim.value + 1):
        return learned
    return with_claim(learned, replace(claim, cuts=claim.cuts + 1))


# --- Words ---

_NAMES = {
    "window_tokens": ("takes at most {:,} tokens", "tokens"),
    "output_tokens_max": ("writes at most {:,} tokens", "tokens"),
    "wire_bytes_max": ("takes at most {:,} bytes per request", "bytes"),
    "media_count_max": ("takes at most {:,} images per request", "images"),
    "media_bytes_max": ("takes images of at most {:,} bytes", "bytes"),
    "media_pixels_max": ("takes images of at most {:,} pixels a side", "pixels"),
}
_REASONS = {
    Evidence.STATED: "the provider stated this number when it refused a larger request",
    Evidence.REFUSED: "the provider refused a request as too large without a number; this is a tenth below its size",
    Evidence.OBSERVED: "growing requests were reported with this same number of tokens, so the rest was cut in silence",
    Evidence.UNEXPLAINED: "larger requests were refused without a reason several times, and smaller ones answered",
    Evidence.LEFT_OUT: "the provider refused a request, and answered it when only this was changed",
    Evidence.INHERITED: "an earlier version learned it and kept no evidence; the next large request tests it",
}


def describe(claim: Claim) -> str:
    """Return a claim and its evidence in words."""
    named = _NAMES.get(claim.limit)
    said = f" ({claim.said!r})" if claim.said else ""
    counts = [f"confirmed {claim.confirmed} times"] if claim.confirmed else []
    counts += [f"contradicted {claim.contradicted} times"] if claim.contradicted else []
    counts += [f"made {claim.cuts} requests smaller since"] if claim.cuts else []
    seen = [f"{one.session} record {one.seq}" for one in claim.records]
    tail = "; ".join([*counts, *([f"see {', '.join(seen)}"] if seen else [])])
    verb = "refuses" if claim.value == REFUSED else "requires"
    what = named[0].format(claim.value) if named else f"{verb} the parameter {claim.limit}"
    return f"{what}: {_REASONS[claim.evidence]}{said}{'; ' + tail if tail else ''}"


class ClaimInWords(msgspec.Struct, frozen=True):
    """A claim for people: its limit, value, unit and evidence, and all of it in words."""

    limit: str
    value: int
    unit: str
    evidence: Evidence
    # Seconds since the epoch; 0: not known.
    at: float
    confirmed_at: float
    confirmed: int
    contradicted: int
    records: tuple[Support, ...]
    words: str


def in_words(claim: Claim) -> ClaimInWords:
    """Return a claim for people."""
    named = _NAMES.get(claim.limit)
    return ClaimInWords(
        claim.limit,
        claim.value,
        named[1] if named else "parameter",
        claim.evidence,
        claim.at,
        claim.confirmed_at,
        claim.confirmed,
        claim.contradicted,
        claim.records,
        describe(claim),
    )
