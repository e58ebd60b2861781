"""Who writes to a SQLite store, and when: one thread for many operations, the event loop itself for a single quick one.

Operations of one round of the loop gather, and those that come while a commit waits for the disk; the next transaction
takes all of them, so that a hundred sessions cost little more than one. A single small operation, with no other before
or beside it and a disk that takes less time than handing it to a thread and back, is written on the spot. Between
commits the thread looks for records that other processes wrote, while someone waits for them.
"""

import asyncio
import os
import select
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Generic, TypeVar

import apsw

from holdfast.errors import StoppingError, StoreBusyError, StoreIoError
from holdfast.ports import Clock
from holdfast.stores.feeds import Bells
from holdfast.stores.sqlite.batch import Batch
from holdfast.stores.sqlite.file import BUSY_SECONDS
from holdfast.stores.sqlite.process_lock import Owners
from holdfast.stores.sqlite.write_connection import Pen, Waiting, Watch, Written, refused

# --- How an event loop and a thread hand things to each other, quickly.


WorkT = TypeVar("WorkT")


class _Pipe:
    """Wakes whoever waits at its other end."""

    def __init__(self) -> None:
        self.reading, self._writing = os.pipe()
        os.set_blocking(self._writing, False)

    def wake(self) -> None:
        os.write(self._writing, b"!")

    def close(self) -> None:
        os.close(self.reading)
        os.close(self._writing)


class WorkQueue(Generic[WorkT]):
    """What an event loop hands to one thread, in order."""

    def __init__(self) -> None:
        self._waiting: deque[WorkT] = deque()
        self._pipe = _Pipe()
        self._is_asleep = False
        self._poll = select.poll()
        self._poll.register(self._pipe.reading, select.POLLIN)

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, *work: WorkT) -> None:
        """Add some work, all at once, and wake the thread, if it sleeps."""
        self._waiting.extend(work)
        # The thread says that it sleeps before it looks for the last time, so one of the two always sees the other.
        if self._is_asleep:
            self._is_asleep = False
            self._pipe.wake()

    def wait(self, seconds: float | None) -> bool:
        """In the thread: return True when there is work, False when this much time has passed without one."""
        if self._waiting:
            return True
        self._is_asleep = True
        # Without a time limit the read alone waits: one call of the system instead of two.
        if not self._waiting and (seconds is None or self._poll.poll(seconds * 1_000)):
            os.read(self._pipe.reading, 64)
        self._is_asleep = False
        return bool(self._waiting)

    def take(self) -> WorkT | None:
        """In the thread: return the next piece; None where there is none."""
        return self._waiting.popleft() if self._waiting else None

    def close(self) -> None:
        """Once the thread has ended: let go of the pipe."""
        self._pipe.close()


