"""Reads from a SQLite store. Rows are verified, so a damaged or missing record is never skipped."""

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import apsw

from holdfast.core.integrity.segments import Kept
from holdfast.errors import RecordsSealedError
from holdfast.ports import SessionInfo, Snapshot
from holdfast.stores.rows import clean_rows, decode_rows, is_intact, record_crc32, unpacked_rows
from holdfast.stores.sqlite.blob_refs import sealed_until
from holdfast.stores.sqlite.file import BusyHandler, translate_error
from holdfast.stores.sqlite.inspect import end_of_log_now, rows_after
from holdfast.types.records import Logged

_SELECT_NUMBER = "SELECT number FROM sessions WHERE key = ?"
_SELECT_RECORDS = """
    SELECT seq, at, crc32, body FROM records WHERE session = ?1 AND seq > ?2
    UNION ALL
    SELECT seq, at, crc32, body FROM recent WHERE session = ?1 AND seq > ?2
    ORDER BY seq LIMIT ?3
"""
_SELECT_CLIENT_ID = """
    SELECT seq FROM client_ids
    WHERE session = (SELECT number FROM sessions WHERE key = ?) AND client_id = ?
"""
# The session number and the last sealed seq.
_SELECT_SEALED = """
    SELECT number, (SELECT max(last) FROM segments WHERE session = number) FROM sessions WHERE key = ?
"""
# Recent records are in the order of their appends.
_SELECT_NEWEST = "SELECT seq, at, crc32, body FROM recent WHERE session = ? ORDER BY rowid DESC LIMIT ?"
# The recent records from a place on: the first of them is known, and shows that the table was not moved meanwhile.
_SELECT_RECENT = "SELECT place, session, seq, crc32 FROM recent WHERE place >= ? ORDER BY place"
_SELECT_PLACES = "SELECT seq, at, crc32, body FROM recent WHERE session = ? AND place BETWEEN ? AND ? ORDER BY place"
_SELECT_PLACE = "SELECT seq FROM recent WHERE place = ? AND session = ?"
_SELECT_LAST = "SELECT max(seq) FROM records WHERE session = ?"
# The small table of recent records is read once for any number of sessions. With `max`, SQLite takes the other columns
# from the row of the maximum.
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
_SELECT_PENDING = "SELECT key FROM sessions WHERE owed > 0 ORDER BY key"
_SELECT_SNAPSHOT = """
    SELECT number, snapshots.seq, crc32, body FROM snapshots JOIN sessions ON number = session WHERE key = ?
"""

# Limit for reading only the end of a log: a reader that follows a log reads a few records.
NEWEST_MAX = 64


def live_rows(db: apsw.Connection, session: str, after: int, limit: int | None) -> list[Kept]:
    """Return live rows above `after` as stored. Raises `StoreDamagedError` at a damaged or missing one."""
    number = db.execute(_SELECT_NUMBER, (session,)).get
    if number is None:
        return []
    expected = max(after, 0)
    # SQLite takes a negative limit as none.
    asked = (number, expected, -1 if limit is None else max(limit, 0))
    # Fetched at once: an open query would pin an old snapshot.
    rows = unpacked_rows(db.execute(_SELECT_RECORDS, asked).fetchall())
    if rows and rows[0][0] != expected + 1 and rows[0][0] - 1 <= sealed_until(db, number):
        expected = rows[0][0] - 1
    return clean_rows(session, number, rows, expected)


def client_ids(db: apsw.Connection, session: str, names: Sequence[str]) -> dict[str, int]:
    """Return the seqs of records by client id."""
    found = ((name, db.execute(_SELECT_CLIENT_ID, (session, name)).get) for name in names)
    return {name: seq for name, seq in found if seq is not None}


def records(db: apsw.Connection, session: str, after: int, limit: int | None) -> list[Logged]:
    """Return records in order of seq, with a placeholder for each damaged or missing one.

    Raises `RecordsSealedError` if the first of them is sealed.
    """
    # One transaction for all reads: a record appended in between would look missing.
    found: list[Logged] = []
    with db:
        found += _records(db, session, after, limit)
    return found


