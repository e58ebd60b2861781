"""Decide the next action of a session from its folded state, close work in flight, and defer writes.

All functions are pure. `decide` is called only when nothing is in flight; the runner performs the action it returns.

Deferred writes are records that a turn may hold in memory while the store fails. Replacing a refused part must not
fail because of the disk: the answer is one request away. Deferred records are appended in one batch with the next
record that may not be deferred. If the process dies before that, the log is unchanged and the rung is climbed again.
"""

from collections.abc import Iterator, Sequence
from typing import TypeAlias, assert_never

import msgspec

from holdfast.core.fold.session_state import Call, InFlight, Turn
from holdfast.core.limits.bounds import Bounds
from holdfast.core.turn.failure_messages import (
    BROKEN_OFF,
    CANCELLED,
    CHOICE,
    INTERRUPTED,
    OUT_OF_STEPS,
    OUTPUT_INVALID,
    UNREADABLE,
    Ending,
    after_fault,
    oversize,
)
from holdfast.core.turn.ladder import ASKED_BY_A_PERSON, ASKED_BY_US, Evidence, backoff_seconds, first_left, next_rung
from holdfast.core.turn.transitions import evolve
from holdfast.types.faults import Fault, FaultKind, Rung
from holdfast.types.messages import Text, ToolCall, ToolOutcome, ToolResult
from holdfast.types.records import (
    Abandonment,
    AttemptAbandoned,
    AttemptStarted,
    CompactionOutcome,
    CompactionSettled,
    Logged,
    NoticePosted,
    Outcome,
    PartReplaced,
    RungFinished,
    RungResult,
    RungStarted,
    ToolInterrupted,
    ToolSettled,
    Trigger,
    TurnEnded,
    WorkRecord,
)


class StartTurn(msgspec.Struct, frozen=True):
    """Start the turn of the oldest waiting input."""

    turn: int


class CallModel(msgspec.Struct, frozen=True):
    """Ask the model for the next step."""

    attempt: int
    # Reject the request unsent if the token estimate exceeds the window.
    heeds_estimate: bool = True


class RunTools(msgspec.Struct, frozen=True):
    """Run tool calls of the last reply in parallel."""

    calls: tuple[ToolCall, ...]


class Backoff(msgspec.Struct, frozen=True):
    """Wait, then retry."""

    kind: FaultKind
    seconds: float


class Climb(msgspec.Struct, frozen=True):
    """Climb one rung: for a fault of this kind, or (None) for a compaction request."""

    rung: Rung
    kind: FaultKind | None = None


class SettleCompactions(msgspec.Struct, frozen=True):
    """Record the outcome of compaction requests."""

    requests: tuple[int, ...]
    outcome: CompactionOutcome
    why: str = ""


class EndTurn(msgspec.Struct, frozen=True):
    """Record the outcome of an input."""

    turn: int
    outcome: Outcome
    ending: Ending | None = None


class Rest(msgspec.Struct, frozen=True):
    """Do nothing."""


Action: TypeAlias = StartTurn | CallModel | RunTools | Backoff | Climb | SettleCompactions | EndTurn | Rest


def decide(turn: Turn, bounds: Bounds, *, is_proxied: bool = False) -> Action:
    """Return the next action. Call only when nothing is in flight.

    `is_proxied`: the turn belongs to a client of the proxy, which runs its own tools, limits its own steps and cannot
    answer a question about overflow.
    """
    assert turn.in_flight in {InFlight.REST, InFlight.READY}
    if cancelled := tuple(wanted.seq for wanted in turn.wanted if wanted.seq in turn.cancelled and not wanted.is_met):
        return SettleCompactions(cancelled, CompactionOutcome.CANCELLED, "it was cancelled")
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
    if turn.calls_asked:
        runnable = _runnable_calls(turn, is_proxied=is_proxied)
        return RunTools(runnable[: bounds.tool_calls_parallel_max]) if runnable else Rest()
    if turn.outputs_refused > bounds.output_repairs_max:
        return EndTurn(turn.number, Outcome.FAILED, OUTPUT_INVALID)
    if turn.steps >= bounds.steps_max and not is_proxied:
        return EndTurn(turn.number, Outcome.FAILED, OUT_OF_STEPS)
    return CallModel(turn.attempts + 1, heeds_estimate=_is_estimate_binding(turn, is_proxied=is_proxied))


def _runnable_calls(turn: Turn, *, is_proxied: bool) -> tuple[ToolCall, ...]:
    """Return the calls to run. A client of the proxy runs its own; those that wait for an approval leave it at rest."""
    return tuple(call.call for call in turn.calls_asked if (call.is_own or not is_proxied) and not call.is_waiting)


