"""SQLite file of a store: open, check, migrate, copy page by page while in use, and translate errors."""

import errno
import os
import time
from functools import cache
from importlib import resources
from pathlib import Path
from uuid import uuid4

import apsw

from holdfast.errors import (
    HoldfastError,
    StoreBusyError,
    StoreFullError,
    StoreIoError,
    StoreMovedError,
    StorePathError,
    StoreReadOnlyError,
    StoreVersionError,
)
from holdfast.ports.model import Progress, ignore
from holdfast.stores.folder import sync_folder
from holdfast.stores.sqlite.process_lock import LOCK_POLL_SECONDS, Instances

# A second change within the resolution of a file system's times leaves the folder's time as it was. The coarsest, of
# old ext4 and FAT, are one and two seconds; so a folder that changed a moment ago is not trusted yet.
FOLDER_QUIET_SECONDS = 2.5
# A time with a part below a millisecond comes from a file system that keeps at least microseconds. Linux sets such
# times from a clock that ticks at least a hundred times a second.
FINE_FOLDER_QUIET_SECONDS = 0.05
_FINE_NS = 1_000_000
# Pages between two progress reports: 8 MiB, some ten milliseconds.
_PAGES_AT_ONCE = 2_000


def copy_pages(theirs: apsw.Connection, target: Path, progress: Progress = ignore) -> None:
    """Copy a database to a new path atomically, without blocking writers."""
    incoming = target.with_name(f"{target.name}.{uuid4().hex}.incoming")
    try:
        # Conversations are private.
        os.close(os.open(incoming, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
        ours = apsw.Connection(str(incoming))
        try:
            _copy(theirs, ours, progress)
        finally:
            ours.close()
        os.link(incoming, target)
        sync_folder(target.parent)
    finally:
        for suffix in ("", "-wal", "-shm", "-journal"):
            incoming.with_name(incoming.name + suffix).unlink(missing_ok=True)


def _copy(theirs: apsw.Connection, ours: apsw.Connection, progress: Progress) -> None:
    # One transaction for all steps: a commit meanwhile does not restart the backup.
    with theirs:
        _ = theirs.execute("SELECT count(*) FROM sqlite_schema").get
        with ours.backup("main", theirs, "main") as backup:
            while not backup.done:
                backup.step(_PAGES_AT_ONCE)
                progress("copying the file", backup.page_count - backup.remaining, backup.page_count)


# --- Check after an unclean shutdown ---

# Time limit of the check. It covers small stores completely (10,000 pages), and the most written tables of larger ones.
CHECK_SECONDS_MAX = 0.05
# SQLite VM steps between two reads of the clock: some ten microseconds.
_STEPS_PER_LOOK = 1_000

# Recent records first, then sessions, then all other tables.
_FIRST = ("recent", "sessions")
_SELECT_TABLES = (
    "SELECT name FROM sqlite_schema"
    " WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%' AND name NOT LIKE 'sqlite_%'"
)


def is_unclean(path: Path, instances: Instances) -> bool:
    """Return whether the last process died: its lock file is left, or the WAL was not checkpointed."""
    log = path.with_name(f"{path.name}-wal")
    return instances.found_dead or (instances.is_alone and log.exists() and log.stat().st_size > 0)


def check_pages(db: apsw.Connection, path: Path, *, seconds_max: float = CHECK_SECONDS_MAX) -> int:
    """Check the pages of one table after the other within a time limit. Return the number of checked tables.

    Raises `StoreIoError` at a damaged page. Changes nothing.
    """
    deadline = time.monotonic() + seconds_max
    names = [str(name) for (name,) in db.execute(_SELECT_TABLES)]
    names.sort(key=lambda name: _FIRST.index(name) if name in _FIRST else len(_FIRST))
    db.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS_PER_LOOK)
    try:
        for checked, name in enumerate(names):
            try:
                found = [str(line) for (line,) in db.execute(f"PRAGMA quick_check('{name}')")]
            except apsw.InterruptError:
                return checked
            if found != ["ok"] and found[0] != "interrupted":
                raise StoreIoError(
                    f"{path} is damaged (table {name}: {found[0]}); nothing was changed. Keep the file as it is, see "
                    f"`holdfast doctor --store {path}`, and restore a backup beside it (`holdfast restore`)"
                )
            if time.monotonic() > deadline:
                return checked
    finally:
        db.set_progress_handler(None)
    return len(names)


# "HOLD": distinguishes our files from those of other programs, see https://sqlite.org/pragma.html#pragma_application_id
APPLICATION_ID = 0x484F4C44
# A commit takes milliseconds. A process that holds the file longer hangs or was stopped, and callers should know.
BUSY_SECONDS = 5.0
# File systems without working locks or shared memory between machines: they would damage the WAL.
# See https://sqlite.org/wal.html, "Noteworthy changes", and https://sqlite.org/howtocorrupt.html, section 2.1.
NETWORK_FILE_SYSTEMS = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "fuse.sshfs", "vboxsf", "prl_fs"})

