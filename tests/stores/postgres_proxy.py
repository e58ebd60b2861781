"""A proxy between a store and its server that cuts the connection at a chosen statement."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Self

from holdfast.lab.benches.postgres import SUPERUSER


class Proxy:
    """Passes bytes on, until told to cut: before a statement arrives, or after it was done and before its answer."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._port = 0
        self._mark = b""
        self._is_after = self._stays_away = False
        self._links: set[asyncio.Task[None]] = set()
        # Statements are prepared once and then run by name: connections that have prepared the one to be cut at.
        self.cuts = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._link, "127.0.0.1", 0)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for link in list(self._links):
            link.cancel()
        await asyncio.gather(*self._links, return_exceptions=True)
        await self._server.wait_closed()

    def url(self, database: str) -> str:
        return f"postgresql://{SUPERUSER}@127.0.0.1:{self._port}/{database}?sslmode=disable"

    def cut_at(self, statement: bytes, *, after_it_was_done: bool, stays_away: bool = False) -> None:
        """Cut the next connection over which this statement is run."""
        self._mark, self._is_after, self._stays_away = statement, after_it_was_done, stays_away

    def come_back(self) -> None:
        """Let connections through again."""
        self._stays_away = False

    async def _link(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._links.add(task)
        there: asyncio.StreamWriter | None = None
        try:
            if self._stays_away and not self._mark:
                return
            back, there = await asyncio.open_unix_connection(str(self._socket))
            link = _Link(self)
            passing = [asyncio.create_task(link.there(reader, there)), asyncio.create_task(link.back(back, writer))]
            await asyncio.wait(passing, return_when=asyncio.FIRST_COMPLETED)
            for each in passing:
                each.cancel()
            await asyncio.gather(*passing, return_exceptions=True)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._links.discard(task)
            for end in (writer, there):
                if end is not None:
                    end.transport.abort()

    def take_mark(self) -> None:
        self._mark = b""
        self.cuts += 1


class _Link:
    """One connection: knows which prepared statements hold the mark, because later only their names are sent."""

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self._texts: list[bytes] = []
        self._is_cutting = False

    def _runs_mark(self, sent: bytes) -> bool:
        mark = self._proxy._mark
        if not mark:
            return False
        if sent.startswith(b"Q"):
            # A statement without parameters is sent as it is, as COMMIT.
            return mark in sent
        # A message "P" prepares: its name, then its text. A message "B" runs what has that name.
        names = [text.split(b"\0", 1)[0] for text in self._texts if mark in text]
        is_run = sent.startswith(b"B") or b"\0B\0" in sent
        return is_run and any(name and name in sent for name in names)

    async def there(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while sent := await reader.read(2**20):
            if sent.startswith(b"P"):
                self._texts.append(sent[5:])
            if self._runs_mark(sent):
                self._proxy.take_mark()
                if not self._proxy._is_after:
                    return
                self._is_cutting = True
            writer.write(sent)
            with suppress(ConnectionError):
                await writer.drain()

    async def back(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while got := await reader.read(2**20):
            if self._is_cutting:
                # The answer is here, so it was done; nobody else hears of it.
                return
            writer.write(got)
            with suppress(ConnectionError):
                await writer.drain()
