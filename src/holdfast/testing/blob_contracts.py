"""Contract suites of the `Blobs`, `Archive` and `BlobRefs` ports.

Subclass one and provide the object under test as a fixture.
"""

import asyncio
import hashlib
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator

import pytest

from holdfast.errors import BlobMissingError, ClientIdReusedError, LeaseLostError, SegmentMissingError, SeqMovedError
from holdfast.ports import Archive, BlobRefs, Blobs
from holdfast.testing.builders import StorePromises, a_notice, an_input, lease_on
from holdfast.types.messages import BlobRef, LargeText, Media, Text, ToolResult
from holdfast.types.records import InputAdmitted, ToolSettled


def ref_of(content: bytes) -> BlobRef:
    """Return the reference of some bytes."""
    return BlobRef(hashlib.sha256(content).hexdigest(), len(content))


async def in_pieces(content: bytes, size: int) -> AsyncIterator[bytes]:
    """Yield bytes as a stream."""
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


# --- Archive ---

# Names that could lead out of a folder, or have a meaning for a file system or a server.
ODD_NAMES = ("", "/", "../a", "a/../b", "a//b", ".hidden", "a/.hidden", "/a", "a/", "a b", "a\n", "ü", "a" * 300)


class ArchiveContract(ABC):
    """All promises of `holdfast.ports.Archive`."""

    @abstractmethod
    @pytest.fixture
    def archive(self) -> Archive:
        """The archive under test, empty."""

    @pytest.mark.parametrize("body", [b"", b"\x00", b"text", bytes(range(256)) * 9_000])
    async def test_what_is_put_comes_back_as_it_was(self, archive: Archive, body: bytes) -> None:
        assert await archive.put("a/b", body)

        assert await archive.get("a/b") == body

    async def test_what_is_there_stays_whoever_puts_under_its_name(self, archive: Archive) -> None:
        await archive.put("a/b", b"first")

        assert not await archive.put("a/b", b"first")
        assert not await archive.put("a/b", b"second")

        assert await archive.get("a/b") == b"first"

    async def test_of_many_that_put_at_once_one_is_first(self, archive: Archive) -> None:
        bodies = [f"body {number}".encode() for number in range(8)]

        puts = await asyncio.gather(*(archive.put("a/b", body) for body in bodies))

        assert puts.count(True) == 1
        assert await archive.get("a/b") == bodies[puts.index(True)]

    async def test_a_range_is_read_and_is_shorter_at_the_end(self, archive: Archive) -> None:
        await archive.put("a", b"0123456789")

        asked = [(0, 4), (3, 4), (8, 9), (10, 5), (99, 5), (4, 0), (-3, 2)]
        read = [await archive.read("a", start=start, length=length) for start, length in asked]

        assert read == [b"0123", b"3456", b"89", b"", b"", b"", b"01"]

    async def test_what_is_not_there_is_said_by_name(self, archive: Archive) -> None:
        with pytest.raises(SegmentMissingError, match="no/such"):
            await archive.get("no/such")
        with pytest.raises(SegmentMissingError, match="no/such"):
            await archive.read("no/such", start=0, length=5)

    async def test_names_come_in_order_those_that_begin_so(self, archive: Archive) -> None:
        assert await archive.names() == []
        for name in ("b/2", "a/10", "a/11", "a/2", "ab/1", "c"):
            await archive.put(name, b"x")

        assert await archive.names() == ["a/10", "a/11", "a/2", "ab/1", "b/2", "c"]
        assert await archive.names("a") == ["a/10", "a/11", "a/2", "ab/1"]
        assert await archive.names("a/") == ["a/10", "a/11", "a/2"]
        assert await archive.names("a/1") == ["a/10", "a/11"]
        assert await archive.names("no/such") == []

    async def test_what_is_removed_is_gone_and_can_be_put_again(self, archive: Archive) -> None:
        await archive.put("a/b", b"old")
        await archive.put("a/c", b"other")

        await archive.remove("a/b")
        await archive.remove("a/b")
        await archive.remove("no/such")

        assert await archive.names() == ["a/c"]
        assert await archive.put("a/b", b"new")
        assert await archive.get("a/b") == b"new"

    @pytest.mark.parametrize("name", ODD_NAMES)
    async def test_a_name_that_could_lead_elsewhere_is_refused(self, archive: Archive, name: str) -> None:
        with pytest.raises(SegmentMissingError, match="cannot be the name"):
            await archive.put(name, b"x")
        with pytest.raises(SegmentMissingError, match="cannot be the name"):
            await archive.get(name)
        with pytest.raises(SegmentMissingError, match="cannot be the name"):
            await archive.remove(name)
        assert await archive.names() == []


FIRST, SECOND, THIRD = (BlobRef(digit * 64, size) for size, digit in enumerate("abc", start=1))


def referencing(*refs: BlobRef, client_id: str = "") -> InputAdmitted:
    """Return an input that references blobs."""
    return InputAdmitted(tuple(LargeText(ref, "long") for ref in refs), client_id=client_id)


class BlobRefContract(StorePromises):
    """All promises of `holdfast.ports.BlobRefs`."""

    async def test_every_append_adds_its_blobs_each_once(self, store: BlobRefs) -> None:
        await store.admit("s", referencing(SECOND, SECOND))
        lease = await lease_on(store)
        settled = ToolSettled(1, ToolResult("call", (Text("see"), Media(FIRST, "image/png")), originals=(SECOND,)))
        await store.append(lease, [a_notice(), settled], after=1)

        assert await store.blob_refs("s") == [FIRST, SECOND]
        assert (await store.blob_refs("nobody"), await store.unscanned_sessions()) == ([], [])

    async def test_a_rejected_write_adds_no_blobs(self, store: BlobRefs) -> None:
        await store.admit("s", an_input("hi", client_id="c"))
        old = await lease_on(store)
        lease = await lease_on(store)
        settled = ToolSettled(1, ToolResult("call", (LargeText(FIRST, "long"),)))

        with pytest.raises(ClientIdReusedError):
            await store.admit("s", referencing(FIRST, client_id="c"))
        with pytest.raises(LeaseLostError):
            await store.append(old, [settled], after=1)
        with pytest.raises(SeqMovedError):
            await store.append(lease, [settled], after=0)

        assert await store.blob_refs("s") == []

    async def test_a_blob_is_of_some_sessions_only_where_no_other_names_it(self, store: BlobRefs) -> None:
        await store.admit("a", referencing(FIRST, SECOND))
        await store.admit("b", referencing(SECOND, THIRD))
        await store.admit("c", referencing(THIRD))

        assert await store.unshared_blobs(["a"]) == [FIRST]
        assert await store.unshared_blobs(["b"]) == []
        assert await store.unshared_blobs(["b", "a", "nobody"]) == [FIRST, SECOND]
        assert await store.unshared_blobs(["a", "b", "c"]) == [FIRST, SECOND, THIRD]
        assert await store.unshared_blobs([]) == []

    async def test_what_is_learned_of_a_session_is_added_to_what_is_known_of_it(self, store: BlobRefs) -> None:
        await store.admit("s", referencing(FIRST))

        for _ in range(2):
            await store.add_blob_refs("s", [SECOND, FIRST])
        await store.add_blob_refs("s", [])
        await store.add_blob_refs("nobody", [THIRD])

        assert (await store.blob_refs("s"), await store.blob_refs("nobody")) == ([FIRST, SECOND], [])
        await store.admit("nobody", an_input())
        assert await store.blob_refs("nobody") == []
