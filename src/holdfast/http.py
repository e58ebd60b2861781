"""The proxy inside any Python client: a transport for httpx and httpx2 that needs no socket and no gateway.

    with holdfast.blocking.open("agents.db") as client:
        http = httpx2.Client(transport=holdfast.http.transport(client))
        model = openai.OpenAI(http_client=http)

A request is served as the gateway's proxy serves it: forwarded byte for byte if it fits, else compacted and answered.
The transport works with clients of both modules, synchronous and asynchronous. Neither module is a dependency: the one
of the request is used.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any, Protocol, Self

from holdfast.adapters.blocking import Client as BlockingClient
from holdfast.adapters.blocking import calls_of
from holdfast.adapters.loop_thread import LoopCalls
from holdfast.errors import UsageError
from holdfast.gateway.bounds import GatewayBounds
from holdfast.gateway.http.asgi import ClientGoneError, Scope, send_response
from holdfast.gateway.http.auth import Tenant, move_query_key
from holdfast.gateway.http.problems import headers_of, problem_of
from holdfast.gateway.proxy.access import PREFIXES
from holdfast.gateway.proxy.app import ProxyApp
from holdfast.gateway.proxy.responses import problem_response
from holdfast.gateway.proxy.upstream import OFFICIAL, Upstream, open_upstream
from holdfast.runtime.sessions.client import Client
from holdfast.wiring.library import model_overrides, owner_name

__all__ = ["Transport", "transport"]

_MODULES = ("httpx", "httpx2")
_PREFIX = "/v1"
# Parts of a response that wait for the reader; then the upstream is read no further.
_PARTS_MAX = 16
# Message types of ours, beside those of ASGI: the response ended, or broke off.
_END, _BROKEN = "end", "broken"


class _Url(Protocol):
    raw_path: bytes


class _Request(Protocol):
    """The request of an HTTP client, as both modules have it."""

    method: str
    url: _Url
    headers: Any

    def read(self) -> bytes: ...

    async def aread(self) -> bytes: ...


def transport(client: Client | BlockingClient, *, upstream: str | Mapping[str, str] | None = None) -> "Transport":
    """Return a transport for `httpx.Client`, `httpx.AsyncClient` and those of httpx2.

    `client` owns the store with the sessions. Open a `holdfast.blocking` one for synchronous HTTP clients and for those
    of other event loops. `upstream` is the base URL of the provider, or one each for "openai", "anthropic" and
    "gemini"; default: the providers' own. A request brings its own key. The header `x-holdfast-session` names a
    session; without it the messages of a request find theirs.
    """
    return Transport(*calls_of(client), _upstreams(upstream))


def _upstreams(wanted: str | Mapping[str, str] | None) -> dict[str, Upstream]:
    if isinstance(wanted, str):
        base = wanted.rstrip("/").removesuffix(_PREFIX)
        wanted = {"openai": base + _PREFIX, "anthropic": base, "gemini": base}
    urls = OFFICIAL if wanted is None else dict(wanted)
    if unknown := sorted(urls.keys() - OFFICIAL.keys()):
        raise UsageError(f"there is no upstream {unknown[0]!r}; name some of {', '.join(OFFICIAL)}")
    opened = (open_upstream(family, url, "", (), os.environ) for family, url in urls.items())
    return {one.family: one for one in opened if one is not None}


class Transport:
    """The proxy as a transport. Closing an HTTP client closes its connections; the next request opens new ones."""

    def __init__(self, client: Client, calls: LoopCalls, upstreams: Mapping[str, Upstream]) -> None:
        self._client, self._calls, self._upstreams = client, calls, upstreams
        self._bounds = GatewayBounds()
        self._tenant = Tenant("", self._bounds)
        self._app: ProxyApp | None = None

    def handle_request(self, request: _Request) -> Any:  # noqa: ANN401 - the response of the caller's module
        """Serve a request of a synchronous client."""
        call = self._call(request, request.read())
        start = self._calls.run(call.begin())
        return _classes(type(request).__module__).response(start, _SyncBody(call, self._calls), is_sync=True)

    async def handle_async_request(self, request: _Request) -> Any:  # noqa: ANN401 - the response of the caller's module
        """Serve a request of an asynchronous client."""
        call = self._call(request, await request.aread())
        try:
            start = await self._calls.call(call.begin(), is_write=False)
        except asyncio.CancelledError:
            await self._calls.call(call.close())
            raise
        return _classes(type(request).__module__).response(start, _AsyncBody(call, self._calls), is_sync=False)

    def _call(self, request: _Request, body: bytes) -> "_Call":
        raw, _, query = request.url.raw_path.partition(b"?")
        # The base URL of a client may have a path before the version.
        places = [place for prefix in PREFIXES if (place := raw.find(prefix.encode())) >= 0]
        path = raw[min(places) :] if places else raw
        scope: Scope = {
            "type": "http",
            "method": request.method,
            "path": path.decode("latin-1"),
            "raw_path": path,
            "query_string": query,
            "headers": [(name.lower(), text) for name, text in request.headers.raw],
            "holdfast.tenant": self._tenant,
            "holdfast.route": "other",
        }
        move_query_key(scope)
        return _Call(self, scope, body)

    def app(self) -> ProxyApp:
        """Return the proxy, opened on first use. Call it in the loop of the client."""
        if self._app is None:
            self._app = ProxyApp(
                self._client.engine,
                self._upstreams,
                bounds=self._bounds,
                overrides=model_overrides(),
                owner=owner_name(),
            )
            self._client.at_close(self._close)
        return self._app

    async def _close(self) -> None:
        app, self._app = self._app, None
        if app is not None:
            await app.close()

    def close(self) -> None:
        """Finish recording, and close connections."""
        if not self._calls.loop.is_closed():
            self._calls.run(self._close())

    async def aclose(self) -> None:
        """Finish recording, and close connections."""
        if not self._calls.loop.is_closed():
            await self._calls.call(self._close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.aclose()


@dataclass(frozen=True)
class _Start:
    status: int
    headers: Sequence[tuple[bytes, bytes]]


class _Call:
    """One request. Its coroutines run in the loop of the client."""

    def __init__(self, transport: Transport, scope: Scope, body: bytes) -> None:
        self._transport, self._scope = transport, scope
        # None once it is read.
        self._body: bytes | None = body
        self._parts: asyncio.Queue[MutableMapping[str, Any]] = asyncio.Queue(_PARTS_MAX)
        self._gone = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._has_begun = self._is_read = False
        scope["holdfast.abort"] = self._abort

    async def begin(self) -> _Start:
        """Serve the request, and return the start of the response."""
        self._task = asyncio.create_task(self._serve(), name="in-process request")
        part = await self._parts.get()
        if part["type"] != "http.response.start":
            raise ConnectionError("the request ended without a response")
        return _Start(part["status"], part["headers"])

    async def next(self) -> bytes | None:
        """Return the next bytes of the body; None at its end. Raises `ConnectionError` if it broke off."""
        while True:
            part = await self._parts.get()
            if part["type"] == _BROKEN:
                raise ConnectionError("the response broke off")
            if part["type"] == _END:
                self._is_read = True
                return None
            if part.get("body"):
                return bytes(part["body"])

    async def close(self) -> None:
        """Disconnect if the response is not read to its end, and wait for the request to end."""
        self._gone.set()
        while not self._parts.empty():
            self._parts.get_nowait()
        if self._task is not None and not self._is_read:
            await asyncio.wait([self._task])

    async def _serve(self) -> None:
        end = _END
        try:
            await self._transport.app()(self._scope, self._receive, self._send)
        except ClientGoneError:
            return
        except Exception as error:  # noqa: BLE001 - answered, or seen as a response that broke off
            if self._has_begun:
                end = _BROKEN
            else:
                problem = problem_of(error)
                status, body = problem_response(self._scope, problem)
                await send_response(self._send, status, body, headers=headers_of(problem))
        await self._put({"type": end})

    async def _receive(self) -> MutableMapping[str, Any]:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        self._has_begun = True
        await self._put(message)

    async def _put(self, message: MutableMapping[str, Any]) -> None:
        if not self._gone.is_set():
            await self._parts.put(message)

    def _abort(self) -> None:
        raise ConnectionError("the response broke off")


class _SyncBody:
    def __init__(self, call: _Call, calls: LoopCalls) -> None:
        self._call, self._calls = call, calls

    def __iter__(self) -> Iterator[bytes]:
        while (part := self._calls.run(self._call.next())) is not None:
            yield part

    def close(self) -> None:
        self._calls.run(self._call.close())


class _AsyncBody:
    def __init__(self, call: _Call, calls: LoopCalls) -> None:
        self._call, self._calls = call, calls

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (part := await self._calls.call(self._call.next(), is_write=False)) is not None:
            yield part

    async def aclose(self) -> None:
        await self._calls.call(self._call.close())


class _Classes:
    """The response and the streams of a module."""

    def __init__(self, module: Any) -> None:  # noqa: ANN401 - httpx or httpx2, neither a dependency
        self._response = module.Response
        self._broken = module.ReadError
        self._streams = {True: module.SyncByteStream, False: module.AsyncByteStream}

    def response(self, start: _Start, body: _SyncBody | _AsyncBody, *, is_sync: bool) -> Any:  # noqa: ANN401 - as above
        broken, stream = self._broken, self._streams[is_sync]

        class Body(stream):  # type: ignore[misc, valid-type]  # the module is known at run time only
            """The body as a stream of the module. An answer that broke off is a read error."""

            def __iter__(self) -> Iterator[bytes]:
                assert isinstance(body, _SyncBody)
                try:
                    yield from body
                except ConnectionError as error:
                    raise broken(str(error)) from error

            async def __aiter__(self) -> AsyncIterator[bytes]:
                assert isinstance(body, _AsyncBody)
                try:
                    async for part in body:
                        yield part
                except ConnectionError as error:
                    raise broken(str(error)) from error

            def close(self) -> None:
                assert isinstance(body, _SyncBody)
                body.close()

            async def aclose(self) -> None:
                assert isinstance(body, _AsyncBody)
                await body.aclose()

        return self._response(start.status, headers=list(start.headers), stream=Body())


@lru_cache(maxsize=len(_MODULES))
def _classes(module: str) -> _Classes:
    """Return the classes of the module in which a request is defined."""
    name = module.partition(".")[0]
    if name not in _MODULES:
        raise UsageError(f"the request comes from {name}; the transport serves {' and '.join(_MODULES)}")
    return _Classes(import_module(name))
