"""Render a streaming answer as Markdown: finished blocks are printed once, the last block is redrawn.

The text is sanitized before it is parsed, and links and HTML stay plain text: the output contains no control sequences
except rich's own for colour and weight.
"""

import io
from typing import Protocol

from markdown_it import MarkdownIt
from rich.console import Console
from rich.markdown import Markdown

from holdfast.cli.output import sanitize

# Without HTML: tags in an answer are shown as text instead of being dropped.
_PARSER = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
# 16 colours without a background, for dark and light terminals.
_CODE_THEME = "ansi_dark"
_FENCES = ("```", "~~~")
# Of a longer block only the end is redrawn while it streams: the cost grows with the length.
_DRAWN_CHARS_MAX = 4_000
# Rows left free around the redrawn block, and its minimum height.
_ROWS_LEFT, _ROWS_MIN = 6, 3


class LiveArea(Protocol):
    """Part of a terminal with permanent lines above redrawn lines."""

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in characters."""
        ...

    def print_above(self, text: str) -> None:
        """Print permanent lines."""
        ...

    def redraw(self, text: str) -> None:
        """Replace the redrawn lines."""
        ...


def render(text: str, *, columns: int) -> str:
    """Render Markdown for a terminal, coloured unless NO_COLOR is set."""
    console = Console(file=io.StringIO(), force_terminal=True, width=columns, legacy_windows=False, highlight=False)
    document = Markdown("", code_theme=_CODE_THEME, hyperlinks=False)
    document.parsed = _PARSER.parse(sanitize(text))
    with console.capture() as captured:
        console.print(document)
    # rich pads lines with spaces, which would be copied with the text.
    return "\n".join(line.rstrip(" ") for line in captured.get().strip("\n").split("\n"))


def settled_chars(text: str) -> int:
    """Return the length of the blocks that later text cannot change: all before the last block.

    An incomplete line is ignored: "2" may still become the second item of a list.
    """
    lines = text[: text.rfind("\n") + 1]
    starts = [token.map[0] for token in _PARSER.parse(lines) if token.level == 0 and token.map and token.nesting >= 0]
    if len(starts) < 2:  # noqa: PLR2004 - the only block is the last one
        return 0
    return sum(len(line) + 1 for line in lines.split("\n")[: starts[-1]])


class MarkdownOutput:
    """Prints answers as Markdown in a live area."""

    is_live = True

    def __init__(self, area: LiveArea) -> None:
        self._area = area
        # A trailing "\r" waits for the next piece, which may start with "\n".
        self._half_end = ""
        self._text = ""
        self._has_blocks = False
        self._look_at_chars = 0

    def write(self, text: str) -> None:
        """Print a piece of an answer."""
        text = self._half_end + text
        self._half_end = "\r" if text.endswith("\r") else ""
        self._text += sanitize(text.removesuffix("\r") if self._half_end else text)
        if "\n" in text and len(self._text) >= self._look_at_chars:
            self._settle(settled_chars(self._text))
            # Parse again only after 12 % more text, so that a long block costs a few parses and not one per line.
            self._look_at_chars = len(self._text) * 9 // 8
        self._area.redraw(self._drawn())

    def finish(self) -> None:
        """Print the rest of the answer."""
        self._text += sanitize(self._half_end)
        self._half_end = ""
        self._settle(len(self._text))
        self._area.redraw("")
        self._has_blocks = False

    def print_note(self, sentence: str) -> None:
        """Print a note between the blocks: above the one that is being written, which stays whole."""
        if not self._text.strip():
            self.finish()
        # The next block follows without a gap.
        self._has_blocks = False
        self._area.print_above(f"{dim(sanitize(sentence))}\n")

    def _settle(self, chars: int) -> None:
        settled, self._text = self._text[:chars], self._text[chars:]
        self._look_at_chars = 0
        if settled.strip():
            gap = "\n" if self._has_blocks else ""
            self._area.print_above(f"{gap}{render(settled, columns=self._area.size[0])}\n")
            self._has_blocks = True

    def _drawn(self) -> str:
        """Return the end of the last block, as much as fits."""
        columns, rows = self._area.size
        text = self._text
        if len(text) > _DRAWN_CHARS_MAX:
            # Keep the opening fence so that the tail still renders as code.
            fence = f"{text.partition(chr(10))[0]}\n" if text.lstrip(" ").startswith(_FENCES) else ""
            text = fence + text[-_DRAWN_CHARS_MAX:]
        lines = render(text, columns=columns).split("\n")
        return "\n".join(lines[-max(rows - _ROWS_LEFT, _ROWS_MIN) :])


def dim(text: str) -> str:
    """Return the text dimmed, unless NO_COLOR is set."""
    console = Console(file=io.StringIO(), force_terminal=True, legacy_windows=False)
    return text if console.no_color else f"\x1b[2m{text}\x1b[0m"
