"""Opening a SQLite file: whether it is ours, in which version, and what SQLite's errors mean to a caller."""

import errno
import os
import time
from functools import cache
from importlib import resources
from pathlib import Path

import apsw

from holdfast.errors import (
    HoldfastError,
    StoreBusyError,
    StoreFullError,
    StoreIoError,
    StorePathError,
    StoreReadOnlyError,
    StoreVersionError,
)
from holdfast.stores.sqlite.page_copy import copy_pages
from holdfast.stores.sqlite.process_lock import LOCK_POLL_SECONDS, Owners

# --- Whether a SQLite file that a dead process left can be gone on with: a look at its pages that has a bound.


# What a start after a death may take longer. Small stores are looked at whole in that time (10,000 pages), of larger
# ones the tables that are written to all the time.
CHECK_SECONDS_MAX = 0.05
# Steps of SQLite between two looks at the clock: some ten microseconds.
_STEPS_PER_LOOK = 1_000

# Newest records first, then who has sessions; the others as they come.
_FIRST = ("recent", "sessions")
_SELECT_TABLES = (
    "SELECT name FROM sqlite_schema"
    " WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%' AND name NOT LIKE 'sqlite_%'"
)


def is_unclean(path: Path, owners: Owners) -> bool:
    """Whether whoever had the store last died with it: its place was not given up, or the log not taken over."""
    log = path.with_name(f"{path.name}-wal")
    return owners.found_dead or (owners.is_alone and log.exists() and log.stat().st_size > 0)


def check_pages(db: apsw.Connection, path: Path, *, seconds_max: float = CHECK_SECONDS_MAX) -> int:
    """Look at the pages of one table after the other for so long, and return how many were looked at to their end.

    Raises `StoreIoError` where a page is not what it must be. Nothing is changed.
    """
    deadline = time.monotonic() + seconds_max
    names = [str(name) for (name,) in db.execute(_SELECT_TABLES)]
    names.sort(key=lambda name: _FIRST.index(name) if name in _FIRST else len(_FIRST))
    db.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS_PER_LOOK)
    try:
        for looked_at, name in enumerate(names):
            try:
                found = [str(line) for (line,) in db.execute(f"PRAGMA quick_check('{name}')")]
            except apsw.InterruptError:
                return looked_at
            if found != ["ok"] and found[0] != "interrupted":
                raise StoreIoError(
                    f"{path} is damaged (table {name}: {found[0]}); nothing was changed. Keep the file as it is, see "
                    f"`holdfast doctor --store {path}`, and restore a backup beside it (`holdfast restore`)"
                )
            if time.monotonic() > deadline:
                return looked_at
    finally:
        db.set_progress_handler(None)
    return len(names)


# "HOLD": tells our files from those of other programs, see https://sqlite.org/pragma.html#pragma_application_id
APPLICATION_ID = 0x484F4C44
# A commit takes milliseconds. Whoever holds the file for longer hangs or was stopped, and the sender should know.
BUSY_SECONDS = 5.0
# File systems whose locks or shared memory do not hold between machines: SQLite's WAL would be damaged there.
# See https://sqlite.org/wal.html, "Noteworthy changes", and https://sqlite.org/howtocorrupt.html, section 2.1.
NETWORK_FILE_SYSTEMS = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "fuse.sshfs", "vboxsf", "prl_fs"})

# What is mounted where; the columns of a line up to the mount point, see proc(5).
MOUNTS = Path("/proc/self/mountinfo")
_MOUNT_COLUMNS = 5

OUT_OF_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})


class Patience:
    """A busy handler that asks again often, for so long. SQLite's own sleeps up to 100 ms between two tries."""

    def __init__(self, seconds_max: float) -> None:
        self.seconds_max = seconds_max
        self._deadline = 0.0

    def __call__(self, tries: int) -> bool:
        """Wait a little and say whether to try again."""
        if tries == 0:
            self._deadline = time.monotonic() + self.seconds_max
        if time.monotonic() >= self._deadline:
            return False
        time.sleep(LOCK_POLL_SECONDS)
        return True


