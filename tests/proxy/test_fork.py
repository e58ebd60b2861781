"""A conversation that parts from a compacted one goes on with what was compacted, and neither changes the other."""

import asyncio
import json
from typing import Any

import pytest

from holdfast.core.limits.bounds import Bounds
from holdfast.gateway.proxy.session_match import SharedHistory, fork_shared
from holdfast.models.fake import Simulation
from holdfast.runtime.sessions.transfer import forked
from holdfast.types.limits import Limits
from holdfast.types.records import AnyRecord, CompactionApplied, InputAdmitted, PieceSummarised, TurnEnded
from tests.proxy.proxies import NONE_AHEAD, DropInRunning, a_dropin

SMALL = Limits(window_tokens=6_000, output_tokens_max=1_000)
FILLER = "the crew writes down what it saw on this day and what it means to do on the next. " * 40


async def _asked(running: DropInRunning, messages: list[Any], text: str) -> tuple[str, str]:
    """Ask something behind a conversation; return the answer, and the session that it came from."""
    raw = await running.openai.chat.completions.with_raw_response.create(
        model="sim", messages=[*messages, {"role": "user", "content": text}], max_tokens=200
    )
    return raw.parse().choices[0].message.content or "", raw.headers["x-holdfast-session"]


async def _long_talk(running: DropInRunning, rounds: int = 8) -> list[Any]:
    messages: list[Any] = []
    for number in range(rounds):
        text = f"remember fact{number} = value{number}\n{FILLER}"
        answer, _ = await _asked(running, messages, text)
        messages += [{"role": "user", "content": text}, {"role": "assistant", "content": answer}]
    return messages


def _inputs(records: list[AnyRecord]) -> list[AnyRecord]:
    return [record for record in records if isinstance(record, InputAdmitted)]


async def test_another_question_behind_a_compacted_past_pays_for_nothing_again() -> None:
    async with a_dropin(Simulation(SMALL), bounds=NONE_AHEAD) as running:
        messages = await _long_talk(running)
        _, trunk = await _asked(running, messages, "what is fact0?")
        before = len(running.sent)
        text, branch = await _asked(running, messages, "what is fact1?")
        sent = running.sent[before - 1 :]
        of_trunk, of_branch = await running.records(trunk), await running.records(branch)
    assert "value1" in text
    assert branch != trunk
    # One request for the one answer, and it begins like the one behind which it would have come.
    first, second = (json.loads(body)["messages"] for body in sent)
    assert second[:-1] == first[:-1]
    assert any(isinstance(record, CompactionApplied | PieceSummarised) for record in of_branch)
    parted = next(place for place, record in enumerate(of_trunk) if record not in of_branch)
    assert of_branch[:parted] == of_trunk[:parted]
    assert len(_inputs(of_branch)) == len(_inputs(of_trunk)) == 9
    assert {record.outcome for record in of_branch if isinstance(record, TurnEnded)} == {"answered"}


async def test_two_questions_at_the_same_time_each_get_a_session_of_their_own() -> None:
    async with a_dropin(Simulation(SMALL)) as running:
        messages = await _long_talk(running)
        _, trunk = await _asked(running, messages, "what is fact0?")
        found = await asyncio.gather(*(_asked(running, messages, f"what is fact{number}?") for number in (1, 2, 2)))
        kept = await running.sessions()
    assert [answer.split()[-1] for answer, _ in found] == ["value1.", "value2.", "value2."]
    assert len({trunk, *(key for _, key in found)}) == 3
    # Where the same question came twice, the second answer to it has a session, too.
    assert 3 <= len(kept) <= 4


async def test_what_parts_before_anything_was_compacted_brings_its_own_past() -> None:
    async with a_dropin(Simulation(SMALL)) as running:
        messages = await _long_talk(running)
        edited = [messages[0], {"role": "assistant", "content": "Aye, noted."}, *messages[2:]]
        text, branch = await _asked(running, edited, "what is fact3?")
        inputs = _inputs(await running.records(branch))
    assert "value3" in text
    assert len(inputs) == 9


async def test_where_the_older_one_is_gone_the_new_one_brings_its_own_past() -> None:
    async with a_dropin(Simulation(SMALL)) as running:
        messages = await _long_talk(running)
        _, trunk = await _asked(running, messages, "what is fact0?")
        await running.hold.delete(trunk)
        text, branch = await _asked(running, messages, "what is fact1?")
        inputs = _inputs(await running.records(branch))
    assert "value1" in text
    assert len(inputs) == 9


async def test_another_answer_to_the_same_question_names_the_session_that_it_is_in() -> None:
    async with a_dropin(Simulation(SMALL)) as running:
        messages = await _long_talk(running)
        named = [(await _asked(running, messages, "what is fact0?"))[1] for _ in range(2)]
        kept = await running.sessions()
    assert len(set(named)) == 2
    assert sorted(named) == kept


@pytest.mark.parametrize("key", ["dropin:taken", "dropin:free"])
async def test_a_session_that_is_there_already_is_left_as_it_is(key: str) -> None:
    async with a_dropin(Simulation(SMALL)) as running:
        messages = await _long_talk(running)
        _, trunk = await _asked(running, messages, "what is fact0?")
        store = running.engine.store
        await forked(store, trunk, "dropin:taken", at=None, bounds=Bounds())
        before = await running.records("dropin:taken")
        is_of_use = await fork_shared(store, SharedHistory(trunk, len(messages)), key, Bounds())
        assert is_of_use == (key == "dropin:free")
        assert await running.records("dropin:taken") == before
