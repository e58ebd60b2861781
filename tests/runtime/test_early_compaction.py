"""Compactions of our own accord: a warning first, in idle moments, and never in the way of a person."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence

from holdfast.core.compaction.plan import tokens_behind
from holdfast.core.fold.session_state import QUIET_TURNS, Turn
from holdfast.core.turn.transitions import evolve
from holdfast.ports import Delta, Lease
from holdfast.runtime.engine.log import open_log
from holdfast.runtime.engine.requests import prepare
from holdfast.runtime.tools.client_tools import newest_reply
from holdfast.runtime.tools.function_tool import tool
from holdfast.stores.memory import MemoryStore
from holdfast.testing.builders import ManualClock, a_tool_call, an_input
from holdfast.testing.engines import ScriptedModel, a_hold, an_engine, refuses, says
from holdfast.types.faults import Refusal
from holdfast.types.messages import Reply, Request
from holdfast.types.records import (
    CompactionApplied,
    CompactionRequested,
    DamageSetAside,
    LeasedRecord,
    RungStarted,
    SummaryKind,
    Trigger,
    WindowWarned,
)
from tests.runtime.summarisers import (
    NOTES,
    ONLY_WHEN_ASKED,
    WINDOW,
    Talker,
    is_for_notes,
    records_of,
    until_idle,
)
from tests.runtime.talks import KEY, a_long_talk, ended_well


async def test_the_person_is_warned_once_at_each_level_before_the_window_is_full() -> None:
    model = Talker(NOTES)
    async with a_hold(an_engine(model, bounds=ONLY_WHEN_ASKED)) as hold:
        session = await hold.session(KEY)

        await a_long_talk(session, messages=24)

        rounds: list[list[int]] = [[]]
        for logged in await session.history(limit=10_000):
            if isinstance(logged.record, WindowWarned):
                rounds[-1].append(logged.record.percent)
            elif isinstance(logged.record, CompactionApplied):
                rounds.append([])
        assert len(rounds) > 2
        for levels in rounds[:-1]:
            assert levels == sorted(set(levels)), "each level once, in order, until there is room again"
            assert levels[0] == 70


async def test_room_is_made_in_idle_moments_before_anyone_waits_for_it() -> None:
    model = Talker(NOTES)
    async with a_hold(an_engine(model)) as hold:
        session = await hold.session(KEY)

        for _ in range(12):
            await a_long_talk(session, messages=1)
            await until_idle(hold)

        asked = await records_of(session, CompactionRequested)
        assert CompactionRequested(Trigger.AHEAD) in asked
        overflows = [one for one in await records_of(session, RungStarted) if isinstance(one, RungStarted) and one.kind]
        assert overflows == [], "nobody ever ran into the window"


async def test_how_full_the_view_behind_an_answer_is_is_known_without_building_it() -> None:
    """Building it takes longer the longer the session is, and the next message would wait for that."""

    @tool
    def look() -> str:
        """Look."""
        return "fog " * 30

    model = ScriptedModel([says("wait", a_tool_call("look")), "three " * 40])
    engine = an_engine(model, tools=[look])
    async with a_hold(engine) as hold:
        session = await hold.session(KEY)

        await session.send("one and two")

        log = await open_log(engine.store, KEY)
        _, answer = newest_reply(log.tail)
        measured = prepare(log, engine, await engine.known(model, log.turn)).sizes.tokens
        assert tokens_behind(log.turn, answer) == measured > log.turn.answered.raw + 40


async def test_a_debt_is_paid_when_a_model_is_back() -> None:
    model = Talker(refuses(403, "blocked by content filter policy"), window=2 * WINDOW)
    async with a_hold(an_engine(model)) as hold:
        session = await hold.session(KEY)
        await a_long_talk(session, messages=8)
        await session.compact()
        model._notes = [NOTES]

        for number in range(QUIET_TURNS + 1):
            await session.send(f"short {number}")
            await until_idle(hold)

        asked = await records_of(session, CompactionRequested)
        assert [one.trigger for one in asked if isinstance(one, CompactionRequested)] == [Trigger.PERSON, Trigger.DEBT]
        kinds = [one.kind for one in await records_of(session, CompactionApplied) if isinstance(one, CompactionApplied)]
        assert kinds == [SummaryKind.DIGEST, SummaryKind.SUMMARY]


class Crowded(MemoryStore):
    """Two messages come, one after the other, while the start of a compaction is being written."""

    has_come = False

    async def append(self, lease: Lease, records: Sequence[LeasedRecord], *, after: int) -> int:
        if isinstance(records[0], RungStarted) and records[0].kind is None and not self.has_come:
            self.has_come = True
            for text in ("first", "second"):
                await self.admit(KEY, an_input(text))
                for _ in range(50):
                    # Whoever watches for messages has its turn, and stops the compaction: twice.
                    await asyncio.sleep(0)
        return await super().append(lease, records, after=after)


async def test_two_messages_that_stop_a_compaction_leave_a_log_whose_every_record_follows() -> None:
    store = Crowded(clock=ManualClock())
    async with a_hold(an_engine(Talker(NOTES), store=store)) as hold:
        session = await hold.session(KEY)
        for _ in range(12):
            await a_long_talk(session, messages=1)
            await until_idle(hold)

        assert store.has_come
        await ended_well(session)
        assert await records_of(session, DamageSetAside) == [], "nothing had to be healed"
        turn = Turn()
        for logged in await session.history(limit=10_000):
            turn = evolve(turn, logged)


async def test_what_we_do_of_our_own_accord_gives_way_to_a_person() -> None:
    """FM-094: nobody waits behind a compaction that nobody asked for."""

    class Slow(Talker):
        hangs = asyncio.Event()

        async def stream(
            self, request: Request, blobs: Mapping[str, bytes]
        ) -> AsyncGenerator[Delta | Reply | Refusal, None]:
            if is_for_notes(request):
                self.hangs.set()
                await asyncio.Event().wait()
            async for sight in super().stream(request, blobs):
                yield sight

    model = Slow(NOTES)
    async with a_hold(an_engine(model)) as hold:
        session = await hold.session(KEY)
        while not model.hangs.is_set():
            await session.send("word " * 100)
            await until_idle(hold, unless=model.hangs)

        assert (await session.send("I do not want to wait")).text == "ok"
