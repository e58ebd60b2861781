"""A provider's failure, classified: what kind it is, with which numbers, and how sure we are.

The order is fixed: unwrap the body, then codes that mean one thing, then what a sentence is not about (quota, rate,
settings), then media, parameters, pairing, and only then overflow, where the unit picks the kind. Where nothing of that
explains it, its single words vote, or the status has the last word. `classify` never raises, whatever a provider sends,
and always names a kind.
"""

import re
from collections.abc import Iterable

import msgspec

from holdfast.core.faults import codes
from holdfast.core.faults.body import Evidence, read
from holdfast.core.faults.codes import OK, Rule
from holdfast.core.faults.fallback_classifier import likeliest
from holdfast.core.faults.numbers import Stated, stated
from holdfast.core.faults.replies import (
    NEAR_LIMIT,
    is_near,
    is_near_window,
    is_short,
    outcome_of,
    read_outcome,
    symptom,
)
from holdfast.core.faults.retry_after import wait_seconds
from holdfast.core.faults.tables import HUNCHES, RULES, VAGUE
from holdfast.core.faults.vocabulary import CHARACTERS
from holdfast.core.text.patterns import Pattern
from holdfast.types.faults import Confidence, Fault, FaultKind, Phase, Refusal, Sent, Unit
from holdfast.types.messages import Reply

__all__ = [
    "NEAR_LIMIT",
    "OK",
    "Confidence",
    "Fault",
    "FaultKind",
    "Phase",
    "Refusal",
    "Sent",
    "Unit",
    "classify",
    "classify_reply",
    "is_short",
]

K = FaultKind

# Enough for a sentence and its numbers; the whole body stands in the refusal.
_SAID_CHARS_MAX = 300
_SECRET = Pattern(
    r"(?i)\b(?:sk|pk|rk|gsk|xai|hf|nvapi|ghp|gho|pplx)[-_][\w.*-]{8,}|\b(?:AIza|AKIA|ya29|eyJ)[\w.*-]{10,}"
    r"|(?<=bearer )\S{4,}|(?<=key=)[^\s&\"']{3,}|(?<=token=)[^\s&\"']{3,}|(?<=provided: )[\w*-]{6,}"
)
# Kinds for which waiting is a cure, so that a wait is worth reading.
_WAITABLE = frozenset({K.RATE_LIMIT, K.QUOTA, K.OVERLOADED, K.TRANSIENT, K.STREAM_STALL})
# What too much is counted in, where nothing says otherwise; and kinds whose numbers are worth reading.
_UNITS = {K.TOKEN_OVERFLOW: Unit.TOKENS, K.WIRE_OVERFLOW: Unit.BYTES}
_COUNTED = _UNITS.keys() | {K.MEDIA_OVERFLOW}
# Kinds that a status tells by itself and that no retry cures.
_SPEAKING = frozenset({K.WIRE_OVERFLOW, K.MEDIA_OVERFLOW, K.QUOTA, K.AUTH, K.MODEL_NOT_FOUND, K.CONTENT_POLICY})
# MiniMax ends its sentences with its own error code in brackets, which reads like a limit.
_OWN_CODE = Pattern(r"\((?:100[0-8]|1013|102[67]|1033|1039|104[1-4]|2013|2049|2056)\)$")
# What a firewall or a gate writes on its page where it lets nobody through, whatever the status.
_WALL = Pattern(r"reject|block|denied|forbidden|captcha|you are human|(?:log|sign)[ -]?in(?![a-z])")
# No model has a smaller window; smaller numbers beside the word "token" count something else.
_TOKENS_MIN = 256
# A text is cut at tens of thousands of characters at the least; names, ids and descriptions at far fewer.
_TEXT_CHARS_MIN = 10_000
_SHORT_FIELD = Pattern(r"(?<![a-z])(?:ids?|name|description|metadata|user|title|prompt|stop|key|label|suffix)(?![a-z])")
_TEXT_FIELD = Pattern(r"(?<![a-z])(?:content|text|message|query|document|input)(?![a-z])")
_LIST_FIELD = Pattern(
    r"(?<![a-z])(?:messages|tools|texts|inputs?|contents|documents|functions|list|history|conversation|batch"
    r"|tool_calls|queries|prompts|parts|passages)(?![a-z])"
)
# Parameters that ask for thinking, in the words of those who point at them.
_THINKING_PLACE = Pattern(r"reasoning|thinking|(?<![a-z])effort(?![a-z])")


