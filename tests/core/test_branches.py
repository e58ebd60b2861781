"""Branches in the state and in the view, and titles made from messages."""

import pytest

from holdfast.core.fold.retraction import BRANCHES_MAX, with_inputs
from holdfast.core.fold.session_state import LeftBranch, Piece
from holdfast.core.text.title import NO_INPUT, OPENING_CHARS, TITLE_CHARS, opening_of, title_from
from holdfast.core.view import messages_in_view
from holdfast.core.view.appended import as_turns
from holdfast.types.faults import Rung
from holdfast.types.messages import BlobRef, LargeText, Media, Part, Role, Text, text_of
from holdfast.types.records import (
    AnyRecord,
    BranchSwitched,
    CompactionApplied,
    InputAdmitted,
    MessageAppended,
    MessagePinned,
    MessagesRetracted,
    Outcome,
    PieceSummarised,
    RungFinished,
    RungResult,
    RungStarted,
    SessionConfigured,
    SessionLabelled,
    SessionLinked,
    TurnEnded,
    TurnStarted,
)
from tests.core.test_appended import folded, log_of, reply, user

_REF = BlobRef("ab" * 32, 7)


def shown(*records: AnyRecord) -> list[str]:
    log = log_of(*records)
    return [text_of(one.parts) for one in messages_in_view(log, folded(log))]


# Record 4 takes the place of record 2 and its answer.
EDITED = (user("one"), user("two"), reply(Text("2"), turn=2), MessagesRetracted(1, 1, is_branch=True), user("zwei"))


def test_an_edited_message_takes_the_place_of_the_old_one() -> None:
    assert shown(*EDITED) == ["one", "zwei"]
    assert folded(log_of(*EDITED)).branches == (LeftBranch(head=3, since=1, last_turn=2),)


def test_a_switch_shows_the_old_branch_as_it_was_and_keeps_the_new_one() -> None:
    switched = (*EDITED, BranchSwitched(3, 2))

    turn = folded(log_of(*switched))

    assert shown(*switched) == ["one", "two", "2"]
    assert (turn.retracted, turn.last_turn) == (((3, 6),), 2)
    assert turn.branches == (LeftBranch(head=5, since=1, last_turn=5, retracted=((1, 4),)),)
    assert shown(*switched, BranchSwitched(5, 5)) == ["one", "zwei"]
    assert shown(*switched, user("three")) == ["one", "two", "2", "three"]
    # Without the state, the records alone say the same.
    assert {one.seq for one in as_turns(log_of(*switched, BranchSwitched(5, 5)))} == {1, 5}
    assert {one.seq for one in as_turns(log_of(*switched))} == {1, 2, 3}


def test_a_switch_to_an_unknown_branch_changes_nothing() -> None:
    before, after = folded(log_of(*EDITED)), folded(log_of(*EDITED, BranchSwitched(2)))

    assert (after.retracted, after.branches, after.last_turn) == (before.retracted, before.branches, before.last_turn)


def test_a_switch_restores_pins_and_the_compaction_and_drops_foreign_notes() -> None:
    applied = CompactionApplied(0, 2, "of one", 10, 5)
    compacted = (RungStarted(0, Rung.DIGEST, None), applied, RungFinished(0, Rung.DIGEST, RungResult.CHANGED))
    records = (
        user("one"),
        user("two"),
        MessagePinned(2),
        PieceSummarised(0, 1, "on nothing", "m"),
        *compacted,
        MessagesRetracted(0, is_branch=True),
        user("eins"),
    )
    left = folded(log_of(*records))

    turn = folded(log_of(*records, BranchSwitched(7, 2, applied, 6)))

    assert (left.compaction, left.pins, left.branches[0].compaction_seq) == (None, (), 6)
    assert (turn.compaction, turn.compaction_seq, turn.pins, turn.pieces) == (
        applied,
        6,
        (2,),
        (Piece(1, "on nothing"),),
    )
    assert shown(*records, BranchSwitched(7, 2, applied, 6)) == ["of one", "two"]


