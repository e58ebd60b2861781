"""The proxy as one ASGI application below /v1 and /v1beta.

OpenAI's chat completions and responses, Anthropic's messages, Gemini's generateContent, their token counts, and the
lists of models. Every other path is forwarded as it is with the client's own provider key, and only if the operator
allows it with the gateway's.
"""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from math import inf
from time import monotonic

from msgspec.structs import replace

from holdfast.gateway.bounds import GatewayBounds
from holdfast.gateway.http.asgi import Receive, Scope, Send, off_loop, unless_gone, whole_body
from holdfast.gateway.http.metrics import Metrics
from holdfast.gateway.proxy.access import ForwardTable, check_media_type, raw_path, route_of, uses_operator_account
from holdfast.gateway.proxy.exchange import Exchange, Requester
from holdfast.gateway.proxy.parse import RequestParser, decompress_body
from holdfast.gateway.proxy.preflight import room_for
from holdfast.gateway.proxy.request import ProxyRequest, ResponseWriter
from holdfast.gateway.proxy.responses import forward_other
from holdfast.gateway.proxy.services import ProxyServices, open_services
from holdfast.gateway.proxy.upstream import SpeculativeForward, Upstream, find_upstream
from holdfast.models.dialects import SERVED, dialect_at
from holdfast.models.limits import Overrides
from holdfast.models.transport import BrokenOffError
from holdfast.runtime.engine.context import Engine

log = logging.getLogger(__name__)

# Longer than any summary takes, so a replaced parser is closed when nothing uses its connections.
_RETIRED_SECONDS = 7_200.0


def _unlimited(_model: str) -> AbstractAsyncContextManager[None]:
    """Admit a request outside a gateway, where no key has limits."""
    return nullcontext()


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
        self._tables = {family: ForwardTable(one.allowed_paths) for family, one in upstreams.items()}
        # Exchanges that still record an answer although their client has left.
        self._exchanges: set[asyncio.Task[None]] = set()
        # Parsers of earlier settings, with the time at which they were replaced.
        self._retired: list[tuple[float, RequestParser]] = []

    async def reload(self, upstreams: Mapping[str, Upstream], overrides: Overrides, bounds: GatewayBounds) -> None:
        """Use other upstreams for new requests. Requests in flight keep theirs."""
        # Built first: a bad path raises, and nothing has changed then.
        tables = {family: ForwardTable(one.allowed_paths) for family, one in upstreams.items()}
        self._retired.append((monotonic(), self._parser))
        self._upstreams, self._tables, self._bounds = upstreams, tables, bounds
        self._parser = RequestParser(upstreams, overrides)
        over = [parser for since, parser in self._retired if monotonic() - since > _RETIRED_SECONDS]
        self._retired = self._retired[len(over) :]
        for parser in over:
            await parser.close()

    async def close(self) -> None:
        """Finish recording, and close connections."""
        if self._exchanges:
            await asyncio.wait(self._exchanges)
        await self._services.recorder.ahead.close()
        await self._services.client.close()
        for parser in (self._parser, *(parser for _, parser in self._retired)):
            await parser.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        path, tenant = raw_path(scope), scope["holdfast.tenant"]
        scope["holdfast.path"] = path
        dialect = dialect_at(path) if scope["method"] == "POST" else None
        is_served = dialect is not None and dialect in SERVED
        scope["holdfast.route"] = route_of(path)
        if not tenant.name:
            check_media_type(scope, path)
        upstream = find_upstream(scope, path, self._upstreams)
        is_operators = uses_operator_account(scope, upstream)
        if is_operators:
            self._tables[upstream.family].check(scope["method"], path)
        writer = ResponseWriter(send)
        with tenant.working():
            body = await whole_body(scope, receive, self._bounds)
            if is_operators:
                body = await decompress_body(scope, body, self._bounds.body_bytes_max)
                writer.ids = await self._services.answer_ids(tenant.name, upstream, scope["method"], path, body)
            try:
                if dialect is None or not is_served:
                    work = forward_other(self._services.client, self._upstreams, scope, body, writer)
                    await unless_gone(receive, work)
                    return
                body = await decompress_body(scope, body, self._bounds.body_bytes_max)
                request = await off_loop(len(body), partial(self._parser.addressed, scope, upstream, dialect, body))
                async with scope.get("holdfast.admitted", _unlimited)(request.names[0] if request.names else ""):
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
        # Sent before the exchange begins: its task would start an iteration of the event loop later.
        speculative = self._sent_ahead(request) if await self._is_speculative(request) else None
        if speculative is not None:
            try:
                # It leaves now; everything else is done while the provider works.
                await asyncio.sleep(0)
            except asyncio.CancelledError:
                await speculative.cancel()
                raise
        exchange = asyncio.create_task(self._exchange(request, speculative, writer, tenant), name="exchange")
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
                if speculative is not None:
                    # A task that is cancelled before its first step does not run at all.
                    await speculative.cancel()
            raise

    def _sent_ahead(self, request: ProxyRequest) -> SpeculativeForward:
        """Send a request before it is parsed: it is almost certainly forwarded as it is."""
        client = self._services.client
        return SpeculativeForward(client.send(request.upstream, "POST", request.address, request.headers, request.body))

    async def _exchange(
        self, request: ProxyRequest, speculative: SpeculativeForward | None, writer: ResponseWriter, tenant: Requester
    ) -> None:
        """Serve a request."""
        if speculative is None:
            parsed = await self._parsed(request, tenant)
            await Exchange(self._services, parsed, writer, tenant).serve()
            return
        try:
            await speculative.sent()
            parsed = replace(await self._parsed(request, tenant), speculative=speculative)
            await Exchange(self._services, parsed, writer, tenant).serve()
        finally:
            await speculative.cancel()

    async def _parsed(self, request: ProxyRequest, tenant: Requester) -> ProxyRequest:
        return await off_loop(len(request.body), partial(self._parser.parsed, request, tenant.store_key))

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