class _Finding(msgspec.Struct, frozen=True):
    """A kind and why it is believed, before numbers and waits are read."""

    kind: FaultKind
    confidence: Confidence
    second: FaultKind | None = None
    unit: Unit | None = None
    has_numbers: bool = False


def classify(refusal: Refusal, sent: Sent = Sent()) -> Fault:  # noqa: B008 - frozen, so one for all calls is right
    """Say what kind of failure this is."""
    evidence = read(refusal)
    finding = (
        _by_phase(refusal)
        or _by_code(evidence, sent)
        or _by_page(evidence)
        or _by_words(evidence)
        or _by_numbers(evidence)
        or _by_reply(evidence, sent)
        or _by_general_code(evidence)
        or _by_hunch(evidence, sent)
        or _by_likeness(evidence, _by_status(evidence, refusal, sent))
    )
    fault = finding if isinstance(finding, Fault) else _fault(finding, refusal, evidence)
    return msgspec.structs.replace(fault, blamed=refusal.blamed)


def classify_reply(reply: Reply, sent: Sent) -> Fault | None:
    """Say what is wrong with a reply that came as if all were well, or None where it is fine."""
    return symptom(outcome_of(reply), sent)


# --- who decides, in order ---------------------------------------------------------------------------------------


def _by_phase(refusal: Refusal) -> _Finding | None:
    return _Finding(K.STREAM_STALL, Confidence.CERTAIN) if refusal.phase is Phase.STALL else None


def _by_code(evidence: Evidence, sent: Sent) -> _Finding | None:
    """Codes that mean one thing. What a provider means by its own code comes first."""
    for code in evidence.codes:
        if (own := codes.OF_PROVIDER.get((_family(sent), code))) is not None:
            return _Finding(own, Confidence.CERTAIN)
    kind = codes.kind_of(evidence.codes, codes.SPECIFIC)
    if kind is None:
        return None
    units = {K.TOKEN_OVERFLOW: _prompt_unit(evidence), K.WIRE_OVERFLOW: _wire_unit(evidence)}
    return _Finding(kind, Confidence.CERTAIN, unit=units.get(kind), has_numbers=kind in _COUNTED)


def _family(sent: Sent) -> str:
    """The provider's name without what a gateway or an edition adds to it."""
    return sent.provider.split("-")[0].lower()


def _prompt_unit(evidence: Evidence) -> Unit:
    """A prompt may be too long in characters, which only the sentence beside the code says."""
    is_chars = re.search(CHARACTERS, evidence.text) is not None and "token" not in evidence.text
    return Unit.CHARS if is_chars else Unit.TOKENS


def _wire_unit(evidence: Evidence) -> Unit:
    return Unit.COUNT if any("array" in code for code in evidence.codes) else Unit.BYTES


def _by_page(evidence: Evidence) -> _Finding | None:
    """A page comes from a server before the provider: its status tells, its words are decoration."""
    if not evidence.is_page or evidence.status is None:
        return None
    if evidence.status == codes.OK and _WALL.search(evidence.text):
        return _Finding(K.AUTH, Confidence.LIKELY, K.CONTENT_POLICY)
    kind = codes.BY_STATUS.get(evidence.status, K.BAD_REQUEST)
    if evidence.status >= codes.BROKEN_FROM:
        return _Finding(K.TRANSIENT, Confidence.LIKELY, second=K.OVERLOADED)
    second = K.CONTENT_POLICY if kind is K.AUTH else None
    return _Finding(kind, Confidence.LIKELY, second, Unit.BYTES if kind is K.WIRE_OVERFLOW else None)


def _by_words(evidence: Evidence) -> _Finding | None:
    rule = _first_that_fits(RULES, evidence)
    if rule is None:
        return None
    if rule.kind is K.TRANSIENT and _is_refused(evidence):
        return _Finding(K.BAD_REQUEST, Confidence.LIKELY, K.TRANSIENT)
    return _Finding(rule.kind, Confidence.LIKELY, rule.second, rule.unit, rule.has_numbers)


