"""Child processes that run the workload: forked from a warm process, and killed at any instant.

Importing everything takes half a second, a fork takes milliseconds. The parent has no open store and no threads, so a
child inherits only code and the pipe for its messages.
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

# Enough steps to import every module that the workload uses.
_WARM_STEPS = 8
# Warming up takes half a second, and took five on the busiest machine measured.
_WARM_SECONDS = 60.0
_PIPE_BYTES = 2**16
# Exit code of a child that failed; the reason is on standard error.
_FAILED = 70

ResultT = TypeVar("ResultT")
# Work of a child; the argument sends a line to the parent.
Work: TypeAlias = Callable[[Callable[[bytes], None]], None]
_decoder: msgspec.json.Decoder[ChildMessage] = msgspec.json.Decoder(ChildMessage)


def warm_up() -> None:
    """Run the workload once in this process, on a store that is removed, so that every module is imported.

    Children inherit the imports: opening a store takes 20 ms instead of 70.
    """
    with tempfile.TemporaryDirectory(prefix="holdfast-warm-") as folder:
        run_here(Task(folder, Script(0, 0), {}, {}, _WARM_STEPS), seconds=_WARM_SECONDS)


def run_here(task: Task, *, seconds: float) -> list[ChildMessage]:
    """Run a task in this process and return its messages. Call it only before the first lane starts.

    Children forked later inherit imports and compiled patterns: compiling those of the error classifier takes 60 ms.
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
    """Exclude existing objects from garbage collection: collecting in a child would copy every page it touches."""
    gc.collect()
    gc.freeze()


class Child:
    """A forked process and the lines it sends."""

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
        """Read lines for this long, or until it ends; return whether it has ended."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            ready, _, _ = select.select([self._fd], [], [], left)
            if ready and not self._read():
                return True
        return False

    def wait_for(self, word: bytes, seconds: float) -> bool:
        """Read until the buffer contains a word, for this long at most; return whether it does."""
        deadline = time.monotonic() + seconds
        while word not in self._buffer and (left := deadline - time.monotonic()) > 0:
            ready, _, _ = select.select([self._fd], [], [], left)
            if ready and not self._read():
                break
        return word in self._buffer

    def take_lines(self) -> list[bytes]:
        """Return the complete lines read since the last call."""
        *lines, self._buffer = self._buffer.split(b"\n")
        return lines

    def kill(self) -> list[bytes]:
        """Kill it with SIGKILL and return the complete lines it sent."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        while self._read():
            pass
        return self._close()

    def reap(self) -> tuple[int, list[bytes]]:
        """Wait for a child that has ended, and return its exit code and its lines."""
        _, status = os.waitpid(self.pid, 0)
        return os.waitstatus_to_exitcode(status), self._close()

    def _read(self) -> bool:
        chunk = os.read(self._fd, _PIPE_BYTES)
        self._buffer += chunk
        return bool(chunk)

    def _close(self) -> list[bytes]:
        os.close(self._fd)
        # An incomplete last line is dropped.
        return self.take_lines()


def _run_child(work: Work, fd: int) -> None:
    """Do the work in the child, then exit without running any cleanup of the parent."""
    code = _FAILED
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        # A line is shorter than PIPE_BUF, so it is written atomically.
        work(lambda line: _write_line(fd, line))
        code = 0
    except BrokenPipeError:
        # The parent is gone.
        pass
    except BaseException as error:  # noqa: BLE001 - reported by the exit code
        sys.stderr.write(f"holdfast: a crashlab process failed: {type(error).__name__}: {error}\n")
        sys.stderr.flush()
    finally:
        os._exit(code)


def _write_line(fd: int, line: bytes) -> None:
    left = memoryview(line + b"\n")
    while left:
        left = left[os.write(fd, left) :]


def start_child(task: Task) -> Child:
    """Fork a child that runs a task. `decode_messages` decodes its lines."""

    def work(send: Callable[[bytes], None]) -> None:
        asyncio.run(run_workload(task, lambda message: send(msgspec.json.encode(message)), time.monotonic))

    return Child(work)


def decode_messages(lines: list[bytes]) -> list[ChildMessage]:
    """Decode the messages of a child."""
    return [_decoder.decode(line) for line in lines]


def run_in_child(work: Callable[[], Coroutine[Any, Any, ResultT]], kind: type[ResultT], seconds: float) -> ResultT:
    """Run a coroutine in a child process, which opens its own stores, and return the result."""

    def work_and_send(send: Callable[[bytes], None]) -> None:
        send(msgspec.json.encode(asyncio.run(work())))

    child = Child(work_and_send)
    if not child.read_for(seconds):
        child.kill()
        raise TimeoutError(f"the check did not finish within {seconds:g} s")
    code, lines = child.reap()
    if code:
        raise ChildProcessError(f"the check exited with {code}")
    return msgspec.json.decode(lines[-1], type=kind)
