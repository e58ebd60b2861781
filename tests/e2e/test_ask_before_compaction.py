"""Whoever wants to be asked before a conversation is compacted is asked, and the session survives any answer."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.errors import TurnFailedError
from holdfast.runtime.sessions.session import Session
from holdfast.types.records import CompactionApplied, CompactionOutcome, OutputMasked
from tests.e2e.world import ASKED_ONLY, DIALECTS, KEY, SMALL, a_message, a_world, ended_well, records_of

ASK = replace(ASKED_ONLY, on_overflow="ask")


async def until_asked(session: Session, *, first: int = 0) -> TurnFailedError:
    """Talk until the window is full and the person is asked."""
    for number in range(first, first + 14):
        try:
            await session.send(a_message(number))
        except TurnFailedError as error:
            return error
    raise AssertionError("nobody was asked")


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_who_is_asked_and_just_goes_on_is_answered(tmp_path: Path, dialect: str) -> None:
    """FM-026: nothing is compacted behind anybody's back, and the next message works."""
    async with a_world(tmp_path, dialect) as world:
        async with world.open(world.model(declared=SMALL), bounds=ASK) as hold:
            session = await hold.session(KEY)
            await session.send("remember harbour = Tromso")

            asked = await until_asked(session)

            assert asked.reason == "overflow_choice"
            assert "Compact it, with a focus if you like, pin what must stay" in asked.sentence
            assert await records_of(session, CompactionApplied) == []
            assert await records_of(session, OutputMasked) == []
            assert world.notes_asked == []
        # Also where another process goes on.
        async with world.open(world.model(declared=SMALL), bounds=ASK) as hold:
            session = await hold.session(KEY)
            answer = await session.send("what is harbour?")

            assert answer.text == "harbour = Tromso."
            assert any("represented by" in notice for notice in answer.notices)
            await ended_well(session)


async def test_who_is_asked_and_compacts_is_asked_again_only_when_the_window_is_full_again(tmp_path: Path) -> None:
    """FM-026."""
    async with a_world(tmp_path) as world, world.open(world.model(declared=SMALL), bounds=ASK) as hold:
        session = await hold.session(KEY)
        await until_asked(session)

        settled = await session.compact(focus="the parts")

        assert settled.outcome is CompactionOutcome.APPLIED
        assert (await session.send("hello")).text.startswith("You said")
        asked = await until_asked(session, first=20)
        assert asked.reason == "overflow_choice"
        assert len(await records_of(session, CompactionApplied)) == 1
        await ended_well(session)
