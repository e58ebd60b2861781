"""Somebody works for a client only as long as it waits, and where that is told only until the gateway stops."""

import asyncio
from typing import Any

import pytest

from holdfast.errors import StoppingError
from holdfast.gateway.http.asgi import ClientGoneError, unless_gone


class _Client:
    """A client that stays until the test says so."""

    def __init__(self) -> None:
        self.gone = asyncio.Event()
        self.is_watched = asyncio.Event()

    async def receive(self) -> dict[str, Any]:
        self.is_watched.set()
        await self.gone.wait()
        return {"type": "http.disconnect"}


class _Work:
    """Work without an end, which tells how it was let go."""

    def __init__(self) -> None:
        self.was_cancelled = False

    async def __call__(self) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise


async def test_what_is_ready_at_once_is_returned_and_nobody_was_watched() -> None:
    client = _Client()

    async def answer() -> str:
        return "ready"

    assert await unless_gone(client.receive, answer()) == "ready"
    assert not client.is_watched.is_set()


async def test_a_client_that_goes_ends_the_work_and_the_task_goes_on() -> None:
    client, work = _Client(), _Work()
    waiting = asyncio.create_task(unless_gone(client.receive, work()))
    await client.is_watched.wait()
    client.gone.set()
    with pytest.raises(ClientGoneError):
        await waiting
    assert work.was_cancelled
    assert not waiting.cancelled()


async def test_a_client_that_went_before_it_was_watched_is_noticed() -> None:
    client, work = _Client(), _Work()
    client.gone.set()
    with pytest.raises(ClientGoneError):
        await unless_gone(client.receive, work())
    # Nothing of it is left in the task that waited.
    await asyncio.sleep(0)
    assert work.was_cancelled


async def test_a_gateway_that_stops_ends_the_work_while_the_client_stays() -> None:
    client, work, stopping = _Client(), _Work(), asyncio.Event()
    waiting = asyncio.create_task(unless_gone(client.receive, work(), stopping=stopping))
    await client.is_watched.wait()
    stopping.set()
    with pytest.raises(StoppingError, match="retry in a moment"):
        await waiting
    assert work.was_cancelled


async def test_whoever_stops_the_task_itself_stops_it() -> None:
    client, work = _Client(), _Work()
    waiting = asyncio.create_task(unless_gone(client.receive, work(), stopping=asyncio.Event()))
    await client.is_watched.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert work.was_cancelled
