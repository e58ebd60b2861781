"""Export, import, fork and delete: a session as a whole, all of it or nothing."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import pytest

from holdfast.core.limits.bounds import Bounds
from holdfast.errors import BadInputError, BlobMissingError, RetryLaterError, StoreDamagedError
from holdfast.ports import Store
from holdfast.runtime.engine.log import open_log
from holdfast.runtime.sessions import transfer
from holdfast.runtime.sessions.delete import Deleted, delete_session, delete_sessions
from holdfast.runtime.sessions.transfer import COPYING, export_session, forked, import_lines, is_exported_session
from holdfast.stores.archives import MemoryArchive
from holdfast.stores.memory import MemoryBlobs, MemoryStore
from holdfast.testing.builders import (
    ManualClock,
    a_notice,
    a_reply,
    a_tool_call,
    a_turn_ended,
    a_turn_started,
    an_attempt_started,
    an_input,
    lease_on,
)
from holdfast.testing.crashes import CrashingStore, Died, every_point
from holdfast.testing.engines import FunctionModel, a_hold, an_engine, says
from holdfast.types.messages import BlobRef, LargeText, Text, ToolResult
from holdfast.types.records import (
    CompactionRequested,
    DamageSetAside,
    InputAdmitted,
    Logged,
    ToolSettled,
    ToolStarted,
    TurnEnded,
)

BOUNDS = Bounds()
CONTENT = bytes(range(256)) * 3_000
TURN = (a_turn_started(), an_attempt_started(), a_reply("aye"), a_turn_ended())


class World:
    """A store with a session `s` that names two blobs, one of them empty."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store, self.blobs = MemoryStore(clock=self.clock), MemoryBlobs()

    async def fill(self) -> list[Logged]:
        parts = (LargeText(await self.blobs.put(CONTENT), "long"), LargeText(await self.blobs.put(b""), "empty"))
        await self.store.admit("s", InputAdmitted(parts, client_id="c"))
        lease = await lease_on(self.store, "s")
        await self.store.append(lease, list(TURN), after=1)
        await self.store.release(lease)
        return await self.store.read("s")


async def as_lines(lines: list[bytes]) -> AsyncIterator[bytes]:
    for line in lines:
        await asyncio.sleep(0)
        yield line


async def lines_of(world: World, session: str = "s") -> list[bytes]:
    return [line async for line in export_session(world.store, world.blobs, session)]


async def keys(store: Store) -> list[str]:
    return [known.key for known in await store.sessions()]


async def test_an_exported_session_comes_back_as_it_was_in_another_store() -> None:
    here, there = World(), World()
    records = await here.fill()
    lines = await lines_of(here)

    copied = await import_lines(as_lines(lines), there.store, there.blobs)

    assert (copied.session, copied.records, copied.blobs, copied.origin) == ("s", 5, 2, "s")
    assert await there.store.read("s") == records
    assert [await there.blobs.get(part.blob) for part in records[0].record.parts] == [CONTENT, b""]  # type: ignore[union-attr]
    assert (await there.store.admit("s", records[0].record)).seq == 1  # type: ignore[arg-type]
    assert is_exported_session(lines[0])
    assert max(map(len, lines)) < 400_000, "a blob goes in pieces"


async def test_an_import_from_a_slow_sender_keeps_its_lease_while_another_removes_unfinished_copies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here, there = World(), World()
    await here.fill()
    lines = await lines_of(here)
    monkeypatch.setattr(transfer, "_CLOCK", there.clock)
    monkeypatch.setattr(transfer, "_BATCH_RECORDS", 1)

    async def slowly() -> AsyncIterator[bytes]:
        for line in lines[:-1]:
            yield line
        for _ in range(6):
            there.clock.advance(20)
            for _ in range(5):
                await asyncio.sleep(0)
        await transfer.sweep_copies(there.store)
        yield lines[-1]

    copied = await import_lines(slowly(), there.store, there.blobs)

    assert (copied.records, await keys(there.store)) == (5, ["s"])


