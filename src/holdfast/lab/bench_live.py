"""`holdfast bench live`: processor time of streamed answers, of watchers, of idle sessions, and of many at once.

Each figure is processor time or memory of the gateway's process, so that other load on the machine changes it little.
Streaming is compared with a bare proxy that relays the same bytes of the same upstream, in turns.
"""

import asyncio
import itertools
import os
import resource
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from statistics import median

import aiohttp
import click
import msgspec

from holdfast.cli.output import json_option
from holdfast.lab.benches.gateway import START_SECONDS_MAX, Server, watch_events
from holdfast.lab.benches.harness import Measured, folder_option, print_figures
from holdfast.runtime.clock import SystemClock
from holdfast.stores.sqlite import SqliteStore
from holdfast.types.messages import Reply, StopReason, Text
from holdfast.types.records import (
    AttemptStarted,
    InputAdmitted,
    LeasedRecord,
    Outcome,
    ReplyRecorded,
    TurnEnded,
    TurnStarted,
)

# Promised: at most this many times the processor time of a bare proxy per delta, native and proxied.
STREAMED_TIMES_MAX = 1.5
# Promised: an answer with the most watchers costs at most this many times one without.
WATCHED_TIMES_MAX = 10.0
# Promised: processor seconds until `holdfast serve` is ready.
READY_SECONDS_MAX = 0.6
# Kilobytes of an idle session and of an idle stream.
SESSION_KB_MAX = 20.0
STREAM_KB_MAX = 100.0
# Share of a loop that does the same writes and nothing else.
TURNS_FLOOR = 0.02
_PATH = "/v1/chat/completions"
_KEY = "sk-of-the-bench"
# Time for work that follows an answer: recording, and events on their way.
_SETTLE_SECONDS = 0.2
_DESCRIPTORS = 20_000
# Words of a short answer.
_FEW_WORDS = 20
# Sessions that are written at once, and clients at once.
_BATCH, _CLIENTS_MAX = 200, 100


class Effort(msgspec.Struct, frozen=True):
    """Size of a run."""

    # Words of a streamed answer, some four of which are a delta, and rounds.
    words: int
    rounds: int
    watchers: tuple[int, ...]
    # Sessions in the store that a gateway starts on.
    stored: int
    # Sessions that take turns at once, streams that are open, and for how long.
    sessions: int
    streams: int
    seconds: float


SHORT = Effort(words=4_000, rounds=3, watchers=(0, 1, 20, 200), stored=10_000, sessions=200, streams=50, seconds=5.0)
QUICK = Effort(words=1_000, rounds=2, watchers=(0, 20), stored=1_000, sessions=50, streams=10, seconds=1.0)
LONG = Effort(
    words=9_000, rounds=5, watchers=(0, 1, 20, 200), stored=10_000, sessions=10_000, streams=2_000, seconds=60.0
)


def processor_ms(pid: int) -> float:
    """Return the processor time of a process so far, of all its threads."""
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(thread.read_text("ascii").split()[0]) for thread in threads) / 1e6


@asynccontextmanager
async def run_server(*command: str, folder: Path, **environ: str) -> AsyncGenerator[Server, None]:
    """Run a server process that prints its address as the last word of its first line."""
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-m", *command, stdout=asyncio.subprocess.PIPE, cwd=folder, env={**os.environ, **environ}
    )
    try:
        assert program.stdout is not None
        line = await asyncio.wait_for(program.stdout.readline(), START_SECONDS_MAX)
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
            yield Server(line.decode().split()[-1], program.pid, folder, http)
    finally:
        if program.returncode is None:
            program.terminate()
        await program.wait()


def serve_command(store: Path, *more: str) -> tuple[str, ...]:
    """Return the command of a gateway on a store, for `run_server`."""
    return ("holdfast", "serve", "--port", "0", "--store", str(store), "--set", "observing.log=error", *more)


