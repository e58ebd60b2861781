"""Reconcile a damaged or half-written log: from findings to repairs, each with its reason.

Pure and idempotent: an intact log needs no repair, and after the repairs there are none left. Repairs do not delete
data: damaged rows are moved to quarantine, and removed segments are copies of other records.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import TypeAlias, assert_never

import msgspec

# --- Findings ---


class Run(msgspec.Struct, frozen=True):
    """A range of records without a gap."""

    first: int
    last: int


class BadRow(msgspec.Struct, frozen=True):
    """A row whose checksum does not hold for its seq."""

    seq: int
    why: str
    # The seq for which its checksum holds: the row was moved from there. 0: unknown.
    fits_at: int = 0
    # Its bytes begin like an input message.
    looks_like_input: bool = False


class Copy(StrEnum):
    """State of a segment in the archive."""

    WHOLE = "whole"
    DAMAGED = "damaged"
    MISSING = "missing"


class FoundSegment(msgspec.Struct, frozen=True):
    """A segment in the archive or referenced by the log. `seal` is its `SegmentSealed` record; 0: none."""

    name: str
    run: Run
    seal: int
    copy: Copy


class FoundSnapshot(msgspec.Struct, frozen=True):
    """A stored snapshot. `against` is the reason why it is unusable; "" if it is usable."""

    seq: int
    against: str = ""


class Found(msgspec.Struct, frozen=True):
    """Findings about one session in its store."""

    # Intact rows, in order, and damaged ones.
    whole: tuple[Run, ...]
    bad: tuple[BadRow, ...] = ()
    segments: tuple[FoundSegment, ...] = ()
    snapshot: FoundSnapshot | None = None


# --- Repairs ---


class SetAside(msgspec.Struct, frozen=True):
    """Move a row to quarantine; if it was a record, a mark replaces it."""

    seq: int
    why: str
    leaves_mark: bool = True
    is_owed: bool = False


class PutBack(msgspec.Struct, frozen=True):
    """Move a row back to the seq for which its checksum holds."""

    seq: int
    to: int
    why: str


class MarkMissing(msgspec.Struct, frozen=True):
    """Write a mark for a missing record."""

    seq: int
    why: str
    is_owed: bool = False


class ClearSealed(msgspec.Struct, frozen=True):
    """Delete live rows that are stored in a segment."""

    run: Run
    why: str


class ForgetSegment(msgspec.Struct, frozen=True):
    """Remove a segment whose records are all stored elsewhere."""

    name: str
    why: str


class AdoptSegment(msgspec.Struct, frozen=True):
    """Write a seal for a segment that has records which are stored nowhere else."""

    name: str
    run: Run
    why: str


class PutAgain(msgspec.Struct, frozen=True):
    """Rebuild a segment in the archive from its records, which are still live."""

    name: str
    run: Run
    why: str


class LoseSegment(msgspec.Struct, frozen=True):
    """Read a lost segment's records as marks until it is restored. Nothing is written: it may be away temporarily."""

    name: str
    runs: tuple[Run, ...]
    why: str


class TrimSegment(msgspec.Struct, frozen=True):
    """Restrict a segment to the records that no earlier segment has."""

    name: str
    runs: tuple[Run, ...]
    why: str


class DropSnapshot(msgspec.Struct, frozen=True):
    """Delete a snapshot; it is rebuilt from the records."""

    seq: int
    why: str


class Recount(msgspec.Struct, frozen=True):
    """Store the number of pending outcomes counted from the records."""

    owed: int
    why: str


RowRepair: TypeAlias = SetAside | PutBack | MarkMissing
SegmentRepair: TypeAlias = ForgetSegment | AdoptSegment | PutAgain | LoseSegment | TrimSegment
# Repairs that a store applies in one transaction.
LogRepair: TypeAlias = RowRepair | ClearSealed | DropSnapshot | Recount
Repair: TypeAlias = LogRepair | SegmentRepair


