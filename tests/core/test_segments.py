"""Segments give back what went in, byte for byte, and a flipped bit anywhere is found and costs one frame at most."""

import hashlib
import random
from struct import pack
from unittest import mock
from zlib import compress, crc32

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.integrity import segments
from holdfast.core.integrity.segments import (
    FRAME_BYTES,
    HEADER_BYTES,
    Frame,
    Header,
    Kept,
    SegmentTornError,
    folder_of,
    header_size,
    name_of,
    pack_segment,
    range_in,
    salvage,
    unpack_frame,
    unpack_header,
    unpack_segment,
)

kept_rows = st.lists(
    st.tuples(st.floats(allow_nan=False), st.integers(0, 2**32 - 1), st.binary(max_size=200)), min_size=1, max_size=20
).map(lambda rows: [Kept(seq, at, checksum, body) for seq, (at, checksum, body) in enumerate(rows, start=7)])


def rows_of(count: int, *, size_bytes: int = 50, first: int = 1) -> list[Kept]:
    """Records of which no two are alike and which hardly compress."""
    rng = random.Random(count)
    return [
        Kept(seq, 1e9 + seq / 3, rng.getrandbits(32), rng.randbytes(size_bytes)) for seq in range(first, first + count)
    ]


@given(session=st.text(min_size=1, max_size=50), rows=kept_rows, frame_bytes=st.integers(1, 500))
def test_what_was_packed_comes_back_byte_for_byte(session: str, rows: list[Kept], frame_bytes: int) -> None:
    with mock.patch.object(segments, "FRAME_BYTES", frame_bytes):
        body = pack_segment(session, rows)

    header, found = unpack_segment(body)

    assert found == rows
    assert (header.session, header.first, header.last) == (session, rows[0].seq, rows[-1].seq)
    assert salvage(body) == rows


def test_the_same_records_give_the_same_bytes() -> None:
    assert pack_segment("s", rows_of(100)) == pack_segment("s", rows_of(100))
    assert pack_segment("s", rows_of(100)) != pack_segment("t", rows_of(100))


def test_one_record_is_read_by_the_header_and_one_frame() -> None:
    rows = rows_of(40, size_bytes=FRAME_BYTES // 4, first=11)
    body = pack_segment("s", rows)

    start = header_size(body[:HEADER_BYTES])
    header = unpack_header(body[:start])
    frame = header.frames[header.frame_of(30)]
    found = unpack_frame(body[start + frame.start : start + frame.start + frame.size])

    assert len(header.frames) == 10
    assert found == rows[16:20]
    assert [header.frame_of(seq) for seq in (11, 14, 15, 50)] == [0, 0, 1, 9]


def test_the_header_of_the_largest_segment_we_seal_is_read_at_once() -> None:
    rows = rows_of(40, size_bytes=FRAME_BYTES)

    assert header_size(pack_segment("\u2028" * 85, rows)) < HEADER_BYTES


@pytest.mark.parametrize("seed", range(4))
def test_a_flipped_bit_anywhere_is_found_and_costs_one_frame_at_most(seed: int) -> None:
    rows = rows_of(12)
    with mock.patch.object(segments, "FRAME_BYTES", 200):
        whole = pack_segment("s", rows)
    frames = unpack_header(whole).frames
    assert len(frames) == 3
    for place in range(seed, len(whole), 4):
        torn = bytearray(whole)
        torn[place] ^= 1 << (place % 8)
        with pytest.raises(SegmentTornError):
            unpack_segment(bytes(torn))
        lost = [row for row in rows if row not in salvage(bytes(torn))]
        assert len(lost) in {0, 4}, f"byte {place}"


def test_a_segment_that_is_cut_off_anywhere_or_goes_on_is_found() -> None:
    whole = pack_segment("s", rows_of(5))

    for length in range(len(whole)):
        with pytest.raises(SegmentTornError):
            unpack_segment(whole[:length])
    with pytest.raises(SegmentTornError, match="instead of"):
        unpack_segment(whole + b"x")


def a_segment(header: bytes, frames: bytes) -> bytes:
    start = pack("<8sI", whole_start(), len(header))
    return start + pack("<I", crc32(header, crc32(start))) + header + frames


def whole_start() -> bytes:
    return pack_segment("s", rows_of(1))[:8]


def a_frame(raw: bytes, *, count: int, raw_size: int | None = None, body: bytes | None = None) -> bytes:
    body = compress(raw) if body is None else body
    start = pack("<4sQIII", b"HFR\x01", 1, count, len(body), len(raw) if raw_size is None else raw_size)
    return start + pack("<I", crc32(body, crc32(start))) + body


ONE = pack("<dII", 0.0, 0, 1) + b"x"


@pytest.mark.parametrize(
    ("frame", "why"),
    [
        (b"", "cannot be read"),
        (a_frame(ONE, count=1, body=b"no deflate"), "cannot be read"),
        (a_frame(ONE, count=9), "cannot be read"),
        (a_frame(ONE, count=1, raw_size=3), "does not have the size"),
        (a_frame(ONE, count=1, raw_size=99), "does not have the size"),
        (a_frame(ONE, count=1, body=compress(ONE) + b"more"), "does not have the size"),
        (a_frame(ONE + b"more", count=1), "records do not have the size"),
    ],
)
def test_a_frame_that_contradicts_itself_is_refused_though_its_checksum_is_right(frame: bytes, why: str) -> None:
    with pytest.raises(SegmentTornError, match=why):
        unpack_frame(frame)


def test_a_header_that_contradicts_itself_is_refused_though_its_checksum_is_right() -> None:
    frame = a_frame(ONE, count=1)
    header = Header(1, "s", 1, 1, len(frame), (Frame(1, 1, 0, len(frame)),))
    encode = msgspec.json.encode

    assert unpack_segment(a_segment(encode(header), frame))[1] == [Kept(1, 0.0, 0, b"x")]
    for wrong, why in (
        (encode({"version": 1}), "cannot be decoded"),
        (encode(msgspec.structs.replace(header, version=2)), "version 2"),
        (encode(msgspec.structs.replace(header, last=2)), "do not match its header"),
    ):
        with pytest.raises(SegmentTornError, match=why):
            unpack_segment(a_segment(wrong, frame))


def test_a_name_tells_what_is_inside_and_leads_nowhere_else() -> None:
    sha256 = hashlib.sha256(b"x").hexdigest()

    name = name_of("../\x00 any key", 5, 1_204, sha256)

    assert name.startswith(folder_of("../\x00 any key"))
    assert name.endswith(f"/000000000005-000000001204-{sha256}")
    assert range_in(name) == (5, 1_204, sha256)
    assert [range_in(other) for other in ("", "a/b", name + "0", name.upper())] == [None] * 4
    assert folder_of("a") != folder_of("b")
