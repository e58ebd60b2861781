"""Sealing: records leave the live ones in one piece with the record that says so, and nothing else changes."""

import hashlib

import pytest

from holdfast.core.integrity.reconcile import SetAside
from holdfast.core.integrity.segments import name_of, pack_segment
from holdfast.errors import BadInputError, ClientIdReusedError, LeaseLostError, RecordsSealedError, SeqMovedError
from holdfast.ports import Admission, Lease, Segment, Store
from holdfast.testing.builders import a_notice, a_reply, a_tool_call, a_turn_ended, an_input
from holdfast.testing.clock import ManualClock
from holdfast.testing.store_fixture import StorePromises, lease_on
from holdfast.types.messages import BlobRef, LargeText, Media, Text, ToolResult
from holdfast.types.records import AnyRecord, InputAdmitted, Logged, SegmentSealed, ToolSettled, decode_record


async def segment_of(store: Store, last: int, *, session: str = "s") -> tuple[Segment, bytes]:
    """Pack the live records up to `last`."""
    rows = [row for row in await store.kept(session, limit=100_000) if row.seq <= last]
    body = pack_segment(session, rows)
    sha256 = hashlib.sha256(body).hexdigest()
    first = rows[0].seq
    return Segment(session, first, last, name_of(session, first, last, sha256), sha256, len(body)), body


def seal_record(segment: Segment) -> SegmentSealed:
    """The record that a seal must leave."""
    return SegmentSealed(segment.first, segment.last, segment.name, segment.sha256, segment.size)


async def ten_notices(store: Store) -> Lease:
    """A session with ten records, and its lease."""
    lease = await lease_on(store)
    await store.append(lease, [a_notice(f"sentence {number}") for number in range(1, 11)], after=0)
    return lease


