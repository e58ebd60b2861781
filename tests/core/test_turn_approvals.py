"""Approvals and refused outputs in the state machine of a turn."""

from holdfast.core.fold.session_state import InFlight, Turn
from holdfast.core.limits.bounds import Bounds
from holdfast.core.turn.decide import CallModel, EndTurn, Rest, RunTools, decide, waiting_calls
from holdfast.core.turn.failure_messages import OUTPUT_INVALID
from holdfast.core.turn.transitions import evolve
from holdfast.core.view import messages_in_view
from holdfast.models.wire import outcome_text
from holdfast.testing.builders import a_reply, a_tool_call, an_input
from holdfast.types.faults import FaultKind, Rung
from holdfast.types.messages import Effort, Role, Text, ToolOutcome, ToolResult, text_of
from holdfast.types.records import (
    AnyRecord,
    ApprovalAnswered,
    ApprovalRequested,
    AttemptStarted,
    DamageSetAside,
    EffortChanged,
    Logged,
    Outcome,
    OutputRefused,
    RungFinished,
    RungResult,
    RungStarted,
    SessionConfigured,
    ToolSettled,
    ToolStarted,
    TurnStarted,
)
from holdfast.types.settings import Settings

BOUNDS = Bounds()
CALL = a_tool_call("pay", call_id="pay-1")
OTHER = a_tool_call("look", call_id="look-1")
ASKED: tuple[AnyRecord, ...] = (
    an_input(),
    TurnStarted(1),
    AttemptStarted(1, 1, "m"),
    a_reply("", CALL, OTHER),
    ApprovalRequested(1, "pay-1", "pay", "{}"),
)


def log_of(*records: AnyRecord) -> list[Logged]:
    return [Logged(seq, 0.0, record) for seq, record in enumerate(records, start=1)]


def fold(*records: AnyRecord) -> Turn:
    turn = Turn()
    for logged in log_of(*records):
        turn = evolve(turn, logged)
    return turn


def test_a_call_that_waits_is_not_run_and_others_are() -> None:
    turn = fold(*ASKED)
    assert waiting_calls(turn) == {"pay-1": 5}
    assert decide(turn, BOUNDS) == RunTools((OTHER,))
    settled = ToolSettled(1, ToolResult("look-1", (Text("seen"),)))
    rested = fold(*ASKED, ToolStarted(1, "look-1", "look"), settled)
    assert decide(rested, BOUNDS) == Rest()
    assert rested.in_flight is InFlight.READY


def test_an_answer_lets_the_call_go_on_and_the_first_one_counts() -> None:
    approved = fold(
        *ASKED, ApprovalAnswered(1, 5, is_approved=True), ApprovalAnswered(1, 5, is_approved=False, note="n")
    )
    assert decide(approved, BOUNDS) == RunTools((CALL, OTHER))
    assert [(call.is_approved, call.note) for call in approved.calls_asked] == [(True, ""), (None, "")]
    denied = fold(*ASKED, ApprovalAnswered(1, 5, is_approved=False, note="no"))
    assert [(call.is_approved, call.note) for call in denied.calls_asked] == [(False, "no"), (None, "")]
    other = fold(*ASKED, ApprovalAnswered(1, 4, is_approved=True))
    assert waiting_calls(other) == {"pay-1": 5}, "another request is answered"


def test_an_approval_for_a_call_that_damage_took_changes_nothing() -> None:
    turn = fold(*ASKED[:4], DamageSetAside("torn", until=6), ApprovalRequested(1, "pay-1", "pay", "{}"))
    assert waiting_calls(turn) == {}
    turn = fold(an_input(), DamageSetAside("torn", until=3), OutputRefused(1, "no"))
    assert (turn.number, turn.outputs_refused) == (1, 1)


ANSWERED: tuple[AnyRecord, ...] = (an_input(), TurnStarted(1), AttemptStarted(1, 1, "m"), a_reply("Kiel"))


def test_a_refused_output_is_asked_for_again_within_the_bound() -> None:
    assert decide(fold(*ANSWERED), BOUNDS) == EndTurn(1, Outcome.ANSWERED)
    records: tuple[AnyRecord, ...] = (*ANSWERED, OutputRefused(1, "not a place"))
    assert decide(fold(*records), BOUNDS) == CallModel(2)
    for attempt in (2, 3):
        records = (*records, AttemptStarted(1, attempt, "m"), a_reply("Kiel", attempt=attempt), OutputRefused(1, "no"))
    assert decide(fold(*records), BOUNDS) == EndTurn(1, Outcome.FAILED, OUTPUT_INVALID)


def test_the_model_is_shown_why_its_output_was_refused() -> None:
    records = (*ANSWERED, OutputRefused(1, "not a place"))
    shown = messages_in_view(log_of(*records), fold(*records))
    assert [(one.role, text_of(one.parts)) for one in shown][1:] == [
        (Role.ASSISTANT, "Kiel"),
        (Role.USER, "not a place"),
    ]


def test_new_settings_replace_an_effort_that_the_ladder_changed() -> None:
    climbed: tuple[AnyRecord, ...] = (
        *(an_input(), TurnStarted(1), RungStarted(1, Rung.CHANGE_EFFORT, FaultKind.BAD_REQUEST_REASONING)),
        *(EffortChanged(1, Effort.LOW), RungFinished(1, Rung.CHANGE_EFFORT, RungResult.CHANGED)),
    )
    kept = fold(*climbed, SessionConfigured(model="m"))
    assert (kept.effort, kept.is_effort_changed) == (Effort.LOW, True)
    changed = fold(*climbed, SessionConfigured(settings=Settings(effort="high"), tool_names=("a",)))
    assert (changed.effort, changed.is_effort_changed, changed.tool_names) == (None, False, ("a",))
    assert changed.settings == Settings(effort="high")


def test_a_denied_result_has_a_text_of_its_own() -> None:
    assert "did not approve" in outcome_text(ToolResult("c", (), ToolOutcome.DENIED))
