"""What a dead process, or a cancel, leaves open, and how it is closed."""

from msgspec.structs import replace

from holdfast.core.turn.decide import CallModel, EndTurn, RunTools, decide, interruptions
from holdfast.core.turn.failure_messages import INTERRUPTED
from holdfast.testing.builders import a_reply, an_attempt_started, an_input
from holdfast.types.faults import FaultKind, Rung
from holdfast.types.messages import Text, ToolOutcome, ToolResult
from holdfast.types.records import (
    Abandonment,
    AttemptAbandoned,
    Outcome,
    ResultSubmitted,
    RungFinished,
    RungResult,
    RungStarted,
    ToolInterrupted,
    ToolSettled,
    ToolStarted,
)
from tests.core.turns import ASKED, BOUNDS, CALL, OPEN, OTHER, failed, fold, settled


def test_nothing_in_flight_needs_no_closing() -> None:
    assert interruptions(fold(an_input()), Abandonment.INTERRUPTED, BOUNDS) == ()
    assert interruptions(fold(*OPEN), Abandonment.INTERRUPTED, BOUNDS) == ()


def test_an_interrupted_attempt_is_closed_and_made_again() -> None:
    turn = fold(*OPEN, an_attempt_started())

    closing = interruptions(turn, Abandonment.INTERRUPTED, BOUNDS)

    assert closing == (AttemptAbandoned(1, 1, Abandonment.INTERRUPTED),)
    assert decide(fold(*closing, start=turn), BOUNDS) == CallModel(2)


def test_an_interrupted_tool_is_unknown_and_not_run_again() -> None:
    turn = fold(*ASKED, ToolStarted(1, "call-1", "look_up"), ToolStarted(1, "call-2", "look_up"), settled(OTHER))

    (closing,) = interruptions(turn, Abandonment.INTERRUPTED, BOUNDS)

    assert isinstance(closing, ToolSettled)
    assert (closing.result.call_id, closing.result.outcome) == ("call-1", ToolOutcome.UNKNOWN)
    assert decide(fold(closing, start=turn), BOUNDS) == CallModel(2)


def test_an_interrupted_idempotent_tool_is_run_again_but_not_for_ever() -> None:
    turn = fold(*OPEN, an_attempt_started(), a_reply("", CALL))
    for _ in range(BOUNDS.tool_starts_max - 1):
        turn = fold(ToolStarted(1, "call-1", "look_up", is_idempotent=True), start=turn)
        closing = interruptions(turn, Abandonment.INTERRUPTED, BOUNDS)
        assert closing == (ToolInterrupted(1, "call-1"),)
        turn = fold(*closing, start=turn)
        assert decide(turn, BOUNDS) == RunTools((CALL,))

    turn = fold(ToolStarted(1, "call-1", "look_up", is_idempotent=True), start=turn)
    (last,) = interruptions(turn, Abandonment.INTERRUPTED, BOUNDS)

    assert isinstance(last, ToolSettled)
    assert last.result.outcome is ToolOutcome.UNKNOWN


def test_a_call_that_a_client_runs_is_awaited_again_however_often_the_process_dies() -> None:
    turn = fold(*OPEN, an_attempt_started(), a_reply("", CALL))
    for _ in range(BOUNDS.tool_starts_max + 2):
        turn = fold(ToolStarted(1, "call-1", "look_up", reply=4), start=turn)
        assert turn.calls_running[0].reply == 4
        closing = interruptions(turn, Abandonment.INTERRUPTED, BOUNDS)
        assert closing == (ToolInterrupted(1, "call-1"),)
        turn = fold(*closing, start=turn)

    assert decide(turn, BOUNDS) == RunTools((CALL,))


def test_a_result_that_a_client_submits_changes_nothing_before_its_receipt() -> None:
    running = fold(*OPEN, an_attempt_started(), a_reply("", CALL), ToolStarted(1, "call-1", "look_up", reply=4))

    turn = fold(ResultSubmitted(1, 4, ToolResult("call-1", (Text("12"),))), start=running)

    assert turn == replace(running, seq=running.seq + 1)


def test_a_cancelled_tool_says_so_even_if_it_is_idempotent() -> None:
    turn = fold(*OPEN, an_attempt_started(), a_reply("", CALL), ToolStarted(1, "call-1", "x", is_idempotent=True))

    (closing,) = interruptions(turn, Abandonment.CANCELLED, BOUNDS)

    assert isinstance(closing, ToolSettled)
    assert closing.result.outcome is ToolOutcome.CANCELLED


def test_an_interrupted_rung_is_closed_as_such() -> None:
    turn = fold(
        *OPEN,
        an_attempt_started(),
        failed(FaultKind.TOKEN_OVERFLOW),
        RungStarted(1, Rung.DIGEST, FaultKind.TOKEN_OVERFLOW),
    )

    closing = interruptions(turn, Abandonment.INTERRUPTED, BOUNDS)

    assert closing == (RungFinished(1, Rung.DIGEST, RungResult.INTERRUPTED),)


def test_a_turn_that_keeps_killing_the_process_is_given_up() -> None:
    turn = fold(*OPEN)
    for attempt in range(1, BOUNDS.interruptions_max + 2):
        assert decide(turn, BOUNDS) == CallModel(attempt)
        turn = fold(an_attempt_started(attempt=attempt), start=turn)
        turn = fold(*interruptions(turn, Abandonment.INTERRUPTED, BOUNDS), start=turn)

    assert decide(turn, BOUNDS) == EndTurn(1, Outcome.FAILED, INTERRUPTED)


def test_progress_forgives_earlier_deaths() -> None:
    turn = fold(*OPEN, an_attempt_started(), AttemptAbandoned(1, 1, Abandonment.INTERRUPTED))
    assert turn.interruptions == 1

    turn = fold(an_attempt_started(attempt=2), a_reply("", CALL, attempt=2), start=turn)

    assert turn.interruptions == 0


def test_a_cancelled_attempt_is_not_a_death() -> None:
    turn = fold(*OPEN, an_attempt_started(), AttemptAbandoned(1, 1, Abandonment.CANCELLED))

    assert turn.interruptions == 0