class CallQueue:
    """What a thread hands to an event loop: calls to make there, in order."""

    def __init__(self) -> None:
        self._calls: deque[Callable[[], None]] = deque()
        self._pipe = _Pipe()
        os.set_blocking(self._pipe.reading, False)
        self._is_woken = False
        self._loop: asyncio.AbstractEventLoop | None = None

    def attach(self) -> asyncio.AbstractEventLoop:
        """Belong to the event loop that runs now, from the first time on."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self._loop.add_reader(self._pipe.reading, self._run_woken)
        return self._loop

    def put(self, call: Callable[[], None]) -> None:
        """From the thread: have the loop make this call soon."""
        self._calls.append(call)
        if not self._is_woken:
            self._is_woken = True
            self._pipe.wake()

    def _run_woken(self) -> None:
        os.read(self._pipe.reading, 64)
        # Before looking: a call that is put from here on wakes the loop again.
        self._is_woken = False
        self.run_all()

    def run_all(self) -> None:
        """Make all calls that wait."""
        while self._calls:
            self._calls.popleft()()

    def close(self) -> None:
        """Let go of the loop and of the pipe."""
        if self._loop is not None:
            self._loop.remove_reader(self._pipe.reading)
        self._pipe.close()


# One transaction takes so many operations and bytes at most: nobody waits for more than some ten milliseconds of
# other people's work, and a batch fits in the page cache.
BATCH_OPERATIONS_MAX = 512
BATCH_BYTES_MAX = 8 * 2**20
# Operations that may wait for the writer. A task has one under way, so this many tasks stand still before one is
# refused.
WAITING_MAX = 20_000
# What the event loop may write itself: as much as a record with its text in line. More takes the disk longer.
WRITTEN_HERE_BYTES_MAX = 32 * 2**10

ResultT = TypeVar("ResultT")


class Writer:
    """Writes for one store."""

    def __init__(self, path: Path, owners: Owners, clock: Clock, bells: Bells) -> None:
        self._path, self._bells = path, bells
        self._pen = Pen(path, owners, clock)
        # On the loop: how many operations this round of it asked for, whether the last round with any had just one,
        # those that go to the thread, and how many it has not settled yet.
        self._asked = 0
        self._was_alone = True
        self._gathered: list[Waiting] = []
        self._handed_over = 0
        # What the thread gets: operations, and questions for the watch.
        self._inbox: WorkQueue[Waiting | Callable[[], None]] = WorkQueue()
        self._outbox = CallQueue()
        self._is_stopping = False
        # In the thread: operations of the transaction under way, and questions that came up during it.
        self._in_flight: list[Waiting] = []
        self._put_off: list[Callable[[], None]] = []
        self._watch = Watch(bells)
        self._thread = Thread(target=self._work, name=f"holdfast-writer-{path.name}", daemon=True)
        self._thread.start()

    @property
    def commits(self) -> int:
        """How many transactions were committed."""
        return self._pen.commits

    # On the event loop.

    async def run(
        self, operation: Callable[[Batch], ResultT], *, size_bytes: int = 0, is_ending: bool = False
    ) -> ResultT:
        """Do something in the next transaction, and return when it is on disk. Raises what it was refused with.

        For what ends a turn (`is_ending`) space is kept, should the disk be full.
        """
        if self._is_stopping:
            raise StoppingError(f"the store {self._path} was closed; open it again")
        if self._handed_over + len(self._gathered) >= WAITING_MAX:
            raise StoreBusyError(f"{WAITING_MAX:,} operations wait for {self._path} already; try again")
        loop = self._outbox.attach()
        future: asyncio.Future[ResultT] = loop.create_future()
        waiting = Waiting(operation, size_bytes, future, is_ending=is_ending)
        self._asked += 1
        if self._asked == 1:
            # After everything that is ready now has run, and perhaps asked for more.
            loop.call_soon(self._end_round)
        is_alone = self._asked == 1 and self._was_alone and not self._handed_over
        if not is_alone or not self._write_here(waiting):
            self._gathered.append(waiting)
        elif future.exception() is None:
            # Nothing was waited for, so the others have not had their turn.
            await asyncio.sleep(0)
        return await future

    def nudge(self) -> None:
        """Have the thread look for other processes' records: someone waits for them."""
        self._outbox.attach()
        self._inbox.put(_nothing)

    async def close(self) -> None:
        """Finish what was asked for, then end the thread."""
        self._is_stopping = True
        self._hand_over()
        self._inbox.put(_nothing)
        await asyncio.to_thread(self._thread.join)
        self._outbox.run_all()
        self._outbox.close()
        self._inbox.close()

    def _end_round(self) -> None:
        """Hand over what this round gathered."""
        self._was_alone, self._asked = self._asked == 1, 0
        self._hand_over()

    def _hand_over(self) -> None:
        gathered, self._gathered = self._gathered, []
        self._handed_over += len(gathered)
        if gathered:
            self._inbox.put(*gathered)

    def _write_here(self, waiting: Waiting) -> bool:
        """Write on the spot, if nothing at all need be waited for. Returns whether it was."""
        pen = self._pen
        if waiting.size_bytes > WRITTEN_HERE_BYTES_MAX or not pen.is_quick or not pen.hold.acquire(blocking=False):
            return False
        try:
            pen.begin(seconds_max=0.0)
            written = pen.write([waiting])
        except (apsw.Error, OSError):
            # Another process has the file, or something is wrong with it: the thread can wait, and finds out.
            return False
        finally:
            pen.hold.release()
        self._settle(written, handed_over=0)
        if pen.is_untidy():
            self._inbox.put(self._tidy)
        return True

    def _settle(self, written: Written, *, handed_over: int) -> None:
        self._handed_over -= handed_over
        for future, result, error in written.outcomes:
            if future.done():
                # Its task was cancelled meanwhile.
                continue
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)
        self._bells.tell(written.news)

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
            ended = StoreIoError(f"the writer of {self._path} has ended; open the store again")
            self._tell(Written(refused(self._in_flight, ended)))
            self._pen.close()

    def _take(self) -> None:
        came = self._inbox.take()
        if isinstance(came, Waiting):
            self._in_flight = [came]
            with self._pen.hold:
                written = self._write()
            self._tell(written)
            if self._pen.is_untidy():
                self._tidy()
            while self._put_off:
                self._put_off.pop(0)()
        elif came is not None:
            came()

    def _write(self) -> Written:
        """Do everything that waits in one transaction."""
        try:
            self._pen.begin(BUSY_SECONDS)
        except (apsw.Error, OSError) as error:
            self._in_flight += self._drain(bounded=False)
            return Written(refused(self._in_flight, self._pen.refusal_of(error)))
        self._in_flight += self._drain(bounded=True)
        return self._pen.write(self._in_flight)

    def _tell(self, written: Written) -> None:
        """Have the loop tell everyone in flight what came of it."""
        count, self._in_flight = len(self._in_flight), []
        self._outbox.put(lambda: self._settle(written, handed_over=count))

    def _drain(self, *, bounded: bool) -> list[Waiting]:
        """Take the operations that wait, up to the bounds of a batch or all of them."""
        drained: list[Waiting] = []
        size_bytes = sum(each.size_bytes for each in self._in_flight)
        while not bounded or (len(drained) < BATCH_OPERATIONS_MAX and size_bytes < BATCH_BYTES_MAX):
            came = self._inbox.take()
            if came is None:
                break
            if isinstance(came, Waiting):
                drained.append(came)
                size_bytes += came.size_bytes
            else:
                self._put_off.append(came)
        return drained

    def _tidy(self) -> None:
        with self._pen.hold:
            self._pen.tidy()

    def _look_elsewhere(self) -> None:
        # A look that fails is repeated soon; the writes themselves tell what is wrong with the file.
        with suppress(apsw.Error), self._pen.hold:
            if self._watch.has_changed(self._pen.connection()):
                self._outbox.put(self._seek_elsewhere)

    def _look_for(self, positions: dict[str, int]) -> None:
        with suppress(apsw.Error), self._pen.hold:
            grown = self._watch.grown(self._pen.connection(), positions)
            self._outbox.put(lambda: self._bells.ring(grown))


def _nothing() -> None:
    """Only wakes the thread."""
