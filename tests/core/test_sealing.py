"""What may be sealed lies well behind everything that is still read, and is sealed when enough has come together."""

import pytest

from holdfast.core.fold.session_state import PendingCompaction, Turn
from holdfast.core.integrity.segments import USUAL_SEALING, Kept, Sealing, run_to_seal, sealable_until
from holdfast.types.records import CompactionApplied, Trigger

SEALING = Sealing(
    margin_records=10, records_min=5, bytes_min=1_000, age_seconds=60, segment_records_max=8, segment_bytes_max=5_000
)
COMPACTED = CompactionApplied(1, 100, "s", 2, 1)


def rows(count: int, *, at: float = 0.0, size_bytes: int = 1, first: int = 1) -> list[Kept]:
    return [Kept(seq, at, 0, b"x" * size_bytes) for seq in range(first, first + count)]


def sealed(given: list[Kept], *, until: int, now: float = 0.0) -> list[int]:
    return [row.seq for row in run_to_seal(given, until=until, now=now, sealing=SEALING)]


@pytest.mark.parametrize(
    ("turn", "until"),
    [
        (Turn(seq=500), 0),
        (Turn(seq=500, compaction=COMPACTED, compaction_seq=120), 89),
        (Turn(seq=500, compaction=CompactionApplied(1, 5, "s", 2, 1)), 0),
        (Turn(seq=500, compaction=COMPACTED, number=50), 39),
        (Turn(seq=500, compaction=COMPACTED, waiting=(400, 401)), 89),
        (Turn(seq=500, compaction=COMPACTED, waiting=(40,)), 29),
        (Turn(seq=500, compaction=COMPACTED, wanted=(PendingCompaction(60, Trigger.PERSON),)), 49),
    ],
)
def test_nothing_that_is_still_needed_may_be_sealed(turn: Turn, until: int) -> None:
    assert sealable_until(turn, SEALING) == until


def test_nothing_is_sealed_before_enough_has_come_together() -> None:
    assert sealed([], until=0) == []
    assert sealed(rows(4), until=4) == []
    assert sealed(rows(5), until=5) == [1, 2, 3, 4, 5]


def test_few_large_records_are_enough() -> None:
    assert sealed(rows(2, size_bytes=499), until=2) == []
    assert sealed(rows(2, size_bytes=500), until=2) == [1, 2]


def test_few_records_that_have_waited_long_are_enough() -> None:
    assert sealed(rows(1, at=100.0), until=1, now=159.0) == []
    assert sealed(rows(1, at=100.0), until=1, now=160.0) == [1]


def test_a_segment_ends_at_its_bounds_and_at_what_may_be_sealed() -> None:
    assert sealed(rows(50), until=50) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert sealed(rows(50), until=6) == [1, 2, 3, 4, 5, 6]
    assert sealed(rows(8, size_bytes=2_000), until=8) == [1, 2, 3]


def test_a_record_larger_than_a_segment_is_one_by_itself() -> None:
    assert sealed(rows(3, size_bytes=9_000), until=3) == [1]


def test_how_many_may_be_sealed_counts_also_where_a_segment_does_not_take_them_all() -> None:
    few = Sealing(margin_records=0, records_min=100, segment_records_max=8)

    assert len(run_to_seal(rows(8), until=99, now=0.0, sealing=few)) == 0
    assert len(run_to_seal(rows(8), until=100, now=0.0, sealing=few)) == 8


def test_a_usual_segment_is_due_before_it_is_full() -> None:
    assert USUAL_SEALING.records_min <= USUAL_SEALING.segment_records_max
    assert USUAL_SEALING.bytes_min <= USUAL_SEALING.segment_bytes_max
