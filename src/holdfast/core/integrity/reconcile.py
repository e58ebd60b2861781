"""What a damaged or half-written log must become: from what is found to the repairs, each with its reason in words.

Pure. A log that is as it must be needs no repair, and once the repairs are made there are none left. Nothing here
throws bytes away: what is taken out of a log goes to quarantine, what is forgotten is a copy of what is there.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import TypeAlias, assert_never

import msgspec

# --- what is found -----------------------------------------------------------------------------------------------


class Run(msgspec.Struct, frozen=True):
    """Records without a gap, from the first to the last."""

    first: int
    last: int


class BadRow(msgspec.Struct, frozen=True):
    """A row that does not check out, where it says it stands."""

    seq: int
    why: str
    # The place for which its checksum holds: it was moved there from. 0: none is known.
    fits_at: int = 0
    # Its bytes begin as those of a message do.
    looks_like_input: bool = False


class Copy(StrEnum):
    """How a segment stands in the archive."""

    WHOLE = "whole"
    DAMAGED = "damaged"
    MISSING = "missing"


class FoundSegment(msgspec.Struct, frozen=True):
    """A segment that the archive has, or that the log names. `seal` is the record that sealed it; 0: there is none."""

    name: str
    run: Run
    seal: int
    copy: Copy


class FoundSnapshot(msgspec.Struct, frozen=True):
    """A kept fold. `against` says why it cannot be used; "" where it can."""

    seq: int
    against: str = ""


class Found(msgspec.Struct, frozen=True):
    """What one session's store holds."""

    # Rows that check out, in order, and those that do not.
    whole: tuple[Run, ...]
    bad: tuple[BadRow, ...] = ()
    segments: tuple[FoundSegment, ...] = ()
    snapshot: FoundSnapshot | None = None
    # What is kept of the outcomes owed, and what the records say. None: it is not kept, or was not counted.
    owed_kept: int | None = None
    owed_counted: int | None = None


# --- what must be done -------------------------------------------------------------------------------------------


class SetAside(msgspec.Struct, frozen=True):
    """Keep the bytes of a row in quarantine; where it was a record, a mark says so in its place."""

    seq: int
    why: str
    leaves_mark: bool = True
    is_owed: bool = False


class PutBack(msgspec.Struct, frozen=True):
    """Move a row to the place for which its checksum holds."""

    seq: int
    to: int
    why: str


class MarkMissing(msgspec.Struct, frozen=True):
    """Say in the place of a record that it is gone."""

    seq: int
    why: str
    is_owed: bool = False


class ClearSealed(msgspec.Struct, frozen=True):
    """Take records out of the live rows that are safe in a segment."""

    run: Run
    why: str


class ForgetSegment(msgspec.Struct, frozen=True):
    """Remove a segment whose records are all somewhere else."""

    name: str
    why: str


class AdoptSegment(msgspec.Struct, frozen=True):
    """Record a segment's seal again: it is the only one that has its records."""

    name: str
    run: Run
    why: str


class PutAgain(msgspec.Struct, frozen=True):
    """Put a segment into the archive again, from its records: they are still live."""

    name: str
    run: Run
    why: str


class LoseSegment(msgspec.Struct, frozen=True):
    """Read its records as marks, each in its place, until it is restored. Nothing is written: it may only be away."""

    name: str
    runs: tuple[Run, ...]
    why: str


class TrimSegment(msgspec.Struct, frozen=True):
    """Let a segment stand only for those of its records that no earlier one has."""

    name: str
    runs: tuple[Run, ...]
    why: str


class DropSnapshot(msgspec.Struct, frozen=True):
    """Throw a fold away; it is made again from the records."""

    seq: int
    why: str


class Recount(msgspec.Struct, frozen=True):
    """Keep the number of outcomes owed that the records come to."""

    owed: int
    why: str


RowRepair: TypeAlias = SetAside | PutBack | MarkMissing
SegmentRepair: TypeAlias = ForgetSegment | AdoptSegment | PutAgain | LoseSegment | TrimSegment
# What a store does by itself, in one piece.
LogRepair: TypeAlias = RowRepair | ClearSealed | DropSnapshot | Recount
Repair: TypeAlias = LogRepair | SegmentRepair


