"""What each record changes of where a session stands: requests, climbs, what the view is made with."""

import pytest
from msgspec.structs import replace

from holdfast.core.fold.session_state import QUIET_TURNS, IllegalStepError, InFlight, PendingCompaction, Piece, Turn
from holdfast.testing.builders import a_reply, an_attempt_started, an_input
from holdfast.types.faults import FaultKind, Rung
from holdfast.types.limits import Learned
from holdfast.types.messages import Effort, Text
from holdfast.types.records import (
    Abandonment,
    AnswerLinked,
    AnyRecord,
    AttemptAbandoned,
    CancelRequested,
    CompactionApplied,
    CompactionOutcome,
    CompactionRequested,
    CompactionSettled,
    CompactionUndone,
    EffortChanged,
    GenerationStarted,
    LimitsLearned,
    MessagePinned,
    Outcome,
    OutputMasked,
    PartReplaced,
    PieceSummarised,
    ReasoningDropped,
    RungFinished,
    RungResult,
    RungStarted,
    SummaryKind,
    SummaryRefused,
    Trigger,
    TurnEnded,
    TurnStarted,
    WindowWarned,
)
from tests.core.turns import OPEN, SOUND, failed, fold

ASKED = CompactionRequested(focus="the plan")
CLIMB = RungStarted(0, Rung.SUMMARISE, None)
OPEN_AGAIN = (an_input(), TurnStarted(8), TurnEnded(8, Outcome.FAILED))
APPLIED = CompactionApplied(0, 1, "what was said", 100, 10, SummaryKind.SUMMARY, "m")


def finished(result: RungResult, rung: Rung = Rung.SUMMARISE, turn: int = 0) -> RungFinished:
    return RungFinished(turn, rung, result)


def a_piece(since: int, until: int, notes: str) -> PieceSummarised:
    return PieceSummarised(0, until, notes, "m", since=since)


def climbing(*kept: AnyRecord) -> Turn:
    """A session at rest in which a compaction is being made."""
    return fold(an_input(), TurnStarted(1), TurnEnded(1, Outcome.FAILED), ASKED, CLIMB, *kept)


# Requests for compaction.


def test_a_request_for_compaction_is_wanted_until_it_has_an_outcome() -> None:
    asked = fold(ASKED, CompactionRequested(Trigger.AHEAD))
    assert asked == Turn(
        seq=2, wanted=(PendingCompaction(1, Trigger.PERSON, "the plan"), PendingCompaction(2, Trigger.AHEAD))
    )

    settled = fold(CompactionSettled(1, CompactionOutcome.NOTHING_TO_DO), start=asked)
    assert settled == Turn(seq=3, wanted=(PendingCompaction(2, Trigger.AHEAD),), quiet_turns=QUIET_TURNS)


def test_a_compaction_meets_every_request_that_waits_and_makes_the_person_be_warned_anew() -> None:
    turn = fold(ASKED, start=replace(climbing(), warned_percent=85))

    turn = fold(APPLIED, start=turn)

    assert turn.wanted == tuple(PendingCompaction(seq, Trigger.PERSON, "the plan", is_met=True) for seq in (4, 6))
    assert (turn.compaction, turn.compaction_seq, turn.boundary) == (APPLIED, 7, 1)
    assert (turn.warned_percent, turn.quiet_turns) == (0, QUIET_TURNS)


def test_a_request_that_comes_after_the_compaction_is_not_met_by_it() -> None:
    turn = fold(APPLIED, ASKED, start=climbing())

    assert [wanted.is_met for wanted in turn.wanted] == [True, False]


@pytest.mark.parametrize(
    ("asked", "is_met"),
    [
        (CompactionRequested(seen=5), True),
        # Whoever saw it wants another; whoever has a focus wants that one; of the others it is not known.
        (CompactionRequested(seen=6), False),
        (CompactionRequested(focus="the plan", seen=5), False),
        (CompactionRequested(), False),
    ],
)
def test_a_compaction_that_came_while_a_request_was_on_its_way_is_the_one_that_was_asked_for(
    asked: CompactionRequested, *, is_met: bool
) -> None:
    turn = fold(APPLIED, asked, start=climbing())

    assert (turn.compaction_seq, turn.wanted[-1].is_met) == (6, is_met)


def test_a_request_is_not_met_by_a_compaction_that_was_undone() -> None:
    turn = fold(APPLIED, CompactionUndone(6), CompactionRequested(seen=5), start=climbing())

    assert not turn.wanted[-1].is_met


