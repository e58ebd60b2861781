"""Decide the next action of a session from its folded state, and close work that a dead process left in flight.

Both functions are pure. `decide` is called only when nothing is in flight.
"""

from typing import assert_never

from holdfast.core.fold.session_state import Call, InFlight, Turn
from holdfast.core.limits.bounds import Bounds
from holdfast.core.turn.actions import (
    Action,
    Backoff,
    CallModel,
    Climb,
    EndTurn,
    Rest,
    RunTools,
    SettleCompactions,
    StartTurn,
)
from holdfast.core.turn.failure_messages import (
    BROKEN_OFF,
    CANCELLED,
    CHOICE,
    INTERRUPTED,
    OUT_OF_STEPS,
    UNREADABLE,
    after_fault,
    oversize,
)
from holdfast.core.turn.ladder import ASKED_BY_A_PERSON, ASKED_BY_US, backoff_seconds, first_left, next_rung
from holdfast.types.faults import Fault, FaultKind, Rung
from holdfast.types.messages import Text, ToolOutcome, ToolResult
from holdfast.types.records import (
    Abandonment,
    AttemptAbandoned,
    CompactionOutcome,
    Outcome,
    PartReplaced,
    RungFinished,
    RungResult,
    ToolInterrupted,
    ToolSettled,
    Trigger,
    WorkRecord,
)


def decide(turn: Turn, bounds: Bounds, *, is_proxied: bool = False) -> Action:
    """Return the next action. Call only when nothing is in flight.

    `is_proxied`: the turn belongs to a client of the proxy, which runs its own tools, limits its own steps and cannot
    answer a question about overflow.
    """
    assert turn.in_flight in {InFlight.REST, InFlight.READY}
    if met := tuple(wanted.seq for wanted in turn.wanted if wanted.is_met):
        return SettleCompactions(met, CompactionOutcome.APPLIED)
    if turn.in_flight is InFlight.REST:
        return _at_rest(turn, bounds)
    if (end := _end_of_turn(turn, bounds)) is not None:
        return end
    if turn.fault is not None:
        return _after_fault(turn, turn.fault, bounds, is_proxied=is_proxied)
    return _next_step(turn, bounds, is_proxied=is_proxied)


def _end_of_turn(turn: Turn, bounds: Bounds) -> EndTurn | None:
    """Return the end of a turn that is answered, cancelled or interrupted too often; None if it goes on."""
    if turn.has_answer:
        return EndTurn(turn.number, Outcome.ANSWERED)
    if turn.number in turn.cancelled:
        return EndTurn(turn.number, Outcome.CANCELLED, CANCELLED)
    if turn.interruptions > bounds.interruptions_max:
        return EndTurn(turn.number, Outcome.FAILED, INTERRUPTED)
    return None


def _next_step(turn: Turn, bounds: Bounds, *, is_proxied: bool) -> Action:
    """Return the next action of a turn without a fault: end, compact, run tools or call the model."""
    if bounds.on_oversize == "stop" and (omitted := _omitted_parts(turn)):
        return EndTurn(turn.number, Outcome.FAILED, oversize(omitted[0].why))
    if any(wanted.trigger is Trigger.PERSON for wanted in turn.wanted):
        return _compact_on_request(turn)
    if turn.calls_asked and is_proxied:
        return Rest()
    if turn.calls_asked:
        calls = tuple(call.call for call in turn.calls_asked[: bounds.tool_calls_parallel_max])
        return RunTools(calls)
    if turn.steps >= bounds.steps_max and not is_proxied:
        return EndTurn(turn.number, Outcome.FAILED, OUT_OF_STEPS)
    return CallModel(turn.attempts + 1, heeds_estimate=_is_estimate_binding(turn, is_proxied=is_proxied))


def _omitted_parts(turn: Turn) -> list[PartReplaced]:
    """Return the parts that were replaced by text in this turn. A resized image is still shown."""
    return [one for one in turn.replaced if one.turn == turn.number and isinstance(one.shown, Text)]


def _is_estimate_binding(turn: Turn, *, is_proxied: bool) -> bool:
    """Return whether the token estimate may reject the next request unsent.

    It may not after SEND_ANYWAY, nor right after output was clamped: the provider counted this view and rejected only
    the output length. Nor if a client's request is repeated unchanged.
    """
    if is_proxied and not turn.shows_changed:
        return False
    return Rung.SEND_ANYWAY not in turn.climbed and turn.climbed[-1:] != (Rung.CLAMP_OUTPUT,)


