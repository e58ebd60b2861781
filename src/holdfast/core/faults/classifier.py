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
from holdfast.core.faults.replies import is_near, is_near_window, outcome_of, read_outcome, reply_fault
from holdfast.core.faults.retry_after import wait_seconds
from holdfast.core.faults.rules import Finding, by_rule, is_setting, unit_of
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
# MiniMax ends its sentences with its own error code in brackets, which looks like a limit.
_OWN_CODE = Pattern(r"\((?:10\d\d|2013|2049|2056)\)$")
# Words on the page of a firewall or login gate that blocks the request, with any status.
_WALL = Pattern(r"reject|block|denied|forbidden|captcha|you are human|(?:log|sign)[ -]?in(?![a-z])")
# An overflow has a subject and a complaint; a sentence without them is about something else.
_SUBJECT = Pattern(
    "token|conte|window|prompt|input|messag|histor|length|text|sequence|ctx|request|body|payload|size|batch"
)
_COMPLAINT = Pattern(
    "conte|window|length|size|limit|long|large|big|many|exceed|max|short|over|reduce|trunc|most|than|fit"
)
_REPLAYED = Pattern(r"signature|encrypted|redacted|decrypt|passed back|rs_|blocks?(?![a-z])|missing|without|assistant")
# Shares of the model, calibrated on providers that it was not fitted to.
_SHARE_LIKELY, _SHARE_MIN, _SHARE_SECOND = 0.6, 0.3, 0.1
_CONFIDENCES = ((0.95, Confidence.CERTAIN), (_SHARE_LIKELY, Confidence.LIKELY), (0.0, Confidence.GUESS))


def classify(refusal: Refusal, sent: Sent = Sent()) -> Fault:  # noqa: B008 - frozen, so one for all calls is right
    """Classify a failed call."""
    evidence = read(refusal)
    finding = (
        _by_code(evidence, refusal, sent)
        or _by_page(evidence)
        or _by_reply(evidence, sent)
        or (_by_status(evidence, refusal, sent) if refusal.phase is Phase.STREAM and not refusal.body else None)
        or by_rule(evidence)
        or _by_model(evidence, refusal, sent)
    )
    fault = finding if isinstance(finding, Fault) else _fault(finding, refusal, evidence)
    return msgspec.structs.replace(fault, blamed=refusal.blamed)


def classify_reply(reply: Reply, sent: Sent) -> Fault | None:
    """Return the fault of a reply with a good status, or None if it is usable."""
    return reply_fault(outcome_of(reply), sent)


def _by_code(evidence: Evidence, refusal: Refusal, sent: Sent) -> Finding | None:
    """Classify by silence and by unambiguous codes, first by those of one provider."""
    if refusal.phase is Phase.STALL:
        return Finding(K.STREAM_STALL, Confidence.CERTAIN)
    own = (codes.OF_PROVIDER.get((_family(sent), code)) for code in evidence.codes)
    kind = next(filter(None, own), None) or codes.kind_of(evidence.codes, codes.SPECIFIC)
    return None if kind is None else Finding(kind, Confidence.CERTAIN, unit=unit_of(kind, evidence))


def _family(sent: Sent) -> str:
    """Return the provider's name without the suffix of a gateway or an edition."""
    return sent.provider.split("-")[0].lower()


def _by_page(evidence: Evidence) -> Finding | None:
    """Classify an HTML page by its status: it is from a server before the provider, and its text is not specific."""
    if not evidence.is_page or evidence.status is None:
        return None
    if evidence.status == codes.OK and _WALL.search(evidence.text):
        return Finding(K.AUTH, Confidence.LIKELY, K.CONTENT_POLICY)
    if evidence.status >= codes.BROKEN_FROM:
        return Finding(K.TRANSIENT, Confidence.LIKELY, second=K.OVERLOADED)
    kind = codes.BY_STATUS.get(evidence.status, K.BAD_REQUEST)
    return Finding(kind, Confidence.LIKELY, K.CONTENT_POLICY if kind is K.AUTH else None, _UNITS.get(kind))


