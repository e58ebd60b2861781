"""Which records may wait for a store that fails just now, so that the turn can go on without them.

Leaving out what was refused must not fail because of the disk: the person would wait for an answer that is one request
away. What waits is in memory alone, and is written in one piece with the next record that may not wait. A process that
dies in between leaves the log where it was, and the rung is climbed again.
"""

from collections.abc import Sequence

from holdfast.types.faults import Rung
from holdfast.types.records import AttemptStarted, NoticePosted, PartReplaced, RungFinished, RungStarted, WorkRecord

_RUNGS = (Rung.SHRINK_IMAGE, Rung.REPLACE_LARGEST)
STORE_FAILED = "store_failed"


def may_wait(unwritten: Sequence[WorkRecord], records: Sequence[WorkRecord]) -> bool:
    """Return whether these records may wait behind those that wait already.

    Only those of climbs that replace parts, and of the one request that is sent without them. Asking a model has no
    effect that must not be repeated; whatever it answers is kept before anybody sees it, or is an error.
    """
    if any(isinstance(record, AttemptStarted) for record in unwritten):
        return False
    match records[-1]:
        case RungStarted(rung=rung) | RungFinished(rung=rung):
            return rung in _RUNGS
        case AttemptStarted():
            return any(isinstance(record, PartReplaced) for record in unwritten)
        case _:
            return False


def told_of_failure(turn: int, why: str) -> NoticePosted:
    """Return what a person is told once the store can be written again."""
    sentence = (
        f"The store could not be written for a moment ({why}). The turn went on, and what had changed of the view was "
        "written as soon as that was possible."
    )
    return NoticePosted(turn, STORE_FAILED, sentence)
