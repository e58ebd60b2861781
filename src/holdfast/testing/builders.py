"""Records and messages in one readable line each, for tests.

Every builder fills in what the test does not care about; what a test compares, it names.
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
    """A message that someone sent."""
    return InputAdmitted(parts=(Text(text),), client_id=client_id)


def a_turn_started(turn: int = 1) -> TurnStarted:
    """The input with this seq is being answered."""
    return TurnStarted(turn=turn)


def an_attempt_started(turn: int = 1, attempt: int = 1, *, model: str = MODEL) -> AttemptStarted:
    """A request is about to be sent."""
    return AttemptStarted(turn=turn, attempt=attempt, model=model)


def a_message(text: str = "hi there", *calls: ToolCall, usage: Usage | None = None, model: str = MODEL) -> Reply:
    """What a model answered: text, calls of tools, or both."""
    parts: tuple[Text | ToolCall, ...] = (Text(text), *calls) if text else calls
    stop_reason = StopReason.TOOL_CALLS if calls else StopReason.END
    return Reply(parts=parts, stop_reason=stop_reason, usage=usage, model=model)


def a_reply(text: str = "hi there", *calls: ToolCall, turn: int = 1, attempt: int = 1) -> ReplyRecorded:
    """The record of such an answer."""
    return ReplyRecorded(turn=turn, attempt=attempt, reply=a_message(text, *calls))


def a_tool_call(name: str = "look_up", arguments: str = "{}", *, call_id: str = "call-1") -> ToolCall:
    """A model asks for a tool."""
    return ToolCall(call_id=call_id, name=name, arguments=arguments)


def a_turn_ended(turn: int = 1, outcome: Outcome = Outcome.ANSWERED, *, code: str = "") -> TurnEnded:
    """The outcome of an input."""
    return TurnEnded(turn=turn, outcome=outcome, code=code)


def a_notice(sentence: str = "Something was cut.", *, code: str = "test") -> NoticePosted:
    """A sentence to the person."""
    return NoticePosted(turn=1, code=code, sentence=sentence)
