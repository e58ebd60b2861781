"""An event loop beside the main thread, so that the main thread can wait for a person.

Reading a line with editing blocks its thread, and Ctrl-C reaches the main thread alone. With the loop elsewhere both
are plain: a session goes on working while somebody types, and Ctrl-C interrupts the waiting, never the work.
"""

import asyncio
import signal
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self, TypeVar

ResultT = TypeVar("ResultT")


class SideLoop:
    """A context in which coroutines can be started from outside of their loop."""

    def __init__(self) -> None:
        self._started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()
        # A daemon: where the work cannot be ended, a second Ctrl-C still ends the program.
        self._thread = threading.Thread(target=self._run, name="holdfast.loop", daemon=True)

    def _run(self) -> None:
        # The kernel may give Ctrl-C to any thread, and one that comes here does not wake the main thread from reading a
        # line. Threads that the loop starts inherit this.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        asyncio.run(self._live())

    async def _live(self) -> None:
        end = asyncio.Event()
        self._started.set_result((asyncio.get_running_loop(), end))
        await end.wait()

    def __enter__(self) -> Self:
        self._thread.start()
        self._loop, self._end = self._started.result()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()

    def start(self, work: Coroutine[Any, Any, ResultT]) -> Future[ResultT]:
        """Start a coroutine in the loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, ResultT]) -> ResultT:
        """Wait for a coroutine in the loop. A KeyboardInterrupt ends the waiting and leaves the coroutine running."""
        return self.start(work).result()
