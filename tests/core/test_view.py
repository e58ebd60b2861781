"""The view: order, pairs, and what is repaired on the way."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.core.fold.session_state import Turn
from holdfast.core.view import (
    EMPTY,
    NO_RECEIPT,
    NOT_RUN,
    ViewMessage,
    conversation,
    heartbeats,
    memory_lens,
    originals_lens,
    origins_in_view,
    uncovered,
)
from holdfast.core.view import messages_in_view as view_of
from holdfast.testing.builders import a_reply, a_tool_call, a_turn_ended, an_attempt_started, an_input
from holdfast.types.messages import (
    Message,
    Reasoning,
    Reply,
    Role,
    StopReason,
    Text,
    ToolCall,
    ToolOutcome,
    ToolResult,
    text_of,
)
from holdfast.types.records import (
    AnyRecord,
    CompactionApplied,
    InputAdmitted,
    Logged,
    PartReplaced,
    ReplyRecorded,
    ToolSettled,
    ToolStarted,
    TurnStarted,
)

CALL = a_tool_call("look_up")
OTHER = a_tool_call("look_up", call_id="call-2")


def a_log(*records: AnyRecord) -> list[Logged]:
    return [Logged(seq, 0.0, record) for seq, record in enumerate(records, start=1)]


def messages_in_view(records: list[Logged], *, boundary: int = 0, summary: str = "") -> tuple[Message, ...]:
    compaction = CompactionApplied(1, boundary, summary, 2, 1) if boundary else None
    return view_of(records, Turn(compaction=compaction))


def user(text: str) -> Message:
    return Message(Role.USER, (Text(text),))


def assistant(*parts: Text | ToolCall) -> Message:
    return Message(Role.ASSISTANT, parts)


def test_an_input_and_its_reply_are_seen_in_order() -> None:
    log = a_log(an_input("hi"), TurnStarted(1), an_attempt_started(), a_reply("hello"), a_turn_ended())

    assert messages_in_view(log) == (user("hi"), assistant(Text("hello")))


def test_an_input_that_came_during_a_turn_is_seen_after_the_reply_it_waited_for() -> None:
    """FM-094, FM-095: what waits is neither lost nor in front of its time."""
    log = a_log(
        an_input("first"),
        TurnStarted(1),
        an_attempt_started(),
        an_input("second"),
        a_reply("to the first"),
        a_turn_ended(1),
        TurnStarted(4),
    )

    assert messages_in_view(log) == (user("first"), assistant(Text("to the first")), user("second"))


def test_an_input_that_still_waits_is_not_seen() -> None:
    assert messages_in_view(a_log(an_input("first"), TurnStarted(1), an_input("second"))) == (user("first"),)


def test_results_follow_their_calls_in_the_order_of_the_calls() -> None:
    log = a_log(
        an_input("go"),
        TurnStarted(1),
        an_attempt_started(),
        a_reply("", CALL, OTHER),
        ToolStarted(1, "call-1", "look_up"),
        ToolStarted(1, "call-2", "look_up"),
        ToolSettled(1, ToolResult("call-2", (Text("two"),))),
        an_input("meanwhile"),
        ToolSettled(1, ToolResult("call-1", (Text("one"),))),
        an_attempt_started(attempt=2),
        a_reply("done", attempt=2),
    )

    results = Message(Role.TOOL, (ToolResult("call-1", (Text("one"),)), ToolResult("call-2", (Text("two"),))))
    assert messages_in_view(log) == (user("go"), assistant(CALL, OTHER), results, assistant(Text("done")))


def test_a_call_that_was_never_started_says_so() -> None:
    """FM-053: a call without a result would be refused by every provider, for ever."""
    log = a_log(an_input("go"), TurnStarted(1), an_attempt_started(), a_reply("", CALL), a_turn_ended(), an_input("?"))

    assert messages_in_view(log)[-1] == Message(
        Role.TOOL, (ToolResult("call-1", (Text(NOT_RUN),), ToolOutcome.CANCELLED),)
    )


def test_a_call_that_was_started_and_has_no_receipt_is_unknown() -> None:
    """FM-054, FM-102: pairing is read off the log; nobody keeps a list of what is pending."""
    log = a_log(
        an_input("go"), TurnStarted(1), an_attempt_started(), a_reply("", CALL), ToolStarted(1, "call-1", "look_up")
    )

    assert messages_in_view(log)[-1] == Message(
        Role.TOOL, (ToolResult("call-1", (Text(NO_RECEIPT),), ToolOutcome.UNKNOWN),)
    )


def test_an_id_that_a_model_uses_twice_belongs_to_the_nearest_call() -> None:
    def step(attempt: int, result: str) -> list[AnyRecord]:
        return [
            an_attempt_started(attempt=attempt),
            a_reply("", CALL, attempt=attempt),
            ToolStarted(1, "call-1", "look_up"),
            ToolSettled(1, ToolResult("call-1", (Text(result),))),
        ]

    log = a_log(an_input("go"), TurnStarted(1), *step(1, "one"), *step(2, "two"))

    results = [message.parts for message in messages_in_view(log) if message.role is Role.TOOL]
    assert results == [(ToolResult("call-1", (Text("one"),)),), (ToolResult("call-1", (Text("two"),)),)]


def test_empty_parts_are_dropped_and_a_message_is_never_empty() -> None:
    """FM-086: one empty part that was stored would be refused for ever."""
    log = a_log(
        InputAdmitted((Text("  "), Text("hi"))),
        TurnStarted(1),
        an_attempt_started(),
        a_reply(" ", CALL),
        ToolStarted(1, "call-1", "look_up"),
        ToolSettled(1, ToolResult("call-1", (Text(""),))),
        an_attempt_started(attempt=2),
        a_reply("   ", attempt=2),
        a_turn_ended(),
        InputAdmitted((Text(""),)),
        TurnStarted(10),
    )

    results = Message(Role.TOOL, (ToolResult("call-1", (Text(EMPTY),)),))
    assert messages_in_view(log) == (user("hi"), assistant(CALL), results, user(EMPTY))


def test_turns_before_the_boundary_are_represented_by_the_summary() -> None:
    log = a_log(
        an_input("old"),
        TurnStarted(1),
        an_attempt_started(),
        an_input("new"),
        a_reply("", CALL),
        ToolStarted(1, "call-1", "look_up"),
        ToolSettled(1, ToolResult("call-1", (Text("one"),))),
        an_attempt_started(attempt=2),
        a_reply("old answer", attempt=2),
        a_turn_ended(1),
        TurnStarted(4),
        an_attempt_started(4),
        a_reply("new answer", turn=4),
    )

    whole = messages_in_view(log, boundary=4, summary="what was said")
    tail = messages_in_view(log[3:], boundary=4, summary="what was said")

    assert whole == (user("what was said"), user("new"), assistant(Text("new answer")))
    assert tail == whole, "the records before the boundary are not needed"


def test_of_a_turn_that_was_cut_into_the_input_and_the_newest_steps_are_seen() -> None:
    log = a_log(
        an_input("go"),
        TurnStarted(1),
        an_attempt_started(),
        a_reply("", CALL),
        ToolStarted(1, "call-1", "look_up"),
        ToolSettled(1, ToolResult("call-1", (Text("one"),))),
        an_attempt_started(attempt=2),
        a_reply("", CALL, attempt=2),
        ToolStarted(1, "call-1", "look_up"),
        ToolSettled(1, ToolResult("call-1", (Text("two"),))),
    )
    turn = Turn(compaction=CompactionApplied(1, 1, "what was done", 2, 1, step=8))

    assert view_of(log, turn) == (
        user("what was done"),
        user("go"),
        assistant(CALL),
        Message(Role.TOOL, (ToolResult("call-1", (Text("two"),)),)),
    )


def test_the_conversation_names_turn_and_record_of_each_message() -> None:
    log = a_log(an_input("hi"), TurnStarted(1), an_attempt_started(), a_reply("hello"))

    assert conversation(log) == [ViewMessage(1, 1, 2, user("hi")), ViewMessage(1, 4, 4, assistant(Text("hello")))]


def test_a_part_that_was_replaced_is_shown_as_what_replaced_it_wherever_it_stands() -> None:
    """FM-079, FM-080."""
    log = a_log(
        an_input("huge"),
        TurnStarted(1),
        an_attempt_started(),
        a_reply("", CALL),
        ToolStarted(1, "call-1", "look_up"),
        ToolSettled(1, ToolResult("call-1", (Text("small"), Text("huge too")))),
    )
    line, other = Text("[a text stood here]"), Text("[and here]")
    turn = Turn(replaced=(PartReplaced(1, 1, 0, line, "too large"), PartReplaced(1, 6, 1, other, "too large")))

    assert view_of(log, turn) == (
        Message(Role.USER, (line,)),
        assistant(CALL),
        Message(Role.TOOL, (ToolResult("call-1", (Text("small"), other)),)),
    )
    assert conversation(log)[0].message == user("huge"), "the record itself is not changed"


def test_old_output_is_masked_by_a_line_that_names_its_size_and_record() -> None:
    output = Text("x" * 700)

    def step(attempt: int, output: Text) -> list[AnyRecord]:
        return [
            an_attempt_started(attempt=attempt),
            a_reply("", CALL, attempt=attempt),
            ToolStarted(1, "call-1", "look_up"),
            ToolSettled(1, ToolResult("call-1", (output,))),
        ]

    log = a_log(an_input("go"), TurnStarted(1), *step(1, output), *step(2, Text("short")), *step(3, output))

    shown = [m.parts[0].parts for m in view_of(log, Turn(masked_before=14)) if isinstance(m.parts[0], ToolResult)]

    masked = Text("[700 bytes of output, no longer shown; recall(seq=6) reads them]")
    assert shown == [(masked,), (Text("short"),), (output,)]


def test_thinking_is_sent_back_until_its_issuer_could_not_read_it_any_more() -> None:
    """FM-064: byte for byte, or not at all."""
    signed = Reasoning("hm", "anthropic:x", "c2ln")
    log = a_log(an_input("hi"), TurnStarted(1), an_attempt_started())
    spoken: list[tuple[Text | Reasoning, ...]] = [(signed, Text("one")), (signed,), (signed, Text("two"))]
    for seq, parts in enumerate(spoken, start=4):
        log.append(Logged(seq, 0.0, ReplyRecorded(1, 1, Reply(parts, StopReason.END, None, "m"))))

    assert [message.parts for message in view_of(log, Turn())[1:]] == spoken
    assert [message.parts for message in view_of(log, Turn(reasoning_from=6))[1:]] == [(Text("one"),), spoken[2]]


def test_pinned_messages_stand_before_the_summary_and_not_twice() -> None:
    log = a_log(
        an_input("rule one"), TurnStarted(1), an_attempt_started(), a_reply("ok"), a_turn_ended(1), an_input("now")
    )
    log += [Logged(7, 0.0, TurnStarted(6))]
    turn = Turn(pins=(1, 6), compaction=CompactionApplied(6, 6, "what was said", 2, 1))

    assert view_of(log[5:], turn, pinned=[log[0], log[5]]) == (user("rule one"), user("what was said"), user("now"))


_STEPS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=6)


@given(turns=st.lists(_STEPS, min_size=1, max_size=4))
def test_every_call_has_exactly_one_result_right_behind_it(turns: list[list[tuple[int, int]]]) -> None:
    records: list[AnyRecord] = []
    for steps in turns:
        records.append(an_input("go"))
        number = len(records)
        records.append(TurnStarted(number))
        for attempt, (asked, settled) in enumerate(steps, start=1):
            calls = [a_tool_call(call_id=f"c{place}") for place in range(asked)]
            records += [an_attempt_started(number, attempt), a_reply("text", *calls, turn=number, attempt=attempt)]
            for call in calls[:settled]:
                records.append(ToolStarted(number, call.call_id, call.name))
                records.append(ToolSettled(number, ToolResult(call.call_id, (Text("r"),))))

    messages = messages_in_view(a_log(*records))

    assert messages[0].role is Role.USER
    for message, following in zip(messages, (*messages[1:], None), strict=True):
        call_ids = [part.call_id for part in message.parts if isinstance(part, ToolCall)]
        if call_ids:
            assert following is not None
            assert [part.call_id for part in following.parts if isinstance(part, ToolResult)] == call_ids
        if message.role is Role.TOOL:
            assert all(isinstance(part, ToolResult) for part in message.parts)


def test_every_message_of_the_view_has_its_record_and_the_summary_has_none() -> None:
    records: list[AnyRecord] = []
    for number, (said, answer) in enumerate((("pinned", "one"), ("second", "two"), ("third", "three"))):
        turn = 1 + 3 * number
        records += [an_input(said), TurnStarted(turn), a_reply(answer, turn=turn)]
    log = a_log(*records)
    state = Turn(compaction=CompactionApplied(0, 7, "the summary", 100, 10), pins=(1,), last_turn=7)
    assert [text_of(one.parts) for one in view_of(log, state)] == ["pinned", "the summary", "third", "three"]
    assert origins_in_view(log, state) == (1, 0, 7, 9)


def a_beat() -> InputAdmitted:
    return InputAdmitted((Text("HEARTBEAT"),), is_heartbeat=True)


def a_talk_with_heartbeats(*, compacted_for: int = 0) -> tuple[list[Logged], Turn]:
    """Return a message, a heartbeat with its answer, a compaction, and a heartbeat that was admitted before it."""
    made = CompactionApplied(compacted_for, 1, "", 2, 1)
    log = a_log(
        an_input("hi"),
        TurnStarted(1),
        a_reply("hello"),
        a_turn_ended(1),
        a_beat(),
        TurnStarted(5),
        a_reply("alive", turn=5),
        a_turn_ended(5),
        a_beat(),
        made,
        TurnStarted(9),
        a_reply("still alive", turn=9),
        a_turn_ended(9),
    )
    return log, Turn(compaction=made, compaction_seq=10)


def test_a_compaction_drops_heartbeats_that_started_before_it_and_no_other() -> None:
    log, turn = a_talk_with_heartbeats()
    before, after = log[:9], turn

    assert heartbeats(log) == {5, 9}
    assert len(view_of(before, Turn())) == 4
    assert view_of(log, after) == (
        user("hi"),
        assistant(Text("hello")),
        user("HEARTBEAT"),
        assistant(Text("still alive")),
    )
    shown = conversation(log, first_turn=1)
    assert uncovered(log, after, [one for one in shown if one.turn != 5]) == []


def test_a_compaction_made_for_a_heartbeat_and_a_pin_keep_it() -> None:
    for kept in (a_talk_with_heartbeats(compacted_for=5), (a_talk_with_heartbeats()[0], Turn(pins=(5,)))):
        assert user("HEARTBEAT") in view_of(*kept)[2:3]
    log, turn = a_talk_with_heartbeats()
    assert view_of(log, replace(turn, pins=(5,)))[2] == user("HEARTBEAT")


def test_originals_of_summaries_and_memories_have_no_heartbeat_and_no_answer_to_one() -> None:
    log, turn = a_talk_with_heartbeats()

    for lens in (originals_lens(turn), memory_lens(turn)):
        assert [one.message for one in conversation(log, lens=lens)] == [user("hi"), assistant(Text("hello"))]
