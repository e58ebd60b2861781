"""Leases: take one, renew it while the work lasts, release it.

Every holder of a lease uses these functions. A lease that is lost while the work runs raises `LeaseLostError`: another
worker has taken over, and it continues where the log stands.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

from holdfast.errors import RetryLaterError, StoreFullError
from holdfast.ports import Clock, Lease, Log

# A worker that dies without a trace holds its session this long at most.
LEASE_SECONDS = 30.0
# Three renewals fit into a lease, so one or two late ones on a busy machine do not cost it.
RENEWALS_PER_LEASE = 3
# How often a lease that another worker holds is asked for.
POLL_SECONDS = 0.1


async def take_lease(
    store: Log,
    clock: Clock,
    session: str,
    owner: str,
    *,
    seconds: float = LEASE_SECONDS,
    wait_seconds: float = 0.0,
) -> Lease:
    """Return the lease of a session. Raises `RetryLaterError` if another worker keeps it for longer than the wait."""
    deadline = clock.now() + wait_seconds
    while (lease := await store.acquire(session, owner, seconds=seconds)) is None:
        if clock.now() >= deadline:
            raise RetryLaterError(f"session {session!r} is being worked on elsewhere; retry in a moment")
        await clock.sleep(POLL_SECONDS)
    return lease


@asynccontextmanager
async def kept_lease(
    store: Log, clock: Clock, lease: Lease, *, seconds: float = LEASE_SECONDS
) -> AsyncGenerator[Lease, None]:
    """Renew a lease while the block runs, and release it after. Losing it cancels the block."""
    try:
        async with asyncio.TaskGroup() as group:
            renewal = group.create_task(_renew(store, clock, lease, seconds), name=f"lease {lease.session}")
            yield lease
            renewal.cancel()
    finally:
        # On a full disk the release cannot be written; the lease then expires by itself.
        with suppress(StoreFullError):
            await store.release(lease)


async def _renew(store: Log, clock: Clock, lease: Lease, seconds: float) -> None:
    while True:
        await clock.sleep(seconds / RENEWALS_PER_LEASE)
        # An expired lease holds until another worker takes it, and on a full disk none can.
        with suppress(StoreFullError):
            await store.renew(lease, seconds=seconds)
