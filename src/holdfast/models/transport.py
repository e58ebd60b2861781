"""HTTP transport to a provider: one POST, a streamed response, no redirects.

`Transport` separates the codecs from the network. `SocketTransport` uses aiohttp; the simulated provider implements its
own, so the same client code runs with and without a socket.
"""

import asyncio
import io
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from math import inf
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self
from urllib.parse import SplitResult, urlsplit

import msgspec

from holdfast.errors import UsageError

if TYPE_CHECKING:
    import aiohttp

# DNS, TCP and TLS together. Connecting to a healthy host takes under a second.
CONNECT_SECONDS_MAX = 10.0


class HttpResponse(msgspec.Struct, frozen=True):
    """Status, headers with lower-case names, and the body as a stream of chunks."""

    status: int
    headers: Mapping[str, str]
    chunks: AsyncIterator[bytes]


class UnreachableError(Exception):
    """No response was received. The message names the host and what to check."""


class BrokenOffError(Exception):
    """The connection broke in the middle of a response."""


class Transport(Protocol):
    """An endpoint for POST requests."""

    def post(self, path: str, headers: Mapping[str, str], body: bytes) -> AbstractAsyncContextManager[HttpResponse]:
        """Send a request; leaving the context closes the connection unless the response was read to its end.

        Raises `UnreachableError` on entry if there is no response, and `BrokenOffError` from the chunks.
        """
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...


class SocketTransport:
    """HTTP transport by aiohttp. The client session opens with the first request, in the running event loop."""

    def __init__(self, base_url: str, *, proxy: str | None = None) -> None:
        self._base_url = base_url.rstrip("/")
        self._proxy = proxy
        self._session: aiohttp.ClientSession | None = None

    @asynccontextmanager
    async def post(self, path: str, headers: Mapping[str, str], body: bytes) -> AsyncIterator[HttpResponse]:
        """Send a request without following redirects: the key belongs to this host only."""
        import aiohttp  # noqa: PLC0415 - costs 0.2 s, and a process that never calls a model should not pay it

        try:
            response = await self._open_session().post(
                self._base_url + path,
                data=io.BytesIO(body),
                headers={**headers, "accept-encoding": "identity"},
                allow_redirects=False,
                proxy=self._proxy,
            )
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise UnreachableError(self._error_text(error, len(body))) from error
        try:
            names = {name.lower(): text for name, text in response.headers.items()}
            yield HttpResponse(response.status, names, ResponseChunks(response))
        finally:
            # A fully read response has already returned its connection to the pool; this closes all others.
            response.close()

    async def close(self) -> None:
        """Close the session and all its connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _open_session(self) -> "aiohttp.ClientSession":
        import aiohttp  # noqa: PLC0415 - as above

        if self._session is None or self._session.closed:
            # No total timeout: a response may take many minutes. The caller enforces the stall timeout.
            timeout = aiohttp.ClientTimeout(total=None, connect=CONNECT_SECONDS_MAX, sock_read=None)
            # One connection per running turn; the supervisor limits those.
            connector = aiohttp.TCPConnector(limit=0)
            self._session = aiohttp.ClientSession(
                connector=connector, timeout=timeout, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False
            )
        return self._session

    def _error_text(self, error: BaseException, body_bytes: int) -> str:
        """Describe a connection failure without the request, which holds the key."""
        place = host_and_port(self._proxy or self._base_url)
        return f"{'the proxy ' if self._proxy else ''}{place}: {_reason(error, body_bytes)}"


def _reason(error: BaseException, body_bytes: int) -> str:
    import aiohttp  # noqa: PLC0415 - as above

    match error:
        case TimeoutError():
            return f"no connection within {CONNECT_SECONDS_MAX:g} s; check the address and the firewall"
        case aiohttp.ClientConnectorDNSError():
            return "the name could not be resolved; check the host name and the network"
        case aiohttp.ClientConnectorCertificateError():
            return "its certificate could not be verified; check the address and the trusted certificates"
        case aiohttp.ClientSSLError():
            return "no encrypted connection could be made; check whether it is http:// or https://"
        case aiohttp.ClientConnectorError(os_error=ConnectionRefusedError()):
            return "the connection was refused; check that the server runs and the port is right"
        case aiohttp.ClientConnectorError():
            return f"no connection could be made ({error.os_error.strerror}); check the address and the network"
        case aiohttp.ClientHttpProxyError():
            return f"it did not connect (status {error.status}); check the proxy's settings"
        case aiohttp.ServerDisconnectedError() | OSError():
            return f"the connection was closed before a response to a request of {body_bytes:,} bytes"
        case _:
            return f"no response ({type(error).__name__}); check the address and the network"


def host_and_port(url: str) -> str:
    """Return host and port of a URL, without its user and password."""
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme, 0)
    return f"{parts.hostname or 'unknown'}:{port}"


class ResponseChunks:
    """The body of a response as it arrives. Raises `BrokenOffError` if the connection breaks."""

    def __init__(self, response: "aiohttp.ClientResponse") -> None:
        import aiohttp  # noqa: PLC0415 - as above

        self._read = response.content.readany
        self._errors = (aiohttp.ClientError, OSError)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        try:
            chunk = await self._read()
        except self._errors as error:
            raise broken_off(error) from error
        if not chunk:
            raise StopAsyncIteration
        return chunk


def broken_off(error: BaseException) -> BrokenOffError:
    """Return the error for a broken connection."""
    return BrokenOffError(f"the connection broke before the response was complete ({type(error).__name__})")


class IdleTimeout:
    """A timeout for each of many waits, with one timer: a timer for each would cost as much as decoding a delta.

    Inside `async with`, call `start` before a wait and `stop` after it. A wait that takes longer raises `TimeoutError`
    from the block.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._timeout = asyncio.timeout(None)
        self._timer: asyncio.TimerHandle | None = None
        self._fires_at = inf
        # End of the current wait; infinite between two waits.
        self._ends_at = inf

    async def __aenter__(self) -> Self:
        await self._timeout.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        await self._timeout.__aexit__(kind, error, trace)

    def start(self, seconds: float) -> None:
        """Begin a wait of at most so many seconds."""
        self._ends_at = self._loop.time() + seconds
        if self._ends_at < self._fires_at:
            self._set_timer()

    def stop(self) -> None:
        """End a wait."""
        self._ends_at = inf

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._fires_at = self._ends_at
        self._timer = self._loop.call_at(self._fires_at, self._check)

    def _check(self) -> None:
        self._timer, self._fires_at = None, inf
        if self._ends_at <= self._loop.time():
            self._timeout.reschedule(self._loop.time())
        elif self._ends_at < inf:
            self._set_timer()


