"""The durable facts of a session: one closed union, decoded by one decoder.

A class name is the tag on disk, so renaming a record is a migration. A tag this code does not know stops the session
loudly: the log was written by a newer version. Every record that belongs to a turn names it by the `seq` of the input
that the turn answers.
"""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import msgspec

from holdfast.types.messages import BlobRef, LargeText, Media, Part
from holdfast.types.records.base import Record
from holdfast.types.records.inbox import (
    AnswerLinked,
    CancelRequested,
    ClientCompacted,
    ClientResumed,
    CompactionRequested,
    CompactionUndone,
    InputAdmitted,
    LimitsLearned,
    MessagePinned,
    ResultSubmitted,
    SessionConfigured,
    Trigger,
)
from holdfast.types.records.notices import DamageSetAside, NoticePosted, SegmentSealed, WindowWarned
from holdfast.types.records.turn import (
    Abandonment,
    AttemptAbandoned,
    AttemptFailed,
    AttemptStarted,
    Outcome,
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
    OutputClamped,
    OutputMasked,
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
    "AttemptAbandoned",
    "AttemptFailed",
    "AttemptStarted",
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
    "MessagePinned",
    "NoticePosted",
    "Outcome",
    "OutputClamped",
    "OutputMasked",
    "PartReplaced",
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
    "StepRecord",
    "SummaryKind",
    "SummaryRefused",
    "ToolInterrupted",
    "ToolSettled",
    "ToolStarted",
    "Trigger",
    "TurnEnded",
    "TurnStarted",
    "WindowWarned",
    "WorkRecord",
    "decode_record",
    "encode_record",
    "kept_beside",
    "origin_of",
    "owed",
    "refs_in",
    "refs_of",
    "turn_of",
]

# What anyone may append, at any time.
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
    | AnswerLinked
    | ClientCompacted
    | ClientResumed
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


# What is asked for is owed an outcome.
_OWED: dict[type[AnyRecord], int] = {InputAdmitted: 1, CompactionRequested: 1, TurnEnded: -1, CompactionSettled: -1}


def owed(record: AnyRecord) -> int:
    """Return how many outcomes a record adds to what the session owes: +1 for what is asked, -1 for its outcome.

    A mark owes what stood in its place.
    """
    return int(record.is_owed) if isinstance(record, DamageSetAside) else _OWED.get(type(record), 0)


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
            | AnswerLinked()
            | ClientCompacted()
            | ClientResumed()
            | CompactionSettled()
            | DamageSetAside()
            | SegmentSealed()
        ):
            return None
        case _:
            return record.turn


# Records that may name blobs, and parts that do. Whoever appends asks of every record, so what names none is told by
# types alone.
_NAMING: frozenset[type[AnyRecord]] = frozenset({InputAdmitted, ToolSettled, ResultSubmitted, PartReplaced})
_NAMING_PARTS: frozenset[type[Part]] = frozenset({LargeText, Media})
_KEPT_BESIDE = _NAMING | _OWED.keys() | {DamageSetAside}


def refs_of(record: AnyRecord) -> Sequence[BlobRef]:
    """Return the blobs that a record names."""
    originals: Sequence[BlobRef] = ()
    parts: Sequence[Part]
    match record:
        case InputAdmitted():
            originals, parts = record.originals, record.parts
        case ToolSettled() | ResultSubmitted():
            originals, parts = record.result.originals, record.result.parts
        case PartReplaced():
            parts = (record.shown,)
        case _:
            return ()
    if not originals and _NAMING_PARTS.isdisjoint(map(type, parts)):
        return ()
    return (*originals, *[part.blob for part in parts if isinstance(part, LargeText | Media)])


def refs_in(records: Iterable[AnyRecord]) -> list[BlobRef]:
    """Return the blobs that records name, as often as they do."""
    return [ref for record in records if type(record) in _NAMING for ref in refs_of(record)]


def kept_beside(records: Sequence[AnyRecord]) -> tuple[int, Sequence[BlobRef]]:
    """Return what a store keeps beside a log when these are appended: outcomes that are owed, and named blobs."""
    # Asked at every append, and most records add neither.
    if _KEPT_BESIDE.isdisjoint(map(type, records)):
        return 0, ()
    return sum(map(owed, records)), refs_in(records)
