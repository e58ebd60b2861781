"""The turn: what is in flight, what is owed, and what to do next.

`evolve` folds records into a `Turn`, `decide` names the next action, both pure. Recovery after a crash is not a mode:
it is the same fold, plus the records that `interruptions` adds for whatever a dead process left open. One input is one
turn, named by the seq of that input; inputs that arrive meanwhile wait in `waiting` and are answered in order.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import assert_never

from msgspec.structs import replace

from holdfast.core.actions import (
    Action,
    BackOff,
    CallModel,
    Climb,
    EndTurn,
    Rest,
    RunTools,
    SettleCompactions,
    StartTurn,
)
from holdfast.core.advice import CANCELLED, CHOICE, INTERRUPTED, OUT_OF_STEPS, UNREADABLE, after_fault, oversize
from holdfast.core.faults import Fault, FaultKind
from holdfast.core.fold import Call, IllegalStepError, InFlight, Turn, account, apply, notice, receive
from holdfast.core.holes import make_fit, tear
from holdfast.core.ladder import ASKED_BY_A_PERSON, ASKED_BY_US, Rung, back_off_seconds, first_left, next_rung
from holdfast.core.limits import Bounds
from holdfast.core.messages import Text, ToolOutcome, ToolResult
from holdfast.core.records import (
    Abandonment,
    AnswerLinked,
    AnyRecord,
    AttemptAbandoned,
    AttemptFailed,
    AttemptStarted,
    CancelRequested,
    CompactionApplied,
    CompactionOutcome,
    CompactionRequested,
    CompactionSettled,
    CompactionUndone,
    DamageSetAside,
    EffortChanged,
    GenerationStarted,
    InboxRecord,
    InputAdmitted,
    LimitsLearned,
    Logged,
    MessagePinned,
    NoticePosted,
    Outcome,
    OutputClamped,
    OutputMasked,
    PartReplaced,
    PieceSummarised,
    ReasoningDropped,
    ReplyRecorded,
    ResultSubmitted,
    RungFinished,
    RungResult,
    RungStarted,
    SegmentSealed,
    SessionConfigured,
    StepRecord,
    SummaryRefused,
    ToolInterrupted,
    ToolSettled,
    ToolStarted,
    Trigger,
    TurnEnded,
    TurnStarted,
    WindowWarned,
    WorkRecord,
)

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
        # A compaction that was asked for needs no turn.
        (InFlight.REST, RungStarted): InFlight.RUNG,
        (InFlight.RUNG, SummaryRefused): InFlight.RUNG,
        (InFlight.RUNG, CompactionApplied): InFlight.RUNG,
        (InFlight.RUNG, GenerationStarted): InFlight.RUNG,
        (InFlight.RUNG, ReasoningDropped): InFlight.RUNG,
        (InFlight.RUNG, EffortChanged): InFlight.RUNG,
        (InFlight.RUNG, OutputClamped): InFlight.RUNG,
        (InFlight.RUNG, OutputMasked): InFlight.RUNG,
        (InFlight.RUNG, PartReplaced): InFlight.RUNG,
        (InFlight.RUNG, RungFinished): InFlight.READY,
        (InFlight.READY, CompactionSettled): InFlight.READY,
        (InFlight.REST, CompactionSettled): InFlight.REST,
        (InFlight.READY, TurnEnded): InFlight.REST,
    }
)

# A state that ends by itself when the last thing that ran in it has been settled.
WHEN_NOTHING_RUNS: Mapping[InFlight, InFlight] = MappingProxyType({InFlight.TOOLS: InFlight.READY})

# Where no turn is open there is nothing to be ready for.
WHEN_NO_TURN: Mapping[InFlight, InFlight] = MappingProxyType({InFlight.READY: InFlight.REST})

# These may arrive in every state and change none of them.
ANY_TIME: tuple[type[AnyRecord], ...] = (
    InputAdmitted,
    CancelRequested,
    SessionConfigured,
    CompactionRequested,
    CompactionUndone,
    MessagePinned,
    PieceSummarised,
    ResultSubmitted,
    LimitsLearned,
    AnswerLinked,
    WindowWarned,
    NoticePosted,
    DamageSetAside,
    SegmentSealed,
)


# What a record means.


def evolve(turn: Turn, logged: Logged) -> Turn:
    """Return where the session stands after one more record."""
    if logged.seq != turn.seq + 1:
        raise IllegalStepError(logged.seq, f"comes right after record {turn.seq}: records are missing or doubled")
    record = logged.record
    if isinstance(record, InboxRecord):
        changed = receive(turn, logged.seq, record)
    elif isinstance(record, WindowWarned | NoticePosted):
        changed = notice(turn, record)
    elif isinstance(record, DamageSetAside):
        changed = tear(turn, logged.seq, record)
    elif isinstance(record, SegmentSealed):
        # Where a record lies says nothing about where the session stands.
        changed = turn
    else:
        changed = _step_past_holes(turn, logged.seq, record)
    return replace(account(changed, logged), seq=logged.seq)


def _step_past_holes(turn: Turn, seq: int, record: StepRecord) -> Turn:
    try:
        return _step(turn, seq, record)
    except IllegalStepError:
        if seq > turn.torn_until:
            raise
    turn, still_means_something = make_fit(turn, record)
    return _step(turn, seq, record) if still_means_something else turn


def _step(turn: Turn, seq: int, record: StepRecord) -> Turn:
    state = TRANSITIONS.get((turn.in_flight, type(record)))
    if state is None:
        raise IllegalStepError(seq, f"({type(record).__name__}) cannot come while in flight is: {turn.in_flight}")
    changed = apply(turn, seq, record)
    if not changed.calls_running:
        state = WHEN_NOTHING_RUNS.get(state, state)
    if not changed.number:
        state = WHEN_NO_TURN.get(state, state)
    return replace(changed, in_flight=state)


# What to do next.


def decide(turn: Turn, bounds: Bounds) -> Action:
    """Name the next action. Call only when nothing is in flight."""
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
        return _after_fault(turn, turn.fault, bounds)
    if bounds.on_oversize == "stop" and (left_out := _left_out(turn)):
        return EndTurn(turn.number, Outcome.FAILED, oversize(left_out[0].why))
    if any(wanted.trigger is Trigger.PERSON for wanted in turn.wanted):
        return _as_wanted(turn)
    if turn.calls_asked:
        calls = tuple(call.call for call in turn.calls_asked[: bounds.tool_calls_parallel_max])
        return RunTools(calls)
    if turn.steps >= bounds.steps_max:
        return EndTurn(turn.number, Outcome.FAILED, OUT_OF_STEPS)
    return CallModel(turn.attempts + 1, heeds_estimate=_heeds_estimate(turn))


def _left_out(turn: Turn) -> list[PartReplaced]:
    """Return what the model sees nothing of any more since this turn began. An image made smaller is still seen."""
    return [one for one in turn.replaced if one.turn == turn.number and isinstance(one.shown, Text)]


def _heeds_estimate(turn: Turn) -> bool:
    """Return whether our estimate may refuse the next request.

    Not where the model is to have the last word, and not right after output was clamped: the provider counted this very
    view, and objected to nothing but the length of the answer.
    """
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


def _after_fault(turn: Turn, fault: Fault, bounds: Bounds) -> Action:
    rung = next_rung(fault, turn.climbed, bounds)
    if rung is None:
        return EndTurn(turn.number, Outcome.FAILED, after_fault(fault))
    if rung is not Rung.CLAMP_OUTPUT and _is_for_the_person(turn, fault, bounds):
        return EndTurn(turn.number, Outcome.FAILED, CHOICE)
    if rung is Rung.BACK_OFF:
        return BackOff(fault.kind, back_off_seconds(fault, turn.climbed, bounds))
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
