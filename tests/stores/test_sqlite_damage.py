"""Damage in a SQLite file is found when it is read, named by session and seq, and never passed over."""

from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from zlib import crc32

import apsw
import pytest

from holdfast.core.records import encode_record
from holdfast.errors import StoreDamagedError, StoreIoError
from holdfast.ports import Snapshot
from holdfast.stores.checking import record_crc32
from holdfast.stores.sqlite import SqliteStore
from holdfast.stores.sqlite import batch as sqlite_batch
from holdfast.testing.builders import a_notice, an_input
from holdfast.testing.clock import ManualClock
from holdfast.testing.store_promises import lease_on


@pytest.fixture
async def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SqliteStore]:
    # Everything is moved at once, so that tests know where to find it.
    monkeypatch.setattr(sqlite_batch, "RECENT_RECORDS_MAX", 1)
    store = SqliteStore(tmp_path / "s.db", clock=ManualClock())
    lease = await lease_on(store)
    await store.append(lease, [a_notice(f"notice {number}") for number in range(1, 6)], after=0)
    await store.save_snapshot(lease, Snapshot(seq=5, body=b"a fold of five"))
    yield store
    await store.close()


def damage(store: SqliteStore, sql: str, *values: int | bytes) -> None:
    with closing(apsw.Connection(str(store._path))) as db:
        db.execute(sql, values)
        assert db.changes() == 1


def flipped(body: bytes, bit: int) -> bytes:
    return bytes(byte ^ (1 << bit % 8 if place == bit // 8 else 0) for place, byte in enumerate(body))


async def test_any_flipped_bit_is_found(store: SqliteStore) -> None:
    body = encode_record(a_notice("notice 3"))

    for bit in range(0, len(body) * 8, 7):
        damage(store, "UPDATE records SET body = ? WHERE seq = 3", flipped(body, bit))
        with pytest.raises(StoreDamagedError, match="'s', record 3 cannot be read") as found:
            await store.read("s")
        assert (found.value.session, found.value.seq) == ("s", 3)

    damage(store, "UPDATE records SET body = ? WHERE seq = 3", body)
    assert len(await store.read("s")) == 5


@pytest.mark.parametrize(
    ("sql", "seq"),
    [
        ("UPDATE records SET at = at + 1 WHERE seq = 2", 2),
        ("UPDATE records SET crc32 = crc32 + 1 WHERE seq = 2", 2),
        ("UPDATE records SET body = substr(body, 1, 10) WHERE seq = 2", 2),
        ("UPDATE records SET body = (SELECT body FROM records WHERE seq = 1) WHERE seq = 2", 2),
        ("DELETE FROM records WHERE seq = 2", 2),
        ("DELETE FROM records WHERE seq = 1", 1),
        ("UPDATE records SET seq = 9 WHERE seq = 4", 4),
    ],
)
async def test_an_altered_moved_or_missing_record_is_found(store: SqliteStore, sql: str, seq: int) -> None:
    damage(store, sql)

    with pytest.raises(StoreDamagedError) as found:
        await store.read("s")

    assert (found.value.session, found.value.seq) == ("s", seq)


async def test_records_before_and_behind_the_damage_can_be_read(store: SqliteStore) -> None:
    damage(store, "UPDATE records SET body = x'00' WHERE seq = 3")

    assert [each.seq for each in await store.read("s", limit=2)] == [1, 2]
    assert [each.seq for each in await store.read("s", after=3)] == [4, 5]


async def test_a_record_of_a_newer_version_is_named(store: SqliteStore) -> None:
    at, body = ManualClock().now(), b'{"type":"FromTheFuture"}'
    damage(store, "UPDATE records SET body = ?, crc32 = ? WHERE seq = 3", body, record_crc32(1, 3, at, body))

    with pytest.raises(StoreDamagedError, match=r"record 3 .*FromTheFuture"):
        await store.read("s")


async def test_a_feed_raises_at_the_damage(store: SqliteStore) -> None:
    damage(store, "UPDATE records SET body = x'00' WHERE seq = 3")
    feed = store.feed("s", after=2)

    with pytest.raises(StoreDamagedError):
        await anext(feed)

    await feed.aclose()


async def test_a_damaged_snapshot_is_as_good_as_none(store: SqliteStore) -> None:
    damage(store, "UPDATE snapshots SET body = ? WHERE seq = 5", b"a fold of six.")

    assert await store.load_snapshot("s") is None


async def test_a_file_whose_pages_are_destroyed_is_told_and_the_store_closes(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    store = SqliteStore(path, clock=ManualClock())
    lease = await lease_on(store)
    await store.append(lease, [a_notice("x" * 2_000) for _ in range(50)], after=0)
    await store.close()
    # The first page, which tells what the file is, stays; of the others nothing does.
    content = path.read_bytes()
    path.write_bytes(content[:4096] + b"\xff" * (len(content) - 4096))

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
