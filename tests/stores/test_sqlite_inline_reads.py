"""What reads little is read by the event loop itself, where the disk is quick and nobody has to be waited for."""

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from threading import current_thread, main_thread

import apsw
import pytest

from holdfast.core.limits.bounds import Bounds
from holdfast.errors import StoreIoError
from holdfast.stores.sqlite import FEW_RECORDS, SqliteStore, reading
from holdfast.stores.sqlite import reading as sqlite_readers
from holdfast.stores.sqlite import writer as sqlite_writer
from holdfast.testing.builders import ManualClock, an_input
from holdfast.types.records import Logged
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

    newest = reading.RecentPlaces.records

    def seen_newest(
        places: reading.RecentPlaces, db: apsw.Connection, session: str, after: int, limit: int
    ) -> list[Logged] | None:
        found = newest(places, db, session, after, limit)
        if found is not None:
            here.append(current_thread() is main_thread())
        return found

    monkeypatch.setattr(reading, "records", seen)
    monkeypatch.setattr(reading.RecentPlaces, "records", seen_newest)
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


async def test_a_disk_that_was_slow_some_times_in_a_row_is_left_to_the_threads_for_a_while(
    store: SqliteStore, readers: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    await filled(store, 1)
    with monkeypatch.context() as slowly:
        slowly.setattr(sqlite_readers, "SLOW_SECONDS", -1.0)
        slowly.setattr(sqlite_readers, "SLOW_AGAIN_SECONDS", math.inf)
        for _ in range(sqlite_readers.SLOW_READS - 1):
            await store.read("s")
        assert store._readers._inline_after == 0.0
        await store.read("s")
    await store.read("s")
    store._readers._inline_after = 0.0
    await store.read("s")

    assert readers == [*[True] * sqlite_readers.SLOW_READS, False, True]


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


async def test_others_have_their_turn_beside_whoever_reads_without_end(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await filled(store, 1)
    monkeypatch.setattr(sqlite_writer, "YIELD_SECONDS", 0.0)

    with counted_rounds() as rounds:
        for _ in range(100):
            await store.read("s", after=1)
    assert len(rounds) >= 100

    with counted_rounds() as rounds:
        for _ in range(100):
            await store.info("s")
    # The first in an iteration of the event loop is always in time.
    assert len(rounds) >= 50


async def test_the_summary_of_a_session_that_this_store_has_written_takes_no_read(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await filled(store, 3)
    from_the_file = await store._read(lambda db: reading.info(db, "s"))
    monkeypatch.setattr(reading, "info", no_read)

    assert await store.info("s") == from_the_file
    assert from_the_file is not None
    assert from_the_file.last_seq == 3


def no_read(_db: apsw.Connection, _session: str) -> None:
    pytest.fail("the file was read")


async def add_a_record(other: SqliteStore) -> None:
    await other.admit("s", an_input("of the other"))


async def add_a_record_elsewhere(other: SqliteStore) -> None:
    await other.admit("another", an_input("of the other"))


async def delete_the_session(other: SqliteStore) -> None:
    lease = await other.acquire("s", "worker", seconds=60.0)
    assert lease is not None
    await other.delete(lease)


@pytest.mark.parametrize(
    ("change", "last_seq"), [(add_a_record, 4), (add_a_record_elsewhere, 3), (delete_the_session, None)]
)
async def test_after_a_commit_of_another_store_the_summary_is_read_from_the_file(
    store: SqliteStore, tmp_path: Path, change: Callable[[SqliteStore], Awaitable[None]], last_seq: int | None
) -> None:
    await filled(store, 3)
    other = SqliteStore(tmp_path / "s.db", clock=ManualClock())
    try:
        await change(other)
    finally:
        await other.close()

    known = await store.info("s")

    assert (known.last_seq if known is not None else None) == last_seq


async def test_a_session_that_was_only_leased_here_has_the_time_of_its_newest_record(
    store: SqliteStore, tmp_path: Path
) -> None:
    await filled(store, 3)
    before = await store.info("s")
    other = SqliteStore(tmp_path / "s.db", clock=ManualClock(1_000.0))
    try:
        await other.acquire("s", "worker", seconds=60.0)

        assert await other.info("s") == before
    finally:
        await other.close()


async def test_a_summary_is_read_from_the_file_while_the_writer_is_busy(store: SqliteStore) -> None:
    await filled(store, 3)
    with store._writer._connection.lock:
        known = await store.info("s")

    assert known is not None
    assert known.last_seq == 3


async def test_a_write_connection_that_fails_leaves_the_summary_to_the_readers(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await filled(store, 3)

    def broken(_session: str) -> None:
        raise apsw.IOError

    monkeypatch.setattr(store._writer._connection, "info", broken)
    known = await store.info("s")

    assert known is not None
    assert known.last_seq == 3


async def test_a_reader_that_has_seen_everything_reads_no_row_of_another_session_again(store: SqliteStore) -> None:
    await filled(store, 3)
    await store.admit("quiet", an_input("once"))
    await filled(store, 600)
    seqs = {"s": 603, "quiet": 1}
    for session, last in seqs.items():
        assert await store.read(session, after=last) == []
    inline = store._readers._inline
    assert inline is not None
    steps: list[None] = []

    def count() -> bool:
        steps.append(None)
        return False

    inline.set_progress_handler(count, 1)

    for session, last in seqs.items():
        assert await store.read(session, after=last) == []

    assert len(steps) < 200, "instructions of SQLite; a scan of the recent records takes thousands"


async def test_recent_records_that_were_moved_or_changed_by_others_are_read_anew(
    store: SqliteStore, tmp_path: Path
) -> None:
    await filled(store, 5)
    assert [logged.seq for logged in await store.read("s", after=3)] == [4, 5]
    other = SqliteStore(tmp_path / "s.db", clock=ManualClock())
    await other.admit("s", an_input("of another process"))
    assert [logged.seq for logged in await store.read("s", after=5)] == [6]
    await asyncio.to_thread(_move_recent, store)
    assert await store.read("s", after=6) == []
    await other.admit("t", an_input("at the place of a moved one"))
    await other.admit("s", an_input("after the move"))
    assert [logged.seq for logged in await store.read("s", after=6)] == [7]
    assert [logged.seq for logged in await store.read("s", after=2)] == [3, 4, 5, 6, 7]
    await other.close()


def _move_recent(store: SqliteStore) -> None:
    with store._writer._connection.lock:
        store._writer._connection._move_recent()
