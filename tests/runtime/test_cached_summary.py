"""Notes that are asked for behind the conversation as it was last sent: when, in which bytes, and what follows if not.

The model here reports what it finds in its cache as providers do: of each request, the longest that was sent before and
that it begins with.
"""

import asyncio
from collections.abc import Callable, Sequence

import pytest
from msgspec.structs import replace

from holdfast.core.limits.bounds import Bounds
from holdfast.core.limits.prices import NO_PRICES, Prices
from holdfast.core.limits.sizing import tokens_of_request, tokens_of_text
from holdfast.ports import Attachment, Store
from holdfast.runtime.sessions.session import Session
from holdfast.stores.memory import MemoryBlobs, MemoryStore
from holdfast.testing.builders import ManualClock
from holdfast.testing.crashes import CrashingStore, every_point
from holdfast.testing.engines import FunctionModel, a_hold, an_engine, refuses
from holdfast.types.faults import Refusal
from holdfast.types.limits import Limits
from holdfast.types.messages import Reply, Request, Role, StopReason, Text, ToolCall, Usage, text_of
from holdfast.types.records import (
    CompactionApplied,
    CompactionOutcome,
    CompactionRequested,
    CompactionSettled,
    PieceSummarised,
    SummaryKind,
    SummaryRefused,
    Trigger,
)
from tests.runtime.summarisers import until_idle
from tests.runtime.talks import KEY, a_long_talk, ended_well

WINDOW = 8_000
PRICES = Prices(10.0, 1.0, 50.0)
ONLY_WHEN_ASKED = Bounds(compacts_ahead=False)
NOTES = "Goal: mend the parts. State: src/part0.py is broken [#1]."
USUAL_NOTES = "Goal: mend the parts, as usual."

Answer = Callable[[Request], Reply | Refusal | str]


def is_usual(request: Request) -> bool:
    """Whether a request asks for notes on a rendered conversation."""
    return request.system.startswith("You write the working notes")


def rides(request: Request) -> bool:
    """Whether a request asks for notes behind the conversation itself."""
    return text_of(request.messages[-1].parts).startswith("This message is not part of the conversation.")


class Provider(FunctionModel):
    """A model that answers, writes notes, and reads from its cache what it was sent before."""

    def __init__(
        self,
        riding: Answer | str = NOTES,
        *,
        window: int = WINDOW,
        prices: Prices = PRICES,
        sent: list[Request] | None = None,
        name: str = "test:model",
        caches: bool = True,
    ) -> None:
        self._riding = riding
        # What the provider has in its cache outlives the process that asks it.
        self._sent = sent if sent is not None else []
        self._caches = caches
        limits = Limits(window_tokens=window, output_tokens_max=1_500)
        super().__init__(self._answer, name=name, limits=limits, prices=prices)

    def _answer(self, request: Request) -> Reply | Refusal:
        said: Reply | Refusal | str = "ok"
        if rides(request):
            said = self._riding if isinstance(self._riding, str) else self._riding(request)
        elif is_usual(request):
            said = USUAL_NOTES
        known = [tokens_of_request(one) for one in self._sent if begins_with(request, one)]
        if self._caches:
            self._sent.append(request)
        usage = Usage(tokens_of_request(request), 20, max(known, default=0))
        if isinstance(said, Refusal):
            return said
        if isinstance(said, Reply):
            return replace(said, usage=usage)
        return Reply((Text(said),), StopReason.END, usage, "test")

    @property
    def ridden(self) -> list[Request]:
        return [request for request in self.requests if rides(request)]

    @property
    def asked_as_usual(self) -> list[Request]:
        return [request for request in self.requests if is_usual(request)]


def begins_with(request: Request, other: Request) -> bool:
    """Whether a request has all of another one in front, its settings for thinking included."""
    same = (request.system, request.tools, request.effort) == (other.system, other.tools, other.effort)
    return same and request.messages[: len(other.messages)] == other.messages


async def of(session: Session, kind: type) -> Sequence[object]:
    return [logged.record for logged in await session.history(limit=10_000) if isinstance(logged.record, kind)]


async def the_piece(session: Session) -> PieceSummarised:
    (piece,) = await of(session, PieceSummarised)
    assert isinstance(piece, PieceSummarised)
    return piece


async def the_summary(session: Session) -> CompactionApplied:
    (applied,) = await of(session, CompactionApplied)
    assert isinstance(applied, CompactionApplied)
    assert applied.kind is SummaryKind.SUMMARY
    return applied


