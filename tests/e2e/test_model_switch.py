"""Another model in the middle of a session: what it gets fits at once, and thinking goes back to its issuer only."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.core.limits.bounds import Bounds
from holdfast.core.limits.prices import Prices
from holdfast.models.fake import Simulation
from holdfast.models.fake.server import serve_simulation
from holdfast.types.limits import Limits
from holdfast.types.messages import Reasoning
from holdfast.types.records import CompactionApplied, ReplyRecorded
from tests.e2e.world import (
    DIALECTS,
    HASTY,
    KEY,
    SMALL,
    WINDOW,
    World,
    a_message,
    a_world,
    ended_well,
    is_for_notes,
    records_of,
    talk,
)

LARGE = Limits(window_tokens=60_000, output_tokens_max=8_000)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_switch_to_a_small_window_is_reduced_before_the_first_request(tmp_path: Path, dialect: str) -> None:
    """FM-035, FM-069."""
    async with a_world(tmp_path, dialect, LARGE) as world:
        async with world.open(world.model("large", declared=LARGE), bounds=HASTY) as hold:
            session = await hold.session(KEY)
            await session.send("remember harbour = Tromso")
            await talk(session, messages=14)
        world.simulation.limits = SMALL

        async with world.open(world.model("small", declared=SMALL), bounds=HASTY) as hold:
            session = await hold.session(KEY)
            answer = await session.send("what is harbour?")

            assert answer.text == "harbour = Tromso."
            assert world.refused == []
            small = [seen for seen in world.simulation.requests if seen.model == "small"]
            assert max(seen.tokens for seen in small) < 6_000
            await ended_well(session)


async def test_what_is_kept_is_sized_by_the_model_that_answers_and_not_by_the_one_that_summarises(
    tmp_path: Path,
) -> None:
    """FM-035: the past fits the summariser's window many times over."""
    bounds = replace(HASTY, summariser="cheapest")
    async with a_world(tmp_path, limits=LARGE) as world:
        small = world.model("small", declared=SMALL, prices=Prices(10.0, None, 10.0))
        large = world.model("large", declared=LARGE, prices=Prices(0.1, None, 0.1))
        async with world.open(small, large, bounds=bounds) as hold:
            session = await hold.session(KEY)
            await talk(session, messages=9)

            (applied, *_) = await records_of(session, CompactionApplied)
            await ended_well(session)

        assert applied.model == "openai:large"
        assert {seen.model for seen in world.notes_asked} == {"large"}
        answered = [seen for seen in world.simulation.requests if not is_for_notes(seen)]
        assert {seen.model for seen in answered} == {"small"}
        assert max(seen.tokens for seen in answered) < WINDOW


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_session_can_be_told_to_use_another_model_by_name(tmp_path: Path, dialect: str) -> None:
    """FM-035: the choice is kept with the session."""
    async with a_world(tmp_path, dialect, LARGE) as world:
        async with world.open(bounds=HASTY) as hold:
            session = await hold.session(KEY, model=f"{dialect}:other")
            assert (await session.send("hello")).model == "other"
        async with world.open(bounds=HASTY) as hold:
            assert (await (await hold.session(KEY)).send("hello")).model == "other"


@pytest.mark.parametrize("thinks", ["think", "think quietly"])
async def test_signed_thinking_goes_back_to_its_issuer_and_to_nobody_else(tmp_path: Path, thinks: str) -> None:
    """FM-011, FM-064, FM-068, FM-069: to another dialect and back, to another model and back; nothing is refused."""
    async with a_world(tmp_path, "anthropic", LARGE) as world:
        lineup = {
            "thinker": world.model("thinker", declared=LARGE),
            "other": world.model("other", declared=LARGE),
            "foreign": world.model("foreign", declared=LARGE, dialect="openai"),
        }
        for number, name in enumerate(("thinker", "other", "foreign", "thinker", "foreign", "other", "thinker")):
            async with world.open(lineup[name], bounds=HASTY) as hold:
                session = await hold.session(KEY)
                answer = await session.send(f"{thinks} about {number}")
                assert answer.model == name

        assert world.refused == []
        async with world.open(lineup["thinker"], bounds=HASTY) as hold:
            session = await hold.session(KEY)
            replies = await records_of(session, ReplyRecorded)
            await ended_well(session)
        signed = [
            # Hidden thinking is kept with a mark in front, which does not go out on the wire.
            (reply.reply.model, part.opaque.rpartition(":")[2])
            for reply in replies
            for part in reply.reply.parts
            if isinstance(part, Reasoning) and part.opaque
        ]
        assert {model for model, _ in signed} == {"thinker", "other"}
        for seen in world.simulation.requests:
            foreign = [opaque for model, opaque in signed if model != seen.model]
            assert not any(opaque.encode() in seen.body for opaque in foreign)
        last = world.simulation.requests[-1]
        own = [opaque for model, opaque in signed[:-1] if model == "thinker"]
        assert own
        assert all(opaque.encode() in last.body for opaque in own), "and it does go back to its issuer"


