"""Responses of our own in the client's dialect: errors, compaction answers, and paths that are only forwarded."""

import secrets
from collections.abc import Mapping
from contextlib import closing
from time import time

import msgspec

from holdfast.core.limits.fit import measure
from holdfast.core.proxy.client_compaction import answer_compaction
from holdfast.gateway.http.asgi import Scope, header
from holdfast.gateway.http.problems import Problem
from holdfast.gateway.proxy.access import COUNT_PATH
from holdfast.gateway.proxy.forward import UpstreamError
from holdfast.gateway.proxy.request import ProxyRequest, ResponseWriter
from holdfast.gateway.proxy.upstream import (
    SIMULATED,
    Upstream,
    UpstreamClient,
    check_key,
    find_upstream,
    key_in,
    upstream_headers,
)
from holdfast.models.client_responses import told_error
from holdfast.models.dialects import SERVED, dialect_at
from holdfast.models.transport import UnreachableError
from holdfast.models.wire import MalformedRequestError
from holdfast.types.faults import Phase, Refusal

_ANTHROPIC_PATH = "/v1/messages"
_MODELS_PATH = "/v1/models"
# Statuses of servers that do not count tokens, or cannot count so many.
_CANNOT_COUNT = frozenset({400, 404, 405, 413, 501})
JSON_HEADERS = [(b"content-type", b"application/json")]


async def write_error(
    request: ProxyRequest, writer: ResponseWriter, refusal: Refusal, error: UpstreamError | None
) -> None:
    """Send the upstream's error unchanged; an error of ours if there was no response."""
    if error is not None:
        await writer.whole(error.status, error.headers, error.body)
        return
    message = f"holdfast: the upstream did not answer: {refusal.cause}"
    status = 504 if refusal.phase is Phase.STALL else 502
    await writer.whole(status, JSON_HEADERS, error_body(request.dialect, message))


async def write_compaction_answer(request: ProxyRequest, writer: ResponseWriter) -> None:
    """Answer an agent's own compaction without a model."""
    assert request.decoded is not None, "only a parsed request is known to be a compaction"
    dialect, decoded = SERVED[request.dialect], request.decoded
    reply = answer_compaction(decoded.request, decoded.model)
    writer.notes["x-holdfast-rescued"] = "compaction_answered"
    writer.notes["x-holdfast-notice"] = "the provider refused this compaction; it was made without a model"
    reply_id = f"holdfast-{secrets.token_hex(8)}"
    if not decoded.wants_stream:
        await writer.whole(200, JSON_HEADERS, dialect.encode_reply(reply, reply_id, int(time())))
        return
    await writer.begin(200, [(b"content-type", b"text/event-stream; charset=utf-8")])
    for event in dialect.encode_stream(reply, reply_id, int(time()), wants_usage=decoded.wants_usage):
        await writer.write(event)
    await writer.end()


def problem_response(scope: Scope, problem: Problem) -> tuple[int, bytes]:
    """Return status and body of a gateway error in the client's dialect."""
    path = scope["path"]
    dialect = dialect_at(path)
    if dialect not in SERVED:
        is_anthropic = path.startswith(_ANTHROPIC_PATH) or bool(header(scope, b"anthropic-version"))
        dialect = "anthropic" if is_anthropic else "openai-chat"
    told = told_error(dialect or "", problem.status, problem.code, f"holdfast: {problem.detail}")
    return told.status, told.body


def error_body(dialect: str, message: str) -> bytes:
    """Return a gateway error in a dialect."""
    if dialect == "anthropic":
        return msgspec.json.encode({"type": "error", "error": {"type": "api_error", "message": message}})
    return msgspec.json.encode({"error": {"message": message, "type": "api_error", "param": None, "code": None}})


async def forward_other(
    client: UpstreamClient, upstreams: Mapping[str, Upstream], scope: Scope, body: bytes, writer: ResponseWriter
) -> None:
    """Forward a request that is not a model call. Tokens are counted by estimate if the upstream does not count."""
    path = scope["holdfast.path"]
    upstream = find_upstream(scope, path, upstreams)
    headers = upstream_headers(scope["headers"], upstream, is_key_ours=bool(scope.get("holdfast.key_is_ours")))
    address = upstream.address(path, scope["query_string"])
    if upstream.is_official and not key_in(headers):
        await _without_key(upstream, path, body, writer)
        return
    try:
        response = await client.send(upstream, scope["method"], address, headers, body)
    except UnreachableError as error:
        dialect = "anthropic" if upstream.family == "anthropic" else "openai-chat"
        message = f"holdfast: the upstream did not answer: {error}"
        await writer.whole(502, JSON_HEADERS, error_body(dialect, message))
        return
    with closing(response):
        if path == COUNT_PATH and response.status in _CANNOT_COUNT and (count := _estimated_tokens(body)):
            writer.notes["x-holdfast-notice"] = "counted by estimate: the upstream did not count it"
            await writer.whole(200, JSON_HEADERS, msgspec.json.encode({"input_tokens": count}))
            return
        await writer.begin(response.status, response.headers)
        while chunk := await response.next():
            await writer.write(chunk)
        await writer.end()


async def _without_key(upstream: Upstream, path: str, body: bytes, writer: ResponseWriter) -> None:
    """Answer about the simulated model, which needs no key. Raises `UnauthorizedError` for everything else."""
    if path == _MODELS_PATH:
        common = {"id": SIMULATED, "display_name": "The simulated model", "created_at": "2026-01-01T00:00:00Z"}
        model = {**common, "type": "model", "object": "model", "created": 0, "owned_by": "holdfast"}
        await writer.whole(200, JSON_HEADERS, msgspec.json.encode({"object": "list", "data": [model]}))
        return
    count = _estimated_tokens(body) if path == COUNT_PATH else 0
    if not count:
        check_key(upstream, ())
    await writer.whole(200, JSON_HEADERS, msgspec.json.encode({"input_tokens": count}))


def _estimated_tokens(body: bytes) -> int:
    """Return our own estimate of a request's tokens; 0 if it cannot be parsed."""
    # A request to count tokens need not name an output limit; the decoder wants one.
    whole = body.replace(b"{", b'{"max_tokens":1,', 1)
    try:
        return measure(SERVED["anthropic"].decode_request(whole, is_tolerant=True).request).tokens
    except MalformedRequestError:
        return 0
