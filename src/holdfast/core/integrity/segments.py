"""Archive segments: a run of a session's records in a compressed, checksummed file format.

A segment is a header with the session, the range of records and the offset of each frame, followed by the frames. A
frame holds some records, compressed together, with a checksum of its own: reading one record takes the header and one
frame, and damage is limited to one frame. A record's time, checksum and body are stored exactly as in the store, so
unpacking returns the same bytes.
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
# Bytes of records compressed together. With 128 KiB real transcripts shrink to a tenth, at 70 MB/s (700 MB/s to
# decompress); with 64 KiB they are a tenth larger, with 1,024 a tenth smaller, and reading one record costs eight times
# as much.
FRAME_BYTES = 128 * 2**10
# zlib's default level: level 9 takes twice as long and saves 2 %.
_LEVEL = 6
# Enough for the header of any segment: some 40 bytes per frame, and the session's key.
HEADER_BYTES = 4 * 2**10

_MAGIC = b"HOLDSEG\x01"
_FRAME_MAGIC = b"HFR\x01"
# Before the header: magic, length and checksum of the header.
_START = Struct("<8sII")
# Before a frame: magic, first seq, number of records, compressed bytes, bytes, and the checksum of it all.
_FRAME = Struct("<4sQIIII")
_CHECKED = _FRAME.size - 4
# Length of a session's folder name, a prefix of the SHA-256 of its key: a key may have characters that a path cannot.
_FOLDER_CHARS = 32
_NAME = re.compile(rf"[0-9a-f]{{{_FOLDER_CHARS}}}/([0-9]{{12}})-([0-9]{{12}})-([0-9a-f]{{64}})")


class Kept(msgspec.Struct, frozen=True):
    """A record exactly as stored: its time, the store's checksum, and its bytes."""

    seq: int
    at: float
    crc32: int
    body: bytes


class Frame(msgspec.Struct, frozen=True, array_like=True):
    """A frame of a segment: first record, number of records, offset and size."""

    first: int
    count: int
    start: int
    size: int


class Header(msgspec.Struct, frozen=True):
    """Header of a segment. Offsets of frames are relative to its end."""

    version: int
    session: str
    first: int
    last: int
    size: int
    frames: tuple[Frame, ...]

    def frame_of(self, seq: int) -> int:
        """Return the index of the frame with a record."""
        return next(place for place, frame in enumerate(self.frames) if seq < frame.first + frame.count)


class SegmentTornError(ValueError):
    """A segment's bytes are damaged."""


_decoder = msgspec.json.Decoder(Header)


# --- Names ---


def folder_of(session: str) -> str:
    """Return the name prefix of a session's segments."""
    return sha256(session.encode()).hexdigest()[:_FOLDER_CHARS] + "/"


def name_of(session: str, first: int, last: int, sha256_hex: str) -> str:
    """Return the name of a segment: it has the range of records, sorts by seq, and is unique to the content."""
    return f"{folder_of(session)}{first:012}-{last:012}-{sha256_hex}"


def range_in(name: str) -> tuple[int, int, str] | None:
    """Parse first, last and SHA-256 from the name of a segment; None if it is not one."""
    found = _NAME.fullmatch(name)
    return None if found is None else (int(found[1]), int(found[2]), found[3])


# --- Writing ---


def pack_segment(session: str, rows: Sequence[Kept]) -> bytes:
    """Return the bytes of a segment. Deterministic, so that a segment left by a crash is reused."""
    assert rows, "a segment is not empty"
    assert all(after.seq == before.seq + 1 for before, after in pairwise(rows)), "records have no gap"
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
    # Column by column, which compresses better than record by record.
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


# --- Reading ---


def header_size(beginning: bytes) -> int:
    """Return the offset of the first frame, given at least the first 16 bytes."""
    if len(beginning) < _START.size:
        raise SegmentTornError("it is too short")
    magic, length, _ = _START.unpack_from(beginning)
    if magic != _MAGIC:
        raise SegmentTornError("its first bytes are not those of a known segment version")
    return _START.size + int(length)


