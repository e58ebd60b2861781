"""Summaries: their requests fit, finished pieces are kept, digests are redone from originals, facts stay verbatim."""

import re
from collections.abc import Iterable

import pytest

from holdfast.core.limits.sizing import tokens_of_request
from holdfast.stores.memory import MemoryStore
from holdfast.testing.builders import ManualClock
from holdfast.testing.engines import a_hold, an_engine, refuses, says
from holdfast.types.faults import Refusal
from holdfast.types.messages import Reply, Request, text_of
from holdfast.types.records import (
    CompactionApplied,
    CompactionOutcome,
    InputAdmitted,
    PieceSummarised,
    ReplyRecorded,
    SummaryKind,
    SummaryRefused,
    encode_record,
)
from tests.runtime.summarisers import NOTES, ONLY_WHEN_ASKED, WINDOW, Talker, records_of
from tests.runtime.talks import KEY, OVERFLOW, a_long_talk, ended_well

# The past of a session that had a model with a large window: several times what the next model can read.
MESSAGES, LARGE = 40, 40 * WINDOW


async def with_a_long_past() -> tuple[MemoryStore, ManualClock]:
    clock = ManualClock()
    store = MemoryStore(clock=clock)
    async with a_hold(an_engine(Talker(NOTES, window=LARGE), store=store, clock=clock)) as hold:
        await a_long_talk(await hold.session(KEY), messages=MESSAGES)
    return store, clock


def asked(request: Request) -> str:
    return text_of(request.messages[0].parts)


def numbers(texts: Iterable[str]) -> set[int]:
    """Return the numbers of the messages whose beginning is in texts."""
    return {int(number) for text in texts for number in re.findall(r"message (\d+): ", text)}


async def test_every_request_for_a_summary_fits_the_summariser_however_long_the_past_is() -> None:
    """FM-034."""
    store, clock = await with_a_long_past()

    def strict(request: Request) -> Reply | Refusal:
        return refuses(400, OVERFLOW) if tokens_of_request(request) > WINDOW else says(NOTES)

    model = Talker(strict)
    async with a_hold(an_engine(model, store=store, clock=clock)) as hold:
        session = await hold.session(KEY)

        assert (await session.send("still there?")).text == "ok"

        assert len(model.notes_asked) > 2, "no single request could read the past"
        assert max(map(tokens_of_request, model.notes_asked)) <= WINDOW
        assert [one.why for one in await records_of(session, SummaryRefused) if isinstance(one, SummaryRefused)] == []
        (applied, *_) = await records_of(session, CompactionApplied)
        assert isinstance(applied, CompactionApplied)
        assert applied.kind is SummaryKind.SUMMARY
        await ended_well(session)


async def test_pieces_that_were_summarised_before_a_failure_are_not_read_again() -> None:
    """FM-039."""
    store, clock = await with_a_long_past()
    finished: list[str] = []

    def failing(request: Request) -> Reply | Refusal:
        if len(finished) == 2:
            return refuses(403, "blocked by content filter policy")
        finished.append(asked(request))
        return says(f"{NOTES} Piece {len(finished)}.")

    async with a_hold(an_engine(Talker(failing), store=store, clock=clock, bounds=ONLY_WHEN_ASKED)) as hold:
        session = await hold.session(KEY)
        await session.compact()
        assert len(await records_of(session, PieceSummarised)) == len(finished) == 2
        assert await records_of(session, SummaryRefused)

    better = Talker(NOTES)
    async with a_hold(an_engine(better, store=store, clock=clock, bounds=ONLY_WHEN_ASKED)) as hold:
        session = await hold.session(KEY)

        assert (await session.compact()).outcome is CompactionOutcome.APPLIED

        assert better.notes_asked
        # A piece may end in the middle of a message, which is then read on.
        before, after = numbers(finished), numbers(map(asked, better.notes_asked))
        assert max(before) > 5
        assert before & after <= {max(before)}, "nothing is read twice"
        *_, applied = await records_of(session, CompactionApplied)
        assert isinstance(applied, CompactionApplied)
        assert applied.kind is SummaryKind.SUMMARY


