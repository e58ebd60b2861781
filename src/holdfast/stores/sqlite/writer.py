"""The one thread that writes to a SQLite store: many operations, one commit.

While a commit waits for the disk, operations gather; the next transaction takes all of them, so that a hundred
sessions cost little more than one. Nobody is told of success before the commit has returned. Between commits the
same thread looks for records that other processes wrote, while someone waits for them.
"""

import asyncio
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any, TypeAlias, TypeVar

import apsw

from holdfast.errors import HoldfastError, StoppingError, StoreBusyError, StoreIoError
from holdfast.ports import Clock
from holdfast.stores.feeds import Bells
from holdfast.stores.handover import CallQueue, WorkQueue
from holdfast.stores.sqlite import batch as batches
from holdfast.stores.sqlite.batch import Batch, RowCache
from holdfast.stores.sqlite.file import BUSY_SECONDS, connect, translated
from holdfast.stores.sqlite.owners import Owners
from holdfast.stores.sqlite.wal import Checkpoints, Watch

# One transaction takes so many operations and bytes at most: nobody waits for more than some ten milliseconds of
# other people's work, and a batch fits in the page cache.
BATCH_OPERATIONS_MAX = 512
BATCH_BYTES_MAX = 8 * 2**20
# Operations that may wait for the writer. A task has one under way, so this many tasks stand still before one is
# refused.
WAITING_MAX = 20_000

ResultT = TypeVar("ResultT")
Outcome: TypeAlias = tuple[asyncio.Future[Any], Any, HoldfastError | None]


class _Waiting:
    """An operation that someone waits for."""

    __slots__ = ("future", "operation", "size_bytes")

    def __init__(self, operation: Callable[[Batch], Any], size_bytes: int, future: asyncio.Future[Any]) -> None:
        self.operation, self.size_bytes, self.future = operation, size_bytes, future