async def test_an_export_takes_another_key_beside_its_original_and_none_that_is_taken() -> None:
    world = World()
    records = await world.fill()
    lines = await lines_of(world)

    await import_lines(as_lines(lines), world.store, world.blobs, key="t")

    assert await world.store.read("t") == records
    with pytest.raises(BadInputError, match="'s' already"):
        await import_lines(as_lines(lines), world.store, world.blobs)
    assert await keys(world.store) == ["s", "t"]


@pytest.mark.parametrize("place", range(0, 11, 2))
async def test_a_file_that_was_altered_or_cut_leaves_nothing(place: int) -> None:
    here, there = World(), World()
    await here.fill()
    lines = await lines_of(here)
    place = min(place, len(lines) - 1)
    altered = [*lines[:place], lines[place].replace(b"1", b"2", 1).replace(b"aye", b"nay"), *lines[place + 1 :]]

    for broken in (lines[:place], altered if altered != lines else lines[:place], lines[:place] + lines[place + 1 :]):
        with pytest.raises(BadInputError):
            await import_lines(as_lines(broken), there.store, there.blobs)

    assert await keys(there.store) == []


async def test_two_sessions_in_one_file_and_a_newer_format_are_refused() -> None:
    here, there = World(), World()
    await here.fill()
    lines = await lines_of(here)
    newer = json.loads(lines[0]) | {"version": 99}

    with pytest.raises(BadInputError, match="second header"):
        await import_lines(as_lines([lines[0], *lines]), there.store, there.blobs)
    with pytest.raises(BadInputError, match="version 99"):
        await import_lines(as_lines([json.dumps(newer).encode()]), there.store, there.blobs)
    with pytest.raises(BadInputError, match="does not begin with the header"):
        await import_lines(as_lines(lines[1:]), there.store, there.blobs)


async def test_what_cannot_be_exported_says_why() -> None:
    world = World()
    await world.fill()

    with pytest.raises(BadInputError, match="session 'nobody' does not exist"):
        await lines_of(world, "nobody")
    world.blobs._blobs.clear()
    with pytest.raises(BlobMissingError):
        await lines_of(world)


async def test_an_import_that_dies_at_any_write_leaves_the_whole_session_or_nothing() -> None:
    here = World()
    records = await here.fill()
    lines = await lines_of(here)
    whole = CrashingStore(World().store)
    await import_lines(as_lines(lines), whole, MemoryBlobs())

    for point in every_point(whole.writes):
        there = World()
        with suppress(Died):
            await import_lines(as_lines(lines), CrashingStore(there.store, point), there.blobs)
        found = await there.store.read("s")
        assert found in ([], records), str(point)

        there.clock.advance(100)
        if not found:
            await import_lines(as_lines(lines), there.store, there.blobs)
        else:
            await import_lines(as_lines(lines), there.store, there.blobs, key="again")
        assert not any(key.startswith(COPYING) for key in await keys(there.store)), str(point)


async def test_a_fork_is_a_session_in_its_own_right_and_ends_what_was_open() -> None:
    world = World()
    await world.store.admit("s", an_input("first"))
    lease = await lease_on(world.store, "s")
    call = a_tool_call("pay", call_id="pay-1")
    work = (a_turn_started(), an_attempt_started(), a_reply("", call), ToolStarted(1, "pay-1", "pay"))
    await world.store.append(lease, list(work), after=1)
    await world.store.admit("s", an_input("second"))
    await world.store.admit("s", CompactionRequested())
    before = await world.store.read("s")

    copied = await forked(world.store, "s", "t", at=None, bounds=BOUNDS)

    assert (await world.store.read("s"), copied.origin) == (before, "s")
    forks = await world.store.read("t")
    assert forks[:7] == before
    known = await world.store.info("t")
    assert known is not None
    assert (known.owed, (await open_log(world.store, "t")).turn.owed) == (0, 0)
    settled = [each.record for each in forks if isinstance(each.record, ToolSettled)]
    assert [each.result.call_id for each in settled] == ["pay-1"]
    assert [(each.record.turn, each.record.code) for each in forks if isinstance(each.record, TurnEnded)] == [
        (1, "copied"),
        (6, "copied"),
    ]


