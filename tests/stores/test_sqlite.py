"""The SQLite store keeps every promise."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.core.limits import Bounds
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.clock import ManualClock
from holdfast.testing.store_contract import StoreContract
from tests.stores.places import names_in


class TestSqliteStore(StoreContract):
    @pytest.fixture
    async def store(self, tmp_path: Path, clock: ManualClock, bounds: Bounds) -> AsyncIterator[SqliteStore]:
        store = SqliteStore(tmp_path / "s.db", clock=clock, bounds=bounds)
        yield store
        await store.close()
        assert names_in(tmp_path) == ["s.db"]
