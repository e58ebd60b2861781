"""Request decoders: everything clients may send, and errors for the rest."""

import json

import pytest
from msgspec.structs import replace

from holdfast.models.dialects import DIALECTS
from holdfast.models.wire import MalformedRequestError
from holdfast.types.messages import Effort, Message, Reasoning, Request, Role, Text, ToolCall, ToolResult
from tests.models.conversations import (
    ECHO,
    answered,
    returned,
    said,
)
from tests.models.wires import ANTHROPIC, ISSUER, OPENAI, both


@both
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'{"model":"m"}',
        b'{"model":"m","max_tokens":1,"messages":{}}',
        b"\xff",
    ],
)
def test_a_malformed_body_is_refused_with_a_sentence(dialect: str, body: bytes) -> None:
    with pytest.raises(MalformedRequestError, match=r"the body is not a .* request"):
        DIALECTS[dialect].decode_request(body)


@pytest.mark.parametrize(
    ("dialect", "message", "complaint"),
    [
        (OPENAI, {"role": "king", "content": "x"}, r"messages\[0\] is malformed: Invalid enum value 'king'"),
        (ANTHROPIC, {"role": "king", "content": "x"}, r"messages\.0 is malformed: Invalid enum value 'king'"),
        (OPENAI, {"role": "tool", "content": "x"}, "no tool_call_id"),
        (OPENAI, {"role": "assistant", "tool_calls": [{"id": "a"}]}, "the call 'a' has no function"),
        (OPENAI, {"role": "user", "content": [{"type": "input_audio"}]}, "input_audio"),
        (
            OPENAI,
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,??"}}]},
            "base64",
        ),
        (ANTHROPIC, {"role": "user", "content": [{"type": "search_result"}]}, "search_result"),
        (ANTHROPIC, {"role": "user", "content": [{"type": "image", "source": {"type": "file"}}]}, "'file source'"),
    ],
)
def test_what_cannot_be_read_is_named(dialect: str, message: dict[str, object], complaint: str) -> None:
    body = json.dumps({"model": "m", "max_tokens": 1, "messages": [message]}).encode()
    with pytest.raises(MalformedRequestError, match=complaint):
        DIALECTS[dialect].decode_request(body)


@pytest.mark.parametrize(
    ("dialect", "setting"),
    [(OPENAI, {"reasoning_effort": "vast"}), (ANTHROPIC, {"output_config": {"effort": "vast"}})],
)
def test_an_effort_that_nobody_knows_is_refused(dialect: str, setting: dict[str, object]) -> None:
    body = json.dumps({"model": "m", "max_tokens": 1, "messages": [], **setting}).encode()
    with pytest.raises(MalformedRequestError, match="vast"):
        DIALECTS[dialect].decode_request(body)


def test_openai_reads_what_its_clients_may_send() -> None:
    body = {
        "model": "m",
        "temperature": 0.5,
        "max_tokens": 5,
        "tools": [{"type": "function", "function": {"name": "f"}}],
        "messages": [
            {"role": "system", "content": "one"},
            {"role": "developer", "content": [{"type": "text", "text": "two"}]},
            {"role": "user", "content": [{"type": "image_url", "image_url": "https://example.com/a.png"}]},
            {"role": "assistant", "content": None, "reasoning_content": "hm", "refusal": None},
            {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]},
        ],
    }
    decoded = DIALECTS[OPENAI].decode_request(json.dumps(body).encode(), ISSUER)
    assert decoded.request == Request(
        (
            said("[image at https://example.com/a.png]"),
            answered(Reasoning("hm", ISSUER)),
            answered(Text("no")),
        ),
        system="one\n\ntwo",
        tools=(replace(ECHO, name="f", description="", parameters='{"type":"object","properties":{}}'),),
        output_tokens_max=5,
    )
    assert (decoded.wants_stream, decoded.wants_usage) == (False, False)


def test_anthropic_reads_what_its_clients_may_send() -> None:
    body = {
        "model": "m",
        "max_tokens": 5,
        "system": [
            {"type": "text", "text": "one", "cache_control": {"type": "ephemeral"}},
            {"type": "text", "text": "two"},
        ],
        "thinking": {"type": "adaptive"},
        "messages": [
            {"role": "user", "content": "plain"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1.0}}]},
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "t", "content": "text"},
                    {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "paper"}},
                    {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
                ],
            },
        ],
    }
    decoded = DIALECTS[ANTHROPIC].decode_request(json.dumps(body).encode(), ISSUER)
    assert decoded.request == Request(
        (
            said("plain"),
            answered(ToolCall("t", "f", '{"a": 1.0}')),
            returned(ToolResult("t", (Text("text"),))),
            Message(Role.USER, (Text("paper"), Text("[file at https://example.com/a.png]"))),
        ),
        system="one\n\ntwo",
        output_tokens_max=5,
        effort=Effort.HIGH,
    )
