"""Group commit: many operations in one transaction, none of which can spoil another; trouble is told and passes."""

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Event

import apsw
import pytest

from holdfast.core.limits.bounds import Bounds
from holdfast.errors import (
    ClientIdReusedError,
    LeaseLostError,
    QueueFullError,
    SeqMovedError,
    StoreBusyError,
    StoreFullError,
    StoreIoError,
)
from holdfast.ports import Admission
from holdfast.stores.sqlite import SqliteStore
from holdfast.stores.sqlite import batch as sqlite_batch
from holdfast.stores.sqlite import file as sqlite_file
from holdfast.stores.sqlite import write_connection as sqlite_pen
from holdfast.stores.sqlite import write_connection as sqlite_wal
from holdfast.stores.sqlite import writer as sqlite_writer
from holdfast.stores.sqlite.batch import Batch
from holdfast.testing.builders import ManualClock, a_notice, a_reply, an_input, lease_on, log_of


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s.db"


@pytest.fixture(autouse=True)
def a_slow_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the thread does is looked at here, so it does everything."""
    monkeypatch.setattr(sqlite_pen, "QUICK_SECONDS", 0.0)


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(path, clock=ManualClock(), bounds=Bounds(inputs_waiting_max=3))
    yield store
    await store.close()


@contextmanager
def someone_else_writing(path: Path) -> Iterator[None]:
    """Hold the database as another process would in the middle of a transaction."""
    with closing(apsw.Connection(str(path))) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


@contextmanager
def counted_rounds() -> Iterator[list[None]]:
    """Count the turns that another task has meanwhile: one entry for each."""
    rounds: list[None] = []

    async def count() -> None:
        while True:
            rounds.append(None)
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    try:
        yield rounds
    finally:
        counting.cancel()


async def until_waiting(store: SqliteStore, operations: int) -> None:
    """Return when so many operations wait for the database."""
    for _ in range(operations + 10):
        # One round of the event loop is enough for every task to ask.
        await asyncio.sleep(0)
    assert len(store._writer._inbox) + len(store._writer._in_flight) == operations


async def test_what_waits_together_is_committed_together(store: SqliteStore, path: Path) -> None:
    await store.admit("before", an_input())
    commits = store.commits

    with someone_else_writing(path):
        sending = asyncio.gather(*(store.admit(f"s{number}", an_input()) for number in range(100)))
        await until_waiting(store, 100)

    assert await sending == [Admission(1, is_new=True)] * 100
    assert store.commits == commits + 1


async def test_a_transaction_takes_a_bounded_number_of_bytes(store: SqliteStore, path: Path) -> None:
    await store.admit("before", an_input())
    commits = store.commits
    text = "x" * (sqlite_writer.BATCH_BYTES_MAX // 2)

    with someone_else_writing(path):
        sending = asyncio.gather(*(store.admit(f"s{number}", an_input(text)) for number in range(4)))
        await until_waiting(store, 4)
    await sending

    assert store.commits == commits + 2


async def test_refused_operations_do_not_spoil_the_others_in_their_transaction(store: SqliteStore, path: Path) -> None:
    lease = await lease_on(store, "work")
    stale = await lease_on(store, "taken")
    await lease_on(store, "taken")
    await store.admit("known", an_input("one", client_id="c"))
    for number in range(3):
        await store.admit("full", an_input(str(number)))
    commits = store.commits

    with someone_else_writing(path):
        asked = asyncio.gather(
            store.append(lease, [a_notice("first")], after=0),
            store.append(lease, [a_notice("missed one")], after=0),
            store.append(stale, [a_notice("stale")], after=0),
            store.admit("known", an_input("two", client_id="c")),
            store.admit("full", an_input("one too many")),
            store.admit("known", an_input("one", client_id="c")),
            store.append(lease, [a_notice("second")], after=1),
            return_exceptions=True,
        )
        await until_waiting(store, 7)
    answers = await asked

    assert store.commits == commits + 1
    assert [answer if isinstance(answer, int | Admission) else type(answer) for answer in answers] == [
        1,
        SeqMovedError,
        LeaseLostError,
        ClientIdReusedError,
        QueueFullError,
        Admission(1, is_new=False),
        2,
    ]
    assert await log_of(store, "work") == [a_notice("first"), a_notice("second")]
    assert await log_of(store, "known") == [an_input("one", client_id="c")]
    assert (await log_of(store, "taken"), len(await log_of(store, "full"))) == ([], 3)


async def test_a_task_cancelled_before_its_turn_writes_nothing(store: SqliteStore, path: Path) -> None:
    with someone_else_writing(path):
        sending = [asyncio.create_task(store.admit("s", an_input(text))) for text in ("withdrawn", "kept")]
        await until_waiting(store, 2)
        sending[0].cancel()
        await asyncio.wait([sending[0]])

    assert await sending[1] == Admission(1, is_new=True)
    assert await log_of(store) == [an_input("kept")]


async def test_a_full_disk_is_told_to_everyone_and_passes(store: SqliteStore) -> None:
    lease = await lease_on(store)
    await store.append(lease, [a_notice("before")], after=0)

    def limit_pages(batch: Batch, pages: int) -> None:
        batch._db.execute(f"PRAGMA max_page_count = {pages}")

    await store._writer.run(lambda batch: limit_pages(batch, 1))
    answers = await asyncio.gather(
        store.append(lease, [a_reply("x" * 200_000)], after=1),
        store.admit("t", an_input("y" * 200_000)),
        return_exceptions=True,
    )
    await store._writer.run(lambda batch: limit_pages(batch, 1_000_000))

    assert [type(answer) for answer in answers] == [StoreFullError, StoreFullError]
    assert (await log_of(store), await store.info("t")) == ([a_notice("before")], None)
    assert await store.append(lease, [a_notice("after")], after=1) == 2
    assert await log_of(store) == [a_notice("before"), a_notice("after")]


async def test_a_failing_file_is_told_to_everyone_in_the_transaction_and_passes(store: SqliteStore, path: Path) -> None:
    lease = await lease_on(store)

    def fail(_batch: Batch) -> None:
        raise apsw.IOError("disk I/O error")

    with someone_else_writing(path):
        asked = asyncio.gather(
            store.append(lease, [a_notice("lost")], after=0),
            store.admit("s", an_input("lost")),
            store._writer.run(fail),
            return_exceptions=True,
        )
        await until_waiting(store, 3)
    answers = await asked

    assert [type(answer) for answer in answers] == [StoreIoError] * 3
    assert await log_of(store) == []
    assert await store.append(lease, [a_notice("again")], after=0) == 1


async def test_the_writer_dying_of_a_bug_leaves_nobody_waiting(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracebacks: list[object] = []
    # The thread's own traceback would be a warning, and warnings are errors here.
    monkeypatch.setattr("threading.excepthook", tracebacks.append)

    def bug(_batch: Batch) -> None:
        raise ZeroDivisionError

    with someone_else_writing(path):
        asked = asyncio.gather(store._writer.run(bug), store.admit("s", an_input()), return_exceptions=True)
        await until_waiting(store, 2)
    answers = await asked
    await asyncio.to_thread(store._writer._thread.join)

    assert [type(answer) for answer in answers] == [StoreIoError, StoreIoError]
    assert (await store.read("s"), len(tracebacks)) == ([], 1)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_file, "BUSY_SECONDS", 0.02)
    monkeypatch.setattr(sqlite_writer, "BUSY_SECONDS", 0.02)


@pytest.mark.usefixtures("impatient")
async def test_a_database_that_another_process_holds_is_busy_and_then_is_not(path: Path) -> None:
    store = SqliteStore(path, clock=ManualClock())
    with someone_else_writing(path):
        answers = await asyncio.gather(
            store.admit("s", an_input("a")), store.acquire("s", "w", seconds=1), return_exceptions=True
        )

    assert [type(answer) for answer in answers] == [StoreBusyError, StoreBusyError]
    assert await store.admit("s", an_input("b")) == Admission(1, is_new=True)
    await store.close()


@pytest.mark.usefixtures("impatient")
async def test_a_process_that_keeps_its_turn_makes_the_store_busy(path: Path) -> None:
    store = SqliteStore(path, clock=ManualClock())
    folder = os.open(path.with_name("s.db-owners"), os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)

    with pytest.raises(StoreBusyError):
        await store.admit("s", an_input("a"))

    os.close(folder)
    assert await store.admit("s", an_input("b")) == Admission(1, is_new=True)
    await store.close()


async def test_too_many_that_wait_are_refused(store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_writer, "WAITING_MAX", 5)

    with someone_else_writing(path):
        sending = [asyncio.create_task(store.admit(f"s{number}", an_input())) for number in range(10)]
        refused, _ = await asyncio.wait(sending, return_when=asyncio.FIRST_COMPLETED)
    answers = await asyncio.gather(*sending, return_exceptions=True)

    assert {type(task.exception()) for task in refused} == {StoreBusyError}
    assert {type(answer) for answer in answers} == {StoreBusyError, Admission}


async def test_recent_records_are_moved_to_the_others_and_read_from_both(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_batch, "RECENT_RECORDS_MAX", 10)
    lease, other = await lease_on(store), await lease_on(store, "other")
    for seq in range(12):
        await store.append(lease, [a_notice(f"s {seq}")], after=seq)
        await store.append(other, [a_notice(f"other {seq}")], after=seq)
    await store.append(lease, [a_notice("s 12")], after=12)

    with closing(apsw.Connection(str(path))) as db:
        counts = [db.execute(f"SELECT count(*) FROM {table}").get for table in ("records", "recent")]
    assert (sum(counts), counts[1] < 10) == (25, True)
    assert await log_of(store) == [a_notice(f"s {seq}") for seq in range(13)]
    assert await log_of(store, "other") == [a_notice(f"other {seq}") for seq in range(12)]
    assert [each.seq for each in await store.read("s", after=7, limit=4)] == [8, 9, 10, 11]
    assert [info.last_seq for info in await store.sessions()] == [12, 13]


async def test_processes_that_live_for_a_few_records_each_leave_few_recent_ones(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_batch, "RECENT_RECORDS_MAX", 10)
    for life in range(12):
        store = SqliteStore(path, clock=ManualClock())
        lease = await lease_on(store)
        await store.append(lease, [a_notice(f"{life}.{number}") for number in range(3)], after=3 * life)
        await store.release(lease)
        await store.close()

    with closing(apsw.Connection(str(path))) as db:
        counts = [db.execute(f"SELECT count(*) FROM {table}").get for table in ("records", "recent")]
    assert (sum(counts), counts[1] < 10) == (36, True)


async def test_what_another_process_writes_right_before_a_move_is_noticed(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = await lease_on(store)
    monkeypatch.setattr(sqlite_batch, "RECENT_RECORDS_MAX", 1)
    enter_queue, turns = store._instances.enter_queue, list[float]()

    def let_another_take_the_lease(seconds_max: float) -> None:
        turns.append(seconds_max)
        # The first turn is that of the append, the second that of the move behind it.
        if len(turns) == 2:
            with closing(apsw.Connection(str(path))) as other:
                other.execute("UPDATE sessions SET fence = fence + 1")
        enter_queue(seconds_max)

    monkeypatch.setattr(store._instances, "enter_queue", let_another_take_the_lease)
    await store.append(lease, [a_notice("mine")], after=0)

    with pytest.raises(LeaseLostError):
        await store.append(lease, [a_notice("no longer mine")], after=1)


async def test_records_that_cannot_be_moved_stay_where_they_are(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = await lease_on(store)
    await store.append(lease, [a_notice("one")], after=0)
    monkeypatch.setattr(sqlite_batch, "RECENT_RECORDS_MAX", 1)

    def fail(_db: apsw.Connection) -> None:
        raise apsw.FullError("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(sqlite_batch, "move_recent", fail)
        assert await store.append(lease, [a_notice("two")], after=1) == 2
        assert await store.append(lease, [a_notice("three")], after=2) == 3
    assert await store.append(lease, [a_notice("four")], after=3) == 4
    await store.close()

    with closing(apsw.Connection(str(path))) as db:
        counts = [db.execute(f"SELECT count(*) FROM {table}").get for table in ("records", "recent")]
    assert counts == [4, 0]


async def test_the_log_of_changes_does_not_grow_without_end(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_wal, "CHECKPOINT_PAGES", 50)
    lease = await lease_on(store)
    seq = 0

    for _ in range(300):
        seq = await store.append(lease, [a_reply("x" * 3_000)], after=seq)

    # About 600 pages were written. Some more than 50 are left: a copy is made after a commit, not within it.
    assert path.with_name("s.db-wal").stat().st_size < 100 * 4_200


def read_without_pause(path: Path, stop: Event) -> None:
    """Read so that at every instant some transaction is open: the next begins before the last one ends."""
    with closing(apsw.Connection(str(path))) as one, closing(apsw.Connection(str(path))) as two:
        older, newer = one, two
        older.execute("BEGIN; SELECT count(*) FROM sessions").fetchall()
        while not stop.is_set():
            newer.execute("BEGIN; SELECT count(*) FROM sessions").fetchall()
            older.execute("ROLLBACK")
            older, newer = newer, older
        older.execute("ROLLBACK")


async def test_readers_that_never_pause_do_not_keep_the_log_growing(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_wal, "CHECKPOINT_PAGES", 20)
    monkeypatch.setattr(sqlite_wal, "CHECKPOINT_FORCED_PAGES", 60)
    lease, seq, stop = await lease_on(store), 0, Event()
    reading = asyncio.create_task(asyncio.to_thread(read_without_pause, path, stop))

    for _ in range(150):
        seq = await store.append(lease, [a_reply("x" * 12_000)], after=seq)
    stop.set()
    await reading

    # About 700 pages were written. Passive copies alone would leave all of them: no reader ever gives way.
    assert path.with_name("s.db-wal").stat().st_size < 150 * 4_200
