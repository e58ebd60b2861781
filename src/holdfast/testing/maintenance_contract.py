"""Promises of the ports `Maintenance` (check, repair and seal logs) and `SessionAdmin` (adopt, rename, delete)."""

import hashlib

import pytest

from holdfast.core.integrity.reconcile import MarkMissing, Recount, SetAside
from holdfast.core.integrity.segments import name_of, pack_segment
from holdfast.errors import BadInputError, ClientIdReusedError, LeaseLostError, RecordsSealedError, SeqMovedError
from holdfast.ports import Admission, Lease, Log, Maintenance, RowCheck, Segment, SessionAdmin
from holdfast.testing.builders import (
    ManualClock,
    StorePromises,
    a_notice,
    a_turn_ended,
    a_turn_started,
    an_input,
    five_records,
    lease_on,
    log_of,
)
from holdfast.types.records import (
    AnyRecord,
    DamageSetAside,
    Logged,
    SegmentSealed,
    decode_record,
    encode_record,
)


async def segment_of(store: Maintenance, last: int, *, session: str = "s") -> tuple[Segment, bytes]:
    """Pack the live records up to `last`."""
    rows = [row for row in await store.live_rows(session, limit=100_000) if row.seq <= last]
    body = pack_segment(session, rows)
    sha256 = hashlib.sha256(body).hexdigest()
    first = rows[0].seq
    return Segment(session, first, last, name_of(session, first, last, sha256), sha256, len(body)), body


def seal_record(segment: Segment) -> SegmentSealed:
    """Return the record that a seal must append."""
    return SegmentSealed(segment.first, segment.last, segment.name, segment.sha256, segment.size)


async def ten_notices(store: Log) -> Lease:
    """Append ten records, and return the lease."""
    lease = await lease_on(store)
    await store.append(lease, [a_notice(f"sentence {number}") for number in range(1, 11)], after=0)
    return lease


class RepairPromises(StorePromises):
    """`check_rows`, `repair` and `quarantine`."""

    async def test_a_healthy_log_is_whole_from_its_first_record_to_its_last(self, store: Maintenance) -> None:
        await five_records(store)

        assert await store.check_rows("nobody") == RowCheck((), (), None)
        page = await store.check_rows("s")
        assert ([seq for run in page.intact for seq in range(run.first, run.last + 1)], page.bad) == (
            [1, 2, 3, 4, 5],
            (),
        )
        assert page.until is None

    async def test_a_log_is_examined_page_by_page(self, store: Maintenance) -> None:
        await five_records(store)

        first = await store.check_rows("s", limit=3)
        rest = await store.check_rows("s", after=first.until, limit=3)

        assert (first.until, rest.until) == (3, None)
        assert [run.last for run in (first.intact[-1], rest.intact[-1])] == [3, 5]

    async def test_what_is_set_aside_leaves_a_mark_and_its_bytes_are_kept_as_they_were(
        self, store: Maintenance
    ) -> None:
        before = await five_records(store)
        lease = await lease_on(store)

        last = await store.repair(lease, [SetAside(3, "torn")], [a_notice("mended")], after=5)

        after = await store.read("s")
        mark = after[2].record
        assert isinstance(mark, DamageSetAside)
        assert (mark.why, mark.until, last, after[5].record) == ("torn", 5, 6, a_notice("mended"))
        assert [each for each in after if each.seq not in {3, 6}] == [each for each in before if each.seq != 3]
        (kept,) = await store.quarantine("s")
        assert (kept.name, kept.seq, kept.why, kept.body) == (mark.kept, 3, "torn", encode_record(before[2].record))
        assert await store.quarantine("s", after=kept.name) == []
        assert (await store.check_rows("s")).bad == ()

    async def test_a_record_that_is_gone_is_marked_without_bytes(self, store: Maintenance) -> None:
        await five_records(store)
        lease = await lease_on(store)

        await store.repair(lease, [MarkMissing(2, "gone", is_owed=True)], after=5)

        assert (await store.read("s"))[1].record == DamageSetAside("gone", "", 5, is_owed=True)
        assert await store.quarantine("s") == []

    async def test_a_stale_worker_mends_nothing(self, store: Maintenance) -> None:
        before = await five_records(store)
        old = await lease_on(store)
        lease = await lease_on(store)

        with pytest.raises(LeaseLostError):
            await store.repair(old, [SetAside(3, "torn")], after=5)
        with pytest.raises(SeqMovedError):
            await store.repair(lease, [SetAside(3, "torn")], after=4)

        assert (await store.read("s"), await store.quarantine("s")) == (before, [])

    async def test_a_repair_sets_the_count_of_pending_inputs(self, store: Maintenance) -> None:
        await five_records(store)

        await store.repair(await lease_on(store), [Recount(0, "why")], after=5)

        assert await store.pending() == []
        await store.admit("s", an_input("next"))
        assert await store.pending() == ["s"]


