"""From what is found to what must be: each kind of damage has one exact result, and a second look finds nothing."""

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.core.integrity.reconcile import (
    AdoptSegment,
    BadRow,
    ClearSealed,
    Copy,
    DropSnapshot,
    ForgetSegment,
    Found,
    FoundSegment,
    FoundSnapshot,
    LoseSegment,
    MarkMissing,
    PutAgain,
    PutBack,
    Recount,
    Repair,
    Run,
    SetAside,
    TrimSegment,
    describe,
    merge_runs,
    missing_in,
    owed_among,
    reconcile,
    recount,
    subtract_runs,
)

TORN = "its bytes do not match their checksum"
GONE = "its row is missing"


def segment(first: int, last: int, *, seal: int = 0, copy: Copy = Copy.WHOLE, name: str = "") -> FoundSegment:
    return FoundSegment(name or f"{first}-{last}", Run(first, last), seal, copy)


def test_a_healthy_log_needs_nothing() -> None:
    assert reconcile(Found(())) == ()
    healthy = Found((Run(11, 40),), (), (segment(1, 10, seal=12),), FoundSnapshot(40))
    assert reconcile(healthy) == ()


def test_a_torn_record_is_set_aside_with_a_mark_in_its_place() -> None:
    assert reconcile(Found((Run(1, 2), Run(4, 9)), (BadRow(3, TORN),))) == (SetAside(3, TORN),)


def test_the_newest_record_may_be_the_torn_one_and_so_may_all() -> None:
    assert reconcile(Found((Run(1, 2),), (BadRow(3, TORN), BadRow(4, TORN)))) == (SetAside(3, TORN), SetAside(4, TORN))
    assert reconcile(Found((), (BadRow(1, TORN),))) == (SetAside(1, TORN),)


def test_a_gap_is_marked_record_by_record() -> None:
    assert reconcile(Found((Run(3, 4), Run(6, 6)))) == tuple(MarkMissing(seq, GONE) for seq in (1, 2, 5))


def test_records_that_a_fold_was_made_of_and_that_are_gone_are_marked_at_the_end() -> None:
    assert reconcile(Found((Run(1, 3),), snapshot=FoundSnapshot(5))) == (MarkMissing(4, GONE), MarkMissing(5, GONE))


def test_a_row_with_a_wrong_number_goes_back_to_where_its_checksum_holds() -> None:
    moved = BadRow(68, TORN, fits_at=4)

    assert reconcile(Found((Run(1, 3), Run(5, 9)), (moved,))) == (
        PutBack(68, 4, "its row has seq 68, but its checksum holds for 4"),
    )


def test_a_row_with_a_wrong_number_does_not_make_the_log_longer() -> None:
    stray = SetAside(2**40, f"{TORN}, and no record is missing at its seq", leaves_mark=False)

    assert reconcile(Found((Run(1, 9),), (BadRow(2**40, TORN),))) == (stray,)


def test_a_second_row_for_a_record_that_is_there_is_set_aside_without_a_mark() -> None:
    for bad in (BadRow(3, TORN), BadRow(0, TORN), BadRow(-7, TORN), BadRow(50, TORN, fits_at=3)):
        (repair,) = reconcile(Found((Run(1, 9),), (bad,)))
        assert isinstance(repair, SetAside)
        assert (repair.seq, repair.leaves_mark) == (bad.seq, False)


def test_records_that_are_sealed_and_still_live_are_taken_out() -> None:
    lost_clear = Found((Run(1, 14),), segments=(segment(1, 10, seal=11),))

    assert reconcile(lost_clear) == (
        ClearSealed(Run(1, 10), "they are sealed in a segment, but still in the live records"),
    )


def test_a_torn_row_that_is_sealed_is_set_aside_without_a_mark() -> None:
    (repair,) = reconcile(Found((Run(11, 14),), (BadRow(4, TORN),), (segment(1, 10, seal=11),)))

    assert isinstance(repair, SetAside)
    assert not repair.leaves_mark


