"""Notes on a long past: everything is read once, merged upwards, kept over crashes, and nothing is a cliff."""

import asyncio
import re
from collections.abc import Sequence

from holdfast.core.compaction.notes import frontier
from holdfast.core.limits.bounds import Bounds
from holdfast.runtime.engine.log import open_log
from holdfast.runtime.sessions.session import Session
from holdfast.stores.memory import MemoryStore
from holdfast.testing.builders import ManualClock
from holdfast.testing.crashes import CrashingStore, every_point
from holdfast.testing.engines import a_hold, an_engine, says
from holdfast.types.faults import Refusal
from holdfast.types.messages import Reply, Request, StopReason, Text, Usage, text_of
from holdfast.types.records import (
    CompactionApplied,
    CompactionRequested,
    PieceSummarised,
    SummaryKind,
    SummaryRefused,
    Trigger,
)
from tests.runtime.summarisers import NOTES, ONLY_WHEN_ASKED, Talker, until_idle
from tests.runtime.talks import KEY, a_long_talk, ended_well

_CODE = re.compile(r"code-\d+")


def asked_of(request: Request) -> str:
    return text_of(request.messages[0].parts).partition("<conversation>\n")[2]


def codes(request: Request) -> Reply:
    """Notes that keep every code of what was read."""
    return says("Codes: " + " ".join(dict.fromkeys(_CODE.findall(asked_of(request)))))


def is_merge(request: Request) -> bool:
    return "Below are notes" in text_of(request.messages[0].parts)


def read_by(model: Talker) -> str:
    return "\n".join(asked_of(request) for request in model.notes_asked if not is_merge(request))


async def pieces_of(session: Session) -> list[PieceSummarised]:
    records = [logged.record for logged in await session.history(limit=100_000)]
    return [record for record in records if isinstance(record, PieceSummarised)]


async def applied_of(session: Session) -> list[CompactionApplied]:
    records = [logged.record for logged in await session.history(limit=100_000)]
    return [record for record in records if isinstance(record, CompactionApplied)]


def pages_of(codes_in: Sequence[int], words: int = 400) -> str:
    """Return a long text with a code in each of its pages."""
    return "\n".join(
        f"Page {code} is about code-{code}. " + " ".join(f"word{code}x{n}" for n in range(words)) for code in codes_in
    )


# Reading.


async def test_a_summariser_reads_all_of_a_long_message_of_any_size() -> None:
    """Inline, in a blob, and larger than its own window."""
    model = Talker(codes, window=16_000)
    async with a_hold(an_engine(model, bounds=ONLY_WHEN_ASKED)) as hold:
        session = await hold.session(KEY)
        await session.send(pages_of(range(100, 108), words=150))
        await session.send(pages_of(range(200, 215)))
        await session.send("and now?")

        await session.compact()

        read = read_by(model)
        assert {f"code-{code}" for code in (*range(100, 108), *range(200, 215))} <= set(_CODE.findall(read))
        assert "word214x399" in read, "up to the last word"
        leaves = [piece for piece in await pieces_of(session) if not piece.level]
        assert any(piece.offset for piece in leaves), "a message too long for one request is read in several"
        starts = [(piece.since, piece.since_offset) for piece in leaves]
        assert starts == [(0, 0), *((piece.until, piece.offset) for piece in leaves[:-1])]
        (applied,) = [one for one in await applied_of(session) if one.kind is SummaryKind.SUMMARY][-1:]
        assert (applied.unread, "code-100" in applied.summary) == (0, True)


async def test_no_original_is_read_twice_over_many_compactions() -> None:
    model = Talker(codes)
    async with a_hold(an_engine(model, clock=ManualClock())) as hold:
        session = await hold.session(KEY)
        for number in range(60):
            await session.send(
                f"message {number} is about code-{number}: " + f"the file part{number}.py has a bug. " * 20
            )

        read = _CODE.findall(read_by(model))
        assert len(read) == len(set(read)) > 40
        await ended_well(session)


# The tree.


async def test_the_notes_of_a_long_session_are_few_and_cover_all_of_it() -> None:
    model = Talker(
        lambda request: says(
            f"{'Merged' if is_merge(request) else 'Leaf'}: "
            + " ".join(f"Point {number} of {len(asked_of(request))} is settled." for number in range(12))
        )
    )
    async with a_hold(an_engine(model, clock=ManualClock())) as hold:
        session = await hold.session(KEY)
        await a_long_talk(session, messages=120)

        log = await open_log(hold.engine.store, KEY)
        nodes = frontier(log.turn)
        leaves = [piece for piece in await pieces_of(session) if not piece.level]
        assert len(leaves) > 20
        assert sum(node.weight for node in nodes) == len(leaves)
        assert len(nodes) <= 4
        (*_, last) = await applied_of(session)
        assert (last.kind, last.unread) == (SummaryKind.SUMMARY, 0)
        asked = [sum(is_merge(one) == kind for one in model.notes_asked) for kind in (False, True)]
        assert asked[1] <= 2 * asked[0], "merges cost no more calls than what they merge"


