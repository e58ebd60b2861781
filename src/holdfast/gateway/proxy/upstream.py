"""Who is behind the drop-in endpoints: where a client's request goes, with which key, and how it comes back raw.

Nothing is changed on the way but hop-by-hop headers, the host, the key where the gateway has its own, and compression:
the answer is asked for plain, because it is read along the way.
"""

import hashlib
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import aiohttp
from multidict import istr
from yarl import URL

from holdfast.gateway.http.asgi import Scope
from holdfast.gateway.http.problems import NotFoundError
from holdfast.models import anthropic, openai_chat
from holdfast.models.transport import CONNECT_SECONDS_MAX, Endpoint, UnreachableError, broken_off, parse_endpoint

RawHeaders: TypeAlias = Sequence[tuple[bytes, bytes]]

_LENGTH = b"content-length"
# RFC 9110, 7.6.1, and what belongs to one connection or one body alone.
_HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
        b"host",
        _LENGTH,
        b"accept-encoding",
        b"expect",
    }
)
# For us alone.
_OURS = b"x-holdfast-"
_KEY_HEADERS = frozenset({b"authorization", b"x-api-key"})
# The client library warns above a megabyte.
_AT_ONCE_BYTES_MAX = 2**20
_OFFICIAL = {"openai": openai_chat.DEFAULT_BASE_URL, "anthropic": anthropic.DEFAULT_BASE_URL}
_AUTO = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")
# Of both the longest are some 30 KiB, which is what a request's headers may have.
_ADDRESSES_MAX = 64
_NAMES_MAX = 64
# Keys whose owners are remembered by name: more than use one gateway at once.
_OWNERS_MAX = 1_000


@dataclass(frozen=True)
class Upstream:
    """A provider, or a server that speaks its dialects."""

    # "openai" or "anthropic": which clients it is for.
    family: str
    endpoint: Endpoint
    # The key for clients that bring none of their own.
    key: str = ""
    # Models to go on with, in this order, where the one that was asked for is overloaded. None unless allowed.
    fallbacks: tuple[str, ...] = ()
    is_official: bool = False

    def __repr__(self) -> str:
        return f"Upstream({self.family!r} at {self.endpoint.place!r})"

    def address(self, path: str, query: bytes = b"") -> str:
        """Return where a request to one of our paths goes."""
        # OpenAI's base URLs end in /v1, Anthropic's do not.
        behind = path.removeprefix("/v1") if self.family == "openai" else path
        return self.endpoint.base_url + behind + (f"?{query.decode('latin-1')}" if query else "")


def open_upstream(
    family: str, base_url: str, key_variable: str, fallbacks: tuple[str, ...], environ: Mapping[str, str]
) -> Upstream | None:
    """Return an upstream as it was set, None where there is to be none. Raises `UsageError` for a bad address."""
    if not base_url.strip():
        return None
    endpoint = parse_endpoint(base_url, f"upstream.{family}_base_url", environ)
    official = parse_endpoint(_OFFICIAL[family], family, {})
    key = environ.get(key_variable, "").strip() if key_variable else ""
    return Upstream(family, endpoint, key, fallbacks, endpoint.place == official.place)


