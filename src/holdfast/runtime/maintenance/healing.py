"""Healing a session on the way: what was found damaged is set aside under the lease, in one write, and told.

Nothing more is read, and nothing written, for a log that is healthy. What must be done is decided by `core.reconcile`;
here is only how. A process may die before or after the write: the next one finds the same damage, or none.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice

import msgspec

from holdfast import ports
from holdfast.core.fold.session_state import Turn
from holdfast.core.integrity.reconcile import (
    BadRow,
    ClearSealed,
    Copy,
    DropSnapshot,
    Found,
    FoundSegment,
    FoundSnapshot,
    LogRepair,
    MarkMissing,
    PutBack,
    Recount,
    RowRepair,
    Run,
    SegmentRepair,
    SetAside,
    joined,
    owed_among,
    reconcile,
    told,
)
from holdfast.errors import SegmentMissingError, SeqMovedError, StoreDamagedError
from holdfast.ports import Lease, Maintenance, SealedRows, SessionInfo
from holdfast.runtime.engine.log import Log, against, open_log
from holdfast.stores.fallbacks import load_snapshot
from holdfast.types.records import CompactionSettled, DamageSetAside, Logged, NoticePosted, turn_of

NOTICE = "damage"
# Repairs in one write: some milliseconds of the writer's time. More are made in further writes.
REPAIRS_MAX = 500
# Each round makes the repairs that the one before left, or finds that a message came in between.
_ROUNDS_MAX = 1_000
# Repairs that a notice names; the marks in the log name all.
_TOLD_MAX = 5
_PAGE_ROWS = 1_000


async def open_healed(lease: Lease, store: ports.Log, known: SessionInfo | None = None) -> Log:
    """Open a session's log to work on it, and set aside what is found damaged on the way.

    `known` is what was known of the session a moment ago: with it a counter that is wrong is seen without a read.
    """
    log = await open_log(store, lease.session)
    for _ in range(_ROUNDS_MAX):
        if not _is_hurt(log, known) or not isinstance(store, Maintenance):
            return log
        # Where something came into the inbox, the repairs are found again.
        with suppress(SeqMovedError):
            if not await _heal(lease, _fold_of(log), store):
                # What is wrong is not for us to repair.
                return log
        known = await store.info(lease.session)
        log = await open_log(store, lease.session)
    raise StoreDamagedError(lease.session, log.turn.seq, "repairing it does not come to an end")


def _is_hurt(log: Log, known: SessionInfo | None) -> bool:
    # Where records came since `known` was read, its count is of another moment.
    miscounted = known is not None and known.last_seq == log.turn.seq and known.owed != log.turn.owed
    return bool(log.wounds or log.against_snapshot or miscounted)


class Fold(msgspec.Struct):
    """What folding a log came to, and what was found wrong with it on the way."""

    session: str
    turn: Turn
    wounds: dict[int, str] = msgspec.field(default_factory=dict)
    misfits: set[int] = msgspec.field(default_factory=set)
    against_snapshot: str = ""
    # Messages and requests that some record is about: they are known to have begun or ended.
    spoken_of: set[int] = msgspec.field(default_factory=set)


def _fold_of(log: Log) -> Fold:
    spoken_of = {seq for logged in log.tail for seq in _spoken_of(logged)}
    return Fold(log.session, log.turn, log.wounds, log.misfits, log.against_snapshot, spoken_of)


async def fold_whole(store: ports.Log, session: str) -> Fold:
    """Fold a log from its first record, whatever is kept of it, and note what is wrong. Memory stays flat."""
    snapshot = await load_snapshot(store, session)
    fold = Fold(session, Turn())
    has_holes = False
    while page := await store.read(session, after=fold.turn.seq, limit=_PAGE_ROWS):
        log = Log(session, fold.turn)
        for logged in page:
            log.extend([logged], is_ours=False)
            log.tail.clear()
            has_holes = has_holes or isinstance(logged.record, DamageSetAside) or bool(log.wounds)
            fold.spoken_of.update(_spoken_of(logged))
            if snapshot is not None and logged.seq == snapshot.seq and not has_holes:
                fold.against_snapshot = against(snapshot, log.turn)
        fold.turn = log.turn
        fold.wounds.update(log.wounds)
        fold.misfits.update(log.misfits)
    return fold


async def heal_whole(lease: Lease, store: Maintenance) -> list[LogRepair]:
    """Look at every row and every record of a session, repair what is wrong, and return what that was."""
    made: list[LogRepair] = []
    for _ in range(_ROUNDS_MAX):
        with suppress(SeqMovedError):
            repairs = await _heal(lease, await fold_whole(store, lease.session), store)
            made += repairs
            if not repairs:
                return made
    raise StoreDamagedError(lease.session, 0, "repairing it does not come to an end")


async def needed(store: Maintenance, fold: Fold) -> list[LogRepair]:
    """Return the repairs that a log needs, without making any."""
    found = await _found(fold, store)
    due = islice(_log_repairs(reconcile(found)), REPAIRS_MAX)
    repairs = [one for one in due if not isinstance(one, ClearSealed) or await _is_archived(store, fold.session, one)]
    repairs += [SetAside(seq, fold.wounds[seq]) for seq in sorted(fold.misfits)][: REPAIRS_MAX - len(repairs)]
    moved: list[LogRepair] = [repair for repair in repairs if isinstance(repair, PutBack)]
    # What comes back changes the fold, so the rest is judged anew behind it.
    return moved or await _counted(repairs, found.bad, fold, store)


async def needed_of_segments(store: Maintenance, session: str, copies: Mapping[str, Copy]) -> list[SegmentRepair]:
    """Return what must be done about the segments of a session, given those that the archive does not have whole."""
    found = await _found(Fold(session, Turn()), store)
    segments = tuple(msgspec.structs.replace(one, copy=copies.get(one.name, Copy.WHOLE)) for one in found.segments)
    repairs = reconcile(msgspec.structs.replace(found, segments=segments))
    return [one for one in repairs if isinstance(one, SegmentRepair)]


async def contested(store: Maintenance, session: str) -> list[ClearSealed]:
    """Return what is sealed and live, and must stay live: the archive does not give it back as it is."""
    clears = (one for one in reconcile(await _found(Fold(session, Turn()), store)) if isinstance(one, ClearSealed))
    return [one for one in clears if not await _is_archived(store, session, one)]


async def _is_archived(store: Maintenance, session: str, clear: ClearSealed) -> bool:
    """Whether the archive has, byte for byte, the records that are about to be nowhere else."""
    if not isinstance(store, SealedRows):
        return False
    try:
        for first in range(clear.run.first, clear.run.last + 1, _PAGE_ROWS):
            last = min(first + _PAGE_ROWS - 1, clear.run.last)
            live = await store.live_rows(session, after=first - 1, limit=last - first + 1)
            sealed = await store.sealed_rows(session, first=first, last=last)
            # A checksum holds the number that the session has in its store, so that is not compared.
            if [(row.seq, row.at, row.body) for row in live] != [(row.seq, row.at, row.body) for row in sealed]:
                return False
    except (SegmentMissingError, StoreDamagedError):
        return False
    return True


async def _heal(lease: Lease, fold: Fold, store: Maintenance) -> list[LogRepair]:
    """Make what repairs can be made in one write, and return them."""
    repairs = await needed(store, fold)
    if repairs:
        await store.repair(lease, repairs, [_notice(fold, repairs)], after=fold.turn.seq)
    return repairs


async def _found(fold: Fold, store: Maintenance) -> Found:
    """Look at all live rows: what is missing in one place may stand in another, before it or behind it."""
    # Whether the archive still has them is for `doctor` to find out: opening a session does not read its past.
    sealed = [
        FoundSegment(one.name, Run(one.first, one.last), place, Copy.WHOLE)
        for place, one in enumerate(await store.segments(fold.session), start=1)
    ]
    whole: list[Run] = []
    bad: list[BadRow] = []
    after = None
    while True:
        page = await store.check_rows(fold.session, after=after, limit=_PAGE_ROWS)
        whole, bad, after = joined((*whole, *page.intact)), [*bad, *page.bad], page.until
        if after is None:
            break
    against = FoundSnapshot(fold.turn.seq, fold.against_snapshot) if fold.against_snapshot else None
    return Found(tuple(whole), tuple(bad), tuple(sealed), against)


def _log_repairs(repairs: Iterable[object]) -> Iterable[LogRepair]:
    return (repair for repair in repairs if isinstance(repair, RowRepair | ClearSealed | DropSnapshot))


async def _counted(repairs: list[LogRepair], bad: Iterable[BadRow], fold: Fold, store: Maintenance) -> list[LogRepair]:
    """Say of each hole whether it was a message without an outcome, and set the count to what the records come to."""
    known = await store.info(fold.session)
    kept = known.owed if known is not None and known.last_seq == fold.turn.seq else fold.turn.owed
    rows = {row.seq: row for row in bad}
    spoken_of = fold.spoken_of | {fold.turn.number, *fold.turn.waiting}
    holes = [
        rows.get(repair.seq, BadRow(repair.seq, repair.why))
        for repair in repairs
        if isinstance(repair, SetAside | MarkMissing) and _leaves_hole(repair) and repair.seq not in spoken_of
    ]
    lost = owed_among(holes, kept - fold.turn.owed)
    counted: list[LogRepair] = [
        SetAside(repair.seq, repair.why, is_owed=True)
        if isinstance(repair, SetAside) and repair.seq in lost
        else MarkMissing(repair.seq, repair.why, is_owed=True)
        if isinstance(repair, MarkMissing) and repair.seq in lost
        else repair
        for repair in repairs
    ]
    owed = fold.turn.owed + len(lost)
    if owed != kept:
        counted.append(Recount(owed, f"the records come to {owed} outcomes that are owed, and {kept} is kept"))
    return counted


def _leaves_hole(repair: SetAside | MarkMissing) -> bool:
    return isinstance(repair, MarkMissing) or repair.leaves_mark


def _spoken_of(logged: Logged) -> Iterable[int]:
    """Yield the messages and requests that a record is about: they are known to have begun or ended."""
    if isinstance(logged.record, CompactionSettled):
        yield logged.record.request
    elif (turn := turn_of(logged.record)) is not None:
        yield turn


def _notice(fold: Fold, repairs: Sequence[LogRepair]) -> NoticePosted:
    said = "; ".join(told(repair) for repair in repairs[:_TOLD_MAX])
    more = f"; and {len(repairs) - _TOLD_MAX} more" if len(repairs) > _TOLD_MAX else ""
    sentence = f"This session was damaged on the disk and has been mended: {said}{more}. Everything else is as it was."
    return NoticePosted(fold.turn.number, NOTICE, sentence)


async def check_clean(store: ports.Log, session: str) -> None:
    """Raise `StoreDamagedError` where a log is not as it must be: what cannot be taken back is not done to it."""
    if not isinstance(store, Maintenance):
        return
    found = await _found(Fold(session, Turn()), store)
    first = next(iter(reconcile(found)), None)
    if isinstance(first, RowRepair):
        raise StoreDamagedError(session, first.seq, f"{first.why}; run `holdfast doctor --fix` first")
