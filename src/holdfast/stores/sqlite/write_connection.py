"""The connection that writes to a SQLite store: many operations, one commit.

Whoever holds the pen may write: the writer's thread most of the time, the event loop itself for a single small
operation on a quick disk. `hold` is the lock that says who. Nobody is told of success before the commit has returned.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any, TypeAlias

import apsw

from holdfast.errors import HoldfastError, StoreFullError
from holdfast.ports import Clock
from holdfast.stores.feeds import Bells, Fresh
from holdfast.stores.sqlite import batch as batches
from holdfast.stores.sqlite.batch import Batch, RowCache
from holdfast.stores.sqlite.file import BUSY_SECONDS, Patience, connect, full, translated
from holdfast.stores.sqlite.process_lock import Owners
from holdfast.stores.sqlite.reserve import Reserve

# --- SQLite's write-ahead log from the writer's side: keeping it short, and noticing what other processes put into it.


# The log of changes is copied into the database when it has this many pages (4 MiB), as SQLite does by default. A log
# that starts over in time is written in place, which disks do quicker than letting a file grow: with 4,000 pages one
# session appended at 0.45 of plain SQLite's pace, with 1,000 at 0.55, all else being equal.
CHECKPOINT_PAGES = 1_000
# Readers that never pause keep the log from starting over. From this many pages on (64 MiB) the writer waits for a
# moment without any: readers take milliseconds, so it comes soon, unless one of them hangs on to an old state.
CHECKPOINT_FORCED_PAGES = 16_384
CHECKPOINT_FORCED_SECONDS = 0.25
# What is left of the log's file after it has started over: a file that need not grow is written faster.
LOG_BYTES_KEPT = 64 * 2**20

# How often other processes' commits are looked for: often while they come, else 40 times a second, which took 0.6 % of
# one core. Nobody looks while no feed waits. A record of another process came after 17 ms at the median, 27 at most.
POLL_SECONDS_MIN = 0.002
POLL_SECONDS_MAX = 0.025
# However many sessions are waited for, looking takes at most this share of the thread's time.
POLL_TIME_SHARE_MAX = 0.1

# The first reads the small table of recent records once for all sessions.
_SELECT_RECENT_ENDS = "SELECT key, max(seq) FROM recent JOIN sessions ON number = session GROUP BY session"
_SELECT_OLDER_END = "SELECT max(seq) FROM records WHERE session = (SELECT number FROM sessions WHERE key = ?)"


class Checkpoints:
    """When to copy the log of changes into the database."""

    def __init__(self) -> None:
        self._pages = 0
        self._pages_next = CHECKPOINT_PAGES

    def watch(self, db: apsw.Connection) -> None:
        """Take over from SQLite's own checkpoints, which would make a sender wait for the copying."""
        db.execute(f"PRAGMA journal_size_limit = {LOG_BYTES_KEPT}")
        db.set_wal_hook(self._note)

    def _note(self, _db: apsw.Connection, _schema: str, pages: int) -> int:
        self._pages = pages
        return apsw.SQLITE_OK

    def are_due(self) -> bool:
        """Whether the log has grown enough."""
        if self._pages < CHECKPOINT_PAGES:
            self._pages_next = CHECKPOINT_PAGES
        return self._pages >= self._pages_next

    def run(self, db: apsw.Connection, patience: Patience) -> None:
        """Copy the log into the database. `patience` is the connection's own."""
        # A checkpoint that fails loses nothing: the log holds everything, and the next one is soon due.
        with suppress(apsw.Error):
            if self._pages < CHECKPOINT_FORCED_PAGES:
                db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            else:
                patience.seconds_max = CHECKPOINT_FORCED_SECONDS
                db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        patience.seconds_max = BUSY_SECONDS
        # Where readers hold it up, trying again after every commit would make each of them slow.
        self._pages_next = self._pages + CHECKPOINT_PAGES


