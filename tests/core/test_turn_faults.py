"""The ladder in a turn: which rung follows a fault, what a rung leads to, and how it ends."""

import pytest

from holdfast.core.fold.session_state import Turn
from holdfast.core.limits.bounds import Bounds
from holdfast.core.turn.decide import (
    Backoff,
    CallModel,
    Climb,
    EndTurn,
    SettleCompactions,
    StartTurn,
    decide,
    evidence_of,
)
from holdfast.core.turn.failure_messages import oversize
from holdfast.core.turn.ladder import LADDER, REPEATED_TRANSIENT, Evidence, next_summary_rung, rungs_for
from holdfast.testing.builders import a_reply, an_attempt_started, an_input
from holdfast.types.faults import Confidence, Fault, FaultKind, Phase, Refusal, Rung
from holdfast.types.messages import Text
from holdfast.types.records import (
    AnyRecord,
    AttemptFailed,
    AttemptStarted,
    CancelRequested,
    CompactionApplied,
    CompactionOutcome,
    CompactionRequested,
    CompactionSettled,
    Outcome,
    OutputClamped,
    ParameterDropped,
    PartReplaced,
    RungFinished,
    RungResult,
    RungStarted,
    TurnEnded,
    TurnStarted,
)
from tests.core.turns import BOUNDS, CALL, OPEN, failed, fold


def test_a_fault_climbs_the_first_rung_of_its_row() -> None:
    turn = fold(*OPEN, an_attempt_started(), failed(FaultKind.EMPTY_RESPONSE))

    assert decide(turn, BOUNDS) == Climb(Rung.RETRY, FaultKind.EMPTY_RESPONSE)


def test_a_rung_that_changed_something_leads_to_another_attempt() -> None:
    turn = fold(
        *OPEN,
        an_attempt_started(),
        failed(FaultKind.TOKEN_OVERFLOW),
        RungStarted(1, Rung.RETRY, FaultKind.TOKEN_OVERFLOW),
        CompactionApplied(1, 1, "what was said", 100, 10),
        RungFinished(1, Rung.RETRY, RungResult.CHANGED),
    )

    assert turn.boundary == 1
    assert decide(turn, BOUNDS) == CallModel(2)


def test_a_rung_that_changed_nothing_leads_to_the_next_without_a_call() -> None:
    turn = fold(
        *OPEN,
        an_attempt_started(),
        failed(FaultKind.EMPTY_RESPONSE),
        RungStarted(1, Rung.RETRY, FaultKind.EMPTY_RESPONSE),
        RungFinished(1, Rung.RETRY, RungResult.UNCHANGED),
    )

    assert decide(turn, BOUNDS) == Climb(Rung.FALLBACK_MODEL, FaultKind.EMPTY_RESPONSE)


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
        RungStarted(1, Rung.FALLBACK_MODEL, FaultKind.AUTH),
        RungFinished(1, Rung.FALLBACK_MODEL, RungResult.CHANGED),
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
        RungStarted(1, Rung.RETRY, FaultKind.EMPTY_RESPONSE),
        RungFinished(1, Rung.RETRY, RungResult.INTERRUPTED),
    )

    assert decide(turn, BOUNDS) == Climb(Rung.RETRY, FaultKind.EMPTY_RESPONSE)


def test_another_model_begins_its_own_ladder() -> None:
    turn = fold(
        *OPEN,
        an_attempt_started(),
        failed(FaultKind.AUTH),
        RungStarted(1, Rung.FALLBACK_MODEL, FaultKind.AUTH),
        RungFinished(1, Rung.FALLBACK_MODEL, RungResult.CHANGED),
        an_attempt_started(attempt=2),
        failed(FaultKind.AUTH, attempt=2),
    )

    assert turn.models_passed == 1
    assert decide(turn, BOUNDS) == Climb(Rung.FALLBACK_MODEL, FaultKind.AUTH)


def test_a_reply_lets_the_next_step_climb_again() -> None:
    turn = fold(
        *OPEN,
        an_attempt_started(),
        failed(FaultKind.RATE_LIMIT),
        RungStarted(1, Rung.BACKOFF, FaultKind.RATE_LIMIT, 1.0),
        RungFinished(1, Rung.BACKOFF, RungResult.CHANGED),
        an_attempt_started(attempt=2),
        a_reply("", CALL, attempt=2),
    )

    assert turn.climbed == ()


def test_rate_limits_wait_as_the_provider_says() -> None:
    turn = fold(*OPEN, an_attempt_started(), failed(FaultKind.RATE_LIMIT, retry_after_seconds=7))

    assert decide(turn, BOUNDS) == Backoff(FaultKind.RATE_LIMIT, 7)


