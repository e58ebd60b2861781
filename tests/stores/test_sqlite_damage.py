"""Damage in a SQLite file is found when it is read, marked in its place, mended once, and never passed over."""

from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from zlib import crc32

import apsw
import pytest

from holdfast.core.integrity.reconcile import Found, MarkMissing, PutBack, Repair, SetAside, reconcile
from holdfast.errors import StoreDamagedError, StoreIoError
from holdfast.ports import Admission, Snapshot
from holdfast.stores.rows import ALTERED, MISSING, record_crc32
from holdfast.stores.sqlite import SqliteStore
from holdfast.stores.sqlite import batch as sqlite_batch
from holdfast.stores.sqlite.writer import INLINE_BYTES_MAX
from holdfast.testing.builders import ManualClock, a_notice, an_input, lease_on
from holdfast.types.records import DamageSetAside, encode_record


@pytest.fixture
async def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SqliteStore]:
    # Everything is moved at once, so that tests know where to find it.
    monkeypatch.setattr(sqlite_batch, "RECENT_RECORDS_MAX", 1)
    store = SqliteStore(tmp_path / "s.db", clock=ManualClock())
    lease = await lease_on(store)
    await store.append(lease, [a_notice(f"notice {number}") for number in range(1, 6)], after=0)
    await store.save_snapshot(lease, Snapshot(seq=5, body=b"a fold of five"))
    # Too large for the event loop, so the thread does it, after it has moved the records.
    await store._writer.run(lambda _batch: None, size_bytes=INLINE_BYTES_MAX + 1)
    yield store
    await store.close()


def damage(store: SqliteStore, sql: str, *values: int | bytes) -> None:
    with closing(apsw.Connection(str(store._path))) as db:
        db.execute(sql, values)
        assert db.changes() == 1


def flipped(body: bytes, bit: int) -> bytes:
    return bytes(byte ^ (1 << bit % 8 if place == bit // 8 else 0) for place, byte in enumerate(body))


async def marked(store: SqliteStore) -> list[tuple[int, str]]:
    """The records that are shown by a mark, with the reason."""
    return [
        (logged.seq, logged.record.why) for logged in await store.read("s") if isinstance(logged.record, DamageSetAside)
    ]


async def mended(store: SqliteStore) -> tuple[Repair, ...]:
    """Repair what is found, and return what that was."""
    page = await store.check_rows("s")
    repairs = reconcile(Found(page.intact, page.bad))
    known = await store.info("s")
    assert known is not None
    lease = await lease_on(store)
    rows = [repair for repair in repairs if isinstance(repair, SetAside | PutBack | MarkMissing)]
    await store.repair(lease, rows, after=max(5, *(run.last for run in page.intact)))
    return repairs


async def test_any_flipped_bit_is_found(store: SqliteStore) -> None:
    body = encode_record(a_notice("notice 3"))

    for bit in range(0, len(body) * 8, 7):
        damage(store, "UPDATE records SET body = ? WHERE seq = 3", flipped(body, bit))
        assert await marked(store) == [(3, ALTERED)]

    damage(store, "UPDATE records SET body = ? WHERE seq = 3", body)
    assert await marked(store) == []


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("UPDATE records SET at = at + 1 WHERE seq = 2", (2, ALTERED)),
        ("UPDATE records SET crc32 = crc32 + 1 WHERE seq = 2", (2, ALTERED)),
        ("UPDATE records SET body = substr(body, 1, 10) WHERE seq = 2", (2, ALTERED)),
        ("UPDATE records SET body = (SELECT body FROM records WHERE seq = 1) WHERE seq = 2", (2, ALTERED)),
        ("UPDATE records SET crc32 = crc32 + 1 WHERE seq = 5", (5, ALTERED)),
        ("DELETE FROM records WHERE seq = 2", (2, MISSING)),
        ("DELETE FROM records WHERE seq = 1", (1, MISSING)),
        ("UPDATE records SET seq = 9 WHERE seq = 4", (4, MISSING)),
        ("UPDATE records SET seq = 1 << 40 WHERE seq = 4", (4, MISSING)),
        ("UPDATE records SET seq = -4 WHERE seq = 4", (4, MISSING)),
    ],
)
async def test_an_altered_moved_or_missing_record_is_marked_mended_and_then_all_is_well(
    store: SqliteStore, sql: str, found: tuple[int, str]
) -> None:
    damage(store, sql)

    assert await marked(store) == [found]
    assert [logged.seq for logged in await store.read("s")] == [1, 2, 3, 4, 5]
    repairs = await mended(store)

    assert repairs != ()
    page = await store.check_rows("s")
    assert reconcile(Found(page.intact, page.bad)) == ()
    assert await marked(store) == [found]
    assert await store.admit("s", an_input()) == Admission(6, is_new=True)


async def test_a_row_whose_number_lost_a_bit_is_put_back_and_nothing_is_lost(store: SqliteStore) -> None:
    before = await store.read("s")
    damage(store, "UPDATE records SET seq = seq | (1 << 40) WHERE seq = 4")

    repairs = await mended(store)

    assert [type(repair) for repair in repairs] == [PutBack]
    assert (await store.read("s"), await store.quarantine("s")) == (before, [])


async def test_the_original_bytes_of_a_damaged_row_are_kept_as_they_were_found(store: SqliteStore) -> None:
    damage(store, "UPDATE records SET body = x'00ff00' WHERE seq = 3")

    await mended(store)

    (kept,) = await store.quarantine("s")
    assert (kept.seq, kept.why, kept.body) == (3, ALTERED, b"\x00\xff\x00")


