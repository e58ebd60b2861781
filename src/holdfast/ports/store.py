"""Logs of sessions and who may work on them, as the engine needs them."""

from collections.abc import AsyncIterator, Collection, Sequence
from typing import Protocol, runtime_checkable

import msgspec

from holdfast.core.integrity.reconcile import BadRow, LogRepair, Run
from holdfast.core.integrity.segments import Kept
from holdfast.types.messages import BlobRef
from holdfast.types.records import InboxRecord, LeasedRecord, Logged, WorkRecord


class Admission(msgspec.Struct, frozen=True):
    """Where an inbox record stands in the log; `is_new` is False where the same client id was admitted before."""

    seq: int
    is_new: bool


class Lease(msgspec.Struct, frozen=True):
    """The right to work on a session until `expires_at`. A higher fence makes every write under a lower one fail."""

    session: str
    owner: str
    fence: int
    expires_at: float


class SessionInfo(msgspec.Struct, frozen=True):
    """What is known of a session without reading its log. `owed` counts inputs that have no outcome yet."""

    key: str
    last_seq: int
    owed: int
    created_at: float
    updated_at: float


class Snapshot(msgspec.Struct, frozen=True):
    """A fold of the log up to `seq`, kept so that opening need not repeat it. It may be thrown away at any time."""

    seq: int
    body: bytes


class Hit(msgspec.Struct, frozen=True):
    """A record that answers a search, how well, and a glimpse of it. For the output of a tool, `call` has the call."""

    seq: int
    score: float
    excerpt: str
    call: int = 0


class Examined(msgspec.Struct, frozen=True):
    """Rows of a log, looked at one by one: runs of those that check out, and those that do not.

    `until` is where the look ended; None: at the end of the log.
    """

    whole: tuple[Run, ...]
    bad: tuple[BadRow, ...]
    until: int | None


class Quarantined(msgspec.Struct, frozen=True):
    """Bytes that could not stay in a log, as they were found, and why."""

    name: str
    seq: int
    why: str
    set_aside_at: float
    body: bytes


class Segment(msgspec.Struct, frozen=True):
    """A sealed, compressed run of a session's records in the archive: the seqs it holds, and how to check it."""

    session: str
    first: int
    last: int
    # The name in the archive ends in this SHA-256 of the compressed bytes, so two segments never share a name.
    name: str
    sha256: str
    size: int


class Feed(Protocol):
    """Records of a session as they come, an async iterator. Whoever leaves early closes it."""

    def __aiter__(self) -> AsyncIterator[Logged]:
        """Return itself."""
        ...

    async def __anext__(self) -> Logged:
        """Return the next record, waiting for it as long as it takes."""
        ...

    async def aclose(self) -> None:
        """Stop waiting."""
        ...


