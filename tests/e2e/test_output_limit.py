"""Output is a budget of its own: a request that asks for too long an answer is sent again as it is, asking for less."""

from pathlib import Path

import msgspec
import pytest

from holdfast.models.fake import SeenRequest
from holdfast.types.limits import Limits
from holdfast.types.records import CompactionApplied, OutputClamped
from tests.e2e.world import (
    DIALECTS,
    HASTY,
    KEY,
    a_message,
    a_world,
    ended_well,
    failures_of,
    records_of,
    rungs_of,
    talk,
)


def output_asked(seen: SeenRequest) -> int | None:
    """Return how long an answer a request asks for."""
    body = msgspec.json.decode(seen.body)
    most: int | None = body.get("max_tokens", body.get("max_completion_tokens"))
    return most


@pytest.mark.parametrize(
    ("dialect", "declared"), [("openai", Limits(output_tokens_max=4_096)), ("anthropic", Limits())]
)
async def test_a_model_that_writes_less_than_it_is_asked_for_teaches_that_once(
    tmp_path: Path, dialect: str, declared: Limits
) -> None:
    """FM-006: the same turn is answered, and no session or process runs into it again."""
    async with a_world(tmp_path, dialect, Limits(output_tokens_max=2_048)) as world:
        async with world.open(world.model(declared=declared), bounds=HASTY) as hold:
            session = await hold.session(KEY)

            answer = await session.send("hello")

            assert answer.text.startswith('You said: "hello"')
            assert [output_asked(seen) for seen in world.simulation.requests] == [4_096, 2_048]
            assert await failures_of(session) == ["bad_request"]
            assert await rungs_of(session) == ["clamp_output"]
            assert await records_of(session, OutputClamped) == [OutputClamped(1, 2_048)]
            assert any("2,048" in notice for notice in answer.notices)
            await (await hold.session("another")).send("hello")
            await session.send("and again")
            await ended_well(session)

        async with world.open(world.model(declared=declared), bounds=HASTY) as hold:
            await (await hold.session("third")).send("hello")
        assert len(world.refused) == 1, "what one session learned is known to all, and kept"


@pytest.mark.parametrize(("dialect", "declared"), [("openai", Limits(None, 6_000)), ("anthropic", Limits(None, 6_000))])
async def test_where_only_prompt_and_output_together_are_too_much_less_output_is_asked_for(
    tmp_path: Path, dialect: str, declared: Limits
) -> None:
    """FM-154: the window has room for an answer, so nothing is compacted, and the view is the same."""
    async with a_world(tmp_path, dialect, Limits(window_tokens=8_000)) as world:
        async with world.open(world.model(declared=declared), bounds=HASTY) as hold:
            session = await hold.session(KEY)
            await session.send("hello")

            answer = await session.send(a_message(1) * 5)

            first, second = list(world.simulation.requests)[-2:]
            assert answer.text.startswith('You said: "message 1')
            assert (first.status, second.status) == (400, 200)
            assert first.tokens == second.tokens, "the same view"
            assert output_asked(first) == 6_000
            assert output_asked(second) == 8_000 - first.tokens - 32
            assert await records_of(session, CompactionApplied) == []
            assert await rungs_of(session) == ["clamp_output"]
            assert any("shorter" in notice or "longer answer" in notice for notice in answer.notices)
            await ended_well(session)
        assert len(world.refused) == 1


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_where_too_little_would_be_left_for_an_answer_room_is_made_instead(tmp_path: Path, dialect: str) -> None:
    """FM-031: what cannot help is passed over without a call."""
    real, declared = Limits(window_tokens=8_000), Limits(output_tokens_max=2_000)
    async with (
        a_world(tmp_path, dialect, real) as world,
        world.open(world.model(declared=declared), bounds=HASTY) as hold,
    ):
        session = await hold.session(KEY)
        await talk(session, messages=5)
        taken = world.simulation.requests[-1].tokens

        answer = await session.send("word " * (7_500 - taken))

        (refused,) = world.refused
        assert 8_000 - 1_024 < refused.tokens < 8_000, "the prompt alone fits"
        assert output_asked(refused) == 2_000
        assert (await rungs_of(session))[:3] == ["clamp_output", "mask", "summarise"]
        assert await records_of(session, OutputClamped) == []
        assert any("represented by a summary" in notice for notice in answer.notices)
        await ended_well(session)


async def test_a_summariser_is_asked_for_no_more_than_it_writes(tmp_path: Path) -> None:
    """FM-034: what one model writes at most is learned from its own refusal, and the notes are asked for again."""
    real, declared = Limits(window_tokens=20_000, output_tokens_max=300), Limits(window_tokens=20_000)
    async with (
        a_world(tmp_path, "openai", real) as world,
        world.open(world.model(declared=declared), bounds=HASTY) as hold,
    ):
        session = await hold.session(KEY)
        await talk(session, messages=9)

        settled = await session.compact()

        assert settled.outcome.value == "applied"
        asked = [(seen.status, output_asked(seen) == 300) for seen in world.notes_asked]
        assert asked == [(400, False), (200, True)]
        assert {one.kind.value for one in await records_of(session, CompactionApplied)} == {"summary"}
