"""A process killed at any statement of a migration: the layout before or the one after, and the next start goes on."""

import asyncio
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from holdfast.stores.sqlite import SqliteStore
from holdfast.stores.sqlite import file as sqlite_file
from holdfast.testing.builders import ManualClock, a_notice, an_input, log_of
from tests.stores.older import a_store_of_layout, fill, schema_of

NEWEST = sqlite_file.migrations()[-1][0]
RECORDS = (an_input("written long ago", client_id="c"), a_notice("and this"))
# One process that forks a life for each statement to die at: the first line of its output says how many died.
LIVES = """
import os, shutil, signal, sys
from pathlib import Path
import apsw
from holdfast.stores.sqlite.file import prepare
from holdfast.stores.sqlite.process_lock import Instances

source, folder = map(Path, sys.argv[1:])

def live(path, point):
    seen = 0
    def die(cursor, sql, bindings):
        nonlocal seen
        seen += 1
        if seen == point:
            os.kill(os.getpid(), signal.SIGKILL)
        return True
    apsw.connection_hooks.append(lambda db: setattr(db, "exec_trace", die))
    prepare(path, Instances(path))

for point in range(1, 10_000):
    path = folder / str(point) / "s.db"
    path.parent.mkdir()
    shutil.copy(source, path)
    child = os.fork()
    if child == 0:
        live(path, point)
        os._exit(0)
    if os.waitpid(child, 0)[1] == 0:
        print(point - 1)
        break
"""


def lives_of(source: Path, folder: Path) -> int:
    """Kill one process after the other, and return how many died before one came through."""
    command = [sys.executable, "-c", LIVES, str(source), str(folder)]
    return int(subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout)


@pytest.mark.parametrize("version", [1, NEWEST - 1])
async def test_a_process_that_is_killed_while_it_migrates_is_continued_by_the_next(
    tmp_path: Path, version: int
) -> None:
    await SqliteStore(tmp_path / "fresh.db", clock=ManualClock()).close()
    source, folder = a_store_of_layout(version, tmp_path / "source.db"), tmp_path / "lives"
    fill(source, *RECORDS)
    folder.mkdir()

    died = await asyncio.to_thread(lives_of, source, folder)

    assert died >= 10, "each step is several statements"
    for point in range(1, died + 1):
        path = folder / str(point) / "s.db"
        with closing(apsw.Connection(str(path))) as db:
            found = db.execute("PRAGMA user_version").get
        assert found in range(version, NEWEST + 1), point
        store = SqliteStore(path, clock=ManualClock())
        records = await log_of(store)
        await store.close()
        assert records == list(RECORDS), point
        assert schema_of(path) == schema_of(tmp_path / "fresh.db"), point
        shutil.rmtree(path.parent)