def _is_refused(evidence: Evidence) -> bool:
    """Whether a code says what no status does: that the request was refused rather than lost."""
    return evidence.status in {None, codes.OK} and codes.kind_of(evidence.codes, codes.REFUSALS) is not None


def _first_that_fits(rules: Iterable[Rule], evidence: Evidence) -> Rule | None:
    for rule in rules:
        if rule.statuses is not None and evidence.status not in rule.statuses:
            continue
        if rule.pattern.search(evidence.text) and not (rule.unless and rule.unless.search(evidence.text)):
            return rule
    return None


def _by_numbers(evidence: Evidence) -> _Finding | None:
    """A sentence in words that nobody foresaw, with more tokens in it than it allows."""
    if not re.search(r"token|context|prompt", evidence.text):
        return None
    numbers = stated(evidence.text, evidence.numbers, Unit.TOKENS)
    if numbers.limit is None or numbers.requested is None or not _TOKENS_MIN <= numbers.limit < numbers.requested:
        return None
    return _Finding(K.TOKEN_OVERFLOW, Confidence.LIKELY, K.BAD_REQUEST, Unit.TOKENS, has_numbers=True)


def _by_reply(evidence: Evidence, sent: Sent) -> Fault | None:
    """A body that is no failure at all but a reply that brought nothing."""
    outcome = None if evidence.sentences else read_outcome(evidence.documents)
    if outcome is None or (evidence.is_stream and not evidence.has_ended):
        return None
    fault = symptom(outcome, sent)
    # A filter in front of a model may refuse with a status and yet send the reply that it emptied.
    is_filtered = fault is not None and fault.kind is K.CONTENT_POLICY
    return fault if is_filtered or evidence.status in {None, codes.OK} else None


def _by_general_code(evidence: Evidence) -> _Finding | None:
    kind = codes.kind_of(evidence.codes, codes.GENERAL)
    if kind is K.TRANSIENT and codes.BY_STATUS.get(evidence.status or 0, K.BAD_REQUEST) in _SPEAKING:
        # A "server_error" beside a 413 is the server's habit, not what happened.
        return None
    unit = Unit.BYTES if kind is K.WIRE_OVERFLOW else None
    return None if kind is None else _Finding(kind, Confidence.LIKELY, unit=unit)


def _by_hunch(evidence: Evidence, sent: Sent) -> _Finding | None:
    """A single word that tips the scales, unless the request was so large that its size explains it better."""
    rule = None if is_near_window(sent) else _first_that_fits(HUNCHES, evidence)
    return None if rule is None else _Finding(rule.kind, Confidence.GUESS, rule.second)


def _by_likeness(evidence: Evidence, by_status: _Finding) -> _Finding:
    """What its words are like, where the status alone would decide and is only a guess."""
    is_silent = not (evidence.text or evidence.codes) or evidence.status not in VAGUE
    if is_silent or by_status.confidence is not Confidence.GUESS or by_status.kind in _UNITS:
        # A request that was suspected of its size is not acquitted by its words.
        return by_status
    kind = likeliest(evidence) or by_status.kind
    if kind is by_status.kind:
        return by_status
    return _Finding(kind, Confidence.GUESS, by_status.kind, _UNITS.get(kind), has_numbers=kind in _COUNTED)


