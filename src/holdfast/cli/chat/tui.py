"""A terminal at which a person types while answers come in: what is written stays below, what is said scrolls above.

No question is ever put to the terminal (where its cursor is, for instance), so nothing waits for an answer over a slow
connection, and a terminal that cannot answer is as good as any.
"""

import asyncio
import shutil
import sys
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self

from prompt_toolkit import ANSI, PromptSession
from prompt_toolkit.completion import Completer, Completion, PathCompleter
from prompt_toolkit.completion.base import CompleteEvent
from prompt_toolkit.data_structures import Size
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import StyleAndTextTuples, to_formatted_text
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.shortcuts import CompleteStyle
from prompt_toolkit.styles import Style

from holdfast.cli.chat.markdown import MarkdownSheet
from holdfast.cli.chat.slash_commands import ORDERS
from holdfast.cli.output import harmless

# Redrawing more often than a person can see only makes a slow connection slower.
_REDRAW_SECONDS_MIN = 0.05
_STYLE = Style.from_dict({"status": "dim", "invitation": "bold"})


class Screen:
    """The prompt with its status line, the block in hand above it, and everything else above that."""

    def __init__(
        self, *, status: Callable[[], str], is_busy: Callable[[], bool], interrupt: Callable[[], bool]
    ) -> None:
        self.sheet = MarkdownSheet(self)
        self._status, self._is_busy, self._interrupt = status, is_busy, interrupt
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._drawn_below = ""
        self._history = InMemoryHistory()
        self._prompt: PromptSession[str] = PromptSession(
            message=self._message,
            multiline=True,
            history=self._history,
            key_bindings=self._keys(),
            completer=_OrderCompleter(),
            complete_style=CompleteStyle.READLINE_LIKE,
            complete_while_typing=False,
            reserve_space_for_menu=0,
            erase_when_done=True,
            style=_STYLE,
            output=Vt100_Output(sys.stdout, self._rows_and_columns, enable_cpr=False),
        )
        self._prompt.app.min_redraw_interval = _REDRAW_SECONDS_MIN

    async def __aenter__(self) -> Self:
        self._typing = asyncio.create_task(self._type(), name="holdfast.prompt")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.sheet.finish()
        if self._prompt.app.is_running:
            self._prompt.app.exit(result="")
        await asyncio.wait([self._typing])

    def remember(self, messages: Iterable[str]) -> None:
        """Let the person find earlier messages with the arrow keys."""
        for message in messages:
            self._history.append_string(message)

    # A face.

    async def read(self) -> str | None:
        """Return the next thing that the person wrote, or None when they leave."""
        return await self._lines.get()

    def begins(self, words: str, *, has_waited: bool) -> None:  # noqa: ARG002 - the face's signature
        """Show the message at the place from which on it is answered."""
        self.sheet.finish()
        self.above(f"\n\x1b[1m> \x1b[0m{harmless(words)}\n\n")

    def rests(self) -> None:
        """The prompt is there all the time; only the status changes."""
        self.changed()

    def changed(self) -> None:
        """Draw the status anew."""
        self._prompt.app.invalidate()

    # A strip.

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows of the terminal."""
        shape = shutil.get_terminal_size()
        return shape.columns, shape.lines

    def above(self, text: str) -> None:
        """Add lines that stay.

        The prompt is taken away and drawn anew below them. What is typed meanwhile is not echoed in between, as it
        would be if the terminal were handed over for that time.
        """
        if self._prompt.app.is_running:
            self._prompt.app.renderer.erase()
            self._prompt.app.invalidate()
        sys.stdout.write(text)
        sys.stdout.flush()

    def below(self, text: str) -> None:
        """Draw these lines above the prompt in place of those before."""
        self._drawn_below = text
        self._prompt.app.invalidate()

    # The prompt.

    def _rows_and_columns(self) -> Size:
        columns, rows = self.size
        return Size(rows=rows, columns=columns)

    def _message(self) -> StyleAndTextTuples:
        drawn = to_formatted_text(ANSI(f"{self._drawn_below}\n")) if self._drawn_below else []
        status = harmless(self._status())[: max(self.size[0] - 1, 1)]
        return [*drawn, ("class:status", f"{status}\n"), ("class:invitation", "> ")]

    async def _type(self) -> None:
        try:
            await self._prompt.prompt_async(set_exception_handler=False)
        except (EOFError, KeyboardInterrupt):
            pass
        finally:
            self._lines.put_nowait(None)

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()

        @keys.add("enter")
        def _send(event: KeyPressEvent) -> None:
            buffer = event.current_buffer
            text = buffer.text
            if text.strip():
                buffer.append_to_history()
                if text.startswith("/"):
                    self.above(f"> {harmless(text)}\n")
                self._lines.put_nowait(text)
            buffer.reset()

        @keys.add("escape", "enter")
        def _break_line(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        @keys.add("c-c")
        @keys.add("<sigint>")
        def _stop(event: KeyPressEvent) -> None:
            if event.current_buffer.text and not self._is_busy():
                event.current_buffer.reset()
            elif self._interrupt():
                event.app.exit(result="")

        return keys


class _OrderCompleter(Completer):
    """Completes what begins with a slash: the order, and behind /attach a path."""

    def __init__(self) -> None:
        self._paths = PathCompleter(expanduser=True)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Yield what may stand here."""
        text = document.text_before_cursor
        if text.startswith("/attach "):
            path = text.removeprefix("/attach ")
            yield from self._paths.get_completions(Document(path, len(path)), complete_event)
        elif text.startswith("/") and " " not in text:
            yield from (Completion(name, start_position=-len(text)) for name in ORDERS if name.startswith(text))
