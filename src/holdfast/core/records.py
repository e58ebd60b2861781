"""The durable facts of a session: one closed union, decoded by one decoder.

A class name is the tag on disk, so renaming a record is a migration. A tag this code does not know stops the session
loudly: the log was written by a newer version. Every record that belongs to a turn names it by the `seq` of the input
that the turn answers.
"""

from enum import StrEnum
from typing import TypeAlias

import msgspec

from holdfast.core.faults import Fault, FaultKind, Refusal
from holdfast.core.ladder import Rung
from holdfast.core.learning import Learned
from holdfast.core.messages import Effort, LargeText, Media, Reply, Text, ToolResult, ToolSpec, Usage


class Record(msgspec.Struct, frozen=True, tag=True, tag_field="type", omit_defaults=True):
    """One immutable fact."""


# The inbox: whatever a person can ask. Anyone may append these, at any time.


class SessionConfigured(Record, frozen=True):
    """The session was told which model to use and how to behave. None: as the process is set up."""

    model: str | None = None
    system: str | None = None
    # Tools that a client runs, wherever it is: its calls are told in the log, and it submits the results.
    tools: tuple[ToolSpec, ...] = ()


class InputAdmitted(Record, frozen=True):
    """Someone sent a message. It is on disk, so it will be answered."""

    parts: tuple[Text | LargeText | Media, ...]
    # What the sender calls this message; the same name sent twice is one message.
    client_id: str = ""
    # The number that the message had in the transcript it was imported from; the same for replies and results.
    origin: int | None = None


class CancelRequested(Record, frozen=True):
    """Someone no longer wants an answer to the input with this seq."""

    turn: int


class Trigger(StrEnum):
    """Who wants a compaction."""

    PERSON = "person"
    # We do, before the window is full and while nobody waits.
    AHEAD = "ahead"
    # We do, to replace a digest by a summary now that a model is back.
    DEBT = "debt"


class CompactionRequested(Record, frozen=True):
    """Someone wants the view to become smaller. Requests that wait together are met together."""

    trigger: Trigger = Trigger.PERSON
    # What the summary should keep in particular, in the person's words.
    focus: str = ""


class MessagePinned(Record, frozen=True):
    """Someone wants the input with this seq to stay in the view, or no longer."""

    pinned: int
    is_pinned: bool = True


class PieceSummarised(Record, frozen=True):
    """A model's notes on a run of originals. Paid for once: whoever needs them next uses them again.

    They cover what entered the conversation from the record `since`, where the piece before ends, up to `until`. Anyone
    may append them: the view changes only when a compaction uses them.
    """

    turn: int
    until: int
    notes: str
    model: str
    usage: Usage | None = None
    since: int = 0
    # What they were to keep in particular.
    focus: str = ""
    # All pieces up to there as one, because side by side they were too long. The pieces stay.
    is_merged: bool = False


class ResultSubmitted(Record, frozen=True):
    """A client reports what came of a call that it was told to run. The first report of a call counts."""

    turn: int
    # The record of the reply that asked for the call: ids of calls are unique within one reply only.
    reply: int
    result: ToolResult


class LimitsLearned(Record, frozen=True):
    """Calls have taught something about a model. Kept in a log of its own, for all sessions."""

    issuer: str
    learned: Learned


class DamageSetAside(Record, frozen=True):
    """What stood in this place cannot be read. Written when the log is healed; `kept` names the bytes in quarantine."""

    why: str
    kept: str = ""
    # The last record that was written by whoever still knew what stood here. 0: it is found and not set aside yet.
    until: int = 0
    # It was a message, or a request, that has no outcome.
    is_owed: bool = False


# The work: appended only by the holder of the lease, under its fence.


class TurnStarted(Record, frozen=True):
    """The input with this seq entered the view and is being answered."""

    turn: int


class AttemptStarted(Record, frozen=True):
    """A request is about to be sent to a model."""

    turn: int
    attempt: int
    model: str
    tokens_estimated: int = 0
    # How long an answer it asks for at most; None leaves it to the dialect.
    output_tokens_max: int | None = None


class ReplyRecorded(Record, frozen=True):
    """The model answered, with text, with calls of tools, or both."""

    turn: int
    attempt: int
    reply: Reply
    origin: int | None = None


class AttemptFailed(Record, frozen=True):
    """The model did not answer: what it said, as it came, and how we read it."""

    turn: int
    attempt: int
    refusal: Refusal
    fault: Fault


