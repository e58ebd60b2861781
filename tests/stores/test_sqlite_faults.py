"""A disk that fails below SQLite: a distinct error before anything is acknowledged, no loss, and then work goes on."""

import asyncio
import errno
import os
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import apsw
import pytest

from holdfast.errors import (
    HoldfastError,
    LeaseLostError,
    StoreFullError,
    StoreIoError,
    StoreMovedError,
    StorePathError,
    StoreReadOnlyError,
)
from holdfast.ports import Admission
from holdfast.stores.sqlite import SqliteStore
from holdfast.stores.sqlite import file as sqlite_file
from holdfast.stores.sqlite import reserve as sqlite_reserve
from holdfast.stores.sqlite import write_connection as sqlite_wal
from holdfast.stores.sqlite.copy import copy_store
from holdfast.stores.sqlite.reserve import RESERVE_BYTES, is_released, reserve_path
from holdfast.testing.builders import ManualClock, a_notice, a_turn_started, an_input, lease_on, log_of
from holdfast.types.records import Outcome, TurnEnded
from holdfast.wiring.doctor import check_store


class Faults:
    """What goes wrong, by the end of a file's name and the call that fails; nothing at first."""

    def __init__(self) -> None:
        self._failing: dict[tuple[str, str], type[apsw.Error]] = {}
        self.met = 0
        # Nothing goes wrong while this says so.
        self.is_over: Callable[[], bool] = lambda: False

    def begin(self, file: str, call: str, error: type[apsw.Error]) -> None:
        self._failing[file, call] = error

    def end(self) -> None:
        self._failing = {}

    def meet(self, path: str, call: str) -> None:
        error = next((why for (end, at), why in self._failing.items() if at == call and path.endswith(end)), None)
        if error is not None and not self.is_over():
            self.met += 1
            raise error("by order of the test")


class FailingFile(apsw.VFSFile):
    def __init__(self, usual: str, name: str | apsw.URIFilename | None, flags: list[int], trouble: Faults) -> None:
        self.path = name.filename() if isinstance(name, apsw.URIFilename) else name or ""
        self._trouble = trouble
        super().__init__(usual, name, flags)

    def xWrite(self, body: bytes, place: int) -> None:  # noqa: N802 - SQLite's
        self._trouble.meet(self.path, "write")
        super().xWrite(body, place)

    def xSync(self, flags: int) -> None:  # noqa: N802 - SQLite's
        self._trouble.meet(self.path, "sync")
        super().xSync(flags)


class FailingVfs(apsw.VFS):
    def __init__(self, trouble: Faults) -> None:
        self._trouble, self.usual = trouble, apsw.vfs_names()[0]
        super().__init__("failing", self.usual, makedefault=True)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 - SQLite's
        file = FailingFile(self.usual, name, flags, self._trouble)
        self._trouble.meet(file.path, "open")
        return file


@pytest.fixture
def trouble() -> Iterator[Faults]:
    trouble = Faults()
    shim = FailingVfs(trouble)
    yield trouble
    apsw.set_default_vfs(shim.usual)
    shim.unregister()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def store(tmp_path: Path, clock: ManualClock, trouble: Faults) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(tmp_path / "s.db", clock=clock)
    yield store
    trouble.end()
    await store.close()


