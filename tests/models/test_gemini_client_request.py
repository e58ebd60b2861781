"""A client's request in the Gemini dialect: both spellings, ids that are missing, lists instead of events."""

import json
from typing import Any

import pytest

from holdfast.models.dialects import DIALECTS, SERVED, dialect_at
from holdfast.models.gemini import merge_user_contents
from holdfast.models.gemini.json_list import ListEncoder, ListParser
from holdfast.models.parameters import has_effort, with_output_limit, without_effort
from holdfast.types.messages import Message, Role, Text, ToolCall, ToolResult

GEMINI = "gemini"
ISSUER = "gemini:host:m"


def decoded(body: Any, path: str = "/v1beta/models/g:generateContent") -> Any:
    return DIALECTS[GEMINI].decode_request(
        json.dumps(body, separators=(",", ":")).encode(), ISSUER, path, is_tolerant=True
    )


def test_both_spellings_of_a_request_are_read_alike() -> None:
    snake = {
        "system_instruction": {"parts": [{"text": "be short"}]},
        "contents": [
            {"role": "user", "parts": [{"inline_data": {"mime_type": "image/png", "data": "AAAA"}}]},
            {
                "role": "model",
                "parts": [{"function_call": {"name": "f", "args": {"a_b": 1}}, "thought_signature": "s"}],
            },
            {"role": "user", "parts": [{"function_response": {"name": "f", "response": {"a_b": 2}}}]},
        ],
        "tools": [{"function_declarations": [{"name": "f", "parameters": {"type": "object", "x_y": 1}}]}],
        "generation_config": {"max_output_tokens": 5, "thinking_config": {"thinking_budget": 1_024}},
    }
    text = json.dumps(snake)
    for name in ("system_instruction", "inline_data", "mime_type", "function_call", "thought_signature"):
        head, *rest = name.split("_")
        text = text.replace(name, head + "".join(word.title() for word in rest))
    for name in ("function_response", "function_declarations", "generation_config", "max_output_tokens"):
        head, *rest = name.split("_")
        text = text.replace(name, head + "".join(word.title() for word in rest))
    camel = json.loads(text.replace("thinking_config", "thinkingConfig").replace("thinking_budget", "thinkingBudget"))
    assert camel != snake
    assert decoded(snake).request == decoded(camel).request
    assert json.loads(decoded(snake).request.tools[0].parameters) == {"type": "object", "x_y": 1}
    assert decoded(snake).request.messages[1].parts[-1] == ToolCall("call_1_0", "f", '{"a_b":1}')


def test_contents_of_the_model_in_a_row_are_one_reply_whose_calls_are_numbered_on() -> None:
    call = {"functionCall": {"name": "f", "args": {}}}
    body = {"contents": [{"parts": [{"text": "a"}]}, *[{"role": "model", "parts": [call]}] * 2]}
    ids = [part.call_id for one in decoded(body).request.messages for part in one.parts if isinstance(part, ToolCall)]
    assert ids == ["call_1_0", "call_1_1"]


def test_a_result_with_an_id_of_the_clients_own_belongs_to_the_call_of_its_name() -> None:
    body = {
        "contents": [
            {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]},
            {"role": "user", "parts": [{"functionResponse": {"id": "f-17", "name": "f", "response": {"output": "x"}}}]},
            {"role": "user", "parts": [{"functionResponse": {"id": "f-18", "name": "f", "response": {"output": "y"}}}]},
        ]
    }
    results = [part for one in decoded(body).request.messages for part in one.parts if isinstance(part, ToolResult)]
    assert [result.call_id for result in results] == ["call_0_0", "f-18"]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/v1beta/models/g:generateContent", "gemini"),
        ("/v1/models/g:streamGenerateContent", "gemini"),
        ("/v1beta/models/g:countTokens", None),
        ("/v1beta/models/a/b:generateContent", None),
        ("/v1/messages", "anthropic"),
    ],
)
def test_a_dialect_is_known_by_its_path(path: str, name: str | None) -> None:
    assert dialect_at(path) == name


def test_a_changed_result_gets_the_name_and_the_id_that_its_call_has_on_the_wire() -> None:
    named = {"functionCall": {"id": "srv-1", "name": "g", "args": {}}}
    calls = {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}, named]}
    changed = [ToolResult("call_4_0", (Text("masked"),)), ToolResult("srv-1", (Text("b"),)), ToolResult("x", ())]
    (element,) = SERVED[GEMINI].encode_messages([Message(Role.TOOL, tuple(changed))], {}, ISSUER)
    body = b'{"contents": [' + json.dumps(calls).encode() + b"," + element + b"]}"
    results = json.loads(SERVED[GEMINI].settled(body))["contents"][1]["parts"]
    assert [one["functionResponse"].get("id") for one in results] == [None, "srv-1", "x"]
    assert [one["functionResponse"]["name"] for one in results] == ["f", "g", "unknown"]


def test_a_request_that_needs_no_change_keeps_its_bytes() -> None:
    for body in (b'{ "contents": [ {"role":"model","parts":[ {"text":"a"} ]} ] }', b"{}", b'{"contents":[]}'):
        assert SERVED[GEMINI].settled(body, "gemini-3-pro") == body


def test_results_of_one_reply_are_merged_into_one_content_before_the_text() -> None:
    elements = [
        b'{"role":"user","parts":[{"text":"and this"}]}',
        b'{"role":"user","parts":[{"functionResponse":{"name":"f","response":{}}}]}',
        b'{"role":"model","parts":[{"text":"b"}]}',
    ]
    merged = [json.loads(one) for one in merge_user_contents(elements)]
    assert [list(part) for part in merged[0]["parts"]] == [["functionResponse"], ["text"]]
    assert len(merged) == 2


@pytest.mark.parametrize("cut", [1, 2, 3, 7, 1_000])
def test_the_elements_of_a_list_are_found_wherever_the_stream_is_cut(cut: int) -> None:
    elements = [b'{"a":"]}\\\\\\"{["}', b'{"b":[1,{"c":[]}]}', b"{}"]
    encoder = ListEncoder()
    stream = b"".join([*map(encoder.element, elements), encoder.end()])
    parser = ListParser()
    found = [one for at in range(0, len(stream), cut) for one in parser.feed(stream[at : at + cut])]
    assert found == elements
    assert json.loads(stream) == [json.loads(one) for one in elements]
    assert parser.pending_bytes == 0


def test_a_list_without_elements_is_still_a_list() -> None:
    encoder = ListEncoder()
    assert encoder.element(b": a comment\n\n") == b""
    assert encoder.end() == b"[]"


def test_the_output_limit_and_the_effort_are_changed_in_their_object_alone() -> None:
    body = (
        b'{"generationConfig": { "maxOutputTokens": 900, "thinkingConfig":{"thinkingBudget":5},"topK": 1.50 }, "a":1}'
    )
    assert with_output_limit(GEMINI, body, 70) == body.replace(b"900", b"70")
    assert with_output_limit(GEMINI, b'{"a":1}', 70) == b'{"a":1}'
    assert has_effort(GEMINI, body)
    bare = without_effort(GEMINI, body)
    assert not has_effort(GEMINI, bare)
    assert json.loads(bare) == {"generationConfig": {"maxOutputTokens": 900, "topK": 1.5}, "a": 1}
