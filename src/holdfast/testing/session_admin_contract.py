"""Promises of the `SessionAdmin` port: adopt, rename and delete whole sessions."""

import pytest

from holdfast.errors import BadInputError, LeaseLostError, SeqMovedError
from holdfast.ports import Admission, SessionAdmin
from holdfast.testing.builders import a_notice, a_turn_ended, a_turn_started, an_input
from holdfast.testing.store_fixture import StorePromises, five_records, lease_on, log_of
from holdfast.types.records import DamageSetAside, Logged


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
