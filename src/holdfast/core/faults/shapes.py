"""Classify sentences by their form where a misreading would teach a wrong limit or compact in vain.

The first form that matches counts. Everything else is left to the model.
"""

from collections.abc import Callable

import msgspec

from holdfast.core.faults import codes
from holdfast.core.faults.body import Evidence
from holdfast.core.faults.numbers import stated
from holdfast.core.text.patterns import Pattern
from holdfast.types.faults import Confidence, FaultKind, Unit

K = FaultKind


class Finding(msgspec.Struct, frozen=True):
    """A kind with its confidence, before numbers and delays are parsed."""

    kind: FaultKind
    confidence: Confidence
    second: FaultKind | None = None
    unit: Unit | None = None
    has_numbers: bool = False


# Sentences about a limit of the output, unless they also mention the prompt, the window or a sum.
_OUTPUT_CAP = Pattern(
    r"max_?(?:new_?|completion_?|output_?)?tokens?(?:_to_sample)?(?![a-z_])|max_?outputtokens|num_predict"
    r"|max (?:new|completion|output) tokens|(?:output|completion) (?:tokens|length)|maximum tokens you requested"
    r"|max(?:imum)? output|max tokens must"
)
_NOT_OUTPUT = Pattern(
    r"context|window|n_ctx|prompt|inputs? (?:tokens?|length|of \d|and (?!try)|plus|\+)|messages|total|got -\d"
    r"|along with|combined|budget_tokens|thinking"
)
# A sentence that begins with the limit of the output and states a number is about that limit, with any comparison.
_CAP_FIRST = Pattern(
    r"(?:^|[.:] )(?:invalid )?max_(?:completion_|output_|new_)?tokens\b[^.]{0,20}(?:must|should|cannot)\b[^.]{0,10}"
    r"(?:<|less|at most|between|exceed|no more|within)(?![^.]{0,60}(?:prompt|inputs?|messages|budget)(?![a-z]))"
    r"[^.]{0,30}\d"
)
# The prompt leaves less than nothing for the output.
_NO_ROOM = Pattern(r"must be at least ?1, got -\d")
_CHARACTERS = Pattern(r"(?:characters|chars)(?![a-z])|string (?:is )?too long|string (?:value )?length|maxlength|字符")
_PER_TIME = Pattern(
    r"(?:tokens?|requests?|calls|queries|images)[ _-]?(?:per|/)[ _-]?(?:min|sec|hour|day)"
    r"|(?<![a-z])(?:tp[md]|rp[md]|qps)(?![a-z])|please wait"
)
_PLAN = Pattern(r"per[ _-]?(?:month|week)|usage (?:limit|quota)|credits|billing")
_RATE = Pattern(
    r"per[ _-]?(?:min|sec|hour|day|month)|(?<![a-z])(?:tp[md]|rp[md])(?![a-z])|rate.?limit|credits|quota"
    r"|slow down|/ ?(?:min|sec)"
)
_PROMPT_TOO_LONG = Pattern(
    r"(?:prompt|context|conversation) (?:is |was |length )?too (?:long|large|big)"
    r"|(?:input|prompt) length (?:should|must|exceed)"
)
_COUNTED_OTHERWISE = Pattern(
    r"bytes?(?![a-z])|characters|chars(?![a-z])|\d ?[mk]i?b(?![a-z])|image|audio|video|pdf|字符"
)
_MEDIA = Pattern(r"image|audio|video|pdf|media(?! type)|pixel")
_TOO_LONG = Pattern(
    r"too (?:long|large|big|many)|exceed|at most|max|limit|less than|longer than|more than|or less|under|超"
)
_MEMORY = Pattern(r"(?:system|gpu|cuda|video|available|out of|host)\W{1,2}memory|memory (?:error|required)|显存|内存")
# Parameters by name: a smaller conversation would be rejected as well.
_SETTING = Pattern(
    r"(?<![a-z_])(?:logit_bias|stop[ _](?:tokens?|sequences?|token_ids|words)|safety_identifier|prompt_cache_key"
    r"|response_format|json_schema|input_schema|temperature|top_[pk]|(?:frequency|presence)_penalty)(?![a-z])"
)
_WINDOW = Pattern(r"context|window|n_ctx")
_LIST_LENGTH = Pattern(
    r"array|(?<![a-z])(?:items|elements|entries)(?![a-z])"
    r"|(?:too many|number of|\d) (?:messages|tools|texts|functions|documents|inputs)(?![a-z])|batch[ -]size"
)
_UNPAID = 402


