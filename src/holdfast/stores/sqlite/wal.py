"""SQLite's write-ahead log from the writer's side: keeping it short, and noticing what other processes put into it."""

import time
from contextlib import suppress
from typing import Any

import apsw

from holdfast.stores.feeds import Bells
from holdfast.stores.sqlite.file import BUSY_SECONDS, Patience

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
