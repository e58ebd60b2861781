"""Which blobs a SQLite store knows to be named: of older stores after one reading, and whatever bit is flipped."""

from pathlib import Path

import apsw
import pytest

from holdfast.errors import StoreIoError
from holdfast.runtime.maintenance.sealing import put_segment
from holdfast.runtime.sessions.delete import delete_session, learn_blobs
from holdfast.stores.archived import ArchivedStore
from holdfast.stores.archives import MemoryArchive
from holdfast.stores.memory import MemoryBlobs
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.blob_contracts import FIRST, SECOND, THIRD, referencing
from holdfast.testing.builders import ManualClock, a_notice, an_input, lease_on
from holdfast.types.messages import BlobRef, LargeText
from holdfast.types.records import InputAdmitted, Logged
from tests.stores.older import a_store_of_layout, fill

# The last layout that did not know of blobs.
BEFORE = 5


class CountingStore(SqliteStore):
    """Keeps of which sessions records are read."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, clock=ManualClock())
        self.read_of: list[str] = []

    async def read(self, session: str, *, after: int = 0, limit: int | None = None) -> list[Logged]:
        if not after:
            self.read_of.append(session)
        return await super().read(session, after=after, limit=limit)


async def test_the_first_deletion_in_an_older_store_reads_each_log_once_and_the_next_reads_none(
    tmp_path: Path,
) -> None:
    path, blobs = a_store_of_layout(BEFORE, tmp_path / "s.db"), MemoryBlobs()
    shared, own = await blobs.put(b"shared"), await blobs.put(b"own")
    for key, refs in {"a": (shared, own), "b": (shared,), "c": ()}.items():
        fill(path, InputAdmitted(tuple(LargeText(ref, "long") for ref in refs)), a_notice(), session=key)
    store = CountingStore(path)
    assert await store.unscanned_sessions() == ["a", "b", "c"]

    first = await delete_session(store, blobs, None, "a")
    assert (first.blobs, sorted(store.read_of), await store.unscanned_sessions()) == (1, ["a", "b", "c"], [])

    store.read_of.clear()
    assert (await delete_session(store, blobs, None, "c")).blobs == 0
    assert await blobs.get(shared) == b"shared"
    assert ((await delete_session(store, blobs, None, "b")).blobs, store.read_of) == (1, [])
    await store.close()


async def test_while_a_part_of_an_older_log_is_out_of_reach_no_blob_goes(tmp_path: Path) -> None:
    path, blobs, archive = a_store_of_layout(BEFORE, tmp_path / "s.db"), MemoryBlobs(), MemoryArchive()
    shared = await blobs.put(b"shared")
    for key in ("a", "b", "c"):
        fill(path, InputAdmitted((LargeText(shared, "long"),)), a_notice(), session=key)
    store = ArchivedStore(SqliteStore(path, clock=ManualClock()), archive)
    lease = await lease_on(store, "b")
    segment = await put_segment(archive, "b", await store.live_rows("b", limit=1))
    body = await archive.get(segment.name)
    await store.seal(lease, segment, after=2)
    await archive.remove(segment.name)

    assert (await delete_session(store, blobs, archive, "a")).blobs == 0
    assert (await store.unscanned_sessions(), await blobs.get(shared)) == (["b"], b"shared")

    await archive.put(segment.name, body)
    assert await learn_blobs(store) == []
    assert await store.blob_refs("b") == [shared]
    await store.close()


async def test_a_flipped_bit_is_never_taken_for_the_word_that_nobody_names_a_blob(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    store = SqliteStore(path, clock=ManualClock())
    await store.admit("a", referencing(FIRST, SECOND))
    await store.admit("b", referencing(SECOND, THIRD))
    await store.close()
    whole, name = path.read_bytes(), SECOND.sha256.encode()
    places = [place for place in range(len(whole)) if whole.startswith(name, place)]
    assert len(places) == 6, "two records, two rows, and two more in the index"

    for place in places:
        hit = bytearray(whole)
        hit[place] ^= 1
        path.write_bytes(hit)
        store = SqliteStore(path, clock=ManualClock())
        found = await store.unshared_blobs(["a"])
        await store.close()

        assert SECOND not in found, place
        assert FIRST in found, place


async def test_names_come_and_go_with_the_transaction_of_their_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SqliteStore(tmp_path / "s.db", clock=ManualClock())
    await store.admit("s", an_input())

    def failing(*_: object) -> None:
        raise apsw.IOError("disk I/O error")

    monkeypatch.setattr("holdfast.stores.sqlite.batch.Batch.flush", failing)
    with pytest.raises(StoreIoError):
        await store.admit("s", referencing(BlobRef("d" * 64, 4)))
    monkeypatch.undo()

    assert (len(await store.read("s")), await store.blob_refs("s")) == (1, [])
    await store.close()