def test_an_outcome_leaves_nothing_of_the_climb_to_the_next_request() -> None:
    turn = climbing(
        SummaryRefused(0, "m", "it is empty"),
        finished(RungResult.UNCHANGED),
        RungStarted(0, Rung.NEXT_SUMMARISER, None),
        finished(RungResult.CHANGED, Rung.NEXT_SUMMARISER),
        RungStarted(0, Rung.SUMMARISE, None),
        finished(RungResult.INTERRUPTED),
        CompactionSettled(4, CompactionOutcome.FAILED, "it is empty"),
    )

    assert turn == Turn(seq=12, last_turn=1, quiet_turns=QUIET_TURNS, is_wanted_climb=True, opening="hello")


def test_turns_pass_quietly_after_a_compaction_and_then_we_may_ask_again() -> None:
    turn = fold(APPLIED, finished(RungResult.CHANGED), start=climbing())
    quiet = [turn.quiet_turns]
    for _ in range(QUIET_TURNS + 1):
        turn = fold(an_input(), start=turn)
        turn = fold(TurnStarted(turn.seq), TurnEnded(turn.seq, Outcome.FAILED), start=turn)
        quiet.append(turn.quiet_turns)

    assert quiet == [3, 2, 1, 0, 0]


# Climbs.


def test_rungs_climbed_for_a_request_and_for_a_fault_are_counted_apart() -> None:
    turn = fold(
        *OPEN,
        an_attempt_started(),
        failed(FaultKind.TOKEN_OVERFLOW),
        RungStarted(1, Rung.SUMMARISE, FaultKind.TOKEN_OVERFLOW),
        finished(RungResult.CHANGED, turn=1),
        ASKED,
        RungStarted(1, Rung.SUMMARISE, None),
    )

    assert (turn.climbed, turn.climbed_for_wanted) == ((Rung.SUMMARISE,), (Rung.SUMMARISE,))
    assert (turn.climbing, turn.is_wanted_climb, turn.in_flight) == (Rung.SUMMARISE, True, InFlight.RUNG)


def test_a_climb_at_rest_ends_at_rest_and_within_a_turn_in_that_turn() -> None:
    assert fold(finished(RungResult.UNCHANGED), start=climbing()).in_flight is InFlight.REST
    within = fold(*OPEN, ASKED, RungStarted(1, Rung.DIGEST, None), finished(RungResult.CHANGED, Rung.DIGEST, 1))
    assert (within.in_flight, within.climbing) == (InFlight.READY, None)


def test_a_climb_that_was_interrupted_does_not_count_and_is_a_death() -> None:
    turn = fold(finished(RungResult.INTERRUPTED), start=climbing())

    assert (turn.climbed_for_wanted, turn.interruptions) == ((), 1)


def test_a_climb_that_changed_the_view_leaves_a_fault_of_the_turn_alone() -> None:
    asked = (ASKED, RungStarted(1, Rung.DIGEST, None), finished(RungResult.CHANGED, Rung.DIGEST, 1))

    turn = fold(*OPEN, an_attempt_started(), failed(FaultKind.AUTH), *asked)

    assert turn.fault is not None


def test_the_next_summariser_may_try_the_same_ways() -> None:
    row: list[AnyRecord] = []
    for rung in (Rung.MASK, Rung.SUMMARISE, Rung.SUMMARISE_LESS, Rung.SUMMARISE_PIECES):
        row += [RungStarted(1, rung, FaultKind.TOKEN_OVERFLOW), finished(RungResult.UNCHANGED, rung, 1)]
    next_one = RungStarted(1, Rung.NEXT_SUMMARISER, FaultKind.TOKEN_OVERFLOW)

    turn = fold(*OPEN, an_attempt_started(), failed(FaultKind.TOKEN_OVERFLOW), *row, next_one)
    passed = fold(finished(RungResult.CHANGED, Rung.NEXT_SUMMARISER, 1), start=turn)
    kept = fold(finished(RungResult.UNCHANGED, Rung.NEXT_SUMMARISER, 1), start=turn)

    assert (passed.climbed, passed.summarisers_passed, passed.fault) == ((Rung.MASK,), 1, turn.fault)
    assert (kept.climbed, kept.summarisers_passed) == (turn.climbed, 0)


def test_why_an_answer_was_not_used_is_kept_for_those_who_asked_for_it() -> None:
    asked = fold(SummaryRefused(0, "m", "it is empty"), start=climbing())
    overflowed = fold(
        *OPEN,
        an_attempt_started(),
        failed(FaultKind.TOKEN_OVERFLOW),
        RungStarted(1, Rung.SUMMARISE, FaultKind.TOKEN_OVERFLOW),
        SummaryRefused(1, "m", "it is empty"),
    )

    assert asked.refused_why == "it is empty"
    # Whoever asks later for a compaction must not be told of a summary that was made for something else.
    assert overflowed.refused_why == ""


