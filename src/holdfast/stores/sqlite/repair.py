"""Repairs of a log in a SQLite store, in the transaction that reports them in the log."""

from collections.abc import Sequence
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
from holdfast.ports import Quarantined
from holdfast.stores.rows import SessionRow, is_intact, record_crc32
from holdfast.stores.sqlite.batch import move_recent_apart
from holdfast.stores.sqlite.blob_refs import sealed_until
from holdfast.stores.sqlite.search import ROW_BITS
from holdfast.types.records import DamageSetAside, encode_record

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


def _rows_at(db: apsw.Connection, table: str, number: int, seq: int) -> list[tuple[int, tuple[Any, ...]]]:
    """Return the rows that claim a seq, each with its rowid."""
    select = f"SELECT rowid, seq, at, crc32, body FROM {table} WHERE session = ? AND seq = ?"  # noqa: S608 - constant text
    rows: list[tuple[Any, ...]] = db.execute(select, (number, seq)).fetchall()
    return [(row[0], row[1:]) for row in rows]


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
