"""Session rows and record rows: the checks and decoding that all stores share.

Every check runs before any change, so a rejected operation leaves the row as it was.
"""

import math
import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from struct import Struct
from struct import error as StructError  # noqa: N812 - a class with a lower-case name
from typing import Any
from zlib import MAX_WBITS, compressobj, crc32, decompressobj
from zlib import error as ZlibError  # noqa: N812 - the module calls it `error`, as does struct

import msgspec

from holdfast.core.integrity.reconcile import BadRow, Run
from holdfast.core.integrity.segments import Kept
from holdfast.core.limits.bounds import RESERVED_KEYS
from holdfast.errors import BadInputError, LeaseLostError, QueueFullError, SeqMovedError, StoreDamagedError
from holdfast.ports import Lease, RowCheck, Segment, SessionInfo
from holdfast.stores.listing import NO_HOUR, ListingChange, end_of_hour, hour_of
from holdfast.types.records import (
    AnyRecord,
    DamageSetAside,
    InputAdmitted,
    Logged,
    SegmentSealed,
    decode_record,
    encode_record,
)

# Far above the bounds of the engine, and far below the limits of SQLite and memory for one row.
RECORD_BYTES_MAX = 256 * 2**20


_pack_position = Struct("<qqd").pack


def check_key(session: str) -> None:
    """Reject a key that is empty or not well-formed Unicode."""
    if session and session.isascii():
        return
    if not session:
        raise BadInputError("the session key is empty; use a non-empty key")
    try:
        session.encode()
    except UnicodeEncodeError as error:
        raise BadInputError(f"the session key {session!r} is not well-formed Unicode; use plain text") from error


def check_lease_term(session: str, owner: str, seconds: float) -> None:
    """Reject a lease without an owner or without a positive finite time."""
    check_key(session)
    if not owner or not owner.isprintable():
        raise BadInputError(f"session {session!r}: {owner!r} cannot own a lease; use a printable name")
    if not 0 < seconds < math.inf:
        raise BadInputError(f"session {session!r}: a lease cannot last {seconds} seconds; use a positive number")


def check_not_sealed(session: str, key: str, segments: object) -> None:
    """Reject a new key for a session whose segments name the old one. Reserved keys are for deletion, so they pass."""
    if segments and not key.startswith(RESERVED_KEYS):
        raise BadInputError(
            f"session {session!r} has records in the archive under its own key and cannot be renamed to {key!r}; "
            "export it and import it under the new key"
        )


def body_of(session: str, record: AnyRecord) -> bytes:
    """Encode a record, or reject it."""
    try:
        body = encode_record(record)
    except UnicodeEncodeError as error:
        raise BadInputError(
            f"session {session!r}: a {type(record).__name__} holds text that is not well-formed Unicode; "
            "replace lone surrogates before sending"
        ) from error
    if len(body) > RECORD_BYTES_MAX:
        raise BadInputError(
            f"session {session!r}: a {type(record).__name__} of {len(body):,} bytes is larger than "
            f"{RECORD_BYTES_MAX:,}; send large content as an attachment"
        )
    return body


def record_crc32(number: int, seq: int, at: float, body: bytes) -> int:
    """Return the checksum of a record at its position, so that an altered or moved row does not match."""
    return crc32(body, crc32(_pack_position(number, seq, at)))


def seal_record(lease: Lease, segment: Segment) -> SegmentSealed:
    """Return the record of a seal. Rejects a segment of another session."""
    if segment.session != lease.session or not 0 < segment.first <= segment.last:
        raise BadInputError(
            f"session {lease.session!r}: records {segment.first} to {segment.last} of {segment.session!r} cannot be "
            "sealed under its lease"
        )
    return SegmentSealed(segment.first, segment.last, segment.name, segment.sha256, segment.size)


def not_next_error(segment: Segment, first: int, last: int) -> BadInputError:
    """Return the error for a segment that does not hold the next records to seal."""
    return BadInputError(
        f"session {segment.session!r}: records {segment.first} to {segment.last} cannot be sealed; "
        f"its live records up to there are {first} to {last}"
    )


def open_call_error(segment: Segment, call: int) -> BadInputError:
    """Return the error for a segment that separates a call from its result: search indexes them together."""
    return BadInputError(
        f"session {segment.session!r}: records {segment.first} to {segment.last} cannot be sealed; "
        f"the calls of record {call} are still open"
    )


