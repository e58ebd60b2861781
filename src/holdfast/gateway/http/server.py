"""HTTP server of the gateway: uvicorn with limits on connections and headers, graceful shutdown, and JSON logs.

`BoundedProtocol` adds to uvicorn's protocol a size limit and a timeout for headers, a connection limit, problem details
for malformed HTTP, and lingering reads after an early error response, so that a client that is still sending receives
it.
"""

import asyncio
import logging
import socket
import ssl
import traceback
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from math import ceil
from typing import Any

import msgspec
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from holdfast.errors import UsageError
from holdfast.gateway.bounds import GatewayBounds
from holdfast.gateway.http.app import Gateway
from holdfast.gateway.http.forwarded import ForwardedClients
from holdfast.gateway.http.problems import Problem
from holdfast.gateway.http.request_id import current_ids
from holdfast.models.fake.server import EmbeddedServer

# Time in which the rest of a body is read and dropped after an early error response, so that the client sees the
# response and not a reset.
_LINGER_SECONDS = 2.0


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with limits on connections and headers, and with lingering reads."""

    bounds: GatewayBounds = GatewayBounds()

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._deadline: asyncio.TimerHandle | None = None
        self._header_bytes = 0
        self._is_in_headers = True
        self._is_complete = True
        self._is_rejected = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn's own
        """Accept a connection, or reject it above the connection limit."""
        super().connection_made(transport)
        self._start_deadline()
        if len(self.connections) > self.bounds.connections_max:
            self._reject(503, "too_many", "Too many connections", "the connection limit is reached; retry later")

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the header timeout of a closed connection."""
        self._cancel_deadline()
        super().connection_lost(exc)

    def data_received(self, received: bytes) -> None:
        """Parse received bytes, unless the headers exceed their limit."""
        if self._is_rejected:
            return
        if self._is_in_headers:
            self._header_bytes += len(received)
            if self._deadline is None:
                self._start_deadline()
        super().data_received(received)
        if self._is_in_headers and self._header_bytes > self.bounds.header_bytes_max and not self._is_rejected:
            self._reject_headers()
        elif self._is_in_headers and not self._is_complete and self._deadline is None:
            # A pipelined request: its first bytes came with the previous one.
            self._start_deadline()

    def on_message_begin(self) -> None:
        """Add the abort function and the flow control to the scope of a new request."""
        super().on_message_begin()
        self._is_complete = False
        self.scope["holdfast.abort"] = self.transport.abort  # type: ignore[typeddict-unknown-key] # an extension
        self.scope["holdfast.flow"] = self.flow  # type: ignore[typeddict-unknown-key] # an extension

    def on_headers_complete(self) -> None:
        """Start the request, unless its headers exceed their limit."""
        self._cancel_deadline()
        self._is_in_headers = False
        if len(self.url) + sum(len(name) + len(text) for name, text in self.headers) > self.bounds.header_bytes_max:
            self._reject_headers()
            return
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Forward a chunk of the body, unless the request was rejected."""
        if not self._is_rejected:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Reset the header limit for the next request."""
        self._is_complete = True
        self._is_in_headers = True
        self._header_bytes = 0
        if not self._is_rejected:
            super().on_message_complete()

    def on_response_complete(self) -> None:
        """Abort the connection later if the body is still incomplete."""
        super().on_response_complete()
        if not self._is_complete and not self.transport.is_closing():
            self._deadline = self.loop.call_later(_LINGER_SECONDS, self.transport.abort)

    def send_400_response(self, msg: str) -> None:
        """Reject bytes that are not HTTP."""
        self._reject(400, "malformed", "Malformed request", f"{msg} Send an HTTP/1.1 request.")

    def _start_deadline(self) -> None:
        self._cancel_deadline()
        self._deadline = self.loop.call_later(self.bounds.header_seconds_max, self._reject_slow_headers)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _reject_slow_headers(self) -> None:
        seconds = self.bounds.header_seconds_max
        self._reject(408, "too_slow", "Request timeout", f"the headers took more than {seconds:g} seconds")

    def _reject_headers(self) -> None:
        bytes_max = self.bounds.header_bytes_max
        self._reject(431, "too_large", "Headers too large", f"the limit is {bytes_max:,} bytes; send fewer")

    def _reject(self, status: int, code: str, title: str, detail: str) -> None:
        """Send a problem without calling the application, and close the connection."""
        self._is_rejected = True
        if self.transport.is_closing():
            return
        body = msgspec.json.encode(Problem(f"urn:holdfast:problem:{code}", title, status, detail, code))
        head = (
            f"HTTP/1.1 {status} {title}\r\ncontent-type: application/problem+json\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()


@asynccontextmanager
async def serve_gateway(
    gateway: Gateway,
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    clients: ForwardedClients | None = None,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[str]:
    """Serve a gateway and yield its base URL; port 0 selects a free port. `clients` wraps it behind trusted proxies.

    Exit shuts down gracefully: it accepts no connections, asks event streams to reconnect, and lets requests in flight
    finish.
    """
    bounds = gateway.state.bounds
    # Read at each use, because a reload may change them.
    protocol = type("Protocol", (BoundedProtocol,), {"bounds": property(lambda _self: gateway.state.bounds)})
    config = uvicorn.Config(
        clients or gateway,
        http=protocol,
        log_config=None,
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
        # X-Forwarded-* headers count only from trusted proxies: see `ForwardedClients`.
        proxy_headers=False,
        timeout_keep_alive=ceil(bounds.keep_alive_seconds),
        timeout_graceful_shutdown=ceil(bounds.shutdown_seconds),
        backlog=bounds.connections_max,
    )
    config.load()
    config.ssl = tls
    server = EmbeddedServer(config)
    server.lifespan = config.lifespan_class(config)
    listener = _listen(host, port)
    bound = listener.getsockname()[1]
    await server.startup(sockets=[listener])
    tasks = [
        asyncio.create_task(server.main_loop(), name="gateway clock"),
        asyncio.create_task(gateway.state.streams.keep_alive(), name="gateway heartbeats"),
    ]
    try:
        scheme = "http" if tls is None else "https"
        yield f"{scheme}://[{host}]:{bound}" if ":" in host else f"{scheme}://{host}:{bound}"
    finally:
        gateway.stop()
        await server.shutdown(sockets=[listener])
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family)
    except OSError as error:
        raise UsageError(
            f"cannot listen on {host}:{port} ({error.strerror or error}); choose another with --host and --port"
        ) from error
    # Connections inherit it. Without it the first chunk of a stream may wait 40 ms for the client's acknowledgement.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


# --- JSON logs ---

# One object per line: constant text and separate fields, without keys and message text.

# Attributes of every standard log record; all others are our fields.
_STANDARD_FIELDS = frozenset(vars(logging.LogRecord("", 0, "", 0, "", (), None))) | {
    "message",
    "asctime",
    "color_message",
}
# Fields are ids, codes and numbers; sentences of ours have under 500 characters.
_CHARS_MAX = 1_000


class JsonLines(logging.Formatter):
    """Formatter for one JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the JSON line of a log record."""
        line: dict[str, object] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage()[:_CHARS_MAX],
        }
        if ids := current_ids():
            line["request_id"] = ids.request_id
            if ids.trace_id:
                line["trace_id"] = ids.trace_id
        line.update((name, _plain(value)) for name, value in vars(record).items() if name not in _STANDARD_FIELDS)
        if record.exc_info and record.exc_info[0] is not None:
            line["error"] = record.exc_info[0].__name__
            line["came_through"] = list(_frames(traceback.extract_tb(record.exc_info[2])))
        return msgspec.json.encode(line).decode()


def _plain(value: object) -> object:
    return value if isinstance(value, int | float | None) else str(value)[:_CHARS_MAX]


def _frames(frames: Iterable[traceback.FrameSummary]) -> Iterable[str]:
    for frame in frames:
        yield f"{frame.filename.rpartition('holdfast/')[2]}:{frame.lineno} {frame.name}"


def log_as_json(level: str) -> logging.Handler:
    """Log Holdfast and its HTTP server to standard error as JSON; return the handler."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    for name in ("holdfast", "uvicorn.error"):
        log = logging.getLogger(name)
        log.handlers = [handler]
        log.propagate = False
        log.setLevel(level.upper())
    # uvicorn logs start and stop, as we do; its warnings are about malformed requests.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    return handler