class SealPromises(StorePromises):
    """Promises of `kept`, `seal` and `segments`."""

    async def test_live_records_are_given_as_they_are_kept(self, store: Store, clock: ManualClock) -> None:
        await ten_notices(store)

        rows = await store.kept("s", after=3, limit=4)

        assert [(row.seq, row.at, decode_record(row.body)) for row in rows] == [
            (seq, clock.now(), a_notice(f"sentence {seq}")) for seq in range(4, 8)
        ]
        assert await store.kept("s", after=10, limit=4) == []
        assert await store.kept("nobody", limit=4) == []

    async def test_a_seal_takes_records_out_and_is_itself_a_record(self, store: Store, clock: ManualClock) -> None:
        lease = await ten_notices(store)
        before = await store.kept("s", limit=100)
        segment, _ = await segment_of(store, 6)

        assert await store.seal(lease, segment, after=10) == 11

        assert await store.segments("s") == [segment]
        live = await store.kept("s", limit=100)
        assert live[:4] == before[6:]
        assert [row.seq for row in live] == [7, 8, 9, 10, 11]
        assert await store.read("s", after=10) == [Logged(11, clock.now(), seal_record(segment))]

    async def test_segments_follow_each_other_without_a_gap(self, store: Store) -> None:
        lease = await ten_notices(store)
        first, _ = await segment_of(store, 2)
        await store.seal(lease, first, after=10)
        second, _ = await segment_of(store, 9)
        await store.seal(lease, second, after=11)
        third, _ = await segment_of(store, 12)

        await store.seal(lease, third, after=12)

        assert await store.segments("s") == [first, second, third]
        assert [(one.first, one.last) for one in (first, second, third)] == [(1, 2), (3, 9), (10, 12)]
        assert [row.seq for row in await store.kept("s", limit=100)] == [13]

    async def test_a_log_goes_on_behind_a_seal(self, store: Store) -> None:
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

    async def test_sealed_records_are_never_passed_over(self, store: Store) -> None:
        lease = await ten_notices(store)
        segment, _ = await segment_of(store, 6)
        await store.seal(lease, segment, after=10)

        for after in (0, 3, 5):
            with pytest.raises(RecordsSealedError) as refusal:
                await store.read("s", after=after, limit=2)
            assert (refusal.value.session, refusal.value.until) == ("s", 6)

        assert [each.seq for each in await store.read("s", after=6)] == [7, 8, 9, 10, 11]

    async def test_a_feed_says_that_it_begins_behind_a_seal(self, store: Store) -> None:
        lease = await ten_notices(store)
        segment, _ = await segment_of(store, 6)
        await store.seal(lease, segment, after=10)

        with pytest.raises(RecordsSealedError):
            await anext(store.feed("s"))

        assert (await anext(store.feed("s", after=6))).seq == 7

    async def test_a_stale_worker_seals_nothing(self, store: Store) -> None:
        stale = await ten_notices(store)
        segment, _ = await segment_of(store, 6)
        await store.release(stale)
        await lease_on(store, owner="successor")

        with pytest.raises(LeaseLostError):
            await store.seal(stale, segment, after=10)

        assert await store.segments("s") == []
        assert len(await store.read("s")) == 10

    async def test_whoever_missed_a_record_seals_nothing(self, store: Store) -> None:
        lease = await ten_notices(store)
        segment, _ = await segment_of(store, 6)
        await store.admit("s", an_input("came first"))

        with pytest.raises(SeqMovedError):
            await store.seal(lease, segment, after=10)

        assert await store.segments("s") == []
        assert len(await store.read("s")) == 11

    @pytest.mark.parametrize(("first", "last"), [(2, 5), (1, 11), (0, 5), (5, 4), (11, 12), (4, 6)])
    async def test_only_what_comes_next_is_sealed(self, store: Store, first: int, last: int) -> None:
        lease = await ten_notices(store)
        whole, _ = await segment_of(store, 3)
        await store.seal(lease, whole, after=10)
        before = await store.kept("s", limit=100)
        wrong = Segment("s", first, last, whole.name, whole.sha256, whole.size)
        after = 11 if (first, last) != (4, 6) else 7

        with pytest.raises((BadInputError, SeqMovedError)):
            await store.seal(lease, wrong, after=after)

        assert await store.segments("s") == [whole]
        assert await store.kept("s", limit=100) == before

    async def test_a_segment_of_another_session_is_refused(self, store: Store) -> None:
        lease = await ten_notices(store)
        await store.admit("t", an_input("elsewhere"))
        foreign, _ = await segment_of(store, 1, session="t")

        with pytest.raises(BadInputError, match="cannot be sealed under its lease"):
            await store.seal(lease, foreign, after=10)

        assert [await store.segments(session) for session in "st"] == [[], []]

    async def test_a_message_sent_again_after_it_was_sealed_is_still_one(self, store: Store) -> None:
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

    @pytest.mark.parametrize("is_searched_before", [True, False])
    async def test_what_was_sealed_is_still_found(self, store: Store, *, is_searched_before: bool) -> None:
        lease = await lease_on(store)
        said = [a_reply(f"number {number} is about {word}") for number, word in enumerate(("apples", "pears", "plums"))]
        await store.append(lease, said, after=0)
        if is_searched_before:
            assert [hit.seq for hit in await store.search("s", "pears")] == [2]
        segment, _ = await segment_of(store, 2)
        await store.seal(lease, segment, after=3)

        found = [[hit.seq for hit in await store.search("s", word)] for word in ("apples", "pears", "plums")]

        assert found == [[1], [2], [3]]

    async def test_a_call_is_not_parted_from_its_result(self, store: Store) -> None:
        lease = await lease_on(store)
        await store.append(lease, [a_reply("", a_tool_call("find_pears"))], after=0)
        segment, _ = await segment_of(store, 1)

        with pytest.raises(BadInputError, match="still open"):
            await store.seal(lease, segment, after=1)

        assert await store.segments("s") == []


# --- Blobs that records name: noted with the records themselves, for as long as their session is there.


FIRST, SECOND, THIRD = (BlobRef(digit * 64, size) for size, digit in enumerate("abc", start=1))


def naming(*refs: BlobRef, client_id: str = "") -> InputAdmitted:
    """An input that names blobs."""
    return InputAdmitted(tuple(LargeText(ref, "long") for ref in refs), client_id=client_id)


