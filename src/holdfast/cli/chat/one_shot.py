"""Send one message and print its answer on standard output."""

import asyncio
import shlex
import signal
import sys
from collections.abc import Coroutine, Generator, Mapping, Sequence
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

from holdfast.cli.chat.turn_printer import (
    AnswerOutput,
    PlainOutput,
    PlainTurnPrinter,
    Recap,
    TurnPrinter,
    describe_approval,
)
from holdfast.cli.output import is_plain, print_note
from holdfast.errors import RetryLaterError, TurnFailedError
from holdfast.runtime.sessions.session import Session
from holdfast.runtime.tools.tool_runs import Approval, approval_of
from holdfast.types.records import ApprovalRequested, Logged


class OneShot:
    """Sends one message to one session."""

    def __init__(self, session: Session, recap: Recap, output: Mapping[str, Any] | None = None) -> None:
        self._session = session
        # The JSON Schema of the answer.
        self._schema = output
        self._recap = recap
        self._turn = 0
        self._presses = 0

    async def send(
        self, text: str, attachments: Sequence[Path], *, as_json: bool = False, is_plain_wanted: bool = False
    ) -> bool:
        """Send a message and print its answer; True if Ctrl-C cancelled it.

        Raises `TurnFailedError` on failure, and `RetryLaterError` if a tool call waits for an approval.
        """
        for waiting in await self._session.approvals():
            raise self._needs_approval(waiting, "the message was not sent")
        for left in self._recap.unanswered:
            print_note(left.sentence)
            # Standard output is only for the answer to this message.
            if await self._wait_for(self._print_turn(left.turn, PlainTurnPrinter(sys.stderr, sys.stderr)), left.turn):
                return True
        with _output(is_plain_wanted=is_plain_wanted) as output:
            answering = self._answer_as_json if as_json else self._answer
            return await self._wait_for(answering(text, attachments, output))

    async def _answer(self, text: str, attachments: Sequence[Path], output: AnswerOutput) -> None:
        await self._post(text, attachments)
        await self._follow(self._turn, TurnPrinter(output))

    async def _answer_as_json(self, text: str, attachments: Sequence[Path], output: AnswerOutput) -> None:
        del output
        await self._post(text, attachments)
        await self._follow(self._turn, None)
        click.echo(msgspec.json.encode(await self._session.wait(self._turn, output=self._schema)))

    async def _post(self, text: str, attachments: Sequence[Path]) -> None:
        self._turn = await self._session.post(text, attachments=attachments, client_id=uuid4().hex, output=self._schema)

    def _needs_approval(self, waiting: Approval, sent: str) -> RetryLaterError:
        key = shlex.quote(self._session.key)
        return RetryLaterError(
            f"{describe_approval(waiting)}; {sent}. Answer with `holdfast approve {key} {waiting.request}` or "
            f"`holdfast deny {key} {waiting.request}`"
        )

    async def _print_turn(self, turn: int, printer: TurnPrinter) -> None:
        try:
            await self._follow(turn, printer)
        except TurnFailedError as error:
            print_note(error.sentence)

    async def _follow(self, turn: int, printer: TurnPrinter | None) -> None:
        async with aclosing(self._session.follow(turn)) as events:
            async for event in events:
                if isinstance(event, Logged) and isinstance(event.record, ApprovalRequested):
                    waiting = approval_of(event.seq, event.at, event.record)
                    raise self._needs_approval(waiting, "the message is stored, and is answered after that")
                if printer is not None:
                    printer.print_event(event)

    async def _wait_for(self, work: Coroutine[Any, Any, None], turn: int = 0) -> bool:
        """Wait for a turn and return True if Ctrl-C cancelled it; a second Ctrl-C leaves at once."""
        self._turn, self._presses = turn, 0
        loop = asyncio.get_running_loop()
        working = loop.create_task(work)
        stopping: list[asyncio.Task[None]] = []

        def interrupt() -> None:
            self._presses += 1
            if self._presses == 1 and self._turn:
                print_note("stopping; Ctrl-C again leaves at once")
                stopping.append(loop.create_task(self._session.cancel(self._turn)))
            else:
                # Not accepted yet, or the second Ctrl-C: do not wait.
                working.cancel()

        loop.add_signal_handler(signal.SIGINT, interrupt)
        try:
            await asyncio.wait([working])
            await asyncio.gather(*stopping)
        finally:
            loop.remove_signal_handler(signal.SIGINT)
        if not self._presses:
            await working
        elif not working.cancelled() and isinstance(error := working.exception(), TurnFailedError):
            print_note(error.sentence)
        return bool(self._presses)


@contextmanager
def _output(*, is_plain_wanted: bool) -> Generator[AnswerOutput, None, None]:
    """Open the output: Markdown on a capable terminal, else plain text."""
    if is_plain_wanted or is_plain(sys.stdout):
        yield PlainOutput(sys.stdout, sys.stderr)
        return
    from holdfast.cli.chat.markdown import MarkdownOutput  # noqa: PLC0415 - rich is slow to load

    with RichLiveArea() as area:
        yield MarkdownOutput(area)


# --- Live area on a terminal without input ---


class RichLiveArea:
    """Live area on standard output. Closing it removes the redrawn lines."""

    def __init__(self) -> None:
        self._console = Console(file=sys.stdout, highlight=False, legacy_windows=False)
        # Refreshed on change only, without a timer thread.
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
        """Width and height of the terminal."""
        return self._console.width, self._console.height

    def print_above(self, text: str) -> None:
        """Print permanent lines."""
        self._console.print(Text.from_ansi(text.removesuffix("\n")))

    def redraw(self, text: str) -> None:
        """Replace the redrawn lines."""
        self._live.update(Text.from_ansi(text), refresh=True)
