"""When records move into the archive, and which: never what the view, the turn or the next undo still reads.

Only what lies behind the boundary, and behind that some more, is ever sealed. It waits until enough has come together,
or until it has waited long, because a segment of few records compresses badly and every segment is an object to keep.
"""

from collections.abc import Sequence

import msgspec

from holdfast.core.fold import Turn
from holdfast.core.segments import Kept


class Sealing(msgspec.Struct, frozen=True):
    """When to seal, and how much at once."""

    # Records behind the boundary that stay live: about what two compactions of a busy session put there, so that
    # undoing the last ones, and the next summary, seldom need the archive. Both work where they do.
    margin_records: int = 1_000
    # Behind those, any one of these makes it time: this many records, this many bytes, or one this old.
    records_min: int = 1_000
    bytes_min: int = 2**20
    age_seconds: float = 7 * 24 * 3_600.0
    # One segment has at most this many records and, but for the last of them, bytes: a quarter of a second of work in
    # an idle moment, and a few MiB of memory.
    segment_records_max: int = 2_000
    segment_bytes_max: int = 4 * 2**20


USUAL_SEALING = Sealing()


def sealable_until(turn: Turn, sealing: Sealing) -> int:
    """Return the last record that may be sealed by where a session stands; 0: none."""
    # A session that was never compacted is in its view from the first record on.
    needed = [turn.boundary, *turn.waiting, *(wanted.seq for wanted in turn.wanted)]
    if turn.number:
        needed.append(turn.number)
    return max(min(needed) - 1 - sealing.margin_records, 0)


def run_to_seal(rows: Sequence[Kept], *, until: int, now: float, sealing: Sealing) -> Sequence[Kept]:
    """Return what to seal now of the first live records, given those up to `until` or as many as a segment takes.

    Nothing where it is not yet time.
    """
    within: list[Kept] = []
    size_bytes = 0
    for row in rows[: sealing.segment_records_max]:
        if row.seq > until or size_bytes >= sealing.segment_bytes_max:
            break
        within.append(row)
        size_bytes += len(row.body)
    if not within:
        return ()
    is_due = (
        until - within[0].seq + 1 >= sealing.records_min
        or size_bytes >= sealing.bytes_min
        or now - within[0].at >= sealing.age_seconds
    )
    return within if is_due else ()
