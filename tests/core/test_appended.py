"""Appended messages and retractions in the view, in the state and in a search."""

from collections.abc import Sequence

import pytest

from holdfast.core.compaction.plan import plan_cut
from holdfast.core.fold.retraction import joined
from holdfast.core.fold.session_state import Piece, Turn
from holdfast.core.search.rank import read_rows
from holdfast.core.turn.transitions import evolve
from holdfast.core.view import NOT_RUN, conversation, messages_in_view, uncovered, unpaired
from holdfast.core.view.appended import NO_CALL, NO_INPUT, as_turns, reply_parts
from holdfast.core.view.offending_part import large_parts
from holdfast.testing.builders import a_reply, a_turn_started, an_attempt_started, an_input
from holdfast.types.faults import Rung
from holdfast.types.messages import (
    BlobRef,
    Media,
    Message,
    Part,
    Payload,
    Reasoning,
    Role,
    Text,
    ToolCall,
    ToolOutcome,
    ToolResult,
)
from holdfast.types.records import (
    AnyRecord,
    CompactionApplied,
    GenerationStarted,
    InputAdmitted,
    Logged,
    MessageAppended,
    MessageExcluded,
    MessagePinned,
    MessagesRetracted,
    Outcome,
    PayloadStored,
    PieceSummarised,
    RungFinished,
    RungResult,
    RungStarted,
    TurnEnded,
    TurnStarted,
)

CALL = ToolCall("c1", "depth", '{"place": "Kiel"}')
RESULT = ToolResult("c1", (Text("12 fathoms"),))


def log_of(*records: AnyRecord) -> list[Logged]:
    return [Logged(seq, 0.0, record) for seq, record in enumerate(records, start=1)]


def folded(records: Sequence[Logged]) -> Turn:
    turn = Turn()
    for logged in records:
        turn = evolve(turn, logged)
    return turn


def user(text: str) -> MessageAppended:
    return MessageAppended(Role.USER, (Text(text),))


def reply(*parts: Part, turn: int = 0) -> MessageAppended:
    return MessageAppended(Role.ASSISTANT, parts, turn)


def result(of: ToolResult, *, turn: int = 0) -> MessageAppended:
    return MessageAppended(Role.TOOL, (of,), turn)


def view_of(records: Sequence[Logged]) -> tuple[Message, ...]:
    turn = folded(records)
    shown = messages_in_view(records, turn)
    assert unpaired(shown) == []
    assert uncovered(records, turn, conversation(records, first_turn=turn.boundary)) == []
    return shown


def test_appended_messages_are_in_the_view_in_their_order() -> None:
    records = log_of(user("hello"), reply(Text("hi"), CALL, turn=1), result(RESULT, turn=1), user("thanks"))

    assert view_of(records) == (
        Message(Role.USER, (Text("hello"),)),
        Message(Role.ASSISTANT, (Text("hi"), CALL)),
        Message(Role.TOOL, (RESULT,)),
        Message(Role.USER, (Text("thanks"),)),
    )
    assert folded(records).last_turn == 4


def test_a_call_stays_open_until_its_result_is_appended() -> None:
    before = log_of(user("hello"), reply(CALL, turn=1))

    open_result = ToolResult("c1", (Text(NOT_RUN),), ToolOutcome.CANCELLED)
    assert view_of(before)[-1] == Message(Role.TOOL, (open_result,))
    after = log_of(user("hello"), reply(CALL, turn=1), PayloadStored(Payload("t")), result(RESULT, turn=1))
    assert view_of(after)[-1] == Message(Role.TOOL, (RESULT,))


def test_a_reply_and_the_placeholder_of_its_open_call_are_never_apart_in_a_cut() -> None:
    records = log_of(user("hello"), reply(CALL, turn=1), user("no result"), reply(Text("so be it"), turn=3))

    places = [(one.turn, one.place, one.message.role) for one in conversation(records)]

    assert places == [
        (1, 1, Role.USER),
        (1, 2, Role.ASSISTANT),
        (1, 2, Role.TOOL),
        (3, 3, Role.USER),
        (3, 4, Role.ASSISTANT),
    ]


@pytest.mark.parametrize("between", [[], [user("wait")]], ids=["no call", "a closed call"])
def test_an_orphaned_result_gets_a_call(between: list[AnyRecord]) -> None:
    records = log_of(user("hello"), reply(CALL, turn=1), *between, result(ToolResult("c2", (Text("x"),)), turn=1))

    shown = view_of(records)

    assert shown[-2:] == (
        Message(Role.ASSISTANT, (ToolCall("c2", NO_CALL, "{}"),)),
        Message(Role.TOOL, (ToolResult("c2", (Text("x"),)),)),
    )


