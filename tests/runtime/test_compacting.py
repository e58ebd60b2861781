"""Compaction by a model: once, from the originals, paid for once, refused when it is no summary, never in the way."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence

import pytest

from holdfast.core.compaction import Keeps
from holdfast.core.faults import Refusal
from holdfast.core.fold import QUIET_TURNS, Turn
from holdfast.core.limits import Bounds, Limits
from holdfast.core.messages import Message, Reply, Request, Role, StopReason, Text, ToolCall, text_of
from holdfast.core.records import (
    CompactionApplied,
    CompactionOutcome,
    CompactionRequested,
    CompactionSettled,
    DamageSetAside,
    InboxRecord,
    LeasedRecord,
    PieceSummarised,
    RungStarted,
    SummaryKind,
    SummaryRefused,
    Trigger,
    WindowWarned,
)
from holdfast.core.turn import evolve
from holdfast.ports import Admission, Delta, Lease, Store
from holdfast.runtime.compacting import applied, digest, plan
from holdfast.runtime.hold import Hold
from holdfast.runtime.log import open_log
from holdfast.runtime.sessions import Session
from holdfast.runtime.toolbox import tool
from holdfast.stores.memory import MemoryStore
from holdfast.testing.builders import a_tool_call, an_input
from holdfast.testing.clock import ManualClock
from holdfast.testing.crashes import CrashingStore, every_point
from holdfast.testing.engines import a_hold, an_engine
from holdfast.testing.scripted import FunctionModel, refuses, says
from tests.runtime.talks import KEY, OVERFLOW, a_long_talk, check_who_asked_before_got_it, ended_well

WINDOW = 4_000
# No compaction of our own accord, so that every one in the log was asked for.
ONLY_WHEN_ASKED = Bounds(compacts_ahead=False)
NOTES = "Goal: mend the parts. Done: nothing yet. State: src/part0.py is broken."


def is_for_notes(request: Request) -> bool:
    return request.system.startswith("You write the working notes")


class Talker(FunctionModel):
    """A model that answers, and writes notes as it is told to; it counts what it was asked for."""

    def __init__(
        self,
        *notes: Reply | Refusal | str | Callable[[Request], Reply | Refusal],
        window: int = WINDOW,
        name: str = "test:model",
    ) -> None:
        self._notes = list(notes)
        self.notes_asked: list[Request] = []
        super().__init__(self._answer, name=name, limits=Limits(window_tokens=window))

    def _answer(self, request: Request) -> Reply | Refusal:
        if not is_for_notes(request):
            return says("ok")
        self.notes_asked.append(request)
        notes = self._notes.pop(0) if len(self._notes) > 1 else self._notes[0]
        if isinstance(notes, str):
            return says(notes)
        return notes(request) if callable(notes) else notes


async def records_of(session: Session, kind: type) -> list[object]:
    return [logged.record for logged in await session.history(limit=10_000) if isinstance(logged.record, kind)]


async def overflowed(model: Talker, *others: Talker, messages: int = 14) -> list[object]:
    """Talk until the window is full and return the compactions; every message must have been answered."""
    async with a_hold(an_engine(model, *others, clock=ManualClock())) as hold:
        session = await hold.session(KEY)
        await a_long_talk(session, messages=messages)
        await ended_well(session)
        return await records_of(session, CompactionApplied)


async def test_the_past_is_represented_by_a_models_notes_with_exact_facts_beside_them() -> None:
    model = Talker(NOTES)

    compactions = await overflowed(model)

    assert compactions
    for compaction in compactions:
        assert isinstance(compaction, CompactionApplied)
        assert (compaction.kind, compaction.model) == (SummaryKind.SUMMARY, "test:model")
        assert NOTES in compaction.summary
        assert "src/part1.py" in compaction.summary, "a fact the notes do not have"
        assert compaction.tokens_after < compaction.tokens_before


async def test_notes_are_made_from_originals_never_from_notes() -> None:
    model = Talker(NOTES)

    compactions = await overflowed(model, messages=40)

    assert len(compactions) > 1
    asked = [text_of(request.messages[0].parts) for request in model.notes_asked]
    of_originals = [text for text in asked if "Below is the older part" in text]
    assert all(NOTES not in text for text in of_originals)
    firsts = [text.partition("<conversation>\n")[2].partition("]")[0] for text in of_originals]
    assert len(set(firsts)) == len(firsts), "no original is read twice"


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (says(""), "empty"),
        (Reply((Text(NOTES),), StopReason.LENGTH, None, "m"), "cut off"),
        (says("<think>hm</think> " + NOTES), "thinking"),
        (says('{"name": "read", "arguments": {}}'), "tool call"),
        (says("word " * 5_000), "tokens"),
        (says("ok"), "repeats a message"),
        (says("Decided as in [#999999]."), "#999999"),
        (refuses(400, "reasoning is required for this model"), "reasoning"),
        (refuses(400, OVERFLOW), "token_overflow"),
        (refuses(403, "blocked by content filter policy"), "content_policy"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_what_is_no_summary_is_refused_and_the_session_goes_on_by_digest(
    answer: Reply | Refusal, why: str
) -> None:
    """FM-033, FM-038, FM-045, FM-046, FM-047, FM-071."""
    async with a_hold(an_engine(Talker(answer), clock=ManualClock())) as hold:
        session = await hold.session(KEY)

        await a_long_talk(session, messages=14)

        refused = await records_of(session, SummaryRefused)
        compactions = await records_of(session, CompactionApplied)
        assert refused
        assert all(isinstance(one, SummaryRefused) and why in one.why for one in refused)
        assert compactions
        assert all(isinstance(one, CompactionApplied) and one.kind is SummaryKind.DIGEST for one in compactions)


async def test_the_next_model_summarises_where_the_first_cannot() -> None:
    first = Talker(refuses(403, "blocked by content filter policy"), name="test:first")
    second = Talker(NOTES, name="test:second")

    compactions = await overflowed(first, second)

    assert {one.model for one in compactions if isinstance(one, CompactionApplied)} == {"test:second"}
    # Each of three ways is tried once with the first model, then the first way with the second is enough.
    assert len(first.notes_asked) == 3 * len(compactions)


async def test_a_past_too_long_for_the_summariser_is_read_in_pieces() -> None:
    """FM-034."""

    def picky(request: Request) -> Reply | Refusal:
        asked = text_of(request.messages[0].parts)
        return refuses(400, OVERFLOW) if len(asked) > 5_000 else says(f"Notes of {len(asked)} characters.")

    model = Talker(picky)
    async with a_hold(an_engine(model, clock=ManualClock())) as hold:
        session = await hold.session(KEY)

        await a_long_talk(session, messages=14)

        compactions = await records_of(session, CompactionApplied)
        pieces = await records_of(session, PieceSummarised)
        assert next(one.kind for one in compactions if isinstance(one, CompactionApplied)) is SummaryKind.SUMMARY
        assert len(pieces) > 1


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


async def test_killed_at_every_write_of_a_compaction_the_view_is_the_old_or_the_new_one() -> None:
    """FM-023, FM-025, FM-101: never a third state, and no request is left without an outcome."""
    asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)

    async def prepared() -> tuple[MemoryStore, ManualClock]:
        clock = ManualClock()
        store = MemoryStore(clock=clock)
        async with a_hold(an_engine(Talker(NOTES), store=store, clock=clock, bounds=ONLY_WHEN_ASKED)) as hold:
            await a_long_talk(await hold.session(KEY), messages=5)
        return store, clock

    async def compacted(store: Store, clock: ManualClock, model: Talker) -> None:
        async with a_hold(an_engine(model, store=store, clock=clock, bounds=ONLY_WHEN_ASKED)) as hold:
            await (await hold.session(KEY)).compact()

    store, clock = await prepared()
    counting = CrashingStore(store)
    await compacted(counting, clock, Talker(NOTES))
    for point in every_point(counting.writes):
        store, clock = await prepared()
        dying = CrashingStore(store, point)
        work = asyncio.create_task(compacted(dying, clock, Talker(NOTES)))
        died = asyncio.create_task(dying.died.wait())
        await asyncio.wait([work, died], return_when=asyncio.FIRST_COMPLETED)
        for task in (work, died):
            task.cancel()
        await asyncio.gather(work, died, return_exceptions=True)
        clock.advance(31)

        model = Talker(NOTES)
        async with a_hold(an_engine(model, store=store, clock=clock, bounds=ONLY_WHEN_ASKED)) as hold:
            session = await hold.session(KEY)
            assert (await session.send("still there?")).text == "ok"
            asked = await records_of(session, CompactionRequested)
            settled = await records_of(session, CompactionSettled)
            applied = await records_of(session, CompactionApplied)
            assert (len(settled), len(applied)) == (len(asked), len(asked)), point
            pieces = await records_of(session, PieceSummarised)
            assert len(pieces) == len(asked), f"{point}: notes are paid for once"


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


# Of our own accord.


async def until_idle(hold: Hold, *, unless: asyncio.Event | None = None) -> None:
    """Return when the session owes nothing, or something else has happened first."""
    while (await hold.sessions())[-1].owed and not (unless and unless.is_set()):  # noqa: ASYNC110 - nothing to wait on
        await asyncio.sleep(0)


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


async def test_events_for_operators_have_their_names_and_fields(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="holdfast")
    async with a_hold(an_engine(Talker(NOTES), bounds=ONLY_WHEN_ASKED)) as hold:
        await a_long_talk(await hold.session(KEY), messages=12)

    events = {record.message: vars(record) for record in caplog.records}
    for name in ("context.overflow.detected", "context.overflow.attempting.recovery", "compaction.complete"):
        assert events[name]["session"] == KEY
        assert "turn" in events[name]
    assert events["context.overflow.detected"]["kind"] == "token_overflow"
    assert events["context.overflow.detected"]["tokens"] > 0
    assert events["compaction.complete"]["tokens_after"] < events["compaction.complete"]["tokens_before"]
    assert "message 3" not in caplog.text, "no text of messages in logs"


# One long turn.


@pytest.mark.parametrize("notes", [NOTES, refuses(403, "blocked by content filter policy")], ids=["summary", "digest"])
async def test_a_turn_of_many_steps_outgrows_the_window_and_still_comes_to_its_answer(notes: str | Refusal) -> None:
    """FM-029, FM-030, FM-062: tool exchanges are compressible too, and the input they work for stays verbatim."""

    @tool
    def read_part(number: int) -> str:
        """Read one part."""
        return f"part {number}: " + f"line of src/part{number}.py " * 40

    def work(request: Request) -> Reply | Refusal:
        if is_for_notes(request):
            return says(notes) if isinstance(notes, str) else notes
        done = max(
            (
                int(part.arguments.partition(": ")[2].rstrip("}"))
                for message in request.messages
                for part in message.parts
                if isinstance(part, ToolCall)
            ),
            default=0,
        )
        if done >= 60:
            return says("all read")
        return says("", a_tool_call("read_part", f'{{"number": {done + 1}}}', call_id=f"c{done + 1}"))

    model = FunctionModel(work, limits=Limits(window_tokens=6_000))
    async with a_hold(an_engine(model, tools=[read_part])) as hold:
        session = await hold.session(KEY)

        answer = await session.send("Read all sixty parts.")

        assert answer.text == "all read"
        await ended_well(session)
        applied = await records_of(session, CompactionApplied)
        assert any(isinstance(one, CompactionApplied) and one.step for one in applied)
        for request in model.requests:
            if not is_for_notes(request):
                inputs = [text_of(message.parts) for message in request.messages if message.role is Role.USER]
                assert inputs[-1] == "Read all sixty parts."


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


async def test_what_would_not_make_the_view_smaller_is_not_applied_whoever_made_it() -> None:
    async with a_hold(an_engine(Talker(NOTES), bounds=ONLY_WHEN_ASKED)) as hold:
        session = await hold.session(KEY)
        for text in ("one", "two", "three"):
            await session.send(text)
        log = await open_log(hold.engine.store, KEY)
        short = await plan(log, hold.engine, Keeps.NEWEST)
        await a_long_talk(session, messages=3)
        log_of_more = await open_log(hold.engine.store, KEY)
        longer = await plan(log_of_more, hold.engine, Keeps.NEWEST)
        assert short is not None
        assert longer is not None

        # The frame of a digest alone is longer than two words and their answers.
        assert await digest(log, hold.engine, Keeps.NEWEST) is None
        assert applied(log_of_more, hold.engine, longer, "word " * 5_000, model="test:model") is None
        made = applied(log_of_more, hold.engine, longer, NOTES, model="test:model")
        assert made is not None
        assert made.tokens_after < made.tokens_before == longer.plan.tokens_before
