"""Opening a SQLite store: what is refused says why and what to do; what is accepted stays as it was."""

import errno
import os
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from holdfast.errors import (
    OperatorError,
    StoreBusyError,
    StoreFullError,
    StoreIoError,
    StorePathError,
    StoreReadOnlyError,
    StoreVersionError,
)
from holdfast.ports import Snapshot
from holdfast.stores.sqlite import SqliteStore
from holdfast.stores.sqlite import file as sqlite_file
from holdfast.stores.sqlite.file import check_pages, is_unclean
from holdfast.stores.sqlite.process_lock import Instances
from holdfast.testing.builders import ManualClock, an_input, lease_on, log_of
from tests.stores.places import names_in


def opened(path: Path | str) -> SqliteStore:
    return SqliteStore(path, clock=ManualClock())


async def test_everything_is_there_after_opening_again(tmp_path: Path) -> None:
    store = opened(tmp_path / "s.db")
    await store.admit("s", an_input("kept", client_id="c"))
    lease = await lease_on(store)
    await store.save_snapshot(lease, Snapshot(seq=1, body=b"fold"))
    before = await store.sessions()
    await store.close()

    again = opened(str(tmp_path / "s.db"))

    assert await log_of(again) == [an_input("kept", client_id="c")]
    assert (await again.sessions(), await again.pending()) == (before, ["s"])
    assert await again.load_snapshot("s") == Snapshot(seq=1, body=b"fold")
    assert (await again.admit("s", an_input("kept", client_id="c"))).is_new is False
    assert (await lease_on(again)).fence > lease.fence
    await again.close()


async def test_the_file_is_marked_as_ours_private_and_in_wal_mode(tmp_path: Path) -> None:
    store = opened(tmp_path / "s.db")
    await store.admit("s", an_input())
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) & 0o077 for name in names_in(tmp_path)]
    await store.close()

    with closing(apsw.Connection(str(tmp_path / "s.db"))) as db:
        marks = [db.execute(f"PRAGMA {name}").get for name in ("application_id", "user_version", "journal_mode")]
    assert marks == [sqlite_file.APPLICATION_ID, sqlite_file.migrations()[-1][0], "wal"]
    assert modes == [0] * len(modes)


def test_migrations_are_numbered_without_a_gap() -> None:
    steps = sqlite_file.migrations()

    assert [number for number, _ in steps] == list(range(1, len(steps) + 1))


async def test_an_empty_file_is_taken_for_a_new_store(tmp_path: Path) -> None:
    (tmp_path / "s.db").touch()

    store = opened(tmp_path / "s.db")

    assert (await store.admit("s", an_input())).seq == 1
    await store.close()


def a_folder(folder: Path) -> Path:
    return folder


def a_missing_parent(folder: Path) -> Path:
    return folder / "no" / "such" / "s.db"


def a_text_file(folder: Path) -> Path:
    (folder / "s.db").write_text("Dear diary, this is not a database, but it is long enough to be one." * 20)
    return folder / "s.db"


def another_programs_database(folder: Path) -> Path:
    with closing(apsw.Connection(str(folder / "s.db"))) as db:
        db.execute("CREATE TABLE theirs (x)")
    return folder / "s.db"


def a_database_with_another_mark(folder: Path) -> Path:
    with closing(apsw.Connection(str(folder / "s.db"))) as db:
        db.execute("PRAGMA application_id = 12345")
    return folder / "s.db"


@pytest.mark.parametrize(
    ("place", "advice"),
    [
        (a_folder, "is a folder; use the path of a file"),
        (a_missing_parent, "does not exist; create it"),
        (a_text_file, "is not a database; choose another path"),
        (another_programs_database, "another program; choose another path"),
        (a_database_with_another_mark, "another program; choose another path"),
    ],
)
def test_a_place_where_no_store_can_be_is_refused_and_left_alone(
    tmp_path: Path, place: Callable[[Path], Path], advice: str
) -> None:
    path = place(tmp_path)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}

    with pytest.raises(StorePathError, match=advice):
        opened(path)

    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_something_else_in_place_of_the_owners_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "s.db-owners").write_text("not a folder")

    with pytest.raises(StorePathError, match="-owners cannot be used"):
        opened(tmp_path / "s.db")

    assert names_in(tmp_path) == ["s.db-owners"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written_to_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(StorePathError, match="is not writable"):
            opened(tmp_path / "s.db")
    finally:
        tmp_path.chmod(0o700)


async def test_a_store_of_a_newer_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    await opened(tmp_path / "s.db").close()
    with closing(apsw.Connection(str(tmp_path / "s.db"))) as db:
        db.execute("PRAGMA user_version = 999")

    with pytest.raises(StoreVersionError, match="layout 999") as refusal:
        opened(tmp_path / "s.db")

    assert isinstance(refusal.value, OperatorError)
    assert names_in(tmp_path) == ["s.db", "s.db-reserve"]


@pytest.mark.parametrize("file_system", ["nfs4", "cifs"])
def test_a_network_file_system_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file_system: str) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        f"1 0 8:1 / / rw - ext4 /dev/sda rw\n2 1 0:50 / {tmp_path} rw,relatime shared:3 - {file_system} host:/x rw\n"
    )
    monkeypatch.setattr(sqlite_file, "MOUNTS", mounts)

    with pytest.raises(StorePathError, match=rf"network file system \({file_system}\).*local disk"):
        opened(tmp_path / "s.db")