def _at_rest(turn: Turn, bounds: Bounds) -> Action:
    """Return the next action while no turn is open: waiting inputs and compaction requests, oldest first."""
    person_requests = [wanted.seq for wanted in turn.wanted if wanted.trigger is Trigger.PERSON]
    if turn.waiting and turn.wanted and not person_requests:
        # Automatic compactions yield to inputs; they are requested again some turns later.
        return _settle_all(turn, CompactionOutcome.DEFERRED, "a message came first")
    if turn.waiting and not (person_requests and person_requests[0] < turn.waiting[0]):
        return _take_oldest_input(turn)
    if not turn.wanted:
        return Rest()
    if turn.interruptions > bounds.interruptions_max:
        return _settle_all(turn, CompactionOutcome.FAILED, "the process died several times while it was tried")
    return _compact_on_request(turn)


def _take_oldest_input(turn: Turn) -> StartTurn | EndTurn:
    oldest = turn.waiting[0]
    if oldest in turn.unreadable:
        return EndTurn(oldest, Outcome.FAILED, UNREADABLE)
    if oldest in turn.cancelled:
        return EndTurn(oldest, Outcome.CANCELLED, CANCELLED)
    return StartTurn(oldest)


def _compact_on_request(turn: Turn) -> Action:
    """Return the next rung for the pending compaction requests, or settle them if none is left."""
    is_by_person = any(wanted.trigger is Trigger.PERSON for wanted in turn.wanted)
    rung = first_left(ASKED_BY_A_PERSON if is_by_person else ASKED_BY_US, turn.climbed_for_wanted)
    if rung is not None:
        return Climb(rung)
    if turn.refused_why:
        return _settle_all(turn, CompactionOutcome.FAILED, turn.refused_why)
    return _settle_all(turn, CompactionOutcome.NOTHING_TO_DO)


def _settle_all(turn: Turn, outcome: CompactionOutcome, why: str = "") -> SettleCompactions:
    return SettleCompactions(tuple(wanted.seq for wanted in turn.wanted), outcome, why)


def _after_fault(turn: Turn, fault: Fault, bounds: Bounds, *, is_proxied: bool) -> Action:
    if turn.is_relayed:
        return EndTurn(turn.number, Outcome.FAILED, BROKEN_OFF)
    rung = next_rung(fault, turn.climbed, bounds)
    if rung is None:
        return EndTurn(turn.number, Outcome.FAILED, after_fault(fault))
    if rung is not Rung.CLAMP_OUTPUT and not is_proxied and _must_ask_person(turn, fault, bounds):
        return EndTurn(turn.number, Outcome.FAILED, CHOICE)
    if rung is Rung.BACKOFF:
        return Backoff(fault.kind, backoff_seconds(fault, turn.climbed, bounds))
    return Climb(rung, fault.kind)


def _must_ask_person(turn: Turn, fault: Fault, bounds: Bounds) -> bool:
    """Return whether the person must choose how to handle an overflow. They are asked once."""
    return bounds.on_overflow == "ask" and fault.kind is FaultKind.TOKEN_OVERFLOW and not turn.is_choice_offered


# --- Closing records ---


def interruptions(turn: Turn, reason: Abandonment, bounds: Bounds) -> tuple[WorkRecord, ...]:
    """Return the records that close the work in flight after a crash or a cancellation; empty if there is none.

    A running tool may have had its effect, so it is not run again: its result says that the outcome is unknown. Only a
    tool declared idempotent is started again, and at most `tool_starts_max` times, because it may be the cause of the
    crash.
    """
    match turn.in_flight:
        case InFlight.REST | InFlight.READY:
            return ()
        case InFlight.MODEL:
            return (AttemptAbandoned(turn.number, turn.attempts, reason),)
        case InFlight.RUNG:
            assert turn.climbing is not None
            return (RungFinished(turn.number, turn.climbing, RungResult.INTERRUPTED),)
        case InFlight.TOOLS:
            return tuple(_interrupted_call(turn, call, reason, bounds) for call in turn.calls_running)
        case _:
            assert_never(turn.in_flight)


def _interrupted_call(turn: Turn, call: Call, reason: Abandonment, bounds: Bounds) -> WorkRecord:
    call_id = call.call.call_id
    if reason is Abandonment.CANCELLED:
        sentence = "Cancelled by the person while it ran. It may or may not have had its effect."
        return ToolSettled(turn.number, ToolResult(call_id, (Text(sentence),), ToolOutcome.CANCELLED))
    if reason is Abandonment.STORE_FULL:
        sentence = (
            "Outcome unknown: the disk was full, and what came of this call could not be kept. It may or may not have "
            "had its effect. Check before you call it again."
        )
        return ToolSettled(turn.number, ToolResult(call_id, (Text(sentence),), ToolOutcome.UNKNOWN))
    # A tool that runs in a client survives a crash of this process; a deadline bounds the wait for its result.
    if call.reply or (call.is_idempotent and call.starts < bounds.tool_starts_max):
        return ToolInterrupted(turn.number, call_id)
    sentence = (
        "Outcome unknown: the process running this tool stopped before it could report. The call may or may not have "
        "had its effect and was not repeated. Check before you call it again."
    )
    return ToolSettled(turn.number, ToolResult(call_id, (Text(sentence),), ToolOutcome.UNKNOWN))
