"""Upstreams of the proxy: addresses, API keys, headers, model cards, a client for raw responses, speculation.

Forwarding changes hop-by-hop headers, the host, the key if the gateway has its own, and compression: answers are
requested uncompressed, because they are decoded along the way.

Parsing takes longer than forwarding. A request that cannot be too large, of a conversation that is forwarded as it is,
is sent first and parsed while the upstream works; it is cancelled if the parsed request must change. The cache only
saves time: the plan is made from the parsed request.
"""

import asyncio
import hashlib
import io
from collections import OrderedDict
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

import aiohttp
from multidict import istr
from yarl import URL

from holdfast.gateway.http.asgi import Scope
from holdfast.gateway.http.problems import NotFoundError, UnauthorizedError
from holdfast.models import anthropic, gemini, openai_chat
from holdfast.models.catalogue import simulated_model, without_version
from holdfast.models.dialects import dialect_at
from holdfast.models.http import HttpModel, ModelCard
from holdfast.models.limits import Overrides, declared_limits, open_limits
from holdfast.models.transport import CONNECT_SECONDS_MAX, Endpoint, UnreachableError, broken_off, parse_endpoint

if TYPE_CHECKING:
    from holdfast.models.fake import Simulation

RawHeaders: TypeAlias = Sequence[tuple[bytes, bytes]]

_LENGTH = b"content-length"
# RFC 9110, 7.6.1, and headers of one connection or one body.
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
# Headers for the gateway itself.
_OURS = b"x-holdfast-"
KEY_HEADERS = frozenset({b"authorization", b"x-api-key", b"x-goog-api-key"})
# Cookies belong to other servers of the client's host.
_PRIVATE = frozenset({b"cookie", b"cookie2"})
# Sent by the libraries of Anthropic.
_ANTHROPIC = b"anthropic-version"
_NOT_FOR_UPSTREAMS = _HOP_BY_HOP | _PRIVATE
# With the gateway's own key: headers that choose another part of the operator's account, or another method or path.
_CHOOSES_ACCOUNT = frozenset(
    {
        b"openai-organization",
        b"openai-project",
        b"x-goog-user-project",
        b"x-http-method",
        b"x-http-method-override",
        b"x-method-override",
        b"x-original-url",
        b"x-rewrite-url",
    }
)
# Headers of a response that speak to a browser about our own origin. `access-control-` is a prefix.
_FOR_BROWSERS = frozenset({b"set-cookie", b"set-cookie2", b"clear-site-data", b"alt-svc", b"strict-transport-security"})
_CROSS_ORIGIN = b"access-control-"
_NOT_FOR_CLIENTS = (_HOP_BY_HOP | _FOR_BROWSERS) - {_LENGTH}
# aiohttp warns about larger bodies in one piece.
_AT_ONCE_BYTES_MAX = 2**20
# Families of upstreams, with the providers' own addresses.
OFFICIAL: Mapping[str, str] = MappingProxyType(
    {
        "openai": openai_chat.DEFAULT_BASE_URL,
        "anthropic": anthropic.DEFAULT_BASE_URL,
        "gemini": gemini.DEFAULT_BASE_URL,
    }
)
_AUTO = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")
# Cached URLs and header names; each takes at most some 30 KiB, the limit for request headers.
_ADDRESSES_MAX = 64
_NAMES_MAX = 64
# Cached key digests: more than the clients of one gateway.
_OWNERS_MAX = 1_000
# Prefixes of model references by dialect.
_REFERENCES = {
    "openai-chat": "openai",
    "openai-responses": "responses",
    "anthropic": "anthropic",
    "gemini": "gemini",
}


