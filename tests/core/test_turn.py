"""The fold and the decisions: what each record means, and what is done next."""

from typing import get_args

import pytest
from msgspec.structs import replace

from holdfast.core.actions import (
    BackOff,
    CallModel,
    Climb,
    EndTurn,
    Rest,
    RunTools,
    SettleCompactions,
    StartTurn,
)
from holdfast.core.advice import CANCELLED, INTERRUPTED, OUT_OF_STEPS, oversize
from holdfast.core.faults import Confidence, Fault, FaultKind, Phase, Refusal
from holdfast.core.fold import Asked, IllegalStepError, InFlight, Turn
from holdfast.core.ladder import ASKED_BY_A_PERSON, ASKED_BY_US, LADDER, Rung
from holdfast.core.limits import Bounds
from holdfast.core.messages import Effort, Text, ToolCall, ToolOutcome, ToolResult, ToolSpec
from holdfast.core.records import (
    Abandonment,
    AnyRecord,
    AttemptAbandoned,
    AttemptFailed,
    AttemptStarted,
    CancelRequested,
    CompactionApplied,
    CompactionOutcome,
    CompactionRequested,
    CompactionSettled,
    EffortChanged,
    GenerationStarted,
    InboxRecord,
    Logged,
    NoticePosted,
    Outcome,
    OutputClamped,
    OutputMasked,
    PartReplaced,
    ReasoningDropped,
    ResultSubmitted,
    RungFinished,
    RungResult,
    RungStarted,
    SegmentSealed,
    SessionConfigured,
    SummaryRefused,
    ToolInterrupted,
    ToolSettled,
    ToolStarted,
    Trigger,
    TurnEnded,
    TurnStarted,
    WorkRecord,
)
from holdfast.core.turn import ANY_TIME, TRANSITIONS, decide, evolve, interruptions
from holdfast.testing.builders import a_notice, a_reply, a_tool_call, an_attempt_started, an_input

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

    # But what the next request is compared with.
    assert turn == Turn(seq=5, last_turn=1, asked=Asked("test:model"), answered=Asked("test:model"))


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


# Faults and rungs.


def test_a_fault_climbs_the_first_rung_of_its_row() -> None:
    turn = fold(*OPEN, an_attempt_started(), failed(FaultKind.EMPTY_RESPONSE))

    assert decide(turn, BOUNDS) == Climb(Rung.TRY_AGAIN, FaultKind.EMPTY_RESPONSE)


def test_a_rung_that_changed_something_leads_to_another_attempt() -> None:
    turn = fold(
        *OPEN,
        an_attempt_started(),
        failed(FaultKind.TOKEN_OVERFLOW),
        RungStarted(1, Rung.TRY_AGAIN, FaultKind.TOKEN_OVERFLOW),
        CompactionApplied(1, 1, "what was said", 100, 10),
        RungFinished(1, Rung.TRY_AGAIN, RungResult.CHANGED),
    )

    assert turn.boundary == 1
    assert decide(turn, BOUNDS) == CallModel(2)


def test_a_rung_that_changed_nothing_leads_to_the_next_without_a_call() -> None:
    turn = fold(
        *OPEN,
        an_attempt_started(),
        failed(FaultKind.EMPTY_RESPONSE),
        RungStarted(1, Rung.TRY_AGAIN, FaultKind.EMPTY_RESPONSE),
        RungFinished(1, Rung.TRY_AGAIN, RungResult.UNCHANGED),
    )

    assert decide(turn, BOUNDS) == Climb(Rung.NEXT_MODEL, FaultKind.EMPTY_RESPONSE)


def test_once_nothing_smaller_is_left_the_model_has_the_last_word() -> None:
    turn = fold(
        *OPEN,
        an_attempt_started(),
        failed(FaultKind.TOKEN_OVERFLOW),
        RungStarted(1, Rung.SEND_ANYWAY, FaultKind.TOKEN_OVERFLOW),
        RungFinished(1, Rung.SEND_ANYWAY, RungResult.CHANGED),
    )

    assert decide(turn, BOUNDS) == CallModel(2, heeds_estimate=False)


