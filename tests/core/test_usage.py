"""What a request takes of the three budgets, and what a session knows of that at any time."""

from holdfast.core.fold.session_state import Turn
from holdfast.core.limits.bounds import Bounds
from holdfast.core.limits.fit import Sizes, after_change, budgets_of, misfit
from holdfast.core.turn.transitions import evolve
from holdfast.testing.builders import a_message, an_input
from holdfast.types.limits import Budgets, Calibration, Limits
from holdfast.types.messages import Usage
from holdfast.types.records import AttemptStarted, CompactionUndone, Logged, ReplyRecorded, TurnStarted
from tests.core.test_fold import APPLIED, climbing
from tests.core.turns import fold

SURE = Calibration(error=0.0)
BOUNDS = Bounds(output_tokens_reserved=1_000)
MEASURED = Budgets(700, 10_000, 2_800, 90_000, 1, 20)


def test_budgets_are_what_a_request_is_held_to() -> None:
    limits = Limits(window_tokens=11_000, wire_bytes_max=90_000, media_count_max=20)
    assert budgets_of(Sizes(700, 2_800, 1, 0, 0), limits, SURE, BOUNDS) == MEASURED
    for tokens, is_refused in ((10_000, False), (10_001, True)):
        sizes = Sizes(tokens, 0, 0, 0, 0)
        taken = budgets_of(sizes, limits, SURE, BOUNDS)
        assert taken.tokens_max is not None
        assert (taken.tokens > taken.tokens_max) is (misfit(sizes, limits, SURE, BOUNDS) is not None) is is_refused


def test_of_what_a_model_accepts_only_what_is_known_is_told() -> None:
    assert budgets_of(Sizes(700, 2_800, 1, 0, 0), Limits(), SURE, BOUNDS) == Budgets(
        700, None, 2_800, BOUNDS.wire_bytes_max, 1
    )


def test_what_changes_the_view_leaves_its_tokens_and_the_window() -> None:
    assert after_change(MEASURED, 50) == Budgets(50, 10_000)
    assert after_change(None, 50) == Budgets(50)


def test_a_session_knows_what_its_last_request_took_whatever_the_model_reports() -> None:
    asked = (an_input(), TurnStarted(1), AttemptStarted(1, 1, "m", 650, budgets=MEASURED))
    answered = ReplyRecorded(1, 1, a_message(usage=Usage(640, 5)))
    assert fold(*asked).budgets == MEASURED
    assert fold(*asked, answered).budgets == MEASURED


def test_where_nobody_measured_a_request_what_the_model_read_is_known() -> None:
    asked = (an_input(), TurnStarted(1), AttemptStarted(1, 1, "m"))
    assert fold(*asked).budgets is None
    assert fold(*asked, ReplyRecorded(1, 1, a_message())).budgets is None
    assert fold(*asked, ReplyRecorded(1, 1, a_message(usage=Usage(640, 5)))).budgets == Budgets(640)


def test_a_compaction_and_its_undoing_change_what_is_known() -> None:
    compacted = climbing(APPLIED)
    assert compacted.budgets == Budgets(10)
    undone = fold_on(compacted, CompactionUndone(compacted.compaction_seq))
    assert undone.budgets == Budgets(100)


def fold_on(turn: Turn, record: CompactionUndone) -> Turn:
    """Return where a session stands one record later."""
    return evolve(turn, Logged(turn.seq + 1, 0.0, record))
