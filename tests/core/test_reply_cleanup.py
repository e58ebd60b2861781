"""Replies as they may be kept."""

from holdfast.core.turn.reply_cleanup import tidy
from holdfast.types.messages import Reasoning, Reply, StopReason, Text, ToolCall


def a_reply(*parts: Text | ToolCall | Reasoning) -> Reply:
    return Reply(parts, StopReason.END, None, "m")


def test_each_call_gets_an_id_of_its_own() -> None:
    reply = a_reply(ToolCall("a", "x", "{}"), ToolCall("a", "x", "{}"), ToolCall("", "y", "{}"), ToolCall("a", "z", ""))

    assert [part.call_id for part in tidy(reply).parts if isinstance(part, ToolCall)] == ["a", "a_2", "call", "a_3"]


def test_text_that_cannot_be_stored_is_mended() -> None:
    """FM-087: one lone surrogate in a stored text would be refused for ever."""
    reply = a_reply(Text("a\ud800b"), Reasoning("c\udfff"), ToolCall("i\ud800", "n", '"\ud800"'))

    assert tidy(reply) == a_reply(Text("a\ufffdb"), Reasoning("c\ufffd"), ToolCall("i\ufffd", "n", '"\ufffd"'))


def test_signed_reasoning_is_not_touched() -> None:
    """FM-064: byte for byte, or not at all."""
    signed = Reasoning("thought", "anthropic:x", "c2lnbmF0dXJl")

    assert tidy(a_reply(signed)) == a_reply(signed)
