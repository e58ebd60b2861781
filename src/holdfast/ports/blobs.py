"""Ports for binary content: blobs, image resizing, and the archive of sealed segments."""

from collections.abc import AsyncIterator
from typing import Protocol, runtime_checkable

from holdfast.core.view.offending_part import ImageFit
from holdfast.types.messages import BlobRef, Media


@runtime_checkable
class Blobs(Protocol):
    """Content-addressed blobs, named by their SHA-256. A blob is durable and immutable, and stored once."""

    async def put(self, chunks: AsyncIterator[bytes] | bytes) -> BlobRef:
        """Store bytes and return their reference. Memory does not grow with the length of a stream."""
        ...

    async def get(self, ref: BlobRef) -> bytes:
        """Return all bytes, verified against the hash. Raises `BlobMissingError`."""
        ...

    async def read(self, ref: BlobRef, *, start: int, length: int) -> bytes:
        """Return a range of the bytes, shorter at the end. Raises `BlobMissingError`."""
        ...

    async def remove(self, ref: BlobRef) -> bool:
        """Delete a blob that no record references, and return whether it is gone.

        A blob that was put recently stays: a record that references it may be on its way. No-op if it does not exist.
        """
        ...


class Images(Protocol):
    """Image resizing, one image at a time, so that memory does not grow with their number."""

    async def shrink(self, image: Media, fit: ImageFit) -> Media | None:
        """Return the image within these bounds, stored as a blob of its own. The original stays.

        Returns None if it cannot be resized: not an image, damaged, too large for memory, or no decoder installed.
        Never raises, whatever the bytes are.
        """
        ...


class Archive(Protocol):
    """Sealed segments in a folder or an object store. A segment is durable and immutable."""

    async def put(self, name: str, body: bytes) -> bool:
        """Store bytes under a name unless it exists, and return whether they are new.

        An existing segment stays even if it differs; a caller that cares reads it back. A name consists of words of
        letters, digits, dots, dashes and underscores, separated by slashes. No word begins with a dot.
        """
        ...

    async def get(self, name: str) -> bytes:
        """Return the bytes unverified. Raises `SegmentMissingError` if there are none."""
        ...

    async def read(self, name: str, *, start: int, length: int) -> bytes:
        """Return a range of the bytes, shorter at the end. Raises `SegmentMissingError`."""
        ...

    async def names(self, prefix: str = "") -> list[str]:
        """Return the names with this prefix, in order."""
        ...

    async def remove(self, name: str) -> None:
        """Delete a segment. No-op if it does not exist."""
        ...
