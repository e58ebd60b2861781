"""Operations on a PostgreSQL store, computed on cached session rows with optimistic locking.

The writer caches session rows between batches and computes changes on them. The server accepts a change only if the row
still has the version that it was computed from, so a stale cache never causes a wrong write. A rejection that was
computed on a cached row counts only after the row was read again.
"""

import secrets
from collections.abc import Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import msgspec

from holdfast.errors import ClientIdReusedError
from holdfast.ports import Admission, Lease
from holdfast.stores.feeds import NewRow
from holdfast.stores.listing import NO_CHANGE, ListingChange
from holdfast.stores.postgres.directory import ListingArguments
from holdfast.stores.rows import SessionRow, record_crc32
from holdfast.types.messages import BlobRef

if TYPE_CHECKING:
    import asyncpg

# Rows in the cache: some MiB at most. Above this the cache is cleared.
ROWS_KEPT_MAX = 20_000
# Random session numbers: with a thousand million sessions a collision has a chance of one in ten.
_NUMBER_BITS = 62

# (session, digest of a client id) -> seq and digest of the admitted record.
KnownIds: TypeAlias = dict[tuple[str, bytes], tuple[int, bytes]]


class VersionedRow(msgspec.Struct):
    """A cached session row and its version; None if the server has no such row."""

    row: SessionRow
    version: int | None


def versioned_row(found: "asyncpg.Record") -> VersionedRow:
    """Return the session row of a query result; see `queries.sql` for the columns."""
    number, key, version, *rest = found
    return VersionedRow(SessionRow(bytes(key).decode(), number, *rest), version)


class RowCache:
    """Cache of session rows."""

    def __init__(self) -> None:
        self._rows: dict[str, VersionedRow] = {}

    def missing(self, sessions: Iterable[str]) -> list[str]:
        """Return the sessions that are not cached."""
        return [session for session in dict.fromkeys(sessions) if session not in self._rows]

    def put(self, kept: VersionedRow) -> None:
        """Cache a row unless a newer version is cached: responses may arrive out of order."""
        known = self._rows.get(kept.row.key)
        if known is None or (known.version or 0) < (kept.version or 0):
            self._rows[kept.row.key] = kept

    def get(self, session: str) -> VersionedRow:
        """Return the row of a session; a new one if the server has none."""
        if session not in self._rows:
            self._rows[session] = VersionedRow(SessionRow(session, secrets.randbits(_NUMBER_BITS)), None)
        return self._rows[session]

    def find(self, session: str) -> VersionedRow | None:
        """Return the row of a session if it is cached."""
        return self._rows.get(session)

    def forget(self, sessions: Iterable[str]) -> None:
        """Remove stale rows."""
        for session in sessions:
            self._rows.pop(session, None)

    def forget_all(self) -> None:
        """Clear the cache, as after a rollback."""
        self._rows.clear()

    def shrink(self) -> None:
        """Clear the cache if it is too large."""
        if len(self._rows) > ROWS_KEPT_MAX:
            self._rows.clear()


class Operation(Protocol):
    """A write to one session."""

    @property
    def session(self) -> str:
        """The session."""
        ...

    @property
    def size_bytes(self) -> int:
        """Approximate size of the write."""
        ...

    @property
    def client_ids(self) -> Sequence[bytes]:
        """The digests of client ids to look up first."""
        ...

    def apply(self, batch: "Batch") -> Any:  # noqa: ANN401 - each operation has its own result
        """Check all conditions, then change. Raises `HoldfastError` if it is rejected."""
        ...


def client_digest(name: str) -> bytes:
    """Return the digest under which a client id is stored."""
    return sha256(name.encode()).digest()


class Admit(msgspec.Struct, frozen=True):
    """Append an inbox record unless its client id is known. The number of pending inputs is bounded."""

    session: str
    body: bytes
    client_name: str
    inputs_waiting_max: int | None
    refs: Sequence[BlobRef] = ()
    listed: ListingChange = NO_CHANGE

    @property
    def size_bytes(self) -> int:
        """Approximate size of the write."""
        return len(self.body)

    @property
    def client_ids(self) -> Sequence[bytes]:
        """See `Operation.client_ids`."""
        return [client_digest(self.client_name)] if self.client_name else []

    def apply(self, batch: "Batch") -> Admission:
        """See `Operation.apply`."""
        client_id = next(iter(self.client_ids), b"")
        digest = sha256(self.body).digest() if client_id else b""
        if client_id and (known := batch.known.get((self.session, client_id))) is not None:
            seq, known_digest = known
            if known_digest != digest:
                raise ClientIdReusedError(self.session, self.client_name, seq)
            return Admission(seq, is_new=False)
        row = batch.row(self.session)
        if self.inputs_waiting_max is not None:
            row.check_queue(self.inputs_waiting_max)
        batch.extend(row, (self.body,), 0 if self.inputs_waiting_max is None else 1, self.listed)
        if client_id:
            batch.add_client_id(row, row.last_seq, client_id, digest)
        batch.add_blob_refs(row, self.refs)
        return Admission(row.last_seq, is_new=True)


