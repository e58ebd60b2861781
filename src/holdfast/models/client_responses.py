"""Responses of the proxy endpoints other than forwarded ones: errors, model lists and token counts.

Each is encoded in the client's dialect, so that its library raises and retries the right errors.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType

import msgspec

from holdfast.errors import (
    ConflictError,
    HoldfastError,
    MissingKeyError,
    QueueFullError,
    RetryLaterError,
    TurnFailedError,
    UnknownModelError,
    UsageError,
)
from holdfast.models import anthropic, gemini, openai_chat, openai_responses
from holdfast.models.dialects import DIALECTS
from holdfast.models.wire import WireNode, to_bytes
from holdfast.types.messages import Reasoning, Reply


class ClientError(msgspec.Struct, frozen=True):
    """An error response in a client's dialect. `kind` and `code` are the dialect's terms; `body` is encoded."""

    status: int
    kind: str
    code: str
    message: str
    body: bytes


# Failure reason of a turn -> HTTP status that makes a client retry or give up correctly.
_REASONS: Mapping[str, int] = MappingProxyType(
    {
        "token_overflow": 400,
        "wire_overflow": 413,
        "media_overflow": 400,
        "rate_limit": 429,
        "quota": 402,
        "overloaded": 529,
        "transient": 502,
        "stream_stall": 504,
        "auth": 401,
        "model_not_found": 404,
        "bad_request_reasoning": 400,
        "tool_pairing": 400,
        "content_policy": 400,
        "empty_response": 502,
        "bad_request": 400,
        # The client disconnected or cancelled.
        "cancelled": 499,
    }
)

# https://docs.claude.com/en/api/errors
_ANTHROPIC_KINDS: Mapping[int, str] = MappingProxyType(
    {
        400: "invalid_request_error",
        401: "authentication_error",
        402: "billing_error",
        403: "permission_error",
        404: "not_found_error",
        409: "invalid_request_error",
        413: "request_too_large",
        429: "rate_limit_error",
        504: "timeout_error",
        529: "overloaded_error",
    }
)
_OPENAI_KINDS: Mapping[int, str] = MappingProxyType(
    {
        400: "invalid_request_error",
        401: "invalid_request_error",
        402: "insufficient_quota",
        403: "invalid_request_error",
        404: "invalid_request_error",
        409: "invalid_request_error",
        413: "invalid_request_error",
        429: "rate_limit_error",
    }
)
# Error codes known to OpenAI clients; all others are Holdfast's own.
_OPENAI_CODES: Mapping[str, str] = MappingProxyType(
    {
        "token_overflow": "context_length_exceeded",
        "rate_limit": "rate_limit_exceeded",
        "quota": "insufficient_quota",
        "model_not_found": "model_not_found",
        "unknown_model": "model_not_found",
        "missing_key": "invalid_api_key",
        "auth": "invalid_api_key",
        "content_policy": "content_policy_violation",
    }
)


# https://ai.google.dev/gemini-api/docs/troubleshooting
_GOOGLE_STATUSES: Mapping[int, str] = MappingProxyType(
    {
        400: "INVALID_ARGUMENT",
        401: "UNAUTHENTICATED",
        403: "PERMISSION_DENIED",
        404: "NOT_FOUND",
        409: "ABORTED",
        413: "INVALID_ARGUMENT",
        415: "INVALID_ARGUMENT",
        429: "RESOURCE_EXHAUSTED",
        499: "CANCELLED",
        502: "UNAVAILABLE",
        503: "UNAVAILABLE",
        504: "DEADLINE_EXCEEDED",
    }
)
_GOOGLE_RPC = "type.googleapis.com/google.rpc."


def client_error(dialect: str, error: HoldfastError) -> ClientError:
    """Encode a Holdfast error in a client's dialect."""
    reason = error.reason if isinstance(error, TurnFailedError) else error.code
    message = error.sentence if isinstance(error, TurnFailedError) else str(error)
    return told_error(dialect, _status(error), reason, message)


