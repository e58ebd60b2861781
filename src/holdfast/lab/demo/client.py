"""HTTP client of the demo: calls to the gateway and the simulated model, the event watcher, inputs and observations.

It uses the public API only. A message is resent under its client id if the connection breaks. Inputs (facts, pages of
text, a large image and a flipped bit) are determined by a seed.
"""

import asyncio
import io
import random
import struct
import zlib
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path
from types import MappingProxyType
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
from holdfast.models.fake.server import CONTROL_PATH
from holdfast.models.sse import EventParser
from holdfast.models.transport import BrokenOffError, ResponseChunks
from holdfast.runtime.maintenance.doctor import Finding
from holdfast.stores.sqlite.read_only import SqliteView
from holdfast.types.limits import Limits
from holdfast.types.records import (
    AnyRecord,
    AttemptFailed,
    CompactionOutcome,
    DamageSetAside,
    Logged,
    ReplyRecorded,
    encode_record,
)

# Six kinds of facts: a name, a number, a path, a time, a phrase, an id.
_HARBOURS = ("Kiel", "Malmö", "Riga", "Turku", "Visby", "Gdynia", "Tallinn", "Rostock")
_HINTS = ("the blue door", "two lanterns", "a broken oar", "the seventh step", "salt and tar")

# A sentence of a page takes one of each.
_WHEN = ("At dawn", "Before noon", "In the dog watch", "After the squall", "At dusk", "During the night watch", "Later")
_WHO = ("the captain", "our cook", "a sailor", "the carpenter", "the pilot")
_DID = ("mended", "inspected", "painted", "took down", "complained about", "praised", "lost", "found again", "sketched")
_WHAT = ("the main sail", "a lamp", "the rudder", "some rope", "the pump", "a chart", "the bell", "an anchor chain")
_WHY = ("as the wind fell", "while it rained", "without a word", "to pass the time", "in good cheer")

# Random pixels do not compress.
IMAGE_BYTES = 30_000_000
_IMAGE_WIDTH = 4_000
_RGB_BYTES = 3


class Inputs:
    """Everything that one seed determines."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self.facts: Mapping[str, str] = MappingProxyType(_facts(random.Random(f"facts {seed}")))  # noqa: S311 - no secret

    def page(self, number: int, sentences: int) -> str:
        """Return a page of text, determined by its number."""
        chosen = random.Random(f"page {self._seed} {number}")  # noqa: S311 - no secret
        return " ".join(
            f"{chosen.choice(_WHEN)} {chosen.choice(_WHO)} {chosen.choice(_DID)} {chosen.choice(_WHAT)} "
            f"{chosen.choice(_WHY)}."
            for _ in range(sentences)
        )

    def image(self, size_bytes: int = IMAGE_BYTES) -> bytes:
        """Return a PNG of noise with at least this many bytes."""
        height = -(-size_bytes // (_IMAGE_WIDTH * _RGB_BYTES))
        noise = random.Random(f"image {self._seed}").randbytes(height * _IMAGE_WIDTH * _RGB_BYTES)  # noqa: S311 - no secret
        row = _IMAGE_WIDTH * _RGB_BYTES
        # Each row starts with its filter type: none.
        rows = b"".join(b"\x00" + noise[at : at + row] for at in range(0, len(noise), row))
        head = struct.pack(">IIBBBBB", _IMAGE_WIDTH, height, 8, 2, 0, 0, 0)
        chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(rows, 0)), (b"IEND", b""))
        return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, body) for name, body in chunks)

    def chance(self, purpose: str) -> random.Random:
        """Return a random generator for a purpose."""
        return random.Random(f"{purpose} {self._seed}")  # noqa: S311 - no secret


def _facts(chosen: random.Random) -> dict[str, str]:
    return {
        "harbour": chosen.choice(_HARBOURS),
        "berth": f"{chosen.randrange(10, 99)}-{chosen.choice('ABCDEF')}",
        "chart": f"/charts/baltic/{chosen.randrange(2020, 2040)}.pdf",
        "departure": f"20{chosen.randrange(26, 40)}-0{chosen.randrange(1, 10)}-1{chosen.randrange(10)} 06:40",
        "password-hint": chosen.choice(_HINTS),
        "voucher": f"HF-{chosen.getrandbits(32):08x}",
    }


def _chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(body, zlib.crc32(name)))


# --- Flipped bit ---


# A store of the demo has a few MiB.
_FILE_BYTES_MAX = 100 * 2**20


class Flip(msgspec.Struct, frozen=True):
    """The flipped bit: its record, the offset of its byte in the file, and its position."""

    seq: int
    at: int
    bit: int


async def flip_bit(path: Path, key: str, after: int, chance: random.Random) -> Flip | None:
    """Flip one bit of an answer after a record number, directly in the file; None if there is no such answer.

    The store must be closed. A free page may contain an old copy of a row, so the flip is tried at each copy until the
    record is unreadable.
    """
    records = await _read(path, key)
    candidates = [logged for logged in records if logged.seq > after and isinstance(logged.record, ReplyRecorded)]
    chance.shuffle(candidates)
    for logged in candidates:
        flip = await _flip(path, key, logged, chance)
        if flip is not None:
            return flip
    return None


async def _flip(path: Path, key: str, logged: Logged, chance: random.Random) -> Flip | None:
    content, body = await asyncio.to_thread(path.read_bytes), encode_record(logged.record)
    assert len(content) <= _FILE_BYTES_MAX, "a store of the demo"
    within, bit = chance.randrange(len(body)), chance.randrange(8)
    start = content.find(body)
    while start >= 0:
        flip = Flip(logged.seq, start + within, bit)
        await asyncio.to_thread(_toggle, path, flip)
        found = (await _read(path, key))[logged.seq - 1]
        if isinstance(found.record, DamageSetAside):
            return flip
        await asyncio.to_thread(_toggle, path, flip)
        start = content.find(body, start + 1)
    return None


def _toggle(path: Path, flip: Flip) -> None:
    with path.open("r+b") as file:
        file.seek(flip.at)
        (byte,) = file.read(1)
        file.seek(flip.at)
        file.write(bytes([byte ^ (1 << flip.bit)]))


async def _read(path: Path, key: str) -> list[Logged]:
    store = SqliteView(path)
    try:
        return await store.read(key)
    finally:
        await store.close()


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
    # Code of the error message that is the expected outcome; "": an answer is.
    expected_code: str = ""
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
    async for chunk in ResponseChunks(response):
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


# Words of refusals whose numbers were once taken for limits of the model.
MISLEADING_WORDS = ("maximum length 0", "min_pixels 100 > max_pixels 50")


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
    # The model's window in force before and after refusals and usage that mislead.
    windows: list[int | None] = []
    # Findings of `holdfast doctor` after the flip and at the end; None: it did not run.
    found_after_flip: tuple[Finding, ...] = ()
    found_at_end: tuple[Finding, ...] | None = None
    # By name: planted facts, answers of the model at the end, and search results.
    facts: dict[str, str] = {}
    recalled: dict[str, str] = {}
    searched: dict[str, str] = {}

    def misled(self, failures: Sequence[AttemptFailed]) -> str:
        """Return the evidence that refusals which mislead came, and that no smaller window was learned; "": none."""
        is_refused = all(any(words in one.refusal.body for one in failures) for words in MISLEADING_WORDS)
        if not is_refused or not self.windows or (self.windows[0] or 0) > (self.windows[-1] or 0):
            return ""
        return f"{len(MISLEADING_WORDS)} refusals with other numbers, and still a window of {self.windows[-1]:,} tokens"


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
