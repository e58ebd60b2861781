"""A request that does not fit is answered all the same, in the client's own dialect."""

import base64
import io
import json
from typing import Any

import openai
import pytest
from PIL import Image

from holdfast.core.limits.bounds import Bounds
from holdfast.models.fake import Simulation
from holdfast.types.limits import Limits
from holdfast.types.records import AttemptFailed, CompactionApplied, InputAdmitted, Outcome, PartReplaced, TurnEnded
from tests.proxy.proxies import NONE_AHEAD, DropInRunning, a_dropin

SMALL = Limits(window_tokens=6_000, output_tokens_max=1_000)
FILLER = "the crew writes down what it saw on this day and what it means to do on the next. " * 40


async def _chat(running: DropInRunning, messages: list[Any], **more: Any) -> tuple[str, Any]:
    raw = await running.openai.chat.completions.with_raw_response.create(
        model="sim", messages=messages, max_tokens=200, **more
    )
    return raw.parse().choices[0].message.content or "", raw.headers


async def _long_talk(running: DropInRunning, rounds: int) -> tuple[list[Any], list[Any]]:
    messages: list[Any] = [{"role": "system", "content": "Be brief."}]
    rescued = []
    for number in range(rounds):
        messages.append({"role": "user", "content": f"remember fact{number} = value{number}\n{FILLER}"})
        text, headers = await _chat(running, messages)
        rescued.append(headers.get("x-holdfast-rescued"))
        messages.append({"role": "assistant", "content": text})
    return messages, rescued


async def test_a_conversation_that_outgrows_the_window_goes_on_and_keeps_its_facts() -> None:
    async with a_dropin(Simulation(SMALL)) as running:
        messages, rescued = await _long_talk(running, 14)
        messages.append({"role": "user", "content": "what is fact0?"})
        text, _ = await _chat(running, messages)
        (key,) = await running.sessions()
        records = await running.records(key)
        refusals = [seen for seen in running.simulation.requests if seen.status != 200]
    assert "value0" in text
    assert any(rescued)
    assert any(isinstance(record, CompactionApplied) for record in records)
    # What was learned from the first refusal is known before the next.
    assert len(refusals) <= 3


async def test_clients_of_an_engine_that_asks_what_to_do_are_answered_without_being_asked() -> None:
    bounds = Bounds(back_off_seconds_min=0.01, on_overflow="ask")
    async with a_dropin(Simulation(SMALL), bounds=bounds) as running:
        _, rescued = await _long_talk(running, 8)
        (key,) = await running.sessions()
        records = await running.records(key)
    assert any(rescued)
    assert any(isinstance(record, CompactionApplied) for record in records)
    assert {record.outcome for record in records if isinstance(record, TurnEnded)} == {Outcome.ANSWERED}


async def test_a_rescued_conversation_whose_session_was_deleted_begins_anew_with_all_it_brings() -> None:
    async with a_dropin(Simulation(SMALL)) as running:
        messages, rescued = await _long_talk(running, 8)
        (key,) = await running.sessions()
        await running.hold.delete(key)
        messages.append({"role": "user", "content": "what is fact0?"})
        text, _ = await _chat(running, messages)
        kept = await running.sessions()
        inputs = [record for record in await running.records(key) if isinstance(record, InputAdmitted)]
    assert any(rescued)
    assert "value0" in text
    assert kept == [key]
    assert len(inputs) == 9


async def test_after_a_rescue_the_next_requests_go_out_with_the_same_beginning() -> None:
    async with a_dropin(Simulation(SMALL), bounds=NONE_AHEAD) as running:
        messages, rescued = await _long_talk(running, 8)
        assert any(rescued)
        before = len(running.sent)
        for text in ("hello", "and again"):
            messages.append({"role": "user", "content": text})
            said, headers = await _chat(running, messages)
            messages.append({"role": "assistant", "content": said})
            assert "x-holdfast-rescued" not in headers
        first, second = (json.loads(body)["messages"] for body in running.sent[before:])
    assert second[: len(first)] == first
    assert first[0] == {"role": "system", "content": "Be brief."}
    assert len(second) < len(messages)


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_a_refusal_in_the_middle_of_a_tool_loop_keeps_calls_and_results_paired(*, is_streamed: bool) -> None:
    tools: Any = [{"name": "look", "input_schema": {"type": "object", "properties": {}}}]
    messages: list[Any] = [{"role": "user", "content": "remember port = 8080, then look around"}]
    for number in range(12):
        use = {"type": "tool_use", "id": f"toolu_{number}", "name": "look", "input": {}}
        messages.append({"role": "assistant", "content": [use]})
        result = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": f"room {number}: {FILLER}"}
        messages.append({"role": "user", "content": [result]})
    async with a_dropin(Simulation(SMALL)) as running:
        if is_streamed:
            async with running.anthropic.messages.stream(
                model="sim", max_tokens=200, messages=messages, tools=tools
            ) as stream:
                reply: Any = await stream.get_final_message()
        else:
            reply = await running.anthropic.messages.create(model="sim", max_tokens=200, messages=messages, tools=tools)
        sent = json.loads(running.sent[-1])["messages"]
    assert reply.content
    blocks = [block for one in sent if isinstance(one["content"], list) for block in one["content"]]
    used = [block["id"] for block in blocks if block["type"] == "tool_use"]
    answered = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
    assert used == answered


