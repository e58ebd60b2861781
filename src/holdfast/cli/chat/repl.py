"""Interactive chat: the loop that sends messages and follows the session, and the line-based terminal.

The loop has no state of its own beyond the log: a message is accepted when it is on disk, also while another one is
being answered, and is queued there.
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

from holdfast.cli.chat.slash_commands import BudgetUse, fullest_budget, parse_command, run_command
from holdfast.cli.chat.turn_printer import AnswerOutput, PlainOutput, Recap, TurnPrinter, describe_approval
from holdfast.cli.output import shorten
from holdfast.errors import HoldfastError, RetryLaterError, UsageError
from holdfast.ports import ReasoningDelta, TextDelta
from holdfast.runtime.engine.live import LiveDelta
from holdfast.runtime.sessions.client import Client
from holdfast.runtime.sessions.record_text import describe_parts
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

# Length of the last exchange and of a queued message in notes.
_REMINDER_CHARS = 400
_WAITING_CHARS = 60
_APPROVAL_HINT = "; answer with /approve, or /deny WHY"
# Time for a cancel to reach the disk after the user left; a write takes milliseconds.
_STOPPING_SECONDS_MAX = 2.0


class Terminal(Protocol):
    """Input and output of an interactive chat."""

    @property
    def output(self) -> AnswerOutput:
        """Output for answers and notes."""
        ...

    async def read(self) -> str | None:
        """Return the next input of the user; None when they leave."""
        ...

    def show_turn_start(self, text: str, *, has_waited: bool) -> None:
        """Show which message is answered next."""
        ...

    def await_input(self) -> None:
        """Show that the chat is idle and waits for input."""
        ...

    def refresh(self) -> None:
        """Redraw the status."""
        ...


class Repl:
    """Interactive chat in one session."""

    def __init__(self, client: Client, session: Session, recap: Recap, *, model: str) -> None:
        self.client = client
        self.session = session
        self.attachments: list[Path] = []
        self.last_turn = 0
        # Whether the user left by Ctrl-C.
        self.was_interrupted = False
        self._recap, self._model = recap, model
        # Text of the running and the queued messages by turn, in order; all of them are in the log.
        self._unanswered = {unanswered.turn: unanswered.text for unanswered in recap.unanswered}
        self._waited: set[int] = set()
        self._client_ids: set[str] = set()
        self._leaves_next = False
        self._stopping: asyncio.Task[None] | None = None
        self._use: BudgetUse | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._has_left = False

    # Called by the terminal.

    def is_busy(self) -> bool:
        """Return whether a message is being answered."""
        return bool(self._unanswered)

    def status(self) -> str:
        """Return the status line."""
        waiting = max(len(self._unanswered) - 1, 0)
        parts = [
            f"{self.session.key} · {self._model}",
            self._use.line if self._use else "",
            "answering" if self._unanswered else "",
            f"{waiting} waiting" if waiting else "",
            f"{len(self.attachments)} attached" if self.attachments else "",
        ]
        return " · ".join(part for part in parts if part)

    def interrupt(self) -> bool:
        """Act on Ctrl-C: the first cancels the running turn, the second returns True to leave."""
        if self._leaves_next:
            self.was_interrupted = True
            return True
        self._leaves_next = True
        if self._unanswered:
            self.print_note("stopping; Ctrl-C again leaves at once")
            self._stopping = self._start(self.session.cancel(next(iter(self._unanswered))))
        else:
            self.print_note("Ctrl-C again leaves; so does Ctrl-D")
            self._terminal.await_input()
        return False

    # Called by slash commands.

    def print_note(self, sentence: str) -> None:
        """Show a note to the user."""
        self._terminal.output.print_note(sentence)

    def leave(self) -> None:
        """End the chat."""
        self._has_left = True

    # The loop.

    async def run(self, terminal: Terminal) -> None:
        """Chat until the user leaves. Unanswered messages stay in the log and resume at the next start."""
        self._terminal, self._printer = terminal, TurnPrinter(terminal.output, _APPROVAL_HINT)
        self._greet()
        watching = asyncio.create_task(self._watch(), name=f"watch {self.session.key}")
        try:
            self._resume()
            if not self._unanswered:
                self._update_use()
                terminal.await_input()
            while not self._has_left and (line := await self._next_line(watching)) is not None:
                self._leaves_next = False
                await self._accept(line)
            self._print_goodbye()
        finally:
            watching.cancel()
            if self._stopping is not None:
                # Wait for the cancel record: otherwise the next start would resume the cancelled turn.
                await asyncio.wait([self._stopping], timeout=_STOPPING_SECONDS_MAX)
            for task in self._tasks:
                task.cancel()
            await asyncio.wait([watching, *self._tasks])

    async def _next_line(self, watching: asyncio.Task[None]) -> str | None:
        """Return the next input. Raises the error of the watch task if that ended: the chat depends on it."""
        reading = asyncio.create_task(self._terminal.read())
        await asyncio.wait([reading, watching], return_when=asyncio.FIRST_COMPLETED)
        if watching.done():
            reading.cancel()
            await watching
        return await reading

    async def _accept(self, line: str) -> None:
        command = parse_command(line)
        if command is not None:
            await self._run_command(*command)
        elif line.strip():
            await self._post(line)
        elif not self._unanswered:
            self._terminal.await_input()

    async def _run_command(self, name: str, rest: str) -> None:
        work = run_command(self, name, rest)
        if name == "/compact":
            # Slow: it calls a model. Run it in the background so that the user can keep typing.
            self._start(self._then_await_input(work))
        else:
            await self._then_await_input(work)

    async def _then_await_input(self, work: Coroutine[Any, Any, None]) -> None:
        await work
        if not self._unanswered and not self._has_left:
            self._terminal.await_input()

    async def _post(self, text: str) -> None:
        client_id = uuid4().hex
        self._client_ids.add(client_id)
        try:
            self.last_turn = await self.session.post(text, attachments=self.attachments, client_id=client_id)
        except (UsageError, RetryLaterError) as error:
            self.print_note(str(error))
            if not self._unanswered:
                self._terminal.await_input()
        else:
            self.attachments.clear()

    # Start and end.

    def _greet(self) -> None:
        self.print_note(
            f"Session {self.session.key!r}, model {self._model}. Ctrl-C stops an answer, Ctrl-D leaves, /help."
        )
        if self._recap.last is not None:
            self.print_note(f"Your last message: {shorten(self._recap.last.message, _REMINDER_CHARS)}")
            self.print_note(f"The answer to it: {shorten(self._recap.last.answer, _REMINDER_CHARS)}")

    def _resume(self) -> None:
        for unanswered in self._recap.unanswered:
            self.print_note(unanswered.sentence)
        if self._recap.unanswered:
            self._start(self._wake(self._recap.unanswered[0].turn))
            self._start(self._print_approvals())

    async def _print_approvals(self) -> None:
        """Print the tool calls that waited for an approval when this chat began."""
        with suppress(HoldfastError):
            for one in await self.session.approvals():
                if one.request <= self._recap.last_seq:
                    self.print_note(f"{describe_approval(one)}{_APPROVAL_HINT}")

    async def _wake(self, turn: int) -> None:
        """Start work on a turn that a dead process left; its events are printed like all others."""
        with suppress(HoldfastError):
            await self.session.wait(turn)

    def _print_goodbye(self) -> None:
        if self._unanswered:
            count = len(self._unanswered)
            messages = "1 message is" if count == 1 else f"{count} messages are"
            self.print_note(f"{messages} stored, and will be answered when this session is next opened.")

    # Session events.

    async def _watch(self) -> None:
        async with aclosing(self.session.live(after=self._recap.last_seq)) as sights:
            async for event in sights:
                if isinstance(event, LiveDelta):
                    if isinstance(event.delta, TextDelta | ReasoningDelta):
                        self._printer.print_event(event.delta)
                else:
                    self._on_record(event)

    def _on_record(self, logged: Logged) -> None:
        match logged.record:
            case InputAdmitted() as message:
                self._on_input(logged.seq, message)
            case TurnStarted(turn=turn):
                self._leaves_next = False
                self._terminal.show_turn_start(self._unanswered.get(turn, ""), has_waited=turn in self._waited)
            case CompactionApplied() | CompactionUndone() | MessagePinned():
                self._update_use()
            case _:
                pass
        self._printer.print_event(logged)
        if isinstance(logged.record, TurnEnded):
            self._on_turn_end(logged.record)
        self._terminal.refresh()

    def _on_input(self, seq: int, message: InputAdmitted) -> None:
        text = describe_parts(message.parts)
        if message.client_id not in self._client_ids:
            self.print_note(f"From another client: {shorten(text, _WAITING_CHARS)}")
        if self._unanswered:
            self._waited.add(seq)
            self.print_note(f"Accepted as message {seq}; queued: {shorten(text, _WAITING_CHARS)}")
        self._unanswered[seq] = text

    def _on_turn_end(self, ended: TurnEnded) -> None:
        if ended.outcome is not Outcome.ANSWERED:
            self.print_note(ended.sentence)
        self._unanswered.pop(ended.turn, None)
        self._waited.discard(ended.turn)
        self._update_use()
        if not self._unanswered:
            self._terminal.await_input()

    def _update_use(self) -> None:
        self._start(self._load_use())

    async def _load_use(self) -> None:
        with suppress(HoldfastError):
            self._use = fullest_budget(await self.session.view())
            self._terminal.refresh()

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


# --- Line-based terminal ---


# Bytes per read; a terminal returns one line at a time.
_CHUNK_BYTES = 65_536


class LineTerminal:
    """Terminal without redrawing: for dumb terminals, redirected output and --plain."""

    def __init__(self, interrupt: Callable[[], bool]) -> None:
        self.output = PlainOutput(sys.stdout, sys.stderr)
        self._interrupt = interrupt
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._half_line = b""
        self._keyboard = sys.stdin.fileno()

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        loop.add_reader(self._keyboard, self._accept)
        loop.add_signal_handler(signal.SIGINT, self._on_interrupt)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._keyboard)
        loop.remove_signal_handler(signal.SIGINT)
        self.output.finish()

    async def read(self) -> str | None:
        """Return the next line; None at the end of the input."""
        return await self._lines.get()

    def show_turn_start(self, text: str, *, has_waited: bool) -> None:
        """Print a message that was queued; any other one is directly above."""
        if has_waited:
            self.output.print_note(f"answering: {text}")

    def await_input(self) -> None:
        """Print the input prompt."""
        self.output.invite()

    def refresh(self) -> None:
        """Do nothing: there is no status line."""

    def _accept(self) -> None:
        try:
            chunk = os.read(self._keyboard, _CHUNK_BYTES)
        except OSError:
            # The terminal is gone, such as after a lost connection.
            chunk = b""
        if not chunk:
            asyncio.get_running_loop().remove_reader(self._keyboard)
            self._lines.put_nowait(None)
            return
        *lines, self._half_line = (self._half_line + chunk).split(b"\n")
        for line in lines:
            self.output.take_line()
            # Invalid UTF-8 stays in the text and is rejected later with an error message.
            self._lines.put_nowait(line.rstrip(b"\r").decode(errors="surrogateescape"))

    def _on_interrupt(self) -> None:
        if self._interrupt():
            self._lines.put_nowait(None)
