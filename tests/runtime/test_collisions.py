"""A row whose number meets that of another, or leaves its place unnoticed: it goes back, and nothing is lost."""

import shutil
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from holdfast.ports import Lease, Store
from holdfast.runtime.engine.log import open_log
from holdfast.runtime.maintenance.healing import heal_whole, open_healed
from holdfast.runtime.maintenance.sealing import put_segment
from holdfast.stores.archived import ArchivedStore
from holdfast.stores.archives import FolderArchive
from holdfast.stores.sqlite import SqliteStore, reading
from holdfast.stores.sqlite.batch import move_recent
from holdfast.testing.builders import (
    ManualClock,
    a_notice,
    a_reply,
    a_turn_ended,
    a_turn_started,
    an_attempt_started,
    an_input,
    lease_on,
)
from holdfast.types.records import Logged

KEY, OTHER = "telegram:42", "telegram:43"
TURN = (a_turn_started(), an_attempt_started(), a_reply("aye"), a_turn_ended())
RECORDS = 11
MOVED = "UPDATE {} SET seq = ? WHERE seq = ? AND session = (SELECT number FROM sessions WHERE key = 'telegram:42')"

Heal = Callable[[Lease, Store], Awaitable[object]]


async def filled(path: Path, *, has_fold: bool) -> list[Logged]:
    """Two sessions of one turn and six notices each; return the records of the first."""
    store = SqliteStore(path, clock=ManualClock())
    for key in (KEY, OTHER):
        lease = await lease_on(store, key)
        await store.admit(key, an_input("ahoy"))
        await store.append(lease, [*TURN, *(a_notice(f"note {number}") for number in range(6))], after=1)
        if has_fold:
            await store.save_snapshot(lease, (await open_log(store, key)).snapshot())
        await store.release(lease)
    records = await store.read(KEY)
    await store.close()
    assert len(records) == RECORDS
    return records


def moved(path: Path, table: str, seq: int, to: int) -> None:
    with closing(apsw.Connection(str(path))) as db:
        if table == "records":
            move_recent(db)
        db.execute(MOVED.format(table), (to, seq))
        assert db.changes() == 1


async def healed(path: Path, heal: Heal) -> list[Logged]:
    store = SqliteStore(path, clock=ManualClock())
    try:
        lease = await lease_on(store, KEY)
        await heal(lease, store)
        await store.release(lease)
        return await store.read(KEY)
    finally:
        await store.close()


@pytest.mark.parametrize("heal", [open_healed, heal_whole])
@pytest.mark.parametrize("has_fold", [False, True])
@pytest.mark.parametrize(
    ("table", "seq", "to"),
    [
        # The newest of all meets the one before it, one further back, the first of all.
        ("recent", 11, 10),
        ("recent", 11, 9),
        ("recent", 11, 3),
        # One in the middle meets another.
        ("recent", 7, 6),
        ("recent", 5, 1),
        ("recent", 3, 7),
        # It leaves for where no record is.
        ("recent", 2, 0),
        ("recent", 11, 43),
        ("records", 8, 0),
        # It stands right behind the newest, and is none.
        ("records", 4, 12),
        ("records", 8, 12),
        ("recent", 4, 12),
    ],
)
async def test_a_row_whose_number_lost_a_bit_goes_back_to_its_place_and_nothing_is_lost(
    tmp_path: Path, table: str, seq: int, to: int, heal: Heal, *, has_fold: bool
) -> None:
    path = tmp_path / "s.db"
    before = await filled(path, has_fold=has_fold)
    moved(path, table, seq, to)

    once = await healed(path, heal)
    twice = await healed(path, heal)

    assert once[:RECORDS] == before
    assert [logged.seq for logged in once] == list(range(1, len(once) + 1))
    assert len(once) > RECORDS
    assert twice == once


