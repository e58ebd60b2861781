"""Dying at every write of a turn with tools, on PostgreSQL: one outcome, nothing twice, nothing lost."""

import random

import pytest

from holdfast.stores.postgres import PostgresStore
from holdfast.testing.builders import ManualClock
from holdfast.testing.crashes import CrashPoint, Side, every_point
from tests.crashes.scenario import BOUNDS
from tests.crashes.test_in_process import World, _the_dead_are_silent, check
from tests.stores.postgres_server import emptied, on

__all__ = ["_the_dead_are_silent"]


class PostgresWorld(World):
    """The same world on a server."""

    def __init__(self, url: str) -> None:
        super().__init__(lambda clock: self._made(url, clock))

    def _made(self, url: str, clock: ManualClock) -> PostgresStore:
        self.postgres = PostgresStore(url, clock=clock, bounds=BOUNDS)
        return self.postgres


async def lives(url: str, *points: CrashPoint | None) -> int:
    """Live through some deaths and once without, check what is left, and return how often the last life wrote."""
    await on(url, emptied)
    world = PostgresWorld(url)
    try:
        for point in points:
            await world.live(point)
        writes = await world.live(None)
        await check(world)
    except AssertionError as error:
        raise AssertionError(f"died {points}: {error}") from error
    finally:
        await world.postgres.close()
    return writes


async def test_a_node_that_dies_at_any_write_is_continued_by_the_next(postgres_url: str) -> None:
    """FM-101, FM-102, FM-103, FM-110."""
    writes = await lives(postgres_url)
    assert writes >= 15, "the scenario must be worth killing"

    for point in every_point(writes):
        await lives(postgres_url, point)


@pytest.mark.parametrize("seed", range(3))
async def test_a_node_that_dies_again_and_again_gets_there(postgres_url: str, seed: int) -> None:
    rng = random.Random(seed)

    await lives(postgres_url, *(CrashPoint(rng.randint(1, 12), rng.choice(list(Side))) for _ in range(8)))
