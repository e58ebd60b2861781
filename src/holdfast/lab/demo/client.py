"""HTTP client of the demo: calls to the gateway and the simulated model, the event watcher, and all observations.

It uses the public API only. A message is resent under its client id if the connection breaks.
"""

import asyncio
import io
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any, Literal, TypeAlias
from urllib.parse import quote

import aiohttp
import msgspec

from holdfast.gateway.api.schemas import (
    Accepted,
    Answered,
    Compacted,
    Hits,
    SessionDetail,
    TurnState,
    Uploaded,
    ViewNow,
)
from holdfast.gateway.http.problems import Problem
from holdfast.lab.demo.inputs import Flip
from holdfast.models.fake.server import CONTROL_PATH
from holdfast.models.sse import EventParser
from holdfast.models.transport import BrokenOffError, chunks_of
from holdfast.runtime.maintenance.doctor import Finding
from holdfast.types.limits import Limits
from holdfast.types.records import AnyRecord, CompactionOutcome, Logged

# Longer than any wait of the demo; a scenario has its own timeout with a better message.
_REQUEST_SECONDS_MAX = 120.0
# Wait of the gateway for the outcome of a turn.
_WAIT_SECONDS = 60.0

Mode: TypeAlias = Literal["wait", "post"]


class RefusedError(Exception):
    """The gateway rejected a request; the message is the gateway's."""


class Sent(msgspec.Struct):
    """A message from the sender's side: what was sent, what is expected, and the response."""

    client_id: str
    text: str
    # SHA-256 of the attachment in hex; empty without one.
    attached: str = ""
    # While every model is down, the expected outcome is an error message.
    expects_reason: bool = False
    # From the response. The turn is 0 until the message is accepted.
    turn: int = 0
    answer: str | None = None
    reason: str = ""


class SimulationState(msgspec.Struct, frozen=True):
    """State of the simulated model, as far as the demo needs it."""

    request_count: int
    faults_left: int
    requests: list[dict[str, Any]]


class GatewayClient:
    """Client of one session at one gateway; the gateway may be another process after a restart."""

    def __init__(self, http: aiohttp.ClientSession, key: str) -> None:
        self._http = http
        self._path = f"/api/sessions/{quote(key, safe='')}"
        self.gateway = ""
        self.model = ""

    # Gateway.

    async def send(self, sent: Sent, *, mode: Mode = "wait", upload: str = "") -> None:
        """Send a message and store the response in it. Mode "post" returns when the message is accepted."""
        attachments = [{"upload": upload}] if upload else []
        body = {"text": sent.text, "client_id": sent.client_id, "mode": mode, "attachments": attachments}
        status, raw = await self._request("POST", f"{self._path}/messages", body)
        if status == 200:  # noqa: PLR2004 - a status
            answered = msgspec.json.decode(raw, type=Answered)
            sent.turn, sent.answer = answered.turn, answered.text
        elif status == 202:  # noqa: PLR2004 - a status
            sent.turn = msgspec.json.decode(raw, type=Accepted).turn
        else:
            problem = msgspec.json.decode(raw, type=Problem)
            if problem.code != "turn_failed":
                raise RefusedError(problem.detail)
            sent.turn, sent.reason = problem.turn, problem.detail

    async def collect(self, sent: Sent) -> None:
        """Wait for the outcome of an accepted message, and store it in the message."""
        path = f"{self._path}/turns/{sent.turn}?wait_seconds={_WAIT_SECONDS:g}"
        state = msgspec.json.decode(await self._checked_request("GET", path), type=TurnState)
        sent.answer = state.answer.text if state.answer is not None else None
        sent.reason = state.sentence

    async def upload(self, content: bytes, name: str) -> str:
        """Upload an attachment and return its reference for a message."""
        return msgspec.json.decode(
            await self._checked_request("POST", f"/api/attachments?name={quote(name)}", content), type=Uploaded
        ).upload

    async def compact(self, gateway: str = "") -> Compacted:
        """Request a compaction from this or another gateway, and return the result."""
        raw = await self._checked_request("POST", f"{self._path}/compact", {}, gateway=gateway)
        return msgspec.json.decode(raw, type=Compacted)

    async def detail(self) -> SessionDetail:
        """Return the state of the session."""
        return msgspec.json.decode(await self._checked_request("GET", self._path), type=SessionDetail)

    async def view(self) -> ViewNow:
        """Return the model's view."""
        return msgspec.json.decode(await self._checked_request("GET", f"{self._path}/view"), type=ViewNow)

    async def search(self, query: str) -> Hits:
        """Search the session."""
        return msgspec.json.decode(
            await self._checked_request("GET", f"{self._path}/search?query={quote(query)}"), type=Hits
        )

    @asynccontextmanager
    async def records(self, after: int) -> AsyncGenerator[AsyncGenerator[Logged, None], None]:
        """Stream the records of the session after a number."""
        address = f"{self.gateway}{self._path}/events?after={after}"
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_REQUEST_SECONDS_MAX)
        async with self._http.get(address, timeout=timeout) as response, aclosing(_records(response)) as records:
            yield records

    # Simulated model.

    async def set_model(self, **settings: object) -> None:
        """Change settings of the simulated model, such as faults for the next requests."""
        await self._checked_request("POST", CONTROL_PATH, settings, gateway=self.model)

    async def set_limits(self, limits: Limits) -> None:
        """Set the limits of the simulated model."""
        await self.set_model(limits=msgspec.to_builtins(limits))

    async def model_state(self) -> SimulationState:
        """Return the state of the simulated model."""
        return msgspec.json.decode(
            await self._checked_request("GET", CONTROL_PATH, gateway=self.model), type=SimulationState
        )

    async def _checked_request(self, method: str, path: str, body: object = None, *, gateway: str = "") -> bytes:
        status, raw = await self._request(method, path, body, gateway=gateway)
        if status >= 400:  # noqa: PLR2004 - a status
            raise RefusedError(f"{method} {path}: {status} {raw.decode('utf-8', 'replace')[:300]}")
        return raw

    async def _request(self, method: str, path: str, body: object = None, *, gateway: str = "") -> tuple[int, bytes]:
        is_json = body is not None and not isinstance(body, bytes)
        content = msgspec.json.encode(body) if is_json else body
        headers = {"content-type": "application/json"} if is_json else {}
        # As a file object, so that large bodies are sent in chunks.
        sent = io.BytesIO(content) if isinstance(content, bytes) else None
        async with self._http.request(method, (gateway or self.gateway) + path, data=sent, headers=headers) as response:
            return response.status, await response.read()


