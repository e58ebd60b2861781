"""A gateway in this process on a real socket, and what talks to it."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import aiohttp
from yarl import URL

from holdfast.core.limits.bounds import Bounds
from holdfast.gateway.accounts import read_account
from holdfast.gateway.api.request_context import AppState
from holdfast.gateway.bounds import GatewayBounds
from holdfast.gateway.health import Faults, Inspection
from holdfast.gateway.http.app import Gateway
from holdfast.gateway.http.events import Streams
from holdfast.gateway.http.keys import KeyFile
from holdfast.gateway.http.metrics import Metrics
from holdfast.gateway.http.origin import parse_origins
from holdfast.gateway.http.server import serve_gateway
from holdfast.gateway.status_cache import SessionWatches
from holdfast.gateway.uploads import Uploads
from holdfast.models.catalogue import simulated_model
from holdfast.models.fake import Simulation
from holdfast.ports import Delta, Log, Model
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.engine.context import Engine
from holdfast.runtime.sessions.client import Client
from holdfast.stores.memory import MemoryStore
from holdfast.testing.engines import FunctionModel, a_hold, an_engine, says
from holdfast.types.accounts import UsageRow
from holdfast.types.faults import Refusal
from holdfast.types.messages import Reply, Request
from holdfast.types.records import Logged

# Longer than anything here takes on a busy machine; whoever waits so long has found a bug.
DEADLINE_SECONDS = 60.0


@dataclass(frozen=True)
class Event:
    """A server-sent event."""

    name: str
    told: Any
    cursor: str = ""


@dataclass
class Answer:
    """What came back: status, body and headers."""

    status: int
    body: Any
    headers: Any

    @property
    def code(self) -> tuple[int, str]:
        """Status and code of a problem."""
        assert self.headers["content-type"] == "application/problem+json", self.body
        assert self.body["status"] == self.status
        assert self.body["detail"]
        return self.status, self.body["code"]


class GatewayClient:
    """Somebody with a key, or without one."""

    def __init__(self, http: aiohttp.ClientSession, url: str, key: str = "") -> None:
        self.http, self.url = http, url
        self._headers = {"authorization": f"Bearer {key}"} if key else {}

    def address(self, path: str) -> str:
        return self.url + path

    async def ask(self, method: str, path: str, body: Any = None, **given: Any) -> Answer:
        headers = {**self._headers, **given.pop("headers", {})}
        if body is not None and not isinstance(body, bytes):
            body, headers = json.dumps(body).encode(), {"content-type": "application/json", **headers}
        url = URL(self.url + path, encoded=True)
        async with self.http.request(method, url, **{"data": body, **given}, headers=headers) as response:
            raw = await response.read()
            is_json = response.content_type.endswith("json")
            return Answer(response.status, json.loads(raw) if is_json else raw, response.headers)

    async def get(self, path: str, **given: Any) -> Answer:
        return await self.ask("GET", path, **given)

    async def post(self, path: str, body: Any, **given: Any) -> Answer:
        return await self.ask("POST", path, body, **given)

    async def send(self, key: str, text: str, **more: Any) -> Answer:
        return await self.post(f"/api/sessions/{quote(key, safe='')}/messages", {"text": text, **more})

    @asynccontextmanager
    async def events(self, path: str, *, cursor: str = "", body: Any = None) -> AsyncGenerator[AsyncIterator[Event]]:
        """Read events; leaving closes the connection."""
        headers = {**self._headers, **({"last-event-id": cursor} if cursor else {})}
        if body is not None:
            headers["content-type"] = "application/json"
        method = "GET" if body is None else "POST"
        content = None if body is None else json.dumps(body).encode()
        async with self.http.request(method, self.url + path, data=content, headers=headers) as response:
            assert response.status == 200, await response.text()
            assert response.content_type == "text/event-stream"
            yield _events(response)


async def _events(response: aiohttp.ClientResponse) -> AsyncIterator[Event]:
    lines: dict[str, str] = {}
    async for raw in response.content:
        line = raw.decode().rstrip("\n")
        if line:
            name, _, value = line.partition(":")
            lines[name] = value.strip()
            continue
        if "data" in lines:
            yield Event(lines.get("event", ""), json.loads(lines["data"]), lines.get("id", ""))
        elif "" in lines:
            yield Event("heartbeat", None)
        lines = {}


async def first(events: AsyncIterator[Event], name: str) -> Event:
    """Return the next event of this name."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        async for event in events:
            if event.name == name:
                return event
    raise AssertionError(f"the stream ended without {name!r}")


async def until(events: AsyncIterator[Event], name: str, record: str = "") -> list[Event]:
    """Return events up to one of this name, or of this type of record."""
    seen = []
    async with asyncio.timeout(DEADLINE_SECONDS):
        async for event in events:
            seen.append(event)
            if event.name == name and (not record or event.told["record"]["type"] == record):
                return seen
    raise AssertionError(f"the stream ended without {name!r} {record}: {seen}")


class SilentModel(FunctionModel):
    """A model that never answers, and says when it was asked."""

    def __init__(self) -> None:
        super().__init__(lambda _: says("never"))
        self.called = asyncio.Event()

    async def stream(
        self,
        request: Request,
        blobs: Mapping[str, bytes],
    ) -> AsyncGenerator[Delta | Reply | Refusal, None]:
        """Be silent."""
        self.called.set()
        await asyncio.Event().wait()
        async for sight in super().stream(request, blobs):
            yield sight


