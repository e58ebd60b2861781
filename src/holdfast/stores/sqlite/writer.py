"""Writer of a SQLite store: a thread with group commit, and inline writes for single small operations.

Operations of one iteration of the event loop are collected, and so are those that arrive during a commit; the next
transaction takes all of them, so that a hundred sessions cost little more than one. A single small operation with no
other in flight is written inline, if the disk is faster than a round trip to the thread. Between commits the thread
polls for records of other processes while a feed waits.
"""

import asyncio
import os
import select
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any, Generic, TypeVar, cast

import apsw

from holdfast.errors import StoppingError, StoreBusyError, StoreIoError
from holdfast.ports import Clock, SessionInfo
from holdfast.stores.feeds import FeedRegistry
from holdfast.stores.sqlite.batch import Batch
from holdfast.stores.sqlite.file import BUSY_SECONDS
from holdfast.stores.sqlite.process_lock import Instances
from holdfast.stores.sqlite.write_connection import ChangePoller, PendingWrite, WriteConnection, WriteResult, rejected

# --- Queues between the event loop and the thread ---

WorkT = TypeVar("WorkT")


class _Pipe:
    """A pipe that wakes the reader at its other end."""

    def __init__(self) -> None:
        self.reading, self._writing = os.pipe()
        os.set_blocking(self._writing, False)

    def wake(self) -> None:
        os.write(self._writing, b"!")

    def close(self) -> None:
        os.close(self.reading)
        os.close(self._writing)


class WorkQueue(Generic[WorkT]):
    """Queue from an event loop to one thread."""

    def __init__(self) -> None:
        self._waiting: deque[WorkT] = deque()
        self._pipe = _Pipe()
        self._is_asleep = False
        self._poll = select.poll()
        self._poll.register(self._pipe.reading, select.POLLIN)

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, *work: WorkT) -> None:
        """Add work and wake the thread if it sleeps."""
        self._waiting.extend(work)
        # The thread sets the flag before its last check, so one of the two always sees the other.
        if self._is_asleep:
            self._is_asleep = False
            self._pipe.wake()

    def wait(self, seconds: float | None) -> bool:
        """In the thread: wait for work. Return False on a timeout."""
        if self._waiting:
            return True
        self._is_asleep = True
        # Without a timeout the read itself waits: one system call instead of two.
        if not self._waiting and (seconds is None or self._poll.poll(seconds * 1_000)):
            os.read(self._pipe.reading, 64)
        self._is_asleep = False
        return bool(self._waiting)

    def take(self) -> WorkT | None:
        """In the thread: return the next piece of work, or None."""
        return self._waiting.popleft() if self._waiting else None

    def close(self) -> None:
        """Close the pipe, after the thread has ended."""
        self._pipe.close()


