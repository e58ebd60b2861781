"""The work of every codec grows linearly with its input: many messages, parts, calls, deltas and bytes."""

import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from holdfast.gateway.proxy.parse import merge_messages
from holdfast.models.body_rewrite import merge_user_elements
from holdfast.models.dialects import DIALECTS, LIVE_ENCODERS, SERVED
from holdfast.models.sse import EventParser
from holdfast.models.stream_decoder import CALLS_MAX, AnswerDecoder
from holdfast.models.stream_encoder import AnswerHead
from holdfast.models.wire import MESSAGES_MAX, PARTS_MAX, TooManyPartsError, locate, replaced, without
from holdfast.ports import TextDelta, ToolCallDelta
from holdfast.types.faults import Refusal
from holdfast.types.messages import Message, Reply, Request, Role, StopReason, Text, ToolCall, ToolResult
from tests.growth import RATIO_MAX, TIMES, growth

ALL = sorted(DIALECTS)
PATH = {"gemini": "/v1beta/models/m:streamGenerateContent"}
SIZE = 500


def test_a_quadratic_function_is_found() -> None:
    def quadratic(numbers: list[int]) -> int:
        return sum(1 for number in numbers if number not in numbers[:-1])

    assert growth(lambda size: list(range(size)), quadratic, 400) > RATIO_MAX


# --- Requests ---


def user_messages(dialect: str, count: int) -> bytes:
    if dialect == "gemini":
        return body(dialect, [{"role": "user", "parts": [{"text": "a"}]}] * count)
    return body(dialect, [{"role": "user", "content": "a"}] * count)


def tool_steps(dialect: str, count: int) -> bytes:
    """One reply with many calls, then their results."""
    ids = [f"call_{number}" for number in range(count)]
    return body(dialect, CALLS_AND_RESULTS[dialect](ids))


def parts(dialect: str, count: int) -> bytes:
    match dialect:
        case "gemini":
            return body(dialect, [{"role": "user", "parts": [{"text": "a"}] * count}])
        case "openai-responses":
            return body(dialect, [{"role": "user", "content": [{"type": "input_text", "text": "a"}] * count}])
        case _:
            return body(dialect, [{"role": "user", "content": [{"type": "text", "text": "a"}] * count}])


def system_messages(dialect: str, count: int) -> bytes:
    if dialect == "gemini":
        return json.dumps({"contents": [], "systemInstruction": {"parts": [{"text": "a"}] * count}}).encode()
    return body(dialect, [{"role": "user", "content": "a"}, *([{"role": "system", "content": "a"}] * count)])


def body(dialect: str, messages: list[Any]) -> bytes:
    field = {"gemini": "contents", "openai-responses": "input"}.get(dialect, "messages")
    return json.dumps({"model": "m", "max_tokens": 5, field: messages}).encode()


