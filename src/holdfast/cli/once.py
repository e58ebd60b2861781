"""One message and its answer on standard output, for scripts and for people in a hurry."""

import asyncio
import signal
import sys
from collections.abc import Coroutine, Generator, Sequence
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import click
import msgspec

from holdfast.cli.paper import aside, is_plain
from holdfast.cli.past import Past
from holdfast.cli.sheets import PlainSheet, Sheet
from holdfast.cli.telling import Teller, Telling
from holdfast.errors import TurnFailedError
from holdfast.runtime.sessions import Session


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
    from holdfast.cli.markdown import MarkdownSheet  # noqa: PLC0415 - rich is slow to load, and for terminals only
    from holdfast.cli.strips import LiveStrip  # noqa: PLC0415

    with LiveStrip() as strip:
        yield MarkdownSheet(strip)
