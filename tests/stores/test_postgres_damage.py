"""Damage in a PostgreSQL store is found when it is read, marked in its place, mended once, and never passed over."""

from collections.abc import AsyncIterator

import pytest

from holdfast.core.integrity.reconcile import Found, MarkMissing, PutBack, Repair, SetAside, reconcile
from holdfast.errors import StoreDamagedError
from holdfast.ports import Admission, Snapshot
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.rows import ALTERED, MISSING, record_crc32
from holdfast.testing.builders import ManualClock, a_notice, a_reply, an_input, lease_on
from holdfast.testing.maintenance_contract import segment_of
from holdfast.types.records import DamageSetAside
from tests.stores.postgres_server import on


@pytest.fixture
async def store(postgres_url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(postgres_url, clock=ManualClock())
    lease = await lease_on(store)
    await store.append(lease, [a_notice(f"notice {number}") for number in range(1, 6)], after=0)
    await store.save_snapshot(lease, Snapshot(seq=5, body=b"a fold of five"))
    yield store
    await store.close()


async def damage(url: str, sql: str, *values: int | bytes) -> None:
    assert (await on(url, lambda db: db.execute(sql, *values))).endswith(" 1")


async def marked(store: PostgresStore) -> list[tuple[int, str]]:
    """The records that are shown by a mark, with the reason."""
    return [
        (logged.seq, logged.record.why) for logged in await store.read("s") if isinstance(logged.record, DamageSetAside)
    ]


async def mended(store: PostgresStore) -> tuple[Repair, ...]:
    """Repair what is found, with a snapshot that vouches for the end, and return what that was."""
    page = await store.check_rows("s")
    known = await store.info("s")
    assert known is not None
    repairs = reconcile(Found((*page.intact,), page.bad))
    missing = [MarkMissing(seq, MISSING) for seq, why in await marked(store) if why == MISSING]
    rows = [repair for repair in repairs if isinstance(repair, SetAside | PutBack | MarkMissing)]
    named = {repair.to if isinstance(repair, PutBack) else repair.seq for repair in rows}
    rows += [repair for repair in missing if repair.seq not in named]
    lease = await lease_on(store)
    await store.repair(lease, rows, after=known.last_seq)
    return tuple(rows)


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("UPDATE holdfast.records SET at = at + 1 WHERE seq = 2", (2, ALTERED)),
        ("UPDATE holdfast.records SET crc32 = crc32 + 1 WHERE seq = 2", (2, ALTERED)),
        ("UPDATE holdfast.records SET body = substr(body, 1, 10) WHERE seq = 2", (2, ALTERED)),
        ("UPDATE holdfast.records SET crc32 = crc32 + 1 WHERE seq = 5", (5, ALTERED)),
        ("DELETE FROM holdfast.records WHERE seq = 2", (2, MISSING)),
        ("DELETE FROM holdfast.records WHERE seq = 1", (1, MISSING)),
        # The row of the session knows how far the log goes, so the end cannot be lost unseen either.
        ("DELETE FROM holdfast.records WHERE seq = 5", (5, MISSING)),
        ("UPDATE holdfast.records SET seq = 9 WHERE seq = 5", (5, MISSING)),
        ("UPDATE holdfast.records SET seq = 9 WHERE seq = 4", (4, MISSING)),
        ("UPDATE holdfast.records SET seq = -4 WHERE seq = 4", (4, MISSING)),
    ],
)
async def test_an_altered_moved_or_missing_record_is_marked_mended_and_then_all_is_well(
    store: PostgresStore, postgres_url: str, sql: str, found: tuple[int, str]
) -> None:
    await damage(postgres_url, sql)

    assert await marked(store) == [found]
    assert [logged.seq for logged in await store.read("s")] == [1, 2, 3, 4, 5]
    assert await mended(store) != ()

    page = await store.check_rows("s")
    assert reconcile(Found(page.intact, page.bad)) == ()
    assert await marked(store) == [found]
    assert await store.admit("s", an_input()) == Admission(6, is_new=True)


async def test_a_row_whose_number_lost_a_bit_is_put_back_and_nothing_is_lost(
    store: PostgresStore, postgres_url: str
) -> None:
    before = await store.read("s")
    await damage(postgres_url, "UPDATE holdfast.records SET seq = seq | (1::bigint << 40) WHERE seq = 4")

    repairs = await mended(store)

    assert [type(repair) for repair in repairs] == [PutBack]
    assert (await store.read("s"), await store.quarantine("s")) == (before, [])


async def test_a_row_that_is_no_longer_what_was_found_is_not_put_back(store: PostgresStore) -> None:
    before = await store.read("s")
    lease = await lease_on(store)

    await store.repair(
        lease, [PutBack(3, 4, "why"), PutBack(70, 4, "why"), SetAside(3, "why", leaves_mark=False)], after=5
    )

    assert (await store.read("s"), await store.quarantine("s")) == (before, [])


