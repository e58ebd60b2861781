"""Leases: take one, renew it while the work lasts, release it.

Every holder of a lease uses these functions. A lease that is lost while the work runs raises `LeaseLostError`: another
worker has taken over, and it continues where the log stands.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from uuid import uuid4

from holdfast.errors import RetryLaterError, StoreFullError
from holdfast.ports import Clock, Lease, Log

# A worker that dies without a trace holds its session this long at most.
LEASE_SECONDS = 30.0
# Three renewals fit into a lease, so one or two late ones on a busy machine do not cost it.
RENEWALS_PER_LEASE = 3
# Interval between attempts to take a lease that another worker holds.
POLL_SECONDS = 0.1


def unique_owner(role: str) -> str:
    """Return an owner name for one task. A store gives a held lease again to the same owner of the same process."""
    return f"{role}:{uuid4().hex}"


async def try_lease(store: Log, session: str, owner: str, *, seconds: float = LEASE_SECONDS) -> Lease | None:
    """Return the lease of a session, or None while another worker holds it."""
    return await store.acquire(session, owner, seconds=seconds)


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
    while (lease := await try_lease(store, session, owner, seconds=seconds)) is None:
        if clock.now() >= deadline:
            raise RetryLaterError(f"session {session!r} is being worked on elsewhere; retry in a moment")
        await clock.sleep(POLL_SECONDS)
    return lease


@asynccontextmanager
async def renewed_lease(
    store: Log, clock: Clock, lease: Lease, *, seconds: float = LEASE_SECONDS
) -> AsyncGenerator[Lease, None]:
    """Renew a lease while the block runs. Losing it cancels the block and raises `LeaseLostError`.

    An error of the block is raised as it is, not in a group.
    """
    error: BaseException | None = None
    try:
        async with asyncio.TaskGroup() as group:
            renewal = group.create_task(_renew(store, clock, lease, seconds), name=f"lease {lease.session}")
            yield lease
            renewal.cancel()
    except BaseExceptionGroup as errors:
        # A lost lease comes first; an error of the cancelled block follows from it.
        error = errors.exceptions[0]
    if error is not None:
        raise error


@asynccontextmanager
async def kept_lease(
    store: Log, clock: Clock, lease: Lease, *, seconds: float = LEASE_SECONDS
) -> AsyncGenerator[Lease, None]:
    """Renew a lease while the block runs as `renewed_lease` does, and release it after."""
    try:
        async with renewed_lease(store, clock, lease, seconds=seconds):
            yield lease
    finally:
        # A release that cannot be written is not an error of the work; the lease expires by itself.
        with suppress(StoreFullError, RetryLaterError):
            await store.release(lease)


async def _renew(store: Log, clock: Clock, lease: Lease, seconds: float) -> None:
    while True:
        await clock.sleep(seconds / RENEWALS_PER_LEASE)
        # An expired lease holds until another worker takes it. On a full disk none can, and a store that is busy or
        # unreachable now is asked again with the next renewal.
        with suppress(StoreFullError, RetryLaterError):
            await store.renew(lease, seconds=seconds)