def test_after_output_was_clamped_the_same_view_is_sent_whatever_we_estimate() -> None:
    refused = fold(*OPEN, an_attempt_started(), failed(FaultKind.TOKEN_OVERFLOW))
    climbs = RungStarted(1, Rung.CLAMP_OUTPUT, FaultKind.TOKEN_OVERFLOW)
    clamps = (climbs, OutputClamped(1, 2_000), RungFinished(1, Rung.CLAMP_OUTPUT, RungResult.CHANGED))

    turn = fold(*clamps, start=refused)

    assert turn.output_clamp == 2_000
    assert decide(turn, BOUNDS) == CallModel(2, heeds_estimate=False)
    answered = fold(AttemptStarted(1, 2, "m", output_tokens_max=2_000), a_reply("", CALL, attempt=2), start=turn)
    assert (answered.output_asked, answered.output_clamp) == (2_000, None), "until the model has answered"
    passed = fold(
        an_attempt_started(attempt=2),
        failed(FaultKind.AUTH, attempt=2),
        RungStarted(1, Rung.NEXT_MODEL, FaultKind.AUTH),
        RungFinished(1, Rung.NEXT_MODEL, RungResult.CHANGED),
        start=turn,
    )
    assert passed.output_clamp is None, "another model has other limits"


def test_output_that_could_not_be_clamped_leads_to_the_next_rung() -> None:
    turn = fold(
        *OPEN,
        an_attempt_started(),
        failed(FaultKind.TOKEN_OVERFLOW),
        RungStarted(1, Rung.CLAMP_OUTPUT, FaultKind.TOKEN_OVERFLOW),
        RungFinished(1, Rung.CLAMP_OUTPUT, RungResult.UNCHANGED),
    )

    assert decide(turn, BOUNDS) == Climb(Rung.MASK, FaultKind.TOKEN_OVERFLOW)


def test_a_reply_that_was_not_taken_on_a_suspicion_is_remembered_until_one_is() -> None:
    guess = Fault(FaultKind.TOKEN_OVERFLOW, Confidence.GUESS, limit=4_000)
    answered = AttemptFailed(1, 1, Refusal("", Phase.STREAM, status=200), guess)
    opaque = AttemptFailed(1, 1, Refusal("", Phase.RESPONSE, status=400), guess)
    started = fold(*OPEN, an_attempt_started())

    suspected = fold(answered, start=started)

    assert fold(opaque, start=started).suspected is None, "a refusal brought no answer"
    assert suspected.suspected == guess
    again = fold(
        RungStarted(1, Rung.DIGEST, FaultKind.TOKEN_OVERFLOW),
        RungFinished(1, Rung.DIGEST, RungResult.CHANGED),
        an_attempt_started(attempt=2),
        start=suspected,
    )
    assert again.suspected == guess
    assert fold(failed(FaultKind.OVERLOADED, attempt=2), start=again).suspected == guess
    assert fold(a_reply("", CALL, attempt=2), start=again).suspected is None


def test_a_rung_that_was_interrupted_does_not_count_as_climbed() -> None:
    turn = fold(
        *OPEN,
        an_attempt_started(),
        failed(FaultKind.EMPTY_RESPONSE),
        RungStarted(1, Rung.TRY_AGAIN, FaultKind.EMPTY_RESPONSE),
        RungFinished(1, Rung.TRY_AGAIN, RungResult.INTERRUPTED),
    )

    assert decide(turn, BOUNDS) == Climb(Rung.TRY_AGAIN, FaultKind.EMPTY_RESPONSE)


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

    for _ in LADDER[kind]:
        action = decide(turn, BOUNDS)
        assert isinstance(action, BackOff | Climb)
        rung = Rung.BACK_OFF if isinstance(action, BackOff) else action.rung
        climbed.append(rung)
        turn = fold(RungStarted(1, rung, kind), RungFinished(1, rung, RungResult.UNCHANGED), start=turn)

    assert tuple(climbed) == LADDER[kind]
    end = decide(turn, BOUNDS)
    assert isinstance(end, EndTurn)
    assert (end.outcome, end.ending and end.ending.code) == (Outcome.FAILED, kind.value)