async def test_a_digest_keeps_a_tail_and_its_summary_is_made_from_the_originals() -> None:
    """FM-048."""
    model = Talker(refuses(403, "blocked by content filter policy"))
    async with a_hold(an_engine(model, bounds=ONLY_WHEN_ASKED)) as hold:
        session = await hold.session(KEY)
        await a_long_talk(session, messages=5)
        await session.compact()
        (digest,) = await records_of(session, CompactionApplied)
        assert isinstance(digest, CompactionApplied)
        tail = [text_of(message.parts) for message in (await session.view()).messages[1:]]
        assert any(text.startswith("message 4: ") for text in tail), "verbatim"
        model._notes = [NOTES]
        model.notes_asked.clear()

        await session.compact()

        read = "".join(map(asked, model.notes_asked))
        assert "message 0: the file src/part0.py has a bug in line 0." in read
        assert digest.summary not in read
        assert [line for line in digest.summary.splitlines() if len(line) > 60 and line in read] == []


async def test_a_digest_in_the_middle_of_a_turn_keeps_earlier_turns_verbatim() -> None:
    """FM-048: not only the newest message, with which the model could not go on."""
    model = Talker(refuses(403, "blocked by content filter policy"))
    async with a_hold(an_engine(model, bounds=ONLY_WHEN_ASKED)) as hold:
        session = await hold.session(KEY)
        sent = 0
        while not await records_of(session, CompactionApplied):
            await session.send(f"message {sent}: " + "the tide is low. " * 20)
            sent += 1
        (digest,) = await records_of(session, CompactionApplied)
        assert isinstance(digest, CompactionApplied)
        assert digest.kind is SummaryKind.DIGEST
        shown = [text_of(message.parts) for message in (await session.view()).messages[1:]]
        assert len([text for text in shown if text.startswith("message ")]) >= 3
        assert shown[-2].startswith(f"message {sent - 1}: ")


async def test_facts_are_in_the_view_verbatim_although_the_summary_names_none() -> None:
    """FM-072."""
    facts = ("HF-7c1e90ab", "/charts/baltic/2031.pdf", "https://harbour.example/b/12?x=3", "v4.17.2")
    model = Talker("Goal: go on. Done: nothing. State: fine.", window=20_000)
    async with a_hold(an_engine(model, bounds=ONLY_WHEN_ASKED)) as hold:
        session = await hold.session(KEY)
        for fact in facts:
            await session.send(f"Remember that we agreed on {fact} here.")
        await a_long_talk(session, messages=20)
        await session.compact()

        shown = [text_of(message.parts) for message in (await session.view()).messages]

        assert not any(text.startswith("Remember") for text in shown), "all of them are behind the boundary"
        assert [fact for fact in facts if fact not in shown[0]] == []


@pytest.mark.parametrize("notes", [NOTES, refuses(403, "blocked by content filter policy")], ids=["summary", "digest"])
async def test_what_represents_the_past_is_no_message_of_anybody(notes: str | Refusal) -> None:
    """FM-140: it is a record of its own kind, and in the view it says what it is."""
    async with a_hold(an_engine(Talker(notes), bounds=ONLY_WHEN_ASKED)) as hold:
        session = await hold.session(KEY)
        await a_long_talk(session, messages=5)
        before = [one for one in await session.history(limit=1_000) if isinstance(one.record, InputAdmitted)]
        await session.compact()
        answer = await session.send("go on")

        records = await session.history(limit=1_000)
        (applied,) = [one.record for one in records if isinstance(one.record, CompactionApplied)]
        messages = [one.record for one in records if isinstance(one.record, InputAdmitted | ReplyRecorded)]
        shown = await session.view()
        assert answer.text == "ok"
        assert len([one for one in messages if isinstance(one, InputAdmitted)]) == len(before) + 1
        line = next(line for line in applied.summary.splitlines() if len(line) > 40)
        assert [one for one in messages if line.encode() in encode_record(one)] == []
        assert line in text_of(shown.messages[0].parts)
