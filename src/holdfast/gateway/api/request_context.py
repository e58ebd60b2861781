"""One request on its way through the native API: who asks, for what, and how to answer."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from holdfast.errors import StoppingError
from holdfast.gateway.bounds import GatewayBounds
from holdfast.gateway.health import Checks, Faults, Inspection
from holdfast.gateway.http.asgi import (
    Headers,
    Receive,
    Scope,
    Send,
    StalledError,
    json_body,
    query,
    send_file,
    unless_gone,
)
from holdfast.gateway.http.auth import KeyFile, Tenant
from holdfast.gateway.http.events import EventStream, Streams
from holdfast.gateway.http.problems import ForbiddenError, InvalidError, NotFoundError
from holdfast.gateway.session_watch import SessionWatches
from holdfast.gateway.status_cache import StatusCache
from holdfast.gateway.uploads import Uploads
from holdfast.ports import SessionInfo
from holdfast.runtime.sessions.client import Client
from holdfast.runtime.sessions.session import Session

SchemaT = TypeVar("SchemaT")
_ResultT = TypeVar("_ResultT")
# Digits of the highest number that names a record.
_DIGITS_MAX = 15


@dataclass
class RequestContext:
    """A request that was let in, with the names that its path holds."""

    state: "AppState"
    tenant: Tenant
    scope: Scope
    receive: Receive
    send: Send
    names: dict[str, str]
    # What the table of routes says is asked for; whoever reads something else has a wrong table.
    body_schema: type[Any] | None = None
    query_schema: type[Any] | None = None
    status: int = 200
    has_streamed: bool = field(default=False, init=False)

    @property
    def key(self) -> str:
        """The session's key, as its tenant calls it."""
        return self.names["key"]

    def number(self, name: str) -> int:
        """Return a number in the path. Raises `NotFoundError` where it is none."""
        text = self.names[name]
        if not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX):
            raise NotFoundError(f"the path has no number where the {name} stands")
        return int(text)

    async def session(self) -> tuple[Session, SessionInfo]:
        """Return the session that the path names, if it exists and is the asker's own."""
        return await self.tenant.session(self.state.client, self.key)

    async def body(self, schema: type[SchemaT]) -> SchemaT:
        """Read the body."""
        assert schema is self.body_schema, f"the table of routes says {self.body_schema}"
        return await json_body(self.scope, self.receive, schema, self.state.bounds)

    def query(self, schema: type[SchemaT]) -> SchemaT:
        """Read the query."""
        assert schema is self.query_schema, f"the table of routes says {self.query_schema}"
        return query(self.scope, schema)

    def check_length(self, what: str, text: str, chars_max: int) -> None:
        """Raise where a text is too long."""
        if len(text) > chars_max:
            raise InvalidError(f"{what} has {len(text):,} characters, at most {chars_max:,} are taken")

    async def unless_gone(self, waiting: Awaitable[_ResultT]) -> _ResultT:
        """Wait for something as long as the client does, and no longer than the gateway runs."""
        return await unless_gone(self.receive, waiting, stopping=self.state.streams.stopping)

    async def stream(self, produce: Callable[[EventStream], Awaitable[None]], *, session: str = "") -> None:
        """Answer with events, counted among the streams of this tenant; `session` is what they are about."""
        with self.tenant.streaming():
            self.has_streamed = True
            await self.state.streams.run(self.scope, self.receive, self.send, produce, session=session)

    async def file(self, lines: AsyncGenerator[bytes, None], *, kind: str, headers: Headers) -> None:
        """Answer with a file. A reader that takes nothing is cut off, and so is everybody when the gateway stops."""
        self.has_streamed = True
        sent = send_file(self.send, lines, kind=kind, headers=headers, bounds=self.state.bounds)
        async with aclosing(lines):
            try:
                await self.unless_gone(sent)
            except (StalledError, StoppingError):
                self.abort()

    def abort(self) -> None:
        """Cut the connection: what is missing cannot be told any more."""
        cut: Callable[[], None] | None = self.scope.get("holdfast.abort")
        if cut is not None:
            cut()


# --- What all requests of a gateway share.


@dataclass(frozen=True)
class AppState:
    """The sessions behind the gateway, and what is open at its front."""

    client: Client
    bounds: GatewayBounds
    # The models that a session may ask for.
    models: tuple[str, ...]
    keys: KeyFile | None
    streams: Streams
    uploads: Uploads
    # The key that is served what is about all keys.
    operator: str = "operator"
    # What changed of sessions; whoever sees them change tells it.
    watches: SessionWatches = field(default_factory=SessionWatches)
    # What failed lately, how to look at the store from outside, and what was found so.
    faults: Faults = field(default_factory=Faults)
    inspection: Inspection | None = None
    checks: Checks = field(default_factory=Checks)
    tenants: dict[str, Tenant] = field(default_factory=dict)

    @cached_property
    def statuses(self) -> StatusCache:
        """Where sessions stand, for lists."""
        return StatusCache(self.client.engine.store)

    def tenant(self, name: str) -> Tenant:
        """Return a tenant by the name of its key."""
        found = self.tenants.get(name)
        if found is None:
            found = self.tenants[name] = Tenant(name, self.bounds)
        return found

    def is_operator(self, tenant: Tenant) -> bool:
        """Whether somebody may know what is about all keys. Without keys everybody may."""
        return tenant.name in {"", self.operator}

    def check_operator(self, tenant: Tenant, what: str) -> None:
        """Raise where something is about all keys and somebody else than the operator asks."""
        if not self.is_operator(tenant):
            raise ForbiddenError(f"{what} are about all keys; they are served to the key named {self.operator!r}")
