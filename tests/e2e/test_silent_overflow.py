"""A window that is full and nobody says so: the same turn is answered, with a notice and no error."""

from pathlib import Path

import pytest

from holdfast.errors import TurnFailedError
from holdfast.types.faults import Confidence, FaultKind
from holdfast.types.limits import Limits
from holdfast.types.records import AttemptFailed, CompactionApplied
from tests.e2e.world import DIALECTS, HASTY, KEY, a_world, ended_well, failures_of, records_of, talk

LARGE = Limits(window_tokens=100_000)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_after_a_request_that_is_cut_in_silence_the_next_one_is_smaller_and_answered_from_all_of_it(
    tmp_path: Path, dialect: str
) -> None:
    """FM-002, FM-006, FM-007: the count of what was read gives it away. The answer stays, and nothing is learned."""
    async with a_world(tmp_path, dialect, LARGE) as world:
        async with world.open(world.model("large"), bounds=HASTY) as hold:
            session = await hold.session(KEY)
            await session.send("remember harbour = Tromso")
            await talk(session, messages=9)
        # A small local model, as many serve it: what does not fit is dropped, the oldest first.
        world.simulation.set_faults("truncate:limit=3000*100")
        async with world.open(world.model("small"), bounds=HASTY) as hold:
            session = await hold.session(KEY)

            first = await session.send("what is harbour?")

            assert await failures_of(session) == [], "a complete answer is kept"
            assert any("seems to have read only about" in notice for notice in first.notices)
        async with world.open(world.model("small"), bounds=HASTY) as hold:
            session = await hold.session(KEY)
            answer = await session.send("what is harbour?")

            assert answer.text == "harbour = Tromso.", "also after a restart"
            assert any("represented by" in notice for notice in answer.notices)
            assert world.refused == []
            assert (await (await hold.session("another")).view()).window_tokens is None, "one suspicion is no claim"
            await ended_well(session)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_window_that_is_never_stated_is_learned_when_several_cuts_agree_on_it(
    tmp_path: Path, dialect: str
) -> None:
    """FM-007: usage stays the same while requests grow by different amounts. The window is learned, and told."""
    async with (
        a_world(tmp_path, dialect, LARGE) as world,
        world.open(world.model("quiet"), bounds=HASTY) as hold,
    ):
        world.simulation.set_faults("shift:limit=4000*1000")
        notices: list[str] = []
        for number in range(4):
            session = await hold.session(f"chat:{number}")
            for turn in range(12):
                answer = await session.send(f"{turn} " + "word " * (400 + 130 * ((number + turn) % 4)))
                notices += answer.notices
            await ended_well(session)

        assert world.refused == []
        (told,) = [notice for notice in notices if "which it does not say" in notice]
        assert told.startswith(f"{dialect}:quiet takes no more than about ")
        (learned,) = (await hold.engine.learning.everything()).values()
        assert 3_900 <= (learned.window_tokens or 0) <= 4_100
        before = sum(seen.tokens > 4_000 for seen in world.simulation.requests)
        session = await hold.session("another")
        await talk(session, messages=9)
        after = sum(seen.tokens > 4_000 for seen in world.simulation.requests)
        assert after <= before + 2, "not cut again, but for tests of the claim"