def reconcile(found: Found) -> tuple[Repair, ...]:
    """Return the repairs; none for an intact log."""
    sealed, of_segments = _reconcile_segments(found)
    of_rows = _reconcile_rows(found, sealed)
    return (*of_rows, *of_segments, *_reconcile_snapshot(found))


# --- Rows ---


def _reconcile_rows(found: Found, sealed: Sequence[Run]) -> Iterator[RowRepair]:
    """Repair rows until every seq from 1 to the end has an intact row, a segment, or a mark."""
    held = merge_runs((*found.whole, *sealed))
    snapshot_seq = found.snapshot.seq if found.snapshot and not found.snapshot.against else 0
    end = max([snapshot_seq, *(run.last for run in held)])
    taken: list[Run] = list(held)
    for row in sorted(found.bad, key=lambda row: (row.fits_at == 0, row.seq)):
        if row.fits_at and not is_held(row.fits_at, taken):
            taken = merge_runs((*taken, Run(row.fits_at, row.fits_at)))
            end = max(end, row.fits_at)
            yield PutBack(row.seq, row.fits_at, f"its row has seq {row.seq}, but its checksum holds for {row.fits_at}")
        elif 1 <= row.seq <= end + 1 and not is_held(row.seq, taken):
            # A row right after the end is the newest record; a seq far beyond it is implausible.
            taken = merge_runs((*taken, Run(row.seq, row.seq)))
            end = max(end, row.seq)
            yield SetAside(row.seq, row.why)
        else:
            yield SetAside(row.seq, f"{row.why}, and no record is missing at its seq", leaves_mark=False)
    for seq in missing_in(end, taken):
        yield MarkMissing(seq, "its row is missing")


def merge_runs(runs: Iterable[Run]) -> list[Run]:
    """Merge overlapping and adjacent runs, in order."""
    result: list[Run] = []
    for run in sorted(runs, key=lambda run: run.first):
        if result and run.first <= result[-1].last + 1:
            result[-1] = Run(result[-1].first, max(result[-1].last, run.last))
        else:
            result.append(run)
    return result


def is_held(seq: int, runs: Iterable[Run]) -> bool:
    """Return whether a seq is in one of these runs."""
    return any(run.first <= seq <= run.last for run in runs)


def missing_in(end: int, runs: Iterable[Run]) -> Iterator[int]:
    """Yield the seqs from 1 to the end that no run contains."""
    expected = 1
    for run in merge_runs(runs):
        yield from range(expected, run.first)
        expected = run.last + 1
    yield from range(expected, end + 1)


def subtract_runs(run: Run, others: Iterable[Run]) -> list[Run]:
    """Subtract runs from a run."""
    left, first = [], run.first
    for other in merge_runs(others):
        if other.last < first or other.first > run.last:
            continue
        if other.first > first:
            left.append(Run(first, other.first - 1))
        first = other.last + 1
    return [*left, Run(first, run.last)] if first <= run.last else left


# --- Segments ---


def _reconcile_segments(found: Found) -> tuple[list[Run], list[SegmentRepair | ClearSealed]]:
    """Return the runs stored in segments, and the repairs of segments."""
    live = merge_runs(found.whole)
    sealed: list[Run] = []
    repairs: list[SegmentRepair | ClearSealed] = []
    # Sealed segments first, in the order of their seals: if two overlap, the earlier one counts.
    for segment in sorted(found.segments, key=lambda one: (one.seal == 0, one.seal, one.run.first, one.name)):
        if segment.copy is not Copy.WHOLE:
            repair = _without_copy(segment, live, sealed)
            repairs.append(repair)
            sealed += [segment.run] if isinstance(repair, PutAgain) else []
            continue
        own = subtract_runs(segment.run, sealed)
        is_elsewhere = not own if segment.seal else not subtract_runs(segment.run, (*sealed, *live))
        if is_elsewhere:
            where = (
                "an earlier segment has all of its records" if segment.seal else "its records are all stored elsewhere"
            )
            repairs.append(ForgetSegment(segment.name, where))
            continue
        if not segment.seal:
            repairs.append(
                AdoptSegment(segment.name, segment.run, "it has no seal, and records that are stored nowhere else")
            )
        if own != [segment.run]:
            repairs.append(TrimSegment(segment.name, tuple(own), "an earlier segment has its other records"))
        sealed += own
    why = "they are sealed in a segment, but still in the live records"
    return sealed, [*repairs, *(ClearSealed(run, why) for run in _overlaps(live, sealed))]


