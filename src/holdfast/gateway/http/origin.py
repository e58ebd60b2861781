"""Protection of a gateway without keys from web pages: DNS rebinding and requests of other origins.

Without keys every local program is trusted, and a browser is a local program that sends what any page tells it to. A
page of another port of this machine is as foreign as one of another host. So the Host must be a loopback name, and a
request of a page must come from a page of this gateway, or from an origin that the operator lists.
"""

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from holdfast.errors import UsageError
from holdfast.gateway.http.asgi import Scope, header
from holdfast.gateway.http.problems import ForbiddenError

_LOOPBACK_NAMES = {"localhost", "ip6-localhost"}
# A host and a port, and nothing else: no user, no zone of an IPv6 address.
_AUTHORITY = re.compile(r"(?:\[([0-9A-Fa-f:.]{2,45})\]|([A-Za-z0-9.-]{1,253}))(?::([0-9]{1,5}))?")
_ORIGIN = re.compile(r"(https?)://([^/?#\\]+)")
_PORTS = {"http": 80, "https": 443}
_PORT_MAX = 65_535
# Values of Sec-Fetch-Site for requests that no other page caused.
_OWN_SITES = {"", "none", "same-origin"}


# Cached: every request without a key checks the same few hosts.
@lru_cache(maxsize=64)
def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address or name."""
    bare = host.removeprefix("[").removesuffix("]").lower()
    if bare in _LOOPBACK_NAMES:
        return True
    try:
        return ipaddress.ip_address(bare.partition("%")[0]).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True)
class Authority:
    """A host in lower case, an IPv6 address without brackets, and a port; None: the default port."""

    host: str
    port: int | None


@lru_cache(maxsize=64)
def parse_authority(text: str) -> Authority | None:
    """Parse `host:port` strictly; None if it is anything else."""
    found = _AUTHORITY.fullmatch(text)
    if found is None or (found[3] and int(found[3]) > _PORT_MAX):
        return None
    return Authority((found[1] or found[2]).lower(), int(found[3]) if found[3] else None)


@dataclass(frozen=True)
class Origin:
    """Scheme, host and port of a page."""

    scheme: str
    host: str
    port: int


@lru_cache(maxsize=64)
def parse_origin(text: str) -> Origin | None:
    """Parse an Origin header strictly; None for `null` and anything else that is not one."""
    found = _ORIGIN.fullmatch(text)
    authority = parse_authority(found[2]) if found is not None else None
    if found is None or authority is None:
        return None
    port = _PORTS[found[1]] if authority.port is None else authority.port
    return Origin(found[1], authority.host, port)


def parse_origins(texts: Sequence[str]) -> frozenset[Origin]:
    """Parse the origins of the settings. Raises `UsageError` for one that is not an origin."""
    parsed = {text: parse_origin(text.strip()) for text in texts}
    for text, origin in parsed.items():
        if origin is None:
            raise UsageError(f"gateway.origins: {text[:80]!r} is not an origin; use one like 'http://localhost:3000'")
    return frozenset(origin for origin in parsed.values() if origin is not None)


def check_local(scope: Scope, allowed: frozenset[Origin]) -> str:
    """Reject a request that a page of another origin caused, or that came under a foreign name.

    Return the origin of a page that the operator lists; "" for the gateway's own page and for programs.
    """
    _check_client(scope)
    host = parse_authority(header(scope, b"host"))
    if host is None or not is_loopback(host.host):
        raise ForbiddenError("without keys this gateway serves loopback addresses only; use http://127.0.0.1")
    given = header(scope, b"origin")
    origin = parse_origin(given) if given else None
    if origin is not None and origin in allowed:
        return given
    is_own = origin is not None and (origin.host, origin.port) == (host.host, host.port or _PORTS[origin.scheme])
    if (given and not is_own) or header(scope, b"sec-fetch-site").lower() not in _OWN_SITES:
        raise ForbiddenError(
            "without keys this gateway rejects requests of other web pages; the operator allows one in gateway.origins"
        )
    return ""


def _check_client(scope: Scope) -> None:
    """Reject a request of another machine, which a trusted reverse proxy names."""
    client = scope.get("client")
    if client and not is_loopback(client[0]):
        raise ForbiddenError("without keys this gateway serves this machine only; create one with `holdfast keys add`")


def is_preflight(scope: Scope) -> bool:
    """Return whether a browser asks if a page of another origin may send a request."""
    return scope["method"] == "OPTIONS" and bool(header(scope, b"access-control-request-method"))


def preflight_headers(scope: Scope) -> list[tuple[bytes, bytes]]:
    """Return the permission for what a listed page asks for: any method and header, also from a public address."""
    asked = header(scope, b"access-control-request-headers")
    return [
        (b"access-control-allow-methods", b"GET, HEAD, POST, PUT, PATCH, DELETE"),
        (b"access-control-allow-headers", asked.encode("ascii")),
        (b"access-control-allow-private-network", b"true"),
    ]


def sharing_headers(origin: str) -> list[tuple[bytes, bytes]]:
    """Return the headers that let a listed page read a response."""
    return [
        (b"access-control-allow-origin", origin.encode("ascii")),
        (b"access-control-expose-headers", b"*"),
        (b"vary", b"origin"),
    ]
