"""Classify a provider's error: kind, numbers and confidence.

The order is fixed: parse the body, then unambiguous codes, replies without output, and a few forms of sentences whose
misreading would teach a wrong limit. Everything else is read by a linear model with calibrated shares; where it is not
sure, the status and the size of the request decide. `classify` never raises for any input and always returns a kind.
"""

import re

import msgspec

from holdfast.core.faults import codes
from holdfast.core.faults.body import Evidence, read
from holdfast.core.faults.model import features, shares
from holdfast.core.faults.numbers import Stated, stated
from holdfast.core.faults.replies import (
    is_near,
    is_near_window,
    outcome_of,
    read_outcome,
    reply_fault,
)
from holdfast.core.faults.retry_after import wait_seconds
from holdfast.core.faults.shapes import Finding, by_shape, unit_of
from holdfast.core.text.patterns import Pattern
from holdfast.types.faults import Confidence, Fault, FaultKind, Phase, Refusal, Sent, Unit
from holdfast.types.messages import Reply

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
# No server takes less in one request.
_BYTES_MIN = 32_768
_FORBIDDEN = 403
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
# An overflow has a subject and a complaint; a sentence without them is about something else.
_SUBJECT = Pattern(
    r"token|context|window|prompt|input|conversat|messag|histor|length|text|sequence|ctx|content|request|body|payload"
    r"|entity|size|batch|upload|长|输入|请求|内容"
)
_COMPLAINT = Pattern(
    r"context|window|length|size|limit|long|large|big|many|exceed|max|short|over|reduce|trunc|most|than|fit|超|过|限"
)
_REPLAYED = Pattern(r"signature|encrypted|redacted|decrypt|passed back|rs_|blocks?(?![a-z])|missing|without|assistant")
# Shares of the model, calibrated on providers that it was not fitted to.
_SHARE_CERTAIN, _SHARE_LIKELY, _SHARE_MIN, _SHARE_SECOND = 0.95, 0.6, 0.3, 0.1
_SHARE_COSTLY = 0.5
# A request near a limit makes its overflow this much likelier, in natural logarithms.
_VOTE = 1.0
# Request parameters of reasoning.
_REASONING_PARAMETER = Pattern(r"reasoning|thinking|(?<![a-z])effort(?![a-z])")


def classify(refusal: Refusal, sent: Sent = Sent()) -> Fault:  # noqa: B008 - frozen, so one for all calls is right
    """Classify a failed call."""
    evidence = read(refusal)
    finding = (
        _by_phase(refusal)
        or _by_code(evidence, sent)
        or _by_page(evidence)
        or _by_reply(evidence, sent)
        or _unread(evidence, refusal, sent)
        or by_shape(evidence)
        or _by_model(evidence, refusal, sent)
    )
    fault = finding if isinstance(finding, Fault) else _fault(finding, refusal, evidence)
    return msgspec.structs.replace(_checked(fault, evidence, sent), blamed=refusal.blamed)


def classify_reply(reply: Reply, sent: Sent) -> Fault | None:
    """Return the fault of a reply with a good status, or None if it is usable."""
    return reply_fault(outcome_of(reply), sent)


def _checked(fault: Fault, evidence: Evidence, sent: Sent) -> Fault:
    """Return a fault that the request allows: media are refused only where some were sent."""
    if fault.kind is K.AUTH and evidence.status == _FORBIDDEN and fault.second_kind is None:
        # Firewalls refuse content with this status.
        return msgspec.structs.replace(fault, second_kind=K.CONTENT_POLICY)
    if sent.wire_bytes is None:
        return fault
    if fault.kind is K.MEDIA_OVERFLOW and not sent.media_count:
        return Fault(K.BAD_REQUEST, Confidence.GUESS, K.MEDIA_OVERFLOW, said=fault.said)
    if fault.kind is K.WIRE_OVERFLOW and fault.limit is None and sent.wire_bytes < _BYTES_MIN:
        return msgspec.structs.replace(fault, confidence=Confidence.GUESS)
    return fault


# --- Classification steps, in order ---


