"""`holdfast bench store` and `bench archive`: speed of the store and of sealed sessions.

The compared sides alternate every fraction of a second, and ratios are per round, so that load or a slow disk slows
both alike. Each ratio has a promised floor.
"""

import asyncio
import dataclasses
import importlib
import importlib.util
import sqlite3
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import ModuleType

import click
import msgspec

from holdfast.cli.output import json_option
from holdfast.errors import UsageError
from holdfast.lab.benches.harness import (
    FULL,
    QUICK,
    RECORD,
    SESSIONS_TOGETHER,
    Appender,
    Effort,
    Measured,
    compare_rates,
    folder_option,
    print_figures,
)
from holdfast.lab.benches.opening import compare_openings, engine_over, fill, measure_opening, measure_starting
from holdfast.ports import Store
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.engine.log import open_log
from holdfast.runtime.maintenance.sealing import Sealer
from holdfast.stores.archived import ArchivedStore
from holdfast.stores.archives import FolderArchive
from holdfast.stores.sqlite import SqliteStore
from holdfast.types.records import encode_record

# Promised floors: one writer, with ordering, leases and checksums; and many writers that share commits.
ALONE_FLOOR = 0.7
TOGETHER_FLOOR = 8.0
# A session of years without sealing.
LONG_RECORDS = 1_000_000
# Value of --postgres without a URL.
_OWN_SERVER = "own"
postgres_option = click.option(
    "--postgres",
    is_flag=False,
    flag_value=_OWN_SERVER,
    metavar="[URL]",
    help="Measure the PostgreSQL store on this server; without a URL, on a temporary one.",
)


