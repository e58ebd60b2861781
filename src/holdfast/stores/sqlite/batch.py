"""What each operation on a SQLite store checks and writes, within one transaction shared by many.

An operation checks all its conditions before it changes anything, so one that is refused leaves the others in the same
transaction untouched. Rows of sessions are kept between transactions for as long as no other process has written; what
is to be written is gathered and goes into the database in a few statements for the whole batch, because every statement
gives up the interpreter's lock and may wait a long time for it on a busy process.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from hashlib import sha256
from typing import Any, TypeAlias, TypeVar

import apsw

from holdfast.errors import ClientIdReusedError, StoreFullError
from holdfast.ports import Admission, Lease, Segment, Snapshot
from holdfast.stores.feeds import Fresh
from holdfast.stores.rows import SessionRow, record_crc32
from holdfast.stores.sqlite.blob_refs import add_blob_refs, insert_names, move_out
from holdfast.stores.sqlite.inspect import RecentEnds, end_of_log
from holdfast.stores.sqlite.process_lock import Owners
from holdfast.stores.sqlite.search import Slice, write_slice
from holdfast.types.messages import BlobRef

# Sessions whose rows are kept between transactions: some MiB at most. Beyond, all are dropped and read again.
ROWS_KEPT_MAX = 20_000
# How many records may be recent before they are moved to the others. Moving touches a page or two per session however
# many records it has, so it pays to wait; yet it takes some milliseconds per thousand, in which nobody else can write.
RECENT_RECORDS_MAX = 1_000
# Rows per statement, largest first: a batch of any size takes few statements and few of them need preparing.
ROWS_PER_STATEMENT = (64, 8, 1)


def _by_size(columns: int, sql: str) -> dict[int, str]:
    """Return a statement for each number of rows, by the number of values it takes."""
    row = f"({','.join('?' * columns)})"
    return {columns * rows: sql.format(",".join([row] * rows)) for rows in ROWS_PER_STATEMENT}


_SELECT_ROW = """
    SELECT key, number, (SELECT max(seq) FROM records WHERE session = number),
           owed, created_at, fence, owner, instance, lease_until
    FROM sessions WHERE key = ?
