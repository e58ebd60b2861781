"""A person and a session: messages go in, turns are told, and Ctrl-C stops an answer without losing anything.

Everything here runs in the main thread and waits for the loop's thread. Each message gets a client id of its own, so
that a turn left behind by a dead process can be followed by sending the same message again: it is one message.
"""

import io
import sys
from collections.abc import AsyncGenerator, Sequence
from concurrent.futures import Future
from contextlib import aclosing
from pathlib import Path
from typing import TextIO
from uuid import uuid4

from holdfast.cli.paper import aside, shortened
from holdfast.cli.past import Past, Unanswered
from holdfast.cli.side_loop import SideLoop
from holdfast.cli.telling import Teller
from holdfast.core.messages import Text
from holdfast.core.records import InputAdmitted
from holdfast.errors import RetryLaterError, TurnFailedError, UsageError
from holdfast.runtime.sessions import Event, Session

# Enough of an old message to remember it by.
_REMINDER_CHARS = 400
_PAGE_RECORDS = 500
_INVITATION = "> "


class Talk:
    """One session, opened for one person."""

    def __init__(self, loop: SideLoop, session: Session, past: Past) -> None:
        self._loop = loop
        self._session = session
        self._past = past

    def send_once(self, text: str, attachments: Sequence[Path]) -> None:
        """Answer one message on standard output. Raises `TurnFailedError` where there is no answer."""
        # Only the answer to this message may stand on standard output.
        self._resume(sys.stderr)
        client_id = uuid4().hex
        telling = self._start(text, attachments, client_id, Teller(sys.stdout, sys.stderr))
        if self._attend(telling, client_id):
            raise KeyboardInterrupt

    def converse(self, attachments: Sequence[Path], *, model: str) -> None:
        """Talk until the person leaves."""
        if isinstance(sys.stdin, io.TextIOWrapper):
            # Bytes that are no character then come as a message that is refused with a sentence.
            sys.stdin.reconfigure(errors="surrogateescape")
        aside(f"Session {self._session.key!r}, model {model}. Ctrl-C stops an answer, Ctrl-D leaves.")
        if self._past.last is not None:
            aside(f"Last time you said: {shortened(self._past.last.asked, _REMINDER_CHARS)}")
            aside(f"and the answer was: {shortened(self._past.last.answered, _REMINDER_CHARS)}")
        self._resume(sys.stdout)
        while (text := _read_line()) is not None:
            if text.strip() and self._try(text, attachments):
                attachments = ()

    def _try(self, text: str, attachments: Sequence[Path]) -> bool:
        """Send one message of many and return whether it was taken. What goes wrong is told, and the talk goes on."""
        client_id = uuid4().hex
        try:
            self._attend(self._start(text, attachments, client_id, Teller(sys.stdout, sys.stderr)), client_id)
        except TurnFailedError as error:
            aside(error.sentence)
        except (UsageError, RetryLaterError) as error:
            aside(str(error))
            return False
        return True

    # Following a turn.

    def _start(self, text: str, attachments: Sequence[Path], client_id: str, teller: Teller) -> Future[None]:
        return self._loop.start(_tell(self._session.stream(text, attachments=attachments, client_id=client_id), teller))

    def _attend(self, telling: Future[None], client_id: str, turn: int | None = None) -> bool:
        """Wait for a turn. Ctrl-C cancels it, which is what True says; a second one leaves."""
        try:
            telling.result()
        except KeyboardInterrupt:
            aside("stopping; Ctrl-C again leaves at once")
            if not self._loop.run(self._cancel(client_id, turn)):
                # Not even accepted yet, so there is nothing to wait for.
                telling.cancel()
                return True
            try:
                telling.result()
            except TurnFailedError as error:
                aside(error.sentence)
            return True
        return False

    async def _cancel(self, client_id: str, turn: int | None) -> bool:
        number = await self._number_of(client_id) if turn is None else turn
        if number is None:
            return False
        await self._session.cancel(number)
        return True

    async def _number_of(self, client_id: str) -> int | None:
        """Return the turn of a message that was sent since this talk began, or None where it was not accepted."""
        after = self._past.last_seq
        while page := await self._session.history(after=after, limit=_PAGE_RECORDS):
            for logged in page:
                if isinstance(logged.record, InputAdmitted) and logged.record.client_id == client_id:
                    return logged.seq
            after = page[-1].seq
        return None

    # Going on where a dead process stopped.

    def _resume(self, answers: TextIO) -> None:
        for left in self._past.unanswered:
            asked = shortened("".join(part.text for part in left.message.parts if isinstance(part, Text)), 60)
            aside(f"Message {left.turn} ({asked or 'an attachment'}) was left without an answer; resuming it.")
            telling = self._loop.start(self._follow(left, Teller(answers, sys.stderr)))
            try:
                self._attend(telling, left.message.client_id, left.turn)
            except TurnFailedError as error:
                aside(error.sentence)

    async def _follow(self, left: Unanswered, teller: Teller) -> None:
        match left.message:
            case InputAdmitted(parts=(Text(text=text),), client_id=client_id) if client_id:
                await _tell(self._session.stream(text, client_id=client_id), teller)
            case _:
                # Sent by another program, or with attachments: it cannot be sent again word for word.
                answer = await self._session.wait(left.turn)
                for notice in answer.notices:
                    aside(notice)
                teller.whole(answer.text)


async def _tell(events: AsyncGenerator[Event, None], teller: Teller) -> None:
    async with aclosing(events) as sights:
        async for event in sights:
            teller.see(event)


def _read_line() -> str | None:
    """Return what the person wrote, or None when they leave."""
    if sys.stdout.isatty():
        try:
            return input(_INVITATION)
        except EOFError:
            sys.stdout.write("\n")
            return None
    # Standard output goes elsewhere and takes answers only.
    sys.stderr.write(_INVITATION)
    sys.stderr.flush()
    line = sys.stdin.readline()
    return line.rstrip("\n") if line else None
