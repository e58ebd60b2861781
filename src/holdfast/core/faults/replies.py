"""Detect failures in successful responses: empty, truncated or filtered replies, and truncated prompts.

`reply_fault` needs a few facts, taken from a typed `Reply` or from a raw body.
"""

from collections.abc import Iterator, Sequence

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
_DEPTH_MAX = 7
_STOP_KEYS = frozenset({"finish_reason", "finishReason", "stop_reason", "stopReason", "blockReason", "done_reason"})
_USAGE_KEYS = frozenset({"prompt_tokens", "input_tokens", "promptTokenCount", "prompt_eval_count", "inputTokens"})
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
    used, window = outcome.input_tokens, sent.window_tokens or 0
    if used is None:
        return None
    if window < used <= _USAGE_SHARE_MAX * window:
        return used
    if not outcome.has_output and 0 < _AT_WINDOW * window <= used <= window:
        return max(used, sent.tokens or 0)
    is_truncated = sent.reports_all_read and used >= _READ_TOKENS_MIN and is_short(used, sent)
    return sent.tokens if is_truncated else None


def is_short(used: int, sent: Sent) -> bool:
    """Return whether reported usage is so far below the estimate that the prompt was truncated."""
    return used <= READ_SHARE * (sent.tokens or 0) or used < (sent.tokens_least or 0)


# --- Raw bodies ---


def read_outcome(documents: Sequence[Json]) -> Outcome | None:
    """Find a reply in decoded bodies, of any dialect and in any number of pieces; None if there is none."""
    pieces = [list(_pairs(one, 0)) for one in documents]
    replies = [pairs for pairs in pieces if any(_is_reply(name, value) for name, value in pairs)]
    if not replies:
        return None
    pairs = [pair for one in reversed(replies) for pair in one]
    stop = next((plain(value) for name, value in pairs if name in _STOP_KEYS and value and isinstance(value, str)), "")
    # A refusal by the model has a field of its own, with any stop reason.
    is_declined = any(name == "refusal" and isinstance(value, str) and value for name, value in pairs)
    return Outcome(
        stop="refusal" if is_declined else stop,
        has_output=any(_is_output(name, value) for name, value in pairs),
        input_tokens=next((value for name, value in pairs if name in _USAGE_KEYS and isinstance(value, int)), None),
    )


def _pairs(value: Json, depth: int) -> Iterator[tuple[str, Json]]:
    """Yield every name and value of a document, down to a depth."""
    for inner in value if isinstance(value, list) else ():
        yield from _pairs(inner, depth + 1) if depth < _DEPTH_MAX else ()
    for name, inner in value.items() if isinstance(value, dict) else ():
        yield name, inner
        yield from _pairs(inner, depth + 1) if depth < _DEPTH_MAX else ()


def _is_reply(name: str, value: Json) -> bool:
    if name in {"choices", "candidates", "output"}:
        return isinstance(value, list)
    return name in {"promptFeedback", "stop_reason", "stopReason"} or (name == "done" and isinstance(value, bool))


def _is_output(name: str, value: Json) -> bool:
    if name in {"text", "content", "response", "output_text"}:
        return isinstance(value, str) and value.strip() != ""
    if name in {"tool_calls", "functionCall", "toolUse", "function_call"}:
        return bool(value)
    return name == "type" and value == "tool_use"
