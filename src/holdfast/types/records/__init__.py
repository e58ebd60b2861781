"""Records of the session log: one closed union with one decoder.

A class name is the tag on disk, so renaming a record is a migration. An unknown tag stops the session with an error:
the log was written by a newer version. Every record of a turn carries the turn's id: the `seq` of its input.
"""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import msgspec

from holdfast.types.messages import BlobRef, LargeText, Media, Part, ToolResult
from holdfast.types.records.account import UsageRecorded, UsageTotalled
from holdfast.types.records.base import DamageSetAside, NoticePosted, Record, SegmentSealed, WindowWarned
from holdfast.types.records.inbox import (
    AnswerLinked,
    ApprovalAnswered,
    BranchSwitched,
    CancelRequested,
    ClientCompacted,
    ClientResumed,
    CompactionRequested,
    CompactionUndone,
    InputAdmitted,
    LimitsLearned,
    MessageAppended,
    MessagePinned,
    MessagesRetracted,
    PayloadStored,
    ResultSubmitted,
    SessionConfigured,
    SessionLabelled,
    SessionLinked,
    Trigger,
)
from holdfast.types.records.turn import (
    Abandonment,
    ApprovalRequested,
    AttemptAbandoned,
    AttemptFailed,
    AttemptStarted,
    Outcome,
    OutputRefused,
    ReplyRecorded,
    ToolInterrupted,
    ToolSettled,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)
from holdfast.types.records.view import (
    CompactionApplied,
    CompactionOutcome,
    CompactionSettled,
    EffortChanged,
    GenerationStarted,
    MessageExcluded,
    OutputClamped,
    OutputMasked,
    ParameterDropped,
    PartReplaced,
    PieceSummarised,
    ReasoningDropped,
    RungFinished,
    RungResult,
    RungStarted,
    SummaryKind,
    SummaryRefused,
)

__all__ = [
    "Abandonment",
    "AnswerLinked",
    "AnyRecord",
    "ApprovalAnswered",
    "ApprovalRequested",
    "AttemptAbandoned",
    "AttemptFailed",
    "AttemptStarted",
    "BranchSwitched",
    "CancelRequested",
    "ClientCompacted",
    "ClientResumed",
    "CompactionApplied",
    "CompactionOutcome",
    "CompactionRequested",
    "CompactionSettled",
    "CompactionUndone",
    "DamageSetAside",
    "EffortChanged",
    "GenerationStarted",
    "InboxRecord",
    "InputAdmitted",
    "LeasedRecord",
    "LimitsLearned",
    "Logged",
    "MessageAppended",
    "MessageExcluded",
    "MessagePinned",
    "MessagesRetracted",
    "NoticePosted",
    "Outcome",
    "OutputClamped",
    "OutputMasked",
    "OutputRefused",
    "ParameterDropped",
    "PartReplaced",
    "PayloadStored",
    "PieceSummarised",
    "ReasoningDropped",
    "Record",
    "ReplyRecorded",
    "ResultSubmitted",
    "RungFinished",
    "RungResult",
    "RungStarted",
    "SegmentSealed",
    "SessionConfigured",
    "SessionLabelled",
    "SessionLinked",
    "StepRecord",
    "SummaryKind",
    "SummaryRefused",
    "ToolInterrupted",
    "ToolSettled",
    "ToolStarted",
    "Trigger",
    "TurnEnded",
    "TurnStarted",
    "UsageRecorded",
    "UsageTotalled",
    "WindowWarned",
    "WorkRecord",
    "append_bookkeeping",
    "client_id_of",
    "decode_record",
    "encode_record",
    "origin_of",
    "owed",
    "refs_in",
    "refs_of",
    "turn_of",
]

# Appended by anyone, at any time.
InboxRecord: TypeAlias = (
    SessionConfigured
    | SessionLabelled
    | SessionLinked
    | InputAdmitted
    | MessageAppended
    | PayloadStored
    | MessagesRetracted
    | BranchSwitched
    | CancelRequested
    | CompactionRequested
    | CompactionUndone
    | MessagePinned
    | MessageExcluded
    | PieceSummarised
    | ResultSubmitted
    | ApprovalAnswered
    | LimitsLearned
    | AnswerLinked
    | ClientCompacted
    | ClientResumed
    | UsageRecorded
    | UsageTotalled
)
# Steps of a turn or a compaction, in order.
StepRecord: TypeAlias = (
    TurnStarted
    | AttemptStarted
    | ReplyRecorded
    | AttemptFailed
    | AttemptAbandoned
    | OutputRefused
    | ApprovalRequested
    | ToolStarted
    | ToolInterrupted
    | ToolSettled
    | RungStarted
    | SummaryRefused
    | CompactionApplied
    | GenerationStarted
    | ReasoningDropped
    | EffortChanged
    | ParameterDropped
    | OutputClamped
    | OutputMasked
    | PartReplaced
    | RungFinished
    | CompactionSettled
    | TurnEnded
)
WorkRecord: TypeAlias = (
    StepRecord | PieceSummarised | MessageExcluded | CompactionUndone | WindowWarned | NoticePosted | SegmentSealed
)
# Appended by the lease holder in one batch: an import contains inputs together with their replies.
LeasedRecord: TypeAlias = WorkRecord | InputAdmitted
AnyRecord: TypeAlias = InboxRecord | WorkRecord | DamageSetAside


