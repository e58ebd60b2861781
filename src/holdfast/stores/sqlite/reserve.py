"""Reserved disk space of a SQLite store, released when the disk is full so that open turns can end.

The file `<database>-reserve` has no content. Its size is the state for all processes: at full size the space is
reserved; at size 0 it was released, and until it can be allocated again only records that end a turn are accepted.
Without the file the store works without a reserve: a failure to allocate it is never an error.
"""

import errno
import os
import sys
import time
from contextlib import suppress
from pathlib import Path

# Ending a turn writes 3 to 6 pages of 4 KiB to the WAL, and taking the lease 2 more: enough for 120 turns that end one
# by one, and for thousands that end together (20 pages per hundred). It is also the size by which a checkpoint of 1,000
# pages may grow the database.
RESERVE_BYTES = 4 * 2**20
# Free space that must remain when it is allocated again: a new turn should be able to progress.
_SPARE_BYTES = 2**20
# Retry intervals of the allocation: the first one, and after a release. A try costs microseconds.
_TRY_SECONDS_MISSING = 60.0
_TRY_SECONDS_RELEASED = 0.5

_OUT_OF_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})


def reserve_path(database: Path) -> Path:
    """Return the path of the reserve file of a store."""
    return database.with_name(f"{database.name}-reserve")


def is_released(database: Path) -> bool:
    """Return whether the space was released and not allocated again. Changes nothing."""
    try:
        return reserve_path(database).stat().st_size == 0
    except OSError:
        return False


def release_reserve(database: Path) -> bool:
    """Release the space of a store that cannot be opened, and return whether there was any."""
    try:
        fd = os.open(reserve_path(database), os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return _truncate(fd)
    finally:
        os.close(fd)


class Reserve:
    """The reserved space of one store. The caller holds the lock of the write connection."""

    def __init__(self, database: Path) -> None:
        self._path = reserve_path(database)
        self._fd: int | None = None
        self._next_try = 0.0
        # The space was allocated when this process last looked, and this process has not released it.
        self.is_kept = False
        with suppress(OSError):
            self._fd = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        self.allows_all()

    def allows_all(self) -> bool:
        """Return whether all writes are allowed, not only turn ends. Allocates the space again if possible."""
        if self._fd is None:
            if self._is_time(_TRY_SECONDS_MISSING):
                self._create()
            return True
        try:
            # Any process may have allocated it.
            self.is_kept = os.fstat(self._fd).st_size > 0 or (
                self._is_time(_TRY_SECONDS_RELEASED) and _allocate(self._fd)
            )
        except OSError:
            # A failing reserve must not stop the store.
            self._disable()
            return True
        return self.is_kept

    def release(self) -> bool:
        """Release the space, and return whether there was any."""
        self._next_try = time.monotonic() + _TRY_SECONDS_RELEASED
        self.is_kept = False
        return self._fd is not None and _truncate(self._fd)

    def close(self) -> None:
        """Close the file. The space stays reserved: a start on a full disk needs it."""
        if self._fd is not None:
            os.close(self._fd)

    def _is_time(self, seconds: float) -> bool:
        now = time.monotonic()
        if now < self._next_try:
            return False
        self._next_try = now + seconds
        return True

    def _create(self) -> None:
        """Create the file under a temporary name: an empty file would mean that it was released."""
        incoming = self._path.with_name(f"{self._path.name}.{os.getpid()}.incoming")
        fd = None
        try:
            fd = os.open(incoming, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            if _allocate(fd):
                incoming.replace(self._path)
                self._fd, fd = fd, None
        except OSError:
            # Not writable, or the file system cannot allocate: the store works without a reserve.
            pass
        finally:
            if fd is not None:
                os.close(fd)
            with suppress(OSError):
                incoming.unlink()

    def _disable(self) -> None:
        fd, self._fd, self.is_kept = self._fd, None, False
        with suppress(OSError):
            self._path.unlink()
        if fd is not None:
            with suppress(OSError):
                os.close(fd)


def _truncate(fd: int) -> bool:
    try:
        if not os.fstat(fd).st_size:
            return False
        os.ftruncate(fd, 0)
        # Some file systems free the space only with the next commit of their journal.
        os.fsync(fd)
    except OSError:
        return False
    return True


def _allocate(fd: int) -> bool:
    """Allocate the space completely or not at all, and return whether it was allocated."""
    disk = os.fstatvfs(fd)
    if disk.f_bavail * disk.f_frsize < RESERVE_BYTES + _SPARE_BYTES:
        return False
    try:
        if sys.platform == "linux":
            os.posix_fallocate(fd, 0, RESERVE_BYTES)
        else:
            os.pwrite(fd, bytes(RESERVE_BYTES), 0)
    except OSError as error:
        # A part may have been allocated.
        os.ftruncate(fd, 0)
        if error.errno in _OUT_OF_SPACE:
            return False
        raise
    return True
