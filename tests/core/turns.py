"""Turns to test with: a fold, and the records of an open turn."""

from holdfast.core.fold.session_state import Turn
from holdfast.core.limits.bounds import Bounds
from holdfast.core.turn.transitions import evolve
from holdfast.testing.builders import a_reply, a_tool_call, an_attempt_started, an_input
from holdfast.types.faults import Confidence, Fault, FaultKind, Phase, Refusal
from holdfast.types.messages import Text, ToolCall, ToolResult, ToolSpec
from holdfast.types.records import AnyRecord, AttemptFailed, Logged, ToolSettled, TurnStarted

BOUNDS = Bounds()
SOUND = ToolSpec("sound", "Sound the depth.", "{}")
CALL = a_tool_call("look_up")
OTHER = a_tool_call("look_up", call_id="call-2")


def fold(*records: AnyRecord, start: Turn | None = None) -> Turn:
    turn = start or Turn()
    for record in records:
        turn = evolve(turn, Logged(turn.seq + 1, 0.0, record))
    return turn


def failed(kind: FaultKind, *, attempt: int = 1, retry_after_seconds: float | None = None) -> AttemptFailed:
    fault = Fault(kind, Confidence.CERTAIN, retry_after_seconds=retry_after_seconds)
    return AttemptFailed(1, attempt, Refusal("openai-chat", Phase.RESPONSE, status=400), fault)


def settled(call: ToolCall, text: str = "found") -> ToolSettled:
    return ToolSettled(1, ToolResult(call.call_id, (Text(text),)))


OPEN = (an_input(), TurnStarted(1))
ASKED = (*OPEN, an_attempt_started(), a_reply("", CALL, OTHER))
