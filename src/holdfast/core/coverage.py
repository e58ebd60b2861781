"""Whether a view accounts for every message: each is shown, represented, still to come, or left out for a reason."""

from collections.abc import Sequence

from holdfast.core.fold import Turn
from holdfast.core.messages import Message, Part, Reasoning, Role, Text, ToolCall, ToolResult
from holdfast.core.records import InputAdmitted, Logged, ReplyRecorded, TurnEnded
from holdfast.core.view import Said


def uncovered(tail: Sequence[Logged], turn: Turn, said: Sequence[Said]) -> list[int]:
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