def _by_status(evidence: Evidence, refusal: Refusal, sent: Sent) -> _Finding:
    """The last resort. A refusal that nobody explains is suspected of being too large where it was large."""
    status = evidence.status
    if status is None or status == codes.OK:
        return _without_status(evidence, refusal)
    if status in {400, 413} and not evidence.text and _family(sent) in codes.SILENT_ON_OVERFLOW:
        return _Finding(K.TOKEN_OVERFLOW, Confidence.LIKELY, codes.BY_STATUS[status], Unit.TOKENS)
    if status >= codes.BROKEN_FROM:
        return _Finding(codes.BY_STATUS.get(status, K.TRANSIENT), Confidence.LIKELY)
    kind = codes.BY_STATUS.get(status, K.BAD_REQUEST)
    if kind is K.WIRE_OVERFLOW:
        second = K.TOKEN_OVERFLOW if is_near_window(sent) else K.MEDIA_OVERFLOW if sent.media_count else None
        return _Finding(kind, Confidence.LIKELY, second, Unit.BYTES, has_numbers=True)
    if kind is not K.BAD_REQUEST:
        return _Finding(kind, Confidence.GUESS if kind is K.MODEL_NOT_FOUND else Confidence.LIKELY)
    # Only a refusal can be about size: a redirect or an odd 2xx is not.
    is_refusal = status >= codes.REFUSED_FROM
    return _unexplained(sent, evidence) if is_refusal else _Finding(K.BAD_REQUEST, Confidence.GUESS)


def _without_status(evidence: Evidence, refusal: Refusal) -> _Finding:
    # What says something did not just stop.
    is_cut = evidence.is_stream and not evidence.has_ended and not evidence.sentences
    if is_cut or (refusal.phase is Phase.STREAM and not evidence.text):
        return _Finding(K.STREAM_STALL, Confidence.LIKELY, K.TRANSIENT)
    if evidence.status == codes.OK and not evidence.text:
        return _Finding(K.EMPTY_RESPONSE, Confidence.LIKELY)
    if _is_refused(evidence):
        return _Finding(K.BAD_REQUEST, Confidence.GUESS, K.TRANSIENT)
    if refusal.phase in {Phase.CONNECT, Phase.STREAM} or not evidence.text:
        return _Finding(K.TRANSIENT, Confidence.GUESS)
    # A provider refuses with a status; words alone are mostly a client's, and calls break in endless ways.
    likely, other = (K.BAD_REQUEST, K.TRANSIENT) if evidence.documents else (K.TRANSIENT, K.BAD_REQUEST)
    return _Finding(likely, Confidence.GUESS, other)


def _unexplained(sent: Sent, evidence: Evidence) -> _Finding:
    if is_near_window(sent) or (sent.has_grown and evidence.says_nothing):
        return _Finding(K.TOKEN_OVERFLOW, Confidence.GUESS, K.BAD_REQUEST, Unit.TOKENS)
    if is_near(sent.wire_bytes, sent.wire_bytes_max):
        return _Finding(K.WIRE_OVERFLOW, Confidence.GUESS, K.BAD_REQUEST, Unit.BYTES)
    suspects = (
        (sent.had_reasoning, K.BAD_REQUEST_REASONING),
        (sent.had_tools, K.TOOL_PAIRING),
        (sent.media_count > 0, K.MEDIA_OVERFLOW),
    )
    return _Finding(K.BAD_REQUEST, Confidence.GUESS, next((kind for was_sent, kind in suspects if was_sent), None))


# --- numbers, waits, words ---------------------------------------------------------------------------------------


def _fault(finding: _Finding, refusal: Refusal, evidence: Evidence) -> Fault:
    numbers = _numbers(finding, evidence)
    kind, second = finding.kind, finding.second
    in_chars = kind is K.TOKEN_OVERFLOW and finding.unit is Unit.CHARS
    if (kind is K.WIRE_OVERFLOW or in_chars) and _is_setting(evidence, numbers):
        kind = K.BAD_REQUEST
    if kind is K.BAD_REQUEST and _THINKING_PLACE.search(evidence.places):
        kind, second = K.BAD_REQUEST_REASONING, K.BAD_REQUEST
    if finding.unit is Unit.TOKENS and kind is K.TOKEN_OVERFLOW and _counts_no_tokens(evidence.text, numbers):
        kind, numbers = K.BAD_REQUEST, msgspec.structs.replace(numbers, unit=Unit.COUNT)
    if kind is K.RATE_LIMIT and _never_fits(evidence.text, numbers):
        second = K.TOKEN_OVERFLOW
    is_stated = numbers.limit is not None or numbers.requested is not None
    return Fault(
        kind=kind,
        confidence=Confidence.CERTAIN if is_stated and finding.confidence is Confidence.LIKELY else finding.confidence,
        second_kind=second,
        limit=numbers.limit,
        requested=numbers.requested,
        unit=numbers.unit,
        retry_after_seconds=(
            wait_seconds(refusal.headers, evidence.text, evidence.numbers) if kind in _WAITABLE else None
        ),
        said=_masked(evidence.said),
        output_requested=numbers.output if kind is K.TOKEN_OVERFLOW else None,
    )