CALLS_AND_RESULTS: dict[str, Callable[[list[str]], list[Any]]] = {
    "openai-chat": lambda ids: [
        {"role": "assistant", "tool_calls": [{"id": one, "function": {"name": "f", "arguments": "{}"}} for one in ids]},
        *({"role": "tool", "tool_call_id": one, "content": "a"} for one in ids),
    ],
    "anthropic": lambda ids: [
        {"role": "assistant", "content": [{"type": "tool_use", "id": one, "name": "f", "input": {}} for one in ids]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": one, "content": "a"} for one in ids]},
    ],
    "openai-responses": lambda ids: [
        *({"type": "function_call", "call_id": one, "name": "f", "arguments": "{}"} for one in ids),
        *({"type": "function_call_output", "call_id": one, "output": "a"} for one in ids),
    ],
    # Results of the newest call first: each has to be found among all open calls.
    "gemini": lambda ids: [
        {"role": "model", "parts": [{"functionCall": {"id": one, "name": one, "args": {}}} for one in ids]},
        {
            "role": "user",
            "parts": [{"functionResponse": {"name": one, "response": {"output": "a"}}} for one in reversed(ids)],
        },
    ],
}


@pytest.mark.parametrize("dialect", ALL)
@pytest.mark.parametrize("shape", [user_messages, tool_steps, parts, system_messages])
def test_decoding_a_request_is_linear(dialect: str, shape: Callable[[str, int], bytes]) -> None:
    def decode(given: bytes) -> object:
        return merge_messages(DIALECTS[dialect].decode_request(given, "", PATH.get(dialect, ""), is_tolerant=True))

    assert growth(lambda size: shape(dialect, size), decode, SIZE) <= RATIO_MAX


@pytest.mark.parametrize("dialect", ALL)
def test_encoding_a_request_is_linear(dialect: str) -> None:
    def request(size: int) -> Request:
        calls = tuple(ToolCall(f"call_{number}", "f", "{}") for number in range(size))
        results = tuple(ToolResult(call.call_id, (Text("a"),)) for call in calls)
        said = (Message(Role.USER, (Text("a"),)), Message(Role.USER, (Text("b"),)))
        return Request((*(said * size), Message(Role.ASSISTANT, calls), Message(Role.TOOL, results)))

    def encode(given: Request) -> object:
        return DIALECTS[dialect].encode_request(given, "m", {}, "")

    assert growth(request, encode, SIZE) <= RATIO_MAX


@pytest.mark.parametrize("dialect", sorted(SERVED))
def test_merging_user_messages_of_a_body_is_linear(dialect: str) -> None:
    def elements(size: int) -> list[bytes]:
        return [b'{"role":"user","content":"a"}'] * size

    assert growth(elements, lambda given: merge_user_elements(dialect, given), SIZE) <= RATIO_MAX


@pytest.mark.parametrize("dialect", ALL)
def test_a_request_with_too_many_messages_is_rejected_before_they_are_decoded(dialect: str) -> None:
    with pytest.raises(TooManyPartsError, match=f"the limit is {MESSAGES_MAX:,}"):
        DIALECTS[dialect].decode_request(user_messages(dialect, MESSAGES_MAX + 1), is_tolerant=True)


@pytest.mark.parametrize("dialect", ALL)
def test_a_request_with_too_many_parts_is_rejected(dialect: str) -> None:
    with pytest.raises(TooManyPartsError, match=f"more than {PARTS_MAX:,} parts"):
        DIALECTS[dialect].decode_request(parts(dialect, PARTS_MAX + 1), is_tolerant=True)


# --- JSON spans ---


def wide(size: int) -> bytes:
    fields = b",".join(b'"k%d":[{"a":1}]' % number for number in range(size))
    return b'{"messages":[' + b",".join([b'{"role":"user","content":"a"}'] * size) + b"]," + fields + b"}"


@pytest.mark.parametrize(
    "work",
    [
        lambda given: locate(given, "messages"),
        lambda given: replaced(given, "messages", [b"1"]),
        lambda given: without(given, "messages"),
    ],
)
def test_finding_a_field_is_linear(work: Callable[[bytes], object]) -> None:
    assert growth(wide, work, SIZE) <= RATIO_MAX


def test_removing_a_field_that_is_repeated_is_linear() -> None:
    def repeated(size: int) -> bytes:
        return b'{"a":1' + b',"thinking":{}' * size + b"}"

    assert growth(repeated, lambda given: without(given, "thinking"), 300) <= RATIO_MAX


# --- Replies ---


def sse(events: Iterable[Any]) -> list[bytes]:
    return [b"data: " + json.dumps(event).encode() + b"\n\n" for event in events]


CALL_EVENTS: dict[str, Callable[[int], list[Any]]] = {
    "openai-chat": lambda count: [
        *(
            {"choices": [{"delta": {"tool_calls": [{"index": n, "id": f"c{n}", "function": {"name": "f"}}]}}]}
            for n in range(count)
        ),
        *(
            {"choices": [{"delta": {"tool_calls": [{"index": n, "function": {"arguments": "{}"}}]}}]}
            for n in range(count)
        ),
        {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]},
    ],
    "anthropic": lambda count: [
        *(
            {
                "type": "content_block_start",
                "index": n,
                "content_block": {"type": "tool_use", "id": f"c{n}", "name": "f"},
            }
            for n in range(count)
        ),
        *({"type": "content_block_delta", "index": n, "delta": {"partial_json": "{}"}} for n in range(count)),
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
        {"type": "message_stop"},
    ],
    "openai-responses": lambda count: [
        *(
            {
                "type": "response.output_item.added",
                "output_index": n,
                "item": {"type": "function_call", "call_id": f"c{n}", "name": "f"},
            }
            for n in range(count)
        ),
        *({"type": "response.function_call_arguments.delta", "output_index": n, "delta": "{}"} for n in range(count)),
        {"type": "response.completed", "response": {"status": "completed"}},
    ],
    "gemini": lambda count: [
        *({"candidates": [{"content": {"parts": [{"functionCall": {"name": "f"}}]}}]} for _ in range(count)),
        {"candidates": [{"finishReason": "STOP"}]},
    ],
}

