"""Where an endpoint is: a checked address, the name it goes by, and the proxy on the way to it."""

from collections.abc import Mapping
from urllib.parse import SplitResult, urlsplit

import msgspec

from holdfast.errors import UsageError

_PORTS = {"http": 80, "https": 443}
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class Endpoint(msgspec.Struct, frozen=True):
    """An address that requests go to. `place` is its host, with its port where it is unusual."""

    base_url: str
    place: str
    proxy: str | None = None


def parse_endpoint(url: str, source: str, environ: Mapping[str, str]) -> Endpoint:
    """Check an address; `source` says where it was set, for whoever must correct it."""
    parts = _split(url, source)
    if parts.query or parts.fragment:
        raise UsageError(f"{source}: the address must end with its path, without '?' and '#'")
    host = parts.hostname or ""
    shown = f"[{host}]" if ":" in host else host
    place = shown if parts.port in (None, _PORTS[parts.scheme]) else f"{shown}:{parts.port}"
    return Endpoint(url.strip().rstrip("/"), place, _proxy(parts, environ))


def _split(url: str, source: str) -> SplitResult:
    example = "such as https://example.com/v1"
    try:
        parts = urlsplit(url.strip())
        port = parts.port
    except ValueError as error:
        raise UsageError(f"{source}: the address is malformed ({error}); give one {example}") from error
    if parts.scheme not in _PORTS or not parts.hostname or port == 0 or any(mark.isspace() for mark in url.strip()):
        raise UsageError(f"{source}: the address must start with http:// or https:// and name a host, {example}")
    if parts.username is not None or parts.password is not None:
        # Addresses are shown to people; a password in one would be shown too.
        raise UsageError(f"{source}: the address must not carry a user or password; put the key into its own variable")
    return parts


def _proxy(parts: SplitResult, environ: Mapping[str, str]) -> str | None:
    """Find the proxy by the variables that other programs use; the machine itself is never behind one."""
    host = (parts.hostname or "").lower()
    if host in _LOOPBACK or _is_exempt(host, _either(environ, "no_proxy")):
        return None
    proxy = _either(environ, f"{parts.scheme}_proxy") or _either(environ, "all_proxy")
    if not proxy:
        return None
    if urlsplit(proxy).scheme not in _PORTS:
        raise UsageError(f"{parts.scheme}_proxy: only http:// and https:// proxies can be used")
    return proxy


def _either(environ: Mapping[str, str], name: str) -> str:
    return (environ.get(name) or environ.get(name.upper()) or "").strip()


def _is_exempt(host: str, no_proxy: str) -> bool:
    for entry in (part.strip().lower().lstrip(".") for part in no_proxy.split(",")):
        if entry and (entry in ("*", host) or host.endswith(f".{entry}")):
            return True
    return False
