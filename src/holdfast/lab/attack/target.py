"""The gateway under attack: one that is started for it, in processes of its own, or a running one on this machine."""

import asyncio
import itertools
import json
import os
import re
import resource
import secrets
from collections.abc import AsyncGenerator, Awaitable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import click
from aiohttp import web

from holdfast.lab.demo.context import ProcessGroup, Server

# Addresses of this machine. The probes are sent nowhere else.
LOOPBACK = ("127.0.0.1", "localhost", "::1")
# Short bounds, so that a slow client is disconnected within the time of a probe.
_BOUNDS = {
    "gateway_bounds.header_seconds_max": "1",
    "gateway_bounds.body_idle_seconds_max": "1",
    "gateway_bounds.stall_seconds_max": "3",
}
# A gateway that does not answer within this time counts as stopped.
ANSWER_SECONDS_MAX = 30.0
_RAW_SECONDS_MAX = 10.0
_DESCRIPTORS = 4_096
# A gateway rests if it takes less than this share of a processor for so long; a tick of the clock is 10 ms.
_RESTING_SECONDS, _RESTING_SHARE, _RESTING_TRIES = 0.1, 0.15, 300
# A model of the provider that answers with the newest message.
REPEATER = "repeater"
# Models that answer with so many deltas, tool calls, or letters of an error.
SIZED = re.compile(rb'"model": ?"(deltas|calls|error)-(\d+)"')
# The operator's provider key: must never leave the gateway but in the header of a forwarded request.
OPERATOR_KEY = f"sk-operator-{secrets.token_hex(16)}"


@dataclass
class Outcome:
    """Attempts of a probe, and a sentence for each that the gateway did not withstand."""

    attempts: int = 0
    findings: list[str] = field(default_factory=list)
    # The reason why the probe could not run here; "": it ran.
    skipped: str = ""
    # What it has measured, in words.
    measured: str = ""

    def expect(self, is_held: bool, finding: str) -> None:  # noqa: FBT001 - the condition of an assertion
        """Count an attempt."""
        self.attempts += 1
        if not is_held:
            self.findings.append(finding)


@dataclass(frozen=True)
class Answer:
    """A response: status 0 if the connection was closed without one."""

    status: int
    body: bytes
    headers: Mapping[str, str]