"""
# With where they begin and how many there are, which tells whether a number is missing among them.
_SELECT_RECENT_ENDS = "SELECT session, max(seq), min(seq), count(*) FROM recent GROUP BY session"
_UPSERT_ROWS = _by_size(
    8,
    "INSERT INTO sessions (key, number, owed, created_at, fence, owner, instance, lease_until) VALUES {}"
    " ON CONFLICT (number) DO UPDATE SET owed = excluded.owed, created_at = excluded.created_at,"
    " fence = excluded.fence, owner = excluded.owner, instance = excluded.instance, lease_until = excluded.lease_until",
)
_INSERT_RECORDS = _by_size(5, "INSERT INTO recent (session, seq, at, crc32, body) VALUES {}")
_SELECT_CLIENT_ID = "SELECT seq, sha256 FROM client_ids WHERE session = ? AND client_id = ?"
_INSERT_CLIENT_ID = "INSERT INTO client_ids (session, client_id, seq, sha256) VALUES (?, ?, ?, ?)"
_UPSERT_SNAPSHOT = "INSERT OR REPLACE INTO snapshots (session, seq, crc32, body) VALUES (?, ?, ?, ?)"

ResultT = TypeVar("ResultT")
_Value: TypeAlias = str | bytes | int | float | None


def move_recent(db: apsw.Connection) -> None:
    """Within a transaction: move all recent records to the others, those of a session side by side."""
    try:
        db.execute("INSERT INTO records SELECT session, seq, at, crc32, body FROM recent ORDER BY session, seq")
    except apsw.ConstraintError:
        # A damaged number has met another. That session is healed by whoever works on it; the others go on.
        move_recent_apart(db)
    else:
        db.execute("DELETE FROM recent")


def move_recent_apart(db: apsw.Connection, number: int | None = None) -> None:
    """Within a transaction: move the recent records, of all sessions or of one, whose place is free, and only those."""
    of = "(?1 IS NULL OR recent.session = ?1)"
    db.execute(
        "INSERT OR IGNORE INTO records SELECT session, seq, at, crc32, body FROM recent"  # noqa: S608 - ours
        f" WHERE {of} ORDER BY session, seq",
        (number,),
    )
    db.execute(
        f"DELETE FROM recent WHERE {of} AND EXISTS (SELECT 1 FROM records AS moved"  # noqa: S608 - ours
        " WHERE moved.session = recent.session AND moved.seq = recent.seq"
        " AND moved.at = recent.at AND moved.crc32 = recent.crc32 AND moved.body = recent.body)",
        (number,),
    )


class RowCache:
    """The rows of sessions as the last transaction of this connection left them."""

    def __init__(self) -> None:
        self._rows: dict[str, SessionRow] = {}
        self._version = -1
        # The highest number given to a session, and the last recent seq of each; None: not read yet.
        self._last_number: int | None = None
        self._recent_ends: dict[int, RecentEnds] | None = None
        # How many records are recent, those of earlier and of other processes included, when they were last counted or
        # added to: processes that live for a few records each would otherwise never move any.
        self.recent_records = 0

    def begin(self, db: apsw.Connection) -> None:
        """Within a new transaction: forget everything where another connection has written since our last commit."""
        if db.data_version() != self._version or len(self._rows) > ROWS_KEPT_MAX:
            self.forget()

    def committed(self, db: apsw.Connection) -> None:
        """Right after a commit: what is kept is what the file holds."""
        self._version = db.data_version()

    def forget(self) -> None:
        """Drop everything, as after a transaction that was taken back."""
        self._rows.clear()
        self._version = -1
        self._last_number = None
        self._recent_ends = None

    def get(self, db: apsw.Connection, session: str) -> SessionRow:
        """Return a session's row; a new one, without a number, where there is none."""
        row = self._rows.get(session)
        if row is None:
            found = db.execute(_SELECT_ROW, (session,)).get
            row = self._rows[session] = _row_of(db, found, self._ends(db)) if found else SessionRow(session)
        return row

    def _ends(self, db: apsw.Connection) -> dict[int, RecentEnds]:
        """Return where the recent records of each session ended when this was first asked after forgetting.

        Rows that are kept know better by now; a row that is read for the first time has not been written since.
        """
        if self._recent_ends is None:
            ends: list[tuple[Any, ...]] = db.execute(_SELECT_RECENT_ENDS).fetchall()
            self._recent_ends = {number: (last, first, count) for number, last, first, count in ends}
            self.recent_records = sum(count for *_, count in ends)
        return self._recent_ends

    def drop(self, session: str) -> None:
        """Forget one row, and where recent records end: both are read again when they are next asked for."""
        self._rows.pop(session, None)
        self._recent_ends = None

    def next_number(self, db: apsw.Connection) -> int:
        """Return a number that no session has."""
        if self._last_number is None:
            self._last_number = db.execute("SELECT max(number) FROM sessions").get or 0
        self._last_number += 1
        return self._last_number


def _row_of(db: apsw.Connection, found: tuple[Any, ...], recent_ends: Mapping[int, RecentEnds]) -> SessionRow:
    key, number, older, owed, created_at, fence, owner, instance, lease_until = found
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
    )


