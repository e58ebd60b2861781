"""Notes that ride on the warm prefix, over HTTP: the bytes, what the provider read from its cache, and what it cost."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.core.limits.bounds import Bounds
from holdfast.core.limits.prices import Prices
from holdfast.lab.benches.view import conversation_part
from holdfast.models.fake import SeenRequest
from holdfast.runtime.sessions.session import Session
from holdfast.types.limits import Limits
from holdfast.types.messages import Reply, StopReason, ToolCall, Usage
from holdfast.types.records import (
    CompactionApplied,
    CompactionOutcome,
    NoticePosted,
    PieceSummarised,
    SummaryKind,
    SummaryRefused,
)
from tests.e2e.world import ASKED_ONLY, DIALECTS, KEY, World, a_world, ended_well, is_for_notes, records_of, talk

# A dozen messages take two thirds of it, and a provider keeps nothing shorter than 1,024 tokens.
WIDE = Limits(window_tokens=16_000, output_tokens_max=1_500)
PRICES = Prices(3.0, 0.3, 15.0, 3.75)
RIDING_MARK = b"This message is not part of the conversation."


def rides(seen: SeenRequest) -> bool:
    return RIDING_MARK in seen.body


def ridden(world: World) -> list[SeenRequest]:
    """Return the requests that asked for notes behind the conversation."""
    return [seen for seen in world.notes_asked if rides(seen)]


def usual(world: World) -> list[SeenRequest]:
    """Return the requests that asked for notes on a rendered conversation."""
    return [seen for seen in world.notes_asked if not rides(seen)]


async def compacted(
    world: World, *, bounds: Bounds = ASKED_ONLY, declared: Limits = WIDE
) -> tuple[PieceSummarised, CompactionApplied]:
    """Talk, ask for a compaction, go on, and return the notes and what was made of them."""

    def look(number: int) -> str:
        """Look something up."""
        return f"found {number}"

    model = world.model(declared=declared, prices=PRICES, is_official=True)
    async with world.open(model, bounds=bounds, system="Be brief.", tools=[look]) as hold:
        session = await hold.session(KEY)
        await session.send("remember harbour = Tromso")
        await session.send('call look {"number": 1}')
        await talk(session, messages=10)

        assert (await session.compact()).outcome is CompactionOutcome.APPLIED

        assert (await session.send("what is harbour?")).text == "harbour = Tromso."
        await ended_well(session)
        return await made(session)


async def made(session: Session) -> tuple[PieceSummarised, CompactionApplied]:
    (piece,) = await records_of(session, PieceSummarised)
    (applied,) = await records_of(session, CompactionApplied)
    assert applied.kind is SummaryKind.SUMMARY
    return piece, applied


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_request_for_notes_begins_with_the_bytes_of_the_last_and_costs_a_fraction(
    tmp_path: Path, dialect: str
) -> None:
    """FM-144: most of it is read from the cache, and what that cost is told."""
    async with a_world(tmp_path, dialect, WIDE) as world:
        piece, applied = await compacted(world)

        (asked,) = ridden(world)
        assert usual(world) == []
        before = [seen for seen in world.simulation.requests if seen.number < asked.number][-1]
        assert asked.body.startswith(conversation_part(before.body))
        assert piece.usage is not None
        assert piece.usage.input_tokens == asked.tokens > before.tokens
        assert piece.usage.cached_input_tokens > 0.8 * piece.usage.input_tokens
        assert piece.is_riding
        assert piece.cost_usd == PRICES.cost(piece.usage) == applied.cost_usd
        async with world.open(world.model(declared=WIDE)) as hold:
            session = await hold.session(KEY)
            notices = [one.sentence for one in await records_of(session, NoticePosted) if one.code == "compacted"]
            assert "Making it cost $0.0" in notices[0]
            assert (await session.view()).spent_on_notes.cached_input_tokens == piece.usage.cached_input_tokens

    (tmp_path / "usual").mkdir()
    async with a_world(tmp_path / "usual", dialect, WIDE) as world:
        other, _ = await compacted(world, bounds=replace(ASKED_ONLY, summary_rides=False))

        assert (len(ridden(world)), len(usual(world))) == (0, 1)
        assert other.usage is not None
        assert other.usage.cached_input_tokens == 0
        read, read_usually = (PRICES.cost(replace(one.usage, output_tokens=0)) for one in (piece, other) if one.usage)
        assert read is not None
        assert read_usually is not None
        assert read < read_usually / 3, "what was read; how long notes are is another matter"
        assert piece.cost_usd is not None
        assert other.cost_usd is not None
        assert piece.cost_usd < other.cost_usd


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_an_answer_that_calls_a_tool_is_refused_and_notes_are_made_as_usual(tmp_path: Path, dialect: str) -> None:
    """FM-033, FM-144: the tool is not run, and what the answer cost is counted."""
    async with a_world(tmp_path, dialect, WIDE) as world:
        call = ToolCall("call_x", "look", '{"number": 2}')
        world.simulation.bad_notes = Reply((call,), StopReason.TOOL_CALLS, Usage(9_000, 9, 8_000), "sim")
        world.simulation.has_bad_notes = rides
        piece, applied = await compacted(world)

        assert (len(ridden(world)), len(usual(world)), piece.is_riding) == (1, 1, False)
        async with world.open(world.model(declared=WIDE)) as hold:
            (refused,) = await records_of(await hold.session(KEY), SummaryRefused)
        assert (refused.is_riding, refused.usage) == (True, Usage(9_000, 9, 8_000))
        assert applied.cost_usd == pytest.approx((refused.cost_usd or 0.0) + (piece.cost_usd or 0.0))
        assert b"call_x" not in world.simulation.requests[-1].body


# What is said takes about 7,800 tokens and the question 800; the answer is promised 1,500.
@pytest.mark.parametrize(("caches", "window"), [(False, 16_000), (True, 11_000)], ids=["cold", "small"])
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_where_the_cache_is_cold_or_the_window_small_notes_are_made_as_usual(
    tmp_path: Path, dialect: str, window: int, *, caches: bool
) -> None:
    async with a_world(tmp_path, dialect, WIDE) as world:
        world.simulation.caches = caches
        await compacted(world, declared=replace(WIDE, window_tokens=window))

        assert (len(ridden(world)), len(usual(world))) == (0, 1)


async def test_where_the_cheapest_model_summarises_it_is_asked_as_usual(tmp_path: Path) -> None:
    async with a_world(tmp_path, limits=WIDE) as world:
        cheap = world.model("cheap", declared=WIDE, prices=Prices(0.1, 0.01, 0.5))
        dear = world.model("dear", declared=WIDE, prices=PRICES)
        async with world.open(dear, cheap, bounds=replace(ASKED_ONLY, summariser="cheapest")) as hold:
            session = await hold.session(KEY)
            await talk(session, messages=10)

            await session.compact()

            _, applied = await made(session)
            assert applied.model == "openai:cheap"
            assert [seen.model for seen in usual(world)] == ["cheap"]
            assert ridden(world) == []


async def test_the_next_request_is_not_changed_by_the_question(tmp_path: Path) -> None:
    """FM-148: a summary that is looked at and not taken leaves the prefix as warm as it was."""
    async with a_world(tmp_path, limits=WIDE) as world:
        model = world.model(declared=WIDE, prices=PRICES)
        async with world.open(model, bounds=ASKED_ONLY) as hold:
            session = await hold.session(KEY)
            await talk(session, messages=6)
            before = world.simulation.requests[-1]

            ahead = await session.preview(with_model=True)
            await session.send("go on")

            assert ahead is not None
            assert ahead.summary
            assert len(ridden(world)) == 1
            after = world.simulation.requests[-1]
            assert not is_for_notes(after)
            assert after.body.startswith(conversation_part(before.body))