class BlobNamePromises(StorePromises):
    """Promises of `blobs_of`, `blobs_only_of`, `blobs_unknown` and `know_blobs`."""

    async def test_whatever_way_a_record_comes_in_its_blobs_are_known_each_once(self, store: Store) -> None:
        await store.admit("s", naming(THIRD, THIRD))
        lease = await lease_on(store)
        settled = ToolSettled(1, ToolResult("call", (Text("see"), Media(FIRST, "image/png")), originals=(THIRD,)))
        await store.append(lease, [a_notice(), settled], after=1)
        await store.adopt(lease, [Logged(4, 5.0, naming(SECOND)), Logged(5, 6.0, an_input())])

        assert await store.blobs_of("s") == [FIRST, SECOND, THIRD]
        assert (await store.blobs_of("nobody"), await store.blobs_unknown()) == ([], [])

    async def test_what_is_refused_names_nothing(self, store: Store) -> None:
        await store.admit("s", an_input("hi", client_id="c"))
        old = await lease_on(store)
        lease = await lease_on(store)
        settled = ToolSettled(1, ToolResult("call", (LargeText(FIRST, "long"),)))

        with pytest.raises(ClientIdReusedError):
            await store.admit("s", naming(FIRST, client_id="c"))
        with pytest.raises(LeaseLostError):
            await store.append(old, [settled], after=1)
        with pytest.raises(SeqMovedError):
            await store.append(lease, [settled], after=0)
        with pytest.raises(SeqMovedError):
            await store.adopt(lease, [Logged(5, 5.0, naming(FIRST))])

        assert await store.blobs_of("s") == []

    async def test_a_blob_is_of_some_sessions_only_where_no_other_names_it(self, store: Store) -> None:
        await store.admit("a", naming(FIRST, SECOND))
        await store.admit("b", naming(SECOND, THIRD))
        await store.admit("c", naming(THIRD))

        assert await store.blobs_only_of(["a"]) == [FIRST]
        assert await store.blobs_only_of(["b"]) == []
        assert await store.blobs_only_of(["b", "a", "nobody"]) == [FIRST, SECOND]
        assert await store.blobs_only_of(["a", "b", "c"]) == [FIRST, SECOND, THIRD]
        assert await store.blobs_only_of([]) == []

    async def test_a_session_that_is_renamed_takes_its_names_along_and_one_that_is_deleted_gives_them_up(
        self, store: Store
    ) -> None:
        await store.admit("a", naming(FIRST))
        await store.admit("b", naming(FIRST))
        lease = await store.rename(await lease_on(store, "a"), "c")

        assert (await store.blobs_of("a"), await store.blobs_of("c")) == ([], [FIRST])
        assert await store.blobs_only_of(["b"]) == []

        await store.delete(lease)
        await store.admit("c", an_input("another one"))

        assert (await store.blobs_of("c"), await store.blobs_only_of(["b"])) == ([], [FIRST])

    async def test_what_was_sealed_or_set_aside_is_still_known_to_be_named(self, store: Store) -> None:
        await store.admit("s", naming(FIRST))
        await store.admit("s", naming(SECOND))
        lease = await lease_on(store)
        await store.append(lease, [a_notice()], after=2)
        segment, _ = await segment_of(store, 1)

        await store.seal(lease, segment, after=3)
        await store.mend(lease, [SetAside(2, "torn")], after=4)

        assert await store.blobs_of("s") == [FIRST, SECOND]

    async def test_what_is_learned_of_a_session_is_added_to_what_is_known_of_it(self, store: Store) -> None:
        await store.admit("s", naming(FIRST))

        for _ in range(2):
            await store.know_blobs("s", [SECOND, FIRST])
        await store.know_blobs("s", [])
        await store.know_blobs("nobody", [THIRD])

        assert (await store.blobs_of("s"), await store.blobs_of("nobody")) == ([FIRST, SECOND], [])
        await store.admit("nobody", an_input())
        assert await store.blobs_of("nobody") == []
