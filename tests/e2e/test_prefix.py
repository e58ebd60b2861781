"""Prompt caches stay warm: between compactions each request starts with the bytes of the one before it."""

from itertools import pairwise
from pathlib import Path

import pytest

from holdfast.core.limits.bounds import Bounds
from holdfast.ports import Attachment
from holdfast.types.records import CompactionApplied, OutputMasked
from tests.e2e.images import a_png
from tests.e2e.world import DIALECTS, KEY, SMALL, a_world, is_for_notes, records_of, talk


def grown_until(body: bytes) -> bytes:
    """Return the part of a request that the next one must start with: all up to the end of its conversation."""
    # Settings stand behind the messages; the list of messages ends with the last bracket of what comes before them.
    end = body.index(b'],"max_tokens"') if b'],"max_tokens"' in body else body.index(b'],"stream"')
    return body[:end]


def breaks(bodies: list[bytes]) -> list[int]:
    """Return the places at which a request does not start with the one before it."""
    return [at for at, (one, next_one) in enumerate(pairwise(bodies)) if not next_one.startswith(grown_until(one))]


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_each_request_starts_with_the_bytes_of_the_one_before_it(tmp_path: Path, dialect: str) -> None:
    """FM-148: text, tools, images and thinking; also in the next process."""

    def look(number: int) -> str:
        """Look something up."""
        return f"found {number}"

    async with a_world(tmp_path, dialect) as world:
        for opened in range(2):
            async with world.open(tools=[look], system="Be brief.") as hold:
                session = await hold.session(KEY)
                await session.send(f"hello {opened}")
                await session.send('call look {"number": 1} and call look {"number": 2} then call look {"number": 3}')
                await session.send("look here", attachments=[Attachment(a_png(seed=opened), "photo.png")])
                await session.send("think about it")
                await session.send("write 50 words")

        bodies = [seen.body for seen in world.simulation.requests]
        assert len(bodies) == 14
        assert breaks(bodies) == []


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_only_a_compaction_breaks_the_prefix_and_each_does_so_once(tmp_path: Path, dialect: str) -> None:
    """FM-032, FM-143, FM-148."""
    async with a_world(tmp_path, dialect) as world, world.open(world.model(declared=SMALL)) as hold:
        session = await hold.session(KEY)

        await talk(session, messages=16)

        bodies = [seen.body for seen in world.simulation.requests if not is_for_notes(seen)]
        compactions = await records_of(session, CompactionApplied)
        assert len(compactions) > 1
        assert len(breaks(bodies)) == len(compactions)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_output_is_not_masked_where_that_would_not_be_enough_and_the_past_is_rewritten_once(
    tmp_path: Path, dialect: str
) -> None:
    """FM-032, FM-143: a mask that makes too little room, and then a summary, would cost the cache twice."""

    def look(number: int) -> str:
        """Look something up."""
        return f"found {number}. " * 100

    bounds = Bounds(compacts_ahead=False, outputs_kept=1)
    async with (
        a_world(tmp_path, dialect) as world,
        world.open(world.model(declared=SMALL), bounds=bounds, tools=[look]) as hold,
    ):
        session = await hold.session(KEY)
        await session.send('call look {"number": 1} then call look {"number": 2} then call look {"number": 3}')

        await talk(session, messages=6)

        bodies = [seen.body for seen in world.simulation.requests if not is_for_notes(seen)]
        assert len(await records_of(session, CompactionApplied)) == 1
        assert await records_of(session, OutputMasked) == []
        assert len(breaks(bodies)) == 1
