"""Classify a provider's error: kind, numbers and confidence.

The order is fixed: parse the body, then unambiguous codes, then exclusions (quota, rate, settings), then media,
parameters, tool pairing, and only then overflow, where the unit decides the kind. If no rule matches, the word model or
the HTTP status decides. `classify` never raises for any input and always returns a kind.
"""

import re
from collections.abc import Iterable

import msgspec

from holdfast.core.faults import codes
from holdfast.core.faults.body import Evidence, read
from holdfast.core.faults.codes import OK, Rule
from holdfast.core.faults.fallback_classifier import most_likely_kind
from holdfast.core.faults.numbers import Stated, stated
from holdfast.core.faults.replies import (
    NEAR_LIMIT,
    is_near,
    is_near_window,
    is_short,
    outcome_of,
    read_outcome,
    reply_fault,
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

# Enough for a sentence and its numbers; the full body is in the `Refusal`.
_SAID_CHARS_MAX = 300
_SECRET = Pattern(
    r"(?i)\b(?:sk|pk|rk|gsk|xai|hf|nvapi|ghp|gho|pplx)[-_][\w.*-]{8,}|\b(?:AIza|AKIA|ya29|eyJ)[\w.*-]{10,}"
    r"|(?<=bearer )\S{4,}|(?<=key=)[^\s&\"']{3,}|(?<=token=)[^\s&\"']{3,}|(?<=provided: )[\w*-]{6,}"
)
# Kinds that a delay can cure, so that the retry delay is parsed.
_WAITABLE = frozenset({K.RATE_LIMIT, K.QUOTA, K.OVERLOADED, K.TRANSIENT, K.STREAM_STALL})
# Default units of overflows, and kinds whose numbers are parsed.
_UNITS = {K.TOKEN_OVERFLOW: Unit.TOKENS, K.WIRE_OVERFLOW: Unit.BYTES}
_COUNTED = _UNITS.keys() | {K.MEDIA_OVERFLOW}
_RATES = frozenset({K.RATE_LIMIT, K.QUOTA})
# Kinds that a status identifies by itself and that no retry cures.
_SPEAKING = frozenset({K.WIRE_OVERFLOW, K.MEDIA_OVERFLOW, K.QUOTA, K.AUTH, K.MODEL_NOT_FOUND, K.CONTENT_POLICY})
# MiniMax ends its sentences with its own error code in brackets, which looks like a limit.
_OWN_CODE = Pattern(r"\((?:100[0-8]|1013|102[67]|1033|1039|104[1-4]|2013|2049|2056)\)$")
# Words on the page of a firewall or login gate that blocks the request, with any status.
_WALL = Pattern(r"reject|block|denied|forbidden|captcha|you are human|(?:log|sign)[ -]?in(?![a-z])")
# No model has a smaller window; smaller numbers beside the word "token" are of something else.
_TOKENS_MIN = 256
# Limits of texts are tens of thousands of characters; those of names, ids and descriptions are far lower.
_TEXT_CHARS_MIN = 10_000
_SHORT_FIELD = Pattern(r"(?<![a-z])(?:ids?|name|description|metadata|user|title|prompt|stop|key|label|suffix)(?![a-z])")
_TEXT_FIELD = Pattern(r"(?<![a-z])(?:content|text|message|query|document|input)(?![a-z])")
_LIST_FIELD = Pattern(
    r"(?<![a-z])(?:messages|tools|texts|inputs?|contents|documents|functions|list|history|conversation|batch"
    r"|tool_calls|queries|prompts|parts|passages)(?![a-z])"
)
# Request parameters of reasoning.
_REASONING_PARAMETER = Pattern(r"reasoning|thinking|(?<![a-z])effort(?![a-z])")


class _Finding(msgspec.Struct, frozen=True):
    """A kind with its confidence, before numbers and delays are parsed."""

    kind: FaultKind
    confidence: Confidence
    second: FaultKind | None = None
    unit: Unit | None = None
    has_numbers: bool = False


def classify(refusal: Refusal, sent: Sent = Sent()) -> Fault:  # noqa: B008 - frozen, so one for all calls is right
    """Classify a failed call."""
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
        or _by_word_model(evidence, _by_status(evidence, refusal, sent))
    )
    fault = finding if isinstance(finding, Fault) else _fault(finding, refusal, evidence)
    return msgspec.structs.replace(fault, blamed=refusal.blamed)


