"""Requests that name what came before in place of sending it."""

import json
from typing import Any

import openai
import pytest

from holdfast.core.limits.bounds import Bounds
from holdfast.errors import StoreFullError
from holdfast.models.fake import Simulation
from holdfast.models.wire import without
from holdfast.ports import Admission, Log
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.sessions.response_links import ANSWERS_KEY
from holdfast.stores.memory import MemoryStore
from holdfast.types.limits import Limits
from holdfast.types.messages import text_of
from holdfast.types.records import AnswerLinked, CompactionApplied, InboxRecord, InputAdmitted, ReplyRecorded
from tests.proxy.proxies import DropInRunning, a_dropin

SMALL = Limits(window_tokens=6_000, output_tokens_max=1_000)
FILLER = "the crew writes down what it saw on this day and what it means to do on the next. " * 80


async def _ask(running: DropInRunning, said: Any, **more: Any) -> tuple[str, str, Any]:
    raw = await running.openai.responses.with_raw_response.create(
        model="sim", input=said, max_output_tokens=200, **more
    )
    answer = raw.parse()
    return answer.output_text, answer.id, raw.headers


async def _talk(running: DropInRunning, rounds: int, before: str | None = None) -> tuple[str, list[str | None]]:
    rescued = []
    for number in range(rounds):
        said = f"remember fact{number} = value{number}\n{FILLER}"
        _, before, headers = await _ask(running, said, previous_response_id=before)
        rescued.append(headers.get("x-holdfast-rescued"))
    assert before is not None
    return before, rescued


async def _said(running: DropInRunning, key: str) -> list[str]:
    records = await running.records(key)
    return [
        text_of(one.parts if isinstance(one, InputAdmitted) else one.reply.parts)
        for one in records
        if isinstance(one, InputAdmitted | ReplyRecorded)
    ]


async def test_a_request_that_goes_on_from_an_answer_enters_the_session_of_that_answer_and_passes_as_it_is() -> None:
    async with a_dropin() as running:
        first, name, _ = await _ask(running, "remember port = 8080")
        second, _, headers = await _ask(running, "what is port?", previous_response_id=name)
        (key,) = await running.sessions()
        said = await _said(running, key)
        body = json.loads(running.sent[-1])
    assert "8080" in second
    assert said == ["remember port = 8080", first, "what is port?", second]
    assert (body["previous_response_id"], body["input"]) == (name, "what is port?")
    assert headers["x-holdfast-session"] == key
    assert "x-holdfast-rescued" not in headers


async def test_results_of_tools_go_on_from_the_answer_that_called_them() -> None:
    tool: Any = {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}}
    async with a_dropin() as running:
        answer = await running.openai.responses.create(model="sim", input="call look {}", tools=[tool])
        calls = [one for one in answer.output if one.type == "function_call"]
        results: Any = [
            {"type": "function_call_output", "call_id": one.call_id, "output": "a rock ahead"} for one in calls
        ]
        after = await running.openai.responses.create(
            model="sim", input=results, tools=[tool], previous_response_id=answer.id
        )
        sessions = await running.sessions()
    assert calls
    assert "a rock ahead" in after.output_text
    assert len(sessions) == 1


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_a_history_that_outgrows_the_window_at_the_provider_is_sent_along_made_smaller(
    *, is_streamed: bool
) -> None:
    async with a_dropin(Simulation(SMALL)) as running:
        before, rescued = await _talk(running, 6)
        assert any(rescued)
        if is_streamed:
            text = ""
            async for event in await running.openai.responses.create(
                model="sim", input="what is fact0?", previous_response_id=before, stream=True
            ):
                text += event.delta if event.type == "response.output_text.delta" else ""
        else:
            text, _, _ = await _ask(running, "what is fact0?", previous_response_id=before)
        (key,) = await running.sessions()
        records = await running.records(key)
        sent = [json.loads(body) for body in running.sent]
    assert "value0" in text
    assert any(isinstance(record, CompactionApplied) for record in records)
    # Rebuilt from the log: everything is in the input. What follows goes on from that answer as it is.
    rebuilt = [body for body in sent[1:] if "previous_response_id" not in body and body.get("store") is not False]
    assert rebuilt
    assert sent[-1]["previous_response_id"] == before


async def test_instructions_that_stood_between_the_messages_are_sent_along_too() -> None:
    async with a_dropin(Simulation(SMALL)) as running:
        first: Any = [{"role": "developer", "content": "Speak like a sailor."}, {"role": "user", "content": "hello"}]
        _, before, _ = await _ask(running, first)
        _, rescued = await _talk(running, 5, before)
        assert any(rescued)
        rebuilt = [
            body
            for body in map(json.loads, running.sent[1:])
            if "previous_response_id" not in body and body.get("store") is not False
        ]
    assert rebuilt
    assert all(body["input"][0] == first[0] for body in rebuilt)


async def test_links_outlive_the_process() -> None:
    simulation, store = Simulation(SMALL), MemoryStore(clock=SystemClock(), bounds=Bounds())
    async with a_dropin(simulation, store=store) as running:
        before, _ = await _talk(running, 1)
    async with a_dropin(simulation, store=store) as running:
        _, rescued = await _talk(running, 4, before)
        sessions = await running.sessions()
    assert any(rescued)
    assert len(sessions) == 1
    assert await _links(store)


async def _links(store: Log) -> list[AnswerLinked]:
    found: list[AnswerLinked] = []
    for number in range(256):
        records = await store.read(f"{ANSWERS_KEY}{number:02x}")
        found += [one.record for one in records if isinstance(one.record, AnswerLinked)]
    return found


