"""OpenAI-compatible servers: their deviations are decoded, and rejected settings are not sent."""

import json

import pytest

from holdfast.models.catalogue import open_model
from holdfast.models.dialects import DIALECTS
from holdfast.types.messages import Effort, Reasoning, Reply, StopReason, Text, ToolCall, Usage
from tests.models.conversations import ECHO, asking, said

ISSUER = "openai-chat:box:8000:m"

# Server -> what it streams, and what that means. Written after what is known of these servers; they are no recordings.
QUIRKS: dict[str, tuple[bytes, Reply]] = {
    "vLLM: thinking as reasoning_content, an empty first delta, usage in a chunk of its own": (
        (
            b'data: {"id":"c","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n'
            b'data: {"model":"m","choices":[{"index":0,"delta":{"reasoning_content":"hm"}}]}\n\n'
            b'data: {"model":"m","choices":[{"delta":{"content":"hi"},"finish_reason":null,"stop_reason":null}]}\n\n'
            b'data: {"model":"m","choices":[{"delta":{"content":""},"finish_reason":"stop","stop_reason":null}]}\n\n'
            b'data: {"model":"m","choices":[],"usage":{"prompt_tokens":5,"total_tokens":7,"completion_tokens":2}}\n\n'
            b"data: [DONE]\n\n"
        ),
        Reply((Reasoning("hm", ISSUER), Text("hi")), StopReason.END, Usage(5, 2), "m"),
    ),
    "vLLM: thinking as reasoning": (
        (
            b'data: {"model":"m","choices":[{"index":0,"delta":{"reasoning":"hm"}}]}\n\n'
            b'data: {"model":"m","choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":"stop"}]}\n\n'
            b"data: [DONE]\n\n"
        ),
        Reply((Reasoning("hm", ISSUER), Text("hi")), StopReason.END, None, "m"),
    ),
    "llama.cpp: content null, timings, a reason with the last piece": (
        (
            b'data: {"choices":[{"finish_reason":null,"delta":{"role":"assistant","content":null}}],"model":"m"}\n\n'
            b'data: {"choices":[{"finish_reason":null,"index":0,"delta":{"content":"hi"}}],"model":"m"}\n\n'
            b'data: {"choices":[{"finish_reason":"length","delta":{}}],"model":"m","timings":{"prompt_n":5}}\n\n'
            b"data: [DONE]\n\n"
        ),
        Reply((Text("hi"),), StopReason.LENGTH, None, "m"),
    ),
    "Ollama: a whole call in one piece, ended with stop": (
        (
            b'data: {"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"","tool_calls":'
            b'[{"id":"call_1","index":0,"type":"function","function":{"name":"echo","arguments":"{\\"a\\":1}"}}]},'
            b'"finish_reason":null}]}\n\n'
            b'data: {"model":"m","choices":[{"delta":{"role":"assistant","content":""},"finish_reason":"stop"}]}\n\n'
            b"data: [DONE]\n\n"
        ),
        Reply((ToolCall("call_1", "echo", '{"a":1}'),), StopReason.TOOL_CALLS, None, "m"),
    ),
    "LM Studio: calls without ids or numbers, arguments as an object": (
        (
            b'data: {"model":"m","choices":[{"delta":{"tool_calls":'
            b'[{"function":{"name":"echo","arguments":{"a":1}}}]}}]}\n\n'
            b'data: {"model":"m","choices":[{"delta":{"tool_calls":'
            b'[{"function":{"name":"echo","arguments":{}}}]}}]}\n\n'
            b'data: {"model":"m","choices":[{"delta":{},"finish_reason":"tool_calls"}]}\n\n'
            b"data: [DONE]\n\n"
        ),
        Reply(
            (ToolCall("call_n_0", "echo", '{"a":1}'), ToolCall("call_n_1", "echo", "{}")),
            StopReason.TOOL_CALLS,
            None,
            "m",
        ),
    ),
    "OpenRouter: comments to keep the line alive, its own fields, usage with the last chunk": (
        (
            b": OPENROUTER PROCESSING\n\n: OPENROUTER PROCESSING\n\n"
            b'data: {"id":"gen-1","provider":"X","model":"m","choices":[{"index":0,"delta":{"role":"assistant",'
            b'"content":"","reasoning":"hm","reasoning_details":[{"type":"reasoning.text","text":"hm"}]},'
            b'"finish_reason":null,"native_finish_reason":null,"logprobs":null}]}\n\n'
            b": OPENROUTER PROCESSING\n\n"
            b'data: {"model":"m","choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":"stop"}],'
            b'"usage":{"prompt_tokens":9,"completion_tokens":3,"cost":0.1,"prompt_tokens_details":{"cached_tokens":4},'
            b'"completion_tokens_details":{"reasoning_tokens":1}}}\n\n'
            b"data: [DONE]\n\n"
        ),
        Reply((Reasoning("hm", ISSUER), Text("hi")), StopReason.END, Usage(9, 3, 4, 1), "m"),
    ),
    "no reason at the end, but the end itself": (
        b'data: {"model":"m","choices":[{"delta":{"content":"hi"},"finish_reason":null}]}\n\ndata: [DONE]\n\n',
        Reply((Text("hi"),), StopReason.END, None, "m"),
    ),
    "a reason, but no end": (
        b'data: {"model":"m","choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":"stop"}]}\n\n',
        Reply((Text("hi"),), StopReason.END, None, "m"),
    ),
    "CRLF line ends, no space behind the colon, event names": (
        (
            b"event: message\r\n"
            b'data:{"model":"m","choices":[{"delta":{"content":"hi"},"finish_reason":"stop"}]}\r\n\r\n'
            b"data:[DONE]\r\n\r\n"
        ),
        Reply((Text("hi"),), StopReason.END, None, "m"),
    ),
}


