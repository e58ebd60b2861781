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

from holdfast.testing.blob_refs_contract import BlobRefContract
from holdfast.testing.cross_port_contract import CrossPortContract
from holdfast.testing.lease_contract import FeedPromises, LeasePromises
from holdfast.testing.log_contract import AppendPromises, SessionPromises
from holdfast.testing.maintenance_contract import MaintenanceContract
from holdfast.testing.search_contract import SearchContract
from holdfast.testing.session_admin_contract import SessionAdminContract
from holdfast.testing.snapshot_contract import SnapshotContract

__all__ = [
    "BlobRefContract",
    "CrossPortContract",
    "LogContract",
    "MaintenanceContract",
    "SearchContract",
    "SessionAdminContract",
    "SnapshotContract",
    "StoreContract",
]


class LogContract(AppendPromises, SessionPromises, LeasePromises, FeedPromises):
    """All promises of `holdfast.ports.Log`."""


class StoreContract(
    LogContract,
    SnapshotContract,
    SearchContract,
    BlobRefContract,
    MaintenanceContract,
    SessionAdminContract,
    CrossPortContract,
):
    """All promises of `holdfast.ports.Store`."""
