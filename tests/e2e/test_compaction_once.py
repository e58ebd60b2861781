"""One compaction at a time, over tasks and processes, and across a death at every write of it."""

import asyncio
import shutil
import signal
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.runtime.sessions.session import Session
from holdfast.testing.crashes import CrashPoint, every_point
from holdfast.types.records import (
    CompactionApplied,
    CompactionOutcome,
    CompactionRequested,
    CompactionSettled,
    Logged,
    PieceSummarised,
    RungStarted,
    SummaryKind,
    Trigger,
    TurnStarted,
)
from tests.e2e import child
from tests.e2e.world import (
    ASKED_ONLY,
    DIALECTS,
    KEY,
    SMALL,
    World,
    a_message,
    a_world,
    at_rest,
    ended_well,
    next_record,
    records_of,
    talk,
)
from tests.runtime.talks import check_who_asked_before_got_it


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_fifty_requests_from_tasks_and_two_processes_give_one_compaction(tmp_path: Path, dialect: str) -> None:
    """FM-022, FM-120, FM-139: whoever asks gets its own outcome."""
    async with a_world(tmp_path, dialect) as world, world.open(world.model(declared=SMALL)) as hold:
        session = await hold.session(KEY)
        await talk(session, messages=4)
        others = [child.start(world, "compacts", "10") for _ in range(2)]

        ours = await asyncio.gather(*(session.compact() for _ in range(30)))
        theirs = [await child.finished(other) for other in others]

        assert [code for code, _ in theirs] == [0, 0]
        outcomes = Counter([settled.outcome.value for settled in ours] + [line for _, said in theirs for line in said])
        assert outcomes.total() == 50
        assert set(outcomes) <= {"applied", "nothing_to_do"}
        assert len(await records_of(session, CompactionApplied)) == 1
        assert len(world.notes_asked) == 1
        asked, settled = await records_of(session, CompactionRequested), await records_of(session, CompactionSettled)
        assert len(asked) == len(settled) == len({one.request for one in settled}) == 50
        check_who_asked_before_got_it(await ended_well(session))


async def test_requests_by_people_by_us_and_by_an_overflow_at_once_are_met_together(tmp_path: Path) -> None:
    """FM-022, FM-023, FM-024: from tasks and two processes, with what a dead process asked for among them."""
    # Whoever asks keeps as much as an overflow does, so only who asks after the new message may find something to do.
    bounds = replace(ASKED_ONLY, asked_tail_window_share=ASKED_ONLY.tail_window_share)
    async with a_world(tmp_path) as world:
        async with world.open(world.model(declared=SMALL), bounds=bounds) as hold:
            await talk(await hold.session(KEY), messages=5)
            # Nobody is woken for these: whoever asked is dead.
            for trigger in (*[Trigger.AHEAD] * 5, *[Trigger.DEBT] * 4, Trigger.PERSON):
                await hold.engine.store.admit(KEY, CompactionRequested(trigger))
        async with world.open(world.model(declared=SMALL), bounds=bounds) as hold:
            session = await hold.session(KEY)
            others = [child.start(world, "compacts", "10", str(bounds.asked_tail_window_share)) for _ in range(2)]

            overflow = asyncio.create_task(session.send(a_message(5)))
            ours = await asyncio.gather(*(session.compact() for _ in range(20)))
            theirs = [await child.finished(other) for other in others]
            answer = await overflow
            await at_rest(hold)

            assert [code for code, _ in theirs] == [0, 0]
            assert answer.text.startswith('You said: "message 5')
            boundaries = [one.boundary for one in await records_of(session, CompactionApplied)]
            assert 1 <= len(boundaries) == len(world.notes_asked) <= 2
            assert boundaries == sorted(set(boundaries)), "nothing is compacted twice"
            asked = await records_of(session, CompactionRequested)
            settled = await records_of(session, CompactionSettled)
            assert len(asked) == len(settled) == len({one.request for one in settled}) == 50
            assert {one.outcome.value for one in (*ours, *settled)} <= {"applied", "nothing_to_do", "deferred"}
            check_nobody_asked_unseen(await ended_well(session))


def check_nobody_asked_unseen(records: list[Logged]) -> None:
    """Whoever asked before a compaction was made got that one: another is made only for who had seen it."""
    settled = {one.record.request: one.seq for one in records if isinstance(one.record, CompactionSettled)}
    asked = [(one.seq, one.record) for one in records if isinstance(one.record, CompactionRequested)]
    applied = [one.seq for one in records if isinstance(one.record, CompactionApplied)]
    for before, another in pairwise(applied):
        started = [one.record for one in records if isinstance(one.record, RungStarted) and one.seq < another]
        if started[-1].kind is None:
            assert any(request.seen >= before for seq, request in asked if seq < another < settled[seq])


