"""The fold and the decisions: what each record means, and what is done next."""

from typing import get_args

import pytest
from msgspec.structs import replace

from holdfast.core.fold.session_state import Asked, IllegalStepError, InFlight, Turn
from holdfast.core.limits.bounds import Bounds
from holdfast.core.turn.decide import CallModel, EndTurn, Rest, RunTools, StartTurn, decide
from holdfast.core.turn.failure_messages import CANCELLED, OUT_OF_STEPS
from holdfast.core.turn.transitions import ANY_TIME, TRANSITIONS, evolve
from holdfast.testing.builders import a_notice, a_reply, a_tool_call, an_attempt_started, an_input
from holdfast.types.faults import FaultKind, Rung
from holdfast.types.messages import Effort, Text
from holdfast.types.records import (
    Abandonment,
    AnyRecord,
    ApprovalRequested,
    AttemptAbandoned,
    AttemptStarted,
    CancelRequested,
    CompactionApplied,
    CompactionOutcome,
    CompactionSettled,
    EffortChanged,
    GenerationStarted,
    InboxRecord,
    Logged,
    NoticePosted,
    Outcome,
    OutputMasked,
    OutputRefused,
    PartReplaced,
    ReasoningDropped,
    RungFinished,
    RungResult,
    RungStarted,
    SegmentSealed,
    SessionConfigured,
    SummaryRefused,
    ToolInterrupted,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    WorkRecord,
)
from tests.core.turns import ASKED, BOUNDS, CALL, OPEN, OTHER, SOUND, failed, fold, settled

# The normal course.


def test_a_session_without_records_rests() -> None:
    assert decide(Turn(), BOUNDS) == Rest()


def test_an_input_starts_a_turn_then_calls_the_model() -> None:
    assert decide(fold(an_input()), BOUNDS) == StartTurn(1)
    assert decide(fold(*OPEN), BOUNDS) == CallModel(attempt=1)


def test_a_reply_without_calls_ends_the_turn_with_an_answer() -> None:
    turn = fold(*OPEN, an_attempt_started(), a_reply("hi"))

    assert decide(turn, BOUNDS) == EndTurn(1, Outcome.ANSWERED)


def test_a_turn_that_has_ended_leaves_nothing_behind() -> None:
    turn = fold(*OPEN, an_attempt_started(), a_reply("hi"), TurnEnded(1, Outcome.ANSWERED))

    # But the beginning of the session, and the requests that the next one is compared with.
    assert turn == Turn(seq=5, opening="hello", last_turn=1, asked=Asked("test:model"), answered=Asked("test:model"))


def test_calls_of_a_reply_are_run_side_by_side_then_the_model_reads_the_results() -> None:
    assert decide(fold(*ASKED), BOUNDS) == RunTools((CALL, OTHER))

    half = fold(*ASKED, ToolStarted(1, "call-1", "look_up"), ToolStarted(1, "call-2", "look_up"), settled(CALL))
    assert half.in_flight is InFlight.TOOLS

    done = fold(settled(OTHER), start=half)
    assert done.in_flight is InFlight.READY
    assert decide(done, BOUNDS) == CallModel(attempt=2)


def test_more_calls_than_may_run_side_by_side_run_in_batches() -> None:
    narrow = Bounds(tool_calls_parallel_max=1)

    assert decide(fold(*ASKED), narrow) == RunTools((CALL,))
    after_the_first = fold(*ASKED, ToolStarted(1, "call-1", "look_up"), settled(CALL))
    assert decide(after_the_first, narrow) == RunTools((OTHER,))


def test_an_input_that_comes_during_a_turn_waits_and_is_answered_next() -> None:
    busy = fold(*OPEN, an_attempt_started(), an_input("and this"))
    assert busy.in_flight is InFlight.MODEL

    rested = fold(a_reply("hi"), TurnEnded(1, Outcome.ANSWERED), start=busy)
    assert decide(rested, BOUNDS) == StartTurn(4)


def test_inputs_are_answered_in_the_order_of_admission() -> None:
    assert decide(fold(an_input("a"), an_input("b"), an_input("c")), BOUNDS) == StartTurn(1)


def test_a_session_remembers_what_it_was_told_beyond_its_turns() -> None:
    turn = fold(
        SessionConfigured(model="openai:x", system="Be brief.", tools=(SOUND,)),
        an_input(),
        TurnStarted(2),
        an_attempt_started(2),
        a_reply("hi", turn=2),
        TurnEnded(2, Outcome.ANSWERED),
    )

    assert (turn.model, turn.system, turn.tools) == ("openai:x", "Be brief.", (SOUND,))


def test_notices_change_nothing() -> None:
    before = fold(*OPEN)

    after = fold(a_notice(), start=before)

    assert after == fold(*OPEN, NoticePosted(1, "other", "Other words."))
    assert decide(after, BOUNDS) == decide(before, BOUNDS)


@pytest.mark.parametrize("state", InFlight)
def test_a_seal_may_come_at_any_time_and_changes_nothing(state: InFlight) -> None:
    before = STATES[state]

    after = fold(SegmentSealed(1, 1, "x/1-1", "ab", 10), start=before)

    assert after == replace(before, seq=before.seq + 1)


