"""Old records are sealed in idle moments by themselves, and nobody notices but the live table."""

import asyncio
import dataclasses
import logging
from contextlib import aclosing
from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.core.integrity.segments import Sealing
from holdfast.errors import SegmentMissingError, StoreIoError
from holdfast.ports import Archive, Clock, Store
from holdfast.rescue.importing import _origins
from holdfast.runtime.engine.context import Engine
from holdfast.runtime.engine.log import open_log
from holdfast.runtime.maintenance.sealing import RETRY_SECONDS, Sealer, put_segment
from holdfast.runtime.tools.recall import Recall
from holdfast.stores.archived import ArchivedStore
from holdfast.stores.archives import FolderArchive, MemoryArchive
from holdfast.stores.memory import MemoryBlobs, MemoryStore
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.builders import ManualClock, a_notice, lease_on
from holdfast.testing.engines import FunctionModel, a_hold, an_engine, says
from holdfast.types.limits import Limits
from holdfast.types.messages import Reply, Request, Text, text_of
from holdfast.types.records import CompactionApplied, InputAdmitted, SegmentSealed

# Whatever lies behind the boundary, and a little more, is sealed at once.
EAGER = Sealing(margin_records=4, records_min=1, segment_records_max=8)


# Long enough that a summary of a few is shorter than they are.
FILLER = " and some more of it" * 60


def respond(request: Request) -> Reply:
    """Answer by the beginning of what was said last, and write notes where those are asked for."""
    said = text_of(request.messages[-1].parts)
    return says("They spoke of this and that." if "<conversation>" in said else f"I heard: {said[:22]}")


def an_archived_engine(
    store: Store, archive: Archive, *, sealing: Sealing | None = EAGER, clock: Clock | None = None
) -> Engine:
    model = FunctionModel(respond, limits=Limits(window_tokens=20_000))
    engine = an_engine(model, store=ArchivedStore(store, archive), clock=clock)
    return dataclasses.replace(engine, archive=archive, sealing=sealing)


async def talk(engine: Engine, *, key: str = "s", turns: int = 12) -> None:
    """Have a conversation that is compacted once, and let what is owed be done."""
    async with a_hold(engine) as hold:
        session = await hold.session(key)
        for number in range(turns):
            await session.send(f"message {number} about topic{number}" + FILLER, client_id=f"c{number}")
        await session.compact()
        await at_rest(engine, key)
    assert (await open_log(engine.store, key)).turn.boundary > 0


async def at_rest(engine: Engine, key: str) -> None:
    """Return when nobody holds the lease any more: sealing is done under it."""
    lease = None
    while lease is None:
        # Nothing rings when a lease is given back; each question gives way to others.
        lease = await engine.store.acquire(key, "onlooker", seconds=30)
    await engine.store.release(lease)


async def sealed_seqs(store: Store, key: str = "s") -> list[int]:
    return [seq for segment in await store.segments(key) for seq in range(segment.first, segment.last + 1)]


async def test_what_lies_well_behind_the_boundary_is_sealed_at_rest_and_nothing_else() -> None:
    store, archive = MemoryStore(clock=ManualClock()), MemoryArchive()
    engine = an_archived_engine(store, archive)

    await talk(engine)

    log = await open_log(engine.store, "s")
    assert log.turn.boundary > 20
    assert await sealed_seqs(store) == list(range(1, log.turn.boundary - EAGER.margin_records))
    assert await archive.names() == [segment.name for segment in await store.segments("s")]
    assert (await store.live_rows("s", limit=1))[0].seq == log.turn.boundary - EAGER.margin_records
    whole = await engine.store.read("s")
    assert [logged.seq for logged in whole] == list(range(1, log.turn.seq + 1))
    seals = [logged.record for logged in whole if isinstance(logged.record, SegmentSealed)]
    assert [seal.name for seal in seals] == await archive.names()


async def test_a_session_that_was_never_compacted_is_left_alone() -> None:
    store, archive = MemoryStore(clock=ManualClock()), MemoryArchive()
    engine = an_archived_engine(store, archive)

    async with a_hold(engine) as hold:
        session = await hold.session("s")
        for number in range(10):
            await session.send(f"message {number}" + FILLER)
        await at_rest(engine, "s")

    assert await store.segments("s") == []


@pytest.mark.parametrize("sealing", [None, Sealing()])
async def test_nothing_is_sealed_that_is_not_due(sealing: Sealing | None) -> None:
    store, archive = MemoryStore(clock=ManualClock()), MemoryArchive()

    await talk(an_archived_engine(store, archive, sealing=sealing))

    assert (await store.segments("s"), await archive.names()) == ([], [])