def _by_phase(refusal: Refusal) -> Finding | None:
    return Finding(K.STREAM_STALL, Confidence.CERTAIN) if refusal.phase is Phase.STALL else None


def _by_code(evidence: Evidence, sent: Sent) -> Finding | None:
    """Classify by unambiguous codes, first by those of one provider."""
    for code in evidence.codes:
        if (own := codes.OF_PROVIDER.get((_family(sent), code))) is not None:
            return Finding(own, Confidence.CERTAIN)
    kind = codes.kind_of(evidence.codes, codes.SPECIFIC)
    if kind is None:
        return None
    return Finding(kind, Confidence.CERTAIN, unit=unit_of(kind, evidence), has_numbers=kind in _COUNTED)


def _family(sent: Sent) -> str:
    """Return the provider's name without the suffix of a gateway or an edition."""
    return sent.provider.split("-")[0].lower()


def _by_page(evidence: Evidence) -> Finding | None:
    """Classify an HTML page by its status: it is from a server before the provider, and its text is not specific."""
    if not evidence.is_page or evidence.status is None:
        return None
    if evidence.status == codes.OK and _WALL.search(evidence.text):
        return Finding(K.AUTH, Confidence.LIKELY, K.CONTENT_POLICY)
    kind = codes.BY_STATUS.get(evidence.status, K.BAD_REQUEST)
    if evidence.status >= codes.BROKEN_FROM:
        return Finding(K.TRANSIENT, Confidence.LIKELY, second=K.OVERLOADED)
    second = K.CONTENT_POLICY if kind is K.AUTH else None
    return Finding(kind, Confidence.LIKELY, second, Unit.BYTES if kind is K.WIRE_OVERFLOW else None)


def _by_reply(evidence: Evidence, sent: Sent) -> Fault | None:
    """Classify a body that is a reply without usable output."""
    outcome = None if evidence.sentences else read_outcome(evidence.documents)
    if outcome is None or (evidence.is_stream and not evidence.has_ended):
        return None
    fault = reply_fault(outcome, sent)
    # A content filter may return an error status together with the emptied reply.
    is_filtered = fault is not None and fault.kind is K.CONTENT_POLICY
    return fault if is_filtered or evidence.status in {None, codes.OK} else None


def _unread(evidence: Evidence, refusal: Refusal, sent: Sent) -> Finding | None:
    """Classify a stream that could not be read. Its text is our own: only a stream that broke off says so."""
    if refusal.phase is not Phase.STREAM or refusal.body:
        return None
    if "ended before" in evidence.text:
        return Finding(K.STREAM_STALL, Confidence.LIKELY, K.TRANSIENT)
    return _by_status(evidence, refusal, sent)


def _by_model(evidence: Evidence, refusal: Refusal, sent: Sent) -> Finding:
    """Classify by the linear model. Where it abstains, the status and the request decide, and the result is a guess."""
    known = _by_status(evidence, refusal, sent)
    names = features(evidence, refusal.phase)
    if not any(name.startswith("!") for name in names):
        # No word has a meaning, so the code counts, which gateways also use as wrapping.
        return _by_general_code(evidence) or known
    found = _allowed(shares(names, _votes(sent)), evidence, sent)
    first, second = sorted(found, key=found.__getitem__, reverse=True)[:2]
    confidence = _confidence(found[first])
    if found[first] < _SHARE_MIN or (confidence is Confidence.GUESS and known.kind in _UNITS):
        return known
    return Finding(
        first,
        confidence,
        second if found[second] >= _SHARE_SECOND else None,
        unit_of(first, evidence),
        has_numbers=first in _COUNTED or first in _RATES,
    )


def _allowed(found: dict[FaultKind, float], evidence: Evidence, sent: Sent) -> dict[FaultKind, float]:
    """Return the shares without overflows that no sentence is about: a guess does not make the view smaller."""
    is_about_size = _SUBJECT.search(evidence.text) is not None and _COMPLAINT.search(evidence.text) is not None
    least = _SHARE_COSTLY if is_about_size or evidence.codes else 1.0
    if is_about_size and is_near_window(sent):
        least = 0.0
    return {kind: share for kind, share in found.items() if kind not in _UNITS or share >= least}