class Batch:
    """One transaction in the making: its public methods are the operations of the store."""

    def __init__(
        self, db: apsw.Connection, cache: RowCache, owners: Owners, now: float, *, is_short: bool = False
    ) -> None:
        self._db, self._cache, self._owners, self._now = db, cache, owners, now
        # The disk is full, and this is written in the space that is kept for the ends of turns.
        self._is_short = is_short
        self._records: list[_Value] = []
        self._changed: dict[str, SessionRow] = {}
        # Sessions that have changed, for those who wait for them, with their new records, and how many these are.
        self.news: dict[str, list[Fresh]] = {}
        self.records_added = 0

    def admit(
        self,
        session: str,
        body: bytes,
        client_id: str,
        *,
        inputs_waiting_max: int | None,
        refs: Sequence[BlobRef] = (),
    ) -> Admission:
        """Append an inbox record, unless an input of the same name is known. What is owed an outcome has a bound."""
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
            row.check_room(inputs_waiting_max)
        self._extend(row, (body,), owed=0 if inputs_waiting_max is None else 1)
        if client_id:
            self._db.execute(_INSERT_CLIENT_ID, (row.number, client_id, row.last_seq, digest))
        if refs:
            insert_names(self._db, row.number, refs)
        return Admission(row.last_seq, is_new=True)

    def append(
        self, lease: Lease, bodies: Sequence[bytes], *, after: int, owed: int, refs: Sequence[BlobRef] = ()
    ) -> int:
        """Append work records under a lease."""
        row = self._row(lease.session)
        row.check_lease(lease)
        row.check_after(after)
        if bodies:
            self._extend(row, bodies, owed)
        if refs:
            insert_names(self._db, row.number, refs)
        return row.last_seq

    def seal(self, lease: Lease, segment: Segment, body: bytes, *, after: int) -> int:
        """Take records out of the live ones that are in the archive now, and append the record that says so."""
        row = self._row(lease.session)
        row.check_lease(lease)
        row.check_after(after)
        move_out(self._db, row.number, segment)
        self._extend(row, (body,), owed=0)
        return row.last_seq

    def acquire(self, session: str, owner: str, seconds: float) -> Lease | None:
        """Give the lease to a worker of this store, unless another living one holds it."""
        row = self._row(session)
        if self._is_short and row.owed <= 0:
            raise StoreFullError(f"no space is left, and session {session!r} owes nothing that it is kept for")
        is_free = row.is_expired(self._now) or row.is_held_by(owner, self._owners.instance)
        if not is_free and not self._owners.is_dead(row.instance or ""):
            return None
        self._keep(row)
        return row.give_lease(owner, self._owners.instance, self._now + seconds)

    def renew(self, lease: Lease, seconds: float) -> Lease:
        """Prolong a lease."""
        row = self._row(lease.session)
        row.check_lease(lease)
        self._keep(row)
        return row.prolong_lease(self._now + seconds)

    def release(self, lease: Lease) -> None:
        """Take a lease back, where it is still the newest."""
        row = self._row(lease.session)
        if row.owner is not None and row.fence == lease.fence:
            self._keep(row)
            row.end_lease()

    def save_snapshot(self, lease: Lease, snapshot: Snapshot) -> None:
        """Keep a fold in place of the one before."""
        row = self._row(lease.session)
        row.check_lease(lease)
        checksum = record_crc32(row.number, snapshot.seq, 0.0, snapshot.body)
        self._db.execute(_UPSERT_SNAPSHOT, (row.number, snapshot.seq, checksum, snapshot.body))

    def add_blob_refs(self, session: str, refs: Collection[BlobRef]) -> None:
        """Note all blobs that the records of a session name."""
        add_blob_refs(self._db, session, refs)

    def index(self, part: Slice) -> None:
        """Make records that are in the log findable."""
        write_slice(self._db, part)

    def change(self, lease: Lease, make: Callable[[apsw.Connection, SessionRow, float], ResultT]) -> ResultT:
        """Change a session under its lease in a way of the caller's, who checks everything before it changes anything.

        What was gathered so far is written first, and the row is read again by whoever asks next.
        """
        row = self._row(lease.session)
        row.check_lease(lease)
        self.flush()
        result = make(self._db, row, self._now)
        if self._db.execute("SELECT 1 FROM sessions WHERE number = ?", (row.number,)).get:
            self._keep(row)
            self.flush()
        self._cache.drop(row.key)
        self.news.setdefault(row.key, [])
        return result

    def forget(self, session: str) -> None:
        """Have the row of a session read again."""
        self._cache.drop(session)

    def flush(self) -> None:
        """Write what was gathered."""
        rows: list[_Value] = []
        for row in self._changed.values():
            rows += (row.key, row.number, row.owed, row.created_at)
            rows += (row.fence, row.owner, row.instance, row.lease_until)
        _execute_in_rows(self._db, _UPSERT_ROWS, rows)
        _execute_in_rows(self._db, _INSERT_RECORDS, self._records)
        self._changed, self._records = {}, []

    def _row(self, session: str) -> SessionRow:
        return self._cache.get(self._db, session)

    def _keep(self, row: SessionRow) -> None:
        """Write this row at the end, under a number of its own."""
        if not row.number:
            row.number = self._cache.next_number(self._db)
        self._changed[row.key] = row

    def _extend(self, row: SessionRow, bodies: Sequence[bytes], owed: int) -> None:
        if owed or row.last_seq == 0:
            self._keep(row)
        at, number = self._now, row.number
        fresh = self.news.setdefault(row.key, [])
        for seq, body in enumerate(bodies, start=row.last_seq + 1):
            self._records += (number, seq, at, record_crc32(number, seq, at, body), body)
            fresh.append((seq, at, body))
        row.extend(len(bodies), owed, at)
        self.records_added += len(bodies)


def _execute_in_rows(db: apsw.Connection, statements: dict[int, str], values: list[_Value]) -> None:
    """Write many rows with statements of a few fixed sizes."""
    start, left = 0, len(values)
    for size, statement in statements.items():
        while left >= size:
            db.execute(statement, values[start : start + size])
            start, left = start + size, left - size
