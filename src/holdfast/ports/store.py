"""Store ports: `Log` is required, every other port is optional; ports for blobs, image resizing and the archive.

A runner needs `Log` alone. A store that can do more implements further ports; callers discover them with `isinstance`
and otherwise use a fallback or raise `UnsupportedError` (see `holdfast.stores.fallbacks`). Every optional port extends
`Log`. `Store`, in `listing`, is the composition that the shipped stores implement.
"""

from collections.abc import AsyncIterator, Collection, Sequence
from typing import Protocol, runtime_checkable

import msgspec

from holdfast.core.integrity.reconcile import BadRow, LogRepair, Run
from holdfast.core.integrity.segments import Kept
from holdfast.core.view.offending_part import ImageFit
from holdfast.types.messages import BlobRef, Media
from holdfast.types.records import InboxRecord, LeasedRecord, Logged, WorkRecord


class Admission(msgspec.Struct, frozen=True):
    """The seq of an inbox record; `is_new` is False if the same client id was admitted before."""

    seq: int
    is_new: bool


class Lease(msgspec.Struct, frozen=True):
    """The exclusive right to work on a session until `expires_at`.

    `fence` is the fencing token: a store rejects every write under a lower fence than the newest.
    """

    session: str
    owner: str
    fence: int
    expires_at: float


class SessionInfo(msgspec.Struct, frozen=True):
    """Summary of a session, available without reading its log. `owed` counts inputs without an outcome."""

    # Its key, and the seq of its newest record.
    key: str
    last_seq: int
    owed: int
    # Times of its first and its newest record, in seconds since 1970.
    created_at: float
    updated_at: float


class Snapshot(msgspec.Struct, frozen=True):
    """A cached fold of the log up to `seq`. It may be dropped at any time."""

    seq: int
    body: bytes


class Hit(msgspec.Struct, frozen=True):
    """A search result: a record, its score and a snippet. For the output of a tool, `call` is the seq of the call."""

    seq: int
    score: float
    # A few lines around the match.
    excerpt: str
    call: int = 0


class RowCheck(msgspec.Struct, frozen=True):
    """Result of checking a page of stored rows: runs of intact rows, and the damaged ones.

    `until` is the seq of the last row of the page; None at the end of the log.
    """

    intact: tuple[Run, ...]
    bad: tuple[BadRow, ...]
    until: int | None


class Quarantined(msgspec.Struct, frozen=True):
    """The original bytes of a damaged row that a repair moved out of the log, and the reason."""

    name: str
    seq: int
    why: str
    set_aside_at: float
    body: bytes


class Segment(msgspec.Struct, frozen=True):
    """A sealed, compressed run of a session's records in the archive."""

    session: str
    first: int
    last: int
    # The name in the archive ends in this SHA-256 of the compressed bytes, so no two segments share a name.
    name: str
    sha256: str
    size: int


class Feed(Protocol):
    """An async iterator over the records of a session as they are appended. A reader that stops early closes it."""

    def __aiter__(self) -> AsyncIterator[Logged]:
        """Return itself."""
        ...

    async def __anext__(self) -> Logged:
        """Return the next record. Waits for it without a timeout."""
        ...

    async def aclose(self) -> None:
        """End the feed."""
        ...


@runtime_checkable
class Log(Protocol):
    """Append-only logs of sessions and their leases: the only port that a store must implement.

    A call that returns is durable. A call that raises had no effect, with two exceptions: a cancelled call and
    `OutcomeUnknownError` may have happened or not. A session exists from its first record on; a session that does not
    exist reads as empty. A key is not empty and is well-formed Unicode, and so is the text of a record: the store
    rejects anything else with `BadInputError`.
    """

    async def admit(self, session: str, record: InboxRecord) -> Admission:
        """Append one inbox record. No lease is needed.

        The store keeps the client ids of inputs. A known client id is not stored again: the first seq is returned, or
        `ClientIdReusedError` is raised if the parts differ. Raises `QueueFullError` if too many inputs are pending.
        """
        ...

    async def append(self, lease: Lease, records: Sequence[LeasedRecord], *, after: int) -> int:
        """Append work records atomically and return the seq of the last one.

        An import may append inputs together with their outcomes; their client ids are not checked.

        Raises `LeaseLostError` if the lease was released or its fence is not the newest of the session, and
        `SeqMovedError` if `after` is not the last seq. An expired lease stays valid until another worker takes it.
        """
        ...

    async def read(self, session: str, *, after: int = 0, limit: int | None = None) -> list[Logged]:
        """Return at most `limit` records with a seq above `after`, in order.

        A damaged or missing record is replaced by `DamageSetAside`. An intact record of an unknown type was written by
        a newer version and raises `StoreDamagedError`.

        Raises `RecordsSealedError` if the first of them is sealed; `ArchivedStore` reads those from the archive.
        """
        ...

    def feed(self, session: str, *, after: int = 0) -> Feed:
        """Yield every record above `after`, in order, each once, and wait for new ones without end.

        Records appended by other processes on the same store arrive too. Closing the store ends the feed.
        """
        ...

    async def acquire(self, session: str, owner: str, *, seconds: float) -> Lease | None:
        """Take the lease of a session, or return None while another live owner holds it.

        Every success returns a higher fence than all before. An expired lease, or one whose owner is known to be dead,
        is available at once. An owner that acquires its own lease again gets a new fence.
        """
        ...

    async def renew(self, lease: Lease, *, seconds: float) -> Lease:
        """Extend a lease, counted from now. Raises `LeaseLostError` if another worker has taken it."""
        ...

    async def release(self, lease: Lease) -> None:
        """Release a lease. No-op if it was lost."""
        ...

    async def info(self, session: str) -> SessionInfo | None:
        """Return the summary of a session, or None if it does not exist."""
        ...

    async def sessions(self, *, after: str = "", limit: int = 100) -> list[SessionInfo]:
        """Return sessions in order of their keys, starting after the key `after`."""
        ...

    async def pending(self) -> list[str]:
        """Return the keys of all sessions with pending work, in order: what a start must resume."""
        ...

    async def close(self) -> None:
        """Finish running calls, then release all resources. Feeds end; later calls raise `StoppingError`."""
        ...