class Abandonment(StrEnum):
    """Why nobody waits for an attempt any more."""

    # The process died or was stopped; the turn goes on with another attempt.
    INTERRUPTED = "interrupted"
    CANCELLED = "cancelled"


class AttemptAbandoned(Record, frozen=True):
    """Nobody waits for this attempt any more; what it may still answer is not read."""

    turn: int
    attempt: int
    reason: Abandonment


class ToolStarted(Record, frozen=True):
    """A tool is about to run: the durable intent. From here on it may have had its effect."""

    turn: int
    call_id: str
    name: str
    # Declared by the tool: running it twice does no more than running it once.
    is_idempotent: bool = False
    # The record of the reply that asked for it, where a client is to run it; 0: it runs here.
    reply: int = 0


class ToolInterrupted(Record, frozen=True):
    """The process died while an idempotent tool ran, or a client's result was awaited; it may be started again."""

    turn: int
    call_id: str


class ToolSettled(Record, frozen=True):
    """A tool's receipt: what came of the call. A call with a receipt is never run again."""

    turn: int
    result: ToolResult
    origin: int | None = None


class RungStarted(Record, frozen=True):
    """A way of recovering, or of meeting a request for compaction, is about to be tried. At rest `turn` is 0."""

    turn: int
    rung: Rung
    # The fault it answers; None where a compaction was asked for.
    kind: FaultKind | None
    # How long a BACK_OFF waits.
    seconds: float = 0.0


class SummaryRefused(Record, frozen=True):
    """A summariser was asked and its answer could not be used: it refused, failed, or wrote something else."""

    turn: int
    model: str
    why: str
    fault: Fault | None = None
    usage: Usage | None = None


class SummaryKind(StrEnum):
    """Who made what stands for the past."""

    SUMMARY = "summary"
    # Made without a model: a debt, to be redone by one.
    DIGEST = "digest"


class CompactionApplied(Record, frozen=True):
    """The boundary moved: what lies before it is represented by `summary` from here on."""

    turn: int
    # The first turn that stays verbatim, by the seq of its input.
    boundary: int
    summary: str
    tokens_before: int
    tokens_after: int
    kind: SummaryKind = SummaryKind.DIGEST
    model: str = ""
    # Where that turn alone is too long: of what was done in it, only what came from this record on stays verbatim.
    step: int = 0
    # The record of what was in force before, which an undo goes back to; 0: nothing was.
    before: int = 0


class GenerationStarted(CompactionApplied, frozen=True):
    """The session rolled over: of all that came before, only `summary` and the newest input are in the view.

    A compaction that goes as far as one can: what was pinned is no longer carried along, and nothing of the work on the
    newest input stays verbatim. The log is the same, so the generations before stay readable.
    """

    # The number of this generation, which no other has, and of the one it follows.
    generation: int = 2
    left: int = 1
    # Pins that it does not carry along, for an undo.
    pins_left: tuple[int, ...] = ()


class CompactionUndone(Record, frozen=True):
    """Someone wants the view as it was before a compaction: what was in force then is in force again.

    Anyone may append this. Where another compaction has been applied meanwhile it changes nothing.
    """

    # The record of the compaction that is undone, and what was in force before it, with its record.
    undone: int
    restored: CompactionApplied | GenerationStarted | None = None
    restored_seq: int = 0


class ReasoningDropped(Record, frozen=True):
    """The model's thinking before this seq is not sent back any more: its issuer could not read it."""

    turn: int
    before: int


class EffortChanged(Record, frozen=True):
    """The model is asked to think so much from here on; None leaves it to the provider."""

    turn: int
    effort: Effort | None


class OutputClamped(Record, frozen=True):
    """Until the model has answered it is asked for so much output at most: more was refused."""

    turn: int
    output_tokens_max: int


class OutputMasked(Record, frozen=True):
    """Tool output before this seq is shown by a line that says how to read it."""

    turn: int
    before: int


class PartReplaced(Record, frozen=True):
    """One part of a message is shown as something else from here on. The original stays in the log and its blob."""

    turn: int
    # The record that holds the part, and the part's place in it.
    seq: int
    place: int
    shown: Text | Media
    why: str


class RungResult(StrEnum):
    """What climbing a rung came to."""

    # What would be sent next is different: try again.
    CHANGED = "changed"
    # There was nothing to change: the next rung, without a call of the model.
    UNCHANGED = "unchanged"
    # The process died or the turn was cancelled half-way: nothing changed, and it does not count as climbed.
    INTERRUPTED = "interrupted"