def waiting_calls(turn: Turn) -> dict[str, int]:
    """Return the calls that wait for an approval, by id, with the seqs of their requests."""
    return {call.call.call_id: call.approval for call in turn.calls_asked if call.is_waiting}


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
    rung = next_rung(fault, turn.climbed, bounds, evidence_of(turn))
    if rung is None:
        return EndTurn(turn.number, Outcome.FAILED, after_fault(fault, turn.failed_models, turn.asked.model))
    if rung not in {Rung.CLAMP_OUTPUT, Rung.RETRY} and not is_proxied and _must_ask_person(turn, fault, bounds):
        return EndTurn(turn.number, Outcome.FAILED, CHOICE)
    if rung is Rung.BACKOFF:
        return Backoff(fault.kind, backoff_seconds(fault, turn.climbed, bounds))
    return Climb(rung, fault.kind)


def evidence_of(turn: Turn) -> Evidence:
    """Return what the state tells about the cause of the open turn's fault."""
    # Another model has read the past, and this one may refuse any of it.
    is_other_model = bool(turn.answered.model) and turn.answered.model != turn.asked.model
    return Evidence(
        is_refused=bool(turn.refused_as),
        times=turn.refused_times,
        has_left_out=any(rung in turn.climbed for rung in (Rung.LEAVE_OUT_UNANSWERED, Rung.LEAVE_OUT_NEW)),
        refused_turns=turn.refused_turns,
        is_past_suspect=is_other_model or turn.steps > 0,
        is_parameter_out=_is_parameter_out(turn),
    )


def _is_parameter_out(turn: Turn) -> bool:
    """Return whether the refused parameter was left out, or the last attempt at that changed nothing."""
    names = [one.parameter for one in turn.dropped]
    is_named = turn.fault is not None and turn.fault.parameter in names
    return is_named or sum(rung is Rung.DROP_PARAMETER for rung in turn.climbed) > len(names)


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
    if call.is_own and reason is Abandonment.CANCELLED:
        # The client of the proxy is gone. It only reads, and the client may retry.
        return ToolInterrupted(turn.number, call_id)
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


COPIED = Ending(
    "copied", "This was being answered where the session was copied from. Send it again to have it answered here."
)


STORE_FULL = Ending(
    "store_full",
    "The disk is full, so what came of this could not be kept. Free some space, then send the message again; "
    "everything before it is as it was.",
)


class Why(msgspec.Struct, frozen=True):
    """The reason for an abort, in the form that each kind of record needs."""

    reason: Abandonment
    settled: CompactionOutcome
    settled_why: str
    outcome: Outcome
    ending: Ending


WAS_COPIED = Why(Abandonment.CANCELLED, CompactionOutcome.DEFERRED, "the session was copied", Outcome.CANCELLED, COPIED)
IS_FULL = Why(
    Abandonment.STORE_FULL, CompactionOutcome.FAILED, "the disk is full: free some space", Outcome.FAILED, STORE_FULL
)


def closing(turn: Turn, bounds: Bounds, why: Why) -> Iterator[WorkRecord]:
    """Yield the records that close the work in flight, settle every request and end every turn."""
    for record in interruptions(turn, why.reason, bounds):
        turn = evolve(turn, Logged(turn.seq + 1, 0.0, record))
        yield record
    for wanted in turn.wanted:
        yield CompactionSettled(wanted.seq, why.settled, why.settled_why)
    for number in ((turn.number,) if turn.number else ()) + turn.waiting:
        yield TurnEnded(number, why.outcome, why.ending.code, why.ending.sentence)


_RUNGS = (Rung.SHRINK_IMAGE, Rung.REPLACE_LARGEST)
STORE_FAILED = "store_failed"


def may_wait(unwritten: Sequence[WorkRecord], records: Sequence[WorkRecord]) -> bool:
    """Return whether these records may be deferred behind those already deferred.

    True for rungs that replace parts, and for the one request sent without those parts. A model call is safe to
    repeat; its answer is recorded before it is shown, or is an error.
    """
    if any(isinstance(record, AttemptStarted) for record in unwritten):
        return False
    match records[-1]:
        case RungStarted(rung=rung) | RungFinished(rung=rung):
            return rung in _RUNGS
        case AttemptStarted():
            return any(isinstance(record, PartReplaced) for record in unwritten)
        case _:
            return False


def told_of_failure(turn: int, why: str) -> NoticePosted:
    """Return the notice for the person, posted once the store accepts writes again."""
    sentence = (
        f"The store could not be written for a moment ({why}). The turn went on, and what had changed of the view was "
        "written as soon as that was possible."
    )
    return NoticePosted(turn, STORE_FAILED, sentence)