def test_parallel_calls_that_are_appended_one_by_one_are_one_reply() -> None:
    second = ToolCall("c2", "depth", "{}")
    other = ToolResult("c2", (Text("9 fathoms"),))
    calls = (user("hello"), reply(CALL, turn=1), PayloadStored(Payload("t")), reply(second, turn=1))
    records = log_of(*calls, result(RESULT, turn=1), result(other, turn=1), reply(Text("done"), turn=1))

    assert view_of(records)[1:] == (
        Message(Role.ASSISTANT, (CALL, second)),
        Message(Role.TOOL, (RESULT, other)),
        Message(Role.ASSISTANT, (Text("done"),)),
    )
    first = log_of(reply(Text("a")), reply(Text("b"), turn=1))
    assert view_of(first)[1:] == (Message(Role.ASSISTANT, (Text("a"), Text("b"))),)


def test_a_late_result_is_shown_with_the_call_that_it_answers() -> None:
    records = log_of(user("hello"), reply(CALL, turn=1), user("wait"), result(RESULT, turn=3))

    assert view_of(records)[-2:] == (Message(Role.ASSISTANT, (CALL,)), Message(Role.TOOL, (RESULT,)))


def test_a_result_is_matched_to_a_call_of_a_turn_that_ran() -> None:
    records = log_of(
        an_input(), a_turn_started(), an_attempt_started(), a_reply("", CALL), TurnEnded(1, Outcome.ANSWERED)
    )
    records += [Logged(6, 0.0, result(RESULT, turn=1))]

    assert view_of(records)[-1] == Message(Role.TOOL, (RESULT,))


def test_a_conversation_that_begins_with_a_reply_begins_with_a_line() -> None:
    assert view_of(log_of(reply(Text("I begin"), turn=0))) == (
        Message(Role.USER, (Text(NO_INPUT),)),
        Message(Role.ASSISTANT, (Text("I begin"),)),
    )


def test_an_empty_message_of_the_user_is_a_message() -> None:
    assert view_of(log_of(MessageAppended(Role.USER, ())))[0].role is Role.USER


def test_a_reply_has_each_call_once_and_no_part_of_another_role() -> None:
    media = Media(BlobRef("a" * 64, 1), "image/png")

    assert reply_parts((CALL, Text("a"), CALL, media, Reasoning("r"))) == (CALL, Text("a"), Reasoning("r"))


def test_appended_turns_can_be_cut() -> None:
    records = log_of(*[one for turn in (1, 3, 5) for one in (user("word " * 50), reply(Text("word " * 50), turn=turn))])

    cut = plan_cut(conversation(records), newest=folded(records).last_turn, keep_tokens=150)

    assert cut is not None
    assert cut.boundary == 5


def test_large_appended_parts_can_be_replaced() -> None:
    records = log_of(user("x" * 100_000), result(ToolResult("c1", (Text("y" * 90_000),)), turn=1))

    assert [(one.seq, one.place) for one in large_parts(records, folded(records))] == [(1, 0), (2, 0)]


def test_appended_messages_are_searched_and_a_placeholder_is_not() -> None:
    records = log_of(reply(Text("the harbour"), CALL), result(RESULT, turn=1), user("thanks"))

    rows = read_rows(records, after=0).rows

    assert [(row.seq, row.call, row.said) for row in rows] == [
        (1, 0, "the harbour"),
        (2, 1, "12 fathoms"),
        (3, 0, "thanks"),
    ]


# --- Retraction ---


def test_retracted_messages_leave_the_view() -> None:
    records = log_of(
        user("one"), reply(Text("two"), turn=1), user("three"), MessagesRetracted(1, 1), reply(Text("2"), turn=1)
    )

    assert view_of(records) == (Message(Role.USER, (Text("one"),)), Message(Role.ASSISTANT, (Text("2"),)))
    turn = folded(records)
    assert (turn.retracted, turn.last_turn) == (((1, 4),), 1)
    assert turn.shows_changed


