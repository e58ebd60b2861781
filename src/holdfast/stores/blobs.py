"""Blobs in a folder: original bytes under their SHA-256, complete and durable or not there at all.

A blob is written to a temporary file in the folder `incoming`, synced, and then linked to its name; the link either
exists or does not, so a crash leaves no half blob, and two writers of the same bytes end with one file. Blobs lie in
256 folders named by the first two digits, so that no folder gets too large: a million blobs are 4,000 in each.
Everything that touches the disk happens in threads.
"""

import asyncio
import errno
import fcntl
import hashlib
import os
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Lock
from typing import BinaryIO, TypeVar
from uuid import uuid4

from holdfast.core.messages import BlobRef
from holdfast.errors import BlobMissingError, HoldfastError, StoreFullError, StoreIoError, StorePathError

# Read, hashed and written at once: large enough that calls cost nothing, small enough for memory with many at work.
CHUNK_BYTES = 2**20
_OUT_OF_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})

ResultT = TypeVar("ResultT")


class FolderBlobs:
    """Blobs in a local folder, which is created where it does not exist. Its parent must exist."""

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)
        self._incoming = self._folder / "incoming"
        try:
            # Conversations are private: nobody else may read what was attached to them.
            self._folder.mkdir(mode=0o700, exist_ok=True)
            self._incoming.mkdir(mode=0o700, exist_ok=True)
            _sync_folder(self._folder)
            _sync_folder(self._folder.parent)
            self._sweep()
        except OSError as error:
            raise StorePathError(
                f"blobs cannot be kept in {folder} ({error.strerror}); create that folder or change its permissions"
            ) from error

    async def put(self, chunks: AsyncIterator[bytes] | bytes) -> BlobRef:
        """Keep these bytes; see `Blobs.put`. Of a stream one chunk and at most a MiB more is in memory."""
        incoming = _Incoming(self._incoming)
        try:
            if isinstance(chunks, bytes):
                await self._in_a_thread(partial(incoming.write, chunks))
            else:
                async for piece in gathered(chunks):
                    await self._in_a_thread(partial(incoming.write, piece))
            return await self._in_a_thread(partial(self._keep, incoming))
        finally:
            await asyncio.to_thread(incoming.close)

    async def get(self, ref: BlobRef) -> bytes:
        """Return all bytes, checked against the name; see `Blobs.get`."""

        def read_checked() -> bytes:
            content = self._path_of(ref).read_bytes()
            if hashlib.sha256(content).hexdigest() != ref.sha256:
                raise BlobMissingError(ref.sha256, "was altered: its bytes do not match its name")
            return content

        return await self._in_a_thread(read_checked, ref)

    async def read(self, ref: BlobRef, *, start: int, length: int) -> bytes:
        """Return a range of the bytes; see `Blobs.read`. A range is not checked: that would take reading everything."""

        def read_range() -> bytes:
            with self._path_of(ref).open("rb") as file:
                file.seek(max(start, 0))
                return file.read(max(length, 0))

        return await self._in_a_thread(read_range, ref)

    async def _in_a_thread(self, work: Callable[[], ResultT], ref: BlobRef | None = None) -> ResultT:
        try:
            return await asyncio.to_thread(work)
        except FileNotFoundError as error:
            if ref is None:
                raise self._translated(error) from error
            raise BlobMissingError(ref.sha256, f"is not in {self._folder}") from error
        except OSError as error:
            raise self._translated(error) from error

    def _translated(self, error: OSError) -> HoldfastError:
        if error.errno in _OUT_OF_SPACE:
            return StoreFullError(
                f"no space is left for blobs in {self._folder}; nothing was stored: free some space and try again"
            )
        return StoreIoError(
            f"blobs in {self._folder} cannot be read or written ({error.strerror}); check the disk and its permissions"
        )

    def _path_of(self, ref: BlobRef) -> Path:
        # A name that is no hash could lead out of the folder.
        if len(ref.sha256) != hashlib.sha256().digest_size * 2 or not set(ref.sha256) <= set("0123456789abcdef"):
            raise BlobMissingError(ref.sha256, "is not named by a SHA-256")
        return self._folder / ref.sha256[:2] / ref.sha256

    def _keep(self, incoming: "_Incoming") -> BlobRef:
        """Give complete bytes their name, unless they have it already; durable when this returns."""
        ref = incoming.finish()
        path = self._path_of(ref)
        if not path.parent.exists():
            path.parent.mkdir(mode=0o700, exist_ok=True)
            _sync_folder(self._folder)
        try:
            os.link(incoming.path, path)
        except FileExistsError:
            if _sha256_of(path) != ref.sha256:
                # Damaged since it was put. The right bytes are at hand, so this heals it.
                incoming.path.replace(path)
        # Also where another writer linked it: its sync may still be under way.
        _sync_folder(path.parent)
        return ref

    def _sweep(self) -> None:
        """Remove what writers that died left behind: whatever is not locked."""
        for path in self._incoming.iterdir():
            with suppress(FileNotFoundError, BlockingIOError), path.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()


class _Incoming:
    """A blob on its way in. Its temporary file is locked for as long as someone writes to it.

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
            self._hash.update(content)
            self._size_bytes += len(content)

    def finish(self) -> BlobRef:
        """Bring everything to the disk and return its name."""
        with self._lock:
            file = self._open()
            file.flush()
            os.fsync(file.fileno())
            return BlobRef(self._hash.hexdigest(), self._size_bytes)

    def close(self) -> None:
        """Remove the temporary name; a blob that was linked keeps its bytes under its own."""
        with self._lock:
            self.path.unlink(missing_ok=True)
            if self._file is not None:
                # What could not be flushed belongs to a blob that was given up.
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


async def gathered(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Join small chunks, because each piece costs a way to another thread and back."""
    pending: list[bytes] = []
    size_bytes = 0
    async for chunk in chunks:
        pending.append(chunk)
        size_bytes += len(chunk)
        if size_bytes >= CHUNK_BYTES:
            yield b"".join(pending)
            pending, size_bytes = [], 0
    if pending:
        yield b"".join(pending)


def _sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
