"""Records that close every open turn and compaction request, for copies and full disks."""

from collections.abc import Iterator

import msgspec

from holdfast.core.fold.session_state import Turn
from holdfast.core.limits.bounds import Bounds
from holdfast.core.turn.decide import interruptions
from holdfast.core.turn.failure_messages import Ending
from holdfast.core.turn.transitions import evolve
from holdfast.types.records import (
    Abandonment,
    CompactionOutcome,
    CompactionSettled,
    Logged,
    Outcome,
    TurnEnded,
    WorkRecord,
)

COPIED = Ending(
    "copied", "This was being answered where the session was copied from. Send it again to have it answered here."
)


STORE_FULL = Ending(
    "store_full",
    "The disk is full, so what came of this could not be kept. Free some space, then send the message again; "
    "everything before it is as it was.",
)


class Why(msgspec.Struct, frozen=True):
    """The reason for an abort, in the form that each kind of record needs."""

    reason: Abandonment
    settled: CompactionOutcome
    settled_why: str
    outcome: Outcome
    ending: Ending


WAS_COPIED = Why(Abandonment.CANCELLED, CompactionOutcome.DEFERRED, "the session was copied", Outcome.CANCELLED, COPIED)
IS_FULL = Why(
    Abandonment.STORE_FULL, CompactionOutcome.FAILED, "the disk is full: free some space", Outcome.FAILED, STORE_FULL
)


def closing(turn: Turn, bounds: Bounds, why: Why) -> Iterator[WorkRecord]:
    """Yield the records that close the work in flight, settle every request and end every turn."""
    for record in interruptions(turn, why.reason, bounds):
        turn = evolve(turn, Logged(turn.seq + 1, 0.0, record))
        yield record
    for wanted in turn.wanted:
        yield CompactionSettled(wanted.seq, why.settled, why.settled_why)
    for number in ((turn.number,) if turn.number else ()) + turn.waiting:
        yield TurnEnded(number, why.outcome, why.ending.code, why.ending.sentence)