def _records(db: apsw.Connection, session: str, after: int, limit: int | None) -> list[Logged]:
    found = db.execute(_SELECT_SEALED, (session,)).get
    if found is None:
        return []
    (number, sealed), start = found, max(after, 0)
    if start >= (sealed or 0):
        newest = _read_newest(db, number, start, NEWEST_MAX if limit is None else min(limit, NEWEST_MAX))
        if newest is not None:
            return list(decode_rows(session, number, newest, start))
    return _read_checked(db, session, number, after, limit)


def _read_newest(db: apsw.Connection, number: int, start: int, at_most: int) -> list[Sequence[Any]] | None:
    """Return all rows above `start`, if they are few, recent and intact; None: use the full read.

    This is the most frequent read, and it needs no other rows: an intact row that was written last is the end of the
    log, whatever happened to older rows.
    """
    newest = unpacked_rows(db.execute(_SELECT_NEWEST, (number, 1)).fetchall())
    if not newest or not 0 <= newest[0][0] - start <= at_most or not is_intact(number, newest[0]):
        return None
    count = newest[0][0] - start
    rows = newest * count if count <= 1 else unpacked_rows(db.execute(_SELECT_NEWEST, (number, count)).fetchall()[::-1])
    is_clean = [row[0] for row in rows] == list(range(start + 1, start + count + 1))
    return rows if is_clean and all(is_intact(number, row) for row in rows) else None


class RecentPlaces:
    """The places of recent records, by session, as one connection of the event loop has read them.

    The table of recent records has no index, which would double the pages of an append, and is mostly read by readers
    that have seen all of it. So each record is looked at once, not with each read.
    """

    def __init__(self) -> None:
        self._last: tuple[Any, ...] = ()
        self._places: dict[int, list[tuple[int, int]]] = {}

    def records(self, db: apsw.Connection, session: str, after: int, limit: int) -> list[Logged] | None:
        """Return the records above `after`, if they are few, recent and intact; None: use `records`."""
        number = db.execute(_SELECT_NUMBER, (session,)).get
        if number is None:
            return None
        self._catch_up(db)
        places = self._places.get(number)
        if places is None:
            # The newest record of a session that has written nothing lately.
            return [] if db.execute(_SELECT_LAST, (number,)).get == after else None
        last, place = places[-1]
        count = last - after
        if count == 0:
            # Still there: the records of a single session may have been moved or repaired.
            return [] if db.execute(_SELECT_PLACE, (place, number)).get == last else None
        if not 0 < count <= min(limit, len(places), NEWEST_MAX):
            return None
        rows = unpacked_rows(db.execute(_SELECT_PLACES, (number, places[-count][1], place)).fetchall())
        is_clean = [row[0] for row in rows] == list(range(after + 1, last + 1))
        if not is_clean or not all(is_intact(number, row) for row in rows):
            return None
        return list(decode_rows(session, number, rows, after))

    def _catch_up(self, db: apsw.Connection) -> None:
        rows: list[tuple[Any, ...]] = db.execute(_SELECT_RECENT, (self._last[0] if self._last else 0,)).fetchall()
        if self._last and (not rows or rows[0] != self._last):
            # The records were moved to the main table.
            self._last, self._places = (), {}
            rows = db.execute(_SELECT_RECENT, (0,)).fetchall()
        for row in rows[1:] if self._last else rows:
            place, number, seq, _ = row
            self._places.setdefault(number, []).append((seq, place))
        self._last = rows[-1] if rows else ()


def _read_checked(db: apsw.Connection, session: str, number: int, after: int, limit: int | None) -> list[Logged]:
    """Read with all rows verified: their seqs may be wrong."""
    logged: list[Logged] = []
    start = position = max(after, 0)
    while limit is None or len(logged) < limit:
        # SQLite takes a negative limit as none.
        wanted = -1 if limit is None else limit - len(logged)
        rows = rows_after(db, number, position, wanted)
        if not logged:
            _check_live(db, session, number, rows, start)
        is_last = wanted < 0 or len(rows) < wanted
        logged += decode_rows(session, number, rows, start, until=end_of_log_now(db, number) if is_last else 0)
        if is_last:
            break
        # Rows with wrong seqs were skipped: there may be more after them.
        position, start = rows[-1][0], logged[-1].seq if logged else start
    return logged if limit is None else logged[: max(limit, 0)]


def _check_live(db: apsw.Connection, session: str, number: int, rows: Sequence[Sequence[Any]], after: int) -> None:
    """Raise `RecordsSealedError` if the record directly after `after` is sealed."""
    if (not rows or rows[0][0] != after + 1) and (until := sealed_until(db, number)) > after:
        raise RecordsSealedError(session, until)


