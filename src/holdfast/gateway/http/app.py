"""The gateway as one ASGI application: who asks is checked, what is asked for is found, what went wrong is told.

The native API is below /api, for programs that probe and scrape there are /healthz, /readyz and /metrics. Whoever adds
another face (the drop-in endpoints, the page) mounts it beside them by the first part of its path.
"""

import ipaddress
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from types import MappingProxyType
from typing import Any

import msgspec

from holdfast.errors import HoldfastError, InternalError, OperatorError
from holdfast.gateway.api.openapi import document
from holdfast.gateway.api.request_context import AppState, RequestContext
from holdfast.gateway.api.routes import PREFIX, find_route
from holdfast.gateway.http.asgi import (
    App,
    ClientGoneError,
    Receive,
    Scope,
    Send,
    answer,
    answer_problem,
    header,
    segments,
)
from holdfast.gateway.http.auth import Tenant
from holdfast.gateway.http.metrics import CONTENT_TYPE, Metrics
from holdfast.gateway.http.problems import (
    ForbiddenError,
    MethodError,
    NotFoundError,
    Problem,
    UnauthorizedError,
    headers_of,
    problem_of,
)

log = logging.getLogger(__name__)

_LOOPBACK_NAMES = {"localhost", "ip6-localhost"}
_SERVER_ERROR = 500


@dataclass(frozen=True)
class Mounted:
    """Another face of the gateway. One that is open is served to anybody, such as the files of a page.

    `tell` says in its own words what goes wrong: the status and the body.
    """

    app: App
    is_open: bool = False
    tell: Callable[[Scope, Problem], tuple[int, bytes]] | None = None