async def eventually(condition: Callable[[], bool]) -> None:
    """Return when something holds that nobody announces."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not condition():  # noqa: ASYNC110 - the other side of a socket has no event to wait for
            await asyncio.sleep(0.005)


async def recorded_usage(store: Log, name: str, calls: int) -> list[UsageRow]:
    """Return the usage of a key when the store has that of so many calls: it is recorded after the answer."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        while True:
            rows = list((await read_account(store, name)).rows())
            if sum(row.totals.calls for row in rows) >= calls:
                return rows
            await asyncio.sleep(0.01)


@dataclass
class Running:
    """A gateway that runs."""

    client: GatewayClient
    gateway: Gateway
    engine: Engine
    url: str
    metrics: Metrics

    def with_key(self, key: str) -> GatewayClient:
        return GatewayClient(self.client.http, self.url, key)

    async def raw(self, sent: bytes, *, more: AsyncIterator[bytes] | None = None) -> bytes:
        """Send bytes as they are, and return what comes back until the gateway closes."""
        async with self.connection() as (reader, writer):
            writer.write(sent)

            async def go_on() -> None:
                assert more is not None
                try:
                    async for piece in more:
                        writer.write(piece)
                        await writer.drain()
                except (ConnectionError, OSError):
                    pass

            sending = asyncio.ensure_future(go_on()) if more is not None else None
            try:
                async with asyncio.timeout(DEADLINE_SECONDS):
                    return await _all_of(reader)
            finally:
                if sending is not None:
                    sending.cancel()
                    await asyncio.wait({sending})

    @asynccontextmanager
    async def connection(self) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        parts = urlsplit(self.url)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        try:
            yield reader, writer
        finally:
            writer.transport.abort()


async def _all_of(reader: asyncio.StreamReader) -> bytes:
    seen = b""
    while True:
        try:
            piece = await reader.read(65_536)
        except ConnectionResetError:
            return seen
        if not piece:
            return seen
        seen += piece


@asynccontextmanager
async def a_gateway(  # noqa: PLR0913 - a test names the one or two parts that it cares about
    *models: Model,
    store: Log | None = None,
    keys: Path | None = None,
    bounds: GatewayBounds | None = None,
    engine_bounds: Bounds | None = None,
    offered: Sequence[str] = ("sim",),
    inspection: Inspection | None = None,
    origins: Sequence[str] = (),
    tools: Sequence[Callable[..., object]] = (),
) -> AsyncGenerator[Running]:
    """Run a gateway over memory and the simulated model, or what the test cares about."""
    bounds = bounds or GatewayBounds()
    metrics = Metrics()
    store = store or MemoryStore(clock=SystemClock(), bounds=engine_bounds or Bounds())
    made = an_engine(*(models or (simulated_model(Simulation()),)), store=store, tools=tools, bounds=engine_bounds)
    watches, faults = SessionWatches(), Faults()

    observers: list[Callable[[str, Logged], None]] = [metrics.observe, watches.observe, faults.observe]

    def observe(session: str, logged: Logged) -> None:
        for one in observers:
            one(session, logged)

    engine = Engine(**{**vars(made), "observe": observe})
    async with AsyncExitStack() as stack:
        hold = await stack.enter_async_context(a_hold(engine))
        uploads = Uploads(bounds, SystemClock())
        stack.callback(uploads.close)
        key_file = KeyFile(keys) if keys is not None else None
        streams = Streams(bounds)
        state = AppState(
            hold,
            bounds,
            tuple(offered),
            key_file,
            streams,
            uploads,
            watches=watches,
            faults=faults,
            inspection=inspection,
        )
        observers.append(state.accounts.observe)
        stack.push_async_callback(state.accounts.close)
        stack.push_async_callback(state.checks.close)
        pages = parse_origins(origins)
        gateway = Gateway(state, metrics=metrics, needs_keys=key_file is not None, origins=pages)
        url = await stack.enter_async_context(serve_gateway(gateway))
        timeout = aiohttp.ClientTimeout(total=DEADLINE_SECONDS)
        http = await stack.enter_async_context(aiohttp.ClientSession(timeout=timeout))
        yield Running(GatewayClient(http, url), gateway, engine, url, metrics)


@asynccontextmanager
async def a_gateway_on(hold: Client, keys: KeyFile | None = None) -> AsyncGenerator[GatewayClient]:
    """Run a gateway beside whatever else uses an open store, and yield somebody without a key."""
    bounds = GatewayBounds()
    async with AsyncExitStack() as stack:
        uploads = Uploads(bounds, SystemClock())
        stack.callback(uploads.close)
        state = AppState(
            hold, bounds, ("sim",), keys, Streams(bounds), uploads, watches=SessionWatches(), faults=Faults()
        )
        stack.push_async_callback(state.checks.close)
        url = await stack.enter_async_context(
            serve_gateway(Gateway(state, metrics=Metrics(), needs_keys=keys is not None))
        )
        timeout = aiohttp.ClientTimeout(total=DEADLINE_SECONDS)
        yield GatewayClient(await stack.enter_async_context(aiohttp.ClientSession(timeout=timeout)), url)
