"""Classify sentences by their form where a misreading would teach a wrong limit or compact in vain.

The first rule that matches counts. Everything else is left to the model.
"""

import msgspec

from holdfast.core.faults.body import Evidence
from holdfast.core.faults.codes import BY_STATUS
from holdfast.core.faults.numbers import Stated, stated
from holdfast.core.text.patterns import Pattern
from holdfast.types.faults import Confidence, FaultKind, Unit

K = FaultKind


class Finding(msgspec.Struct, frozen=True):
    """A kind with its confidence, before numbers and delays are parsed. A bad request with a unit has numbers."""

    kind: FaultKind
    confidence: Confidence
    second: FaultKind | None = None
    unit: Unit | None = None


_LIKELY = Confidence.LIKELY
# A smaller request is not paid for either.
_UNPAID = Finding(K.QUOTA, _LIKELY, K.RATE_LIMIT, Unit.TOKENS)
_RATE = Finding(K.RATE_LIMIT, _LIKELY, unit=Unit.TOKENS)
_PER_TIME = Pattern(
    r"(?:tokens?|requests?|calls|queries|images)[ _-]?(?:per|/)[ _-]?(?:min|sec|hour|day)"
    r"|(?<![a-z])(?:tp[md]|rp[md]|qps)(?![a-z])|please wait"
)
_PLAN = Pattern(r"per[ _-]?(?:month|week)|usage (?:limit|quota)|credits|billing")
# Limits of a time or a price: the model decides.
_MAY_BE_RATE = Pattern(
    r"per[ _-]?(?:min|sec|hour|day|month)|(?<![a-z])[tr]p[md](?![a-z])|rate.?limit|credits|quota|slow"
)
# Findings for texts that match the first pattern and not the second.
_RULES = (
    (
        Finding(K.TRANSIENT, _LIKELY),
        Pattern(r"(?:system|gpu|cuda|video|available|out of|host)\W{1,2}memory|memory (?:error|required)"),
        Pattern("(?!)"),
    ),
    # The prompt leaves less than nothing for the output.
    (Finding(K.TOKEN_OVERFLOW, _LIKELY, unit=Unit.TOKENS), Pattern(r"at least ?1, got -\d"), Pattern("(?!)")),
    # Parameters by name: a smaller conversation would be rejected as well.
    (
        Finding(K.BAD_REQUEST, _LIKELY, unit=Unit.COUNT),
        Pattern(
            r"(?<![a-z_])(?:logit_bias|stop[ _](?:tokens?|sequences?|words)|safety_identifier|prompt_cache_key"
            r"|response_format|(?:json|input)_schema|temperature|top_[pk]|(?:frequency|presence)_penalty)(?![a-z])"
        ),
        Pattern("context|window|n_ctx"),
    ),
    # A sentence that begins with the limit of the output is about that limit, with any comparison.
    (
        Finding(K.BAD_REQUEST, _LIKELY, unit=Unit.TOKENS),
        Pattern(
            r"(?:^|[.:] )(?:invalid )?max_(?:completion_|output_|new_)?tokens (?:must|should|cannot) [^.\d]{0,40}\d"
        ),
        Pattern(r"prompt|inputs?(?![a-z])|messages|budget|got -"),
    ),
    # A limit of the output, unless the sentence also mentions the prompt, the window or a sum.
    (
        Finding(K.BAD_REQUEST, _LIKELY, unit=Unit.TOKENS),
        Pattern(
            r"max_?(?:new_?|completion_?|output_?)?tokens?(?![a-z_])|num_predict|max tokens must|tokens_to_sample"
            r"|max(?:imum)? (?:new|completion|output)|(?:output|completion) (?:tokens|length)|maximum tokens you"
        ),
        Pattern(
            r"context|window|n_ctx|prompt|inputs? (?:tokens?|length|of \d|and (?!try)|plus|\+)|messages|total|got -\d"
            r"|along with|combined|budget_tokens|thinking"
        ),
    ),
    (
        Finding(K.TOKEN_OVERFLOW, _LIKELY, unit=Unit.TOKENS),
        Pattern(
            r"(?:prompt|context|conversation) (?:is |was |length )?too (?:long|large|big)"
            r"|(?:input|prompt) length (?:should|must|exceed)"
        ),
        Pattern(r"bytes?(?![a-z])|characters|chars(?![a-z])|\d ?[mk]i?b(?![a-z])|image|audio|video|pdf"),
    ),
)
_CHARACTERS = Pattern(r"(?:characters|chars)(?![a-z])|string (?:is )?too long|string (?:value )?length|maxlength")
_LIST_LENGTH = Pattern(
    r"array|(?<![a-z])(?:items|elements|entries)(?![a-z])"
    r"|(?:too many|number of|\d) (?:messages|tools|texts|functions|documents|inputs)(?![a-z])|batch[ -]size"
)
_NO_LENGTH = Pattern(r"image|audio|video|pdf|media(?! type)|pixel|token")
_TOO_LONG = Pattern("too (?:long|large|big|many)|exceed|at most|max|limit|(?:less|longer|more) than|or less|under")
# Limits of texts are tens of thousands of characters; those of names, ids and descriptions are far lower.
_TEXT_CHARS_MIN = 10_000
_SHORT_FIELD = Pattern(r"(?<![a-z])(?:ids?|name|description|metadata|user|title|prompt|stop|key|label|suffix)(?![a-z])")
_TEXT_FIELD = Pattern(r"(?<![a-z])(?:content|text|message|query|document|input)(?![a-z])")
_LIST_FIELD = Pattern(
    r"(?<![a-z])(?:messages|tools|texts|inputs?|contents|documents|functions|list|history|conversation|batch"
    r"|tool_calls|queries|prompts|parts|passages)(?![a-z])"
)
# No model has a smaller window; smaller numbers beside the word "token" are of something else.
_TOKENS_MIN = 256
_OF_SIZE = Pattern("token|context|n_ctx|length")
_OF_REQUEST = Pattern("prompt|input|request|message|model|sequence|output|context|n_ctx")


