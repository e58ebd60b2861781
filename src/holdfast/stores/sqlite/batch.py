"""Operations on a SQLite store, within one transaction that many operations share.

An operation checks all its conditions before it changes anything, so a rejected one does not affect the others in the
same transaction. Session rows are cached between transactions until another process writes. Writes are collected and
executed in a few statements per batch, because every statement releases the GIL and may wait long for it in a busy
process.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from hashlib import sha256
from typing import Any, TypeAlias, TypeVar

import apsw

from holdfast.errors import ClientIdReusedError, StoreFullError
from holdfast.ports import Admission, Lease, Segment, SessionInfo, Snapshot
from holdfast.stores.feeds import NewRow
from holdfast.stores.listing import NO_CHANGE, ListingChange
from holdfast.stores.rows import SessionRow, record_crc32
from holdfast.stores.sqlite.blob_refs import add_blob_refs, insert_refs, seal_rows
from holdfast.stores.sqlite.directory import write_row
from holdfast.stores.sqlite.inspect import RecentEnds, end_of_log
from holdfast.stores.sqlite.process_lock import Instances
from holdfast.stores.sqlite.search import Slice, merge, write_slice
from holdfast.types.messages import BlobRef

# Rows in the cache: some MiB at most. Above this the cache is cleared.
ROWS_KEPT_MAX = 20_000
# Recent records before they are moved to the main table. A move touches a page or two per session for any number of
# records, so it pays to wait; but it takes some milliseconds per thousand, in which no other process can write.
RECENT_RECORDS_MAX = 1_000
# The records of few sessions are moved in parts of some pages, so that the file does not keep the space of all of them;
# those of many sessions at once, so that each session's are side by side.
_PLACES_MOVED, _SESSIONS_IN_PARTS_MAX = 64, 4
_PLACES_SPANNED_MAX = 16 * RECENT_RECORDS_MAX
# Rows per statement, largest first: a batch of any size takes few statements, and few are prepared.
ROWS_PER_STATEMENT = (64, 8, 1)


def _by_size(columns: int, sql: str) -> dict[int, str]:
    """Return a statement for each number of rows, keyed by its number of values."""
    row = f"({','.join('?' * columns)})"
    return {columns * rows: sql.format(",".join([row] * rows)) for rows in ROWS_PER_STATEMENT}


_SELECT_ROW = """
    SELECT key, number, (SELECT max(seq) FROM records WHERE session = number),
           owed, created_at, fence, owner, instance, lease_until,
           coalesce((SELECT opening <> '' FROM labels WHERE session = number), 0),
           coalesce((SELECT used_hour FROM labels WHERE session = number), -1)
    FROM sessions WHERE key = ?
