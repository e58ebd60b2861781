"""`holdfast bench reading`: processor time to read a long session over HTTP, and to search many sessions.

The gateway runs as a process of its own. The session has short turns and no compaction, so that nothing but the log and
its snapshot can answer. The search runs in a gateway that has just started, on sessions that were indexed before.
"""

import asyncio
import tempfile
import time
from functools import partial
from pathlib import Path
from statistics import median

import click
import msgspec

from holdfast.cli.output import json_option
from holdfast.lab.bench_live import processor_ms, run_server, serve_command, store_sessions, turn_records
from holdfast.lab.benches.gateway import Server
from holdfast.lab.benches.harness import Measured, folder_option, print_figures
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.engine.log import open_log
from holdfast.stores.sqlite import SqliteStore

# Promised: milliseconds of processor time of a request, and seconds of a search over all sessions.
REQUEST_MS_MAX = 20.0
SEARCH_SECONDS_MAX = 1.0
_PATHS = ("", "/view", "/past")
_RECORDS_OF_A_TURN = 5
_BATCH_TURNS = 200
# Queries with a common word and one that a single session has.
_RARE = 321


class Effort(msgspec.Struct, frozen=True):
    """Size of a run: records of the long session, sessions that are searched, and requests per figure."""

    records: int
    sessions: int
    requests: int = 11


SHORT = Effort(records=125_000, sessions=10_000)
QUICK = Effort(records=10_000, sessions=500)
LONG = Effort(records=1_000_000, sessions=10_000)


async def measure_requests(folder: Path, effort: Effort) -> list[Measured]:
    """Return the processor time of reading the state, the view and the past of a long session."""
    path = folder / "long.db"
    await _fill(path, effort.records)
    figures = []
    async with run_server(*serve_command(path), folder=folder) as gateway:
        for place in _PATHS:
            spent = [await _request_ms(gateway, f"/api/sessions/long{place}") for _ in range(effort.requests)]
            taken = max(median(spent), 0.001)
            name = f"GET session{place}, {effort.records:,} records"
            figures.append(Measured(name, taken, REQUEST_MS_MAX, REQUEST_MS_MAX / taken, 1.0, "ms"))
    return figures


async def _fill(path: Path, records: int) -> None:
    store = SqliteStore(path, clock=SystemClock())
    try:
        lease = await store.acquire("long", "bench", seconds=3_600)
        assert lease is not None, "the store is new"
        seq = 0
        for first in range(0, records // _RECORDS_OF_A_TURN, _BATCH_TURNS):
            turns = range(first, min(first + _BATCH_TURNS, records // _RECORDS_OF_A_TURN))
            batch = [one for turn in turns for one in turn_records(turn, turn * _RECORDS_OF_A_TURN + 1)]
            seq = await store.append(lease, batch, after=seq)
        await store.save_snapshot(lease, (await open_log(store, "long")).snapshot())
        await store.release(lease)
    finally:
        await store.close()


async def _request_ms(gateway: Server, path: str) -> float:
    before = processor_ms(gateway.pid)
    async with gateway.http.get(gateway.url + path) as response:
        response.raise_for_status()
        await response.read()
    return processor_ms(gateway.pid) - before


async def measure_search(folder: Path, effort: Effort) -> list[Measured]:
    """Return the time of the first search of a gateway, and whether it found the one session with the rare word."""
    path = folder / "searched.db"
    await store_sessions(path, effort.sessions)
    await _index(path, effort.sessions)
    async with run_server(*serve_command(path), folder=folder) as gateway:
        address = f"{gateway.url}/api/search?query=quay+{_RARE}"
        started = time.perf_counter()
        async with gateway.http.get(address) as response:
            response.raise_for_status()
            found = await response.json()
        seconds = time.perf_counter() - started
    is_right = found["is_complete"] and found["hits"][0]["session"] == f"session-{_RARE}"
    name = f"first search, {effort.sessions:,} sessions"
    return [
        Measured(name, seconds, SEARCH_SECONDS_MAX, SEARCH_SECONDS_MAX / seconds, 1.0, "s"),
        Measured("the rare word is found first", float(is_right), 1.0, float(is_right), 1.0, "of 1"),
    ]


async def _index(path: Path, sessions: int) -> None:
    """Index all sessions, as a gateway does after each write."""
    store = SqliteStore(path, clock=SystemClock())
    try:
        for start in range(0, sessions, _BATCH_TURNS):
            keys = (f"session-{number}" for number in range(start, min(start + _BATCH_TURNS, sessions)))
            await asyncio.gather(*map(partial(store.search, query="harbour", limit=1), keys))
    finally:
        await store.close()


async def measure(folder: Path, effort: Effort) -> list[Measured]:
    """Run both measurements."""
    return [*await measure_requests(folder, effort), *await measure_search(folder, effort)]


@click.command("reading")
@json_option
@click.option("--quick", is_flag=True, help="A short session and few sessions: some seconds.")
@click.option("--long", "is_long", is_flag=True, help="A session of 1,000,000 records: some minutes.")
@folder_option
def reading(folder: Path | None, *, as_json: bool, quick: bool, is_long: bool) -> None:
    """Measure reading a long session and searching many; exit with 1 if a figure is below its floor."""
    effort = LONG if is_long else QUICK if quick else SHORT
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-", dir=folder) as place:
        figures = asyncio.run(measure(Path(place), effort))
    print_figures(figures, as_json=as_json)
