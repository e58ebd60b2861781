"""Detect failures in successful responses: empty, truncated or filtered replies, and truncated prompts.

`reply_fault` needs a few facts, taken from a typed `Reply` or from a raw body.
"""

import msgspec

from holdfast.core.faults.body import Json, plain
from holdfast.types.faults import Confidence, Fault, FaultKind, Sent, Unit
from holdfast.types.messages import Reply, StopReason, Text, ToolCall

# Share of the limit from which the size is the most likely cause of an unexplained failure (FM-002).
NEAR_LIMIT = 0.8
# A server that truncates the prompt reports its window, give or take the tokens of its template.
_AT_WINDOW = 0.98
# Estimates are off by a third at worst, so reported usage of half the estimate means a truncated prompt.
READ_SHARE = 0.5
# With cached prefixes some servers report a handful of tokens; a lower count does not reveal truncation.
_READ_TOKENS_MIN = 1_000
# Reported usage above twice the window is a broken counter, not an accepted prompt.
_USAGE_SHARE_MAX = 2.0

# Text is nested less deeply in every dialect.
_DEPTH_MAX = 6

_LENGTH = frozenset({"length", "maxtokens", "maxoutputtokens", "incomplete"})
_WINDOW_FULL = frozenset({"modelcontextwindowexceeded", "contextlengthexceeded", "contextwindowexceeded"})
_FILTERED = frozenset(
    {"contentfilter", "contentfiltered", "safety", "prohibitedcontent", "recitation", "blocklist", "spii", "refusal",
     "sensitive", "imagesafety", "guardrailintervened"}
)  # fmt: skip


class Outcome(msgspec.Struct, frozen=True):
    """Facts about a reply. `stop` is the stop reason in lower case, letters and digits only."""

    stop: str
    has_output: bool
    input_tokens: int | None = None


def outcome_of(reply: Reply) -> Outcome:
    """Return the facts about a typed reply."""
    stops = {StopReason.LENGTH: "length", StopReason.CONTENT_FILTER: "contentfilter"}
    return Outcome(
        stop=stops.get(reply.stop_reason, ""),
        has_output=any(
            isinstance(part, ToolCall) or (isinstance(part, Text) and part.text.strip() != "") for part in reply.parts
        ),
        input_tokens=None if reply.usage is None else reply.usage.input_tokens,
    )


def reply_fault(outcome: Outcome, sent: Sent) -> Fault | None:
    """Return the fault of a reply, or None if it is usable."""
    if outcome.stop in _FILTERED and not outcome.has_output:
        return Fault(FaultKind.CONTENT_POLICY, Confidence.LIKELY)
    if outcome.stop in _WINDOW_FULL:
        return _overflow(Confidence.CERTAIN)
    if (prompt := _truncated_prompt(outcome, sent)) is not None:
        confidence = Confidence.GUESS if outcome.has_output else Confidence.LIKELY
        # If the prompt was truncated, the reported usage is the window; the reply to a smaller request confirms it.
        limit = outcome.input_tokens if outcome.has_output and prompt != outcome.input_tokens else None
        return _overflow(confidence, limit=limit, requested=prompt)
    return None if outcome.has_output else _empty(outcome, sent)


def _overflow(confidence: Confidence, *, limit: int | None = None, requested: int | None = None) -> Fault:
    return Fault(
        FaultKind.TOKEN_OVERFLOW,
        confidence,
        second_kind=FaultKind.EMPTY_RESPONSE,
        limit=limit,
        requested=requested,
        unit=Unit.TOKENS,
    )


def _empty(outcome: Outcome, sent: Sent) -> Fault:
    is_cut, is_large = outcome.stop in _LENGTH, is_near_window(sent)
    if is_cut and is_large:
        return _overflow(Confidence.LIKELY)
    second = FaultKind.TOKEN_OVERFLOW if is_cut or is_large or sent.has_grown else None
    return Fault(FaultKind.EMPTY_RESPONSE, Confidence.LIKELY, second_kind=second)


def is_near_window(sent: Sent) -> bool:
    """Return whether a request was so large that its size may be the cause."""
    return is_near(sent.tokens, sent.window_tokens)


def is_near(size: int | None, limit: int | None) -> bool:
    """Return whether a size is close to a limit or above it; False if either is unknown."""
    return size is not None and bool(limit) and size >= NEAR_LIMIT * (limit or 0)