def unpack_header(beginning: bytes) -> Header:
    """Return the header of a segment, given at least its first `header_size` bytes."""
    end = header_size(beginning)
    if len(beginning) < end:
        raise SegmentTornError("its header is truncated")
    _, _, checksum = _START.unpack_from(beginning)
    body = beginning[_START.size : end]
    if crc32(body, crc32(beginning[: _START.size - 4])) != checksum:
        raise SegmentTornError("its header does not match its checksum")
    try:
        header = _decoder.decode(body)
    except msgspec.DecodeError as torn:
        raise SegmentTornError(f"its header is intact, but cannot be decoded: {torn}") from torn
    if header.version != VERSION:
        raise SegmentTornError(f"it has version {header.version}; this code reads version {VERSION}")
    return header


def unpack_frame(frame: bytes) -> list[Kept]:
    """Return the records of one frame, verified."""
    try:
        magic, first, count, size, raw_size, checksum = _FRAME.unpack_from(frame)
        body = frame[_FRAME.size : _FRAME.size + size]
        if magic != _FRAME_MAGIC or len(body) != size:
            raise SegmentTornError("a frame is truncated or has wrong first bytes")
        if crc32(body, crc32(frame[:_CHECKED])) != checksum:
            raise SegmentTornError("a frame does not match its checksum")
        return _unpack_rows(first, count, _inflate(body, raw_size))
    except (error, ZlibError) as torn:
        raise SegmentTornError(f"a frame cannot be read: {torn}") from torn


def _inflate(body: bytes, raw_size: int) -> bytes:
    # At most the size in the frame: protects against decompression bombs.
    stream = decompressobj()
    raw = stream.decompress(body, raw_size + 1)
    if len(raw) != raw_size or not stream.eof or stream.unused_data:
        raise SegmentTornError("a frame does not have the size in its header")
    return raw


def _unpack_rows(first: int, count: int, raw: bytes) -> list[Kept]:
    times = unpack_from(f"<{count}d", raw)
    checksums = unpack_from(f"<{count}I", raw, 8 * count)
    lengths = unpack_from(f"<{count}I", raw, 12 * count)
    ends = list(accumulate(lengths, initial=16 * count))
    if ends[-1] != len(raw):
        raise SegmentTornError("a frame's records do not have the size in its header")
    places = zip(times, checksums, pairwise(ends), strict=True)
    return [
        Kept(seq, at, checksum, raw[start:end]) for seq, (at, checksum, (start, end)) in enumerate(places, start=first)
    ]


def unpack_segment(body: bytes) -> tuple[Header, list[Kept]]:
    """Return header and records of a segment, fully verified."""
    header, start = unpack_header(body), header_size(body)
    if len(body) != start + header.size:
        raise SegmentTornError(f"it has {len(body):,} bytes instead of {start + header.size:,}")
    rows = [
        row
        for frame in header.frames
        for row in unpack_frame(body[start + frame.start : start + frame.start + frame.size])
    ]
    if [row.seq for row in rows] != list(range(header.first, header.last + 1)):
        raise SegmentTornError("its frames do not match its header")
    return header, rows


def salvage(body: bytes) -> list[Kept]:
    """Return the records of all intact frames, even if the header or other frames are damaged."""
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


# --- Sealing policy: never records that the view, the turn or the next undo still reads ---


class Sealing(msgspec.Struct, frozen=True):
    """Policy for sealing records into segments."""

    # Records before the boundary that stay live: about as many as two compactions of a busy session, so that an undo
    # and the next summary rarely read the archive.
    margin_records: int = 1_000
    # Older records are sealed if there are this many records, this many bytes, or one of this age.
    records_min: int = 1_000
    bytes_min: int = 2**20
    age_seconds: float = 7 * 24 * 3_600.0
    # Largest segment in records and, except for its last record, in bytes: a quarter of a second of idle work, and a
    # few MiB of memory.
    segment_records_max: int = 2_000
    segment_bytes_max: int = 4 * 2**20


USUAL_SEALING = Sealing()


def sealable_until(turn: Turn, sealing: Sealing) -> int:
    """Return the last record that the session state allows to seal; 0: none."""
    # The view of a session without a compaction starts at the first record.
    needed = [turn.boundary, *turn.waiting, *(wanted.seq for wanted in turn.wanted)]
    if turn.number:
        needed.append(turn.number)
    return max(min(needed) - 1 - sealing.margin_records, 0)


def run_to_seal(rows: Sequence[Kept], *, until: int, now: float, sealing: Sealing) -> Sequence[Kept]:
    """Return the records to seal now, given the first live ones up to `until` or as many as a segment holds.

    Empty if sealing is not due yet.
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