def test_deaths_while_a_compaction_was_made_are_not_held_against_the_next_turn() -> None:
    """The next message always works."""
    turn = climbing()
    for _ in range(9):
        turn = fold(finished(RungResult.INTERRUPTED), CLIMB, start=turn)
    turn = fold(finished(RungResult.UNCHANGED), an_input(), start=turn)

    assert turn.interruptions == 9
    assert fold(TurnStarted(turn.seq), start=turn).interruptions == 0


def test_deaths_in_a_turn_that_has_ended_are_forgotten() -> None:
    turn = fold(*OPEN, an_attempt_started(), AttemptAbandoned(1, 1, Abandonment.INTERRUPTED))

    assert (turn.interruptions, fold(TurnEnded(1, Outcome.FAILED), start=turn).interruptions) == (1, 0)


# What the view is made with.


def test_notes_are_kept_in_order_and_newer_ones_on_the_same_replace_them() -> None:
    turn = fold(a_piece(0, 10, "a"), a_piece(10, 20, "b"), a_piece(20, 30, "c"))
    assert turn.pieces == (Piece(10, "a"), Piece(20, "b"), Piece(30, "c"))

    assert fold(a_piece(10, 20, "d"), start=turn).pieces == (Piece(10, "a"), Piece(20, "d"))
    assert fold(a_piece(20, 25, "d"), start=turn).pieces == (Piece(10, "a"), Piece(20, "b"), Piece(25, "d"))
    assert fold(a_piece(0, 40, "all"), start=turn).pieces == (Piece(40, "all"),)


@pytest.mark.parametrize(("since", "until"), [(5, 15), (12, 20), (40, 50), (20, 20), (20, 12)])
def test_notes_with_a_gap_before_them_or_on_nothing_are_not_used(since: int, until: int) -> None:
    """Anyone may append notes; those made by somebody who saw another log must not hide that something is missing."""
    turn = fold(a_piece(0, 10, "a"), a_piece(10, 20, "b"))

    assert fold(a_piece(since, until, "x"), start=turn).pieces == turn.pieces


def test_merged_notes_are_kept_until_one_of_their_pieces_is_made_anew() -> None:
    merged = PieceSummarised(0, 20, "both", "m", focus="the plan", is_merged=True)
    turn = fold(a_piece(0, 10, "a"), a_piece(10, 20, "b"), merged)
    assert (turn.merged, len(turn.pieces)) == (Piece(20, "both", "the plan"), 2)

    assert fold(a_piece(20, 30, "c"), start=turn).merged == turn.merged
    assert fold(a_piece(10, 15, "c"), start=turn).merged is None


def test_how_much_the_model_is_asked_to_think_holds_until_it_is_changed() -> None:
    turn = climbing(EffortChanged(0, Effort.LOW), finished(RungResult.CHANGED))
    assert (turn.effort, fold(*OPEN_AGAIN, start=turn).effort) == (Effort.LOW, Effort.LOW)

    assert climbing(EffortChanged(0, Effort.LOW), EffortChanged(0, None)).effort is None


def test_thinking_from_before_a_change_of_the_past_is_not_sent_back() -> None:
    assert climbing(ReasoningDropped(0, 6)).reasoning_from == 6
    assert climbing(ReasoningDropped(0, 6), APPLIED).reasoning_from == 7


def test_thinking_of_the_turn_that_is_open_goes_on_behind_a_compaction_unless_it_was_refused() -> None:
    """FM-065: a provider refuses a tool loop that goes on without the thinking it began with."""
    climb = RungStarted(1, Rung.DIGEST, FaultKind.TOKEN_OVERFLOW)
    before = fold(*OPEN, an_attempt_started(), failed(FaultKind.TOKEN_OVERFLOW), climb)
    applied = replace(APPLIED, turn=1)
    anew = GenerationStarted(1, 1, "seed", 100, 10, generation=2)

    assert fold(applied, start=before).reasoning_from == before.number == 1
    assert fold(ReasoningDropped(1, 6), applied, start=before).reasoning_from == 6
    assert fold(anew, start=before).reasoning_from == before.seq + 1


def test_a_compaction_changes_nothing_that_a_session_was_told_about_itself() -> None:
    """FM-076."""
    told = {"model": "m", "system": "Be brief.", "tools": (SOUND,), "effort": Effort.LOW, "pins": (1,)}
    before = replace(climbing(), **told)
    anew = GenerationStarted(0, 1, "seed", 100, 10, generation=2)

    for changed in (fold(APPLIED, start=before), fold(anew, start=before)):
        assert {name: getattr(changed, name) for name in told} == told


