"""Several processes on one SQLite file: they feed each other, and none outlives its lease by dying."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from holdfast.errors import LeaseLostError
from holdfast.ports import Lease
from holdfast.runtime.clock import SystemClock
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.builders import a_notice, an_input
from tests.stores.other_process import BURST_SESSIONS, SENT, line_of, started, watch
from tests.stores.places import names_in


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(path, clock=SystemClock())
    yield store
    await store.close()


async def test_two_processes_feed_each_other(store: SqliteStore, path: Path) -> None:
    async with started("send_and_watch", path) as other:
        assert await line_of(other) == "ready"
        assert other.stdin is not None
        other.stdin.write(b"go\n")

        fed_here = asyncio.create_task(watch(store))
        for number in range(SENT):
            await store.admit("shared", an_input(f"here {number}"))
        fed_there = [int(seq) for seq in (await line_of(other)).split()]

        everything = list(range(1, 2 * SENT + 1))
        assert (await fed_here, fed_there, await other.wait()) == (everything, everything, 0)
    assert len(await store.read("shared")) == 2 * SENT


async def test_many_processes_may_open_a_new_file_at_once(path: Path) -> None:
    async with AsyncExitStack() as stack:
        others = [await stack.enter_async_context(started("admit_one", path)) for _ in range(5)]

        assert [await other.wait() for other in others] == [0] * 5

    assert names_in(path.parent) == ["s.db", "s.db-reserve"]
    store = SqliteStore(path, clock=SystemClock())
    assert [each.record for each in await store.read("s")] == [an_input("one of many")] * 5
    await store.close()


async def test_the_lease_of_a_killed_process_can_be_taken_at_once(store: SqliteStore, path: Path) -> None:
    async with started("hold_a_lease", path) as other:
        fence = int((await line_of(other)).removeprefix("fence "))
        while_it_lived = await store.acquire("s", "worker", seconds=30)
        other.kill()
        await other.wait()

    taken = await store.acquire("s", "successor", seconds=30)

    assert while_it_lived is None
    assert taken is not None
    assert taken.fence > fence
    with pytest.raises(LeaseLostError):
        await store.append(Lease("s", "worker", fence, expires_at=1e12), [a_notice("ghost")], after=1)
    assert await store.append(taken, [a_notice("mine")], after=1) == 2
    assert len(names_in(path.with_name("s.db-owners"))) == 1


async def test_the_lease_of_a_closed_store_can_be_taken_at_once(store: SqliteStore, path: Path) -> None:
    other = SqliteStore(path, clock=SystemClock())
    held = await other.acquire("s", "worker", seconds=3_600)
    while_it_lived = await store.acquire("s", "worker", seconds=30)
    await other.close()

    taken = await store.acquire("s", "worker", seconds=30)

    assert held is not None
    assert while_it_lived is None, "two stores are two workers, whatever they call themselves"
    assert taken is not None
    assert taken.fence > held.fence


async def test_whatever_was_acknowledged_survives_a_kill(path: Path) -> None:
    acknowledged: dict[str, int] = {}
    async with started("write_in_bursts", path) as other:
        for _ in range(400):
            session, seq = (await line_of(other)).split()
            acknowledged[session] = int(seq)
        other.kill()
        # What it said before it died counts as well.
        assert other.stdout is not None
        for line in (await other.stdout.read()).decode().splitlines(keepends=True):
            if line.endswith("\n"):
                session, seq = line.split()
                acknowledged[session] = int(seq)

    store = SqliteStore(path, clock=SystemClock())
    for number in range(BURST_SESSIONS):
        log = await store.read(f"s{number}")
        assert len(log) >= acknowledged[f"s{number}"]
        assert [each.seq for each in log] == list(range(1, len(log) + 1))
        firsts = [each.record for each in log[::2]]
        assert firsts == [a_notice(f"s{number} {turn}") for turn in range(len(log) // 2)]
        assert [each.record for each in log[1::2]] == [a_notice("second")] * (len(log) // 2)
    await store.close()
    assert names_in(path.parent) == ["s.db", "s.db-reserve"]