@pytest.mark.parametrize(
    ("call", "error", "expected"),
    [
        ("write", apsw.FullError, StoreFullError),
        ("write", apsw.IOError, StoreIoError),
        ("sync", apsw.IOError, StoreIoError),
        ("write", apsw.ReadOnlyError, StoreReadOnlyError),
    ],
)
async def test_a_disk_that_fails_refuses_before_it_acknowledges_and_then_goes_on(
    store: SqliteStore,
    trouble: Faults,
    tmp_path: Path,
    call: str,
    error: type[apsw.Error],
    expected: type[HoldfastError],
) -> None:
    lease = await lease_on(store)
    await store.admit("s", an_input("before", client_id="c1"))
    await store.append(lease, [a_notice("before")], after=1)

    trouble.begin("-wal", call, error)
    for _ in range(3):
        with pytest.raises(expected):
            await store.admit("s", an_input("refused", client_id="c2"))
    with pytest.raises(expected):
        await store.append(lease, [a_notice("refused")], after=2)
    assert trouble.met >= 4
    assert await log_of(store) == [an_input("before", client_id="c1"), a_notice("before")], "reading goes on"
    trouble.end()

    # Whoever was refused sends again, and it is one message.
    assert await store.admit("s", an_input("refused", client_id="c2")) == Admission(3, is_new=True)
    assert await store.admit("s", an_input("refused", client_id="c2")) == Admission(3, is_new=False)
    assert await store.append(lease, [a_notice("after")], after=3) == 4
    expected_log = [
        an_input("before", client_id="c1"),
        a_notice("before"),
        an_input("refused", client_id="c2"),
        a_notice("after"),
    ]
    assert await log_of(store) == expected_log
    another = SqliteStore(tmp_path / "s.db", clock=ManualClock())
    assert await log_of(another) == expected_log
    await another.close()


async def test_a_disk_that_cannot_even_be_opened_again_is_told_and_passes(store: SqliteStore, trouble: Faults) -> None:
    await store.admit("s", an_input("before"))

    trouble.begin("-wal", "sync", apsw.IOError)
    trouble.begin("s.db", "open", apsw.CantOpenError)
    for _ in range(3):
        with pytest.raises(StoreIoError):
            await store.admit("s", an_input("refused", client_id="c"))
    trouble.end()

    assert await store.admit("s", an_input("refused", client_id="c")) == Admission(2, is_new=True)
    assert await log_of(store) == [an_input("before"), an_input("refused", client_id="c")]


async def test_a_copy_into_the_database_that_fails_holds_up_nobody_and_loses_nothing(
    store: SqliteStore, trouble: Faults, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_wal, "CHECKPOINT_PAGES", 20)
    trouble.begin("s.db", "write", apsw.FullError)

    for number in range(1, 31):
        assert await store.admit("s", an_input(str(number))) == Admission(number, is_new=True)

    assert trouble.met > 0
    trouble.end()
    another = SqliteStore(tmp_path / "s.db", clock=ManualClock())
    assert await log_of(another) == [an_input(str(number)) for number in range(1, 31)]
    await another.close()


async def test_a_clock_that_jumps_ahead_makes_of_two_that_believe_they_own_a_session_one(
    store: SqliteStore, clock: ManualClock, tmp_path: Path
) -> None:
    first = await lease_on(store)
    another = SqliteStore(tmp_path / "s.db", clock=clock)
    assert await another.acquire("s", "other", seconds=30) is None

    clock.advance(24 * 3_600)
    second = await another.acquire("s", "other", seconds=30)

    assert second is not None
    assert second.fence > first.fence
    assert await another.append(second, [a_notice("second")], after=0) == 1
    with pytest.raises(LeaseLostError):
        await store.append(first, [a_notice("first")], after=1)
    assert await log_of(store) == [a_notice("second")]
    await another.close()


async def test_a_clock_that_jumps_back_leaves_the_session_to_whoever_has_it(tmp_path: Path, trouble: Faults) -> None:
    today, yesterday = ManualClock(200_000.0), ManualClock(100_000.0)
    before = SqliteStore(tmp_path / "s.db", clock=today)
    lease = await lease_on(before)
    after = SqliteStore(tmp_path / "s.db", clock=yesterday)

    assert await after.acquire("s", "other", seconds=30) is None
    assert await before.append(lease, [a_notice("mine")], after=0) == 1
    await before.close()
    # However far away its end lies by the new clock, nobody waits for the lease of one that is gone.
    assert await after.acquire("s", "other", seconds=30) is not None
    await after.close()
    assert trouble.met == 0


# Space for the ends of turns.

FULL = TurnEnded(1, Outcome.FAILED, "store_full", "The disk is full.")


