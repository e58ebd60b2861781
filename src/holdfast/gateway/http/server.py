"""Serves a gateway over sockets: connections within bounds, headers within a deadline, an end that tells everybody.

uvicorn does the work. What it lacks is added in its protocol: a bound and a deadline for headers, a bound on
connections, problem details for what is no HTTP, and a reader that goes on for a moment after an early refusal, so that
the refusal arrives although the sender is still sending.
"""

import asyncio
import logging
import socket
import traceback
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from math import ceil
from typing import Any, ClassVar

import msgspec
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from holdfast.errors import UsageError
from holdfast.gateway.bounds import GatewayBounds
from holdfast.gateway.http.app import Gateway
from holdfast.gateway.http.problems import Problem

# How long the rest of a body that was refused is read and dropped, so that the refusal is seen and not a reset.
_LINGER_SECONDS = 2.0


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with bounds around a request's headers and a connection's end."""

    bounds: ClassVar[GatewayBounds] = GatewayBounds()

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
        """Take a connection, or refuse it where there are too many."""
        super().connection_made(transport)
        self._start_deadline()
        if len(self.connections) > self.bounds.connections_max:
            self._reject(503, "too_many", "Too many connections", "this gateway has too many connections; try later")

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a connection."""
        self._cancel_deadline()
        super().connection_lost(exc)

    def data_received(self, received: bytes) -> None:
        """Read what came, as long as its headers stay within their bound."""
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
            # The beginning of the next request came together with the one before.
            self._start_deadline()

    def on_message_begin(self) -> None:
        """Begin a request."""
        super().on_message_begin()
        self._is_complete = False
        self.scope["holdfast.abort"] = self.transport.abort  # type: ignore[typeddict-unknown-key] # an extension

    def on_headers_complete(self) -> None:
        """Start the request, unless its headers are too long."""
        self._cancel_deadline()
        self._is_in_headers = False
        if len(self.url) + sum(len(name) + len(text) for name, text in self.headers) > self.bounds.header_bytes_max:
            self._reject_headers()
            return
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body."""
        if not self._is_rejected:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """End the request's body."""
        self._is_complete = True
        self._is_in_headers = True
        self._header_bytes = 0
        if not self._is_rejected:
            super().on_message_complete()

    def on_response_complete(self) -> None:
        """Go on with the next request, or let go of one whose body has no end."""
        super().on_response_complete()
        if not self._is_complete and not self.transport.is_closing():
            self._deadline = self.loop.call_later(_LINGER_SECONDS, self.transport.abort)

    def send_400_response(self, msg: str) -> None:
        """Say that something is no HTTP."""
        self._reject(400, "malformed", "The request cannot be read", f"{msg} Send a request of HTTP/1.1.")

    def _start_deadline(self) -> None:
        self._cancel_deadline()
        self._deadline = self.loop.call_later(self.bounds.header_seconds_max, self._reject_slow_headers)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _reject_slow_headers(self) -> None:
        seconds = self.bounds.header_seconds_max
        self._reject(408, "too_slow", "The request came too slowly", f"its headers took more than {seconds:g} seconds")

    def _reject_headers(self) -> None:
        bytes_max = self.bounds.header_bytes_max
        self._reject(431, "too_large", "The headers are too large", f"they may have {bytes_max:,} bytes; send fewer")

    def _reject(self, status: int, code: str, title: str, detail: str) -> None:
        """Answer without the application, and close."""
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


class _Server(uvicorn.Server):
    """A server whose signals are taken by whoever runs it."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def serve_gateway(gateway: Gateway, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[str]:
    """Serve a gateway and give its base URL; port 0 takes a free one.

    Leaving stops it gracefully: no more connections, streams are told to connect again, requests under way may end.
    """
    bounds = gateway.state.bounds
    protocol = type("Protocol", (BoundedProtocol,), {"bounds": bounds})
    config = uvicorn.Config(
        gateway,
        http=protocol,
        log_config=None,
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
        # Nobody here asks who is behind a proxy, so nobody is believed about it.
        proxy_headers=False,
        timeout_keep_alive=ceil(bounds.keep_alive_seconds),
        timeout_graceful_shutdown=ceil(bounds.shutdown_seconds),
        backlog=bounds.connections_max,
    )
    config.load()
    server = _Server(config)
    server.lifespan = config.lifespan_class(config)
    listener = _listen(host, port)
    bound = listener.getsockname()[1]
    await server.startup(sockets=[listener])
    # The clock of its headers, and the heartbeats of its streams.
    tasks = [
        asyncio.create_task(server.main_loop(), name="gateway clock"),
        asyncio.create_task(gateway.state.streams.keep_alive(), name="gateway heartbeats"),
    ]
    try:
        yield f"http://[{host}]:{bound}" if ":" in host else f"http://{host}:{bound}"
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
    # Connections inherit it; without it the first piece of a stream may wait 40 ms for the client's acknowledgement.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


# --- Logs for operators as one JSON object per line: constant text, fields apart, no keys, no text of messages.


# What every record of the standard library has; whatever else is there came as a field.
_STANDARD_FIELDS = frozenset(vars(logging.LogRecord("", 0, "", 0, "", (), None))) | {
    "message",
    "asctime",
    "color_message",
}
# A field is an id, a code or a number; a sentence of ours has under 500 characters.
_CHARS_MAX = 1_000


class JsonLines(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: dict[str, object] = {
            "at": round(record.created, 3),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage()[:_CHARS_MAX],
        }
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
    """Send the logs of Holdfast and of its server to standard error, as JSON; return who does it."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    for name in ("holdfast", "uvicorn.error"):
        log = logging.getLogger(name)
        log.handlers = [handler]
        log.propagate = False
        log.setLevel(level.upper())
    # The server says when it starts and stops, which we do; what it warns of is about bytes that were no HTTP.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    return handler
