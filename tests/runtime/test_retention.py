"""Retention: what nobody has touched for days goes by itself where that is wanted, and nothing else ever does."""

import asyncio
import dataclasses
import logging

import pytest

from holdfast.core.limits.bounds import RESERVED_KEYS
from holdfast.ports import RowCheck
from holdfast.runtime.engine.context import Engine
from holdfast.runtime.maintenance import supervisor as supervising
from holdfast.runtime.sessions.delete import prune_sessions
from holdfast.stores.memory import MemoryBlobs, MemoryStore
from holdfast.testing.builders import ManualClock, a_notice, a_turn_ended, a_turn_started, lease_on
from holdfast.testing.engines import ScriptedModel, a_hold, an_engine
from holdfast.types.messages import LargeText, Text
from holdfast.types.records import InputAdmitted

DAY = 86_400.0
LOOK_SECONDS = 10.0


class World:
    """A store in memory under a set clock, and engines over it."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store, self.blobs = MemoryStore(clock=self.clock), MemoryBlobs()

    def engine(self, days: float | None) -> Engine:
        engine = an_engine(ScriptedModel(["not asked"]), store=self.store, blobs=self.blobs, clock=self.clock)
        return dataclasses.replace(engine, retention_days=days)

    async def note(self, *sessions: str) -> None:
        for session in sessions:
            lease = await lease_on(self.store, session)
            known = await self.store.info(session)
            await self.store.append(lease, [a_notice("said")], after=known.last_seq if known else 0)
            await self.store.release(lease)

    async def keys(self) -> list[str]:
        return [known.key for known in await self.store.sessions()]

    async def looks(self, count: int = 1) -> None:
        """Let the watchdog look so many times, and what it begins come to its end."""
        for _ in range(count):
            await self.clock.until_asleep(1)
            self.clock.advance(LOOK_SECONDS)
            await self.clock.until_asleep(1)
            await asyncio.gather(*(task for task in asyncio.all_tasks() if task.get_name() == "prune"))


async def test_what_nobody_has_touched_for_days_goes_in_an_idle_moment_with_its_blobs(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    world = World()
    ref = await world.blobs.put(b"a large text")
    await world.store.admit("old", InputAdmitted((LargeText(ref, "large"),)))
    lease = await lease_on(world.store, "old")
    await world.store.append(lease, [a_turn_started(), a_turn_ended()], after=1)
    await world.store.release(lease)
    world.clock.advance(2 * DAY)
    await world.note("new")
    world.clock.advance(29 * DAY)

    async with a_hold(world.engine(days=30)):
        before = await world.keys()
        await world.looks()

    assert (before, await world.keys(), world.blobs._blobs) == (["new", "old"], ["new"], {})
    assert any(record.message == "untouched sessions were removed" for record in caplog.records)


async def test_without_a_number_of_days_nothing_ever_goes() -> None:
    world = World()
    await world.note("old")
    world.clock.advance(10_000 * DAY)

    async with a_hold(world.engine(days=None)):
        await world.looks(3)

    assert await world.keys() == ["old"]


async def test_what_is_in_use_owes_an_answer_or_is_ours_stays() -> None:
    world = World()
    own = f"{RESERVED_KEYS}learned"
    await world.note("worked on", "going", own)
    await world.store.admit("gateway:owing", InputAdmitted((Text("hello?"),)))
    world.clock.advance(31 * DAY)
    held = await world.store.acquire("worked on", "somebody", seconds=3_600)
    assert held is not None

    gone = await prune_sessions(world.store, world.blobs, None, since=world.clock.now() - 30 * DAY)

    assert gone.sessions == ("going",)
    assert list(gone.stayed) == ["worked on"]
    assert await world.keys() == sorted(["worked on", "gateway:owing", own])


class Talkative(MemoryStore):
    """Somebody writes to a session while its log is looked over."""

    is_quiet = True

    async def check_rows(self, session: str, *, after: int | None = None, limit: int = 1_000) -> RowCheck:
        if not self.is_quiet:
            self.is_quiet = True
            await self.admit(session, InputAdmitted((Text("wait for me"),)))
        return await super().check_rows(session, after=after, limit=limit)


async def test_a_message_that_comes_while_a_session_is_looked_at_keeps_it() -> None:
    world = World()
    world.store = Talkative(clock=world.clock)
    await world.note("old")
    world.clock.advance(31 * DAY)
    world.store.is_quiet = False

    gone = await prune_sessions(world.store, world.blobs, None, since=world.clock.now() - 30 * DAY)

    assert (gone.sessions, await world.keys()) == ((), ["old"])
    assert "used meanwhile" in gone.stayed["old"]


async def test_many_go_in_portions_one_look_after_the_other_and_then_none_is_looked_for_until_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(supervising, "_PRUNED_AT_ONCE", 2)
    world = World()
    await world.note(*"abcde")
    world.clock.advance(1_000)

    left = []
    async with a_hold(world.engine(days=900 / DAY)):
        for _ in range(3):
            await world.looks()
            left.append(await world.keys())
        await world.note("f")
        for seconds in (1_000, 3_600):
            world.clock._now += seconds
            await world.looks()
            left.append(await world.keys())

    assert left == [["c", "d", "e"], ["e"], [], ["f"], []]
