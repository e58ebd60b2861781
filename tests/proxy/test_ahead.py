"""A person behind an agent does not wait for a compaction: its summary is made while nobody waits."""

import asyncio
import json
from itertools import pairwise
from typing import Any

from holdfast.core.limits.bounds import Bounds
from holdfast.models.fake import Simulation
from holdfast.runtime.clock import SystemClock
from holdfast.stores.memory import MemoryStore
from holdfast.types.limits import Limits
from holdfast.types.records import AnyRecord, CompactionApplied, PieceSummarised, SummaryKind, SummaryRefused
from tests.proxy.proxies import DropInRunning, a_dropin

WINDOW = Limits(window_tokens=12_000, output_tokens_max=1_000)
FILLER = "the crew writes down what it saw on this day and what it means to do on the next. " * 40


async def _idle() -> None:
    """Wait until no summary is being made ahead."""
    while tasks := [task for task in asyncio.all_tasks() if task.get_name().startswith("ahead ")]:
        await asyncio.wait(tasks)


def _summaries(running: DropInRunning) -> int:
    return sum(b"<conversation>" in body for body in running.sent)


async def _is_prepared(running: DropInRunning) -> bool:
    records = [record for key in await running.sessions() for record in await running.records(key)]
    return any(isinstance(record, PieceSummarised) and not record.turn for record in records)


async def _say(running: DropInRunning, messages: list[Any], text: str) -> str:
    messages.append({"role": "user", "content": text})
    reply = await running.openai.chat.completions.create(model="sim", messages=messages, max_tokens=200)
    answer = reply.choices[0].message.content or ""
    messages.append({"role": "assistant", "content": answer})
    return answer


def _turns_that_waited(records: list[AnyRecord]) -> set[int]:
    """Return the turns whose answer waited for a summary. Those made ahead belong to no turn."""
    return {one.turn for one in records if isinstance(one, PieceSummarised | SummaryRefused) and one.turn}


async def test_no_request_of_a_growing_conversation_waits_for_a_summary_once_the_window_is_known() -> None:
    async with a_dropin(Simulation(WINDOW)) as running:
        messages: list[Any] = []
        for number in range(110):
            await _say(running, messages, f"remember fact{number} = value{number}\n{FILLER}")
            await _idle()
        (key,) = await running.sessions()
        records = await running.records(key)
        # Each accepted request before a compaction, by its share of the window.
        sizes = [seen.tokens for seen in running.simulation.requests if b"<conversation>" not in seen.body]
        asked = _summaries(running)
    applied = [record for record in records if isinstance(record, CompactionApplied)]
    assert len(applied) >= 8
    assert {record.kind for record in applied} == {SummaryKind.SUMMARY}
    # The first overflow comes before the window is known.
    assert len(_turns_that_waited(records)) <= len(applied) / 10
    # One call for each compaction, one that is ready for the next, and merges.
    pieces = [record for record in records if isinstance(record, PieceSummarised)]
    assert asked <= len(pieces) + 2
    assert sum(not piece.level for piece in pieces) <= len(applied) + 1
    # The window is filled to what it holds before each compaction, not only before the first.
    peaks = [size for size, following in pairwise(sizes) if following < size]
    assert len(peaks) >= len(applied)
    assert min(peaks) > 0.8 * 12_000
    assert max(sizes) > 0.9 * 12_000


async def test_the_beginning_changes_only_when_the_summary_is_used() -> None:
    async with a_dropin(Simulation(WINDOW)) as running:
        messages: list[Any] = []
        beginnings: list[str] = []
        for number in range(60):
            await _say(running, messages, f"remember fact{number} = value{number}\n{FILLER}")
            beginnings.append(json.dumps(json.loads(running.sent[-1])["messages"][0]))
            await _idle()
        (key,) = await running.sessions()
        applied = [one for one in await running.records(key) if isinstance(one, CompactionApplied)]
    changes = sum(one != other for one, other in pairwise(beginnings))
    assert changes == len(applied)


async def test_a_summary_made_ahead_is_used_by_another_gateway_after_a_restart() -> None:
    store = MemoryStore(clock=SystemClock(), bounds=Bounds())
    messages: list[Any] = []
    async with a_dropin(Simulation(WINDOW), store=store) as running:
        number = 0
        while not await _is_prepared(running):
            number += 1
            await _say(running, messages, f"remember fact{number} = value{number}\n{FILLER}")
            await _idle()
        (key,) = await running.sessions()
        before = await running.records(key)
    async with a_dropin(Simulation(WINDOW), store=store) as running:
        for later in range(number + 1, number + 8):
            await _say(running, messages, f"remember fact{later} = value{later}\n{FILLER}")
            await _idle()
        records = await running.records(key)
        answer = await _say(running, messages, "what is fact1?")
    assert any(isinstance(record, CompactionApplied) for record in records[len(before) :])
    # The first overflow came before the window was known.
    assert _turns_that_waited(records) == _turns_that_waited(before)
    assert "value1" in answer


async def test_a_failing_summariser_is_asked_once_ahead_and_not_with_every_request() -> None:
    simulation = Simulation(WINDOW)
    simulation.summary_tokens_max = 0
    async with a_dropin(simulation) as running:
        messages: list[Any] = []
        asked: list[int] = []
        for number in range(14):
            before = _summaries(running)
            await _say(running, messages, f"remember fact{number} = value{number}\n{FILLER}")
            await _idle()
            asked.append(_summaries(running) - before)
    assert sum(bool(one) for one in asked) <= 3


async def test_nothing_is_made_ahead_where_the_setting_is_off() -> None:
    bounds = Bounds(back_off_seconds_min=0.01, compacts_ahead=False)
    async with a_dropin(Simulation(WINDOW), bounds=bounds) as running:
        messages: list[Any] = []
        for number in range(24):
            await _say(running, messages, f"remember fact{number} = v\n{FILLER}")
        (key,) = await running.sessions()
        pieces = [one for one in await running.records(key) if isinstance(one, PieceSummarised)]
    assert pieces
    assert all(piece.turn for piece in pieces)
