"""Effect of a retraction on the session state: everything that refers to the retracted records goes.

Notes on messages before them stay, so that the next compaction does not pay for them again.
"""

from msgspec.structs import replace

from holdfast.core.fold.session_state import Turn
from holdfast.core.limits.fit import after_change
from holdfast.types.records import MessagesRetracted


def retract(turn: Turn, seq: int, record: MessagesRetracted) -> Turn:
    """Return the session state after a retraction."""
    after = record.after
    if reaches_past(turn, after):
        turn = _replace_compaction(turn, record)
    merged = turn.merged if turn.merged is not None and turn.merged.until <= after + 1 else None
    return replace(
        turn,
        retracted=joined(turn.retracted, after, seq),
        last_turn=record.last_turn,
        pins=tuple(pin for pin in turn.pins if pin <= after),
        replaced=tuple(one for one in turn.replaced if one.seq <= after),
        excluded=tuple(one for one in turn.excluded if one.excluded <= after),
        # A piece ends before the record `until`.
        pieces=tuple(piece for piece in turn.pieces if piece.until <= after + 1),
        merged=merged,
    )


def reaches_past(turn: Turn, after: int) -> bool:
    """Return whether the compaction in force represents a record after this one."""
    return turn.shown_from > after + 1


def joined(retracted: tuple[tuple[int, int], ...], after: int, until: int) -> tuple[tuple[int, int], ...]:
    """Return retracted runs with one more at the end of the log, which takes in those that it covers or touches."""
    while retracted and retracted[-1][1] >= after:
        after = min(after, retracted[-1][0])
        retracted = retracted[:-1]
    return (*retracted, (after, until))


def _replace_compaction(turn: Turn, record: MessagesRetracted) -> Turn:
    gone = turn.compaction
    assert gone is not None, "only a compaction represents records"
    return replace(
        turn,
        compaction=record.restored,
        compaction_seq=record.restored_seq,
        generation=record.generation or turn.generation,
        pins=tuple(sorted({*turn.pins, *record.pins})),
        warned_percent=0,
        budgets=after_change(turn.budgets, gone.tokens_before),
    )
