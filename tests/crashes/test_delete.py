"""Dying at every step of deleting many sessions: the next deletion goes on, and nothing of anybody else is touched."""

import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from holdfast.errors import BadInputError
from holdfast.ports import Archive, Blobs, Store
from holdfast.runtime.maintenance.sealing import put_segment
from holdfast.runtime.sessions.delete import delete_session, delete_sessions
from holdfast.stores.archived import ArchivedStore
from holdfast.stores.archives import MemoryArchive
from holdfast.stores.memory import MemoryBlobs, MemoryStore
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.builders import ManualClock, a_notice, lease_on
from holdfast.testing.crashes import CrashingArchive, CrashingStore, CrashPoint, Died, Side, every_point
from holdfast.types.messages import BlobRef, LargeText
from holdfast.types.records import InputAdmitted, Logged
from tests.stores.older import a_store_of_layout, fill

GOING, STAYING = ("a", "b"), ("c", "d")
EVERYBODY = b"named by all of them"


class CrashingBlobs(MemoryBlobs):
    """Blobs whose removals are counted with the writes of a store, and that die with it."""

    def __init__(self, kept: MemoryBlobs, store: CrashingStore) -> None:
        super().__init__()
        self._blobs, self._store = kept._blobs, store

    async def remove(self, ref: BlobRef) -> bool:
        write = self._store.before_write()
        is_gone = await super().remove(ref)
        self._store.maybe_die(write, Side.AFTER)
        return is_gone


class World:
    """Four sessions, each half sealed, with a blob of its own in either half and one that all of them name."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.bare, self.archive, self.blobs = MemoryStore(clock=self.clock), MemoryArchive(), MemoryBlobs()
        self.own: dict[str, set[str]] = {}

    async def fill(self) -> None:
        for session in (*GOING, *STAYING):
            refs = [await self.blobs.put(content) for content in (f"old {session}".encode(), EVERYBODY)]
            refs.append(await self.blobs.put(f"new {session}".encode()))
            self.own[session] = {ref.sha256 for ref in refs}
            for ref in refs[:2]:
                await self.bare.admit(session, InputAdmitted((LargeText(ref, "long"),)))
            lease = await lease_on(self.bare, session)
            await self.bare.append(lease, [a_notice("between")], after=2)
            await self.bare.admit(session, InputAdmitted((LargeText(refs[2], "long"),)))
            segment = await put_segment(self.archive, session, await self.bare.live_rows(session, limit=3))
            await self.bare.seal(lease, segment, after=4)
            await self.bare.release(lease)

    @property
    def store(self) -> ArchivedStore:
        return ArchivedStore(self.bare, self.archive)

    async def left(self) -> tuple[set[str], set[str], int]:
        """Return which sessions and blobs there are, ours included, and how many segments."""
        sessions = {known.key for known in await self.bare.sessions()}
        return sessions, set(self.blobs._blobs), len(await self.archive.names())

    async def logs_of_others(self) -> list[list[Logged]]:
        return [await self.store.read(session) for session in STAYING]

    @property
    def without_them(self) -> tuple[set[str], set[str], int]:
        return set(STAYING), set.union(*(self.own[session] for session in STAYING)), len(STAYING)


async def delete(store: Store, blobs: Blobs, archive: Archive) -> None:
    await delete_sessions(store, blobs, archive, GOING)


async def dying(world: World, point: CrashPoint | None) -> int:
    """Be a process that deletes and dies; return how often it wrote."""
    store = CrashingStore(world.store, point)
    with suppress(Died):
        await delete(store, CrashingBlobs(world.blobs, store), CrashingArchive(world.archive, store))
    return store.writes


@pytest.fixture
async def writes() -> int:
    world = World()
    await world.fill()
    writes = await dying(world, None)
    assert await world.left() == world.without_them
    return writes


async def test_a_deletion_of_many_that_dies_anywhere_is_finished_by_the_next_and_touches_nobody_else(
    writes: int,
) -> None:
    """Blobs and segments included, also of what only a segment named."""
    for point in every_point(writes):
        world = World()
        await world.fill()
        others = await world.logs_of_others()

        await dying(world, point)
        for session in GOING:
            # Whole, or gone: nobody meets half of one.
            assert len(await world.store.read(session)) in (0, 5), str(point)
        world.clock.advance(100)
        await delete(world.store, world.blobs, world.archive)

        assert await world.left() == world.without_them, str(point)
        assert await world.logs_of_others() == others, str(point)


async def test_a_deletion_whose_end_dies_again_and_again_gets_there(writes: int) -> None:
    world = World()
    await world.fill()
    for point in every_point(writes):
        await dying(world, point)
        world.clock.advance(100)
    await delete(world.store, world.blobs, world.archive)

    assert await world.left() == world.without_them


async def test_the_deletion_of_one_session_is_finished_by_that_of_another(writes: int) -> None:
    for point in every_point(writes):
        world = World()
        await world.fill()
        store = CrashingStore(world.store, point)
        with suppress(Died):
            await delete_session(
                store, CrashingBlobs(world.blobs, store), CrashingArchive(world.archive, store), GOING[0]
            )
        world.clock.advance(100)
        await delete(world.store, world.blobs, world.archive)

        assert await world.left() == world.without_them, str(point)


async def test_a_deletion_that_dies_anywhere_in_a_store_from_before_names_were_kept_is_finished_by_the_next(
    tmp_path: Path,
) -> None:
    """Its first deletion reads every log once, and may die between any two of them."""
    shared, own = BlobRef("a" * 64, 1), {key: BlobRef(key * 64, 1) for key in "bcd"}
    old = a_store_of_layout(5, tmp_path / "old.db")
    for key, ref in own.items():
        fill(old, InputAdmitted((LargeText(shared, "long"), LargeText(ref, "long"))), a_notice(), session=key)

    async def lives(point: CrashPoint | None, folder: Path) -> tuple[int, set[str], list[str]]:
        """Delete `b` and die, delete `c` in another life; return writes of the first, and the blobs and keys left."""
        folder.mkdir()
        path = Path(shutil.copy(old, folder / "s.db"))
        blobs, clock = MemoryBlobs(), ManualClock()
        blobs._blobs = {ref.sha256: b"" for ref in (shared, *own.values())}
        bare = SqliteStore(path, clock=clock)
        first = CrashingStore(bare, point)
        with suppress(Died):
            await delete_session(first, CrashingBlobs(blobs, first), None, "b")
        await bare.close()
        second = SqliteStore(path, clock=clock)
        clock.advance(100)
        with suppress(BadInputError):
            await delete_session(second, blobs, None, "b")
        await delete_session(second, blobs, None, "c")
        left = [known.key for known in await second.sessions()]
        await second.close()
        return first.writes, set(blobs._blobs), left

    writes, *left = await lives(None, tmp_path / "whole")

    assert left == [{shared.sha256, own["d"].sha256}, ["d"]]
    for point in every_point(writes):
        _, *after = await lives(point, tmp_path / str(point))
        assert after == left, str(point)