def classify_reply(reply: Reply, sent: Sent) -> Fault | None:
    """Return the fault of a reply with a good status, or None if it is usable."""
    return reply_fault(outcome_of(reply), sent)


# --- Classification steps, in order ---


def _by_phase(refusal: Refusal) -> _Finding | None:
    return _Finding(K.STREAM_STALL, Confidence.CERTAIN) if refusal.phase is Phase.STALL else None


def _by_code(evidence: Evidence, sent: Sent) -> _Finding | None:
    """Classify by unambiguous codes, first by those of one provider."""
    for code in evidence.codes:
        if (own := codes.OF_PROVIDER.get((_family(sent), code))) is not None:
            return _Finding(own, Confidence.CERTAIN)
    kind = codes.kind_of(evidence.codes, codes.SPECIFIC)
    if kind is None:
        return None
    units = {K.TOKEN_OVERFLOW: _prompt_unit(evidence), K.WIRE_OVERFLOW: _wire_unit(evidence)}
    return _Finding(kind, Confidence.CERTAIN, unit=units.get(kind), has_numbers=kind in _COUNTED)


def _family(sent: Sent) -> str:
    """Return the provider's name without the suffix of a gateway or an edition."""
    return sent.provider.split("-")[0].lower()


def _prompt_unit(evidence: Evidence) -> Unit:
    """Return the unit of an overlong prompt; only the sentence beside the code shows that it is characters."""
    is_chars = re.search(CHARACTERS, evidence.text) is not None and "token" not in evidence.text
    return Unit.CHARS if is_chars else Unit.TOKENS


def _wire_unit(evidence: Evidence) -> Unit:
    return Unit.COUNT if any("array" in code for code in evidence.codes) else Unit.BYTES


def _by_page(evidence: Evidence) -> _Finding | None:
    """Classify an HTML page by its status: it is from a server before the provider, and its text is not specific."""
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
    """Return whether there is no error status, and a code shows that the request was rejected."""
    return evidence.status in {None, codes.OK} and codes.kind_of(evidence.codes, codes.REFUSALS) is not None


def _first_that_fits(rules: Iterable[Rule], evidence: Evidence) -> Rule | None:
    for rule in rules:
        if rule.statuses is not None and evidence.status not in rule.statuses:
            continue
        if rule.pattern.search(evidence.text) and not (rule.unless and rule.unless.search(evidence.text)):
            return rule
    return None


def _by_numbers(evidence: Evidence) -> _Finding | None:
    """Classify an unknown sentence that states more tokens than its limit."""
    if not re.search(r"token|context|prompt", evidence.text):
        return None
    numbers = stated(evidence.text, evidence.numbers, Unit.TOKENS)
    if numbers.limit is None or numbers.requested is None or not _TOKENS_MIN <= numbers.limit < numbers.requested:
        return None
    return _Finding(K.TOKEN_OVERFLOW, Confidence.LIKELY, K.BAD_REQUEST, Unit.TOKENS, has_numbers=True)


def _by_reply(evidence: Evidence, sent: Sent) -> Fault | None:
    """Classify a body that is a reply without usable output."""
    outcome = None if evidence.sentences else read_outcome(evidence.documents)
    if outcome is None or (evidence.is_stream and not evidence.has_ended):
        return None
    fault = reply_fault(outcome, sent)
    # A content filter may return an error status together with the emptied reply.
    is_filtered = fault is not None and fault.kind is K.CONTENT_POLICY
    return fault if is_filtered or evidence.status in {None, codes.OK} else None


def _by_general_code(evidence: Evidence) -> _Finding | None:
    kind = codes.kind_of(evidence.codes, codes.GENERAL)
    if kind is K.TRANSIENT and codes.BY_STATUS.get(evidence.status or 0, K.BAD_REQUEST) in _SPEAKING:
        # A "server_error" beside a 413 is a default value of the server.
        return None
    unit = Unit.BYTES if kind is K.WIRE_OVERFLOW else None
    return None if kind is None else _Finding(kind, Confidence.LIKELY, unit=unit)


def _by_hunch(evidence: Evidence, sent: Sent) -> _Finding | None:
    """Guess by single words, unless the request was so large that its size is the likelier cause."""
    rule = None if is_near_window(sent) else _first_that_fits(HUNCHES, evidence)
    return None if rule is None else _Finding(rule.kind, Confidence.GUESS, rule.second)


