"""What reads little is read by the event loop itself, where the disk is quick and nobody has to be waited for."""

import asyncio
import math
from collections.abc import AsyncIterator
from pathlib import Path
from threading import current_thread, main_thread

import apsw
import pytest

from holdfast.core.limits.bounds import Bounds
from holdfast.errors import StoreIoError
from holdfast.stores.sqlite import FEW_RECORDS, SqliteStore, reading
from holdfast.stores.sqlite import reading as sqlite_readers
from holdfast.testing.builders import an_input
from holdfast.testing.clock import ManualClock
from tests.stores.test_sqlite_writer import counted_rounds


@pytest.fixture(autouse=True)
def a_quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_readers, "SLOW_SECONDS", math.inf)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(tmp_path / "s.db", clock=ManualClock(), bounds=Bounds(inputs_waiting_max=1_000))
    yield store
    await store.close()


async def filled(store: SqliteStore, records: int) -> None:
    await asyncio.gather(*(store.admit("s", an_input(f"{number}")) for number in range(records)))


@pytest.fixture
def readers(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Of each reading of records, whether it was the loop's."""
    here: list[bool] = []
    records = reading.records

    def seen(db: apsw.Connection, session: str, after: int, limit: int | None) -> object:
        here.append(current_thread() is main_thread())
        return records(db, session, after, limit)

    monkeypatch.setattr(reading, "records", seen)
    return here


@pytest.mark.parametrize("limit", [None, 1, FEW_RECORDS, FEW_RECORDS + 1, 500])
@pytest.mark.parametrize("count", [0, 1, FEW_RECORDS - 1, FEW_RECORDS, FEW_RECORDS + 1, 40])
async def test_all_that_is_asked_for_is_read_whoever_reads_it(
    store: SqliteStore, readers: list[bool], count: int, limit: int | None
) -> None:
    await filled(store, 3 + count)

    found = await store.read("s", after=3, limit=limit)

    assert [logged.seq for logged in found] == list(range(4, 4 + min(count, limit or count)))
    is_little = count < FEW_RECORDS or (limit or count) <= FEW_RECORDS
    assert readers == ([True] if is_little and not (limit is None and count == FEW_RECORDS) else [True, False])


async def test_a_disk_that_was_slow_once_is_left_to_the_threads_for_a_while(
    store: SqliteStore, readers: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    await filled(store, 1)
    with monkeypatch.context() as slowly:
        slowly.setattr(sqlite_readers, "SLOW_SECONDS", -1.0)
        slowly.setattr(sqlite_readers, "SLOW_AGAIN_SECONDS", math.inf)
        await store.read("s")
    await store.read("s")
    store._readers._inline_after = 0.0
    await store.read("s")

    assert readers == [True, False, True]


async def test_the_loop_waits_for_nobody_who_holds_the_file(store: SqliteStore) -> None:
    """As in the moment in which another process takes the log of changes apart: a thread waits for that."""
    asked: list[str] = []

    def held(_db: apsw.Connection) -> str:
        asked.append(current_thread().name)
        if len(asked) == 1:
            raise apsw.BusyError
        return asked[-1]

    assert "holdfast-reader" in await store._read_small(held)
    assert len(asked) == 2
    assert await store._read_small(held) == main_thread().name, "the next is read here again"


async def test_what_goes_wrong_on_the_loop_is_told_by_a_thread_and_passes(store: SqliteStore) -> None:
    await filled(store, 1)
    is_broken = True

    def ask(db: apsw.Connection) -> int:
        if is_broken:
            db.execute("SELECT count(*) FROM nowhere")
        return int(db.execute("SELECT count(*) FROM sessions").get)

    with pytest.raises(StoreIoError, match="nowhere"):
        await store._read_small(ask)
    is_broken = False
    assert await store._read_small(ask) == 1
    assert await store._readers.query_inline(ask) == (1,)


async def test_others_have_their_turn_beside_whoever_reads_without_end(store: SqliteStore) -> None:
    await filled(store, 1)

    with counted_rounds() as rounds:
        for _ in range(100):
            await store.info("s")
            await store.read("s", after=1)

    assert len(rounds) > 100