def test_what_was_too_large_ends_the_turn_where_that_is_the_rule() -> None:
    """FM-079: with the kind's own code, and what to do."""
    turn = fold(
        *OPEN,
        an_attempt_started(),
        failed(FaultKind.WIRE_OVERFLOW),
        RungStarted(1, Rung.REPLACE_LARGEST, FaultKind.WIRE_OVERFLOW),
        PartReplaced(1, 1, 0, Text("[gone]"), "wire_overflow"),
        RungFinished(1, Rung.REPLACE_LARGEST, RungResult.CHANGED),
    )

    assert decide(turn, BOUNDS) == CallModel(2)
    assert decide(turn, Bounds(on_oversize="stop")) == EndTurn(1, Outcome.FAILED, oversize("wire_overflow"))

    ended = fold(TurnEnded(1, Outcome.FAILED), an_input("smaller"), start=turn)
    assert decide(ended, Bounds(on_oversize="stop")) == StartTurn(9)
    begun = fold(TurnStarted(9), start=ended)
    assert decide(begun, Bounds(on_oversize="stop")) == CallModel(1), "what was left out before stops nobody again"


# Requests for compaction.

BY_A_PERSON = CompactionRequested(focus="the plan")
BY_US = CompactionRequested(Trigger.AHEAD)


def climbed_for(turn: Turn, rung: Rung, *came: WorkRecord, result: RungResult = RungResult.UNCHANGED) -> Turn:
    """Climb the rung that `decide` names, which must be this one."""
    assert decide(turn, BOUNDS) == Climb(rung)
    return fold(RungStarted(turn.number, rung, None), *came, RungFinished(turn.number, rung, result), start=turn)


@pytest.mark.parametrize(("asked", "row"), [(BY_A_PERSON, ASKED_BY_A_PERSON), (BY_US, ASKED_BY_US)])
@pytest.mark.parametrize("opening", [(), (an_input(), TurnStarted(1), TurnEnded(1, Outcome.ANSWERED))])
def test_a_request_at_rest_climbs_its_whole_row_and_then_there_was_nothing_to_do(
    asked: CompactionRequested, row: tuple[Rung, ...], opening: tuple[AnyRecord, ...]
) -> None:
    turn = fold(*opening, asked)
    request = turn.seq
    for rung in row:
        turn = climbed_for(turn, rung)

    settle = decide(turn, BOUNDS)

    assert settle == SettleCompactions((request,), CompactionOutcome.NOTHING_TO_DO)
    assert decide(fold(CompactionSettled(request, settle.outcome), start=turn), BOUNDS) == Rest()


def test_requests_that_wait_together_are_met_together() -> None:
    turn = fold(BY_US, BY_A_PERSON, BY_A_PERSON)
    applied = CompactionApplied(0, 1, "what was said", 100, 10)

    turn = climbed_for(turn, Rung.SUMMARISE, applied, result=RungResult.CHANGED)

    assert decide(turn, BOUNDS) == SettleCompactions((1, 2, 3), CompactionOutcome.APPLIED)


def test_a_request_that_comes_after_the_compaction_gets_one_of_its_own() -> None:
    turn = climbed_for(
        fold(BY_A_PERSON), Rung.SUMMARISE, CompactionApplied(0, 1, "s", 100, 10), result=RungResult.CHANGED
    )
    turn = fold(BY_A_PERSON, start=turn)

    assert decide(turn, BOUNDS) == SettleCompactions((1,), CompactionOutcome.APPLIED)
    assert decide(fold(CompactionSettled(1, CompactionOutcome.APPLIED), start=turn), BOUNDS) == Climb(Rung.SUMMARISE)