class Store(Protocol):
    """Logs of sessions, and who may work on them.

    Whatever returns has happened for good: it is on disk, or whatever the store has instead. Whatever raises has not
    happened at all; a call that is cancelled, or raises `OutcomeUnknownError`, may be either. A session exists from its
    first record on; reading one that does not exist finds it empty. A key is not empty and is well-formed Unicode, a
    record's text as well: anything else is refused with `BadInputError`.
    """

    async def admit(self, session: str, record: InboxRecord) -> Admission:
        """Append one inbox record, whoever holds the lease.

        An input whose client id the session already knows is not stored again: its first place is returned, and if
        its parts differ `ClientIdReusedError` is raised. `QueueFullError` where too many inputs wait.
        """
        ...

    async def append(self, lease: Lease, records: Sequence[LeasedRecord], *, after: int) -> int:
        """Append work records in one piece, all or none, and return the seq of the last.

        An import may append inputs in the same way, together with their outcomes; their client ids are not looked at.

        Raises `LeaseLostError` where the lease's fence is no longer the session's newest or the lease was released,
        and `SeqMovedError` where `after` is not the session's last seq. An expired lease that nobody took still holds.
        """
        ...

    async def read(self, session: str, *, after: int = 0, limit: int | None = None) -> list[Logged]:
        """Return the records behind `after` in order of seq, at most `limit` of them.

        A record that is damaged or gone does not hide the others: `DamageSetAside` stands in its place. What is whole
        but of a kind that this code does not know was written by a newer version, and raises `StoreDamagedError`.

        Raises `RecordsSealedError` where the first of them was sealed: `ArchivedStore` reads on in the archive.
        """
        ...

    def feed(self, session: str, *, after: int = 0) -> Feed:
        """Yield every record behind `after`, in order, each once, waiting for new ones without end.

        Records appended by other processes on the same store arrive too. Closing the store ends it.
        """
        ...

    async def search(self, session: str, query: str, *, limit: int = 10) -> list[Hit]:
        """Return the messages and tool steps of one session that answer a question best, best first.

        A question is words, a path, a name or an id, in no particular syntax; nothing in it is an error. Whatever was
        appended before is found, of this session alone. Of two that answer alike the newer one comes first. What was
        sealed is found too; its excerpt is empty, because its text is in the archive.
        """
        ...

    async def mentioning(self, sessions: Sequence[SessionInfo], query: str) -> list[str]:
        """Return the keys of those sessions that a search may find something in, in their order.

        It looks at all of them at once and writes nothing, so whoever searches thousands asks here first. One whose
        newest records are not indexed yet is among them.
        """
        ...

    async def acquire(self, session: str, owner: str, *, seconds: float) -> Lease | None:
        """Take the right to work on a session, or return None while another living owner holds it.

        Each success has a higher fence than all before. A lease that has expired, or whose owner is known to be dead,
        can be taken at once. An owner that asks again for what it holds gets a new fence.
        """
        ...

    async def renew(self, lease: Lease, *, seconds: float) -> Lease:
        """Prolong a lease from now on. Raises `LeaseLostError` where another worker has taken it."""
        ...

    async def release(self, lease: Lease) -> None:
        """Give a lease back. Where it was lost already nothing happens."""
        ...

    async def save_snapshot(self, lease: Lease, snapshot: Snapshot) -> None:
        """Keep a fold in place of the one before. Raises `LeaseLostError` as `append` does."""
        ...

    async def load_snapshot(self, session: str) -> Snapshot | None:
        """Return the newest snapshot, if there is one."""
        ...

    async def kept(self, session: str, *, after: int = 0, limit: int) -> list[Kept]:
        """Return live records behind `after` exactly as they are kept, at most `limit`; those that were sealed are not.

        Raises `StoreDamagedError` at one that is altered or missing: what is not clean is not to be sealed.
        """
        ...

    async def seal(self, lease: Lease, segment: Segment, *, after: int) -> int:
        """Take the records of a segment out of the live ones and append `SegmentSealed`, in one piece; return its seq.

        The segment must be in the archive by then, read back and checked. It begins with the first live record. What
        was sealed stays findable, and its client ids stay known. Raises as `append` does, and `BadInputError` where
        those are not the records that come next.
        """
        ...

    async def segments(self, session: str) -> list[Segment]:
        """Return what was sealed, in order: without a gap from record 1 to the last before the first live one."""
        ...

    async def blobs_of(self, session: str) -> list[BlobRef]:
        """Return the blobs that records of a session name or have named, in order of their names.

        Kept with each append. What was sealed or set aside since is still among them, so there may be more than the
        records that can be read now name, and never fewer.
        """
        ...

    async def blobs_only_of(self, sessions: Collection[str]) -> list[BlobRef]:
        """Return the blobs that these sessions name and no other does, in order of their names.

        No log is read for it, so it holds only where `blobs_unknown` has nothing.
        """
        ...

    async def blobs_unknown(self) -> list[str]:
        """Return the sessions whose records were not all looked at for blobs: those from before that was kept."""
        ...

    async def know_blobs(self, session: str, refs: Collection[BlobRef]) -> None:
        """Note which blobs the records of a session name, all of them: it is no longer unknown. Others stay noted."""
        ...

    async def info(self, session: str) -> SessionInfo | None:
        """Return what is known of one session, or None where there is none."""
        ...

    async def sessions(self, *, after: str = "", limit: int = 100) -> list[SessionInfo]:
        """Return sessions in order of their keys, those behind the key `after`."""
        ...

    async def owing(self) -> list[str]:
        """Return the keys of all sessions that owe an outcome: what a start must resume."""
        ...

    async def examine(self, session: str, *, after: int | None = None, limit: int = 1_000) -> Examined:
        """Look at the rows of a log behind `after`, at most `limit` of them, whatever numbers they claim to have."""
        ...

    async def mend(
        self,
        lease: Lease,
        repairs: Sequence[LogRepair],
        records: Sequence[WorkRecord] = (),
        *,
        after: int,
    ) -> int:
        """Repair a log and append what is to be said about it, all or none, and return the seq of the last record.

        The bytes of what is set aside are kept for good; see `quarantine`. Raises as `append` does.
        """
        ...

    async def quarantine(self, session: str, *, after: str = "", limit: int = 100) -> list[Quarantined]:
        """Return what was set aside of one session, in the order in which it was, behind the name `after`."""
        ...

    async def adopt(self, lease: Lease, records: Sequence[Logged]) -> int:
        """Append records of another log as they are, with their own numbers and times, and return the last seq.

        They must go on where this log ends, else `SeqMovedError`; `LeaseLostError` as for `append`. Client ids are
        known from then on. All or none.
        """
        ...

    async def rename(self, lease: Lease, key: str, *, after: int | None = None) -> Lease:
        """Give a session another key, under which it is from now on; its old one is free.

        Raises `BadInputError` where the new key has a log already, and `SeqMovedError` where `after` is given and no
        longer the last record: who takes a session away may want to know of all that came.
        """
        ...

    async def delete(self, lease: Lease) -> None:
        """Remove a session with all that is kept of it, quarantine included. It cannot be had back.

        Large ones go in pieces: one that is interrupted is less than it was, so it is renamed to a key of ours first.
        """
        ...

    async def close(self) -> None:
        """Finish what was asked for, then let go of everything. Feeds end; later calls raise `StoppingError`."""
        ...


@runtime_checkable
class Archived(Protocol):
    """A store that has an archive behind it, and can say what that really holds."""

    async def archived(self, session: str, *, first: int, last: int) -> list[Kept]:
        """Return sealed records as the archive has them now, nothing of it remembered.

        Raises `SegmentMissingError` where one of them is gone or damaged there.
        """
        ...