def reconcile(found: Found) -> tuple[Repair, ...]:
    """Return what must be done; nothing where all is as it must be."""
    sealed, of_segments = _reconcile_segments(found)
    of_rows = _reconcile_rows(found, sealed)
    return (*of_rows, *of_segments, *_reconcile_snapshot(found), *_reconcile_counters(found))


# --- rows --------------------------------------------------------------------------------------------------------


def _reconcile_rows(found: Found, sealed: Sequence[Run]) -> Iterator[RowRepair]:
    """Every place from 1 to the end has one row that checks out, a segment, or a mark."""
    held = joined((*found.whole, *sealed))
    vouched = found.snapshot.seq if found.snapshot and not found.snapshot.against else 0
    end = max([vouched, *(run.last for run in held)])
    taken: list[Run] = list(held)
    for row in sorted(found.bad, key=lambda row: (row.fits_at == 0, row.seq)):
        if row.fits_at and not is_held(row.fits_at, taken):
            taken = joined((*taken, Run(row.fits_at, row.fits_at)))
            end = max(end, row.fits_at)
            yield PutBack(row.seq, row.fits_at, f"its row says {row.seq}, and its checksum holds for {row.fits_at}")
        elif 1 <= row.seq <= end + 1 and not is_held(row.seq, taken):
            # A row right behind the end is the newest record; one far behind it has a number that nobody can believe.
            taken = joined((*taken, Run(row.seq, row.seq)))
            end = max(end, row.seq)
            yield SetAside(row.seq, row.why)
        else:
            yield SetAside(row.seq, f"{row.why}, and no record is missing where it says it stands", leaves_mark=False)
    for seq in missing_in(end, taken):
        yield MarkMissing(seq, "its row is missing")


def joined(runs: Iterable[Run]) -> list[Run]:
    """Return the same places as few runs, in order."""
    result: list[Run] = []
    for run in sorted(runs, key=lambda run: run.first):
        if result and run.first <= result[-1].last + 1:
            result[-1] = Run(result[-1].first, max(result[-1].last, run.last))
        else:
            result.append(run)
    return result


def is_held(seq: int, runs: Iterable[Run]) -> bool:
    """Whether a place is in one of these runs."""
    return any(run.first <= seq <= run.last for run in runs)


def missing_in(end: int, runs: Iterable[Run]) -> Iterator[int]:
    """Yield the places from 1 to the end that no run has."""
    expected = 1
    for run in joined(runs):
        yield from range(expected, run.first)
        expected = run.last + 1
    yield from range(expected, end + 1)


def without(run: Run, others: Iterable[Run]) -> list[Run]:
    """Return what is left of a run when the places of others are taken out."""
    left, first = [], run.first
    for other in joined(others):
        if other.last < first or other.first > run.last:
            continue
        if other.first > first:
            left.append(Run(first, other.first - 1))
        first = other.last + 1
    return [*left, Run(first, run.last)] if first <= run.last else left


# --- segments ----------------------------------------------------------------------------------------------------


def _reconcile_segments(found: Found) -> tuple[list[Run], list[SegmentRepair | ClearSealed]]:
    """Return the places that segments answer for, and what must be done about the segments."""
    live = joined(found.whole)
    sealed: list[Run] = []
    repairs: list[SegmentRepair | ClearSealed] = []
    # Those with a seal first, in the order of their seals: where two overlap, the earlier one counts.
    for segment in sorted(found.segments, key=lambda one: (one.seal == 0, one.seal, one.run.first, one.name)):
        if segment.copy is not Copy.WHOLE:
            repair = _without_copy(segment, live, sealed)
            repairs.append(repair)
            sealed += [segment.run] if isinstance(repair, PutAgain) else []
            continue
        own = without(segment.run, sealed)
        elsewhere = not own if segment.seal else not without(segment.run, (*sealed, *live))
        if elsewhere:
            where = (
                "an earlier segment has all of its records" if segment.seal else "its records are all there without it"
            )
            repairs.append(ForgetSegment(segment.name, where))
            continue
        if not segment.seal:
            repairs.append(AdoptSegment(segment.name, segment.run, "it has no seal, and records that nothing else has"))
        if own != [segment.run]:
            repairs.append(TrimSegment(segment.name, tuple(own), "an earlier segment has the others of its records"))
        sealed += own
    why = "they are sealed in a segment, and were not taken out of the live records"
    return sealed, [*repairs, *(ClearSealed(run, why) for run in _overlaps(live, sealed))]