def _by_reply(evidence: Evidence, sent: Sent) -> Fault | None:
    """Classify a body that is a reply without usable output."""
    outcome = None if evidence.sentences else read_outcome(evidence.documents)
    if outcome is None or (evidence.is_stream and not evidence.has_ended):
        return None
    fault = reply_fault(outcome, sent)
    # A content filter may return an error status together with the emptied reply.
    is_filtered = fault is not None and fault.kind is K.CONTENT_POLICY
    return fault if is_filtered or evidence.status in {None, codes.OK} else None


def _by_model(evidence: Evidence, refusal: Refusal, sent: Sent) -> Finding:
    """Classify by the linear model. Where it abstains, the status and the request decide, and the result is a guess."""
    known = _by_status(evidence, refusal, sent)
    names = features(evidence, refusal.phase)
    if not any(name.startswith("!") for name in names):
        kind = codes.kind_of(evidence.codes, codes.GENERAL)
        # A "server_error" beside a 413 is a default value of the server.
        is_default = kind is K.TRANSIENT and known.kind is not K.BAD_REQUEST
        return known if kind is None or is_default else Finding(kind, Confidence.LIKELY, unit=_UNITS.get(kind))
    is_near_wire = is_near(sent.wire_bytes, sent.wire_bytes_max)
    # A request near a limit makes its overflow likelier by one natural logarithm.
    votes = {K.TOKEN_OVERFLOW: float(is_near_window(sent)), K.WIRE_OVERFLOW: float(is_near_wire)}
    # A guess does not make the view smaller, nor does a sentence that is not about a size.
    is_about_size = _SUBJECT.search(evidence.text) is not None and _COMPLAINT.search(evidence.text) is not None
    least = _SHARE_LIKELY if is_about_size or evidence.codes else 1.0
    least = 0.0 if is_about_size and is_near_window(sent) else least
    allowed = {kind: share for kind, share in shares(names, votes).items() if kind not in _UNITS or share >= least}
    first, second = sorted(allowed, key=allowed.__getitem__, reverse=True)[:2]
    share = allowed[first]
    if share < _SHARE_MIN or (share < _SHARE_LIKELY and known.kind in _UNITS):
        return known
    return Finding(
        first,
        next(confidence for least, confidence in _CONFIDENCES if share >= least),
        second if allowed[second] >= _SHARE_SECOND else None,
        unit_of(first, evidence),
    )


def _by_status(evidence: Evidence, refusal: Refusal, sent: Sent) -> Finding:
    """Classify by the status alone, the last step. An unexplained error of a large request may be an overflow."""
    status = evidence.status
    if status is None or status == codes.OK:
        return _without_status(evidence, refusal)
    kind = codes.BY_STATUS.get(status, K.TRANSIENT if status >= codes.BROKEN_FROM else K.BAD_REQUEST)
    if status in {400, 413} and not evidence.text and _family(sent) in codes.SILENT_ON_OVERFLOW:
        return Finding(K.TOKEN_OVERFLOW, Confidence.LIKELY, kind, Unit.TOKENS)
    if kind is K.WIRE_OVERFLOW:
        second = K.TOKEN_OVERFLOW if is_near_window(sent) else K.MEDIA_OVERFLOW if sent.media_count else None
        return Finding(kind, Confidence.LIKELY, second, Unit.BYTES)
    if kind is not K.BAD_REQUEST:
        return Finding(kind, Confidence.GUESS if kind is K.MODEL_NOT_FOUND else Confidence.LIKELY)
    # Only a 4xx can be caused by the size, not a redirect or an unusual 2xx.
    is_rejected = status >= codes.REFUSED_FROM
    return _unexplained(sent, evidence) if is_rejected else Finding(K.BAD_REQUEST, Confidence.GUESS)


def _without_status(evidence: Evidence, refusal: Refusal) -> Finding:
    # A stream with a message did not just break off.
    is_cut = evidence.is_stream and not evidence.has_ended and not evidence.sentences
    # The text of a stream that could not be read is our own: only a stream that broke off says so.
    is_cut |= refusal.phase is Phase.STREAM and (not evidence.text or "ended before" in evidence.text)
    if is_cut:
        return Finding(K.STREAM_STALL, Confidence.LIKELY, K.TRANSIENT)
    if evidence.status == codes.OK and not evidence.text:
        return Finding(K.EMPTY_RESPONSE, Confidence.LIKELY)
    if refusal.phase in {Phase.CONNECT, Phase.STREAM} or not evidence.text:
        return Finding(K.TRANSIENT, Confidence.GUESS)
    # Providers reject with a status; a text alone is mostly from the HTTP library, about a broken connection.
    likely, other = (K.BAD_REQUEST, K.TRANSIENT) if evidence.documents else (K.TRANSIENT, K.BAD_REQUEST)
    return Finding(likely, Confidence.GUESS, other)