def test_a_request_that_no_answer_could_meet_fails_with_the_last_reason() -> None:
    turn = fold(BY_US)
    turn = climbed_for(turn, Rung.SUMMARISE, SummaryRefused(0, "m", "it is empty"))
    turn = climbed_for(turn, Rung.SUMMARISE_LESS, SummaryRefused(0, "m", "it was cut off"))
    turn = climbed_for(turn, Rung.SUMMARISE_PIECES)
    turn = climbed_for(turn, Rung.NEXT_SUMMARISER)

    assert decide(turn, BOUNDS) == SettleCompactions((1,), CompactionOutcome.FAILED, "it was cut off")


def test_the_next_summariser_climbs_the_same_ways_and_only_then_is_it_the_digests_turn() -> None:
    turn = fold(BY_A_PERSON)
    ways = (Rung.SUMMARISE, Rung.SUMMARISE_LESS, Rung.SUMMARISE_PIECES)
    for rung in ways:
        turn = climbed_for(turn, rung)
    turn = climbed_for(turn, Rung.NEXT_SUMMARISER, result=RungResult.CHANGED)
    for rung in (*ways, Rung.NEXT_SUMMARISER):
        turn = climbed_for(turn, rung)

    assert turn.summarisers_passed == 1
    assert decide(turn, BOUNDS) == Climb(Rung.DIGEST)


def test_a_person_who_asked_before_the_next_input_is_served_before_it_and_otherwise_behind() -> None:
    assert decide(fold(BY_A_PERSON, an_input()), BOUNDS) == Climb(Rung.SUMMARISE)
    assert decide(fold(an_input(), BY_A_PERSON), BOUNDS) == StartTurn(1)


def test_what_we_ask_for_ourselves_gives_way_to_any_input() -> None:
    deferred = SettleCompactions((1, 2), CompactionOutcome.DEFERRED, "a message came first")

    assert decide(fold(BY_US, BY_US, an_input()), BOUNDS) == deferred
    # A person's wish is not put off with ours.
    assert decide(fold(BY_US, an_input(), BY_A_PERSON), BOUNDS) == StartTurn(2)
    assert decide(fold(an_input(), TurnStarted(1), BY_US), BOUNDS) == CallModel(1)


def test_a_person_need_not_wait_for_the_end_of_a_long_turn() -> None:
    turn = fold(*ASKED, BY_A_PERSON, BY_US)

    assert decide(turn, BOUNDS) == Climb(Rung.SUMMARISE)
    for rung in ASKED_BY_A_PERSON:
        turn = climbed_for(turn, rung)
    assert decide(turn, BOUNDS) == SettleCompactions((5, 6), CompactionOutcome.NOTHING_TO_DO)
    settled_both = [CompactionSettled(seq, CompactionOutcome.NOTHING_TO_DO) for seq in (5, 6)]
    assert decide(fold(*settled_both, start=turn), BOUNDS) == RunTools((CALL, OTHER))


def test_a_fault_is_answered_before_a_request_and_its_compaction_meets_the_request_too() -> None:
    turn = fold(*OPEN, an_attempt_started(), BY_A_PERSON, failed(FaultKind.TOOL_PAIRING))
    assert decide(turn, BOUNDS) == Climb(Rung.DROP_REASONING, FaultKind.TOOL_PAIRING)

    turn = fold(
        RungStarted(1, Rung.DIGEST, FaultKind.TOOL_PAIRING),
        CompactionApplied(1, 1, "what was said", 100, 10),
        RungFinished(1, Rung.DIGEST, RungResult.CHANGED),
        start=turn,
    )

    assert decide(turn, BOUNDS) == SettleCompactions((4,), CompactionOutcome.APPLIED)
    assert decide(fold(CompactionSettled(4, CompactionOutcome.APPLIED), start=turn), BOUNDS) == CallModel(2)