class Extend(msgspec.Struct, frozen=True):
    """Append inbox records after the last seq. Client ids are empty or new."""

    session: str
    bodies: Sequence[bytes]
    client_names: Sequence[str]
    after: int
    owed: int
    inputs_waiting_max: int
    refs: Sequence[BlobRef] = ()
    listed: ListingChange = NO_CHANGE

    @property
    def size_bytes(self) -> int:
        """Approximate size of the write."""
        return sum(map(len, self.bodies))

    @property
    def client_ids(self) -> Sequence[bytes]:
        """See `Operation.client_ids`."""
        return [client_digest(name) for name in self.client_names if name]

    def apply(self, batch: "Batch") -> int:
        """See `Operation.apply`."""
        row = batch.row(self.session)
        row.check_after(self.after)
        if self.owed:
            row.check_queue(self.inputs_waiting_max)
        for name in filter(None, self.client_names):
            if (known := batch.known.get((self.session, client_digest(name)))) is not None:
                raise ClientIdReusedError(self.session, name, known[0])
        if self.bodies:
            batch.extend(row, self.bodies, self.owed, self.listed)
            batch.add_blob_refs(row, self.refs)
        for seq, name, body in zip(
            range(self.after + 1, row.last_seq + 1), self.client_names, self.bodies, strict=True
        ):
            if name:
                batch.add_client_id(row, seq, client_digest(name), sha256(body).digest())
        return row.last_seq


class Append(msgspec.Struct, frozen=True):
    """Append work records under a lease."""

    lease: Lease
    bodies: Sequence[bytes]
    after: int
    owed: int
    refs: Sequence[BlobRef] = ()
    listed: ListingChange = NO_CHANGE

    @property
    def session(self) -> str:
        """The session."""
        return self.lease.session

    @property
    def size_bytes(self) -> int:
        """Approximate size of the write."""
        return sum(map(len, self.bodies))

    @property
    def client_ids(self) -> Sequence[bytes]:
        """See `Operation.client_ids`."""
        return ()

    def apply(self, batch: "Batch") -> int:
        """See `Operation.apply`."""
        row = batch.row(self.session)
        row.check_lease(self.lease)
        row.check_after(self.after)
        if self.bodies:
            batch.extend(row, self.bodies, self.owed, self.listed)
            batch.add_blob_refs(row, self.refs)
        return row.last_seq


class Batch:
    """Changes to many sessions, collected as the array arguments of `holdfast.write`."""

    def __init__(self, cache: RowCache, known: KnownIds, now: float) -> None:
        self._cache, self._now = cache, now
        self.known = known
        # The new rows of each changed session, for its feeds.
        self.fresh: dict[str, list[NewRow]] = {}
        # Changed sessions with their position in the arrays, from 1.
        self._places: dict[str, int] = {}
        self._versions: list[int | None] = []
        self._record_places: list[int] = []
        self._seqs: list[int] = []
        self._checksums: list[int] = []
        self._bodies: list[bytes] = []
        self._id_places: list[int] = []
        self._ids: list[bytes] = []
        self._id_seqs: list[int] = []
        self._digests: list[bytes] = []
        self._name_places: list[int] = []
        self._names: list[bytes] = []
        self._sizes: list[int] = []
        self._listing = ListingArguments()

    @property
    def sessions(self) -> AbstractSet[str]:
        """The changed sessions."""
        return self._places.keys()

    def row(self, session: str) -> SessionRow:
        """Return the row of a session, including the changes of this batch."""
        return self._cache.get(session).row

    def extend(self, row: SessionRow, bodies: Sequence[bytes], owed: int, listed: ListingChange = NO_CHANGE) -> None:
        """Append records to a log."""
        place = self._places.get(row.key)
        if place is None:
            place = self._places[row.key] = len(self._places) + 1
            self._versions.append(self._cache.get(row.key).version)
            self.fresh[row.key] = []
        at, number, fresh = self._now, row.number, self.fresh[row.key]
        for seq, body in enumerate(bodies, start=row.last_seq + 1):
            self._record_places.append(place)
            self._seqs.append(seq)
            self._checksums.append(record_crc32(number, seq, at, body))
            self._bodies.append(body)
            fresh.append((seq, at, body))
        row.extend(len(bodies), owed, at)
        if row.is_listed_anew(listed, at):
            self._listing.add(place, listed, row.hour)

    def add_client_id(self, row: SessionRow, seq: int, client_id: bytes, digest: bytes) -> None:
        """Add the client id of a new record."""
        self.known[row.key, client_id] = seq, digest
        self._id_places.append(self._places[row.key])
        self._ids.append(client_id)
        self._id_seqs.append(seq)
        self._digests.append(digest)

    def add_blob_refs(self, row: SessionRow, refs: Sequence[BlobRef]) -> None:
        """Add the blob references of the newest records."""
        for ref in refs:
            self._name_places.append(self._places[row.key])
            self._names.append(ref.sha256.encode())
            self._sizes.append(ref.size_bytes)

    def more_arguments(self) -> tuple[Any, ...]:
        """Return the additional arguments of `holdfast.write_naming` or `holdfast.write_listing`; mostly none."""
        listing = self._listing.arguments()
        return (self._name_places, self._names, self._sizes, *listing) if self._names or listing else ()

    def arguments(self) -> tuple[Any, ...]:
        """Return the arguments of `holdfast.write` after the writer and the batch number."""
        rows = [self._cache.get(session).row for session in self._places]
        return (
            self._now,
            [row.key.encode() for row in rows],
            [row.number for row in rows],
            self._versions,
            [row.last_seq for row in rows],
            [row.owed for row in rows],
            self._record_places,
            self._seqs,
            self._checksums,
            self._bodies,
            self._id_places,
            self._ids,
            self._id_seqs,
            self._digests,
        )

    def finish(self, refused: Collection[int]) -> set[str]:
        """After the response: update the cache, and return the sessions that the server rejected."""
        moved = {session for session, place in self._places.items() if place in refused}
        for session, version in zip(self._places, self._versions, strict=True):
            kept = self._cache.find(session)
            # A different version is a newer row. A row that was created in this batch has version 1.
            if kept is not None and kept.version == version:
                kept.version = (version or 0) + 1
        self._cache.forget(moved)
        return moved
