"""Trusted reverse proxies: the address and scheme of the client are taken from their headers, and from no other's."""

import ipaddress
from collections.abc import Sequence
from typing import cast

from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from holdfast.errors import UsageError
from holdfast.gateway.http.asgi import App, Receive, Scope, Send


def check_proxies(texts: Sequence[str]) -> list[str]:
    """Return the addresses and networks of the settings. Raises `UsageError` for one that is neither."""
    for text in texts:
        try:
            ipaddress.ip_network(text.strip())
        except ValueError as error:
            raise UsageError(
                f"gateway.trusted_proxies: {text[:80]!r} is not an address or a network ({error}); "
                "use one like '10.0.0.5' or '10.0.0.0/8'"
            ) from error
    return [text.strip() for text in texts]


class ForwardedClients:
    """An application behind trusted proxies. `trusted` may change while it serves."""

    def __init__(self, app: App, trusted: Sequence[str]) -> None:
        self._app = app
        self.trust(trusted)

    def trust(self, trusted: Sequence[str]) -> None:
        """Trust these proxies from now on."""
        # uvicorn's types name every ASGI message; ours are mappings.
        wrapped = ProxyHeadersMiddleware(self._app, check_proxies(trusted))  # type: ignore[arg-type]
        self._serving: App = cast("App", wrapped) if trusted else self._app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        await self._serving(scope, receive, send)
