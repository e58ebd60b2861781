"""Effect of a retraction, and of a switch to another branch, on the session state.

Everything that refers to the retracted records goes. A branch keeps what is needed to show it again.

Notes on messages before them stay, so that the next compaction does not pay for them again.
"""

from msgspec.structs import replace

from holdfast.core.fold.session_state import LeftBranch, Turn
from holdfast.core.limits.fit import after_change
from holdfast.types.records import BranchSwitched, MessagesRetracted

# Branches that can be switched to; some 100 bytes of the snapshot each. The log keeps the messages of older ones.
BRANCHES_MAX = 200


def retract(turn: Turn, seq: int, record: MessagesRetracted) -> Turn:
    """Return the session state after a retraction."""
    return _retract(_leave(turn, record.after) if record.is_branch else turn, seq, record)


def _retract(turn: Turn, seq: int, record: MessagesRetracted) -> Turn:
    after = record.after
    if reaches_past(turn, after):
        turn = _replace_compaction(turn, record)
    merged = turn.merged if turn.merged is not None and turn.merged.until <= after + 1 else None
    return replace(
        turn,
        retracted=with_inputs(joined(turn.retracted, after, seq), record.inputs),
        last_turn=record.last_turn,
        pins=tuple(pin for pin in turn.pins if pin <= after),
        replaced=tuple(one for one in turn.replaced if one.seq <= after),
        excluded=tuple(one for one in turn.excluded if one.excluded <= after),
        # A piece ends before the record `until`.
        pieces=tuple(piece for piece in turn.pieces if piece.until <= after + 1),
        merged=merged,
    )


def switch(turn: Turn, seq: int, record: BranchSwitched) -> Turn:
    """Return the session state after a switch to another branch: its view, as it was at its last record."""
    branch = next((one for one in turn.branches if one.head == record.after), None)
    if branch is None:
        return turn
    turn = _leave(turn, branch.since)
    return replace(
        turn,
        branches=tuple(one for one in turn.branches if one.head != branch.head),
        retracted=joined(branch.retracted, branch.head, seq),
        last_turn=branch.last_turn,
        compaction=record.restored,
        compaction_seq=record.restored_seq,
        generation=branch.generation,
        pins=branch.pins,
        replaced=branch.replaced,
        excluded=branch.excluded,
        # Notes on messages that both branches have stay.
        pieces=tuple(piece for piece in turn.pieces if piece.until <= branch.since + 1),
        merged=None,
        warned_percent=0,
        # The size of the other view is not known before its next request.
        budgets=None,
    )


def _leave(turn: Turn, since: int) -> Turn:
    """Keep the view as a branch that begins after the record `since`."""
    left = LeftBranch(
        head=turn.seq,
        since=since,
        last_turn=turn.last_turn,
        retracted=turn.retracted,
        compaction_seq=turn.compaction_seq,
        generation=turn.generation,
        pins=turn.pins,
        replaced=turn.replaced,
        excluded=turn.excluded,
    )
    return replace(turn, branches=(*turn.branches, left)[-BRANCHES_MAX:])


def with_inputs(retracted: tuple[tuple[int, int], ...], inputs: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """Return retracted runs with a run for each input that lies in none."""
    alone = [(seq - 1, seq) for seq in inputs if not any(after < seq <= until for after, until in retracted)]
    return tuple(sorted((*retracted, *alone))) if alone else retracted


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
