"""Clean up a model's reply before it is recorded: invalid text and duplicate call ids."""

from typing import assert_never

from msgspec.structs import replace

from holdfast.core.text.truncation import well_formed
from holdfast.types.messages import Reasoning, Reply, Text, ToolCall


def tidy(reply: Reply) -> Reply:
    """Return the reply with text that can be stored and a unique id for each tool call.

    Some servers send calls without an id, or several calls with one id, which makes results ambiguous.
    """
    seen: set[str] = set()
    return replace(reply, parts=tuple(_tidy(part, seen) for part in reply.parts))


def _tidy(part: Text | ToolCall | Reasoning, seen: set[str]) -> Text | ToolCall | Reasoning:
    match part:
        case Text():
            return Text(well_formed(part.text))
        case Reasoning() if part.opaque:
            # Signed reasoning is valid only unchanged.
            return part
        case Reasoning():
            return replace(part, text=well_formed(part.text))
        case ToolCall():
            call_id = _unused(well_formed(part.call_id) or "call", seen)
            seen.add(call_id)
            return ToolCall(call_id, well_formed(part.name), well_formed(part.arguments))
        case _:
            assert_never(part)


def _unused(call_id: str, seen: set[str]) -> str:
    unique, count = call_id, 1
    while unique in seen:
        count += 1
        unique = f"{call_id}_{count}"
    return unique
