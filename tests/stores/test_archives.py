"""Archives in memory, in a folder and on S3 keep every promise; each also says what is wrong with its place."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from holdfast.errors import BadInputError, StoreFullError, StoreIoError, StorePathError
from holdfast.stores.archives import FolderArchive, MemoryArchive
from holdfast.stores.s3 import S3Archive
from holdfast.testing.blob_contracts import ArchiveContract
from tests.stores.places import names_in
from tests.stores.s3_server import BUCKET, s3_server


class TestMemoryArchive(ArchiveContract):
    @pytest.fixture
    def archive(self) -> MemoryArchive:
        return MemoryArchive()


class TestFolderArchive(ArchiveContract):
    @pytest.fixture
    def archive(self, tmp_path: Path) -> FolderArchive:
        return FolderArchive(tmp_path / "archive")


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with s3_server() as address:
        yield address


@pytest.mark.usefixtures("endpoint")
class TestS3Archive(ArchiveContract):
    @pytest.fixture
    def archive(self) -> S3Archive:
        # A prefix of its own for each test: one server for all is quicker.
        return S3Archive(f"s3://{BUCKET}/{uuid4().hex}/segments")


# A folder.


async def test_a_folder_is_made_when_something_is_put_and_not_before(tmp_path: Path) -> None:
    archive = FolderArchive(tmp_path / "archive")

    assert await archive.names() == []
    assert names_in(tmp_path) == []
    await archive.put("a/b", b"x")

    assert names_in(tmp_path) == ["archive"]
    assert await FolderArchive(tmp_path / "archive").get("a/b") == b"x"


async def test_segments_are_private_and_no_temporary_file_stays(tmp_path: Path) -> None:
    await FolderArchive(tmp_path / "archive").put("a/b", b"x")

    folder = tmp_path / "archive"
    assert [path.stat().st_mode & 0o077 for path in (folder, folder / "a", folder / "a" / "b")] == [0, 0, 0]
    assert names_in(folder / ".incoming") == []


async def test_leftovers_of_a_dead_writer_are_no_segments_and_go(tmp_path: Path) -> None:
    (tmp_path / ".incoming").mkdir()
    (tmp_path / ".incoming" / "left-by-a-crash").write_bytes(b"half a segm")
    archive = FolderArchive(tmp_path)

    assert await archive.names() == []
    await archive.put("a/b", b"x")

    assert await archive.names() == ["a/b"]
    assert names_in(tmp_path / ".incoming") == []


@pytest.mark.parametrize(("number", "expected"), [(errno.ENOSPC, StoreFullError), (errno.EIO, StoreIoError)])
async def test_a_failing_disk_is_told_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, expected: type[Exception]
) -> None:
    archive = FolderArchive(tmp_path / "archive")
    await archive.put("a/b", b"x")

    def fail(_fd: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(expected):
        await archive.put("a/c", b"lost")
    monkeypatch.undo()

    assert await archive.names() == ["a/b"]
    assert names_in(tmp_path / "archive" / ".incoming") == []


async def test_a_place_where_no_folder_can_be_is_refused_with_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")

    for folder in (tmp_path / "no" / "such" / "parent", tmp_path / "file"):
        with pytest.raises(StorePathError, match="segments cannot be stored in"):
            await FolderArchive(folder).put("a", b"x")


async def test_a_folder_in_the_place_of_a_segment_is_told(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()

    with pytest.raises(StoreIoError, match="segments in"):
        await FolderArchive(tmp_path).get("a")


# S3.


@pytest.mark.parametrize("url", ["s3://", "s3:///prefix", "bucket/prefix"])
def test_an_address_without_a_bucket_is_refused(url: str) -> None:
    with pytest.raises(BadInputError, match="has no bucket"):
        S3Archive(url)


@pytest.mark.usefixtures("endpoint")
async def test_a_bucket_that_is_not_there_is_told_without_keys() -> None:
    with pytest.raises((StoreIoError, StorePathError), match="s3://no-such-bucket/x") as refusal:
        await S3Archive("s3://no-such-bucket/x").put("a", b"x")

    assert "test-secret" not in str(refusal.value)


async def test_a_server_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    # Port 9 is "discard", and nothing listens there.
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test-secret")
    monkeypatch.setenv("AWS_REGION", "us-east-1")

    with pytest.raises(StoreIoError, match="retry later") as refusal:
        await S3Archive("s3://bucket").get("a")

    assert "test-secret" not in str(refusal.value)
