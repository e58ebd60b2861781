"""A fork of a session whose past was compacted and sealed: what was true at that record is true in the fork."""

import pytest

from holdfast.runtime.engine.context import Engine
from holdfast.stores.archives import MemoryArchive
from holdfast.stores.fallbacks import search, segments
from holdfast.stores.memory import MemoryStore
from holdfast.testing.builders import ManualClock
from holdfast.testing.engines import a_hold
from holdfast.types.messages import Message
from holdfast.types.records import CompactionApplied, InputAdmitted, SegmentSealed
from tests.runtime.test_sealing import FILLER, an_archived_engine, sealed_seqs, talk


@pytest.fixture
async def engine() -> Engine:
    """A session of twelve turns that was compacted, and whose past lies in the archive."""
    store = MemoryStore(clock=ManualClock())
    engine = an_archived_engine(store, MemoryArchive())
    await talk(engine)
    assert len(await sealed_seqs(store)) > 20
    return engine


async def _applied(engine: Engine, key: str) -> list[int]:
    return [one.seq for one in await engine.store.read(key) if isinstance(one.record, CompactionApplied)]


async def _view(engine: Engine, key: str) -> tuple[Message, ...]:
    async with a_hold(engine) as hold:
        return (await (await hold.session(key)).view()).messages


async def test_a_fork_at_a_record_before_a_compaction_shows_everything_as_it_was_then(engine: Engine) -> None:
    """FM-150: and one behind it shows what the compaction left; neither changes the original."""
    (seq,) = await _applied(engine, "s")
    whole, view = await engine.store.read("s"), await _view(engine, "s")
    asked = [one.seq for one in whole if one.seq < seq and isinstance(one.record, InputAdmitted)]

    async with a_hold(engine) as hold:
        session = await hold.session("s")
        before = await session.fork("before", at=asked[-1] + 4)
        behind = await session.fork("behind")
        shown = (await before.view()).messages
        assert (await behind.view()).messages == view

    assert len(shown) == 2 * len(asked), "each message and its answer, none of them represented"
    assert await _applied(engine, "before") == []
    assert (await engine.store.read("s"), await _view(engine, "s")) == (whole, view)


async def test_a_fork_of_a_sealed_session_has_its_whole_history_once_and_outlives_the_original(engine: Engine) -> None:
    """FM-151, FM-152: it is a copy and nothing else, so a compaction is in it once and nothing is shared."""
    originals = [one.record for one in await engine.store.read("s")]

    async with a_hold(engine) as hold:
        await (await hold.session("s")).fork("t")
        assert [one.record for one in await engine.store.read("t")] == originals
        assert await segments(engine.store, "t") == []
        assert len(await _applied(engine, "t")) == 1
        await hold.delete("s")

        fork = await hold.session("t")
        assert [one.record for one in await engine.store.read("t")] == originals
        assert await search(engine.store, "t", "topic3") != []
        await fork.undo()
        assert len((await fork.view()).messages) == 24, "what was represented is shown again"
        assert (await fork.send("and you?")).text == "I heard: and you?"


async def test_what_is_done_in_a_fork_is_not_done_in_the_original(engine: Engine) -> None:
    """FM-150: compactions and undos of one are none of the other's."""
    view, applied = await _view(engine, "s"), await _applied(engine, "s")

    async with a_hold(engine) as hold:
        fork = await (await hold.session("s")).fork("t")
        await fork.undo()
        for number in range(3):
            await fork.send(f"more {number}" + FILLER)
        await fork.compact()
        assert len(await _applied(engine, "t")) == 2

    assert (await _view(engine, "s"), await _applied(engine, "s")) == (view, applied)
    sealed = [one.record for one in await engine.store.read("t") if isinstance(one.record, SegmentSealed)]
    assert {one.name for one in sealed} >= {one.name for one in await segments(engine.store, "t")}
