"""How quick the SQLite store is, against plain SQLite on the same disk in the same minute.

Everything that is compared runs in turns of a fraction of a second, and ratios are taken turn by turn, so that a
noisy neighbour or a slow disk slows both sides alike. A ratio above its floor is what the project promises.
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

# The two floors of the project: what durability with order, leases and checksums may cost one writer, and what
# writing together must gain.
ALONE_FLOOR = 0.7
TOGETHER_FLOOR = 8.0
# A session that nobody ever sealed anything of, after years.
LONG_RECORDS = 1_000_000
# What --postgres stands for without a URL.
_OWN_SERVER = "own"
postgres_option = click.option(
    "--postgres",
    is_flag=False,
    flag_value=_OWN_SERVER,
    metavar="[URL]",
    help="Measure the PostgreSQL store instead, on this server or, without a URL, on one that is started for it.",
)


class PlainSqlite:
    """The reference: the standard library's sqlite3, one row per message, one commit per row, as durable as ours."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        self._db.execute("CREATE TABLE messages (id INTEGER PRIMARY KEY, body BLOB NOT NULL)")
        self._body = encode_record(RECORD)

    def append(self, times: int) -> None:
        """Write so many messages, each in a transaction of its own."""
        for _ in range(times):
            self._db.execute("INSERT INTO messages (body) VALUES (?)", (self._body,))

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()


async def measure_appends(folder: Path, effort: Effort) -> list[Measured]:
    """Appends per second: one session alone, and many together, against plain SQLite one at a time."""
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

            # As many appends per session that a turn of all takes about as long as the others.
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
# What the command measures, in this order; a further measurement is one more line.
MEASUREMENTS: tuple[Measurement, ...] = (measure_appends, measure_opening, measure_starting)


async def measure(folder: Path, effort: Effort) -> list[Measured]:
    """Run every measurement, each in a folder of its own."""
    figures: list[Measured] = []
    for number, measurement in enumerate(MEASUREMENTS):
        place = folder / str(number)
        place.mkdir()
        figures += await measurement(place, effort)
    return figures


def postgres_bench() -> ModuleType:
    """Return what measures PostgreSQL. Raises `UsageError` where the driver is not installed."""
    if importlib.util.find_spec("asyncpg") is None:
        raise UsageError("measuring PostgreSQL needs the package asyncpg; run `pip install 'holdfast[postgres]'`")
    return importlib.import_module("holdfast.lab.benches.postgres")


def server_url(postgres: str) -> str | None:
    """Return the address that was given with --postgres; None: a server of one's own is wanted."""
    return None if postgres == _OWN_SERVER else postgres


@click.command("store")
@json_option
@click.option("--quick", is_flag=True, help="A few seconds instead of half a minute; noisier.")
@folder_option
@postgres_option
@click.option("--long", "is_long", is_flag=True, help=f"Open at {LONG_RECORDS:,} records: some minutes more.")
def store(folder: Path | None, postgres: str | None, *, as_json: bool, quick: bool, is_long: bool) -> None:
    """Measure a store against plain inserts into the same database; exit with 1 where a ratio is below its floor."""
    effort = QUICK if quick else FULL
    if is_long:
        effort = msgspec.structs.replace(effort, long_records=LONG_RECORDS)
    if postgres is not None:
        figures = asyncio.run(postgres_bench().measure(server_url(postgres), effort))
    else:
        with tempfile.TemporaryDirectory(prefix="holdfast-bench-", dir=folder) as place:
            figures = asyncio.run(measure(Path(place), effort))
    print_figures(figures, as_json=as_json)


# --- What sealing is worth: a session that is mostly in the archive opens like a short one, and sealing keeps up. ---


# Sealing must be at least as quick as the session that makes the records.
KEEPS_UP_FLOOR = 1.0
# Of a long session at most this share may stay live. What stays is the tail and a margin, however long the session is.
LIVE_SHARE_MAX = 0.1

_SHORT_RECORDS = 1_000
_RECORDS = 40_000
_OPENINGS = 15
_APPENDS = 500


async def measure_archive(bare: Store, folder: Path, records: int) -> list[Measured]:
    """Seal a long session into a folder and hold it against a short one; closes the store."""
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
        # Both go on to their next compaction, as sessions do: a seal is a record too, and seldom are there so many.
        for session in ("short", "long"):
            await fill(store, session, 0)
        known = await store.info("long")
        assert known is not None, "it was filled"
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
    assert lease is not None, "nobody works on it"
    await Sealer(engine).seal_behind(lease, await open_log(store, "long"))
    await store.release(lease)


@click.command("archive")
@json_option
@click.option(
    "--long", "is_long", is_flag=True, help=f"{LONG_RECORDS:,} records instead of {_RECORDS:,}: many minutes."
)
@folder_option
@postgres_option
def archive(folder: Path | None, postgres: str | None, *, as_json: bool, is_long: bool) -> None:
    """Measure a session that is mostly sealed; exit with 1 where a ratio is below its floor."""
    records = LONG_RECORDS if is_long else _RECORDS
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-", dir=folder) as place:
        if postgres is None:
            figures = asyncio.run(_measure_file(Path(place), records))
        else:
            figures = asyncio.run(
                postgres_bench().measure_archive(server_url(postgres), Path(place) / "archive", records)
            )
    print_figures(figures, as_json=as_json)
