"""What every store promises about mending a log, and about whole logs: taken over, renamed, deleted."""

import pytest

from holdfast.core.reconcile import DropSnapshot, MarkMissing, Recount, SetAside
from holdfast.core.records import DamageSetAside, Logged, encode_record
from holdfast.errors import BadInputError, LeaseLostError, SeqMovedError
from holdfast.ports import Admission, Examined, Snapshot, Store
from holdfast.testing.builders import a_notice, a_turn_ended, a_turn_started, an_input
from holdfast.testing.store_promises import StorePromises, lease_on, log_of


async def _a_log(store: Store, session: str = "s") -> list[Logged]:
    """Five records: an input and four notices."""
    await store.admit(session, an_input("first", client_id="c"))
    lease = await lease_on(store, session)
    await store.append(lease, [a_notice(f"notice {number}") for number in range(2, 6)], after=1)
    await store.release(lease)
    return await store.read(session)


class HealingPromises(StorePromises):
    """`examine`, `mend`, `quarantine`, `adopt`, `rename`, `delete`."""

    async def test_a_healthy_log_is_whole_from_its_first_record_to_its_last(self, store: Store) -> None:
        await _a_log(store)

        assert await store.examine("nobody") == Examined((), (), None)
        page = await store.examine("s")
        assert ([seq for run in page.whole for seq in range(run.first, run.last + 1)], page.bad) == (
            [1, 2, 3, 4, 5],
            (),
        )
        assert page.until is None

    async def test_a_log_is_examined_page_by_page(self, store: Store) -> None:
        await _a_log(store)

        first = await store.examine("s", limit=3)
        rest = await store.examine("s", after=first.until, limit=3)

        assert (first.until, rest.until) == (3, None)
        assert [run.last for run in (first.whole[-1], rest.whole[-1])] == [3, 5]

    async def test_what_is_set_aside_leaves_a_mark_and_its_bytes_are_kept_as_they_were(self, store: Store) -> None:
        before = await _a_log(store)
        lease = await lease_on(store)

        last = await store.mend(lease, [SetAside(3, "torn")], [a_notice("mended")], after=5)

        after = await store.read("s")
        mark = after[2].record
        assert isinstance(mark, DamageSetAside)
        assert (mark.why, mark.until, last, after[5].record) == ("torn", 5, 6, a_notice("mended"))
        assert [each for each in after if each.seq not in {3, 6}] == [each for each in before if each.seq != 3]
        (kept,) = await store.quarantine("s")
        assert (kept.name, kept.seq, kept.why, kept.body) == (mark.kept, 3, "torn", encode_record(before[2].record))
        assert await store.quarantine("s", after=kept.name) == []
        assert (await store.examine("s")).bad == ()

    async def test_a_record_that_is_gone_is_marked_without_bytes(self, store: Store) -> None:
        await _a_log(store)
        lease = await lease_on(store)

        await store.mend(lease, [MarkMissing(2, "gone", is_owed=True)], after=5)

        assert (await store.read("s"))[1].record == DamageSetAside("gone", "", 5, is_owed=True)
        assert await store.quarantine("s") == []

    async def test_what_is_owed_and_the_fold_that_is_kept_are_set_with_the_repairs(self, store: Store) -> None:
        await _a_log(store)
        lease = await lease_on(store)
        await store.save_snapshot(lease, Snapshot(5, b"fold"))

        await store.mend(lease, [Recount(0, "why"), DropSnapshot(5, "why")], after=5)

        assert (await store.owing(), await store.load_snapshot("s")) == ([], None)
        await store.admit("s", an_input("next"))
        assert await store.owing() == ["s"]

    async def test_a_stale_worker_mends_nothing(self, store: Store) -> None:
        before = await _a_log(store)
        old = await lease_on(store)
        lease = await lease_on(store)

        with pytest.raises(LeaseLostError):
            await store.mend(old, [SetAside(3, "torn")], after=5)
        with pytest.raises(SeqMovedError):
            await store.mend(lease, [SetAside(3, "torn")], after=4)

        assert (await store.read("s"), await store.quarantine("s")) == (before, [])

    async def test_a_search_does_not_find_what_was_set_aside(self, store: Store) -> None:
        await store.admit("s", an_input("a lighthouse"))
        await store.admit("s", an_input("a harbour"))
        assert [hit.seq for hit in await store.search("s", "lighthouse")] == [1]
        lease = await lease_on(store)

        await store.mend(lease, [SetAside(1, "torn")], after=2)

        assert [hit.seq for hit in await store.search("s", "lighthouse")] == []
        assert [hit.seq for hit in await store.search("s", "harbour")] == [2]

    async def test_records_of_another_log_keep_their_numbers_their_times_and_their_client_ids(
        self, store: Store
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

    async def test_records_that_do_not_follow_are_not_adopted(self, store: Store) -> None:
        await _a_log(store)
        old = await lease_on(store)
        lease = await lease_on(store)

        with pytest.raises(SeqMovedError):
            await store.adopt(lease, [Logged(6, 0.0, a_notice()), Logged(8, 0.0, a_notice())])
        with pytest.raises(LeaseLostError):
            await store.adopt(old, [Logged(6, 0.0, a_notice())])

        assert len(await log_of(store)) == 5

    async def test_a_session_under_another_key_is_the_same_session(self, store: Store) -> None:
        before = await _a_log(store)
        lease = await lease_on(store)
        await store.save_snapshot(lease, Snapshot(5, b"fold"))

        renamed = await store.rename(lease, "t")

        assert (await store.read("t"), await store.read("s"), await store.info("s")) == (before, [], None)
        assert await store.load_snapshot("t") == Snapshot(5, b"fold")
        assert (await store.admit("t", an_input("first", client_id="c"))).is_new is False
        assert await store.append(renamed, [a_notice()], after=5) == 6
        assert (await store.admit("s", an_input("anew"))).seq == 1

    async def test_a_key_that_has_a_log_is_not_given_again(self, store: Store) -> None:
        await _a_log(store)
        await store.admit("t", an_input("mine"))
        lease = await lease_on(store)

        with pytest.raises(BadInputError, match="'t'"):
            await store.rename(lease, "t")

        assert (len(await log_of(store)), await log_of(store, "t")) == (5, [an_input("mine")])

    async def test_a_session_to_which_something_came_keeps_its_key(self, store: Store) -> None:
        await _a_log(store)
        lease = await lease_on(store)
        await store.admit("s", an_input("wait for me"))

        with pytest.raises(SeqMovedError):
            await store.rename(lease, "t", after=5)
        assert (len(await log_of(store)), await log_of(store, "t")) == (6, [])

        await store.rename(lease, "t", after=6)
        assert (await log_of(store), len(await log_of(store, "t"))) == ([], 6)

    async def test_a_key_of_which_only_a_lease_is_known_is_free(self, store: Store) -> None:
        await _a_log(store)
        await lease_on(store, "t")

        await store.rename(await lease_on(store), "t")

        assert len(await log_of(store, "t")) == 5

    async def test_a_session_that_is_deleted_is_gone_and_its_key_begins_anew(self, store: Store) -> None:
        await _a_log(store)
        await _a_log(store, "other")
        assert await store.search("s", "first") != []
        lease = await lease_on(store)
        await store.mend(lease, [SetAside(3, "torn")], after=5)
        await store.save_snapshot(lease, Snapshot(5, b"fold"))

        await store.delete(lease)

        assert (await store.info("s"), await store.read("s"), await store.quarantine("s")) == (None, [], [])
        assert (await store.load_snapshot("s"), await store.owing()) == (None, ["other"])
        assert await store.search("s", "first") == []
        assert await store.admit("s", an_input("first", client_id="c")) == Admission(1, is_new=True)
        assert [hit.seq for hit in await store.search("other", "first")] == [1]

    async def test_a_stale_worker_neither_deletes_nor_renames(self, store: Store) -> None:
        await _a_log(store)
        old = await lease_on(store)
        await lease_on(store)

        for change in (store.delete(old), store.rename(old, "t")):
            with pytest.raises(LeaseLostError):
                await change

        assert len(await log_of(store)) == 5