@pytest.mark.parametrize("declared", [Limits(window_tokens=10_000), Limits()], ids=["near", "unknown"])
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_an_answer_that_stops_for_its_length_before_it_begins_is_taken_for_a_full_window(
    tmp_path: Path, dialect: str, declared: Limits
) -> None:
    """FM-002."""
    async with (
        a_world(tmp_path, dialect, LARGE) as world,
        world.open(world.model(declared=declared), bounds=HASTY) as hold,
    ):
        session = await hold.session(KEY)
        await session.send("remember harbour = Tromso")
        await talk(session, messages=9)
        before = len(await records_of(session, CompactionApplied))
        world.simulation.set_faults("length*2")

        answer = await session.send("what is harbour?")

        assert answer.text == "harbour = Tromso."
        assert any("represented by" in notice for notice in answer.notices)
        assert set((await failures_of(session))[-2:]) <= {"token_overflow", "empty_response"}
        assert len(await records_of(session, CompactionApplied)) > before
        await ended_well(session)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_refusal_without_a_word_near_the_window_is_taken_for_an_overflow(tmp_path: Path, dialect: str) -> None:
    """FM-002: some servers answer 400 with nothing in it."""
    declared = Limits(window_tokens=9_500, output_tokens_max=500)
    async with (
        a_world(tmp_path, dialect, LARGE) as world,
        world.open(world.model(declared=declared), bounds=HASTY) as hold,
    ):
        session = await hold.session(KEY)
        await session.send("remember harbour = Tromso")
        await talk(session, messages=8)
        while (await session.view()).tokens_estimated < 0.82 * 9_500:
            await session.send("word " * 150)
        assert await failures_of(session) == [], "near the window, not beyond"
        world.simulation.set_faults("bare-400*2")

        answer = await session.send("what is harbour?")

        assert answer.text == "harbour = Tromso."
        assert await failures_of(session) == ["token_overflow"] * 2
        assert [seen.status for seen in world.refused] == [400] * 2
        assert any("represented by" in notice for notice in answer.notices)
        await ended_well(session)


async def test_a_refusal_without_a_word_that_does_not_come_again_changes_nothing(tmp_path: Path) -> None:
    """The overflow is a guess, so the request is repeated once before anything is made smaller."""
    declared = Limits(window_tokens=9_500, output_tokens_max=500)
    async with (
        a_world(tmp_path, limits=LARGE) as world,
        world.open(world.model(declared=declared), bounds=HASTY) as hold,
    ):
        session = await hold.session(KEY)
        await talk(session, messages=8)
        while (await session.view()).tokens_estimated < 0.82 * 9_500:
            await session.send("word " * 150)
        before = await session.view()
        world.simulation.set_faults("bare-400")

        answer = await session.send("hello")

        assert answer.notices == ()
        assert await failures_of(session) == ["token_overflow"]
        assert await records_of(session, CompactionApplied) == []
        assert (await session.view()).messages[: len(before.messages)] == before.messages
        assert (await session.view()).window_tokens == 9_500
        await ended_well(session)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_refusal_without_a_word_of_what_has_grown_a_lot_is_tried_smaller_and_learned_the_third_time(
    tmp_path: Path, dialect: str
) -> None:
    """FM-002, FM-007: nothing is known of the window; the guess is recorded as one, and learned when three agree."""
    async with (
        a_world(tmp_path, dialect, LARGE) as world,
        world.open(world.model(), bounds=HASTY) as hold,
    ):
        # A server in front that refuses long bodies with nothing but a status.
        world.simulation.fault_of = lambda body: "bare-400" if len(body) > 20_000 else ""
        windows: list[int | None] = []
        notices: list[str] = []
        for number in range(3):
            session = await hold.session(f"chat:{number}")
            await session.send("remember harbour = Tromso")
            await talk(session, messages=3)

            answer = await session.send("a longer message: " + "word " * 3_000)

            assert answer.text
            notices += answer.notices
            faults = [failed.fault for failed in await records_of(session, AttemptFailed)]
            guess = (FaultKind.TOKEN_OVERFLOW, Confidence.GUESS)
            assert [(fault.kind, fault.confidence) for fault in faults] == [guess] * 2, "the retry is refused as well"
            windows.append((await session.view()).window_tokens)
            assert (await session.send("what is harbour?")).text == "harbour = Tromso."
            await ended_well(session)
        assert windows[:2] == [None, None]
        assert windows[2] is not None
        assert any("which it does not say" in notice for notice in notices)
        assert [seen.status for seen in world.refused] == [400] * 6


async def test_a_refusal_without_a_word_that_less_does_not_cure_ends_the_turn_and_teaches_nothing(
    tmp_path: Path,
) -> None:
    async with a_world(tmp_path, limits=LARGE) as world, world.open(world.model(), bounds=HASTY) as hold:
        session = await hold.session(KEY)
        await talk(session, messages=3)
        world.simulation.set_faults("bare-400*100")

        with pytest.raises(TurnFailedError):
            await session.send("a longer message: " + "word " * 3_000)

        world.simulation.set_faults("")
        assert (await session.send("hello")).text.startswith("You said")
        assert (await session.view()).window_tokens is None
        await ended_well(session)
