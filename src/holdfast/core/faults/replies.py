"""Replies that came with a good status and yet are failures: empty, cut, filtered, or read only in part.

`symptom` looks at the few facts that matter; they come from a typed `Reply` or are read from a raw body.
"""

import msgspec

from holdfast.core.faults.body import Json, plain
from holdfast.types.faults import Confidence, Fault, FaultKind, Sent, Unit
from holdfast.types.messages import Reply, StopReason, Text, ToolCall

# From here on its size is the likeliest reason why a request failed without one (FM-002).
NEAR_LIMIT = 0.8
# A server that cuts the prompt reports exactly its window, give or take what its template adds.
_AT_WINDOW = 0.98
# Estimates are off by a third at worst, so half of what was sent means that the other half was not read.
READ_SHARE = 0.5
# Cached prefixes make some servers report a handful of tokens; below this a report says nothing about cutting.
_READ_TOKENS_MIN = 1_000
# Twice the window is a broken counter rather than an accepted prompt.
_USAGE_SHARE_MAX = 2.0

# Every dialect's deepest text stands less deep.
_DEPTH_MAX = 6

_LENGTH = frozenset({"length", "maxtokens", "maxoutputtokens", "incomplete"})
_WINDOW_FULL = frozenset({"modelcontextwindowexceeded", "contextlengthexceeded", "contextwindowexceeded"})
_FILTERED = frozenset(
    {"contentfilter", "contentfiltered", "safety", "prohibitedcontent", "recitation", "blocklist", "spii", "refusal",
     "sensitive", "imagesafety", "guardrailintervened"}
)  # fmt: skip


class Outcome(msgspec.Struct, frozen=True):
    """What a reply brought. `stop` is plain: letters and digits, lower case."""

    stop: str
    has_output: bool
    input_tokens: int | None = None


def outcome_of(reply: Reply) -> Outcome:
    """Reduce a typed reply to what matters here."""
    stops = {StopReason.LENGTH: "length", StopReason.CONTENT_FILTER: "contentfilter"}
    return Outcome(
        stop=stops.get(reply.stop_reason, ""),
        has_output=any(
            isinstance(part, ToolCall) or (isinstance(part, Text) and part.text.strip() != "") for part in reply.parts
        ),
        input_tokens=None if reply.usage is None else reply.usage.input_tokens,
    )


def symptom(outcome: Outcome, sent: Sent) -> Fault | None:
    """Name what is wrong with a reply, or None where it is fine."""
    overflow, empty = FaultKind.TOKEN_OVERFLOW, FaultKind.EMPTY_RESPONSE
    if outcome.stop in _FILTERED and not outcome.has_output:
        return Fault(FaultKind.CONTENT_POLICY, Confidence.LIKELY)
    if outcome.stop in _WINDOW_FULL:
        return Fault(overflow, Confidence.CERTAIN, second_kind=empty, unit=Unit.TOKENS)
    if (read := _read_share(outcome, sent)) is not None:
        confidence = Confidence.GUESS if outcome.has_output else Confidence.LIKELY
        # What was read of a request that was cut is the window, if it was cut; only a reply to less of it will tell.
        limit = outcome.input_tokens if outcome.has_output and read != outcome.input_tokens else None
        return Fault(overflow, confidence, second_kind=empty, limit=limit, requested=read, unit=Unit.TOKENS)
    if outcome.has_output:
        return None
    if outcome.stop in _LENGTH and is_near_window(sent):
        return Fault(overflow, Confidence.LIKELY, second_kind=empty, unit=Unit.TOKENS)
    second = overflow if outcome.stop in _LENGTH or is_near_window(sent) or sent.has_grown else None
    return Fault(empty, Confidence.LIKELY, second_kind=second)


def is_near_window(sent: Sent) -> bool:
    """Whether a request was so large that its size may be what was wrong."""
    return is_near(sent.tokens, sent.window_tokens)


def is_near(size: int | None, limit: int | None) -> bool:
    """Whether a size is close to a limit or above it; what is not known is near nothing."""
    return size is not None and bool(limit) and size >= NEAR_LIMIT * (limit or 0)


def _read_share(outcome: Outcome, sent: Sent) -> int | None:
    """Return the size of the prompt where usage shows that it did not fit: more than the window, or cut to it."""
    used, window = outcome.input_tokens, sent.window_tokens
    if used is None:
        return None
    if window is not None and window < used <= _USAGE_SHARE_MAX * window:
        return used
    if window is not None and not outcome.has_output and _AT_WINDOW * window <= used <= window:
        return sent.tokens if sent.tokens is not None and sent.tokens > used else used
    if sent.reports_all_read and sent.tokens is not None and used >= _READ_TOKENS_MIN and is_short(used, sent):
        return sent.tokens
    return None


def is_short(used: int, sent: Sent) -> bool:
    """Whether a model reports so much less than was sent that it cannot have read all of it."""
    return used <= READ_SHARE * (sent.tokens or 0) or used < (sent.tokens_least or 0)


# --- raw bodies --------------------------------------------------------------------------------------------------


def read_outcome(documents: tuple[Json, ...]) -> Outcome | None:
    """Find a reply in decoded bodies, of any dialect; None where there is none."""
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
    """Return the parts of a reply that say what was written and why it stopped, or None where it is no reply."""
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
    told = next((value for name in names if isinstance(value := piece.get(name), str)), "")
    message = piece.get("message")
    # What a model declines to say stands in a field of its own, whatever it stopped for.
    is_declined = isinstance(message, dict) and isinstance(message.get("refusal"), str) and message["refusal"] != ""
    return "refusal" if is_declined else told


def _has_output(value: Json, depth: int) -> bool:
    """Whether there is a text or a call in a piece of a reply."""
    if depth > _DEPTH_MAX:
        return False
    if isinstance(value, list):
        return any(_has_output(one, depth + 1) for one in value)
    if not isinstance(value, dict):
        return False
    for name, inner in value.items():
        if name in {"text", "content", "response", "output_text"} and isinstance(inner, str) and inner.strip():
            return True
        if name in {"tool_calls", "functionCall", "toolUse", "function_call"} and inner:
            return True
        if name == "type" and inner == "tool_use":
            return True
        if _has_output(inner, depth + 1):
            return True
    return False


def _input_tokens(document: dict[str, Json]) -> int | None:
    usage = document.get("usage") or document.get("usageMetadata") or document
    if not isinstance(usage, dict):
        return None
    names = ("prompt_tokens", "input_tokens", "promptTokenCount", "prompt_eval_count", "inputTokens")
    return next((value for name in names if isinstance(value := usage.get(name), int)), None)