def test_a_message_that_waited_for_another_turn_is_edited_without_that_turn() -> None:
    records = (
        InputAdmitted((Text("one"),)),
        InputAdmitted((Text("two"),)),
        TurnStarted(1),
        TurnEnded(1, Outcome.CANCELLED),
        TurnStarted(2),
        TurnEnded(2, Outcome.CANCELLED),
        MessagesRetracted(4, 1, is_branch=True, inputs=(2,)),
        user("zwei"),
    )

    assert shown(*records)[0] == "one"
    assert shown(*records)[-1] == "zwei"
    assert not any("two" in text for text in shown(*records))
    assert [one.seq for one in as_turns(log_of(*records)) if isinstance(one.record, InputAdmitted)] == [1, 8]


def test_retracted_runs_take_in_an_input_only_if_they_do_not_have_it() -> None:
    assert with_inputs(((4, 9),), (2, 7)) == ((1, 2), (4, 9))
    assert with_inputs(((4, 9),), (7,)) == ((4, 9),)


def test_only_the_newest_branches_are_kept() -> None:
    edits: list[AnyRecord] = [MessagesRetracted(0, is_branch=True), user("again")] * (BRANCHES_MAX + 3)

    turn = folded(log_of(user("one"), *edits))

    assert len(turn.branches) == BRANCHES_MAX
    assert turn.branches[-1].head == turn.seq - 2


def test_labels_and_the_beginning_of_the_first_message_are_in_the_state() -> None:
    labels = SessionLabelled("t", ("a",))
    records = (reply(Text("hi")), user("hello"), user("more"), labels, SessionLinked(2, "c", "other", "ask"))

    turn = folded(log_of(*records))

    assert (turn.opening, turn.labels) == ("hello", labels)


@pytest.mark.parametrize(
    ("parts", "opening"),
    [
        ((Text("  hello \n"),), "hello"),
        ((Text(" "), LargeText(_REF, "head of it")), "head of it"),
        ((Media(_REF, "image/png", "chart.png"), Text("look")), "look"),
        ((Media(_REF, "image/png", "chart.png"),), "chart.png"),
        ((Media(_REF, "image/png"),), "image/png"),
        ((), ""),
        ((Text("x" * 1_000),), "x" * OPENING_CHARS),
        ((Text(NO_INPUT),), ""),
    ],
)
def test_the_beginning_of_a_message_is_its_text_or_the_name_of_its_attachment(
    parts: tuple[Part, ...], opening: str
) -> None:
    assert opening_of(parts) == opening


@pytest.mark.parametrize(
    ("opening", "title"),
    [
        ("", ""),
        ("\n\n# Plan  the\ttrip \nmore", "Plan the trip"),
        ("---\n> quoted", "quoted"),
        ("x" * 60, "x" * 60),
        ("x" * 61, "x" * 59 + "…"),
        ("a short word and then " + "y" * 80, "a short word and then " + "y" * 37 + "…"),
        ("many words " * 5 + "here", "many words " * 5 + "here"),
        ("many words, " * 6, "many words, " * 4 + "many words…"),
        (NO_INPUT, ""),
    ],
)
def test_a_title_is_the_first_line_with_words(opening: str, title: str) -> None:
    assert title_from(opening) == title
    assert len(title) <= TITLE_CHARS


def test_a_message_of_a_tool_or_a_model_gives_no_beginning() -> None:
    assert folded(log_of(MessageAppended(Role.ASSISTANT, (Text("hi"),)))).opening == ""


def test_a_handover_keeps_the_settings_to_hand_back_to() -> None:
    first = SessionConfigured("m", "first")
    records = (
        first,
        SessionConfigured("m", "second", agent="billing"),
        SessionConfigured("n", "second", ()),
        SessionConfigured("n", "changed", agent="billing"),
    )
    handed = folded(log_of(*records))
    back = folded(log_of(*records, SessionConfigured("m", "first", is_return=True)))

    assert (handed.agent, handed.system, handed.handed_over) == ("billing", "changed", (first,))
    assert (back.agent, back.system, back.handed_over) == ("", "first", ())