async def _spent(server: Server, work: Awaitable[object]) -> float:
    """Return the milliseconds of processor time of a server for some work."""
    before = processor_ms(server.pid)
    await work
    await asyncio.sleep(_SETTLE_SECONDS)
    return processor_ms(server.pid) - before


# --- Streaming ---


async def measure_streaming(folder: Path, effort: Effort) -> list[Measured]:
    """Compare the processor time per 1,000 deltas with that of a bare proxy, native and proxied.

    It is what a long answer takes above a short one: the rest of a turn costs the same for both.
    """
    async with AsyncExitStack() as stack:
        upstream = await stack.enter_async_context(run_server("holdfast", "sim", "--port", "0", folder=folder))
        bare = await stack.enter_async_context(
            run_server("holdfast.lab.benches.bare_proxy", upstream.url, folder=folder)
        )
        ours = ("--model", "openai:sim", "--base-url", f"{upstream.url}/v1")
        proxied = ("--set", f"upstream.openai_base_url={upstream.url}/v1")
        command = serve_command(folder / "streaming.db", *ours, *proxied)
        gateway = await stack.enter_async_context(run_server(*command, folder=folder, OPENAI_API_KEY=_KEY))
        await _pace(upstream, 0.0)
        for server in (bare, gateway):
            await _completion(server, 20, 0)
        await gateway.post("warm", "hello", "wait")
        # A delta at a time, as models send them: chunks that arrive together are one.
        await _pace(upstream, 0.001)
        spent: dict[str, list[float]] = {"bare": [], "proxied": [], "native": [], "streamed": []}
        for number in range(effort.rounds):
            long, short = [await _stream_once(bare, gateway, number, words) for words in (effort.words, _FEW_WORDS)]
            deltas = (long["deltas"] - short["deltas"]) / 1_000
            for side, each in spent.items():
                each.append(max((long[side] - short[side]) / deltas, 0.001))
    names = {"proxied": "proxied", "native": "native, one watcher", "streamed": "native, streamed to its sender"}
    return [_times(f"1,000 deltas, {names[side]}", spent[side], spent["bare"]) for side in names]


async def _stream_once(bare: Server, gateway: Server, number: int, words: int) -> dict[str, float]:
    """Return the processor time of an answer in each way, and the number of its deltas."""
    key, text = f"{words}-{number}", f"write {words} words"
    deltas = float(await _completion(bare, words, number))
    spent = {
        "deltas": deltas,
        "bare": await _spent(bare, _completion(bare, words, number)),
        "proxied": await _spent(gateway, _completion(gateway, words, number)),
    }
    await gateway.post(f"watched-{key}", "hello", "wait")
    stream = await watch_events(gateway.url, f"watched-{key}")
    spent["native"] = await _spent(gateway, gateway.post(f"watched-{key}", text, "wait"))
    stream.transport.abort()
    spent["streamed"] = await _spent(gateway, _streamed(gateway, f"streamed-{key}", text))
    return spent


def _times(name: str, ours: list[float], bare: list[float]) -> Measured:
    times = median(our / other for our, other in zip(ours, bare, strict=True))
    return Measured(name, median(ours), median(bare), STREAMED_TIMES_MAX / times, 1.0, "ms")


async def _pace(upstream: Server, seconds: float) -> None:
    async with upstream.http.post(f"{upstream.url}/simulation", json={"delta_seconds": seconds}) as response:
        response.raise_for_status()


async def _completion(server: Server, words: int, number: int) -> int:
    """Read a streamed completion, and return the number of its deltas."""
    messages = [{"role": "user", "content": f"round {number}: write {words} words"}]
    body = {"model": "sim", "stream": True, "messages": messages}
    headers = {"authorization": f"Bearer {_KEY}"}
    async with server.http.post(server.url + _PATH, json=body, headers=headers) as response:
        response.raise_for_status()
        return (await response.read()).count(b"data: {")


