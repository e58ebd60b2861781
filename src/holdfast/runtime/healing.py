"""Healing a session on the way: what was found damaged is set aside under the lease, in one write, and told.

Nothing more is read, and nothing written, for a log that is healthy. What must be done is decided by `core.reconcile`;
here is only how. A process may die before or after the write: the next one finds the same damage, or none.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import islice

from holdfast.core.reconcile import (
    BadRow,
    DropSnapshot,
    Found,
    FoundSnapshot,
    LogRepair,
    MarkMissing,
    PutBack,
    Recount,
    RowRepair,
    Run,
    SetAside,
    joined,
    owed_among,
    reconcile,
    told,
)
from holdfast.core.records import CompactionSettled, Logged, NoticePosted, turn_of
from holdfast.errors import SeqMovedError, StoreDamagedError
from holdfast.ports import Lease, SessionInfo, Store
from holdfast.runtime.log import Log, open_log

NOTICE = "damage"
# Repairs in one write: some milliseconds of the writer's time. More are made in further writes.
REPAIRS_MAX = 500
# Each round makes the repairs that the one before left, or finds that a message came in between.
_ROUNDS_MAX = 1_000
# Repairs that a notice names; the marks in the log name all.
_TOLD_MAX = 5
_PAGE_ROWS = 1_000


async def open_healed(lease: Lease, store: Store, known: SessionInfo | None = None) -> Log:
    """Open a session's log to work on it, and set aside what is found damaged on the way.

    `known` is what was known of the session a moment ago: with it a counter that is wrong is seen without a read.
    """
    log = await open_log(store, lease.session)
    for _ in range(_ROUNDS_MAX):
        if not _is_hurt(log, known):
            return log
        # Where something came into the inbox, the repairs are found again.
        with suppress(SeqMovedError):
            await _heal(lease, log, store)
        known = await store.info(lease.session)
        log = await open_log(store, lease.session)
    raise StoreDamagedError(lease.session, log.turn.seq, "repairing it does not come to an end")


def _is_hurt(log: Log, known: SessionInfo | None) -> bool:
    # Where records came since `known` was read, its count is of another moment.
    miscounted = known is not None and known.last_seq == log.turn.seq and known.owed != log.turn.owed
    return bool(log.wounds or log.against_snapshot or miscounted)


async def _heal(lease: Lease, log: Log, store: Store) -> None:
    """Make what repairs can be made in one write."""
    found = await _found(log, store)
    repairs: list[LogRepair] = [*islice(_log_repairs(reconcile(found)), REPAIRS_MAX)]
    repairs += [SetAside(seq, log.wounds[seq]) for seq in sorted(log.misfits)][: REPAIRS_MAX - len(repairs)]
    moved = [repair for repair in repairs if isinstance(repair, PutBack)]
    if not moved:
        repairs = await _counted(repairs, found.bad, log, store)
    if moved or repairs:
        # What comes back changes the fold, so the rest is judged anew behind it.
        chosen = moved or repairs
        await store.mend(lease, chosen, [_notice(log, chosen)], after=log.turn.seq)


async def _found(log: Log, store: Store) -> Found:
    """Look at the rows from the first wound on: what lies before was read and is whole, or lies before the view."""
    whole: list[Run] = []
    bad: list[BadRow] = []
    first = min(log.wounds, default=log.turn.seq + 1)
    if log.wounds:
        whole.append(Run(1, first - 1))
        after: int | None = first - 1
        while after is not None:
            page = await store.examine(log.session, after=after, limit=_PAGE_ROWS)
            whole, bad, after = joined((*whole, *page.whole)), [*bad, *page.bad], page.until
    else:
        whole.append(Run(1, log.turn.seq))
    against = FoundSnapshot(log.turn.seq, log.against_snapshot) if log.against_snapshot else None
    return Found(tuple(run for run in whole if run.first <= run.last), tuple(bad), snapshot=against)


def _log_repairs(repairs: Iterable[object]) -> Iterable[LogRepair]:
    return (repair for repair in repairs if isinstance(repair, RowRepair | DropSnapshot))


async def _counted(repairs: list[LogRepair], bad: Iterable[BadRow], log: Log, store: Store) -> list[LogRepair]:
    """Say of each hole whether it was a message without an outcome, and set the count to what the records come to."""
    known = await store.info(log.session)
    kept = known.owed if known is not None and known.last_seq == log.turn.seq else log.turn.owed
    rows = {row.seq: row for row in bad}
    spoken_of = {seq for logged in log.tail for seq in _spoken_of(logged)} | {log.turn.number, *log.turn.waiting}
    holes = [
        rows.get(repair.seq, BadRow(repair.seq, repair.why))
        for repair in repairs
        if isinstance(repair, SetAside | MarkMissing) and _leaves_hole(repair) and repair.seq not in spoken_of
    ]
    lost = owed_among(holes, kept - log.turn.owed)
    counted: list[LogRepair] = [
        SetAside(repair.seq, repair.why, is_owed=True)
        if isinstance(repair, SetAside) and repair.seq in lost
        else MarkMissing(repair.seq, repair.why, is_owed=True)
        if isinstance(repair, MarkMissing) and repair.seq in lost
        else repair
        for repair in repairs
    ]
    owed = log.turn.owed + len(lost)
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


def _notice(log: Log, repairs: Sequence[LogRepair]) -> NoticePosted:
    said = "; ".join(told(repair) for repair in repairs[:_TOLD_MAX])
    more = f"; and {len(repairs) - _TOLD_MAX} more" if len(repairs) > _TOLD_MAX else ""
    sentence = f"This session was damaged on the disk and has been mended: {said}{more}. Everything else is as it was."
    return NoticePosted(log.turn.number, NOTICE, sentence)


async def check_clean(store: Store, session: str) -> None:
    """Raise `StoreDamagedError` where a log is not as it must be: what cannot be taken back is not done to it."""
    whole: list[Run] = []
    bad: list[BadRow] = []
    after: int | None = None
    while True:
        page = await store.examine(session, after=after, limit=_PAGE_ROWS)
        whole, bad, after = joined((*whole, *page.whole)), [*bad, *page.bad], page.until
        if after is None:
            break
    first = next(iter(reconcile(Found(tuple(whole), tuple(bad)))), None)
    if isinstance(first, SetAside | PutBack | MarkMissing):
        raise StoreDamagedError(session, first.seq, f"{first.why}; run `holdfast doctor --fix` first")
