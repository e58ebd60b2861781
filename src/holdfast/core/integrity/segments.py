"""Segments: a run of a session's records as one piece of bytes, compressed, in which every flipped bit is found.

A segment is a header, which says whose records these are and where each frame begins, and then the frames. A frame
holds some records, compressed together, and has a checksum of its own: reading one record takes the header and one
frame, and damage costs no more than the frame it is in. A record's time, checksum and body are kept exactly as the
store kept them, so what comes out is what went in, byte for byte.
"""

import re
from collections.abc import Iterator, Sequence
from hashlib import sha256
from itertools import accumulate, pairwise
from struct import Struct, error, pack, unpack_from
from zlib import compress as deflate
from zlib import crc32, decompressobj
from zlib import error as ZlibError  # noqa: N812 - the module calls it `error`, as does struct

import msgspec

from holdfast.core.fold.session_state import Turn

VERSION = 1
# Records compressed together. With 128 KiB real transcripts shrink to a tenth at 70 MB/s and come back at 700; with 64
# they are a tenth larger, with 1,024 a tenth smaller, and reading one record costs eight times as much.
FRAME_BYTES = 128 * 2**10
# zlib's usual level: 9 takes twice as long for two hundredths.
_LEVEL = 6
# Enough for the header of any segment that we seal: some 40 bytes per frame, and the session's key.
HEADER_BYTES = 4 * 2**10

_MAGIC = b"HOLDSEG\x01"
_FRAME_MAGIC = b"HFR\x01"
# What stands before the header: magic, its length, its checksum.
_START = Struct("<8sII")
# What stands before a frame: magic, first seq, records, compressed bytes, bytes, and the checksum of all of it.
_FRAME = Struct("<4sQIIII")
_CHECKED = _FRAME.size - 4
# A session's folder is named by this much of the SHA-256 of its key: a key may hold anything, a name may not.
_FOLDER_CHARS = 32
_NAME = re.compile(rf"[0-9a-f]{{{_FOLDER_CHARS}}}/([0-9]{{12}})-([0-9]{{12}})-([0-9a-f]{{64}})")


class Kept(msgspec.Struct, frozen=True):
    """A record exactly as a store keeps it: when it came, the store's checksum over it, and its bytes."""

    seq: int
    at: float
    crc32: int
    body: bytes


class Frame(msgspec.Struct, frozen=True, array_like=True):
    """Where some records of a segment are: the first, how many, and which bytes."""

    first: int
    count: int
    start: int
    size: int


class Header(msgspec.Struct, frozen=True):
    """Whose records a segment holds, which, and in which frames. Frames begin to count where the header ends."""

    version: int
    session: str
    first: int
    last: int
    size: int
    frames: tuple[Frame, ...]

    def frame_of(self, seq: int) -> int:
        """Return the place of the frame that holds a record."""
        return next(place for place, frame in enumerate(self.frames) if seq < frame.first + frame.count)


class SegmentTornError(ValueError):
    """These bytes are not what was sealed."""


_decoder = msgspec.json.Decoder(Header)


# Names.


def folder_of(session: str) -> str:
    """Return what the names of all segments of a session begin with."""
    return sha256(session.encode()).hexdigest()[:_FOLDER_CHARS] + "/"


def name_of(session: str, first: int, last: int, sha256_hex: str) -> str:
    """Return the name of a segment: it tells what is inside, sorts by seq, and is another one for other bytes."""
    return f"{folder_of(session)}{first:012}-{last:012}-{sha256_hex}"


def range_in(name: str) -> tuple[int, int, str] | None:
    """Return first, last and SHA-256 as the name of a segment tells them; None where it is no such name."""
    found = _NAME.fullmatch(name)
    return None if found is None else (int(found[1]), int(found[2]), found[3])


# Writing.


