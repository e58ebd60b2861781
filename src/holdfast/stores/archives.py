"""Archives in memory and in a folder. `stores.s3` has the archive on S3.

All archives accept the same names; none of them can lead out of a folder.
"""

import asyncio
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from holdfast.errors import SegmentMissingError, StorePathError
from holdfast.stores.folder import Incoming, link_if_absent, make_private_folder, sweep, translate_error

_WORD = r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}"
_NAME = re.compile(rf"{_WORD}(/{_WORD})*")
# Reserved: no segment name has a word that begins with a dot.
_INCOMING = ".incoming"

ResultT = TypeVar("ResultT")


def check_name(name: str) -> None:
    """Reject an invalid segment name."""
    if not _NAME.fullmatch(name):
        raise SegmentMissingError(repr(name), "cannot be the name of a segment")


class MemoryArchive:
    """Segments in memory, for tests and for sessions that need not survive the process."""

    def __init__(self) -> None:
        self._segments: dict[str, bytes] = {}

    async def put(self, name: str, body: bytes) -> bool:
        """Store bytes unless the name exists; see `Archive.put`."""
        check_name(name)
        # Code that is correct only without concurrency must fail here as it would on a disk.
        await asyncio.sleep(0)
        is_new = name not in self._segments
        self._segments.setdefault(name, body)
        return is_new

    async def get(self, name: str) -> bytes:
        """Return the bytes."""
        check_name(name)
        await asyncio.sleep(0)
        if name not in self._segments:
            raise SegmentMissingError(name, "is not in this archive")
        return self._segments[name]

    async def read(self, name: str, *, start: int, length: int) -> bytes:
        """Return a range of the bytes."""
        return (await self.get(name))[max(start, 0) : max(start, 0) + max(length, 0)]

    async def names(self, prefix: str = "") -> list[str]:
        """Return the names with this prefix, in order."""
        await asyncio.sleep(0)
        return sorted(name for name in self._segments if name.startswith(prefix))

    async def remove(self, name: str) -> None:
        """Delete a segment."""
        check_name(name)
        await asyncio.sleep(0)
        self._segments.pop(name, None)


class FolderArchive:
    """Segments in a local folder, created with the first segment. Its parent must exist."""

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)
        self._is_ready = False

    async def put(self, name: str, body: bytes) -> bool:
        """Store bytes unless the name exists; see `Archive.put`."""
        check_name(name)
        incoming = Incoming(self._folder / _INCOMING)
        try:
            return await self._in_thread(partial(self._put, incoming, name, body))
        finally:
            await asyncio.to_thread(incoming.close)

    async def get(self, name: str) -> bytes:
        """Return the bytes."""
        check_name(name)
        return await self._in_thread((self._folder / name).read_bytes, name)

    async def read(self, name: str, *, start: int, length: int) -> bytes:
        """Return a range of the bytes."""
        check_name(name)

        def read_range() -> bytes:
            with (self._folder / name).open("rb") as file:
                file.seek(max(start, 0))
                return file.read(max(length, 0))

        return await self._in_thread(read_range, name)

    async def names(self, prefix: str = "") -> list[str]:
        """Return the names with this prefix, in order."""
        return await self._in_thread(partial(self._names, prefix))

    async def remove(self, name: str) -> None:
        """Delete a segment."""
        check_name(name)
        await self._in_thread(partial((self._folder / name).unlink, missing_ok=True))

    def _put(self, incoming: Incoming, name: str, body: bytes) -> bool:
        self._make_ready()
        incoming.write(body)
        incoming.finish()
        path = self._folder / name
        # Existing folders too: the process that created them may not have synced them yet.
        for folder in reversed(Path(name).parents[:-1]):
            make_private_folder(self._folder / folder)
        return link_if_absent(incoming, path)

    def _make_ready(self) -> None:
        if self._is_ready:
            return
        try:
            make_private_folder(self._folder)
            make_private_folder(self._folder / _INCOMING)
            sweep(self._folder / _INCOMING)
        except OSError as error:
            raise StorePathError(
                f"segments cannot be stored in {self._folder} ({error.strerror}); create its parent folder, "
                "change its permissions, or choose another archive"
            ) from error
        self._is_ready = True

    def _names(self, prefix: str) -> list[str]:
        # Only the folders under the prefix are listed.
        within = Path(prefix.rpartition("/")[0])
        root = self._folder / within
        found = (path.relative_to(self._folder).as_posix() for path in root.rglob("*") if path.is_file())
        return sorted(name for name in found if name.startswith(prefix) and not name.startswith(_INCOMING))

    async def _in_thread(self, work: Callable[[], ResultT], name: str | None = None) -> ResultT:
        try:
            return await asyncio.to_thread(work)
        except FileNotFoundError as error:
            if name is None:
                raise translate_error(error, f"segments in {self._folder}") from error
            raise SegmentMissingError(name, f"is not in {self._folder}") from error
        except OSError as error:
            raise translate_error(error, f"segments in {self._folder}") from error