def _confidence(share: float) -> Confidence:
    if share >= _SHARE_CERTAIN:
        return Confidence.CERTAIN
    return Confidence.LIKELY if share >= _SHARE_LIKELY else Confidence.GUESS


def _by_general_code(evidence: Evidence) -> Finding | None:
    kind = codes.kind_of(evidence.codes, codes.GENERAL)
    if kind is K.TRANSIENT and codes.BY_STATUS.get(evidence.status or 0, K.BAD_REQUEST) in _SPEAKING:
        # A "server_error" beside a 413 is a default value of the server.
        return None
    return None if kind is None else Finding(kind, Confidence.LIKELY, unit=_UNITS.get(kind))


def _votes(sent: Sent) -> dict[FaultKind, float]:
    """Return votes for kinds that the request makes likelier."""
    held = (
        (K.TOKEN_OVERFLOW, is_near_window(sent)),
        (K.WIRE_OVERFLOW, is_near(sent.wire_bytes, sent.wire_bytes_max)),
    )
    return {kind: _VOTE for kind, holds in held if holds}


def _by_status(evidence: Evidence, refusal: Refusal, sent: Sent) -> Finding:
    """Classify by the status alone, the last step. An unexplained error of a large request may be an overflow."""
    status = evidence.status
    if status is None or status == codes.OK:
        return _without_status(evidence, refusal)
    if status in {400, 413} and not evidence.text and _family(sent) in codes.SILENT_ON_OVERFLOW:
        return Finding(K.TOKEN_OVERFLOW, Confidence.LIKELY, codes.BY_STATUS[status], Unit.TOKENS)
    if status >= codes.BROKEN_FROM:
        return Finding(codes.BY_STATUS.get(status, K.TRANSIENT), Confidence.LIKELY)
    kind = codes.BY_STATUS.get(status, K.BAD_REQUEST)
    if kind is K.WIRE_OVERFLOW:
        return _wire_overflow(sent)
    if kind is not K.BAD_REQUEST:
        return Finding(kind, Confidence.GUESS if kind is K.MODEL_NOT_FOUND else Confidence.LIKELY)
    # Only a 4xx can be caused by the size, not a redirect or an unusual 2xx.
    is_rejected = status >= codes.REFUSED_FROM
    return _unexplained(sent, evidence) if is_rejected else Finding(K.BAD_REQUEST, Confidence.GUESS)


def _wire_overflow(sent: Sent) -> Finding:
    second = K.TOKEN_OVERFLOW if is_near_window(sent) else K.MEDIA_OVERFLOW if sent.media_count else None
    return Finding(K.WIRE_OVERFLOW, Confidence.LIKELY, second, Unit.BYTES, has_numbers=True)


def _without_status(evidence: Evidence, refusal: Refusal) -> Finding:
    # A stream with a message did not just break off.
    is_cut = evidence.is_stream and not evidence.has_ended and not evidence.sentences
    if is_cut or (refusal.phase is Phase.STREAM and not evidence.text):
        return Finding(K.STREAM_STALL, Confidence.LIKELY, K.TRANSIENT)
    if evidence.status == codes.OK and not evidence.text:
        return Finding(K.EMPTY_RESPONSE, Confidence.LIKELY)
    if _is_refused(evidence):
        return Finding(K.BAD_REQUEST, Confidence.GUESS, K.TRANSIENT)
    if refusal.phase in {Phase.CONNECT, Phase.STREAM} or not evidence.text:
        return Finding(K.TRANSIENT, Confidence.GUESS)
    # Providers reject with a status; a text alone is mostly from the HTTP library, about a broken connection.
    likely, other = (K.BAD_REQUEST, K.TRANSIENT) if evidence.documents else (K.TRANSIENT, K.BAD_REQUEST)
    return Finding(likely, Confidence.GUESS, other)


