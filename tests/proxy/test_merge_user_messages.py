"""Messages in a row are one question, and what an agent remarks beside it makes no other conversation."""

import json
from itertools import pairwise
from typing import Any

from holdfast.core.proxy.plan import digest_of
from holdfast.gateway.proxy.parse import merge_messages
from holdfast.models.dialects import SERVED
from holdfast.models.fake import Simulation
from holdfast.models.wire import DecodedRequest, Original
from holdfast.types.limits import Limits
from holdfast.types.messages import Message, Request, Role, Text
from holdfast.types.records import CompactionApplied, InputAdmitted
from tests.proxy.proxies import NONE_AHEAD, DropInRunning, a_dropin

SMALL = Limits(window_tokens=6_000, output_tokens_max=1_000)
FILLER = "the crew writes down what it saw on this day and what it means to do on the next. " * 40
ASIDE = {"role": "user", "content": "<<<BEGIN_AN_AGENTS_CONTEXT>>>\nships: none\n<<<END_AN_AGENTS_CONTEXT>>>"}


def said(role: Role, *texts: str) -> Message:
    return Message(role, tuple(map(Text, texts)))


def decoded(*messages: dict[str, str]) -> DecodedRequest:
    body = json.dumps({"model": "sim", "messages": messages}).encode()
    return SERVED["openai-chat"].decode_request(body, "")


def test_messages_of_a_person_in_a_row_are_one_and_everyone_elses_stay() -> None:
    found = merge_messages(
        decoded(
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": "a"},
            {"role": "user", "content": "b"},
            {"role": "assistant", "content": "c"},
            {"role": "user", "content": "d"},
            {"role": "system", "content": "be kind"},
            {"role": "user", "content": "e"},
            {"role": "user", "content": "f"},
            {"role": "system", "content": "be quick"},
        )
    )
    assert found.request.messages == (
        said(Role.USER, "a", "b"),
        said(Role.ASSISTANT, "c"),
        said(Role.USER, "d", "e", "f"),
    )
    ranges = [(original.first, original.last) for original in found.originals]
    assert ranges == [(0, 0), (0, 1), (0, 1), (1, 2), (2, 3), (2, 2), (2, 3), (2, 3), (3, 3)]


def test_a_request_without_such_messages_is_left_as_it_is() -> None:
    found = decoded({"role": "user", "content": "a"}, {"role": "assistant", "content": "b"})
    assert merge_messages(found) is found
    empty = DecodedRequest(Request(()), "sim", wants_stream=False, blobs={}, originals=(Original(b"{}", 0, 0),))
    assert merge_messages(empty) is empty


def test_a_message_is_known_without_what_was_remarked_beside_it() -> None:
    question = said(Role.USER, "what is fact0?")
    assert digest_of(said(Role.USER, "what is fact0?", str(ASIDE["content"]))) == digest_of(question)
    assert digest_of(said(Role.USER, "what is fact0?", f"{ASIDE['content']} and more")) != digest_of(question)


async def _asked(running: DropInRunning, messages: list[Any]) -> str:
    reply = await running.openai.chat.completions.create(model="sim", messages=messages, max_tokens=200)
    return reply.choices[0].message.content or ""


async def test_an_agent_that_remarks_on_every_request_has_one_session_and_its_question_stays_in_view() -> None:
    messages: list[Any] = []
    async with a_dropin(Simulation(SMALL), bounds=NONE_AHEAD) as running:
        for number in range(8):
            messages.append({"role": "user", "content": f"remember fact{number} = value{number}\n{FILLER}"})
            messages.append({"role": "assistant", "content": await _asked(running, [*messages, ASIDE])})
        text = await _asked(running, [*messages, {"role": "user", "content": "what is fact0?"}, ASIDE])
        (key,) = await running.sessions()
        records = await running.records(key)
        sent = json.loads(running.sent[-1])["messages"]
    assert "value0" in text
    assert any(isinstance(record, CompactionApplied) for record in records)
    assert sum(isinstance(record, InputAdmitted) for record in records) == 9
    # The client's newest messages are sent in full, remark included, as one message: roles alternate.
    assert sent[-1] == {"role": "user", "content": f"what is fact0?\n\n{ASIDE['content']}"}
    assert all(one["role"] != other["role"] for one, other in pairwise(sent))


async def test_a_question_stays_in_view_whatever_is_said_right_behind_it() -> None:
    async with a_dropin(Simulation(SMALL), bounds=NONE_AHEAD) as running:
        messages: list[Any] = []
        for number in range(8):
            messages.append({"role": "user", "content": f"remember fact{number} = value{number}\n{FILLER}"})
            messages.append({"role": "assistant", "content": await _asked(running, messages)})
        question = [{"role": "user", "content": "what is fact0?"}, {"role": "user", "content": "(sent from a ship)"}]
        await _asked(running, [*messages, *question])
        sent = json.loads(running.sent[-1])["messages"]
    assert sent[-1] == {"role": "user", "content": "what is fact0?\n\n(sent from a ship)"}
    assert len(sent) < len(messages)


def test_a_message_of_very_many_texts_has_them_joined_in_order() -> None:
    texts = [f"line {number}" for number in range(1_200)]
    merged = merge_messages(decoded(*({"role": "user", "content": text} for text in texts)))

    (message,) = merged.request.messages
    assert len(message.parts) <= 500
    shown = "\n\n".join(part.text for part in message.parts if isinstance(part, Text))
    assert shown.split("\n\n") == texts
