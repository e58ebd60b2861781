"""Full terminal interface: the input line stays at the bottom while answers scroll above it.

It sends no queries to the terminal (such as for the cursor position), so it works over slow connections and on
terminals that do not answer them.
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

from holdfast.cli.chat.markdown import MarkdownOutput
from holdfast.cli.chat.slash_commands import SLASH_COMMANDS
from holdfast.cli.output import sanitize

# Faster redraws are not visible and would load a slow connection.
_REDRAW_SECONDS_MIN = 0.05
_STYLE = Style.from_dict({"status": "dim", "invitation": "bold"})


class TuiTerminal:
    """Input line with a status line, the block being written above it, and finished text above that."""

    def __init__(
        self, *, status: Callable[[], str], is_busy: Callable[[], bool], interrupt: Callable[[], bool]
    ) -> None:
        self.output = MarkdownOutput(self)
        self._status, self._is_busy, self._interrupt = status, is_busy, interrupt
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._drawn_below = ""
        self._history = InMemoryHistory()
        self._prompt: PromptSession[str] = PromptSession(
            message=self._message,
            multiline=True,
            history=self._history,
            key_bindings=self._keys(),
            completer=_CommandCompleter(),
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
        self.output.finish()
        if self._prompt.app.is_running:
            self._prompt.app.exit(result="")
        await asyncio.wait([self._typing])

    def remember(self, messages: Iterable[str]) -> None:
        """Add earlier messages to the input history."""
        for message in messages:
            self._history.append_string(message)

    # Terminal protocol.

    async def read(self) -> str | None:
        """Return the next input of the user; None when they leave."""
        return await self._lines.get()

    def show_turn_start(self, text: str, *, has_waited: bool) -> None:  # noqa: ARG002 - the protocol's signature
        """Print the message above its answer."""
        self.output.finish()
        self.print_above(f"\n\x1b[1m> \x1b[0m{sanitize(text)}\n\n")

    def await_input(self) -> None:
        """Refresh the status; the input line is always shown."""
        self.refresh()

    def refresh(self) -> None:
        """Redraw the status line."""
        self._prompt.app.invalidate()

    # Live area protocol.

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the terminal."""
        shape = shutil.get_terminal_size()
        return shape.columns, shape.lines

    def print_above(self, text: str) -> None:
        """Print permanent lines above the prompt.

        The prompt is erased and redrawn below them. The terminal stays in raw mode, so keys typed meanwhile are not
        echoed between the lines.
        """
        if self._prompt.app.is_running:
            self._prompt.app.renderer.erase()
            self._prompt.app.invalidate()
        sys.stdout.write(text)
        sys.stdout.flush()

    def redraw(self, text: str) -> None:
        """Replace the redrawn lines above the prompt."""
        self._drawn_below = text
        self._prompt.app.invalidate()

    # The prompt.

    def _rows_and_columns(self) -> Size:
        columns, rows = self.size
        return Size(rows=rows, columns=columns)

    def _message(self) -> StyleAndTextTuples:
        drawn = to_formatted_text(ANSI(f"{self._drawn_below}\n")) if self._drawn_below else []
        status = sanitize(self._status())[: max(self.size[0] - 1, 1)]
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
                    self.print_above(f"> {sanitize(text)}\n")
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


class _CommandCompleter(Completer):
    """Completes slash commands, and paths after /attach."""

    def __init__(self) -> None:
        self._paths = PathCompleter(expanduser=True)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Yield completions."""
        text = document.text_before_cursor
        if text.startswith("/attach "):
            path = text.removeprefix("/attach ")
            yield from self._paths.get_completions(Document(path, len(path)), complete_event)
        elif text.startswith("/") and " " not in text:
            yield from (Completion(name, start_position=-len(text)) for name in SLASH_COMMANDS if name.startswith(text))