@pytest.mark.parametrize("kind", FaultKind)
def test_every_fault_climbs_its_whole_row_and_then_ends_the_turn(kind: FaultKind) -> None:
    # A refused turn before this one, so that the newest input is not the only suspect.
    turn = fold(*OPEN, an_attempt_started(), failed(kind), start=Turn(refused_turns=1))
    climbed: list[Rung] = []
    # No parameter is named.
    row = tuple(rung for rung in LADDER[kind] if rung is not Rung.DROP_PARAMETER)

    for _ in row:
        action = decide(turn, BOUNDS)
        assert isinstance(action, Backoff | Climb)
        rung = Rung.BACKOFF if isinstance(action, Backoff) else action.rung
        climbed.append(rung)
        turn = fold(RungStarted(1, rung, kind), RungFinished(1, rung, RungResult.UNCHANGED), start=turn)

    assert tuple(climbed) == row
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


def test_a_guess_about_tool_calls_leaves_out_content_before_the_past_is_given_up() -> None:
    """A memory guard's 400 and the like name tool calls without a cause in them."""
    guess = Fault(FaultKind.TOOL_PAIRING, Confidence.GUESS)
    certain = Fault(FaultKind.TOOL_PAIRING, Confidence.CERTAIN)

    first, later = Evidence(is_refused=True), Evidence(is_refused=True, refused_turns=1)

    assert not {Rung.DIGEST, Rung.KEEP_NEWEST, Rung.ROLL_OVER} & set(rungs_for(guess, BOUNDS, first))
    assert Rung.LEAVE_OUT_NEW in rungs_for(guess, BOUNDS, first)
    assert Rung.DIGEST in rungs_for(guess, BOUNDS, later)
    assert tuple(rungs_for(certain, BOUNDS, first)) == LADDER[FaultKind.TOOL_PAIRING]


def test_the_past_is_given_up_for_refused_content_only_if_it_is_suspect() -> None:
    certain, guess = (Fault(FaultKind.CONTENT_POLICY, sure) for sure in (Confidence.CERTAIN, Confidence.GUESS))
    past = Evidence(is_past_suspect=True)

    drastic = [
        Rung.ROLL_OVER in rungs_for(fault, BOUNDS, evidence)
        for fault in (certain, guess)
        for evidence in (Evidence(), past, Evidence(refused_turns=1))
    ]
    assert drastic == [False, True, True, False, False, True]


def test_a_transient_fault_continues_as_content_only_if_it_repeats_identically() -> None:
    def after(*bodies: str) -> tuple[Rung, ...]:
        turn = fold(*OPEN)
        for attempt, body in enumerate(bodies, start=1):
            refusal = Refusal("x", Phase.RESPONSE, 500, body=body)
            fault = Fault(FaultKind.TRANSIENT, Confidence.LIKELY)
            turn = fold(an_attempt_started(attempt=attempt), AttemptFailed(1, attempt, refusal, fault), start=turn)
            climbed = (RungStarted(1, Rung.BACKOFF, fault.kind), RungFinished(1, Rung.BACKOFF, RungResult.CHANGED))
            turn = turn if attempt == len(bodies) else fold(*climbed, start=turn)
        return tuple(rungs_for(Fault(FaultKind.TRANSIENT, Confidence.LIKELY), BOUNDS, evidence_of(turn)))

    assert after("same", "same", "same", "same") == REPEATED_TRANSIENT
    assert after("crash req_1a", "crash req_2b", "crash 3-c", "crash 04:11") == REPEATED_TRANSIENT, (
        "ids and times differ"
    )
    assert after("no worker", "crash", "no worker", "crash") == LADDER[FaultKind.TRANSIENT]


def test_a_cancelled_compaction_request_is_settled_as_that_and_a_met_one_is_not() -> None:
    asked = fold(CompactionRequested(), CancelRequested(1))
    assert decide(asked, BOUNDS) == SettleCompactions((1,), CompactionOutcome.CANCELLED, "it was cancelled")

    settled = fold(CompactionSettled(1, CompactionOutcome.CANCELLED), start=asked)
    assert (settled.wanted, settled.cancelled) == ((), ())


def test_a_model_that_was_given_up_is_remembered_with_its_fault() -> None:
    switched = (
        RungStarted(1, Rung.FALLBACK_MODEL, FaultKind.AUTH),
        RungFinished(1, Rung.FALLBACK_MODEL, RungResult.CHANGED),
    )
    turn = fold(*OPEN, an_attempt_started(), failed(FaultKind.AUTH), *switched)
    assert [one.kind for one in turn.failed_models] == [FaultKind.AUTH]
    # The fault is lost: the log has a gap.
    assert fold(*OPEN, *switched).failed_models == ()


