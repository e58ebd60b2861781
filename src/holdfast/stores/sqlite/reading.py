"""What is read from a SQLite store, checked on the way: a record that is damaged or missing is never passed over."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import apsw

from holdfast.core.integrity.segments import Kept
from holdfast.errors import RecordsSealedError
from holdfast.ports import SessionInfo, Snapshot
from holdfast.stores.rows import is_whole, kept_rows, read_marked, record_crc32
from holdfast.stores.sqlite.blob_refs import sealed_until
from holdfast.stores.sqlite.file import Patience, translated
from holdfast.stores.sqlite.inspect import end_now, rows_behind
from holdfast.types.records import Logged

_SELECT_NUMBER = "SELECT number FROM sessions WHERE key = ?"
_SELECT_RECORDS = """
    SELECT seq, at, crc32, body FROM records WHERE session = ?1 AND seq > ?2
    UNION ALL
    SELECT seq, at, crc32, body FROM recent WHERE session = ?1 AND seq > ?2
    ORDER BY seq LIMIT ?3
"""
# A number, and the last record that was sealed.
_SELECT_STANDING = """
    SELECT number, (SELECT max(last) FROM segments WHERE session = number) FROM sessions WHERE key = ?
"""
# Recent records stand in the order in which they were written.
_SELECT_NEWEST = "SELECT seq, at, crc32, body FROM recent WHERE session = ? ORDER BY rowid DESC LIMIT ?"
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

# So many records at most are looked for at the end of a log alone: whoever follows a log asks for a few.
NEWEST_MAX = 64


def live_rows(db: apsw.Connection, session: str, after: int, limit: int | None) -> list[Kept]:
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
    standing = db.execute(_SELECT_STANDING, (session,)).get
    if standing is None:
        return []
    (number, sealed), start = standing, max(after, 0)
    if start >= (sealed or 0):
        newest = _newest(db, number, start, NEWEST_MAX if limit is None else min(limit, NEWEST_MAX))
        if newest is not None:
            return list(read_marked(session, number, newest, start))
    return _credible(db, session, number, after, limit)


def _newest(db: apsw.Connection, number: int, start: int, at_most: int) -> list[tuple[Any, ...]] | None:
    """Return all records behind `start`, where they are few, the last that were written, and as they must be.

    That is what is asked for most, and then nothing else has to be read: whatever happened to older rows, the one that
    was written last is the end of the log if it checks out. None: the log has to be looked at.
    """
    last = db.execute(_SELECT_NEWEST, (number, 1)).get
    if last is None or not 0 <= last[0] - start <= at_most or not is_whole(number, last):
        return None
    count = last[0] - start
    rows = [last] * count if count <= 1 else db.execute(_SELECT_NEWEST, (number, count)).fetchall()[::-1]
    is_clean = [row[0] for row in rows] == list(range(start + 1, start + count + 1))
    return rows if is_clean and all(is_whole(number, row) for row in rows) else None


def _credible(db: apsw.Connection, session: str, number: int, after: int, limit: int | None) -> list[Logged]:
    """Read with every row in question looked at: numbers may not be what they were."""
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


def pending(db: apsw.Connection) -> list[str]:
    """Return the keys of all sessions that owe an outcome, in order."""
    return [key for (key,) in db.execute(_SELECT_OWING)]


# --- Who reads from a SQLite store: a few threads, and the event loop itself where that costs less than …


# Reading is mostly waiting for the interpreter, not for the disk: more threads than this only queue elsewhere.
READERS_MAX = 4
# Whatever takes longer than this held up every session. From then on threads read, for so long.
SLOW_SECONDS = 0.005
SLOW_AGAIN_SECONDS = 1.0

ResultT = TypeVar("ResultT")
# Opens one more connection for reading, which waits for others as it is told.
Connect: TypeAlias = Callable[[Patience | None], apsw.Connection]


class Readers:
    """Reads for one store."""

    def __init__(self, path: Path, connect: Connect) -> None:
        self._path, self._connect = path, connect
        self._threads = ThreadPoolExecutor(READERS_MAX, thread_name_prefix=f"holdfast-reader-{path.name}")
        # Connections that no thread uses now, and the one of the loop.
        self._idle: list[apsw.Connection] = []
        self._here: apsw.Connection | None = None
        self._not_before = 0.0

    async def ask(self, query: Callable[[apsw.Connection], ResultT]) -> ResultT:
        """Ask in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._query, query)

    async def ask_here(self, query: Callable[[apsw.Connection], ResultT]) -> tuple[ResultT] | None:
        """Ask on the spot something that reads little; None: it would have to wait, or went wrong, so ask a thread."""
        found = self._query_here(query)
        if found is not None:
            # Nothing was waited for, so the others have not had their turn.
            await asyncio.sleep(0)
        return found

    def close(self) -> None:
        """Let go of every thread and connection, when nothing is asked any more. Waits."""
        self._threads.shutdown(wait=True)
        if self._here is not None:
            self._idle.append(self._here)
            self._here = None
        while self._idle:
            self._idle.pop().close()

    def _query_here(self, query: Callable[[apsw.Connection], ResultT]) -> tuple[ResultT] | None:
        started = time.monotonic()
        if started < self._not_before:
            return None
        try:
            if self._here is None:
                self._here = self._connect(Patience(0.0))
            return (query(self._here),)
        except apsw.BusyError:
            return None
        except apsw.Error:
            # A thread finds out what is wrong. This connection may be broken.
            broken, self._here = self._here, None
            if broken is not None:
                broken.close(force=True)
            return None
        finally:
            ended = time.monotonic()
            if ended - started > SLOW_SECONDS:
                self._not_before = ended + SLOW_AGAIN_SECONDS

    def _query(self, query: Callable[[apsw.Connection], ResultT]) -> ResultT:
        """In a thread: ask on a connection that no other thread uses now."""
        db = None
        try:
            db = self._idle.pop() if self._idle else self._connect(None)
            return query(db)
        except apsw.Error as error:
            why, broken, db = translated(self._path, error, db), db, None
            if broken is not None:
                # Closed, even with a query in its middle: the next reader starts afresh.
                broken.close(force=True)
            raise why from error
        finally:
            if db is not None:
                self._idle.append(db)