async def test_signed_thinking_from_before_a_compaction_is_not_sent_behind_it(tmp_path: Path) -> None:
    """FM-065: a signature may be bound to what stood before it, and that is gone. Nothing is refused for it."""
    async with a_world(tmp_path, "anthropic", LARGE) as world:
        async with world.open(world.model(declared=SMALL), bounds=HASTY) as hold:
            session = await hold.session(KEY)
            for number in range(4):
                await session.send(f"think about {number}. " + a_message(number))
            replies = await records_of(session, ReplyRecorded)
            thoughts = [part for one in replies for part in one.reply.parts if isinstance(part, Reasoning)]
            kept = [part.opaque.encode() for part in thoughts if part.opaque]
            assert len(kept) == 4
            assert kept[-2] in world.simulation.requests[-1].body, "it goes back until then"
            await session.compact()
            asked = world.simulation.request_count

            await session.send("think about this")
            await session.send("think about that")

        assert world.refused == []
        first, second = list(world.simulation.requests)[asked:]
        assert not any(opaque in first.body + second.body for opaque in kept)
        assert b'"signature"' in second.body, "what came after it does go back"


async def test_a_tool_loop_that_is_compacted_goes_on_with_its_own_signed_thinking(tmp_path: Path) -> None:
    """FM-064, FM-065: what is older is left out; what the loop was last thinking goes back to the byte."""

    def look(number: int) -> str:
        """Look something up."""
        return a_message(number)[:300]

    # No output is masked, so that the past has to be represented in the middle of the turn.
    bounds = Bounds(compacts_ahead=False, outputs_kept=50)
    calls = " then ".join(f'call look {{"number": {number}}}' for number in range(9))
    async with (
        a_world(tmp_path, "anthropic", LARGE) as world,
        world.open(world.model(declared=SMALL), bounds=bounds, tools=[look]) as hold,
    ):
        session = await hold.session(KEY)
        await session.send("think about before" + " word" * 3_000)

        answer = await session.send(f"think, {calls}")

        assert answer.text.startswith("The tool look returned: message 8")
        assert world.refused == []
        records = await ended_well(session)
        (applied, *_) = [one.seq for one in records if isinstance(one.record, CompactionApplied)]
        opaque = {
            one.seq: part.opaque.encode()
            for one in records
            if isinstance(one.record, ReplyRecorded)
            for part in one.record.reply.parts
            if isinstance(part, Reasoning) and part.opaque
        }
        before = [seq for seq in opaque if seq < applied]
        seen = [one.body for one in world.simulation.requests if not is_for_notes(one)]
        # One request for each answer: the one behind the compaction is answered by the first reply behind it.
        behind = seen[len([one for one in records if isinstance(one.record, ReplyRecorded) and one.seq < applied])]
        assert opaque[before[-1]] in behind, "the newest step goes on with its thinking"
        assert opaque[before[0]] not in behind, "what was thought in an earlier turn does not"


async def test_thinking_of_the_same_model_at_another_endpoint_is_not_sent_back(tmp_path: Path) -> None:
    """FM-067, FM-069: a name alone does not make an issuer."""
    async with a_world(tmp_path, "anthropic", LARGE) as world, serve_simulation(Simulation(LARGE)) as elsewhere:
        async with world.open(bounds=HASTY) as hold:
            await (await hold.session(KEY)).send("think about it")
        moved = World(tmp_path, world.simulation, elsewhere, "anthropic")
        async with moved.open(bounds=HASTY) as hold:
            session = await hold.session(KEY)
            (reply,) = await records_of(session, ReplyRecorded)
            (signature,) = [part.opaque for part in reply.reply.parts if isinstance(part, Reasoning)]
            assert (await session.send("hello")).text.startswith("You said")
        assert signature
        assert all(signature.encode() not in seen.body for seen in world.simulation.requests)