async def test_the_original_bytes_of_a_damaged_row_are_kept_as_they_were_found(
    store: PostgresStore, postgres_url: str
) -> None:
    await damage(postgres_url, r"UPDATE holdfast.records SET body = '\x00ff00' WHERE seq = 3")

    await mended(store)

    (kept,) = await store.quarantine("s")
    assert (kept.seq, kept.why, kept.body) == (3, ALTERED, b"\x00\xff\x00")


async def test_a_log_that_lost_more_than_damage_explains_is_not_passed_over(
    store: PostgresStore, postgres_url: str
) -> None:
    await damage(postgres_url, "UPDATE holdfast.sessions SET last_seq = 50000")

    with pytest.raises(StoreDamagedError, match="49,995 records are missing at once"):
        await store.read("s")


async def test_every_page_has_as_many_records_as_it_was_asked_for_whatever_lies_between(
    store: PostgresStore, postgres_url: str
) -> None:
    await damage(postgres_url, "UPDATE holdfast.records SET seq = 900 WHERE seq = 2")
    await damage(postgres_url, "UPDATE holdfast.records SET seq = 800 WHERE seq = 5")
    await damage(postgres_url, "DELETE FROM holdfast.records WHERE seq = 4")

    pages = [[each.seq for each in await store.read("s", after=after, limit=2)] for after in range(6)]

    assert pages == [[1, 2], [2, 3], [3, 4], [4, 5], [5], []]


async def test_a_record_of_a_newer_version_is_named(store: PostgresStore, postgres_url: str) -> None:
    at, body = ManualClock().now(), b'{"type":"FromTheFuture"}'
    number = await on(postgres_url, lambda db: db.fetchval("SELECT number FROM holdfast.sessions"))
    change = "UPDATE holdfast.records SET body = $1, crc32 = $2 WHERE seq = 3"
    await damage(postgres_url, change, body, record_crc32(number, 3, at, body))

    with pytest.raises(StoreDamagedError, match=r"record 3 .*FromTheFuture"):
        await store.read("s")


async def test_what_is_not_clean_is_not_given_to_be_sealed(store: PostgresStore, postgres_url: str) -> None:
    await damage(postgres_url, "UPDATE holdfast.records SET crc32 = crc32 + 1 WHERE seq = 2")
    with pytest.raises(StoreDamagedError, match="record 2"):
        await store.live_rows("s", limit=10)

    await damage(postgres_url, "DELETE FROM holdfast.records WHERE seq = 2")
    with pytest.raises(StoreDamagedError, match="record 2"):
        await store.live_rows("s", limit=10)


async def test_a_feed_goes_on_past_the_damage(store: PostgresStore, postgres_url: str) -> None:
    await damage(postgres_url, r"UPDATE holdfast.records SET body = '\x00' WHERE seq = 3")
    feed = store.feed("s", after=2)

    seen = [await anext(feed) for _ in range(3)]

    assert [each.seq for each in seen] == [3, 4, 5]
    assert isinstance(seen[0].record, DamageSetAside)
    await feed.aclose()


async def test_a_damaged_snapshot_is_as_good_as_none_under_another_key_too(
    store: PostgresStore, postgres_url: str
) -> None:
    await damage(postgres_url, "UPDATE holdfast.snapshots SET body = $1", b"a fold of six.")

    assert await store.load_snapshot("s") is None
    await store.rename(await lease_on(store), "t")
    assert await store.load_snapshot("t") is None


async def test_a_search_goes_on_past_rows_whose_numbers_cannot_be_believed(
    store: PostgresStore, postgres_url: str
) -> None:
    lease = await lease_on(store)
    large = "harbour " + "x" * 600_000
    await store.append(lease, [a_reply(large), a_reply(large), a_reply("harbour")], after=5)
    for seq in (6, 7):
        await damage(postgres_url, f"UPDATE holdfast.records SET seq = {seq} * 1000 WHERE seq = {seq}")

    assert [hit.seq for hit in await store.search("s", "harbour")] == [8]

    await damage(postgres_url, "UPDATE holdfast.records SET seq = 9000 WHERE seq = 8")
    await on(
        postgres_url,
        lambda db: db.execute("TRUNCATE holdfast.search_marks, holdfast.search_rows, holdfast.search_words"),
    )
    assert await store.search("s", "harbour") == []


async def test_words_of_sealed_records_stay_when_those_behind_them_are_read_again(
    postgres_url: str,
) -> None:
    store = PostgresStore(postgres_url, clock=ManualClock())
    lease = await lease_on(store)
    said = ["apples", "pears", "plums", "apples and plums"]
    await store.append(lease, [a_reply(f"this is about {fruit}") for fruit in said], after=0)
    # All four are indexed in one slice, which the seal then cuts in two.
    assert [hit.seq for hit in await store.search("s", "plums")] == [3, 4]
    segment, _ = await segment_of(store, 2)
    await store.seal(lease, segment, after=4)

    await store.repair(lease, [SetAside(3, "torn")], after=5)

    found = {word: sorted(hit.seq for hit in await store.search("s", word)) for word in ("apples", "pears", "plums")}
    assert found == {"apples": [1, 4], "pears": [2], "plums": [4]}
    await store.close()