class SessionRow(msgspec.Struct):
    """State of one session: end of its log, pending inputs and lease."""

    key: str
    # The store's internal number; 0 if it has none yet.
    number: int = 0
    last_seq: int = 0
    owed: int = 0
    # None while the log is empty.
    created_at: float | None = None
    updated_at: float = 0.0
    # The newest fence. It only grows, also while the lease is free.
    fence: int = 0
    # The lease holder: the name that the caller gave, and its store instance. None: the lease is free.
    owner: str | None = None
    instance: str | None = None
    lease_until: float = 0.0
    # Of its row in the list of sessions: whether it has the beginning of a message, and the hour of its last change.
    has_opening: bool = False
    hour: int = NO_HOUR
    # Up to this time a record without such a change leaves that row as it is. 0: not known yet.
    listed_until: float = 0.0

    def is_listed_anew(self, change: ListingChange, at: float) -> bool:
        """Note a change of the row in the list of sessions, at a time, and return whether it must be written."""
        hour = hour_of(at)
        is_new = hour > self.hour or change.labels is not None or change.configured is not None
        is_new = is_new or (bool(change.opening) and not self.has_opening)
        self.hour, self.has_opening = max(self.hour, hour), self.has_opening or bool(change.opening)
        self.listed_until = end_of_hour(self.hour)
        return is_new

    def check_lease(self, lease: Lease) -> None:
        """Reject a writer whose lease was taken over or released. Expiry alone does not end a lease."""
        if self.owner is None or lease.fence != self.fence:
            raise LeaseLostError(lease.session, lease.fence)

    def check_after(self, after: int | None) -> None:
        """Reject a writer that has not seen the newest record. None skips the check."""
        if after is not None and after != self.last_seq:
            raise SeqMovedError(self.key, after, self.last_seq)

    def check_queue(self, inputs_waiting_max: int) -> None:
        """Reject an input if too many are pending."""
        if self.owed >= inputs_waiting_max:
            raise QueueFullError(self.key, self.owed)

    def extend(self, records: int, owed: int, at: float) -> None:
        """Update the row after an append. `owed` is the change in the number of pending inputs."""
        if self.created_at is None:
            self.created_at = at
        self.last_seq += records
        self.owed += owed
        self.updated_at = at

    def is_held_by(self, owner: str, instance: str) -> bool:
        """Return whether this worker of this store instance holds the lease."""
        return self.owner == owner and self.instance == instance

    def is_expired(self, now: float) -> bool:
        """Return whether the lease is free or was not renewed in time."""
        return self.owner is None or now >= self.lease_until

    def grant_lease(self, owner: str, instance: str, until: float) -> Lease:
        """Give the lease to a worker, under a new fence."""
        self.owner, self.instance, self.lease_until = owner, instance, until
        self.fence += 1
        return Lease(session=self.key, owner=owner, fence=self.fence, expires_at=until)

    def extend_lease(self, until: float) -> Lease:
        """Move the expiry of the lease."""
        assert self.owner is not None, "check_lease comes first"
        self.lease_until = until
        return Lease(session=self.key, owner=self.owner, fence=self.fence, expires_at=until)

    def clear_lease(self) -> None:
        """Free the lease. Its fence is not used again."""
        self.owner = self.instance = None
        self.lease_until = 0.0

    def info(self) -> SessionInfo | None:
        """Return the summary of the session, or None while its log is empty."""
        if self.created_at is None:
            return None
        return SessionInfo(self.key, self.last_seq, self.owed, self.created_at, self.updated_at)


# --- Record rows: checks and decoding ---

# A longer gap is not replaced by placeholders: flipped bits do not cause it, so the log was truncated.
GAP_MAX = 10_000
ALTERED = "its bytes do not match their checksum"
MISSING = "its row is missing"
LOWEST_SEQ = -(2**63)

# The first bytes of an encoded input: a hint at the type of a damaged record.
_INPUT_HEAD = f'{{"type":"{InputAdmitted.__name__}"'.encode()


def is_intact(number: int, row: Sequence[Any]) -> bool:
    """Return whether a row matches its checksum."""
    seq, at, checksum, body = row
    try:
        return bool(record_crc32(number, seq, at, body) == checksum)
    except (TypeError, StructError):
        # A damaged file may hold values of another type.
        return False