def test_a_mask_never_moves_back() -> None:
    assert [climbing(OutputMasked(0, 9), OutputMasked(0, before)).masked_before for before in (5, 12)] == [9, 12]


def test_replaced_parts_are_forgotten_with_what_they_stood_in_unless_it_is_pinned() -> None:
    """A pinned message stays in the view, so what was too large in it must stay replaced."""
    parts = tuple(PartReplaced(0, seq, 0, Text("[gone]"), "x") for seq in (1, 2, 4))

    turn = climbing(*parts, MessagePinned(2), replace(APPLIED, boundary=4))

    assert turn.replaced == parts[1:]


def test_pins_are_in_order_and_once_each_and_can_be_taken_off() -> None:
    turn = fold(MessagePinned(7), MessagePinned(3), MessagePinned(7))
    assert turn.pins == (3, 7)

    assert fold(MessagePinned(3, is_pinned=False), MessagePinned(9, is_pinned=False), start=turn).pins == (7,)


def test_an_undone_compaction_gives_back_what_was_in_force_before() -> None:
    second = replace(APPLIED, boundary=5)
    turn = climbing(APPLIED, second)

    once = fold(CompactionUndone(7, APPLIED, 6), start=turn)
    twice = fold(CompactionUndone(6), start=once)

    assert (once.compaction, once.compaction_seq, once.boundary) == (APPLIED, 6, 1)
    assert (twice.compaction, twice.compaction_seq, twice.boundary) == (None, 0, 0)
    assert once.quiet_turns == QUIET_TURNS, "it is not compacted again at once"


def test_a_generation_moves_the_boundary_and_carries_no_pin_along() -> None:
    before = climbing(MessagePinned(1), MessagePinned(9), replace(APPLIED, boundary=1))
    started = GenerationStarted(0, 4, "seed", 9, 1, step=7, before=8, generation=2, left=1, pins_left=(1,))

    turn = fold(started, start=before)

    assert (turn.boundary, turn.first_step, turn.pins) == (4, 7, (9,))
    assert (turn.generation, turn.generations, turn.compaction_seq) == (2, 2, 9)


def test_an_undone_generation_gives_the_pins_back_and_its_number_is_not_given_again() -> None:
    started = GenerationStarted(0, 4, "seed", 9, 1, generation=2, left=1, pins_left=(1,))
    turn = climbing(MessagePinned(1), started, MessagePinned(3))

    undone = fold(CompactionUndone(7), start=turn)

    assert (undone.compaction, undone.pins, undone.generation, undone.generations) == (None, (1, 3), 1, 2)


def test_undoing_what_is_not_in_force_changes_nothing() -> None:
    turn = climbing(APPLIED)

    assert fold(CompactionUndone(5), start=turn) == replace(turn, seq=turn.seq + 1)
    assert fold(CompactionUndone(0, APPLIED, 1)) == Turn(seq=1)


def test_where_the_tail_begins_is_said_by_the_compaction_in_force() -> None:
    assert (Turn().boundary, Turn().first_step) == (0, 0)
    turn = climbing(replace(APPLIED, boundary=4, step=9))
    assert (turn.boundary, turn.first_step) == (4, 9)


def test_a_warning_is_remembered_and_what_is_learned_of_models_is_not_the_sessions_business() -> None:
    linked = AnswerLinked("0a", "dropin:a", "dropin:a", 2)
    turn = fold(WindowWarned(0, 85, "It is 85 % full."), LimitsLearned("openai:x", Learned(8_000)), linked)

    assert turn == Turn(seq=3, warned_percent=85)


# What cannot be, and what asks for nothing.


def test_a_cancel_is_remembered_once_and_only_for_an_input_that_is_owed_an_answer() -> None:
    turn = fold(*OPEN, an_input(), CancelRequested(3), CancelRequested(3), CancelRequested(0), CancelRequested(2))
    at_rest = fold(CancelRequested(0))

    assert turn.cancelled == (3,)
    assert at_rest == Turn(seq=1)


def test_an_input_that_waits_cannot_end_in_the_middle_of_another_turn() -> None:
    with pytest.raises(IllegalStepError, match="record 4 ends turn 3, which is not open"):
        fold(*OPEN, an_input(), TurnEnded(3, Outcome.CANCELLED))


def test_an_outcome_cannot_be_given_twice() -> None:
    with pytest.raises(IllegalStepError, match="not open"):
        fold(*OPEN, an_attempt_started(), a_reply(), TurnEnded(1, Outcome.ANSWERED), TurnEnded(1, Outcome.ANSWERED))
    with pytest.raises(IllegalStepError, match="record 3 settles request 1, which is not wanted"):
        fold(ASKED, *[CompactionSettled(1, CompactionOutcome.FAILED)] * 2)
