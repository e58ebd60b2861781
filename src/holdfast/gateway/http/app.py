"""The gateway as one ASGI application: authentication, routing and error responses.

The native API is below /api; probes and scrapers use /healthz, /readyz and /metrics. The proxy endpoints and the page
are mounted by the first segment of their path.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from types import MappingProxyType
from typing import Any, TypeAlias

import msgspec

from holdfast.core.limits.bounds import is_proxy_session
from holdfast.errors import HoldfastError, InternalError, OperatorError
from holdfast.gateway.api.request_context import AppState, NotModifiedError, RequestContext
from holdfast.gateway.api.routes import PREFIX, find_route
from holdfast.gateway.health import oldest_unanswered
from holdfast.gateway.http.asgi import (
    App,
    ClientGoneError,
    Receive,
    Scope,
    Send,
    header,
    segments,
    send_problem,
    send_response,
)
from holdfast.gateway.http.auth import Tenant, move_query_key, presented_keys
from holdfast.gateway.http.keys import Role
from holdfast.gateway.http.metrics import CONTENT_TYPE, Metrics
from holdfast.gateway.http.origin import Origin, check_local, is_preflight, preflight_headers, sharing_headers
from holdfast.gateway.http.page import REFERENCE_POLICY, Page
from holdfast.gateway.http.problems import (
    ForbiddenError,
    MethodError,
    NotFoundError,
    Problem,
    UnauthorizedError,
    headers_of,
    problem_of,
)
from holdfast.gateway.http.request_id import RequestIds, begin_request, id_headers
from holdfast.gateway.openapi.document import encoded_document

log = logging.getLogger(__name__)

# The folder of the package with the reference page, and its address below the API.
_REFERENCE = "reference"


@dataclass(frozen=True)
class Mount:
    """An ASGI application below the gateway. `is_open` serves it without a key, such as the files of the page.

    `error_response` returns the status and body of a problem in the format of this application.
    """

    app: App
    is_open: bool = False
    error_response: Callable[[Scope, Problem], tuple[int, bytes]] | None = None


# Opens a span around a request, and returns a function that takes its route and status.
RequestSpan: TypeAlias = Callable[[Scope], AbstractContextManager[Callable[[str, int], None]]]


class Gateway:
    """The application. Its server calls `stop` before it waits for requests to finish."""

    def __init__(
        self,
        state: AppState,
        metrics: Metrics,
        *,
        needs_keys: bool = False,
        mounts: Mapping[str, Mount] = MappingProxyType({}),
        origins: frozenset[Origin] = frozenset(),
        request_span: "RequestSpan | None" = None,
    ) -> None:
        self.state = state
        self._metrics = metrics
        # Set for a gateway that other machines can reach or that has had keys: it never serves without keys again.
        self._needs_keys = needs_keys
        # Web pages that may use a gateway without keys, besides its own.
        self.origins = origins
        # Opens a span for each request, if traces are exported.
        self._request_span = request_span
        # By the first segment of the path; "" is the default.
        self._mounts = dict(mounts)
        self._reference: Page | None = None
        self._probes: Mapping[str, Callable[[Scope, Receive, Send], Awaitable[None]]] = {
            "healthz": self._serve_healthz,
            "readyz": self._serve_readyz,
            "metrics": self._serve_metrics,
        }

    def stop(self) -> None:
        """Reject new work, and ask all event readers to reconnect."""
        self.state.streams.stop()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return
        started = time.monotonic()
        recorder = _StatusRecorder(send, scope, begin_request(scope))
        scope["holdfast.route"] = "other"
        if self._request_span is None:
            await self._respond(scope, receive, recorder)
        else:
            with self._request_span(scope) as span:
                await self._respond(scope, receive, recorder)
                span(scope["holdfast.route"], recorder.status)
        seconds = time.monotonic() - started
        route, method = scope["holdfast.route"], scope["method"] if scope["method"] in _METHODS else "other"
        tenant = scope.get("holdfast.tenant")
        name = tenant.name if isinstance(tenant, Tenant) else None
        self._metrics.observe_request(route, method, recorder.status, seconds, name)
        fields = {"route": route, "method": method, "status": recorder.status, "seconds": round(seconds, 4)}
        client = scope["client"][0] if scope.get("client") else ""
        log.info("request", extra={**fields, "tenant": name or "", "client": client})

    async def _respond(self, scope: Scope, receive: Receive, send: "_StatusRecorder") -> None:
        try:
            await self._dispatch(scope, receive, send)
        except ClientGoneError:
            return
        except Exception as error:
            problem = problem_of(error)
            if not isinstance(error, HoldfastError) or isinstance(error, OperatorError | InternalError):
                log.exception("request failed", extra={"code": problem.code})
            if send.status:
                # The response has started: the client sees it truncated.
                raise
            headers = [(b"allow", error.allow.encode())] if isinstance(error, _MethodNotAllowedError) else []
            error_response = scope.get("holdfast.error_response")
            if error_response is None:
                await send_problem(send, problem, headers=headers)
            else:
                status, body = error_response(scope, problem)
                await send_response(send, status, body, headers=headers_of(problem))

    async def _dispatch(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = segments(scope)
        move_query_key(scope)
        plain = self._probes.get(path[0]) if len(path) == 1 else None
        if plain is not None:
            scope["holdfast.route"] = f"/{path[0]}"
            if scope["method"] not in {"GET", "HEAD"}:
                raise _MethodNotAllowedError(["GET"])
            await plain(scope, receive, send)
        elif self.origins and is_preflight(scope):
            self._tenant(scope)
            await send_response(send, 200, b"{}", headers=preflight_headers(scope))
        elif path[0] == PREFIX[1:]:
            await self._serve_api(path[1:], scope, receive, send)
        else:
            mount = self._mounts.get(path[0]) or self._mounts.get("")
            if mount is None:
                raise NotFoundError("nothing at this address; /api/openapi.json lists all addresses")
            scope["holdfast.route"] = f"/{path[0]}" if path[0] in self._mounts else "/"
            scope["holdfast.error_response"] = mount.error_response
            if not mount.is_open:
                tenant = scope["holdfast.tenant"] = self._tenant(scope)
                scope["holdfast.admitted"] = partial(self.state.accounts.admitted, tenant.name, tenant.key.limits)
            await mount.app(scope, receive, send)

    async def _serve_api(self, path: Sequence[str], scope: Scope, receive: Receive, send: Send) -> None:
        if path == ("openapi.json",) and scope["method"] in {"GET", "HEAD"}:
            scope["holdfast.route"] = f"{PREFIX}/openapi.json"
            # Made on first use: it takes a tenth of a second that no start should wait for.
            await send_response(send, 200, await asyncio.to_thread(encoded_document, version("holdfast")))
            return
        if path[:1] == (_REFERENCE,):
            scope["holdfast.route"] = f"{PREFIX}/{_REFERENCE}"
            await self._serve_reference(path, scope, receive, send)
            return
        tenant = scope["holdfast.tenant"] = self._tenant(scope)
        found = find_route(scope["method"], path)
        if found is None:
            raise NotFoundError("nothing at this address; /api/openapi.json lists all addresses")
        if isinstance(found, list):
            raise _MethodNotAllowedError(found)
        route, names = found
        scope["holdfast.route"] = PREFIX + route.path
        context = RequestContext(self.state, tenant, scope, receive, send, names, route.body, route.query, route.status)
        if not route.query.__struct_fields__:
            context.query(route.query)
        # Long-lived streams have their own limit.
        with nullcontext() if route.is_stream else tenant.working():
            try:
                response = await route.run(context)
            except NotModifiedError:
                await send_response(send, 304, b"", headers=((b"etag", context.tag),), kind=b"text/plain")
                return
        if not context.has_streamed:
            headers = ((b"etag", context.tag),) if context.tag else ()
            await send_response(send, context.status, msgspec.json.encode(response), headers=headers)

    async def _serve_reference(self, path: Sequence[str], scope: Scope, receive: Receive, send: Send) -> None:
        if len(path) == 1:
            # Its files are relative to the slash.
            await send_response(send, 308, b"{}", headers=((b"location", f"{_REFERENCE}/".encode()),))
            return
        if self._reference is None:
            # Two megabytes, compressed on first use.
            self._reference = await asyncio.to_thread(Page, _REFERENCE, REFERENCE_POLICY, (PREFIX[1:], _REFERENCE))
        await self._reference(scope, receive, send)

    def _tenant(self, scope: Scope) -> Tenant:
        keys = self.state.keys
        if keys is None or (not self._needs_keys and keys.is_empty()):
            scope["holdfast.page"] = check_local(scope, self.origins)
            return self.state.tenant("")
        self._needs_keys = True
        # A client that authenticates to its provider sends the gateway key in a separate header.
        gateway_key = header(scope, b"x-holdfast-key")
        others = presented_keys(scope)
        # A gateway key is not forwarded, also if it is sent in several headers.
        scope["holdfast.key_is_ours"] = not gateway_key or any(keys.name_of(other) is not None for other in others)
        presented = gateway_key or (others[0] if others else "")
        key = keys.find(presented) if presented else None
        if key is None:
            raise UnauthorizedError(
                "this gateway needs one of its keys in the header `Authorization: Bearer …`; "
                "the operator creates one with `holdfast keys add NAME`"
            )
        if key.role is Role.READ and not _is_reading(scope):
            raise ForbiddenError(f"the key {key.name!r} may only read; its role is {key.role.value!r}")
        tenant = self.state.tenant(key.name)
        tenant.key = key
        return tenant

    async def _serve_healthz(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        await send_response(send, 200, b'{"status":"ok"}')

    async def _serve_readyz(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        self.state.streams.check_running()
        await self.state.client.pending()
        await send_response(send, 200, b'{"status":"ready"}')

    async def _serve_metrics(self, scope: Scope, _receive: Receive, send: Send) -> None:
        self.state.check_operator(self._tenant(scope), "counters")
        engine = self.state.client.engine
        pending = [one for one in await engine.store.pending() if not is_proxy_session(one)]
        oldest = await oldest_unanswered(engine.store, pending, engine.clock.now())
        shown = self._metrics.render(owing=len(pending), streams=len(self.state.streams), oldest_seconds=oldest)
        await send_response(send, 200, shown, kind=CONTENT_TYPE.encode())


_READING = {"GET", "HEAD", "OPTIONS"}
_MCP = "mcp"
_METHODS = {"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"}


def _is_reading(scope: Scope) -> bool:
    """Return whether a request changes nothing. MCP sends everything as POST, and its tools only read."""
    return scope["method"] in _READING or segments(scope)[0] == _MCP


class _MethodNotAllowedError(MethodError):
    """A method error with the allowed methods for the Allow header."""

    def __init__(self, allowed: Sequence[str]) -> None:
        self.allow = ", ".join(allowed)
        super().__init__(f"this address allows {self.allow}")


class _StatusRecorder:
    """Forwards a response and keeps its status; 0 before the response starts.

    The response to a page that the operator lists gets the headers that let it read it.
    """

    def __init__(self, send: Send, scope: Scope, ids: RequestIds) -> None:
        self._send = send
        self._scope = scope
        self._ids = ids
        self.status = 0

    async def __call__(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = list(message["headers"])
            headers += id_headers(self._ids, frozenset(name for name, _ in headers))
            if page := self._scope.get("holdfast.page"):
                headers += sharing_headers(page)
            message = {**message, "headers": headers}
        await self._send(message)
