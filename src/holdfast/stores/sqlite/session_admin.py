"""Whole sessions of a SQLite store: repair, adopt, rename and delete.

Repairs are written in the transaction that reports them in the log.
"""

from collections.abc import Sequence
from hashlib import sha256
from typing import Any, assert_never

import apsw

from holdfast.core.integrity.reconcile import (
    ClearSealed,
    DropSnapshot,
    LogRepair,
    MarkMissing,
    PutBack,
    Recount,
    Run,
    SetAside,
)
from holdfast.errors import BadInputError, SeqMovedError
from holdfast.ports import Quarantined
from holdfast.stores.listing import listing_change
from holdfast.stores.rows import SessionRow, check_not_sealed, is_intact, packed, record_crc32, unpacked_rows
from holdfast.stores.sqlite.batch import move_recent_apart
from holdfast.stores.sqlite.blob_refs import insert_refs, sealed_until
from holdfast.stores.sqlite.directory import write_row
from holdfast.stores.sqlite.search import ROW_BITS
from holdfast.types.records import (
    DamageSetAside,
    Logged,
    MessageAppended,
    PayloadStored,
    client_id_of,
    encode_record,
    owed,
    refs_in,
)

_TABLES = ("records", "recent")
_PREFIX = "quarantine:"

_SELECT_QUARANTINE = """
    SELECT quarantine.number, seq, why, since, body FROM quarantine JOIN sessions ON sessions.number = session
    WHERE key = ? AND quarantine.number > ? ORDER BY quarantine.number LIMIT ?
"""
_INSERT_RECORD = "INSERT OR REPLACE INTO records (session, seq, at, crc32, body) VALUES (?, ?, ?, ?, ?)"
_INSERT_RECENT = "INSERT INTO recent (session, seq, at, crc32, body) VALUES (?, ?, ?, ?, ?)"
_INSERT_QUARANTINE = """
    INSERT INTO quarantine (session, seq, at, crc32, body, why, since) VALUES (?, ?, ?, ?, ?, ?, ?)
"""


def apply_repairs(
    db: apsw.Connection, row: SessionRow, repairs: Sequence[LogRepair], bodies: Sequence[bytes], now: float
) -> None:
    """Apply repairs and append records. The caller has checked the lease and the end of the log."""
    # A row that is moved back may be the newest of all.
    row.last_seq = max([row.last_seq, *(one.to for one in repairs if isinstance(one, PutBack))])
    for repair in repairs:
        _apply(db, row, repair, now)
    if any(not isinstance(repair, Recount | DropSnapshot) for repair in repairs):
        # The index of sealed records stays: it could not be rebuilt here.
        forget_index(db, row.number, after=sealed_until(db, row.number))
        # Repaired rows are in the main table, and no recent row may come before them.
        move_recent_apart(db, row.number)
    for seq, body in enumerate(bodies, start=row.last_seq + 1):
        db.execute(_INSERT_RECENT, (row.number, seq, now, record_crc32(row.number, seq, now, body), body))
    row.extend(len(bodies), 0, now)


def _apply(db: apsw.Connection, row: SessionRow, repair: LogRepair, now: float) -> None:
    number, until = row.number, row.last_seq
    match repair:
        case SetAside():
            name = _quarantine_rows(db, number, repair, now)
            if repair.leaves_mark:
                _put_placeholder(db, number, repair, DamageSetAside(repair.why, name, until, repair.is_owed), now)
        case MarkMissing():
            _put_placeholder(db, number, repair, DamageSetAside(repair.why, "", until, repair.is_owed), now)
        case PutBack():
            _put_back(db, number, repair)
        case ClearSealed(run=run):
            for table in _TABLES:
                _clear(db, table, number, run)
        case DropSnapshot():
            db.execute("DELETE FROM snapshots WHERE session = ?", (number,))
        case Recount(owed=owed):
            row.owed = owed
        case _:
            assert_never(repair)


def _rows_at(db: apsw.Connection, table: str, number: int, seq: int) -> list[tuple[int, Sequence[Any]]]:
    """Return the rows that claim a seq, each with its rowid."""
    select = f"SELECT rowid, seq, at, crc32, body FROM {table} WHERE session = ? AND seq = ?"  # noqa: S608 - constant text
    return [(row[0], row[1:]) for row in unpacked_rows(db.execute(select, (number, seq)).fetchall())]


def _remove(db: apsw.Connection, table: str, rowid: int) -> None:
    db.execute(f"DELETE FROM {table} WHERE rowid = ?", (rowid,))  # noqa: S608 - constant table names


def _clear(db: apsw.Connection, table: str, number: int, run: Run) -> None:
    delete = f"DELETE FROM {table} WHERE session = ? AND seq BETWEEN ? AND ?"  # noqa: S608 - constant table names
    db.execute(delete, (number, run.first, run.last))


def _quarantine_rows(db: apsw.Connection, number: int, repair: SetAside, now: float) -> str:
    """Move rows to quarantine: the damaged ones, or all if none is damaged. Return the name of the last."""
    found = [(table, *row) for table in _TABLES for row in _rows_at(db, table, number, repair.seq)]
    bad = [(table, rowid, row) for table, rowid, row in found if not is_intact(number, row)]
    name = ""
    for table, rowid, row in bad or (found if repair.leaves_mark else []):
        db.execute(_INSERT_QUARANTINE, (number, *row, repair.why, now))
        name = f"{_PREFIX}{db.last_insert_rowid()}"
        _remove(db, table, rowid)
    return name


