"""Output of the demo: plain lines, or a live display on a terminal."""

from collections import deque
from collections.abc import Iterator
from typing import Protocol, TextIO

from rich.console import Console, Group
from rich.layout import Layout
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from holdfast.cli.output import print_note, sanitize, shorten
from holdfast.gateway.api.schemas import ViewNow
from holdfast.runtime.sessions.record_text import describe_parts, describe_record
from holdfast.types.faults import Rung
from holdfast.types.messages import Role
from holdfast.types.records import (
    AnyRecord,
    AttemptFailed,
    CompactionApplied,
    CompactionSettled,
    DamageSetAside,
    Logged,
    NoticePosted,
    Outcome,
    PartReplaced,
    RungFinished,
    RungResult,
    RungStarted,
    SummaryRefused,
    TurnEnded,
    WindowWarned,
)

_LINE_CHARS = 120
# Quick rungs that rarely change anything are not printed.
_QUIET_RUNGS = frozenset({Rung.CLAMP_OUTPUT, Rung.MASK})


def is_worth_printing(record: AnyRecord) -> bool:
    """Return whether a record is printed."""
    match record:
        case RungStarted(rung=rung):
            return rung not in _QUIET_RUNGS
        case RungFinished(result=result):
            return result is RungResult.INTERRUPTED
        case TurnEnded(outcome=outcome):
            return outcome is not Outcome.ANSWERED
        case (
            AttemptFailed()
            | CompactionApplied()
            | CompactionSettled()
            | DamageSetAside()
            | NoticePosted()
            | PartReplaced()
            | SummaryRefused()
            | WindowWarned()
        ):
            return True
        case _:
            return False


class Display(Protocol):
    """Output of the demo."""

    # Whether it shows the view continuously, so that the view must be polled.
    is_live: bool

    def begin(self, number: int, title: str) -> None:
        """Print the title of a scenario."""
        ...

    def say(self, text: str) -> None:
        """Print a line."""
        ...

    def see(self, logged: Logged) -> None:
        """Print a record as text, if it is of interest."""
        ...

    def show(self, view: ViewNow) -> None:
        """Show the model's view and its size."""
        ...

    def count(self, sent: int, answered: int) -> None:
        """Show the number of messages sent and answered."""
        ...

    def close(self) -> None:
        """Restore the terminal. May be called twice."""
        ...


class LineDisplay:
    """The demo as lines of text."""

    is_live = False

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def begin(self, number: int, title: str) -> None:
        """Write the title of a scenario."""
        self._out.write(f"\n{number}. {title}\n")
        self._out.flush()

    def say(self, text: str) -> None:
        """Write a line."""
        self._out.write(f"  {sanitize(text)}\n")
        self._out.flush()

    def see(self, logged: Logged) -> None:
        """Write a record, if it is of interest."""
        if is_worth_printing(logged.record):
            print_note(f"    record {logged.seq}: {shorten(describe_record(logged.record), _LINE_CHARS)}", self._out)

    def show(self, view: ViewNow) -> None:
        """Write the use of the three budgets."""
        budgets = ", ".join(f"{name} {used:,} of {limit:,}" for name, used, limit in budgets_of(view) if limit)
        self.say(f"the model sees {len(view.messages)} messages: {budgets}")

    def count(self, sent: int, answered: int) -> None:
        """Do nothing: the table at the end has the counts."""

    def close(self) -> None:
        """Do nothing."""


def budgets_of(view: ViewNow) -> list[tuple[str, int, int | None]]:
    """Return name, use and limit of the three budgets; the limit is None if unknown."""
    sizes, limits = view.sizes, view.limits
    return [
        ("tokens", view.tokens_estimated, limits.window_tokens),
        ("bytes", sizes.wire_bytes, limits.wire_bytes_max),
        ("images", sizes.media_count, limits.media_count_max),
    ]


# --- Live display ---


# More than the height of any terminal.
_EVENTS_KEPT = 100
_PICTURES_PER_SECOND = 8
# Bounds of the layout's height; a smaller terminal shows it truncated.
_HEIGHT_MIN, _HEIGHT_MAX = 24, 44
# Height of the budget panel.
_BUDGETS_LINES = 5
_WHO = {Role.USER: ("you", "cyan"), Role.ASSISTANT: ("model", "green"), Role.TOOL: ("tool", "yellow")}
# Shares at which the engine warns, too.
_TIGHT, _ALMOST_FULL = 0.7, 0.95


def stdout_console() -> Console:
    """Return a console on standard output."""
    return Console()


