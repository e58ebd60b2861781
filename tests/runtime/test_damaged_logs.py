"""What cannot be taken back, on logs that are not clean: it is refused, or leaves whatever might still be needed."""

import logging
from collections.abc import AsyncGenerator
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from holdfast.errors import StoreDamagedError
from holdfast.runtime.engine.log import open_log
from holdfast.runtime.maintenance.doctor import SEGMENT, Doctor
from holdfast.runtime.maintenance.healing import heal_whole, open_healed
from holdfast.runtime.maintenance.sealing import Sealer, put_again, put_segment
from holdfast.runtime.sessions.delete import delete_session, delete_sessions
from holdfast.stores.archived import ArchivedStore
from holdfast.stores.archives import MemoryArchive
from holdfast.stores.memory import MemoryBlobs
from holdfast.stores.rows import record_crc32
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.builders import ManualClock, a_notice, lease_on
from holdfast.types.messages import BlobRef, LargeText
from holdfast.types.records import DamageSetAside, InputAdmitted, encode_record
from tests.runtime.test_sealing import an_archived_engine, talk

NEWER = b'{"type":"SomethingNewer","turn":1}'
NUMBER = "(SELECT number FROM sessions WHERE key = ?)"


class World:
    """Two sessions, one of which is to go; both name one blob, and the one that goes names another."""

    def __init__(self, path: Path) -> None:
        self.path, self.clock = path, ManualClock()
        self.store, self.blobs, self.archive = SqliteStore(path, clock=self.clock), MemoryBlobs(), MemoryArchive()
        self.shared, self.own = BlobRef("", 0), BlobRef("", 0)

    async def fill(self) -> None:
        self.shared, self.own = await self.blobs.put(b"named by both"), await self.blobs.put(b"named by one")
        await self.store.admit("goes", InputAdmitted((LargeText(self.shared, "s"), LargeText(self.own, "o"))))
        await self.store.admit("stays", InputAdmitted((LargeText(self.shared, "s"),)))

    def change(self, sql: str, *values: str | float | bytes) -> None:
        with closing(apsw.Connection(str(self.path))) as db:
            db.execute(sql, values)
            assert db.changes() >= 1

    def tear(self, session: str, seq: int = 1) -> None:
        """Alter a byte of a record."""
        torn = "CAST(replace(CAST(body AS TEXT), '\"type\"', '\"tYpe\"') AS BLOB)"
        self.change(f"UPDATE recent SET body = {torn} WHERE session = {NUMBER} AND seq = ?", session, seq)

    def write_newer(self, session: str) -> None:
        """Put a record that only a later version can read in the place of the first, with a checksum that holds."""
        with closing(apsw.Connection(str(self.path))) as db:
            number, at = db.execute(f"SELECT session, at FROM recent WHERE session = {NUMBER}", (session,)).get
        crc32 = record_crc32(number, 1, at, NEWER)
        self.change("UPDATE recent SET body = ?, crc32 = ? WHERE session = ?", NEWER, crc32, number)

    @property
    def left(self) -> set[str]:
        return set(self.blobs._blobs)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncGenerator[World, None]:
    world = World(tmp_path / "s.db")
    await world.fill()
    yield world
    await world.store.close()


async def test_a_blob_is_kept_as_long_as_a_damaged_record_of_another_session_may_name_it(world: World) -> None:
    """FM-118: a row that was moved is put back, and would then name what is gone."""
    world.change(f"UPDATE recent SET seq = 1025 WHERE session = {NUMBER}", "stays")

    gone = await delete_session(world.store, world.blobs, None, "goes")
    lease = await lease_on(world.store, "stays")
    await heal_whole(lease, world.store)

    assert (gone.blobs, world.left) == (1, {world.shared.sha256})
    assert (await world.store.read("stays"))[0].record == InputAdmitted((LargeText(world.shared, "s"),))


async def test_a_blob_that_is_named_by_what_was_set_aside_is_kept_and_others_go(world: World) -> None:
    """FM-114, FM-118: bytes in quarantine are worth keeping with what they name."""
    world.tear("stays")
    await open_healed(await lease_on(world.store, "stays"), world.store)
    assert len(await world.store.quarantine("stays")) == 1

    gone = await delete_session(world.store, world.blobs, None, "goes")

    assert (gone.blobs, world.left) == (1, {world.shared.sha256})


