"""Reload of a running gateway: new settings apply to new requests, and open streams continue.

Everything is checked before anything is changed, so a mistake in the file leaves the gateway as it was.
"""

import logging
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from holdfast.wiring.library import LiveModels, ModelList, model_overrides

if TYPE_CHECKING:
    from holdfast.config.schema import Settings
    from holdfast.gateway.http.app import Gateway
    from holdfast.gateway.http.forwarded import ForwardedClients
    from holdfast.gateway.proxy.app import ProxyApp
    from holdfast.gateway.proxy.upstream import Upstream

# Settings that a running gateway takes over, and the beginnings of their names. The others need a restart.
_LIVE = (
    *("model", "models", "base_url", "observing.log", "upstream.", "gateway_bounds."),
    *("gateway.operator", "gateway.origins", "gateway.trusted_proxies", "gateway.tls_certificate", "gateway.tls_key"),
)


class Reloaded(msgspec.Struct, frozen=True):
    """Names of the settings that changed, and of those that changed and need a restart."""

    changed: tuple[str, ...]
    needs_restart: tuple[str, ...]


@dataclass(frozen=True)
class RunningParts:
    """The parts of a gateway that take new settings."""

    gateway: "Gateway"
    proxy: "ProxyApp"
    models: LiveModels
    clients: "ForwardedClients"
    tls: ssl.SSLContext | None
    upstreams: Callable[["Settings"], dict[str, "Upstream"]]


class Reloader:
    """Takes new settings for the gateway that is attached to it."""

    def __init__(self) -> None:
        self._settings: Settings | None = None
        self._parts: RunningParts | None = None

    def attach(self, settings: "Settings", parts: RunningParts) -> None:
        """Reload these parts from now on."""
        self._settings, self._parts = settings, parts

    async def reload(self, settings: "Settings") -> Reloaded:
        """Apply new settings. Raises `HoldfastError`, with nothing changed, if one of them cannot be used."""
        from holdfast.gateway.http.forwarded import check_proxies  # noqa: PLC0415 - the server is loaded on use
        from holdfast.gateway.http.origin import parse_origins  # noqa: PLC0415
        from holdfast.gateway.http.tls import load_certificate, tls_context  # noqa: PLC0415

        assert self._parts is not None, "a gateway that runs is attached"
        assert self._settings is not None, "a gateway that runs is attached"
        parts, gateway = self._parts, settings.gateway
        overrides, upstreams = model_overrides(settings.models), parts.upstreams(settings)
        origins, proxies = parse_origins(gateway.origins), check_proxies(gateway.trusted_proxies)
        models = ModelList(settings.model, settings.base_url or None, overrides)
        fresh_tls = tls_context(gateway.tls_certificate, gateway.tls_key)
        keys = parts.gateway.state.keys
        if keys is not None:
            await keys.reload()
        result = _compare(self._settings, settings, has_tls=parts.tls is not None)
        # From here on nothing fails.
        if parts.tls is not None and fresh_tls is not None:
            load_certificate(parts.tls, gateway.tls_certificate, gateway.tls_key)
        parts.clients.trust(proxies)
        await parts.models.replace(models)
        await parts.proxy.reload(upstreams, overrides, settings.gateway_bounds)
        parts.gateway.origins = origins
        parts.gateway.state.reload(settings.model, settings.gateway_bounds, gateway.operator)
        parts.gateway.state.overrides = overrides
        logging.getLogger("holdfast").setLevel(settings.observing.log.upper())
        self._settings = settings
        return result


def _compare(before: "Settings", after: "Settings", *, has_tls: bool) -> Reloaded:
    changed = sorted(_changed(before, after, ""))
    live = tuple(name for name in _LIVE if has_tls or not name.startswith("gateway.tls"))
    late = (
        name for name in changed if not any(name == one or (one[-1] == "." and name.startswith(one)) for one in live)
    )
    return Reloaded(tuple(changed), tuple(late))


def _changed(before: msgspec.Struct, after: msgspec.Struct, prefix: str) -> list[str]:
    names: list[str] = []
    for name in before.__struct_fields__:
        old, new = getattr(before, name), getattr(after, name)
        if isinstance(old, msgspec.Struct):
            names += _changed(old, new, f"{prefix}{name}.")
        elif old != new:
            names.append(prefix + name)
    return names