def pack_segment(session: str, rows: Sequence[Kept]) -> bytes:
    """Return the bytes of a segment. The same rows give the same bytes, so that what a crash left is used again."""
    assert rows, "there is something to seal"
    assert all(after.seq == before.seq + 1 for before, after in pairwise(rows)), "records stand without a gap"
    packed = [(group[0].seq, len(group), _pack_frame(group)) for group in _groups(rows)]
    starts = accumulate((len(body) for _, _, body in packed), initial=0)
    frames = tuple(
        Frame(first, count, start, len(body)) for (first, count, body), start in zip(packed, starts, strict=False)
    )
    size = sum(len(body) for _, _, body in packed)
    header = msgspec.json.encode(Header(VERSION, session, rows[0].seq, rows[-1].seq, size, frames))
    start = pack("<8sI", _MAGIC, len(header))
    return b"".join([start, pack("<I", crc32(header, crc32(start))), header, *(body for _, _, body in packed)])


def _groups(rows: Sequence[Kept]) -> Iterator[list[Kept]]:
    group: list[Kept] = []
    size_bytes = 0
    for row in rows:
        group.append(row)
        size_bytes += len(row.body)
        if size_bytes >= FRAME_BYTES:
            yield group
            group, size_bytes = [], 0
    if group:
        yield group


def _pack_frame(rows: Sequence[Kept]) -> bytes:
    # Like stands beside like, which compresses better than record after record.
    count = len(rows)
    raw = b"".join(
        [
            pack(f"<{count}d", *(row.at for row in rows)),
            pack(f"<{count}I", *(row.crc32 for row in rows)),
            pack(f"<{count}I", *(len(row.body) for row in rows)),
            *(row.body for row in rows),
        ]
    )
    body = deflate(raw, _LEVEL)
    start = pack("<4sQIII", _FRAME_MAGIC, rows[0].seq, count, len(body), len(raw))
    return b"".join([start, pack("<I", crc32(body, crc32(start))), body])


# Reading.


def header_size(beginning: bytes) -> int:
    """Return how many bytes stand before the first frame, given at least the first 16."""
    if len(beginning) < _START.size:
        raise SegmentTornError("it is too short")
    magic, length, _ = _START.unpack_from(beginning)
    if magic != _MAGIC:
        raise SegmentTornError("it does not begin like a segment of a version that is known here")
    return _START.size + int(length)


def unpack_header(beginning: bytes) -> Header:
    """Return the header of a segment, given its first bytes, as many as `header_size` says at least."""
    end = header_size(beginning)
    if len(beginning) < end:
        raise SegmentTornError("its header is cut off")
    _, _, checksum = _START.unpack_from(beginning)
    body = beginning[_START.size : end]
    if crc32(body, crc32(beginning[: _START.size - 4])) != checksum:
        raise SegmentTornError("its header does not match its checksum")
    try:
        header = _decoder.decode(body)
    except msgspec.DecodeError as torn:
        raise SegmentTornError(f"its header is whole, but not understood: {torn}") from torn
    if header.version != VERSION:
        raise SegmentTornError(f"it has version {header.version}, known is {VERSION}")
    return header


def unpack_frame(frame: bytes) -> list[Kept]:
    """Return the records of one frame, checked."""
    try:
        magic, first, count, size, raw_size, checksum = _FRAME.unpack_from(frame)
        body = frame[_FRAME.size : _FRAME.size + size]
        if magic != _FRAME_MAGIC or len(body) != size:
            raise SegmentTornError("a frame is cut off or does not begin like one")
        if crc32(body, crc32(frame[:_CHECKED])) != checksum:
            raise SegmentTornError("a frame does not match its checksum")
        return _unpack_rows(first, count, _inflate(body, raw_size))
    except (error, ZlibError) as torn:
        raise SegmentTornError(f"a frame cannot be read: {torn}") from torn


def _inflate(body: bytes, raw_size: int) -> bytes:
    # Never more than the frame says: bytes that were made to grow without end do not.
    stream = decompressobj()
    raw = stream.decompress(body, raw_size + 1)
    if len(raw) != raw_size or not stream.eof or stream.unused_data:
        raise SegmentTornError("a frame has another length than it says")
    return raw