def decode_rows(
    session: str, number: int, rows: Iterable[Sequence[Any]], after: int, *, until: int = 0
) -> Iterator[Logged]:
    """Yield records in order of seq, with a placeholder for each damaged or missing one.

    `until` is the end of the log, if it is known and the rows are the last ones. Raises `StoreDamagedError` at an
    intact row of an unknown type, and at a gap that damage does not explain.
    """
    expected, at = after, 0.0
    pending: Logged | None = None
    for row in rows:
        seq = row[0]
        if not is_intact(number, row):
            if (fits_at(number, row) or seq) == expected + 1:
                if pending is not None:
                    yield pending
                expected += 1
                pending = _placeholder(expected, row[1], ALTERED)
            continue
        if seq < expected or (seq == expected and pending is None):
            # A second row for the same seq.
            continue
        if pending is not None and seq != expected:
            yield pending
        pending = None
        yield from _placeholders(session, expected, seq, row[1])
        expected, at = seq, row[1]
        yield _decoded(session, row)
    if pending is not None:
        yield pending
    yield from _placeholders(session, expected, until + 1, at)


def _placeholders(session: str, last: int, next_seq: int, at: float) -> Iterator[Logged]:
    """Yield a placeholder for each missing record between two seqs."""
    if next_seq - last > GAP_MAX:
        raise StoreDamagedError(session, last + 1, f"{next_seq - last - 1:,} records are missing at once")
    for missing in range(last + 1, next_seq):
        yield _placeholder(missing, at, MISSING)


def _placeholder(seq: int, at: object, why: str) -> Logged:
    return Logged(seq, at if isinstance(at, float) else 0.0, DamageSetAside(why))


def _decoded(session: str, row: Sequence[Any]) -> Logged:
    seq, at, _, body = row
    try:
        return Logged(seq, at, decode_record(body))
    except msgspec.DecodeError as error:
        raise StoreDamagedError(
            session, seq, f"its bytes are intact, but its record type is unknown: {error}"
        ) from error


def clean_rows(session: str, number: int, rows: Sequence[Sequence[Any]], after: int) -> list[Kept]:
    """Return rows as stored. They must follow `after` without a gap.

    Raises `StoreDamagedError` at a damaged or missing row: only clean rows may be sealed.
    """
    for expected, row in enumerate(rows, start=after + 1):
        if row[0] != expected:
            raise StoreDamagedError(session, expected, MISSING)
        if not is_intact(number, row):
            raise StoreDamagedError(session, row[0], ALTERED)
    return [Kept(*row) for row in rows]


def check_page(number: int, rows: Sequence[Sequence[Any]], limit: int) -> RowCheck:
    """Check a page of rows; see `Maintenance.check_rows`.

    The page has more than `limit` rows only if the last ones claim the same seq.
    """
    intact: list[Run] = []
    bad: list[BadRow] = []
    for row in rows:
        seq = row[0]
        if not is_intact(number, row):
            bad.append(_bad(number, row))
        elif intact and seq <= intact[-1].last + 1:
            intact[-1] = Run(intact[-1].first, max(seq, intact[-1].last))
        else:
            intact.append(Run(seq, seq))
    return RowCheck(tuple(intact), tuple(bad), rows[-1][0] if len(rows) >= limit else None)


def _bad(number: int, row: Sequence[Any]) -> BadRow:
    seq, _, _, body = row
    head = bytes(body[: len(_INPUT_HEAD)]) if isinstance(body, bytes) else b""
    same = sum(here == there for here, there in zip(head, _INPUT_HEAD, strict=False))
    # One or two flipped bits leave most of the type name intact.
    return BadRow(seq, ALTERED, fits_at(number, row), same >= len(_INPUT_HEAD) - 2)


def fits_at(number: int, row: Sequence[Any]) -> int:
    """Return the original seq of a row whose seq has one flipped bit, found by its checksum; 0 if there is none."""
    seq, at, checksum, body = row
    candidates = (seq ^ (1 << bit) for bit in range(63))
    return max(next((other for other in candidates if is_intact(number, (other, at, checksum, body))), 0), 0)


# --- Packed bodies ---

