"""The view: what the model sees now, as a pure function of the log.

The order of the log is not quite the order of the conversation: an input that came during a turn stands in the log
before the reply it had to wait for, and enters the conversation only when its own turn starts. `conversation` puts this
right, and pairs each tool call with exactly one result.
"""

from collections.abc import Iterable, Sequence

import msgspec

from holdfast.core.messages import (
    ContentPart,
    Message,
    Part,
    Role,
    Text,
    ToolCall,
    ToolOutcome,
    ToolResult,
)
from holdfast.core.records import InputAdmitted, Logged, ReplyRecorded, ToolSettled, ToolStarted, TurnStarted

EMPTY = "(empty)"
NOT_RUN = "Not run: the turn ended before this call was started."
NO_RECEIPT = "Outcome unknown: this call was started and nothing is known of how it ended."


class Said(msgspec.Struct, frozen=True):
    """A message in its place in the conversation: the turn it belongs to and the record that completed it."""

    turn: int
    seq: int
    message: Message


class _Step(msgspec.Struct):
    """A reply with tool calls, until everything that came of them is known."""

    turn: int
    seq: int
    calls: tuple[ToolCall, ...]
    results: dict[str, ToolResult]
    started: set[str]


def conversation(records: Iterable[Logged], *, first_turn: int = 0) -> list[Said]:
    """Return what was said from `first_turn` on, in the order of the conversation.

    `records` must reach back to the input of `first_turn`. Inputs that still wait are not part of it.
    """
    said: list[Said] = []
    inputs: dict[int, tuple[ContentPart, ...]] = {}
    step: _Step | None = None
    for logged in records:
        match logged.record:
            case InputAdmitted(parts=parts):
                inputs[logged.seq] = parts
            case TurnStarted(turn=number) if number >= first_turn:
                step = _close(step, said)
                said.append(Said(number, number, Message(Role.USER, _filled(inputs.pop(number)))))
            case ReplyRecorded(turn=number, reply=reply) if number >= first_turn:
                step = _close(step, said)
                parts = tuple(part for part in reply.parts if not _is_empty(part))
                if parts:
                    said.append(Said(number, logged.seq, Message(Role.ASSISTANT, parts)))
                calls = tuple(part for part in parts if isinstance(part, ToolCall))
                step = _Step(number, logged.seq, calls, {}, set()) if calls else None
            case ToolStarted(call_id=call_id) if step is not None:
                step.started.add(call_id)
            case ToolSettled(result=result) if step is not None:
                step.results[result.call_id] = result
                step.seq = logged.seq
            case _:
                pass
    _close(step, said)
    return said


def _close(step: _Step | None, said: list[Said]) -> None:
    """Give every call of a step its one result, right behind the calls."""
    if step is None:
        return
    results = tuple(_result(step, call) for call in step.calls)
    said.append(Said(step.turn, step.seq, Message(Role.TOOL, results)))


def _result(step: _Step, call: ToolCall) -> ToolResult:
    result = step.results.get(call.call_id)
    if result is not None:
        return msgspec.structs.replace(result, parts=_filled(result.parts))
    if call.call_id in step.started:
        return ToolResult(call.call_id, (Text(NO_RECEIPT),), ToolOutcome.UNKNOWN)
    return ToolResult(call.call_id, (Text(NOT_RUN),), ToolOutcome.CANCELLED)


def _is_empty(part: Part) -> bool:
    return isinstance(part, Text) and not part.text.strip()


def _filled(parts: tuple[ContentPart, ...]) -> tuple[ContentPart, ...]:
    """Drop empty parts, but not all of them: providers refuse an empty message and an empty part alike."""
    return tuple(part for part in parts if not _is_empty(part)) or (Text(EMPTY),)


def messages_in_view(records: Sequence[Logged], *, boundary: int = 0, summary: str = "") -> tuple[Message, ...]:
    """Return what the model sees: the summary of what lies before the boundary, then the tail, verbatim."""
    tail = tuple(said.message for said in conversation(records, first_turn=boundary))
    return (Message(Role.USER, (Text(summary),)), *tail) if summary else tail
