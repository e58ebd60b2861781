"""Bytes in a folder, complete and durable under their name or not there at all.

They are written to a temporary file, synced, and then linked to their name; the link either exists or does not, so a
crash leaves no half of anything, and of two writers of one name the first wins. All of it blocks: call it in a thread.
"""

import errno
import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import BinaryIO
from uuid import uuid4

from holdfast.errors import HoldfastError, StoreFullError, StoreIoError
from holdfast.types.messages import BlobRef

_OUT_OF_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})


class Witness:
    """Sees what is asked of the disk, in order, right after it was done. This one takes no notice.

    The laboratory works out from it what a loss of power may leave, as it does for SQLite's own files.
    """

    def made(self, folder: Path) -> None:
        """A folder has its name."""

    def wrote(self, path: Path, content: bytes) -> None:
        """Bytes were added at the end of a file, which was made for them where it was not there."""

    def linked(self, path: Path, source: Path) -> None:
        """A file has another name."""

    def synced(self, path: Path) -> None:
        """The bytes of a file, or the names in a folder, are on the disk."""

    def removed(self, path: Path) -> None:
        """A name is gone."""


# Who sees all of it, in this process.
_witnesses = [Witness()]


@contextmanager
def witnessed(witness: Witness) -> Iterator[None]:
    """Have somebody see what is asked of the disk, whoever asks for it."""
    _witnesses.append(witness)
    try:
        yield
    finally:
        _witnesses.remove(witness)


def make_private_folder(folder: Path) -> None:
    """Make a folder where there is none. Its parent must exist. It is durable when this returns, whoever made it."""
    # Conversations are private: nobody else may read them, or what was attached to them.
    folder.mkdir(mode=0o700, exist_ok=True)
    _witnesses[-1].made(folder)
    sync_folder(folder.parent)


def link_if_absent(incoming: "Incoming", path: Path) -> bool:
    """Give finished bytes their name, unless something has it, and say whether; durable when this returns."""
    if not path.parent.exists():
        make_private_folder(path.parent)
    try:
        os.link(incoming.path, path)
    except FileExistsError:
        # Another writer linked it, but its sync may still be under way.
        sync_folder(path.parent)
        return False
    _witnesses[-1].linked(path, incoming.path)
    sync_folder(path.parent)
    return True


def sweep(folder: Path) -> None:
    """Remove what writers that died left behind in their folder for temporary files: whatever is not locked."""
    for path in folder.iterdir():
        with suppress(FileNotFoundError, BlockingIOError), path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Without a name it was swept by somebody else, and what has its name now belongs to a living writer.
            if os.fstat(file.fileno()).st_nlink:
                path.unlink()


def translated(error: OSError, what: str) -> HoldfastError:
    """Return what an error of the disk means to the caller, and what to do about it."""
    if error.errno in _OUT_OF_SPACE:
        return StoreFullError(f"no space is left for {what}; nothing was stored: free some space and try again")
    return StoreIoError(f"{what} cannot be read or written ({error.strerror}); check the disk and its permissions")


def sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
    _witnesses[-1].synced(folder)


class Incoming:
    """Bytes on their way in. Their temporary file is locked for as long as someone writes to it.

    A task that is cancelled goes away while its thread still works, so whoever touches the file holds `_lock`.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / uuid4().hex
        self._lock = Lock()
        self._file: BinaryIO | None = None
        self._hash = hashlib.sha256()
        self._size_bytes = 0

    def write(self, content: bytes) -> None:
        """Add bytes."""
        with self._lock:
            self._open().write(content)
            _witnesses[-1].wrote(self.path, content)
            self._hash.update(content)
            self._size_bytes += len(content)

    def finish(self) -> BlobRef:
        """Bring everything to the disk and return what to call it."""
        with self._lock:
            file = self._open()
            file.flush()
            os.fsync(file.fileno())
            _witnesses[-1].synced(self.path)
            return BlobRef(self._hash.hexdigest(), self._size_bytes)

    def close(self) -> None:
        """Remove the temporary name; what was linked keeps its bytes under its own."""
        with self._lock:
            # Where the folder could not even be made there is nothing to remove.
            with suppress(NotADirectoryError):
                self.path.unlink(missing_ok=True)
                _witnesses[-1].removed(self.path)
            if self._file is not None:
                # What could not be flushed belongs to what was given up.
                with suppress(OSError):
                    self._file.close()

    def _open(self) -> BinaryIO:
        while self._file is None:
            file = os.fdopen(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb")
            fcntl.flock(file, fcntl.LOCK_EX)
            if os.fstat(file.fileno()).st_nlink:
                self._file = file
            else:
                # Swept away between its creation and its lock.
                file.close()
        return self._file
