from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.models.sse import Event, EventParser, EventTooLargeError, encode_event

STREAM = (
    b": hello\r\nevent: greeting\r\ndata: one\r\ndata: two\r\n\r\n"
    b"data:three\n\nid: 7\nretry: 5\n\ndata: four\r\rdata: five"
)
EVENTS = [Event("greeting", b"one\ntwo"), Event("", b"three"), Event("", b"four"), Event("", b"five")]


def parsed(chunks: list[bytes]) -> list[Event]:
    parser = EventParser()
    events = [event for chunk in chunks for event in parser.feed(chunk)]
    return events + parser.finish()


def test_comments_ids_and_all_three_line_ends_are_read_by_the_book() -> None:
    assert parsed([STREAM]) == EVENTS


@given(st.lists(st.integers(0, len(STREAM)), max_size=30))
def test_any_split_of_the_bytes_gives_the_same_events(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(STREAM)]
    chunks = [STREAM[start:end] for start, end in pairwise(places)]
    assert parsed(chunks) == EVENTS


def test_a_byte_order_mark_is_no_part_of_the_first_event() -> None:
    assert parsed([b"\xef\xbb", b"\xbfdata: x\n\n"]) == [Event("", b"x")]


def test_a_stream_of_comments_alone_has_no_events() -> None:
    assert parsed([b": keep-alive\n\n"] * 100) == []


@pytest.mark.parametrize("endless", [b"data: xxxxxxxxxx\n", b"xxxxxxxxxxxxxxxx"])
def test_an_event_without_end_is_refused(endless: bytes) -> None:
    parser = EventParser(event_bytes_max=100)
    assert parser.feed(endless * 5) == []
    with pytest.raises(EventTooLargeError):
        parser.feed(endless * 5)


def test_what_is_encoded_is_read_back() -> None:
    assert parsed([encode_event(b'{"a":1}', "start"), encode_event(b"[DONE]")]) == [
        Event("start", b'{"a":1}'),
        Event("", b"[DONE]"),
    ]


BLOCK = st.sampled_from(
    [
        b"data: a",
        b"data:b",
        b"event: x\ndata: c",
        b"data: d\ndata: e",
        b"event: y",
        b": comment",
        b": comment\ndata: f",
        b"id: 1\nevent: z\ndata: g",
        b"data",
        b"",
        b"\ndata: h",
    ]
)


@given(st.lists(BLOCK, max_size=8))
def test_whole_events_are_read_as_their_bytes_one_by_one(blocks: list[bytes]) -> None:
    """Most chunks are whole events and take a shorter way."""
    whole, single = EventParser(), EventParser()
    for parser in (whole, single):
        parser.feed(b": the first line is read apart\n\n")
    together = [event for block in blocks for event in whole.feed(block + b"\n\n")]
    stream = b"".join(block + b"\n\n" for block in blocks)
    assert together == [event for at in range(len(stream)) for event in single.feed(stream[at : at + 1])]
    assert together == EventParser().feed(stream)


def test_a_whole_event_that_is_too_large_is_refused() -> None:
    parser = EventParser(event_bytes_max=10)
    assert [event.payload for event in parser.feed(b"data: 1\n\n") + parser.feed(b"data: 123456789\n\n")] == [
        b"1",
        b"123456789",
    ]
    with pytest.raises(EventTooLargeError):
        parser.feed(b"data: 1234567890\n\n")