@dataclass(frozen=True)
class Upstream:
    """A provider, or a server that speaks its dialects."""

    # "openai", "anthropic" or "gemini": the clients it serves.
    family: str
    endpoint: Endpoint
    # The key for clients that bring none of their own.
    key: str = ""
    # Fallback models, in this order, for an overloaded model. Empty unless the operator allows them.
    fallbacks: tuple[str, ...] = ()
    is_official: bool = False
    # Further paths that are forwarded with the key above.
    allowed_paths: tuple[str, ...] = ()
    # "safe": requests are changed where that saves money without loss; "off": they are not.
    savings: str = "off"
    # Whether the simulated model of this process answers.
    is_simulated: bool = False

    def __repr__(self) -> str:
        return f"Upstream({self.family!r} at {self.endpoint.place!r})"

    def address(self, path: str, query: bytes = b"") -> str:
        """Return the URL for a request to one of our paths, which is used as it came."""
        asked = f"?{query.decode('latin-1')}" if query else ""
        if self.is_simulated:
            return path + asked
        # OpenAI's base URLs end in /v1, others do not.
        behind = path.removeprefix("/v1") if self.family == "openai" else path
        return self.endpoint.base_url + behind + asked


def open_upstream(
    family: str, base_url: str, key_variable: str, fallbacks: tuple[str, ...], environ: Mapping[str, str]
) -> Upstream | None:
    """Return an upstream from its settings, None if its address is empty. Raises `UsageError` for a bad address."""
    if not base_url.strip():
        return None
    if family == gemini.NAME:
        base_url = without_version(gemini, base_url)
    endpoint = parse_endpoint(base_url, f"upstream.{family}_base_url", environ)
    official = parse_endpoint(OFFICIAL[family], family, {})
    key = environ.get(key_variable, "").strip() if key_variable else ""
    return Upstream(family, endpoint, key, fallbacks, endpoint.place == official.place)


