"""What bytes are, whatever they are called."""

import itertools
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.text.media_type import (
    HEAD_BYTES,
    Utf8Check,
    claimed_by_name,
    is_honest,
    pixels,
    safe_name,
    sniff,
    spoken,
)
from tests.core.images import a_gif, a_jpeg, a_lossless_webp, a_lossy_webp, a_png, an_extended_webp

IMAGES = {
    "png": (a_png(640, 480), "image/png"),
    "gif": (a_gif(640, 480), "image/gif"),
    "jpeg": (a_jpeg(640, 480), "image/jpeg"),
    "webp, lossy": (a_lossy_webp(640, 480), "image/webp"),
    "webp, lossless": (a_lossless_webp(640, 480), "image/webp"),
    "webp, extended": (an_extended_webp(640, 480), "image/webp"),
}


@pytest.mark.parametrize(("image", "media_type"), IMAGES.values(), ids=IMAGES)
def test_an_image_tells_its_type_and_its_size(image: bytes, media_type: str) -> None:
    assert (sniff(image), pixels(image)) == (media_type, (640, 480))


@pytest.mark.parametrize(("image", "media_type"), IMAGES.values(), ids=IMAGES)
def test_an_image_cut_in_its_header_has_no_size(image: bytes, media_type: str) -> None:
    cut = image[: 9 if media_type == "image/gif" else 14]
    assert (sniff(cut), pixels(cut)) == (media_type, (0, 0))


@given(st.binary(max_size=200), st.sampled_from([b"", *(image[:12] for image, _ in IMAGES.values())]))
def test_no_bytes_make_the_readers_fail(tail: bytes, start: bytes) -> None:
    width, height = pixels(start + tail)
    assert width >= 0
    assert height >= 0


@pytest.mark.parametrize(
    ("head", "media_type"),
    [
        (b"%PDF-1.7\n%\xe2\xe3", "application/pdf"),
        (b"\xef\xbb\xbf\r\n%PDF-1.4", "application/pdf"),
        (b"about %PDF- files", "text/plain"),
        ("grüße, 世界".encode(), "text/plain"),
        # The head may end inside a character.
        ("世".encode()[:2], "text/plain"),
        (b"\x1b[31mred\x1b[0m\n", "text/plain"),
        (b"", ""),
        (b"\xff\xfeh\x00i\x00", ""),
        (b"text with \x00 in it", ""),
        (b"caf\xe9 in latin-1", ""),
        (b"PK\x03\x04\xff\xfe", ""),
        (b"RIFF\x00\x00\x00\x00WAVE\xff", ""),
    ],
)
def test_the_first_bytes_decide_what_something_is(head: bytes, media_type: str) -> None:
    assert (sniff(head), pixels(head)) == (media_type, (0, 0))


def test_the_size_of_a_jpeg_is_found_behind_its_metadata() -> None:
    preview = b"\xff\xe1" + struct.pack(">H", 60_002) + bytes(60_000)
    bare_and_fill = b"\xff\x01\xff\xff"
    image = a_jpeg(3_000, 2_000, before_frame=preview * 3 + bare_and_fill + b"\xe0\x00\x02")

    assert len(image) < HEAD_BYTES
    assert pixels(image) == (3_000, 2_000)


@pytest.mark.parametrize(
    "damage",
    [
        b"\xff\xda\x00\x02" + bytes(20),  # the scan starts and no frame came
        b"\x00" * 20,  # no marker where one must be
        b"\xff\xe1\x00\x00" * 10,  # a length below its own two bytes
    ],
)
def test_a_jpeg_without_a_frame_has_no_size(damage: bytes) -> None:
    assert pixels(b"\xff\xd8" + b"\xff\xe0\x00\x02" + damage) == (0, 0)


def test_a_png_whose_first_chunk_is_another_has_no_size() -> None:
    assert pixels(a_png(1, 1).replace(b"IHDR", b"tEXt")) == (0, 0)


@pytest.mark.parametrize("image", [a_lossy_webp(9, 9), a_lossless_webp(9, 9)])
def test_a_webp_with_a_wrong_signature_has_no_size(image: bytes) -> None:
    assert pixels(image[:20] + bytes(len(image) - 20)) == (0, 0)


@given(st.text(), st.lists(st.integers(0, 400), max_size=5))
def test_text_in_pieces_is_text_wherever_it_is_cut(text: str, cuts: list[int]) -> None:
    raw = text.encode()
    places = sorted({0, *(cut % (len(raw) + 1) for cut in cuts), len(raw)})
    check = Utf8Check()

    verdicts = [check.accepts(raw[start:end]) for start, end in itertools.pairwise(places)]

    assert all(verdicts) == ("\0" not in text)
    assert check.is_whole()


def test_text_that_ends_inside_a_character_is_not_whole() -> None:
    check = Utf8Check()
    assert check.accepts("世".encode()[:2])
    assert not check.is_whole()


@pytest.mark.parametrize(
    ("name", "claimed"),
    [
        ("photo.PNG", "image/png"),
        ("a.b.jpeg", "image/jpeg"),
        ("notes.md", "text/plain"),
        ("drawing.svg", "text/plain"),
        ("archive.zip", ""),
        ("png", ""),
        ("", ""),
    ],
)
def test_a_name_claims_a_type_only_by_a_suffix_we_know(name: str, claimed: str) -> None:
    assert claimed_by_name(name) == claimed


@pytest.mark.parametrize(
    ("claimed", "found", "honest"),
    [
        ("image/png", "image/png", True),
        ("image/jpg", "image/jpeg", True),
        ("", "application/pdf", True),
        ("application/octet-stream", "image/png", True),
        ("text/markdown; charset=utf-8", "text/plain", True),
        ("application/x-yaml", "text/plain", True),
        ("image/svg+xml", "text/plain", True),
        ("image/png", "application/pdf", False),
        ("application/pdf", "text/plain", False),
        ("video/mp4", "text/plain", False),
        ("text/plain", "image/png", False),
        ("application/zip", "image/png", False),
    ],
)
def test_a_claim_is_honest_only_if_the_bytes_can_be_that(claimed: str, found: str, honest: bool) -> None:  # noqa: FBT001 - a parameter of the table
    assert is_honest(claimed, found) is honest


def test_types_are_spoken_in_words_a_person_uses() -> None:
    assert [spoken(one) for one in ("image/png", "application/pdf", "video/mp4", "")] == [
        "a PNG image",
        "a PDF",
        "video/mp4",
        "of an unknown type",
    ]


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\photos\\me.png", "me.png"),
        ("two\nlines\x00.txt", "two\ufffdlines\ufffd.txt"),
        ("bad\udcff.txt", "bad\ufffd.txt"),
        (" spaced.txt ", "spaced.txt"),
        ("x" * 1_000, "x" * 255),
        ("", ""),
    ],
)
def test_a_name_is_made_fit_to_be_shown(name: str, safe: str) -> None:
    assert safe_name(name) == safe
