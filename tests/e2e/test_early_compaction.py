"""Before the window is full: the person is warned, room is made while nobody waits, and debts are paid."""

from pathlib import Path

import pytest

from holdfast.core.fold.session_state import QUIET_TURNS
from holdfast.core.limits.bounds import Bounds
from holdfast.types.records import (
    AttemptFailed,
    CompactionApplied,
    CompactionOutcome,
    CompactionRequested,
    CompactionSettled,
    SummaryKind,
    Trigger,
    WindowWarned,
)
from tests.e2e.world import DIALECTS, KEY, SMALL, a_world, at_rest, ended_well, notes_meet, records_of, talk

AHEAD = Bounds(back_off_seconds_min=0.001, back_off_seconds_max=0.01)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_the_person_is_warned_at_each_level_once(tmp_path: Path, dialect: str) -> None:
    """FM-012, FM-138."""
    async with a_world(tmp_path, dialect) as world, world.open(world.model(declared=SMALL)) as hold:
        session = await hold.session(KEY)

        for _ in range(22):
            await session.send("word " * 180)

        rounds: list[list[int]] = [[]]
        for logged in await ended_well(session):
            if isinstance(logged.record, WindowWarned):
                rounds[-1].append(logged.record.percent)
            elif isinstance(logged.record, CompactionApplied):
                rounds.append([])
        assert len(rounds) > 1
        assert rounds[0] == [70, 85, 95]


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_room_is_made_while_nobody_waits_so_that_nobody_ever_does(tmp_path: Path, dialect: str) -> None:
    """FM-094, FM-144."""
    async with (
        a_world(tmp_path, dialect) as world,
        world.open(world.model(declared=SMALL), bounds=AHEAD) as hold,
    ):
        session = await hold.session(KEY)
        number = 0
        while not await records_of(session, WindowWarned):
            await talk(session, messages=1, first=number)
            await at_rest(hold)
            number += 1

        settled = await records_of(session, CompactionSettled)
        assert [one.outcome for one in settled] == [CompactionOutcome.APPLIED]
        assert CompactionRequested(Trigger.AHEAD) in await records_of(session, CompactionRequested)
        assert await records_of(session, AttemptFailed) == [], "no request was ever too large"
        await ended_well(session)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_digest_is_redone_by_a_model_when_one_is_back(tmp_path: Path, dialect: str) -> None:
    """FM-048."""
    async with (
        a_world(tmp_path, dialect) as world,
        world.open(world.model(declared=SMALL), bounds=AHEAD) as hold,
    ):
        session = await hold.session(KEY)
        await session.send("remember harbour = Tromso")
        await talk(session, messages=3)
        world.simulation.fault_of = notes_meet("content-filter")
        assert (await session.compact()).outcome is CompactionOutcome.APPLIED
        digested = await session.view()
        world.simulation.fault_of = lambda _: ""
        for number in range(QUIET_TURNS + 1):
            await session.send(f"short {number}")
            await at_rest(hold)

        paid = (await records_of(session, CompactionApplied))[1:]
        assert [one.kind for one in paid] == [SummaryKind.SUMMARY]
        assert paid[0].boundary >= digested.boundary
        assert CompactionRequested(Trigger.DEBT) in await records_of(session, CompactionRequested)
        assert (await session.send("what is harbour?")).text == "harbour = Tromso."
