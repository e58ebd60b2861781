"""What is read from a SQLite store, checked on the way: a record that is damaged or missing is never passed over."""

from typing import Any

import apsw

from holdfast.core.records import Logged
from holdfast.ports import SessionInfo, Snapshot
from holdfast.stores.checking import checked_records, record_crc32

_SELECT_NUMBER = "SELECT number FROM sessions WHERE key = ?"
_SELECT_RECORDS = """
    SELECT seq, at, crc32, body FROM records WHERE session = ?1 AND seq > ?2
    UNION ALL
    SELECT seq, at, crc32, body FROM recent WHERE session = ?1 AND seq > ?2
    ORDER BY seq LIMIT ?3
"""
_SELECT_SESSIONS = """
    SELECT key,
           coalesce((SELECT max(seq) FROM recent WHERE session = number),
                    (SELECT max(seq) FROM records WHERE session = number)),
           owed, created_at,
           coalesce((SELECT at FROM recent WHERE session = number ORDER BY seq DESC LIMIT 1),
                    (SELECT at FROM records WHERE session = number ORDER BY seq DESC LIMIT 1))
    FROM sessions WHERE created_at IS NOT NULL
"""
_SELECT_INFO = f"{_SELECT_SESSIONS} AND key = ?"
_SELECT_PAGE = f"{_SELECT_SESSIONS} AND key > ? ORDER BY key LIMIT ?"
_SELECT_OWING = "SELECT key FROM sessions WHERE owed > 0 ORDER BY key"
_SELECT_SNAPSHOT = """
    SELECT number, snapshots.seq, crc32, body FROM snapshots JOIN sessions ON number = session WHERE key = ?
"""


def records(db: apsw.Connection, session: str, after: int, limit: int | None) -> list[Logged]:
    """Return records in order of seq. Raises `StoreDamagedError` at the first that is altered or missing."""
    number = db.execute(_SELECT_NUMBER, (session,)).get
    if number is None:
        return []
    start = max(after, 0)
    # A limit below 0 is none to SQLite.
    asked = (number, start, -1 if limit is None else max(limit, 0))
    # All at once: a query left in the middle would keep its connection in the past.
    rows: list[tuple[Any, ...]] = db.execute(_SELECT_RECORDS, asked).fetchall()
    return checked_records(session, number, start, rows)


def snapshot(db: apsw.Connection, session: str) -> Snapshot | None:
    """Return the newest snapshot, or None where there is none that can be trusted."""
    found = db.execute(_SELECT_SNAPSHOT, (session,)).get
    if found is None:
        return None
    number, seq, checksum, body = found
    return Snapshot(seq, body) if record_crc32(number, seq, 0.0, body) == checksum else None


def info(db: apsw.Connection, session: str) -> SessionInfo | None:
    """Return what is known of one session."""
    found = db.execute(_SELECT_INFO, (session,)).get
    return None if found is None else SessionInfo(*found)


def sessions(db: apsw.Connection, after: str, limit: int) -> list[SessionInfo]:
    """Return sessions in order of their keys."""
    return [SessionInfo(*row) for row in db.execute(_SELECT_PAGE, (after, max(limit, 0)))]


def owing(db: apsw.Connection) -> list[str]:
    """Return the keys of all sessions that owe an outcome, in order."""
    return [key for (key,) in db.execute(_SELECT_OWING)]