class Logged(msgspec.Struct, frozen=True):
    """A record with its position in the log and its time."""

    # Its position, from 1, and its time in seconds since 1970.
    seq: int
    at: float
    record: AnyRecord


_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[AnyRecord] = msgspec.json.Decoder(AnyRecord)


def encode_record(record: AnyRecord) -> bytes:
    """Return a record's bytes on disk."""
    return _encoder.encode(record)


def decode_record(body: bytes) -> AnyRecord:
    """Decode a record.

    Raises `msgspec.DecodeError` for torn or altered bytes and for records of a newer version.
    """
    return _decoder.decode(body)


def origin_of(record: AnyRecord) -> int | None:
    """Return the number of the message that a record was imported from; None if it was not imported."""
    return record.origin if isinstance(record, InputAdmitted | ReplyRecorded | ToolSettled) else None


# Every request in the log needs one outcome.
_OWED: dict[type[AnyRecord], int] = {InputAdmitted: 1, CompactionRequested: 1, TurnEnded: -1, CompactionSettled: -1}


def owed(record: AnyRecord) -> int:
    """Return the change in pending outcomes: +1 for a request, -1 for its outcome.

    A damage mark counts as the record that it replaces.
    """
    return int(record.is_owed) if isinstance(record, DamageSetAside) else _OWED.get(type(record), 0)


def turn_of(record: AnyRecord) -> int | None:
    """Return the turn of a record; None for records of the session as a whole."""
    match record:
        case (
            SessionConfigured()
            | SessionLabelled()
            | InputAdmitted()
            | MessageAppended()
            | PayloadStored()
            | MessagesRetracted()
            | CompactionRequested()
            | CompactionUndone()
            | MessagePinned()
            | MessageExcluded(turn=0)
            | LimitsLearned()
            | AnswerLinked()
            | ClientCompacted()
            | ClientResumed()
            | UsageRecorded()
            | UsageTotalled()
            | CompactionSettled()
            | DamageSetAside()
            | SegmentSealed()
        ):
            return None
        case _:
            return record.turn


# Records that may reference blobs, and parts that do. Checked at every append, so the types alone rule most out.
_NAMING: frozenset[type[AnyRecord]] = frozenset(
    {InputAdmitted, MessageAppended, PayloadStored, ToolSettled, ResultSubmitted, PartReplaced}
)
_NAMING_PARTS: frozenset[type[Part]] = frozenset({LargeText, Media})
_WITH_BOOKKEEPING = _NAMING | _OWED.keys() | {DamageSetAside}


def refs_of(record: AnyRecord) -> Sequence[BlobRef]:
    """Return the blobs that a record references."""
    originals: Sequence[BlobRef] = ()
    parts: Sequence[Part]
    match record:
        case InputAdmitted():
            originals, parts = record.originals, record.parts
        case ToolSettled() | ResultSubmitted():
            originals, parts = record.result.originals, record.result.parts
        case PartReplaced():
            parts = (record.shown,)
        case MessageAppended() | PayloadStored():
            return _refs_of_appended(record)
        case _:
            return ()
    if not originals and _NAMING_PARTS.isdisjoint(map(type, parts)):
        return ()
    return (*originals, *[part.blob for part in parts if isinstance(part, LargeText | Media)])


def _refs_of_appended(record: MessageAppended | PayloadStored) -> Sequence[BlobRef]:
    refs = [record.payload.blob] if record.payload is not None and record.payload.blob is not None else []
    for part in record.parts if isinstance(record, MessageAppended) else ():
        if isinstance(part, ToolResult):
            refs += part.originals
        inner = part.parts if isinstance(part, ToolResult) else (part,)
        refs += [one.blob for one in inner if isinstance(one, LargeText | Media)]
    return tuple(refs)


def client_id_of(record: AnyRecord) -> str:
    """Return the idempotency key of a record; "" if it has none."""
    return record.client_id if isinstance(record, InputAdmitted | MessageAppended | PayloadStored) else ""


def refs_in(records: Iterable[AnyRecord]) -> list[BlobRef]:
    """Return the blobs that records reference, with repetitions."""
    return [ref for record in records if type(record) in _NAMING for ref in refs_of(record)]


def append_bookkeeping(records: Sequence[AnyRecord]) -> tuple[int, Sequence[BlobRef]]:
    """Return the store bookkeeping for an append: the change in pending outcomes, and the referenced blobs."""
    # Called at every append; most records have neither.
    if _WITH_BOOKKEEPING.isdisjoint(map(type, records)):
        return 0, ()
    return sum(map(owed, records)), refs_in(records)