def refused(parameter: str, attempt: int, kind: FaultKind = FaultKind.BAD_REQUEST) -> AttemptFailed:
    fault = Fault(kind, Confidence.LIKELY, parameter=parameter)
    return AttemptFailed(1, attempt, Refusal("openai-chat", Phase.RESPONSE, 400), fault)


def dropped(parameter: str) -> tuple[AnyRecord, ...]:
    rung = Rung.DROP_PARAMETER
    return (
        RungStarted(1, rung, FaultKind.BAD_REQUEST),
        ParameterDropped(1, parameter),
        RungFinished(1, rung, RungResult.CHANGED),
    )


@pytest.mark.parametrize("kind", [FaultKind.BAD_REQUEST, FaultKind.BAD_REQUEST_REASONING, FaultKind.TOOL_PAIRING])
def test_a_named_parameter_is_left_out_first_whatever_else_the_error_suggests(kind: FaultKind) -> None:
    turn = fold(*OPEN, an_attempt_started(), refused("seed", 1, kind))

    assert decide(turn, BOUNDS) == Climb(Rung.DROP_PARAMETER, kind)
    rows = rungs_for(Fault(kind, Confidence.LIKELY, parameter="seed"), BOUNDS)
    assert rows.count(Rung.DROP_PARAMETER) == 4, "recovery ends"


def test_each_named_parameter_is_left_out_once_and_stays_out_for_the_turn() -> None:
    turn = fold(*OPEN, an_attempt_started(), refused("seed", 1), *dropped("seed"))
    assert decide(turn, BOUNDS) == CallModel(2)

    other = fold(an_attempt_started(attempt=2), refused("top_p", 2), start=turn)
    assert decide(other, BOUNDS) == Climb(Rung.DROP_PARAMETER, FaultKind.BAD_REQUEST)
    assert [one.parameter for one in fold(*dropped("top_p"), start=other).dropped] == ["seed", "top_p"]

    same = decide(fold(an_attempt_started(attempt=2), refused("seed", 2), start=turn), BOUNDS)
    assert same == Climb(Rung.CLAMP_OUTPUT, FaultKind.BAD_REQUEST), "it was not the cause"


def test_a_parameter_that_was_not_in_the_request_is_tried_once() -> None:
    turn = fold(
        *OPEN,
        an_attempt_started(),
        refused("seed", 1),
        RungStarted(1, Rung.DROP_PARAMETER, FaultKind.BAD_REQUEST),
        RungFinished(1, Rung.DROP_PARAMETER, RungResult.UNCHANGED),
    )

    assert decide(turn, BOUNDS) == Climb(Rung.CLAMP_OUTPUT, FaultKind.BAD_REQUEST)


def test_another_model_and_another_turn_get_every_parameter_again() -> None:
    turn = fold(*OPEN, an_attempt_started(), refused("seed", 1), *dropped("seed"))
    refused_again = (an_attempt_started(attempt=2), failed(FaultKind.AUTH, attempt=2))
    switched = (
        RungStarted(1, Rung.FALLBACK_MODEL, FaultKind.AUTH),
        RungFinished(1, Rung.FALLBACK_MODEL, RungResult.CHANGED),
    )

    assert fold(*refused_again, *switched, start=turn).dropped == ()
    ended = fold(an_attempt_started(attempt=2), a_reply("ok", attempt=2), TurnEnded(1, Outcome.ANSWERED), start=turn)
    assert ended.dropped == ()


def test_a_summary_is_asked_for_again_without_each_refused_parameter() -> None:
    """Beside one other rung: parameters cost a short call, once in the life of a store."""
    fault = Fault(FaultKind.BAD_REQUEST, Confidence.LIKELY, parameter="max_tokens")
    effort = Fault(FaultKind.BAD_REQUEST_REASONING, Confidence.LIKELY)

    assert next_summary_rung(fault, [], BOUNDS) is Rung.DROP_PARAMETER
    assert next_summary_rung(fault, [Rung.CHANGE_EFFORT], BOUNDS) is Rung.DROP_PARAMETER
    assert next_summary_rung(effort, [Rung.DROP_PARAMETER], BOUNDS) is Rung.CHANGE_EFFORT
    assert next_summary_rung(effort, [Rung.CHANGE_EFFORT], BOUNDS) is None
    assert next_summary_rung(fault, [Rung.CHANGE_EFFORT, *[Rung.DROP_PARAMETER] * 4], BOUNDS) is None