# A body that a caller appended has a message and the caller's own bytes, mostly the same text twice. The SQLite store
# keeps such bodies compressed: their first byte is the kind of packing, and that of any other body is "{". Checksums
# and digests are those of the body as it was appended.
PACKED_BYTES_MIN = 128
_DEFLATED, _DEFLATED_CONTENT = 1, 2
# Frames of such records, the most frequent last. Packed rows cannot be read without it: another text is another kind.
_DICTIONARY = (
    rb"\"additional_kwargs\":{},\"id\":\"\",\"name\":\"\",\"args\":{},\"type\":\"function_call_output\",\"call_id\":\""
    rb'","call_id":"call_","outcome":"failed","originals":[{"sha256":"","size_bytes":,"media_type":"image/png"'
    rb"\"created_at\":\"2026-01-01T00:00:00.000000+00:00\",\"metadata\":{},\"content\":[{\"type\":\"text\",\"text\":\""
    rb'{"type":"MessageAppended","role":"tool","parts":[{"type":"tool_result","call_id":"","parts":[{"type":"text",'
    rb'{"type":"MessageAppended","role":"assistant","parts":[{"type":"tool_call","call_id":"","name":"","arguments":"{\"'
    rb'{"type":"PayloadStored","payload":{"tag":"","content":""},"client_id":"'
    rb'{\"role\": \"assistant\", \"content\": \"\"}"}}"}],"turn":,"client_id":"","payload":{"tag":"","text":"{\"'
    rb'{"type":"MessageAppended","role":"user","parts":[{"type":"text","text":"'
)
_span = Struct("<BII")
# The bytes of a payload, which JSON has in base64.
_CONTENT = re.compile(rb'"content":"((?:[A-Za-z0-9+/]{4}){16,}+(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?)"')


def packed(body: bytes) -> bytes:
    """Return a body compressed, or as it is if that is not shorter."""
    if len(body) < PACKED_BYTES_MIN:
        return body
    head, plain = bytes([_DEFLATED]), body
    if (found := _CONTENT.search(body)) and b64encode(content := b64decode(found[1])) == found[1]:
        start, end = found.span(1)
        head, plain = _span.pack(_DEFLATED_CONTENT, start, len(content)), body[:start] + content + body[end:]
    stream = compressobj(1, wbits=-MAX_WBITS, zdict=_DICTIONARY)
    short = head + stream.compress(plain) + stream.flush()
    return short if len(short) < len(body) else body


def unpacked(body: bytes) -> bytes:
    """Return a body as it was appended. A damaged one is returned as it is: it does not match its checksum."""
    try:
        if body[0] not in (_DEFLATED, _DEFLATED_CONTENT):
            return body
        start = size = 0
        head = 1 if body[0] == _DEFLATED else _span.size
        if body[0] == _DEFLATED_CONTENT:
            _, start, size = _span.unpack_from(body)
        stream = decompressobj(-MAX_WBITS, zdict=_DICTIONARY)
        plain = stream.decompress(body[head:], RECORD_BYTES_MAX)
    except (ZlibError, StructError, IndexError, TypeError):
        # A damaged file may hold values of another type.
        return body
    return plain[:start] + b64encode(plain[start : start + size]) + plain[start + size :] if size else plain


def unpacked_rows(rows: Iterable[Sequence[Any]]) -> list[Sequence[Any]]:
    """Return rows with their bodies, the last column, as they were appended."""
    rows = list(rows)
    with suppress(TypeError, IndexError):
        # Most sessions have none. A damaged file may hold values of another type.
        if not any([row[-1][0] <= _DEFLATED_CONTENT for row in rows]):  # noqa: C419 - a generator takes twice as long
            return rows
    return [row if (body := unpacked(row[-1])) is row[-1] else (*row[:-1], body) for row in rows]


class LogEnd:
    """End of a log whose seqs are inconsistent: the last intact row.

    Damaged rows that directly follow it count too, whatever seq they claim: a flipped bit may have moved the newest
    row. Other seqs are not trusted. The caller adds all rows, in any order.
    """

    def __init__(self, number: int, sealed_until: int) -> None:
        self._number, self._end = number, sealed_until
        self._places: set[int] = set()

    def add(self, row: Sequence[Any]) -> None:
        """Add a row."""
        if is_intact(self._number, row):
            self._end = max(self._end, row[0])
        else:
            self._places.add(fits_at(self._number, row) or row[0])

    @property
    def seq(self) -> int:
        """The seq of the last record."""
        end = self._end
        while end + 1 in self._places:
            end += 1
        return end
