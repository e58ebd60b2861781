"""Holdfast without asyncio.

    with holdfast.blocking.open("agents.db") as client:
        print(client.session("telegram:42").send("Hello"))

The methods and their arguments are those of `holdfast.Client` and `holdfast.Session`. A client may be used from any
thread; in a coroutine, `await client.call(client.client.…)` waits without blocking the loop.
"""

from functools import partial
from typing import TYPE_CHECKING, ParamSpec

from holdfast.adapters.blocking import Client, Memory, Session
from holdfast.wiring import open as open_async

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from holdfast.runtime.sessions.client import Client as AsyncClient

__all__ = ["Client", "Memory", "Session", "open"]

_P = ParamSpec("_P")


def _opener(opening: "Callable[_P, AbstractAsyncContextManager[AsyncClient]]") -> "Callable[_P, Client]":
    def call(*args: _P.args, **kwargs: _P.kwargs) -> Client:
        return Client(partial(opening, *args, **kwargs))

    call.__doc__ = opening.__doc__
    return call


open = _opener(open_async)  # noqa: A001 - the public name, as `holdfast.open()`