async def compacted(model: Provider, *others: Provider, bounds: Bounds = ONLY_WHEN_ASKED, pause: float = 0.0) -> None:
    """Talk, wait, and ask for a compaction, which must have been made by a model."""
    clock = ManualClock()
    async with a_hold(an_engine(model, *others, clock=clock, bounds=bounds)) as hold:
        session = await hold.session(KEY)
        await a_long_talk(session, messages=6)
        clock.advance(pause)

        assert (await session.compact()).outcome is CompactionOutcome.APPLIED

        await the_summary(session)
        await ended_well(session)


async def test_notes_are_asked_for_behind_the_next_request_and_nothing_in_front_of_them_differs() -> None:
    """FM-144."""
    model = Provider()
    async with a_hold(an_engine(model, bounds=ONLY_WHEN_ASKED)) as hold:
        session = await hold.session(KEY)
        await a_long_talk(session, messages=6)
        last = model.requests[-1]

        await session.compact(focus="the colour of the bike shed")

        (asked,) = model.ridden
        assert model.asked_as_usual == []
        assert begins_with(asked, last)
        assert [one.role for one in asked.messages[len(last.messages) :]] == [Role.ASSISTANT, Role.USER]
        assert "the colour of the bike shed" in text_of(asked.messages[-1].parts)
        piece, applied = await the_piece(session), await the_summary(session)
        assert (piece.notes, piece.is_riding, piece.focus) == (NOTES, True, "the colour of the bike shed")
        assert NOTES in applied.summary
        assert "src/part1.py" in applied.summary, "a fact that the notes do not have"
        assert piece.usage is not None
        assert piece.usage.cached_input_tokens == tokens_of_request(last)
        assert piece.cost_usd == PRICES.cost(piece.usage) == applied.cost_usd
        assert (await session.send("go on")).text == "ok"
        assert "not part of the conversation" not in repr(model.requests[-1].messages), "the question is no message"
        await ended_well(session)


async def test_room_that_is_made_ahead_of_need_is_asked_for_in_this_way() -> None:
    """FM-094, FM-144."""
    model = Provider()
    async with a_hold(an_engine(model)) as hold:
        session = await hold.session(KEY)
        while not await of(session, CompactionApplied):
            await a_long_talk(session, messages=1)
            await until_idle(hold)

        assert CompactionRequested(Trigger.AHEAD) in await of(session, CompactionRequested)
        assert (len(model.ridden), len(model.asked_as_usual)) == (1, 0)
        assert (await the_piece(session)).is_riding


async def test_earlier_notes_are_used_word_for_word_and_only_what_came_since_is_noted() -> None:
    """FM-031: no notes are made from notes."""
    model = Provider(lambda request: f"Notes {len(request.messages)}.")
    async with a_hold(an_engine(model, bounds=ONLY_WHEN_ASKED)) as hold:
        session = await hold.session(KEY)
        await a_long_talk(session, messages=6)
        await session.compact()
        boundary = (await session.view()).boundary
        await a_long_talk(session, messages=6)

        await session.compact()

        first, second = [one.notes for one in await of(session, PieceSummarised) if isinstance(one, PieceSummarised)]
        assert len(model.ridden) == 2
        listed = text_of(model.ridden[1].messages[-1].parts).partition("<messages>\n")[2]
        numbers = [int(line.split("]")[0][2:]) for line in listed.splitlines() if line.startswith("[#")]
        assert min(numbers) >= boundary
        summary = text_of((await session.view()).messages[0].parts)
        assert 0 < summary.index(first) < summary.index(second)


@pytest.mark.parametrize(
    ("riding", "used"),
    [
        (Reply((Text("All is decided. And th"),), StopReason.LENGTH, None, "m"), "All is decided."),
        ("As decided in [#99999] before.", "As decided in before."),
    ],
)
async def test_a_useful_answer_is_used_without_what_is_wrong_in_it(riding: Reply | str, used: str) -> None:
    model = Provider(lambda _: riding)
    async with a_hold(an_engine(model, bounds=ONLY_WHEN_ASKED)) as hold:
        session = await hold.session(KEY)
        await a_long_talk(session, messages=6)

        await session.compact()

        assert (await the_piece(session)).notes == used
        assert await of(session, SummaryRefused) == []
        assert (len(model.ridden), len(model.asked_as_usual)) == (1, 0)