class RungFinished(Record, frozen=True):
    """A way of recovering was tried."""

    turn: int
    rung: Rung
    result: RungResult


class CompactionOutcome(StrEnum):
    """What came of a request for compaction."""

    APPLIED = "applied"
    NOTHING_TO_DO = "nothing_to_do"
    # Given up for something more urgent; it will be wanted again.
    DEFERRED = "deferred"
    FAILED = "failed"


class CompactionSettled(Record, frozen=True):
    """The one outcome of a request for compaction, by its seq."""

    request: int
    outcome: CompactionOutcome
    why: str = ""


class WindowWarned(Record, frozen=True):
    """A sentence to the person: the window has filled up to this much."""

    turn: int
    percent: int
    sentence: str


class NoticePosted(Record, frozen=True):
    """A sentence to the person. The model does not see it."""

    turn: int
    code: str
    sentence: str


class SegmentSealed(Record, frozen=True):
    """Records well behind the boundary moved into the archive, as this segment. Nothing that the model sees changed."""

    first: int
    last: int
    # Its name in the archive, the SHA-256 of its bytes, and how many there are.
    name: str
    sha256: str
    size: int


class Outcome(StrEnum):
    """How a turn ended."""

    ANSWERED = "answered"
    CANCELLED = "cancelled"
    FAILED = "failed"


class TurnEnded(Record, frozen=True):
    """The one outcome of an input. A failure has a stable code and a sentence that says what to do."""

    turn: int
    outcome: Outcome
    code: str = ""
    sentence: str = ""


InboxRecord: TypeAlias = (
    SessionConfigured
    | InputAdmitted
    | CancelRequested
    | CompactionRequested
    | CompactionUndone
    | MessagePinned
    | PieceSummarised
    | ResultSubmitted
    | LimitsLearned
)
# What is done for a turn or a compaction, one step after the other.
StepRecord: TypeAlias = (
    TurnStarted
    | AttemptStarted
    | ReplyRecorded
    | AttemptFailed
    | AttemptAbandoned
    | ToolStarted
    | ToolInterrupted
    | ToolSettled
    | RungStarted
    | SummaryRefused
    | CompactionApplied
    | GenerationStarted
    | ReasoningDropped
    | EffortChanged
    | OutputClamped
    | OutputMasked
    | PartReplaced
    | RungFinished
    | CompactionSettled
    | TurnEnded
)
WorkRecord: TypeAlias = StepRecord | PieceSummarised | WindowWarned | NoticePosted | SegmentSealed
# What the holder of the lease may append in one piece: an import brings inputs together with what came of them.
LeasedRecord: TypeAlias = WorkRecord | InputAdmitted
AnyRecord: TypeAlias = InboxRecord | WorkRecord | DamageSetAside


class Logged(msgspec.Struct, frozen=True):
    """A record in its place in the log."""

    seq: int
    at: float
    record: AnyRecord


_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[AnyRecord] = msgspec.json.Decoder(AnyRecord)


def encode_record(record: AnyRecord) -> bytes:
    """Return the bytes that stand for a record on disk."""
    return _encoder.encode(record)


def decode_record(body: bytes) -> AnyRecord:
    """Return the record that these bytes stand for.

    Raises `msgspec.DecodeError` where they stand for none: torn, altered, or of a newer version.
    """
    return _decoder.decode(body)


def origin_of(record: AnyRecord) -> int | None:
    """Return the number of the message that a record was imported from; None where it was not."""
    return record.origin if isinstance(record, InputAdmitted | ReplyRecorded | ToolSettled) else None


def owed(record: AnyRecord) -> int:
    """Return how many outcomes a record adds to what the session owes: +1 for what is asked, -1 for its outcome."""
    match record:
        case InputAdmitted() | CompactionRequested():
            return 1
        case DamageSetAside(is_owed=is_owed):
            return int(is_owed)
        case TurnEnded() | CompactionSettled():
            return -1
        case _:
            return 0


def turn_of(record: AnyRecord) -> int | None:
    """Return the turn that a record belongs to; None for those that belong to the session as a whole."""
    match record:
        case (
            SessionConfigured()
            | InputAdmitted()
            | CompactionRequested()
            | CompactionUndone()
            | MessagePinned()
            | LimitsLearned()
            | CompactionSettled()
            | DamageSetAside()
            | SegmentSealed()
        ):
            return None
        case _:
            return record.turn
