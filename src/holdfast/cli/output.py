"""Terminal output: escaping, dimmed notes, aligned columns and progress bars.

Text of models and tools is untrusted: control characters could move the cursor, rename the window or hide lines.
`sanitize` replaces them with visible symbols.
"""

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TextIO

import click

from holdfast.ports.model import Progress, ignore

# Unicode has a symbol for each C0 control character and for DEL, but none for C1.
_PICTURES = {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\n\t"} | {0x7F: 0x2421}
_HARMLESS = _PICTURES | dict.fromkeys(range(0x80, 0xA0), 0xFFFD)

_DIM, _PLAIN = "\x1b[2m", "\x1b[0m"

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def sanitize(text: str) -> str:
    """Replace control characters so that the text cannot control a terminal."""
    return text.replace("\r\n", "\n").translate(_HARMLESS)


def dim_text(text: str, stream: TextIO) -> str:
    """Return the text dimmed if the stream shows colours."""
    return f"{_DIM}{text}{_PLAIN}" if shows_colours(stream) else text


def shows_colours(stream: TextIO) -> bool:
    """Return whether the stream is a terminal with colours and NO_COLOR is not set."""
    # See https://no-color.org: any non-empty value.
    return not is_plain(stream) and not os.environ.get("NO_COLOR")


def is_plain(stream: TextIO) -> bool:
    """Return whether the stream is not a terminal, or a dumb one."""
    return not stream.isatty() or os.environ.get("TERM", "dumb") in {"", "dumb", "unknown"}


def print_note(text: str, stream: TextIO | None = None) -> None:
    """Print a dimmed line beside the answer, by default on standard error."""
    stream = sys.stderr if stream is None else stream
    stream.write(dim_text(sanitize(text), stream) + "\n")
    stream.flush()


def shorten(text: str, chars: int) -> str:
    """Return the text as one line of at most `chars` characters."""
    line = " ".join(text.split())
    return line if len(line) <= chars else line[: chars - 1].rstrip() + "…"


def local_time(at: float) -> str:
    """Format a timestamp in the local time zone."""
    return datetime.fromtimestamp(at, tz=UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def align_columns(rows: Iterable[Sequence[str]]) -> list[str]:
    """Return rows as lines with aligned columns."""
    rows = list(rows)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


# --- Progress bar, on terminals only ---


# Length of the description beside the bar.
_WHAT_CHARS = 40


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """Show a progress bar on standard error, and remove it at the end."""
    if is_plain(sys.stderr):
        yield ignore
        return
    from rich.console import Console  # noqa: PLC0415 - slow to load, for terminals only
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn  # noqa: PLC0415
    from rich.progress import Progress as Bars  # noqa: PLC0415

    align_columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    with Bars(*align_columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("looking")
        yield lambda what, step, steps: bars.update(
            task, description=sanitize(what)[:_WHAT_CHARS], completed=step, total=max(steps, 1)
        )