async def test_a_blob_is_kept_while_a_segment_that_may_name_it_is_away(world: World) -> None:
    lease = await lease_on(world.store, "stays")
    await world.store.append(lease, [a_notice("behind")], after=1)
    await world.store.search("stays", "behind")
    segment = await put_segment(world.archive, "stays", await world.store.live_rows("stays", limit=1))
    await world.store.seal(lease, segment, after=2)
    body = await world.archive.get(segment.name)
    await world.archive.remove(segment.name)
    store = ArchivedStore(world.store, world.archive)

    gone = await delete_session(store, world.blobs, world.archive, "goes")
    await world.archive.put(segment.name, body)

    assert (gone.blobs, world.left) == (1, {world.shared.sha256})
    assert (await store.read("stays"))[0].record == InputAdmitted((LargeText(world.shared, "s"),))
    assert await world.blobs.get(world.shared) == b"named by both"


async def test_a_session_of_a_newer_version_neither_stops_deletions_nor_loses_its_blobs(world: World) -> None:
    """FM-114: what nobody here can read is in nobody's way but its own session's."""
    await world.store.admit("too", InputAdmitted((LargeText(world.own, "o"),)))
    world.write_newer("stays")
    with pytest.raises(StoreDamagedError, match="its record type is unknown"):
        await open_log(world.store, "stays")

    gone = await delete_sessions(world.store, world.blobs, None, ["goes", "too"])

    assert (gone.sessions, gone.stayed, gone.blobs) == (("goes", "too"), {}, 1)
    assert [known.key for known in await world.store.sessions()] == ["stays"]
    assert world.left == {world.shared.sha256}


async def test_a_session_that_nobody_can_read_can_be_deleted(world: World) -> None:
    """FM-114: getting rid of a session does not need to understand it."""
    world.write_newer("stays")

    await delete_session(world.store, world.blobs, None, "stays")

    assert [known.key for known in await world.store.sessions()] == ["goes"]
    assert world.left == {world.shared.sha256, world.own.sha256}


async def test_of_sessions_that_have_expired_one_that_is_not_clean_stays(world: World) -> None:
    """FM-118."""
    for session in ("a", "b"):
        lease = await lease_on(world.store, session)
        await world.store.append(lease, [a_notice("old")], after=0)
        await world.store.release(lease)
    world.tear("a")
    world.clock.advance(100.0)

    gone = await delete_sessions(world.store, world.blobs, None, ["a", "b"], untouched_since=world.clock.now())

    assert gone.sessions == ("b",)
    assert "doctor --fix" in gone.stayed["a"]
    assert len(await world.store.read("a")) == 1


