"""What each operation on a PostgreSQL store checks and changes, computed on rows that may have become old.

The writer keeps the rows of sessions between batches and computes changes on them; the server takes a change only if
the row still has the version that it was computed from. So what is written is right, however old the row was. A refusal
is another matter: one that was read off a row that may be old counts only once the row has been read again.
"""

import secrets
from collections.abc import Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import msgspec

from holdfast.errors import ClientIdReusedError
from holdfast.ports import Admission, Lease
from holdfast.stores.feeds import Fresh
from holdfast.stores.rows import SessionRow, record_crc32
from holdfast.types.messages import BlobRef

if TYPE_CHECKING:
    import asyncpg

# Sessions whose rows are kept between batches: some MiB at most. Beyond, all are dropped and read again.
ROWS_KEPT_MAX = 20_000
# Random numbers of sessions: two of a thousand million sessions are the same with a chance of one in ten.
_NUMBER_BITS = 62

ROW_COLUMNS = "number, key, version, last_seq, owed, created_at, updated_at, fence, owner, instance::text, lease_until"

# (session, digest of a client id) -> where it was admitted, and the digest of what was.
KnownIds: TypeAlias = dict[tuple[str, bytes], tuple[int, bytes]]


class SeenRow(msgspec.Struct):
    """The row of a session as it was last seen, and its version; None where there was no such row."""

    row: SessionRow
    version: int | None


def seen_row(found: "asyncpg.Record") -> SeenRow:
    """Return a row as the server tells it, by `ROW_COLUMNS`."""
    number, key, version, *rest = found
    return SeenRow(SessionRow(bytes(key).decode(), number, *rest), version)


class RowCache:
    """The rows of sessions as this store last saw them."""

    def __init__(self) -> None:
        self._kept: dict[str, SeenRow] = {}

    def lacks(self, sessions: Iterable[str]) -> list[str]:
        """Return those that have to be read."""
        return [session for session in dict.fromkeys(sessions) if session not in self._kept]

    def put(self, kept: SeenRow) -> None:
        """Keep a row, unless a newer one is known: answers may overtake each other."""
        known = self._kept.get(kept.row.key)
        if known is None or (known.version or 0) < (kept.version or 0):
            self._kept[kept.row.key] = kept

    def get(self, session: str) -> SeenRow:
        """Return a session's row; a new one where the server has none."""
        if session not in self._kept:
            self._kept[session] = SeenRow(SessionRow(session, secrets.randbits(_NUMBER_BITS)), None)
        return self._kept[session]

    def find(self, session: str) -> SeenRow | None:
        """Return a session's row where it is known."""
        return self._kept.get(session)

    def forget(self, sessions: Iterable[str]) -> None:
        """Drop rows that are not as we thought."""
        for session in sessions:
            self._kept.pop(session, None)

    def forget_all(self) -> None:
        """Drop everything, as after a batch that was taken back."""
        self._kept.clear()

    def shrink(self) -> None:
        """Stay within bounds."""
        if len(self._kept) > ROWS_KEPT_MAX:
            self._kept.clear()


class Operation(Protocol):
    """Something to be written for one session."""

    @property
    def session(self) -> str:
        """Whose log it is about."""
        ...

    @property
    def size_bytes(self) -> int:
        """How much is written, about."""
        ...

    @property
    def client_id(self) -> bytes:
        """The digest of the client id that must be looked up first; nothing where there is none."""
        ...

    def apply(self, batch: "Batch") -> Any:  # noqa: ANN401 - each operation has its own answer
        """Check all conditions, then change. Raises an error of ours where it is refused."""
        ...


