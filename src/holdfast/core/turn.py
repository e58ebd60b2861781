"""The turn: what is in flight, what is owed, and what to do next.

`evolve` folds records into a `Turn`, `decide` names the next action, both pure. Recovery after a crash is not a mode:
it is the same fold, plus the records that `interruptions` adds for whatever a dead process left open. One input is one
turn, named by the seq of that input; inputs that arrive meanwhile wait in `waiting` and are answered in order.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import TypeAlias, assert_never

import msgspec
from msgspec.structs import replace

from holdfast.core.advice import CANCELLED, INTERRUPTED, OUT_OF_STEPS, Ending, after_fault
from holdfast.core.faults import Fault, FaultKind
from holdfast.core.ladder import Rung, back_off_seconds, next_rung
from holdfast.core.limits import Bounds
from holdfast.core.messages import Text, ToolCall, ToolOutcome, ToolResult
from holdfast.core.records import (
    Abandonment,
    AnyRecord,
    AttemptAbandoned,
    AttemptFailed,
    AttemptStarted,
    CancelRequested,
    CompactionApplied,
    InputAdmitted,
    LimitsLearned,
    Logged,
    NoticePosted,
    Outcome,
    ReplyRecorded,
    RungFinished,
    RungResult,
    RungStarted,
    SessionConfigured,
    ToolInterrupted,
    ToolSettled,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    WorkRecord,
)


class InFlight(StrEnum):
    """What the outside world may be doing for a session right now: exactly what a restart must close."""

    # No turn is open.
    REST = "rest"
    # A turn is open and waits for the next decision.
    READY = "ready"
    MODEL = "model"
    TOOLS = "tools"
    RUNG = "rung"


# A pair that is missing here is a bug in the writer or a damaged log; it is never ignored.
TRANSITIONS: Mapping[tuple[InFlight, type[AnyRecord]], InFlight] = MappingProxyType(
    {
        (InFlight.REST, TurnStarted): InFlight.READY,
        # An input that was cancelled while it waited ends without having started.
        (InFlight.REST, TurnEnded): InFlight.REST,
        (InFlight.READY, AttemptStarted): InFlight.MODEL,
        (InFlight.MODEL, ReplyRecorded): InFlight.READY,
        (InFlight.MODEL, AttemptFailed): InFlight.READY,
        (InFlight.MODEL, AttemptAbandoned): InFlight.READY,
        (InFlight.READY, ToolStarted): InFlight.TOOLS,
        (InFlight.TOOLS, ToolStarted): InFlight.TOOLS,
        (InFlight.TOOLS, ToolSettled): InFlight.TOOLS,
        (InFlight.TOOLS, ToolInterrupted): InFlight.TOOLS,
        (InFlight.READY, RungStarted): InFlight.RUNG,
        (InFlight.RUNG, CompactionApplied): InFlight.RUNG,
        (InFlight.RUNG, RungFinished): InFlight.READY,
        (InFlight.READY, TurnEnded): InFlight.REST,
    }
)

# A state that ends by itself when the last thing that ran in it has been settled.
WHEN_NOTHING_RUNS: Mapping[InFlight, InFlight] = MappingProxyType({InFlight.TOOLS: InFlight.READY})

# These may arrive in every state and change none of them.
ANY_TIME: tuple[type[AnyRecord], ...] = (
    InputAdmitted,
    CancelRequested,
    SessionConfigured,
    LimitsLearned,
    NoticePosted,
)


class Call(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool call that the last reply asked for and that has no receipt, with how often it was started."""

    call: ToolCall
    starts: int = 0
    is_idempotent: bool = False


