"""A process that is killed while a provider answers or a tool runs: the next one goes on at once, and nothing twice."""

import asyncio
import signal
from pathlib import Path

import pytest

from holdfast.types.messages import ToolOutcome
from holdfast.types.records import Abandonment, AttemptAbandoned, AttemptStarted, ToolSettled, TurnEnded
from tests.e2e import child
from tests.e2e.world import DIALECTS, KEY, a_world, ended_well, next_record, records_of

# A lease outlives its holder by this much unless the death is noticed; resuming must not wait for it.
AT_ONCE_SECONDS = 15


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_killed_in_the_middle_of_a_streamed_answer_the_next_process_answers_at_once(
    tmp_path: Path, dialect: str
) -> None:
    """FM-042, FM-054, FM-097, FM-102, FM-105."""
    async with a_world(tmp_path, dialect, faults="stall:after=2") as world:
        first = child.start(world, "sends", "write 40 words")
        await asyncio.wait_for(world.simulation.was_called.wait(), child.HANGS_SECONDS)
        hung = world.simulation.requests[0]
        first.kill()
        code, said = await child.finished(first)
        assert (code, said) == (-signal.SIGKILL, [])
        await asyncio.wait_for(hung.ended.wait(), 5)

        async with asyncio.timeout(AT_ONCE_SECONDS), world.open(bounds=child.PATIENT) as hold:
            session = await hold.session(KEY)
            ended = await next_record(session, TurnEnded)

            assert isinstance(ended.record, TurnEnded)
            assert ended.record.outcome.value == "answered"
            again = await session.send("write 40 words", client_id="errand")
            assert len(again.text.split()) == 40
            assert len(await records_of(session, TurnEnded)) == 1
            abandoned = await records_of(session, AttemptAbandoned)
            assert [one.reason for one in abandoned] == [Abandonment.INTERRUPTED]
            assert len(await records_of(session, AttemptStarted)) == 2
            await ended_well(session)
        assert world.simulation.request_count == 2


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_killed_in_the_middle_of_a_tool_it_is_not_run_again_and_the_model_is_told(
    tmp_path: Path, dialect: str
) -> None:
    """FM-102, FM-103: the effect happened; nobody knows whether, so nobody repeats it."""
    async with a_world(tmp_path, dialect) as world:
        code, _ = await child.finished(child.start(world, "sends", 'call pay {"amount": 7}'))
        assert code == -signal.SIGKILL
        effects = tmp_path / "effects"
        assert child.noted(effects) == ["paid 7"]

        pay = child.an_errand(effects, kills=False)
        async with asyncio.timeout(AT_ONCE_SECONDS), world.open(bounds=child.PATIENT, tools=[pay]) as hold:
            session = await hold.session(KEY)
            answer = await session.send('call pay {"amount": 7}', client_id="errand")

            assert "Outcome unknown" in answer.text
            assert child.noted(effects) == ["paid 7"], "once, whatever happened"
            (settled,) = await records_of(session, ToolSettled)
            assert settled.result.outcome is ToolOutcome.UNKNOWN
            assert len(await records_of(session, TurnEnded)) == 1
            assert (await session.send('call pay {"amount": 8}')).text == "The tool pay returned: paid"
            assert child.noted(effects) == ["paid 7", "paid 8"]
            await ended_well(session)
        assert world.refused == []
