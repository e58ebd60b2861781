"""What ends everything that is open in a log, so that a copy of it is at rest and owes nothing."""

from collections.abc import Iterator

from holdfast.core.advice import Ending
from holdfast.core.fold import Turn
from holdfast.core.limits import Bounds
from holdfast.core.records import (
    Abandonment,
    CompactionOutcome,
    CompactionSettled,
    Logged,
    Outcome,
    TurnEnded,
    WorkRecord,
)
from holdfast.core.turn import evolve, interruptions

COPIED = Ending(
    "copied", "This was being answered where the session was copied from. Send it again to have it answered here."
)


def closing(turn: Turn, bounds: Bounds) -> Iterator[WorkRecord]:
    """Yield the records that close whatever is in flight, end every turn, and settle every request."""
    for record in interruptions(turn, Abandonment.CANCELLED, bounds):
        turn = evolve(turn, Logged(turn.seq + 1, 0.0, record))
        yield record
    for wanted in turn.wanted:
        yield CompactionSettled(wanted.seq, CompactionOutcome.DEFERRED, "the session was copied")
    for number in ((turn.number,) if turn.number else ()) + turn.waiting:
        yield TurnEnded(number, Outcome.CANCELLED, COPIED.code, COPIED.sentence)
