"""What the tests of every store start from: the store under test, its clock and its bounds."""

from abc import ABC, abstractmethod

import pytest

from holdfast.core.limits.bounds import Bounds
from holdfast.ports import Lease, Store
from holdfast.testing.clock import ManualClock
from holdfast.types.records import AnyRecord

# Small, so that a test can fill the queue; large enough for all other tests.
INPUTS_WAITING_MAX = 20


class StorePromises(ABC):
    """The fixtures of every group of promises."""

    @pytest.fixture
    def clock(self) -> ManualClock:
        """The clock that the store must use."""
        return ManualClock()

    @pytest.fixture
    def bounds(self) -> Bounds:
        """The bounds that the store must use."""
        return Bounds(inputs_waiting_max=INPUTS_WAITING_MAX)

    @abstractmethod
    @pytest.fixture
    def store(self) -> Store:
        """The store under test, empty; closed by whoever made it."""


async def lease_on(store: Store, session: str = "s", owner: str = "worker", *, seconds: float = 30.0) -> Lease:
    """Take a lease that must be free."""
    lease = await store.acquire(session, owner, seconds=seconds)
    assert lease is not None, f"the lease on {session!r} should be free"
    return lease


async def log_of(store: Store, session: str = "s") -> list[AnyRecord]:
    """Return all records of a session, having checked that they are numbered from 1 without a gap."""
    logged = await store.read(session)
    assert [each.seq for each in logged] == list(range(1, len(logged) + 1))
    return [each.record for each in logged]
