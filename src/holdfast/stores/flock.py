"""Locks of files between processes (flock). The kernel drops one when its process ends, however it ends."""

from typing import Protocol

from holdfast.errors import PlatformError

try:
    import fcntl
except ModuleNotFoundError as error:
    raise PlatformError("fcntl") from error


class _OpenFile(Protocol):
    def fileno(self) -> int: ...


def wait_for_lock(file: int | _OpenFile) -> None:
    """Lock an open file, waiting for another process if need be."""
    fcntl.flock(file, fcntl.LOCK_EX)


def try_lock(file: int | _OpenFile) -> bool:
    """Lock an open file unless another process has, and return whether it is locked."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def unlock(file: int | _OpenFile) -> None:
    """Let another process lock the file."""
    fcntl.flock(file, fcntl.LOCK_UN)