def _without_copy(segment: FoundSegment, live: Sequence[Run], sealed: Sequence[Run]) -> SegmentRepair:
    why = f"its segment is {segment.copy.value}"
    if not segment.seal:
        return ForgetSegment(segment.name, f"{why}, and no record seals it")
    if not subtract_runs(segment.run, live) and subtract_runs(segment.run, sealed) == [segment.run]:
        return PutAgain(segment.name, segment.run, f"{why}, and its records are live")
    if lost := subtract_runs(segment.run, (*live, *sealed)):
        return LoseSegment(segment.name, tuple(lost), why)
    return ForgetSegment(segment.name, f"{why}, and its records are all stored elsewhere")


def _overlaps(runs: Iterable[Run], others: Iterable[Run]) -> Iterator[Run]:
    others = merge_runs(others)
    for run in runs:
        for other in others:
            first, last = max(run.first, other.first), min(run.last, other.last)
            if first <= last:
                yield Run(first, last)


# --- Snapshots and counters ---


def _reconcile_snapshot(found: Found) -> Iterator[DropSnapshot]:
    if found.snapshot is not None and found.snapshot.against:
        yield DropSnapshot(found.snapshot.seq, found.snapshot.against)


def recount(stored: int, counted: int) -> Recount | None:
    """Return the repair of a stored count of pending outcomes; None if the records have as many."""
    if stored == counted:
        return None
    return Recount(counted, f"the records have {counted} pending outcomes, but {stored} is stored")


def owed_among(holes: Collection[BadRow], lacking: int) -> frozenset[int]:
    """Return the lost records that were messages without an outcome: the `lacking` most likely ones."""
    likely = sorted(holes, key=lambda row: (row.looks_like_input, row.seq), reverse=True)
    return frozenset(row.seq for row in likely[: max(lacking, 0)])


# --- Descriptions ---


def describe(repair: Repair) -> str:
    """Describe a repair with its reason."""
    match repair:
        case SetAside(seq=seq, leaves_mark=True):
            what = f"record {seq} is moved to quarantine and replaced by a mark"
        case SetAside(seq=seq):
            what = f"a stray row with seq {seq} is moved to quarantine"
        case PutBack(seq=seq, to=to):
            what = f"the row of record {to} is moved back from {seq}"
        case MarkMissing(seq=seq):
            what = f"record {seq} is marked as lost"
        case ClearSealed(run=run):
            what = f"records {run.first} to {run.last} are deleted from the live records"
        case ForgetSegment(name=name):
            what = f"segment {name} is removed"
        case AdoptSegment(name=name, run=run):
            what = f"segment {name} is sealed again for records {run.first} to {run.last}"
        case PutAgain(name=name, run=run):
            what = f"segment {name} is rebuilt in the archive from records {run.first} to {run.last}"
        case LoseSegment(name=name, runs=runs):
            what = f"segment {name} is lost with records {_ranges(runs)}"
        case TrimSegment(name=name, runs=runs):
            what = f"segment {name} is restricted to records {_ranges(runs)}"
        case DropSnapshot(seq=seq):
            what = f"the snapshot at record {seq} is deleted and rebuilt"
        case Recount(owed=owed):
            what = f"the number of pending outcomes is set to {owed}"
        case _:
            assert_never(repair)
    return f"{what}: {repair.why}"


def _ranges(runs: Iterable[Run]) -> str:
    return ", ".join(f"{run.first} to {run.last}" for run in runs)
