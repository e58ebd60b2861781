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
