"""Looking a session over: what cannot be read, what the archive holds, and a session that is written to meanwhile."""

import os
from pathlib import Path

import pytest

from holdfast.core.integrity.segments import Kept
from holdfast.errors import StoreDamagedError, StoreFullError, StorePathError
from holdfast.ports import SessionInfo
from holdfast.runtime.maintenance.doctor import Doctor
from holdfast.runtime.maintenance.sealing import put_segment
from holdfast.stores.archived import ArchivedStore
from holdfast.stores.archives import MemoryArchive
from holdfast.stores.memory import MemoryBlobs, MemoryStore
from holdfast.stores.sqlite import SqliteStore
from holdfast.stores.sqlite.copy import copy_store
from holdfast.testing.blob_contracts import ref_of
from holdfast.testing.builders import ManualClock, a_notice, an_input, lease_on

REF = ref_of(b"long")


class Unreadable(MemoryStore):
    """A store with a record of a newer version."""

    async def info(self, session: str) -> SessionInfo | None:
        raise StoreDamagedError(session, 3, "no record is known by its bytes")


class Growing(MemoryStore):
    """A store whose sessions grow whenever somebody asks how long they are, some times."""

    asked = 0

    async def info(self, session: str) -> SessionInfo | None:
        self.asked += 1
        if self.asked <= 3:
            await self.admit(session, an_input(f"message {self.asked}"))
        return await super().info(session)


async def test_what_nobody_can_read_is_told_and_does_not_stop_the_look() -> None:
    store = Unreadable(clock=ManualClock())
    await store.admit("s", an_input())

    (finding,) = await Doctor(store, MemoryBlobs()).check("s")

    assert (finding.code, finding.session, finding.remedy) == ("unreadable", "s", "")
    assert "no record is known" in finding.what


async def test_a_session_that_is_written_to_meanwhile_is_not_called_wrong() -> None:
    store = Growing(clock=ManualClock())
    await store.admit("s", an_input())

    assert await Doctor(store, MemoryBlobs()).check("s") == []


async def test_segments_without_a_seal_wait_unless_they_alone_have_their_records() -> None:
    archive = MemoryArchive()
    live = MemoryStore(clock=ManualClock())
    lease = await lease_on(live)
    await live.append(lease, [a_notice(str(number)) for number in range(1, 7)], after=0)
    rows: list[Kept] = await live.live_rows("s", limit=3)
    segment = await put_segment(archive, "s", rows)
    await archive.put("torn", b"no segment")
    store = ArchivedStore(live, archive)

    assert await Doctor(store, MemoryBlobs(), archive).unsealed(["s"]) == ([], 2)
    assert await Doctor(store, MemoryBlobs(), archive).unsealed([]) == ([], 2)
    assert await Doctor(store, MemoryBlobs()).unsealed(["s"]) == ([], 0)
    empty = ArchivedStore(MemoryStore(clock=ManualClock()), archive)
    assert await Doctor(empty, MemoryBlobs(), archive).unsealed([]) == ([segment], 1)


async def test_a_segment_that_holds_something_else_is_named() -> None:
    archive = MemoryArchive()
    live = MemoryStore(clock=ManualClock())
    lease = await lease_on(live)
    await live.append(lease, [a_notice(str(number)) for number in range(1, 7)], after=0)
    await live.search("s", "x")
    segment = await put_segment(archive, "s", await live.live_rows("s", limit=3))
    other = await put_segment(archive, "t", await live.live_rows("s", limit=3))
    await live.seal(lease, segment, after=6)
    body = await archive.get(other.name)
    await archive.remove(segment.name)
    await archive.put(segment.name, body)

    (finding,) = await Doctor(ArchivedStore(live, archive), MemoryBlobs(), archive).check("s")

    assert (finding.code, finding.seq) == ("segment", 1)
    assert "does not hold the records of its seal" in finding.what
    assert await Doctor(ArchivedStore(live, archive), MemoryBlobs()).check("s") == []


async def test_a_store_is_copied_also_where_files_cannot_be_linked_or_it_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s.db"
    store = SqliteStore(path, clock=ManualClock())
    await store.admit("s", an_input())
    await store.close()
    (tmp_path / "s.db-blobs" / "ab").mkdir(parents=True)
    (tmp_path / "s.db-blobs" / "ab" / "blob").write_bytes(b"content")
    link = os.link

    def no_links_of_blobs(source: Path, target: Path) -> None:
        if Path(source).name == "blob":
            raise OSError(18, "Invalid cross-device link")
        link(source, target)

    monkeypatch.setattr(os, "link", no_links_of_blobs)
    assert copy_store(path, tmp_path / "copy.db") == 1
    assert (tmp_path / "copy.db-blobs" / "ab" / "blob").read_bytes() == b"content"

    def no_space(_source: Path, _target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "link", no_space)
    with pytest.raises(StoreFullError):
        copy_store(path, tmp_path / "other.db")
    with pytest.raises(StorePathError, match="does not exist"):
        copy_store(path, tmp_path / "nowhere" / "other.db")
    assert not (tmp_path / "other.db").exists()