def _unpack_rows(first: int, count: int, raw: bytes) -> list[Kept]:
    times = unpack_from(f"<{count}d", raw)
    checksums = unpack_from(f"<{count}I", raw, 8 * count)
    lengths = unpack_from(f"<{count}I", raw, 12 * count)
    ends = list(accumulate(lengths, initial=16 * count))
    if ends[-1] != len(raw):
        raise SegmentTornError("a frame's records have another length than it says")
    places = zip(times, checksums, pairwise(ends), strict=True)
    return [
        Kept(seq, at, checksum, raw[start:end]) for seq, (at, checksum, (start, end)) in enumerate(places, start=first)
    ]


def unpack_segment(body: bytes) -> tuple[Header, list[Kept]]:
    """Return everything in a segment, checked from end to end."""
    header, start = unpack_header(body), header_size(body)
    if len(body) != start + header.size:
        raise SegmentTornError(f"it has {len(body):,} bytes instead of {start + header.size:,}")
    rows = [
        row
        for frame in header.frames
        for row in unpack_frame(body[start + frame.start : start + frame.start + frame.size])
    ]
    if [row.seq for row in rows] != list(range(header.first, header.last + 1)):
        raise SegmentTornError("its frames are not those that its header names")
    return header, rows


def salvage(body: bytes) -> list[Kept]:
    """Return the records of all frames that are whole, whatever happened to the header and the other frames."""
    rows: list[Kept] = []
    place = body.find(_FRAME_MAGIC)
    while place >= 0:
        try:
            found = unpack_frame(body[place:])
        except SegmentTornError:
            place = body.find(_FRAME_MAGIC, place + 1)
            continue
        rows += found
        place = body.find(_FRAME_MAGIC, place + _FRAME.size)
    return rows


# --- When records move into the archive, and which: never what the view, the turn or the next undo still reads.


class Sealing(msgspec.Struct, frozen=True):
    """When to seal, and how much at once."""

    # Records behind the boundary that stay live: about what two compactions of a busy session put there, so that
    # undoing the last ones, and the next summary, seldom need the archive. Both work where they do.
    margin_records: int = 1_000
    # Behind those, any one of these makes it time: this many records, this many bytes, or one this old.
    records_min: int = 1_000
    bytes_min: int = 2**20
    age_seconds: float = 7 * 24 * 3_600.0
    # One segment has at most this many records and, but for the last of them, bytes: a quarter of a second of work in
    # an idle moment, and a few MiB of memory.
    segment_records_max: int = 2_000
    segment_bytes_max: int = 4 * 2**20


USUAL_SEALING = Sealing()


def sealable_until(turn: Turn, sealing: Sealing) -> int:
    """Return the last record that may be sealed by where a session stands; 0: none."""
    # A session that was never compacted is in its view from the first record on.
    needed = [turn.boundary, *turn.waiting, *(wanted.seq for wanted in turn.wanted)]
    if turn.number:
        needed.append(turn.number)
    return max(min(needed) - 1 - sealing.margin_records, 0)


def run_to_seal(rows: Sequence[Kept], *, until: int, now: float, sealing: Sealing) -> Sequence[Kept]:
    """Return what to seal now of the first live records, given those up to `until` or as many as a segment takes.

    Nothing where it is not yet time.
    """
    within: list[Kept] = []
    size_bytes = 0
    for row in rows[: sealing.segment_records_max]:
        if row.seq > until or size_bytes >= sealing.segment_bytes_max:
            break
        within.append(row)
        size_bytes += len(row.body)
    if not within:
        return ()
    is_due = (
        until - within[0].seq + 1 >= sealing.records_min
        or size_bytes >= sealing.bytes_min
        or now - within[0].at >= sealing.age_seconds
    )
    return within if is_due else ()
