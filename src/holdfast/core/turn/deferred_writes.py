"""Deferred writes: records that a turn may hold in memory while the store fails.

Replacing a refused part must not fail because of the disk: the answer is one request away. Deferred records are
appended in one batch with the next record that may not be deferred. If the process dies before that, the log is
unchanged and the rung is climbed again.
"""

from collections.abc import Sequence

from holdfast.types.faults import Rung
from holdfast.types.records import AttemptStarted, NoticePosted, PartReplaced, RungFinished, RungStarted, WorkRecord

_RUNGS = (Rung.SHRINK_IMAGE, Rung.REPLACE_LARGEST)
STORE_FAILED = "store_failed"


def may_wait(unwritten: Sequence[WorkRecord], records: Sequence[WorkRecord]) -> bool:
    """Return whether these records may be deferred behind those already deferred.

    True for rungs that replace parts, and for the one request sent without those parts. A model call is safe to
    repeat; its answer is recorded before it is shown, or is an error.
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
    """Return the notice for the person, posted once the store accepts writes again."""
    sentence = (
        f"The store could not be written for a moment ({why}). The turn went on, and what had changed of the view was "
        "written as soon as that was possible."
    )
    return NoticePosted(turn, STORE_FAILED, sentence)
