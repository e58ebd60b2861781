"""A strip on a terminal where nobody types: finished lines scroll up, the block in hand is drawn below them."""

import sys
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.text import Text


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
