"""The tree of notes: which nodes are used, which are merged next, and what of them is shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.compaction.notes import (
    Run,
    end_of,
    frontier,
    merged_by_rule,
    node_tokens_max,
    reusable,
    run_to_merge,
    story,
)
from holdfast.core.compaction.reading import Position
from holdfast.core.fold import receive
from holdfast.core.fold.session_state import Piece, Turn
from holdfast.core.limits.sizing import tokens_of_text
from holdfast.types.records import PieceSummarised

NOTE = "The parser was mended. " * 100
TOKENS = tokens_of_text(NOTE)


def nodes_of(*weights: int) -> tuple[Piece, ...]:
    ends = [10 * sum(weights[: place + 1]) for place in range(len(weights))]
    return tuple(Piece(end, NOTE, weight=weight) for end, weight in zip(ends, weights, strict=True))


def record(
    since: int, until: int, notes: str = "n", *, level: int = 0, offset: int = 0, since_offset: int = 0
) -> PieceSummarised:
    return PieceSummarised(0, until, notes, "m", since=since, offset=offset, since_offset=since_offset, level=level)


def folded(*records: PieceSummarised) -> Turn:
    turn = Turn()
    for seq, one in enumerate(records, start=1):
        turn = receive(turn, seq, one)
    return turn


# The fold.


def test_a_merged_node_replaces_the_nodes_that_it_covers_and_no_others() -> None:
    leaves = (record(0, 10, "a"), record(10, 20, "b"), record(20, 30, "c"))

    turn = folded(*leaves, record(0, 20, "ab", level=1))

    assert turn.pieces == (Piece(20, "ab", level=1, weight=2), Piece(30, "c"))
    again = receive(turn, 5, record(0, 30, "abc", level=2))
    assert again.pieces == (Piece(30, "abc", level=2, weight=3),)


@pytest.mark.parametrize(
    "stale",
    [
        record(0, 15, "x", level=1),
        record(5, 20, "x", level=1),
        record(20, 20, "x", level=1),
        record(20, 40, "x", level=1),
        record(30, 40, "x"),
        record(10, 20, "x", since_offset=5),
    ],
)
def test_a_node_that_does_not_join_its_neighbours_changes_nothing(stale: PieceSummarised) -> None:
    turn = folded(record(0, 10), record(10, 20))

    assert receive(turn, 3, stale) == turn


def test_a_message_may_be_covered_by_several_nodes() -> None:
    turn = folded(
        record(0, 10, offset=500), record(10, 10, offset=900, since_offset=500), record(10, 12, since_offset=900)
    )

    assert [end_of([piece]) for piece in turn.pieces] == [Position(10, 500), Position(10, 900), Position(12)]
    assert receive(turn, 4, record(0, 10, "ab", level=1, offset=900)).pieces[0].weight == 2


def test_what_an_older_version_merged_is_the_root() -> None:
    merged = PieceSummarised(0, 20, "ab", "m", is_merged=True)
    turn = folded(record(0, 10, "a"), record(10, 20, "b"), merged, record(20, 30, "c"))

    assert frontier(turn) == (Piece(20, "ab", level=1, weight=2), Piece(30, "c"))
    assert receive(turn, 5, record(0, 30, "abc", level=2)) == Turn(pieces=(Piece(30, "abc", level=2, weight=3),))


def test_what_an_older_version_merged_is_not_used_where_no_piece_ends_with_it() -> None:
    merged = PieceSummarised(0, 15, "ab", "m", is_merged=True)

    assert frontier(folded(merged)) == ()
    assert frontier(folded(record(0, 10, "a"), merged)) == (Piece(10, "a"),)
    assert frontier(folded(record(0, 10, "a"))) == (Piece(10, "a"),)


# Which are used.


def test_notes_are_used_up_to_the_end_and_later_ones_only_with_the_same_focus() -> None:
    nodes = (Piece(10, "a", "x"), Piece(20, "b"), Piece(30, "c", "x"))

    assert reusable(nodes, end=30, represented=20, focuses=frozenset({""})) == nodes[:2]
    assert reusable(nodes, end=30, represented=20, focuses=frozenset({"x"})) == nodes
    assert reusable(nodes, end=15, represented=30, focuses=frozenset()) == nodes[:2], "they may reach further"
    assert reusable(nodes, end=10, represented=30, focuses=frozenset()) == nodes[:1]


# Which are merged.


def test_nothing_is_merged_while_all_fits() -> None:
    assert run_to_merge(nodes_of(1, 1, 1), tokens_max=3 * TOKENS) is None


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ((1, 1), Run(0, 2)),
        ((4, 2, 1, 1), Run(2, 4)),
        ((4, 2, 2, 1), Run(1, 3)),
        ((4, 4, 2, 1), Run(0, 2)),
        ((4, 2, 1), Run(1, 3)),
    ],
)
def test_nodes_of_like_weight_are_merged_the_newest_first(weights: tuple[int, ...], expected: Run) -> None:
    assert run_to_merge(nodes_of(*weights), tokens_max=len(weights) * TOKENS - 1) == expected


def test_many_nodes_of_one_weight_are_merged_at_once() -> None:
    long = "The parser was mended in a file. " * 20
    nodes = tuple(Piece(10 * place, long) for place in range(1, 31))

    run = run_to_merge(nodes, tokens_max=4 * tokens_of_text(long))

    assert run is not None
    assert run.end - run.first == 8
    heavier = (Piece(5, long, weight=9), *nodes[:3])
    assert run_to_merge(heavier, tokens_max=tokens_of_text(long)) == Run(1, 4)


def test_no_more_is_merged_than_can_be_read_at_once() -> None:
    nodes = nodes_of(1, 1, 1, 1)

    assert run_to_merge(nodes, tokens_max=1, read_max=2 * TOKENS - 1) is None
    assert run_to_merge(nodes, tokens_max=1, read_max=2 * TOKENS) == Run(2, 4)
    assert run_to_merge(nodes, tokens_max=1, read_max=3 * TOKENS) == Run(1, 4)


def test_no_portion_is_rewritten_more_often_than_the_logarithm_of_their_number() -> None:
    nodes: tuple[Piece, ...] = ()
    rewrites: dict[int, int] = {}
    merges = 0
    for number in range(1, 1_025):
        nodes = (*nodes, Piece(number, NOTE))
        rewrites[number] = 0
        while (run := run_to_merge(nodes, tokens_max=12 * TOKENS)) is not None:
            merges += 1
            merged = nodes[run.first : run.end]
            start = nodes[run.first - 1].until if run.first else 0
            for leaf in range(start + 1, merged[-1].until + 1):
                rewrites[leaf] += 1
            weight = sum(node.weight for node in merged)
            nodes = (*nodes[: run.first], Piece(merged[-1].until, NOTE, weight=weight), *nodes[run.end :])

    assert max(rewrites.values()) <= 11, "the logarithm of 1,024, and one"
    assert merges <= 1_024
    assert sum(node.weight for node in nodes) == 1_024


def test_notes_are_merged_without_a_model_by_the_beginning_of_each() -> None:
    nodes = (Piece(10, "One is done. " + "x" * 500), Piece(20, "Two is done. " + "y" * 500))

    assert merged_by_rule(nodes, tokens_max=14) == "One is done.\n\nTwo is done."
    assert merged_by_rule((), tokens_max=10) == ""


def test_a_node_has_a_share_of_the_room_and_in_a_small_one_all_of_it() -> None:
    assert [node_tokens_max(room) for room in (8_000, 1_200, 300)] == [2_000, 400, 300]


# What is shown.


def test_all_notes_are_shown_while_they_fit_with_the_records_that_they_cover() -> None:
    assert story((), tokens_max=100, until=9) == ""
    assert story((Piece(9, "One."),), tokens_max=100, until=9) == "One."
    assert story((Piece(9, "One."), Piece(20, "Two.")), tokens_max=100, until=20) == (
        "#0 to #8: One.\n\n#9 to #19: Two."
    )


def test_where_not_all_fit_the_root_and_the_newest_are_shown_and_a_line_names_the_rest() -> None:
    nodes = tuple(Piece(10 * place, f"Notes {place}. " * 10) for place in range(1, 7))

    text = story(nodes, tokens_max=220, until=60)

    assert text.startswith("#0 to #9: Notes 1.")
    assert "notes on #10 to #39 that do not fit here" in text
    assert "Notes 4" not in text
    assert "#40 to #49: Notes 5." in text
    assert "#50 to #59: Notes 6." in text
    assert tokens_of_text(text) <= 220


def test_a_root_that_is_too_long_is_cut_at_a_sentence() -> None:
    text = story((Piece(10, "All is done. " * 40),), tokens_max=30, until=10)

    assert text.endswith("done.")
    assert tokens_of_text(text) <= 30


def test_a_line_says_what_no_model_has_read_yet() -> None:
    assert "No model has read #10 to #29" in story((Piece(10, "One."),), tokens_max=200, until=30)
    assert "No model has read #10 to #29" in story((Piece(10, "One.", offset=7),), tokens_max=200, until=30)
    assert "No model" not in story((Piece(10, "One.", offset=7),), tokens_max=200, until=11)


@given(
    lengths=st.lists(st.integers(1, 80), min_size=1, max_size=30),
    tokens_max=st.integers(1, 2_000),
    until=st.integers(1, 99),
)
def test_the_notes_shown_are_bounded(lengths: list[int], tokens_max: int, until: int) -> None:
    nodes = tuple(Piece(place + 1, "It is done. " * length) for place, length in enumerate(lengths))

    # The lines about what is missing are short, and stand in any case.
    assert tokens_of_text(story(nodes, tokens_max=tokens_max, until=until)) <= max(tokens_max, 0) + 140