async def test_records_of_a_log_that_is_not_clean_are_not_sealed(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """FM-118: nothing leaves the live table, nothing is in the archive, and the operator is told."""
    caplog.set_level(logging.WARNING)
    engine = an_archived_engine(world.store, world.archive, clock=world.clock)
    await talk(an_archived_engine(world.store, world.archive, sealing=None, clock=world.clock))
    lease = await lease_on(engine.store, "s")
    log = await open_log(engine.store, "s")
    assert Sealer(engine).may_seal(log)
    world.change(f"UPDATE recent SET crc32 = crc32 + 1 WHERE session = {NUMBER} AND seq = 5", "s")

    await Sealer(engine).seal_due(lease, log)

    assert (await world.store.segments("s"), await world.archive.names()) == ([], [])
    assert (await world.store.check_rows("s")).intact[0].first == 1
    assert [record.getMessage() for record in caplog.records] == ["records were not sealed"]


# --- sealed, and live all the same -------------------------------------------------------------------------------


async def _sealed_and_live(world: World) -> tuple[ArchivedStore, str]:
    """Seal four records of seven, and let them be live again, as where the clear was lost."""
    lease = await lease_on(world.store, "s")
    await world.store.append(lease, [a_notice(f"notice {number}") for number in range(1, 8)], after=0)
    await world.store.search("s", "notice")
    rows = await world.store.live_rows("s", limit=4)
    segment = await put_segment(world.archive, "s", rows)
    await world.store.seal(lease, segment, after=7)
    await world.store.release(lease)
    for row in rows:
        values = ("s", row.seq, row.at, row.crc32, row.body)
        world.change(f"INSERT INTO records (session, seq, at, crc32, body) VALUES ({NUMBER}, ?, ?, ?, ?)", *values)
    return ArchivedStore(world.store, world.archive), segment.name


async def _live(world: World) -> list[int]:
    return [seq for run in (await world.store.check_rows("s")).intact for seq in range(run.first, run.last + 1)]


async def test_a_lost_clear_is_made_up_for_where_the_archive_has_the_records_and_only_once(world: World) -> None:
    """FM-111: the records are there once afterwards, and nothing is done a second time."""
    store, _ = await _sealed_and_live(world)
    before = [one.record for one in await store.read("s")]
    lease = await lease_on(store, "s")

    made = await heal_whole(lease, store)

    assert [type(one).__name__ for one in made] == ["ClearSealed"]
    assert await _live(world) == list(range(5, 10))
    assert [one.record for one in await store.read("s")][: len(before)] == before
    assert await heal_whole(lease, store) == []


@pytest.mark.parametrize("loss", ["gone", "damaged", "another past", "no archive"])
async def test_records_that_are_sealed_and_live_stay_live_where_the_archive_does_not_have_them(
    world: World, loss: str
) -> None:
    """FM-111, FM-118: a seal alone is no reason to remove the only copy there is."""
    store, name = await _sealed_and_live(world)
    body = await world.archive.get(name)
    if loss in ("gone", "damaged"):
        await world.archive.remove(name)
    if loss == "damaged":
        await world.archive.put(name, body[:-9] + b"altered!!")
    if loss == "another past":
        at, other = world.clock.now(), encode_record(a_notice("something else"))
        with closing(apsw.Connection(str(world.path))) as db:
            number = db.execute("SELECT number FROM sessions WHERE key = 's'").get
        values = (other, record_crc32(number, 2, at, other), number)
        world.change("UPDATE records SET body = ?, crc32 = ? WHERE session = ? AND seq = 2", *values)
    spanning = world.store if loss == "no archive" else store
    before = await spanning.read("s")
    assert not any(isinstance(one.record, DamageSetAside) for one in before)
    lease = await lease_on(spanning, "s")

    assert await heal_whole(lease, spanning) == []
    findings = await Doctor(spanning, world.blobs, world.archive).check("s")

    assert await spanning.read("s") == before
    assert await _live(world) == list(range(1, 9))
    assert ("sealed_and_live", "") in [(one.code, one.remedy) for one in findings]


@pytest.mark.parametrize("loss", ["gone", "damaged"])
async def test_a_segment_that_is_gone_is_put_again_from_records_that_are_live_and_they_are_cleared(
    world: World, loss: str
) -> None:
    """FM-111: nothing is lost, nothing stays twice, and a person need not act."""
    store, name = await _sealed_and_live(world)
    before, body = await store.read("s"), await world.archive.get(name)
    await world.archive.remove(name)
    if loss == "damaged":
        await world.archive.put(name, body[:-9] + b"altered!!")
    (finding,) = [one for one in await Doctor(store, world.blobs, world.archive).check("s") if one.code == SEGMENT]
    (segment,) = await store.segments("s")

    await put_again(store, world.archive, segment)

    assert finding.remedy.startswith(f"segment {name} is rebuilt in the archive from records 1 to 4")
    assert await world.archive.get(name) == body
    made = await heal_whole(await lease_on(store, "s"), store)
    assert [type(one).__name__ for one in made] == ["ClearSealed"]
    assert (await store.read("s"))[: len(before)] == before
    assert await Doctor(store, world.blobs, world.archive).check("s") == []


@pytest.mark.parametrize("damage", ["another body", "torn", "one is not live"])
async def test_a_segment_is_not_put_again_from_other_records_than_were_sealed(world: World, damage: str) -> None:
    store, name = await _sealed_and_live(world)
    await world.archive.remove(name)
    if damage == "one is not live":
        world.change(f"DELETE FROM records WHERE session = {NUMBER} AND seq = 2", "s")
    elif damage == "torn":
        world.change(f"UPDATE records SET crc32 = crc32 + 1 WHERE session = {NUMBER} AND seq = 2", "s")
    else:
        other = encode_record(a_notice("something else"))
        with closing(apsw.Connection(str(world.path))) as db:
            number = db.execute("SELECT number FROM sessions WHERE key = 's'").get
        values = (other, record_crc32(number, 2, world.clock.now(), other), number)
        world.change("UPDATE records SET body = ?, crc32 = ? WHERE session = ? AND seq = 2", *values)
    (segment,) = await store.segments("s")

    await put_again(store, world.archive, segment)

    assert await world.archive.names() == []
    findings = await Doctor(store, world.blobs, world.archive).check("s")
    assert [one.remedy for one in findings if one.code == SEGMENT] == [""]
