"""Compaction by a model: once, from the originals, paid for once, refused when it is no summary, never in the way."""

import asyncio
import logging
import re

import pytest

from holdfast.core.compaction.plan import Keeps
from holdfast.ports import Store
from holdfast.runtime.engine.compaction import applied, digest, plan
from holdfast.runtime.engine.log import open_log
from holdfast.runtime.tools.function_tool import tool
from holdfast.stores.memory import MemoryStore
from holdfast.testing.builders import ManualClock, a_tool_call
from holdfast.testing.crashes import CrashingStore, every_point
from holdfast.testing.engines import FunctionModel, a_hold, an_engine, refuses, says
from holdfast.types.faults import Refusal
from holdfast.types.limits import Limits
from holdfast.types.messages import Reply, Request, Role, StopReason, Text, ToolCall, text_of
from holdfast.types.records import (
    CompactionApplied,
    CompactionRequested,
    CompactionSettled,
    PieceSummarised,
    SummaryKind,
    SummaryRefused,
)
from tests.runtime.summarisers import (
    NOTES,
    ONLY_WHEN_ASKED,
    Talker,
    is_for_notes,
    overflowed,
    records_of,
)
from tests.runtime.talks import KEY, OVERFLOW, a_long_talk, ended_well


async def test_the_past_is_represented_by_a_models_notes_with_exact_facts_beside_them() -> None:
    model = Talker(NOTES)

    compactions = await overflowed(model)

    assert compactions
    for compaction in compactions:
        assert isinstance(compaction, CompactionApplied)
        assert (compaction.kind, compaction.model) == (SummaryKind.SUMMARY, "test:model")
        assert NOTES in compaction.summary
        assert re.search(r"src/part[1-9]\d*\.py", compaction.summary), "a fact the notes do not have"
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
        (Reply((Text(NOTES),), StopReason.CONTENT_FILTER, None, "m"), "cut off"),
        (says("<think>hm"), "empty"),
        (says('{"name": "read", "arguments": {}}'), "tool call"),
        (says("word " * 5_000), "repeats itself"),
        (says("ok"), "repeats a message"),
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
