"""What every store promises, as tests: subclass `StoreContract`, give it a store, and pytest does the rest.

    class TestMyStore(StoreContract):
        @pytest.fixture
        async def store(self, clock, bounds):
            store = MyStore(clock=clock, bounds=bounds)
            yield store
            await store.close()

The store must take its time from `clock` and its bound on waiting inputs from `bounds`. Tests are coroutines, so
pytest-asyncio in its automatic mode is needed.
"""

from holdfast.testing.lease_contract import FeedPromises, LeasePromises
from holdfast.testing.log_contract import LogPromises, SessionPromises
from holdfast.testing.repair_contract import HealingPromises, SearchPromises
from holdfast.testing.sealing_contract import BlobNamePromises, SealPromises


class StoreContract(
    LogPromises,
    LeasePromises,
    FeedPromises,
    SearchPromises,
    SealPromises,
    SessionPromises,
    HealingPromises,
    BlobNamePromises,
):
    """All promises of `holdfast.ports.Store`."""
