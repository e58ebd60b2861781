"""The turn: what is in flight, what is owed, and what to do next.

`evolve` folds records into a `Turn`, `decide` names the next action, both pure. Recovery after a crash is not a mode:
it is the same fold, plus the records that `interruptions` adds for whatever a dead process left open. One input is one
turn, named by the seq of that input; inputs that arrive meanwhile wait in `waiting` and are answered in order.
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
    AttemptAbandoned,
    AttemptFailed,
    AttemptStarted,
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
    MessagePinned,
    NoticePosted,
    OutputClamped,
    OutputMasked,
    PartReplaced,
    PieceSummarised,
    ReasoningDropped,
    ReplyRecorded,
    ResultSubmitted,
    RungFinished,
    RungStarted,
    SegmentSealed,
    SessionConfigured,
    StepRecord,
    SummaryRefused,
    ToolInterrupted,
    ToolSettled,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    WindowWarned,
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
    ClientCompacted,
    ClientResumed,
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