class Watch:
    """Looks for other processes' commits while a feed waits, quickly when there were some a moment ago."""

    def __init__(self, bells: Bells) -> None:
        self._bells = bells
        self._version = -1
        self._interval = POLL_SECONDS_MIN
        self._next_look = 0.0

    def pause_seconds(self) -> float | None:
        """Return how long nothing need be looked for; None: until someone waits."""
        if not self._bells.waiting_count:
            return None
        return max(self._next_look - time.monotonic(), 0.0)

    def is_due(self) -> bool:
        """Whether it is time to look."""
        return self._bells.waiting_count > 0 and time.monotonic() >= self._next_look

    def has_changed(self, db: apsw.Connection) -> bool:
        """Whether another connection has written since this was asked last."""
        self._interval = min(self._interval * 1.5, POLL_SECONDS_MAX)
        self._next_look = time.monotonic() + self._interval
        version: int = db.execute("PRAGMA data_version").get
        if version == self._version:
            return False
        self._version = version
        self._interval = POLL_SECONDS_MIN
        return True

    def grown(self, db: apsw.Connection, positions: dict[str, int]) -> list[str]:
        """Return the sessions whose log goes further than the position given for them."""
        started = time.monotonic()
        grown = []
        ends: list[tuple[Any, ...]] = db.execute(_SELECT_RECENT_ENDS).fetchall()
        recent_ends = dict(ends)
        for session, position in positions.items():
            last_seq = recent_ends.get(session) or db.execute(_SELECT_OLDER_END, (session,)).get
            if last_seq is not None and last_seq > position:
                grown.append(session)
        now = time.monotonic()
        self._next_look = max(self._next_look, now + (now - started) / POLL_TIME_SHARE_MAX)
        return grown


# An event loop that stands still for so long holds up nobody: a token of a model takes ten times as long.
QUICK_SECONDS = 0.001
# One slow commit in this many makes the disk slow on average, and so many quick ones make it quick again.
COMMITS_REMEMBERED = 8

Outcome: TypeAlias = tuple[asyncio.Future[Any], Any, HoldfastError | None]


class Waiting:
    """An operation that someone waits for."""

    __slots__ = ("future", "is_ending", "operation", "size_bytes")

    def __init__(
        self, operation: Callable[[Batch], Any], size_bytes: int, future: asyncio.Future[Any], *, is_ending: bool
    ) -> None:
        self.operation, self.size_bytes, self.future = operation, size_bytes, future
        # It gives a turn its outcome, or is on the way to that: space is kept for it.
        self.is_ending = is_ending


class Written:
    """What came of one transaction: an outcome for everyone who waited, and the new records of each session."""

    __slots__ = ("news", "outcomes")

    def __init__(self, outcomes: list[Outcome], news: Mapping[str, Sequence[Fresh]] | None = None) -> None:
        self.outcomes, self.news = outcomes, news or {}