async def test_a_seal_whose_number_meets_the_record_before_it_is_healed(tmp_path: Path) -> None:
    path, archive = tmp_path / "s.db", FolderArchive(tmp_path / "archive")
    await filled(path, has_fold=True)
    store: Store = SqliteStore(path, clock=ManualClock())
    lease = await lease_on(store, KEY)
    await store.append(lease, [a_notice("the last before it")], after=RECORDS)
    await store.search(KEY, "ahoy")
    await store.seal(lease, await put_segment(archive, KEY, await store.live_rows(KEY, limit=5)), after=RECORDS + 1)
    before = await store.read(KEY, after=5)
    await store.release(lease)
    await store.close()
    moved(path, "recent", 13, 12)

    store = ArchivedStore(SqliteStore(path, clock=ManualClock()), archive)
    lease = await lease_on(store, KEY)
    await open_healed(lease, store)
    records = await store.read(KEY, after=5)
    quarantined, segments = await store.quarantine(KEY), await store.segments(KEY)
    await store.close()

    assert records[: len(before)] == before
    assert (quarantined, [(one.first, one.last) for one in segments]) == ([], [(1, 5)])


async def test_whoever_writes_to_a_session_before_it_is_healed_does_not_take_the_place_of_its_newest_record(
    tmp_path: Path,
) -> None:
    path = tmp_path / "s.db"
    before = await filled(path, has_fold=False)
    moved(path, "recent", 11, 10)

    store = SqliteStore(path, clock=ManualClock())
    admission = await store.admit(KEY, an_input("and now?"))
    await store.close()
    records = await healed(path, heal_whole)

    assert admission.seq == RECORDS + 1
    assert records[:RECORDS] == before
    assert records[RECORDS].record == an_input("and now?")


async def test_two_rows_of_one_number_keep_nobody_from_moving_the_others(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    before = await filled(path, has_fold=False)
    moved(path, "recent", 7, 6)

    with closing(apsw.Connection(str(path))) as db, db:
        move_recent(db)
        left = db.execute("SELECT count(*) FROM recent").get

    assert left == 1
    store = SqliteStore(path, clock=ManualClock())
    others = [logged.seq for logged in await store.read(OTHER)]
    await store.close()
    assert others == list(range(1, RECORDS + 1))
    assert (await healed(path, open_healed))[:RECORDS] == before


async def test_where_two_rows_of_one_number_end_a_page_both_are_read(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    before = await filled(path, has_fold=False)
    moved(path, "recent", 7, 6)

    store = SqliteStore(path, clock=ManualClock())
    read = [await store.read(KEY, limit=limit) for limit in range(1, RECORDS + 1)]
    looked_at = [await store.check_rows(KEY, limit=limit) for limit in range(1, RECORDS + 1)]
    await store.close()

    assert [[one for one in page if one.seq != 7] for page in read] == [
        [one for one in before[:limit] if one.seq != 7] for limit in range(1, RECORDS + 1)
    ]
    assert {(row.seq, row.fits_at) for page in looked_at[5:] for row in page.bad} == {(6, 7)}


def read_every_way(path: Path) -> list[tuple[int, int | None]]:
    """Return each place and limit where reading the end of a log alone comes to something else than a closer look."""
    differing = []
    with closing(apsw.Connection(str(path))) as db:
        number = db.execute("SELECT number FROM sessions WHERE key = ?", (KEY,)).get
        for after in range(RECORDS + 3):
            for limit in (None, 1, 2, 5, 100):
                with db:
                    closer = reading._read_checked(db, KEY, number, after, limit)
                if reading.records(db, KEY, after, limit) != closer:
                    differing.append((after, limit))
    return differing


@pytest.mark.parametrize("seq", range(1, RECORDS + 1))
async def test_the_end_of_a_log_read_alone_is_what_a_look_at_every_row_finds(tmp_path: Path, seq: int) -> None:
    healthy = tmp_path / "healthy.db"
    await filled(healthy, has_fold=False)
    assert read_every_way(healthy) == []

    for bit in (*range(5), 40):
        path = tmp_path / f"{bit}.db"
        shutil.copy(healthy, path)
        moved(path, "recent", seq, seq ^ (1 << bit))
        assert read_every_way(path) == [], f"bit {bit}"