class UpstreamResponse:
    """A streamed response: status, headers, and the body in chunks. The receiver closes it."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.status = response.status
        self.headers: RawHeaders = client_headers(response.raw_headers)
        self._response = response

    async def next(self) -> bytes:
        """Return the next chunk of the body; empty at its end. Raises `BrokenOffError` if the connection breaks."""
        try:
            return await self._response.content.readany()
        except (aiohttp.ClientError, OSError) as error:
            raise broken_off(error) from error

    def close(self) -> None:
        """Release the connection. One with unread data is closed, so the provider stops generating."""
        self._response.close()


# The model of the proxy that needs no key and no upstream.
SIMULATED = "sim"


@lru_cache(maxsize=1)
def _simulation() -> "Simulation":
    """Return the simulated provider of this process."""
    # Half of the import time of the models, needed only for simulations.
    from holdfast.models.fake import Simulation  # noqa: PLC0415

    return Simulation()


def simulated(upstream: Upstream) -> Upstream:
    """Return the simulated provider in place of an upstream."""
    place = Endpoint("", "simulation")
    return replace(upstream, endpoint=place, key="", fallbacks=(), is_official=False, is_simulated=True)


def simulated_models(dialect: str) -> tuple[tuple[HttpModel, ...], tuple[str, ...]]:
    """Return the simulated model in a dialect, and its name."""
    return (simulated_model(_simulation(), dialect, name=SIMULATED),), (SIMULATED,)


class SimulatedResponse(UpstreamResponse):
    """A response of the simulated provider, without a socket."""

    def __init__(self, path: str, body: bytes) -> None:
        response = _simulation().respond(dialect_at(path.partition("?")[0]) or "", body, path)
        self.status = response.status
        self.headers = client_headers([(name.encode(), text.encode()) for name, text in response.headers.items()])
        self._chunks = response.chunks

    async def next(self) -> bytes:
        """Return the next chunk of the body; empty at its end."""
        # Yield to the event loop between chunks, as a socket does.
        await asyncio.sleep(0)
        return await anext(self._chunks, b"")

    def close(self) -> None:
        """No-op: nothing is generated ahead."""


class UpstreamClient:
    """HTTP client with the connections to all upstreams."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    async def send(
        self, upstream: Upstream, method: str, address: str, headers: RawHeaders, body: bytes
    ) -> UpstreamResponse:
        """Send a request and return its response when the headers have arrived."""
        if upstream.is_simulated:
            return SimulatedResponse(address, body)
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
            raise UnreachableError(
                f"{upstream.endpoint.place} gave no answer ({type(error).__name__}); check the network and "
                f"the setting upstream.{upstream.family}_base_url"
            ) from error
        return UpstreamResponse(response)

    async def close(self) -> None:
        """Close all connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None or self._session.closed:
            # Callers have their own read deadlines, and the gateway bounds the number of requests.
            timeout = aiohttp.ClientTimeout(total=None, connect=CONNECT_SECONDS_MAX, sock_read=None)
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                timeout=timeout,
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                skip_auto_headers=_AUTO,
            )
        return self._session


# Few distinct URLs and header names occur: both are parsed once.
@lru_cache(maxsize=_ADDRESSES_MAX)
def _url(address: str) -> URL:
    return URL(address, encoded=True)


@lru_cache(maxsize=_NAMES_MAX)
def _name(name: bytes) -> istr:
    return istr(name.decode("latin-1"))


def _payload(body: bytes) -> bytes | io.BytesIO:
    """Return a body for aiohttp: large ones as a stream, small ones in one piece, which is faster."""
    return body if len(body) < _AT_ONCE_BYTES_MAX else io.BytesIO(body)


def find_upstream(scope: Scope, path: str, upstreams: Mapping[str, Upstream]) -> Upstream:
    """Return the upstream of a request."""
    family = family_of(scope, path)
    if family not in upstreams:
        raise NotFoundError(f"this gateway has no upstream for {family}; its operator sets one in [upstream]")
    return upstreams[family]


def family_of(scope: Scope, path: str) -> str:
    """Return the family of a client by its paths, or by the headers that only its library sends."""
    names = {name for name, _ in scope["headers"]}
    is_list = path.startswith("/v1/models") and b"x-goog-api-key" in names
    if path.startswith("/v1beta/") or gemini.is_model_call(path) or is_list:
        return "gemini"
    return "anthropic" if path.startswith("/v1/messages") or _ANTHROPIC in names else "openai"


def upstream_headers(
    headers: Iterable[tuple[bytes, bytes]], upstream: Upstream, *, is_key_ours: bool
) -> list[tuple[bytes, bytes]]:
    """Return a client's headers for an upstream, with the client's key, else with the gateway's.

    `is_key_ours`: the client's key is one of this gateway, so it is not forwarded.
    """
    dropped = _NOT_FOR_UPSTREAMS | _connection_headers(headers) | (KEY_HEADERS if is_key_ours else frozenset())
    forwarded = [(name, text) for name, text in headers if name not in dropped and not name.startswith(_OURS)]
    forwarded.append((b"accept-encoding", b"identity"))
    if any(name in KEY_HEADERS for name, _ in forwarded):
        return forwarded
    forwarded = [(name, text) for name, text in forwarded if name not in _CHOOSES_ACCOUNT]
    if upstream.key:
        forwarded += [(name.encode(), text.encode()) for name, text in _key_headers(upstream).items()]
    return forwarded


def _connection_headers(headers: Iterable[tuple[bytes, bytes]]) -> frozenset[bytes]:
    """Return the header names that `Connection` lists: they belong to one connection.

    A key is not one of them: a request without its key would get the gateway's.
    """
    listed = [text for name, text in headers if name == b"connection"]
    return frozenset(token.strip().lower() for text in listed for token in text.split(b",")) - KEY_HEADERS


def _key_headers(upstream: Upstream) -> Mapping[str, str]:
    if upstream.family == "anthropic":
        return {"x-api-key": upstream.key}
    if upstream.family == "gemini":
        return gemini.key_headers(upstream.key)
    return {"authorization": f"Bearer {upstream.key}"}


def client_headers(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return an upstream's headers for the client, without those for browsers and those that only the gateway sends."""
    return [
        (name, text)
        for raw, text in headers
        if (name := raw.lower()) not in _NOT_FOR_CLIENTS and not name.startswith((_CROSS_ORIGIN, _OURS))
    ]


