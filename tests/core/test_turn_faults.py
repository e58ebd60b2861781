"""The ladder in a turn: which rung follows a fault, what a rung leads to, and how it ends."""

import pytest

from holdfast.core.limits.bounds import Bounds
from holdfast.core.turn.actions import Backoff, CallModel, Climb, EndTurn, StartTurn
from holdfast.core.turn.decide import decide
from holdfast.core.turn.failure_messages import oversize
from holdfast.core.turn.ladder import LADDER
from holdfast.testing.builders import a_reply, an_attempt_started, an_input
from holdfast.types.faults import Confidence, Fault, FaultKind, Phase, Refusal, Rung
from holdfast.types.messages import Text
from holdfast.types.records import (
    AttemptFailed,
    AttemptStarted,
    CompactionApplied,
    Outcome,
    OutputClamped,
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
    turn = fold(*OPEN, an_attempt_started(), failed(kind))
    climbed: list[Rung] = []

    for _ in LADDER[kind]:
        action = decide(turn, BOUNDS)
        assert isinstance(action, Backoff | Climb)
        rung = Rung.BACKOFF if isinstance(action, Backoff) else action.rung
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
