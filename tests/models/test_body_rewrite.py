"""Rewriting the conversation of a client's request; all other bytes stay."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.models.body_rewrite import Kept, count_messages, rewrite
from holdfast.models.dialects import SERVED
from holdfast.models.wire import MalformedRequestError, locate, replaced
from holdfast.types.messages import Reasoning, Text, ToolCall, ToolResult
from tests.models.conversations import answered, returned, said

CHAT, ANTHROPIC, RESPONSES = "openai-chat", "anthropic", "openai-responses"
ISSUER = "dialect:host:m"

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=4) | st.just("messages"), values, max_size=4), st.sampled_from([None, 1, 4]))
def test_a_field_is_found_where_it_stands(body: dict[str, Any], indent: int | None) -> None:
    for ascii_only in (True, False):
        wire = json.dumps(body, indent=indent, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
        for name, value in body.items():
            field = locate(wire, name)
            assert field is not None
            assert json.loads(wire[field.value.start : field.value.end]) == value
            elements = [json.loads(wire[span.start : span.end]) for span in field.elements]
            assert elements == (value if isinstance(value, list) else [])
        assert locate(wire, "not there") is None


def test_of_two_fields_with_one_name_the_last_counts_as_readers_have_it() -> None:
    body = b'{"messages": [1], "a": {"messages": [2]}, "m\\u0065ssages" : [ 3 , "],{" ] }'
    field = locate(body, "messages")
    assert field is not None
    assert [body[span.start : span.end] for span in field.elements] == [b"3", b'"],{"']


def test_all_but_the_list_stays_to_the_byte() -> None:
    body = b'{ "x":1.50,\n"messages" : [ {"a":1}, {"b":2} ] , "new field":[1e3] }'
    assert replaced(body, "messages", [b'{"b":2}', b"{}"]) == (
        b'{ "x":1.50,\n"messages" : [{"b":2},{}] , "new field":[1e3] }'
    )
    with pytest.raises(MalformedRequestError, match="no field 'input'"):
        replaced(body, "input", [])


BODIES = {
    CHAT: b"""{"model": "m", "seed": 7, "messages": [
        {"role": "system", "content": "be brief", "name": "boss"},
        {"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "AAAA"}}]},
        {"role": "assistant", "content": null, "audio": {"id": "x"}, "tool_calls":
            [{"id": "a call with spaces", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "a call with spaces", "content": "long output"}
    ], "logit_bias": {"5": 1.50}}""",
    ANTHROPIC: b"""{"model": "m", "max_tokens": 5, "system": [{"type": "text", "text": "s", "cache_control": {}}],
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}]},
        {"role": "user", "content": [{"type": "container_upload", "file_id": "f"}]},
        {"role": "assistant", "content": [{"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
            {"type": "tool_use", "id": "a call with spaces", "name": "f", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a call with spaces", "content": "long"}]}
    ], "metadata": {"user_id": "u"}}""",
    RESPONSES: b"""{"model": "m", "text": {"verbosity": "low"}, "input": [
        {"role": "developer", "content": "be brief"},
        {"role": "user", "content": [{"type": "input_audio", "data": "AAAA"}]},
        {"type": "function_call", "id": "fc_1", "call_id": "a call with spaces", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "a call with spaces", "output": "long output"}
    ], "truncation": "disabled"}""",
}
every = pytest.mark.parametrize("dialect", list(BODIES))


@every
def test_a_tolerant_reader_names_what_it_does_not_know_and_keeps_every_message_as_it_was(dialect: str) -> None:
    body = BODIES[dialect]
    decoded = SERVED[dialect].decode_request(body, ISSUER, is_tolerant=True)
    sent = json.loads(body)[SERVED[dialect].MESSAGES_FIELD]
    assert [json.loads(original.wire) for original in decoded.originals] == sent
    assert all(original.wire in body for original in decoded.originals)
    assert decoded.unread
    assert count_messages(dialect, body) == len(sent) == 4
    with pytest.raises(MalformedRequestError):
        SERVED[dialect].decode_request(body, ISSUER)


@every
def test_each_message_of_the_client_is_known_by_what_it_became(dialect: str) -> None:
    decoded = SERVED[dialect].decode_request(BODIES[dialect], ISSUER, is_tolerant=True)
    covered = [at for original in decoded.originals for at in range(original.first, original.last)]
    assert sorted(set(covered)) == list(range(len(decoded.request.messages)))


@every
def test_what_is_kept_goes_out_as_the_client_wrote_it_and_a_result_in_its_place_answers_the_same_call(
    dialect: str,
) -> None:
    body = BODIES[dialect]
    field = SERVED[dialect].MESSAGES_FIELD
    masked = returned(ToolResult("a call with spaces", (Text("[masked]"),)))
    again = rewrite(dialect, body, [Kept(0), said("[earlier]"), Kept(2), masked], {}, ISSUER)
    before, after = json.loads(body), json.loads(again)
    assert {key: value for key, value in after.items() if key != field} == {
        key: value for key, value in before.items() if key != field
    }
    originals = SERVED[dialect].decode_request(body, is_tolerant=True).originals
    assert originals[0].wire in again
    assert originals[2].wire in again
    assert b"[earlier]" in again
    assert again.count(b'"a call with spaces"') == 2
    assert b"long" not in again
    assert rewrite(dialect, body, [Kept(0), said("[earlier]"), Kept(2), masked], {}, ISSUER) == again


@every
def test_keeping_everything_changes_nothing_but_the_spaces_between(dialect: str) -> None:
    body = BODIES[dialect]
    assert json.loads(rewrite(dialect, body, [Kept(at) for at in range(4)], {}, ISSUER)) == json.loads(body)


def test_a_plain_text_for_a_conversation_is_one_message() -> None:
    body = b'{"model":"m","input":"say \\"hi\\"","store":true}'
    assert count_messages(RESPONSES, body) == 1
    assert count_messages(RESPONSES, b'{"model":"m"}') == 0
    again = json.loads(rewrite(RESPONSES, body, [said("before"), answered(Text("ok")), Kept(0)], {}, ISSUER))
    assert again["input"][2] == {"role": "user", "content": 'say "hi"'}
    assert again["store"] is True


def test_thinking_of_another_issuer_is_left_out_of_what_is_rewritten() -> None:
    message = answered(Reasoning("hm", "other:host:m", "sig"), ToolCall("c", "f", "{}"))
    again = rewrite(ANTHROPIC, BODIES[ANTHROPIC], [Kept(0), message], {}, ISSUER)
    assert b"sig" not in again.replace(b"design", b"")


def test_older_calls_of_the_chat_dialect_are_read() -> None:
    body = {
        "model": "m",
        "messages": [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": None, "refusal": "no", "function_call": {"name": "f", "arguments": "{}"}},
            {"role": "function", "name": "f", "content": "done"},
            {"role": "assistant", "tool_calls": [{"id": "c", "type": "custom", "custom": {"name": "g", "input": "x"}}]},
        ],
        "reasoning_effort": "vast",
    }
    decoded = SERVED[CHAT].decode_request(json.dumps(body).encode(), is_tolerant=True)
    assert decoded.request.messages == (
        said("go"),
        answered(Text("no"), ToolCall("f", "f", "{}")),
        returned(ToolResult("f", (Text("done"),))),
        answered(ToolCall("c", "g", "x")),
    )
    assert decoded.request.effort is None
