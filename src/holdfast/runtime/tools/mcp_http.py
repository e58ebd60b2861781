"""HTTP for the MCP client: each call ends with a result or with the reason why there is none.

The SDK logs a broken connection and lets the call wait for its timeout, and a refused request ends the connection for
all calls. Here the call whose request failed gets an error of its own, which says whether it may have run.
"""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import httpx
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp.types import CONNECTION_CLOSED, ErrorData, JSONRPCError, JSONRPCMessage

from holdfast.runtime.tools.mcp_server import NOT_RUN

# The SDK's own: a server may hold a stream open. The timeout of a call is that of its tool.
_TIMEOUT = httpx.Timeout(30.0, read=300.0)
# The SDK reads the rest of a response within milliseconds after its stream has ended.
_GRACE_SECONDS = 1.0
# A server that numbers its events can resume a stream, which the SDK does.
_EVENT_ID = re.compile(rb"^id:", re.MULTILINE)
# The request could not be sent.
_UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol)
_CallId: TypeAlias = int | str
_OK, _NOT_FOUND, _CLIENT_ERROR, _SERVER_ERROR = 200, 404, 400, 500


class OpenCalls:
    """The calls of a connection that have no result yet, by their JSON-RPC id."""

    def __init__(self, send: Callable[[SessionMessage], Awaitable[None]]) -> None:
        self._send = send
        self._open: set[_CallId] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, call: _CallId) -> None:
        """Note a call that is sent."""
        self._open.add(call)

    def end(self, call: _CallId) -> None:
        """Note that a call has its result."""
        self._open.discard(call)

    def lose(self, call: _CallId, code: int, reason: str, *, after_seconds: float = 0.0) -> None:
        """Give a call an error, unless it has its result by then."""
        task = asyncio.create_task(self._lose(call, code, reason, after_seconds))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _lose(self, call: _CallId, code: int, reason: str, after_seconds: float) -> None:
        await asyncio.sleep(after_seconds)
        if call in self._open:
            self._open.discard(call)
            error = JSONRPCError(jsonrpc="2.0", id=call, error=ErrorData(code=code, message=reason))
            await self._send(SessionMessage(JSONRPCMessage(error)))

    def close(self) -> None:
        """Forget all calls."""
        for task in self._tasks:
            task.cancel()


@asynccontextmanager
async def http_transport(url: str, headers: Mapping[str, str], calls: OpenCalls) -> AsyncGenerator[Any, None]:
    """Open the SDK's transport "streamable HTTP", and yield its streams."""
    transport = _ReportingTransport(httpx.AsyncHTTPTransport(), calls)
    client = httpx.AsyncClient(headers=dict(headers), timeout=_TIMEOUT, transport=transport)
    async with client, streamable_http_client(url, http_client=client) as streams:
        yield streams


class _ReportingTransport(httpx.AsyncBaseTransport):
    """Sends requests, and reports the calls among them that have no result."""

    def __init__(self, transport: httpx.AsyncBaseTransport, calls: OpenCalls) -> None:
        self._transport = transport
        self._calls = calls

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request. A failed one of a call is reported and counts as accepted, so that others go on."""
        if request.method == "POST":
            return await self._post(request, _call_of(request))
        response = await self._transport.handle_async_request(request)
        if request.method == "DELETE" and response.status_code == _NOT_FOUND:
            # A session that is gone needs no closing, and the SDK would log it.
            await response.aclose()
            return httpx.Response(_OK)
        return response

    async def _post(self, request: httpx.Request, call: _CallId | None) -> httpx.Response:
        if call is not None:
            self._calls.begin(call)
        try:
            response = await self._transport.handle_async_request(request)
        except httpx.TransportError as error:
            code = NOT_RUN if isinstance(error, _UNSENT) else CONNECTION_CLOSED
            return self._lost(call, code, f"the server cannot be reached ({type(error).__name__}: {error})")
        status = response.status_code
        is_session_gone = status == _NOT_FOUND and "mcp-session-id" in request.headers
        if status >= _CLIENT_ERROR and not is_session_gone:
            await response.aclose()
            return self._lost(call, CONNECTION_CLOSED if status >= _SERVER_ERROR else NOT_RUN, f"HTTP {status}")
        if call is None or status != _OK:
            return response
        stream = response.stream
        assert isinstance(stream, httpx.AsyncByteStream), "an asynchronous transport gives such a stream"
        watched = _ReportingStream(stream, call, self._calls)
        return httpx.Response(status, headers=response.headers, stream=watched, extensions=response.extensions)

    def _lost(self, call: _CallId | None, code: int, reason: str) -> httpx.Response:
        if call is not None:
            self._calls.lose(call, code, reason)
        return httpx.Response(202)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._transport.aclose()


class _ReportingStream(httpx.AsyncByteStream):
    """A response that reports its call when it ends, if the call has no result by then."""

    def __init__(self, stream: httpx.AsyncByteStream, call: _CallId, calls: OpenCalls) -> None:
        self._stream, self._call, self._calls = stream, call, calls

    async def __aiter__(self) -> AsyncIterator[bytes]:
        can_resume = False
        try:
            async for chunk in self._stream:
                can_resume = can_resume or _EVENT_ID.search(chunk) is not None
                yield chunk
        finally:
            if not can_resume:
                reason = "the connection was lost"
                self._calls.lose(self._call, CONNECTION_CLOSED, reason, after_seconds=_GRACE_SECONDS)

    async def aclose(self) -> None:
        """Close the connection."""
        await self._stream.aclose()


def _call_of(request: httpx.Request) -> _CallId | None:
    """Return the id of the JSON-RPC request in a body; None of a notification."""
    body = json.loads(request.content)
    found = body.get("id") if "method" in body else None
    return found if isinstance(found, int | str) else None
