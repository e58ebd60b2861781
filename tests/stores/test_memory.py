"""The store in memory keeps every promise."""

from collections.abc import AsyncIterator

import pytest

from holdfast.core.limits.bounds import Bounds
from holdfast.stores.memory import MemoryStore
from holdfast.testing.builders import ManualClock
from holdfast.testing.store_contract import StoreContract


class TestMemoryStore(StoreContract):
    @pytest.fixture
    async def store(self, clock: ManualClock, bounds: Bounds) -> AsyncIterator[MemoryStore]:
        store = MemoryStore(clock=clock, bounds=bounds)
        yield store
        await store.close()
