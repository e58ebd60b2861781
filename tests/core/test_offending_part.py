"""Which part is to blame when a request is too large: only what the model sees, and first what it has not accepted."""

import msgspec
import pytest

from holdfast.core.fold.session_state import Turn
from holdfast.core.view.offending_part import Culprit, LargePart, find_culprit, large_parts, told_of, told_of_shorter
from holdfast.testing.builders import a_reply, a_tool_call, a_turn_ended, an_attempt_started
from holdfast.types.faults import FaultKind, Unit
from holdfast.types.messages import BlobRef, ContentPart, LargeText, Media, Text, ToolResult
from holdfast.types.records import (
    AnyRecord,
    CompactionApplied,
    InputAdmitted,
    Logged,
    MessageExcluded,
    Outcome,
    PartReplaced,
    ToolSettled,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)

CALL = a_tool_call("look_up")
START = Turn()


def photo(size_bytes: int, name: str = "photo.png") -> Media:
    return Media(BlobRef("ab" * 32, size_bytes), "image/png", name, 640, 480)


def a_log(*records: AnyRecord) -> list[Logged]:
    return [Logged(seq, 0.0, record) for seq, record in enumerate(records, start=1)]


def answered(number: int, *parts: ContentPart) -> list[AnyRecord]:
    return [
        InputAdmitted(parts),
        TurnStarted(number),
        an_attempt_started(number),
        a_reply("ok", turn=number),
        a_turn_ended(number),
    ]


def blamed(log: list[Logged], turn: Turn = START, kind: FaultKind = FaultKind.WIRE_OVERFLOW) -> tuple[int, int] | None:
    found = find_culprit(log, turn, kind)
    return None if found is None else (found.seq, found.place)


@pytest.mark.parametrize(
    ("part", "culprit"),
    [
        (
            photo(30_000_000),
            Culprit(
                1,
                0,
                30_000_000,
                "photo.png (image/png, 30,000,000 bytes, 640x480 pixels)",
                Text(
                    "[photo.png (image/png, 30,000,000 bytes, 640x480 pixels) was attached here and is not shown; "
                    "record 1 keeps it]"
                ),
                photo(30_000_000),
            ),
        ),
        (
            Media(BlobRef("ab" * 32, 9), "application/pdf"),
            Culprit(
                1,
                0,
                9,
                "an attachment (application/pdf, 9 bytes)",
                Text(
                    "[an attachment (application/pdf, 9 bytes) was attached here and is not shown; record 1 keeps it]"
                ),
                Media(BlobRef("ab" * 32, 9), "application/pdf"),
            ),
        ),
        (
            LargeText(BlobRef("ab" * 32, 5_000_000), "It begins", "log.txt"),
            Culprit(
                1,
                0,
                5_000_000,
                "log.txt of 5,000,000 bytes",
                Text(
                    "It begins\n[log.txt of 5,000,000 bytes begins so; the rest is not shown; recall(seq=1) reads it]"
                ),
            ),
        ),
        (
            LargeText(BlobRef("ab" * 32, 5_000), "It begins"),
            Culprit(
                1,
                0,
                5_000,
                "a text of 5,000 bytes",
                Text("It begins\n[a text of 5,000 bytes begins so; the rest is not shown; recall(seq=1) reads it]"),
            ),
        ),
    ],
)
def test_what_is_to_blame_is_named_and_shown_by_a_line(part: ContentPart, culprit: Culprit) -> None:
    """FM-079: what it was, how large, and where it can be read."""
    assert find_culprit(a_log(InputAdmitted((part,)), TurnStarted(1)), START, FaultKind.WIRE_OVERFLOW) == culprit


def test_a_long_text_is_shown_by_its_ends_and_a_short_one_is_not_to_blame() -> None:
    log = a_log(InputAdmitted((Text("short"), Text("x" * 3_999), Text("begin" + "é" * 4_000 + "end"))), TurnStarted(1))

    found = find_culprit(log, START, FaultKind.WIRE_OVERFLOW)

    assert found is not None
    assert (found.seq, found.place, found.size_bytes, found.what) == (1, 2, 8_008, "a text of 8,008 bytes")
    assert found.shown.text.startswith("begin")
    assert found.shown.text.endswith("end")
    assert "recall(seq=1) reads all of it" in found.shown.text
    assert len(found.shown.text.encode()) <= 2_000


def test_where_nothing_is_large_nothing_is_to_blame() -> None:
    assert blamed(a_log(*answered(1, Text("hi")))) is None
    assert blamed([]) is None


def test_what_the_model_has_not_accepted_yet_is_blamed_before_what_is_larger() -> None:
    log = a_log(*answered(1, photo(9_000)), InputAdmitted((photo(10), photo(50))), TurnStarted(6))

    assert blamed(log) == (6, 1)


def test_the_largest_is_blamed_where_nothing_is_new() -> None:
    log = a_log(*answered(1, photo(10), photo(9_000)), InputAdmitted((Text("hi"),)), TurnStarted(6))

    assert blamed(log) == (1, 1)