def test_a_segment_without_its_seal_is_forgotten_where_its_records_are_live_and_adopted_where_they_are_not() -> None:
    assert reconcile(Found((Run(1, 14),), segments=(segment(1, 10),))) == (
        ForgetSegment("1-10", "its records are all stored elsewhere"),
    )
    assert reconcile(Found((Run(11, 14),), segments=(segment(1, 10),))) == (
        AdoptSegment("1-10", Run(1, 10), "it has no seal, and records that are stored nowhere else"),
    )


def test_a_segment_that_is_gone_is_put_again_where_its_records_are_live_and_these_are_cleared_then() -> None:
    for copy in (Copy.MISSING, Copy.DAMAGED):
        assert reconcile(Found((Run(1, 14),), segments=(segment(1, 10, seal=11, copy=copy),))) == (
            PutAgain("1-10", Run(1, 10), f"its segment is {copy}, and its records are live"),
            ClearSealed(Run(1, 10), "they are sealed in a segment, but still in the live records"),
        )


def test_a_segment_that_is_gone_is_not_needed_where_an_earlier_one_has_what_is_not_live() -> None:
    segments = (segment(1, 5, seal=11), segment(3, 8, seal=12, copy=Copy.MISSING))

    assert reconcile(Found((Run(6, 14),), segments=segments)) == (
        ForgetSegment("3-8", "its segment is missing, and its records are all stored elsewhere"),
    )


def test_a_seal_without_its_segment_and_without_records_is_a_loss_that_is_marked() -> None:
    repairs = reconcile(Found((Run(3, 14),), segments=(segment(1, 2, seal=11, copy=Copy.MISSING),)))

    assert repairs == (
        MarkMissing(1, GONE),
        MarkMissing(2, GONE),
        LoseSegment("1-2", (Run(1, 2),), "its segment is missing"),
    )


def test_a_damaged_segment_that_nothing_seals_is_forgotten() -> None:
    assert reconcile(Found((Run(1, 14),), segments=(segment(1, 10, copy=Copy.DAMAGED),))) == (
        ForgetSegment("1-10", "its segment is damaged, and no record seals it"),
    )


def test_of_two_segments_that_overlap_the_one_sealed_first_counts() -> None:
    inside = Found((Run(11, 20),), segments=(segment(1, 10, seal=11), segment(3, 8, seal=15)))
    beyond = Found((Run(16, 20),), segments=(segment(1, 10, seal=17), segment(8, 15, seal=18)))

    assert reconcile(inside) == (ForgetSegment("3-8", "an earlier segment has all of its records"),)
    assert reconcile(beyond) == (TrimSegment("8-15", (Run(11, 15),), "an earlier segment has its other records"),)


def test_a_fold_that_disagrees_is_dropped_and_vouches_for_nothing() -> None:
    assert reconcile(Found((Run(1, 3),), snapshot=FoundSnapshot(9, "it is not what the records fold to"))) == (
        DropSnapshot(9, "it is not what the records fold to"),
    )


def test_a_stored_count_is_corrected_only_if_the_records_have_another() -> None:
    assert recount(0, 2) == Recount(2, "the records have 2 pending outcomes, but 0 is stored")
    assert recount(2, 2) is None


def test_lost_messages_are_those_that_look_like_it_then_the_newest() -> None:
    holes = (BadRow(2, TORN), BadRow(5, TORN, looks_like_input=True), BadRow(9, TORN))

    assert [owed_among(holes, lacking) for lacking in (-1, 0, 1, 2, 9)] == [
        frozenset(),
        frozenset(),
        {5},
        {5, 9},
        {2, 5, 9},
    ]


def test_runs_are_joined_and_taken_out_of_each_other() -> None:
    assert merge_runs([Run(5, 6), Run(1, 2), Run(3, 3), Run(2, 2)]) == [Run(1, 3), Run(5, 6)]
    assert subtract_runs(Run(1, 10), [Run(0, 2), Run(5, 6), Run(20, 30)]) == [Run(3, 4), Run(7, 10)]
    assert subtract_runs(Run(1, 10), [Run(4, 12)]) == [Run(1, 3)]
    assert list(missing_in(6, [Run(2, 3)])) == [1, 4, 5, 6]