async def test_a_request_during_a_turn_that_overflows_is_met_by_the_same_compaction(tmp_path: Path) -> None:
    """FM-022, FM-092, FM-093: manual and overflow at once; the turn goes on."""
    async with a_world(tmp_path) as world, world.open(world.model(declared=SMALL)) as hold:
        session = await hold.session(KEY)
        await talk(session, messages=5)
        turn = await session.post(a_message(5))
        await next_record(session, TurnStarted, after=turn)

        settled = await session.compact()
        answer = await session.wait(turn)

        assert settled.outcome in {CompactionOutcome.APPLIED, CompactionOutcome.NOTHING_TO_DO}
        assert answer.text.startswith('You said: "message 5')
        assert len(await records_of(session, CompactionApplied)) == 1
        await ended_well(session)


async def test_a_message_that_comes_during_a_compaction_waits_for_its_turn_and_is_not_in_the_summary(
    tmp_path: Path,
) -> None:
    """FM-094, FM-095."""
    async with a_world(tmp_path) as world, world.open(world.model(declared=SMALL)) as hold:
        session = await hold.session(KEY)
        await talk(session, messages=4)
        compacting = asyncio.create_task(session.compact())
        await next_record(session, RungStarted)

        answer = await session.send("remember late = arrival")

        assert answer.text == "I will remember that late = arrival."
        assert (await compacting).outcome is CompactionOutcome.APPLIED
        (applied,) = await records_of(session, CompactionApplied)
        assert "arrival" not in applied.summary
        assert (await session.send("what is late?")).text == "late = arrival."


async def prepared(folder: Path, dialect: str) -> Path:
    """Return a store with a session that is about to overflow."""
    async with a_world(folder, dialect) as world, world.open(world.model(declared=SMALL)) as hold:
        session = await hold.session(KEY)
        await session.send("remember harbour = Tromso")
        await talk(session, messages=5)
        assert await records_of(session, CompactionApplied) == []
    return folder


@pytest.mark.parametrize("part", [0, 1, 2])
async def test_killed_at_every_write_of_a_compaction_in_a_turn_it_goes_on_by_itself(tmp_path: Path, part: int) -> None:
    """FM-023, FM-024, FM-025, FM-039, FM-091, FM-101, FM-102: the old view or the new, and notes are paid for once."""
    (tmp_path / "prepared").mkdir()
    store = await prepared(tmp_path / "prepared", "openai")
    writes = await _writes(store, tmp_path / "undisturbed")
    assert writes >= 10, "the scenario must be worth killing"
    # Parts can be run side by side.
    points = list(every_point(writes))[part::3]
    # As many processes at once as a small machine has cores: the deaths do not depend on one another.
    at_once = asyncio.Semaphore(2)
    lives = (_killed_and_resumed(at_once, store, tmp_path / f"{at}", point) for at, point in enumerate(points))
    killed = sum(await asyncio.gather(*lives))
    # How often a process writes depends a little on timing, so the last points may lie beyond its end.
    assert killed >= len(points) - 2


async def _writes(store: Path, folder: Path) -> int:
    shutil.copytree(store, folder)
    async with a_world(folder) as world:
        assert await child.forked(world, "dies", "0", "before") == 0
    return int(child.noted(folder / "writes")[0])


async def _killed_and_resumed(at_once: asyncio.Semaphore, store: Path, folder: Path, point: CrashPoint) -> bool:
    """Die at one point, then be the next process; return whether it was reached."""
    async with at_once:
        shutil.copytree(store, folder)
        async with a_world(folder) as world:
            code = await child.forked(world, "dies", str(point.write), point.side.value)
            async with world.open(world.model(declared=SMALL), bounds=child.PATIENT) as hold:
                session = await hold.session(KEY)
                before = await records_of(session, PieceSummarised)
                asked_before = len(world.notes_asked)
                answer = await session.send(child.NEWEST, client_id="newest")
                try:
                    await _check(world, session, answer.text, paid=bool(before), asked_before=asked_before)
                except AssertionError as error:
                    raise AssertionError(f"killed {point}: {error}") from error
        return code == -signal.SIGKILL


async def _check(world: World, session: Session, answer: str, *, paid: bool, asked_before: int) -> None:
    assert answer == "harbour = Tromso."
    applied = await records_of(session, CompactionApplied)
    assert [one.kind for one in applied] == [SummaryKind.SUMMARY]
    assert len(await records_of(session, PieceSummarised)) == 1
    if paid:
        assert len(world.notes_asked) == asked_before, "notes that are on disk are not asked for again"
    await ended_well(session)
