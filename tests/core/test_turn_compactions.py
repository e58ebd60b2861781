"""Requests for compaction: who is served when, together with whom, and how each is settled."""

import pytest

from holdfast.core.fold.session_state import Turn
from holdfast.core.turn.decide import (
    CallModel,
    Climb,
    Rest,
    RunTools,
    SettleCompactions,
    StartTurn,
    decide,
    interruptions,
)
from holdfast.core.turn.ladder import ASKED_BY_A_PERSON, ASKED_BY_US
from holdfast.testing.builders import an_attempt_started, an_input
from holdfast.types.faults import FaultKind, Rung
from holdfast.types.records import (
    Abandonment,
    AnyRecord,
    CancelRequested,
    CompactionApplied,
    CompactionOutcome,
    CompactionRequested,
    CompactionSettled,
    Outcome,
    RungFinished,
    RungResult,
    RungStarted,
    SummaryRefused,
    Trigger,
    TurnEnded,
    TurnStarted,
    WorkRecord,
)
from tests.core.turns import ASKED, BOUNDS, CALL, OPEN, OTHER, failed, fold

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
    assert decide(turn, BOUNDS) == Climb(Rung.REPAIR_PAIRS, FaultKind.TOOL_PAIRING)

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
