"""How things are printed: dim only where that is wanted, and nothing that could steer a terminal.

What a model or a tool wrote is foreign text. Printed as it is, it could move the cursor, rename the window or hide
lines, so control characters are shown as pictures of themselves.
"""

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TextIO

import click

from holdfast.ports.model import Progress, ignore

# Unicode has a picture for each of the first 32 control characters and for DEL; the second set has none.
_PICTURES = {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\n\t"} | {0x7F: 0x2421}
_HARMLESS = _PICTURES | dict.fromkeys(range(0x80, 0xA0), 0xFFFD)

_DIM, _PLAIN = "\x1b[2m", "\x1b[0m"

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")


def harmless(text: str) -> str:
    """Return a text that does nothing to a terminal but appear on it."""
    return text.replace("\r\n", "\n").translate(_HARMLESS)


def dimmed(text: str, stream: TextIO) -> str:
    """Return a text that stands back behind the rest, where the stream is a terminal and colours are wanted."""
    return f"{_DIM}{text}{_PLAIN}" if shows_colours(stream) else text


def shows_colours(stream: TextIO) -> bool:
    """Return whether a stream is a terminal that can do more than print lines, and whoever reads it wants that."""
    # See https://no-color.org: set to anything but nothing.
    return not is_plain(stream) and not os.environ.get("NO_COLOR")


def is_plain(stream: TextIO) -> bool:
    """Whether a stream takes text and nothing else: it is no terminal, or one that can do no more."""
    return not stream.isatty() or os.environ.get("TERM", "dumb") in {"", "dumb", "unknown"}


def aside(text: str, stream: TextIO | None = None) -> None:
    """Print a line that is not part of an answer, dim, on standard error unless told otherwise."""
    stream = sys.stderr if stream is None else stream
    stream.write(dimmed(harmless(text), stream) + "\n")
    stream.flush()


def shortened(text: str, chars: int) -> str:
    """Return a text as one line of at most so many characters."""
    line = " ".join(text.split())
    return line if len(line) <= chars else line[: chars - 1].rstrip() + "…"


def local_time(at: float) -> str:
    """Return a moment as the clock on the wall shows it."""
    return datetime.fromtimestamp(at, tz=UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def columns(rows: Iterable[Sequence[str]]) -> list[str]:
    """Return rows as lines with their columns aligned; the last column may be as long as it likes."""
    rows = list(rows)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


# --- How far something long is, on a terminal alone: pipes and logs get results and nothing else.


# As much as fits beside a bar.
_WHAT_CHARS = 40


@contextmanager
def showing() -> Iterator[Progress]:
    """Show a bar on standard error while something is done; it is gone at the end."""
    if is_plain(sys.stderr):
        yield ignore
        return
    from rich.console import Console  # noqa: PLC0415 - slow to load, and for a person at a terminal only
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn  # noqa: PLC0415
    from rich.progress import Progress as Bars  # noqa: PLC0415

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("looking")
        yield lambda what, step, steps: bars.update(
            task, description=harmless(what)[:_WHAT_CHARS], completed=step, total=max(steps, 1)
        )