@pytest.mark.parametrize(
    ("riding", "why"),
    [
        (Reply((ToolCall("c", "recall", "{}"),), StopReason.TOOL_CALLS, None, "m"), "tool call"),
        (Reply((Text(NOTES), ToolCall("c", "recall", "{}")), StopReason.TOOL_CALLS, None, "m"), "tool call"),
        (Reply((Text(NOTES),), StopReason.CONTENT_FILTER, None, "m"), "cut off"),
        ("ok", "repeats a message"),
        (refuses(529, "overloaded"), "overloaded"),
        (refuses(400, "prompt is too long: 9000 tokens > 8000 maximum"), "token_overflow"),
    ],
    ids=["nothing but a call", "a call", "cut", "an answer", "busy", "too long"],
)
async def test_where_its_answer_is_of_no_use_notes_are_asked_for_as_usual(
    riding: Reply | Refusal | str, why: str
) -> None:
    """FM-033, FM-144: it is recorded, counted, and not tried again."""
    model = Provider(lambda _: riding)
    async with a_hold(an_engine(model, bounds=ONLY_WHEN_ASKED)) as hold:
        session = await hold.session(KEY)
        await a_long_talk(session, messages=6)

        assert (await session.compact()).outcome is CompactionOutcome.APPLIED

        (refused,) = await of(session, SummaryRefused)
        assert isinstance(refused, SummaryRefused)
        assert refused.is_riding
        assert why in refused.why
        assert (len(model.ridden), len(model.asked_as_usual)) == (1, 1)
        piece, applied = await the_piece(session), await the_summary(session)
        assert (piece.notes, piece.is_riding) == (USUAL_NOTES, False)
        assert applied.cost_usd == pytest.approx((refused.cost_usd or 0.0) + (piece.cost_usd or 0.0))
        await a_long_talk(session, messages=6)
        await session.compact()
        assert len(model.ridden) == 1, "nor by the next compaction"


@pytest.mark.parametrize(
    ("model", "bounds", "pause"),
    [
        (Provider(caches=False), ONLY_WHEN_ASKED, 0.0),
        (Provider(), ONLY_WHEN_ASKED, 300.0),
        (Provider(prices=NO_PRICES), ONLY_WHEN_ASKED, 0.0),
        (Provider(prices=Prices(10.0, 9.0, 50.0)), ONLY_WHEN_ASKED, 0.0),
        (Provider(window=3_200), ONLY_WHEN_ASKED, 0.0),
        (Provider(), replace(ONLY_WHEN_ASKED, summary_rides=False), 0.0),
        (Provider(), replace(ONLY_WHEN_ASKED, summary_tokens_max=2_200), 0.0),
    ],
    ids=["nothing cached", "a long pause", "no price", "dear reads", "a small window", "not wanted", "a budget"],
)
async def test_where_it_would_not_do_or_not_pay_notes_are_asked_for_as_usual(
    model: Provider, bounds: Bounds, pause: float
) -> None:
    await compacted(model, bounds=bounds, pause=pause)

    assert (model.ridden, len(model.asked_as_usual)) == ([], 1)


@pytest.mark.parametrize("name", ["test:cheap", "test:model"], ids=["another", "of the same name, elsewhere"])
async def test_where_another_model_summarises_it_is_asked_as_usual(name: str) -> None:
    cheap = Provider(prices=Prices(0.1, 0.01, 0.5), name=name)
    model = Provider()

    await compacted(model, cheap, bounds=replace(ONLY_WHEN_ASKED, summariser="cheapest"))

    assert (model.ridden, model.asked_as_usual, cheap.ridden) == ([], [], [])
    assert len(cheap.asked_as_usual) == 1


async def test_at_an_overflow_notes_are_asked_for_as_usual() -> None:
    model = Provider()
    async with a_hold(an_engine(model, clock=ManualClock(), bounds=ONLY_WHEN_ASKED)) as hold:
        session = await hold.session(KEY)

        await a_long_talk(session, messages=30)

        assert await of(session, CompactionApplied)
        assert (model.ridden, await of(session, SummaryRefused)) == ([], [])


async def test_what_is_masked_in_the_view_is_read_from_the_originals_as_usual() -> None:
    """Notes are not made from the line that stands for an output."""

    def look(number: int) -> str:
        """Look something up."""
        return f"found {number}: " + "a line of output. " * 60

    def answers(request: Request) -> Reply | str:
        call = ToolCall(f"c{len(request.messages)}", "look", '{"number": 1}')
        is_new = request.messages[-1].role is Role.USER
        return Reply((call,), StopReason.TOOL_CALLS, None, "m") if is_new else "ok"

    class Caller(Provider):
        def _answer(self, request: Request) -> Reply | Refusal:
            reply = super()._answer(request)
            made = "" if rides(request) or is_usual(request) else answers(request)
            assert isinstance(reply, Reply)
            return replace(made, usage=reply.usage) if isinstance(made, Reply) else reply

    model = Caller(window=24_000)
    bounds = replace(ONLY_WHEN_ASKED, outputs_kept=1, mask_window_share=1.0)
    async with a_hold(an_engine(model, tools=[look], bounds=bounds)) as hold:
        session = await hold.session(KEY)
        await a_long_talk(session, messages=4)
        # A window that is smaller than was declared has old output masked.
        model.limits = Limits(window_tokens=4_800, output_tokens_max=1_000)
        await a_long_talk(session, messages=2)
        assert "no longer shown" in repr((await session.view()).messages)
        model.limits = Limits(window_tokens=24_000, output_tokens_max=1_500)
        await a_long_talk(session, messages=2)

        await session.compact()

        assert (model.ridden, len(model.asked_as_usual)) == ([], 1)


