"""How a demo is shown: the interface, what of a log is worth telling, and plain lines where there is no terminal."""

from typing import Protocol, TextIO

from holdfast.cli.paper import aside, harmless, shortened
from holdfast.core.ladder import Rung
from holdfast.core.records import (
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
from holdfast.gateway.shapes import ViewNow
from holdfast.runtime.words import spoken

_LINE_CHARS = 120
# Rungs that only look whether there is something to change are passed over; these take time or change what is seen.
_QUIET_RUNGS = frozenset({Rung.CLAMP_OUTPUT, Rung.MASK})


def is_worth_telling(record: AnyRecord) -> bool:
    """Return whether somebody who looks on should be told of a record."""
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


class Screen(Protocol):
    """Where a demo is shown."""

    # Whether it shows the view all the time, so that somebody should keep asking for it.
    is_live: bool

    def begin(self, number: int, title: str) -> None:
        """Say which act begins."""
        ...

    def say(self, text: str) -> None:
        """Say something about what is shown."""
        ...

    def see(self, logged: Logged) -> None:
        """Tell a record in plain words, where it is worth it."""
        ...

    def show(self, view: ViewNow) -> None:
        """Show what the model sees, and what that comes to."""
        ...

    def count(self, sent: int, answered: int) -> None:
        """Show how many messages were sent and answered so far."""
        ...

    def close(self) -> None:
        """Give the terminal back. Once is enough, and twice does no harm."""
        ...


class Lines:
    """A demo as lines of text."""

    is_live = False

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def begin(self, number: int, title: str) -> None:
        """Write the title of an act."""
        self._out.write(f"\n{number}. {title}\n")
        self._out.flush()

    def say(self, text: str) -> None:
        """Write a line."""
        self._out.write(f"  {harmless(text)}\n")
        self._out.flush()

    def see(self, logged: Logged) -> None:
        """Write a record, where it is worth it."""
        if is_worth_telling(logged.record):
            aside(f"    record {logged.seq}: {shortened(spoken(logged.record), _LINE_CHARS)}", self._out)

    def show(self, view: ViewNow) -> None:
        """Write what the three budgets come to."""
        budgets = ", ".join(f"{name} {used:,} of {limit:,}" for name, used, limit in budgets_of(view) if limit)
        self.say(f"the model sees {len(view.messages)} messages: {budgets}")

    def count(self, sent: int, answered: int) -> None:
        """Leave the counts to the table at the end."""

    def close(self) -> None:
        """Lines stay where they are."""


def budgets_of(view: ViewNow) -> list[tuple[str, int, int | None]]:
    """Return the three budgets: what each is called, what is used of it, and what there is; None: not known."""
    sizes, limits = view.sizes, view.limits
    return [
        ("tokens", view.tokens_estimated, limits.window_tokens),
        ("bytes", sizes.wire_bytes, limits.wire_bytes_max),
        ("images", sizes.media_count, limits.media_count_max),
    ]