@runtime_checkable
class Snapshots(Log, Protocol):
    """Cached folds. Without this port a session is folded from its first record each time it is opened."""

    async def save_snapshot(self, lease: Lease, snapshot: Snapshot) -> None:
        """Replace the snapshot of a session. Raises `LeaseLostError` as `append` does."""
        ...

    async def load_snapshot(self, session: str) -> Snapshot | None:
        """Return the newest snapshot, or None."""
        ...


@runtime_checkable
class Appends(Log, Protocol):
    """Appends without a lease, and records found by client id. Without this port nothing is appended without a turn."""

    async def extend(self, session: str, records: Sequence[InboxRecord], *, after: int) -> int:
        """Append inbox records atomically and return the seq of the last one. No lease is needed.

        Raises `SeqMovedError` if `after` is not the last seq, `ClientIdReusedError` if a client id is known, and
        `QueueFullError` as `admit` does.
        """
        ...

    async def find(self, session: str, client_ids: Sequence[str]) -> dict[str, int]:
        """Return the seqs of the records with these client ids. Unknown ids are left out. Reads no log."""
        ...


@runtime_checkable
class SearchIndex(Log, Protocol):
    """Full-text search over one session. Without this port a search scans the log."""

    async def search(self, session: str, query: str, *, limit: int = 10) -> list[Hit]:
        """Return the best matching messages and tool steps of a session, best first.

        A query is words, a path, a name or an id. It has no syntax, so no query is an error. The result covers every
        record appended before the call. Of two equal scores the newer record comes first. The excerpt of a sealed
        record is empty, because its text is in the archive.
        """
        ...

    async def candidates(self, sessions: Sequence[SessionInfo], query: str) -> list[str]:
        """Return the keys of the sessions that may contain a match, in the given order.

        One read-only query for all of them, to filter thousands of sessions before searching each. A session with
        records that are not indexed yet is always a candidate.
        """
        ...


@runtime_checkable
class BlobRefs(Log, Protocol):
    """References from sessions to blobs. Without this port no deletion removes a blob."""

    async def blob_refs(self, session: str) -> list[BlobRef]:
        """Return the blobs that records of a session reference or have referenced, ordered by hash.

        Every append updates them. References of sealed and quarantined records stay, so the result may contain more
        than the readable records reference, but never less.
        """
        ...

    async def unshared_blobs(self, sessions: Collection[str]) -> list[BlobRef]:
        """Return the blobs that only these sessions reference, ordered by hash.

        Reads no log, so the result is complete only if `unscanned_sessions` returns none.
        """
        ...

    async def unscanned_sessions(self) -> list[str]:
        """Return the sessions whose blob references are incomplete: those older than this table."""
        ...

    async def add_blob_refs(self, session: str, refs: Collection[BlobRef]) -> None:
        """Add the blobs that all records of a session reference, and mark the session as scanned."""
        ...


@runtime_checkable
class Maintenance(Log, Protocol):
    """Check and repair of logs, and sealing of old records. Without this port logs are neither repaired nor sealed."""

    async def check_rows(self, session: str, *, after: int | None = None, limit: int = 1_000) -> RowCheck:
        """Verify the stored rows above `after`, at most `limit` of them, whatever seqs they claim."""
        ...

    async def repair(
        self,
        lease: Lease,
        repairs: Sequence[LogRepair],
        records: Sequence[WorkRecord] = (),
        *,
        after: int,
    ) -> int:
        """Apply repairs and append records that report them, atomically. Return the seq of the last record.

        The original bytes of removed rows are kept forever; see `quarantine`. Raises as `append` does.
        """
        ...

    async def quarantine(self, session: str, *, after: str = "", limit: int = 100) -> list[Quarantined]:
        """Return the quarantined rows of a session, oldest first, starting after the name `after`."""
        ...

    async def live_rows(self, session: str, *, after: int = 0, limit: int) -> list[Kept]:
        """Return at most `limit` rows above `after` exactly as stored, without those that are sealed.

        Raises `StoreDamagedError` at a damaged or missing row: only clean rows may be sealed.
        """
        ...

    async def seal(self, lease: Lease, segment: Segment, *, after: int) -> int:
        """Remove the rows of a segment and append `SegmentSealed`, atomically. Return the seq of that record.

        The caller has put the segment into the archive, read it back and checked it. It begins with the first live
        row. Sealed records stay searchable and their client ids stay known. Raises as `append` does, and
        `BadInputError` if the segment does not hold the next rows.
        """
        ...

    async def segments(self, session: str) -> list[Segment]:
        """Return the sealed segments in order, without a gap from record 1 to the first live record."""
        ...