async def test_a_fork_at_a_record_has_the_log_up_to_it() -> None:
    world = World()
    records = await world.fill()

    await forked(world.store, "s", "t", at=5, bounds=BOUNDS)
    await forked(world.store, "s", "u", at=1, bounds=BOUNDS)

    assert await world.store.read("t") == records
    assert [type(each.record) for each in await world.store.read("u")] == [InputAdmitted, TurnEnded]
    for at, key, why in ((6, "v", "no record 6"), (0, "v", "no record 0"), (5, "t", "'t' already")):
        with pytest.raises(BadInputError, match=why):
            await forked(world.store, "s", key, at=at, bounds=BOUNDS)


async def test_a_fork_that_dies_at_any_write_leaves_the_whole_copy_or_nothing_and_the_original_as_it_was() -> None:
    world = World()
    await world.fill()
    whole = CrashingStore(world.store)
    await forked(whole, "s", "t", at=None, bounds=BOUNDS)
    copy = await world.store.read("t")

    for point in every_point(whole.writes):
        world = World()
        records = await world.fill()
        with suppress(Died):
            await forked(CrashingStore(world.store, point), "s", "t", at=None, bounds=BOUNDS)
        found = await world.store.read("t")
        assert found in ([], copy), str(point)
        assert await world.store.read("s") == records, str(point)

        world.clock.advance(100)
        await forked(world.store, "s", "u" if found else "t", at=None, bounds=BOUNDS)
        assert not any(key.startswith(COPYING) for key in await keys(world.store)), str(point)


async def test_damage_goes_into_a_copy_as_a_mark_and_the_copy_is_clean() -> None:
    world = World()
    await world.fill()
    lease = await lease_on(world.store, "s")
    await world.store.append(lease, [ToolSettled(1, ToolResult("x", (Text("cannot follow"),)))], after=5)
    await world.store.release(lease)

    await forked(world.store, "s", "t", at=None, bounds=BOUNDS)

    assert (await open_log(world.store, "t")).turn.owed == 0
    assert not any(isinstance(each.record, DamageSetAside) for each in (await world.store.read("t"))[:5])


async def test_a_deleted_session_takes_its_own_blobs_with_it_and_leaves_those_of_others() -> None:
    world = World()
    await world.fill()
    shared = await world.blobs.put(CONTENT)
    await world.store.admit("other", InputAdmitted((LargeText(shared, "long"),)))

    gone = await delete_session(world.store, world.blobs, MemoryArchive(), "s")

    assert (gone.records, gone.segments, gone.blobs) == (5, 0, 1)
    assert (await keys(world.store), await world.blobs.get(shared)) == (["other"], CONTENT)
    with pytest.raises(BadInputError, match="session 's' does not exist"):
        await delete_session(world.store, world.blobs, None, "s")


class CountingStore(MemoryStore):
    """Keeps of which sessions records are read."""

    def __init__(self) -> None:
        super().__init__(clock=ManualClock())
        self.read_of: list[str] = []

    async def read(self, session: str, *, after: int = 0, limit: int | None = None) -> list[Logged]:
        self.read_of.append(session)
        return await super().read(session, after=after, limit=limit)


async def _sharing_sessions(count: int) -> tuple[CountingStore, MemoryBlobs]:
    """Sessions with a blob each, of which the first and the last name the same."""
    store, blobs = CountingStore(), MemoryBlobs()
    for number in range(count):
        ref = await blobs.put(f"blob {number % (count - 1)}".encode())
        await store.admit(f"s{number:03}", InputAdmitted((LargeText(ref, "long"),)))
    return store, blobs


async def test_deleting_a_session_with_blobs_reads_no_log_and_a_blob_that_another_names_stays() -> None:
    store, blobs = await _sharing_sessions(50)

    shared = await delete_session(store, blobs, None, "s000")
    own = await delete_session(store, blobs, None, "s001")

    assert (shared.blobs, own.blobs, store.read_of) == (0, 1, [])
    assert await blobs.get(BlobRef(sha256(b"blob 0").hexdigest(), 6)) == b"blob 0"
    assert (await delete_session(store, blobs, None, "s049")).blobs == 1


async def test_deleting_many_sessions_reads_no_log_and_no_blob_of_others_goes() -> None:
    store, blobs = await _sharing_sessions(80)

    gone = await delete_sessions(store, blobs, None, [f"s{number:03}" for number in range(40)])

    assert (len(gone.sessions), gone.stayed, gone.blobs, store.read_of) == (40, {}, 39, [])
    assert await keys(store) == [f"s{number:03}" for number in range(40, 80)]


