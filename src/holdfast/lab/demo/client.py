"""The demo as a client: what it sent over HTTP, what it got for it, and how to talk to a gateway and to the model.

It knows of the gateway what any client knows. A message whose connection broke is sent again under its client id.
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

# Above every wait of the demo; an act has a bound of its own, which says more than this one.
_REQUEST_SECONDS_MAX = 120.0
# What the gateway itself waits for an outcome when it is asked how a turn stands.
_WAIT_SECONDS = 60.0

Mode: TypeAlias = Literal["wait", "post"]


class RefusedError(Exception):
    """The gateway did not do what it was asked. The message is its own sentence."""


class Sent(msgspec.Struct):
    """A message as its sender knows it: what was sent, what was expected, and what came back."""

    client_id: str
    text: str
    # The attachment's SHA-256 in hex; empty where there is none.
    attached: str = ""
    # While every model is down the right outcome is a reason, not an answer.
    expects_reason: bool = False
    # Filled in by what comes back. The turn is 0 until it was accepted.
    turn: int = 0
    answer: str | None = None
    reason: str = ""


class SimulationState(msgspec.Struct, frozen=True):
    """What the simulated model says of itself, as far as it matters here."""

    request_count: int
    faults_left: int
    requests: list[dict[str, Any]]


class GatewayClient:
    """A client of one session at one gateway, which may be another process after a restart."""

    def __init__(self, http: aiohttp.ClientSession, key: str) -> None:
        self._http = http
        self._path = f"/api/sessions/{quote(key, safe='')}"
        self.gateway = ""
        self.model = ""

    # The gateway.

    async def send(self, sent: Sent, *, mode: Mode = "wait", upload: str = "") -> None:
        """Send a message and note what comes back. With "post" that is only that it was accepted."""
        attachments = [{"upload": upload}] if upload else []
        body = {"text": sent.text, "client_id": sent.client_id, "mode": mode, "attachments": attachments}
        status, raw = await self._ask("POST", f"{self._path}/messages", body)
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
        """Wait for the outcome of a message that was accepted, and note it."""
        path = f"{self._path}/turns/{sent.turn}?wait_seconds={_WAIT_SECONDS:g}"
        state = msgspec.json.decode(await self._have("GET", path), type=TurnState)
        sent.answer = state.answer.text if state.answer is not None else None
        sent.reason = state.sentence

    async def upload(self, content: bytes, name: str) -> str:
        """Upload an attachment and return what a message names it by."""
        return msgspec.json.decode(
            await self._have("POST", f"/api/attachments?name={quote(name)}", content), type=Uploaded
        ).upload

    async def compact(self, gateway: str = "") -> Compacted:
        """Ask for a compaction, of this gateway or another one, and return what came of it."""
        raw = await self._have("POST", f"{self._path}/compact", {}, gateway=gateway)
        return msgspec.json.decode(raw, type=Compacted)

    async def detail(self) -> SessionDetail:
        """Return where the session stands."""
        return msgspec.json.decode(await self._have("GET", self._path), type=SessionDetail)

    async def view(self) -> ViewNow:
        """Return what the model would see now."""
        return msgspec.json.decode(await self._have("GET", f"{self._path}/view"), type=ViewNow)

    async def search(self, query: str) -> Hits:
        """Return what is found in the session."""
        return msgspec.json.decode(await self._have("GET", f"{self._path}/search?query={quote(query)}"), type=Hits)

    @asynccontextmanager
    async def records(self, after: int) -> AsyncGenerator[AsyncGenerator[Logged, None], None]:
        """Watch the session: its records behind a number, as they are written."""
        address = f"{self.gateway}{self._path}/events?after={after}"
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_REQUEST_SECONDS_MAX)
        async with self._http.get(address, timeout=timeout) as response, aclosing(_records(response)) as records:
            yield records

    # The simulated model.

    async def set_model(self, **settings: object) -> None:
        """Tell the simulated model what to do to the requests that come next."""
        await self._have("POST", CONTROL_PATH, settings, gateway=self.model)

    async def set_limits(self, limits: Limits) -> None:
        """Tell the simulated model what to accept."""
        await self.set_model(limits=msgspec.to_builtins(limits))

    async def model_state(self) -> SimulationState:
        """Return what the simulated model has seen."""
        return msgspec.json.decode(await self._have("GET", CONTROL_PATH, gateway=self.model), type=SimulationState)

    async def _have(self, method: str, path: str, body: object = None, *, gateway: str = "") -> bytes:
        status, raw = await self._ask(method, path, body, gateway=gateway)
        if status >= 400:  # noqa: PLR2004 - a status
            raise RefusedError(f"{method} {path}: {status} {raw.decode('utf-8', 'replace')[:300]}")
        return raw

    async def _ask(self, method: str, path: str, body: object = None, *, gateway: str = "") -> tuple[int, bytes]:
        is_json = body is not None and not isinstance(body, bytes)
        content = msgspec.json.encode(body) if is_json else body
        headers = {"content-type": "application/json"} if is_json else {}
        # As a file, so that a large one is sent in pieces.
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
    """Open a client."""
    timeout = aiohttp.ClientTimeout(total=_REQUEST_SECONDS_MAX)
    # Environment variables name proxies, which have no business on a loopback address.
    async with aiohttp.ClientSession(timeout=timeout, trust_env=False) as http:
        yield GatewayClient(http, key)


# --- Observations ---


class Race(msgspec.Struct, frozen=True):
    """Two gateways were asked for a compaction at once: what both were told, and between which records that was."""

    after: int
    until: int
    outcomes: tuple[CompactionOutcome, ...]


class Observations(msgspec.Struct):
    """Everything that was seen from outside, in the order in which it came."""

    window_tokens: int
    sent: list[Sent] = []
    # Records as they were told while they were written, and how many came twice or not in order.
    watched: list[Logged] = []
    out_of_order: int = 0
    # What the gateways exited with that were killed, and the records that were the newest then.
    killed: list[tuple[int, int]] = []
    race: Race | None = None
    flip: Flip | None = None
    # What `holdfast doctor` found with the bit flipped, and at the end.
    found_after_flip: tuple[Finding, ...] = ()
    found_at_end: tuple[Finding, ...] | None = None
    # By name: what was planted, what the model answered at the end, and what was found by searching for it.
    facts: dict[str, str] = {}
    recalled: dict[str, str] = {}
    searched: dict[str, str] = {}


# --- Whoever watches the session over HTTP: every record once and in order, over every restart of the gateway.


# Between two tries to reach a gateway that is down.
_RETRY_SECONDS = 0.05


class Watcher:
    """Watches one session from its first record on."""

    def __init__(self, client: GatewayClient, tell: Callable[[Logged], None]) -> None:
        self._client, self._tell = client, tell
        self._came = asyncio.Condition()
        self.seen: list[Logged] = []
        # Records that came twice, or not in order.
        self.out_of_order = 0

    @property
    def last_seq(self) -> int:
        """The number of the newest record that was seen."""
        return self.seen[-1].seq if self.seen else 0

    async def watch(self) -> None:
        """Watch without end; a gateway that goes away is asked again for what came since."""
        while True:
            with suppress(aiohttp.ClientError, BrokenOffError, OSError):
                async with self._client.records(self.last_seq) as records:
                    async for logged in records:
                        await self._see(logged)
            await asyncio.sleep(_RETRY_SECONDS)

    async def until(self, is_it: Callable[[AnyRecord], bool], *, after: int) -> Logged:
        """Return the first record behind a number of which something is true, waiting for it to come."""

        def found() -> Logged | None:
            return next((logged for logged in self.seen if logged.seq > after and is_it(logged.record)), None)

        async with self._came:
            logged = await self._came.wait_for(found)
        assert logged is not None, "it was waited for"
        return logged

    async def reach(self, seq: int) -> None:
        """Wait until the record with this number has been seen."""
        async with self._came:
            await self._came.wait_for(lambda: self.last_seq >= seq)

    async def _see(self, logged: Logged) -> None:
        self.out_of_order += logged.seq != self.last_seq + 1
        async with self._came:
            self.seen.append(logged)
            self._came.notify_all()
        self._tell(logged)