def test_of_two_that_are_equally_large_the_newer_is_blamed() -> None:
    log = a_log(*answered(1, photo(10)), *answered(6, photo(10)))

    assert blamed(log) == (6, 0)


def test_media_inside_a_tool_result_is_found() -> None:
    """FM-080."""
    log = a_log(
        InputAdmitted((Text("look"),)),
        TurnStarted(1),
        an_attempt_started(),
        a_reply("", CALL),
        ToolStarted(1, "call-1", "look_up"),
        ToolSettled(1, ToolResult("call-1", (Text("seen"), photo(9_000)))),
    )

    assert blamed(log) == (6, 1)


def test_only_media_is_blamed_where_media_was_refused() -> None:
    log = a_log(InputAdmitted((Text("x" * 90_000), photo(10))), TurnStarted(1))

    assert blamed(log) == (1, 0)
    assert blamed(log, kind=FaultKind.MEDIA_OVERFLOW) == (1, 1)


def test_what_is_replaced_already_is_not_blamed_again() -> None:
    log = a_log(InputAdmitted((photo(9_000), photo(10))), TurnStarted(1))
    once = Turn(replaced=(PartReplaced(1, 1, 0, Text("[gone]"), "x"),))
    twice = Turn(replaced=(*once.replaced, PartReplaced(1, 1, 1, Text("[gone]"), "x")))

    assert blamed(log, once) == (1, 1)
    assert blamed(log, twice) is None


def test_an_input_that_still_waits_or_never_started_is_not_to_blame() -> None:
    """It is not in the request that was refused, and replacing it would take it from a model that never saw it."""
    log = a_log(
        InputAdmitted((photo(9_000),)),
        TurnEnded(1, Outcome.CANCELLED),
        InputAdmitted((photo(10),)),
        TurnStarted(3),
        InputAdmitted((photo(9_000),)),
    )

    assert blamed(log) == (3, 0)


def test_an_input_that_waited_for_the_last_answer_is_new_all_the_same() -> None:
    log = a_log(
        InputAdmitted((photo(9_000),)),
        TurnStarted(1),
        an_attempt_started(),
        InputAdmitted((photo(10),)),
        a_reply("ok"),
        a_turn_ended(),
        TurnStarted(4),
    )

    assert blamed(log) == (4, 0)


def test_what_the_view_does_not_show_is_not_to_blame() -> None:
    log = a_log(
        InputAdmitted((Text("go"),)),
        TurnStarted(1),
        an_attempt_started(),
        InputAdmitted((Text("x" * 5_000),)),
        a_reply("", CALL),
        ToolStarted(1, "call-1", "look_up"),
        ToolSettled(1, ToolResult("call-1", (Text("y" * 9_000),))),
        an_attempt_started(attempt=2),
        a_reply("ok", attempt=2),
        a_turn_ended(),
        TurnStarted(4),
    )
    behind = Turn(compaction=CompactionApplied(4, 4, "what was said", 2, 1))
    in_the_middle = Turn(compaction=CompactionApplied(1, 1, "what was said", 2, 1, step=9))

    assert blamed(log[:10]) == (7, 0)
    assert blamed(log[:10], Turn(masked_before=8)) is None
    assert blamed(log[:10], in_the_middle) is None
    assert blamed(log[3:10], behind) is None
    assert blamed(log[3:], behind) == (4, 0)


def test_a_pinned_input_is_to_blame_like_any_other() -> None:
    """It never leaves the view, so nothing else could make room."""
    log = a_log(*answered(1, photo(9_000)), *answered(6, photo(10)))
    turn = Turn(pins=(1,), compaction=CompactionApplied(6, 6, "what was said", 2, 1))

    assert blamed([log[0], *log[5:]], turn) == (1, 0)
    assert blamed(log[5:], turn) == (6, 0)


def test_of_too_many_images_the_oldest_goes_first() -> None:
    log = a_log(*answered(1, photo(50), photo(10)), InputAdmitted((photo(9_000),)), TurnStarted(6))

    found = find_culprit(log, START, FaultKind.MEDIA_OVERFLOW, unit=Unit.COUNT)

    assert found is not None
    assert (found.seq, found.place) == (1, 0)
    assert find_culprit([], START, FaultKind.MEDIA_OVERFLOW, unit=Unit.COUNT) is None


def test_the_image_that_the_refusal_points_at_is_to_blame_whatever_else_is_larger_or_newer() -> None:
    """FM-080: the path in the error comes first."""
    small = Media(BlobRef("cd" * 32, 90), "image/png", "small.png", 40, 10)
    log = a_log(*answered(1, photo(50), small), InputAdmitted((photo(9_000),)), TurnStarted(6))

    found = [find_culprit(log, START, kind, unit=Unit.COUNT, blamed="cd" * 32) for kind in FaultKind]
    unknown = find_culprit(log, START, FaultKind.MEDIA_OVERFLOW, blamed="ef" * 32)

    assert {one and (one.seq, one.place) for one in found} == {(1, 1)}
    assert unknown is not None
    assert unknown.seq == 6


