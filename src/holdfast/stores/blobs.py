"""Blobs in a folder, named by their SHA-256.

A blob is written to a temporary file in the folder `incoming`, synced, and then linked to its name, so a crash leaves
no partial blob, and two writers of the same bytes end with one file. Blobs are spread over 256 folders by their first
two digits, so that no folder gets too large: a million blobs are 4,000 in each. All disk operations run in threads.
"""

import asyncio
import hashlib
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

from holdfast.errors import BlobMissingError, HoldfastError, StorePathError
from holdfast.stores.folder import Incoming, link_if_absent, make_private_folder, sweep, sync_folder, translate_error
from holdfast.types.messages import BlobRef

# Large enough that the cost of calls is negligible, small enough for memory with many writers.
CHUNK_BYTES = 2**20
# A younger blob may belong to a message that is not in the log yet.
UNNAMED_SECONDS_MIN = 3_600.0

ResultT = TypeVar("ResultT")


class FolderBlobs:
    """Blobs in a local folder, created if it does not exist. Its parent must exist."""

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)
        self._incoming = self._folder / "incoming"
        try:
            make_private_folder(self._folder)
            make_private_folder(self._incoming)
            sweep(self._incoming)
        except OSError as error:
            raise StorePathError(
                f"blobs cannot be stored in {folder} ({error.strerror}); create that folder or change its permissions"
            ) from error

    async def put(self, chunks: AsyncIterator[bytes] | bytes) -> BlobRef:
        """Store bytes; see `Blobs.put`. Holds one chunk of a stream and at most a MiB more in memory."""
        incoming = Incoming(self._incoming)
        try:
            if isinstance(chunks, bytes):
                await self._in_thread(partial(incoming.write, chunks))
            else:
                async for piece in coalesced(chunks):
                    await self._in_thread(partial(incoming.write, piece))
            return await self._in_thread(partial(self._keep, incoming))
        finally:
            await asyncio.to_thread(incoming.close)

    async def get(self, ref: BlobRef) -> bytes:
        """Return all bytes, verified against the hash; see `Blobs.get`."""

        def read_checked() -> bytes:
            content = self._path_of(ref).read_bytes()
            if hashlib.sha256(content).hexdigest() != ref.sha256:
                raise BlobMissingError(ref.sha256, "was altered: its bytes do not match its name")
            return content

        return await self._in_thread(read_checked, ref)

    async def read(self, ref: BlobRef, *, start: int, length: int) -> bytes:
        """Return a range of the bytes; see `Blobs.read`. A range is not verified: that needs all bytes."""

        def read_range() -> bytes:
            with self._path_of(ref).open("rb") as file:
                file.seek(max(start, 0))
                return file.read(max(length, 0))

        return await self._in_thread(read_range, ref)

    async def remove(self, ref: BlobRef) -> bool:
        """Delete an unreferenced blob; see `Blobs.remove`.

        The file is renamed first and its time is checked again. A concurrent `put` of the same bytes either finds no
        file and writes one, or has touched this one, which is then restored.
        """

        def remove() -> bool:
            path, away = self._path_of(ref), self._incoming / uuid4().hex
            if not path.exists() or time.time() - path.stat().st_mtime < UNNAMED_SECONDS_MIN:
                return False
            path.rename(away)
            if time.time() - away.stat().st_mtime < UNNAMED_SECONDS_MIN:
                with suppress(FileExistsError):
                    os.link(away, path)
                away.unlink()
                return False
            away.unlink()
            return True

        try:
            return await self._in_thread(remove, ref)
        except BlobMissingError:
            # Removed by another process meanwhile, or the name is not a hash.
            return False

    async def _in_thread(self, work: Callable[[], ResultT], ref: BlobRef | None = None) -> ResultT:
        try:
            return await asyncio.to_thread(work)
        except FileNotFoundError as error:
            if ref is None:
                raise self._translate_error(error) from error
            raise BlobMissingError(ref.sha256, f"is not in {self._folder}") from error
        except OSError as error:
            raise self._translate_error(error) from error

    def _translate_error(self, error: OSError) -> HoldfastError:
        return translate_error(error, f"blobs in {self._folder}")

    def _path_of(self, ref: BlobRef) -> Path:
        # A name that is not a hash could lead out of the folder.
        if len(ref.sha256) != hashlib.sha256().digest_size * 2 or not set(ref.sha256) <= set("0123456789abcdef"):
            raise BlobMissingError(ref.sha256, "is not named by a SHA-256")
        return self._folder / ref.sha256[:2] / ref.sha256

    def _keep(self, incoming: Incoming) -> BlobRef:
        """Link a complete file to its hash unless it exists. Durable on return."""
        ref = incoming.finish()
        path = self._path_of(ref)
        while not link_if_absent(incoming, path):
            try:
                # The new time tells `remove` that a reference is on its way.
                os.utime(path)
                if _sha256_of(path) != ref.sha256:
                    # The stored file is damaged; replace it with the intact bytes.
                    incoming.path.replace(path)
                    sync_folder(path.parent)
            except FileNotFoundError:
                # Removed between the link and the touch.
                continue
            break
        return ref


async def coalesced(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Join small chunks, because each piece costs a round trip to a thread."""
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


class MemoryBlobs:
    """Blobs in memory, by SHA-256."""

    def __init__(self) -> None:
        self._blobs: dict[str, bytes] = {}

    async def put(self, chunks: AsyncIterator[bytes] | bytes) -> BlobRef:
        """Store bytes. A stream is read into memory completely."""
        content = chunks if isinstance(chunks, bytes) else b"".join([chunk async for chunk in chunks])
        sha256 = hashlib.sha256(content).hexdigest()
        self._blobs.setdefault(sha256, content)
        return BlobRef(sha256, len(content))

    async def get(self, ref: BlobRef) -> bytes:
        """Return all bytes."""
        if ref.sha256 not in self._blobs:
            raise BlobMissingError(ref.sha256, "is not in this store")
        return self._blobs[ref.sha256]

    async def remove(self, ref: BlobRef) -> bool:
        """Delete a blob."""
        return self._blobs.pop(ref.sha256, None) is not None

    async def read(self, ref: BlobRef, *, start: int, length: int) -> bytes:
        """Return a range of the bytes."""
        content = await self.get(ref)
        return content[max(start, 0) : max(start, 0) + max(length, 0)]
