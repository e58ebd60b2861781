"""Providers that report a usage which is not the size of the request: nothing is compacted for it, and nothing dies."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.core.fold.session_state import QUIET_TURNS
from holdfast.types.limits import Limits
from holdfast.types.messages import Usage
from holdfast.types.records import CompactionApplied, CompactionRequested, Trigger, TurnEnded
from tests.e2e.world import (
    DIALECTS,
    HASTY,
    KEY,
    World,
    a_message,
    a_world,
    at_rest,
    ended_well,
    records_of,
)

WINDOW = Limits(window_tokens=16_000, output_tokens_max=1_000)
AHEAD = replace(HASTY, compacts_ahead=True)
# About three windows.
MESSAGES = 60


def summed() -> Callable[[Usage], Usage]:
    """Return reports that add up over the session."""
    total = 0

    def report(usage: Usage) -> Usage:
        nonlocal total
        total += usage.input_tokens
        return replace(usage, input_tokens=total)

    return report


def corrupt(*, every: int) -> Callable[[Usage], Usage]:
    """Return reports of which every so-manieth is corrupt."""
    count = 0

    def report(usage: Usage) -> Usage:
        nonlocal count
        count += 1
        return replace(usage, input_tokens=usage.input_tokens * 40) if count % every == 0 else usage

    return report


def without_cached(usage: Usage) -> Usage:
    """Return what older local servers report."""
    return Usage(usage.input_tokens - usage.cached_input_tokens, usage.output_tokens)


REPORTS: dict[str, Callable[[], Callable[[Usage], Usage]]] = {
    "cached twice": lambda: lambda usage: replace(usage, input_tokens=usage.input_tokens + usage.cached_input_tokens),
    "summed": summed,
    "corrupt once in nine": lambda: corrupt(every=9),
    "corrupt always": lambda: corrupt(every=1),
    "nothing": lambda: lambda _: Usage(),
}


async def compactions(world: World) -> int:
    """Return how often a long conversation is compacted. Each message must be answered."""
    async with world.open(world.model(declared=WINDOW), bounds=AHEAD) as hold:
        session = await hold.session(KEY)
        for number in range(MESSAGES):
            assert (await session.send(a_message(number))).text
            await at_rest(hold)
        await ended_well(session)
        return len(await records_of(session, CompactionApplied))


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_cached_tokens_that_are_not_reported_make_no_compaction_and_prevent_none(
    tmp_path: Path, dialect: str
) -> None:
    """FM-012: the window is used as with a provider that reports all that it read."""
    (tmp_path / "honest").mkdir()
    async with a_world(tmp_path / "honest", dialect, WINDOW) as honest:
        expected = await compactions(honest)
    async with a_world(tmp_path, dialect, WINDOW) as world:
        world.simulation.usage_of = without_cached

        made = await compactions(world)

        assert expected > 2
        assert expected - 1 <= made <= expected + 1
        assert world.refused == [], "the window was never exceeded"


@pytest.mark.parametrize("report", REPORTS)
async def test_usage_that_is_never_right_costs_no_answer(tmp_path: Path, report: str) -> None:
    """FM-012, FM-016: older messages may be represented sooner, and every message is answered."""
    async with a_world(tmp_path, "openai", WINDOW) as world:
        world.simulation.usage_of = REPORTS[report]()

        assert await compactions(world) > 2
        assert world.refused == [], "the window was never exceeded"


@pytest.mark.parametrize("report", REPORTS)
async def test_early_compactions_are_turns_apart_whatever_usage_is_reported(tmp_path: Path, report: str) -> None:
    """FM-016: a provider that reports a full window with every answer does not make every turn a compaction."""
    async with a_world(tmp_path, "openai", WINDOW) as world:
        world.simulation.usage_of = REPORTS[report]()
        async with world.open(world.model(declared=WINDOW), bounds=AHEAD) as hold:
            session = await hold.session(KEY)
            for number in range(MESSAGES):
                await session.send(a_message(number))
                await at_rest(hold)
            records = [one.record for one in await ended_well(session)]

    turns = 0
    requested: list[int] = []
    for record in records:
        turns += isinstance(record, TurnEnded)
        if isinstance(record, CompactionRequested):
            assert record.trigger in {Trigger.AHEAD, Trigger.DEBT}
            requested.append(turns)
    assert len(requested) > 2
    assert min(later - earlier for earlier, later in pairwise(requested)) >= QUIET_TURNS