@dataclass(frozen=True)
class Target:
    """A gateway, two of its keys ("" if it has none), and its process if it was started here."""

    url: str
    http: aiohttp.ClientSession
    key: str = ""
    other_key: str = ""
    # The provider behind it, its process, and the folder of its store and log.
    provider: "Provider | None" = None
    server: Server | None = None
    folder: Path | None = None
    # The address of the same gateway without keys, which trusts its machine.
    open_url: str = ""

    @property
    def is_own(self) -> bool:
        """Whether the gateway was started for the attack."""
        return self.server is not None

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        place = urlsplit(self.url)
        return place.hostname or "127.0.0.1", place.port or 80

    async def ask(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send a request, with JSON unless the headers say otherwise."""
        given = {"content-type": "application/json", **self.authorization(key), **(headers or {})}
        try:
            async with (
                asyncio.timeout(ANSWER_SECONDS_MAX),
                self.http.request(method, f"{self.url}{path}", data=body or None, headers=given) as response,
            ):
                return Answer(response.status, await response.read(), response.headers)
        except (aiohttp.ClientError, TimeoutError):
            return Answer(0, b"", {})

    def authorization(self, key: str | None = None) -> dict[str, str]:
        """Return the header with a key, the first one unless another is given."""
        chosen = self.key if key is None else key
        return {"authorization": f"Bearer {chosen}"} if chosen else {}

    async def raw(self, *pieces: bytes, seconds_max: float = _RAW_SECONDS_MAX) -> bytes:
        """Send bytes on a connection of its own, and return the response up to its end or a pause."""
        reader, writer = await asyncio.open_connection(*self.address)
        received = bytearray()
        try:
            with suppress(ConnectionError, TimeoutError):
                async with asyncio.timeout(seconds_max):
                    for piece in pieces:
                        writer.write(piece)
                        await writer.drain()
                    while chunk := await reader.read(65_536):
                        received += chunk
        finally:
            writer.transport.abort()
        return bytes(received)

    async def is_serving(self) -> bool:
        """Return whether the gateway still answers."""
        return (await self.ask("GET", "/healthz")).status == 200  # noqa: PLR2004 - a status

    def processor_seconds(self) -> float:
        """Return the processor time of the gateway's process so far."""
        assert self.server is not None
        fields = Path(f"/proc/{self.server.pid}/stat").read_text("ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    async def cost(self, work: Awaitable[Answer]) -> float:
        """Return the processor time that the gateway takes for some work, up to its next rest."""
        before = await self._resting()
        await work
        return await self._resting() - before

    async def _resting(self) -> float:
        """Wait until the gateway rests, since it records after it has answered, and return its processor time."""
        last = -1.0
        for _ in range(_RESTING_TRIES):
            if (now := self.processor_seconds()) - last < _RESTING_SHARE * _RESTING_SECONDS:
                return now
            last = now
            await asyncio.sleep(_RESTING_SECONDS)
        return last

    def resident_mb(self) -> float:
        """Return the resident memory of the gateway's process."""
        assert self.server is not None
        pages = int(Path(f"/proc/{self.server.pid}/statm").read_text("ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


class Provider:
    """A provider that answers everything with 200, and records what reaches it, so that a leak is seen."""

    def __init__(self) -> None:
        # Method and raw path of each request, and the key it came with.
        self.requests: list[tuple[str, str]] = []
        self.keys: set[str] = set()
        self.url = ""

    async def serve(self, stack: AsyncExitStack) -> None:
        """Listen on a free local port until the stack is closed."""
        runner = web.ServerRunner(web.Server(self._answer))
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        # Not `read`, which refuses bodies above 1 MiB.
        body = await request.content.read()
        self.requests.append((request.method, request.raw_path))
        self.keys.add(request.headers.get("authorization", "").removeprefix("Bearer "))
        if (sized := SIZED.search(body[:1_000])) is not None:
            return await _sized_answer(request, sized[1].decode(), int(sized[2]))
        # An honest count: a provider that reports too little is suspected of having cut the request.
        answer = _answer_for(request.path, len(body) // 4 + 1, _repeated(body))
        return web.json_response(answer, headers={"set-cookie": "session=1", "access-control-allow-origin": "*"})


async def _sized_answer(request: web.BaseRequest, kind: str, size: int) -> web.StreamResponse:
    """Answer with an error that repeats a long word, or with a stream of many events."""
    if kind == "error":
        message = f"Invalid prompt: {'a' * size}"
        return web.json_response({"error": {"message": message, "type": "invalid_request_error"}}, status=400)
    response = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await response.prepare(request)
    for events in _batches(_events(kind, size)):
        await response.write(events)
    await response.write_eof()
    return response


def _events(kind: str, size: int) -> Iterator[dict[str, object]]:
    """Yield the chunks of a chat stream with many deltas of text, or many tool calls."""
    for number in range(size):
        call = {"index": number, "id": f"c{number}", "function": {"name": "f", "arguments": "{}"}}
        yield {"content": "word "} if kind == "deltas" else {"tool_calls": [call]}


def _batches(deltas: Iterator[dict[str, object]]) -> Iterator[bytes]:
    while chunk := list(itertools.islice(deltas, 100)):
        events = (
            {"id": "r", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": one}]} for one in chunk
        )
        yield b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)
    stop = {
        "id": "r",
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}],
    }
    yield b"data: " + json.dumps(stop).encode() + b"\n\ndata: [DONE]\n\n"


def _repeated(body: bytes) -> str:
    """Return the text that the model REPEATER is to answer with; a short one for other models."""
    if REPEATER.encode() not in body[:1_000]:
        return "canned answer"
    return str(json.loads(body)["messages"][-1]["content"])


def _answer_for(path: str, tokens: int, text: str) -> dict[str, object]:
    """Return a short answer in the dialect of a path."""
    if path.endswith("/messages"):
        content: list[object] = [{"type": "text", "text": text}]
        usage = {"input_tokens": tokens, "output_tokens": 2}
        return {"type": "message", "role": "assistant", "content": content, "stop_reason": "end_turn", "usage": usage}
    if path.endswith("/responses"):
        content = [{"type": "output_text", "text": text}]
        output = [{"type": "message", "role": "assistant", "content": content}]
        usage = {"input_tokens": tokens, "output_tokens": 2}
        return {"id": "r", "object": "response", "status": "completed", "output": output, "usage": usage}
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    usage = {"prompt_tokens": tokens, "completion_tokens": 2}
    return {"id": "r", "object": "chat.completion", "model": "m", "choices": [choice], "usage": usage}


@asynccontextmanager
async def own_gateway(folder: Path, store: str) -> AsyncGenerator[Target, None]:
    """Start a simulated provider and a gateway with two keys, and yield it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < _DESCRIPTORS <= hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (_DESCRIPTORS, hard))
    place = store or str(folder / "attacked.db")
    async with AsyncExitStack() as stack:
        settings = {"OPENAI_API_KEY": OPERATOR_KEY, "ANTHROPIC_API_KEY": OPERATOR_KEY}
        group = await stack.enter_async_context(ProcessGroup(folder, settings))
        provider = Provider()
        await provider.serve(stack)
        upstream = ("upstream.openai_base_url", f"{provider.url}/v1"), ("upstream.anthropic_base_url", provider.url)
        keys_file = ("gateway.keys_file", str(folder / "keys.json"))
        # Not under the name that the gateway without keys would find.
        config = folder / "attacked.toml"
        config.write_text(f'[gateway]\nkeys_file = "{keys_file[1]}"\n', "utf-8")
        keys = [
            (await group.run("keys", "--config", str(config), "add", name)).output.decode().split()[-1]
            for name in ("alice", "bob")
        ]
        sets = [part for name, value in (*_BOUNDS.items(), *upstream) for part in ("--set", f"{name}={value}")]
        server = await group.serve("serve", "--port", "0", "--config", str(config), "--store", place, *sets)
        open_server = await group.serve("serve", "--port", "0", "--store", str(folder / "open.db"), *sets)
        http = await stack.enter_async_context(_http())
        yield Target(
            server.url,
            http,
            keys[0],
            keys[1],
            provider=provider,
            server=server,
            folder=folder,
            open_url=open_server.url,
        )


@asynccontextmanager
async def running_gateway(url: str, keys: tuple[str, ...]) -> AsyncGenerator[Target, None]:
    """Yield a gateway that runs on this machine."""
    if (urlsplit(url).hostname or "") not in LOOPBACK:
        raise click.UsageError(f"{url} is not an address of this machine; run the attack beside your own gateway")
    async with _http() as http:
        key, other_key = (*keys, "", "")[:2]
        yield Target(url.rstrip("/"), http, key, other_key)


def _http() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), auto_decompress=False)