@pytest.mark.parametrize("is_gone", [False, True], ids=["there", "gone"])
async def test_attachments_go_along_and_where_their_bytes_are_gone_notes_are_asked_for_as_usual(
    *, is_gone: bool
) -> None:
    model, blobs = Provider(window=64_000), MemoryBlobs()
    async with a_hold(an_engine(model, blobs=blobs, bounds=ONLY_WHEN_ASKED)) as hold:
        session = await hold.session(KEY)
        await session.send("look", attachments=[Attachment(b"a note\n" * 6_000, "notes.txt")])
        await a_long_talk(session, messages=30)
        if is_gone:
            blobs._blobs.clear()

        await session.compact()

        assert (len(model.ridden), len(model.asked_as_usual)) == ((0, 1) if is_gone else (1, 0))


async def test_a_summary_that_was_foreseen_in_this_way_is_not_paid_for_again() -> None:
    model = Provider()
    async with a_hold(an_engine(model, bounds=ONLY_WHEN_ASKED)) as hold:
        session = await hold.session(KEY)
        await a_long_talk(session, messages=6)

        ahead = await session.preview(with_model=True)
        await session.compact()

        assert ahead is not None
        assert ahead.summary == (await the_summary(session)).summary
        assert (len(model.ridden), len(model.asked_as_usual)) == (1, 0)


async def test_the_question_costs_a_few_hundred_tokens() -> None:
    model = Provider()

    await compacted(model)

    (asked,) = model.ridden
    assert tokens_of_text(text_of(asked.messages[-1].parts)) < 700


async def died_at(point: object, store: MemoryStore, clock: ManualClock, model: Provider) -> CrashingStore:
    """Ask for a compaction in a process that dies at a point of it, if at any."""

    async def asked(dying: Store) -> None:
        async with a_hold(an_engine(model, store=dying, clock=clock, bounds=ONLY_WHEN_ASKED)) as hold:
            await (await hold.session(KEY)).compact()

    dying = CrashingStore(store, point)  # type: ignore[arg-type]  # None: it does not die
    work = asyncio.create_task(asked(dying))
    died = asyncio.create_task(dying.died.wait())
    await asyncio.wait([work, died], return_when=asyncio.FIRST_COMPLETED)
    for task in (work, died):
        task.cancel()
    await asyncio.gather(work, died, return_exceptions=True)
    return dying


@pytest.mark.parametrize("riding", [NOTES, "ok"], ids=["of use", "of no use"])
async def test_killed_at_every_write_of_it_the_view_is_the_old_or_the_new_one_and_no_notes_are_paid_twice(
    riding: str,
) -> None:
    """FM-023, FM-025, FM-101, FM-144."""
    asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)

    async def talked(sent: list[Request]) -> tuple[MemoryStore, ManualClock]:
        clock = ManualClock()
        store = MemoryStore(clock=clock)
        engine = an_engine(Provider(sent=sent), store=store, clock=clock, bounds=ONLY_WHEN_ASKED)
        async with a_hold(engine) as hold:
            await a_long_talk(await hold.session(KEY), messages=6)
        return store, clock

    sent: list[Request] = []
    store, clock = await talked(sent)
    writes = (await died_at(None, store, clock, Provider(riding, sent=sent))).writes
    assert writes > 5
    for point in every_point(writes):
        sent = []
        store, clock = await talked(sent)
        await died_at(point, store, clock, Provider(riding, sent=sent))
        clock.advance(31)

        again = Provider(riding, sent=sent)
        async with a_hold(an_engine(again, store=store, clock=clock, bounds=ONLY_WHEN_ASKED)) as hold:
            session = await hold.session(KEY)
            assert (await session.send("still there?")).text == "ok"
            asked, settled, applied, pieces, refused = [
                await of(session, kind)
                for kind in (
                    CompactionRequested,
                    CompactionSettled,
                    CompactionApplied,
                    PieceSummarised,
                    SummaryRefused,
                )
            ]
            assert {len(settled), len(applied), len(pieces)} == {len(asked)}, point
            is_of_use = riding == NOTES
            assert len(refused) == (0 if is_of_use else len(asked)), f"{point}: the same is not asked for again"
            riders = [one.is_riding for one in pieces if isinstance(one, PieceSummarised)]
            assert riders == [is_of_use] * len(asked), point
            await ended_well(session)