TEXT_EVENTS: dict[str, Callable[[int], list[Any]]] = {
    "openai-chat": lambda count: [{"choices": [{"delta": {"content": "word "}}]}] * count,
    "anthropic": lambda count: [{"type": "content_block_delta", "index": 0, "delta": {"text": "word "}}] * count,
    "openai-responses": lambda count: [{"type": "response.output_text.delta", "delta": "word "}] * count,
    "gemini": lambda count: [{"candidates": [{"content": {"parts": [{"text": "word "}]}}]}] * count,
}


def decode_reply(dialect: str, chunks: list[bytes]) -> object:
    decoder: AnswerDecoder = DIALECTS[dialect].StreamDecoder("")
    for chunk in chunks:
        decoder.feed(chunk)
    return decoder.finish()


@pytest.mark.parametrize("dialect", ALL)
def test_decoding_a_reply_with_many_calls_is_linear(dialect: str) -> None:
    def stream(size: int) -> list[bytes]:
        return sse(CALL_EVENTS[dialect](size))

    assert growth(stream, lambda given: decode_reply(dialect, given), CALLS_MAX // TIMES) <= RATIO_MAX


@pytest.mark.parametrize("dialect", ALL)
def test_decoding_a_long_reply_is_linear(dialect: str) -> None:
    def stream(size: int) -> list[bytes]:
        return sse(TEXT_EVENTS[dialect](size))

    assert growth(stream, lambda given: decode_reply(dialect, given), 8 * SIZE) <= RATIO_MAX


@pytest.mark.parametrize("dialect", ALL)
def test_a_reply_with_too_many_calls_is_rejected(dialect: str) -> None:
    outcome = decode_reply(dialect, sse(CALL_EVENTS[dialect](CALLS_MAX + 1)))
    assert isinstance(outcome, Refusal)
    assert outcome.cause == f"the response has more than {CALLS_MAX:,} tool calls"


def test_splitting_a_stream_into_events_is_linear_whatever_its_chunks() -> None:
    def chunks(size: int) -> list[bytes]:
        return [b"x"] * size

    def split(given: list[bytes]) -> None:
        parser = EventParser()
        parser.feed(b"data: ")
        for chunk in given:
            parser.feed(chunk)

    assert growth(chunks, split, 20 * SIZE) <= RATIO_MAX


@pytest.mark.parametrize("dialect", sorted(LIVE_ENCODERS))
def test_encoding_a_live_reply_with_interleaved_calls_is_linear(dialect: str) -> None:
    """Two open calls of which the first is never complete JSON: it must not be parsed at every piece."""

    def encode(count: int) -> None:
        encoder = LIVE_ENCODERS[dialect](AnswerHead("r", "m"))
        encoder.start()
        encoder.feed(ToolCallDelta(0, "f", '["', "c0"))
        encoder.feed(ToolCallDelta(1, "f", "{}", "c1"))
        for _ in range(count):
            encoder.feed(ToolCallDelta(0, "f", "word ", "c0"))

    assert growth(lambda size: size, encode, 6 * SIZE) <= RATIO_MAX


@pytest.mark.parametrize("dialect", sorted(LIVE_ENCODERS))
def test_encoding_a_live_reply_is_linear(dialect: str) -> None:
    def reply(size: int) -> Reply:
        calls = tuple(ToolCall(f"c{number}", "f", "{}") for number in range(size))
        return Reply((Text("word " * size), *calls), StopReason.TOOL_CALLS, None, "m")

    def encode(given: Reply) -> None:
        encoder = LIVE_ENCODERS[dialect](AnswerHead("r", "m"))
        encoder.start()
        for part in given.parts:
            match part:
                case Text(text=text):
                    for _ in range(len(text) // 5):
                        encoder.feed(TextDelta("word "))
                case ToolCall(call_id=call_id):
                    encoder.feed(ToolCallDelta(int(call_id[1:]), "f", "{}", call_id))
        encoder.finish(given)

    assert growth(reply, encode, CALLS_MAX // TIMES) <= RATIO_MAX
