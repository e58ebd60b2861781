"""Responses of our own in the client's dialect: errors, compaction answers, and paths that are only forwarded."""

import secrets
from collections.abc import Mapping
from contextlib import closing
from time import time

import msgspec

from holdfast.core.limits.fit import measure
from holdfast.core.proxy.client_compaction import answer_compaction
from holdfast.gateway.http.asgi import Scope
from holdfast.gateway.http.problems import Problem
from holdfast.gateway.proxy.access import COUNT_PATH
from holdfast.gateway.proxy.forward import UpstreamError
from holdfast.gateway.proxy.request import ProxyRequest, ResponseWriter
from holdfast.gateway.proxy.upstream import (
    SIMULATED,
    Upstream,
    UpstreamClient,
    check_key,
    family_of,
    find_upstream,
    key_in,
    upstream_headers,
)
from holdfast.models import gemini
from holdfast.models.client_responses import encode_models, gemini_model, told_error
from holdfast.models.dialects import SERVED, dialect_at
from holdfast.models.transport import UnreachableError
from holdfast.models.wire import MalformedRequestError, locate
from holdfast.types.faults import Phase, Refusal
from holdfast.types.messages import Request

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
    await writer.whole(status, JSON_HEADERS, error_body(request.dialect, message, status))


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
    events = dialect.encode_stream(reply, reply_id, int(time()), wants_usage=decoded.wants_usage)
    if decoded.is_list:
        elements = gemini.ListEncoder()
        await writer.whole(200, JSON_HEADERS, b"".join([*map(elements.element, events), elements.end()]))
        return
    await writer.begin(200, [(b"content-type", b"text/event-stream; charset=utf-8")])
    for event in events:
        await writer.write(event)
    await writer.end()


_DIALECTS = {"anthropic": "anthropic", "gemini": "gemini", "openai": "openai-chat"}


def problem_response(scope: Scope, problem: Problem) -> tuple[int, bytes]:
    """Return status and body of a gateway error in the client's dialect."""
    dialect = dialect_at(scope["path"]) or _DIALECTS[family_of(scope, scope["path"])]
    told = told_error(dialect, problem.status, problem.code, f"holdfast: {problem.detail}", problem.retry_seconds)
    return told.status, told.body


def error_body(dialect: str, message: str, status: int = 502) -> bytes:
    """Return a gateway error in a dialect."""
    if dialect == "anthropic":
        return msgspec.json.encode({"type": "error", "error": {"type": "api_error", "message": message}})
    if dialect == "gemini":
        return told_error(dialect, status, "upstream", message).body
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
        message = f"holdfast: the upstream did not answer: {error}"
        await writer.whole(502, JSON_HEADERS, error_body(_DIALECTS[upstream.family], message))
        return
    with closing(response):
        if response.status in _CANNOT_COUNT and (count := _estimated_count(path, body)):
            writer.notes["x-holdfast-notice"] = "counted by estimate: the upstream did not count it"
            await writer.whole(200, JSON_HEADERS, count)
            return
        await writer.begin(response.status, response.headers)
        while chunk := await response.next():
            await writer.write(chunk)
        await writer.end()


async def _without_key(upstream: Upstream, path: str, body: bytes, writer: ResponseWriter) -> None:
    """Answer about the simulated model, which needs no key. Raises `UnauthorizedError` for everything else."""
    answer = _described(upstream, path) or _estimated_count(path, body)
    if not answer:
        check_key(upstream, ())
    await writer.whole(200, JSON_HEADERS, answer)


def _described(upstream: Upstream, path: str) -> bytes:
    """Return the list of models, or the description of one, with the simulated model; nothing for other paths."""
    if upstream.family == "gemini":
        if path.endswith(f"/models/{SIMULATED}"):
            return msgspec.json.encode(gemini_model(SIMULATED))
        return encode_models("gemini", [SIMULATED]) if path.endswith("/models") else b""
    if path != _MODELS_PATH:
        return b""
    common = {"id": SIMULATED, "display_name": "The simulated model", "created_at": "2026-01-01T00:00:00Z"}
    model = {**common, "type": "model", "object": "model", "created": 0, "owned_by": "holdfast"}
    return msgspec.json.encode({"object": "list", "data": [model]})


def _estimated_count(path: str, body: bytes) -> bytes:
    """Return the answer to a token count by our own estimate; nothing for other paths and bodies."""
    is_gemini = gemini.is_model_call(path) and path.endswith(gemini.COUNT_METHOD)
    if not is_gemini and path != COUNT_PATH:
        return b""
    try:
        if is_gemini:
            return msgspec.json.encode({"totalTokens": measure(_counted_by_gemini(body)).tokens})
        # A request to count tokens need not name an output limit; the decoder wants one.
        whole = body.replace(b"{", b'{"max_tokens":1,', 1)
        request = SERVED["anthropic"].decode_request(whole, is_tolerant=True).request
        return msgspec.json.encode({"input_tokens": measure(request).tokens})
    except MalformedRequestError:
        return b""


def _counted_by_gemini(body: bytes) -> Request:
    """Return the request whose tokens are counted: the body itself, or the request inside it."""
    inner = locate(body, "generateContentRequest")
    whole = body if inner is None else body[inner.value.start : inner.value.end]
    return SERVED["gemini"].decode_request(whole, is_tolerant=True).request