async def test_another_key_does_not_reach_a_conversation_by_the_name_of_its_answer() -> None:
    simulation, store = Simulation(), MemoryStore(clock=SystemClock(), bounds=Bounds())
    async with a_dropin(simulation, store=store) as running:
        _, name, _ = await _ask(running, "remember port = 8080")
        before = await running.sessions()
    async with a_dropin(simulation, store=store, sdk_key="sk-of-somebody-else") as running:
        _, _, headers = await _ask(running, "what is port?", previous_response_id=name)
        assert "x-holdfast-session" not in headers
        assert await running.sessions() == before


async def test_an_answer_that_nobody_knows_passes_with_what_the_provider_says_of_it() -> None:
    async with a_dropin() as running:
        with pytest.raises(openai.BadRequestError) as caught:
            await _ask(running, "go on", previous_response_id="resp_of_last_year")
        assert await running.sessions() == []
    assert caught.value.code == "previous_response_not_found"


async def test_an_answer_that_the_provider_has_forgotten_is_gone_on_from_all_the_same() -> None:
    store = MemoryStore(clock=SystemClock(), bounds=Bounds())
    async with a_dropin(store=store) as running:
        _, name, _ = await _ask(running, "remember port = 8080")
    async with a_dropin(Simulation(), store=store) as running:
        text, _, _ = await _ask(running, "what is port?", previous_response_id=name)
        (key,) = await running.sessions()
        said = await _said(running, key)
    assert "8080" in text
    assert said[2:] == ["what is port?", text]


async def test_an_answer_that_is_not_to_be_kept_is_not_linked() -> None:
    async with a_dropin() as running:
        await _ask(running, "hello", store=False)
        assert await _links(running.engine.store) == []


async def test_two_requests_that_go_on_from_one_answer_are_two_conversations_with_one_past() -> None:
    async with a_dropin() as running:
        first, name, _ = await _ask(running, "remember port = 8080")
        left, _, _ = await _ask(running, "go left", previous_response_id=name)
        right, _, _ = await _ask(running, "go right", previous_response_id=name)
        said = [await _said(running, key) for key in await running.sessions()]
    assert said == [
        ["remember port = 8080", first, "go left", left],
        ["remember port = 8080", first, "go right", right],
    ]


async def test_a_conversation_of_the_providers_own_is_one_session_and_survives_its_window() -> None:
    async with a_dropin(Simulation(SMALL)) as running:
        conversation = (await running.openai.conversations.create()).id
        rescued = []
        for number in range(6):
            said = f"remember fact{number} = value{number}\n{FILLER}"
            _, _, headers = await _ask(running, said, conversation=conversation)
            rescued.append(headers.get("x-holdfast-rescued"))
        text, _, _ = await _ask(running, "what is fact0?", conversation={"id": conversation})
        sessions = await running.sessions()
        refused = [seen for seen in running.simulation.requests if seen.status != 200]
    assert "value0" in text
    assert any(rescued)
    assert len(sessions) == 1
    # Once it is known that the provider lacks a part of it, it is not asked for it again.
    assert len(refused) <= 2


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"a":1,"b":2}', b'{"a":1}'),
        (b'{"b": {"id":"x"} , "a":1}', b'{"a":1}'),
        (b'{"a":1 , "b" : "}" , "c":[]}', b'{"a":1 , "c":[]}'),
        (b'{"b":1}', b"{}"),
        (b'{"b":1,"a":{"b":2},"b":3}', b'{"a":{"b":2}}'),
        (b'{"a":"b"}', b'{"a":"b"}'),
    ],
)
def test_a_field_is_taken_out_of_a_body_and_nothing_else(body: bytes, expected: bytes) -> None:
    assert without(body, "b") == expected


async def test_a_link_to_a_session_that_is_gone_leads_nowhere_and_the_request_passes() -> None:
    simulation, store = Simulation(), MemoryStore(clock=SystemClock(), bounds=Bounds())
    async with a_dropin(simulation, store=store) as running:
        _, name, _ = await _ask(running, "remember port = 8080")
        links = await _links(store)
    # A gateway that died behind the link, and whose session was lost with its disk.
    rest = MemoryStore(clock=SystemClock(), bounds=Bounds())
    for link in links:
        await rest.admit(ANSWERS_KEY + link.answer[:2], link)
    async with a_dropin(simulation, store=rest) as running:
        text, _, headers = await _ask(running, "what is port?", previous_response_id=name)
        assert "8080" in text
        assert "x-holdfast-session" not in headers
        assert await running.sessions() == []


class FullForLinks(MemoryStore):
    """Has room for everything but links."""

    async def admit(self, session: str, record: InboxRecord) -> Admission:
        """Refuse links."""
        if isinstance(record, AnswerLinked):
            raise StoreFullError("there is no room")
        return await super().admit(session, record)


async def test_an_answer_that_cannot_be_linked_is_answered_and_kept_all_the_same() -> None:
    async with a_dropin(store=FullForLinks(clock=SystemClock(), bounds=Bounds())) as running:
        text, name, _ = await _ask(running, "remember port = 8080")
        (key,) = await running.sessions()
        assert await _said(running, key) == ["remember port = 8080", text]
        again, _, _ = await _ask(running, "what is port?", previous_response_id=name)
        assert "8080" in again
        assert await running.sessions() == [key]


async def test_a_streamed_answer_is_gone_on_from_like_any_other() -> None:
    async with a_dropin() as running:
        name = ""
        stream = await running.openai.responses.create(model="sim", input="remember port = 8080", stream=True)
        async for event in stream:
            name = event.response.id if event.type == "response.completed" else name
        text, _, _ = await _ask(running, "what is port?", previous_response_id=name)
        (key,) = await running.sessions()
        said = await _said(running, key)
    assert "8080" in text
    assert said[2:] == ["what is port?", text]