async def test_a_row_at_the_end_of_the_world_does_not_lead_the_next_record_there(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    store = SqliteStore(path, clock=ManualClock())
    lease = await lease_on(store)
    await store.append(lease, [a_notice(str(number)) for number in range(1, 6)], after=0)
    await store.close()
    store = SqliteStore(path, clock=ManualClock())
    damage(store, "UPDATE recent SET seq = 1 << 50 WHERE seq = 3")
    damage(store, "UPDATE recent SET crc32 = crc32 + 1 WHERE seq = 5")

    admitted = await store.admit("s", an_input())

    assert (admitted.seq, await marked(store)) == (6, [(3, MISSING), (5, ALTERED)])
    await store.close()


async def test_of_two_rows_for_one_record_the_one_that_checks_out_counts(store: SqliteStore) -> None:
    before = await store.read("s")
    damage(store, "INSERT INTO recent SELECT NULL, session, seq, at, crc32 + 1, body FROM records WHERE seq = 3")
    damage(store, "INSERT INTO recent SELECT NULL, session, seq, at, crc32, body FROM records WHERE seq = 4")

    assert await store.read("s") == before
    assert [type(repair) for repair in await mended(store)] == [SetAside]
    assert (await store.read("s"), len(await store.quarantine("s"))) == (before, 1)


async def test_a_log_that_lost_more_than_damage_explains_is_not_passed_over(store: SqliteStore) -> None:
    at, body = ManualClock().now(), encode_record(a_notice())
    checksum = record_crc32(1, 50_000, at, body)
    damage(store, "UPDATE records SET seq = 50000, crc32 = ?, body = ? WHERE seq = 5", checksum, body)

    with pytest.raises(StoreDamagedError, match="49,995 records are missing at once"):
        await store.read("s")


async def test_every_page_has_as_many_records_as_it_was_asked_for_whatever_lies_between(store: SqliteStore) -> None:
    damage(store, "UPDATE records SET seq = 0 WHERE seq = 2")
    damage(store, "DELETE FROM records WHERE seq = 4")

    pages = [[each.seq for each in await store.read("s", after=after, limit=2)] for after in range(6)]

    assert pages == [[1, 2], [2, 3], [3, 4], [4, 5], [5], []]


async def test_a_record_of_a_newer_version_is_named(store: SqliteStore) -> None:
    at, body = ManualClock().now(), b'{"type":"FromTheFuture"}'
    damage(store, "UPDATE records SET body = ?, crc32 = ? WHERE seq = 3", body, record_crc32(1, 3, at, body))

    with pytest.raises(StoreDamagedError, match=r"record 3 .*FromTheFuture"):
        await store.read("s")


async def test_a_feed_goes_on_past_the_damage(store: SqliteStore) -> None:
    damage(store, "UPDATE records SET body = x'00' WHERE seq = 3")
    feed = store.feed("s", after=2)

    seen = [await anext(feed) for _ in range(3)]

    assert [each.seq for each in seen] == [3, 4, 5]
    assert isinstance(seen[0].record, DamageSetAside)
    await feed.aclose()


async def test_a_search_ends_where_numbers_cannot_be_believed(store: SqliteStore) -> None:
    damage(store, "UPDATE records SET seq = 1 << 40 WHERE seq = 5")
    damage(store, "UPDATE records SET seq = 1 << 41 WHERE seq = 4")

    assert await store.search("s", "lighthouse") == []
    assert (await store.check_rows("s")).bad != ()


async def test_a_damaged_snapshot_is_as_good_as_none(store: SqliteStore) -> None:
    damage(store, "UPDATE snapshots SET body = ? WHERE seq = 5", b"a fold of six.")

    assert await store.load_snapshot("s") is None


async def test_a_file_whose_pages_are_destroyed_is_told_and_the_store_closes(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    store = SqliteStore(path, clock=ManualClock())
    lease = await lease_on(store)
    await store.append(lease, [a_notice("x" * 2_000) for _ in range(50)], after=0)
    await store.close()
    # The pages that tell what the file is stay; of the others nothing does.
    with closing(apsw.Connection(str(path))) as db:
        kept = {page for (page,) in db.execute("SELECT pageno FROM dbstat WHERE name = 'sqlite_schema'")}
    content = path.read_bytes()
    pages = (content[start : start + 4096] for start in range(0, len(content), 4096))
    path.write_bytes(b"".join(page if place in kept else b"\xff" * 4096 for place, page in enumerate(pages, start=1)))

    store = SqliteStore(path, clock=ManualClock())

    for _ in range(2):
        with pytest.raises(StoreIoError, match="damaged"):
            await store.read("s")
        with pytest.raises(StoreIoError, match="damaged"):
            await store.admit("s", an_input())
    await store.close()


def test_the_checksum_covers_the_place_and_the_time() -> None:
    body = encode_record(a_notice())

    sums = {record_crc32(1, 1, 5.0, body), record_crc32(2, 1, 5.0, body), record_crc32(1, 2, 5.0, body)}

    assert len(sums | {record_crc32(1, 1, 5.1, body), crc32(body)}) == 5


@pytest.mark.parametrize("seq", [5 | 2, 5 | 1 << 40])
async def test_the_newest_row_with_a_wrong_number_is_not_overtaken_by_the_next_record(
    store: SqliteStore, seq: int
) -> None:
    before = await store.read("s")
    damage(store, "UPDATE records SET seq = ? WHERE seq = 5", seq)

    assert await marked(store) == [(5, ALTERED)]
    assert await store.read("s", after=5) == []
    assert await store.admit("s", an_input()) == Admission(6, is_new=True)
    assert [type(repair) for repair in await mended(store)] == [PutBack]

    assert (await store.read("s"))[:5] == before