def test_every_repair_is_told_with_its_place_and_its_reason() -> None:
    run = Run(1, 9)
    repairs: list[Repair] = [
        SetAside(3, "why"),
        SetAside(3, "why", leaves_mark=False),
        PutBack(68, 4, "why"),
        MarkMissing(3, "why"),
        ClearSealed(run, "why"),
        ForgetSegment("a", "why"),
        AdoptSegment("a", run, "why"),
        PutAgain("a", run, "why"),
        LoseSegment("a", (run,), "why"),
        TrimSegment("a", (run, Run(12, 13)), "why"),
        DropSnapshot(3, "why"),
        Recount(3, "why"),
    ]

    assert [describe(repair) for repair in repairs] == [
        "record 3 is moved to quarantine and replaced by a mark: why",
        "a stray row with seq 3 is moved to quarantine: why",
        "the row of record 4 is moved back from 68: why",
        "record 3 is marked as lost: why",
        "records 1 to 9 are deleted from the live records: why",
        "segment a is removed: why",
        "segment a is sealed again for records 1 to 9: why",
        "segment a is rebuilt in the archive from records 1 to 9: why",
        "segment a is lost with records 1 to 9: why",
        "segment a is restricted to records 1 to 9, 12 to 13: why",
        "the snapshot at record 3 is deleted and rebuilt: why",
        "the number of pending outcomes is set to 3: why",
    ]


def repaired(found: Found, repairs: tuple[Repair, ...]) -> Found:
    """What a store holds once the repairs are made."""
    whole, bad = list(found.whole), list(found.bad)
    segments = {one.name: one for one in found.segments}
    trimmed: list[FoundSegment] = []
    end = max((run.last for run in whole), default=0)
    for repair in repairs:
        match repair:
            case SetAside(seq=seq, leaves_mark=leaves_mark):
                bad.remove(next(row for row in bad if row.seq == seq))
                whole += [Run(seq, seq)] if leaves_mark else []
            case PutBack(seq=seq, to=to):
                bad.remove(next(row for row in bad if (row.seq, row.fits_at) == (seq, to)))
                whole.append(Run(to, to))
            case MarkMissing(seq=seq):
                whole.append(Run(seq, seq))
            case ClearSealed(run=run):
                whole = [left for each in whole for left in subtract_runs(each, [run])]
            case ForgetSegment(name=name) | LoseSegment(name=name):
                del segments[name]
            case PutAgain(name=name):
                segments[name] = replace(segments[name], copy=Copy.WHOLE)
            case AdoptSegment(name=name):
                segments[name] = replace(segments[name], seal=end + 1)
                end += 1
            case TrimSegment(name=name, runs=runs):
                one = segments.pop(name)
                trimmed += [FoundSegment(f"{name}/{run.first}", run, one.seal, one.copy) for run in runs]
            case DropSnapshot():
                found = replace(found, snapshot=None)
            case Recount():
                pass
    return replace(found, whole=tuple(merge_runs(whole)), bad=tuple(bad), segments=(*segments.values(), *trimmed))


runs = st.lists(st.builds(lambda first, length: Run(first, first + length), st.integers(1, 30), st.integers(0, 9)))


@settings(deadline=None, max_examples=300)
@given(
    whole=runs,
    bad=st.lists(st.builds(BadRow, st.integers(-2, 60), st.just(TORN), st.integers(0, 40)), max_size=6),
    sealed=st.lists(
        st.tuples(runs.filter(bool), st.sampled_from([0, 1, 1, 1]), st.sampled_from(list(Copy))), max_size=4
    ),
    snapshot=st.none() | st.builds(FoundSnapshot, st.integers(1, 45), st.sampled_from(["", "it disagrees"])),
)
def test_whatever_is_found_is_repaired_at_once_and_then_there_is_nothing_to_do(
    whole: list[Run],
    bad: list[BadRow],
    sealed: list[tuple[list[Run], int, Copy]],
    snapshot: FoundSnapshot | None,
) -> None:
    segments = tuple(
        FoundSegment(f"segment-{place}", seg_runs[0], 100 + place if has_seal else 0, copy)
        for place, (seg_runs, has_seal, copy) in enumerate(sealed)
    )
    found = Found(tuple(merge_runs(whole)), tuple(bad), segments, snapshot)

    again = repaired(found, reconcile(found))

    assert reconcile(again) == ()
    held = merge_runs((*again.whole, *(one.run for one in again.segments)))
    assert len(held) <= 1, "there is a gap"