"""
# The first seq and the count show whether a seq is missing.
_SELECT_RECENT_ENDS = "SELECT session, max(seq), min(seq), count(*) FROM recent GROUP BY session"
_UPSERT_ROWS = _by_size(
    8,
    "INSERT INTO sessions (key, number, owed, created_at, fence, owner, instance, lease_until) VALUES {}"
    " ON CONFLICT (number) DO UPDATE SET owed = excluded.owed, created_at = excluded.created_at,"
    " fence = excluded.fence, owner = excluded.owner, instance = excluded.instance, lease_until = excluded.lease_until",
)
_INSERT_RECORDS = _by_size(5, "INSERT INTO recent (session, seq, at, crc32, body) VALUES {}")
_MOVE = "INSERT INTO records SELECT session, seq, at, crc32, body FROM recent"
_SELECT_CLIENT_ID = "SELECT seq, sha256 FROM client_ids WHERE session = ? AND client_id = ?"
_INSERT_CLIENT_ID = "INSERT INTO client_ids (session, client_id, seq, sha256) VALUES (?, ?, ?, ?)"
_UPSERT_SNAPSHOT = "INSERT OR REPLACE INTO snapshots (session, seq, crc32, body) VALUES (?, ?, ?, ?)"

ResultT = TypeVar("ResultT")
_Value: TypeAlias = str | bytes | int | float | None


def move_recent(db: apsw.Connection) -> None:
    """Within a transaction: move all recent records to the main table, those of a session side by side.

    Those of few sessions are moved in parts: each part uses the pages that the one before it has left.
    """
    first, last, sessions = db.execute("SELECT min(place), max(place), count(DISTINCT session) FROM recent").get
    parts: list[int] = []
    # A damaged place may be any number.
    if last is not None and sessions <= _SESSIONS_IN_PARTS_MAX and last - first < _PLACES_SPANNED_MAX:
        parts = list(range(first + _PLACES_MOVED - 1, last, _PLACES_MOVED))
    try:
        for until in parts:
            db.execute(f"{_MOVE} WHERE place <= ? ORDER BY session, seq", (until,))
            db.execute("DELETE FROM recent WHERE place <= ?", (until,))
        db.execute(f"{_MOVE} ORDER BY session, seq")
        db.execute("DELETE FROM recent")
    except apsw.ConstraintError:
        # A damaged seq collides with another. The next worker of that session repairs it; the others are moved.
        move_recent_apart(db)


def move_recent_apart(db: apsw.Connection, number: int | None = None) -> None:
    """Within a transaction: move only the recent records, of all sessions or of one, whose seq is free."""
    of = "(?1 IS NULL OR recent.session = ?1)"
    db.execute(
        "INSERT OR IGNORE INTO records SELECT session, seq, at, crc32, body FROM recent"  # noqa: S608 - constant text
        f" WHERE {of} ORDER BY session, seq",
        (number,),
    )
    db.execute(
        f"DELETE FROM recent WHERE {of} AND EXISTS (SELECT 1 FROM records AS moved"  # noqa: S608 - constant text
        " WHERE moved.session = recent.session AND moved.seq = recent.seq"
        " AND moved.at = recent.at AND moved.crc32 = recent.crc32 AND moved.body = recent.body)",
        (number,),
    )


class RowCache:
    """Cache of session rows, as the last transaction of this connection left them."""

    def __init__(self) -> None:
        self._rows: dict[str, SessionRow] = {}
        self._version = -1
        # The highest session number, and the recent records of each session; None: not read yet.
        self._last_number: int | None = None
        self._recent_ends: dict[int, RecentEnds] | None = None
        # Number of recent records, including those of other processes: short-lived processes would otherwise never move
        # any.
        self.recent_records = 0

    def begin(self, db: apsw.Connection) -> bool:
        """Within a new transaction: clear the cache if another connection has written since our last commit.

        Returns whether none has.
        """
        is_current = db.data_version() == self._version
        if not is_current or len(self._rows) > ROWS_KEPT_MAX:
            self.forget()
        return is_current

    def is_current(self, db: apsw.Connection) -> bool:
        """Return whether the newest commit, as of the last statement that read the file, is our own."""
        return db.data_version() == self._version

    def committed(self, db: apsw.Connection) -> None:
        """Right after a commit: the cache matches the file."""
        self._version = db.data_version()

    def forget(self) -> None:
        """Clear the cache, as after a rollback."""
        self._rows.clear()
        self._version = -1
        self._last_number = None
        self._recent_ends = None

    def get(self, db: apsw.Connection, session: str) -> SessionRow:
        """Return the row of a session; a new one without a number if it does not exist."""
        row = self._rows.get(session)
        if row is None:
            found = db.execute(_SELECT_ROW, (session,)).get
            row = self._rows[session] = _row_of(db, found, self._ends(db)) if found else SessionRow(session)
        return row

    def _ends(self, db: apsw.Connection) -> dict[int, RecentEnds]:
        """Return the recent records of each session, as of the first call after `forget`.

        Cached rows are newer; a row that is read for the first time has not changed since.
        """
        if self._recent_ends is None:
            ends: list[tuple[Any, ...]] = db.execute(_SELECT_RECENT_ENDS).fetchall()
            self._recent_ends = {number: (last, first, count) for number, last, first, count in ends}
            self.recent_records = sum(count for *_, count in ends)
        return self._recent_ends

    def info(self, db: apsw.Connection, session: str) -> SessionInfo | None:
        """Outside of a transaction: return the summary of a session, if this connection wrote the newest commit.

        None: read it from the file. A row that was read, not written, does not know the time of its newest record.
        """
        row = self._rows.get(session)
        if row is None or not row.updated_at:
            return None
        # SQLite notices commits of other connections when a statement reads.
        db.execute("PRAGMA data_version").get  # noqa: B018 - the statement is run for this effect
        return row.info() if db.data_version() == self._version else None

    def drop(self, session: str) -> None:
        """Remove a row and the ends of recent records from the cache."""
        self._rows.pop(session, None)
        self._recent_ends = None

    def next_number(self, db: apsw.Connection) -> int:
        """Return an unused session number."""
        if self._last_number is None:
            self._last_number = db.execute("SELECT max(number) FROM sessions").get or 0
        self._last_number += 1
        return self._last_number


def _row_of(db: apsw.Connection, found: tuple[Any, ...], recent_ends: Mapping[int, RecentEnds]) -> SessionRow:
    key, number, older, owed, created_at, fence, owner, instance, lease_until, has_opening, hour = found
    return SessionRow(
        key=key,
        number=number,
        last_seq=end_of_log(db, number, older or 0, recent_ends.get(number)),
        owed=owed,
        created_at=created_at,
        fence=fence,
        owner=owner,
        instance=instance,
        lease_until=lease_until,
        has_opening=bool(has_opening),
        hour=hour,
    )


class Batch:
    """A transaction in progress. Its public methods are the operations of the store."""

    def __init__(
        self, cursor: apsw.Cursor, cache: RowCache, instances: Instances, now: float, *, uses_reserve: bool = False
    ) -> None:
        self._cursor, self._db = cursor, cursor.connection
        self._cache, self._instances, self._now = cache, instances, now
        # The disk is full, and this transaction uses the reserved space.
        self._uses_reserve = uses_reserve
        self._records: list[_Value] = []
        self._changed: dict[str, SessionRow] = {}
        # The new rows of each changed session, for its feeds, and their number.
        self.new_rows: dict[str, list[NewRow]] = {}
        self.records_added = 0

    def admit(
        self,
        session: str,
        body: bytes,
        client_id: str,
        *,
        inputs_waiting_max: int | None,
        refs: Sequence[BlobRef] = (),
        listed: ListingChange = NO_CHANGE,
    ) -> Admission:
        """Append an inbox record unless its client id is known. The number of pending inputs is bounded."""
        row = self._row(session)
        digest = sha256(body).digest() if client_id else b""
        if client_id and row.number:
            known = self._db.execute(_SELECT_CLIENT_ID, (row.number, client_id)).get
            if known is not None:
                seq, known_digest = known
                if known_digest != digest:
                    raise ClientIdReusedError(session, client_id, seq)
                return Admission(seq, is_new=False)
        if inputs_waiting_max is not None:
            row.check_queue(inputs_waiting_max)
        self._extend(row, (body,), 0 if inputs_waiting_max is None else 1, listed)
        if client_id:
            self._db.execute(_INSERT_CLIENT_ID, (row.number, client_id, row.last_seq, digest))
        if refs:
            insert_refs(self._db, row.number, refs)
        return Admission(row.last_seq, is_new=True)

    def extend(  # noqa: PLR0913 - the bookkeeping of several records at once
        self,
        session: str,
        rows: Sequence[tuple[bytes, bytes]],
        client_ids: Sequence[str],
        *,
        after: int,
        owed: int,
        inputs_waiting_max: int,
        refs: Sequence[BlobRef],
        listed: ListingChange,
    ) -> int:
        """Append inbox records after the last seq. Client ids are empty or new.

        A row is a body, and the bytes that are stored of it.
        """
        row = self._row(session)
        row.check_after(after)
        if owed:
            row.check_queue(inputs_waiting_max)
        for client_id in filter(None, client_ids if row.number else ()):
            known = self._db.execute(_SELECT_CLIENT_ID, (row.number, client_id)).get
            if known is not None:
                raise ClientIdReusedError(session, client_id, known[0])
        if rows:
            self._extend(row, [body for body, _ in rows], owed, listed, [stored for _, stored in rows])
        for seq, client_id, (body, _) in zip(range(after + 1, row.last_seq + 1), client_ids, rows, strict=True):
            if client_id:
                self._db.execute(_INSERT_CLIENT_ID, (row.number, client_id, seq, sha256(body).digest()))
        if refs:
            insert_refs(self._db, row.number, refs)
        return row.last_seq

    def append(
        self,
        lease: Lease,
        bodies: Sequence[bytes],
        *,
        after: int,
        owed: int,
        refs: Sequence[BlobRef] = (),
        listed: ListingChange = NO_CHANGE,
    ) -> int:
        """Append work records under a lease."""
        row = self._row(lease.session)
        row.check_lease(lease)
        row.check_after(after)
        if bodies:
            self._extend(row, bodies, owed, listed)
        if refs:
            insert_refs(self._db, row.number, refs)
        return row.last_seq

    def seal(self, lease: Lease, segment: Segment, body: bytes, *, after: int) -> int:
        """Delete the rows of a segment and append the record of the seal."""
        row = self._row(lease.session)
        row.check_lease(lease)
        row.check_after(after)
        seal_rows(self._db, row.number, segment)
        self._extend(row, (body,), owed=0)
        return row.last_seq

    def acquire(self, session: str, owner: str, seconds: float) -> Lease | None:
        """Give the lease to a worker of this store unless another live one holds it."""
        row = self._row(session)
        if self._uses_reserve and row.owed <= 0:
            raise StoreFullError(
                f"disk full: the reserved space is only for sessions with pending work; {session!r} has none"
            )
        is_free = row.is_expired(self._now) or row.is_held_by(owner, self._instances.instance)
        if not is_free and not self._instances.is_dead(row.instance or ""):
            return None
        self._save(row)
        return row.grant_lease(owner, self._instances.instance, self._now + seconds)

    def renew(self, lease: Lease, seconds: float) -> Lease:
        """Extend a lease."""
        row = self._row(lease.session)
        row.check_lease(lease)
        self._save(row)
        return row.extend_lease(self._now + seconds)

    def release(self, lease: Lease) -> None:
        """Release a lease if it is the newest."""
        row = self._row(lease.session)
        if row.owner is not None and row.fence == lease.fence:
            self._save(row)
            row.clear_lease()

    def save_snapshot(self, lease: Lease, snapshot: Snapshot) -> None:
        """Replace the snapshot of a session."""
        row = self._row(lease.session)
        row.check_lease(lease)
        checksum = record_crc32(row.number, snapshot.seq, 0.0, snapshot.body)
        self._db.execute(_UPSERT_SNAPSHOT, (row.number, snapshot.seq, checksum, snapshot.body))

    def add_blob_refs(self, session: str, refs: Collection[BlobRef]) -> None:
        """Add all blob references of a session."""
        add_blob_refs(self._db, session, refs)

    def index(self, part: Slice) -> None:
        """Add a slice of records to the search index."""
        write_slice(self._db, part)

    def merge_index(self) -> bool:
        """Merge some of the search index, and return whether more may be left."""
        return merge(self._db)

    def change(self, lease: Lease, work: Callable[[apsw.Connection, SessionRow, float], ResultT]) -> ResultT:
        """Run a change of a session under its lease. The callable checks everything before it changes anything.

        Collected writes are executed first, and the row is removed from the cache after the change.
        """
        row = self._row(lease.session)
        row.check_lease(lease)
        self.flush()
        result = work(self._db, row, self._now)
        if self._db.execute("SELECT 1 FROM sessions WHERE number = ?", (row.number,)).get:
            self._save(row)
            self.flush()
        self._cache.drop(row.key)
        self.new_rows.setdefault(row.key, [])
        return result

    def forget(self, session: str) -> None:
        """Remove the row of a session from the cache."""
        self._cache.drop(session)

    def flush(self) -> None:
        """Execute the collected writes."""
        if self._changed:
            rows: list[_Value] = []
            for row in self._changed.values():
                rows += (row.key, row.number, row.owed, row.created_at)
                rows += (row.fence, row.owner, row.instance, row.lease_until)
            _execute_in_rows(self._cursor, _UPSERT_ROWS, rows)
            self._changed = {}
        if self._records:
            _execute_in_rows(self._cursor, _INSERT_RECORDS, self._records)
            self._records = []

    def _row(self, session: str) -> SessionRow:
        return self._cache.get(self._db, session)

    def _save(self, row: SessionRow) -> None:
        """Collect this row for the flush, with a number of its own."""
        if not row.number:
            row.number = self._cache.next_number(self._db)
        self._changed[row.key] = row

    def _extend(
        self,
        row: SessionRow,
        bodies: Sequence[bytes],
        owed: int,
        listed: ListingChange = NO_CHANGE,
        stored: Sequence[bytes] = (),
    ) -> None:
        if owed or row.last_seq == 0:
            self._save(row)
        at, number = self._now, row.number
        fresh = self.new_rows.setdefault(row.key, [])
        for seq, (body, kept) in enumerate(zip(bodies, stored or bodies, strict=True), start=row.last_seq + 1):
            self._records += (number, seq, at, record_crc32(number, seq, at, body), kept)
            fresh.append((seq, at, body))
        row.extend(len(bodies), owed, at)
        if (listed is not NO_CHANGE or at >= row.listed_until) and self._is_listed_anew(row, listed):
            write_row(self._db, number, listed, row.hour)
        self.records_added += len(bodies)

    def _is_listed_anew(self, row: SessionRow, listed: ListingChange) -> bool:
        return row.is_listed_anew(listed, self._now) and not self._uses_reserve


def _execute_in_rows(cursor: apsw.Cursor, statements: dict[int, str], values: list[_Value]) -> None:
    """Insert many rows with statements of a few fixed sizes."""
    start, left = 0, len(values)
    if left in statements:
        cursor.execute(statements[left], values)
        return
    for size, statement in statements.items():
        while left >= size:
            cursor.execute(statement, values[start : start + size])
            start, left = start + size, left - size