def _by_word_model(evidence: Evidence, by_status: _Finding) -> _Finding:
    """Classify by the word model if the status alone gives only a guess."""
    is_silent = not (evidence.text or evidence.codes) or evidence.status not in VAGUE
    if is_silent or by_status.confidence is not Confidence.GUESS or by_status.kind in _UNITS:
        # The word model does not override a suspected overflow.
        return by_status
    kind = most_likely_kind(evidence) or by_status.kind
    if kind is by_status.kind:
        return by_status
    return _Finding(kind, Confidence.GUESS, by_status.kind, _UNITS.get(kind), has_numbers=kind in _COUNTED)


def _by_status(evidence: Evidence, refusal: Refusal, sent: Sent) -> _Finding:
    """Classify by the status alone, the last step. An unexplained error of a large request may be an overflow."""
    status = evidence.status
    if status is None or status == codes.OK:
        return _without_status(evidence, refusal)
    if status in {400, 413} and not evidence.text and _family(sent) in codes.SILENT_ON_OVERFLOW:
        return _Finding(K.TOKEN_OVERFLOW, Confidence.LIKELY, codes.BY_STATUS[status], Unit.TOKENS)
    if status >= codes.BROKEN_FROM:
        return _Finding(codes.BY_STATUS.get(status, K.TRANSIENT), Confidence.LIKELY)
    kind = codes.BY_STATUS.get(status, K.BAD_REQUEST)
    if kind is K.WIRE_OVERFLOW:
        return _wire_overflow(sent)
    if kind is not K.BAD_REQUEST:
        return _Finding(kind, Confidence.GUESS if kind is K.MODEL_NOT_FOUND else Confidence.LIKELY)
    # Only a 4xx can be caused by the size, not a redirect or an unusual 2xx.
    is_rejected = status >= codes.REFUSED_FROM
    return _unexplained(sent, evidence) if is_rejected else _Finding(K.BAD_REQUEST, Confidence.GUESS)


def _wire_overflow(sent: Sent) -> _Finding:
    second = K.TOKEN_OVERFLOW if is_near_window(sent) else K.MEDIA_OVERFLOW if sent.media_count else None
    return _Finding(K.WIRE_OVERFLOW, Confidence.LIKELY, second, Unit.BYTES, has_numbers=True)


def _without_status(evidence: Evidence, refusal: Refusal) -> _Finding:
    # A stream with a message did not just break off.
    is_cut = evidence.is_stream and not evidence.has_ended and not evidence.sentences
    if is_cut or (refusal.phase is Phase.STREAM and not evidence.text):
        return _Finding(K.STREAM_STALL, Confidence.LIKELY, K.TRANSIENT)
    if evidence.status == codes.OK and not evidence.text:
        return _Finding(K.EMPTY_RESPONSE, Confidence.LIKELY)
    if _is_refused(evidence):
        return _Finding(K.BAD_REQUEST, Confidence.GUESS, K.TRANSIENT)
    if refusal.phase in {Phase.CONNECT, Phase.STREAM} or not evidence.text:
        return _Finding(K.TRANSIENT, Confidence.GUESS)
    # Providers reject with a status; a text alone is mostly from the HTTP library, about a broken connection.
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


# --- Numbers, delays and the message ---


def _fault(finding: _Finding, refusal: Refusal, evidence: Evidence) -> Fault:
    numbers = _numbers(finding, evidence)
    kind, second = _corrected(finding, evidence, numbers)
    if finding.kind is K.TOKEN_OVERFLOW and finding.unit is Unit.TOKENS and kind is K.BAD_REQUEST:
        numbers = msgspec.structs.replace(numbers, unit=Unit.COUNT)
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


def _corrected(finding: _Finding, evidence: Evidence, numbers: Stated) -> tuple[FaultKind, FaultKind | None]:
    """Return kind and second kind, corrected by the numbers and by the request part that the error names."""
    kind, second = finding.kind, finding.second
    in_chars = kind is K.TOKEN_OVERFLOW and finding.unit is Unit.CHARS
    if (kind is K.WIRE_OVERFLOW or in_chars) and _is_setting(evidence, numbers):
        kind = K.BAD_REQUEST
    if kind is K.BAD_REQUEST and _REASONING_PARAMETER.search(evidence.places):
        kind, second = K.BAD_REQUEST_REASONING, K.BAD_REQUEST
    if finding.unit is Unit.TOKENS and kind is K.TOKEN_OVERFLOW and _counts_no_tokens(evidence.text, numbers):
        kind = K.BAD_REQUEST
    if kind is K.RATE_LIMIT and _never_fits(evidence.text, numbers):
        second = K.TOKEN_OVERFLOW
    return kind, second