async def _streamed(server: Server, session: str, text: str) -> None:
    body = {"text": text, "mode": "stream"}
    async with server.http.post(f"{server.url}/api/sessions/{session}/messages", json=body) as response:
        response.raise_for_status()
        await response.read()


# --- Watchers, and memory of what is idle ---


async def measure_watchers(folder: Path, effort: Effort) -> list[Measured]:
    """Return the processor time of one answer with several numbers of watchers, and memory of idle streams."""
    text, spent, grown = "write 9000 words", dict[int, float](), 0.0
    async with run_server(*serve_command(folder / "watchers.db"), folder=folder) as gateway:
        await gateway.post("warm", text, "wait")
        for count in effort.watchers:
            key = f"watched-{count}"
            await gateway.post(key, "hello", "wait")
            before = gateway.resident_mb()
            streams = [await watch_events(gateway.url, key) for _ in range(count)]
            grown = gateway.resident_mb() - before
            spent[count] = await _spent(gateway, gateway.post(key, text, "wait"))
            for stream in streams:
                stream.transport.abort()
        sessions = effort.sessions
        before = gateway.resident_mb()
        await _say_to_all(gateway, sessions)
        session_kb = max(gateway.resident_mb() - before, 0.001) * 1_000 / sessions
    alone, most = spent[0], max(effort.watchers)
    stream_kb = max(grown, 0.001) * 1_000 / most
    figures = [
        Measured(f"9,000 words, {count} watchers", took, alone, WATCHED_TIMES_MAX * alone / took, 1.0, "ms")
        for count, took in spent.items()
    ]
    return [
        *figures,
        Measured(f"idle stream, of {most:,}", stream_kb, STREAM_KB_MAX, STREAM_KB_MAX / stream_kb, 1.0, "KB"),
        Measured(f"idle session, of {sessions:,}", session_kb, SESSION_KB_MAX, SESSION_KB_MAX / session_kb, 1.0, "KB"),
    ]


async def _say_to_all(gateway: Server, sessions: int) -> None:
    for start in range(0, sessions, _CLIENTS_MAX):
        keys = range(start, min(start + _CLIENTS_MAX, sessions))
        await asyncio.gather(*(gateway.post(f"many-{number}", "hello", "wait") for number in keys))


# --- Start on many sessions ---


async def measure_ready(folder: Path, effort: Effort) -> list[Measured]:
    """Return the processor time of `holdfast serve` until it is ready on a store of many sessions."""
    path = folder / "stored.db"
    await store_sessions(path, effort.stored)
    # Compiled, as in an installation, whatever PYTHONDONTWRITEBYTECODE says.
    environ = {"PYTHONPYCACHEPREFIX": str(folder / "compiled"), "PYTHONDONTWRITEBYTECODE": ""}
    seconds = []
    for _ in range(effort.rounds + 1):
        async with run_server(*serve_command(path), folder=folder, **environ) as gateway:
            seconds.append(processor_ms(gateway.pid) / 1_000)
    ready = median(seconds[1:])
    name = f"serve ready, {effort.stored:,} sessions"
    return [Measured(name, ready, READY_SECONDS_MAX, READY_SECONDS_MAX / ready, 1.0, "s")]


async def store_sessions(path: Path, count: int) -> None:
    """Write sessions of one turn, each about a harbour of its own."""
    store = SqliteStore(path, clock=SystemClock())

    async def write(number: int) -> None:
        lease = await store.acquire(f"session-{number}", "bench", seconds=600)
        assert lease is not None, "the store is new"
        await store.append(lease, turn_records(number), after=0)
        await store.release(lease)

    try:
        for start in range(0, count, _BATCH):
            await asyncio.gather(*(write(number) for number in range(start, min(start + _BATCH, count))))
    finally:
        await store.close()