async def test_two_that_delete_a_session_at_once_do_not_take_each_others_lease() -> None:
    world = World()
    await world.fill()

    ends = await asyncio.gather(
        *(delete_session(world.store, world.blobs, None, "s") for _ in range(3)), return_exceptions=True
    )

    assert [end for end in ends if not isinstance(end, RetryLaterError | BadInputError)] == [Deleted("s", 5, 0, 2)]
    assert (await keys(world.store), world.blobs._blobs) == ([], {})


async def test_two_that_delete_the_only_sessions_that_name_a_blob_do_not_leave_it_to_each_other() -> None:
    store, blobs = await _sharing_sessions(2)

    one, other = await asyncio.gather(
        delete_session(store, blobs, None, "s000"), delete_session(store, blobs, None, "s001")
    )

    assert (one.blobs + other.blobs, await keys(store)) == (1, [])


async def test_of_many_sessions_those_that_cannot_go_stay_and_the_others_go() -> None:
    world = World()
    await world.fill()
    await world.store.admit("open", an_input("not answered yet"))
    await world.store.append(await lease_on(world.store, "held"), [a_notice("held")], after=0)
    await world.store.append(first := await lease_on(world.store, "late"), [a_notice("late")], after=0)
    await world.store.release(first)
    everything = ["s", "open", "held", "nobody", "late"]
    now = world.clock.now()

    none = await delete_sessions(world.store, world.blobs, None, everything, untouched_since=now - 1)
    gone = await delete_sessions(world.store, world.blobs, None, everything, untouched_since=now)

    assert none.sessions == ()
    assert "used meanwhile" in none.stayed["late"]
    assert (gone.sessions, set(gone.stayed)) == (("s", "late"), {"open", "held", "nobody"})
    assert "has an open turn" in gone.stayed["open"]
    assert set(await keys(world.store)) == {"open", "held"}


async def test_a_session_that_is_worked_on_or_not_clean_is_not_deleted() -> None:
    world = World()
    await world.fill()
    lease = await lease_on(world.store, "s")
    with pytest.raises(RetryLaterError, match="being worked on"):
        await delete_session(world.store, world.blobs, None, "s")
    await world.store.release(lease)
    world.store._logs["s"][2] = type(world.store._logs["s"][2])(3, 0.0, 0, b"torn")

    with pytest.raises(StoreDamagedError, match="record 3"):
        await delete_session(world.store, world.blobs, None, "s")
    assert len(await world.store.read("s")) == 5

    assert (await delete_session(world.store, world.blobs, None, "s", force=True)).records == 5


async def test_a_deletion_that_dies_at_any_write_leaves_the_session_or_nothing_of_it() -> None:
    world = World()
    records = await world.fill()
    whole = CrashingStore(world.store)
    await delete_session(whole, world.blobs, None, "s")

    for point in every_point(whole.writes):
        world = World()
        records = await world.fill()
        with suppress(Died):
            await delete_session(CrashingStore(world.store, point), world.blobs, None, "s")
        assert await world.store.read("s") in (records, []), str(point)
        world.clock.advance(100)
        await world.store.admit("last", an_input())
        await delete_session(world.store, world.blobs, None, "last")
        assert set(await keys(world.store)) <= {"s"}, str(point)


async def test_the_library_exports_imports_forks_and_deletes(tmp_path: Path) -> None:
    engine = an_engine(FunctionModel(lambda _: says("aye")))
    async with a_hold(engine) as hold:
        session = await hold.session("s")
        await session.send("ahoy")
        file = tmp_path / "s.jsonl"
        file.write_bytes(b"".join([line async for line in hold.export("s")]))

        copied = await hold.import_(file, key="t")
        fork = await session.fork("u", at=5)
        assert str(await fork.send("and here?")) == "aye"
        lines = [line async for line in hold.export("t")]
        await hold.delete("t")
        await hold.import_(as_lines(lines))

        assert (copied.origin, fork.key) == ("s", "u")
        assert [known.key for known in await hold.sessions()] == ["s", "t", "u"]