def _numbers(finding: _Finding, evidence: Evidence) -> Stated:
    if not finding.has_numbers:
        return Stated(unit=finding.unit)
    text, unit = _OWN_CODE.sub("", evidence.text), finding.unit
    if finding.kind in _RATES:
        return _rate_numbers(finding, evidence, text)
    numbers = stated(text, evidence.numbers, unit)
    if finding.kind is K.TOKEN_OVERFLOW and (numbers.requested or 1) <= 0:
        # "must be at least 1, got -812": the remaining output, not the requested size.
        return Stated(unit=unit)
    if finding.kind is K.BAD_REQUEST and numbers.requested is None:
        return msgspec.structs.replace(numbers, requested=numbers.output)
    if finding.kind is K.MEDIA_OVERFLOW and numbers.unit is None:
        return msgspec.structs.replace(numbers, unit=_media_unit(text, numbers))
    return numbers


def _rate_numbers(finding: _Finding, evidence: Evidence, text: str) -> Stated:
    unit = finding.unit
    if not re.search(r"tokens|token capacity|tp[md]", text):
        # A rate then counts calls; a quota message has money and dates, so only a named field counts.
        text, unit = "" if finding.kind is K.QUOTA and not re.search(r"limit: ?\d", text) else text, None
    numbers = stated(text, evidence.numbers, unit)
    # "You requested 32000 tokens, but can only afford 0": a rest of 0 is not a limit, but the requested size is known.
    is_known = numbers.limit is not None or "afford" in text
    return msgspec.structs.replace(numbers, unit=numbers.unit or Unit.COUNT) if is_known else Stated()


def _media_unit(text: str, numbers: Stated) -> Unit | None:
    if re.search(r"pixel|(?<![a-z])px|dimension|resolution|width|height", text):
        return Unit.PIXELS
    if re.search(r"bytes|size|too large|too big|过大", text):
        return Unit.BYTES
    return Unit.COUNT if numbers.limit is not None or "too many" in text else None


def _is_setting(evidence: Evidence, numbers: Stated) -> bool:
    """Return whether a length is of a name, an id or a parameter, so that compaction would not help."""
    text = evidence.text
    if codes.BY_STATUS.get(evidence.status or 0) is K.WIRE_OVERFLOW:
        return False
    if numbers.unit is Unit.COUNT:
        # "List should have at most 16 items" does not name the list; the path does.
        return not _LIST_FIELD.search(evidence.places or text)
    if numbers.unit is not Unit.CHARS or (numbers.limit or 0) >= _TEXT_CHARS_MIN:
        return False
    is_short, is_text = _SHORT_FIELD.search(text) is not None, _TEXT_FIELD.search(text) is not None
    return is_short and not is_text if numbers.limit is None else is_short or not is_text


def _counts_no_tokens(text: str, numbers: Stated) -> bool:
    """Return whether a limit is too small for a window and no word refers to a prompt: the limit of a parameter."""
    if numbers.limit is None or numbers.limit >= _TOKENS_MIN:
        return False
    if "token" in text and re.search(r"prompt|input|request|message|model|sequence|output", text):
        return False
    return re.search(r"context|n_ctx|(?:prompt|input|sequence) length", text) is None


def _never_fits(text: str, numbers: Stated) -> bool:
    """Return whether one request alone exceeds the rate limit, so that backoff does not help."""
    if numbers.limit is None or numbers.requested is None or "current" in text:
        return False
    return numbers.unit is Unit.TOKENS and numbers.requested > numbers.limit


def _masked(sentence: str) -> str:
    """Truncate a sentence and mask API keys in it."""
    masked = _SECRET.sub("***", sentence[: 4 * _SAID_CHARS_MAX])
    return masked if len(masked) <= _SAID_CHARS_MAX else masked[: _SAID_CHARS_MAX - 1] + "…"
