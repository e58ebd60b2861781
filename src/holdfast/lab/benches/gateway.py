"""`holdfast bench gateway`: latency and memory of the gateway, run as a process of its own.

The time to acknowledge a message is compared with plain syncs of a file beside the store, alternately, so that a slow
disk slows both alike.
"""

import asyncio
import importlib
import os
import resource
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median, quantiles
from urllib.parse import urlsplit

import aiohttp
import click
import msgspec

from holdfast.cli.output import json_option
from holdfast.lab.benches.harness import Measured, folder_option, print_figures
from holdfast.lab.benches.store import postgres_bench

# --- Latency that the proxy adds, compared with a bare proxy in the same run ---


# Promised: at most this many times the latency that the bare proxy adds.
P50_TIMES_MAX = 1.5
P99_TIMES_MAX = 2.0
START_SECONDS_MAX = 60
_PATH = "/v1/chat/completions"
# Warm-up rounds, not measured.
_WARM = 20


@asynccontextmanager
async def run_server(*command: str, folder: Path) -> AsyncGenerator[str, None]:
    """Run a server process, and yield the address in its first line."""
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-m", *command, stdout=asyncio.subprocess.PIPE, cwd=folder
    )
    try:
        assert program.stdout is not None
        line = await asyncio.wait_for(program.stdout.readline(), START_SECONDS_MAX)
        yield line.decode().split()[-1]
    finally:
        if program.returncode is None:
            program.terminate()
        await program.wait()


async def measure_passing(folder: Path, *, rounds: int) -> list[Measured]:
    """Return the added latency of the gateway and of the bare proxy, as median and 99th percentile."""
    async with AsyncExitStack() as stack:
        straight = await stack.enter_async_context(run_server("holdfast", "sim", "--port", "0", folder=folder))
        bare = await stack.enter_async_context(run_server("holdfast.lab.benches.bare_proxy", straight, folder=folder))
        store = ("--store", str(folder / "passing.db"), "--set", "observing.log=error")
        gateway = await stack.enter_async_context(
            run_server(
                "holdfast", "serve", "--port", "0", *store, "--set", f"upstream.openai_base_url={straight}/v1",
                folder=folder,
            )
        )  # fmt: skip
        http = await stack.enter_async_context(aiohttp.ClientSession())
        sides = {"straight": straight, "bare": bare, "gateway": gateway}
        seconds: dict[str, list[float]] = {name: [] for name in sides}
        messages: list[dict[str, str]] = []
        for number in range(rounds + _WARM):
            messages = messages[-40:] if len(messages) <= 40 else []  # noqa: PLR2004 - a session of twenty turns
            # Every conversation has its own text.
            text = f"round {number}: " + "words of a message " * 20
            messages.append({"role": "user", "content": text})
            answer = ""
            for name, url in sides.items():
                first, answer = await _first_byte(http, url, messages)
                seconds[name].append(first)
            messages.append({"role": "assistant", "content": answer})
    added = {
        name: [through - alone for through, alone in zip(seconds[name], seconds["straight"], strict=True)][_WARM:]
        for name in ("bare", "gateway")
    }
    return [
        _held(f"first byte, added, p{percent}", added, percent, most)
        for percent, most in ((50, P50_TIMES_MAX), (99, P99_TIMES_MAX))
    ]


def _held(name: str, added: dict[str, list[float]], percent: int, most: float) -> Measured:
    bare, ours = (_percentile(added[side], percent) * 1_000 for side in ("bare", "gateway"))
    # Ratio of the promise to the measured value: at least 1 keeps the promise.
    return Measured(name, ours, bare, most * bare / max(ours, 0.001), 1.0, "ms")


def _percentile(values: Sequence[float], percent: int) -> float:
    return quantiles(values, n=100)[percent - 1]


