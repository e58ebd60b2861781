"""State machine of a turn: legal transitions, and the fold of records into a `Turn`.

`evolve` folds records into a `Turn`, `decide` returns the next action; both are pure. Recovery after a crash is the
same fold plus the records that `interruptions` adds for work left in flight. One input is one turn, identified by the
seq of that input; inputs that arrive during a turn queue in `waiting` and are answered in order.
"""

from collections.abc import Mapping
from types import MappingProxyType

from msgspec.structs import replace

from holdfast.core.fold import apply, notice, receive
from holdfast.core.fold.recovery_state import account
from holdfast.core.fold.session_state import IllegalStepError, InFlight, Turn
from holdfast.core.integrity.log_gaps import make_fit, tear
from holdfast.types.records import (
    AnswerLinked,
    AnyRecord,
    ApprovalAnswered,
    ApprovalRequested,
    AttemptAbandoned,
    AttemptFailed,
    AttemptStarted,
    BranchSwitched,
    CancelRequested,
    ClientCompacted,
    ClientResumed,
    CompactionApplied,
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
    MessageAppended,
    MessageExcluded,
    MessagePinned,
    MessagesRetracted,
    NoticePosted,
    OutputClamped,
    OutputMasked,
    OutputRefused,
    ParameterDropped,
    PartReplaced,
    PayloadStored,
    PieceSummarised,
    ReasoningDropped,
    ReplyRecorded,
    ResultSubmitted,
    RungFinished,
    RungStarted,
    SegmentSealed,
    SessionConfigured,
    SessionLabelled,
    SessionLinked,
    StepRecord,
    SummaryRefused,
    ToolInterrupted,
    ToolSettled,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    UsageRecorded,
    UsageTotalled,
    WindowWarned,
)

# A pair missing here is a bug in the writer or a damaged log; it raises.
TRANSITIONS: Mapping[tuple[InFlight, type[AnyRecord]], InFlight] = MappingProxyType(
    {
        (InFlight.REST, TurnStarted): InFlight.READY,
        # An input cancelled while waiting ends without a start.
        (InFlight.REST, TurnEnded): InFlight.REST,
        (InFlight.READY, AttemptStarted): InFlight.MODEL,
        (InFlight.MODEL, ReplyRecorded): InFlight.READY,
        (InFlight.MODEL, AttemptFailed): InFlight.READY,
        (InFlight.MODEL, AttemptAbandoned): InFlight.READY,
        # The answer was not of the requested type; a tool call waits for an approval.
        (InFlight.READY, OutputRefused): InFlight.READY,
        (InFlight.READY, ApprovalRequested): InFlight.READY,
        (InFlight.READY, ToolStarted): InFlight.TOOLS,
        (InFlight.TOOLS, ToolStarted): InFlight.TOOLS,
        (InFlight.TOOLS, ToolSettled): InFlight.TOOLS,
        (InFlight.TOOLS, ToolInterrupted): InFlight.TOOLS,
        (InFlight.READY, RungStarted): InFlight.RUNG,
        # A requested compaction needs no turn.
        (InFlight.REST, RungStarted): InFlight.RUNG,
        (InFlight.RUNG, SummaryRefused): InFlight.RUNG,
        (InFlight.RUNG, CompactionApplied): InFlight.RUNG,
        (InFlight.RUNG, GenerationStarted): InFlight.RUNG,
        (InFlight.RUNG, ReasoningDropped): InFlight.RUNG,
        (InFlight.RUNG, EffortChanged): InFlight.RUNG,
        (InFlight.RUNG, ParameterDropped): InFlight.RUNG,
        (InFlight.RUNG, OutputClamped): InFlight.RUNG,
        (InFlight.RUNG, OutputMasked): InFlight.RUNG,
        (InFlight.RUNG, PartReplaced): InFlight.RUNG,
        # Masked to save money, while the window is not full.
        (InFlight.READY, OutputMasked): InFlight.READY,
        (InFlight.RUNG, RungFinished): InFlight.READY,
        (InFlight.READY, CompactionSettled): InFlight.READY,
        (InFlight.REST, CompactionSettled): InFlight.REST,
        (InFlight.READY, TurnEnded): InFlight.REST,
    }
)

# Next state once no tool call is running.
WHEN_NOTHING_RUNS: Mapping[InFlight, InFlight] = MappingProxyType({InFlight.TOOLS: InFlight.READY})

# Next state while no turn is open.
WHEN_NO_TURN: Mapping[InFlight, InFlight] = MappingProxyType({InFlight.READY: InFlight.REST})

# Records that are legal in every state and do not change it.
ANY_TIME: tuple[type[AnyRecord], ...] = (
    InputAdmitted,
    MessageAppended,
    PayloadStored,
    MessagesRetracted,
    BranchSwitched,
    CancelRequested,
    SessionConfigured,
    SessionLabelled,
    SessionLinked,
    CompactionRequested,
    CompactionUndone,
    MessagePinned,
    MessageExcluded,
    PieceSummarised,
    ResultSubmitted,
    ApprovalAnswered,
    LimitsLearned,
    AnswerLinked,
    ClientCompacted,
    ClientResumed,
    UsageRecorded,
    UsageTotalled,
    WindowWarned,
    NoticePosted,
    DamageSetAside,
    SegmentSealed,
)


def evolve(turn: Turn, logged: Logged) -> Turn:
    """Return the session state after one more record."""
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
        # Segments concern storage, not session state.
        changed = turn
    else:
        changed = _step_past_gaps(turn, logged.seq, record)
    return replace(account(changed, logged), seq=logged.seq)


def _step_past_gaps(turn: Turn, seq: int, record: StepRecord) -> Turn:
    """Apply a record; inside a damaged range, adapt the state to a record that does not fit, or skip the record."""
    try:
        return _step(turn, seq, record)
    except IllegalStepError:
        if seq > turn.torn_until:
            raise
    turn, is_applicable = make_fit(turn, record)
    return _step(turn, seq, record) if is_applicable else turn


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
