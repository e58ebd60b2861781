"""One message and its answer on standard output, for scripts and for people in a hurry."""

import asyncio
import signal
import sys
from collections.abc import Coroutine, Generator, Sequence
from contextlib import aclosing, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

import click
import msgspec
from rich.console import Console
from rich.live import Live
from rich.text import Text

from holdfast.cli.chat.recap import Past
from holdfast.cli.chat.turn_printer import PlainSheet, Sheet, Teller, Telling
from holdfast.cli.output import aside, is_plain
from holdfast.errors import TurnFailedError
from holdfast.runtime.sessions.session import Session


class Once:
    """One message to one session."""

    def __init__(self, session: Session, past: Past) -> None:
        self._session = session
        self._past = past
        self._turn = 0
        self._presses = 0

    async def send(
        self, text: str, attachments: Sequence[Path], *, as_json: bool = False, is_plain_wanted: bool = False
    ) -> bool:
        """Answer a message, and return whether Ctrl-C stopped it. Raises `TurnFailedError` where there is no answer."""
        for left in self._past.unanswered:
            aside(left.sentence)
            # Only the answer to this message may stand on standard output.
            if await self._attend(self._tell(left.turn, Teller(sys.stderr, sys.stderr)), left.turn):
                return True
        with _sheet(is_plain_wanted=is_plain_wanted) as sheet:
            answering = self._answer_as_json if as_json else self._answer
            return await self._attend(answering(text, attachments, sheet))

    async def _answer(self, text: str, attachments: Sequence[Path], sheet: Sheet) -> None:
        self._turn = await self._session.post(text, attachments=attachments, client_id=uuid4().hex)
        await self._follow(self._turn, Telling(sheet))

    async def _answer_as_json(self, text: str, attachments: Sequence[Path], sheet: Sheet) -> None:
        del sheet
        self._turn = await self._session.post(text, attachments=attachments, client_id=uuid4().hex)
        click.echo(msgspec.json.encode(await self._session.wait(self._turn)))

    async def _tell(self, turn: int, telling: Telling) -> None:
        try:
            await self._follow(turn, telling)
        except TurnFailedError as error:
            aside(error.sentence)

    async def _follow(self, turn: int, telling: Telling) -> None:
        async with aclosing(self._session.follow(turn)) as events:
            async for event in events:
                telling.see(event)

    async def _attend(self, work: Coroutine[Any, Any, None], turn: int = 0) -> bool:
        """Wait for a turn. Ctrl-C cancels it, which is what True says; a second one leaves."""
        self._turn, self._presses = turn, 0
        loop = asyncio.get_running_loop()
        working = loop.create_task(work)
        stopping: list[asyncio.Task[None]] = []

        def press() -> None:
            self._presses += 1
            if self._presses == 1 and self._turn:
                aside("stopping; Ctrl-C again leaves at once")
                stopping.append(loop.create_task(self._session.cancel(self._turn)))
            else:
                # Not even accepted yet, or asked twice: there is nothing to wait for.
                working.cancel()

        loop.add_signal_handler(signal.SIGINT, press)
        try:
            await asyncio.wait([working])
            await asyncio.gather(*stopping)
        finally:
            loop.remove_signal_handler(signal.SIGINT)
        if not self._presses:
            await working
        elif not working.cancelled() and isinstance(error := working.exception(), TurnFailedError):
            aside(error.sentence)
        return bool(self._presses)


@contextmanager
def _sheet(*, is_plain_wanted: bool) -> Generator[Sheet, None, None]:
    """Yield where the answer is shown: with Markdown on a terminal that can show it, else as it is."""
    if is_plain_wanted or is_plain(sys.stdout):
        yield PlainSheet(sys.stdout, sys.stderr)
        return
    from holdfast.cli.chat.markdown import MarkdownSheet  # noqa: PLC0415 - rich is slow to load, and for terminals only

    with LiveStrip() as strip:
        yield MarkdownSheet(strip)


# --- A strip on a terminal where nobody types: finished lines scroll up, the block in hand is drawn below them.


class LiveStrip:
    """Draws on standard output until it is closed. What was drawn below is gone then."""

    def __init__(self) -> None:
        self._console = Console(file=sys.stdout, highlight=False, legacy_windows=False)
        # Drawn when something changes, and not by a clock: a thread less, and nothing moves while nothing happens.
        self._live = Live(console=self._console, transient=True, auto_refresh=False)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._live.stop()

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows of the terminal."""
        return self._console.width, self._console.height

    def above(self, text: str) -> None:
        """Add lines that stay."""
        self._console.print(Text.from_ansi(text.removesuffix("\n")))

    def below(self, text: str) -> None:
        """Draw these lines in place of those below."""
        self._live.update(Text.from_ansi(text), refresh=True)
