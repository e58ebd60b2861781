"""What every keeper of blobs promises, as tests: subclass `BlobsContract` and give it the `blobs` under test."""

import asyncio
import hashlib
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator

import pytest

from holdfast.core.messages import BlobRef
from holdfast.errors import BlobMissingError
from holdfast.ports import Blobs


def ref_of(content: bytes) -> BlobRef:
    """The name that bytes must get."""
    return BlobRef(hashlib.sha256(content).hexdigest(), len(content))


async def in_pieces(content: bytes, size: int) -> AsyncIterator[bytes]:
    """Bytes as a stream."""
    for start in range(0, len(content), size):
        await asyncio.sleep(0)
        yield content[start : start + size]


class BlobsContract(ABC):
    """All promises of `holdfast.ports.Blobs`."""

    @abstractmethod
    @pytest.fixture
    def blobs(self) -> Blobs:
        """The blobs under test, empty."""

    @pytest.mark.parametrize("content", [b"", b"\x00", b"text", bytes(range(256)) * 9_000])
    async def test_what_is_put_comes_back_under_its_sha256(self, blobs: Blobs, content: bytes) -> None:
        ref = await blobs.put(content)

        assert ref == ref_of(content)
        assert await blobs.get(ref) == content

    @pytest.mark.parametrize("size", [1_000, 2**20, 10**9])
    async def test_a_stream_is_kept_like_the_same_bytes_at_once(self, blobs: Blobs, size: int) -> None:
        content = bytes(range(256)) * 12_000

        ref = await blobs.put(in_pieces(content, size))

        assert ref == ref_of(content)
        assert await blobs.get(ref) == content

    async def test_the_same_bytes_put_twice_are_one_blob(self, blobs: Blobs) -> None:
        first = await blobs.put(b"same")

        assert await blobs.put(b"same") == first
        assert await blobs.put(in_pieces(b"same", 1)) == first
        assert await blobs.get(first) == b"same"

    async def test_many_may_put_at_once(self, blobs: Blobs) -> None:
        contents = [b"shared", *(str(number).encode() * 10_000 for number in range(10)), b"shared"]

        refs = await asyncio.gather(*(blobs.put(content) for content in contents))

        assert refs == [ref_of(content) for content in contents]
        assert await asyncio.gather(*(blobs.get(ref) for ref in refs)) == contents

    @pytest.mark.parametrize(
        ("start", "length", "expected"),
        [
            (0, 4, b"0123"),
            (4, 3, b"456"),
            (8, 100, b"89"),
            (10, 5, b""),
            (50, 5, b""),
            (3, 0, b""),
            (0, 10, b"0123456789"),
        ],
    )
    async def test_a_range_is_shorter_at_the_end(self, blobs: Blobs, start: int, length: int, expected: bytes) -> None:
        ref = await blobs.put(b"0123456789")

        assert await blobs.read(ref, start=start, length=length) == expected

    @pytest.mark.parametrize("sha256", ["0" * 64, "../../etc/passwd", "", "ABC", "/"])
    async def test_a_blob_that_was_never_put_is_missing(self, blobs: Blobs, sha256: str) -> None:
        await blobs.put(b"another")
        ref = BlobRef(sha256, 5)

        with pytest.raises(BlobMissingError):
            await blobs.get(ref)
        with pytest.raises(BlobMissingError):
            await blobs.read(ref, start=0, length=1)

    async def test_a_stream_that_breaks_off_leaves_nothing(self, blobs: Blobs) -> None:
        async def breaks_off() -> AsyncIterator[bytes]:
            yield b"half"
            raise ConnectionResetError

        with pytest.raises(ConnectionResetError):
            await blobs.put(breaks_off())

        with pytest.raises(BlobMissingError):
            await blobs.get(ref_of(b"half"))

    async def test_what_was_put_just_now_may_be_about_to_be_named_or_is_gone(self, blobs: Blobs) -> None:
        ref = await blobs.put(b"unnamed")

        is_gone = await blobs.remove(ref)

        if is_gone:
            with pytest.raises(BlobMissingError):
                await blobs.get(ref)
        else:
            assert await blobs.get(ref) == b"unnamed"
        assert await blobs.remove(ref_of(b"never put")) is False
        assert await blobs.remove(BlobRef("no hash at all", 1)) is False