def by_rule(evidence: Evidence) -> Finding | None:
    """Classify a sentence by its form; None if the model decides."""
    text, by_status = evidence.text, BY_STATUS.get(evidence.status or 0)
    if by_status is K.QUOTA:
        return _UNPAID
    if _PER_TIME.search(text) and not _PLAN.search(text):
        return _RATE
    if by_status is K.RATE_LIMIT or _MAY_BE_RATE.search(text):
        return None
    for found, has, has_not in _RULES:
        if has.search(text) and not has_not.search(text):
            # A gateway's 413 for a long prompt may also count bytes.
            is_both = found.kind is K.TOKEN_OVERFLOW and by_status is K.WIRE_OVERFLOW
            return msgspec.structs.replace(found, second=K.WIRE_OVERFLOW) if is_both else found
    return _by_length(evidence)


def _by_length(evidence: Evidence) -> Finding | None:
    """Classify a stated length in characters or items: of the request, or of a name or an id in it."""
    unit = unit_of(K.WIRE_OVERFLOW, evidence)
    is_length = unit is not Unit.BYTES and _TOO_LONG.search(evidence.text) and not _NO_LENGTH.search(evidence.text)
    has_limit = is_length and stated(evidence.text, evidence.numbers, unit).limit is not None
    return Finding(K.WIRE_OVERFLOW, _LIKELY, K.BAD_REQUEST, unit) if has_limit else None


def unit_of(kind: FaultKind, evidence: Evidence) -> Unit | None:
    """Return the unit of an overflow, by the words beside its numbers; a media's unit depends on the numbers."""
    is_chars = _CHARACTERS.search(evidence.text) is not None and "token" not in evidence.text
    if kind is K.TOKEN_OVERFLOW:
        return Unit.CHARS if is_chars else Unit.TOKENS
    if kind is not K.WIRE_OVERFLOW:
        return None
    is_list = any("array" in code for code in evidence.codes) or _LIST_LENGTH.search(evidence.text) is not None
    return Unit.CHARS if is_chars else Unit.COUNT if is_list else Unit.BYTES


def is_setting(finding: Finding, evidence: Evidence, numbers: Stated) -> bool:
    """Return whether an overflow is of a name, an id or a parameter, so that compaction would not help."""
    text, limit = evidence.text, numbers.limit
    if finding.kind is K.TOKEN_OVERFLOW and finding.unit is Unit.TOKENS:
        is_request = _OF_SIZE.search(text) is not None and _OF_REQUEST.search(text) is not None
        return limit is not None and limit < _TOKENS_MIN and not is_request
    is_overflow = finding.kind in {K.TOKEN_OVERFLOW, K.WIRE_OVERFLOW}
    if not is_overflow or BY_STATUS.get(evidence.status or 0) is K.WIRE_OVERFLOW:
        return False
    if numbers.unit is Unit.COUNT:
        # "List should have at most 16 items" does not name the list; the path does.
        return not _LIST_FIELD.search(" ".join(evidence.places).lower() or text)
    if numbers.unit is not Unit.CHARS or (limit or 0) >= _TEXT_CHARS_MIN:
        return False
    return _SHORT_FIELD.search(text) is not None or _TEXT_FIELD.search(text) is None
