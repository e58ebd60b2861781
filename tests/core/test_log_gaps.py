"""Folding and showing a log with holes: nothing stops, every input has one outcome, no call is run twice."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.core.fold.session_state import IllegalStepError, InFlight, Turn
from holdfast.core.limits.bounds import Bounds
from holdfast.core.turn.decide import CallModel, EndTurn, Rest, RunTools, StartTurn, decide, interruptions
from holdfast.core.turn.failure_messages import UNREADABLE
from holdfast.core.turn.transitions import evolve
from holdfast.core.view import NO_RECEIPT, conversation, messages_in_view
from holdfast.core.view import UNREADABLE as NOT_SHOWN
from holdfast.testing.builders import a_reply, a_tool_call, a_turn_ended, an_attempt_started, an_input
from holdfast.types.faults import Rung
from holdfast.types.messages import Message, Role, Text, ToolCall, ToolOutcome, ToolResult
from holdfast.types.records import (
    Abandonment,
    AnyRecord,
    CompactionOutcome,
    CompactionRequested,
    CompactionSettled,
    DamageSetAside,
    InputAdmitted,
    Logged,
    Outcome,
    ReasoningDropped,
    ReplyRecorded,
    RungFinished,
    RungResult,
    ToolInterrupted,
    ToolSettled,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    owed,
    turn_of,
)
from tests.core.worlds import BOUNDS as WORLD_BOUNDS
from tests.core.worlds import World, numbers

BOUNDS = Bounds()
CALL = a_tool_call("pay", call_id="pay-1")
HOLE = DamageSetAside("torn", until=100)
OPEN = (an_input(), TurnStarted(1))
ASKED = (*OPEN, an_attempt_started(), a_reply("", CALL))


def settled(call_id: str = "pay-1") -> ToolSettled:
    return ToolSettled(1, ToolResult(call_id, (Text("paid"),)))


def logged(*records: AnyRecord) -> list[Logged]:
    return [Logged(seq, 0.0, record) for seq, record in enumerate(records, start=1)]


def fold(*records: AnyRecord) -> Turn:
    turn = Turn()
    for each in logged(*records):
        turn = evolve(turn, each)
    return turn


def test_a_hole_says_nothing_of_turns_and_owes_only_what_was_a_message() -> None:
    assert (turn_of(HOLE), owed(HOLE), owed(replace(HOLE, is_owed=True))) == (None, 0, 1)


def test_what_is_owed_is_what_waits_is_open_and_is_wanted() -> None:
    assert fold().owed == 0
    assert fold(*OPEN, an_input(), CompactionRequested()).owed == 3


@pytest.mark.parametrize(
    "records",
    [
        (HOLE, TurnStarted(1)),
        (an_input(), HOLE, an_attempt_started()),
        (*OPEN, HOLE, a_reply("", CALL)),
        (*OPEN, an_attempt_started(), HOLE, an_attempt_started(attempt=2)),
        (*OPEN, HOLE, RungFinished(1, Rung.DIGEST, RungResult.CHANGED)),
        (*OPEN, HOLE, ReasoningDropped(1, 1)),
        (*OPEN, HOLE, CompactionSettled(3, CompactionOutcome.APPLIED)),
        (*OPEN, CompactionRequested(), an_attempt_started(), HOLE, CompactionSettled(3, CompactionOutcome.APPLIED)),
        (*OPEN, an_attempt_started(), HOLE, a_turn_ended()),
        (*OPEN, an_input(), HOLE, TurnStarted(3)),
        (*OPEN, HOLE, a_turn_ended(3)),
        (*OPEN, HOLE, RungFinished(0, Rung.DIGEST, RungResult.UNCHANGED)),
        (HOLE, HOLE, ToolInterrupted(1, "pay-1")),
    ],
)
def test_behind_a_hole_whatever_comes_is_evidence_and_without_one_it_is_refused(records: tuple[AnyRecord, ...]) -> None:
    turn = fold(*records)

    assert turn.seq == len(records)
    with pytest.raises(IllegalStepError):
        fold(*(replace(each, until=each_seq(records)) if each == HOLE else each for each in records))


def each_seq(records: tuple[AnyRecord, ...]) -> int:
    """The writer knew more up to the hole itself, and not behind it."""
    return records.index(HOLE) + 1


def test_a_turn_whose_start_is_lost_is_open_and_goes_on() -> None:
    turn = fold(an_input(), HOLE, an_attempt_started(), a_reply())

    assert (turn.number, turn.waiting, decide(turn, BOUNDS)) == (1, (), EndTurn(1, Outcome.ANSWERED))


def test_a_turn_whose_end_is_lost_is_closed_by_the_next() -> None:
    turn = fold(*OPEN, an_attempt_started(), a_reply(), HOLE, an_input(), TurnStarted(6))

    assert (turn.number, turn.in_flight, turn.owed) == (6, InFlight.READY, 1)


def test_a_message_that_is_lost_ends_its_turn_with_one_outcome_and_is_never_sent_to_a_model() -> None:
    turn = fold(replace(HOLE, is_owed=True), an_input())
    assert decide(turn, BOUNDS) == EndTurn(1, Outcome.FAILED, UNREADABLE)

    turn = evolve(turn, Logged(3, 0.0, TurnEnded(1, Outcome.FAILED, "damaged")))

    assert (turn.unreadable, decide(turn, BOUNDS)) == ((), StartTurn(2))


def test_a_call_whose_start_may_be_lost_is_not_run_again() -> None:
    assert decide(fold(*ASKED), BOUNDS) == RunTools((CALL,))
    turn = fold(*ASKED, HOLE)

    closed = interruptions(turn, Abandonment.INTERRUPTED, BOUNDS)

    assert [each.result.outcome for each in closed if isinstance(each, ToolSettled)] == [ToolOutcome.UNKNOWN]
    assert decide(fold(*ASKED, HOLE, *closed), BOUNDS) == CallModel(2)


def test_a_start_that_comes_behind_the_hole_is_the_start_and_its_receipt_counts() -> None:
    started = ToolStarted(1, "pay-1", "pay", is_idempotent=True)
    turn = fold(*ASKED, HOLE, started)

    assert (turn.in_flight, turn.calls_asked) == (InFlight.TOOLS, ())
    # It may have been started more often than the log says, so even an idempotent tool is not started again.
    assert isinstance(interruptions(turn, Abandonment.INTERRUPTED, BOUNDS)[0], ToolSettled)
    assert decide(fold(*ASKED, HOLE, started, settled()), BOUNDS) == CallModel(2)


def test_a_call_that_nobody_can_read_any_more_is_neither_run_nor_shown() -> None:
    lost_reply = (*OPEN, an_attempt_started(), HOLE, ToolStarted(1, "pay-1", "pay"), settled())

    assert decide(fold(*lost_reply), BOUNDS) == CallModel(2)
    assert [said.message.role for said in conversation(logged(*lost_reply))] == [Role.USER]


def test_a_second_receipt_and_one_of_an_unknown_call_change_nothing() -> None:
    running = (*ASKED, ToolStarted(1, "pay-1", "pay"), HOLE)

    assert fold(*running, settled("other")).calls_running == fold(*running).calls_running
    again = ToolSettled(1, ToolResult("pay-1", (Text("again"),)))
    said = conversation(logged(*running, settled(), again))
    assert said[-1].message == Message(Role.TOOL, (ToolResult("pay-1", (Text("paid"),)),))


def test_damage_that_is_not_set_aside_yet_lets_everything_behind_it_follow() -> None:
    turn = fold(DamageSetAside("torn"), TurnStarted(1), TurnStarted(2))

    assert (turn.number, turn.seq) == (2, 3)


def test_a_message_that_is_lost_is_shown_by_a_line_wherever_its_turn_appears() -> None:
    lost = Message(Role.USER, (Text(NOT_SHOWN),))
    answer = Message(Role.ASSISTANT, (Text("hi there"),))

    assert messages_in_view(logged(HOLE, TurnStarted(1), an_attempt_started(), a_reply()), Turn()) == (lost, answer)
    assert messages_in_view(logged(HOLE, HOLE, an_attempt_started(), a_reply()), Turn()) == (lost, answer)


def test_a_message_whose_start_is_lost_stands_before_its_answer() -> None:
    said = conversation(logged(an_input("ahoy"), HOLE, an_attempt_started(), a_reply(), a_reply("more", attempt=2)))

    assert [(each.message.role, each.seq, each.place) for each in said] == [
        (Role.USER, 1, 3),
        (Role.ASSISTANT, 4, 4),
        (Role.ASSISTANT, 5, 5),
    ]


def test_a_call_beside_a_hole_is_not_said_to_have_not_run() -> None:
    results = conversation(logged(*ASKED, HOLE))[-1].message.parts

    assert results == (ToolResult("pay-1", (Text(NO_RECEIPT),), ToolOutcome.UNKNOWN),)


@settings(max_examples=150, deadline=None)
@given(script=numbers, places=st.lists(st.integers(0, 10_000), min_size=1, max_size=6), is_set_aside=st.booleans())
def test_whatever_is_lost_of_any_log_it_folds_is_shown_in_pairs_and_goes_on_to_rest(
    script: list[int], places: list[int], *, is_set_aside: bool
) -> None:
    world = World(script)
    world.live()
    log = list(world.log)
    until = len(log) if is_set_aside else 0
    for place in {place % len(log) for place in places}:
        was_input = isinstance(log[place].record, InputAdmitted)
        ended = any(isinstance(each.record, TurnEnded) and each.record.turn == place + 1 for each in log)
        log[place] = replace(log[place], record=DamageSetAside("torn", "", until, was_input and not ended))

    turn, reruns = _live_on(log)

    assert (turn.in_flight, turn.owed, turn.unreadable) == (InFlight.REST, 0, ())
    assert reruns == []
    _check_pairs(messages_in_view([each for each in log if each.seq >= turn.boundary], turn))


def _live_on(log: list[Logged]) -> tuple[Turn, list[str]]:
    """Fold, close what is in flight, and end what is owed without help; return calls that would be run again."""
    turn = Turn()
    started: list[str] = []
    for each in log:
        turn = evolve(turn, each)
        match each.record:
            case ReplyRecorded():
                started = []
            case ToolStarted(call_id=call_id):
                started.append(call_id)
            case _:
                pass
    reruns: list[str] = []
    for closing in interruptions(turn, Abandonment.INTERRUPTED, WORLD_BOUNDS):
        turn = evolve(turn, Logged(turn.seq + 1, 0.0, closing))
        if isinstance(closing, ToolInterrupted):
            started.remove(closing.call_id)
    for _ in range(100):
        action = decide(turn, WORLD_BOUNDS)
        match action:
            case Rest():
                break
            case StartTurn(turn=number):
                record: AnyRecord = TurnStarted(number)
            case EndTurn(turn=number, outcome=outcome):
                record = TurnEnded(number, outcome)
            case _ if turn.number:
                reruns += [each.call_id for each in getattr(action, "calls", ()) if each.call_id in started]
                record = TurnEnded(turn.number, Outcome.FAILED)
            case _:
                record = CompactionSettled(turn.wanted[0].seq, CompactionOutcome.FAILED)
        turn = evolve(turn, Logged(turn.seq + 1, 0.0, record))
    return turn, reruns


def _check_pairs(messages: tuple[Message, ...]) -> None:
    if messages:
        assert messages[0].role is Role.USER
    for place, message in enumerate(messages):
        calls = [part.call_id for part in message.parts if isinstance(part, ToolCall)]
        if calls:
            results = messages[place + 1].parts
            assert [part.call_id for part in results if isinstance(part, ToolResult)] == calls
        if message.role is Role.TOOL:
            assert messages[place - 1].role is Role.ASSISTANT