@cache
def migrations() -> tuple[tuple[int, str], ...]:
    """Return the numbered steps from an empty file to the newest layout."""
    folder = resources.files("holdfast.stores") / "sql" / "sqlite"
    files = sorted((entry.name, entry) for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return tuple((int(name.partition("_")[0]), entry.read_text(encoding="utf-8")) for name, entry in files)


def check_place(path: Path) -> None:
    """Refuse a path where no store can be, before anything is created there."""
    if path.is_dir():
        raise StorePathError(f"{path} is a folder; give the path of a file in it, such as {path / 'holdfast.db'}")
    if not path.parent.is_dir():
        raise StorePathError(f"the folder {path.parent} does not exist; create it or choose another path")
    if os.statvfs(path.parent).f_flag & os.ST_RDONLY:
        raise StorePathError(
            f"{path.parent} lies on a file system that is mounted read-only; mount it for writing or choose another"
        )
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise StorePathError(
            f"the folder {path.parent} may not be written to; change its permissions or choose another"
        )
    if path.exists() and not os.access(path, os.R_OK | os.W_OK):
        raise StorePathError(f"{path} may not be read and written; change its permissions or choose another path")
    file_system = _file_system_of(path.parent)
    if file_system in NETWORK_FILE_SYSTEMS:
        raise StorePathError(
            f"{path} lies on a network file system ({file_system}), where SQLite's log would be damaged; "
            "choose a path on a local disk"
        )


def prepare(path: Path, owners: Owners) -> None:
    """Create the file where there is none, see that it is ours, and bring it to the newest layout."""
    try:
        owners.take_turn(BUSY_SECONDS)
    except TimeoutError as error:
        raise translated(path, error) from error
    db: apsw.Connection | None = None
    was_left = is_unclean(path, owners)
    try:
        if not path.exists():
            # Conversations are private: nobody else may read them. The -wal and -shm files take over these rights.
            os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
        db = connect(path)
        _check_is_ours(db, path)
        if was_left:
            check_pages(db, path)
        _migrate(db, path)
    except (apsw.Error, OSError) as error:
        raise _unopenable(path, error, db) from error
    finally:
        if db is not None:
            db.close()
        owners.give_turn()


def connect(path: Path, *, is_reader: bool = False, patience: Patience | None = None) -> apsw.Connection:
    """Open a connection that waits for others up to `BUSY_SECONDS`, or as long as it is told."""
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    db.set_busy_handler(patience or Patience(BUSY_SECONDS))
    # What a damaged or hostile file could use to run code or to write behind SQLite's back stays off.
    db.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    db.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
    db.execute("PRAGMA synchronous = FULL")
    db.execute("PRAGMA foreign_keys = ON")
    if is_reader:
        db.execute("PRAGMA query_only = ON")
    return db


def translated(path: Path, error: apsw.Error | OSError, db: apsw.Connection | None = None) -> HoldfastError:
    """Return what an error of SQLite or of the disk means to the caller, and what to do about it."""
    match error:
        case apsw.BusyError() | apsw.LockedError() | TimeoutError():
            return StoreBusyError(
                f"another process has held {path} for {BUSY_SECONDS:g} seconds; try again, or end it if it hangs"
            )
        case apsw.FullError():
            return full(path)
        case apsw.ReadOnlyError():
            return _read_only(path)
        case _ if _errno_of(error, db) in OUT_OF_SPACE:
            return full(path)
        case _ if _errno_of(error, db) == errno.EROFS:
            return _read_only(path)
        case apsw.CorruptError() | apsw.NotADBError():
            return StoreIoError(f"{path} is damaged ({error}); keep the file as it is and restore a backup beside it")
        case _:
            return StoreIoError(f"{path} cannot be read or written ({error}); check the disk and its permissions")


def full(path: Path) -> StoreFullError:
    """Return what to tell whoever wants to write where no space is left."""
    return StoreFullError(f"no space is left for {path}; nothing was stored: free some space and try again")


def _read_only(path: Path) -> StoreReadOnlyError:
    return StoreReadOnlyError(
        f"{path} may be read and not written: its file system is mounted read-only, often after an error of the disk; "
        "look into the system's log, then mount it for writing again. Nothing was stored"
    )


def _errno_of(error: apsw.Error | OSError, db: apsw.Connection | None) -> int:
    """Return what the system said, where it was the system that failed; else 0."""
    if isinstance(error, OSError):
        return error.errno or 0
    # SQLite keeps the last one for good, also one that it got over: it tells only what kind of failure this is.
    is_of_the_system = isinstance(error, apsw.IOError | apsw.CantOpenError)
    return db.system_errno if is_of_the_system and db is not None else 0


def _unopenable(path: Path, error: apsw.Error | OSError, db: apsw.Connection | None = None) -> HoldfastError:
    match error:
        case apsw.NotADBError():
            return StorePathError(f"{path} is not a database; choose another path, or move that file away")
        case apsw.CantOpenError() | apsw.ReadOnlyError() | apsw.PermissionsError() if (
            _errno_of(error, db) not in OUT_OF_SPACE
        ):
            return StorePathError(f"{path} cannot be opened for writing ({error}); check its permissions")
        case _:
            return translated(path, error, db)


def _check_is_ours(db: apsw.Connection, path: Path) -> None:
    application_id = db.execute("PRAGMA application_id").get
    tables = db.execute("SELECT count(*) FROM sqlite_schema").get
    if application_id != APPLICATION_ID and (application_id or tables):
        raise StorePathError(f"{path} is the database of another program; choose another path")


def _migrate(db: apsw.Connection, path: Path) -> None:
    version, steps = db.execute("PRAGMA user_version").get, migrations()
    if version > steps[-1][0]:
        raise StoreVersionError(
            f"{path} has layout {version}, this version of Holdfast knows {steps[-1][0]} at most; "
            "install the version that wrote it, or a newer one"
        )
    mode = db.execute("PRAGMA journal_mode = WAL").get
    if mode != "wal":
        raise StorePathError(
            f"{path} cannot use a write-ahead log (SQLite chose {mode!r}), as on network file systems; "
            "choose a path on a local disk"
        )
    if version < steps[-1][0] and version and db.execute("SELECT count(*) FROM sessions").get:
        _keep_copy(db, path, version)
    for number, sql in steps:
        if number > version:
            # One transaction each: closing the connection after an error takes all of it back.
            db.execute("BEGIN IMMEDIATE")
            db.execute(sql)
            db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            db.execute(f"PRAGMA user_version = {number}")
            db.execute("COMMIT")


def _keep_copy(db: apsw.Connection, path: Path, version: int) -> None:
    """Keep the store as it is before its layout changes, for whoever wants the older version of Holdfast back."""
    copy = path.with_name(f"{path.name}-layout-{version}")
    try:
        if not copy.exists():
            copy_pages(db, copy)
    except OSError as error:
        raise translated(copy, error) from error


def layout_of(path: Path) -> tuple[int, int]:
    """Return which layout a store has, and the newest there is, without changing anything. Refuses what is not ours."""
    check_place(path)
    try:
        db = connect(path, is_reader=True)
        try:
            _check_is_ours(db, path)
            version: int = db.execute("PRAGMA user_version").get
        finally:
            db.close()
    except apsw.Error as error:
        raise _unopenable(path, error) from error
    return version, migrations()[-1][0]


def _file_system_of(folder: Path) -> str | None:
    """Return the type of the file system that a folder lies on, where the system tells (Linux)."""
    try:
        mounts = MOUNTS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    best, found = "", None
    place = f"{folder.resolve()}/"
    for line in mounts:
        # "36 35 98:0 / /mount/point rw,noatime master:1 - ext4 /dev/root rw": the type follows the lone dash.
        before, _, behind = line.partition(" - ")
        columns, types = before.split(), behind.split()
        if len(columns) < _MOUNT_COLUMNS or not types:
            continue
        mount_point = columns[4].replace("\\040", " ").rstrip("/") + "/"
        # Later lines cover earlier ones at the same point.
        if place.startswith(mount_point) and len(mount_point) >= len(best):
            best, found = mount_point, types[0]
    return found
