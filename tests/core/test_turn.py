"""The fold and the decisions: what each record means, and what is done next."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.actions import (
    BackOff,
    CallModel,
    Climb,
    EndTurn,
    Rest,
    RunTools,
    StartTurn,
)
from holdfast.core.advice import CANCELLED, INTERRUPTED, OUT_OF_STEPS
from holdfast.core.faults import Confidence, Fault, FaultKind, Phase, Refusal
from holdfast.core.fold import IllegalStepError, InFlight, Turn
from holdfast.core.ladder import LADDER, Rung
from holdfast.core.limits import Bounds
from holdfast.core.messages import Text, ToolCall, ToolOutcome, ToolResult
from holdfast.core.records import (
    Abandonment,
    AnyRecord,
    AttemptAbandoned,
    AttemptFailed,
    AttemptStarted,
    CancelRequested,
    CompactionApplied,
    InboxRecord,
    Logged,
    NoticePosted,
    Outcome,
    RungFinished,
    RungResult,
    RungStarted,
    SessionConfigured,
    ToolInterrupted,
    ToolSettled,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    WorkRecord,
)
from holdfast.core.turn import ANY_TIME, TRANSITIONS, decide, evolve, interruptions
from holdfast.testing.builders import a_notice, a_reply, a_tool_call, an_attempt_started, an_input

BOUNDS = Bounds()
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

    assert turn == Turn(seq=5, last_turn=1)


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
        SessionConfigured(model="openai:x", system="Be brief."),
        an_input(),
        TurnStarted(2),
        an_attempt_started(2),
        a_reply("hi", turn=2),
        TurnEnded(2, Outcome.ANSWERED),
    )

    assert (turn.model, turn.system) == ("openai:x", "Be brief.")


def test_notices_change_nothing() -> None:
    before = fold(*OPEN)

    after = fold(a_notice(), start=before)

    assert after == fold(*OPEN, NoticePosted(1, "other", "Other words."))
    assert decide(after, BOUNDS) == decide(before, BOUNDS)


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


# Faults and rungs.


def test_a_fault_climbs_the_first_rung_of_its_row() -> None:
    turn = fold(*OPEN, an_attempt_started(), failed(FaultKind.TOOL_PAIRING))

    assert decide(turn, BOUNDS) == Climb(Rung.DIGEST, FaultKind.TOOL_PAIRING)


def test_a_rung_that_changed_something_leads_to_another_attempt() -> None:
    turn = fold(
        *OPEN,
        an_attempt_started(),
        failed(FaultKind.TOKEN_OVERFLOW),
        RungStarted(1, Rung.DIGEST, FaultKind.TOKEN_OVERFLOW),
        CompactionApplied(1, 1, "what was said", 100, 10),
        RungFinished(1, Rung.DIGEST, RungResult.CHANGED),
    )

    assert turn.boundary == 1
    assert decide(turn, BOUNDS) == CallModel(2)


def test_a_rung_that_changed_nothing_leads_to_the_next_without_a_call() -> None:
    turn = fold(
        *OPEN,
        an_attempt_started(),
        failed(FaultKind.TOOL_PAIRING),
        RungStarted(1, Rung.DIGEST, FaultKind.TOOL_PAIRING),
        RungFinished(1, Rung.DIGEST, RungResult.UNCHANGED),
    )

    assert decide(turn, BOUNDS) == Climb(Rung.KEEP_NEWEST, FaultKind.TOOL_PAIRING)


def test_once_nothing_smaller_is_left_the_model_has_the_last_word() -> None:
    turn = fold(
        *OPEN,
        an_attempt_started(),
        failed(FaultKind.TOKEN_OVERFLOW),
        RungStarted(1, Rung.SEND_ANYWAY, FaultKind.TOKEN_OVERFLOW),
        RungFinished(1, Rung.SEND_ANYWAY, RungResult.CHANGED),
    )

    assert decide(turn, BOUNDS) == CallModel(2, heeds_estimate=False)


def test_a_rung_that_was_interrupted_does_not_count_as_climbed() -> None:
    turn = fold(
        *OPEN,
        an_attempt_started(),
        failed(FaultKind.TOOL_PAIRING),
        RungStarted(1, Rung.DIGEST, FaultKind.TOOL_PAIRING),
        RungFinished(1, Rung.DIGEST, RungResult.INTERRUPTED),
    )

    assert decide(turn, BOUNDS) == Climb(Rung.DIGEST, FaultKind.TOOL_PAIRING)


def test_another_model_begins_its_own_ladder() -> None:
    turn = fold(
        *OPEN,
        an_attempt_started(),
        failed(FaultKind.AUTH),
        RungStarted(1, Rung.NEXT_MODEL, FaultKind.AUTH),
        RungFinished(1, Rung.NEXT_MODEL, RungResult.CHANGED),
        an_attempt_started(attempt=2),
        failed(FaultKind.AUTH, attempt=2),
    )

    assert turn.models_passed == 1
    assert decide(turn, BOUNDS) == Climb(Rung.NEXT_MODEL, FaultKind.AUTH)


def test_a_reply_lets_the_next_step_climb_again() -> None:
    turn = fold(
        *OPEN,
        an_attempt_started(),
        failed(FaultKind.RATE_LIMIT),
        RungStarted(1, Rung.BACK_OFF, FaultKind.RATE_LIMIT, 1.0),
        RungFinished(1, Rung.BACK_OFF, RungResult.CHANGED),
        an_attempt_started(attempt=2),
        a_reply("", CALL, attempt=2),
    )

    assert turn.climbed == ()


def test_rate_limits_wait_as_the_provider_says() -> None:
    turn = fold(*OPEN, an_attempt_started(), failed(FaultKind.RATE_LIMIT, retry_after_seconds=7))

    assert decide(turn, BOUNDS) == BackOff(FaultKind.RATE_LIMIT, 7)


@pytest.mark.parametrize("kind", FaultKind)
def test_every_fault_climbs_its_whole_row_and_then_ends_the_turn(kind: FaultKind) -> None:
    turn = fold(*OPEN, an_attempt_started(), failed(kind))
    climbed: list[Rung] = []

    while not isinstance(action := decide(turn, BOUNDS), EndTurn):
        assert isinstance(action, BackOff | Climb)
        rung = Rung.BACK_OFF if isinstance(action, BackOff) else action.rung
        climbed.append(rung)
        turn = fold(RungStarted(1, rung, kind), RungFinished(1, rung, RungResult.UNCHANGED), start=turn)

    assert tuple(climbed) == LADDER[kind]
    assert (action.outcome, action.ending and action.ending.code) == (Outcome.FAILED, kind.value)


# Crashes.


def test_nothing_in_flight_needs_no_closing() -> None:
    assert interruptions(fold(an_input()), Abandonment.INTERRUPTED, BOUNDS) == ()
    assert interruptions(fold(*OPEN), Abandonment.INTERRUPTED, BOUNDS) == ()


def test_an_interrupted_attempt_is_closed_and_made_again() -> None:
    turn = fold(*OPEN, an_attempt_started())

    closing = interruptions(turn, Abandonment.INTERRUPTED, BOUNDS)

    assert closing == (AttemptAbandoned(1, 1, Abandonment.INTERRUPTED),)
    assert decide(fold(*closing, start=turn), BOUNDS) == CallModel(2)


def test_an_interrupted_tool_is_unknown_and_not_run_again() -> None:
    turn = fold(*ASKED, ToolStarted(1, "call-1", "look_up"), ToolStarted(1, "call-2", "look_up"), settled(OTHER))

    (closing,) = interruptions(turn, Abandonment.INTERRUPTED, BOUNDS)

    assert isinstance(closing, ToolSettled)
    assert (closing.result.call_id, closing.result.outcome) == ("call-1", ToolOutcome.UNKNOWN)
    assert decide(fold(closing, start=turn), BOUNDS) == CallModel(2)


def test_an_interrupted_idempotent_tool_is_run_again_but_not_for_ever() -> None:
    turn = fold(*OPEN, an_attempt_started(), a_reply("", CALL))
    for _ in range(BOUNDS.tool_starts_max - 1):
        turn = fold(ToolStarted(1, "call-1", "look_up", is_idempotent=True), start=turn)
        closing = interruptions(turn, Abandonment.INTERRUPTED, BOUNDS)
        assert closing == (ToolInterrupted(1, "call-1"),)
        turn = fold(*closing, start=turn)
        assert decide(turn, BOUNDS) == RunTools((CALL,))

    turn = fold(ToolStarted(1, "call-1", "look_up", is_idempotent=True), start=turn)
    (last,) = interruptions(turn, Abandonment.INTERRUPTED, BOUNDS)

    assert isinstance(last, ToolSettled)
    assert last.result.outcome is ToolOutcome.UNKNOWN


def test_a_cancelled_tool_says_so_even_if_it_is_idempotent() -> None:
    turn = fold(*OPEN, an_attempt_started(), a_reply("", CALL), ToolStarted(1, "call-1", "x", is_idempotent=True))

    (closing,) = interruptions(turn, Abandonment.CANCELLED, BOUNDS)

    assert isinstance(closing, ToolSettled)
    assert closing.result.outcome is ToolOutcome.CANCELLED


def test_an_interrupted_rung_is_closed_as_such() -> None:
    turn = fold(
        *OPEN,
        an_attempt_started(),
        failed(FaultKind.TOKEN_OVERFLOW),
        RungStarted(1, Rung.DIGEST, FaultKind.TOKEN_OVERFLOW),
    )

    closing = interruptions(turn, Abandonment.INTERRUPTED, BOUNDS)

    assert closing == (RungFinished(1, Rung.DIGEST, RungResult.INTERRUPTED),)


def test_a_turn_that_keeps_killing_the_process_is_given_up() -> None:
    turn = fold(*OPEN)
    deaths = 0
    while isinstance(decide(turn, BOUNDS), CallModel):
        turn = fold(an_attempt_started(attempt=turn.attempts + 1), start=turn)
        turn = fold(*interruptions(turn, Abandonment.INTERRUPTED, BOUNDS), start=turn)
        deaths += 1

    assert decide(turn, BOUNDS) == EndTurn(1, Outcome.FAILED, INTERRUPTED)
    assert deaths == BOUNDS.interruptions_max + 1


def test_progress_forgives_earlier_deaths() -> None:
    turn = fold(*OPEN, an_attempt_started(), AttemptAbandoned(1, 1, Abandonment.INTERRUPTED))
    assert turn.interruptions == 1

    turn = fold(an_attempt_started(attempt=2), a_reply("", CALL, attempt=2), start=turn)

    assert turn.interruptions == 0


def test_a_cancelled_attempt_is_not_a_death() -> None:
    turn = fold(*OPEN, an_attempt_started(), AttemptAbandoned(1, 1, Abandonment.CANCELLED))

    assert turn.interruptions == 0


# What cannot be.


WORK_RECORDS: dict[type[AnyRecord], WorkRecord] = {
    type(record): record
    for record in (
        TurnStarted(1),
        AttemptStarted(1, 1, "m"),
        a_reply(),
        failed(FaultKind.TRANSIENT),
        AttemptAbandoned(1, 1, Abandonment.INTERRUPTED),
        ToolStarted(1, "call-1", "look_up"),
        ToolInterrupted(1, "call-1"),
        settled(CALL),
        RungStarted(1, Rung.DIGEST, FaultKind.TRANSIENT),
        CompactionApplied(1, 1, "s", 2, 1),
        RungFinished(1, Rung.DIGEST, RungResult.CHANGED),
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


# In general: whatever the world answers, an input gets exactly one outcome in a bounded number of steps.

_FAULTS = st.sampled_from(FaultKind)
_RESULTS = st.sampled_from(RungResult)


@given(data=st.data(), crashes=st.lists(st.booleans(), max_size=60))
def test_every_input_gets_exactly_one_outcome_whatever_the_world_does(data: st.DataObject, crashes: list[bool]) -> None:
    bounds = Bounds(steps_max=5, interruptions_max=3)
    turn = fold(an_input(), an_input())
    outcomes: list[int] = []
    for round_number in range(2_000):
        action = decide(turn, bounds)
        if isinstance(action, Rest):
            break
        records = _started(action, turn)
        turn = fold(*records, start=turn)
        outcomes += [record.turn for record in records if isinstance(record, TurnEnded)]
        if round_number < len(crashes) and crashes[round_number]:
            turn = fold(*interruptions(turn, Abandonment.INTERRUPTED, bounds), start=turn)
        elif turn.in_flight not in {InFlight.REST, InFlight.READY}:
            turn = fold(*_world(data, turn), start=turn)
    else:
        pytest.fail("the turn never ended")

    assert outcomes == [1, 2]


def _started(action: object, turn: Turn) -> list[WorkRecord]:
    match action:
        case StartTurn(turn=number):
            return [TurnStarted(number)]
        case CallModel(attempt=attempt):
            return [AttemptStarted(turn.number, attempt, "m")]
        case RunTools(calls=calls):
            return [ToolStarted(turn.number, call.call_id, call.name) for call in calls]
        case BackOff(kind=kind):
            return [RungStarted(turn.number, Rung.BACK_OFF, kind)]
        case Climb(rung=rung, kind=kind):
            return [RungStarted(turn.number, rung, kind)]
        case EndTurn(turn=number, outcome=outcome):
            return [TurnEnded(number, outcome)]
    raise AssertionError(action)


def _world(data: st.DataObject, turn: Turn) -> list[WorkRecord]:
    if turn.in_flight is InFlight.TOOLS:
        return [settled(call.call) for call in turn.calls_running]
    if turn.in_flight is InFlight.RUNG:
        # A process has finitely many models; four stand for any number.
        last_model = turn.climbed[-1] is Rung.NEXT_MODEL and turn.models_passed >= 3
        result = RungResult.UNCHANGED if last_model else data.draw(_RESULTS)
        return [RungFinished(turn.number, turn.climbed[-1], result)]
    if data.draw(st.booleans()):
        return [failed(data.draw(_FAULTS), attempt=turn.attempts)]
    return [a_reply("", CALL, turn=turn.number) if data.draw(st.booleans()) else a_reply("hi", turn=turn.number)]
