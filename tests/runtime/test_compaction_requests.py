"""Compactions that a person asks for: met together, told their outcome, undone; and what is pinned stays."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence

from holdfast.core.limits.bounds import Bounds
from holdfast.ports import Admission, Delta, Lease
from holdfast.stores.memory import MemoryStore
from holdfast.testing.builders import ManualClock
from holdfast.testing.engines import FunctionModel, ScriptedModel, a_hold, an_engine, refuses, says
from holdfast.types.faults import Refusal
from holdfast.types.limits import Limits
from holdfast.types.messages import Message, Reply, Request, Role, Text, text_of
from holdfast.types.records import (
    CompactionApplied,
    CompactionOutcome,
    CompactionRequested,
    CompactionSettled,
    InboxRecord,
    LeasedRecord,
    SummaryKind,
)
from tests.runtime.summarisers import (
    NOTES,
    ONLY_WHEN_ASKED,
    Talker,
    is_for_notes,
    records_of,
)
from tests.runtime.talks import KEY, a_long_talk, check_who_asked_before_got_it, ended_well


async def test_a_person_can_ask_for_a_compaction_and_is_told_its_outcome() -> None:
    model = Talker(NOTES)
    async with a_hold(an_engine(model)) as hold:
        session = await hold.session(KEY)
        await a_long_talk(session, messages=5)

        done = await session.compact(focus="the colour of the bike shed")
        again = await session.compact()

        assert (done.outcome, again.outcome) == (CompactionOutcome.APPLIED, CompactionOutcome.NOTHING_TO_DO)
        assert "the colour of the bike shed" in text_of(model.notes_asked[0].messages[0].parts)
        assert NOTES in text_of((await session.view()).messages[0].parts)
        assert (await session.send("go on")).text == "ok"


async def test_requests_that_come_together_are_met_by_one_compaction() -> None:
    """FM-022: whoever asks gets its outcome, and it is done once."""
    store = MemoryStore(clock=ManualClock())
    models = [Talker(NOTES), Talker(NOTES)]
    engines = [an_engine(model, store=store) for model in models]
    async with a_hold(engines[0], owner="one") as one, a_hold(engines[1], owner="two") as two:
        sessions = [await one.session(KEY), await two.session(KEY)]
        await a_long_talk(sessions[0], messages=6)

        outcomes = await asyncio.gather(*(sessions[n % 2].compact() for n in range(50)))

        applied = await records_of(sessions[0], CompactionApplied)
        assert len(applied) == 1
        assert sum(len(model.notes_asked) for model in models) == 1
        assert {outcome.outcome for outcome in outcomes} <= {CompactionOutcome.APPLIED, CompactionOutcome.NOTHING_TO_DO}
        assert outcomes[0].outcome is CompactionOutcome.APPLIED
        check_who_asked_before_got_it(await ended_well(sessions[0]))


async def test_a_session_without_a_past_has_nothing_to_compact() -> None:
    async with a_hold(an_engine(Talker(NOTES))) as hold:
        session = await hold.session(KEY)
        await session.send("hi")

        assert (await session.compact()).outcome is CompactionOutcome.NOTHING_TO_DO


async def test_a_digest_is_a_debt_that_a_model_pays_when_it_is_asked_to() -> None:
    """FM-048."""
    model = Talker(refuses(403, "blocked by content filter policy"))
    async with a_hold(an_engine(model)) as hold:
        session = await hold.session(KEY)
        await a_long_talk(session, messages=5)
        assert (await session.compact()).outcome is CompactionOutcome.APPLIED
        before = await session.view()
        model._notes = [NOTES]

        assert (await session.compact()).outcome is CompactionOutcome.APPLIED

        kinds = [one.kind for one in await records_of(session, CompactionApplied) if isinstance(one, CompactionApplied)]
        after = await session.view()
        assert kinds == [SummaryKind.DIGEST, SummaryKind.SUMMARY]
        assert after.boundary == before.boundary
        assert NOTES in text_of(after.messages[0].parts)


async def test_a_compaction_can_be_undone_and_the_view_is_as_before() -> None:
    """FM-078, FM-150."""
    async with a_hold(an_engine(Talker(NOTES))) as hold:
        session = await hold.session(KEY)
        await a_long_talk(session, messages=5)
        before = await session.view()
        await session.compact()
        assert (await session.view()).boundary > 0

        assert await session.undo() is True

        after = await session.view()
        assert (after.messages, after.boundary) == (before.messages, 0)
        assert await session.undo() is False, "there is nothing left to undo"
        assert (await session.send("go on")).text == "ok"
        await ended_well(session)


async def test_undo_goes_back_one_compaction_at_a_time() -> None:
    async with a_hold(an_engine(Talker(NOTES))) as hold:
        session = await hold.session(KEY)
        views = []
        for _ in range(2):
            await a_long_talk(session, messages=4)
            await session.compact()
            views.append(await session.view())
        assert views[1].boundary > views[0].boundary > 0

        await session.undo()
        assert (await session.view()).boundary == views[0].boundary
        await session.undo()
        assert (await session.view()).boundary == 0


async def test_a_pinned_message_stays_in_the_view_after_a_compaction() -> None:
    model = Talker(NOTES)
    async with a_hold(an_engine(model)) as hold:
        session = await hold.session(KEY)
        rule = await session.post("Never touch the main branch.")
        await session.wait(rule)
        await session.pin(rule)
        await a_long_talk(session, messages=5)

        await session.compact()
        await session.send("go on")

        assert model.requests[-1].messages[0] == Message(Role.USER, (Text("Never touch the main branch."),))
        await session.pin(rule, keep=False)
        assert (await session.view()).messages[0] != Message(Role.USER, (Text("Never touch the main branch."),))


async def test_a_summariser_that_is_overloaded_is_waited_for_once() -> None:
    """FM-037."""
    clock = ManualClock()
    model = Talker(refuses(529, "overloaded"), NOTES)
    async with a_hold(an_engine(model, clock=clock)) as hold:
        session = await hold.session(KEY)
        await a_long_talk(session, messages=5)
        asking = asyncio.create_task(session.compact())
        await clock.until_asleep(3)

        clock.advance(5)

        assert (await asking).outcome is CompactionOutcome.APPLIED
        assert len(model.notes_asked) == 2


class Slow(MemoryStore):
    """A request for compaction takes so long to the log that another was met meanwhile."""

    def __init__(self) -> None:
        super().__init__(clock=ManualClock())
        self.asked = asyncio.Event()
        self.met = asyncio.Event()

    async def admit(self, session: str, record: InboxRecord) -> Admission:
        if not isinstance(record, CompactionRequested):
            return await super().admit(session, record)
        if self.asked.is_set():
            await self.met.wait()
        self.asked.set()
        return await super().admit(session, record)

    async def append(self, lease: Lease, records: Sequence[LeasedRecord], *, after: int) -> int:
        last = await super().append(lease, records, after=after)
        if any(isinstance(record, CompactionSettled) for record in records):
            self.met.set()
        return last


async def test_who_asked_before_a_compaction_gets_it_though_the_request_came_to_the_log_behind_it() -> None:
    store = Slow()
    async with a_hold(an_engine(Talker(NOTES), store=store, bounds=ONLY_WHEN_ASKED)) as hold:
        session = await hold.session(KEY)
        await a_long_talk(session, messages=5)
        assert await records_of(session, CompactionApplied) == []

        first = asyncio.create_task(session.compact())
        await store.asked.wait()
        late = await session.compact()

        assert ((await first).outcome, late.outcome) == (CompactionOutcome.APPLIED, CompactionOutcome.APPLIED)
        assert len(await records_of(session, CompactionApplied)) == 1
        # Whoever asks now knows of it.
        assert (await session.compact()).outcome is CompactionOutcome.NOTHING_TO_DO
        await ended_well(session)


async def test_a_compaction_with_nothing_to_do_says_why_in_one_record() -> None:
    async with a_hold(an_engine(ScriptedModel(["hi"]))) as hold:
        session = await hold.session(KEY)
        await session.send("hello")
        before = len(await session.history(limit=1_000))

        settled = await session.compact()

        added = [logged.record for logged in (await session.history(limit=1_000))[before:]]
        assert [type(record) for record in added] == [CompactionRequested, CompactionSettled]
        assert (settled.outcome, bool(settled.why)) == (CompactionOutcome.NOTHING_TO_DO, True)


async def test_a_running_compaction_is_cancelled() -> None:
    started = asyncio.Event()

    class Slow(FunctionModel):
        async def stream(
            self, request: Request, blobs: Mapping[str, bytes]
        ) -> AsyncGenerator[Delta | Reply | Refusal, None]:
            if is_for_notes(request):
                started.set()
                await asyncio.Event().wait()
            async for event in super().stream(request, blobs):
                yield event

    model = Slow(lambda _: says("fine"), limits=Limits(window_tokens=8_000))
    async with a_hold(an_engine(model, bounds=Bounds(compacts_ahead=False))) as hold:
        session = await hold.session(KEY)
        for number in range(4):
            await session.send(f"message {number}: " + "The crew is aboard and writes. " * 60)
        compacting = asyncio.ensure_future(session.compact())
        await started.wait()

        await session.cancel()

        assert (await compacting).outcome is CompactionOutcome.CANCELLED
        assert (await session.view()).boundary == 0
        assert (await session.send("still there?")).text == "fine"
        await ended_well(session)