def test_a_request_is_settled_before_the_turn_in_which_it_was_met_ends() -> None:
    turn = fold(*OPEN, BY_A_PERSON, RungStarted(1, Rung.SUMMARISE, None), CompactionApplied(1, 1, "s", 100, 10))
    turn = fold(*interruptions(turn, Abandonment.INTERRUPTED, BOUNDS), CancelRequested(1), start=turn)

    assert decide(turn, BOUNDS) == SettleCompactions((3,), CompactionOutcome.APPLIED)


def test_a_climb_that_was_interrupted_is_climbed_again() -> None:
    turn = fold(BY_A_PERSON, RungStarted(0, Rung.SUMMARISE, None))

    closing = interruptions(turn, Abandonment.INTERRUPTED, BOUNDS)

    assert closing == (RungFinished(0, Rung.SUMMARISE, RungResult.INTERRUPTED),)
    assert decide(fold(*closing, start=turn), BOUNDS) == Climb(Rung.SUMMARISE)


def test_a_compaction_that_keeps_killing_the_process_is_given_up_and_nothing_after_it_pays_for_that() -> None:
    turn = fold(BY_A_PERSON)
    for _ in range(BOUNDS.interruptions_max + 1):
        assert decide(turn, BOUNDS) == Climb(Rung.SUMMARISE)
        turn = fold(RungStarted(0, Rung.SUMMARISE, None), start=turn)
        turn = fold(*interruptions(turn, Abandonment.INTERRUPTED, BOUNDS), start=turn)

    assert decide(turn, BOUNDS) == SettleCompactions(
        (1,), CompactionOutcome.FAILED, "the process died several times while it was tried"
    )
    turn = fold(CompactionSettled(1, CompactionOutcome.FAILED), BY_A_PERSON, start=turn)
    assert decide(turn, BOUNDS) == Climb(Rung.SUMMARISE)
    turn = fold(an_input(), TurnStarted(turn.seq + 1), start=turn)
    assert decide(fold(CompactionSettled(turn.seq - 2, CompactionOutcome.FAILED), start=turn), BOUNDS) == CallModel(1)


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


def test_a_call_that_a_client_runs_is_awaited_again_however_often_the_process_dies() -> None:
    turn = fold(*OPEN, an_attempt_started(), a_reply("", CALL))
    for _ in range(BOUNDS.tool_starts_max + 2):
        turn = fold(ToolStarted(1, "call-1", "look_up", reply=4), start=turn)
        assert turn.calls_running[0].reply == 4
        closing = interruptions(turn, Abandonment.INTERRUPTED, BOUNDS)
        assert closing == (ToolInterrupted(1, "call-1"),)
        turn = fold(*closing, start=turn)

    assert decide(turn, BOUNDS) == RunTools((CALL,))


def test_a_result_that_a_client_submits_changes_nothing_before_its_receipt() -> None:
    running = fold(*OPEN, an_attempt_started(), a_reply("", CALL), ToolStarted(1, "call-1", "look_up", reply=4))

    turn = fold(ResultSubmitted(1, 4, ToolResult("call-1", (Text("12"),))), start=running)

    assert turn == replace(running, seq=running.seq + 1)


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
    for attempt in range(1, BOUNDS.interruptions_max + 2):
        assert decide(turn, BOUNDS) == CallModel(attempt)
        turn = fold(an_attempt_started(attempt=attempt), start=turn)
        turn = fold(*interruptions(turn, Abandonment.INTERRUPTED, BOUNDS), start=turn)

    assert decide(turn, BOUNDS) == EndTurn(1, Outcome.FAILED, INTERRUPTED)


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