def test_a_model_that_never_stops_calling_tools_runs_out_of_steps() -> None:
    turn = fold(*OPEN, an_attempt_started(), a_reply("", CALL), ToolStarted(1, "call-1", "look_up"), settled(CALL))

    assert decide(turn, Bounds(steps_max=1)) == EndTurn(1, Outcome.FAILED, OUT_OF_STEPS)


# Cancelling.


def test_a_cancel_ends_the_turn_as_soon_as_nothing_is_in_flight() -> None:
    assert decide(fold(*OPEN, CancelRequested(1)), BOUNDS) == EndTurn(1, Outcome.CANCELLED, CANCELLED)


def test_a_cancel_that_comes_after_the_answer_does_not_take_it_away() -> None:
    turn = fold(*OPEN, an_attempt_started(), a_reply("hi"), CancelRequested(1))

    assert decide(turn, BOUNDS) == EndTurn(1, Outcome.ANSWERED)


def test_a_waiting_input_that_is_cancelled_ends_without_starting() -> None:
    turn = fold(an_input("a"), an_input("b"), CancelRequested(1))

    assert decide(turn, BOUNDS) == EndTurn(1, Outcome.CANCELLED, CANCELLED)
    ended = fold(TurnEnded(1, Outcome.CANCELLED), start=turn)
    assert decide(ended, BOUNDS) == StartTurn(2)


def test_a_cancel_for_what_is_over_or_never_was_asks_for_nothing() -> None:
    turn = fold(*OPEN, CancelRequested(99))

    assert turn.cancelled == ()
    assert decide(turn, BOUNDS) == CallModel(1)


# What cannot be.


WORK_RECORDS: dict[type[AnyRecord], WorkRecord] = {
    type(record): record
    for record in (
        TurnStarted(1),
        AttemptStarted(1, 1, "m"),
        OutputRefused(1, "Not a place."),
        ApprovalRequested(1, "call-1", "pay", "{}"),
        a_reply(),
        failed(FaultKind.TRANSIENT),
        AttemptAbandoned(1, 1, Abandonment.INTERRUPTED),
        ToolStarted(1, "call-1", "look_up"),
        ToolInterrupted(1, "call-1"),
        settled(CALL),
        RungStarted(1, Rung.DIGEST, FaultKind.TRANSIENT),
        SummaryRefused(1, "m", "it is empty"),
        CompactionApplied(1, 1, "s", 2, 1),
        GenerationStarted(1, 1, "s", 2, 1, step=5, before=3, generation=3, left=2, pins_left=(1,)),
        OutputMasked(1, 9),
        ReasoningDropped(1, 9),
        EffortChanged(1, Effort.LOW),
        PartReplaced(1, 1, 0, Text("[gone]"), "too large"),
        RungFinished(1, Rung.DIGEST, RungResult.CHANGED),
        CompactionSettled(1, CompactionOutcome.APPLIED),
        TurnEnded(1, Outcome.ANSWERED),
    )
}
STATES: dict[InFlight, Turn] = {
    InFlight.REST: fold(an_input()),
    InFlight.READY: fold(*OPEN),
    InFlight.MODEL: fold(*OPEN, an_attempt_started()),
    InFlight.TOOLS: fold(*ASKED, ToolStarted(1, "call-1", "look_up")),
    InFlight.RUNG: fold(
        *OPEN, an_attempt_started(), failed(FaultKind.TRANSIENT), RungStarted(1, Rung.DIGEST, FaultKind.TRANSIENT)
    ),
}


def test_every_record_either_has_transitions_or_may_come_at_any_time() -> None:
    in_table = {record for _, record in TRANSITIONS}

    assert in_table | set(ANY_TIME) == set(get_args(AnyRecord))
    assert in_table & set(ANY_TIME) == set()
    assert set(get_args(InboxRecord)) <= set(ANY_TIME)


@pytest.mark.parametrize(
    ("state", "kind"),
    [(state, kind) for state in InFlight for kind in WORK_RECORDS if (state, kind) not in TRANSITIONS],
)
def test_a_step_that_is_not_in_the_table_is_refused(state: InFlight, kind: type[AnyRecord]) -> None:
    assert STATES[state].in_flight is state

    with pytest.raises(IllegalStepError, match=kind.__name__):
        fold(WORK_RECORDS[kind], start=STATES[state])


def test_a_gap_in_the_log_is_refused() -> None:
    with pytest.raises(IllegalStepError, match="missing or doubled"):
        evolve(Turn(), Logged(2, 0.0, an_input()))


@pytest.mark.parametrize(
    ("start", "record", "why"),
    [
        (fold(an_input()), TurnStarted(7), "not waiting"),
        (fold(*OPEN), TurnEnded(7, Outcome.ANSWERED), "not open"),
        (fold(*ASKED), ToolStarted(1, "call-9", "look_up"), "not open"),
        (STATES[InFlight.TOOLS], ToolInterrupted(1, "call-9"), "not open"),
        (STATES[InFlight.TOOLS], settled(a_tool_call(call_id="call-9")), "not open"),
    ],
)
def test_a_record_about_something_that_is_not_there_is_refused(start: Turn, record: AnyRecord, why: str) -> None:
    with pytest.raises(IllegalStepError, match=why):
        fold(record, start=start)
