"""Builders of records and messages for tests.

Every builder has defaults; a test passes only the values that it compares.
"""

from holdfast.types.messages import Reply, StopReason, Text, ToolCall, Usage
from holdfast.types.records import (
    AttemptStarted,
    InputAdmitted,
    NoticePosted,
    Outcome,
    ReplyRecorded,
    TurnEnded,
    TurnStarted,
)

MODEL = "test:model"


def an_input(text: str = "hello", *, client_id: str = "") -> InputAdmitted:
    """Return an input."""
    return InputAdmitted(parts=(Text(text),), client_id=client_id)


def a_turn_started(turn: int = 1) -> TurnStarted:
    """Return the start of a turn."""
    return TurnStarted(turn=turn)


def an_attempt_started(turn: int = 1, attempt: int = 1, *, model: str = MODEL) -> AttemptStarted:
    """Return the start of a model call."""
    return AttemptStarted(turn=turn, attempt=attempt, model=model)


def a_message(text: str = "hi there", *calls: ToolCall, usage: Usage | None = None, model: str = MODEL) -> Reply:
    """Return a reply with text, tool calls, or both."""
    parts: tuple[Text | ToolCall, ...] = (Text(text), *calls) if text else calls
    stop_reason = StopReason.TOOL_CALLS if calls else StopReason.END
    return Reply(parts=parts, stop_reason=stop_reason, usage=usage, model=model)


def a_reply(text: str = "hi there", *calls: ToolCall, turn: int = 1, attempt: int = 1) -> ReplyRecorded:
    """Return the record of a reply."""
    return ReplyRecorded(turn=turn, attempt=attempt, reply=a_message(text, *calls))


def a_tool_call(name: str = "look_up", arguments: str = "{}", *, call_id: str = "call-1") -> ToolCall:
    """Return a tool call."""
    return ToolCall(call_id=call_id, name=name, arguments=arguments)


def a_turn_ended(turn: int = 1, outcome: Outcome = Outcome.ANSWERED, *, code: str = "") -> TurnEnded:
    """Return the end of a turn."""
    return TurnEnded(turn=turn, outcome=outcome, code=code)


def a_notice(sentence: str = "Something was cut.", *, code: str = "test") -> NoticePosted:
    """Return a notice to the user."""
    return NoticePosted(turn=1, code=code, sentence=sentence)