def _without_copy(segment: FoundSegment, live: Sequence[Run], sealed: Sequence[Run]) -> SegmentRepair:
    why = f"its segment is {segment.copy.value}"
    if not segment.seal:
        return ForgetSegment(segment.name, f"{why}, and no record seals it")
    if not without(segment.run, live) and without(segment.run, sealed) == [segment.run]:
        return PutAgain(segment.name, segment.run, f"{why}, and its records are live")
    if lost := without(segment.run, (*live, *sealed)):
        return LoseSegment(segment.name, tuple(lost), why)
    return ForgetSegment(segment.name, f"{why}, and its records are all there without it")


def _overlaps(runs: Iterable[Run], others: Iterable[Run]) -> Iterator[Run]:
    others = joined(others)
    for run in runs:
        for other in others:
            first, last = max(run.first, other.first), min(run.last, other.last)
            if first <= last:
                yield Run(first, last)


# --- folds and counters ------------------------------------------------------------------------------------------


def _reconcile_snapshot(found: Found) -> Iterator[DropSnapshot]:
    if found.snapshot is not None and found.snapshot.against:
        yield DropSnapshot(found.snapshot.seq, found.snapshot.against)


def _reconcile_counters(found: Found) -> Iterator[Recount]:
    if found.owed_counted is None or found.owed_kept == found.owed_counted:
        return
    kept = "nothing is kept about it" if found.owed_kept is None else f"{found.owed_kept} is kept"
    yield Recount(found.owed_counted, f"the records come to {found.owed_counted} outcomes that are owed, and {kept}")


def owed_among(holes: Collection[BadRow], lacking: int) -> frozenset[int]:
    """Return which lost records were messages without an outcome: as many as are lacking, the likeliest first."""
    likely = sorted(holes, key=lambda row: (row.looks_like_input, row.seq), reverse=True)
    return frozenset(row.seq for row in likely[: max(lacking, 0)])


# --- in words ----------------------------------------------------------------------------------------------------


def told(repair: Repair) -> str:
    """Say what is done, and why."""
    match repair:
        case SetAside(seq=seq, leaves_mark=True):
            what = f"record {seq} is set aside, and a mark left in its place"
        case SetAside(seq=seq):
            what = f"a row that says it is record {seq} is set aside"
        case PutBack(seq=seq, to=to):
            what = f"the row of record {to} is put back from {seq}"
        case MarkMissing(seq=seq):
            what = f"record {seq} is marked as lost"
        case ClearSealed(run=run):
            what = f"records {run.first} to {run.last} are taken out of the live ones"
        case ForgetSegment(name=name):
            what = f"segment {name} is removed"
        case AdoptSegment(name=name, run=run):
            what = f"segment {name} is sealed again for records {run.first} to {run.last}"
        case PutAgain(name=name, run=run):
            what = f"segment {name} is put into the archive again from records {run.first} to {run.last}"
        case LoseSegment(name=name, runs=runs):
            what = f"segment {name} is given up with records {_places(runs)}"
        case TrimSegment(name=name, runs=runs):
            what = f"segment {name} stands for {_places(runs)} alone"
        case DropSnapshot(seq=seq):
            what = f"the fold kept at record {seq} is dropped and made again"
        case Recount(owed=owed):
            what = f"the number of outcomes owed is set to {owed}"
        case _:
            assert_never(repair)
    return f"{what}: {repair.why}"


def _places(runs: Iterable[Run]) -> str:
    return ", ".join(f"{run.first} to {run.last}" for run in runs)