class SealPromises(StorePromises):
    """`live_rows`, `seal` and `segments`: rows leave the store atomically with the record that reports it."""

    async def test_live_records_are_given_as_they_are_kept(self, store: Maintenance, clock: ManualClock) -> None:
        await ten_notices(store)

        rows = await store.live_rows("s", after=3, limit=4)

        assert [(row.seq, row.at, decode_record(row.body)) for row in rows] == [
            (seq, clock.now(), a_notice(f"sentence {seq}")) for seq in range(4, 8)
        ]
        assert await store.live_rows("s", after=10, limit=4) == []
        assert await store.live_rows("nobody", limit=4) == []

    async def test_a_seal_takes_records_out_and_is_itself_a_record(
        self, store: Maintenance, clock: ManualClock
    ) -> None:
        lease = await ten_notices(store)
        before = await store.live_rows("s", limit=100)
        segment, _ = await segment_of(store, 6)

        assert await store.seal(lease, segment, after=10) == 11

        assert await store.segments("s") == [segment]
        live = await store.live_rows("s", limit=100)
        assert live[:4] == before[6:]
        assert [row.seq for row in live] == [7, 8, 9, 10, 11]
        assert await store.read("s", after=10) == [Logged(11, clock.now(), seal_record(segment))]

    async def test_segments_follow_each_other_without_a_gap(self, store: Maintenance) -> None:
        lease = await ten_notices(store)
        first, _ = await segment_of(store, 2)
        await store.seal(lease, first, after=10)
        second, _ = await segment_of(store, 9)
        await store.seal(lease, second, after=11)
        third, _ = await segment_of(store, 12)

        await store.seal(lease, third, after=12)

        assert await store.segments("s") == [first, second, third]
        assert [(one.first, one.last) for one in (first, second, third)] == [(1, 2), (3, 9), (10, 12)]
        assert [row.seq for row in await store.live_rows("s", limit=100)] == [13]

    async def test_a_log_goes_on_behind_a_seal(self, store: Maintenance) -> None:
        lease = await ten_notices(store)
        segment, _ = await segment_of(store, 10)
        await store.seal(lease, segment, after=10)

        admitted = await store.admit("s", an_input("more"))
        last = await store.append(lease, [a_notice("and more")], after=12)

        assert (admitted, last) == (Admission(12, is_new=True), 13)
        records: list[AnyRecord] = [each.record for each in await store.read("s", after=10)]
        assert records == [seal_record(segment), an_input("more"), a_notice("and more")]
        known = await store.info("s")
        assert known is not None
        assert (known.last_seq, known.owed) == (13, 1)

    async def test_sealed_records_are_never_passed_over(self, store: Maintenance) -> None:
        lease = await ten_notices(store)
        segment, _ = await segment_of(store, 6)
        await store.seal(lease, segment, after=10)

        for after in (0, 3, 5):
            with pytest.raises(RecordsSealedError) as refusal:
                await store.read("s", after=after, limit=2)
            assert (refusal.value.session, refusal.value.until) == ("s", 6)

        assert [each.seq for each in await store.read("s", after=6)] == [7, 8, 9, 10, 11]

    async def test_a_feed_says_that_it_begins_behind_a_seal(self, store: Maintenance) -> None:
        lease = await ten_notices(store)
        segment, _ = await segment_of(store, 6)
        await store.seal(lease, segment, after=10)

        with pytest.raises(RecordsSealedError):
            await anext(store.feed("s"))

        assert (await anext(store.feed("s", after=6))).seq == 7

    async def test_a_stale_worker_seals_nothing(self, store: Maintenance) -> None:
        stale = await ten_notices(store)
        segment, _ = await segment_of(store, 6)
        await store.release(stale)
        await lease_on(store, owner="successor")

        with pytest.raises(LeaseLostError):
            await store.seal(stale, segment, after=10)

        assert await store.segments("s") == []
        assert len(await store.read("s")) == 10

    async def test_whoever_missed_a_record_seals_nothing(self, store: Maintenance) -> None:
        lease = await ten_notices(store)
        segment, _ = await segment_of(store, 6)
        await store.admit("s", an_input("came first"))

        with pytest.raises(SeqMovedError):
            await store.seal(lease, segment, after=10)

        assert await store.segments("s") == []
        assert len(await store.read("s")) == 11

    @pytest.mark.parametrize(("first", "last"), [(2, 5), (1, 11), (0, 5), (5, 4), (11, 12), (4, 6)])
    async def test_only_what_comes_next_is_sealed(self, store: Maintenance, first: int, last: int) -> None:
        lease = await ten_notices(store)
        whole, _ = await segment_of(store, 3)
        await store.seal(lease, whole, after=10)
        before = await store.live_rows("s", limit=100)
        wrong = Segment("s", first, last, whole.name, whole.sha256, whole.size)
        after = 11 if (first, last) != (4, 6) else 7

        with pytest.raises((BadInputError, SeqMovedError)):
            await store.seal(lease, wrong, after=after)

        assert await store.segments("s") == [whole]
        assert await store.live_rows("s", limit=100) == before

    async def test_a_segment_of_another_session_is_refused(self, store: Maintenance) -> None:
        lease = await ten_notices(store)
        await store.admit("t", an_input("elsewhere"))
        foreign, _ = await segment_of(store, 1, session="t")

        with pytest.raises(BadInputError, match="cannot be sealed under its lease"):
            await store.seal(lease, foreign, after=10)

        assert [await store.segments(session) for session in "st"] == [[], []]

    async def test_a_message_sent_again_after_it_was_sealed_is_still_one(self, store: Maintenance) -> None:
        await store.admit("s", an_input("hi", client_id="c1"))
        lease = await lease_on(store)
        await store.append(lease, [a_turn_ended(1)], after=1)
        segment, _ = await segment_of(store, 2)
        await store.seal(lease, segment, after=2)

        again = await store.admit("s", an_input("hi", client_id="c1"))
        with pytest.raises(ClientIdReusedError):
            await store.admit("s", an_input("something else", client_id="c1"))

        assert again == Admission(1, is_new=False)
        known = await store.info("s")
        assert known is not None
        assert known.last_seq == 3


