"""HTTP server of the simulated provider: all dialects, a model list, and a control path for faults and limits.

Raw ASGI, because tests need client disconnects and streams that break in the middle.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, MutableMapping
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, TypeAlias

import msgspec
import uvicorn

from holdfast.errors import UsageError
from holdfast.models.dialects import DIALECTS, dialect_at
from holdfast.models.fake import Simulation
from holdfast.models.fake.faults import parse_faults
from holdfast.models.transport import BrokenOffError, HttpResponse
from holdfast.types.limits import Limits

# ASGI types.
_Scope: TypeAlias = MutableMapping[str, Any]
_Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
_Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]

CONTROL_PATH = "/simulation"
# Above every limit that a test sets; longer bodies are truncated.
_BODY_BYTES_MAX = 256 * 2**20
# Open streams are cancelled at shutdown; this is for everything else.
_SHUTDOWN_SECONDS_MAX = 2

_PATHS = [dialect.SERVER_PATH for dialect in DIALECTS.values()]


class _Settings(msgspec.Struct, forbid_unknown_fields=True):
    """Body of the control path; omitted fields stay unchanged. A null `summary_tokens_max` removes the limit."""

    faults: str | None = None
    limits: Limits | None = None
    delta_seconds: float | None = None
    summary_tokens_max: int | msgspec.UnsetType | None = msgspec.UNSET
    refuses: dict[str, str] | None = None


class SimulationApp:
    """The ASGI application around a simulation."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._streams: set[asyncio.Task[None]] = set()

    async def __call__(self, scope: _Scope, receive: _Receive, send: _Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return
        method, path = scope["method"], scope["path"]
        dialect = dialect_at(path)
        if method == "POST" and dialect is not None:
            body = await self._body(receive)
            address = f"{path}?{scope['query_string'].decode('latin-1')}"
            await self._stream(self._simulation.respond(dialect, body, address), receive, send)
        elif method == "GET" and path == "/v1/models":
            await _reply(send, 200, _MODELS)
        elif method == "GET" and path == "/v1beta/models":
            await _reply(send, 200, {"models": [{"name": "models/sim", "displayName": "sim"}]})
        elif method == "POST" and path == "/v1/conversations":
            conversation = self._simulation.responses.create_conversation()
            await _reply(send, 200, {"id": conversation, "object": "conversation", "created_at": 0, "metadata": {}})
        elif path == CONTROL_PATH and method in ("GET", "POST"):
            await self._control(method, receive, send)
        else:
            message = (
                f"{method} {path} is not served here; available are {', '.join(_PATHS)}, /v1/models and {CONTROL_PATH}"
            )
            await _reply(send, 404, {"error": {"message": message, "type": "invalid_request_error"}})

    async def close(self) -> None:
        """Cancel all open streams."""
        for stream in self._streams:
            stream.cancel()
        await asyncio.gather(*self._streams, return_exceptions=True)

    async def _body(self, receive: _Receive) -> bytes:
        """Read a request body, truncated just above the byte limit."""
        wire_bytes_max = self._simulation.limits.wire_bytes_max
        keep = _BODY_BYTES_MAX if wire_bytes_max is None else min(wire_bytes_max + 1, _BODY_BYTES_MAX)
        body = bytearray()
        while True:
            event = await receive()
            body += event.get("body", b"")[: max(keep - len(body), 0)]
            if event["type"] == "http.disconnect" or not event.get("more_body", False):
                return bytes(body)

    async def _stream(self, response: HttpResponse, receive: _Receive, send: _Send) -> None:
        """Send a response until it ends, breaks, or the client disconnects."""
        pump = asyncio.create_task(_pump(response, send))
        disconnected = asyncio.create_task(_disconnected(receive))
        self._streams.add(pump)
        pump.add_done_callback(self._streams.discard)
        try:
            await asyncio.wait({pump, disconnected}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            disconnected.cancel()
            pump.cancel()
            with suppress(asyncio.CancelledError, BrokenOffError):
                # After a broken stream the server drops the connection.
                await pump

    async def _control(self, method: str, receive: _Receive, send: _Send) -> None:
        simulation = self._simulation
        if method == "POST":
            try:
                settings = msgspec.json.decode(await self._body(receive), type=_Settings)
                # Both are checked before either is set.
                parse_faults(settings.faults or "")
                if settings.refuses is not None:
                    simulation.set_refused(settings.refuses)
                if settings.faults is not None:
                    simulation.set_faults(settings.faults)
            except (msgspec.MsgspecError, UsageError) as error:
                await _reply(send, 400, {"error": str(error)})
                return
            if settings.limits is not None:
                simulation.limits = settings.limits
            if settings.delta_seconds is not None:
                simulation.delta_seconds = settings.delta_seconds
            if settings.summary_tokens_max is not msgspec.UNSET:
                simulation.summary_tokens_max = settings.summary_tokens_max
        requests = [
            {
                "number": one.number,
                "dialect": one.dialect,
                "status": one.status,
                "fault": one.fault,
                "tokens": one.tokens,
            }
            for one in simulation.requests
        ]
        counters = {
            "request_count": simulation.request_count,
            "faults_left": simulation.faults_left,
            "limits": simulation.limits,
            "summary_tokens_max": simulation.summary_tokens_max,
            "refuses": simulation.refuses,
            "requests": requests,
        }
        await _reply(send, 200, counters)


_MODELS = {
    "object": "list",
    "data": [{"id": "sim", "object": "model", "type": "model", "created": 0, "owned_by": "holdfast"}],
    "has_more": False,
}


async def _pump(response: HttpResponse, send: _Send) -> None:
    headers = [(name.encode(), text.encode()) for name, text in response.headers.items()]
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    async for chunk in response.chunks:
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _disconnected(receive: _Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _reply(send: _Send, status: int, body: object) -> None:
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": msgspec.json.encode(body), "more_body": False})


# Pauses in which idle connections close, before the server waits for busy ones.
_CLOSING_SECONDS = (0.0, 0.0, 0.001, 0.002, 0.005, 0.01)


class EmbeddedServer(uvicorn.Server):
    """A server inside a program: it leaves signals to the program, and stops at once if it has nothing to finish."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signal handlers alone."""
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop accepting connections, close idle ones, and let the others finish.

        uvicorn waits for a tenth of a second in any case.
        """
        for server in self.servers:
            server.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        for pause in _CLOSING_SECONDS:
            if not self.server_state.connections and not self.server_state.tasks:
                for listener in sockets or []:
                    listener.close()
                return
            await asyncio.sleep(pause)
        await super().shutdown(sockets)


@asynccontextmanager
async def serve_simulation(simulation: Simulation, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[str]:
    """Serve a simulation and yield its base URL without a path; port 0 selects a free one."""
    app = SimulationApp(simulation)
    config = uvicorn.Config(
        app,
        log_config=None,
        # uvicorn logs intentionally broken streams as errors.
        log_level="critical",
        access_log=False,
        lifespan="off",
        ws="none",
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS_MAX,
    )
    config.load()
    server = EmbeddedServer(config)
    server.lifespan = config.lifespan_class(config)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family)
    # Inherited by connections; otherwise Nagle's algorithm delays the first chunk of a stream by 40 ms.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    bound = listener.getsockname()[1]
    await server.startup(sockets=[listener])
    ticker = asyncio.create_task(server.main_loop())
    try:
        yield f"http://[{host}]:{bound}" if ":" in host else f"http://{host}:{bound}"
    finally:
        ticker.cancel()
        with suppress(asyncio.CancelledError):
            await ticker
        await app.close()
        await server.shutdown(sockets=[listener])
