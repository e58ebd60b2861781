"""Where to cut: at whole turns, the newest always kept, and only where something is gained."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.compaction import Cut, plan_cut, summary_tokens_max, tail_tokens_max
from holdfast.core.limits import Bounds, Limits
from holdfast.core.messages import Message, Role, Text
from holdfast.core.sizing import tokens_of_message
from holdfast.core.view import Said

WORDS = Message(Role.USER, (Text("some words of a message " * 10),))
SIZE = tokens_of_message(WORDS)


def test_old_turns_are_cut_and_the_newest_that_fit_are_kept() -> None:
    tail = [Said(turn, turn, turn, WORDS) for turn in (1, 5, 9, 13)]

    assert plan_cut(tail, newest=13, keep_tokens=2 * SIZE) == Cut(9, 4 * SIZE, 2 * SIZE)


def test_the_newest_turn_is_kept_even_if_it_is_too_large() -> None:
    """FM-058, FM-062."""
    tail = [Said(1, 1, 1, WORDS), Said(5, 5, 5, WORDS), Said(5, 6, 6, WORDS)]

    assert plan_cut(tail, newest=5, keep_tokens=0) == Cut(5, 3 * SIZE, 2 * SIZE)


def test_nothing_is_planned_where_nothing_would_go() -> None:
    assert plan_cut([Said(1, 1, 1, WORDS), Said(5, 5, 5, WORDS)], newest=5, keep_tokens=10 * SIZE) is None
    assert plan_cut([Said(5, 5, 5, WORDS)], newest=5, keep_tokens=0) is None
    assert plan_cut([], newest=5, keep_tokens=0) is None


@given(
    turns=st.lists(st.integers(1, 4), min_size=1, max_size=12),
    keep_tokens=st.integers(0, 40 * SIZE),
)
def test_a_cut_keeps_whole_turns_within_the_room_or_only_the_newest(turns: list[int], keep_tokens: int) -> None:
    tail = [
        Said(number, number, number, WORDS) for number, messages in enumerate(turns, start=1) for _ in range(messages)
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
    assert summary_tokens_max(Limits(window_tokens=200_000), 150_000) == 3_000
    assert summary_tokens_max(Limits(), 100) == 200