def told_error(dialect: str, status: int, reason: str, message: str, retry_seconds: int = 0) -> ClientError:
    """Encode an error of the endpoint itself, such as an unknown path, in a client's dialect.

    `retry_seconds` is when a retry can succeed; only Google has it in the body, others have a header.
    """
    if dialect == gemini.NAME:
        return _google_error(status, reason, message, retry_seconds)
    if dialect == anthropic.NAME:
        kind = _ANTHROPIC_KINDS.get(status, "api_error")
        return ClientError(status, kind, reason, message, anthropic.encode_error(kind, message))
    # OpenAI does not use 402 and 529; its clients know 429 and 503.
    status = {402: 429, 529: 503}.get(status, status)
    kind = "insufficient_quota" if reason == "quota" else _OPENAI_KINDS.get(status, "server_error")
    code = _OPENAI_CODES.get(reason, reason)
    return ClientError(status, kind, code, message, openai_chat.encode_error(kind, message, code=code))


def _google_error(status: int, reason: str, message: str, retry_seconds: int) -> ClientError:
    # Google does not use 402 and 529; its clients know 429 and 503.
    status = {402: 429, 529: 503}.get(status, status)
    kind = _GOOGLE_STATUSES.get(status, "INTERNAL")
    details: list[WireNode] = [
        {"@type": f"{_GOOGLE_RPC}ErrorInfo", "reason": reason.upper(), "domain": "holdfast"},
    ]
    if retry_seconds:
        details.append({"@type": f"{_GOOGLE_RPC}RetryInfo", "retryDelay": f"{retry_seconds}s"})
    return ClientError(status, kind, reason, message, gemini.encode_error(status, kind, message, details))


def _status(error: HoldfastError) -> int:
    match error:
        case TurnFailedError():
            return _REASONS.get(error.reason, 502)
        case UnknownModelError():
            return 404
        case MissingKeyError():
            return 401
        case UsageError():
            return 400
        case QueueFullError():
            return 429
        case RetryLaterError():
            return 503
        case ConflictError():
            return 409
        case _:
            return 500


# --- Replies ---


def whole_reply(dialect: str, reply: Reply, reply_id: str, created: int, issuer: str) -> bytes:
    """Encode a reply for a client, without signatures that only an issuer of another dialect can verify."""
    if issuer.partition(":")[0] not in ("", dialect):
        readable = (part for part in reply.parts if not isinstance(part, Reasoning) or part.text)
        unsigned = (Reasoning(part.text) if isinstance(part, Reasoning) else part for part in readable)
        reply = msgspec.structs.replace(reply, parts=tuple(unsigned))
    return DIALECTS[dialect].encode_reply(reply, reply_id, created)


# --- Model lists and token counts ---


def _openai_models(names: Sequence[str], created: int) -> bytes:
    return to_bytes(
        {
            "object": "list",
            "data": [{"id": name, "object": "model", "created": created, "owned_by": "holdfast"} for name in names],
        }
    )


def _anthropic_models(names: Sequence[str], created: int) -> bytes:
    at = datetime.fromtimestamp(created, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return to_bytes(
        {
            "data": [{"type": "model", "id": name, "display_name": name, "created_at": at} for name in names],
            "has_more": False,
            "first_id": names[0] if names else None,
            "last_id": names[-1] if names else None,
        }
    )


def _gemini_models(names: Sequence[str], created: int) -> bytes:  # noqa: ARG001 - no time in this dialect
    return to_bytes({"models": [gemini_model(name) for name in names]})


def gemini_model(name: str) -> WireNode:
    """Return a model as Gemini's API describes it."""
    methods = ["generateContent", "countTokens"]
    return {"name": f"models/{name}", "displayName": name, "supportedGenerationMethods": methods}


_LISTS: Mapping[str, Callable[[Sequence[str], int], bytes]] = MappingProxyType(
    {
        openai_chat.NAME: _openai_models,
        openai_responses.NAME: _openai_models,
        anthropic.NAME: _anthropic_models,
        gemini.NAME: _gemini_models,
    }
)


def encode_models(dialect: str, names: Sequence[str], created: int = 0) -> bytes:
    """Encode the list of available models as one page."""
    return _LISTS[dialect](names, created)


def encode_token_count(tokens: int) -> bytes:
    """Encode the response to Anthropic's count_tokens."""
    return to_bytes({"input_tokens": tokens})
