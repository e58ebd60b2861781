"""An answer in Markdown, shown while it is written: blocks that are whole stay, the one in hand is drawn anew.

What a model wrote is made harmless before it is read as Markdown, and neither links nor HTML become anything but text:
the only control sequences that come out are rich's own, for colour and weight.
"""

import io
from typing import Protocol

from markdown_it import MarkdownIt
from rich.console import Console
from rich.markdown import Markdown

from holdfast.cli.output import harmless

# Without HTML: a tag that a model wrote is shown as it stands instead of vanishing.
_READER = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
# A theme of sixteen colours without a background: it goes with dark and with light terminals.
_CODE_THEME = "ansi_dark"
_FENCES = ("```", "~~~")
# A block that is longer is drawn by its end alone while it is written: drawing costs what is drawn.
_DRAWN_CHARS_MAX = 4_000
# Rows that the block in hand leaves to the lines around it, and what it has at least.
_ROWS_LEFT, _ROWS_MIN = 6, 3


class Strip(Protocol):
    """A place for lines that stay, above lines that are drawn anew."""

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows."""
        ...

    def above(self, text: str) -> None:
        """Add lines that stay."""
        ...

    def below(self, text: str) -> None:
        """Draw these lines in place of those below."""
        ...


def rendered(text: str, *, columns: int) -> str:
    """Return Markdown as lines for a terminal, coloured unless NO_COLOR is set."""
    console = Console(file=io.StringIO(), force_terminal=True, width=columns, legacy_windows=False, highlight=False)
    document = Markdown("", code_theme=_CODE_THEME, hyperlinks=False)
    document.parsed = _READER.parse(harmless(text))
    with console.capture() as captured:
        console.print(document)
    # rich fills lines up with spaces, which would come along when somebody copies them.
    return "\n".join(line.rstrip(" ") for line in captured.get().strip("\n").split("\n"))


def whole_until(text: str) -> int:
    """Return how many characters belong to blocks that nothing that follows can change.

    That is all before the last block. Half a line is not looked at: "2" may still become the second point of a list.
    """
    lines = text[: text.rfind("\n") + 1]
    starts = [token.map[0] for token in _READER.parse(lines) if token.level == 0 and token.map and token.nesting >= 0]
    if len(starts) < 2:  # noqa: PLR2004 - one block is the one in hand
        return 0
    return sum(len(line) + 1 for line in lines.split("\n")[: starts[-1]])


class MarkdownSheet:
    """Shows answers as Markdown on a strip."""

    is_live = True

    def __init__(self, strip: Strip) -> None:
        self._strip = strip
        # Half of a line's end may come in one piece and half in the next.
        self._half_end = ""
        self._text = ""
        self._has_blocks = False
        self._look_at_chars = 0

    def write(self, text: str) -> None:
        """Show a piece of an answer."""
        text = self._half_end + text
        self._half_end = "\r" if text.endswith("\r") else ""
        self._text += harmless(text.removesuffix("\r") if self._half_end else text)
        if "\n" in text and len(self._text) >= self._look_at_chars:
            self._settle(whole_until(self._text))
            # A long block is not read again for every line of it: all looks together cost a few readings of it.
            self._look_at_chars = len(self._text) * 9 // 8
        self._strip.below(self._drawn())

    def finish(self) -> None:
        """Let the answer in hand stay as it is."""
        self._text += harmless(self._half_end)
        self._half_end = ""
        self._settle(len(self._text))
        self._strip.below("")
        self._has_blocks = False

    def aside(self, sentence: str) -> None:
        """Show a sentence between the blocks."""
        self.finish()
        self._strip.above(f"{dim(harmless(sentence))}\n")

    def _settle(self, chars: int) -> None:
        whole, self._text = self._text[:chars], self._text[chars:]
        self._look_at_chars = 0
        if whole.strip():
            gap = "\n" if self._has_blocks else ""
            self._strip.above(f"{gap}{rendered(whole, columns=self._strip.size[0])}\n")
            self._has_blocks = True

    def _drawn(self) -> str:
        """Return the end of the block in hand, as much as fits."""
        columns, rows = self._strip.size
        text = self._text
        if len(text) > _DRAWN_CHARS_MAX:
            # Code is code only behind the line that says so.
            fence = f"{text.partition(chr(10))[0]}\n" if text.lstrip(" ").startswith(_FENCES) else ""
            text = fence + text[-_DRAWN_CHARS_MAX:]
        lines = rendered(text, columns=columns).split("\n")
        return "\n".join(lines[-max(rows - _ROWS_LEFT, _ROWS_MIN) :])


def dim(text: str) -> str:
    """Return a text that stands back, on a terminal that is known to show colours, unless NO_COLOR is set."""
    console = Console(file=io.StringIO(), force_terminal=True, legacy_windows=False)
    return text if console.no_color else f"\x1b[2m{text}\x1b[0m"