def test_a_retraction_inside_a_turn_that_ran_keeps_its_input() -> None:
    ran = (an_input("one"), a_turn_started(), an_attempt_started(), a_reply("two"), TurnEnded(1, Outcome.ANSWERED))

    assert view_of(log_of(*ran, MessagesRetracted(1, 1))) == (Message(Role.USER, (Text("one"),)),)
    assert view_of(log_of(*ran, MessagesRetracted(0))) == ()


def test_a_retracted_result_leaves_its_call_open() -> None:
    records = log_of(user("one"), reply(CALL, turn=1), result(RESULT, turn=1), MessagesRetracted(2, 1))

    assert view_of(records)[-1].parts == (ToolResult("c1", (Text(NOT_RUN),), ToolOutcome.CANCELLED),)


def test_a_page_of_records_without_the_retraction_is_read_with_the_state() -> None:
    records = log_of(user("one"), user("two"), MessagesRetracted(1, 1))

    assert [one.seq for one in as_turns(records[:2], folded(records).retracted)] == [1, 1]


@pytest.mark.parametrize(
    ("runs", "after", "until", "expected"),
    [
        ((), 3, 5, ((3, 5),)),
        (((3, 5),), 5, 7, ((3, 7),)),
        (((3, 5),), 6, 8, ((3, 5), (6, 8))),
        (((3, 5), (6, 8)), 0, 9, ((0, 9),)),
        (((1, 2), (3, 5), (6, 8)), 4, 9, ((1, 2), (3, 9))),
    ],
)
def test_retracted_runs_are_joined(
    runs: tuple[tuple[int, int], ...], after: int, until: int, expected: tuple[tuple[int, int], ...]
) -> None:
    assert joined(runs, after, until) == expected


def test_a_retraction_takes_everything_along_that_refers_to_the_records() -> None:
    records = log_of(
        user("one"),
        user("two"),
        MessagePinned(1),
        MessagePinned(2),
        MessageExcluded(1),
        MessageExcluded(2),
        PieceSummarised(0, 2, "on one", "m"),
        PieceSummarised(0, 3, "on two", "m", since=2),
        PieceSummarised(0, 2, "merged", "m", is_merged=True),
        MessagesRetracted(1, 1),
    )
    turn = folded(records)

    assert (turn.pins, [one.excluded for one in turn.excluded]) == ((1,), [1])
    assert (turn.pieces, turn.merged) == ((Piece(2, "on one"),), Piece(2, "merged"))


def test_merged_notes_on_a_retracted_message_go() -> None:
    records = log_of(user("one"), user("two"), PieceSummarised(0, 3, "m", "m", is_merged=True), MessagesRetracted(1, 1))

    assert folded(records).merged is None


def test_a_compaction_that_represents_a_retracted_message_is_replaced() -> None:
    first = CompactionApplied(0, 2, "of one", 10, 5)
    second = GenerationStarted(0, 3, "of one and two", 20, 5, before=5, pins_left=(1,))
    before = (user("one"), user("two"), user("three"))
    compacted = (RungStarted(0, Rung.DIGEST, None), first, RungFinished(0, Rung.DIGEST, RungResult.CHANGED))
    again = (RungStarted(0, Rung.ROLL_OVER, None), second, RungFinished(0, Rung.ROLL_OVER, RungResult.CHANGED))
    records = log_of(*before, *compacted, *again, MessagesRetracted(1, 1, first, 5, generation=1, pins=(1,)))

    turn = folded(records)

    assert (turn.compaction, turn.compaction_seq, turn.generation, turn.generations) == (first, 5, 1, 2)
    assert turn.pins == (1,)
    assert [message.parts for message in messages_in_view(records, turn)][-1] == (Text("of one"),)


def test_a_compaction_of_messages_that_stay_is_not_touched() -> None:
    applied = CompactionApplied(0, 2, "of one", 10, 5)
    rung = (RungStarted(0, Rung.DIGEST, None), applied, RungFinished(0, Rung.DIGEST, RungResult.CHANGED))
    records = log_of(user("one"), user("two"), *rung, user("three"), MessagesRetracted(2, 2))

    turn = folded(records)

    assert (turn.compaction, turn.compaction_seq) == (applied, 4)
    assert [message.parts for message in messages_in_view(records, turn)] == [(Text("of one"),), (Text("two"),)]


def test_an_input_before_the_appended_message_and_its_start_are_read() -> None:
    records = [Logged(1, 0.0, InputAdmitted((Text("one"),))), Logged(2, 0.0, TurnStarted(1))]

    assert as_turns(iter(records)) == records
