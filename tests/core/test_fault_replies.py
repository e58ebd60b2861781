"""Replies that are failures though nobody said so."""

import msgspec
import pytest

from holdfast.core.faults.classifier import classify, classify_reply
from holdfast.core.faults.replies import Outcome, read_outcome
from holdfast.types.faults import Confidence, Fault, FaultKind, Phase, Refusal, Sent, Unit
from holdfast.types.messages import Reasoning, Reply, StopReason, Text, ToolCall, Usage

K = FaultKind
FULL = Sent(tokens=95_000, window_tokens=100_000)
SMALL = Sent(tokens=500, window_tokens=100_000)


def a_reply(text: str = "", stop: StopReason = StopReason.END, used: int | None = None) -> Reply:
    return Reply((Text(text),), stop, None if used is None else Usage(used, 1), "m")


@pytest.mark.parametrize(
    ("reply", "sent", "fault"),
    [
        (a_reply("hello"), FULL, None),
        (a_reply("hello", StopReason.LENGTH), FULL, None),
        (a_reply("hello", StopReason.CONTENT_FILTER), SMALL, None),
        (a_reply("hello", used=480), SMALL, None),
        (Reply((ToolCall("1", "f", "{}"),), StopReason.TOOL_CALLS, None, "m"), FULL, None),
        (a_reply(), SMALL, Fault(K.EMPTY_RESPONSE, Confidence.LIKELY)),
        (a_reply(" \n"), Sent(), Fault(K.EMPTY_RESPONSE, Confidence.LIKELY)),
        (
            Reply((Reasoning("hm"),), StopReason.END, None, "m"),
            FULL,
            Fault(K.EMPTY_RESPONSE, Confidence.LIKELY, K.TOKEN_OVERFLOW),
        ),
        (a_reply(stop=StopReason.LENGTH), SMALL, Fault(K.EMPTY_RESPONSE, Confidence.LIKELY, K.TOKEN_OVERFLOW)),
        (
            a_reply(stop=StopReason.LENGTH),
            FULL,
            Fault(K.TOKEN_OVERFLOW, Confidence.LIKELY, K.EMPTY_RESPONSE, unit=Unit.TOKENS),
        ),
        (a_reply(stop=StopReason.CONTENT_FILTER), FULL, Fault(K.CONTENT_POLICY, Confidence.LIKELY)),
        # More was read than the window holds: the answer is there, but to what?
        (
            a_reply("hello", used=100_001),
            FULL,
            Fault(K.TOKEN_OVERFLOW, Confidence.GUESS, K.EMPTY_RESPONSE, requested=100_001, unit=Unit.TOKENS),
        ),
        # A broken counter is no overflow.
        (a_reply("hello", used=900_000), FULL, None),
        # The prompt was cut to the window.
        (
            a_reply(used=2_048),
            Sent(tokens=2_100, window_tokens=2_050),
            Fault(K.TOKEN_OVERFLOW, Confidence.LIKELY, K.EMPTY_RESPONSE, requested=2_100, unit=Unit.TOKENS),
        ),
        (
            a_reply(used=2_048),
            Sent(window_tokens=2_050),
            Fault(K.TOKEN_OVERFLOW, Confidence.LIKELY, K.EMPTY_RESPONSE, requested=2_048, unit=Unit.TOKENS),
        ),
        (
            a_reply("hello", used=4_096),
            Sent(tokens=20_000),
            Fault(K.TOKEN_OVERFLOW, Confidence.GUESS, K.EMPTY_RESPONSE, 4_096, 20_000, Unit.TOKENS),
        ),
        # A third is missing, and by all readings before never more than a tenth was.
        (
            a_reply("hello", used=8_000),
            Sent(tokens=12_000, tokens_least=10_800),
            Fault(K.TOKEN_OVERFLOW, Confidence.GUESS, K.EMPTY_RESPONSE, 8_000, 12_000, Unit.TOKENS),
        ),
        (a_reply("hello", used=10_900), Sent(tokens=12_000, tokens_least=10_800), None),
        (a_reply("hello", used=8_000), Sent(tokens=12_000), None),
        # Nothing came of a request that was far larger than the last.
        (a_reply(), Sent(tokens=9_000, has_grown=True), Fault(K.EMPTY_RESPONSE, Confidence.LIKELY, K.TOKEN_OVERFLOW)),
        # Nor is a counter that is known to leave something out.
        (a_reply("hello", used=4_096), Sent(tokens=20_000, reports_all_read=False), None),
        # A cached prefix makes some servers report next to nothing.
        (a_reply("hello", used=40), Sent(tokens=20_000), None),
    ],
)
def test_a_reply_is_a_fault_only_where_something_is_wrong(reply: Reply, sent: Sent, fault: Fault | None) -> None:
    assert classify_reply(reply, sent) == fault


@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        (
            '{"choices": [{"finish_reason": "stop", "message": {"content": "hi"}}], "usage": {"prompt_tokens": 7}}',
            Outcome("stop", has_output=True, input_tokens=7),
        ),
        (
            '{"choices": [{"finish_reason": "tool_calls", "message": {"tool_calls": [{"id": "1"}]}}]}',
            Outcome("toolcalls", has_output=True),
        ),
        ('{"choices": [7], "usage": 7}', Outcome("", has_output=False)),
        (
            '{"candidates": [{"finishReason": "MAX_TOKENS"}], "usageMetadata": {"promptTokenCount": 7}}',
            Outcome("maxtokens", has_output=False, input_tokens=7),
        ),
        ('{"promptFeedback": {"blockReason": "SAFETY"}}', Outcome("safety", has_output=False)),
        (
            '{"content": [{"type": "tool_use", "id": "1"}], "stop_reason": "tool_use"}',
            Outcome("tooluse", has_output=True),
        ),
        (
            '{"done": true, "done_reason": "stop", "prompt_eval_count": 9, "message": {"content": ""}}',
            Outcome("stop", has_output=False, input_tokens=9),
        ),
        ('{"output": {"choices": [{"finish_reason": "stop"}]}}', Outcome("stop", has_output=False)),
        ('{"output": [{"content": [{"text": "hi"}]}], "status": "completed"}', Outcome("", has_output=True)),
        (
            '{"choices": [{"a": {"b": {"c": {"d": {"e": {"f": {"g": {"text": "deep"}}}}}}}}]}',
            Outcome("", has_output=False),
        ),
        ('{"hello": 1}', None),
        ("[1]", None),
    ],
)
def test_a_reply_is_found_in_a_raw_body_of_any_dialect(body: str, outcome: Outcome | None) -> None:
    assert read_outcome((msgspec.json.decode(body),)) == outcome


def test_a_stop_for_want_of_window_is_an_overflow_though_there_is_text() -> None:
    body = '{"choices": [{"finish_reason": "model_context_window_exceeded", "message": {"content": "hi"}}]}'
    assert classify(Refusal("openai-chat", Phase.RESPONSE, 200, body=body)) == Fault(
        K.TOKEN_OVERFLOW, Confidence.CERTAIN, K.EMPTY_RESPONSE, unit=Unit.TOKENS
    )


def test_the_pieces_of_a_stream_make_one_outcome() -> None:
    pieces = ('{"choices": [{"delta": {"content": "hi"}}]}', '{"choices": [{"finish_reason": "stop"}]}', '{"x": 1}')
    assert read_outcome(tuple(map(msgspec.json.decode, pieces))) == Outcome("stop", has_output=True)
