"""The proxy as one ASGI application below /v1.

OpenAI's chat completions and responses, Anthropic's messages and its token count, and the lists of models. Every other
path below /v1 is forwarded as it is.
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import replace
from math import inf

from holdfast.gateway.bounds import GatewayBounds
from holdfast.gateway.http.asgi import Receive, Scope, Send, unless_gone, whole_body
from holdfast.gateway.http.metrics import Metrics
from holdfast.gateway.proxy.exchange import Exchange, Requester
from holdfast.gateway.proxy.parse import RequestParser, decompress_body
from holdfast.gateway.proxy.preflight import room_for
from holdfast.gateway.proxy.request import ProxyRequest, ResponseWriter
from holdfast.gateway.proxy.responses import COUNT_PATH, forward_other
from holdfast.gateway.proxy.services import ProxyServices, open_services
from holdfast.gateway.proxy.speculative_forward import SpeculativeForward
from holdfast.gateway.proxy.upstream import Upstream
from holdfast.models.dialects import SERVED, dialect_at
from holdfast.models.overrides import Overrides
from holdfast.models.transport import BrokenOffError
from holdfast.runtime.engine.context import Engine

log = logging.getLogger(__name__)


class ProxyApp:
    """The application. `close` it when its gateway has stopped."""

    def __init__(
        self,
        engine: Engine,
        upstreams: Mapping[str, Upstream],
        *,
        bounds: GatewayBounds,
        overrides: Overrides,
        owner: str,
        metrics: Metrics | None = None,
    ) -> None:
        self._bounds = bounds
        self._upstreams = upstreams
        self._services: ProxyServices = open_services(engine, owner, metrics or Metrics())
        self._parser = RequestParser(upstreams, overrides)
        # Exchanges that still record an answer although their client has left.
        self._exchanges: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        """Finish recording, and close connections."""
        if self._exchanges:
            await asyncio.wait(self._exchanges)
        await self._services.client.close()
        await self._parser.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        path, tenant = scope["path"], scope["holdfast.tenant"]
        dialect = dialect_at(path) if scope["method"] == "POST" else None
        is_served = dialect is not None and dialect in SERVED
        scope["holdfast.route"] = path if is_served or path in (COUNT_PATH, "/v1/models") else "/v1/other"
        writer = ResponseWriter(send)
        with tenant.working():
            body = await whole_body(scope, receive, self._bounds)
            try:
                if dialect is None or not is_served:
                    work = forward_other(self._services.client, self._upstreams, scope, body, writer)
                    await unless_gone(receive, work)
                    return
                body = decompress_body(scope, body, self._bounds.body_bytes_max)
                request = self._parser.addressed(scope, dialect, body)
                await unless_gone(receive, self._served(request, writer, tenant))
                rescued = writer.notes.get("x-holdfast-rescued", "")
                self._services.metrics.dropin_answered(dialect, rescued=rescued)
            except BrokenOffError as error:
                log.warning("answer broke off", extra={"route": scope["holdfast.route"], "reason": str(error)})
                # No error can be sent any more; closing the connection shows the client that the answer is incomplete.
                scope["holdfast.abort"]()

    async def _served(self, request: ProxyRequest, writer: ResponseWriter, tenant: Requester) -> None:
        """Serve a request. If the client leaves, cancel it, unless the client has the whole answer already.

        Such an answer is recorded, also if the client left at its last byte.
        """
        exchange = asyncio.create_task(self._exchange(request, writer, tenant), name="exchange")
        self._exchanges.add(exchange)
        exchange.add_done_callback(self._exchanges.discard)
        try:
            await asyncio.shield(exchange)
        except asyncio.CancelledError:
            if writer.is_ended and (serving := asyncio.current_task()) is not None:
                # The client has the end of its response; from then on the server treats it as disconnected.
                await asyncio.wait([exchange])
                serving.uncancel()
                return
            if not exchange.done() and (writer.relay is None or not writer.relay.is_complete):
                exchange.cancel()
                await asyncio.wait([exchange])
            raise

    async def _exchange(self, request: ProxyRequest, writer: ResponseWriter, tenant: Requester) -> None:
        """Serve a request; send it before it is parsed if it is almost certainly forwarded as it is."""
        if not await self._is_speculative(request):
            parsed = self._parser.parsed(request, tenant.store_key)
            await Exchange(self._services, parsed, writer, tenant).serve()
            return
        sending = self._services.client.send(request.upstream, "POST", request.address, request.headers, request.body)
        speculative = SpeculativeForward(sending)
        try:
            await speculative.sent()
            parsed = replace(self._parser.parsed(request, tenant.store_key), speculative=speculative)
            await Exchange(self._services, parsed, writer, tenant).serve()
        finally:
            await speculative.cancel()

    async def _is_speculative(self, request: ProxyRequest) -> bool:
        services = self._services
        if not request.models or not services.cache.has(request.owner, request.body):
            return False
        known = await services.limits.of(request.models[0])
        if known.counts_output:
            # The output that it asks for is not parsed yet.
            return False
        limits = known.limits
        # No token is shorter than a byte.
        room = room_for(limits, services.engine.bounds)
        return len(request.body) <= min(room, limits.wire_bytes_max or inf)
