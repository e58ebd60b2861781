"""What we tell a client ourselves, in its own dialect: an error of the provider's or of ours, or its own compaction."""

import secrets
from time import time

import msgspec

from holdfast.gateway.http.asgi import Scope, header
from holdfast.gateway.http.problems import Problem
from holdfast.gateway.proxy.client_compaction import represented
from holdfast.gateway.proxy.forward import Failed, Passed
from holdfast.gateway.proxy.request import Asked, Outbox
from holdfast.models.client_responses import told_error
from holdfast.models.dialects import SERVED, dialect_at
from holdfast.types.faults import Phase

# What is asked about messages besides their answers, such as their count.
_ANTHROPIC_PATH = "/v1/messages"
JSON_HEADERS = [(b"content-type", b"application/json")]


async def tell_end(asked: Asked, outbox: Outbox, outcome: Passed | Failed) -> None:
    """End an answer that went through; else say what the provider said, or that it said nothing."""
    if isinstance(outcome, Passed):
        await outbox.end()
    elif outcome.error is not None:
        await outbox.whole(outcome.error.status, outcome.error.headers, outcome.error.body)
    else:
        is_late = outcome.refusal.phase is Phase.STALL
        told = f"holdfast: the upstream did not answer: {outcome.refusal.cause}"
        await outbox.whole(504 if is_late else 502, JSON_HEADERS, error_body(asked.dialect, told))


async def tell_compaction(asked: Asked, outbox: Outbox) -> None:
    """Answer an agent's own compaction without a model."""
    assert asked.decoded is not None, "only what was read is known to be a compaction"
    dialect, decoded = SERVED[asked.dialect], asked.decoded
    reply = represented(decoded.request, decoded.model)
    outbox.notes["x-holdfast-rescued"] = "compaction_answered"
    outbox.notes["x-holdfast-notice"] = "the provider refused this compaction; it was made without a model"
    reply_id = f"holdfast-{secrets.token_hex(8)}"
    if not decoded.wants_stream:
        await outbox.whole(200, JSON_HEADERS, dialect.encode_reply(reply, reply_id, int(time())))
        return
    await outbox.begin(200, [(b"content-type", b"text/event-stream; charset=utf-8")])
    for event in dialect.encode_stream(reply, reply_id, int(time()), wants_usage=decoded.wants_usage):
        await outbox.write(event)
    await outbox.end()


def told_problem(scope: Scope, problem: Problem) -> tuple[int, bytes]:
    """Return the status and the body by which a client's own library knows an error of the gateway."""
    path = scope["path"]
    dialect = dialect_at(path)
    if dialect not in SERVED:
        is_anthropic = path.startswith(_ANTHROPIC_PATH) or bool(header(scope, b"anthropic-version"))
        dialect = "anthropic" if is_anthropic else "openai-chat"
    told = told_error(dialect or "", problem.status, problem.code, f"holdfast: {problem.detail}")
    return told.status, told.body


def error_body(dialect: str, message: str) -> bytes:
    """Return an error of ours as a client of this dialect reads it."""
    if dialect == "anthropic":
        return msgspec.json.encode({"type": "error", "error": {"type": "api_error", "message": message}})
    return msgspec.json.encode({"error": {"message": message, "type": "api_error", "param": None, "code": None}})