async def test_a_local_disk_beside_a_network_file_system_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        f"1 0 8:1 / / rw - ext4 /dev/sda rw\n2 1 0:50 / {tmp_path}/net rw - nfs host:/x rw\nnot a line we know\n"
    )
    monkeypatch.setattr(sqlite_file, "MOUNTS", mounts)

    await opened(tmp_path / "network.db").close()


def test_a_store_that_another_process_is_opening_for_too_long_is_busy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_file, "BUSY_SECONDS", 0.01)
    other = Instances(tmp_path / "s.db")
    other.enter_queue(0)

    with pytest.raises(StoreBusyError, match="retry"):
        opened(tmp_path / "s.db")

    other.leave_queue()
    other.close()
    assert names_in(tmp_path) == []


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (apsw.BusyError(), StoreBusyError),
        (apsw.LockedError(), StoreBusyError),
        (TimeoutError(), StoreBusyError),
        (apsw.FullError(), StoreFullError),
        (OSError(errno.ENOSPC, "full"), StoreFullError),
        (OSError(errno.EDQUOT, "over quota"), StoreFullError),
        (OSError(errno.EIO, "broken"), StoreIoError),
        (apsw.IOError(), StoreIoError),
        (apsw.CorruptError(), StoreIoError),
        (apsw.ReadOnlyError(), StoreReadOnlyError),
    ],
)
def test_every_trouble_has_its_own_error(error: apsw.Error | OSError, expected: type[Exception]) -> None:
    with closing(apsw.Connection(":memory:")) as db:
        assert type(sqlite_file.translate_error(Path("s.db"), error, db)) is expected


def test_many_that_come_and_go_at_once_leave_nothing(tmp_path: Path) -> None:
    def come_and_go(_: int) -> bool:
        instances = Instances(tmp_path / "s.db")
        is_alone = instances.is_dead("nobody")
        instances.close()
        return is_alone

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(come_and_go, range(200))) == [True] * 200

    assert names_in(tmp_path) == []


async def test_files_of_dead_stores_are_swept_when_one_opens(tmp_path: Path) -> None:
    instances = tmp_path / "s.db-owners"
    instances.mkdir()
    (instances / "left-by-a-crash").touch()

    store = opened(tmp_path / "s.db")

    assert len(names_in(instances)) == 1
    assert names_in(instances) != ["left-by-a-crash"]
    await store.close()
    assert names_in(tmp_path) == ["s.db", "s.db-reserve"]


# Pages, after a death.


def left_by_a_crash(path: Path) -> None:
    instances = path.with_name(f"{path.name}-owners")
    instances.mkdir()
    (instances / "left-by-a-crash").touch()


async def a_store_with_a_bad_page(path: Path) -> bytes:
    """Write over the first page of the table of recent records, as a disk might, and return the file as it is then."""
    store = opened(path)
    await store.admit("s", an_input("hello"))
    await store.close()
    with closing(apsw.Connection(str(path))) as db:
        root = db.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'recent'").get
        page_bytes = db.execute("PRAGMA page_size").get
    content = bytearray(path.read_bytes())
    content[(root - 1) * page_bytes : (root - 1) * page_bytes + 64] = b"\xa5" * 64
    path.write_bytes(content)
    return bytes(content)


async def test_a_bad_page_is_found_at_the_start_after_a_death_and_nothing_is_written(tmp_path: Path) -> None:
    """FM-119."""
    path = tmp_path / "s.db"
    content = await a_store_with_a_bad_page(path)
    left_by_a_crash(path)

    with pytest.raises(StoreIoError, match=r"is damaged.*restore a backup next to it"):
        opened(path)

    assert path.read_bytes() == content


async def test_a_start_after_a_death_looks_at_all_of_a_small_store_and_at_a_large_one_for_a_bounded_time(
    tmp_path: Path,
) -> None:
    """FM-119."""
    path = tmp_path / "s.db"
    store = opened(path)
    await store.admit("s", an_input("hello"))
    await store.close()
    with closing(apsw.Connection(str(path))) as db:
        tables = db.execute("SELECT count(*) FROM sqlite_schema WHERE type = 'table'").get

        assert check_pages(db, path, seconds_max=60.0) > 6
        assert check_pages(db, path, seconds_max=60.0) <= tables
        assert check_pages(db, path, seconds_max=0.0) == 0


async def test_only_a_death_makes_the_next_start_look_at_pages(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    first = opened(path)
    await first.admit("s", an_input("hello"))
    second = Instances(path)
    assert not is_unclean(path, second), "others are at work on it"
    second.close()
    await first.close()

    after_an_end = Instances(path)
    assert not is_unclean(path, after_an_end)
    after_an_end.close()
    left_by_a_crash(path)
    after_a_death = Instances(path)
    assert is_unclean(path, after_a_death)
    after_a_death.close()
    path.with_name("s.db-wal").write_bytes(b"left")
    after_a_power_loss = Instances(path)
    assert is_unclean(path, after_a_power_loss)
    after_a_power_loss.close()