class UpstreamResponse:
    """An answer on its way: status, headers as they came, and the body as it comes. Whoever has it closes it."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.status = response.status
        self.headers: RawHeaders = client_headers(response.raw_headers)
        self._response = response

    async def next(self) -> bytes:
        """Return the next piece of the body; empty at its end. Raises `BrokenOffError` where the connection breaks."""
        try:
            return await self._response.content.readany()
        except (aiohttp.ClientError, OSError) as error:
            raise broken_off(error) from error

    def close(self) -> None:
        """Let go of it: a connection whose answer was not read to its end is closed, so the provider stops working."""
        self._response.close()


class UpstreamClient:
    """The connections to all upstreams."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    async def send(
        self, upstream: Upstream, method: str, address: str, headers: RawHeaders, body: bytes
    ) -> UpstreamResponse:
        """Send a request and return its answer as soon as its headers are there."""
        try:
            response = await self._open().request(
                method,
                _url(address),
                data=_payload(body) if body or method == "POST" else None,
                headers=[(_name(name), text.decode("latin-1")) for name, text in headers],
                allow_redirects=False,
                proxy=upstream.endpoint.proxy,
            )
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise UnreachableError(f"{upstream.endpoint.place} gave no answer ({type(error).__name__})") from error
        return UpstreamResponse(response)

    async def close(self) -> None:
        """Let go of all connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None or self._session.closed:
            # How long silence may last is for who waits to say; how many wait is bounded by the gateway.
            timeout = aiohttp.ClientTimeout(total=None, connect=CONNECT_SECONDS_MAX, sock_read=None)
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                timeout=timeout,
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                skip_auto_headers=_AUTO,
            )
        return self._session


# Requests go to a few addresses, with headers of a few names: both are read once.
@lru_cache(maxsize=_ADDRESSES_MAX)
def _url(address: str) -> URL:
    return URL(address, encoded=True)


@lru_cache(maxsize=_NAMES_MAX)
def _name(name: bytes) -> istr:
    return istr(name.decode("latin-1"))


def _payload(body: bytes) -> bytes | io.BytesIO:
    """Return a body as the client library likes it: large ones in pieces, small ones at once, which is quicker."""
    return body if len(body) < _AT_ONCE_BYTES_MAX else io.BytesIO(body)


def find_upstream(scope: Scope, upstreams: Mapping[str, Upstream]) -> Upstream:
    """Return the upstream of a request: Anthropic's clients name their version, or use its paths."""
    is_anthropic = scope["path"].startswith("/v1/messages") or any(
        name == b"anthropic-version" for name, _ in scope["headers"]
    )
    family = "anthropic" if is_anthropic else "openai"
    if family not in upstreams:
        raise NotFoundError(f"this gateway has no upstream for {family}; its operator sets one in [upstream]")
    return upstreams[family]


def upstream_headers(
    headers: Iterable[tuple[bytes, bytes]], upstream: Upstream, *, is_key_ours: bool
) -> list[tuple[bytes, bytes]]:
    """Return a client's headers as they go to an upstream: with its own key, or with ours where it has none of its own.

    `is_key_ours` says that the key in them opens this gateway, so it is nobody else's business.
    """
    listed = [text for name, text in headers if name == b"connection"]
    named = {token.strip().lower() for text in listed for token in text.split(b",")}
    passed = [
        (name, text)
        for name, text in headers
        if name not in _HOP_BY_HOP
        and name not in named
        and not name.startswith(_OURS)
        and not (is_key_ours and name in _KEY_HEADERS)
    ]
    passed.append((b"accept-encoding", b"identity"))
    if upstream.key and not any(name in _KEY_HEADERS for name, _ in passed):
        passed += [(name.encode(), text.encode()) for name, text in _key_headers(upstream).items()]
    return passed


def _key_headers(upstream: Upstream) -> Mapping[str, str]:
    if upstream.family == "anthropic":
        return {"x-api-key": upstream.key}
    return {"authorization": f"Bearer {upstream.key}"}


def client_headers(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return an upstream's headers as they go back to the client."""
    return [(name, text) for raw, text in headers if (name := raw.lower()) not in _HOP_BY_HOP or name == _LENGTH]


def key_in(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """Return the key that a request carries upstream; "" where it carries none."""
    for name, text in headers:
        if name in _KEY_HEADERS:
            return text.decode("latin-1").removeprefix("Bearer ").strip()
    return ""


@lru_cache(maxsize=_OWNERS_MAX)
def owner_of(key: str) -> str:
    """Name whose conversation it is by a key, which cannot be had back from the name."""
    return hashlib.sha256(key.encode()).hexdigest()[:8]
