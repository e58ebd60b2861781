"""`holdfast bench gateway --nodes N`: several gateways on one PostgreSQL database, and one of them killed under load.

Sessions are spread over the nodes. Turns per second are compared with those of one node on the same machine. Then a
node dies: its clients go to the next one and send what was not acknowledged again, with the same client id. Every
message that was acknowledged must get its one outcome.
"""

import asyncio
import itertools
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import aiohttp
import asyncpg
import msgspec

from holdfast.lab.benches.gateway import START_SECONDS_MAX, watch_events
from holdfast.lab.benches.harness import Measured
from holdfast.lab.benches.postgres import temporary_database

# Sessions of a dead node resume within this many lease terms.
LEASES_MAX = 2.0
_SHARE_OF_ONE_FLOOR = 0.5
# Sessions that are made at once, and turns that are timed beside the streams.
_AT_ONCE, _TIMED = 100, 100
# A node that has not answered by then hangs.
_HANGS_SECONDS = 120.0


class NodesEffort(msgspec.Struct, frozen=True):
    """Size of a run."""

    sessions: int
    seconds: float
    # Sessions that are made beside those, to measure their size, and open event streams.
    idle_sessions: int
    streams: int
    # Short, so that a take-over is seen within seconds.
    lease_seconds: float

    @property
    def takeover_seconds_max(self) -> float:
        """Return the time within which the sessions of a dead node resume."""
        return LEASES_MAX * self.lease_seconds


SHORT = NodesEffort(sessions=30, seconds=5.0, idle_sessions=200, streams=50, lease_seconds=5.0)
LONG = NodesEffort(sessions=300, seconds=30.0, idle_sessions=10_000, streams=2_000, lease_seconds=10.0)


class Node:
    """A gateway process."""

    def __init__(self, url: str, program: asyncio.subprocess.Process, http: aiohttp.ClientSession) -> None:
        self.url, self._program, self._http = url, program, http

    def kill(self) -> None:
        """Kill the process, as a power loss of its machine would."""
        self._program.kill()

    async def call(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        """Call the API and return the body. Raises `aiohttp.ClientError` if the node is gone."""
        async with self._http.request(method, f"{self.url}/api{path}", json=body) as response:
            response.raise_for_status()
            answer: dict[str, Any] = await response.json()
            return answer


@asynccontextmanager
async def run_nodes(database: str, folder: Path, count: int, effort: NodesEffort) -> AsyncGenerator[list[Node], None]:
    """Run gateways on one database. They are killed at the end."""
    command = [sys.executable, "-m", "holdfast", "serve", "--port", "0", "--store", database]
    settings = ("--set", "observing.log=error", "--set", f"engine.lease_seconds={effort.lease_seconds}")
    programs = [
        await asyncio.create_subprocess_exec(*command, *settings, stdout=asyncio.subprocess.PIPE, cwd=folder)
        for _ in range(count)
    ]
    timeout = aiohttp.ClientTimeout(total=_HANGS_SECONDS)
    try:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=timeout) as http:
            yield [Node(await _address(program), program, http) for program in programs]
    finally:
        for program in programs:
            if program.returncode is None:
                program.kill()
            await program.wait()


async def _address(program: asyncio.subprocess.Process) -> str:
    assert program.stdout is not None
    line = await asyncio.wait_for(program.stdout.readline(), START_SECONDS_MAX)
    return line.decode().split()[-1]


class Load:
    """Sessions that send one message after another, each at a node of its own choice."""

    def __init__(self, nodes: Sequence[Node], sessions: int) -> None:
        self._nodes = list(nodes)
        self._keys = [f"load-{number}" for number in range(sessions)]
        self._first = {key: number % len(nodes) for number, key in enumerate(self._keys)}
        # Acknowledged messages and those with an outcome, by session; sessions, ends and times of turns.
        self.accepted: set[tuple[str, int]] = set()
        self.ended: set[tuple[str, int]] = set()
        self.took: list[tuple[str, float, float]] = []

    def keys_at(self, node: int) -> list[str]:
        """Return the sessions whose first choice is a node."""
        return [key for key in self._keys if self._first[key] == node]

    async def run(self, seconds: float) -> float:
        """Send for so long, and return the turns per second."""
        until = time.perf_counter() + seconds
        before = len(self.ended)
        await asyncio.gather(*(self._talk(key, until) for key in self._keys))
        return (len(self.ended) - before) / seconds

    async def _talk(self, key: str, until: float) -> None:
        numbers = itertools.count()
        while time.perf_counter() < until:
            started = time.perf_counter()
            body = {"text": f"say {next(numbers)}", "mode": "post", "client_id": f"{key} {started!r}"}
            posted = await self._call(key, "POST", "messages", body)
            turn = (key, int(posted["turn"]))
            self.accepted.add(turn)
            state = await self._call(key, "GET", f"turns/{turn[1]}?wait_seconds=60")
            if state["outcome"] is not None:
                self.ended.add(turn)
            ended = time.perf_counter()
            self.took.append((key, ended, ended - started))

    async def _call(self, key: str, method: str, path: str, body: object = None) -> dict[str, Any]:
        """Call the session's node; if it is gone, the next one from now on."""
        while True:
            place = self._first[key]
            try:
                return await self._nodes[place].call(method, f"/sessions/{key}/{path}", body)
            except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError):
                self._first[key] = (place + 1) % len(self._nodes)


