"""The choice of what to leave out: a suspect is found within a bounded number of requests, and alone if it is one."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.fold import receive
from holdfast.core.fold.session_state import Turn
from holdfast.core.turn.ladder import SUSPECTS_MAX
from holdfast.core.turn.transitions import evolve
from holdfast.core.view.exclusion import (
    Choice,
    Place,
    excluded_places,
    given_up_in_vain,
    next_suspects,
    told_of_excluded,
)
from holdfast.testing.builders import a_reply, a_tool_call, an_attempt_started, an_input
from holdfast.types.faults import Confidence, Fault, FaultKind, Phase, Refusal, Rung
from holdfast.types.messages import Text, ToolResult
from holdfast.types.records import (
    AnyRecord,
    AttemptFailed,
    CompactionApplied,
    Logged,
    MessageExcluded,
    RungStarted,
    SummaryKind,
    ToolSettled,
    ToolStarted,
    TurnStarted,
)


def logged(*records: AnyRecord) -> list[Logged]:
    return [Logged(seq, 0.0, record) for seq, record in enumerate(records, start=1)]


def parallel(count: int) -> tuple[list[Logged], Turn]:
    """Return the log of a turn with parallel tool results that no model has read, and its state."""
    calls = [a_tool_call("look", call_id=f"c{number}") for number in range(count)]
    records: list[AnyRecord] = [an_input(), TurnStarted(1), an_attempt_started(), a_reply("", *calls)]
    records += [ToolStarted(1, one.call_id, one.name) for one in calls]
    records += [ToolSettled(1, ToolResult(one.call_id, (Text("seen"),))) for one in calls]
    tail = logged(*records)
    turn = Turn()
    for one in tail:
        turn = evolve(turn, one)
    return tail, turn


def left_out(tail: list[Logged], turn: Turn, choice: Choice) -> Turn:
    """Record a choice, as the rung does."""
    records = [MessageExcluded(seq, place, is_excluded=False, turn=1) for seq, place in choice.shown_again]
    records += [MessageExcluded(seq, place, turn=1, why="x") for seq, place in choice.left_out]
    for record in records:
        tail.append(Logged(tail[-1].seq + 1, 0.0, record))
        turn = receive(turn, tail[-1].seq, record)
    return turn


@given(count=st.integers(1, 40), data=st.data())
def test_whatever_is_refused_among_parallel_results_is_left_out_within_a_bounded_number_of_requests(
    count: int, data: st.DataObject
) -> None:
    tail, turn = parallel(count)
    results: list[Place] = [(one.seq, None) for one in tail if isinstance(one.record, ToolSettled)]
    bad = data.draw(st.sets(st.sampled_from(results), min_size=1))
    tries = 0
    while not bad <= excluded_places(turn).keys():
        tries += 1
        turn = left_out(tail, turn, next_suspects(tail, turn))

    assert tries <= SUSPECTS_MAX + 1
    if len(bad) == 1:
        assert len(turn.excluded) <= -(-count // SUSPECTS_MAX), "no more than its group"


def test_after_all_results_the_last_reply_is_left_out_and_then_nothing() -> None:
    tail, turn = parallel(2)
    chosen = []
    while (choice := next_suspects(tail, turn)).left_out:
        chosen.append(choice)
        turn = left_out(tail, turn, choice)

    assert chosen == [
        Choice(((7, None),)),
        Choice(((8, None),), ((7, None),)),
        Choice(((7, None),)),
        Choice(((4, None),)),
    ]
    assert next_suspects(tail, turn, passed=[(4, None)]) == Choice()


def test_what_a_person_left_out_and_what_is_not_in_the_view_are_no_suspects() -> None:
    tail, turn = parallel(3)
    first, second, third = (one.seq for one in tail if isinstance(one.record, ToolSettled))
    turn = receive(turn, turn.seq, MessageExcluded(first))

    assert next_suspects(tail, turn).left_out == ((second, None),)
    assert next_suspects(tail, turn, passed=[(second, None)]).left_out == ((third, None),)
    assert next_suspects(tail, turn, passed=[(second, None), (third, None)]).left_out == ((4, None),)


def test_the_notice_names_what_is_left_out_and_what_is_shown_again() -> None:
    told = told_of_excluded(Choice(((8, None),), ((7, None),)))

    assert "sent again without record 8; a line stands there instead. record 7 is shown again" in told
    assert "shown again" not in told_of_excluded(Choice(((8, None), (9, 1))))


def test_a_compaction_for_a_guess_is_given_up_in_vain_and_one_for_a_certain_overflow_is_not() -> None:
    for confidence, is_in_vain in ((Confidence.GUESS, True), (Confidence.CERTAIN, False)):
        fault = Fault(FaultKind.TOKEN_OVERFLOW, confidence)
        made = CompactionApplied(1, 1, "summary", 9, 1, SummaryKind.SUMMARY)
        tail = logged(
            an_input(),
            TurnStarted(1),
            an_attempt_started(),
            AttemptFailed(1, 1, Refusal("x", Phase.RESPONSE, 400), fault),
            RungStarted(1, Rung.SUMMARISE, FaultKind.TOKEN_OVERFLOW),
            made,
        )
        turn = Turn()
        for one in tail:
            turn = evolve(turn, one)
        found = given_up_in_vain(tail, turn, {FaultKind.BAD_REQUEST})
        assert (found == made) is is_in_vain