class Admit(msgspec.Struct, frozen=True):
    """Append an inbox record, unless an input of the same name is known. What is owed an outcome has a bound."""

    session: str
    body: bytes
    client_name: str
    inputs_waiting_max: int | None
    refs: Sequence[BlobRef] = ()

    @property
    def size_bytes(self) -> int:
        """How much is written, about."""
        return len(self.body)

    @property
    def client_id(self) -> bytes:
        """See `Operation.client_id`."""
        return sha256(self.client_name.encode()).digest() if self.client_name else b""

    def apply(self, batch: "Batch") -> Admission:
        """See `Operation.apply`."""
        client_id = self.client_id
        digest = sha256(self.body).digest() if client_id else b""
        if client_id and (known := batch.known.get((self.session, client_id))) is not None:
            seq, known_digest = known
            if known_digest != digest:
                raise ClientIdReusedError(self.session, self.client_name, seq)
            return Admission(seq, is_new=False)
        row = batch.row(self.session)
        if self.inputs_waiting_max is not None:
            row.check_room(self.inputs_waiting_max)
        batch.extend(row, (self.body,), owed=0 if self.inputs_waiting_max is None else 1)
        if client_id:
            batch.name(row, client_id, digest)
        batch.name_blobs(row, self.refs)
        return Admission(row.last_seq, is_new=True)


class Append(msgspec.Struct, frozen=True):
    """Append work records under a lease."""

    lease: Lease
    bodies: Sequence[bytes]
    after: int
    owed: int
    refs: Sequence[BlobRef] = ()

    @property
    def session(self) -> str:
        """Whose log it is about."""
        return self.lease.session

    @property
    def size_bytes(self) -> int:
        """How much is written, about."""
        return sum(map(len, self.bodies))

    @property
    def client_id(self) -> bytes:
        """There is none."""
        return b""

    def apply(self, batch: "Batch") -> int:
        """See `Operation.apply`."""
        row = batch.row(self.session)
        row.check_lease(self.lease)
        row.check_after(self.after)
        if self.bodies:
            batch.extend(row, self.bodies, self.owed)
            batch.name_blobs(row, self.refs)
        return row.last_seq


class Batch:
    """Changes to many sessions, gathered as the arrays that `holdfast.write` takes."""

    def __init__(self, cache: RowCache, known: KnownIds, now: float) -> None:
        self._cache, self._now = cache, now
        self.known = known
        # The new records of each session that is changed, for those who wait for them.
        self.fresh: dict[str, list[Fresh]] = {}
        # Sessions that are changed, by their place in the arrays, from 1.
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

    @property
    def sessions(self) -> AbstractSet[str]:
        """Those that are changed."""
        return self._places.keys()

    def row(self, session: str) -> SessionRow:
        """Return the row of a session, with what this batch has changed so far."""
        return self._cache.get(session).row

    def extend(self, row: SessionRow, bodies: Sequence[bytes], owed: int) -> None:
        """Add records to a log."""
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

    def name(self, row: SessionRow, client_id: bytes, digest: bytes) -> None:
        """Note under which client id the newest record was admitted."""
        self.known[row.key, client_id] = row.last_seq, digest
        self._id_places.append(self._places[row.key])
        self._ids.append(client_id)
        self._id_seqs.append(row.last_seq)
        self._digests.append(digest)

    def name_blobs(self, row: SessionRow, refs: Sequence[BlobRef]) -> None:
        """Note which blobs the newest records name."""
        for ref in refs:
            self._name_places.append(self._places[row.key])
            self._names.append(ref.sha256.encode())
            self._sizes.append(ref.size_bytes)

    def naming(self) -> tuple[Any, ...]:
        """Return what `holdfast.write_naming` takes behind what `holdfast.write` takes; nothing where it need not."""
        return (self._name_places, self._names, self._sizes) if self._names else ()

    def arguments(self) -> tuple[Any, ...]:
        """Return what `holdfast.write` takes behind the writer and its number."""
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

    def written(self, refused: Collection[int]) -> set[str]:
        """After the server has answered: keep the rows it took, drop the others, and return the sessions of those."""
        moved = {session for session, place in self._places.items() if place in refused}
        for session, version in zip(self._places, self._versions, strict=True):
            kept = self._cache.find(session)
            # Otherwise a newer one has come meanwhile. A row that was made and changed in one go is in version 1.
            if kept is not None and kept.version == version:
                kept.version = (version or 0) + 1
        self._cache.forget(moved)
        return moved
