"""Coverage: every message is shown, represented, still to come, or left out for a reason; every call has its result."""

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.core.fold.session_state import InFlight, Turn
from holdfast.core.limits.bounds import Bounds
from holdfast.core.turn.decide import COPIED, IS_FULL, STORE_FULL, WAS_COPIED, closing
from holdfast.core.turn.transitions import evolve
from holdfast.core.view import conversation, lens_of, messages_in_view, uncovered, unpaired
from holdfast.testing.builders import a_reply, a_tool_call, a_turn_ended, a_turn_started, an_attempt_started, an_input
from holdfast.types.messages import Message, Role, Text, ToolOutcome, ToolResult
from holdfast.types.records import (
    Abandonment,
    AnyRecord,
    AttemptAbandoned,
    CompactionOutcome,
    CompactionRequested,
    CompactionSettled,
    DamageSetAside,
    Logged,
    Outcome,
    ToolSettled,
    ToolStarted,
    TurnEnded,
)
from tests.core.worlds import World, numbers

TURN = (an_input(), a_turn_started(), an_attempt_started(), a_reply(), a_turn_ended())
CALL = a_tool_call(call_id="a")


def logged(*records: AnyRecord) -> list[Logged]:
    return [Logged(seq, 0.0, record) for seq, record in enumerate(records, start=1)]


def folded(log: list[Logged]) -> Turn:
    turn = Turn()
    for each in log:
        turn = evolve(turn, each)
    return turn


def test_a_message_that_is_nowhere_is_named() -> None:
    log = logged(*TURN, an_input("waits"))
    turn = folded(log)
    said = conversation(log)

    assert uncovered(log, turn, said) == []
    assert uncovered(log, turn, said[1:]) == []
    assert uncovered(log, turn, said[:1]) == [4]
    assert uncovered(log, replace(turn, waiting=()), said) == [6]


def test_what_ended_while_it_waited_and_what_is_damaged_need_not_be_shown() -> None:
    cancelled = logged(an_input(), a_turn_ended(1, Outcome.CANCELLED))
    damaged = logged(DamageSetAside("torn", until=9), *TURN[1:])

    assert uncovered(cancelled, folded(cancelled), conversation(cancelled)) == []
    assert uncovered(damaged, folded(damaged), conversation(damaged)) == []


def test_a_call_without_its_one_result_is_named() -> None:
    call = Message(Role.ASSISTANT, (CALL,))
    result = Message(Role.TOOL, (ToolResult("a", (Text("x"),)),))
    user = Message(Role.USER, (Text("hi"),))

    assert unpaired((user, call, result, user)) == []
    assert unpaired((user, call, user)) == ["a"]
    assert unpaired((user, call)) == ["a"]
    assert unpaired((user, result)) == ["a"]
    assert unpaired((call, result, result)) == ["a"]


@settings(max_examples=100, deadline=None)
@given(script=numbers, places=st.lists(st.integers(0, 10_000), max_size=4))
def test_the_view_of_any_log_accounts_for_every_message_also_with_holes(script: list[int], places: list[int]) -> None:
    world = World(script)
    world.live()
    log = list(world.log)
    for place in {place % len(log) for place in places}:
        log[place] = replace(log[place], record=DamageSetAside("torn", until=len(log)))
    turn = folded(log)
    tail = [each for each in log if each.seq >= turn.boundary]
    said = conversation(tail, first_turn=turn.boundary, first_step=turn.first_step, lens=lens_of(turn))

    assert unpaired(messages_in_view(tail, turn)) == []
    if not places:
        assert uncovered(tail, turn, said) == []


# --- what a copy ends ----------------------------------------------------------------------------------------------


def test_closing_a_log_at_rest_takes_nothing() -> None:
    assert list(closing(folded(logged(*TURN)), Bounds(), WAS_COPIED)) == []


def test_closing_ends_what_runs_what_is_open_what_waits_and_what_is_wanted() -> None:
    running = (*TURN[:3], a_reply("", CALL), ToolStarted(1, "a", "look_up"), an_input("later"), CompactionRequested())
    turn = folded(logged(*running))

    ends = list(closing(turn, Bounds(), WAS_COPIED))

    assert isinstance(ends[0], ToolSettled)
    assert ends[1:] == [
        CompactionSettled(7, CompactionOutcome.DEFERRED, "the session was copied"),
        TurnEnded(1, Outcome.CANCELLED, COPIED.code, COPIED.sentence),
        TurnEnded(6, Outcome.CANCELLED, COPIED.code, COPIED.sentence),
    ]
    for record in ends:
        turn = evolve(turn, Logged(turn.seq + 1, 0.0, record))
    assert (turn.owed, turn.in_flight) == (0, InFlight.REST)


def test_on_a_full_disk_a_tool_whose_receipt_is_lost_is_unknown_and_everything_that_is_owed_fails() -> None:
    """FM-124."""
    running = (*TURN[:3], a_reply("", CALL), ToolStarted(1, "a", "look_up", is_idempotent=True), an_input("later"))
    turn = folded(logged(*running, CompactionRequested()))

    ends = list(closing(turn, Bounds(), IS_FULL))

    assert isinstance(ends[0], ToolSettled)
    assert ends[0].result.outcome is ToolOutcome.UNKNOWN
    assert ends[1:] == [
        CompactionSettled(7, CompactionOutcome.FAILED, IS_FULL.settled_why),
        TurnEnded(1, Outcome.FAILED, "store_full", STORE_FULL.sentence),
        TurnEnded(6, Outcome.FAILED, "store_full", STORE_FULL.sentence),
    ]
    for record in ends:
        turn = evolve(turn, Logged(turn.seq + 1, 0.0, record))
    assert (turn.owed, turn.in_flight) == (0, InFlight.REST)


def test_an_attempt_whose_answer_could_not_be_kept_is_closed_as_that() -> None:
    turn = folded(logged(*TURN[:3]))

    ends = list(closing(turn, Bounds(), IS_FULL))

    assert ends[0] == AttemptAbandoned(1, 1, Abandonment.STORE_FULL)
    assert ends[1:] == [TurnEnded(1, Outcome.FAILED, "store_full", STORE_FULL.sentence)]
