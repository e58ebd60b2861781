"""What every archive promises, as tests: subclass `ArchiveContract` and give it the `archive` under test."""

import asyncio
from abc import ABC, abstractmethod

import pytest

from holdfast.errors import SegmentMissingError
from holdfast.ports import Archive

# What would lead out of a folder, or means something else to a file system or a server.
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
