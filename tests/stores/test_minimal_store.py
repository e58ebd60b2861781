"""A store with the `Log` port alone passes its contract and runs sessions; other abilities have fallbacks."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

import holdfast
from holdfast.core.limits.bounds import Bounds
from holdfast.errors import UnsupportedError, UsageError
from holdfast.ports import BlobRefs, Log, Maintenance, SearchIndex, SessionAdmin, Snapshots, Store
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.maintenance.healing import open_healed
from holdfast.runtime.sessions.client import Client
from holdfast.stores.memory import MemoryBlobs, MemoryStore
from holdfast.testing.builders import ManualClock, a_tool_call, a_turn_ended, an_input, lease_on
from holdfast.testing.engines import FunctionModel, says
from holdfast.testing.store_contract import LogContract
from holdfast.types.messages import Reply, Request, Role, text_of
from holdfast.types.records import CompactionOutcome, ToolSettled
from tests.runtime.summarisers import NOTES, Talker, records_of, until_idle
from tests.runtime.talks import HangingModel, a_long_talk, ended_well
from tests.stores.minimal_store import Disk, MinimalStore


class TestMinimalStore(LogContract):
    @pytest.fixture
    async def store(self, clock: ManualClock, bounds: Bounds) -> AsyncIterator[MinimalStore]:
        store = MinimalStore({}, clock=clock, bounds=bounds)
        yield store
        await store.close()


def test_ports_are_discovered_by_type() -> None:
    optional = (Snapshots, SearchIndex, BlobRefs, Maintenance, SessionAdmin, Store)
    minimal, full = MinimalStore({}, clock=ManualClock(), bounds=Bounds()), MemoryStore(clock=ManualClock())

    assert isinstance(minimal, Log)
    assert [isinstance(minimal, port) for port in optional] == [False] * 6
    assert [isinstance(full, port) for port in (Log, *optional)] == [True] * 7


# --- Sessions through `holdfast.open` ---


def opened(disk: Disk, blobs: MemoryBlobs, model: FunctionModel) -> AbstractAsyncContextManager[Client]:
    """Open a client on the same disk, as after a restart of the process."""
    store = MinimalStore(disk, clock=SystemClock(), bounds=Bounds())
    tuning = holdfast.Tuning(grace_seconds=0.0, lease_seconds=0.3)
    return holdfast.open(store, blobs=blobs, model=model, tools=[look_up], tuning=tuning)


def look_up(name: str) -> str:
    """Return the colour of a thing."""
    return f"{name} is teal"


def _calls_the_tool(request: Request) -> Reply:
    if request.messages[-1].role is Role.TOOL:
        return says("It is teal.")
    return says("", a_tool_call("look_up", '{"name": "the shed"}'))


async def test_a_turn_with_tools_a_compaction_and_a_restart_run_on_the_log_alone() -> None:
    disk, blobs = Disk(), MemoryBlobs()
    async with opened(disk, blobs, FunctionModel(_calls_the_tool)) as client:
        session = await client.session("s")
        assert (await session.send("Which colour has the shed?")).text == "It is teal."
        assert len(await records_of(session, ToolSettled)) == 1

    async with opened(disk, blobs, Talker(NOTES)) as client:
        session = await client.session("s")
        await a_long_talk(session, messages=5)
        assert (await session.compact()).outcome is CompactionOutcome.APPLIED
        assert NOTES in text_of((await session.view()).messages[0].parts)
        assert (await session.search("Which colour"))[0].seq == 1

    hanging = HangingModel()
    async with opened(disk, blobs, hanging) as client:
        sending = asyncio.ensure_future((await client.session("s")).send("interrupted"))
        await hanging.speaking.wait()
    with pytest.raises(holdfast.HoldfastError):
        await sending

    async with opened(disk, blobs, Talker(NOTES)) as client:
        session = await client.session("s")
        await until_idle(client)
        assert (await session.send("and now?")).text == "ok"
        await ended_well(session)
        assert NOTES in text_of((await session.view()).messages[0].parts)


async def test_abilities_without_a_fallback_are_rejected_and_change_nothing() -> None:
    disk, blobs = Disk(), MemoryBlobs()
    async with opened(disk, blobs, Talker(NOTES)) as client:
        session = await client.session("s")
        await session.send("hello")
        before = await session.history()

        with pytest.raises(UnsupportedError, match=r"this store cannot delete sessions: .*SessionAdmin"):
            await client.delete("s")
        with pytest.raises(UnsupportedError, match="this store cannot fork sessions"):
            await session.fork("t")
        with pytest.raises(UnsupportedError, match="this store cannot import sessions"):
            await client.import_(client.export("s"), key="t")

        assert (await session.history(), [known.key for known in await client.sessions()]) == (before, ["s"])


async def test_a_damaged_log_opens_without_repair() -> None:
    store = MinimalStore({}, clock=ManualClock(), bounds=Bounds())
    await store.admit("s", an_input())
    lease = await lease_on(store)
    await store.append(lease, [a_turn_ended(7)], after=1)

    log = await open_healed(lease, store)

    assert (log.misfits, log.turn.seq, len(await store.read("s"))) == ({2}, 2, 2)


async def test_a_store_object_needs_the_log_port_and_blobs_and_takes_an_archive_only_with_all_ports(
    tmp_path: Path,
) -> None:
    store = MinimalStore({}, clock=SystemClock(), bounds=Bounds())
    wrong: list[tuple[AbstractAsyncContextManager[Client], type[UsageError], str]] = [
        (holdfast.open(store), UsageError, "needs blobs"),
        (holdfast.open(":memory:", blobs=MemoryBlobs()), UsageError, "goes with a store object"),
        (holdfast.open(MemoryBlobs(), blobs=tmp_path), UsageError, "holdfast.ports.Log"),  # type: ignore[arg-type]  # wrong
        (holdfast.open(store, blobs=tmp_path / "b", archive=tmp_path / "a"), UnsupportedError, "use an archive"),
    ]

    for client, kind, match in wrong:
        with pytest.raises(kind, match=match):
            await client.__aenter__()

    full = MemoryStore(clock=SystemClock())
    async with holdfast.open(full, blobs=tmp_path / "b", archive=tmp_path / "a") as opened_client:
        await (await opened_client.session("s")).send("hello")
