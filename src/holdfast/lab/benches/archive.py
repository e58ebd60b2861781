"""What sealing is worth: a session that is mostly in the archive opens like a short one, and sealing keeps up.

Both sessions have the same tail and are opened in turns; the long one is sealed first, by the same code that does it in
idle moments.
"""

import asyncio
import dataclasses
import tempfile
import time
from pathlib import Path

import click

from holdfast.cli.output import json_option
from holdfast.lab.benches.harness import Appender, Measured, folder_option, tell
from holdfast.lab.benches.opening import compare_openings, engine_over, fill
from holdfast.lab.benches.store import LONG_RECORDS, address_of, on_server, postgres_option
from holdfast.ports import Store
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.engine.log import open_log
from holdfast.runtime.maintenance.sealing import Sealer
from holdfast.stores.archived import ArchivedStore
from holdfast.stores.archives import FolderArchive
from holdfast.stores.sqlite import SqliteStore

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
    """Measure a session that is mostly sealed; exit with 1 where a ratio is below its floor."""
    records = LONG_RECORDS if is_long else _RECORDS
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-", dir=folder) as place:
        if postgres is None:
            figures = asyncio.run(_measure_file(Path(place), records))
        else:
            figures = asyncio.run(on_server().measure_archive(address_of(postgres), Path(place) / "archive", records))
    tell(figures, as_json=as_json)
