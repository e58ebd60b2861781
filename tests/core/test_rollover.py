"""How a generation begins: each way is smaller than the one before, and says what is no longer shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.core.compaction.plan import Beginning, beginnings, generation_after, is_smaller, shown_less, told_of
from holdfast.core.fold.session_state import Turn
from holdfast.core.limits.fit import Sizes
from holdfast.core.limits.sizing import bytes_of_message, tokens_of_message
from holdfast.types.faults import Confidence, Fault, FaultKind
from holdfast.types.messages import BlobRef, ContentPart, LargeText, Media, Message, Role, Text
from holdfast.types.records import CompactionApplied, GenerationStarted, PartReplaced

BLOB = BlobRef("ab" * 32, 5_000_000)
OVERFLOW = Fault(FaultKind.WIRE_OVERFLOW, Confidence.CERTAIN)
ANSWERING = Turn(seq=40, number=30, last_turn=30, fault=OVERFLOW)
parts = st.lists(
    st.text(max_size=300).map(lambda text: Text(text * 30))
    | st.just(LargeText(BLOB, "head " * 80, "a.txt"))
    | st.just(Media(BLOB, "image/png", "b.png")),
    min_size=1,
    max_size=6,
)


def as_shown(message: list[ContentPart], way: Beginning) -> Message:
    """The input as a way of beginning shows it."""
    replaced = {one.place: one.shown for one in shown_less(ANSWERING, message, way.part_bytes)}
    return Message(Role.USER, tuple(replaced.get(place, part) for place, part in enumerate(message)))


def test_ways_to_begin_go_from_most_to_least_and_never_show_large_parts_that_were_refused() -> None:
    of_tokens, of_bytes = beginnings(FaultKind.TOKEN_OVERFLOW), beginnings(FaultKind.WIRE_OVERFLOW)

    assert [way.seed_tokens for way in of_tokens] == sorted({way.seed_tokens for way in of_tokens}, reverse=True)
    assert (of_tokens[0].part_bytes, of_tokens[-1].part_bytes) == (None, 0)
    assert beginnings(FaultKind.MEDIA_OVERFLOW) == of_bytes == of_tokens[1:]


@given(message=parts)
def test_each_way_shows_no_more_of_the_newest_input_than_the_one_before(message: list[ContentPart]) -> None:
    *earlier, last = [as_shown(message, way) for way in beginnings(FaultKind.TOKEN_OVERFLOW)]

    sizes = [bytes_of_message(shown) for shown in earlier]
    assert sizes == sorted(sizes, reverse=True)
    assert tokens_of_message(last) <= 200


@pytest.mark.parametrize(
    ("part", "part_bytes", "shown"),
    [
        (Text("short"), 400, None),
        (Text("x" * 3_000), None, None),
        (Text("x" * 200), 0, None),
        (Text("x" * 3_000), 0, "[a message of 1 parts, 3,000 bytes, stands here; recall(seq=30) reads it]"),
        (Media(BLOB, "image/png", "b.png"), 400, "[b.png (image/png, 5,000,000 bytes) is not shown]"),
        (Media(BLOB, "image/png"), 400, "[an attachment (image/png, 5,000,000 bytes) is not shown]"),
        (
            LargeText(BLOB, "It began with more"),
            8,
            "It began\n[a text of 5,000,000 bytes begins so; recall(seq=30) reads all of it]",
        ),
    ],
)
def test_what_is_shown_less_says_what_it_was_and_how_to_read_it(
    part: ContentPart, part_bytes: int | None, shown: str | None
) -> None:
    expected = [] if shown is None else [PartReplaced(30, 30, 0, Text(shown), "wire_overflow")]

    assert shown_less(ANSWERING, [part], part_bytes) == expected


def test_a_long_text_is_shown_by_its_ends() -> None:
    (replaced,) = shown_less(replace(ANSWERING, fault=None), [Text("begin " + "x" * 3_000 + " end")], 400)

    assert isinstance(replaced.shown, Text)
    assert (replaced.shown.text[:5], replaced.shown.text[-3:], replaced.why) == ("begin", "end", "roll_over")


def test_of_a_message_in_many_parts_the_last_way_shows_one_line() -> None:
    message = as_shown([Text("x" * 100)] * 50, Beginning(200, 0))

    assert [part for part in message.parts if part != Text("")] == [
        Text("[a message of 50 parts, 5,000 bytes, stands here; recall(seq=30) reads it]")
    ]


def test_a_generation_follows_all_that_were_begun_and_names_what_it_leaves() -> None:
    before = CompactionApplied(20, 20, "digest", 9, 5)
    turn = replace(ANSWERING, pins=(3, 25, 30, 33), generation=2, generations=4, compaction=before, compaction_seq=27)

    assert generation_after(turn, "seed", 9_000) == GenerationStarted(
        30, 30, "seed", 9_000, 0, step=40, before=27, generation=5, left=2, pins_left=(3, 25)
    )


def test_at_rest_a_generation_begins_with_the_last_turn_there_was() -> None:
    rests = Turn(seq=40, last_turn=30, pins=(3, 30))

    started = generation_after(rests, "seed", 900)

    assert started == GenerationStarted(0, 30, "seed", 900, 0, step=40, pins_left=(3,))
    assert shown_less(rests, [Text("x" * 3_000)], 0)[0].seq == 30


@pytest.mark.parametrize(
    ("kind", "fewer_tokens", "fewer_bytes"),
    [
        (FaultKind.TOKEN_OVERFLOW, True, False),
        (FaultKind.TOOL_PAIRING, True, False),
        (FaultKind.WIRE_OVERFLOW, False, True),
        (FaultKind.MEDIA_OVERFLOW, False, True),
    ],
)
def test_smaller_is_meant_in_what_was_too_much_of(kind: FaultKind, *, fewer_tokens: bool, fewer_bytes: bool) -> None:
    before = Sizes(100, 1_000, 0, 0, 0)

    assert is_smaller(kind, before, replace(before, tokens=99)) is fewer_tokens
    assert is_smaller(kind, before, replace(before, wire_bytes=999)) is fewer_bytes


@pytest.mark.parametrize(
    ("pins", "is_whole", "words"),
    [
        ((), True, "sees your newest message and a digest"),
        ((), False, "sees a part of your newest message and a digest"),
        ((3,), True, "1 pinned message is not carried along"),
        ((3, 4), True, "2 pinned messages are not carried along"),
    ],
)
def test_the_person_is_told_what_the_model_sees_and_how_to_take_it_back(
    pins: tuple[int, ...], words: str, *, is_whole: bool
) -> None:
    told = told_of(GenerationStarted(30, 30, "seed", 9_000, 700, generation=3, pins_left=pins), is_whole=is_whole)

    assert words in told
    assert "generation 3" in told
    assert "about 700 tokens instead of 9,000" in told
    assert told.endswith("undo takes this back.")
    assert ("pin again" in told) == bool(pins)