def _unexplained(sent: Sent, evidence: Evidence) -> Finding:
    if is_near_window(sent) or (sent.has_grown and evidence.says_nothing):
        return Finding(K.TOKEN_OVERFLOW, Confidence.GUESS, K.BAD_REQUEST, Unit.TOKENS)
    if is_near(sent.wire_bytes, sent.wire_bytes_max):
        return Finding(K.WIRE_OVERFLOW, Confidence.GUESS, K.BAD_REQUEST, Unit.BYTES)
    parts = ((sent.had_reasoning, K.BAD_REQUEST_REASONING), (sent.had_tools, K.TOOL_PAIRING))
    suspects = (kind for was_sent, kind in (*parts, (sent.media_count > 0, K.MEDIA_OVERFLOW)) if was_sent)
    return Finding(K.BAD_REQUEST, Confidence.GUESS, next(suspects, None))


def _fault(finding: Finding, refusal: Refusal, evidence: Evidence) -> Fault:
    numbers = _numbers(finding, evidence)
    kind, second = finding.kind, finding.second
    if is_setting(finding, evidence, numbers):
        kind = K.BAD_REQUEST
        numbers = msgspec.structs.replace(numbers, unit=Unit.COUNT if numbers.unit is Unit.TOKENS else numbers.unit)
    is_over = (numbers.requested or 0) > (numbers.limit or 0) > 0
    if kind is K.RATE_LIMIT and is_over and numbers.unit is Unit.TOKENS and "current" not in evidence.text:
        # One request alone exceeds the rate limit, so that backoff does not help.
        second = K.TOKEN_OVERFLOW
    if kind is K.BAD_REQUEST_REASONING:
        second = K.TOOL_PAIRING if _REPLAYED.search(evidence.text) else None
    # The request is said to be larger than a limit of its kind.
    is_stated = kind in _COUNTED and is_over and finding.confidence is Confidence.LIKELY
    wait = wait_seconds(refusal.headers, evidence.text, evidence.numbers)
    return Fault(
        kind,
        Confidence.CERTAIN if is_stated else finding.confidence,
        second,
        *(numbers.limit, numbers.requested, numbers.unit),
        retry_after_seconds=wait if kind in _WAITABLE else None,
        said=_masked(evidence.said),
        output_requested=numbers.output if kind is K.TOKEN_OVERFLOW else None,
    )


def _numbers(finding: Finding, evidence: Evidence) -> Stated:
    is_counted = finding.kind in _COUNTED or finding.kind in _RATES or (finding.unit and finding.kind is K.BAD_REQUEST)
    if not is_counted or evidence.is_page:
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


def _rate_numbers(finding: Finding, evidence: Evidence, text: str) -> Stated:
    """Return the numbers of a rate or a quota. They count calls, or money and days, unless tokens are mentioned."""
    unit = Unit.TOKENS if re.search(r"tokens|token capacity|tp[md]", text) else None
    is_dated = finding.kind is K.QUOTA and unit is None and "limit: " not in text
    numbers = stated("" if is_dated else text, evidence.numbers, unit)
    # "You requested 32000 tokens, but can only afford 0": a rest of 0 is not a limit, but the requested size is known.
    is_known = numbers.limit is not None or "afford" in text
    return msgspec.structs.replace(numbers, unit=numbers.unit or Unit.COUNT) if is_known else Stated()


def _media_unit(text: str, numbers: Stated) -> Unit | None:
    if re.search(r"pixel|(?<![a-z])px|dimension|resolution|width|height", text):
        return Unit.PIXELS
    if re.search(r"bytes|size|too large|too big", text):
        return Unit.BYTES
    return Unit.COUNT if numbers.limit is not None or "too many" in text else None


def _masked(sentence: str) -> str:
    """Truncate a sentence and mask API keys in it."""
    masked = _SECRET.sub("***", sentence[: 4 * _SAID_CHARS_MAX])
    return masked if len(masked) <= _SAID_CHARS_MAX else masked[: _SAID_CHARS_MAX - 1] + "…"
