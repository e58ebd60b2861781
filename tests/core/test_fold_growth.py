"""The work of the fold grows with the number of records, not with its square: whatever a session is made of."""

from collections.abc import Callable, Iterator

import pytest

from holdfast.core.fold.session_state import Turn
from holdfast.core.turn.transitions import evolve
from holdfast.testing.builders import a_reply, a_tool_call, an_attempt_started, an_input
from holdfast.types.messages import Text, ToolResult
from holdfast.types.records import (
    AnyRecord,
    Logged,
    MessagePinned,
    NoticePosted,
    Outcome,
    ToolSettled,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)
from tests.growth import RATIO_MAX, growth


def short_turns(count: int) -> Iterator[AnyRecord]:
    """Yield turns of a message and its answer."""
    for number in range(count):
        seq = 5 * number + 1
        yield from (an_input("hello"), TurnStarted(seq), an_attempt_started(seq), a_reply("hi", turn=seq))
        yield TurnEnded(seq, Outcome.ANSWERED)


def one_long_turn(count: int) -> Iterator[AnyRecord]:
    """Yield one turn with many tool steps."""
    yield from (an_input("work"), TurnStarted(1))
    for _ in range(count):
        yield from (an_attempt_started(1), a_reply("", a_tool_call()))
        yield from (ToolStarted(1, "call-1", "look_up"), ToolSettled(1, ToolResult("call-1", (Text("found"),))))


def marks(count: int) -> Iterator[AnyRecord]:
    """Yield notices, and pins of one message that are set and taken back."""
    yield an_input("hello")
    for number in range(count):
        yield from (NoticePosted(1, "code", "sentence"), MessagePinned(1, is_pinned=number % 2 == 0))


def fold(records: list[Logged]) -> Turn:
    turn = Turn()
    for logged in records:
        turn = evolve(turn, logged)
    return turn


@pytest.mark.parametrize("shape", [short_turns, one_long_turn, marks])
def test_the_work_of_the_fold_is_linear(shape: Callable[[int], Iterator[AnyRecord]]) -> None:
    def made(count: int) -> list[Logged]:
        return [Logged(seq, float(seq), record) for seq, record in enumerate(shape(count), start=1)]

    assert growth(made, fold, 400) <= RATIO_MAX
