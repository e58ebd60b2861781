"""Leases: taken after a wait or not at all, renewed while the work lasts, released after it."""

import asyncio

import pytest

from holdfast.errors import BadInputError, LeaseLostError, RetryLaterError, StoreBusyError
from holdfast.ports import Lease
from holdfast.runtime.engine.lease import LEASE_SECONDS, kept_lease, renewed_lease, take_lease, try_lease, unique_owner
from holdfast.stores.memory import MemoryStore
from holdfast.testing.builders import ManualClock

KEY = "s"


class World:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = MemoryStore(clock=self.clock)

    async def take(self, owner: str = "one") -> Lease:
        return await take_lease(self.store, self.clock, KEY, owner)

    async def is_free(self) -> bool:
        lease = await try_lease(self.store, KEY, unique_owner("probe"))
        if lease is not None:
            await self.store.release(lease)
        return lease is not None

    async def pass_a_term(self) -> None:
        """Let a lease's term pass, a renewal at a time."""
        for _ in range(4):
            await self.clock.until_asleep(1)
            self.clock.advance(LEASE_SECONDS / 3)
            for _ in range(5):
                await asyncio.sleep(0)


async def test_a_held_lease_is_waited_for_as_long_as_asked_and_not_longer() -> None:
    world = World()
    held = await world.take()
    assert await try_lease(world.store, KEY, "two") is None
    with pytest.raises(RetryLaterError, match="'s' is being worked on elsewhere"):
        await world.take("two")

    waiting = asyncio.create_task(take_lease(world.store, world.clock, KEY, "two", wait_seconds=1.0))
    await world.clock.until_asleep(1)
    await world.store.release(held)
    world.clock.advance(0.1)

    assert (await waiting).owner == "two"


async def test_a_lease_is_kept_beyond_its_term_and_released_after_the_work() -> None:
    world = World()
    async with kept_lease(world.store, world.clock, await world.take()):
        await world.pass_a_term()
        assert not await world.is_free()
    assert await world.is_free()


async def test_an_error_of_the_work_is_raised_as_it_is_and_releases_the_lease() -> None:
    world = World()
    with pytest.raises(BadInputError, match="mine"):
        async with kept_lease(world.store, world.clock, await world.take()):
            raise BadInputError("mine")
    assert await world.is_free()


async def test_a_lease_that_is_only_renewed_stays_held_after_the_work() -> None:
    world = World()
    async with renewed_lease(world.store, world.clock, await world.take()):
        await world.pass_a_term()
    assert not await world.is_free()


async def test_a_lost_lease_cancels_the_work_and_leaves_the_lease_to_the_other() -> None:
    world = World()
    was_cancelled = False
    lease = await world.take()
    # Held up past the term, without a renewal.
    world.clock._now += LEASE_SECONDS + 1
    taken = await world.take("two")

    async def work() -> None:
        nonlocal was_cancelled
        async with kept_lease(world.store, world.clock, lease):
            try:
                await asyncio.Event().wait()
            finally:
                was_cancelled = True

    working = asyncio.create_task(work())
    await world.clock.until_asleep(1)
    world.clock.advance(LEASE_SECONDS / 3)
    with pytest.raises(LeaseLostError):
        await working

    assert was_cancelled
    assert (await world.store.renew(taken, seconds=LEASE_SECONDS)).owner == "two"


async def test_a_store_that_is_busy_at_one_renewal_does_not_end_the_work() -> None:
    class BusyOnce(MemoryStore):
        renewals = 0

        async def renew(self, lease: Lease, *, seconds: float) -> Lease:
            self.renewals += 1
            if self.renewals == 1:
                raise StoreBusyError("the store is busy")
            return await super().renew(lease, seconds=seconds)

    world = World()
    world.store = BusyOnce(clock=world.clock)
    async with kept_lease(world.store, world.clock, await world.take()):
        await world.pass_a_term()
        assert not await world.is_free()
    assert await world.is_free()