def unit_of(kind: FaultKind, evidence: Evidence) -> Unit | None:
    """Return the unit of an overflow, by the words beside its numbers; a media's unit depends on the numbers."""
    is_chars = _CHARACTERS.search(evidence.text) is not None and "token" not in evidence.text
    if kind is K.TOKEN_OVERFLOW:
        return Unit.CHARS if is_chars else Unit.TOKENS
    if kind is not K.WIRE_OVERFLOW:
        return None
    is_list = any("array" in code for code in evidence.codes) or _LIST_LENGTH.search(evidence.text) is not None
    return Unit.CHARS if is_chars else Unit.COUNT if is_list else Unit.BYTES


def _is_broken(evidence: Evidence) -> bool:
    status = evidence.status or codes.OK
    return status == codes.OK or status >= codes.BROKEN_FROM


def _out_of_memory(evidence: Evidence) -> bool:
    return _is_broken(evidence) and _MEMORY.search(evidence.text) is not None


def _is_rate(evidence: Evidence) -> bool:
    return _PER_TIME.search(evidence.text) is not None and not _PLAN.search(evidence.text)


def _may_be_rate(evidence: Evidence) -> bool:
    return codes.BY_STATUS.get(evidence.status or 0) is K.RATE_LIMIT or _RATE.search(evidence.text) is not None


def _is_setting(evidence: Evidence) -> bool:
    return _SETTING.search(evidence.text) is not None and not _WINDOW.search(evidence.text)


def _is_output_cap(evidence: Evidence) -> bool:
    if _CAP_FIRST.search(evidence.text):
        return True
    return _OUTPUT_CAP.search(evidence.text) is not None and not _NOT_OUTPUT.search(evidence.text)


def _is_long_prompt(evidence: Evidence) -> bool:
    return _PROMPT_TOO_LONG.search(evidence.text) is not None and not _COUNTED_OTHERWISE.search(evidence.text)


def _long_prompt(evidence: Evidence) -> Finding:
    # A gateway's 413 for a long prompt may also count bytes.
    by_status = codes.BY_STATUS.get(evidence.status or 0)
    second = by_status if by_status is K.WIRE_OVERFLOW else None
    return Finding(K.TOKEN_OVERFLOW, Confidence.LIKELY, second, Unit.TOKENS, has_numbers=True)


# Each form with its result; None: the model decides, and no later form is tried.
_FORMS: tuple[tuple[Callable[[Evidence], bool], Finding | None], ...] = (
    (_out_of_memory, Finding(K.TRANSIENT, Confidence.LIKELY)),
    # A smaller request is not paid for either.
    (
        lambda evidence: evidence.status == _UNPAID,
        Finding(K.QUOTA, Confidence.LIKELY, K.RATE_LIMIT, Unit.TOKENS, has_numbers=True),
    ),
    (_is_rate, Finding(K.RATE_LIMIT, Confidence.LIKELY, unit=Unit.TOKENS, has_numbers=True)),
    (_may_be_rate, None),
    (
        lambda evidence: _NO_ROOM.search(evidence.text) is not None,
        Finding(K.TOKEN_OVERFLOW, Confidence.LIKELY, unit=Unit.TOKENS),
    ),
    (_is_setting, Finding(K.BAD_REQUEST, Confidence.LIKELY)),
    (_is_output_cap, Finding(K.BAD_REQUEST, Confidence.LIKELY, unit=Unit.TOKENS, has_numbers=True)),
)


def by_shape(evidence: Evidence) -> Finding | None:
    """Classify a sentence by its form; None if the model decides."""
    for matches, finding in _FORMS:
        if matches(evidence):
            return finding
    return _long_prompt(evidence) if _is_long_prompt(evidence) else _by_length(evidence)


def _by_length(evidence: Evidence) -> Finding | None:
    """Classify a stated length in characters or items: of the request, or of a name or an id in it."""
    unit = unit_of(K.WIRE_OVERFLOW, evidence)
    if unit not in {Unit.CHARS, Unit.COUNT} or _MEDIA.search(evidence.text) or "token" in evidence.text:
        return None
    numbers = stated(evidence.text, evidence.numbers, unit)
    if numbers.limit is None or not _TOO_LONG.search(evidence.text):
        return None
    return Finding(K.WIRE_OVERFLOW, Confidence.LIKELY, K.BAD_REQUEST, unit, has_numbers=True)
