"""Fixtures and helpers for the contract suites of stores."""

from abc import ABC, abstractmethod

import pytest

from holdfast.core.limits.bounds import Bounds
from holdfast.ports import Lease, Log
from holdfast.testing.builders import a_notice, an_input
from holdfast.testing.clock import ManualClock
from holdfast.types.records import AnyRecord, Logged

# Small enough for a test to fill the queue, large enough for all other tests.
INPUTS_WAITING_MAX = 20

# Session keys that are hard to store.
ODD_KEYS = (
    "telegram:42",
    "'; DROP TABLE sessions; --",
    'a "quoted" key',
    "slashes/../and\\more",
    "%_*?[]",
    " spaces ",
    "line\nbreak",
    "nul\x00inside",
    "nul\x00inside2",
    "nul",
    "Ünïcödé",
    "U\u0308ni",
    "\u200b",
    "会话",
    "😀",
    "\uffff",
    "CASE",
    "case",
    "0",
    "00",
    "k" * 256,
)


class StorePromises(ABC):
    """Fixtures of every contract."""

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
    def store(self) -> Log:
        """The store under test, empty. The fixture closes it."""


def require_ports(store: Log, *ports: type) -> None:
    """Skip a test if the store does not implement these optional ports."""
    missing = [port.__name__ for port in ports if not isinstance(store, port)]
    if missing:
        pytest.skip(f"the store does not implement {', '.join(missing)}")


async def lease_on(store: Log, session: str = "s", owner: str = "worker", *, seconds: float = 30.0) -> Lease:
    """Take a lease that must be free."""
    lease = await store.acquire(session, owner, seconds=seconds)
    assert lease is not None, f"the lease on {session!r} should be free"
    return lease


async def log_of(store: Log, session: str = "s") -> list[AnyRecord]:
    """Return all records of a session, after checking that their seqs start at 1 and have no gap."""
    logged = await store.read(session)
    assert [each.seq for each in logged] == list(range(1, len(logged) + 1))
    return [each.record for each in logged]


async def five_records(store: Log, session: str = "s") -> list[Logged]:
    """Append an input with the client id "c" and four notices, and return them."""
    await store.admit(session, an_input("first", client_id="c"))
    lease = await lease_on(store, session)
    await store.append(lease, [a_notice(f"notice {number}") for number in range(2, 6)], after=1)
    await store.release(lease)
    return await store.read(session)