def test_of_images_with_too_many_pixels_the_widest_is_to_blame_and_not_the_heaviest() -> None:
    wide = Media(BlobRef("cd" * 32, 90), "image/png", "wide.png", 4_000, 10)
    log = a_log(InputAdmitted((photo(9_000), wide)), TurnStarted(1))

    found = [find_culprit(log, START, FaultKind.MEDIA_OVERFLOW, unit=unit) for unit in (Unit.PIXELS, Unit.BYTES)]

    assert [one and one.place for one in found] == [1, 0]


def test_an_image_that_was_made_smaller_is_named_as_it_was_and_weighed_as_it_is() -> None:
    """FM-080: what is still too large when it is smaller can be left out after all."""
    log = a_log(InputAdmitted((photo(9_000), photo(500))), TurnStarted(1))
    smaller = Media(BlobRef("cd" * 32, 600), "image/jpeg", "photo.png", 320, 240)
    turn = Turn(replaced=(PartReplaced(1, 1, 0, smaller, "media_overflow"),))

    found = find_culprit(log, turn, FaultKind.MEDIA_OVERFLOW)

    assert found is not None
    assert (found.place, found.size_bytes, found.media) == (0, 600, smaller)
    assert found.what == "photo.png (image/png, 9,000 bytes, 640x480 pixels)"
    left_out = Turn(replaced=(*turn.replaced, PartReplaced(1, 1, 0, found.shown, "media_overflow")))
    assert blamed(log, left_out, FaultKind.MEDIA_OVERFLOW) == (1, 1)


def test_what_is_left_out_of_the_view_is_not_to_blame_and_not_shortened() -> None:
    """Replacing it would change nothing, and the rung would cost a refused call."""
    log = a_log(InputAdmitted((photo(9_000), Text("x" * 5_000), Text("y" * 4_000))), TurnStarted(1))
    part = msgspec.structs.replace(START, excluded=(MessageExcluded(1, 0), MessageExcluded(1, 1)))
    whole = msgspec.structs.replace(START, excluded=(MessageExcluded(1),))

    assert (blamed(log), blamed(log, part), blamed(log, whole)) == ((1, 0), (1, 2), None)
    shortened = [[one.place for one in large_parts(log, turn)] for turn in (START, part, whole)]
    assert shortened == [[1, 2], [2], []]


def test_what_was_passed_over_is_not_found_again() -> None:
    log = a_log(InputAdmitted((photo(9_000), photo(500))), TurnStarted(1))

    found = find_culprit(log, START, FaultKind.MEDIA_OVERFLOW, passed={(1, 0)})

    assert found is not None
    assert found.place == 1


def test_a_person_is_told_what_was_left_out_and_where_it_is() -> None:
    one, other = (Culprit(seq, 0, 9, f"{seq}.png (image/png, 9 bytes)", Text("[gone]")) for seq in (4, 6))

    assert told_of([one]) == (
        "4.png (image/png, 9 bytes): too much for the model, which does not see it any more. "
        "It is kept: record 4 has it."
    )
    assert told_of([one, other, other]).startswith("4.png (image/png, 9 bytes) and 2 more: too much")


# Texts that can be shown in part.


def test_long_texts_in_the_view_can_be_shortened_also_once_more() -> None:
    short, long = Text("word"), Text("word " * 2_000)
    file = LargeText(BlobRef("cd" * 32, 90_000), "head", "log.txt")
    log = a_log(*answered(1, long), InputAdmitted((short, photo(9_000), long, file)), TurnStarted(6))
    start = 4 + 1 + 9_000 + 1

    found = large_parts(log, START)

    assert found == [
        LargePart(1, 0, long, 0, long, is_fresh=False),
        LargePart(6, 2, long, start, long, is_fresh=True),
        LargePart(6, 3, file, start + 10_000 + 1, file, is_fresh=True),
    ]
    less, least = Text("word " * 1_000), Text("word")
    replaced = (
        PartReplaced(6, 6, 2, less, "w"),
        PartReplaced(6, 6, 3, least, "w"),
        PartReplaced(6, 1, 0, photo(9), "w"),
    )
    assert large_parts(log, Turn(replaced=replaced)) == [LargePart(6, 2, long, start, less, is_fresh=True)]


def test_the_notice_says_how_much_is_shown_and_where_the_rest_is() -> None:
    text = LargePart(6, 2, Text("word"), 0, Text("word"), is_fresh=True)
    file = LargePart(7, 0, LargeText(BlobRef("cd" * 32, 90_000), "head", "log.txt"), 0, Text("word"), is_fresh=True)

    assert told_of_shorter([(file, 1_200), (text, 5)]).startswith("log.txt of 90,000 bytes and 1 more: too much for")
    told = told_of_shorter([(text, 1_200)])
    assert told.startswith(
        "A text of 4 bytes: too much for the model, which sees its beginning, its end and an outline"
    )
    assert "about 1,200 tokens" in told
    assert "record 6 has it" in told