@pytest.mark.parametrize("server", list(QUIRKS))
@pytest.mark.parametrize("bytes_at_once", [1, 7, 10_000])
def test_what_a_server_streams_is_understood(server: str, bytes_at_once: int) -> None:
    stream, meant = QUIRKS[server]
    decoder = DIALECTS["openai-chat"].StreamDecoder(ISSUER, "n")
    for at in range(0, len(stream), bytes_at_once):
        decoder.feed(stream[at : at + bytes_at_once])
    assert decoder.finish() == meant


def test_a_compatible_server_is_sent_only_what_all_of_them_know() -> None:
    request = asking(said("a"), system="s", tools=(ECHO,), output_tokens_max=5, effort=Effort.LOW)
    body = json.loads(DIALECTS["openai-chat"].encode_request(request, "m", {}, ISSUER, is_official=False))
    assert set(body) == {
        "model",
        "tools",
        "messages",
        "max_tokens",
        "reasoning_effort",
        "stream",
        "stream_options",
    }
    assert set(body["tools"][0]["function"]) == {"name", "description", "parameters"}
    assert {key for message in body["messages"] for key in message} == {"role", "content"}
    plain = json.loads(DIALECTS["openai-chat"].encode_request(asking(said("a")), "m", {}, ISSUER, is_official=False))
    assert set(plain) == {"model", "messages", "stream", "stream_options"}


@pytest.mark.parametrize(
    ("base_url", "place"),
    [
        ("http://localhost:8000/v1", "localhost:8000"),
        ("http://localhost:8080/v1", "localhost:8080"),
        ("http://localhost:11434/v1", "localhost:11434"),
        ("http://localhost:1234/v1", "localhost:1234"),
        ("https://openrouter.ai/api/v1", "openrouter.ai"),
    ],
)
@pytest.mark.parametrize("prefix", ["openai", "responses"])
def test_a_server_is_reached_by_its_address_without_a_key(base_url: str, place: str, prefix: str) -> None:
    by_option = open_model(f"{prefix}:m", base_url=base_url, environ={})
    by_variable = open_model(f"{prefix}:m", environ={"OPENAI_BASE_URL": base_url})
    assert by_option.issuer == by_variable.issuer
    assert f":{place}:m" in by_option.issuer