@runtime_checkable
class SessionAdmin(Log, Protocol):
    """Operations on whole sessions. Without this port sessions are neither deleted, imported nor forked."""

    async def adopt(self, lease: Lease, records: Sequence[Logged]) -> int:
        """Append records of another log with their own seqs and times, atomically. Return the last seq.

        Their client ids become known. Raises `SeqMovedError` if they do not follow the end of this log, and
        `LeaseLostError` as `append` does.
        """
        ...

    async def rename(self, lease: Lease, key: str, *, after: int | None = None) -> Lease:
        """Give a session another key, and free the old one.

        Raises `BadInputError` if the new key has a log, and `SeqMovedError` if `after` is given and is not the last
        seq: a caller that removes a session wants to know all its records.
        """
        ...

    async def delete(self, lease: Lease) -> None:
        """Delete a session with its snapshots, search index and quarantine. This cannot be undone.

        A large session is deleted in several transactions. A caller renames it to a reserved key first, so that an
        interrupted deletion leaves no partial session under the old key.
        """
        ...


class KeyRow(msgspec.Struct, frozen=True):
    """A gateway key as stored: its name, its encoded properties with hashed secrets, and the version of the row."""

    name: str
    body: bytes
    version: int = 0


class KeyRows(Protocol):
    """Gateway keys in a store that several gateways share. A change states the version of the row that it saw."""

    async def key_rows(self) -> list[KeyRow]:
        """Return all keys, ordered by creation."""
        ...

    async def put_key(self, row: KeyRow, *, version: int) -> bool:
        """Write a key, and return whether the stored row had this version; 0: there was none. Else nothing changes."""
        ...

    async def remove_key(self, name: str, *, version: int) -> bool:
        """Remove a key, and return whether the stored row had this version. Else nothing changes."""
        ...


@runtime_checkable
class SealedRows(Protocol):
    """A store that can read its archive directly."""

    async def sealed_rows(self, session: str, *, first: int, last: int) -> list[Kept]:
        """Return sealed rows as the archive has them now, without any cache.

        Raises `SegmentMissingError` if a segment is missing or damaged.
        """
        ...


@runtime_checkable
class Blobs(Protocol):
    """Content-addressed blobs, named by their SHA-256. A blob is durable and immutable, and stored once."""

    async def put(self, chunks: AsyncIterator[bytes] | bytes) -> BlobRef:
        """Store bytes and return their reference. Memory does not grow with the length of a stream."""
        ...

    async def get(self, ref: BlobRef) -> bytes:
        """Return all bytes, verified against the hash. Raises `BlobMissingError`."""
        ...

    async def read(self, ref: BlobRef, *, start: int, length: int) -> bytes:
        """Return a range of the bytes, shorter at the end. Raises `BlobMissingError`."""
        ...

    async def remove(self, ref: BlobRef) -> bool:
        """Delete a blob that no record references, and return whether it is gone.

        A blob that was put recently stays: a record that references it may be on its way. No-op if it does not exist.
        """
        ...


class Images(Protocol):
    """Image resizing, one image at a time, so that memory does not grow with their number."""

    async def shrink(self, image: Media, fit: ImageFit) -> Media | None:
        """Return the image within these bounds, stored as a blob of its own. The original stays.

        Returns None if it cannot be resized: not an image, damaged, too large for memory, or no decoder installed.
        Never raises, whatever the bytes are.
        """
        ...


class Archive(Protocol):
    """Sealed segments in a folder or an object store. A segment is durable and immutable."""

    async def put(self, name: str, body: bytes) -> bool:
        """Store bytes under a name unless it exists, and return whether they are new.

        An existing segment stays even if it differs; a caller that cares reads it back. A name consists of words of
        letters, digits, dots, dashes and underscores, separated by slashes. No word begins with a dot.
        """
        ...

    async def get(self, name: str) -> bytes:
        """Return the bytes unverified. Raises `SegmentMissingError` if there are none."""
        ...

    async def read(self, name: str, *, start: int, length: int) -> bytes:
        """Return a range of the bytes, shorter at the end. Raises `SegmentMissingError`."""
        ...

    async def names(self, prefix: str = "") -> list[str]:
        """Return the names with this prefix, in order."""
        ...

    async def remove(self, name: str) -> None:
        """Delete a segment. No-op if it does not exist."""
        ...