async def test_killed_at_every_write_of_reading_and_merging_each_node_is_paid_for_once() -> None:
    """FM-023, FM-101: before and after every write."""
    asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)
    bounds = Bounds(compacts_ahead=False)

    def notes(request: Request) -> Reply:
        return says(" ".join(f"Point {number} of {asked_of(request)[:40]!r}." for number in range(14)))

    async def prepared() -> tuple[MemoryStore, ManualClock]:
        clock = ManualClock()
        store = MemoryStore(clock=clock)
        async with a_hold(an_engine(Talker(notes, window=12_000), store=store, clock=clock, bounds=bounds)) as hold:
            session = await hold.session(KEY)
            await session.send(pages_of(range(100, 106), words=120))
            await a_long_talk(session, messages=2)
        return store, clock

    async def compacted(store: MemoryStore | CrashingStore, clock: ManualClock, model: Talker) -> None:
        async with a_hold(an_engine(model, store=store, clock=clock, bounds=bounds)) as hold:
            await (await hold.session(KEY)).compact()

    store, clock = await prepared()
    counting = CrashingStore(store)
    whole = Talker(notes, window=2_400)
    await compacted(counting, clock, whole)
    assert len(whole.notes_asked) >= 4
    assert any(map(is_merge, whole.notes_asked))
    for point in every_point(counting.writes):
        store, clock = await prepared()
        dying = CrashingStore(store, point)
        work = asyncio.create_task(compacted(dying, clock, Talker(notes, window=2_400)))
        died = asyncio.create_task(dying.died.wait())
        await asyncio.wait([work, died], return_when=asyncio.FIRST_COMPLETED)
        for task in (work, died):
            task.cancel()
        await asyncio.gather(work, died, return_exceptions=True)
        clock.advance(31)

        async with a_hold(an_engine(Talker(notes, window=2_400), store=store, clock=clock, bounds=bounds)) as hold:
            session = await hold.session(KEY)
            await session.compact()
            pieces = await pieces_of(session)
            ranges = [(piece.since, piece.since_offset, piece.until, piece.offset, piece.level) for piece in pieces]
            assert len(ranges) == len(set(ranges)), f"{point}: {ranges}"
            log = await open_log(store, KEY)
            assert sum(node.weight for node in frontier(log.turn)) == sum(not piece.level for piece in pieces), point


async def test_notes_that_are_paid_for_stay_where_the_summariser_stops_to_answer() -> None:
    """A digest then stands beside them, not in their place."""
    answers = [True]

    def notes(request: Request) -> Reply | Refusal:
        return codes(request) if answers[0] else says("")

    model = Talker(notes)
    async with a_hold(an_engine(model, clock=ManualClock())) as hold:
        session = await hold.session(KEY)
        await session.send("remember code-77 of the harbour: " + "it is needed later. " * 30)
        await a_long_talk(session, messages=12)
        answers[0] = False
        await a_long_talk(session, messages=12)

        (*_, last) = await applied_of(session)
        assert last.kind is SummaryKind.DIGEST
        assert "Codes: code-77" in last.summary
        assert f"No model has read #{last.unread} to" in last.summary


# Nothing is a cliff.


async def test_a_past_of_many_windows_is_read_in_idle_time_and_the_view_says_what_is_not_read() -> None:
    """More than forty portions, and more calls than a person should wait for."""
    large = Talker(codes, window=400_000, name="test:large")
    store, clock = MemoryStore(clock=ManualClock()), ManualClock()
    async with a_hold(an_engine(large, store=store, clock=clock, bounds=ONLY_WHEN_ASKED)) as hold:
        session = await hold.session(KEY)
        for code in range(180):
            await session.send(pages_of([code], words=100))

    small = Talker(codes, window=4_000, name="test:small")
    async with a_hold(an_engine(small, store=store, clock=clock)) as hold:
        session = await hold.session(KEY)
        assert (await session.send("go on")).text == "ok"
        waited = len(small.notes_asked)
        assert waited <= 8, "somebody waits for the answer"
        (first,) = await applied_of(session)
        assert first.unread > 0
        assert "No model has read" in first.summary
        for _ in range(40):
            await session.send("and on")
            await until_idle(hold)
            if not (await applied_of(session))[-1].unread:
                break
        (*_, last) = await applied_of(session)
        assert (last.unread, last.kind) == (0, SummaryKind.SUMMARY)
        assert len([piece for piece in await pieces_of(session) if not piece.level]) > 40
        assert {f"code-{code}" for code in range(180)} <= set(_CODE.findall(read_by(small)))
        requests = [logged.record for logged in await session.history(limit=100_000)]
        assert any(isinstance(one, CompactionRequested) and one.trigger is Trigger.DEBT for one in requests)


# Refusals.


async def test_useless_answers_of_one_compaction_are_bounded_and_do_not_hide_behind_useful_ones() -> None:
    """Leaves succeed, merges never do: the notes stand, and a day costs a bounded number of calls in vain."""
    usage = Usage(500, 20)

    def notes(request: Request) -> Reply:
        if is_merge(request):
            return Reply((Text(""),), StopReason.END, usage, "m")
        points = " ".join(f"Point {number} of {len(asked_of(request))}." for number in range(40))
        return Reply((Text(points),), StopReason.END, usage, "m")

    model = Talker(notes)
    async with a_hold(an_engine(model, clock=ManualClock())) as hold:
        session = await hold.session(KEY)
        await a_long_talk(session, messages=150)

        records = [logged.record for logged in await session.history(limit=100_000)]
        refused = [one for one in records if isinstance(one, SummaryRefused) and one.usage]
        pieces = await pieces_of(session)
        assert len(pieces) > 15
        assert len(refused) <= len(pieces) + 9
        in_one = 0
        for record in records:
            in_one = 0 if isinstance(record, CompactionApplied) else in_one + isinstance(record, SummaryRefused)
            assert in_one <= 4
        log = await open_log(hold.engine.store, KEY)
        assert len(frontier(log.turn)) <= 64, "without a model they are merged by rule"
        assert NOTES not in (await applied_of(session))[-1].summary
