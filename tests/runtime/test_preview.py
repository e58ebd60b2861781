"""Looking ahead at a compaction: the same plan as the real one, nothing written, and nothing paid for twice."""

import pytest

import holdfast
from holdfast.core.limits.bounds import Bounds
from holdfast.runtime.sessions.session import Session
from holdfast.testing.engines import a_hold, an_engine, refuses, says
from holdfast.types.faults import Refusal
from holdfast.types.messages import Reply, Request, text_of
from holdfast.types.records import CompactionApplied, CompactionOutcome, PieceSummarised, SummaryKind
from tests.runtime.summarisers import NOTES, ONLY_WHEN_ASKED, Talker, records_of
from tests.runtime.talks import KEY, OVERFLOW, a_long_talk, ended_well

BLOCKED = refuses(403, "blocked by content filter policy")


async def foreseen(session: Session, *, focus: str = "", with_model: bool = False) -> holdfast.Preview:
    seen = await session.preview(focus=focus, with_model=with_model)
    assert seen is not None
    return seen


async def last_applied(session: Session) -> CompactionApplied:
    applied = [one for one in await records_of(session, CompactionApplied) if isinstance(one, CompactionApplied)]
    return applied[-1]


@pytest.mark.parametrize("messages", [3, 6])
async def test_a_compaction_without_a_model_does_exactly_what_was_foreseen(messages: int) -> None:
    model = Talker(BLOCKED)
    async with a_hold(an_engine(model, bounds=ONLY_WHEN_ASKED)) as hold:
        session = await hold.session(KEY)
        await a_long_talk(session, messages=messages)
        before = await session.history(limit=10_000)
        seen = await session.view()

        ahead = await foreseen(session)

        assert await session.history(limit=10_000) == before, "nothing is written"
        assert model.notes_asked == [], "and nobody is asked"
        assert (await session.compact()).outcome is CompactionOutcome.APPLIED
        done = await last_applied(session)
        assert (ahead.boundary, ahead.step, ahead.tokens_before, ahead.tokens_after, ahead.digest) == (
            done.boundary,
            done.step,
            done.tokens_before,
            done.tokens_after,
            done.summary,
        )
        # What is shown then is what stands for the past and what was said to stay.
        after = await session.view()
        assert len(after.messages) == ahead.messages_kept + 1
        assert ahead.messages == len(seen.messages) - ahead.messages_kept
        assert (ahead.first_seq, ahead.turns) == (1, ahead.messages // 2)
        assert ahead.last_seq < ahead.boundary + 1


async def test_a_summary_that_was_foreseen_is_applied_as_it_is_and_not_paid_for_again() -> None:
    model = Talker(NOTES)
    async with a_hold(an_engine(model, bounds=ONLY_WHEN_ASKED)) as hold:
        session = await hold.session(KEY)
        await a_long_talk(session, messages=5)

        ahead = await foreseen(session, focus="the bike shed", with_model=True)
        again = await foreseen(session, focus="the bike shed", with_model=True)

        assert (ahead.model, NOTES in ahead.summary, ahead.summary == again.summary) == ("test:model", True, True)
        assert NOTES in again.digest, "what is paid for stands in a digest too"
        assert (await session.view()).boundary == 0, "nothing is changed yet"
        settled = await session.compact(focus="the bike shed")
        done = await last_applied(session)
        assert (settled.outcome, done.kind) == (CompactionOutcome.APPLIED, SummaryKind.SUMMARY)
        assert (done.summary, done.boundary, done.tokens_after) == (ahead.summary, ahead.boundary, ahead.tokens_after)
        assert len(model.notes_asked) == 1
        await ended_well(session)


async def test_notes_made_for_another_focus_are_made_anew() -> None:
    model = Talker("Goal: mend the parts.", "Goal: mend the parts. The shed is blue.")
    async with a_hold(an_engine(model, bounds=ONLY_WHEN_ASKED)) as hold:
        session = await hold.session(KEY)
        await a_long_talk(session, messages=5)
        await foreseen(session, with_model=True)

        await session.compact(focus="the bike shed")

        assert "The shed is blue." in (await last_applied(session)).summary
        assert "the bike shed" in text_of(model.notes_asked[-1].messages[0].parts)
        assert len(model.notes_asked) == 2


async def test_notes_in_pieces_and_merged_are_paid_for_once_too() -> None:
    def picky(request: Request) -> Reply | Refusal:
        asked = text_of(request.messages[0].parts)
        if "Below are notes" in asked:
            return says("Goal: all of it as one.")
        return (
            refuses(400, OVERFLOW)
            if len(asked) > 6_000
            else says(" ".join(f"Part {number} of it is done." for number in range(30)))
        )

    model = Talker(picky)
    async with a_hold(an_engine(model, bounds=ONLY_WHEN_ASKED)) as hold:
        session = await hold.session(KEY)
        await a_long_talk(session, messages=8)

        ahead = await foreseen(session, with_model=True)

        pieces = [one for one in await records_of(session, PieceSummarised) if isinstance(one, PieceSummarised)]
        assert [one.level for one in pieces] == [*[0] * (len(pieces) - 1), 1]
        assert len(pieces) > 2
        asked = len(model.notes_asked)
        await session.compact()
        assert (await last_applied(session)).summary == ahead.summary
        assert len(model.notes_asked) == asked


async def test_where_no_model_gives_a_summary_the_preview_says_why_and_shows_the_digest() -> None:
    async with a_hold(an_engine(Talker(BLOCKED), Talker(says("")), bounds=ONLY_WHEN_ASKED)) as hold:
        session = await hold.session(KEY)
        await a_long_talk(session, messages=5)

        ahead = await foreseen(session, with_model=True)

        assert (ahead.summary, ahead.model) == ("", "")
        assert {why.partition(": ")[2][:14] for why in ahead.refused} == {"content_policy", "it is empty"}
        assert "src/part0.py" in ahead.digest


async def test_what_is_pinned_is_foreseen_to_stay() -> None:
    async with a_hold(an_engine(Talker(BLOCKED), bounds=ONLY_WHEN_ASKED)) as hold:
        session = await hold.session(KEY)
        await a_long_talk(session, messages=5)
        await session.pin(1)

        ahead = await foreseen(session)
        await session.compact()

        assert ahead.pins == (1,)
        assert (await last_applied(session)).tokens_after == ahead.tokens_after, "pins are counted"


async def test_a_debt_is_foreseen_to_be_paid_without_anything_leaving() -> None:
    model = Talker(BLOCKED, BLOCKED, BLOCKED, NOTES)
    async with a_hold(an_engine(model, bounds=ONLY_WHEN_ASKED)) as hold:
        session = await hold.session(KEY)
        await a_long_talk(session, messages=5)
        await session.compact()
        digest = await last_applied(session)

        plain, ahead = await foreseen(session), await foreseen(session, with_model=True)
        await session.compact()

        assert (plain.messages, plain.boundary, plain.tokens_after) == (0, digest.boundary, digest.tokens_after)
        paid = await last_applied(session)
        assert (paid.kind, paid.summary, paid.tokens_after) == (SummaryKind.SUMMARY, ahead.summary, ahead.tokens_after)


async def test_where_there_is_nothing_to_compact_there_is_nothing_to_see() -> None:
    async with a_hold(an_engine(Talker(NOTES), bounds=Bounds())) as hold:
        session = await hold.session(KEY)
        assert await session.preview() is None
        await session.send("hi")

        assert await session.preview() is None
        assert await session.preview(with_model=True) is None


async def test_a_turn_is_followed_from_its_start_whoever_posted_it() -> None:
    async with a_hold(an_engine(Talker(NOTES))) as hold:
        session = await hold.session(KEY)
        turn = await session.post("hi")
        await session.wait(turn)

        events = [event async for event in session.follow(turn)]

        assert [event.text for event in events if isinstance(event, holdfast.TextDelta)] == ["ok"]
        assert isinstance(events[0], holdfast.Logged)
        with pytest.raises(holdfast.BadInputError, match="no turn 99"):
            await anext(session.follow(99))
