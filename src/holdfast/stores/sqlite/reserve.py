"""Space that is kept beside a SQLite store for the records that end turns, given up when the disk is full.

The file `<database>-reserve` holds nothing. Its size says how things stand, to every process that has the store open:
whole, the space is kept; empty, it was given up, and until it can be made again nothing is taken but what ends a turn.
Where there is no such file, the store goes on without: that space could not be had is never by itself an error.
"""

import errno
import os
import sys
import time
from contextlib import suppress
from pathlib import Path

# What ends a turn touches 3 to 6 pages of 4 KiB in the log of changes, taking the session's lease 2 more: enough for
# 120 turns that end one by one, and for thousands that end together (20 pages a hundred). It is also what a
# checkpoint may make the database grow by, with the 1,000 pages that the log has then.
RESERVE_BYTES = 4 * 2**20
# It is made again when so much is free beside it: a turn that begins should get somewhere.
_SPARE_BYTES = 2**20
# How often it is tried where it could not be made at first, and where it was given up. Asking costs microseconds.
_TRY_SECONDS_UNMADE = 60.0
_TRY_SECONDS_GIVEN_UP = 0.5

_OUT_OF_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})


def reserve_path(database: Path) -> Path:
    """Return where the space for a store is kept."""
    return database.with_name(f"{database.name}-reserve")


def is_given_up(database: Path) -> bool:
    """Whether the space was given up and could not be made again yet. Changes nothing."""
    try:
        return reserve_path(database).stat().st_size == 0
    except OSError:
        return False


def give_up_reserve(database: Path) -> bool:
    """Let the disk have the space of a store that cannot even be opened, and return whether there was any."""
    try:
        fd = os.open(reserve_path(database), os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return _let_go(fd)
    finally:
        os.close(fd)


class Reserve:
    """The space that is kept for one store. For whoever has the pen."""

    def __init__(self, database: Path) -> None:
        self._path = reserve_path(database)
        self._fd: int | None = None
        self._next_try = 0.0
        with suppress(OSError):
            self._fd = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        self.allows_all()

    def allows_all(self) -> bool:
        """Whether everything may be written, and not only what ends a turn; made again where that is possible."""
        if self._fd is None:
            if self._is_time(_TRY_SECONDS_UNMADE):
                self._make_first()
            return True
        try:
            # By any process, this one included.
            if os.fstat(self._fd).st_size > 0:
                return True
            return self._is_time(_TRY_SECONDS_GIVEN_UP) and _take_space(self._fd)
        except OSError:
            # Whatever keeps the space from being kept must not keep the store from going on.
            self._go_without()
            return True

    def give_up(self) -> bool:
        """Let the disk have the space, and return whether there was any to let go of."""
        self._next_try = time.monotonic() + _TRY_SECONDS_GIVEN_UP
        return self._fd is not None and _let_go(self._fd)

    def close(self) -> None:
        """Let go of the file. The space stays kept: whoever starts on a full disk needs it."""
        if self._fd is not None:
            os.close(self._fd)

    def _is_time(self, seconds: float) -> bool:
        now = time.monotonic()
        if now < self._next_try:
            return False
        self._next_try = now + seconds
        return True

    def _make_first(self) -> None:
        """Make the file where there is none. Under another name first: an empty one would mean that it was given up."""
        incoming = self._path.with_name(f"{self._path.name}.{os.getpid()}.incoming")
        fd = None
        try:
            fd = os.open(incoming, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            if _take_space(fd):
                incoming.replace(self._path)
                self._fd, fd = fd, None
        except OSError:
            # Not writable, or a file system that keeps no space: the store goes on without.
            pass
        finally:
            if fd is not None:
                os.close(fd)
            with suppress(OSError):
                incoming.unlink()

    def _go_without(self) -> None:
        fd, self._fd = self._fd, None
        with suppress(OSError):
            self._path.unlink()
        if fd is not None:
            with suppress(OSError):
                os.close(fd)


def _let_go(fd: int) -> bool:
    try:
        if not os.fstat(fd).st_size:
            return False
        os.ftruncate(fd, 0)
        # Some file systems let go of space only with the next commit of their own log.
        os.fsync(fd)
    except OSError:
        return False
    return True


def _take_space(fd: int) -> bool:
    """Take the space from the disk, and return whether there was enough: all of it, or nothing."""
    disk = os.fstatvfs(fd)
    if disk.f_bavail * disk.f_frsize < RESERVE_BYTES + _SPARE_BYTES:
        return False
    try:
        if sys.platform == "linux":
            os.posix_fallocate(fd, 0, RESERVE_BYTES)
        else:
            os.pwrite(fd, bytes(RESERVE_BYTES), 0)
    except OSError as error:
        # Some of it may have been taken.
        os.ftruncate(fd, 0)
        if error.errno in _OUT_OF_SPACE:
            return False
        raise
    return True