def snapshot(db: apsw.Connection, session: str) -> Snapshot | None:
    """Return the newest snapshot, or None if it does not match its checksum."""
    found = db.execute(_SELECT_SNAPSHOT, (session,)).get
    if found is None:
        return None
    number, seq, checksum, body = found
    return Snapshot(seq, body) if record_crc32(number, seq, 0.0, body) == checksum else None


def info(db: apsw.Connection, session: str) -> SessionInfo | None:
    """Return the summary of a session, or None."""
    found = db.execute(_SELECT_INFO, (session,)).get
    return None if found is None else SessionInfo(*found)


def sessions(db: apsw.Connection, after: str, limit: int) -> list[SessionInfo]:
    """Return sessions in order of their keys."""
    return [SessionInfo(*row) for row in db.execute(_SELECT_PAGE, (after, max(limit, 0)))]


def pending(db: apsw.Connection) -> list[str]:
    """Return the keys of all sessions with pending work, in order."""
    return [key for (key,) in db.execute(_SELECT_PENDING)]


# --- Read connections ---

# Reads mostly wait for the GIL, not for the disk: more threads would not help.
READERS_MAX = 4
# Inline reads that take longer block every session: after a few in a row threads read for this time. A single one is
# mostly the scheduler's, which took the processor away.
SLOW_SECONDS = 0.005
SLOW_READS = 3
SLOW_AGAIN_SECONDS = 1.0

ResultT = TypeVar("ResultT")
# Opens a read connection with a busy handler.
Connect: TypeAlias = Callable[[BusyHandler | None], apsw.Connection]


class Readers:
    """The read connections of one store: a few threads, and the event loop for small reads."""

    def __init__(self, path: Path, connect: Connect) -> None:
        self._path, self._connect = path, connect
        self._threads = ThreadPoolExecutor(READERS_MAX, thread_name_prefix=f"holdfast-reader-{path.name}")
        # Idle connections of the threads, and the connection of the loop.
        self._idle: list[apsw.Connection] = []
        self._inline: apsw.Connection | None = None
        self._inline_after = 0.0
        self._slow_reads = 0
        self.recent = RecentPlaces()

    async def query(self, query: Callable[[apsw.Connection], ResultT]) -> ResultT:
        """Run a query in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._query_in_thread, query)

    async def query_inline(self, query: Callable[[apsw.Connection], ResultT]) -> tuple[ResultT] | None:
        """Run a small query inline; None if it would have to wait or failed: use a thread then."""
        found = self._try_inline(query)
        if found is not None:
            # The inline read did not yield, so let other tasks run.
            await asyncio.sleep(0)
        return found

    def close(self) -> None:
        """Close every thread and connection. Blocks until running queries end."""
        self._threads.shutdown(wait=True)
        if self._inline is not None:
            self._idle.append(self._inline)
            self._inline = None
        while self._idle:
            self._idle.pop().close()

    def _try_inline(self, query: Callable[[apsw.Connection], ResultT]) -> tuple[ResultT] | None:
        started = time.monotonic()
        if started < self._inline_after:
            return None
        try:
            if self._inline is None:
                self._inline = self._connect(BusyHandler(0.0))
            return (query(self._inline),)
        except apsw.BusyError:
            return None
        except apsw.Error:
            # A thread reports the error. This connection may be broken.
            broken, self._inline = self._inline, None
            if broken is not None:
                broken.close(force=True)
            return None
        finally:
            ended = time.monotonic()
            self._slow_reads = self._slow_reads + 1 if ended - started > SLOW_SECONDS else 0
            if self._slow_reads >= SLOW_READS:
                self._inline_after = ended + SLOW_AGAIN_SECONDS

    def _query_in_thread(self, query: Callable[[apsw.Connection], ResultT]) -> ResultT:
        """In a thread: run a query on an idle connection."""
        db = None
        try:
            db = self._idle.pop() if self._idle else self._connect(None)
            return query(db)
        except apsw.Error as error:
            failure, broken, db = translate_error(self._path, error, db), db, None
            if broken is not None:
                # Closed even with an open query: the next reader opens a new one.
                broken.close(force=True)
            raise failure from error
        finally:
            if db is not None:
                self._idle.append(db)
