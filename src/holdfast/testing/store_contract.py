"""Contract suites of the store ports, as pytest classes.

Subclass the contract of every port that a store implements and provide the store as a fixture. `LogContract` is the
one that every store must pass; `StoreContract` has all of them.

    class TestMyStore(LogContract, SearchContract):
        @pytest.fixture
        async def store(self, clock, bounds):
            store = MyStore(clock=clock, bounds=bounds)
            yield store
            await store.close()

The store must take its time from `clock` and its limit of pending inputs from `bounds`. The tests are coroutines and
need pytest-asyncio in automatic mode.
"""

import pytest

from holdfast.core.integrity.reconcile import DropSnapshot, Recount, SetAside
from holdfast.errors import BadInputError, ClientIdReusedError, LeaseLostError, SeqMovedError
from holdfast.ports import (
    Admission,
    BlobRefs,
    Maintenance,
    SearchIndex,
    SessionAdmin,
    Snapshot,
    Snapshots,
    Store,
)
from holdfast.testing.append_contract import AppendContract
from holdfast.testing.blob_contracts import FIRST, SECOND, THIRD, BlobRefContract, referencing
from holdfast.testing.builders import (
    StorePromises,
    a_notice,
    a_reply,
    a_tool_call,
    an_input,
    five_records,
    lease_on,
    require_ports,
)
from holdfast.testing.directory_contract import DirectoryContract
from holdfast.testing.lease_contract import FeedPromises, LeasePromises
from holdfast.testing.log_contract import AppendPromises, SessionPromises, SnapshotContract
from holdfast.testing.maintenance_contract import MaintenanceContract, SessionAdminContract, segment_of
from holdfast.testing.search_contract import SearchContract
from holdfast.types.messages import LargeText, Media, Text, ToolResult
from holdfast.types.records import Logged, ToolSettled

__all__ = [
    "AppendContract",
    "BlobRefContract",
    "CrossPortContract",
    "DirectoryContract",
    "LogContract",
    "MaintenanceContract",
    "SearchContract",
    "SessionAdminContract",
    "SnapshotContract",
    "StoreContract",
]