class Pen:
    """Writes for one store. Every method but `is_quick` is for whoever has `hold`."""

    def __init__(self, path: Path, owners: Owners, clock: Clock) -> None:
        self.hold = Lock()
        self._reserve = Reserve(path)
        self._path, self._owners, self._clock = path, owners, clock
        self._db: apsw.Connection | None = None
        # The connection may be broken, and no other could be opened yet.
        self._is_doubtful = False
        self._patience = Patience(BUSY_SECONDS)
        self._cache = RowCache()
        self._checkpoints = Checkpoints()
        # How long a transaction takes, on average; None: not known yet.
        self._seconds: float | None = None
        # Transactions committed; set against the number of operations it tells how well they group.
        self.commits = 0

    @property
    def is_quick(self) -> bool:
        """Whether a transaction takes so little time that waiting for it costs less than handing it to a thread."""
        return self._seconds is not None and self._seconds < QUICK_SECONDS and self._db is not None

    def connection(self) -> apsw.Connection:
        """Return the connection, opened where it was not or was given up."""
        if self._db is None:
            self._db = connect(self._path, patience=self._patience)
            self._checkpoints.watch(self._db)
        elif self._is_doubtful:
            self._replace(self._db)
        return self._db

    def begin(self, seconds_max: float) -> None:
        """Start a transaction, waiting so long for other processes. Raises what `refusal_of` understands."""
        db = self.connection()
        self._owners.take_turn(seconds_max)
        self._patience.seconds_max = seconds_max
        try:
            db.execute("BEGIN IMMEDIATE")
        finally:
            self._patience.seconds_max = BUSY_SECONDS
            self._owners.give_turn()

    def refusal_of(self, error: apsw.Error | OSError) -> HoldfastError:
        """Return what to tell everyone who waited for a transaction that could not begin."""
        return translated(self._path, error, self._db)

    def write(self, waiting: Sequence[Waiting]) -> Written:
        """Do all of it in the transaction that has begun, and commit. On a full disk, only what ends a turn."""
        if not self._reserve.allows_all():
            return self._write_endings(waiting, full(self._path))
        written = self._write_all(waiting)
        if isinstance(written, Written):
            return written
        why = written
        if isinstance(why, StoreFullError) and any(each.is_ending for each in waiting) and self._reserve.give_up():
            try:
                self.begin(BUSY_SECONDS)
            except (apsw.Error, OSError) as error:
                return Written(refused(waiting, self.refusal_of(error)))
            return self._write_endings(waiting, why)
        return Written(refused(waiting, why))

    def _write_endings(self, waiting: Sequence[Waiting], why: HoldfastError) -> Written:
        """Write what ends a turn, in the transaction that has begun, and refuse the rest: the space is for those."""
        endings = [each for each in waiting if each.is_ending]
        written = self._write_all(endings, is_short=True)
        rest = refused([each for each in waiting if not each.is_ending], why)
        if not isinstance(written, Written):
            return Written(rest + refused(endings, written))
        return Written(rest + written.outcomes, written.news)

    def _write_all(self, waiting: Sequence[Waiting], *, is_short: bool = False) -> Written | HoldfastError:
        """Do all of it and commit, or leave nothing of it and return why."""
        started = time.perf_counter()
        db = self.connection()
        try:
            self._cache.begin(db)
            batch = Batch(db, self._cache, self._owners, self._clock.now(), is_short=is_short)
            outcomes = [self._outcome(each, batch) for each in waiting]
            batch.flush()
            db.execute("COMMIT")
        except apsw.Error as error:
            why = translated(self._path, error, db)
            self._take_back(db, is_usable=isinstance(error, apsw.FullError | apsw.BusyError))
            return why
        except BaseException:
            self._take_back(db, is_usable=False)
            raise
        self._cache.committed(db)
        self._cache.recent_records += batch.records_added
        self.commits += 1
        self._remember(time.perf_counter() - started)
        return Written(outcomes, batch.news)

    def is_untidy(self) -> bool:
        """Whether `tidy` has something to do."""
        return self._cache.recent_records >= batches.RECENT_RECORDS_MAX or self._checkpoints.are_due()

    def tidy(self) -> None:
        """What need not be done while someone waits for it."""
        if self._cache.recent_records >= batches.RECENT_RECORDS_MAX:
            self._move_recent()
        if self._db is not None and self._checkpoints.are_due():
            self._checkpoints.run(self._db, self._patience)

    def close(self) -> None:
        """Let go of the file."""
        self._reserve.close()
        if self._db is not None:
            self._db.close()

    def _remember(self, seconds: float) -> None:
        before = seconds if self._seconds is None else self._seconds
        self._seconds = before + (seconds - before) / COMMITS_REMEMBERED

    def _move_recent(self) -> None:
        db = self.connection()
        try:
            self.begin(BUSY_SECONDS)
            self._cache.begin(db)
            batches.move_recent(db)
            db.execute("COMMIT")
        except (apsw.Error, OSError):
            # Where they are the records are as safe; moving them is tried again after the next commit.
            self._take_back(db, is_usable=False)
            return
        self._cache.recent_records = 0
        self._cache.committed(db)

    def _outcome(self, waiting: Waiting, batch: Batch) -> Outcome:
        if waiting.future.cancelled():
            return waiting.future, None, None
        try:
            return waiting.future, waiting.operation(batch), None
        except HoldfastError as refusal:
            return waiting.future, None, refusal
        except OSError as error:
            return waiting.future, None, translated(self._path, error)

    def _take_back(self, db: apsw.Connection, *, is_usable: bool) -> None:
        """Leave nothing of a transaction that failed. A connection that may be broken is not used again."""
        self._cache.forget()
        try:
            if db.in_transaction:
                db.execute("ROLLBACK")
        except apsw.Error:
            is_usable = False
        if not is_usable:
            self._replace(db)

    def _replace(self, db: apsw.Connection) -> None:
        """Go on with another connection, as soon as there is one."""
        successor = self._successor()
        self._is_doubtful = successor is None
        if successor is not None:
            self._db = successor
            with suppress(apsw.Error):
                db.close()

    def _successor(self) -> apsw.Connection | None:
        """Open another connection beside one that may be broken; None where that fails too.

        Before the other is closed: with the last one goes what says how far the log of changes counts. Whoever opened
        it then would take what was written and could not be synced, and was refused, for committed.
        """
        db = None
        try:
            db = connect(self._path, patience=self._patience)
            self._checkpoints.watch(db)
            # Reading is what joins it to the others.
            db.execute("SELECT count(*) FROM sqlite_schema")
        except apsw.Error:
            if db is not None:
                with suppress(apsw.Error):
                    db.close()
            return None
        return db


def refused(waiting: Sequence[Waiting], why: HoldfastError) -> list[Outcome]:
    """Return outcomes that tell everyone that nothing was written, each by an error of its own."""
    return [(each.future, None, type(why)(str(why))) for each in waiting]
