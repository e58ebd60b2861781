"""Write connection of a SQLite store: group commit, checkpoints, and polling for changes of other processes.

The writer thread uses it most of the time, the event loop for a single small operation on a fast disk; `lock` decides.
An operation succeeds only after the commit has returned.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any, TypeAlias

import apsw
import msgspec

from holdfast.errors import HoldfastError, StoreFullError, StoreMovedError
from holdfast.ports import Clock, SessionInfo
from holdfast.stores.feeds import FeedRegistry, NewRow
from holdfast.stores.sqlite import batch as batches
from holdfast.stores.sqlite.batch import Batch, RowCache
from holdfast.stores.sqlite.file import BUSY_SECONDS, BusyHandler, FilePlace, connect, full, translate_error
from holdfast.stores.sqlite.process_lock import Instances
from holdfast.stores.sqlite.reserve import Reserve

# --- Write-ahead log ---

# Pages in the WAL at which a checkpoint runs (4 MiB), the default of SQLite. A WAL that restarts in time is overwritten
# in place, which is faster than a growing file: with 4,000 pages one session appended at 0.45 of the speed of plain
# SQLite, with 1,000 at 0.55, all else being equal.
CHECKPOINT_PAGES = 1_000
# Continuous readers keep the WAL from restarting. From this many pages on (64 MiB) the writer waits for a moment
# without readers: they take milliseconds, so it comes soon, unless one of them holds an old snapshot.
CHECKPOINT_FORCED_PAGES = 16_384
CHECKPOINT_FORCED_SECONDS = 0.25
# Size of the WAL file after a restart: a file that need not grow is written faster.
LOG_BYTES_KEPT = 64 * 2**20

# Interval for polling commits of other processes: short while they come, else 40 times a second, which took 0.6 % of
# one core. No polling while no feed waits. A record of another process arrived after 17 ms at the median, 27 at most.
POLL_SECONDS_MIN = 0.002
POLL_SECONDS_MAX = 0.025
# Polling takes at most this share of the time of the thread, for any number of sessions.
POLL_TIME_SHARE_MAX = 0.1

# In a WAL, a commit syncs with FULL and only checkpoints do with NORMAL.
_SYNC, _NO_SYNC = "PRAGMA synchronous = FULL", "PRAGMA synchronous = NORMAL"
# The first query reads the small table of recent records once for all sessions.
_SELECT_RECENT_ENDS = "SELECT key, max(seq) FROM recent JOIN sessions ON number = session GROUP BY session"
_SELECT_OLDER_END = "SELECT max(seq) FROM records WHERE session = (SELECT number FROM sessions WHERE key = ?)"


class Checkpoints:
    """Checkpoint policy."""

    def __init__(self) -> None:
        self._pages = 0
        self._pages_next = CHECKPOINT_PAGES

    def watch(self, db: apsw.Connection) -> None:
        """Replace the automatic checkpoints of SQLite, which would delay a writer."""
        db.execute(f"PRAGMA journal_size_limit = {LOG_BYTES_KEPT}")
        db.set_wal_hook(self._note)

    def _note(self, _db: apsw.Connection, _schema: str, pages: int) -> int:
        self._pages = pages
        return apsw.SQLITE_OK

    def are_due(self) -> bool:
        """Return whether a checkpoint is due."""
        if self._pages < CHECKPOINT_PAGES:
            self._pages_next = CHECKPOINT_PAGES
        return self._pages >= self._pages_next

    def run(self, db: apsw.Connection, busy_handler: BusyHandler) -> None:
        """Run a checkpoint. `busy_handler` is that of the connection."""
        # A failed checkpoint loses nothing: the WAL holds everything, and the next one is due soon.
        with suppress(apsw.Error):
            if self._pages < CHECKPOINT_FORCED_PAGES:
                db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            else:
                busy_handler.seconds_max = CHECKPOINT_FORCED_SECONDS
                db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        busy_handler.seconds_max = BUSY_SECONDS
        # If readers block it, a retry after every commit would slow down each commit.
        self._pages_next = self._pages + CHECKPOINT_PAGES


class ChangePoller:
    """Polls for commits of other processes while a feed waits, faster after a recent commit."""

    def __init__(self, registry: FeedRegistry) -> None:
        self._registry = registry
        self._version = -1
        self._interval = POLL_SECONDS_MIN
        self._next_poll = 0.0

    def pause_seconds(self) -> float | None:
        """Return the time until the next poll; None if no feed waits."""
        if not self._registry.waiting_count:
            return None
        return max(self._next_poll - time.monotonic(), 0.0)

    def is_due(self) -> bool:
        """Return whether a poll is due."""
        return self._registry.waiting_count > 0 and time.monotonic() >= self._next_poll

    def has_changed(self, db: apsw.Connection) -> bool:
        """Return whether another connection has written since the last call."""
        self._interval = min(self._interval * 1.5, POLL_SECONDS_MAX)
        self._next_poll = time.monotonic() + self._interval
        version: int = db.execute("PRAGMA data_version").get
        if version == self._version:
            return False
        self._version = version
        self._interval = POLL_SECONDS_MIN
        return True

    def grown_sessions(self, db: apsw.Connection, positions: dict[str, int]) -> list[str]:
        """Return the sessions that have records after their position."""
        started = time.monotonic()
        grown = []
        ends: list[tuple[Any, ...]] = db.execute(_SELECT_RECENT_ENDS).fetchall()
        recent_ends = dict(ends)
        for session, position in positions.items():
            last_seq = recent_ends.get(session) or db.execute(_SELECT_OLDER_END, (session,)).get
            if last_seq is not None and last_seq > position:
                grown.append(session)
        now = time.monotonic()
        self._next_poll = max(self._next_poll, now + (now - started) / POLL_TIME_SHARE_MAX)
        return grown


# The event loop may block this long: a token of a model takes ten times as long.
QUICK_SECONDS = 0.001
# Window of the moving average: one slow commit makes the disk slow, and this many fast ones make it fast again.
COMMITS_REMEMBERED = 8

# Commits in a row that do not enter the queue of writers, while no other process writes: each saves two system calls. A
# writer that waits in the queue gets the file after so many commits, which take some milliseconds.
UNQUEUED_COMMITS_MAX = 16
# Commits that enter the queue after another process has written.
QUEUED_COMMITS = 64


class PendingWrite(msgspec.Struct):
    """An operation."""

    operation: Callable[[Batch], Any]
    size_bytes: int
    # The operation ends a turn or leads to that, so it may use the reserved space.
    ends_turn: bool
    # The operation succeeds when it is on disk, not only in the WAL for other processes to see.
    is_synced: bool
    # Of a caller that waits for the thread; None: the loop writes it inline.
    future: asyncio.Future[Any] | None = None


# An operation with its result or its error.
Outcome: TypeAlias = tuple[PendingWrite, Any, HoldfastError | None]


class WriteResult:
    """Result of one transaction: the outcome of each operation, and the new rows of each session."""

    __slots__ = ("new_rows", "outcomes")

    def __init__(self, outcomes: list[Outcome], new_rows: Mapping[str, Sequence[NewRow]] | None = None) -> None:
        self.outcomes, self.new_rows = outcomes, new_rows or {}


class WriteConnection:
    """The write connection of one store. The caller holds `lock` for every method except `is_quick`."""

    def __init__(self, path: Path, instances: Instances, clock: Clock) -> None:
        self.lock = Lock()
        self._reserve = Reserve(path)
        self._path, self._instances, self._clock = path, instances, clock
        self.place = FilePlace(path)
        self._db: apsw.Connection | None = None
        # One cursor for the statements of every transaction: a new one for each takes longer than some statements.
        self._cursor: apsw.Cursor | None = None
        # The connection may be broken, and no other could be opened yet.
        self._is_broken = False
        self._busy_handler = BusyHandler(BUSY_SECONDS)
        self._cache = RowCache()
        self._checkpoints = Checkpoints()
        # Average duration of a transaction; None before the first.
        self._seconds: float | None = None
        self._is_synced = True
        # Transactions that may still begin without the queue; below 0, so many must enter it first.
        self._unqueued_left = 0
        # Number of commits.
        self.commits = 0

    @property
    def is_quick(self) -> bool:
        """Return whether a transaction takes less time than a round trip to the thread."""
        return self._seconds is not None and self._seconds < QUICK_SECONDS and self._db is not None

    def db(self) -> apsw.Connection:
        """Return the connection, opened or replaced if needed."""
        if self._db is None:
            opened = connect(self._path, busy_handler=self._busy_handler)
            self._checkpoints.watch(opened)
            return self._use(opened)
        if self._is_broken:
            self._replace(self._db)
        return self._db

    def begin(self, seconds_max: float, *, is_synced: bool = True) -> None:
        """Begin a transaction, with a timeout for other processes. `error_of` translates its exceptions.

        One that is not synced is on disk with the next one that is: the WAL keeps their order.
        """
        db = self.db()
        if is_synced != self._is_synced:
            db.execute(_SYNC if is_synced else _NO_SYNC)
            self._is_synced = is_synced
        if not seconds_max and self._unqueued_left > 0:
            self._unqueued_left -= 1
            self._begin(0.0)
            return
        self._instances.enter_queue(seconds_max)
        self._unqueued_left = self._unqueued_left + 1 if self._unqueued_left < 0 else UNQUEUED_COMMITS_MAX
        try:
            self._begin(seconds_max)
        finally:
            self._instances.leave_queue()

    def _begin(self, seconds_max: float) -> None:
        assert self._cursor is not None, "made with the connection"
        self._busy_handler.seconds_max = seconds_max
        try:
            self._cursor.execute("BEGIN IMMEDIATE")
        finally:
            self._busy_handler.seconds_max = BUSY_SECONDS

    def error_of(self, error: apsw.Error | OSError) -> HoldfastError:
        """Return the error for the operations of a transaction that could not begin."""
        return translate_error(self._path, error, self._db)

    def write(self, waiting: Sequence[PendingWrite]) -> WriteResult:
        """Run all operations in the begun transaction and commit. On a full disk, only those that end a turn."""
        # Another process that takes the reserved space writes right after.
        if not (self._reserve.is_kept and self._cache.is_current(self.db())) and not self._reserve.allows_all():
            return self._write_turn_ends(waiting, full(self._path))
        written = self._write_all(waiting)
        if isinstance(written, WriteResult):
            return written
        why = written
        if isinstance(why, StoreFullError) and any(each.ends_turn for each in waiting) and self._reserve.release():
            try:
                self.begin(BUSY_SECONDS)
            except (apsw.Error, OSError) as error:
                return WriteResult(rejected(waiting, self.error_of(error)))
            return self._write_turn_ends(waiting, why)
        return WriteResult(rejected(waiting, why))

    def _write_turn_ends(self, waiting: Sequence[PendingWrite], why: HoldfastError) -> WriteResult:
        """Run only the operations that end a turn, in the begun transaction, and reject the others."""
        endings = [each for each in waiting if each.ends_turn]
        written = self._write_all(endings, uses_reserve=True)
        rest = rejected([each for each in waiting if not each.ends_turn], why)
        if not isinstance(written, WriteResult):
            return WriteResult(rest + rejected(endings, written))
        return WriteResult(rest + written.outcomes, written.new_rows)

    def _write_all(self, waiting: Sequence[PendingWrite], *, uses_reserve: bool = False) -> WriteResult | HoldfastError:
        """Run all operations and commit, or roll back and return the error."""
        started = time.perf_counter()
        db, cursor = self.db(), self._cursor
        assert cursor is not None, "made with the connection"
        try:
            if not self._cache.begin(db):
                self._unqueued_left = -QUEUED_COMMITS
            batch = Batch(cursor, self._cache, self._instances, self._clock.now(), uses_reserve=uses_reserve)
            outcomes = [self._outcome(each, batch) for each in waiting]
            batch.flush()
            # Before the commit alone: a file that goes right after it takes along what it holds in any case.
            self.place.check()
            cursor.execute("COMMIT")
            if not self.place.has_wal:
                self.place.note_wal()
        except StoreMovedError as error:
            # Its rows are no longer those of the file at the path. The connection stays: the file may come back.
            self._rollback(db, is_usable=True)
            return error
        except apsw.Error as error:
            why = translate_error(self._path, error, db)
            self._rollback(db, is_usable=isinstance(error, apsw.FullError | apsw.BusyError))
            return why
        except BaseException:
            self._rollback(db, is_usable=False)
            raise
        self._cache.committed(db)
        self._cache.recent_records += batch.records_added
        self.commits += 1
        self._record_time(time.perf_counter() - started)
        return WriteResult(outcomes, batch.new_rows)

    def info(self, session: str) -> SessionInfo | None:
        """Return the summary of a session from the cache; None if it is not there or another process has written."""
        if self._db is None or self._is_broken:
            return None
        self._busy_handler.seconds_max = 0.0
        try:
            return self._cache.info(self._db, session)
        finally:
            self._busy_handler.seconds_max = BUSY_SECONDS

    def needs_tidying(self) -> bool:
        """Return whether `tidy` has work."""
        return self._cache.recent_records >= batches.RECENT_RECORDS_MAX or self._checkpoints.are_due()

    def tidy(self) -> None:
        """Move recent records and run checkpoints: work that no caller waits for."""
        if self._cache.recent_records >= batches.RECENT_RECORDS_MAX:
            self._move_recent()
        if self._db is not None and self._checkpoints.are_due():
            self._checkpoints.run(self._db, self._busy_handler)

    def close(self) -> None:
        """Close the file."""
        self._reserve.close()
        if self._db is not None:
            self._db.close()

    def _record_time(self, seconds: float) -> None:
        before = seconds if self._seconds is None else self._seconds
        self._seconds = before + (seconds - before) / COMMITS_REMEMBERED

    def _move_recent(self) -> None:
        db = self.db()
        try:
            self.begin(BUSY_SECONDS)
            self._cache.begin(db)
            batches.move_recent(db)
            db.execute("COMMIT")
        except (apsw.Error, OSError):
            # The records are safe where they are; the next commit retries.
            self._rollback(db, is_usable=False)
            return
        self._cache.recent_records = 0
        self._cache.committed(db)

    def _outcome(self, waiting: PendingWrite, batch: Batch) -> Outcome:
        if waiting.future is not None and waiting.future.cancelled():
            return waiting, None, None
        try:
            return waiting, waiting.operation(batch), None
        except HoldfastError as refusal:
            return waiting, None, refusal
        except OSError as error:
            return waiting, None, translate_error(self._path, error)

    def _rollback(self, db: apsw.Connection, *, is_usable: bool) -> None:
        """Roll back a failed transaction, and replace a connection that may be broken."""
        self._cache.forget()
        try:
            if db.in_transaction:
                db.execute("ROLLBACK")
        except apsw.Error:
            is_usable = False
        if not is_usable:
            self._replace(db)

    def _replace(self, db: apsw.Connection) -> None:
        """Replace the connection if another one can be opened."""
        successor = self._open_successor()
        self._is_broken = successor is None
        if successor is not None:
            self._use(successor)
            with suppress(apsw.Error):
                db.close()

    def _use(self, db: apsw.Connection) -> apsw.Connection:
        self._db, self._cursor, self._is_synced = db, db.cursor(), True
        return db

    def _open_successor(self) -> apsw.Connection | None:
        """Open another connection next to one that may be broken; None if that fails too.

        It is opened before the other is closed: closing the last connection drops the WAL index. A later open would
        then recover a transaction that was written but not synced, and whose callers got an error.
        """
        db = None
        try:
            db = connect(self._path, busy_handler=self._busy_handler)
            self._checkpoints.watch(db)
            # The read attaches it to the shared WAL index.
            db.execute("SELECT count(*) FROM sqlite_schema")
        except apsw.Error:
            if db is not None:
                with suppress(apsw.Error):
                    db.close()
            return None
        return db


def rejected(waiting: Sequence[PendingWrite], why: HoldfastError) -> list[Outcome]:
    """Return outcomes that fail every operation, each with an exception of its own."""
    return [(each, None, type(why)(str(why))) for each in waiting]