async def _records(response: aiohttp.ClientResponse) -> AsyncGenerator[Logged, None]:
    parser = EventParser()
    async with aclosing(chunks_of(response)) as chunks:
        async for chunk in chunks:
            for event in parser.feed(chunk):
                if event.name == "record":
                    yield msgspec.json.decode(event.payload, type=Logged)


@asynccontextmanager
async def open_gateway_client(key: str) -> AsyncGenerator[GatewayClient, None]:
    """Open a client for one session."""
    timeout = aiohttp.ClientTimeout(total=_REQUEST_SECONDS_MAX)
    # Ignore proxies of the environment: all addresses are local.
    async with aiohttp.ClientSession(timeout=timeout, trust_env=False) as http:
        yield GatewayClient(http, key)


# --- Observations ---


class Race(msgspec.Struct, frozen=True):
    """Compaction requested from two gateways at once: the record range, and both reported outcomes."""

    after: int
    until: int
    outcomes: tuple[CompactionOutcome, ...]


class Observations(msgspec.Struct):
    """Everything observed from outside, in order."""

    window_tokens: int
    sent: list[Sent] = []
    # Records from the event stream, and how many arrived twice or out of order.
    watched: list[Logged] = []
    out_of_order: int = 0
    # Exit code of each killed gateway, and the newest record at that time.
    killed: list[tuple[int, int]] = []
    race: Race | None = None
    flip: Flip | None = None
    # Findings of `holdfast doctor` after the flip and at the end; None: it did not run.
    found_after_flip: tuple[Finding, ...] = ()
    found_at_end: tuple[Finding, ...] | None = None
    # By name: planted facts, answers of the model at the end, and search results.
    facts: dict[str, str] = {}
    recalled: dict[str, str] = {}
    searched: dict[str, str] = {}


# --- Event watcher ---


# Delay before reconnecting to a gateway that is down.
_RETRY_SECONDS = 0.05


class Watcher:
    """Follows one session from its first record on, across restarts of the gateway."""

    def __init__(self, client: GatewayClient, tell: Callable[[Logged], None]) -> None:
        self._client, self._tell = client, tell
        self._came = asyncio.Condition()
        self.seen: list[Logged] = []
        # Records that arrived twice or out of order.
        self.out_of_order = 0

    @property
    def last_seq(self) -> int:
        """Number of the newest record received."""
        return self.seen[-1].seq if self.seen else 0

    async def watch(self) -> None:
        """Follow the session until cancelled; reconnect after the last record."""
        while True:
            with suppress(aiohttp.ClientError, BrokenOffError, OSError):
                async with self._client.records(self.last_seq) as records:
                    async for logged in records:
                        await self._see(logged)
            await asyncio.sleep(_RETRY_SECONDS)

    async def until(self, is_it: Callable[[AnyRecord], bool], *, after: int) -> Logged:
        """Wait for the first record after a number that matches, and return it."""

        def found() -> Logged | None:
            return next((logged for logged in self.seen if logged.seq > after and is_it(logged.record)), None)

        async with self._came:
            logged = await self._came.wait_for(found)
        assert logged is not None, "waited for"
        return logged

    async def reach(self, seq: int) -> None:
        """Wait until the record with this number was received."""
        async with self._came:
            await self._came.wait_for(lambda: self.last_seq >= seq)

    async def _see(self, logged: Logged) -> None:
        self.out_of_order += logged.seq != self.last_seq + 1
        async with self._came:
            self.seen.append(logged)
            self._came.notify_all()
        self._tell(logged)
