"""An event loop in a thread of its own, for callers without asyncio and for those with other loops.

A client belongs to the loop in which it was opened. Calls from other threads and loops run there.
"""

import asyncio
import atexit
import concurrent.futures.thread  # noqa: F401 - its own hook at the end of the program must be older than ours
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator
from typing import Any, TypeVar

from holdfast.errors import StoppingError, UsageError

_ResultT = TypeVar("_ResultT")
# `atexit` is too late: by then no thread may be started, and closing a store needs one. This hook of the threading
# module runs before. It is private, so `atexit` is the fallback.
_at_exit: Callable[[Callable[[], None]], object] = getattr(threading, "_register_atexit", atexit.register)


class LoopCalls:
    """Calls into an event loop from other threads and loops."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop

    def run(self, work: Coroutine[Any, Any, _ResultT]) -> _ResultT:
        """Run a coroutine in the loop, and wait for its result in this thread."""
        self.check(work)
        if _running_loop() is self.loop:
            work.close()
            raise UsageError("a blocking call from the loop of this client would never end; use the asynchronous API")
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result()
        finally:
            # Interrupted by Ctrl-C: the work ends too. No-op for a finished one.
            future.cancel()

    async def call(self, work: Coroutine[Any, Any, _ResultT], *, is_write: bool = True) -> _ResultT:
        """Run a coroutine in the loop, and wait for its result in any other loop.

        A cancelled caller waits for the end of a write, so that its outcome is known.
        """
        self.check(work)
        if asyncio.get_running_loop() is self.loop:
            return await work
        future = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self.loop))
        if not is_write:
            return await future
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            await asyncio.wait([future])
            # Retrieve the exception so that asyncio does not log it.
            _ = future.cancelled() or future.exception()
            raise

    def check(self, work: Coroutine[Any, Any, object]) -> None:
        """Raise `StoppingError` if the loop has ended."""
        if self.loop.is_closed():
            work.close()
            raise StoppingError("the client is closed; open it again")


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class LoopThread(LoopCalls):
    """An event loop in a thread. `close` ends it; the end of the program does too."""

    def __init__(self, name: str = "holdfast") -> None:
        super().__init__(asyncio.new_event_loop())
        self._is_running = threading.Event()
        self._closing = threading.Lock()
        self._is_closed = False
        self._on_close: Callable[[], Coroutine[Any, Any, None]] | None = None
        # Not a daemon: the program must not end in the middle of a write.
        self._thread = threading.Thread(target=self._run, name=name)
        self._thread.start()
        self._is_running.wait()
        _at_exit(self.close)

    def on_close(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Set the work that `close` does in the loop before it ends."""
        self._on_close = work

    def iterate(self, source: Callable[[], AsyncIterator[_ResultT]]) -> Generator[_ResultT, None, None]:
        """Yield the values of an asynchronous iterator, and close it at the end or when the caller leaves."""
        values = source()
        try:
            while True:
                try:
                    value = self.run(_next(values))
                except _EndError:
                    return
                yield value
        finally:
            if isinstance(values, AsyncGenerator) and not self._is_closed:
                self.run(_aclose(values))

    def close(self) -> None:
        """Do the work of `on_close`, then end the loop and the thread. A second call is a no-op."""
        with self._closing:
            if self._is_closed:
                return
            try:
                if self._on_close is not None:
                    self.run(self._on_close())
            finally:
                self._is_closed = True
                self.loop.call_soon_threadsafe(self.loop.stop)
                self._thread.join()

    def check(self, work: Coroutine[Any, Any, object]) -> None:
        """Raise `StoppingError` if the loop has ended."""
        if self._is_closed:
            work.close()
            raise StoppingError("the client is closed; open it again")

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.call_soon(self._is_running.set)
        try:
            self.loop.run_forever()
        finally:
            left = asyncio.all_tasks(self.loop)
            for task in left:
                task.cancel()
            self.loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.run_until_complete(self.loop.shutdown_default_executor())
            self.loop.close()


async def _next(values: AsyncIterator[_ResultT]) -> _ResultT:
    try:
        return await anext(values)
    except StopAsyncIteration:
        # A coroutine may not raise it; the future would never be done.
        raise _EndError from None


async def _aclose(values: AsyncGenerator[Any, None]) -> None:
    await values.aclose()


class _EndError(Exception):
    """An iterator has ended."""
