"""The view: what the model sees now, as a pure function of the log.

The order of the log is not quite the order of the conversation: an input that came during a turn stands in the log
before the reply it had to wait for, and enters the conversation only when its own turn starts. `conversation` puts this
right, and pairs each tool call with exactly one result.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from holdfast.core.fold.session_state import Turn
from holdfast.types.messages import (
    ContentPart,
    Media,
    Message,
    Part,
    Reasoning,
    Role,
    Text,
    ToolCall,
    ToolOutcome,
    ToolResult,
)
from holdfast.types.records import (
    DamageSetAside,
    InputAdmitted,
    Logged,
    ReplyRecorded,
    ToolSettled,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)

EMPTY = "(empty)"
NOT_RUN = "Not run: the turn ended before this call was started."
NO_RECEIPT = "Outcome unknown: this call was started and nothing is known of how it ended."
UNREADABLE = "(The message that stood here was damaged on the disk and cannot be read any more.)"
# Output below this costs about as much as the line that would stand for it.
MASKED_BYTES_MIN = 600


class ViewMessage(msgspec.Struct, frozen=True):
    """A message in its place in the conversation."""

    turn: int
    # The record in which its words stand, for citing it.
    seq: int
    # Where it entered the conversation: these rise strictly from message to message, as `seq` may not.
    place: int
    message: Message


class Lens(msgspec.Struct, frozen=True):
    """How records are shown.

    Some parts as something else; tool output before one seq only by a line; no thinking from before another.
    """

    replaced: Mapping[tuple[int, int], Text | Media] = {}
    masked_before: int = 0
    reasoning_from: int = 0


PLAIN = Lens()


class _Step(msgspec.Struct):
    """A reply with tool calls, until everything that came of them is known."""

    turn: int
    seq: int
    place: int
    calls: tuple[ToolCall, ...]
    results: dict[str, ToolResult]
    started: set[str]


def conversation(
    records: Iterable[Logged], *, first_turn: int = 0, first_step: int = 0, lens: Lens = PLAIN
) -> list[ViewMessage]:
    """Return what was said from `first_turn` on, in the order of the conversation.

    Of that turn its input, and of its work what came from `first_step` on. `records` must reach back to that input.
    Inputs that still wait are not part of the conversation.
    """
    said: list[ViewMessage] = []
    inputs: dict[int, tuple[ContentPart, ...]] = {}
    begun: set[int] = set()
    step: _Step | None = None
    for logged in records:
        match logged.record:
            case InputAdmitted(parts=parts):
                inputs[logged.seq] = through(lens, logged.seq, parts)
            case TurnStarted(turn=number) if number >= first_turn:
                _close(step, said)
                step = None
                begun.add(number)
                said.append(_asked(number, logged.seq, inputs))
            case ReplyRecorded(turn=number, reply=reply) if number >= first_turn and logged.seq >= first_step:
                _close(step, said)
                if number not in begun:
                    # The record with which its turn began is lost. It stood before this one.
                    begun.add(number)
                    said.append(_asked(number, logged.seq - 1, inputs))
                spoken = tuple(
                    part
                    for part in reply.parts
                    if not _is_empty(part) and not (isinstance(part, Reasoning) and logged.seq < lens.reasoning_from)
                )
                if spoken:
                    said.append(ViewMessage(number, logged.seq, logged.seq, Message(Role.ASSISTANT, spoken)))
                calls = tuple(part for part in spoken if isinstance(part, ToolCall))
                # Where no result comes, the place behind the reply is free: a record stands before the next message.
                step = _Step(number, logged.seq, logged.seq + 1, calls, {}, set()) if calls else None
            case ToolStarted(call_id=call_id) if step is not None:
                step.started.add(call_id)
            case ToolSettled(result=result) if step is not None and result.call_id not in step.results:
                step.results[result.call_id] = _result_through(lens, logged.seq, result)
                step.seq = step.place = logged.seq
            case DamageSetAside() if step is not None:
                # The start of any of its calls may be what is lost.
                step.started.update(call.call_id for call in step.calls)
            case _:
                pass
    _close(step, said)
    return said


def _asked(number: int, place: int, inputs: dict[int, tuple[ContentPart, ...]]) -> ViewMessage:
    """Return an input where its turn begins; where it is lost, a line that says so."""
    parts = inputs.pop(number, (Text(UNREADABLE),))
    return ViewMessage(number, number, place, Message(Role.USER, _filled(parts)))


def _close(step: _Step | None, said: list[ViewMessage]) -> None:
    """Give every call of a step its one result, right behind the calls."""
    if step is None:
        return
    results = tuple(_result(step, call) for call in step.calls)
    said.append(ViewMessage(step.turn, step.seq, step.place, Message(Role.TOOL, results)))


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


def through(lens: Lens, seq: int, parts: tuple[ContentPart, ...]) -> tuple[ContentPart, ...]:
    """Return the parts of a record as they are shown."""
    return tuple(lens.replaced.get((seq, place), part) for place, part in enumerate(parts))


def _result_through(lens: Lens, seq: int, result: ToolResult) -> ToolResult:
    parts = through(lens, seq, result.parts)
    size = sum(bytes_shown(part) for part in parts)
    if seq < lens.masked_before and size >= MASKED_BYTES_MIN:
        parts = (Text(f"[{size:,} bytes of output, no longer shown; recall(seq={seq}) reads them]"),)
    return msgspec.structs.replace(result, parts=parts)


def bytes_shown(part: ContentPart) -> int:
    """Return what a part comes to where it is shown whole."""
    return len(part.text.encode()) if isinstance(part, Text) else part.blob.size_bytes


def lens_of(turn: Turn) -> Lens:
    """Return how the log is shown where a session stands."""
    replaced = {(replaced.seq, replaced.place): replaced.shown for replaced in turn.replaced}
    return Lens(replaced, turn.masked_before, turn.reasoning_from)


def messages_in_view(tail: Sequence[Logged], turn: Turn, *, pinned: Sequence[Logged] = ()) -> tuple[Message, ...]:
    """Return what the model sees: pinned messages, the summary of what lies before the boundary, the tail.

    `tail` reaches back to the boundary, or further; `pinned` are records of pinned inputs from before it.
    """
    lens = lens_of(turn)
    carried = {
        logged.seq: Message(Role.USER, _filled(through(lens, logged.seq, logged.record.parts)))
        for logged in (*pinned, *tail)
        if logged.seq < turn.boundary and logged.seq in turn.pins and isinstance(logged.record, InputAdmitted)
    }
    pins = tuple(carried[seq] for seq in sorted(carried))
    said = conversation(tail, first_turn=turn.boundary, first_step=turn.first_step, lens=lens)
    summary = turn.compaction.summary if turn.compaction else ""
    past = (Message(Role.USER, (Text(summary),)),) if summary else ()
    return (*pins, *past, *(one.message for one in said))


# --- Whether a view accounts for every message: each is shown, represented, still to come, or left out for a reason.


def uncovered(tail: Sequence[Logged], turn: Turn, said: Sequence[ViewMessage]) -> list[int]:
    """Return the messages of the tail, by their seq, that are nowhere.

    A message is nowhere if it is not shown, does not wait, was not ended before its turn began, says something, and is
    not represented by what stands for the work before the first step in view.
    """
    shown = {one.seq for one in said} | {one.place for one in said}
    accounted = shown | {*turn.waiting, *turn.pins}
    ended = {each.record.turn for each in tail if isinstance(each.record, TurnEnded)}
    return [
        logged.seq
        for logged in tail
        if logged.seq >= turn.boundary and logged.seq not in accounted and _must_be_shown(logged, turn, ended)
    ]


def _must_be_shown(logged: Logged, turn: Turn, ended: set[int]) -> bool:
    match logged.record:
        case InputAdmitted():
            # One that ended while it waited never entered the conversation.
            return logged.seq not in ended
        case ReplyRecorded(turn=number, reply=reply):
            is_in_view = number >= turn.boundary and logged.seq >= turn.first_step
            return is_in_view and any(map(_says_something, reply.parts))
        case _:
            return False


def _says_something(part: Part) -> bool:
    """Whether a part is always shown: empty text never is, and thinking only to who can check it."""
    return not isinstance(part, Reasoning) and not (isinstance(part, Text) and not part.text.strip())


def unpaired(messages: Sequence[Message]) -> list[str]:
    """Return the tool calls, by their ids, that do not have exactly one result right behind them, and the other way."""
    found: list[str] = []
    open_calls: list[str] = []
    for message in messages:
        results = [part.call_id for part in message.parts if isinstance(part, ToolResult)]
        if message.role is Role.TOOL:
            found += sorted(set(open_calls) ^ set(results))
            open_calls = []
            continue
        found += open_calls
        open_calls = [part.call_id for part in message.parts if isinstance(part, ToolCall)]
    return found + open_calls
