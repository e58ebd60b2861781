"""What a person can do about the view: undo, pin, focus; and the system text, which is read anew each turn."""

from pathlib import Path

import pytest

from holdfast.types.messages import text_of
from holdfast.types.records import CompactionOutcome
from tests.e2e.world import DIALECTS, KEY, SMALL, a_world, ended_well, talk


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_compaction_can_be_undone_and_the_next_request_shows_everything_again(
    tmp_path: Path, dialect: str
) -> None:
    """FM-077, FM-078, FM-150: also after a restart."""
    async with a_world(tmp_path, dialect) as world:
        async with world.open(world.model(declared=SMALL)) as hold:
            session = await hold.session(KEY)
            await talk(session, messages=4)
            before = await session.view()
            assert (await session.compact()).outcome is CompactionOutcome.APPLIED
            assert (await session.view()).tokens_estimated < before.tokens_estimated

        async with world.open(world.model(declared=SMALL)) as hold:
            session = await hold.session(KEY)
            assert await session.undo() is True
            assert (await session.view()).messages == before.messages
            await session.send("go on")

        body = world.simulation.requests[-1].body
        assert all(f"src/part{number}.py".encode() in body for number in range(4))
        assert b"earlier-conversation" not in body


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_pinned_message_stays_verbatim_through_compactions_and_a_restart(tmp_path: Path, dialect: str) -> None:
    """FM-070, FM-072."""
    rule = "Never touch the main branch; ask Ada (ext. 4711) first."
    async with a_world(tmp_path, dialect) as world:
        async with world.open(world.model(declared=SMALL)) as hold:
            session = await hold.session(KEY)
            turn = await session.post(rule)
            await session.wait(turn)
            await session.pin(turn)
            await talk(session, messages=7)
            await session.compact()
        async with world.open(world.model(declared=SMALL)) as hold:
            session = await hold.session(KEY)
            await session.send("go on")
            assert text_of((await session.view()).messages[0].parts) == rule
            assert rule.encode() in world.simulation.requests[-1].body
            await session.pin(turn, keep=False)
            assert text_of((await session.view()).messages[0].parts) != rule
            await ended_well(session)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_the_focus_of_a_compaction_reaches_the_summariser(tmp_path: Path, dialect: str) -> None:
    """FM-077."""
    async with a_world(tmp_path, dialect) as world, world.open(world.model(declared=SMALL)) as hold:
        session = await hold.session(KEY)
        await talk(session, messages=4)

        await session.compact(focus="the colour of the bike shed")

        assert b"the colour of the bike shed" in world.notes_asked[-1].body


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_the_system_text_is_read_anew_for_every_turn_and_is_never_summarised(
    tmp_path: Path, dialect: str
) -> None:
    """FM-070, FM-076: rules come from their source, also after a compaction."""
    rules = ["Speak softly, rule one."]
    async with (
        a_world(tmp_path, dialect) as world,
        world.open(world.model(declared=SMALL), system=lambda: rules[-1]) as hold,
    ):
        session = await hold.session(KEY)
        await talk(session, messages=4)
        assert b"rule one" in world.simulation.requests[-1].body
        rules.append("Speak loudly, rule two.")
        await session.compact()

        await session.send("go on")

        assert b"rule two" in world.simulation.requests[-1].body
        assert b"rule one" not in world.simulation.requests[-1].body
        assert b"rule one" not in world.notes_asked[-1].body


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_session_has_a_system_text_of_its_own(tmp_path: Path, dialect: str) -> None:
    """FM-076: kept with the session."""
    async with a_world(tmp_path, dialect) as world:
        async with world.open(system="for everyone") as hold:
            await (await hold.session(KEY, system="for this one alone")).send("hello")
        async with world.open(system="for everyone") as hold:
            await (await hold.session(KEY)).send("hello")
            await (await hold.session("another")).send("hello")
    bodies = [seen.body for seen in world.simulation.requests]
    assert [b"for this one alone" in body for body in bodies] == [True, True, False]
