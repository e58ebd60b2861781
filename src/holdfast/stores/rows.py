"""What a store knows of a session besides its log, and the rules for changing it.

Each rule is checked before anything is changed, so an operation that is refused leaves the row as it was.
"""

import math
from struct import pack
from zlib import crc32

import msgspec

from holdfast.core.limits import RESERVED_KEYS
from holdfast.core.records import AnyRecord, SegmentSealed, encode_record
from holdfast.errors import BadInputError, LeaseLostError, QueueFullError, SeqMovedError
from holdfast.ports import Lease, Segment, SessionInfo

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
