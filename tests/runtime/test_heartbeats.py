"""Heartbeats: answered, recorded and searchable, read by no summary or memory, and dropped by a compaction."""

import msgspec
import pytest

from holdfast.errors import ClientIdReusedError
from holdfast.runtime.sessions.appending import Draft
from holdfast.testing.builders import ManualClock
from holdfast.testing.engines import a_hold, an_engine
from holdfast.types.messages import Message, Request, Role, Text, text_of
from holdfast.types.records import (
    CompactionApplied,
    CompactionOutcome,
    CompactionRequested,
    InputAdmitted,
    MessageAppended,
    SummaryKind,
)
from tests.runtime.summarisers import NOTES, ONLY_WHEN_ASKED, Talker, is_for_notes, records_of
from tests.runtime.talks import KEY, ended_well

BEAT = "heartbeat check: the tide gauge at Wismar reads 4711"


def words_of(request: Request) -> str:
    """Return all text of a request."""
    return msgspec.json.encode(request).decode()


def long_message(number: int) -> str:
    return f"message {number}: " + f"the file src/part{number}.py has a bug in line {number}. " * 20


async def test_a_heartbeat_is_answered_recorded_and_found_by_a_search() -> None:
    async with a_hold(an_engine(Talker(NOTES), bounds=ONLY_WHEN_ASKED)) as hold:
        session = await hold.session(KEY)

        answer = await session.send(BEAT, is_heartbeat=True)

        assert answer.text == "ok"
        assert await records_of(session, InputAdmitted) == [InputAdmitted((Text(BEAT),), is_heartbeat=True)]
        assert [hit.seq for hit in await session.search("Wismar")] == [1]
        assert (await session.view()).messages[0] == Message(Role.USER, (Text(BEAT),))
        assert [one.title for one in await hold.sessions()] == [""], "a heartbeat gives no title"


@pytest.mark.parametrize("notes", [NOTES, ""], ids=["a summary by the model", "a digest"])
async def test_no_summary_or_digest_reads_heartbeats_and_a_compaction_drops_all_of_them(notes: str) -> None:
    model = Talker(notes)
    async with a_hold(an_engine(model, bounds=ONLY_WHEN_ASKED, clock=ManualClock())) as hold:
        session = await hold.session(KEY)
        for number in range(8):
            await session.send(long_message(number) if number < 7 else "the last message")
            await session.send(f"{BEAT} number {number}", is_heartbeat=True)
        assert "Wismar" in words_of(model.requests[-1])

        assert (await session.compact()).outcome is CompactionOutcome.APPLIED
        await session.send("go on")

        *_, made = await records_of(session, CompactionApplied)
        assert isinstance(made, CompactionApplied)
        assert made.kind is (SummaryKind.SUMMARY if notes else SummaryKind.DIGEST)
        assert "src/part" in made.summary
        asked = [one for one in model.requests if is_for_notes(one)]
        assert asked
        assert all("Wismar" not in words_of(one) for one in asked)
        shown = words_of(model.requests[-1])
        assert "the last message" in shown, "heartbeats take no room among the messages that stay"
        assert "Wismar" not in shown, "neither in the summary nor among them"
        await ended_well(session)


async def test_an_undo_shows_heartbeats_again_and_a_pin_keeps_one() -> None:
    async with a_hold(an_engine(Talker(NOTES), bounds=ONLY_WHEN_ASKED, clock=ManualClock())) as hold:
        session = await hold.session(KEY)
        for number in range(7):
            await session.send(long_message(number))
        turn = await session.post(BEAT, is_heartbeat=True)
        await session.wait(turn)
        before = (await session.view()).messages
        await session.compact()
        assert "Wismar" not in str((await session.view()).messages)

        assert await session.undo()
        assert (await session.view()).messages == before
        await session.pin(turn)
        await session.compact()
        assert text_of((await session.view()).messages[-2].parts) == BEAT


async def test_heartbeats_alone_are_dropped_without_a_summary_and_without_calling_a_model() -> None:
    model = Talker(NOTES)
    async with a_hold(an_engine(model, bounds=ONLY_WHEN_ASKED, clock=ManualClock())) as hold:
        session = await hold.session(KEY)
        for number in range(6):
            await session.send(long_message(number), is_heartbeat=True)

        outcome = await session.compact()
        await session.send("what is new?")

        (made,) = await records_of(session, CompactionApplied)
        assert (outcome.outcome, model.notes_asked) == (CompactionOutcome.APPLIED, [])
        assert isinstance(made, CompactionApplied)
        assert made.summary == ""
        assert model.requests[-1].messages == (Message(Role.USER, (Text("what is new?"),)),)
        # Nothing is left that a summary could say, so none is requested later.
        assert len(await records_of(session, CompactionRequested)) == 1


async def test_a_window_full_of_heartbeats_never_stops_a_session() -> None:
    model = Talker(NOTES)
    async with a_hold(an_engine(model, clock=ManualClock())) as hold:
        session = await hold.session(KEY)
        await session.send("remember: the berth is 17")
        for number in range(30):
            await session.send(long_message(number), is_heartbeat=True)

        assert await records_of(session, CompactionApplied)
        assert all("src/part" not in words_of(one) for one in model.notes_asked)
        assert "the berth is 17" in words_of(model.requests[-1])
        await ended_well(session)


async def test_appended_heartbeats_and_the_answers_after_them_are_not_read_either() -> None:
    model = Talker(NOTES)
    async with a_hold(an_engine(model, bounds=ONLY_WHEN_ASKED, clock=ManualClock())) as hold:
        session = await hold.session(KEY)
        for number in range(7):
            await session.append([Message(Role.USER, (Text(long_message(number)),))])
            beat = Draft(Message(Role.USER, (Text(BEAT),)), is_heartbeat=True)
            await session.append([beat, Message(Role.ASSISTANT, (Text("Wismar is quiet"),))])
        await session.append([Message(Role.ASSISTANT, (Text("still quiet at Wismar"),))])

        await session.compact()

        assert "Wismar" not in str((await session.view()).messages)
        assert all("Wismar" not in words_of(one) for one in model.notes_asked)
        appended = [one for one in await records_of(session, MessageAppended) if isinstance(one, MessageAppended)]
        assert [one.is_heartbeat for one in appended[:3]] == [False, True, False]


async def test_the_same_id_with_and_without_the_mark_is_refused() -> None:
    async with a_hold(an_engine(Talker(NOTES))) as hold:
        session = await hold.session(KEY)
        await session.send("ping", client_id="a", is_heartbeat=True)

        with pytest.raises(ClientIdReusedError):
            await session.send("ping", client_id="a")
