"""Repair of a damaged session while it is opened: quarantine damage under the lease, in one write, with a notice.

A healthy log costs no further read and no write. `core.integrity.reconcile` decides the repairs; this module performs
them. If the process dies before or after the write, the next one finds the same damage or none.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
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
    RowRepair,
    Run,
    SegmentRepair,
    SetAside,
    describe,
    merge_runs,
    owed_among,
    reconcile,
    recount,
)
from holdfast.errors import SegmentMissingError, SeqMovedError, StoreDamagedError
from holdfast.ports import Lease, Maintenance, SealedRows, SessionInfo
from holdfast.runtime.engine.log import Log, against, open_log
from holdfast.stores.fallbacks import load_snapshot
from holdfast.types.records import CompactionSettled, DamageSetAside, Logged, NoticePosted, turn_of

NOTICE = "damage"
# Repairs per write: some milliseconds of the writer's time.
REPAIRS_MAX = 500
# Each round makes the repairs that the one before left, or starts again after a new inbox record.
_ROUNDS_MAX = 1_000
# Repairs listed in a notice; the markers in the log list all.
_LISTED_MAX = 5
_PAGE_ROWS = 1_000


async def open_healed(
    lease: Lease, store: ports.Log, known: SessionInfo | None = None, opened: Log | None = None
) -> Log:
    """Open the log of a session for work, and set aside damage that is found.

    `known` is recent information on the session: it shows a wrong counter without a further read. `opened` is its log
    as an earlier worker left it.
    """
    if opened is None:
        log = await open_log(store, lease.session)
    else:
        log = opened
        await log.catch_up(store)
    for _ in range(_ROUNDS_MAX):
        if not _is_damaged(log, known) or not isinstance(store, Maintenance):
            return log
        # After a new inbox record the repairs are computed again.
        with suppress(SeqMovedError):
            if not await _heal(lease, _fold_of(log), store):
                # Not repairable here.
                return log
        known = await store.info(lease.session)
        log = await open_log(store, lease.session)
    raise StoreDamagedError(lease.session, log.turn.seq, f"damage is left after {_ROUNDS_MAX:,} rounds of repair")


def _is_damaged(log: Log, known: SessionInfo | None) -> bool:
    # The counter in `known` is comparable only at the same last record.
    miscounted = known is not None and known.last_seq == log.turn.seq and known.owed != log.turn.owed
    return bool(log.wounds or log.against_snapshot or miscounted)


class Fold(msgspec.Struct):
    """The fold of a log, and the damage found in it."""

    session: str
    turn: Turn
    wounds: dict[int, str] = msgspec.field(default_factory=dict)
    misfits: set[int] = msgspec.field(default_factory=set)
    against_snapshot: str = ""
    # Inputs and requests that a later record refers to: they have begun or ended.
    referenced: set[int] = msgspec.field(default_factory=set)


def _fold_of(log: Log) -> Fold:
    referenced = {seq for logged in log.tail for seq in _referenced(logged)}
    return Fold(log.session, log.turn, log.wounds, log.misfits, log.against_snapshot, referenced)


async def fold_whole(store: ports.Log, session: str) -> Fold:
    """Fold a log from its first record without the snapshot, and collect damage. Memory stays flat."""
    snapshot = await load_snapshot(store, session)
    fold = Fold(session, Turn())
    has_gaps = False
    while page := await store.read(session, after=fold.turn.seq, limit=_PAGE_ROWS):
        log = Log(session, fold.turn)
        for logged in page:
            log.extend([logged], is_ours=False)
            log.tail.clear()
            has_gaps = has_gaps or isinstance(logged.record, DamageSetAside) or bool(log.wounds)
            fold.referenced.update(_referenced(logged))
            if snapshot is not None and logged.seq == snapshot.seq and not has_gaps:
                fold.against_snapshot = against(snapshot, log.turn)
        fold.turn = log.turn
        fold.wounds.update(log.wounds)
        fold.misfits.update(log.misfits)
    return fold


async def heal_whole(lease: Lease, store: Maintenance) -> list[LogRepair]:
    """Check every row and record of a session, repair the damage, and return the repairs."""
    made: list[LogRepair] = []
    for _ in range(_ROUNDS_MAX):
        with suppress(SeqMovedError):
            repairs = await _heal(lease, await fold_whole(store, lease.session), store)
            made += repairs
            if not repairs:
                return made
    raise StoreDamagedError(lease.session, 0, f"damage is left after {_ROUNDS_MAX:,} rounds of repair")


async def needed(store: Maintenance, fold: Fold) -> list[LogRepair]:
    """Return the repairs that a log needs, without making any."""
    found = await _found(fold, store)
    due = islice(_log_repairs(reconcile(found)), REPAIRS_MAX)
    repairs = [one for one in due if not isinstance(one, ClearSealed) or await _is_archived(store, fold.session, one)]
    repairs += [SetAside(seq, fold.wounds[seq]) for seq in sorted(fold.misfits)][: REPAIRS_MAX - len(repairs)]
    moved: list[LogRepair] = [repair for repair in repairs if isinstance(repair, PutBack)]
    # Records put back change the fold, so the other repairs are computed again after them.
    return moved or await _with_pending_count(repairs, found.bad, fold, store)


async def needed_of_segments(store: Maintenance, session: str, copies: Mapping[str, Copy]) -> list[SegmentRepair]:
    """Return the repairs of the segments of a session, given the condition of their copies in the archive."""
    found = await _found(Fold(session, Turn()), store)
    segments = tuple(msgspec.structs.replace(one, copy=copies.get(one.name, Copy.WHOLE)) for one in found.segments)
    repairs = reconcile(msgspec.structs.replace(found, segments=segments))
    return [one for one in repairs if isinstance(one, SegmentRepair)]


async def contested(store: Maintenance, session: str) -> list[ClearSealed]:
    """Return the runs that are sealed and live and must stay live, because the archive has no identical copy."""
    clears = (one for one in reconcile(await _found(Fold(session, Turn()), store)) if isinstance(one, ClearSealed))
    return [one for one in clears if not await _is_archived(store, session, one)]


async def _is_archived(store: Maintenance, session: str, clear: ClearSealed) -> bool:
    """Return whether the archive has a byte-identical copy of the records that are about to be cleared."""
    if not isinstance(store, SealedRows):
        return False
    try:
        for first in range(clear.run.first, clear.run.last + 1, _PAGE_ROWS):
            last = min(first + _PAGE_ROWS - 1, clear.run.last)
            live = await store.live_rows(session, after=first - 1, limit=last - first + 1)
            sealed = await store.sealed_rows(session, first=first, last=last)
            # Checksums are not compared: they include the session's row number in its store.
            if [(row.seq, row.at, row.body) for row in live] != [(row.seq, row.at, row.body) for row in sealed]:
                return False
    except (SegmentMissingError, StoreDamagedError):
        return False
    return True


async def _heal(lease: Lease, fold: Fold, store: Maintenance) -> list[LogRepair]:
    """Make the repairs of one write, and return them."""
    repairs = await needed(store, fold)
    if repairs:
        await store.repair(lease, repairs, [_notice(fold, repairs)], after=fold.turn.seq)
    return repairs


async def _found(fold: Fold, store: Maintenance) -> Found:
    """Examine all live rows: a record missing in one place can be in another."""
    # Opening a session does not read the archive; `doctor` checks the segments there.
    sealed = [
        FoundSegment(one.name, Run(one.first, one.last), place, Copy.WHOLE)
        for place, one in enumerate(await store.segments(fold.session), start=1)
    ]
    whole: list[Run] = []
    bad: list[BadRow] = []
    after = None
    while True:
        page = await store.check_rows(fold.session, after=after, limit=_PAGE_ROWS)
        whole, bad, after = merge_runs((*whole, *page.intact)), [*bad, *page.bad], page.until
        if after is None:
            break
    against = FoundSnapshot(fold.turn.seq, fold.against_snapshot) if fold.against_snapshot else None
    return Found(tuple(whole), tuple(bad), tuple(sealed), against)


def _log_repairs(repairs: Iterable[object]) -> Iterable[LogRepair]:
    return (repair for repair in repairs if isinstance(repair, RowRepair | ClearSealed | DropSnapshot))


async def _with_pending_count(
    repairs: list[LogRepair], bad: Iterable[BadRow], fold: Fold, store: Maintenance
) -> list[LogRepair]:
    """Mark the gaps that were inputs without an outcome, and correct the stored count of pending inputs."""
    known = await store.info(fold.session)
    stored = known.owed if known is not None and known.last_seq == fold.turn.seq else fold.turn.owed
    lost = owed_among(_gaps(repairs, bad, fold), stored - fold.turn.owed)
    marked: list[LogRepair] = [_as_pending(repair, lost) for repair in repairs]
    repair = recount(stored, fold.turn.owed + len(lost))
    return marked if repair is None else [*marked, repair]


def _gaps(repairs: Iterable[LogRepair], bad: Iterable[BadRow], fold: Fold) -> list[BadRow]:
    """Return the rows that the repairs leave as gaps and that no other record refers to."""
    rows = {row.seq: row for row in bad}
    referenced = fold.referenced | {fold.turn.number, *fold.turn.waiting}
    return [
        rows.get(repair.seq, BadRow(repair.seq, repair.why))
        for repair in repairs
        if isinstance(repair, SetAside | MarkMissing) and _leaves_gap(repair) and repair.seq not in referenced
    ]


def _leaves_gap(repair: SetAside | MarkMissing) -> bool:
    return isinstance(repair, MarkMissing) or repair.leaves_mark


def _as_pending(repair: LogRepair, lost: Container[int]) -> LogRepair:
    """Return a repair, marked as a lost pending input if it is one."""
    match repair:
        case SetAside(seq=seq, why=why) if seq in lost:
            return SetAside(seq, why, is_owed=True)
        case MarkMissing(seq=seq, why=why) if seq in lost:
            return MarkMissing(seq, why, is_owed=True)
        case _:
            return repair


def _referenced(logged: Logged) -> Iterable[int]:
    """Yield the inputs and requests that a record refers to: they have begun or ended."""
    if isinstance(logged.record, CompactionSettled):
        yield logged.record.request
    elif (turn := turn_of(logged.record)) is not None:
        yield turn


def _notice(fold: Fold, repairs: Sequence[LogRepair]) -> NoticePosted:
    listed = "; ".join(describe(repair) for repair in repairs[:_LISTED_MAX])
    more = f"; and {len(repairs) - _LISTED_MAX} more" if len(repairs) > _LISTED_MAX else ""
    sentence = f"This session was damaged on disk and has been repaired: {listed}{more}. Everything else is unchanged."
    return NoticePosted(fold.turn.number, NOTICE, sentence)


async def check_clean(store: ports.Log, session: str) -> None:
    """Raise `StoreDamagedError` if a log is damaged: nothing irreversible is done to a damaged log."""
    if not isinstance(store, Maintenance):
        return
    found = await _found(Fold(session, Turn()), store)
    first = next(iter(reconcile(found)), None)
    if isinstance(first, RowRepair):
        raise StoreDamagedError(session, first.seq, f"{first.why}; run `holdfast doctor --fix` first")