class LiveDisplay:
    """The demo as a live layout: scenarios, budgets, the model's view and events."""

    is_live = True

    def __init__(self, titles: tuple[str, ...], console: Console) -> None:
        self._titles, self._console = titles, console
        self._number = 0
        self._events: deque[tuple[str, str]] = deque(maxlen=_EVENTS_KEPT)
        self._view: ViewNow | None = None
        self._sent = self._answered = self._records = 0
        self._live = Live(
            self, console=console, refresh_per_second=_PICTURES_PER_SECOND, transient=True, vertical_overflow="crop"
        )

    def open(self) -> None:
        """Start drawing."""
        self._live.start()

    def close(self) -> None:
        """Stop drawing and restore the terminal."""
        self._live.stop()

    def begin(self, number: int, title: str) -> None:
        """Mark the current scenario."""
        self._number = number
        self._events.append(("bold", f"{number}. {title}"))

    def say(self, text: str) -> None:
        """Add a line to the events."""
        self._events.append(("", sanitize(text)))

    def see(self, logged: Logged) -> None:
        """Add a record to the events, if it is of interest."""
        self._records = logged.seq
        if is_worth_printing(logged.record):
            self._events.append(("dim", f"#{logged.seq} {sanitize(describe_record(logged.record))}"))

    def show(self, view: ViewNow) -> None:
        """Show the model's view."""
        self._view = view

    def count(self, sent: int, answered: int) -> None:
        """Show the counts."""
        self._sent, self._answered = sent, answered

    def __rich__(self) -> Layout:
        """Return the current layout."""
        height = min(max(self._console.height - 1, _HEIGHT_MIN), _HEIGHT_MAX)
        scenario_lines = len(self._titles) + 2
        left = Layout()
        left.split_column(
            Layout(self._scenarios(), size=scenario_lines),
            Layout(self._budgets(), size=_BUDGETS_LINES),
            Layout(self._view_panel(height - scenario_lines - _BUDGETS_LINES)),
        )
        layout = Layout(size=height)
        layout.split_row(left, Layout(self._event_panel(height)))
        return layout

    def _scenarios(self) -> Panel:
        lines = Text(no_wrap=True, overflow="ellipsis")
        for number, title in enumerate(self._titles, start=1):
            mark, style = (
                ("✓", "green")
                if number < self._number
                else ("▶", "bold red")
                if number == self._number
                else (" ", "dim")
            )
            lines.append(f"{mark} {title}\n", style)
        counts = f"sent {self._sent}  answered {self._answered}  records {self._records}"
        return Panel(lines, title="disasters", subtitle=counts)

    def _budgets(self) -> Panel:
        grid = Table.grid(padding=(0, 1), expand=True)
        grid.add_column(width=7)
        grid.add_column(ratio=1)
        grid.add_column(justify="right", no_wrap=True)
        for name, used, limit in budgets_of(self._view) if self._view is not None else ():
            share = used / limit if limit else 0.0
            colour = "red" if share >= _ALMOST_FULL else "yellow" if share >= _TIGHT else "green"
            bar = ProgressBar(
                total=limit or 1, completed=min(used, limit or 1), complete_style=colour, finished_style=colour
            )
            grid.add_row(name, bar, f"{used:,} / {limit:,}" if limit else f"{used:,}")
        return Panel(grid, title="budgets of the next request")

    def _view_panel(self, lines: int) -> Panel:
        shown = list(self._messages())
        room = max(lines - 2, 1)
        if len(shown) > room:
            left_out = len(shown) - room + 1
            # The first message, which summarises the past, and the newest ones.
            shown = [shown[0], Text(f"… {left_out} more", "dim"), *shown[len(shown) - max(room - 2, 0) :]][:room]
        return Panel(Group(*shown), title="what the model sees")

    def _messages(self) -> Iterator[Text]:
        for message in self._view.messages if self._view is not None else ():
            who, colour = _WHO[message.role]
            line = Text(no_wrap=True, overflow="ellipsis")
            line.append(f"{who:>5} ", colour)
            line.append(sanitize(shorten(describe_parts(message.parts), self._console.width)))
            yield line

    def _event_panel(self, height: int) -> Panel:
        width = max(self._console.width // 2 - 4, 20)
        lines: list[Text] = []
        for style, text in reversed(self._events):
            wrapped = Text(text, style).wrap(self._console, width)
            lines[:0] = list(wrapped)
            if len(lines) >= height - 2:
                break
        return Panel(Group(*lines[-(height - 2) :]), title="events")
