"""The SQLite store keeps every promise, whether the event loop writes itself or the thread does."""

import math
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.core.limits.bounds import Bounds
from holdfast.stores.sqlite import SqliteStore, write_connection
from holdfast.testing.builders import ManualClock
from holdfast.testing.store_contract import StoreContract
from tests.stores.places import names_in


class TestSqliteStore(StoreContract):
    # The disk counts as slow: the thread writes everything.
    quick_seconds = 0.0

    @pytest.fixture
    async def store(
        self, tmp_path: Path, clock: ManualClock, bounds: Bounds, monkeypatch: pytest.MonkeyPatch
    ) -> AsyncIterator[SqliteStore]:
        monkeypatch.setattr(write_connection, "QUICK_SECONDS", self.quick_seconds)
        store = SqliteStore(tmp_path / "s.db", clock=clock, bounds=bounds)
        yield store
        await store.close()
        assert names_in(tmp_path) == ["s.db", "s.db-reserve"]


class TestSqliteStoreOnAQuickDisk(TestSqliteStore):
    # The disk counts as quick: the event loop writes whatever is alone.
    quick_seconds = math.inf
