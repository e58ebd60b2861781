"""Records on disk: every one comes back as it was, and what is not one is refused."""

import msgspec
import pytest

from holdfast.testing.builders import a_tool_call
from holdfast.types.limits import Calibration, Learned
from holdfast.types.messages import BlobRef, LargeText, Media, Reasoning, StopReason, Text, ToolResult, ToolSpec, Usage
from holdfast.types.messages import Reply as ModelReply
from holdfast.types.records import (
    AnswerLinked,
    AnyRecord,
    ApprovalAnswered,
    CancelRequested,
    CompactionApplied,
    CompactionOutcome,
    CompactionRequested,
    CompactionSettled,
    CompactionUndone,
    DamageSetAside,
    GenerationStarted,
    InputAdmitted,
    LimitsLearned,
    MessageExcluded,
    MessagePinned,
    NoticePosted,
    Outcome,
    PartReplaced,
    PieceSummarised,
    ReplyRecorded,
    ResultSubmitted,
    SegmentSealed,
    SessionConfigured,
    ToolSettled,
    Trigger,
    TurnEnded,
    TurnStarted,
    WindowWarned,
    append_bookkeeping,
    decode_record,
    encode_record,
    origin_of,
    owed,
    refs_in,
    refs_of,
    turn_of,
)
from tests.core.test_turn import WORK_RECORDS

BLOB = BlobRef("ab" * 32, 5_000_000)
INBOX: list[AnyRecord] = [
    SessionConfigured("openai:x", "Be brief.", (ToolSpec("sound", "Sound the depth.", "{}"),)),
    InputAdmitted((Text("hi"), LargeText(BLOB, "hi", "a.txt"), Media(BLOB, "image/png", "b.png", 3, 4)), "m1"),
    CancelRequested(1),
    CompactionRequested(Trigger.DEBT, "the plan"),
    CompactionUndone(9, CompactionApplied(1, 1, "s", 2, 1, step=4), 7),
    MessagePinned(1, is_pinned=False),
    MessageExcluded(1, 0, is_excluded=False),
    CompactionUndone(9, GenerationStarted(1, 1, "s", 2, 1, generation=4, left=2), 7),
    ResultSubmitted(1, 4, ToolResult("c1", (Text("12 fathoms"),))),
    ApprovalAnswered(1, 4, is_approved=False, note="not today"),
    LimitsLearned("openai:x", Learned(8_000, accepted_tokens=9, calibration=Calibration(scale=1.5, readings=2))),
    AnswerLinked("0a" * 16, "dropin:a-1~2", "dropin:a-1", 4, '{"role":"developer"}', "0b" * 16, is_held=False),
]
TOLD: list[AnyRecord] = [
    WindowWarned(1, 85, "It is full."),
    NoticePosted(1, "masked", "Something was masked."),
    PieceSummarised(1, 9, "notes", "m", Usage(1, 2), since=4, focus="the plan", is_merged=True),
]
SEALED = SegmentSealed(1, 900, "ab/1-900", "cd" * 32, 4_096)
RICH = ReplyRecorded(
    1,
    1,
    ModelReply(
        (Reasoning("hm", "anthropic:x", "c2ln"), Text("ok"), a_tool_call()), StopReason.END, Usage(1, 2, 3, 4), "m"
    ),
)


@pytest.mark.parametrize(
    "record", [*INBOX, *TOLD, SEALED, RICH, *WORK_RECORDS.values()], ids=lambda record: type(record).__name__
)
def test_a_record_comes_back_as_it_was(record: AnyRecord) -> None:
    assert decode_record(encode_record(record)) == record


def test_the_class_name_is_the_tag_on_disk() -> None:
    assert encode_record(TurnStarted(3)) == b'{"type":"TurnStarted","turn":3}'


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b'{"type":"TurnStarted"}', b'{"type":"FromTheFuture","turn":3}', b'{"type":"TurnStarted","turn":"x"}'],
)
def test_what_is_torn_or_of_a_newer_version_is_refused(body: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_record(body)


def test_an_input_is_owed_an_outcome_until_it_has_one() -> None:
    assert [owed(record) for record in (InputAdmitted(()), TurnStarted(1), TurnEnded(1, Outcome.FAILED))] == [1, 0, -1]
    settled = CompactionSettled(1, CompactionOutcome.APPLIED)
    assert [owed(record) for record in (CompactionRequested(), settled)] == [1, -1]


def test_records_of_a_turn_name_it_and_the_others_do_not() -> None:
    assert [turn_of(record) for record in INBOX] == [None, None, 1, None, None, None, None, None, 1, 1, None, None]
    belonging = {turn_of(record) for record in (*TOLD, *WORK_RECORDS.values()) if type(record) is not CompactionSettled}
    assert belonging == {1}
    assert [turn_of(record) for record in (CompactionSettled(1, CompactionOutcome.APPLIED), SEALED)] == [None, None]


def test_what_was_imported_knows_its_number_and_nothing_else_does() -> None:
    imported = InputAdmitted((Text("hi"),), origin=12)

    assert decode_record(encode_record(imported)) == imported
    assert (origin_of(imported), origin_of(InputAdmitted((Text("hi"),))), origin_of(TurnStarted(1))) == (12, None, None)


def test_every_place_where_a_record_names_a_blob_is_known() -> None:
    named, shown = BlobRef("ab" * 32, 4), BlobRef("cd" * 32, 2)
    settled = ToolSettled(1, ToolResult("a", (Text("short"), LargeText(named, "x")), originals=(named,)))

    assert list(refs_of(settled)) == [named, named]
    # What a client reports is named before anybody has settled it.
    assert list(refs_of(ResultSubmitted(1, 3, settled.result))) == [named, named]
    assert list(refs_of(InputAdmitted((Media(named, "image/png"), Text("see"))))) == [named]
    assert list(refs_of(PartReplaced(1, 1, 0, Media(shown, "image/jpeg"), "why"))) == [shown]
    assert list(refs_of(PartReplaced(1, 1, 0, Text("line"), "why"))) == []
    assert list(refs_of(NoticePosted(1, "masked", "Something was masked."))) == []


def test_whoever_asks_of_many_records_is_told_the_same_as_whoever_asks_of_each() -> None:
    named, shown = BlobRef("ab" * 32, 4), BlobRef("cd" * 32, 2)
    result = ToolResult("a", (Text("short"), LargeText(named, "x")), originals=(named,))
    records = (
        InputAdmitted((Media(named, "image/png"),), originals=(shown,)),
        NoticePosted(1, "masked", "Something was masked."),
        ToolSettled(1, result),
        ResultSubmitted(1, 3, result),
        PartReplaced(1, 1, 0, Media(shown, "image/jpeg"), "why"),
        TurnStarted(1),
    )

    assert refs_in(records) == [ref for record in records for ref in refs_of(record)] != []
    assert append_bookkeeping(records) == (1, refs_in(records))
    lost = DamageSetAside("torn", is_owed=True)
    assert append_bookkeeping((TurnStarted(1), lost, lost, TurnEnded(1, Outcome.ANSWERED))) == (1, [])
    assert append_bookkeeping((TurnStarted(1),)) == (0, ())
