"""How an event loop and a thread hand things to each other, quickly.

Both ways are a deque and a pipe; a byte goes through the pipe only when the other side is not awake yet. On the
two-core machine of our figures a round trip between a loop and a thread that waits for the disk took 70 microseconds
less than with a queue one way and `call_soon_threadsafe` the other: a fifth of a durable append.
"""

import asyncio
import os
import select
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

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
