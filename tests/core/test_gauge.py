"""How full the window is, who is told, and when room is made ahead."""

import pytest

from holdfast.core.compaction.plan import LEVELS, percent_full, tokens_behind, warning, wish
from holdfast.core.fold.session_state import Asked, PendingCompaction, Turn
from holdfast.core.limits.bounds import Bounds
from holdfast.core.limits.fit import Sizes, misfit
from holdfast.core.limits.sizing import tokens_of_message
from holdfast.types.limits import Calibration, Limits
from holdfast.types.messages import Message, Reply, Role, StopReason, Text
from holdfast.types.records import CompactionApplied, CompactionRequested, SummaryKind, Trigger, WindowWarned

SURE = Calibration(error=0.0)
BOUNDS = Bounds(output_tokens_reserved=1_000)
WINDOW = Limits(window_tokens=11_000)


def a_size(tokens: int) -> Sizes:
    return Sizes(tokens, 4 * tokens, 0, 0, 0)


def test_a_window_that_nobody_knows_is_never_full() -> None:
    assert percent_full(5_000, Limits(), SURE, BOUNDS) is None
    assert warning(Turn(number=1), None, Limits()) is None
    assert wish(Turn(), None, BOUNDS) is None


@pytest.mark.parametrize(("tokens", "percent"), [(0, 0), (7_000, 70), (6_999, 69), (10_000, 100), (25_000, 250)])
def test_fullness_leaves_out_the_room_for_the_answer(tokens: int, percent: int) -> None:
    assert percent_full(tokens, WINDOW, SURE, BOUNDS) == percent


def test_what_would_be_refused_is_more_than_full_and_nothing_else_is() -> None:
    for tokens in (9_999, 10_000, 10_100):
        refused = misfit(a_size(tokens), WINDOW, SURE, BOUNDS) is not None
        assert refused is ((percent_full(tokens, WINDOW, SURE, BOUNDS) or 0) > 100)


def test_a_window_without_room_is_full_and_nothing_is_divided_by_zero() -> None:
    assert percent_full(3, Limits(window_tokens=0), SURE, BOUNDS) == 300


def test_the_view_behind_an_answer_is_what_was_answered_and_the_answer() -> None:
    answer = Reply((Text("three words more"),), StopReason.END, None, "m")
    turn = Turn(answered=Asked("m", 900, 1_000, 950))

    assert tokens_behind(turn, answer) == 1_000 + tokens_of_message(Message(Role.ASSISTANT, answer.parts))
    assert tokens_behind(turn, answer) > 1_000


def test_each_level_is_told_once() -> None:
    turn, told = Turn(number=4), []
    for percent in (10, 69, 70, 84, 84, 90, 94, 96, 120):
        found = warning(turn, percent, WINDOW)
        if found is not None:
            told.append((percent, found.percent))
            turn = Turn(number=4, warned_percent=found.percent)

    assert told == [(70, 70), (90, 85), (96, 95)]
    assert tuple(level for _, level in told) == LEVELS


def test_a_warning_says_how_full_and_what_will_happen() -> None:
    assert warning(Turn(number=4, warned_percent=70), 86, WINDOW) == WindowWarned(
        4,
        85,
        "The model's window of 11,000 tokens is 86 % full. Before it is full, older messages will be represented by a "
        "summary; nothing is lost.",
    )


DIGEST = CompactionApplied(1, 1, "s", 2, 1, SummaryKind.DIGEST)
SUMMARY = CompactionApplied(1, 1, "s", 2, 1, SummaryKind.SUMMARY, "m")


@pytest.mark.parametrize(
    ("turn", "percent", "trigger"),
    [
        (Turn(), 69, None),
        (Turn(), 70, Trigger.AHEAD),
        (Turn(compaction=SUMMARY), 10, None),
        (Turn(compaction=SUMMARY), 70, Trigger.AHEAD),
        (Turn(compaction=DIGEST), 10, Trigger.DEBT),
        (Turn(compaction=DIGEST), None, Trigger.DEBT),
        (Turn(compaction=DIGEST), 70, Trigger.AHEAD),
        # Somebody waits, somebody asked already, or it was done a moment ago.
        (Turn(compaction=DIGEST, waiting=(9,)), 99, None),
        (Turn(compaction=DIGEST, wanted=(PendingCompaction(9, Trigger.PERSON),)), 99, None),
        (Turn(compaction=DIGEST, quiet_turns=1), 99, None),
    ],
)
def test_room_is_made_ahead_only_when_nobody_waits_and_it_was_not_just_done(
    turn: Turn, percent: int | None, trigger: Trigger | None
) -> None:
    assert wish(turn, percent, BOUNDS) == (CompactionRequested(trigger) if trigger else None)


def test_nothing_is_done_ahead_where_that_is_switched_off() -> None:
    assert wish(Turn(compaction=DIGEST), 99, Bounds(compacts_ahead=False)) is None
