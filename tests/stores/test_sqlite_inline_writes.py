"""A single small operation on a quick disk is written by the event loop itself, and only such a one."""

import asyncio
import math
from collections.abc import AsyncIterator
from pathlib import Path
from threading import current_thread, main_thread

import apsw
import pytest

from holdfast.errors import SeqMovedError, StoreIoError
from holdfast.ports import Admission
from holdfast.stores.sqlite import SqliteStore
from holdfast.stores.sqlite import batch as sqlite_batch
from holdfast.stores.sqlite import write_connection as sqlite_pen
from holdfast.stores.sqlite import writer as sqlite_writer
from holdfast.stores.sqlite.batch import Batch
from holdfast.testing.builders import ManualClock, a_notice, an_input, lease_on, log_of
from tests.stores.test_sqlite_writer import counted_rounds, someone_else_writing, until_waiting


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s.db"


@pytest.fixture
async def store(path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SqliteStore]:
    """A store on a disk that counts as quick, and that has written before."""
    monkeypatch.setattr(sqlite_pen, "QUICK_SECONDS", math.inf)
    store = SqliteStore(path, clock=ManualClock())
    await store.admit("before", an_input())
    yield store
    await store.close()


async def writes_here(store: SqliteStore, *, size_bytes: int = 0) -> bool:
    """Whether an operation that is asked for now is done by the loop's own thread."""

    def look(_batch: Batch) -> bool:
        return current_thread() is main_thread()

    return await store._writer.run(look, size_bytes=size_bytes)


async def test_what_is_alone_and_small_is_written_by_the_loop(store: SqliteStore) -> None:
    assert await writes_here(store)
    assert not await writes_here(store, size_bytes=sqlite_writer.INLINE_BYTES_MAX + 1)


async def test_a_slow_disk_is_left_to_the_thread(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_pen, "QUICK_SECONDS", 0.0)

    assert not await writes_here(store)


async def test_of_those_that_come_together_only_the_first_is_not_grouped(store: SqliteStore) -> None:
    first_commits = store.commits

    await asyncio.gather(*(store.admit(f"a{number}", an_input()) for number in range(50)))
    second_commits = store.commits
    await asyncio.gather(*(store.admit(f"b{number}", an_input()) for number in range(50)))

    # The first fifty came as a surprise; from then on company is expected.
    assert (second_commits - first_commits, store.commits - second_commits) == (2, 1)


async def test_tasks_that_append_together_share_every_commit_but_the_first(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The first task writes inline once and is then alone in an iteration of the loop, while the others wait.
    monkeypatch.setattr(sqlite_writer, "YIELD_SECONDS", 0.0)

    async def send(task: int) -> None:
        for number in range(20):
            await store.admit(f"s{task}", an_input(str(number)))

    commits = store.commits
    await asyncio.gather(*(send(task) for task in range(16)))

    assert store.commits - commits <= 22


async def test_after_company_has_gone_the_loop_writes_again(store: SqliteStore) -> None:
    await asyncio.gather(*(store.admit(f"s{number}", an_input()) for number in range(5)))

    answers = [await writes_here(store) for _ in range(3)]

    assert answers == [False, True, True]


async def test_a_task_that_only_appends_lets_the_others_run_when_its_time_is_up(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_writer, "YIELD_SECONDS", 0.0)

    with counted_rounds() as rounds:
        lease = await lease_on(store)
        for after in range(20):
            await store.append(lease, [a_notice(str(after))], after=after)

    assert len(rounds) >= 20


async def test_a_task_that_only_appends_costs_no_round_of_the_loop_before_its_time_is_up(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_writer, "YIELD_SECONDS", math.inf)
    lease = await lease_on(store)

    with counted_rounds() as rounds:
        for after in range(20):
            await store.append(lease, [a_notice(str(after))], after=after)

    assert rounds == []
    assert len(await log_of(store, lease.session)) == 20


async def test_the_loop_never_waits_for_another_process(store: SqliteStore, path: Path) -> None:
    with someone_else_writing(path):
        sending = asyncio.create_task(store.admit("s", an_input()))
        # Were the loop to wait for the file, this would not come back before the other has let go.
        await until_waiting(store, 1)
        assert not sending.done()

    assert await sending == Admission(1, is_new=True)


async def test_what_is_refused_is_told_and_leaves_nothing(store: SqliteStore) -> None:
    lease = await lease_on(store)

    with pytest.raises(SeqMovedError):
        await store.append(lease, [a_notice("too far")], after=7)

    assert await log_of(store) == []
    assert await store.append(lease, [a_notice("right")], after=0) == 1


async def test_a_failing_file_is_told_and_passes(store: SqliteStore) -> None:
    def fail(_batch: Batch) -> None:
        raise apsw.IOError("disk I/O error")

    with pytest.raises(StoreIoError):
        await store._writer.run(fail)

    assert await store.admit("s", an_input()) == Admission(1, is_new=True)


async def test_a_bug_reaches_whoever_asked_and_nothing_of_it_is_kept(store: SqliteStore) -> None:
    def bug(batch: Batch) -> None:
        batch.admit("s", b'{"half": "done"}', "", inputs_waiting_max=None)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await store._writer.run(bug)

    assert await log_of(store, "s") == []
    assert await store.admit("s", an_input()) == Admission(1, is_new=True)


async def test_recent_records_are_moved_by_the_thread_meanwhile(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_batch, "RECENT_RECORDS_MAX", 5)
    movers = []
    move = sqlite_batch.move_recent

    def watched(db: apsw.Connection) -> None:
        movers.append(current_thread() is main_thread())
        move(db)

    monkeypatch.setattr(sqlite_batch, "move_recent", watched)
    lease = await lease_on(store)

    for after in range(10):
        await store.append(lease, [a_notice(str(after))], after=after)
    # Whatever the thread was asked before comes before the end.
    await store.close()

    assert movers
    assert not any(movers)
    again = SqliteStore(path, clock=ManualClock())
    assert await log_of(again) == [a_notice(str(number)) for number in range(10)]
    await again.close()


async def test_what_is_asked_for_in_the_round_of_closing_is_still_written(store: SqliteStore, path: Path) -> None:
    sending = [asyncio.create_task(store.admit(f"s{number}", an_input())) for number in range(3)]
    await asyncio.sleep(0)
    await store.close()

    assert await asyncio.gather(*sending) == [Admission(1, is_new=True)] * 3
    again = SqliteStore(path, clock=ManualClock())
    assert len(await again.sessions()) == 4
    await again.close()