def _put_placeholder(
    db: apsw.Connection, number: int, repair: SetAside | MarkMissing, mark: DamageSetAside, now: float
) -> None:
    body = encode_record(mark)
    db.execute(_INSERT_RECORD, (number, repair.seq, now, record_crc32(number, repair.seq, now, body), body))


def _put_back(db: apsw.Connection, number: int, repair: PutBack) -> None:
    for table in _TABLES:
        for rowid, (_, at, checksum, body) in _rows_at(db, table, number, repair.seq):
            if is_intact(number, (repair.to, at, checksum, body)):
                db.execute(_INSERT_RECORD, (number, repair.to, at, checksum, body))
                _remove(db, table, rowid)


def forget_index(db: apsw.Connection, number: int, *, after: int) -> None:
    """Remove the records above `after` from the search index; the next search indexes them again."""
    select = "SELECT min(row) FROM search_rows WHERE session = ? AND seq > ?"
    first: int | None = db.execute(select, (number, after)).get
    if first is not None:
        db.execute("DELETE FROM search_rows WHERE session = ? AND row >= ?", (number, first))
        words = (number << ROW_BITS | first, (number + 1) << ROW_BITS)
        db.execute("DELETE FROM search_words WHERE rowid >= ? AND rowid < ?", words)
        db.execute("UPDATE search_marks SET rows = ? WHERE session = ?", (first, number))
    until = max(after, 0)
    db.execute("UPDATE search_marks SET until = ?1, reread = ?1 + 1 WHERE session = ?2 AND until > ?1", (until, number))
    if after < 0:
        db.execute("DELETE FROM search_marks WHERE session = ?", (number,))


def quarantine(db: apsw.Connection, session: str, after: str, limit: int) -> list[Quarantined]:
    """Return quarantined rows; see `Maintenance.quarantine`."""
    start = int(after.removeprefix(_PREFIX) or 0)
    rows = db.execute(_SELECT_QUARANTINE, (session, start, max(limit, 0)))
    return [Quarantined(f"{_PREFIX}{number}", *rest) for number, *rest in rows]


# Rows per transaction of a deletion: some ten milliseconds, in which no other process can write.
DELETED_ROWS_MAX = 5_000

_INSERT_CLIENT_ID = "INSERT OR IGNORE INTO client_ids (session, client_id, seq, sha256) VALUES (?, ?, ?, ?)"
_BY_ROWID = "DELETE FROM {} WHERE rowid IN (SELECT rowid FROM {} WHERE session = ? LIMIT ?)"


def adopt(db: apsw.Connection, row: SessionRow, records: Sequence[Logged]) -> int:
    """Append records with their own seqs and times; see `SessionAdmin.adopt`."""
    for seq, logged in enumerate(records, start=row.last_seq + 1):
        if logged.seq != seq:
            raise SeqMovedError(row.key, logged.seq - 1, row.last_seq)
    for logged in records:
        body = encode_record(logged.record)
        checksum = record_crc32(row.number, logged.seq, logged.at, body)
        kept = packed(body) if isinstance(logged.record, MessageAppended | PayloadStored) else body
        db.execute(_INSERT_RECENT, (row.number, logged.seq, logged.at, checksum, kept))
        if client_id := client_id_of(logged.record):
            digest = sha256(body).digest()
            db.execute(_INSERT_CLIENT_ID, (row.number, client_id, logged.seq, digest))
        row.extend(1, owed(logged.record), logged.at)
    insert_refs(db, row.number, refs_in(logged.record for logged in records))
    change = listing_change(logged.record for logged in records)
    if records and row.is_listed_anew(change, row.updated_at):
        write_row(db, row.number, change, row.hour)
    return row.last_seq


def rename(db: apsw.Connection, row: SessionRow, key: str) -> None:
    """Rename a session. A row of the new key that has only a lease is deleted."""
    taken = db.execute("SELECT created_at IS NOT NULL, number FROM sessions WHERE key = ?", (key,)).get
    if taken is not None and taken[0]:
        raise BadInputError(f"session {key!r} already exists; choose another key")
    check_not_sealed(row.key, key, sealed_until(db, row.number))
    if taken is not None:
        db.execute("DELETE FROM sessions WHERE number = ?", (taken[1],))
    db.execute("UPDATE sessions SET key = ? WHERE number = ?", (key, row.number))


def delete_some(db: apsw.Connection, row: SessionRow) -> bool:
    """Delete some rows of a session, and return whether any are left."""
    forget_index(db, row.number, after=-1)
    left = DELETED_ROWS_MAX
    for table in ("recent", "records", "quarantine"):
        db.execute(_BY_ROWID.format(table, table), (row.number, left))
        left -= db.changes()
    if left <= 0:
        return True
    for table in ("snapshots", "client_ids", "segments", "blob_names", "blobs_unknown", "labels", "session_tags"):
        db.execute(f"DELETE FROM {table} WHERE session = ?", (row.number,))  # noqa: S608 - constant table names
    db.execute("DELETE FROM sessions WHERE number = ?", (row.number,))
    return False