def _is_refused(evidence: Evidence) -> bool:
    """Return whether there is no error status, and a code shows that the request was rejected."""
    return evidence.status in {None, codes.OK} and codes.kind_of(evidence.codes, codes.REFUSALS) is not None


def _unexplained(sent: Sent, evidence: Evidence) -> Finding:
    if is_near_window(sent) or (sent.has_grown and evidence.says_nothing):
        return Finding(K.TOKEN_OVERFLOW, Confidence.GUESS, K.BAD_REQUEST, Unit.TOKENS)
    if is_near(sent.wire_bytes, sent.wire_bytes_max):
        return Finding(K.WIRE_OVERFLOW, Confidence.GUESS, K.BAD_REQUEST, Unit.BYTES)
    suspects = (
        (sent.had_reasoning, K.BAD_REQUEST_REASONING),
        (sent.had_tools, K.TOOL_PAIRING),
        (sent.media_count > 0, K.MEDIA_OVERFLOW),
    )
    return Finding(K.BAD_REQUEST, Confidence.GUESS, next((kind for was_sent, kind in suspects if was_sent), None))


# --- Numbers, delays and the message ---


def _fault(finding: Finding, refusal: Refusal, evidence: Evidence) -> Fault:
    numbers = _numbers(finding, evidence)
    kind, second = _corrected(finding, evidence, numbers)
    if finding.kind is K.TOKEN_OVERFLOW and finding.unit is Unit.TOKENS and kind is K.BAD_REQUEST:
        numbers = msgspec.structs.replace(numbers, unit=Unit.COUNT)
    # The request is said to be larger than a limit of its kind.
    is_stated = kind in _COUNTED and (numbers.requested or 0) > (numbers.limit or 0) > 0
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


def _corrected(finding: Finding, evidence: Evidence, numbers: Stated) -> tuple[FaultKind, FaultKind | None]:
    """Return kind and second kind, corrected by the numbers and by the request part that the error names."""
    kind, second = finding.kind, finding.second
    in_chars = kind is K.TOKEN_OVERFLOW and finding.unit is Unit.CHARS
    if (kind is K.WIRE_OVERFLOW or in_chars) and _is_setting(evidence, numbers):
        kind = K.BAD_REQUEST
    if finding.unit is Unit.TOKENS and kind is K.TOKEN_OVERFLOW and _counts_no_tokens(evidence.text, numbers):
        kind = K.BAD_REQUEST
    if kind is K.RATE_LIMIT and _never_fits(evidence.text, numbers):
        second = K.TOKEN_OVERFLOW
    return _reasoning(kind, second, evidence)


def _reasoning(kind: FaultKind, second: FaultKind | None, evidence: Evidence) -> tuple[FaultKind, FaultKind | None]:
    """Return kind and second kind, corrected for reasoning: a parameter, or a part that cannot be replayed."""
    if kind is K.BAD_REQUEST and _REASONING_PARAMETER.search(evidence.places):
        return K.BAD_REQUEST_REASONING, K.BAD_REQUEST
    if kind is K.BAD_REQUEST_REASONING:
        return kind, K.TOOL_PAIRING if _REPLAYED.search(evidence.text) else None
    return kind, second


def _numbers(finding: Finding, evidence: Evidence) -> Stated:
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
        return msgspec.structs.replace(numbers, unit=_mediaunit_of(text, numbers))
    return numbers


def _rate_numbers(finding: Finding, evidence: Evidence, text: str) -> Stated:
    unit = finding.unit
    if not re.search(r"tokens|token capacity|tp[md]", text):
        # A rate then counts calls; a quota message has money and dates, so only a named field counts.
        text, unit = "" if finding.kind is K.QUOTA and not re.search(r"limit: ?\d", text) else text, None
    numbers = stated(text, evidence.numbers, unit)
    # "You requested 32000 tokens, but can only afford 0": a rest of 0 is not a limit, but the requested size is known.
    is_known = numbers.limit is not None or "afford" in text
    return msgspec.structs.replace(numbers, unit=numbers.unit or Unit.COUNT) if is_known else Stated()


def _mediaunit_of(text: str, numbers: Stated) -> Unit | None:
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
