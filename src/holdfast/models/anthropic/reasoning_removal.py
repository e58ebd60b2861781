"""Remove thinking from a client's Anthropic request; all other bytes are unchanged."""

from collections.abc import Sequence
from itertools import groupby

import msgspec

from holdfast.models.anthropic.reasoning import BUDGET_TOKENS_MIN, THINKING_TYPES
from holdfast.models.anthropic.request_decoder import MessagesBody, blocks_of, read_body, read_messages
from holdfast.models.json_spans import locate, replaced, without

# A context management edit that the API rejects when thinking is disabled.
_CLEARS_THINKING = b"clear_thinking"


class _Kind(msgspec.Struct):
    type: str = ""


_kind_decoder = msgspec.json.Decoder(_Kind)


def without_reasoning(element: bytes) -> bytes | None:
    """Return a message without its thinking blocks, otherwise byte for byte; None if nothing is left."""
    field = locate(element, "content")
    if field is None or not field.elements:
        return element
    blocks = [element[span.start : span.end] for span in field.elements]
    kept = [block for block in blocks if _kind_decoder.decode(block).type not in THINKING_TYPES]
    if len(kept) == len(blocks):
        return element
    return replaced(element, "content", kept) if kept else None


def continues_without_thinking(turns: Sequence[tuple[str, Sequence[str]]]) -> bool:
    """Return whether the request continues a tool loop whose calls came without thinking, or with another model's.

    The API rejects enabled thinking in such a request. `turns` has alternating roles, each with its block types.
    """
    if len(turns) < 2 or "tool_result" not in turns[-1][1]:  # noqa: PLR2004 - a pair
        return False
    return not turns[-2][1] or turns[-2][1][0] not in THINKING_TYPES


def settled(body: bytes) -> bytes:
    """Adjust the thinking settings of a request whose messages or output limit were changed."""
    wire = read_body(body)
    if wire.thinking is None or wire.thinking.type != "enabled":
        return body
    continues_without = continues_without_thinking(_turns(wire))
    if not continues_without and wire.thinking.budget_tokens < wire.max_tokens:
        return body
    # Thinking counts as output: reserve half of it for the reply.
    budget = wire.max_tokens // 2
    if continues_without or budget < BUDGET_TOKENS_MIN:
        field = locate(body, "context_management")
        if field is not None and _CLEARS_THINKING in body[field.value.start : field.value.end]:
            body = without(body, "context_management")
        return _with_thinking(body, b'{"type":"disabled"}')
    return _with_thinking(body, msgspec.json.encode({"type": "enabled", "budget_tokens": budget}))


def _turns(wire: MessagesBody) -> list[tuple[str, list[str]]]:
    """Merge consecutive messages of one role, as the API does."""
    messages = [message for _, message in read_messages(wire) if message.role != "system"]
    return [
        (role, [block.type for message in turns for block in blocks_of(message.content)])
        for role, turns in groupby(messages, key=lambda message: message.role)
    ]


def _with_thinking(body: bytes, setting: bytes) -> bytes:
    field = locate(body, "thinking")
    assert field is not None, "read_body found it"
    return body[: field.value.start] + setting + body[field.value.end :]