class Writer:
    """Writes for one store."""

    def __init__(self, path: Path, owners: Owners, clock: Clock, bells: Bells) -> None:
        self._path, self._owners, self._clock, self._bells = path, owners, clock, bells
        # What the thread gets: operations, and questions for the watch.
        self._inbox: WorkQueue[_Waiting | Callable[[], None]] = WorkQueue()
        self._outbox = CallQueue()
        self._is_stopping = False
        self._db: apsw.Connection | None = None
        self._in_flight: list[_Waiting] = []
        self._cache = RowCache()
        # Records that this store added since it last moved the recent ones.
        self._recent_records = 0
        self._checkpoints = Checkpoints()
        self._watch = Watch(bells)
        # Transactions committed; set against the number of operations it tells how well they group.
        self.commits = 0
        self._thread = Thread(target=self._work, name=f"holdfast-writer-{path.name}", daemon=True)
        self._thread.start()

    # On the event loop.

    def run(self, operation: Callable[[Batch], ResultT], *, size_bytes: int = 0) -> asyncio.Future[ResultT]:
        """Do something in the next transaction; the future ends when it is on disk, or was refused."""
        if self._is_stopping:
            raise StoppingError(f"the store {self._path} was closed; open it again")
        if len(self._inbox) >= WAITING_MAX:
            raise StoreBusyError(f"{WAITING_MAX:,} operations wait for {self._path} already; try again")
        future: asyncio.Future[ResultT] = self._outbox.attach().create_future()
        self._inbox.put(_Waiting(operation, size_bytes, future))
        return future

    def nudge(self) -> None:
        """Have the thread look for other processes' records: someone waits for them."""
        self._outbox.attach()
        self._inbox.put(_nothing)

    async def close(self) -> None:
        """Finish what was asked for, then end the thread."""
        self._is_stopping = True
        self._inbox.put(_nothing)
        await asyncio.to_thread(self._thread.join)
        self._outbox.run_all()
        self._outbox.close()
        self._inbox.close()

    def _settle(self, outcomes: list[Outcome], extended: Collection[str]) -> None:
        for future, result, error in outcomes:
            if future.done():
                # Its task was cancelled meanwhile.
                continue
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)
        self._bells.ring(extended)

    def _seek_elsewhere(self) -> None:
        """Another process has written: ask which of the sessions that are fed have grown."""
        positions = self._bells.positions()
        self._inbox.put(lambda: self._look_for(positions))

    # In the thread.

    def _work(self) -> None:
        """Take what comes until the end is asked for. Whoever still waits when this ends is told so."""
        try:
            while not self._is_stopping or len(self._inbox):
                if self._inbox.wait(self._watch.pause_seconds()):
                    self._take()
                if self._watch.is_due():
                    self._look_elsewhere()
        finally:
            self._is_stopping = True
            self._in_flight += self._drain(bounded=False)
            self._refuse(lambda: StoreIoError(f"the writer of {self._path} has ended; open the store again"))
            if self._db is not None:
                self._db.close()

    def _take(self) -> None:
        came = self._inbox.take()
        if isinstance(came, _Waiting):
            self._write(came)
        elif came is not None:
            came()

    def _write(self, first: _Waiting) -> None:
        """Do everything that waits in one transaction."""
        self._in_flight = [first]
        try:
            db = self._begin()
        except (apsw.Error, OSError) as error:
            why = translated(self._path, error, self._db)
            self._in_flight += self._drain(bounded=False)
            self._refuse(lambda: type(why)(str(why)))
            return
        self._in_flight += self._drain(bounded=True)
        try:
            self._cache.begin(db)
            batch = Batch(db, self._cache, self._owners, self._clock.now())
            outcomes = [self._outcome(each, batch) for each in self._in_flight]
            batch.flush()
            db.execute("COMMIT")
        except apsw.Error as error:
            why = translated(self._path, error, db)
            self._take_back(db, is_usable=isinstance(error, apsw.FullError | apsw.BusyError))
            self._refuse(lambda: type(why)(str(why)))
            return
        self._cache.committed(db)
        self._in_flight = []
        self.commits += 1
        self._outbox.put(lambda: self._settle(outcomes, batch.extended))
        self._tidy(db, batch.records_added)

    def _tidy(self, db: apsw.Connection, records_added: int) -> None:
        """What need not be done while someone waits for it."""
        self._recent_records += records_added
        if self._recent_records >= batches.RECENT_RECORDS_MAX:
            self._move_recent(db)
        if self._db is not None and self._checkpoints.are_due():
            self._checkpoints.run(self._db)

    def _move_recent(self, db: apsw.Connection) -> None:
        try:
            self._cache.begin(self._begin())
            batches.move_recent(db)
            db.execute("COMMIT")
        except (apsw.Error, OSError):
            # Where they are the records are as safe; moving them is tried again after the next commit.
            self._take_back(db, is_usable=False)
            return
        self._recent_records = 0
        self._cache.committed(db)

    def _outcome(self, waiting: _Waiting, batch: Batch) -> Outcome:
        if waiting.future.cancelled():
            return waiting.future, None, None
        try:
            return waiting.future, waiting.operation(batch), None
        except HoldfastError as refusal:
            return waiting.future, None, refusal
        except OSError as error:
            return waiting.future, None, translated(self._path, error)

    def _begin(self) -> apsw.Connection:
        db = self._connection()
        self._owners.take_turn(BUSY_SECONDS)
        try:
            db.execute("BEGIN IMMEDIATE")
        finally:
            self._owners.give_turn()
        return db

    def _connection(self) -> apsw.Connection:
        if self._db is None:
            self._db = connect(self._path)
            self._checkpoints.watch(self._db)
        return self._db

    def _drain(self, *, bounded: bool) -> list[_Waiting]:
        """Take the operations that wait, up to the bounds of a batch or all of them."""
        drained: list[_Waiting] = []
        size_bytes = sum(each.size_bytes for each in self._in_flight)
        while not bounded or (len(drained) < BATCH_OPERATIONS_MAX and size_bytes < BATCH_BYTES_MAX):
            came = self._inbox.take()
            if came is None:
                break
            if isinstance(came, _Waiting):
                drained.append(came)
                size_bytes += came.size_bytes
            else:
                came()
        return drained

    def _take_back(self, db: apsw.Connection, *, is_usable: bool) -> None:
        """Leave nothing of a transaction that failed. A connection that may be broken is not used again."""
        self._cache.forget()
        try:
            if db.in_transaction:
                db.execute("ROLLBACK")
        except apsw.Error:
            is_usable = False
        if not is_usable:
            self._db = None
            with suppress(apsw.Error):
                db.close()

    def _refuse(self, why: Callable[[], HoldfastError]) -> None:
        """Tell everyone in flight that nothing was written, each by an error of its own."""
        outcomes: list[Outcome] = [(each.future, None, why()) for each in self._in_flight]
        self._in_flight = []
        self._outbox.put(lambda: self._settle(outcomes, ()))

    def _look_elsewhere(self) -> None:
        # A look that fails is repeated soon; the writes themselves tell what is wrong with the file.
        with suppress(apsw.Error):
            if self._watch.has_changed(self._connection()):
                self._outbox.put(self._seek_elsewhere)

    def _look_for(self, positions: dict[str, int]) -> None:
        with suppress(apsw.Error):
            grown = self._watch.grown(self._connection(), positions)
            self._outbox.put(lambda: self._bells.ring(grown))


def _nothing() -> None:
    """Only wakes the thread."""