async def test_one_message_over_the_wire_limit_does_not_poison_the_conversation() -> None:
    async with a_dropin(Simulation(Limits(window_tokens=128_000, wire_bytes_max=60_000))) as running:
        messages: list[Any] = [{"role": "user", "content": "paste: " + "x y z " * 20_000}]
        first, headers = await _chat(running, messages)
        messages += [{"role": "assistant", "content": first}, {"role": "user", "content": "remember a = 1"}]
        second, _ = await _chat(running, messages)
        messages += [{"role": "assistant", "content": second}, {"role": "user", "content": "what is a?"}]
        third, _ = await _chat(running, messages)
        (key,) = await running.sessions()
        records = await running.records(key)
    assert headers["x-holdfast-rescued"] == "wire_overflow"
    assert headers["x-holdfast-notice"].startswith("a text of 120,007 bytes")
    assert "1" in third
    assert any(isinstance(record, PartReplaced) for record in records)
    assert sum(seen.status != 200 for seen in running.simulation.requests) == 1


async def test_an_image_over_the_limit_is_shown_smaller_or_by_a_line() -> None:
    drawn = io.BytesIO()
    Image.effect_noise((900, 900), 90).save(drawn, "PNG")
    url = "data:image/png;base64," + base64.b64encode(drawn.getvalue()).decode()
    content: Any = [{"type": "text", "text": "look at this"}, {"type": "image_url", "image_url": {"url": url}}]
    async with a_dropin(Simulation(Limits(window_tokens=128_000, media_bytes_max=100_000))) as running:
        text, headers = await _chat(running, [{"role": "user", "content": content}])
    assert text
    assert headers["x-holdfast-rescued"] == "media_overflow"


async def test_a_longer_answer_than_fits_is_asked_for_shorter_and_nothing_else_changes() -> None:
    async with a_dropin(Simulation(Limits(window_tokens=6_000))) as running:
        body: Any = [{"role": "user", "content": "hello"}]
        reply = await running.openai.chat.completions.create(model="sim", messages=body, max_tokens=5_999)
    sent = [json.loads(one) for one in running.sent]
    assert reply.choices[0].message.content
    assert sent[-1] == {**sent[0], "max_tokens": sent[-1]["max_tokens"]}
    assert sent[-1]["max_tokens"] < 5_999


async def test_a_request_that_nothing_makes_fit_ends_with_the_providers_own_words() -> None:
    async with a_dropin(Simulation(faults="overflow*60")) as running:
        with pytest.raises(openai.BadRequestError) as told:
            await _chat(running, [{"role": "user", "content": "hello"}])
        # It may be asked again, and is answered when the provider lets it.
        running.simulation.set_faults("")
        text, _ = await _chat(running, [{"role": "user", "content": "hello"}])
        (key,) = await running.sessions()
        records = await running.records(key)
    assert "reduce the length of the messages" in told.value.message
    assert text
    assert any(isinstance(record, AttemptFailed) for record in records)
    assert sum(isinstance(record, InputAdmitted) for record in records) == 2


async def test_output_that_does_not_fit_beside_the_request_is_refused_once_and_then_asked_for_in_part() -> None:
    async with a_dropin(Simulation(Limits(window_tokens=6_000))) as running:
        told = []
        for name in ("port", "speed"):
            raw = await running.openai.chat.completions.with_raw_response.create(
                model="sim", max_tokens=5_500, messages=[{"role": "user", "content": f"remember {name} = 8\n{FILLER}"}]
            )
            assert raw.parse().choices[0].message.content
            told.append(raw.headers.get("x-holdfast-rescued"))
        # One that fits goes as it is.
        small = await running.openai.chat.completions.with_raw_response.create(
            model="sim", max_tokens=500, messages=[{"role": "user", "content": "hello"}]
        )
        statuses = [seen.status for seen in running.simulation.requests]
        request = [json.loads(body)["max_tokens"] for body in running.sent]
    assert told == ["output_clamped", "output_clamped"]
    assert "x-holdfast-rescued" not in small.headers
    assert statuses == [400, 200, 200, 200]
    assert (request[0], request[3]) == (5_500, 500)
    assert all(4_000 < one < 5_500 for one in request[1:3])
