"""Dying at every step of sealing, in process and by SIGKILL: the old state or the new one, then the next goes on."""

import asyncio
import contextlib
import dataclasses
import logging
import multiprocessing
import os
import signal
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import NoReturn

import pytest
from msgspec.structs import replace

from holdfast.core.integrity.segments import Sealing, unpack_segment
from holdfast.ports import Archive, Store
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.engine.context import Engine
from holdfast.runtime.engine.log import Log, open_log
from holdfast.runtime.maintenance.sealing import Sealer
from holdfast.stores.archived import ArchivedStore
from holdfast.stores.archives import FolderArchive, MemoryArchive
from holdfast.stores.memory import MemoryStore
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.builders import ManualClock, a_notice, an_input
from holdfast.testing.crashes import CrashingArchive, CrashingStore, CrashPoint, Died, Side, every_point
from holdfast.testing.engines import FunctionModel, an_engine, says
from holdfast.types.records import AnyRecord, CompactionApplied, Logged, SegmentSealed

SESSION = "crash:seal"
SEALING = Sealing(margin_records=2, records_min=1, segment_records_max=5)
# Three segments: five, five and two records.
RECORDS = 18
BOUNDARY = 15
# A process that neither ends nor dies within this time hangs; the slowest seen took a second.
HANGS_SECONDS = 60


async def fill(store: Store) -> list[AnyRecord]:
    """Write what is to be sealed, and return it."""
    lease = await store.acquire(SESSION, "writer", seconds=30)
    assert lease is not None
    records = [a_notice(f"sentence {number}") for number in range(1, RECORDS)]
    await store.append(lease, records, after=0)
    await store.admit(SESSION, an_input("last", client_id="c1"))
    await store.release(lease)
    return [*records, an_input("last", client_id="c1")]


def an_engine_over(store: Store, archive: Archive) -> Engine:

    engine = an_engine(FunctionModel(lambda _: says("ok")), store=ArchivedStore(store, archive))
    return dataclasses.replace(engine, archive=archive, sealing=SEALING)


async def seal(store: Store, archive: Archive, owner: str) -> None:
    """Be a process that seals what is due."""
    engine = an_engine_over(store, archive)
    lease = await engine.store.acquire(SESSION, owner, seconds=30)
    assert lease is not None, "a dead process's lease is free"
    log = await open_log(engine.store, SESSION)
    await Sealer(engine).seal_due(lease, compacted(log))
    await engine.store.release(lease)


def compacted(log: Log) -> Log:
    """The same log, as if it had been compacted and were at rest."""

    applied = CompactionApplied(1, BOUNDARY, "what was said", 2, 1)
    log.turn = replace(log.turn, compaction=applied, compaction_seq=BOUNDARY, waiting=())
    return log


async def check(store: Store, archive: Archive, expected: list[AnyRecord], *, is_done: bool) -> None:
    """Check that every record is there once, live or sealed, and that each seal has its segment."""
    segments = await store.segments(SESSION)
    live = await store.live_rows(SESSION, limit=1_000)
    read: list[Logged] = await ArchivedStore(store, archive).read(SESSION)
    said = [logged.record for logged in read if not isinstance(logged.record, SegmentSealed)]
    seals = [logged.record.name for logged in read if isinstance(logged.record, SegmentSealed)]
    assert said == expected
    assert [logged.seq for logged in read] == list(range(1, len(read) + 1))
    assert seals == [segment.name for segment in segments]
    sealed = [row for one in segments for row in unpack_segment(await archive.get(one.name))[1]]
    assert [row.seq for row in (*sealed, *live)] == list(range(1, len(read) + 1))
    if is_done:
        assert [(one.first, one.last) for one in segments] == [(1, 5), (6, 10), (11, 12)]
        # What was put and not sealed before the crash is what was sealed after it: nothing is left over.
        assert await archive.names() == seals


class World:
    """What outlives a process."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = MemoryStore(clock=self.clock)
        self.archive = MemoryArchive()

    async def live(self, point: CrashPoint | None) -> int:
        store = CrashingStore(self.store, point)
        work = asyncio.create_task(seal(store, CrashingArchive(self.archive, store), "worker"))
        with contextlib.suppress(Died):
            await work
        self.clock.advance(31)
        return store.writes


@pytest.fixture
async def _the_dead_are_silent(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)


@pytest.mark.usefixtures("_the_dead_are_silent")
async def test_a_process_that_dies_at_any_step_of_sealing_leaves_all_records_once() -> None:
    world = World()
    expected = await fill(world.store)
    writes = await world.live(None)
    await check(world.store, world.archive, expected, is_done=True)
    assert writes >= 12, "lease, snapshot, and three times put, read back and seal"
    for point in every_point(writes):
        world = World()
        expected = await fill(world.store)
        await world.live(point)
        try:
            await check(world.store, world.archive, expected, is_done=False)
            await world.live(None)
            await check(world.store, world.archive, expected, is_done=True)
        except AssertionError as error:
            raise AssertionError(f"died {point}: {error}") from error


# The same with real processes on real files.


def kill_myself() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("SIGKILL cannot be survived")


async def live(folder: Path, point: CrashPoint | None) -> None:
    kept = SqliteStore(folder / "store.db", clock=SystemClock())
    store = CrashingStore(kept, point, die=kill_myself)
    await seal(store, CrashingArchive(FolderArchive(folder / "archive"), store), "worker")
    await kept.close()


def child(folder: Path, point: CrashPoint | None) -> None:
    asyncio.run(live(folder, point))


def run(folder: Path, point: CrashPoint | None) -> int:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    process: ForkServerProcess = context.Process(target=child, args=(folder, point))
    process.start()
    process.join(HANGS_SECONDS)
    if process.exitcode is None:
        process.kill()
        process.join()
        pytest.fail(f"hung when told to die {point}")
    code = process.exitcode
    process.close()
    return code


# Around each step of the first segment, and around the last seal.
POINTS = [CrashPoint(write, side) for write in (2, 3, 4, 5, 11) for side in Side]


@pytest.mark.parametrize("point", POINTS, ids=str)
async def test_a_process_that_is_killed_while_it_seals_is_continued_by_the_next(
    tmp_path: Path, point: CrashPoint
) -> None:
    store = SqliteStore(tmp_path / "store.db", clock=SystemClock())
    expected = await fill(store)
    await store.close()

    assert run(tmp_path, point) == -signal.SIGKILL
    store = SqliteStore(tmp_path / "store.db", clock=SystemClock())
    await check(store, FolderArchive(tmp_path / "archive"), expected, is_done=False)
    await store.close()
    assert run(tmp_path, None) == 0
    store = SqliteStore(tmp_path / "store.db", clock=SystemClock())
    await check(store, FolderArchive(tmp_path / "archive"), expected, is_done=True)
    await store.close()