@pytest.fixture
def no_room(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Have no room on the disk to keep any space, from when this is called until the fixture is undone."""
    return lambda: monkeypatch.setattr(sqlite_reserve, "_SPARE_BYTES", 2**62)


def fill_up(trouble: Faults, path: Path) -> None:
    """Let nothing be written, until the space that is kept is given up."""
    trouble.is_over = lambda: is_released(path)
    trouble.begin("-wal", "write", apsw.FullError)


async def test_what_ends_a_turn_is_written_on_a_full_disk_and_nothing_else_is_until_there_is_room(
    store: SqliteStore,
    trouble: Faults,
    tmp_path: Path,
    no_room: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """FM-124."""
    path = tmp_path / "s.db"
    monkeypatch.setattr(sqlite_reserve, "_TRY_SECONDS_RELEASED", 0.0)
    lease = await lease_on(store)
    await store.admit("s", an_input("hello"))
    await store.append(lease, [a_turn_started(1)], after=1)
    assert reserve_path(path).stat().st_size == RESERVE_BYTES
    fill_up(trouble, path)
    no_room()

    answers = await asyncio.gather(
        store.admit("s", an_input("refused")),
        store.append(lease, [FULL], after=2),
        store.admit("t", an_input("refused")),
        return_exceptions=True,
    )

    assert [type(answer) for answer in answers] == [StoreFullError, int, StoreFullError]
    assert is_released(path)
    another = SqliteStore(path, clock=ManualClock())
    for one in (store, another):
        with pytest.raises(StoreFullError):
            await one.admit("s", an_input("refused, by every process"))
    with pytest.raises(StoreFullError):
        # Whoever owes nothing has no use for the space.
        await another.acquire("t", "other", seconds=30)
    assert await log_of(store) == [an_input("hello"), a_turn_started(1), FULL]
    assert await store.search("s", "hello") == [], "what is not indexed yet cannot be; reading goes on"
    assert any("space reserved for turn endings" in note for note in (await check_store(path, None, _quiet)).notes)

    trouble.end()
    monkeypatch.setattr(sqlite_reserve, "_SPARE_BYTES", 0)
    assert await another.admit("s", an_input("there is room")) == Admission(4, is_new=True)
    assert not is_released(path)
    assert await store.admit("s", an_input("for both")) == Admission(5, is_new=True)
    await another.close()


def _quiet(_what: str, _step: int, _steps: int) -> None:
    """Nobody looks at the progress."""


async def test_a_message_alone_does_not_cost_the_space_that_is_kept(
    store: SqliteStore, trouble: Faults, tmp_path: Path
) -> None:
    """FM-124."""
    await store.admit("s", an_input("hello"))
    fill_up(trouble, tmp_path / "s.db")

    with pytest.raises(StoreFullError):
        await store.admit("s", an_input("refused"))

    assert not is_released(tmp_path / "s.db")


@pytest.mark.parametrize("why", [errno.EOPNOTSUPP, errno.ENOSPC])
async def test_where_no_space_can_be_kept_the_store_works_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: int
) -> None:
    def refuse(_fd: int, _start: int, _length: int) -> None:
        raise OSError(why, os.strerror(why))

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    store = SqliteStore(tmp_path / "s.db", clock=ManualClock())

    assert await store.admit("s", an_input("hello")) == Admission(1, is_new=True)
    await store.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s.db"]


async def test_space_that_can_never_be_kept_again_does_not_stop_the_store(
    store: SqliteStore, trouble: Faults, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_reserve, "_TRY_SECONDS_RELEASED", 0.0)
    lease = await lease_on(store)
    await store.admit("s", an_input("hello"))
    fill_up(trouble, tmp_path / "s.db")
    await store.append(lease, [a_turn_started(1), FULL], after=1)
    trouble.end()

    def refuse(_fd: int, _start: int, _length: int) -> None:
        raise OSError(errno.EOPNOTSUPP, "no such thing here")

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    assert await store.admit("s", an_input("on it goes")) == Admission(4, is_new=True)
    assert not reserve_path(tmp_path / "s.db").exists()


async def test_a_backup_does_not_carry_the_space_that_is_kept(store: SqliteStore, tmp_path: Path) -> None:
    await store.admit("s", an_input("hello"))

    copy_store(tmp_path / "s.db", tmp_path / "copy.db")

    assert not reserve_path(tmp_path / "copy.db").exists()


def test_a_read_only_file_system_is_told_apart_from_a_full_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = os.statvfs(tmp_path)

    class ReadOnly:
        f_flag = usual.f_flag | os.ST_RDONLY

    monkeypatch.setattr(os, "statvfs", lambda _path: ReadOnly())
    with pytest.raises(StorePathError, match="read-only"):
        SqliteStore(tmp_path / "s.db", clock=ManualClock())


# --- A file that is gone ---


@pytest.mark.parametrize("gone", ["", "-wal"], ids=["the file", "its WAL"])
async def test_nothing_is_acknowledged_into_a_file_that_was_removed(tmp_path: Path, gone: str) -> None:
    path = tmp_path / "s.db"
    store = SqliteStore(path, clock=ManualClock())
    await store.admit("s", an_input("kept"))
    Path(f"{path}{gone}").unlink()

    with pytest.raises(StoreMovedError, match="was removed, renamed or replaced while the store was open"):
        await store.admit("s", an_input("into nothing"))
    with pytest.raises(StoreMovedError):
        await store.pending()
    await store.close()


async def test_a_file_that_is_replaced_is_not_written_to_and_one_that_is_put_back_is(tmp_path: Path) -> None:
    path, aside = tmp_path / "s.db", tmp_path / "aside.db"
    store = SqliteStore(path, clock=ManualClock())
    await store.admit("s", an_input("kept"))
    path.rename(aside)
    path.write_bytes(b"")

    with pytest.raises(StoreMovedError):
        await store.admit("s", an_input("refused"))

    aside.replace(path)
    await store.admit("s", an_input("accepted again"))
    assert [logged.record for logged in await store.read("s")] == [an_input("kept"), an_input("accepted again")]
    await store.close()


@pytest.mark.parametrize("gone", ["", "-wal"], ids=["the file", "its WAL"])
async def test_a_commit_into_a_quiet_folder_looks_at_no_file_and_still_notices_a_removed_one(
    tmp_path: Path, gone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, looked_at = tmp_path / "s.db", list[str]()
    identity = sqlite_file._identity
    monkeypatch.setattr(sqlite_file, "FOLDER_QUIET_SECONDS", 0.0)
    monkeypatch.setattr(sqlite_file, "FINE_FOLDER_QUIET_SECONDS", 0.0)
    store = SqliteStore(path, clock=ManualClock())
    await store.admit("s", an_input("kept"))
    await store.admit("s", an_input("kept"))
    await asyncio.to_thread(_let_the_folder_time_pass, tmp_path)
    await store.admit("s", an_input("kept"))

    def counted(at: str) -> tuple[int, int] | None:
        looked_at.append(at)
        return identity(at)

    monkeypatch.setattr(sqlite_file, "_identity", counted)

    for _ in range(10):
        await store.admit("s", an_input("kept"))
    assert looked_at == []

    Path(f"{path}{gone}").unlink()
    with pytest.raises(StoreMovedError):
        await store.admit("s", an_input("into nothing"))
    await store.close()


@pytest.mark.parametrize(
    ("changed_ns", "seconds"),
    [
        pytest.param(1_700_000_000_123_456_789, sqlite_file.FINE_FOLDER_QUIET_SECONDS, id="nanoseconds"),
        pytest.param(1_700_000_000_123_456_000, sqlite_file.FINE_FOLDER_QUIET_SECONDS, id="microseconds"),
        pytest.param(1_700_000_000_120_000_000, sqlite_file.FOLDER_QUIET_SECONDS, id="hundredths, as exFAT"),
        pytest.param(1_700_000_000_000_000_000, sqlite_file.FOLDER_QUIET_SECONDS, id="seconds, as old ext4"),
    ],
)
def test_a_folder_is_trusted_sooner_where_its_times_are_finer(changed_ns: int, seconds: float) -> None:
    assert sqlite_file._quiet_seconds(changed_ns) == seconds


def _let_the_folder_time_pass(folder: Path) -> None:
    """Return when another change of the folder would have another time, at the resolution of its file system."""
    before = folder.stat().st_ctime_ns
    probe = folder.parent / f"{folder.name}.probe"
    probe.mkdir()
    while probe.stat().st_ctime_ns <= before:
        (probe / "x").touch()
        (probe / "x").unlink()
    probe.rmdir()