async def _first_byte(http: aiohttp.ClientSession, url: str, messages: list[dict[str, str]]) -> tuple[float, str]:
    body = msgspec.json.encode({"model": "sim", "stream": True, "messages": messages})
    headers = {"content-type": "application/json", "authorization": "Bearer sk-of-the-bench"}
    started = time.perf_counter()
    async with http.post(url + _PATH, data=body, headers=headers) as response:
        response.raise_for_status()
        first = await response.content.readany()
        seconds = time.perf_counter() - started
        rest = await response.content.read()
    return seconds, _text(first + rest)


def _text(stream: bytes) -> str:
    text = ""
    for line in stream.splitlines():
        if line.startswith(b"data: {"):
            chunk = msgspec.json.decode(line[6:])
            text += "".join(choice["delta"].get("content") or "" for choice in chunk["choices"])
    return text


# --- Native API ---


# Promised: milliseconds above one disk sync, and megabytes for 2,000 streams.
ACKNOWLEDGED_MS_MAX = 3.0
STREAMS_MB_MAX = 200.0
STREAMS_PROMISED = 2_000
# Lowest share of turns of a session, relative to the mean.
SHARE_FLOOR = 0.5
# Bytes per sync: a page, like a short commit.
_PAGE = b"x" * 4_096
_DESCRIPTORS = 10_000


class Effort(msgspec.Struct, frozen=True):
    """Size of a run."""

    messages: int
    streams: int
    sessions: int
    seconds: float
    # Rounds of a proxied request: direct, through the bare proxy, and through the gateway.
    rounds: int


SHORT = Effort(messages=100, streams=200, sessions=100, seconds=5.0, rounds=200)
LONG = Effort(messages=400, streams=STREAMS_PROMISED, sessions=500, seconds=30.0, rounds=1_000)


@dataclass(frozen=True)
class Server:
    """A running gateway process."""

    url: str
    pid: int
    folder: Path
    http: aiohttp.ClientSession

    def resident_mb(self) -> float:
        """Return the resident memory of the process."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text("ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    async def post(self, session: str, text: str, mode: str) -> dict[str, object]:
        """Send a message."""
        body = {"text": text, "mode": mode}
        async with self.http.post(f"{self.url}/api/sessions/{session}/messages", json=body) as response:
            response.raise_for_status()
            answer: dict[str, object] = await response.json()
            return answer


@asynccontextmanager
async def run_gateway(folder: Path) -> AsyncGenerator[Server, None]:
    """Run `holdfast serve`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < _DESCRIPTORS <= hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (_DESCRIPTORS, hard))
    command = [sys.executable, "-m", "holdfast", "serve", "--port", "0", "--store", str(folder / "bench.db")]
    async with AsyncExitStack() as stack:
        program = await asyncio.create_subprocess_exec(
            *command, "--set", "observing.log=error", stdout=asyncio.subprocess.PIPE, cwd=folder
        )
        stack.push_async_callback(program.wait)
        stack.callback(_end, program)
        assert program.stdout is not None
        line = await asyncio.wait_for(program.stdout.readline(), START_SECONDS_MAX)
        connector = aiohttp.TCPConnector(limit=0)
        http = await stack.enter_async_context(aiohttp.ClientSession(connector=connector))
        yield Server(line.decode().split()[-1], program.pid, folder, http)


def _end(program: asyncio.subprocess.Process) -> None:
    if program.returncode is None:
        program.terminate()


async def measure_acknowledgement(server: Server, effort: Effort) -> list[Measured]:
    """Return the median time to accept a message, minus that of one disk sync."""
    syncs, accepted = [], []
    file = os.open(server.folder / "sync", os.O_CREAT | os.O_WRONLY)
    try:
        for number in range(effort.messages):
            started = time.perf_counter()
            os.write(file, _PAGE)
            os.fsync(file)
            syncs.append(time.perf_counter() - started)
            started = time.perf_counter()
            posted = await server.post("alone", f"say {number}", "post")
            accepted.append(time.perf_counter() - started)
            # Wait for the answer, not measured, so that the next round starts idle.
            turn = f"{server.url}/api/sessions/alone/turns/{posted['turn']}?wait_seconds=60"
            async with server.http.get(turn) as response:
                await response.read()
    finally:
        os.close(file)
    over = (median(accepted) - median(syncs)) * 1_000
    name = "accepted, above one sync"
    return [Measured(name, over, ACKNOWLEDGED_MS_MAX, ACKNOWLEDGED_MS_MAX / max(over, 0.001), 1.0, "ms")]