# Mount table, and the number of columns up to the mount point, see proc(5).
MOUNTS = Path("/proc/self/mountinfo")
_MOUNT_COLUMNS = 5

OUT_OF_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})


class BusyHandler:
    """Busy handler with short sleeps and a timeout. The one of SQLite sleeps up to 100 ms between two tries."""

    def __init__(self, seconds_max: float) -> None:
        self.seconds_max = seconds_max
        self._deadline = 0.0

    def __call__(self, tries: int) -> bool:
        """Sleep, and return whether to retry."""
        if tries == 0:
            self._deadline = time.monotonic() + self.seconds_max
        if time.monotonic() >= self._deadline:
            return False
        time.sleep(LOCK_POLL_SECONDS)
        return True


@cache
def migrations() -> tuple[tuple[int, str], ...]:
    """Return the numbered migrations."""
    folder = resources.files("holdfast.stores") / "sql" / "sqlite"
    files = sorted((entry.name, entry) for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return tuple((int(name.partition("_")[0]), entry.read_text(encoding="utf-8")) for name, entry in files)


def check_path(path: Path) -> None:
    """Reject a path that cannot hold a store, before anything is created there."""
    if path.is_dir():
        raise StorePathError(f"{path} is a folder; use the path of a file in it, such as {path / 'holdfast.db'}")
    if not path.parent.is_dir():
        raise StorePathError(f"the folder {path.parent} does not exist; create it or choose another path")
    if os.statvfs(path.parent).f_flag & os.ST_RDONLY:
        raise StorePathError(
            f"{path.parent} is on a read-only file system; mount it for writing or choose another path"
        )
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise StorePathError(f"the folder {path.parent} is not writable; change its permissions or choose another path")
    if path.exists() and not os.access(path, os.R_OK | os.W_OK):
        raise StorePathError(f"{path} is not readable and writable; change its permissions or choose another path")
    file_system = _file_system_of(path.parent)
    if file_system in NETWORK_FILE_SYSTEMS:
        raise StorePathError(
            f"{path} is on a network file system ({file_system}), which would damage the WAL of SQLite; "
            "choose a path on a local disk"
        )


def prepare(path: Path, instances: Instances) -> None:
    """Create the file if it is missing, check that it is ours, and migrate it to the newest layout."""
    try:
        instances.enter_queue(BUSY_SECONDS)
    except TimeoutError as error:
        raise translate_error(path, error) from error
    db: apsw.Connection | None = None
    is_left_unclean = is_unclean(path, instances)
    try:
        if not path.exists():
            # Conversations are private. The -wal and -shm files inherit these permissions.
            os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
        db = connect(path)
        _check_is_ours(db, path)
        if is_left_unclean:
            check_pages(db, path)
        _migrate(db, path)
    except (apsw.Error, OSError) as error:
        raise _open_error(path, error, db) from error
    finally:
        if db is not None:
            db.close()
        instances.leave_queue()


def connect(path: Path, *, is_reader: bool = False, busy_handler: BusyHandler | None = None) -> apsw.Connection:
    """Open a connection with a busy timeout of `BUSY_SECONDS`, or with the given handler."""
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    db.set_busy_handler(busy_handler or BusyHandler(BUSY_SECONDS))
    # Disable features that a damaged or hostile file could use to run code or to bypass SQLite.
    db.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    db.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
    db.execute("PRAGMA synchronous = FULL")
    db.execute("PRAGMA foreign_keys = ON")
    if is_reader:
        db.execute("PRAGMA query_only = ON")
    return db


class FilePlace:
    """The identity of an open database file and its WAL, to detect that they are no longer at their path.

    SQLite writes on into a file that was removed, and into a WAL that was: a message accepted there would be gone.

    Nothing can be removed, renamed or replaced in a folder without a new change time of the folder. So one `stat` of
    the folder is enough while that time stays the same. A `stat` of the files themselves is slower than it looks: on
    Linux 6.13 and newer, the next write to a file whose times were read updates its inode, which made a commit take
    40 microseconds more.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._wal_path = str(path), f"{path}-wal"
        # A link has its target in another folder.
        self._folder = None if path.is_symlink() else str(path.parent)
        self._file = _identity(self._path)
        # SQLite creates the WAL at the first write, and keeps it while a connection is open.
        self._wal: tuple[int, int] | None = None
        # The folder in which both files were found; None: look for them.
        self._seen: tuple[int, int, int] | None = None

    def check(self) -> None:
        """Raise `StoreMovedError` if another file, or none, is at the path."""
        folder = _folder_state(self._folder) if self._folder is not None else None
        if folder is not None and folder == self._seen:
            return
        self._seen = None
        if self._file != _identity(self._path):
            raise self._moved(self._path)
        if self._wal is not None:
            if self._wal != _identity(self._wal_path):
                raise self._moved(self._wal_path)
            if folder is not None and time.time() - folder[2] / 1e9 > _quiet_seconds(folder[2]):
                self._seen = folder

    @property
    def has_wal(self) -> bool:
        """Return whether the WAL is known."""
        return self._wal is not None

    def note_wal(self) -> None:
        """Remember the WAL after the first commit, which has created it if there was none."""
        self._wal = _identity(self._wal_path)

    def _moved(self, path: str) -> StoreMovedError:
        return StoreMovedError(
            f"{path} was removed, renamed or replaced while the store was open, so nothing can be accepted; put the "
            f"file back, or restart to use the one at {self._path} (with `holdfast restore` for a backup)"
        )


def _quiet_seconds(changed_ns: int) -> float:
    """Return how long a folder with this change time must have been unchanged to be trusted."""
    is_coarse = changed_ns % _FINE_NS == 0
    return FOLDER_QUIET_SECONDS if is_coarse else FINE_FOLDER_QUIET_SECONDS


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - called for each commit
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _folder_state(folder: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(folder)  # noqa: PTH116 - called for each commit
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_ctime_ns


def translate_error(path: Path, error: apsw.Error | OSError, db: apsw.Connection | None = None) -> HoldfastError:
    """Return the error of ours for an error of SQLite or of the disk."""
    match error:
        case apsw.BusyError() | apsw.LockedError() | TimeoutError():
            return StoreBusyError(
                f"another process has held {path} for {BUSY_SECONDS:g} seconds; retry, or end it if it hangs"
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
            return StoreIoError(f"{path} is damaged ({error}); keep the file as it is and restore a backup next to it")
        case _:
            return StoreIoError(f"{path} cannot be read or written ({error}); check the disk and its permissions")


def full(path: Path) -> StoreFullError:
    """Return the error for a full disk."""
    return StoreFullError(f"no space is left for {path}; nothing was stored: free some space and retry")


def _read_only(path: Path) -> StoreReadOnlyError:
    return StoreReadOnlyError(
        f"{path} is read-only: its file system is mounted read-only, often after an error of the disk; nothing was "
        "stored: check the system log, then mount it for writing again"
    )


def _errno_of(error: apsw.Error | OSError, db: apsw.Connection | None) -> int:
    """Return the errno of a failed system call; 0 for other errors."""
    if isinstance(error, OSError):
        return error.errno or 0
    # SQLite never clears the last errno, so it is valid only for these kinds of errors.
    is_system_error = isinstance(error, apsw.IOError | apsw.CantOpenError)
    return db.system_errno if is_system_error and db is not None else 0


def _open_error(path: Path, error: apsw.Error | OSError, db: apsw.Connection | None = None) -> HoldfastError:
    match error:
        case apsw.NotADBError():
            return StorePathError(f"{path} is not a database; choose another path, or move that file away")
        case apsw.CantOpenError() | apsw.ReadOnlyError() | apsw.PermissionsError() if (
            _errno_of(error, db) not in OUT_OF_SPACE
        ):
            return StorePathError(f"{path} cannot be opened for writing ({error}); check its permissions")
        case _:
            return translate_error(path, error, db)


def _check_is_ours(db: apsw.Connection, path: Path) -> None:
    application_id = db.execute("PRAGMA application_id").get
    tables = db.execute("SELECT count(*) FROM sqlite_schema").get
    if application_id != APPLICATION_ID and (application_id or tables):
        raise StorePathError(f"{path} is the database of another program; choose another path")


def _migrate(db: apsw.Connection, path: Path) -> None:
    version, steps = db.execute("PRAGMA user_version").get, migrations()
    if version > steps[-1][0]:
        raise StoreVersionError(
            f"{path} has layout {version}, this version of Holdfast supports {steps[-1][0]} at most; "
            "install the version that wrote it, or a newer one"
        )
    mode = db.execute("PRAGMA journal_mode = WAL").get
    if mode != "wal":
        raise StorePathError(
            f"{path} cannot use a write-ahead log (SQLite chose {mode!r}), as on network file systems; "
            "choose a path on a local disk"
        )
    if version < steps[-1][0] and version and db.execute("SELECT count(*) FROM sessions").get:
        _backup_before_migration(db, path, version)
    for number, sql in steps:
        if number > version:
            # One transaction each; closing the connection after an error rolls it back.
            db.execute("BEGIN IMMEDIATE")
            db.execute(sql)
            db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            db.execute(f"PRAGMA user_version = {number}")
            db.execute("COMMIT")


def _backup_before_migration(db: apsw.Connection, path: Path, version: int) -> None:
    """Copy the store before a migration, so that a user can return to the older version of Holdfast."""
    copy = path.with_name(f"{path.name}-layout-{version}")
    try:
        if not copy.exists():
            copy_pages(db, copy)
    except OSError as error:
        raise translate_error(copy, error) from error


def layout_of(path: Path) -> tuple[int, int]:
    """Return the layout of a store and the newest one, without changes. Rejects a file that is not ours."""
    check_path(path)
    try:
        db = connect(path, is_reader=True)
        try:
            _check_is_ours(db, path)
            version: int = db.execute("PRAGMA user_version").get
        finally:
            db.close()
    except apsw.Error as error:
        raise _open_error(path, error) from error
    return version, migrations()[-1][0]


def _file_system_of(folder: Path) -> str | None:
    """Return the file system type of a folder; None where the system has no mount table (Linux only)."""
    try:
        mounts = MOUNTS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    best, found = "", None
    place = f"{folder.resolve()}/"
    for line in mounts:
        # "36 35 98:0 / /mount/point rw,noatime master:1 - ext4 /dev/root rw": the type follows the lone dash.
        before, _, after = line.partition(" - ")
        columns, types = before.split(), after.split()
        if len(columns) < _MOUNT_COLUMNS or not types:
            continue
        mount_point = columns[4].replace("\\040", " ").rstrip("/") + "/"
        # Later lines hide earlier ones at the same mount point.
        if place.startswith(mount_point) and len(mount_point) >= len(best):
            best, found = mount_point, types[0]
    return found