class PlainSqlite:
    """The reference: sqlite3 with one row and one durable commit per message."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        self._db.execute("CREATE TABLE messages (id INTEGER PRIMARY KEY, body BLOB NOT NULL)")
        self._body = encode_record(RECORD)

    def append(self, times: int) -> None:
        """Write messages, each in its own transaction."""
        for _ in range(times):
            self._db.execute("INSERT INTO messages (body) VALUES (?)", (self._body,))

    def close(self) -> None:
        """Close the file."""
        self._db.close()


async def measure_appends(folder: Path, effort: Effort) -> list[Measured]:
    """Measure appends per second of one session and of many, compared with plain SQLite."""
    plain = PlainSqlite(folder / "plain.db")
    store = SqliteStore(folder / "holdfast.db", clock=SystemClock())
    try:
        alone = await Appender.of(store, "alone")
        together = [await Appender.of(store, f"together-{number}") for number in range(SESSIONS_TOGETHER)]
        plain.append(effort.appends_before)
        await alone.append(effort.appends_before)
        plain_rates, alone_rates, together_rates = [], [], []
        for _ in range(effort.turns):
            started = time.perf_counter()
            plain.append(effort.appends)
            plain_rates.append(effort.appends / (time.perf_counter() - started))

            started = time.perf_counter()
            await alone.append(effort.appends)
            alone_rates.append(effort.appends / (time.perf_counter() - started))

            # Fewer appends per session, so that all rounds take about as long.
            each = max(effort.appends // 8, 1)
            started = time.perf_counter()
            await asyncio.gather(*(appender.append(each) for appender in together))
            together_rates.append(each * SESSIONS_TOGETHER / (time.perf_counter() - started))
    finally:
        await store.close()
        plain.close()
    return [
        compare_rates("append, one session alone", alone_rates, plain_rates, ALONE_FLOOR),
        compare_rates(f"append, {SESSIONS_TOGETHER} sessions together", together_rates, plain_rates, TOGETHER_FLOOR),
    ]


Measurement = Callable[[Path, Effort], Awaitable[list[Measured]]]
# Measurements, in order.
MEASUREMENTS: tuple[Measurement, ...] = (measure_appends, measure_opening, measure_starting)


async def measure(folder: Path, effort: Effort) -> list[Measured]:
    """Run every measurement, each in its own folder."""
    figures: list[Measured] = []
    for number, measurement in enumerate(MEASUREMENTS):
        place = folder / str(number)
        place.mkdir()
        figures += await measurement(place, effort)
    return figures


def postgres_bench() -> ModuleType:
    """Import the PostgreSQL benchmark. Raises `UsageError` if the driver is not installed."""
    if importlib.util.find_spec("asyncpg") is None:
        raise UsageError("the PostgreSQL benchmark needs the package asyncpg; run `pip install 'holdfast[postgres]'`")
    return importlib.import_module("holdfast.lab.benches.postgres")


def server_url(postgres: str) -> str | None:
    """Return the URL given with --postgres; None for a temporary server."""
    return None if postgres == _OWN_SERVER else postgres


@click.command("store")
@json_option
@click.option("--quick", is_flag=True, help="A few seconds instead of half a minute; less precise.")
@folder_option
@postgres_option
@click.option("--long", "is_long", is_flag=True, help=f"Open a session of {LONG_RECORDS:,} records: some minutes more.")
def store(folder: Path | None, postgres: str | None, *, as_json: bool, quick: bool, is_long: bool) -> None:
    """Compare a store with plain inserts into the same database; exit with 1 if a ratio is below its floor."""
    effort = QUICK if quick else FULL
    if is_long:
        effort = msgspec.structs.replace(effort, long_records=LONG_RECORDS)
    if postgres is not None:
        figures = asyncio.run(postgres_bench().measure(server_url(postgres), effort))
    else:
        with tempfile.TemporaryDirectory(prefix="holdfast-bench-", dir=folder) as place:
            figures = asyncio.run(measure(Path(place), effort))
    print_figures(figures, as_json=as_json)


# --- holdfast bench archive ---


# Sealing must be at least as fast as appending.
KEEPS_UP_FLOOR = 1.0
# Largest share of live records in a long session: the tail and a margin.
LIVE_SHARE_MAX = 0.1

_SHORT_RECORDS = 1_000
_RECORDS = 40_000
_OPENINGS = 15
_APPENDS = 500


async def measure_archive(bare: Store, folder: Path, records: int) -> list[Measured]:
    """Seal a long session into a folder and compare it with a short one. Closes the store."""
    archive = FolderArchive(folder)
    store = ArchivedStore(bare, archive)
    try:
        await fill(store, "short", _SHORT_RECORDS)
        await fill(store, "long", records)
        started = time.perf_counter()
        appender = await Appender.of(bare, "appends")
        await appender.append(_APPENDS)
        append_rate = _APPENDS / (time.perf_counter() - started)
        started = time.perf_counter()
        await _seal(store, archive)
        seconds = time.perf_counter() - started
        sealed = (await store.segments("long"))[-1].last
        # Both sessions continue to their next compaction: seals are records too, and there are unusually many.
        for session in ("short", "long"):
            await fill(store, session, 0)
        known = await store.info("long")
        assert known is not None, "filled above"
        opened = await compare_openings(store, f"open at {records:,}, sealed", _OPENINGS)
    finally:
        await store.close()
    live, bound = known.last_seq - sealed, LIVE_SHARE_MAX * known.last_seq
    return [
        opened,
        Measured(f"live of {known.last_seq:,} records", live, bound, bound / live, 1.0, "records"),
        Measured(
            "sealing against appending",
            sealed / seconds,
            append_rate,
            sealed / seconds / append_rate,
            KEEPS_UP_FLOOR,
            "per s",
        ),
    ]


async def _measure_file(place: Path, records: int) -> list[Measured]:
    return await measure_archive(SqliteStore(place / "sessions.db", clock=SystemClock()), place / "archive", records)


async def _seal(store: Store, archive: FolderArchive) -> None:
    engine = dataclasses.replace(engine_over(store), archive=archive)
    lease = await store.acquire("long", "bench", seconds=3_600)
    assert lease is not None, "there is no other worker"
    await Sealer(engine).seal_due(lease, await open_log(store, "long"))
    await store.release(lease)


@click.command("archive")
@json_option
@click.option(
    "--long", "is_long", is_flag=True, help=f"{LONG_RECORDS:,} records instead of {_RECORDS:,}: many minutes."
)
@folder_option
@postgres_option
def archive(folder: Path | None, postgres: str | None, *, as_json: bool, is_long: bool) -> None:
    """Measure a session that is mostly sealed; exit with 1 if a ratio is below its floor."""
    records = LONG_RECORDS if is_long else _RECORDS
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-", dir=folder) as place:
        if postgres is None:
            figures = asyncio.run(_measure_file(Path(place), records))
        else:
            figures = asyncio.run(
                postgres_bench().measure_archive(server_url(postgres), Path(place) / "archive", records)
            )
    print_figures(figures, as_json=as_json)
