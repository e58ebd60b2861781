"""Effort settings, and reasoning that is sent back only to its issuer."""

import json
from dataclasses import dataclass

import pytest
from msgspec.structs import replace

from holdfast.models.dialects import DIALECTS
from holdfast.types.messages import Effort, Reasoning, Reply, Text, ToolCall, ToolResult
from tests.models.conversations import (
    answered,
    asking,
    returned,
    said,
)
from tests.models.wires import ANTHROPIC, ISSUER, OPENAI, encoded, wire


def test_openai_is_told_how_much_to_think_and_to_report_usage() -> None:
    body = wire(OPENAI, asking(said("a"), output_tokens_max=9, effort=Effort.LOW))
    assert {key: body[key] for key in body if key != "messages"} == {
        "model": "m",
        "max_completion_tokens": 9,
        "reasoning_effort": "low",
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_other_servers_get_the_names_that_all_of_them_know() -> None:
    request = asking(said("a"), output_tokens_max=9)
    openai = json.loads(DIALECTS[OPENAI].encode_request(request, "m", {}, ISSUER, is_official=False))
    anthropic = json.loads(DIALECTS[ANTHROPIC].encode_request(request, "m", {}, ISSUER, is_official=False))
    assert openai["max_tokens"] == 9
    assert "max_completion_tokens" not in openai
    assert "cache_control" not in anthropic


@pytest.mark.parametrize("is_last", [False, True])
def test_a_cache_is_asked_for_only_where_more_will_follow(*, is_last: bool) -> None:
    request = replace(asking(said("a")), is_last=is_last)
    anthropic = json.loads(DIALECTS[ANTHROPIC].encode_request(request, "m", {}, ISSUER))
    assert ("cache_control" in anthropic) is not is_last


@dataclass(frozen=True)
class Thinking:
    model: str
    effort: Effort
    output: int | None
    settings: dict[str, object]


@pytest.mark.parametrize(
    "case",
    [
        Thinking("claude-sonnet-4-5", Effort.NONE, None, {"thinking": {"type": "disabled"}}),
        Thinking("claude-sonnet-4-5", Effort.LOW, 9_000, {"thinking": {"type": "enabled", "budget_tokens": 1_024}}),
        Thinking("claude-sonnet-4-5", Effort.HIGH, 9_000, {"thinking": {"type": "enabled", "budget_tokens": 4_500}}),
        Thinking(
            "claude-3-7-sonnet-20250219",
            Effort.HIGH,
            64_000,
            {"thinking": {"type": "enabled", "budget_tokens": 16_384}},
        ),
        # There is no room for the smallest budget and an answer.
        Thinking("claude-haiku-4-5-20251001", Effort.LOW, 1_500, {}),
        Thinking(
            "claude-opus-4-6", Effort.LOW, 100, {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}
        ),
        Thinking(
            "claude-opus-5", Effort.HIGH, 1, {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}}
        ),
    ],
    ids=lambda case: f"{case.model}-{case.effort}-{case.output}",
)
def test_anthropic_models_are_told_how_much_to_think_in_the_form_they_take(case: Thinking) -> None:
    request = asking(said("a"), output_tokens_max=case.output, effort=case.effort)
    body = json.loads(DIALECTS[ANTHROPIC].encode_request(request, case.model, {}, ISSUER))
    assert {key: body[key] for key in ("thinking", "output_config") if key in body} == case.settings


@pytest.mark.parametrize("model", ["claude-sonnet-4-5", "claude-opus-5"])
@pytest.mark.parametrize("effort", list(Effort))
def test_effort_survives_anthropics_dialect_where_there_is_room_for_it(model: str, effort: Effort) -> None:
    request = asking(said("a"), output_tokens_max=64_000, effort=effort)
    body = DIALECTS[ANTHROPIC].encode_request(request, model, {}, ISSUER)
    assert DIALECTS[ANTHROPIC].decode_request(body).request.effort == effort


THOUGHT = Reasoning("hm \u2028 ü", ISSUER, "c2lnbmF0dXJl")


def test_reasoning_goes_back_to_its_issuer_byte_for_byte() -> None:
    blocks = wire(ANTHROPIC, asking(said("a"), answered(THOUGHT, Text("b")), said("c")))["messages"][1]["content"]
    assert blocks[0] == {"type": "thinking", "thinking": "hm \u2028 ü", "signature": "c2lnbmF0dXJl"}


def test_hidden_reasoning_goes_back_as_it_came() -> None:
    sealed = {"type": "redacted_thinking", "data": "c2VhbGVk"}
    text = {"type": "text", "text": "b"}
    body = {"type": "message", "model": "m", "content": [sealed, text], "stop_reason": "end_turn"}
    decoder = DIALECTS[ANTHROPIC].StreamDecoder(ISSUER)
    decoder.feed(json.dumps(body).encode())
    reply = decoder.finish()
    assert isinstance(reply, Reply)
    blocks = wire(ANTHROPIC, asking(said("a"), answered(*reply.parts), said("c")))["messages"][1]["content"]
    assert blocks == [sealed, text]


@pytest.mark.parametrize("issuer", ["", "anthropic:example.com:other", "openai-chat:example.com:m"])
def test_reasoning_of_another_issuer_stays_behind(issuer: str) -> None:
    request = asking(said("a"), answered(replace(THOUGHT, issuer=issuer), Text("b")), said("c"))
    assert [block["type"] for block in wire(ANTHROPIC, request)["messages"][1]["content"]] == ["text"]


def test_reasoning_without_a_signature_stays_behind() -> None:
    request = asking(said("a"), answered(replace(THOUGHT, opaque=""), Text("b")), said("c"))
    assert [block["type"] for block in wire(ANTHROPIC, request)["messages"][1]["content"]] == ["text"]


def test_reasoning_does_not_go_back_in_openai_chat() -> None:
    assert "hm" not in encoded(OPENAI, asking(said("a"), answered(THOUGHT, Text("b")), said("c"))).decode()


@pytest.mark.parametrize("thought", [(), (THOUGHT,)])
def test_thinking_is_not_asked_for_in_the_middle_of_an_answer_that_began_without(
    thought: tuple[Reasoning, ...],
) -> None:
    calls = answered(*thought, ToolCall("a", "echo", "{}"))
    request = asking(
        said("go"), calls, returned(ToolResult("a", (Text("r"),))), effort=Effort.LOW, output_tokens_max=9_000
    )
    assert ("thinking" in wire(ANTHROPIC, request)) is bool(thought)
