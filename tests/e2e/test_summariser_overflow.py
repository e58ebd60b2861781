"""The summariser itself is refused: less, then pieces, then the next model, then the digest, and never a stop."""

from pathlib import Path

import pytest

from holdfast.types.records import CompactionApplied, PieceSummarised, SummaryKind, SummaryRefused
from tests.e2e.world import (
    DIALECTS,
    HASTY,
    KEY,
    SMALL,
    World,
    a_world,
    ended_well,
    notes_meet,
    records_of,
    rungs_of,
    talk,
)

# Enough to fill the window once.
FULL = 9


async def talked(world: World, *models: str) -> tuple[list[str], list[CompactionApplied]]:
    """Talk until the window was full once, and return the rungs and compactions. Every message was answered."""
    lineup = [world.model(name, declared=SMALL) for name in models or ("sim",)]
    async with world.open(*lineup, bounds=HASTY) as hold:
        session = await hold.session(KEY)
        await session.send("remember harbour = Tromso")
        await session.send("word " * 1_500)
        applied: list[CompactionApplied] = []
        for number in range(FULL):
            await talk(session, messages=1, first=number)
            applied = await records_of(session, CompactionApplied)
            if applied:
                break
        rungs = await rungs_of(session)
        assert (await session.send("what is harbour?")).text == "harbour = Tromso."
        await ended_well(session)
        return rungs, applied


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_summariser_that_is_refused_reads_less_at_once(tmp_path: Path, dialect: str) -> None:
    """FM-034, FM-108."""
    async with a_world(tmp_path, dialect) as world:
        world.simulation.fault_of = notes_meet("overflow", "ok")

        rungs, applied = await talked(world)

        assert rungs == ["clamp_output", "mask", "summarise", "summarise_less"]
        assert [one.kind for one in applied] == [SummaryKind.SUMMARY]


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_summariser_that_is_refused_again_reads_in_pieces(tmp_path: Path, dialect: str) -> None:
    """FM-034, FM-039."""
    async with a_world(tmp_path, dialect) as world:
        world.simulation.fault_of = notes_meet("overflow", "overflow", "ok")

        rungs, applied = await talked(world)

        assert rungs == ["clamp_output", "mask", "summarise", "summarise_less", "summarise_pieces"]
        assert [one.kind for one in applied] == [SummaryKind.SUMMARY]
        async with world.open() as hold:
            pieces = await records_of(await hold.session(KEY), PieceSummarised)
        parts = [piece for piece in pieces if not piece.level]
        assert len(parts) > 1
        assert [piece.since for piece in parts] == [0, *(piece.until for piece in parts[:-1])]


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_the_next_model_summarises_where_the_first_is_refused_in_every_way(tmp_path: Path, dialect: str) -> None:
    """FM-008, FM-034."""
    async with a_world(tmp_path, dialect) as world:
        world.simulation.fault_of = notes_meet("overflow", model="first")

        rungs, applied = await talked(world, "first", "second")

        ways = ["summarise", "summarise_less", "summarise_pieces"]
        assert rungs == ["clamp_output", "mask", *ways, "next_summariser", "summarise"]
        assert [(one.kind, one.model) for one in applied] == [(SummaryKind.SUMMARY, f"{dialect}:second")]
        answered = [seen.model for seen in world.simulation.requests if seen not in world.notes_asked]
        assert set(answered) == {"first"}, "who summarises and who answers are two questions"


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_where_no_model_can_summarise_a_digest_stands_for_the_past(tmp_path: Path, dialect: str) -> None:
    """FM-034, FM-043, FM-141: every attempt is on record."""
    async with a_world(tmp_path, dialect) as world:
        world.simulation.fault_of = notes_meet("overflow")

        rungs, applied = await talked(world, "first", "second")

        ways = ["summarise", "summarise_less", "summarise_pieces"]
        assert rungs == ["clamp_output", "mask", *ways, "next_summariser", *ways, "next_summariser", "digest"]
        assert [one.kind for one in applied] == [SummaryKind.DIGEST]
        async with world.open() as hold:
            refused = await records_of(await hold.session(KEY), SummaryRefused)
        assert {one.model for one in refused} == {f"{dialect}:first", f"{dialect}:second"}
        assert all(one.fault is not None and one.fault.kind.value == "token_overflow" for one in refused)