def _truncated_prompt(outcome: Outcome, sent: Sent) -> int | None:
    """Return the size of the prompt if usage shows that it did not fit: above the window, or truncated to it."""
    used = outcome.input_tokens
    if used is None:
        return None
    exceeding = None if sent.window_tokens is None else _at_window(used, sent.window_tokens, outcome, sent)
    if exceeding is not None:
        return exceeding
    is_truncated = sent.reports_all_read and used >= _READ_TOKENS_MIN and is_short(used, sent)
    return sent.tokens if is_truncated else None


def _at_window(used: int, window: int, outcome: Outcome, sent: Sent) -> int | None:
    """Return the size of the prompt if reported usage is above the window, or at it without output."""
    if window < used <= _USAGE_SHARE_MAX * window:
        return used
    if not outcome.has_output and _AT_WINDOW * window <= used <= window:
        return max(used, sent.tokens or 0)
    return None


def is_short(used: int, sent: Sent) -> bool:
    """Return whether reported usage is so far below the estimate that the prompt was truncated."""
    return used <= READ_SHARE * (sent.tokens or 0) or used < (sent.tokens_least or 0)


# --- Raw bodies ---


def read_outcome(documents: tuple[Json, ...]) -> Outcome | None:
    """Find a reply in decoded bodies, of any dialect; None if there is none."""
    found = [one for one in map(_outcome, documents) if one is not None]
    if not found:
        return None
    return Outcome(
        stop=next((one.stop for one in reversed(found) if one.stop), ""),
        has_output=any(one.has_output for one in found),
        input_tokens=next((one.input_tokens for one in reversed(found) if one.input_tokens is not None), None),
    )


def _outcome(document: Json) -> Outcome | None:
    if not isinstance(document, dict):
        return None
    pieces = _pieces(document)
    if pieces is None:
        return None
    stop = next((plain(value) for one in pieces for value in (_stop(one),) if value), "")
    return Outcome(stop, any(_has_output(one, 0) for one in pieces), _input_tokens(document))


def _pieces(document: dict[str, Json]) -> list[dict[str, Json]] | None:
    """Return the parts of a reply with output and stop reason, or None if it is not a reply."""
    if isinstance(inner := document.get("output"), dict):
        return _pieces(inner)
    for name in ("choices", "candidates"):
        if isinstance(pieces := document.get(name), list):
            return [one for one in pieces if isinstance(one, dict)]
    if isinstance(feedback := document.get("promptFeedback"), dict):
        return [feedback]
    if (
        isinstance(document.get("output"), list)
        or "stop_reason" in document
        or "stopReason" in document
        or isinstance(document.get("done"), bool)
    ):
        return [document]
    return None


def _stop(piece: dict[str, Json]) -> str:
    names = ("finish_reason", "finishReason", "stop_reason", "stopReason", "blockReason", "done_reason")
    reason = next((value for name in names if isinstance(value := piece.get(name), str)), "")
    message = piece.get("message")
    # A refusal by the model has a field of its own, with any stop reason.
    is_declined = isinstance(message, dict) and isinstance(message.get("refusal"), str) and message["refusal"] != ""
    return "refusal" if is_declined else reason


def _has_output(value: Json, depth: int) -> bool:
    """Return whether a part of a reply has text or a tool call."""
    if depth > _DEPTH_MAX:
        return False
    if isinstance(value, list):
        return any(_has_output(one, depth + 1) for one in value)
    if not isinstance(value, dict):
        return False
    return any(_is_output(name, inner) or _has_output(inner, depth + 1) for name, inner in value.items())


def _is_output(name: str, value: Json) -> bool:
    if name in {"text", "content", "response", "output_text"}:
        return isinstance(value, str) and value.strip() != ""
    if name in {"tool_calls", "functionCall", "toolUse", "function_call"}:
        return bool(value)
    return name == "type" and value == "tool_use"


def _input_tokens(document: dict[str, Json]) -> int | None:
    usage = document.get("usage") or document.get("usageMetadata") or document
    if not isinstance(usage, dict):
        return None
    names = ("prompt_tokens", "input_tokens", "promptTokenCount", "prompt_eval_count", "inputTokens")
    return next((value for name in names if isinstance(value := usage.get(name), int)), None)
