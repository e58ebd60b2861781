"""Answers without the calls of one tool: what a client decodes is the rest of them, whatever the chunks were."""

import random
from itertools import pairwise

import msgspec
import pytest

from holdfast.models.dialect_filters import FILTERS
from holdfast.models.dialects import DIALECTS
from holdfast.models.fake.tokens import sign
from holdfast.types.messages import Reasoning, Reply, StopReason, Text, ToolCall, Usage

NAMES = sorted(FILTERS)
OURS = ToolCall("call_r", "recall", '{"query":"berth"}')
THEIRS = ToolCall("call_1", "depth", '{"at":[1,2]}')
OTHER = ToolCall("call_2", "look", "{}")
USAGE = Usage(100, 10, 40, 3)


def _thought(dialect: str, text: str) -> tuple[Reasoning, ...]:
    if dialect == "anthropic":
        return (Reasoning(text, dialect, sign("sim", text)),)
    if dialect == "openai-responses":
        node = {"id": f"rs_{text}", "type": "reasoning", "summary": [], "encrypted_content": text}
        return (Reasoning("", dialect, msgspec.json.encode(node).decode()),)
    return ()


def _reply(*parts: Text | ToolCall | Reasoning) -> Reply:
    has_calls = any(isinstance(part, ToolCall) for part in parts)
    return Reply(parts, StopReason.TOOL_CALLS if has_calls else StopReason.END, USAGE, "sim")


def _chunks(body: bytes, seed: int) -> list[bytes]:
    chosen = random.Random(seed)
    places = sorted({0, len(body), *(chosen.randrange(len(body)) for _ in range(chosen.randrange(12)))})
    return [body[start:end] for start, end in pairwise(places)]


def _encoded(dialect: str, reply: Reply, number: int, *, is_streamed: bool) -> bytes:
    name = f"resp_{number}"
    if is_streamed:
        return b"".join(DIALECTS[dialect].encode_stream(reply, name))
    return DIALECTS[dialect].encode_reply(reply, name)


def _filtered(dialect: str, replies: list[Reply], seed: int, *, is_streamed: bool) -> bytes:
    """Return the bytes that a client gets for replies of which all but the last are continued."""
    one, sent = FILTERS[dialect]("recall"), b""
    for number, reply in enumerate(replies):
        one.begin(hides=True)
        for chunk in _chunks(_encoded(dialect, reply, number, is_streamed=is_streamed), seed + number):
            sent += one.feed(chunk)
        sent += one.end(is_over=number == len(replies) - 1)
    return sent


def _decoded(dialect: str, body: bytes) -> Reply:
    decoder = DIALECTS[dialect].StreamDecoder(dialect)
    decoder.feed(body)
    reply = decoder.finish()
    assert isinstance(reply, Reply)
    return reply


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("dialect", NAMES)
@pytest.mark.parametrize("seed", range(6))
def test_an_answer_without_the_tool_keeps_its_bytes(dialect: str, seed: int, *, is_streamed: bool) -> None:
    for parts in ((Text("Hello there."),), (Text("I look."), THEIRS, OTHER), (THEIRS,)):
        reply = _reply(*_thought(dialect, "hm"), *parts)
        expected = _encoded(dialect, reply, 0, is_streamed=is_streamed)
        assert _filtered(dialect, [reply], seed, is_streamed=is_streamed) == expected


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("dialect", NAMES)
@pytest.mark.parametrize("order", [(OURS, THEIRS, OTHER), (THEIRS, OURS, OTHER), (THEIRS, OTHER, OURS)])
def test_a_mixed_answer_keeps_everything_but_our_call(
    dialect: str, order: tuple[ToolCall, ...], *, is_streamed: bool
) -> None:
    thought = _thought(dialect, "hm")
    for seed in range(6):
        body = _filtered(dialect, [_reply(*thought, Text("I look."), *order)], seed, is_streamed=is_streamed)
        reply = _decoded(dialect, body)
        assert b"recall" not in body
        assert reply.parts == (*thought, Text("I look."), THEIRS, OTHER)
        assert (reply.stop_reason, reply.usage) == (StopReason.TOOL_CALLS, USAGE)


@pytest.mark.parametrize("dialect", NAMES)
def test_a_streamed_answer_is_joined_with_the_one_that_continues_it(dialect: str) -> None:
    first = _reply(*_thought(dialect, "one"), Text("I look."), *_thought(dialect, "two"), OURS)
    second = _reply(*_thought(dialect, "three"), OURS)
    last = _reply(*_thought(dialect, "four"), Text("Found."), THEIRS)
    for seed in range(6):
        body = _filtered(dialect, [first, second, last], seed, is_streamed=True)
        reply = _decoded(dialect, body)
        assert b"recall" not in body
        gap = "\n\n" if dialect in ("openai-chat", "gemini") else ""
        assert "".join(part.text for part in reply.parts if isinstance(part, Text)) == f"I look.{gap}Found."
        kept = [part for part in reply.parts if isinstance(part, Reasoning)]
        # Reasoning right before a call of ours stays behind with it.
        assert kept == [*_thought(dialect, "one"), *_thought(dialect, "four")]
        assert [part for part in reply.parts if isinstance(part, ToolCall)] == [THEIRS]
        assert reply.usage == Usage(300, 30, 120, 9)


@pytest.mark.parametrize("dialect", NAMES)
def test_a_whole_answer_that_is_continued_is_not_seen_at_all(dialect: str) -> None:
    body = _filtered(dialect, [_reply(Text("I look."), OURS), _reply(Text("Found."))], 1, is_streamed=False)
    reply = _decoded(dialect, body)
    assert (reply.parts, reply.usage) == ((Text("Found."),), Usage(200, 20, 80, 6))


@pytest.mark.parametrize("dialect", NAMES)
def test_an_attempt_that_failed_unseen_leaves_nothing_in_the_next(dialect: str) -> None:
    one = FILTERS[dialect]("recall")
    broken = _encoded(dialect, _reply(*_thought(dialect, "lost"), OURS), 0, is_streamed=True)
    assert one.feed(broken[: len(broken) // 2]) == b""
    assert not one.has_shown
    one.begin(hides=True)
    whole = _encoded(dialect, _reply(Text("Found.")), 1, is_streamed=True)
    assert one.feed(whole) + one.end(is_over=True) == whole


def test_the_last_text_of_a_server_that_sends_it_with_the_end_is_not_lost() -> None:
    one = FILTERS["openai-chat"]("recall")
    call = {"index": 0, "id": "c", "type": "function", "function": {"name": "recall", "arguments": "{}"}}
    chunk = {"id": "a", "choices": [{"index": 0, "delta": {"content": "I look.", "tool_calls": [call]}}]}
    chunk["choices"][0]["finish_reason"] = "tool_calls"  # type: ignore[index]
    one.feed(b"data: " + msgspec.json.encode(chunk) + b"\n\ndata: [DONE]\n\n")
    sent = one.end(is_over=False)
    assert (b"I look." in sent, b"recall" in sent, b"[DONE]" in sent) == (True, False, False)
    assert one.said_before == "I look."
