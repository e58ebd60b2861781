"""Context of one API request, and the state that all requests of a gateway share."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from holdfast.errors import StoppingError
from holdfast.gateway.accounts import Accounts
from holdfast.gateway.bounds import GatewayBounds
from holdfast.gateway.health import Checks, Faults, Inspection
from holdfast.gateway.http.asgi import (
    Headers,
    Receive,
    Scope,
    Send,
    StalledError,
    header,
    json_body,
    query,
    send_file,
    unless_gone,
)
from holdfast.gateway.http.auth import Tenant
from holdfast.gateway.http.events import EventStream, Streams, epoch_of
from holdfast.gateway.http.key_table import KeyTable
from holdfast.gateway.http.keys import KeyFile, Role
from holdfast.gateway.http.problems import ForbiddenError, InvalidError, NotFoundError
from holdfast.gateway.status_cache import SessionWatches, StatusCache
from holdfast.gateway.uploads import Uploads
from holdfast.models.limits import NO_OVERRIDES, Overrides
from holdfast.ports import SessionInfo
from holdfast.runtime.sessions.client import Client
from holdfast.runtime.sessions.session import Session

SchemaT = TypeVar("SchemaT")
_ResultT = TypeVar("_ResultT")
# Digits of the highest possible seq in a path.
_DIGITS_MAX = 15


class NotModifiedError(Exception):
    """The client has the current response already."""


@dataclass
class RequestContext:
    """An authenticated request, with the parameters of its path."""

    state: "AppState"
    tenant: Tenant
    scope: Scope
    receive: Receive
    send: Send
    names: dict[str, str]
    # Declared in the route table; a handler that reads another schema fails an assertion.
    body_schema: type[Any] | None = None
    query_schema: type[Any] | None = None
    status: int = 200
    # The entity tag of the response; b"": none.
    tag: bytes = b""
    has_streamed: bool = field(default=False, init=False)

    @property
    def key(self) -> str:
        """The session key in the path, without the tenant prefix."""
        return self.names["key"]

    def number(self, name: str) -> int:
        """Return a numeric path parameter. Raises `NotFoundError` if it is not a number."""
        text = self.names[name]
        if not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX):
            raise NotFoundError(f"the {name} in the path is not a number")
        return int(text)

    async def session(self) -> tuple[Session, SessionInfo]:
        """Return the session in the path. Raises `NotFoundError` if the caller has no such session."""
        return await self.tenant.session(self.state.client, self.key)

    def check_tag(self, known: SessionInfo) -> None:
        """Give the response a tag of the session's last record. Raises `NotModifiedError` if the client has that."""
        self.tag = f'"{epoch_of(known)}-{known.last_seq}-{known.owed}"'.encode()
        theirs = {tag.strip().encode() for tag in header(self.scope, b"if-none-match").split(",")}
        if self.scope["method"] == "GET" and self.tag in theirs:
            raise NotModifiedError

    async def body(self, schema: type[SchemaT]) -> SchemaT:
        """Read and parse the body."""
        assert schema is self.body_schema, f"the route table declares {self.body_schema}"
        return await json_body(self.scope, self.receive, schema, self.state.bounds)

    def query(self, schema: type[SchemaT]) -> SchemaT:
        """Parse the query."""
        assert schema is self.query_schema, f"the route table declares {self.query_schema}"
        return query(self.scope, schema)

    def check_length(self, what: str, text: str, chars_max: int) -> None:
        """Raise `InvalidError` if a text is too long."""
        if len(text) > chars_max:
            raise InvalidError(f"{what} has {len(text):,} characters, the limit is {chars_max:,}")

    async def unless_gone(self, waiting: Awaitable[_ResultT]) -> _ResultT:
        """Await until the client disconnects or the gateway stops."""
        return await unless_gone(self.receive, waiting, stopping=self.state.streams.stopping)

    def admitted(self, model: str) -> AbstractAsyncContextManager[None]:
        """Count a request to a model within the limits of its key."""
        return self.state.accounts.admitted(self.tenant.name, self.tenant.key.limits, model)

    async def stream(self, produce: Callable[[EventStream], Awaitable[None]], *, session: str = "") -> None:
        """Respond with events, counted as a stream of this tenant; `session` is the watched session."""
        with self.tenant.streaming():
            self.has_streamed = True
            await self.state.streams.run(self.scope, self.receive, self.send, produce, session=session)

    async def file(self, lines: AsyncGenerator[bytes, None], *, kind: str, headers: Headers) -> None:
        """Respond with a file. Abort if the reader stalls or the gateway stops."""
        self.has_streamed = True
        sent = send_file(self.send, lines, kind=kind, headers=headers, bounds=self.state.bounds)
        async with aclosing(lines):
            try:
                await self.unless_gone(sent)
            except (StalledError, StoppingError):
                self.abort()

    def abort(self) -> None:
        """Close the connection: the response has started, so an error cannot be sent."""
        abort: Callable[[], None] | None = self.scope.get("holdfast.abort")
        if abort is not None:
            abort()


# --- Shared state ---


@dataclass
class AppState:
    """State shared by all requests: the client of the store, streams, uploads, keys and caches."""

    client: Client
    bounds: GatewayBounds
    # Models that a session may use.
    models: tuple[str, ...]
    keys: KeyFile | KeyTable | None
    streams: Streams
    uploads: Uploads
    # Name of the key that may see the data of all keys.
    operator: str = "operator"
    watches: SessionWatches = field(default_factory=SessionWatches)
    faults: Faults = field(default_factory=Faults)
    inspection: Inspection | None = None
    checks: Checks = field(default_factory=Checks)
    tenants: dict[str, Tenant] = field(default_factory=dict)
    # Limits and prices of the operator.
    overrides: Overrides = NO_OVERRIDES

    @cached_property
    def statuses(self) -> StatusCache:
        """Cached session statuses for lists."""
        return StatusCache(self.client.engine.store)

    @cached_property
    def accounts(self) -> Accounts:
        """Usage and limits of keys. Records of the engine reach it by `observe`."""
        engine = self.client.engine
        return Accounts(engine.store, engine.clock)

    def tenant(self, name: str) -> Tenant:
        """Return the tenant of a key name, made on first use."""
        found = self.tenants.get(name)
        if found is None:
            found = self.tenants[name] = Tenant(name, self.bounds)
        return found

    def reload(self, models: tuple[str, ...], bounds: GatewayBounds, operator: str) -> None:
        """Use other settings from now on."""
        self.models, self.bounds, self.operator = models, bounds, operator
        self.streams.bounds = self.uploads.bounds = bounds
        for tenant in self.tenants.values():
            tenant.bounds = bounds

    def is_operator(self, tenant: Tenant) -> bool:
        """Whether a tenant may see the data of all keys. Without keys every client may."""
        return tenant.name in {"", self.operator} or tenant.key.role is Role.OPERATOR

    def check_operator(self, tenant: Tenant, what: str) -> None:
        """Raise `ForbiddenError` unless the tenant is the operator."""
        if not self.is_operator(tenant):
            raise ForbiddenError(
                f"{what} cover all keys; only the key {self.operator!r} and keys with the role operator may read them"
            )