class Gateway:
    """The application. Its server calls `stop` before it waits for requests to end."""

    def __init__(
        self,
        shared: AppState,
        *,
        metrics: Metrics,
        needs_keys: bool = False,
        mounts: Mapping[str, Mounted] = MappingProxyType({}),
    ) -> None:
        self.shared = shared
        self._meters = metrics
        # A gateway that anybody can reach, or that has had keys, never goes on without.
        self._needs_keys = needs_keys
        # By the first part of the path; "" is what everything else goes to.
        self._mounts = dict(mounts)
        self._document = msgspec.json.encode(document(version("holdfast")))
        self._plain: Mapping[str, Callable[[Scope, Receive, Send], Awaitable[None]]] = {
            "healthz": self._healthz,
            "readyz": self._readyz,
            "metrics": self._metrics,
        }

    def stop(self) -> None:
        """Take no more work, and ask all readers of events to connect again elsewhere."""
        self.shared.streams.stop()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return
        started = time.monotonic()
        sent = _Sent(send)
        scope["holdfast.route"] = "other"
        await self._answer(scope, receive, sent)
        seconds = time.monotonic() - started
        route, method = scope["holdfast.route"], scope["method"] if scope["method"] in _METHODS else "other"
        self._meters.answered(route, method, sent.status, seconds)
        tenant = scope.get("holdfast.tenant")
        fields = {"route": route, "method": method, "status": sent.status, "seconds": round(seconds, 4)}
        log.info("request", extra={**fields, "tenant": tenant.name if isinstance(tenant, Tenant) else ""})

    async def _answer(self, scope: Scope, receive: Receive, send: "_Sent") -> None:
        try:
            await self._dispatch(scope, receive, send)
        except ClientGoneError:
            return
        except Exception as error:
            problem = problem_of(error)
            if not isinstance(error, HoldfastError) or isinstance(error, OperatorError | InternalError):
                log.exception("request failed", extra={"code": problem.code})
            if send.status:
                # Too late to say so: whoever reads sees that the answer is cut off.
                raise
            headers = [(b"allow", error.allow.encode())] if isinstance(error, _NotThisMethodError) else []
            tell = scope.get("holdfast.tell")
            if tell is None:
                await answer_problem(send, problem, headers=headers)
            else:
                status, body = tell(scope, problem)
                await answer(send, status, body, headers=headers_of(problem))

    async def _dispatch(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = segments(scope)
        plain = self._plain.get(path[0]) if len(path) == 1 else None
        if plain is not None:
            scope["holdfast.route"] = f"/{path[0]}"
            if scope["method"] not in {"GET", "HEAD"}:
                raise _NotThisMethodError(["GET"])
            await plain(scope, receive, send)
        elif path[0] == PREFIX[1:]:
            await self._native(path[1:], scope, receive, send)
        else:
            mounted = self._mounts.get(path[0]) or self._mounts.get("")
            if mounted is None:
                raise NotFoundError("there is nothing at this address; /api/openapi.json lists what there is")
            scope["holdfast.route"] = f"/{path[0]}" if path[0] in self._mounts else "/"
            scope["holdfast.tell"] = mounted.tell
            if not mounted.is_open:
                scope["holdfast.tenant"] = self._tenant(scope)
            await mounted.app(scope, receive, send)

    async def _native(self, path: Sequence[str], scope: Scope, receive: Receive, send: Send) -> None:
        if path == ("openapi.json",) and scope["method"] in {"GET", "HEAD"}:
            scope["holdfast.route"] = f"{PREFIX}/openapi.json"
            await answer(send, 200, self._document)
            return
        tenant = scope["holdfast.tenant"] = self._tenant(scope)
        found = find_route(scope["method"], path)
        if found is None:
            raise NotFoundError("there is nothing at this address; /api/openapi.json lists what there is")
        if isinstance(found, list):
            raise _NotThisMethodError(found)
        route, names = found
        scope["holdfast.route"] = PREFIX + route.path
        call = RequestContext(self.shared, tenant, scope, receive, send, names, route.body, route.query, route.status)
        if not route.query.__struct_fields__:
            call.query(route.query)
        # Streams are counted by themselves: they last.
        with nullcontext() if route.is_stream else tenant.working():
            told = await route.run(call)
        if not call.has_streamed:
            await answer(send, call.status, msgspec.json.encode(told))

    # Who asks.

    def _tenant(self, scope: Scope) -> Tenant:
        keys = self.shared.keys
        if keys is None or (not self._needs_keys and keys.is_empty()):
            _check_local(scope)
            return self.shared.tenant("")
        self._needs_keys = True
        # A client that sends its own key to a provider names the gateway's beside it.
        beside = header(scope, b"x-holdfast-key")
        scope["holdfast.key_is_ours"] = not beside
        scheme, _, presented = header(scope, b"authorization").partition(" ")
        presented = beside or (presented.strip() if scheme.lower() == "bearer" else header(scope, b"x-api-key"))
        name = keys.name_of(presented) if presented else None
        if name is None:
            raise UnauthorizedError(
                "this gateway needs one of its keys in the header `Authorization: Bearer …`; "
                "its operator makes one with `holdfast keys add NAME`"
            )
        return self.shared.tenant(name)

    # What programs probe.

    async def _healthz(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        await answer(send, 200, b'{"status":"ok"}')

    async def _readyz(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        self.shared.streams.check_running()
        await self.shared.hold.pending()
        await answer(send, 200, b'{"status":"ready"}')

    async def _metrics(self, scope: Scope, _receive: Receive, send: Send) -> None:
        self.shared.check_operator(self._tenant(scope), "counters")
        owing = await self.shared.hold.pending()
        shown = self._meters.shown(owing=owing, streams=len(self.shared.streams))
        await answer(send, 200, shown, kind=CONTENT_TYPE.encode())


_METHODS = {"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"}


class _NotThisMethodError(MethodError):
    """The methods that there are go into a header."""

    def __init__(self, allowed: Sequence[str]) -> None:
        self.allow = ", ".join(allowed)
        super().__init__(f"this address takes {self.allow}")


class _Sent:
    """Passes an answer on and remembers its status; 0 while there is none."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 0

    async def __call__(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        await self._send(message)


# Every request without a key asks it of the same few hosts.
@lru_cache(maxsize=64)
def is_loopback(host: str) -> bool:
    """Return whether an address or name can be reached from this machine alone."""
    bare = host.strip("[]").lower()
    if bare in _LOOPBACK_NAMES:
        return True
    try:
        return ipaddress.ip_address(bare.partition("%")[0]).is_loopback
    except ValueError:
        return False


def _check_local(scope: Scope) -> None:
    """Raise where a browser was led here by a page of somebody else's.

    Without keys, being on this machine is all it takes, and every page that a person opens is on this machine too: by a
    name that was made to point here (so the Host must be a loopback one), or by a request across origins.
    """
    host = _without_port(header(scope, b"host"))
    if not is_loopback(host):
        raise ForbiddenError("without keys this gateway is served at a loopback address only; use http://127.0.0.1")
    origin = header(scope, b"origin")
    if origin and not is_loopback(_without_port(origin.partition("://")[2])):
        raise ForbiddenError("without keys this gateway takes nothing from pages of other origins")


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0]