async def measure_streams(server: Server, effort: Effort) -> list[Measured]:
    """Return the memory of event streams, scaled to the promised number."""
    await server.post("watched", "hello", "wait")
    # The first streams allocate what all share.
    warm = [await watch_events(server.url, "watched") for _ in range(20)]
    before = server.resident_mb()
    streams = [await watch_events(server.url, "watched") for _ in range(effort.streams)]
    grown = server.resident_mb() - before
    for writer in (*warm, *streams):
        writer.transport.abort()
    for_all = max(grown * STREAMS_PROMISED / effort.streams, 0.1)
    name = f"{effort.streams:,} streams, per {STREAMS_PROMISED:,}"
    return [Measured(name, for_all, STREAMS_MB_MAX, STREAMS_MB_MAX / for_all, 1.0, "MB")]


async def watch_events(url: str, session: str) -> asyncio.StreamWriter:
    """Open an event stream, and return after its first event."""
    place = urlsplit(url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    writer.write(f"GET /api/sessions/{session}/events HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
    await reader.readuntil(b"event: watching")
    return writer


async def measure_sessions(server: Server, effort: Effort) -> list[Measured]:
    """Return the lowest share of a session when many run at once."""
    # Connect first, not measured: a connection that the kernel rejects is retried seconds later.
    await asyncio.gather(*(server.post(f"many-{number}", "hello", "wait") for number in range(effort.sessions)))
    turns = [0] * effort.sessions
    errors = 0
    until = time.perf_counter() + effort.seconds

    async def run_session(number: int) -> None:
        nonlocal errors
        while time.perf_counter() < until:
            try:
                await server.post(f"many-{number}", f"say {turns[number]}", "wait")
            except aiohttp.ClientError:
                errors += 1
            turns[number] += 1

    await asyncio.gather(*(run_session(number) for number in range(effort.sessions)))
    share = min(turns) / mean(turns)
    rate = sum(turns) / effort.seconds
    name = f"{effort.sessions} sessions, least share"
    return [
        Measured(name, share, 1.0, share, SHARE_FLOOR, "of mean"),
        Measured("turns of all, errors 0", rate, rate, float(errors == 0), 1.0, "turns/s"),
    ]


Measurement = Callable[[Server, Effort], Awaitable[list[Measured]]]
# Measurements, in order.
MEASUREMENTS: tuple[Measurement, ...] = (measure_acknowledgement, measure_streams, measure_sessions)


async def measure(folder: Path, effort: Effort) -> list[Measured]:
    """Run every measurement against one server."""
    figures: list[Measured] = []
    async with run_gateway(folder) as server:
        for measurement in MEASUREMENTS:
            figures += await measurement(server, effort)
    return [*figures, *await measure_passing(folder, rounds=effort.rounds)]


@click.command("gateway")
@json_option
@click.option("--long", "is_long", is_flag=True, help="2,000 streams and 500 sessions; takes a minute.")
@click.option(
    "--nodes",
    type=click.IntRange(2, 16),
    help="Measure so many gateways on a temporary PostgreSQL server instead, and kill one; --long: 10,000 sessions.",
)
@folder_option
def gateway(folder: Path | None, nodes: int | None, *, as_json: bool, is_long: bool) -> None:
    """Measure the gateway's native API and its proxy; exit with 1 if a figure is below its floor."""
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-", dir=folder) as place:
        if nodes is None:
            figures = asyncio.run(measure(Path(place), LONG if is_long else SHORT))
        else:
            postgres_bench()
            # Needs the driver, which is an extra.
            several = importlib.import_module("holdfast.lab.bench_nodes")
            figures = asyncio.run(several.measure(Path(place), nodes, several.LONG if is_long else several.SHORT))
    print_figures(figures, as_json=as_json)
