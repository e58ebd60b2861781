"""Where to cut: at whole turns, the newest always kept, and only where something is gained."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.core.compaction.plan import (
    Cut,
    Keeps,
    Plan,
    asked_tail_tokens_max,
    cut_before,
    is_filling,
    plan_compaction,
    plan_cut,
    plan_mask,
    summary_tokens_max,
    tail_tokens_max,
)
from holdfast.core.fold.session_state import Piece, Turn
from holdfast.core.limits.bounds import Bounds
from holdfast.core.limits.sizing import tokens_of_message, tokens_of_text
from holdfast.core.view import ViewMessage
from holdfast.testing.builders import an_input
from holdfast.types.limits import Limits
from holdfast.types.messages import Message, Role, Text, ToolResult
from holdfast.types.records import CompactionApplied, Logged, SummaryKind, ToolSettled, TurnStarted

WORDS = Message(Role.USER, (Text("some words of a message " * 10),))
SIZE = tokens_of_message(WORDS)


def test_old_turns_are_cut_and_the_newest_that_fit_are_kept() -> None:
    tail = [ViewMessage(turn, turn, turn, WORDS) for turn in (1, 5, 9, 13)]

    assert plan_cut(tail, newest=13, keep_tokens=2 * SIZE) == Cut(9, 4 * SIZE, 2 * SIZE)


def test_the_newest_turn_is_kept_even_if_it_is_too_large() -> None:
    """FM-058, FM-062."""
    tail = [ViewMessage(1, 1, 1, WORDS), ViewMessage(5, 5, 5, WORDS), ViewMessage(5, 6, 6, WORDS)]

    assert plan_cut(tail, newest=5, keep_tokens=0) == Cut(5, 3 * SIZE, 2 * SIZE)


def test_a_cut_before_a_record_keeps_calls_with_their_results() -> None:
    calls, results = Message(Role.ASSISTANT, (Text("look"),)), Message(Role.TOOL, (ToolResult("c1", (Text("seen"),)),))
    said = [
        ViewMessage(1, 1, 2, WORDS),
        ViewMessage(1, 4, 4, calls),
        ViewMessage(1, 5, 5, results),
        ViewMessage(1, 7, 7, calls),
        ViewMessage(9, 9, 10, WORDS),
    ]
    assert cut_before(said, 6) == (1, 7)
    assert cut_before(said, 8) == (9, 0)
    # Between a call and its result, before everything, and behind everything.
    assert cut_before(said, 5) is None
    assert cut_before(said, 1) is None
    assert cut_before(said, 11) is None


def test_notes_are_ahead_while_they_are_about_messages_in_view() -> None:
    ahead = Turn(pieces=(Piece(40, "notes"),))
    applied = CompactionApplied(0, 41, "notes", 10, 5)
    assert not Turn().has_notes_ahead
    assert ahead.has_notes_ahead
    assert not replace(ahead, compaction=applied).has_notes_ahead
    assert replace(ahead, compaction=replace(applied, boundary=3, step=39)).has_notes_ahead
    assert (is_filling(None), is_filling(69), is_filling(70)) == (False, False, True)


def test_nothing_is_planned_where_nothing_would_go() -> None:
    assert plan_cut([ViewMessage(1, 1, 1, WORDS), ViewMessage(5, 5, 5, WORDS)], newest=5, keep_tokens=10 * SIZE) is None
    assert plan_cut([ViewMessage(5, 5, 5, WORDS)], newest=5, keep_tokens=0) is None
    assert plan_cut([], newest=5, keep_tokens=0) is None


def a_long_turn(steps: int, *, number: int = 5) -> list[ViewMessage]:
    """An input and work on it, each step a reply and the results it asked for, all of one size."""
    said = [ViewMessage(number, number, number + 1, WORDS)]
    for step in range(steps):
        place = number + 10 * (step + 1)
        said.append(ViewMessage(number, place, place, Message(Role.ASSISTANT, WORDS.parts)))
        said.append(ViewMessage(number, place + 2, place + 2, Message(Role.TOOL, WORDS.parts)))
    return said


@pytest.mark.parametrize(
    ("keep", "cut"),
    [
        # All of it fits, so whole turns are cut.
        (9, Cut(5, 10 * SIZE, 9 * SIZE)),
        # The input and as many of the newest steps as fit, whole ones, one at least.
        (8, Cut(5, 10 * SIZE, 7 * SIZE, step=25)),
        (6, Cut(5, 10 * SIZE, 5 * SIZE, step=35)),
        (3, Cut(5, 10 * SIZE, 3 * SIZE, step=45)),
        (0, Cut(5, 10 * SIZE, 3 * SIZE, step=45)),
    ],
)
def test_a_turn_that_is_too_long_by_itself_keeps_its_input_and_its_newest_steps(keep: int, cut: Cut) -> None:
    tail = [ViewMessage(1, 1, 2, WORDS), *a_long_turn(4)]

    assert plan_cut(tail, newest=5, keep_tokens=keep * SIZE) == cut


def test_a_turn_of_one_step_is_not_cut_into() -> None:
    assert plan_cut(a_long_turn(1), newest=5, keep_tokens=0) is None
    assert plan_cut([ViewMessage(1, 1, 2, WORDS), *a_long_turn(1)], newest=5, keep_tokens=0) == Cut(
        5, 4 * SIZE, 3 * SIZE
    )


def outputs(*seqs: int) -> list[Logged]:
    return [
        Logged(1, 0.0, an_input()),
        *(Logged(seq, 0.0, ToolSettled(1, ToolResult("c", (Text("out"),)))) for seq in seqs),
    ]


@pytest.mark.parametrize(
    ("keep", "masked_before", "before"),
    [
        (3, 0, None),
        (2, 0, 6),
        (1, 0, 8),
        (0, 0, 9),
        # Nothing more than is masked already.
        (1, 8, None),
        (1, 7, 8),
        (2, 8, None),
    ],
)
def test_all_but_the_newest_outputs_are_masked_and_none_is_unmasked(
    keep: int, masked_before: int, before: int | None
) -> None:
    assert plan_mask(outputs(4, 6, 8), masked_before=masked_before, keep=keep) == before


def test_where_there_is_no_output_nothing_is_masked() -> None:
    assert plan_mask(outputs(), masked_before=0, keep=0) is None


def test_the_tail_after_a_compaction_that_was_asked_for_depends_on_the_window_alone() -> None:
    bounds = Bounds(asked_tail_window_share=0.1)

    assert asked_tail_tokens_max(Limits(window_tokens=8_000), bounds) == 800
    assert asked_tail_tokens_max(Limits(), bounds) == 12_800


@given(
    turns=st.lists(st.integers(1, 4), min_size=1, max_size=12),
    keep_tokens=st.integers(0, 40 * SIZE),
)
def test_a_cut_keeps_whole_turns_within_the_room_or_only_the_newest(turns: list[int], keep_tokens: int) -> None:
    tail = [
        ViewMessage(number, number, number, WORDS)
        for number, messages in enumerate(turns, start=1)
        for _ in range(messages)
    ]
    newest = len(turns)

    cut = plan_cut(tail, newest=newest, keep_tokens=keep_tokens)

    if cut is not None:
        kept = sum(messages for number, messages in enumerate(turns, start=1) if number >= cut.boundary)
        assert cut == Cut(cut.boundary, sum(turns) * SIZE, kept * SIZE)
        assert cut.boundary > 1
        assert cut.tokens_kept <= keep_tokens or cut.boundary == newest


def test_the_room_for_tail_and_summary_follows_the_window_and_the_request_that_was_refused() -> None:
    bounds = Bounds(tail_window_share=0.5)

    assert tail_tokens_max(Limits(window_tokens=8_000), bounds, 9_000) == 4_000
    assert tail_tokens_max(Limits(), bounds, 9_000) == 4_500
    # Refused well below the declared window: the window is not what it was said to be.
    assert tail_tokens_max(Limits(window_tokens=200_000), bounds, 9_000) == 4_500
    assert summary_tokens_max(Limits(window_tokens=8_000), 9_000) == 1_000
    assert summary_tokens_max(Limits(window_tokens=24_000), 150_000) == 3_000
    assert summary_tokens_max(Limits(window_tokens=200_000), 200_000) == 14_000, "a large window affords more"
    assert summary_tokens_max(Limits(window_tokens=2_000_000), 2_000_000) == 24_000
    assert summary_tokens_max(Limits(), 100) == 200


def turns(count: int) -> list[Logged]:
    """Inputs of one size that were let in, without answers."""
    records = [
        record for n in range(count) for record in (an_input("some words of a message " * 10), TurnStarted(2 * n + 1))
    ]
    return [Logged(seq, 0.0, record) for seq, record in enumerate(records, start=1)]


RESTS = Turn(seq=12, last_turn=11)
LIMITS = Limits(window_tokens=20 * SIZE)


@pytest.mark.parametrize(("keeps", "boundary"), [(Keeps.NEWEST, 11), (Keeps.LITTLE, 9), (Keeps.TAIL, 7)])
def test_a_plan_keeps_as_much_as_it_is_for(keeps: Keeps, boundary: int) -> None:
    tokens = 8 * SIZE
    bounds = Bounds(tail_window_share=0.5, asked_tail_window_share=0.1)

    plan = plan_compaction(turns(6), RESTS, LIMITS, bounds, tokens=tokens, keeps=keeps)

    assert plan == Plan(boundary, 0, tokens, summary_tokens_max(LIMITS, tokens))
    assert plan.moves(RESTS)


@pytest.mark.parametrize(("beside", "boundary"), [(0, 5), (14, 7), (16, 9), (24, 11)])
def test_what_stands_beside_the_conversation_leaves_its_tail_less_room(beside: int, boundary: int) -> None:
    earlier = CompactionApplied(1, 1, "notes " * 100, 9, 5)
    turn = replace(RESTS, compaction=earlier)
    tokens = (6 + beside) * SIZE + tokens_of_text(earlier.summary)

    plan = plan_compaction(turns(6), turn, LIMITS, Bounds(tail_window_share=0.5), tokens=tokens, keeps=Keeps.TAIL)

    assert plan is not None
    assert plan.boundary == boundary


def test_where_nothing_is_to_be_cut_only_a_debt_is_planned_for_and_only_at_rest() -> None:
    digest = CompactionApplied(11, 11, "digest", 9, 5, SummaryKind.DIGEST, step=12)
    owing = replace(RESTS, compaction=digest)
    paid = replace(RESTS, compaction=replace(digest, kind=SummaryKind.SUMMARY))

    def planned(turn: Turn) -> Plan | None:
        return plan_compaction(turns(6)[10:], turn, LIMITS, Bounds(), tokens=900, keeps=Keeps.LITTLE)

    plan = planned(owing)
    assert plan == Plan(11, 12, 900, summary_tokens_max(LIMITS, 900))
    assert not plan.moves(owing)
    assert [planned(turn) for turn in (RESTS, paid, replace(owing, number=11))] == [None, None, None]


def test_a_plan_represents_what_lies_before_it_and_leaves_the_input_it_cuts_into() -> None:
    plan = Plan(5, 9, 0, 0)
    said = [
        ViewMessage(1, 1, 2, WORDS),
        ViewMessage(5, 5, 6, WORDS),
        ViewMessage(5, 8, 8, WORDS),
        ViewMessage(5, 9, 9, WORDS),
    ]

    assert [plan.represents(one) for one in said] == [True, False, True, False]
