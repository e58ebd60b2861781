"""Who reads from a SQLite store: a few threads, and the event loop itself where that costs less than handing it over.

Going to a thread and back takes longer than most of what is read: where a session stands, one record, the news behind
the last one. That is read on the spot, as single small writes are (see `writer`), by a connection that waits for
nobody. A disk that once takes long for it has all its readers in threads for a while.
"""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeAlias, TypeVar

import apsw

from holdfast.stores.sqlite.file import Patience, translated

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