class MaintenanceContract(RepairPromises, SealPromises):
    """All promises of `holdfast.ports.Maintenance`."""


class SessionAdminContract(StorePromises):
    """All promises of `holdfast.ports.SessionAdmin`."""

    async def test_records_of_another_log_keep_their_numbers_their_times_and_their_client_ids(
        self, store: SessionAdmin
    ) -> None:
        records = [
            Logged(1, 5.0, an_input("first", client_id="c")),
            Logged(2, 6.0, a_turn_started()),
            Logged(3, 7.0, DamageSetAside("torn", "quarantine:9", 4)),
            Logged(4, 8.0, an_input("second")),
            Logged(5, 9.0, a_turn_ended()),
        ]
        lease = await lease_on(store, "copy")

        await store.adopt(lease, records[:2])
        assert await store.adopt(lease, records[2:]) == 5

        assert await store.read("copy") == records
        known = await store.info("copy")
        assert known is not None
        assert (known.created_at, known.updated_at, known.owed) == (5.0, 9.0, 1)
        assert (await store.admit("copy", an_input("first", client_id="c"))).seq == 1

    async def test_records_that_do_not_follow_are_not_adopted(self, store: SessionAdmin) -> None:
        await five_records(store)
        old = await lease_on(store)
        lease = await lease_on(store)

        with pytest.raises(SeqMovedError):
            await store.adopt(lease, [Logged(6, 0.0, a_notice()), Logged(8, 0.0, a_notice())])
        with pytest.raises(LeaseLostError):
            await store.adopt(old, [Logged(6, 0.0, a_notice())])

        assert len(await log_of(store)) == 5

    async def test_a_key_that_has_a_log_is_not_given_again(self, store: SessionAdmin) -> None:
        await five_records(store)
        await store.admit("t", an_input("mine"))
        lease = await lease_on(store)

        with pytest.raises(BadInputError, match="'t'"):
            await store.rename(lease, "t")

        assert (len(await log_of(store)), await log_of(store, "t")) == (5, [an_input("mine")])

    async def test_a_session_to_which_something_came_keeps_its_key(self, store: SessionAdmin) -> None:
        await five_records(store)
        lease = await lease_on(store)
        await store.admit("s", an_input("wait for me"))

        with pytest.raises(SeqMovedError):
            await store.rename(lease, "t", after=5)
        assert (len(await log_of(store)), await log_of(store, "t")) == (6, [])

        await store.rename(lease, "t", after=6)
        assert (await log_of(store), len(await log_of(store, "t"))) == ([], 6)

    async def test_a_key_of_which_only_a_lease_is_known_is_free(self, store: SessionAdmin) -> None:
        await five_records(store)
        await lease_on(store, "t")

        await store.rename(await lease_on(store), "t")

        assert len(await log_of(store, "t")) == 5

    async def test_a_stale_worker_neither_deletes_nor_renames(self, store: SessionAdmin) -> None:
        await five_records(store)
        old = await lease_on(store)
        await lease_on(store)

        for change in (store.delete(old), store.rename(old, "t")):
            with pytest.raises(LeaseLostError):
                await change

        assert len(await log_of(store)) == 5

    async def test_a_renamed_session_keeps_its_records_and_frees_its_key(self, store: SessionAdmin) -> None:
        before = await five_records(store)

        renamed = await store.rename(await lease_on(store), "t")

        assert (await store.read("t"), await store.read("s"), await store.info("s")) == (before, [], None)
        assert (await store.admit("t", an_input("first", client_id="c"))).is_new is False
        assert await store.append(renamed, [a_notice()], after=5) == 6
        assert (await store.admit("s", an_input("anew"))).seq == 1

    async def test_a_deleted_session_leaves_nothing_and_the_others_stay(self, store: SessionAdmin) -> None:
        await five_records(store)
        others = await five_records(store, "other")

        await store.delete(await lease_on(store))

        assert (await store.info("s"), await store.read("s"), await store.pending()) == (None, [], ["other"])
        assert await store.admit("s", an_input("first", client_id="c")) == Admission(1, is_new=True)
        assert await store.read("other") == others