class CallQueue:
    """Queue of calls from a thread to an event loop."""

    def __init__(self) -> None:
        self._calls: deque[Callable[[], None]] = deque()
        self._pipe = _Pipe()
        os.set_blocking(self._pipe.reading, False)
        self._is_woken = False
        self._loop: asyncio.AbstractEventLoop | None = None

    def attach(self) -> asyncio.AbstractEventLoop:
        """Attach to the running event loop, at the first call."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self._loop.add_reader(self._pipe.reading, self._run_woken)
        return self._loop

    def put(self, call: Callable[[], None]) -> None:
        """From the thread: schedule a call in the loop."""
        self._calls.append(call)
        if not self._is_woken:
            self._is_woken = True
            self._pipe.wake()

    def _run_woken(self) -> None:
        os.read(self._pipe.reading, 64)
        # Cleared before the calls: a later `put` wakes the loop again.
        self._is_woken = False
        self.run_all()

    def run_all(self) -> None:
        """Run all queued calls."""
        while self._calls:
            self._calls.popleft()()

    def close(self) -> None:
        """Detach from the loop and close the pipe."""
        if self._loop is not None:
            self._loop.remove_reader(self._pipe.reading)
        self._pipe.close()


# --- Writer ---

# Limits of a transaction: an operation waits for some ten milliseconds of other work at most, and a batch fits in the
# page cache.
BATCH_OPERATIONS_MAX = 512
BATCH_BYTES_MAX = 8 * 2**20
# Limit of the queue. A task has one operation in flight, so this many tasks wait before one is rejected.
WAITING_MAX = 20_000
# Limit of an inline write: a record with its text. A larger one takes the disk longer.
INLINE_BYTES_MAX = 32 * 2**10
# A task that writes inline again and again lets the others run after this time: as long as one inline write may take.
YIELD_SECONDS = 0.001

ResultT = TypeVar("ResultT")


class Writer:
    """The writer of one store."""

    def __init__(self, path: Path, instances: Instances, clock: Clock, registry: FeedRegistry) -> None:
        self._path, self._registry = path, registry
        self._connection = WriteConnection(path, instances, clock)
        # On the loop: the task that requested operations in this iteration, whether another one did too, whether the
        # last iteration with any had just one, when calls that wait for nothing must yield (0: none in this iteration),
        # operations for the thread, and how many of those are not settled.
        self._requester: asyncio.Task[Any] | None = None
        self._is_shared = self._was_shared = False
        self._yield_at = 0.0
        self._collected: list[PendingWrite] = []
        self._unsettled = 0
        # For the thread: operations, and calls.
        self._inbox: WorkQueue[PendingWrite | Callable[[], None]] = WorkQueue()
        self._outbox = CallQueue()
        self._is_stopping = False
        # In the thread: operations of the current transaction, and calls that arrived during it.
        self._in_flight: list[PendingWrite] = []
        self._deferred: list[Callable[[], None]] = []
        self._poller = ChangePoller(registry)
        self._thread = Thread(target=self._work, name=f"holdfast-writer-{path.name}", daemon=True)
        self._thread.start()

    @property
    def commits(self) -> int:
        """Number of commits."""
        return self._connection.commits

    def check_place(self) -> None:
        """Raise `StoreMovedError` if the file is no longer at its path."""
        self._connection.place.check()

    # On the event loop.

    async def run(
        self,
        operation: Callable[[Batch], ResultT],
        *,
        size_bytes: int = 0,
        ends_turn: bool = False,
        is_synced: bool = True,
    ) -> ResultT:
        """Run an operation in the next transaction and return its result once it is on disk.

        An operation that ends a turn (`ends_turn`) may use the reserved space on a full disk. One that need not be on
        disk before the next (`is_synced` is False) succeeds when other processes see it.
        """
        if self._is_stopping:
            raise StoppingError(f"the store {self._path} is closed; open it again")
        if self._unsettled + len(self._collected) >= WAITING_MAX:
            raise StoreBusyError(f"write queue of {self._path} is full ({WAITING_MAX:,} operations); retry later")
        loop = self._outbox.attach()
        waiting = PendingWrite(operation, size_bytes, ends_turn, is_synced)
        self._note_request(loop)
        if not (self._is_shared or self._was_shared or self._unsettled or self._collected) and (
            written := self._write_inline(waiting)
        ):
            (_, result, error), *_ = written.outcomes
            if error is not None:
                raise error
            if time.perf_counter() >= self._yield_at:
                # Inline writes do not yield, so let other tasks run.
                await asyncio.sleep(0)
            return cast("ResultT", result)
        future: asyncio.Future[ResultT] = loop.create_future()
        waiting.future = future
        self._collected.append(waiting)
        return await future

    def _note_request(self, loop: asyncio.AbstractEventLoop) -> None:
        """Note that the current task requests an operation in this iteration."""
        if not self._yield_at:
            self._begin_iteration(loop)
        if self._requester is None:
            self._requester = asyncio.current_task()
        elif not self._is_shared:
            self._is_shared = self._requester is not asyncio.current_task()

    def is_yield_due(self) -> bool:
        """Return whether calls that waited for nothing have kept the loop so long that other tasks are due."""
        if not self._yield_at:
            self._begin_iteration(self._outbox.attach())
            return False
        return time.perf_counter() >= self._yield_at

    def _begin_iteration(self, loop: asyncio.AbstractEventLoop) -> None:
        self._yield_at = time.perf_counter() + YIELD_SECONDS
        # Runs after all tasks that are ready now, which may add operations.
        loop.call_soon(self._end_iteration)

    def info(self, session: str) -> SessionInfo | None:
        """Return the summary of a session that this store wrote last, without reading the file; None: read it."""
        connection = self._connection
        if not connection.lock.acquire(blocking=False):
            return None
        try:
            return connection.info(session)
        except apsw.Error:
            # The read from the file reports the error.
            return None
        finally:
            connection.lock.release()

    def start_polling(self) -> None:
        """Start polling for records of other processes: a feed waits."""
        self._outbox.attach()
        self._inbox.put(_noop)

    async def close(self) -> None:
        """Finish queued operations, then end the thread."""
        self._is_stopping = True
        self._pass_on()
        self._inbox.put(_noop)
        await asyncio.to_thread(self._thread.join)
        self._outbox.run_all()
        self._outbox.close()
        self._inbox.close()

    def _end_iteration(self) -> None:
        """Pass the operations of this iteration to the thread."""
        self._yield_at = 0.0
        if self._requester is not None:
            self._was_shared, self._is_shared = self._is_shared, False
            self._requester = None
        if self._collected:
            self._pass_on()

    def _pass_on(self) -> None:
        coalesced, self._collected = self._collected, []
        self._unsettled += len(coalesced)
        if coalesced:
            self._inbox.put(*coalesced)

    def _write_inline(self, waiting: PendingWrite) -> WriteResult | None:
        """Write inline if nothing has to be waited for; None: it was not written."""
        connection = self._connection
        if (
            waiting.size_bytes > INLINE_BYTES_MAX
            or not connection.is_quick
            or not connection.lock.acquire(blocking=False)
        ):
            return None
        try:
            connection.begin(seconds_max=0.0, is_synced=waiting.is_synced)
            written = connection.write([waiting])
        except (apsw.Error, OSError):
            # Another process holds the file, or it fails: the thread waits or reports the error.
            return None
        finally:
            connection.lock.release()
        self._registry.deliver(written.new_rows)
        if connection.needs_tidying():
            self._inbox.put(self._tidy)
        return written

    def _settle(self, written: WriteResult, *, count: int) -> None:
        self._unsettled -= count
        if count > 1:
            # Their tasks run in the next iteration and may all request again: the first of them must not write inline.
            self._was_shared = True
        for waiting, result, error in written.outcomes:
            future = waiting.future
            if future is None or future.done():
                # Its task was cancelled.
                continue
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)
        self._registry.deliver(written.new_rows)

    def _find_grown(self) -> None:
        """Another process has written: let the thread find the sessions with feeds that have grown."""
        positions = self._registry.positions()
        self._inbox.put(lambda: self._wake_grown(positions))

    # In the thread.

    def _work(self) -> None:
        """Process the queue until the writer is closed. Operations that are still queued then fail."""
        try:
            while not self._is_stopping or len(self._inbox):
                if self._inbox.wait(self._poller.pause_seconds()):
                    self._take()
                if self._poller.is_due():
                    self._poll_changes()
        finally:
            self._is_stopping = True
            self._in_flight += self._drain(bounded=False)
            ended = StoreIoError(f"the writer of {self._path} has stopped; open the store again")
            self._report(WriteResult(rejected(self._in_flight, ended)))
            self._connection.close()

    def _take(self) -> None:
        work = self._inbox.take()
        if isinstance(work, PendingWrite):
            self._in_flight = [work]
            with self._connection.lock:
                written = self._write()
            self._report(written)
            if self._connection.needs_tidying():
                self._tidy()
            while self._deferred:
                self._deferred.pop(0)()
        elif work is not None:
            work()

    def _write(self) -> WriteResult:
        """Run all queued operations in one transaction."""
        # One that joins operations which must be on disk is synced with them.
        is_synced = self._in_flight[0].is_synced or len(self._inbox) > 0
        try:
            self._connection.begin(BUSY_SECONDS, is_synced=is_synced)
        except (apsw.Error, OSError) as error:
            self._in_flight += self._drain(bounded=False)
            return WriteResult(rejected(self._in_flight, self._connection.error_of(error)))
        if is_synced:
            self._in_flight += self._drain(bounded=True)
        return self._connection.write(self._in_flight)

    def _report(self, written: WriteResult) -> None:
        """Let the loop settle the operations in flight."""
        count, self._in_flight = len(self._in_flight), []
        self._outbox.put(lambda: self._settle(written, count=count))

    def _drain(self, *, bounded: bool) -> list[PendingWrite]:
        """Take queued operations, up to the limits of a batch or all of them."""
        drained: list[PendingWrite] = []
        room = BATCH_BYTES_MAX - sum(each.size_bytes for each in self._in_flight)
        while not bounded or (room > 0 and len(drained) < BATCH_OPERATIONS_MAX):
            work = self._inbox.take()
            if isinstance(work, PendingWrite):
                drained.append(work)
                room -= work.size_bytes
            elif work is None:
                break
            else:
                self._deferred.append(work)
        return drained

    def _tidy(self) -> None:
        with self._connection.lock:
            self._connection.tidy()

    def _poll_changes(self) -> None:
        # A failed poll is repeated soon; writes report errors of the file.
        with suppress(apsw.Error), self._connection.lock:
            if self._poller.has_changed(self._connection.db()):
                self._outbox.put(self._find_grown)

    def _wake_grown(self, positions: dict[str, int]) -> None:
        with suppress(apsw.Error), self._connection.lock:
            grown = self._poller.grown_sessions(self._connection.db(), positions)
            self._outbox.put(lambda: self._registry.wake(grown))


def _noop() -> None:
    """Wake the thread and do nothing."""
