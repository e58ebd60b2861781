"""A session that nothing but a roll-over can save, over HTTP, with every model down for summaries."""

from pathlib import Path

import pytest

from holdfast.errors import TurnFailedError
from holdfast.runtime.sessions.session import Session
from holdfast.types.messages import text_of
from holdfast.types.records import GenerationStarted, InputAdmitted
from tests.e2e.world import (
    DIALECTS,
    HASTY,
    KEY,
    SMALL,
    a_message,
    a_world,
    ended_well,
    notes_meet,
    records_of,
    rungs_of,
)

# Each has about 750 tokens and is too short to be replaced by itself.
PINNED_MAX = 12


async def pin_until_it_rolls_over(session: Session) -> tuple[GenerationStarted, tuple[str, ...]]:
    """Send messages and pin each, until the window is full of what must not leave it."""
    for number in range(PINNED_MAX):
        turn = await session.post(a_message(number))
        answer = await session.wait(turn)
        if started := await records_of(session, GenerationStarted):
            return started[-1], answer.notices
        await session.pin(turn)
    raise AssertionError("the window was never full")


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_session_that_only_a_roll_over_can_save_is_answered_and_goes_on(tmp_path: Path, dialect: str) -> None:
    async with a_world(tmp_path, dialect) as world:
        world.simulation.fault_of = notes_meet("500")
        models = [world.model("first", declared=SMALL), world.model("second", declared=SMALL)]
        async with world.open(*models, bounds=HASTY) as hold:
            session = await hold.session(KEY)
            await session.send("remember harbour = Tromso")

            started, notices = await pin_until_it_rolls_over(session)

            assert any("generation 2 of this session begins" in notice for notice in notices)
            assert (await rungs_of(session))[-1] == "roll_over"
            assert started.tokens_after < started.tokens_before / 2
            assert started.pins_left
            assert world.notes_asked == [], (
                "what is pinned stays, so no summary could have helped, and none is paid for"
            )
            assert (await session.send("what is harbour?")).text == "harbour = Tromso.", "the seed has it"

        # Another process: the generation holds, what came before is there, and it can be taken back.
        async with world.open(*models, bounds=HASTY) as hold:
            session = await hold.session(KEY)
            assert await session.generation() == 2
            assert (await session.send("hello")).text.startswith("You said")
            pinned = (await session.read(started.pins_left[0])).record
            assert isinstance(pinned, InputAdmitted)
            assert text_of(pinned.parts).startswith("message 0: the file src/part0.py")
            # The answers that quote it are shorter, so some may come before it.
            found = [hit.seq for hit in (await session.search("src/part0.py line 0"))[:3]]
            assert started.pins_left[0] in found
            assert await session.undo() is True
            assert await session.generation() == 1
            await ended_well(session)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_where_system_text_alone_exceeds_the_window_the_turn_ends_with_sizes_and_remedy(
    tmp_path: Path, dialect: str
) -> None:
    rules = ["Be brief."]
    async with a_world(tmp_path, dialect) as world:
        model = world.model(declared=SMALL)
        async with world.open(model, bounds=HASTY, system=lambda: rules[-1]) as hold:
            session = await hold.session(KEY)
            await session.send("hello")
            rules.append("Follow every rule of the harbour master. " * 900)

            with pytest.raises(TurnFailedError) as failed:
                await session.send("and now?")

            assert failed.value.reason == "token_overflow"
            assert "System text and tools alone exceed the window: shorten the system text" in failed.value.sentence
            assert await records_of(session, GenerationStarted) == [], "nothing is given up in vain"
            rules.append("Be brief.")
            assert (await session.send("and now?")).text.startswith("You said")
            await ended_well(session)