# --- Endpoint ---

_PORTS = {"http": 80, "https": 443}
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class Endpoint(msgspec.Struct, frozen=True):
    """A validated base URL. `place` is its host, with any non-default port."""

    base_url: str
    place: str
    proxy: str | None = None


def parse_endpoint(url: str, source: str, environ: Mapping[str, str]) -> Endpoint:
    """Validate a base URL; `source` names the setting for error messages."""
    parts = _split_url(url, source)
    if parts.query or parts.fragment:
        raise UsageError(f"{source}: the address must end with its path, without '?' and '#'")
    host = parts.hostname or ""
    shown = f"[{host}]" if ":" in host else host
    place = shown if parts.port in (None, _PORTS[parts.scheme]) else f"{shown}:{parts.port}"
    return Endpoint(url.strip().rstrip("/"), place, _proxy(parts, environ))


def _split_url(url: str, source: str) -> SplitResult:
    example = "such as https://example.com/v1"
    try:
        parts = urlsplit(url.strip())
        port = parts.port
    except ValueError as error:
        raise UsageError(f"{source}: the address is malformed ({error}); give one {example}") from error
    if parts.scheme not in _PORTS or not parts.hostname or port == 0 or any(mark.isspace() for mark in url.strip()):
        raise UsageError(f"{source}: the address must start with http:// or https:// and name a host, {example}")
    if parts.username is not None or parts.password is not None:
        # Addresses are displayed; a password in one would leak.
        raise UsageError(f"{source}: the address must not carry a user or password; put the key into its own variable")
    return parts


def _proxy(parts: SplitResult, environ: Mapping[str, str]) -> str | None:
    """Find the proxy in the usual environment variables; loopback addresses never use one."""
    host = (parts.hostname or "").lower()
    if host in _LOOPBACK or _is_exempt(host, _environment_value(environ, "no_proxy")):
        return None
    proxy = _environment_value(environ, f"{parts.scheme}_proxy") or _environment_value(environ, "all_proxy")
    if not proxy:
        return None
    if urlsplit(proxy).scheme not in _PORTS:
        raise UsageError(f"{parts.scheme}_proxy: only http:// and https:// proxies can be used")
    return proxy


def _environment_value(environ: Mapping[str, str], name: str) -> str:
    return (environ.get(name) or environ.get(name.upper()) or "").strip()


def _is_exempt(host: str, no_proxy: str) -> bool:
    for entry in (part.strip().lower().lstrip(".") for part in no_proxy.split(",")):
        if entry and (entry in ("*", host) or host.endswith(f".{entry}")):
            return True
    return False
