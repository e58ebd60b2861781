"""What is read from a SQLite store, checked on the way: a record that is damaged or missing is never passed over."""

from typing import Any

import apsw

from holdfast.core.records import Logged
from holdfast.core.segments import Kept
from holdfast.errors import RecordsSealedError
from holdfast.ports import SessionInfo, Snapshot
from holdfast.stores.checking import kept_rows, read_marked
from holdfast.stores.rows import record_crc32
from holdfast.stores.sqlite.checking import end_now, rows_behind
from holdfast.stores.sqlite.sealing import sealed_until

_SELECT_NUMBER = "SELECT number FROM sessions WHERE key = ?"
_SELECT_RECORDS = """
    SELECT seq, at, crc32, body FROM records WHERE session = ?1 AND seq > ?2
    UNION ALL
    SELECT seq, at, crc32, body FROM recent WHERE session = ?1 AND seq > ?2
    ORDER BY seq LIMIT ?3
"""
# The small table of recent records is read once, however many sessions are asked for. With `max`, SQLite takes the
# other columns from the row that has it.
_SELECT_SESSIONS = """
    WITH ends (session, seq, at) AS MATERIALIZED (SELECT session, max(seq), at FROM recent GROUP BY session)
    SELECT key,
           coalesce(ends.seq, (SELECT max(seq) FROM records WHERE session = number)),
           owed, created_at,
           coalesce(ends.at, (SELECT at FROM records WHERE session = number ORDER BY seq DESC LIMIT 1))
    FROM sessions LEFT JOIN ends ON ends.session = number WHERE created_at IS NOT NULL
"""
_SELECT_INFO = f"{_SELECT_SESSIONS} AND key = ?"
_SELECT_PAGE = f"{_SELECT_SESSIONS} AND key > ? ORDER BY key LIMIT ?"
_SELECT_OWING = "SELECT key FROM sessions WHERE owed > 0 ORDER BY key"
_SELECT_SNAPSHOT = """
    SELECT number, snapshots.seq, crc32, body FROM snapshots JOIN sessions ON number = session WHERE key = ?
"""


def kept(db: apsw.Connection, session: str, after: int, limit: int | None) -> list[Kept]:
    """Return live records behind `after` as they are kept. Raises `StoreDamagedError` at one altered or missing."""
    number = db.execute(_SELECT_NUMBER, (session,)).get
    if number is None:
        return []
    expected = max(after, 0)
    # A limit below 0 is none to SQLite.
    asked = (number, expected, -1 if limit is None else max(limit, 0))
    # All at once: a query left in the middle would keep its connection in the past.
    rows: list[tuple[Any, ...]] = db.execute(_SELECT_RECORDS, asked).fetchall()
    if rows and rows[0][0] != expected + 1 and rows[0][0] - 1 <= sealed_until(db, number):
        expected = rows[0][0] - 1
    return kept_rows(session, number, rows, expected)


def records(db: apsw.Connection, session: str, after: int, limit: int | None) -> list[Logged]:
    """Return records in order of seq, with a mark in the place of each that is damaged or missing.

    Raises `RecordsSealedError` where the first of them was sealed.
    """
    # One state of the file for all that is asked: a record that comes in between would be taken for missing.
    found: list[Logged] = []
    with db:
        found += _records(db, session, after, limit)
    return found


def _records(db: apsw.Connection, session: str, after: int, limit: int | None) -> list[Logged]:
    number = db.execute(_SELECT_NUMBER, (session,)).get
    if number is None:
        return []
    logged: list[Logged] = []
    start = position = max(after, 0)
    while limit is None or len(logged) < limit:
        # A limit below 0 is none to SQLite.
        asked = -1 if limit is None else limit - len(logged)
        rows = rows_behind(db, number, position, asked)
        if not logged and (not rows or rows[0][0] != start + 1) and (until := sealed_until(db, number)) > start:
            raise RecordsSealedError(session, until)
        is_last = asked < 0 or len(rows) < asked
        logged += read_marked(session, number, rows, start, until=end_now(db, number) if is_last else 0)
        if is_last:
            break
        # Rows whose numbers are not to be believed were passed over: there may be more behind them.
        position, start = rows[-1][0], logged[-1].seq if logged else start
    return logged if limit is None else logged[: max(limit, 0)]


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
