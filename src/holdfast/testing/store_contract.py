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

from holdfast.testing.store_promises_blobs import BlobNamePromises
from holdfast.testing.store_promises_feeds import FeedPromises
from holdfast.testing.store_promises_healing import HealingPromises
from holdfast.testing.store_promises_leases import LeasePromises
from holdfast.testing.store_promises_log import LogPromises
from holdfast.testing.store_promises_sealing import SealPromises
from holdfast.testing.store_promises_search import SearchPromises
from holdfast.testing.store_promises_sessions import SessionPromises


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
