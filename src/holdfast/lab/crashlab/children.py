"""Processes that are forked from a warm one: quick to begin, told what to do, and killed at any instant.

Importing everything takes half a second, a fork takes milliseconds. Whoever forks has no store open and no thread
running, so a child inherits nothing but code and the pipe that it speaks through.
"""

import asyncio
import gc
import logging
import os
import select
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias, TypeVar

import msgspec

from holdfast.lab.crashlab.workload import ChildMessage, Script, Task, run_workload

# Enough of the workload that all it ever imports is imported.
_WARM_STEPS = 8
# That takes half a second; on the busiest machine seen, five.
_WARM_SECONDS = 60.0
_PIPE_BYTES = 2**16
# What a child that fails exits with; it has said why on standard error.
_FAILED = 70

ResultT = TypeVar("ResultT")
# What a child does, given how it says a line.
Work: TypeAlias = Callable[[Callable[[bytes], None]], None]
_decoder: msgspec.json.Decoder[ChildMessage] = msgspec.json.Decoder(ChildMessage)


def warm_up() -> None:
    """Import and run once everything that a life will use, in this process, on a store that is closed and removed.

    What a life imports by itself it pays for every time: opening took 70 ms with that, and 20 without.
    """
    with tempfile.TemporaryDirectory(prefix="holdfast-warm-") as folder:
        run_here(Task(folder, Script(0, 0), {}, {}, _WARM_STEPS), seconds=_WARM_SECONDS)


def run_here(task: Task, *, seconds: float) -> list[ChildMessage]:
    """Live in this process until an errand is done, and return what was said. Only before the first lane begins.

    Whatever it imported, compiled and learned on the way, the lives that are forked from here on have from their birth:
    one that was first to meet an overflow took 60 ms to compile the patterns of all refusals.
    """
    logging.disable(logging.CRITICAL)
    messages: list[ChildMessage] = []

    async def within() -> None:
        async with asyncio.timeout(seconds):
            await run_workload(task, messages.append, time.monotonic)

    asyncio.run(within())
    freeze_heap()
    return messages


def freeze_heap() -> None:
    """Have what is there now stay for good: a child that looks for garbage would copy every page that it touches."""
    gc.collect()
    gc.freeze()


class Child:
    """A forked process and the lines that it says."""

    def __init__(self, work: Work) -> None:
        read_fd, write_fd = os.pipe()
        self.began = time.monotonic()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(read_fd)
            _run_child(work, write_fd)
        os.close(write_fd)
        self._fd = read_fd
        self._buffer = b""

    def read_for(self, seconds: float) -> bool:
        """Hear what it says for so long, or until it ends; return whether it has ended."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            ready, _, _ = select.select([self._fd], [], [], left)
            if ready and not self._read():
                return True
        return False

    def wait_for(self, word: bytes, seconds: float) -> bool:
        """Hear what it says until that has a word in it, for so long at most; return whether it was said."""
        deadline = time.monotonic() + seconds
        while word not in self._buffer and (left := deadline - time.monotonic()) > 0:
            ready, _, _ = select.select([self._fd], [], [], left)
            if ready and not self._read():
                break
        return word in self._buffer

    def take_lines(self) -> list[bytes]:
        """Return the whole lines that were heard since the last time."""
        *lines, self._buffer = self._buffer.split(b"\n")
        return lines

    def kill(self) -> list[bytes]:
        """End it at once, however far it is, and return every whole line that it said."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        while self._read():
            pass
        return self._close()

    def reap(self) -> tuple[int, list[bytes]]:
        """Collect one that has ended by itself: its exit code and what it said."""
        _, status = os.waitpid(self.pid, 0)
        return os.waitstatus_to_exitcode(status), self._close()

    def _read(self) -> bool:
        heard = os.read(self._fd, _PIPE_BYTES)
        self._buffer += heard
        return bool(heard)

    def _close(self) -> list[bytes]:
        os.close(self._fd)
        # A line that was cut off was not said.
        return self.take_lines()


def _run_child(work: Work, fd: int) -> None:
    """In the child: work, then end without running anything that belongs to the parent."""
    code = _FAILED
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        # A line is shorter than what a pipe takes in one piece. Where nobody listens any more, this ends the child.
        work(lambda line: _write_line(fd, line))
        code = 0
    except BrokenPipeError:
        # Whoever listened has gone, and this goes with them.
        pass
    except BaseException as error:  # noqa: BLE001 - whoever forked is told by the exit code
        sys.stderr.write(f"holdfast: a child of the laboratory failed: {type(error).__name__}: {error}\n")
        sys.stderr.flush()
    finally:
        os._exit(code)


def _write_line(fd: int, line: bytes) -> None:
    left = memoryview(line + b"\n")
    while left:
        left = left[os.write(fd, left) :]


def start_child(task: Task) -> Child:
    """Begin a life with an errand. What it says can be read with `sayings`."""

    def work(send: Callable[[bytes], None]) -> None:
        asyncio.run(run_workload(task, lambda message: send(msgspec.json.encode(message)), time.monotonic))

    return Child(work)


def decode_messages(lines: list[bytes]) -> list[ChildMessage]:
    """Return what a life said."""
    return [_decoder.decode(line) for line in lines]


def run_in_child(work: Callable[[], Coroutine[Any, Any, ResultT]], kind: type[ResultT], seconds: float) -> ResultT:
    """Have a child find something out, which it does with stores of its own, and return it."""

    def tell(send: Callable[[bytes], None]) -> None:
        send(msgspec.json.encode(asyncio.run(work())))

    child = Child(tell)
    if not child.read_for(seconds):
        child.kill()
        raise TimeoutError(f"a judge was not done after {seconds:g} s")
    code, lines = child.reap()
    if code:
        raise ChildProcessError(f"a judge ended with {code}")
    return msgspec.json.decode(lines[-1], type=kind)
