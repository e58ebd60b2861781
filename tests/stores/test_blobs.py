"""Blobs in a folder and in memory keep every promise; a folder also survives crashes, damage and a full disk."""

import asyncio
import errno
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.errors import BlobMissingError, StoreFullError, StoreIoError, StorePathError
from holdfast.stores.blobs import FolderBlobs
from holdfast.stores.memory import MemoryBlobs
from holdfast.testing.blob_contracts import BlobsContract, ref_of
from tests.stores.places import names_in


class TestMemoryBlobs(BlobsContract):
    @pytest.fixture
    def blobs(self) -> MemoryBlobs:
        return MemoryBlobs()


class TestFolderBlobs(BlobsContract):
    @pytest.fixture
    def blobs(self, tmp_path: Path) -> FolderBlobs:
        return FolderBlobs(tmp_path / "blobs")


def file_of(folder: Path, content: bytes) -> Path:
    sha256 = ref_of(content).sha256
    return folder / sha256[:2] / sha256


async def test_blobs_outlive_the_object_that_wrote_them(tmp_path: Path) -> None:
    ref = await FolderBlobs(tmp_path).put(b"kept")

    assert await FolderBlobs(tmp_path).get(ref) == b"kept"


async def test_an_altered_blob_is_not_returned(tmp_path: Path) -> None:
    blobs = FolderBlobs(tmp_path)
    ref = await blobs.put(b"original")
    file_of(tmp_path, b"original").write_bytes(b"0riginal")

    with pytest.raises(BlobMissingError, match="altered"):
        await blobs.get(ref)


@pytest.mark.parametrize("damage", [b"0riginal", b"orig", b""])
async def test_putting_the_same_bytes_again_heals_a_damaged_blob(tmp_path: Path, damage: bytes) -> None:
    blobs = FolderBlobs(tmp_path)
    ref = await blobs.put(b"original")
    file_of(tmp_path, b"original").write_bytes(damage)

    await blobs.put(b"original")

    assert await blobs.get(ref) == b"original"


async def test_no_temporary_file_is_left_behind(tmp_path: Path) -> None:
    blobs = FolderBlobs(tmp_path)

    async def breaks_off() -> AsyncIterator[bytes]:
        yield b"x" * 3_000_000
        raise ConnectionResetError

    await blobs.put(b"fine")
    await blobs.put(b"fine")
    with pytest.raises(ConnectionResetError):
        await blobs.put(breaks_off())

    assert names_in(tmp_path / "incoming") == []


async def test_a_cancelled_put_leaves_nothing(tmp_path: Path) -> None:
    blobs, begun = FolderBlobs(tmp_path), asyncio.Event()

    async def never_ends() -> AsyncIterator[bytes]:
        yield b"x" * 3_000_000
        begun.set()
        await asyncio.Event().wait()

    putting = asyncio.create_task(blobs.put(never_ends()))
    await begun.wait()
    putting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await putting

    assert names_in(tmp_path) == ["incoming"]
    assert names_in(tmp_path / "incoming") == []


async def test_leftovers_of_a_dead_writer_go_and_those_of_a_living_one_stay(tmp_path: Path) -> None:
    blobs, begun, go_on = FolderBlobs(tmp_path), asyncio.Event(), asyncio.Event()
    (tmp_path / "incoming" / "left-by-a-crash").write_bytes(b"half a bl")

    async def slow() -> AsyncIterator[bytes]:
        yield b"x" * 2_000_000
        begun.set()
        await go_on.wait()
        yield b"y"

    putting = asyncio.create_task(blobs.put(slow()))
    await begun.wait()
    FolderBlobs(tmp_path)
    left = names_in(tmp_path / "incoming")
    go_on.set()
    ref = await putting

    assert len(left) == 1
    assert left != ["left-by-a-crash"]
    assert await blobs.get(ref) == b"x" * 2_000_000 + b"y"


@pytest.mark.parametrize(("number", "expected"), [(errno.ENOSPC, StoreFullError), (errno.EIO, StoreIoError)])
async def test_a_failing_disk_is_told_before_anything_is_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, expected: type[Exception]
) -> None:
    blobs = FolderBlobs(tmp_path)

    def fail(_fd: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(expected):
        await blobs.put(b"lost")
    monkeypatch.undo()

    with pytest.raises(BlobMissingError):
        await blobs.get(ref_of(b"lost"))
    assert await blobs.get(await blobs.put(b"lost")) == b"lost"
    assert names_in(tmp_path / "incoming") == []


def test_a_folder_that_cannot_be_used_is_refused_with_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")

    with pytest.raises(StorePathError, match="blobs cannot be stored in"):
        FolderBlobs(tmp_path / "file")
    with pytest.raises(StorePathError, match="create that folder"):
        FolderBlobs(tmp_path / "no" / "such" / "parent")


async def test_blobs_are_private(tmp_path: Path) -> None:
    await FolderBlobs(tmp_path / "blobs").put(b"private")

    file = file_of(tmp_path / "blobs", b"private")
    assert [path.stat().st_mode & 0o077 for path in (file, file.parent, tmp_path / "blobs")] == [0, 0, 0]


async def test_an_old_blob_that_nobody_names_is_removed_and_one_that_is_put_again_stays(tmp_path: Path) -> None:
    blobs = FolderBlobs(tmp_path)
    ref = await blobs.put(b"old")
    file = file_of(tmp_path, b"old")
    os.utime(file, (1, 1))
    # Whoever puts the same bytes is about to name them.
    assert await blobs.put(b"old") == ref
    assert (await blobs.remove(ref), await blobs.get(ref)) == (False, b"old")

    os.utime(file, (1, 1))

    assert (await blobs.remove(ref), file.exists(), names_in(tmp_path / "incoming")) == (True, False, [])


async def test_a_blob_that_is_put_while_it_is_removed_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blobs = FolderBlobs(tmp_path)
    ref = await blobs.put(b"old")
    file = file_of(tmp_path, b"old")
    os.utime(file, (1, 1))
    rename = Path.rename

    def mark_and_rename(path: Path, target: Path) -> Path:
        os.utime(path)
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", mark_and_rename)

    assert (await blobs.remove(ref), await blobs.get(ref)) == (False, b"old")
