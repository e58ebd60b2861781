"""Where the archive is: beside the store unless told otherwise, and what cannot be one is refused with a sentence."""

import asyncio
import sys
from pathlib import Path

import pytest

import holdfast
from holdfast.core.integrity.segments import Sealing
from holdfast.core.limits.bounds import Bounds
from holdfast.errors import BadInputError, RecordsSealedError, StorePathError, UsageError
from holdfast.ports import Archive
from holdfast.stores.archives import FolderArchive, MemoryArchive
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.builders import ManualClock, lease_on
from holdfast.testing.engines import FunctionModel, says
from holdfast.types.limits import Limits
from holdfast.wiring import MEMORY, Tuning, open_archive, open_store

EAGER = Tuning(sealing=Sealing(margin_records=2, records_min=1))


async def talk(store: str | Path, archive: str | Path | Archive | None, segments: int) -> list[int]:
    """Talk, have it compacted, and wait until so much was sealed; return what the log then holds."""
    model = FunctionModel(lambda _: says("They spoke of this and that."), limits=Limits(window_tokens=40_000))
    async with holdfast.open(store, model=model, archive=archive, tuning=EAGER) as client:
        session = await client.session("s")
        for number in range(8):
            await session.send(f"message {number}" + " and more of it" * 400)
        await session.compact()
        sealed = 0
        async for logged in session.watch():
            sealed += type(logged.record).__name__ == "SegmentSealed"
            if sealed >= segments:
                break
        return [logged.seq for logged in await session.history(limit=10_000)]


async def test_old_records_go_to_a_folder_beside_the_store(tmp_path: Path) -> None:
    seqs = await asyncio.wait_for(talk(tmp_path / "a.db", None, 1), 20)

    assert seqs == list(range(1, len(seqs) + 1))
    [name] = await FolderArchive(tmp_path / "a.db-archive").names()
    assert "/000000000001-" in name
    bare = SqliteStore(tmp_path / "a.db", clock=ManualClock())
    with pytest.raises(RecordsSealedError, match="open the store with it"):
        await bare.read("s")
    await bare.close()


async def test_a_command_that_only_reads_reads_the_archive_too(tmp_path: Path) -> None:
    seqs = await asyncio.wait_for(talk(tmp_path / "a.db", None, 1), 20)

    store, _ = open_store(tmp_path / "a.db", Bounds())
    read = [logged.seq for logged in await store.read("s")]
    await store.close()

    assert read[: len(seqs)] == seqs


async def test_a_store_in_memory_has_an_archive_only_where_one_is_given() -> None:
    archive = MemoryArchive()

    await asyncio.wait_for(talk(MEMORY, archive, 1), 20)

    assert len(await archive.names()) == 1
    assert open_archive(None, MEMORY) is None


async def test_the_environment_names_the_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_ARCHIVE", str(tmp_path / "elsewhere"))

    archive = open_archive(None, tmp_path / "a.db")

    assert archive is not None
    await archive.put("x", b"y")
    assert (tmp_path / "elsewhere" / "x").read_bytes() == b"y"
    assert open_archive(None, MEMORY) is None


def test_what_cannot_be_an_archive_is_refused_with_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")

    with pytest.raises(UsageError, match="neither a folder nor a URL"):
        open_archive("", tmp_path / "a.db")
    with pytest.raises(UsageError, match="neither a folder nor a URL"):
        open_archive("gs://bucket/prefix", tmp_path / "a.db")
    with pytest.raises(BadInputError, match="has no bucket"):
        open_archive("s3://", tmp_path / "a.db")
    with pytest.raises(StorePathError, match="is a file"):
        open_archive(tmp_path / "file", tmp_path / "a.db")
    with pytest.raises(StorePathError, match="create the folder"):
        open_archive(tmp_path / "no" / "such", tmp_path / "a.db")


def test_a_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    monkeypatch.delitem(sys.modules, "holdfast.stores.s3", raising=False)

    with pytest.raises(UsageError, match=r"holdfast\[s3\]"):
        open_archive("s3://bucket/prefix", tmp_path / "a.db")


async def test_an_archive_that_is_given_is_used_as_it_is(tmp_path: Path) -> None:
    archive = MemoryArchive()

    assert open_archive(archive, tmp_path / "a.db") is archive
    store, _ = open_store(MEMORY, Bounds(), archive)
    await lease_on(store)
    await store.close()