def check_key(upstream: Upstream, headers: RawHeaders) -> None:
    """Raise `UnauthorizedError` for a request that would reach a provider without a key."""
    if upstream.is_official and not key_in(headers):
        raise UnauthorizedError(
            f"no key for {upstream.endpoint.place}: send your own, or the operator sets the variable that "
            f"upstream.{upstream.family}_key_variable names; the model {SIMULATED!r} needs none"
        )


def key_in(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """Return the API key in a request's headers; "" if there is none."""
    for name, text in headers:
        if name in KEY_HEADERS:
            return text.decode("latin-1").removeprefix("Bearer ").strip()
    return ""


@lru_cache(maxsize=_OWNERS_MAX)
def owner_of(key: str) -> str:
    """Return a short digest of a key, which names the owner of a conversation."""
    return hashlib.sha256(key.encode()).hexdigest()[:8]


def model_card(upstream: Upstream, dialect: str, name: str, overrides: Overrides) -> ModelCard:
    """Return the card of a model of an upstream. Declared prices hold only for official providers."""
    reference = f"{_REFERENCES[dialect]}:{name}"
    declared = declared_limits(reference) if upstream.is_official else open_limits(name)
    limits = overrides.applied(reference, declared)
    prices = overrides.prices(reference, is_official=upstream.is_official)
    return ModelCard(reference, name, upstream.endpoint.place, limits, upstream.is_official, prices)


# A request is known by its first bytes before it is parsed: the model, the beginning of the system text and often the
# first message. Conversations with the same beginning share an entry; if one was recovered, the entry is not plain.
_HEAD_BYTES = 1_024
# Cached heads, 16 bytes each and a key.
_HEADS_MAX = 10_000
# Rounds of the event loop until a request has left: it gets its connection, it is written, it is sent.
_TURNS = 3


class PassThroughCache:
    """Cache of request heads whose conversations were all forwarded unchanged."""

    def __init__(self) -> None:
        self._is_plain: OrderedDict[bytes, bool] = OrderedDict()

    def has(self, owner: str, body: bytes) -> bool:
        """Return whether a request begins like such conversations."""
        return self._is_plain.get(_head(owner, body), False)

    def learn(self, owner: str, body: bytes, *, is_plain: bool) -> None:
        """Record if a request was forwarded unchanged. A head that once was not stays so."""
        head = _head(owner, body)
        self._is_plain[head] = is_plain and self._is_plain.get(head, True)
        self._is_plain.move_to_end(head)
        while len(self._is_plain) > _HEADS_MAX:
            self._is_plain.popitem(last=False)


def _head(owner: str, body: bytes) -> bytes:
    return hashlib.blake2b(owner.encode() + b"\0" + body[:_HEAD_BYTES], digest_size=16).digest()


class SpeculativeForward:
    """A request that was sent before it was parsed. Its response is taken once, or cancelled."""

    def __init__(self, sending: Coroutine[Any, Any, UpstreamResponse]) -> None:
        self._sending = asyncio.create_task(sending, name="speculative forward")
        self.is_taken = False

    async def sent(self) -> None:
        """Return when everything that can be sent without waiting is on the wire."""
        for _ in range(_TURNS):
            await asyncio.sleep(0)

    async def take(self) -> UpstreamResponse:
        """Return the response."""
        self.is_taken = True
        try:
            return await self._sending
        except asyncio.CancelledError:
            # The response may have arrived at the same time.
            self._close()
            raise

    async def cancel(self) -> None:
        """Cancel it unless it was taken, so that the upstream stops working."""
        if self.is_taken:
            return
        self._sending.cancel()
        await asyncio.wait([self._sending])
        self._close()

    def _close(self) -> None:
        sending = self._sending
        if sending.done() and not sending.cancelled() and sending.exception() is None:
            sending.result().close()