class CrossPortContract(StorePromises):
    """Promises about snapshots, search, repairs, seals, blob references and whole sessions together."""

    async def test_what_is_owed_and_the_fold_that_is_kept_are_set_with_the_repairs(self, store: Store) -> None:
        require_ports(store, Maintenance, Snapshots)
        await five_records(store)
        lease = await lease_on(store)
        await store.save_snapshot(lease, Snapshot(5, b"fold"))

        await store.repair(lease, [Recount(0, "why"), DropSnapshot(5, "why")], after=5)

        assert (await store.pending(), await store.load_snapshot("s")) == ([], None)
        await store.admit("s", an_input("next"))
        assert await store.pending() == ["s"]

    async def test_a_search_does_not_find_what_was_set_aside(self, store: Store) -> None:
        require_ports(store, Maintenance, SearchIndex)
        await store.admit("s", an_input("a lighthouse"))
        await store.admit("s", an_input("a harbour"))
        assert [hit.seq for hit in await store.search("s", "lighthouse")] == [1]
        lease = await lease_on(store)

        await store.repair(lease, [SetAside(1, "torn")], after=2)

        assert [hit.seq for hit in await store.search("s", "lighthouse")] == []
        assert [hit.seq for hit in await store.search("s", "harbour")] == [2]

    async def test_a_session_under_another_key_is_the_same_session(self, store: Store) -> None:
        require_ports(store, SessionAdmin, Snapshots)
        before = await five_records(store)
        lease = await lease_on(store)
        await store.save_snapshot(lease, Snapshot(5, b"fold"))

        renamed = await store.rename(lease, "t")

        assert (await store.read("t"), await store.read("s"), await store.info("s")) == (before, [], None)
        assert await store.load_snapshot("t") == Snapshot(5, b"fold")
        assert (await store.admit("t", an_input("first", client_id="c"))).is_new is False
        assert await store.append(renamed, [a_notice()], after=5) == 6
        assert (await store.admit("s", an_input("anew"))).seq == 1

    async def test_a_session_that_is_deleted_is_gone_and_its_key_begins_anew(self, store: Store) -> None:
        require_ports(store, Maintenance, SearchIndex, SessionAdmin, Snapshots)
        await five_records(store)
        await five_records(store, "other")
        assert await store.search("s", "first") != []
        lease = await lease_on(store)
        await store.repair(lease, [SetAside(3, "torn")], after=5)
        await store.save_snapshot(lease, Snapshot(5, b"fold"))

        await store.delete(lease)

        assert (await store.info("s"), await store.read("s"), await store.quarantine("s")) == (None, [], [])
        assert (await store.load_snapshot("s"), await store.pending()) == (None, ["other"])
        assert await store.search("s", "first") == []
        assert await store.admit("s", an_input("first", client_id="c")) == Admission(1, is_new=True)
        assert [hit.seq for hit in await store.search("other", "first")] == [1]

    @pytest.mark.parametrize("is_searched_before", [True, False])
    async def test_what_was_sealed_is_still_found(self, store: Store, *, is_searched_before: bool) -> None:
        require_ports(store, Maintenance, SearchIndex)
        lease = await lease_on(store)
        said = [a_reply(f"number {number} is about {word}") for number, word in enumerate(("apples", "pears", "plums"))]
        await store.append(lease, said, after=0)
        if is_searched_before:
            assert [hit.seq for hit in await store.search("s", "pears")] == [2]
        segment, _ = await segment_of(store, 2)
        await store.seal(lease, segment, after=3)

        found = [[hit.seq for hit in await store.search("s", word)] for word in ("apples", "pears", "plums")]

        assert found == [[1], [2], [3]]

    async def test_whatever_way_a_record_comes_in_its_blobs_are_known_each_once(self, store: Store) -> None:
        require_ports(store, BlobRefs, SessionAdmin)
        await store.admit("s", referencing(THIRD, THIRD))
        lease = await lease_on(store)
        settled = ToolSettled(1, ToolResult("call", (Text("see"), Media(FIRST, "image/png")), originals=(THIRD,)))
        await store.append(lease, [a_notice(), settled], after=1)
        await store.adopt(lease, [Logged(4, 5.0, referencing(SECOND)), Logged(5, 6.0, an_input())])

        assert await store.blob_refs("s") == [FIRST, SECOND, THIRD]
        assert (await store.blob_refs("nobody"), await store.unscanned_sessions()) == ([], [])

    async def test_what_is_refused_names_nothing(self, store: Store) -> None:
        require_ports(store, BlobRefs, SessionAdmin)
        await store.admit("s", an_input("hi", client_id="c"))
        old = await lease_on(store)
        lease = await lease_on(store)
        settled = ToolSettled(1, ToolResult("call", (LargeText(FIRST, "long"),)))

        with pytest.raises(ClientIdReusedError):
            await store.admit("s", referencing(FIRST, client_id="c"))
        with pytest.raises(LeaseLostError):
            await store.append(old, [settled], after=1)
        with pytest.raises(SeqMovedError):
            await store.append(lease, [settled], after=0)
        with pytest.raises(SeqMovedError):
            await store.adopt(lease, [Logged(5, 5.0, referencing(FIRST))])

        assert await store.blob_refs("s") == []

    async def test_a_session_that_is_renamed_takes_its_names_along_and_one_that_is_deleted_gives_them_up(
        self, store: Store
    ) -> None:
        require_ports(store, BlobRefs, SessionAdmin)
        await store.admit("a", referencing(FIRST))
        await store.admit("b", referencing(FIRST))
        lease = await store.rename(await lease_on(store, "a"), "c")

        assert (await store.blob_refs("a"), await store.blob_refs("c")) == ([], [FIRST])
        assert await store.unshared_blobs(["b"]) == []

        await store.delete(lease)
        await store.admit("c", an_input("another one"))

        assert (await store.blob_refs("c"), await store.unshared_blobs(["b"])) == ([], [FIRST])

    async def test_what_was_sealed_or_set_aside_is_still_known_to_be_named(self, store: Store) -> None:
        require_ports(store, BlobRefs, Maintenance)
        await store.admit("s", referencing(FIRST))
        await store.admit("s", referencing(SECOND))
        lease = await lease_on(store)
        await store.append(lease, [a_notice()], after=2)
        segment, _ = await segment_of(store, 1)

        await store.seal(lease, segment, after=3)
        await store.repair(lease, [SetAside(2, "torn")], after=4)

        assert await store.blob_refs("s") == [FIRST, SECOND]

    async def test_a_call_is_not_parted_from_its_result(self, store: Store) -> None:
        require_ports(store, Maintenance, SearchIndex)
        lease = await lease_on(store)
        await store.append(lease, [a_reply("", a_tool_call("find_pears"))], after=0)
        segment, _ = await segment_of(store, 1)

        with pytest.raises(BadInputError, match="still open"):
            await store.seal(lease, segment, after=1)

        assert await store.segments("s") == []


class LogContract(AppendPromises, SessionPromises, LeasePromises, FeedPromises):
    """All promises of `holdfast.ports.Log`."""


class StoreContract(
    LogContract,
    AppendContract,
    DirectoryContract,
    SnapshotContract,
    SearchContract,
    BlobRefContract,
    MaintenanceContract,
    SessionAdminContract,
    CrossPortContract,
):
    """All promises of `holdfast.ports.Store`."""
