"""Promises of the `Snapshots` port."""

import pytest

from holdfast.errors import LeaseLostError
from holdfast.ports import Snapshot, Snapshots
from holdfast.testing.builders import an_input
from holdfast.testing.clock import ManualClock
from holdfast.testing.store_fixture import ODD_KEYS, StorePromises, lease_on


class SnapshotContract(StorePromises):
    """All promises of `holdfast.ports.Snapshots`."""

    async def test_there_is_no_snapshot_until_one_is_saved(self, store: Snapshots) -> None:
        await store.admit("s", an_input())

        assert await store.load_snapshot("s") is None
        assert await store.load_snapshot("nobody") is None

    async def test_the_newest_snapshot_replaces_the_one_before(self, store: Snapshots) -> None:
        lease = await lease_on(store)
        body = bytes(range(256)) * 40

        await store.save_snapshot(lease, Snapshot(seq=4, body=b"older"))
        await store.save_snapshot(lease, Snapshot(seq=9, body=body))

        assert await store.load_snapshot("s") == Snapshot(seq=9, body=body)
        assert await store.load_snapshot("t") is None

    async def test_a_stale_worker_saves_no_snapshot(self, store: Snapshots) -> None:
        stale = await lease_on(store, owner="a")
        await store.save_snapshot(stale, Snapshot(seq=1, body=b"kept"))
        await lease_on(store, owner="a")

        with pytest.raises(LeaseLostError):
            await store.save_snapshot(stale, Snapshot(seq=2, body=b"stale"))

        assert await store.load_snapshot("s") == Snapshot(seq=1, body=b"kept")

    async def test_a_snapshot_does_not_count_as_news(self, store: Snapshots, clock: ManualClock) -> None:
        await store.admit("s", an_input())
        before = await store.info("s")
        clock.advance(60)

        await store.save_snapshot(await lease_on(store), Snapshot(seq=1, body=b"fold"))

        assert await store.info("s") == before

    async def test_every_key_has_a_snapshot_of_its_own(self, store: Snapshots) -> None:
        for key in ODD_KEYS:
            await store.save_snapshot(await lease_on(store, key), Snapshot(seq=2, body=key.encode()))

        for key in ODD_KEYS:
            assert await store.load_snapshot(key) == Snapshot(seq=2, body=key.encode())
