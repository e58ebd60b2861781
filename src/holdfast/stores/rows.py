"""What a store knows of a session besides its log, and the rules for changing it.

Each rule is checked before anything is changed, so an operation that is refused leaves the row as it was.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from struct import error as StructError  # noqa: N812 - a class, whatever its module calls it
from struct import pack
from typing import Any
from zlib import crc32

import msgspec

from holdfast.core.integrity.reconcile import BadRow, Run
from holdfast.core.integrity.segments import Kept
from holdfast.core.limits.bounds import RESERVED_KEYS
from holdfast.errors import BadInputError, LeaseLostError, QueueFullError, SeqMovedError, StoreDamagedError
from holdfast.ports import Lease, RowCheck, Segment, SessionInfo
from holdfast.types.records import (
    AnyRecord,
    DamageSetAside,
    InputAdmitted,
    Logged,
    SegmentSealed,
    decode_record,
    encode_record,
)

# Far above what the engine's own bounds let through, and far below what SQLite and memory can take in one row.
RECORD_BYTES_MAX = 256 * 2**20


def check_key(session: str) -> None:
    """Refuse a key that could not be stored and found again: the empty one, and what is not well-formed Unicode."""
    if not session:
        raise BadInputError("a session needs a key that is not empty")
    try:
        session.encode()
    except UnicodeEncodeError as error:
        raise BadInputError(f"the session key {session!r} is not well-formed Unicode; use plain text") from error


def check_lease_term(session: str, owner: str, seconds: float) -> None:
    """Refuse a lease for nobody, or for a time that cannot be counted."""
    check_key(session)
    if not owner or not owner.isprintable():
        raise BadInputError(f"session {session!r}: {owner!r} cannot own a lease; give a printable name")
    if not 0 < seconds < math.inf:
        raise BadInputError(f"session {session!r}: a lease cannot last {seconds} seconds; give a positive number")


def check_not_sealed(session: str, key: str, segments: object) -> None:
    """Refuse another key for a session whose segments name the one it has. Keys of ours are for what is to go."""
    if segments and not key.startswith(RESERVED_KEYS):
        raise BadInputError(
            f"session {session!r} has records in the archive under its own key and cannot become {key!r}; "
            "export it and import it under the new key"
        )


def body_of(session: str, record: AnyRecord) -> bytes:
    """Return the bytes to keep for a record, or refuse it."""
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
    """Return the checksum of a record in its place: a row that was altered or moved does not match it."""
    return crc32(body, crc32(pack("<qqd", number, seq, at)))


def seal_of(lease: Lease, segment: Segment) -> SegmentSealed:
    """Return the record of a seal, or refuse a segment of another session."""
    if segment.session != lease.session or not 0 < segment.first <= segment.last:
        raise BadInputError(
            f"session {lease.session!r}: records {segment.first} to {segment.last} of {segment.session!r} cannot be "
            "sealed under its lease"
        )
    return SegmentSealed(segment.first, segment.last, segment.name, segment.sha256, segment.size)


def not_next(segment: Segment, first: int, last: int) -> BadInputError:
    """Return what to say where a segment does not hold the records that are to be sealed next."""
    return BadInputError(
        f"session {segment.session!r}: records {segment.first} to {segment.last} cannot be sealed; "
        f"of its live records, those up to there are {first} to {last}"
    )


def not_settled(segment: Segment, call: int) -> BadInputError:
    """Return what to say where a segment ends between a call and its result, which are searched for together."""
    return BadInputError(
        f"session {segment.session!r}: records {segment.first} to {segment.last} cannot be sealed; "
        f"the calls of record {call} are still open"
    )


class SessionRow(msgspec.Struct):
    """One session: how far its log goes, what it owes, and who may work on it."""

    key: str
    # The store's own number for it; 0 where there is none yet.
    number: int = 0
    last_seq: int = 0
    owed: int = 0
    # None where the log is still empty.
    created_at: float | None = None
    updated_at: float = 0.0
    # The newest fence given out. It only grows, also when nobody holds the lease.
    fence: int = 0
    # Who holds the lease: the caller's name for itself, and the store instance that it asked. None: nobody.
    owner: str | None = None
    instance: str | None = None
    lease_until: float = 0.0

    def check_lease(self, lease: Lease) -> None:
        """Refuse a writer whose lease was taken over or given back. Expiry alone does not end a lease."""
        if self.owner is None or lease.fence != self.fence:
            raise LeaseLostError(lease.session, lease.fence)

    def check_after(self, after: int | None) -> None:
        """Refuse a writer that has not seen the newest record; None: one that need not have."""
        if after is not None and after != self.last_seq:
            raise SeqMovedError(self.key, after, self.last_seq)

    def check_room(self, inputs_waiting_max: int) -> None:
        """Refuse one more input where too many wait."""
        if self.owed >= inputs_waiting_max:
            raise QueueFullError(self.key, self.owed)

    def extend(self, records: int, owed: int, at: float) -> None:
        """Note that records were appended, and what they add to what is owed."""
        if self.created_at is None:
            self.created_at = at
        self.last_seq += records
        self.owed += owed
        self.updated_at = at

    def is_held_by(self, owner: str, instance: str) -> bool:
        """Whether this very worker holds the lease already."""
        return self.owner == owner and self.instance == instance

    def is_expired(self, now: float) -> bool:
        """Whether nobody holds the lease, or whoever does has not renewed it in time."""
        return self.owner is None or now >= self.lease_until

    def give_lease(self, owner: str, instance: str, until: float) -> Lease:
        """Give the right to work to a worker, under a new fence."""
        self.owner, self.instance, self.lease_until = owner, instance, until
        self.fence += 1
        return Lease(session=self.key, owner=owner, fence=self.fence, expires_at=until)

    def prolong_lease(self, until: float) -> Lease:
        """Let the worker that holds the lease keep it until then."""
        assert self.owner is not None, "check_lease comes first"
        self.lease_until = until
        return Lease(session=self.key, owner=self.owner, fence=self.fence, expires_at=until)

    def end_lease(self) -> None:
        """Let go of the lease; its fence stays used."""
        self.owner = self.instance = None
        self.lease_until = 0.0

    def info(self) -> SessionInfo | None:
        """Return what callers may know, or None where the log is still empty."""
        if self.created_at is None:
            return None
        return SessionInfo(self.key, self.last_seq, self.owed, self.created_at, self.updated_at)


# --- Whether rows of a database are what was written: a record is read, or a mark stands in its place.


# So many missing records are each shown by a mark. A log with a longer gap was not damaged but cut: no bit does that.
GAP_MAX = 10_000
ALTERED = "its bytes do not match their checksum"
MISSING = "its row is missing"
LOWEST_SEQ = -(2**63)

# How the bytes of a message begin: a hint, no more, at what a damaged record was.
_INPUT_HEAD = f'{{"type":"{InputAdmitted.__name__}"'.encode()


def is_whole(number: int, row: Sequence[Any]) -> bool:
    """Whether a row matches its checksum."""
    seq, at, checksum, body = row
    try:
        return bool(record_crc32(number, seq, at, body) == checksum)
    except (TypeError, StructError):
        # A damaged file may hold something of another type.
        return False


def read_marked(
    session: str, number: int, rows: Iterable[Sequence[Any]], after: int, *, until: int = 0
) -> Iterator[Logged]:
    """Yield records in order of seq, with a mark for each that is damaged or missing.

    `until` is how far the log goes, where that is known otherwise and the rows are its last. Raises `StoreDamagedError`
    at a row that is whole and that this code does not know, and where more is missing than damage explains.
    """
    expected, at = after, 0.0
    pending: Logged | None = None
    for row in rows:
        seq = row[0]
        if not is_whole(number, row):
            if (fits_at(number, row) or seq) == expected + 1:
                if pending is not None:
                    yield pending
                expected += 1
                pending = _mark(expected, row[1], ALTERED)
            continue
        if seq < expected or (seq == expected and pending is None):
            # A second row for what was read already.
            continue
        if pending is not None and seq != expected:
            yield pending
        pending = None
        yield from _marks(session, expected, seq, row[1])
        expected, at = seq, row[1]
        yield _decoded(session, row)
    if pending is not None:
        yield pending
    yield from _marks(session, expected, until + 1, at)


def _marks(session: str, last: int, next_seq: int, at: float) -> Iterator[Logged]:
    """Yield a mark for each record between two others."""
    if next_seq - last > GAP_MAX:
        raise StoreDamagedError(session, last + 1, f"{next_seq - last - 1:,} records are missing at once")
    for lost in range(last + 1, next_seq):
        yield _mark(lost, at, MISSING)


def _mark(seq: int, at: object, why: str) -> Logged:
    return Logged(seq, at if isinstance(at, float) else 0.0, DamageSetAside(why))


def _decoded(session: str, row: Sequence[Any]) -> Logged:
    seq, at, _, body = row
    try:
        return Logged(seq, at, decode_record(body))
    except msgspec.DecodeError as error:
        raise StoreDamagedError(
            session, seq, f"its bytes are whole, but no record is known by them: {error}"
        ) from error


def kept_rows(session: str, number: int, rows: Sequence[Sequence[Any]], after: int) -> list[Kept]:
    """Return rows as they are kept, which must follow `after` without a gap.

    Raises `StoreDamagedError` at one that is altered or missing: what is not clean is not to be sealed.
    """
    for expected, row in enumerate(rows, start=after + 1):
        if row[0] != expected:
            raise StoreDamagedError(session, expected, MISSING)
        if not is_whole(number, row):
            raise StoreDamagedError(session, row[0], ALTERED)
    return [Kept(*row) for row in rows]


def examined(number: int, rows: Sequence[Sequence[Any]], limit: int) -> RowCheck:
    """Look at rows one by one, of which `limit` were asked for; see `Store.examine`.

    Where more came, they say the same number as the last.
    """
    whole: list[Run] = []
    bad: list[BadRow] = []
    for row in rows:
        seq = row[0]
        if not is_whole(number, row):
            bad.append(_bad(number, row))
        elif whole and seq <= whole[-1].last + 1:
            whole[-1] = Run(whole[-1].first, max(seq, whole[-1].last))
        else:
            whole.append(Run(seq, seq))
    return RowCheck(tuple(whole), tuple(bad), rows[-1][0] if len(rows) >= limit else None)


def _bad(number: int, row: Sequence[Any]) -> BadRow:
    seq, _, _, body = row
    head = bytes(body[: len(_INPUT_HEAD)]) if isinstance(body, bytes) else b""
    same = sum(here == there for here, there in zip(head, _INPUT_HEAD, strict=False))
    # A flipped bit or two leave most of the name as it was.
    return BadRow(seq, ALTERED, fits_at(number, row), same >= len(_INPUT_HEAD) - 2)


def fits_at(number: int, row: Sequence[Any]) -> int:
    """Return where a row belongs of whose number one bit was flipped: the checksum tells. 0: that is not what it is."""
    seq, at, checksum, body = row
    candidates = (seq ^ (1 << bit) for bit in range(63))
    return max(next((other for other in candidates if is_whole(number, (other, at, checksum, body))), 0), 0)


class LogEnd:
    """How far a log goes, where its rows say something odd: up to the last that checks out.

    Records that are damaged and belong right behind that one count too, wherever their row says it stands: one flipped
    bit may have sent the newest of all among the others. Other numbers are not to be believed. All rows are shown to
    it, in any order.
    """

    def __init__(self, number: int, sealed_until: int) -> None:
        self._number, self._end = number, sealed_until
        self._places: set[int] = set()

    def add(self, row: Sequence[Any]) -> None:
        """Look at one more row."""
        if is_whole(self._number, row):
            self._end = max(self._end, row[0])
        else:
            self._places.add(fits_at(self._number, row) or row[0])

    @property
    def seq(self) -> int:
        """The last record."""
        end = self._end
        while end + 1 in self._places:
            end += 1
        return end