def turn_records(number: int, turn: int = 1) -> list[LeasedRecord]:
    """Return the records of a short turn: of the first of a session, or one at another seq."""
    answer = Reply(
        (Text(f"The harbour of place {number % 977} is beside quay {number}."),), StopReason.END, None, "sim"
    )
    return [
        InputAdmitted((Text(f"question {number}: where is the harbour of place {number % 977}?"),)),
        TurnStarted(turn),
        AttemptStarted(turn, 1, "sim", 100),
        ReplyRecorded(turn, 1, answer),
        TurnEnded(turn, Outcome.ANSWERED),
    ]


# --- Many sessions and streams at once ---


async def measure_many(folder: Path, effort: Effort) -> list[Measured]:
    """Compare the turns per second of many sessions beside open streams with a loop that only does the same writes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < _DESCRIPTORS <= hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (_DESCRIPTORS, hard))
    async with run_server(*serve_command(folder / "many.db"), folder=folder) as gateway:
        await _say_to_all(gateway, effort.sessions)
        streams = [await watch_events(gateway.url, f"many-{number}") for number in range(effort.streams)]
        turns = await _turns(gateway, effort)
        for stream in streams:
            stream.transport.abort()
    writes = await _writes(folder / "writes.db", effort)
    name = f"{effort.sessions:,} sessions, {effort.streams:,} streams"
    return [Measured(name, turns, writes, turns / writes, TURNS_FLOOR, "turns/s")]


async def _turns(gateway: Server, effort: Effort) -> float:
    done, until = 0, time.perf_counter() + effort.seconds

    async def talk(first: int) -> None:
        nonlocal done
        for number in itertools.cycle(range(first, effort.sessions, clients)):
            if time.perf_counter() >= until:
                return
            await gateway.post(f"many-{number}", "hello", "wait")
            done += 1

    # More keep no machine busier; each takes its share of the sessions in turn.
    clients = min(effort.sessions, _CLIENTS_MAX)
    started = time.perf_counter()
    await asyncio.gather(*(talk(number) for number in range(clients)))
    return done / (time.perf_counter() - started)


async def _writes(path: Path, effort: Effort) -> float:
    """Return the turns per second of a loop that appends the records of turns, as many sessions at once."""
    store = SqliteStore(path, clock=SystemClock())
    done, until = 0, time.perf_counter() + min(effort.seconds, 5.0)

    async def write(number: int) -> None:
        nonlocal done
        lease = await store.acquire(f"many-{number}", "bench", seconds=600)
        assert lease is not None, "the store is new"
        seq = 0
        while time.perf_counter() < until:
            records = turn_records(number, seq + 1)
            # The commits of a turn: the message, its start with the attempt, the answer with the end.
            for part in (records[:1], records[1:3], records[3:]):
                seq = await store.append(lease, part, after=seq)
            done += 1

    started = time.perf_counter()
    try:
        await asyncio.gather(*(write(number) for number in range(min(effort.sessions, _CLIENTS_MAX))))
    finally:
        await store.close()
    return done / (time.perf_counter() - started)


Measurement = Callable[[Path, Effort], Awaitable[list[Measured]]]
# Measurements, in order.
MEASUREMENTS: tuple[Measurement, ...] = (measure_streaming, measure_watchers, measure_ready, measure_many)


async def measure(folder: Path, effort: Effort) -> list[Measured]:
    """Run every measurement."""
    return [figure for measurement in MEASUREMENTS for figure in await measurement(folder, effort)]


@click.command("live")
@json_option
@click.option("--quick", is_flag=True, help="Some seconds; less precise.")
@click.option("--long", "is_long", is_flag=True, help="10,000 sessions and 2,000 streams; takes minutes.")
@folder_option
def live(folder: Path | None, *, as_json: bool, quick: bool, is_long: bool) -> None:
    """Measure streamed answers, watchers, idle sessions and a start; exit with 1 if a figure is below its floor."""
    effort = LONG if is_long else QUICK if quick else SHORT
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-", dir=folder) as place:
        figures = asyncio.run(measure(Path(place), effort))
    print_figures(figures, as_json=as_json)