class Turn(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a session stands after its records up to `seq`."""

    seq: int = 0
    in_flight: InFlight = InFlight.REST
    # Inputs admitted and not started; inputs that nobody wants an answer to any more. By seq, in order.
    waiting: tuple[int, ...] = ()
    cancelled: tuple[int, ...] = ()
    # What the session was told about itself, and the compaction in force.
    model: str | None = None
    system: str | None = None
    compaction: CompactionApplied | None = None

    # From here on all is about the turn that is open, and at its default when none is.
    number: int = 0
    attempts: int = 0
    steps: int = 0
    has_answer: bool = False
    calls_asked: tuple[Call, ...] = ()
    calls_running: tuple[Call, ...] = ()
    # The last failure until a rung has answered it; the rungs climbed since the last reply, the one in flight included.
    fault: Fault | None = None
    climbed: tuple[Rung, ...] = ()
    # Models given up in this turn; processes that died in it since it last made progress.
    models_passed: int = 0
    interruptions: int = 0

    @property
    def boundary(self) -> int:
        """The first turn that is in the view verbatim, by the seq of its input."""
        return self.compaction.boundary if self.compaction else 0


class IllegalStepError(ValueError):
    """A record that cannot follow the ones before it: a bug in the writer or a damaged log."""

    def __init__(self, seq: int, why: str) -> None:
        self.seq, self.why = seq, why
        super().__init__(f"record {seq} {why}")


# What a record means.


def evolve(turn: Turn, logged: Logged) -> Turn:
    """Return where the session stands after one more record."""
    if logged.seq != turn.seq + 1:
        raise IllegalStepError(logged.seq, f"comes right after record {turn.seq}: records are missing or doubled")
    match logged.record:
        case SessionConfigured(model=model, system=system):
            changed = replace(turn, model=model, system=system)
        case InputAdmitted():
            changed = replace(turn, waiting=(*turn.waiting, logged.seq))
        case CancelRequested(turn=number):
            # Whoever asks too late, or for what never was, asks for nothing.
            is_open = number == turn.number or number in turn.waiting
            changed = replace(turn, cancelled=(*turn.cancelled, number)) if is_open else turn
        case NoticePosted() | LimitsLearned():
            changed = turn
        case record:
            changed = _step(turn, logged.seq, record)
    return replace(changed, seq=logged.seq)


_Step: TypeAlias = (
    TurnStarted
    | AttemptStarted
    | ReplyRecorded
    | AttemptFailed
    | AttemptAbandoned
    | ToolStarted
    | ToolInterrupted
    | ToolSettled
    | RungStarted
    | CompactionApplied
    | RungFinished
    | TurnEnded
)


def _step(turn: Turn, seq: int, record: _Step) -> Turn:
    state = TRANSITIONS.get((turn.in_flight, type(record)))
    if state is None:
        raise IllegalStepError(seq, f"({type(record).__name__}) cannot come while in flight is: {turn.in_flight}")
    changed = replace(_apply(turn, seq, record), in_flight=state)
    if state in WHEN_NOTHING_RUNS and not changed.calls_running:
        changed = replace(changed, in_flight=WHEN_NOTHING_RUNS[state])
    return changed


def _apply(turn: Turn, seq: int, record: _Step) -> Turn:
    match record:
        case TurnStarted(turn=number):
            return _started(turn, seq, number)
        case AttemptStarted():
            return replace(turn, attempts=turn.attempts + 1)
        case ReplyRecorded(reply=reply):
            asked = tuple(Call(part) for part in reply.parts if isinstance(part, ToolCall))
            # A reply is progress: the ladder and the count of deaths begin anew. Steps are bounded, so all of it is.
            return replace(
                turn, steps=turn.steps + 1, calls_asked=asked, has_answer=not asked, climbed=(), interruptions=0
            )
        case AttemptFailed(fault=fault):
            return replace(turn, fault=fault)
        case AttemptAbandoned(reason=reason):
            died = reason is Abandonment.INTERRUPTED
            return replace(turn, interruptions=turn.interruptions + died)
        case ToolStarted():
            return _tool_started(turn, seq, record)
        case ToolInterrupted(call_id=call_id):
            call, running = _take(turn.calls_running, call_id, seq)
            return replace(turn, calls_running=running, calls_asked=(*turn.calls_asked, call))
        case ToolSettled(result=result):
            _, running = _take(turn.calls_running, result.call_id, seq)
            return replace(turn, calls_running=running)
        case RungStarted(rung=rung):
            return replace(turn, climbed=(*turn.climbed, rung))
        case CompactionApplied():
            return replace(turn, compaction=record)
        case RungFinished():
            return _rung_finished(turn, record)
        case TurnEnded(turn=number):
            return _ended(turn, seq, number)
        case _:
            assert_never(record)


def _started(turn: Turn, seq: int, number: int) -> Turn:
    if number not in turn.waiting:
        raise IllegalStepError(seq, f"starts turn {number}, which is not waiting")
    waiting = tuple(other for other in turn.waiting if other != number)
    return replace(turn, waiting=waiting, number=number)


def _tool_started(turn: Turn, seq: int, record: ToolStarted) -> Turn:
    call, asked = _take(turn.calls_asked, record.call_id, seq)
    call = replace(call, starts=call.starts + 1, is_idempotent=record.is_idempotent)
    return replace(turn, calls_asked=asked, calls_running=(*turn.calls_running, call))


def _take(calls: tuple[Call, ...], call_id: str, seq: int) -> tuple[Call, tuple[Call, ...]]:
    """Return one call and the others."""
    for place, call in enumerate(calls):
        if call.call.call_id == call_id:
            return call, calls[:place] + calls[place + 1 :]
    raise IllegalStepError(seq, f"is about tool call {call_id!r}, which is not open")


def _rung_finished(turn: Turn, record: RungFinished) -> Turn:
    match record.result:
        case RungResult.UNCHANGED:
            return turn
        case RungResult.INTERRUPTED:
            return replace(turn, climbed=turn.climbed[:-1], interruptions=turn.interruptions + 1)
        case RungResult.CHANGED if record.rung is Rung.NEXT_MODEL:
            # Another model is another ladder. There are finitely many models.
            return replace(turn, fault=None, climbed=(), models_passed=turn.models_passed + 1)
        case RungResult.CHANGED:
            return replace(turn, fault=None)
        case _:
            assert_never(record.result)


def _ended(turn: Turn, seq: int, number: int) -> Turn:
    if number != turn.number and number not in turn.waiting:
        raise IllegalStepError(seq, f"ends turn {number}, which is not open")
    return Turn(
        waiting=tuple(other for other in turn.waiting if other != number),
        cancelled=tuple(other for other in turn.cancelled if other != number),
        model=turn.model,
        system=turn.system,
        compaction=turn.compaction,
    )


# What to do next.


class StartTurn(msgspec.Struct, frozen=True):
    """Let the oldest waiting input into the view."""

    turn: int


class CallModel(msgspec.Struct, frozen=True):
    """Ask the model for the next step."""

    attempt: int
    # Whether a request that by our estimate does not fit is refused unsent.
    heeds_estimate: bool = True


class RunTools(msgspec.Struct, frozen=True):
    """Run the calls that the model asked for, side by side."""

    calls: tuple[ToolCall, ...]


class BackOff(msgspec.Struct, frozen=True):
    """Wait, then try again."""

    kind: FaultKind
    seconds: float


class Climb(msgspec.Struct, frozen=True):
    """Try one way of recovering."""

    rung: Rung
    kind: FaultKind


class EndTurn(msgspec.Struct, frozen=True):
    """Give the input its one outcome."""

    turn: int
    outcome: Outcome
    ending: Ending | None = None


class Rest(msgspec.Struct, frozen=True):
    """There is nothing to do."""


Action: TypeAlias = StartTurn | CallModel | RunTools | BackOff | Climb | EndTurn | Rest


def decide(turn: Turn, bounds: Bounds) -> Action:
    """Name the next action. Call only when nothing is in flight."""
    assert turn.in_flight in {InFlight.REST, InFlight.READY}
    if turn.in_flight is InFlight.REST:
        return _at_rest(turn)
    if turn.has_answer:
        return EndTurn(turn.number, Outcome.ANSWERED)
    if turn.number in turn.cancelled:
        return EndTurn(turn.number, Outcome.CANCELLED, CANCELLED)
    if turn.interruptions > bounds.interruptions_max:
        return EndTurn(turn.number, Outcome.FAILED, INTERRUPTED)
    if turn.fault is not None:
        return _after_fault(turn, turn.fault, bounds)
    if turn.calls_asked:
        calls = tuple(call.call for call in turn.calls_asked[: bounds.tool_calls_parallel_max])
        return RunTools(calls)
    if turn.steps >= bounds.steps_max:
        return EndTurn(turn.number, Outcome.FAILED, OUT_OF_STEPS)
    return CallModel(turn.attempts + 1, heeds_estimate=Rung.SEND_ANYWAY not in turn.climbed)


def _at_rest(turn: Turn) -> Action:
    if not turn.waiting:
        return Rest()
    oldest = turn.waiting[0]
    if oldest in turn.cancelled:
        return EndTurn(oldest, Outcome.CANCELLED, CANCELLED)
    return StartTurn(oldest)


def _after_fault(turn: Turn, fault: Fault, bounds: Bounds) -> Action:
    rung = next_rung(fault, turn.climbed, bounds)
    if rung is None:
        return EndTurn(turn.number, Outcome.FAILED, after_fault(fault))
    if rung is Rung.BACK_OFF:
        return BackOff(fault.kind, back_off_seconds(fault, turn.climbed, bounds))
    return Climb(rung, fault.kind)


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
            return (RungFinished(turn.number, turn.climbed[-1], RungResult.INTERRUPTED),)
        case InFlight.TOOLS:
            return tuple(_interrupted_call(turn, call, reason, bounds) for call in turn.calls_running)
        case _:
            assert_never(turn.in_flight)


def _interrupted_call(turn: Turn, call: Call, reason: Abandonment, bounds: Bounds) -> WorkRecord:
    call_id = call.call.call_id
    if reason is Abandonment.CANCELLED:
        sentence = "Cancelled by the person while it ran. It may or may not have had its effect."
        return ToolSettled(turn.number, ToolResult(call_id, (Text(sentence),), ToolOutcome.CANCELLED))
    if call.is_idempotent and call.starts < bounds.tool_starts_max:
        return ToolInterrupted(turn.number, call_id)
    sentence = (
        "Outcome unknown: the process running this tool stopped before it could report. The call may or may not have "
        "had its effect and was not repeated. Check before you call it again."
    )
    return ToolSettled(turn.number, ToolResult(call_id, (Text(sentence),), ToolOutcome.UNKNOWN))
