"""A person and a session: what they write goes in at once, what happens is told as it happens, Ctrl-C stops an answer.

The talk follows the session's records and deltas in one order and keeps nothing that the log does not have: a message
is accepted when it is on disk, whatever else is being answered, and waits there for its turn.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from contextlib import aclosing, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self
from uuid import uuid4

from holdfast.cli.chat.recap import Past
from holdfast.cli.chat.slash_commands import Filling, filling, obey, order_in
from holdfast.cli.chat.turn_printer import PlainSheet, Sheet, Telling
from holdfast.cli.output import shortened
from holdfast.errors import HoldfastError, RetryLaterError, UsageError
from holdfast.ports import ReasoningDelta, TextDelta
from holdfast.runtime.engine.live import LiveDelta
from holdfast.runtime.sessions.record_text import in_words
from holdfast.runtime.sessions.session import Session
from holdfast.types.records import (
    CompactionApplied,
    CompactionUndone,
    InputAdmitted,
    Logged,
    MessagePinned,
    Outcome,
    TurnEnded,
    TurnStarted,
)

# Enough of an old message to remember it by, and of one that waits.
_REMINDER_CHARS = 400
_WAITING_CHARS = 60
# How long a cancel may take to be on disk when the person has left already; a write takes milliseconds.
_STOPPING_SECONDS_MAX = 2.0


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


class Talk:
    """One session, opened for one person."""

    def __init__(self, session: Session, past: Past, *, model: str) -> None:
        self.session = session
        self.attachments: list[Path] = []
        self.last_turn = 0
        # Whether the person left by Ctrl-C.
        self.was_interrupted = False
        self._past, self._model = past, model
        # What is being answered and what waits for it, by turn and in order; all of it is in the log.
        self._unanswered = {left.turn: left.words for left in past.unanswered}
        self._waited: set[int] = set()
        self._client_ids: set[str] = set()
        self._leaves_next = False
        self._stopping: asyncio.Task[None] | None = None
        self._filling: Filling | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._has_left = False

    # What the face asks.

    def is_busy(self) -> bool:
        """Whether something is being answered."""
        return bool(self._unanswered)

    def status(self) -> str:
        """Return how things stand, in one line."""
        waiting = max(len(self._unanswered) - 1, 0)
        parts = [
            f"{self.session.key} · {self._model}",
            self._filling.line if self._filling else "",
            "answering" if self._unanswered else "",
            f"{waiting} waiting" if waiting else "",
            f"{len(self.attachments)} attached" if self.attachments else "",
        ]
        return " · ".join(part for part in parts if part)

    def interrupt(self) -> bool:
        """Take a Ctrl-C: the first stops the answer in hand, the second leaves, which is what True says."""
        if self._leaves_next:
            self.was_interrupted = True
            return True
        self._leaves_next = True
        if self._unanswered:
            self.tell("stopping; Ctrl-C again leaves at once")
            self._stopping = self._start(self.session.cancel(next(iter(self._unanswered))))
        else:
            self.tell("Ctrl-C again leaves; so does Ctrl-D")
            self._face.rests()
        return False

    # What an order asks.

    def tell(self, sentence: str) -> None:
        """Show a sentence to the person."""
        self._face.sheet.aside(sentence)

    def leave(self) -> None:
        """End the talk."""
        self._has_left = True

    # The talk itself.

    async def converse(self, face: Face) -> None:
        """Talk until the person leaves. What then is not answered stays in the log, and goes on at the next start."""
        self._face, self._telling = face, Telling(face.sheet)
        self._greet()
        watching = asyncio.create_task(self._watch(), name=f"watch {self.session.key}")
        try:
            self._resume()
            if not self._unanswered:
                self._measure()
                face.rests()
            while not self._has_left and (line := await self._next_line(watching)) is not None:
                self._leaves_next = False
                await self._take(line)
            self._part()
        finally:
            watching.cancel()
            if self._stopping is not None:
                # Who stops an answer and leaves at once must not find it answered at the next start.
                await asyncio.wait([self._stopping], timeout=_STOPPING_SECONDS_MAX)
            for task in self._tasks:
                task.cancel()
            await asyncio.wait([watching, *self._tasks])

    async def _next_line(self, watching: asyncio.Task[None]) -> str | None:
        """Return what the person wrote next. Where nothing can be watched any more, nothing can be said either."""
        reading = asyncio.create_task(self._face.read())
        await asyncio.wait([reading, watching], return_when=asyncio.FIRST_COMPLETED)
        if watching.done():
            reading.cancel()
            await watching
        return await reading

    async def _take(self, line: str) -> None:
        order = order_in(line)
        if order is not None:
            await self._obey(*order)
        elif line.strip():
            await self._post(line)
        elif not self._unanswered:
            self._face.rests()

    async def _obey(self, name: str, rest: str) -> None:
        work = obey(self, name, rest)
        if name == "/compact":
            # It takes as long as a model does, and somebody may want to go on writing.
            self._start(self._then_rest(work))
        else:
            await self._then_rest(work)

    async def _then_rest(self, work: Coroutine[Any, Any, None]) -> None:
        await work
        if not self._unanswered and not self._has_left:
            self._face.rests()

    async def _post(self, text: str) -> None:
        client_id = uuid4().hex
        self._client_ids.add(client_id)
        try:
            self.last_turn = await self.session.post(text, attachments=self.attachments, client_id=client_id)
        except (UsageError, RetryLaterError) as error:
            self.tell(str(error))
            if not self._unanswered:
                self._face.rests()
        else:
            self.attachments.clear()

    # Beginning and end.

    def _greet(self) -> None:
        self.tell(f"Session {self.session.key!r}, model {self._model}. Ctrl-C stops an answer, Ctrl-D leaves, /help.")
        if self._past.last is not None:
            self.tell(f"Last time you said: {shortened(self._past.last.asked, _REMINDER_CHARS)}")
            self.tell(f"and the answer was: {shortened(self._past.last.answered, _REMINDER_CHARS)}")

    def _resume(self) -> None:
        for left in self._past.unanswered:
            self.tell(left.sentence)
        if self._past.unanswered:
            self._start(self._wake(self._past.unanswered[0].turn))

    async def _wake(self, turn: int) -> None:
        """Have what a dead process left worked on; what comes of it is told like all else."""
        with suppress(HoldfastError):
            await self.session.wait(turn)

    def _part(self) -> None:
        if self._unanswered:
            count = len(self._unanswered)
            messages = "1 message is" if count == 1 else f"{count} messages are"
            self.tell(f"{messages} kept, and answered when this session is next opened.")

    # Following the session.

    async def _watch(self) -> None:
        async with aclosing(self.session.sights(after=self._past.last_seq)) as sights:
            async for sight in sights:
                if isinstance(sight, LiveDelta):
                    if isinstance(sight.delta, TextDelta | ReasoningDelta):
                        self._telling.see(sight.delta)
                else:
                    self._see(sight)

    def _see(self, logged: Logged) -> None:
        match logged.record:
            case InputAdmitted() as message:
                self._see_input(logged.seq, message)
            case TurnStarted(turn=turn):
                self._leaves_next = False
                self._face.begins(self._unanswered.get(turn, ""), has_waited=turn in self._waited)
            case CompactionApplied() | CompactionUndone() | MessagePinned():
                self._measure()
            case _:
                pass
        self._telling.see(logged)
        if isinstance(logged.record, TurnEnded):
            self._see_end(logged.record)
        self._face.changed()

    def _see_input(self, seq: int, message: InputAdmitted) -> None:
        words = in_words(message.parts)
        if message.client_id not in self._client_ids:
            self.tell(f"From elsewhere: {shortened(words, _WAITING_CHARS)}")
        if self._unanswered:
            self._waited.add(seq)
            self.tell(f"Accepted as message {seq}; it waits its turn: {shortened(words, _WAITING_CHARS)}")
        self._unanswered[seq] = words

    def _see_end(self, ended: TurnEnded) -> None:
        if ended.outcome is not Outcome.ANSWERED:
            self.tell(ended.sentence)
        self._unanswered.pop(ended.turn, None)
        self._waited.discard(ended.turn)
        self._measure()
        if not self._unanswered:
            self._face.rests()

    def _measure(self) -> None:
        self._start(self._fill())

    async def _fill(self) -> None:
        with suppress(HoldfastError):
            self._filling = filling(await self.session.view())
            self._face.changed()

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


# --- How a person takes part in a talk, whichever terminal they sit at; and the plainest way, line by line. ---


# What is read at once; a terminal hands out a line at a time.
_CHUNK_BYTES = 65_536


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
