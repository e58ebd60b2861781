"""Original bytes, smaller images and sealed segments, as the engine needs them."""

from collections.abc import AsyncIterator
from typing import Protocol

from holdfast.core.view.offending_part import ImageFit
from holdfast.types.messages import BlobRef, Media


class Blobs(Protocol):
    """Original bytes, named by their SHA-256. What is put is durable, and is never altered or put twice."""

    async def put(self, chunks: AsyncIterator[bytes] | bytes) -> BlobRef:
        """Keep these bytes and return their name. Memory does not grow with the length of a stream."""
        ...

    async def get(self, ref: BlobRef) -> bytes:
        """Return all bytes, checked against the name. Raises `BlobMissingError`."""
        ...

    async def read(self, ref: BlobRef, *, start: int, length: int) -> bytes:
        """Return a range of the bytes, shorter at the end. Raises `BlobMissingError`."""
        ...

    async def remove(self, ref: BlobRef) -> bool:
        """Forget bytes that no record names, and say whether they are gone.

        What was put a short while ago stays: somebody may be about to name it. Where there is nothing, nothing happens.
        """
        ...


class Images(Protocol):
    """Makes images smaller, one at a time, so that memory does not grow with how many there are."""

    async def shrink(self, image: Media, fit: ImageFit) -> Media | None:
        """Return the same image within these bounds, its bytes kept as a blob of their own. The original stays.

        None where that cannot be done: it is no image, is damaged, would take too much memory, or nothing is at hand to
        do it with. Whatever the bytes are, nothing is raised.
        """
        ...


class Archive(Protocol):
    """Sealed segments on a folder or in an object store. What is put is durable, and is never altered."""

    async def put(self, name: str, body: bytes) -> bool:
        """Keep these bytes under this name if nothing is there yet, and say whether they are new.

        Where something is there already it stays as it is, even if it differs: whoever cares reads it back. A name is
        words of letters, digits, dots, dashes and underscores, none of which begins with a dot, with slashes between.
        """
        ...

    async def get(self, name: str) -> bytes:
        """Return the bytes as they are. Raises `SegmentMissingError` where there are none."""
        ...

    async def read(self, name: str, *, start: int, length: int) -> bytes:
        """Return a range of the bytes, shorter at the end. Raises `SegmentMissingError`."""
        ...

    async def names(self, prefix: str = "") -> list[str]:
        """Return the names that begin so, in order."""
        ...

    async def remove(self, name: str) -> None:
        """Forget these bytes. Where there are none nothing happens."""
        ...