async def measure_rates(database: str, folder: Path, nodes: int, effort: NodesEffort) -> list[Measured]:
    """Compare the turns per second of several nodes with those of one."""
    rates = []
    for count in (1, nodes):
        async with run_nodes(database, folder, count, effort) as running:
            rates.append(await Load(running, effort.sessions).run(effort.seconds))
    alone, together = rates
    share = together / max(alone, 0.001)
    return [Measured(f"{nodes} nodes against one", together, alone, share, _SHARE_OF_ONE_FLOOR, "turns/s")]


async def measure_kill(database: str, folder: Path, nodes: int, effort: NodesEffort) -> list[Measured]:
    """Kill a node under load; return what was lost, how long its sessions waited, and how long the others took."""
    async with run_nodes(database, folder, nodes, effort) as running:
        load = Load(running, effort.sessions)
        orphans = set(load.keys_at(0))
        sending = asyncio.create_task(load.run(effort.seconds + effort.takeover_seconds_max))
        await asyncio.sleep(effort.seconds / 2)
        killed = time.perf_counter()
        open_turns = {turn for turn in load.accepted - load.ended if turn[0] in orphans}
        running[0].kill()
        await sending
    lost, bound = len(load.accepted - load.ended), effort.takeover_seconds_max
    # Turns that were open at the kill.
    waits = [ended - killed for _, ended, took in load.took if ended > killed > ended - took]
    others = [took for key, ended, took in load.took if key not in orphans and killed <= ended <= killed + bound]
    before = [took for _, ended, took in load.took if ended < killed]
    longest = max(waits, default=0.0)
    slowest, usual = _p99(others), _p99(before)
    name = f"taken over, {len(open_turns)} turns open at the kill"
    return [
        Measured("lost of what was acknowledged", float(lost), 0.0, float(lost == 0), 1.0, "messages"),
        Measured(name, longest, bound, bound / max(longest, 0.001), 1.0, "s"),
        Measured("turn of the others, p99", slowest * 1_000, usual * 1_000, usual / max(slowest, 1e-6), 0.0, "ms"),
    ]


def _p99(values: Sequence[float]) -> float:
    return quantiles(values, n=100)[98] if len(values) > 1 else sum(values)


async def measure_sizes(database: str, folder: Path, nodes: int, effort: NodesEffort) -> list[Measured]:
    """Return the space of a session and of a turn in the database, and the time of a turn beside open streams."""
    connection = await asyncpg.connect(database)
    try:
        async with run_nodes(database, folder, nodes, effort) as running:
            keys = [f"idle-{number}" for number in range(effort.idle_sessions)]
            empty = await _database_bytes(connection)
            await _say_to_all(running, keys)
            once = await _database_bytes(connection)
            await _say_to_all(running, keys)
            twice = await _database_bytes(connection)
            streams = [await watch_events(running[number % nodes].url, keys[0]) for number in range(effort.streams)]
            took = [await _timed(_say(running[number % nodes], key)) for number, key in enumerate(keys[:_TIMED])]
            for stream in streams:
                stream.transport.abort()
    finally:
        await connection.close()
    session, turn = ((after - before) / len(keys) / 1_024 for before, after in ((empty, once), (once, twice)))
    return [
        Measured(f"session of one turn, of {len(keys):,}", session, session, 1.0, 0.0, "KiB"),
        Measured("another turn", turn, session, 1.0, 0.0, "KiB"),
        Measured(f"turn beside {effort.streams:,} streams", median(took) * 1_000, 0.0, 1.0, 0.0, "ms"),
    ]


async def _say_to_all(nodes: Sequence[Node], keys: Sequence[str]) -> None:
    for start in range(0, len(keys), _AT_ONCE):
        batch = keys[start : start + _AT_ONCE]
        await asyncio.gather(*(_say(nodes[number % len(nodes)], key) for number, key in enumerate(batch)))


async def _say(node: Node, key: str) -> None:
    await node.call("POST", f"/sessions/{key}/messages", {"text": "say hello", "mode": "wait"})


async def _timed(work: Awaitable[None]) -> float:
    started = time.perf_counter()
    await work
    return time.perf_counter() - started


async def _database_bytes(connection: "asyncpg.Connection[asyncpg.Record]") -> int:
    # Space that is free again is not counted twice.
    await connection.execute("VACUUM")
    return int(await connection.fetchval("SELECT pg_database_size(current_database())"))


Measurement = Callable[[str, Path, int, NodesEffort], Awaitable[list[Measured]]]
# Measurements, in order.
MEASUREMENTS: tuple[Measurement, ...] = (measure_rates, measure_kill, measure_sizes)


async def measure(folder: Path, nodes: int, effort: NodesEffort) -> list[Measured]:
    """Run every measurement, each on a database of its own in one temporary server."""
    figures: list[Measured] = []
    for measurement in MEASUREMENTS:
        async with temporary_database(None) as database:
            figures += await measurement(database, folder, nodes, effort)
    return figures
