"""How a person takes part in a talk, whichever terminal they sit at; and the plainest way, line by line.

`Lines` needs nothing of a terminal but that it shows text: it is for dumb terminals, for an output that goes elsewhere,
and for whoever does not want lines to be drawn anew.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Protocol, Self

from holdfast.cli.chat.turn_printer import PlainSheet, Sheet

# What is read at once; a terminal hands out a line at a time.
_CHUNK_BYTES = 65_536


class Face(Protocol):
    """What a talk needs of a terminal."""

    @property
    def sheet(self) -> Sheet:
        """Where turns are told."""
        ...

    async def read(self) -> str | None:
        """Return the next thing that the person wrote, or None when they leave."""
        ...

    def begins(self, words: str, *, has_waited: bool) -> None:
        """Show that a message is being answered from here on."""
        ...

    def rests(self) -> None:
        """Show that nothing is being answered: it is the person's turn."""
        ...

    def changed(self) -> None:
        """Show anew what is shown of how things stand."""
        ...


class Lines:
    """Reads lines and prints lines."""

    def __init__(self, interrupt: Callable[[], bool]) -> None:
        self.sheet = PlainSheet(sys.stdout, sys.stderr)
        self._interrupt = interrupt
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._half_line = b""
        self._keyboard = sys.stdin.fileno()

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        loop.add_reader(self._keyboard, self._take)
        loop.add_signal_handler(signal.SIGINT, self._press)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._keyboard)
        loop.remove_signal_handler(signal.SIGINT)
        self.sheet.finish()

    async def read(self) -> str | None:
        """Return the next line, or None at the end of all lines."""
        return await self._lines.get()

    def begins(self, words: str, *, has_waited: bool) -> None:
        """Name a message that has waited; one that has not stands right above."""
        if has_waited:
            self.sheet.aside(f"answering: {words}")

    def rests(self) -> None:
        """Invite the person to write."""
        self.sheet.invite()

    def changed(self) -> None:
        """Nothing is drawn anew here."""

    def _take(self) -> None:
        try:
            chunk = os.read(self._keyboard, _CHUNK_BYTES)
        except OSError:
            # The terminal has gone, as when a connection ends.
            chunk = b""
        if not chunk:
            asyncio.get_running_loop().remove_reader(self._keyboard)
            self._lines.put_nowait(None)
            return
        *lines, self._half_line = (self._half_line + chunk).split(b"\n")
        for line in lines:
            self.sheet.take_line()
            # Bytes that are no character then come as a message that is refused with a sentence.
            self._lines.put_nowait(line.rstrip(b"\r").decode(errors="surrogateescape"))

    def _press(self) -> None:
        if self._interrupt():
            self._lines.put_nowait(None)
