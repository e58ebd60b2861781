"""The same with real processes on a real file: SIGKILL right before and right after every write."""

import asyncio
import multiprocessing
import os
import random
import signal
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import NoReturn

import pytest

from holdfast.runtime.clock import SystemClock
from holdfast.stores.blobs import FolderBlobs
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.crashes import CrashingStore, CrashPoint, Side, check_log, every_point
from holdfast.testing.engines import a_hold, an_engine
from tests.crashes.scenario import BOUNDS, CLIENT_IDS, INPUTS, SESSION, a_model, tools

# A process that neither ends nor dies within this time hangs; the slowest seen took two seconds.
HANGS_SECONDS = 60
KILLED = -signal.SIGKILL


def kill_myself() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("SIGKILL cannot be survived")


def note(path: Path, line: str) -> None:
    """Write a line that is on disk when this returns: an effect on the world, or an acknowledgement."""
    with path.open("a") as file:
        file.write(line + "\n")
        file.flush()
        os.fsync(file.fileno())


def noted(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


async def live(folder: Path, point: CrashPoint | None) -> int:
    """Be one process: send both inputs, note what was accepted, wait for the answers; return how often it wrote."""
    kept = SqliteStore(folder / "store.db", clock=SystemClock(), bounds=BOUNDS)
    store = CrashingStore(kept, point, die=kill_myself)
    blobs = FolderBlobs(folder / "blobs")
    effects = tools(lambda effect: note(folder / "effects", effect))
    engine = an_engine(a_model(), store=store, blobs=blobs, bounds=BOUNDS, tools=effects)
    async with a_hold(engine) as client:
        session = await client.session(SESSION)
        for text, client_id in zip(INPUTS, CLIENT_IDS, strict=True):
            turn = await session.post(text, client_id=client_id)
            note(folder / "accepted", str(turn))
        for turn_noted in set(noted(folder / "accepted")):
            await session.wait(int(turn_noted))
    await kept.close()
    return store.writes


def child(folder: Path, point: CrashPoint | None) -> None:
    writes = asyncio.run(live(folder, point))
    note(folder / "writes", str(writes))


def run(folder: Path, point: CrashPoint | None) -> int:
    """Run one process to its end and return its exit code."""
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


async def check(folder: Path) -> None:
    store = SqliteStore(folder / "store.db", clock=SystemClock(), bounds=BOUNDS)
    records = await store.read(SESSION)
    await store.close()
    check_log(records, accepted=map(int, noted(folder / "accepted")))
    assert noted(folder / "effects").count("pay") <= 2


@pytest.fixture(scope="module")
def writes(tmp_path_factory: pytest.TempPathFactory) -> int:
    folder = tmp_path_factory.mktemp("undisturbed")
    assert run(folder, None) == 0
    return int(noted(folder / "writes")[0])


async def test_a_killed_process_is_continued_by_the_next_whatever_it_was_writing(tmp_path: Path, writes: int) -> None:
    """FM-101, FM-102, FM-103, FM-110."""
    killed = 0
    for number, point in enumerate(every_point(writes)):
        folder = tmp_path / str(number)
        folder.mkdir()
        killed += run(folder, point) == KILLED
        assert run(folder, None) == 0
        try:
            await check(folder)
        except AssertionError as error:
            raise AssertionError(f"killed {point}: {error}") from error
    # How often a process writes depends a little on timing, so the last points may lie beyond its end.
    assert killed >= 2 * writes - 6


@pytest.mark.parametrize("seed", range(3))
async def test_a_process_that_is_killed_again_and_again_gets_there(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(6):
        run(tmp_path, CrashPoint(rng.randint(1, 10), rng.choice(list(Side))))
    assert run(tmp_path, None) == 0

    await check(tmp_path)