async def test_everything_a_person_can_do_works_as_before(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s.db", clock=ManualClock())
    engine = an_archived_engine(store, FolderArchive(tmp_path / "archive"))
    await talk(engine)
    assert len(await sealed_seqs(store)) > 20

    async with a_hold(engine) as hold:
        session = await hold.session("s")
        # Found and read: by a person and by the model.
        [hit, *_] = await session.search("topic1")
        assert hit.seq in await sealed_seqs(store)
        assert "topic1" in hit.excerpt
        assert (await session.read(1)).record == InputAdmitted((Text("message 0 about topic0" + FILLER),), "c0")
        recalled = await Recall(engine.store, MemoryBlobs(), engine.bounds).run("s", '{"seq": 1}')
        assert "message 0 about topic0" in recalled[0]
        # Sent again: still one message, with its one answer.
        again = await session.send("message 0 about topic0" + FILLER, client_id="c0")
        assert (again.turn, again.text) == (1, "I heard: message 0 about topic0")
        # Pinned from the archive into the view.
        await session.pin(1)
        view = await session.view()
        assert any("message 0 about topic0" in text_of(message.parts) for message in view.messages)
        # Watched from the beginning.
        async with aclosing(session.watch()) as feed:
            assert [(await anext(feed)).seq for _ in range(30)] == list(range(1, 31))
        assert await _origins(engine.store, "s") == set()
    await store.close()


async def test_a_compaction_is_undone_though_its_originals_are_sealed() -> None:
    store, archive = MemoryStore(clock=ManualClock()), MemoryArchive()
    engine = an_archived_engine(store, archive)
    await talk(engine)

    async with a_hold(engine) as hold:
        session = await hold.session("s")
        assert await session.undo()
        view = await session.view()
        answer = await session.send("and now?")

    shown = [text_of(message.parts) for message in view.messages]
    assert view.boundary == 0
    assert shown[0] == "message 0 about topic0" + FILLER
    assert len(shown) == 24
    assert answer.text == "I heard: and now?"


async def test_opening_a_sealed_session_reads_nothing_from_the_archive() -> None:
    store, archive = MemoryStore(clock=ManualClock()), MemoryArchive()
    await talk(an_archived_engine(store, archive))
    assert await sealed_seqs(store)

    log = await open_log(store, "s")

    assert log.turn.compaction is not None
    assert log.tail[0].seq == log.turn.boundary


async def test_sealing_goes_on_as_the_session_does() -> None:
    store, archive = MemoryStore(clock=ManualClock()), MemoryArchive()
    engine = an_archived_engine(store, archive)

    await talk(engine)
    first = await sealed_seqs(store)
    async with a_hold(engine) as hold:
        session = await hold.session("s")
        for number in range(12):
            await session.send(f"later message {number}" + FILLER)
        await session.compact()
        await at_rest(engine, "s")
    second = await sealed_seqs(store)

    assert first == second[: len(first)]
    assert len(second) > len(first)
    assert second == list(range(1, len(second) + 1))


# Giving way.


class GatedArchive(MemoryArchive):
    """An archive in which a put waits until it may go on."""

    def __init__(self) -> None:
        super().__init__()
        self.reached = asyncio.Event()
        self.go_on = asyncio.Event()

    async def put(self, name: str, body: bytes) -> bool:
        self.reached.set()
        await self.go_on.wait()
        return await super().put(name, body)


async def test_a_person_who_writes_is_answered_while_sealing_waits() -> None:
    store, archive = MemoryStore(clock=ManualClock()), GatedArchive()
    engine = an_archived_engine(store, archive)
    async with a_hold(engine) as hold:
        session = await hold.session("s")
        for number in range(12):
            await session.send(f"message {number}" + FILLER)
        await session.compact()
        await archive.reached.wait()

        answer = await asyncio.wait_for(session.send("are you there?"), 20)
        archive.go_on.set()
        await at_rest(engine, "s")

    assert answer.text == "I heard: are you there?"
    # And when there was nothing else to do, it went on.
    assert await sealed_seqs(store)


# What fails is not the session's trouble.


class FailingArchive(MemoryArchive):
    def __init__(self) -> None:
        super().__init__()
        self.is_down = True
        self.puts = 0

    async def put(self, name: str, body: bytes) -> bool:
        self.puts += 1
        if self.is_down:
            raise StoreIoError("the archive is away; try again later")
        return await super().put(name, body)


async def test_an_archive_that_is_away_is_told_to_the_operator_and_tried_again_later(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """FM-112."""
    caplog.set_level(logging.WARNING)
    clock, archive = ManualClock(), FailingArchive()
    store = MemoryStore(clock=clock)
    engine = an_archived_engine(store, archive, clock=clock)
    await talk(engine)
    folded = await open_log(engine.store, "s")
    sealer, lease = Sealer(engine), await lease_on(store, "s")

    await sealer.seal_due(lease, folded)
    tried = archive.puts
    archive.is_down = False
    await sealer.seal_due(lease, folded)
    assert (archive.puts, await store.segments("s")) == (tried, [])
    clock.advance(RETRY_SECONDS)
    await sealer.seal_due(lease, folded)

    assert await sealed_seqs(store)
    assert {record.message for record in caplog.records} == {"records were not sealed"}
    assert len(await engine.store.read("s")) == folded.turn.seq


async def test_a_segment_that_a_crash_left_is_used_and_a_damaged_one_is_healed() -> None:
    """FM-113."""
    archive = MemoryArchive()
    store = MemoryStore(clock=ManualClock())
    lease = await lease_on(store)
    await store.append(lease, [a_notice(str(number)) for number in range(5)], after=0)
    rows = await store.live_rows("s", limit=5)

    first = await put_segment(archive, "s", rows)
    again = await put_segment(archive, "s", rows)
    body = await archive.get(first.name)
    for damage in (b"", body[:-1], body[:40] + b"\x00" + body[41:]):
        await archive.remove(first.name)
        await archive.put(first.name, damage)
        assert await put_segment(archive, "s", rows) == first

    assert again == first
    assert await archive.names() == [first.name]
    assert await archive.get(first.name) == body


class ForgetfulArchive(MemoryArchive):
    async def get(self, name: str) -> bytes:
        return (await super().get(name))[:-1]


async def test_nothing_is_sealed_that_does_not_come_back_whole() -> None:
    store = MemoryStore(clock=ManualClock())
    lease = await lease_on(store)
    await store.append(lease, [a_notice("kept")], after=0)

    with pytest.raises(SegmentMissingError, match="reads back altered"):
        await put_segment(ForgetfulArchive(), "s", await store.live_rows("s", limit=5))


async def test_whoever_finds_another_has_sealed_gives_way() -> None:
    store, archive = MemoryStore(clock=ManualClock()), MemoryArchive()
    engine = an_archived_engine(store, archive)
    await talk(engine, turns=12)
    folded = await open_log(engine.store, "s")
    lease = await lease_on(store, "s")
    before = await store.segments("s")
    # As it stood before the last record: another has written since.
    stale = await open_log(engine.store, "s")
    stale.turn = replace(folded.turn, seq=folded.turn.seq - 1, compaction=CompactionApplied(1, 46, "s", 2, 1))

    sealer = Sealer(dataclasses.replace(engine, sealing=replace(EAGER, margin_records=0)))
    await sealer.seal_due(lease, stale)

    assert await store.segments("s") == before


# Sessions that nobody comes back to.


async def test_a_session_that_nobody_comes_back_to_is_sealed_too() -> None:
    clock, archive = ManualClock(), MemoryArchive()
    store = MemoryStore(clock=clock)
    waits = Sealing(margin_records=4, records_min=10_000, age_seconds=3_600)
    engine = an_archived_engine(store, archive, sealing=waits, clock=clock)
    await talk(engine, turns=80)
    assert await store.segments("s") == []

    clock.advance(7_200)
    async with a_hold(engine):
        for _ in range(200):
            clock.advance(10)
            await asyncio.sleep(0.001)
            if await store.segments("s"):
                break
        await at_rest(engine, "s")

    assert await sealed_seqs(store)


async def test_learned_limits_are_never_sealed_and_short_sessions_never_opened() -> None:
    clock = ManualClock()
    store = MemoryStore(clock=clock)
    engine = an_archived_engine(store, MemoryArchive())
    await talk(engine, turns=80)
    sealer = Sealer(engine)
    known = await store.info("s")
    assert known is not None

    assert await sealer.is_worth_opening(known)
    assert not await sealer.is_worth_opening(known), "it did not change"
    assert await sealer.is_worth_opening(replace(known, last_seq=known.last_seq + 1))
    assert not await Sealer(engine).is_worth_opening(replace(known, owed=1))
    assert not await Sealer(engine).is_worth_opening(replace(known, key="holdfast:learned"))
    assert not await Sealer(engine).is_worth_opening(replace(known, last_seq=3))
    assert not await Sealer(dataclasses.replace(engine, sealing=None)).is_worth_opening(known)
