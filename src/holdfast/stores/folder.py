"""Atomic, durable file writes in a folder.

Content is written to a temporary file, synced, and then linked to its name. The link exists or does not, so a crash
leaves no partial file, and of two writers of one name the first wins. All functions block: call them in a thread.
"""

import errno
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import BinaryIO
from uuid import uuid4

from holdfast.errors import HoldfastError, StoreFullError, StoreIoError
from holdfast.stores.flock import try_lock, wait_for_lock
from holdfast.types.messages import BlobRef

_OUT_OF_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})


class DiskObserver:
    """Observer of disk operations, called in order after each one. The base class ignores them.

    The crash lab derives from them the states that a power loss may leave, as it does for SQLite's files.
    """

    def made(self, folder: Path) -> None:
        """A folder was created."""

    def wrote(self, path: Path, content: bytes) -> None:
        """Bytes were appended to a file, which was created if it did not exist."""

    def linked(self, path: Path, source: Path) -> None:
        """A file got another name."""

    def synced(self, path: Path) -> None:
        """A file or a folder was synced."""

    def removed(self, path: Path) -> None:
        """A name was removed."""


# The observers of this process; the last one is active.
_observers = [DiskObserver()]


@contextmanager
def observe_disk(observer: DiskObserver) -> Iterator[None]:
    """Observe all disk operations of this process while the context is open."""
    _observers.append(observer)
    try:
        yield
    finally:
        _observers.remove(observer)


def make_private_folder(folder: Path) -> None:
    """Create a folder unless it exists, and sync its parent, which must exist."""
    # Conversations and attachments are private.
    folder.mkdir(mode=0o700, exist_ok=True)
    _observers[-1].made(folder)
    sync_folder(folder.parent)


def link_if_absent(incoming: "Incoming", path: Path) -> bool:
    """Link a finished file to its name unless the name exists; return whether it was linked. Durable on return."""
    if not path.parent.exists():
        make_private_folder(path.parent)
    try:
        os.link(incoming.path, path)
    except FileExistsError:
        # Another writer linked it, but its sync may still be running.
        sync_folder(path.parent)
        return False
    _observers[-1].linked(path, incoming.path)
    sync_folder(path.parent)
    return True


def sweep(folder: Path) -> None:
    """Remove the temporary files of dead writers: those that are not locked."""
    for path in folder.iterdir():
        with suppress(FileNotFoundError), path.open("rb") as file:
            # A file without a name was swept by another process; its name now belongs to a live writer.
            if try_lock(file) and os.fstat(file.fileno()).st_nlink:
                path.unlink()


def translate_error(error: OSError, what: str) -> HoldfastError:
    """Return the error of ours for an error of the disk."""
    if error.errno in _OUT_OF_SPACE:
        return StoreFullError(f"no space is left for {what}; nothing was stored: free some space and retry")
    return StoreIoError(f"{what} cannot be read or written ({error.strerror}); check the disk and its permissions")


def sync_folder(folder: Path) -> None:
    """Sync the names in a folder."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
    _observers[-1].synced(folder)


class Incoming:
    """A temporary file that is being written. It is locked until it is closed.

    The thread of a cancelled task may still run, so every access to the file holds `_lock`.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / uuid4().hex
        self._lock = Lock()
        self._file: BinaryIO | None = None
        self._hash = hashlib.sha256()
        self._size_bytes = 0

    def write(self, content: bytes) -> None:
        """Append bytes."""
        with self._lock:
            self._open().write(content)
            _observers[-1].wrote(self.path, content)
            self._hash.update(content)
            self._size_bytes += len(content)

    def finish(self) -> BlobRef:
        """Sync the file and return its reference."""
        with self._lock:
            file = self._open()
            file.flush()
            os.fsync(file.fileno())
            _observers[-1].synced(self.path)
            return BlobRef(self._hash.hexdigest(), self._size_bytes)

    def close(self) -> None:
        """Remove the temporary name. A linked file keeps its content."""
        with self._lock:
            # The folder does not exist if it could not be created.
            with suppress(NotADirectoryError):
                self.path.unlink(missing_ok=True)
                _observers[-1].removed(self.path)
            if self._file is not None:
                # Unflushed bytes belong to an abandoned file.
                with suppress(OSError):
                    self._file.close()

    def _open(self) -> BinaryIO:
        while self._file is None:
            file = os.fdopen(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb")
            wait_for_lock(file)
            if os.fstat(file.fileno()).st_nlink:
                self._file = file
            else:
                # Swept between its creation and its lock.
                file.close()
        return self._file
