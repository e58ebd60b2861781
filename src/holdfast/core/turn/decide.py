"""Decide the next action of a session from its folded state, and close what a dead process left in flight.

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

# What to do next.


def decide(turn: Turn, bounds: Bounds, *, is_proxied: bool = False) -> Action:
    """Name the next action. Call only when nothing is in flight.

    `is_proxied`: the turn belongs to a client of the proxy, which runs its own tools, counts its own steps and cannot
    be asked what to do.
    """
    assert turn.in_flight in {InFlight.REST, InFlight.READY}
    if met := tuple(wanted.seq for wanted in turn.wanted if wanted.is_met):
        return SettleCompactions(met, CompactionOutcome.APPLIED)
    if turn.in_flight is InFlight.REST:
        return _at_rest(turn, bounds)
    if turn.has_answer:
        return EndTurn(turn.number, Outcome.ANSWERED)
    if turn.number in turn.cancelled:
        return EndTurn(turn.number, Outcome.CANCELLED, CANCELLED)
    if turn.interruptions > bounds.interruptions_max:
        return EndTurn(turn.number, Outcome.FAILED, INTERRUPTED)
    if turn.fault is not None:
        return _after_fault(turn, turn.fault, bounds, is_proxied=is_proxied)
    if bounds.on_oversize == "stop" and (left_out := _left_out(turn)):
        return EndTurn(turn.number, Outcome.FAILED, oversize(left_out[0].why))
    if any(wanted.trigger is Trigger.PERSON for wanted in turn.wanted):
        return _as_wanted(turn)
    if turn.calls_asked and is_proxied:
        return Rest()
    if turn.calls_asked:
        calls = tuple(call.call for call in turn.calls_asked[: bounds.tool_calls_parallel_max])
        return RunTools(calls)
    if turn.steps >= bounds.steps_max and not is_proxied:
        return EndTurn(turn.number, Outcome.FAILED, OUT_OF_STEPS)
    return CallModel(turn.attempts + 1, heeds_estimate=_heeds_estimate(turn, is_proxied=is_proxied))


def _left_out(turn: Turn) -> list[PartReplaced]:
    """Return what the model sees nothing of any more since this turn began. An image made smaller is still seen."""
    return [one for one in turn.replaced if one.turn == turn.number and isinstance(one.shown, Text)]


def _heeds_estimate(turn: Turn, *, is_proxied: bool) -> bool:
    """Return whether our estimate may reject the next request unsent.

    Not if the model is to have the last word, and not right after output was clamped: the provider counted this very
    view, and rejected only the length of the answer. Nor if a client's own request is repeated as it is.
    """
    if is_proxied and not turn.shows_changed:
        return False
    return Rung.SEND_ANYWAY not in turn.climbed and turn.climbed[-1:] != (Rung.CLAMP_OUTPUT,)


def _at_rest(turn: Turn, bounds: Bounds) -> Action:
    by_a_person = [wanted.seq for wanted in turn.wanted if wanted.trigger is Trigger.PERSON]
    if turn.waiting and turn.wanted and not by_a_person:
        # What we want of our own accord gives way, and is wanted again some turns later.
        return _settle_all(turn, CompactionOutcome.DEFERRED, "a message came first")
    if turn.waiting and not (by_a_person and by_a_person[0] < turn.waiting[0]):
        oldest = turn.waiting[0]
        if oldest in turn.unreadable:
            return EndTurn(oldest, Outcome.FAILED, UNREADABLE)
        if oldest in turn.cancelled:
            return EndTurn(oldest, Outcome.CANCELLED, CANCELLED)
        return StartTurn(oldest)
    if not turn.wanted:
        return Rest()
    if turn.interruptions > bounds.interruptions_max:
        return _settle_all(turn, CompactionOutcome.FAILED, "the process died several times while it was tried")
    return _as_wanted(turn)


def _as_wanted(turn: Turn) -> Action:
    by_a_person = any(wanted.trigger is Trigger.PERSON for wanted in turn.wanted)
    rung = first_left(ASKED_BY_A_PERSON if by_a_person else ASKED_BY_US, turn.climbed_for_wanted)
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
    if rung is not Rung.CLAMP_OUTPUT and not is_proxied and _is_for_the_person(turn, fault, bounds):
        return EndTurn(turn.number, Outcome.FAILED, CHOICE)
    if rung is Rung.BACKOFF:
        return Backoff(fault.kind, backoff_seconds(fault, turn.climbed, bounds))
    return Climb(rung, fault.kind)


def _is_for_the_person(turn: Turn, fault: Fault, bounds: Bounds) -> bool:
    """Return whether a person is to choose what becomes of a conversation that is too long. They are asked once."""
    return bounds.on_overflow == "ask" and fault.kind is FaultKind.TOKEN_OVERFLOW and not turn.is_choice_offered


# What a dead process, or a cancelled action, leaves open.


def interruptions(turn: Turn, reason: Abandonment, bounds: Bounds) -> tuple[WorkRecord, ...]:
    """Return the records that close whatever is in flight, none where nothing is.

    A tool that was running may have had its effect, so it is not run again: the model is told that nobody knows. Only a
    tool that was declared idempotent goes back to the calls to be started, and only a few times, because it may be what
    kills the process.
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
    # What a client runs does not die with us; how long its result is awaited is bounded by a deadline.
    if call.reply or (call.is_idempotent and call.starts < bounds.tool_starts_max):
        return ToolInterrupted(turn.number, call_id)
    sentence = (
        "Outcome unknown: the process running this tool stopped before it could report. The call may or may not have "
        "had its effect and was not repeated. Check before you call it again."
    )
    return ToolSettled(turn.number, ToolResult(call_id, (Text(sentence),), ToolOutcome.UNKNOWN))