def _numbers(finding: _Finding, evidence: Evidence) -> Stated:
    if not finding.has_numbers:
        return Stated(unit=finding.unit)
    text, unit = _OWN_CODE.sub("", evidence.text), finding.unit
    if finding.kind in {K.RATE_LIMIT, K.QUOTA} and not re.search(r"tokens|token capacity|tp[md]", text):
        # A rate counts calls then; a quota counts money and dates, and only a field of its own is to be trusted.
        text, unit = "" if finding.kind is K.QUOTA and not re.search(r"limit: ?\d", text) else text, None
    numbers = stated(text, evidence.numbers, unit)
    if finding.kind is K.TOKEN_OVERFLOW and (numbers.requested or 1) <= 0:
        # "must be at least 1, got -812": what is left for the answer, not what was sent.
        return Stated(unit=unit)
    if finding.kind is K.BAD_REQUEST and numbers.requested is None:
        return msgspec.structs.replace(numbers, requested=numbers.output)
    if finding.kind in {K.RATE_LIMIT, K.QUOTA}:
        # "You requested 32000 tokens, but can only afford 0": nothing left is no limit, what was asked for is known.
        is_known = numbers.limit is not None or "afford" in text
        return msgspec.structs.replace(numbers, unit=numbers.unit or Unit.COUNT) if is_known else Stated()
    if finding.kind is K.MEDIA_OVERFLOW and numbers.unit is None:
        return msgspec.structs.replace(numbers, unit=_media_unit(text, numbers))
    return numbers


def _media_unit(text: str, numbers: Stated) -> Unit | None:
    if re.search(r"pixel|(?<![a-z])px|dimension|resolution|width|height", text):
        return Unit.PIXELS
    if re.search(r"bytes|size|too large|too big|过大", text):
        return Unit.BYTES
    return Unit.COUNT if numbers.limit is not None or "too many" in text else None


def _is_setting(evidence: Evidence, numbers: Stated) -> bool:
    """Whether a length refers to a name, an id or a parameter, which a smaller conversation would not cure."""
    text = evidence.text
    if codes.BY_STATUS.get(evidence.status or 0) is K.WIRE_OVERFLOW:
        return False
    if numbers.unit is Unit.COUNT:
        # "List should have at most 16 items" says nothing about which list; where it points does.
        return not _LIST_FIELD.search(evidence.places or text)
    if numbers.unit is not Unit.CHARS or (numbers.limit or 0) >= _TEXT_CHARS_MIN:
        return False
    is_short, is_text = _SHORT_FIELD.search(text) is not None, _TEXT_FIELD.search(text) is not None
    return is_short and not is_text if numbers.limit is None else is_short or not is_text


def _counts_no_tokens(text: str, numbers: Stated) -> bool:
    """Whether a limit is too small for a window and nothing says that it counts a prompt: a parameter's own."""
    if numbers.limit is None or numbers.limit >= _TOKENS_MIN:
        return False
    if "token" in text and re.search(r"prompt|input|request|message|model|sequence|output", text):
        return False
    return re.search(r"context|n_ctx|(?:prompt|input|sequence) length", text) is None


def _never_fits(text: str, numbers: Stated) -> bool:
    """Whether one request alone is more than what a rate allows, so that no waiting helps."""
    if numbers.limit is None or numbers.requested is None or "current" in text:
        return False
    return numbers.unit is Unit.TOKENS and numbers.requested > numbers.limit


def _masked(sentence: str) -> str:
    """Bound a sentence, with whatever looks like a key taken out."""
    masked = _SECRET.sub("***", sentence[: 4 * _SAID_CHARS_MAX])
    return masked if len(masked) <= _SAID_CHARS_MAX else masked[: _SAID_CHARS_MAX - 1] + "…"
