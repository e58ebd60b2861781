"""The client and the session without asyncio: the same methods, each waits for its result.

They are usable from any thread and, with `call`, from any event loop. The engine runs in a loop of its own.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from holdfast.adapters.loop_thread import LoopCalls, LoopThread
from holdfast.models.reference import Model
from holdfast.ports import Tool
from holdfast.runtime.memory.notes import Memory as AsyncMemory
from holdfast.runtime.sessions.client import Client as AsyncClient
from holdfast.runtime.sessions.session import Session as AsyncSession
from holdfast.types.messages import ToolSpec
from holdfast.types.settings import Settings

_P = ParamSpec("_P")
_ResultT = TypeVar("_ResultT")


def _blocking(
    method: Callable[Concatenate[AsyncSession, _P], Awaitable[_ResultT]],
) -> Callable[Concatenate["Session", _P], _ResultT]:
    def call(self: "Session", /, *args: _P.args, **kwargs: _P.kwargs) -> _ResultT:
        # The coroutine is made in the loop: a call that is rejected before leaves none behind.
        async def work() -> _ResultT:
            return await method(self.session, *args, **kwargs)

        return self.client.thread.run(work())

    call.__doc__, call.__name__ = method.__doc__, getattr(method, "__name__", "call")
    return call


def _iterating(
    method: Callable[Concatenate[AsyncSession, _P], AsyncIterator[_ResultT]],
) -> Callable[Concatenate["Session", _P], Generator[_ResultT, None, None]]:
    def call(self: "Session", /, *args: _P.args, **kwargs: _P.kwargs) -> Generator[_ResultT, None, None]:
        return self.client.thread.iterate(lambda: method(self.session, *args, **kwargs))

    call.__doc__, call.__name__ = method.__doc__, getattr(method, "__name__", "call")
    return call


class Session:
    """A conversation under a stable key; see `holdfast.Session`. Iterators are closed when the loop is left."""

    def __init__(self, session: AsyncSession, client: "Client") -> None:
        self.session, self.client = session, client

    @property
    def key(self) -> str:
        """The key of the session."""
        return self.session.key

    send = _blocking(AsyncSession.send)
    post = _blocking(AsyncSession.post)
    wait = _blocking(AsyncSession.wait)
    cancel = _blocking(AsyncSession.cancel)
    compact = _blocking(AsyncSession.compact)
    preview = _blocking(AsyncSession.preview)
    undo = _blocking(AsyncSession.undo)
    exclude = _blocking(AsyncSession.exclude)
    pin = _blocking(AsyncSession.pin)
    history = _blocking(AsyncSession.history)
    search = _blocking(AsyncSession.search)
    read = _blocking(AsyncSession.read)
    recall = _blocking(AsyncSession.recall)
    known = _blocking(AsyncSession.known)
    state = _blocking(AsyncSession.state)
    submit = _blocking(AsyncSession.submit)
    view = _blocking(AsyncSession.view)
    generation = _blocking(AsyncSession.generation)
    append = _blocking(AsyncSession.append)
    retract = _blocking(AsyncSession.retract)
    pop = _blocking(AsyncSession.pop)
    stored = _blocking(AsyncSession.stored)
    lookup = _blocking(AsyncSession.lookup)
    find = _blocking(AsyncSession.find)
    stored_at = _blocking(AsyncSession.stored_at)
    edit = _blocking(AsyncSession.edit)
    regenerate = _blocking(AsyncSession.regenerate)
    repost = _blocking(AsyncSession.repost)
    branches = _blocking(AsyncSession.branches)
    switch = _blocking(AsyncSession.switch)
    labels = _blocking(AsyncSession.labels)
    label = _blocking(AsyncSession.label)
    tag = _blocking(AsyncSession.tag)
    untag = _blocking(AsyncSession.untag)
    hand_over = _blocking(AsyncSession.hand_over)
    hand_back = _blocking(AsyncSession.hand_back)
    context = _blocking(AsyncSession.context)
    usage = _blocking(AsyncSession.usage)
    cost = _blocking(AsyncSession.cost)
    approvals = _blocking(AsyncSession.approvals)
    approve = _blocking(AsyncSession.approve)
    deny = _blocking(AsyncSession.deny)
    stream = _iterating(AsyncSession.stream)
    follow = _iterating(AsyncSession.follow)
    live = _iterating(AsyncSession.live)
    watch = _iterating(AsyncSession.watch)

    def fork(self, key: str, *, at: int | None = None) -> "Session":
        """Fork this session; see `holdfast.Session.fork`."""
        return Session(self.client.thread.run(self.session.fork(key, at=at)), self.client)


def _on_memory(
    method: Callable[Concatenate[AsyncMemory, _P], Awaitable[_ResultT]],
) -> Callable[Concatenate["Memory", _P], _ResultT]:
    def call(self: "Memory", /, *args: _P.args, **kwargs: _P.kwargs) -> _ResultT:
        async def work() -> _ResultT:
            return await method(self.memory, *args, **kwargs)

        return self.client.thread.run(work())

    call.__doc__, call.__name__ = method.__doc__, getattr(method, "__name__", "call")
    return call


class Memory:
    """The notes of one scope; see `holdfast.Memory`."""

    def __init__(self, memory: AsyncMemory, client: "Client") -> None:
        self.memory, self.client = memory, client

    notes = _on_memory(AsyncMemory.notes)
    add = _on_memory(AsyncMemory.add)
    edit = _on_memory(AsyncMemory.edit)
    remove = _on_memory(AsyncMemory.remove)
    search = _on_memory(AsyncMemory.search)


def _on_client(
    method: Callable[Concatenate[AsyncClient, _P], Awaitable[_ResultT]],
) -> Callable[Concatenate["Client", _P], _ResultT]:
    def call(self: "Client", /, *args: _P.args, **kwargs: _P.kwargs) -> _ResultT:
        async def work() -> _ResultT:
            return await method(self.client, *args, **kwargs)

        return self.thread.run(work())

    call.__doc__, call.__name__ = method.__doc__, getattr(method, "__name__", "call")
    return call


class Client:
    """An open store with its sessions, without asyncio. Close it, or use it as a context manager.

    The end of the program closes it too.
    """

    def __init__(self, opening: Callable[[], AbstractAsyncContextManager[AsyncClient]]) -> None:
        self.thread = LoopThread()
        try:
            self.client = self.thread.run(self._open(opening))
        except BaseException:
            self.thread.close()
            raise

    async def _open(self, opening: Callable[[], AbstractAsyncContextManager[AsyncClient]]) -> AsyncClient:
        opened = opening()
        client = await opened.__aenter__()

        async def close() -> None:
            await opened.__aexit__(None, None, None)

        self.thread.on_close(close)
        return client

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the store. Unfinished turns resume at the next start. A second call is a no-op."""
        self.thread.close()

    async def call(self, work: Coroutine[Any, Any, _ResultT]) -> _ResultT:
        """Await a coroutine of the asynchronous client, `client.client`, from any event loop."""
        return await self.thread.call(work)

    def session(
        self,
        key: str,
        *,
        model: str | Model | None = None,
        system: str | None = None,
        tools: Sequence[ToolSpec | Tool | Callable[..., object] | str] | None = None,
        settings: Settings | None = None,
    ) -> Session:
        """Return the session under a key; see `holdfast.Client.session`."""
        opened = self.client.session(key, model=model, system=system, tools=tools, settings=settings)
        return Session(self.thread.run(opened), self)

    sessions = _on_client(AsyncClient.sessions)
    session_page = _on_client(AsyncClient.session_page)
    session_infos = _on_client(AsyncClient.session_infos)
    pending = _on_client(AsyncClient.pending)
    blob = _on_client(AsyncClient.blob)
    import_ = _on_client(AsyncClient.import_)
    delete = _on_client(AsyncClient.delete)
    prune = _on_client(AsyncClient.prune)

    def memory(self, scope: str) -> "Memory":
        """Return the long-term memory of a scope; see `holdfast.Client.memory`."""
        return Memory(self.client.memory(scope), self)

    def working(self) -> tuple[str, ...]:
        """Return the keys of the sessions that this process works on now."""
        return self.client.working()

    def export(self, key: str) -> Generator[bytes, None, None]:
        """Yield the lines of an export of a session."""
        return self.thread.iterate(lambda: self.client.export(key))


def calls_of(client: AsyncClient | Client) -> tuple[AsyncClient, LoopCalls]:
    """Return the asynchronous client and the calls into its loop: without a thread, the running one."""
    if isinstance(client, Client):
        return client.client, client.thread
    return client, LoopCalls(asyncio.get_running_loop())
