"""A store with its archive keeps every promise of a store, and nobody notices which records are sealed."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from pathlib import Path

import msgspec
import pytest

from holdfast.core.integrity.segments import FRAME_BYTES
from holdfast.core.limits.bounds import Bounds
from holdfast.errors import SegmentMissingError, StoreDamagedError
from holdfast.ports import Archive, Hit, Lease, Segment, Store
from holdfast.stores import archived
from holdfast.stores.archived import ArchivedStore, LruCache, SegmentReader
from holdfast.stores.archives import FolderArchive, MemoryArchive
from holdfast.stores.memory import MemoryStore
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.builders import (
    ManualClock,
    a_notice,
    a_reply,
    a_tool_call,
    a_turn_ended,
    a_turn_started,
    an_input,
    lease_on,
)
from holdfast.testing.maintenance_contract import seal_record, segment_of, ten_notices
from holdfast.testing.store_contract import StoreContract
from holdfast.types.messages import Text, ToolResult
from holdfast.types.records import (
    AnyRecord,
    DamageSetAside,
    LeasedRecord,
    Logged,
    SegmentSealed,
    ToolSettled,
    ToolStarted,
)


async def seal(store: Store, archive: Archive, lease: Lease, last: int) -> Segment:
    """Seal the live records up to `last`, as the sealer does."""
    known = await store.info(lease.session)
    assert known is not None
    segment, body = await segment_of(store, last, session=lease.session)
    await archive.put(segment.name, body)
    await store.seal(lease, segment, after=known.last_seq)
    return segment


class ArchivedContract(StoreContract):
    """The contract over a store with its archive: what was sealed is read instead of refused."""

    @pytest.fixture
    def archive(self) -> Archive:
        return MemoryArchive()

    async def test_sealed_records_are_never_passed_over(self, store: Store, archive: Archive) -> None:  # type: ignore[override]  # with an archive
        lease = await ten_notices(store)
        segment = await seal(store, archive, lease, 6)

        read = [each.record for each in await store.read("s")]

        expected: list[AnyRecord] = [a_notice(f"sentence {number}") for number in range(1, 11)]
        assert read == [*expected, seal_record(segment)]
        for after, limit in ((0, 2), (3, 2), (5, 1), (5, 3), (4, 100), (-1, 3), (2, 0)):
            found = [each.seq for each in await store.read("s", after=after, limit=limit)]
            assert found == list(range(1, 12))[max(after, 0) :][:limit]

    async def test_a_feed_says_that_it_begins_behind_a_seal(self, store: Store, archive: Archive) -> None:  # type: ignore[override]  # with an archive
        lease = await ten_notices(store)
        await seal(store, archive, lease, 6)

        async with aclosing(store.feed("s")) as feed:
            assert [(await anext(feed)).seq for _ in range(11)] == list(range(1, 12))

    @pytest.mark.parametrize("is_searched_before", [True, False])
    async def test_what_was_sealed_is_still_found(  # type: ignore[override]  # with an archive
        self, store: Store, archive: Archive, *, is_searched_before: bool
    ) -> None:
        turn = (await store.admit("s", an_input("where are the pears?"))).seq
        lease = await lease_on(store)
        call = a_tool_call("find_pears", '{"path": "orchard/map.txt"}')
        records: list[LeasedRecord] = [
            a_turn_started(turn),
            a_reply("I look", call, turn=turn),
            ToolStarted(turn, call.call_id, call.name),
            ToolSettled(turn, ToolResult(call.call_id, (Text("behind the barn"),))),
            a_reply("They are behind the barn.", turn=turn),
            a_turn_ended(turn),
        ]
        last = await store.append(lease, records, after=turn)
        asked = ("pears", "orchard/map.txt", "barn", "nothing of it")
        before = [await store.search("s", query) for query in asked] if is_searched_before else []
        await seal(store, archive, lease, last)

        after = [await store.search("s", query) for query in asked]

        assert [[hit.seq for hit in hits] for hits in after] == [[5, 1], [5], [6, 5], []]
        assert after[1] == [Hit(5, after[1][0].score, "find_pears orchard/map.txt: behind the barn", call=3)]
        assert not before or after == before

    @pytest.mark.parametrize("sealed", [5, 30, 60])
    async def test_hits_have_the_same_order_and_scores_however_much_is_sealed(
        self, store: Store, archive: Archive, *, sealed: int
    ) -> None:
        talk = random.Random(7)
        nouns = ("harbour", "budget", "pear", "whale", "tide", "fathom")
        lease, seq = await lease_on(store), 0
        for number in range(20):
            turn = (await store.admit("s", an_input(f"the {talk.choice(nouns)} and the {talk.choice(nouns)}?"))).seq
            essay = f"on {talk.choice(nouns)}: " + "many words " * (number % 4) * 30
            records: list[LeasedRecord] = [a_turn_started(turn), a_reply(essay, turn=turn), a_turn_ended(turn)]
            seq = await store.append(lease, records, after=turn)
        asked = ("harbour budget", "tide", "pear whale fathom", "the many words")
        before = [await store.search("s", query, limit=40) for query in asked]

        await seal(store, archive, lease, sealed)

        assert seq == 80
        assert [await store.search("s", query, limit=40) for query in asked] == before


class TestArchivedMemoryStore(ArchivedContract):
    @pytest.fixture
    async def store(self, clock: ManualClock, bounds: Bounds, archive: Archive) -> AsyncIterator[ArchivedStore]:
        store = ArchivedStore(MemoryStore(clock=clock, bounds=bounds), archive)
        yield store
        await store.close()


class TestArchivedSqliteStore(ArchivedContract):
    @pytest.fixture
    def archive(self, tmp_path: Path) -> Archive:
        return FolderArchive(tmp_path / "archive")

    @pytest.fixture
    async def store(
        self, tmp_path: Path, clock: ManualClock, bounds: Bounds, archive: Archive
    ) -> AsyncIterator[ArchivedStore]:
        store = ArchivedStore(SqliteStore(tmp_path / "s.db", clock=clock, bounds=bounds), archive)
        yield store
        await store.close()


# Whatever is sealed when, a log reads the same.


def a_sqlite_store(path: Path) -> Store:
    return SqliteStore(path / "s.db", clock=ManualClock())


def a_memory_store(_path: Path) -> Store:
    return MemoryStore(clock=ManualClock())


@pytest.mark.parametrize("make", [a_memory_store, a_sqlite_store])
@pytest.mark.parametrize("seed", range(3))
async def test_a_log_reads_the_same_however_it_was_sealed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], Store], seed: int
) -> None:
    # Small, so that every bound is met.
    monkeypatch.setattr(archived, "FRAMES_BYTES_MAX", 2_000)
    rng = random.Random(seed)
    archive = MemoryArchive()
    bare = make(tmp_path)
    store = ArchivedStore(bare, archive)
    lease = await lease_on(store)
    expected: list[AnyRecord] = []
    for _ in range(12):
        records = [a_notice("word " * rng.randint(0, 60)) for _ in range(rng.randint(1, 30))]
        await store.append(lease, records, after=len(expected))
        expected += records
        live = await store.live_rows("s", limit=1_000)
        if rng.random() < 0.7:
            segment = await seal(store, archive, lease, rng.choice(live).seq)
            expected.append(seal_record(segment))

        whole = [logged.record for logged in await store.read("s")]
        after, limit = rng.randint(0, len(expected)), rng.randint(0, 40)
        part = await store.read("s", after=after, limit=limit)

        assert whole == expected
        assert [(logged.seq, logged.record) for logged in part] == list(
            enumerate(expected[after : after + limit], start=after + 1)
        )
    await store.close()


async def test_a_feed_that_is_overtaken_by_a_seal_misses_nothing(tmp_path: Path) -> None:
    archive = MemoryArchive()
    store = ArchivedStore(a_sqlite_store(tmp_path), archive)
    lease = await lease_on(store)
    await store.append(lease, [a_notice(str(number)) for number in range(450)], after=0)
    seen: list[Logged] = []

    async with aclosing(store.feed("s")) as feed:
        seen += [await anext(feed) for _ in range(10)]
        await seal(store, archive, lease, 300)
        seen += [await anext(feed) for _ in range(300)]
        await seal(store, archive, lease, 440)
        seen += [await anext(feed) for _ in range(142)]
        # A wait that is cancelled costs nothing.
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(feed), 0.01)
        await store.admit("s", an_input("news"))
        seen.append(await anext(feed))
    await store.close()

    assert [logged.seq for logged in seen] == list(range(1, 454))
    assert isinstance(seen[450].record, SegmentSealed)
    assert seen[-1].record == an_input("news")


async def test_records_of_another_process_that_were_sealed_there_are_read_here(tmp_path: Path) -> None:
    archive = FolderArchive(tmp_path / "archive")
    ours = ArchivedStore(a_sqlite_store(tmp_path), archive)
    theirs = ArchivedStore(a_sqlite_store(tmp_path), FolderArchive(tmp_path / "archive"))
    lease = await ten_notices(theirs)
    assert len(await ours.read("s")) == 10

    await seal(theirs, archive, lease, 4)
    first = [logged.seq for logged in await ours.read("s")]
    await seal(theirs, archive, lease, 8)
    second = [logged.seq for logged in await ours.read("s")]
    await ours.close()
    await theirs.close()

    assert (first, second) == (list(range(1, 12)), list(range(1, 13)))


# What is wrong with a segment is said, and the rest is read.


async def a_sealed_store(archive: Archive, last: int = 6) -> tuple[ArchivedStore, Segment]:
    store = ArchivedStore(MemoryStore(clock=ManualClock()), archive)
    lease = await ten_notices(store)
    return store, await seal(store, archive, lease, last)


async def marked(store: ArchivedStore) -> dict[int, str]:
    """The records that cannot be read, with what is said in the place of each."""
    records = await store.read("s")
    assert [each.seq for each in records] == list(range(1, 12))
    return {each.seq: each.record.why for each in records if isinstance(each.record, DamageSetAside)}


async def test_a_segment_that_is_gone_is_named_and_live_records_are_read() -> None:
    archive = MemoryArchive()
    store, segment = await a_sealed_store(archive)
    body = await archive.get(segment.name)
    await archive.remove(segment.name)

    said = await marked(store)
    assert (list(said), len(set(said.values()))) == ([1, 2, 3, 4, 5, 6], 1)
    assert segment.name in said[1]

    await archive.put(segment.name, body)
    assert await marked(store) == {}


@pytest.mark.parametrize("place", [3, 20, -3])
async def test_a_damaged_segment_is_never_read_as_something_else(place: int) -> None:
    archive = MemoryArchive()
    store, segment = await a_sealed_store(archive)
    damaged = bytearray(await archive.get(segment.name))
    damaged[place] ^= 1
    await archive.remove(segment.name)
    await archive.put(segment.name, bytes(damaged))

    said = await marked(store)
    assert list(said) == [1, 2, 3, 4, 5, 6]
    assert "is damaged" in said[6]


async def test_another_segment_under_the_name_of_one_is_not_taken_for_it() -> None:
    archive = MemoryArchive()
    store, segment = await a_sealed_store(archive)
    _, other = await a_sealed_store(archive, last=5)
    body = await archive.get(other.name)
    await archive.remove(segment.name)
    await archive.put(segment.name, body)

    assert "does not hold the records of its seal" in (await marked(store))[1]


async def test_a_record_of_a_newer_version_is_named_also_in_a_segment(monkeypatch: pytest.MonkeyPatch) -> None:
    archive = MemoryArchive()
    store, _ = await a_sealed_store(archive)
    monkeypatch.setattr("holdfast.stores.archived.decode_record", lambda _: decode_nothing())

    with pytest.raises(StoreDamagedError, match="record 1 cannot be read"):
        await store.read("s")


def decode_nothing() -> AnyRecord:
    raise msgspec.DecodeError("of a newer version")


# What it costs.


class CountingArchive(MemoryArchive):
    def __init__(self) -> None:
        super().__init__()
        self.reads: list[int] = []

    async def read(self, name: str, *, start: int, length: int) -> bytes:
        found = await super().read(name, start=start, length=length)
        self.reads.append(len(found))
        return found


async def test_one_record_costs_one_frame_and_the_next_beside_it_nothing() -> None:
    archive = CountingArchive()
    store = ArchivedStore(MemoryStore(clock=ManualClock()), archive)
    lease = await lease_on(store)
    rng = random.Random(1)
    texts = [rng.randbytes(FRAME_BYTES // 8).hex() for _ in range(40)]
    await store.append(lease, [a_notice(text) for text in texts], after=0)
    segment = await seal(store, archive, lease, 40)

    await store.read("s", after=20, limit=1)
    cost = sum(archive.reads)
    await store.read("s", after=20, limit=2)
    await store.read("s", after=21, limit=1)

    assert len(archive.reads) == 2
    assert cost < segment.size / 8


async def test_a_page_over_many_frames_is_one_request() -> None:
    archive = CountingArchive()
    store = ArchivedStore(MemoryStore(clock=ManualClock()), archive)
    lease = await lease_on(store)
    await store.append(lease, [a_notice("x" * FRAME_BYTES) for _ in range(10)], after=0)
    await seal(store, archive, lease, 10)

    await store.read("s", after=0, limit=10)

    assert len(archive.reads) == 2


async def test_a_header_longer_than_usual_is_read_too() -> None:
    archive = CountingArchive()
    store = ArchivedStore(MemoryStore(clock=ManualClock()), archive)
    lease = await lease_on(store, session="k" * 5_000)
    await store.append(lease, [a_notice("x")], after=0)
    await seal(store, archive, lease, 1)

    assert len(await store.read("k" * 5_000)) == 2


def test_what_was_used_last_is_kept_within_the_bound() -> None:
    recent: LruCache[str, str] = LruCache(10, len)
    for key, value in (("a", "xxxx"), ("b", "xxxx")):
        recent.put(key, value)
    recent.get("a")
    recent.put("c", "xxxx")
    recent.put("too large", "x" * 11)

    assert [recent.get(key) for key in ("a", "b", "c", "too large")] == ["xxxx", None, "xxxx", None]
    recent.drop("a")
    recent.drop("a")
    recent.put("d", "xxxxxx")
    assert [recent.get(key) for key in ("a", "c", "d")] == [None, "xxxx", "xxxxxx"]


async def test_frames_in_the_wrong_place_are_not_taken_for_others() -> None:
    archive = MemoryArchive()
    store, segment = await a_sealed_store(archive)
    reader = SegmentReader(archive)
    rows = await reader.rows(segment, 1, 6)
    reader._frames.put((segment.name, 0), rows[2:])

    with pytest.raises(SegmentMissingError, match="do not match its header"):
        await reader.rows(segment, 1, 3)
    await store.close()
