"""A window that is full: the same turn is answered, the person is told, and what was said early is still known."""

from pathlib import Path

import pytest

from holdfast.errors import TurnFailedError
from holdfast.types.faults import Phase
from holdfast.types.limits import Limits
from holdfast.types.messages import Role
from holdfast.types.records import AttemptFailed, CompactionApplied, SummaryKind
from tests.e2e.world import (
    DIALECTS,
    HASTY,
    KEY,
    SMALL,
    a_world,
    ended_well,
    failures_of,
    is_for_notes,
    notes_meet,
    records_of,
    talk,
)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_turn_that_the_provider_refuses_for_its_tokens_is_answered(tmp_path: Path, dialect: str) -> None:
    """FM-001, FM-091, FM-138: the person sees a notice, not an error."""
    async with a_world(tmp_path, dialect) as world, world.open() as hold:
        session = await hold.session(KEY)
        await session.send("remember harbour = Tromso")

        notices = await talk(session, messages=9)

        failed = await records_of(session, AttemptFailed)
        assert (failed[0].fault.kind.value, failed[0].refusal.phase) == ("token_overflow", Phase.RESPONSE)
        assert len(world.refused) == 1, "the first refusal teaches the window"
        assert any("represented by a summary" in notice for notice in notices)
        assert (await session.send("what is harbour?")).text == "harbour = Tromso."
        await ended_well(session)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_turn_that_would_not_fit_is_shrunk_before_it_is_sent(tmp_path: Path, dialect: str) -> None:
    """FM-034, FM-058: where the window is declared, nothing is ever refused."""
    async with a_world(tmp_path, dialect) as world, world.open(world.model(declared=SMALL)) as hold:
        session = await hold.session(KEY)
        await session.send("remember harbour = Tromso")

        notices = await talk(session, messages=9)

        assert world.refused == []
        failed = await records_of(session, AttemptFailed)
        assert {one.refusal.phase for one in failed} == {Phase.ESTIMATE}
        assert any("represented by a summary" in notice for notice in notices)
        assert (await session.send("what is harbour?")).text == "harbour = Tromso."
        assert (await session.view()).messages[-1].role is Role.ASSISTANT
        await ended_well(session)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_an_early_fact_is_recalled_from_a_digest_where_no_model_can_summarise(
    tmp_path: Path, dialect: str
) -> None:
    """FM-033, FM-038, FM-072: the digest quotes what the person said."""
    async with a_world(tmp_path, dialect) as world, world.open(world.model(declared=SMALL), bounds=HASTY) as hold:
        session = await hold.session(KEY)
        await session.send("remember harbour = Tromso")

        world.simulation.fault_of = notes_meet("content-filter")
        notices = await talk(session, messages=9)

        applied = await records_of(session, CompactionApplied)
        assert applied
        assert {one.kind for one in applied} == {SummaryKind.DIGEST}
        assert any("digest" in notice for notice in notices)
        assert (await session.send("what is harbour?")).text == "harbour = Tromso."
        await ended_well(session)


async def test_nothing_but_a_new_message_can_be_in_the_way_of_the_newest_one(tmp_path: Path) -> None:
    """FM-058, FM-062: a message of half a window is answered, and is verbatim in the request."""
    async with a_world(tmp_path) as world, world.open(world.model(declared=SMALL)) as hold:
        session = await hold.session(KEY)
        await talk(session, messages=4)

        await session.send("word " * 2_500)

        assert world.refused == []
        newest = [seen for seen in world.simulation.requests if not is_for_notes(seen)][-1]
        assert (b"word " * 2_500).strip() in newest.body
        await ended_well(session)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_an_empty_answer_to_a_request_near_the_window_is_taken_for_an_overflow(
    tmp_path: Path, dialect: str
) -> None:
    """FM-002, FM-006: a server that does not refuse, and has no room left to write."""
    limits = Limits(window_tokens=8_000, output_tokens_max=200)
    async with a_world(tmp_path, dialect, limits) as world, world.open(world.model(declared=limits)) as hold:
        session = await hold.session(KEY)
        await talk(session, messages=7)
        while (await session.view()).tokens_estimated < 0.82 * 8_000:
            await session.send("word " * 150)
            assert await failures_of(session) == [], "near the window, not beyond"
        world.simulation.set_faults("empty*2")

        answer = await session.send("are you there?")

        assert answer.text.startswith('You said: "are you there?"')
        assert any("represented by" in notice for notice in answer.notices)
        assert set(await failures_of(session)) <= {"empty_response", "token_overflow"}
        await ended_well(session)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_quota_or_a_rate_limit_never_leads_to_a_compaction(tmp_path: Path, dialect: str) -> None:
    """FM-003, FM-004: the session is healthy, whatever is said of tokens."""
    async with a_world(tmp_path, dialect) as world, world.open(world.model(declared=SMALL), bounds=HASTY) as hold:
        session = await hold.session(KEY)
        await talk(session, messages=3)
        world.simulation.set_faults("429:retry-after=0.01,quota")

        with pytest.raises(TurnFailedError) as failed:
            await session.send("hello")

        assert failed.value.reason == "quota"
        assert await records_of(session, CompactionApplied) == []
        assert (await session.send("hello")).text.startswith("You said")
        await ended_well(session)
