"""Disk syncs of a SQLite store: one for each commit that must survive a power loss, none for leases."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import apsw
import pytest

import holdfast
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.builders import ManualClock, a_notice, an_input


class CountingFile(apsw.VFSFile):
    def __init__(self, usual: str, name: str | apsw.URIFilename | None, flags: list[int], syncs: list[str]) -> None:
        self._path = name.filename() if isinstance(name, apsw.URIFilename) else name or ""
        self._syncs = syncs
        super().__init__(usual, name, flags)

    def xSync(self, flags: int) -> None:  # noqa: N802 - SQLite's
        self._syncs.append(Path(self._path).name)
        super().xSync(flags)


class CountingVfs(apsw.VFS):
    def __init__(self, syncs: list[str]) -> None:
        self._syncs, self.usual = syncs, apsw.vfs_names()[0]
        super().__init__("counting", self.usual, makedefault=True)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 - SQLite's
        return CountingFile(self.usual, name, flags, self._syncs)


@pytest.fixture
def syncs() -> Iterator[list[str]]:
    syncs: list[str] = []
    shim = CountingVfs(syncs)
    yield syncs
    apsw.set_default_vfs(shim.usual)
    shim.unregister()


@pytest.fixture
async def store(tmp_path: Path, syncs: list[str]) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(tmp_path / "s.db", clock=ManualClock())
    await store.admit("s", an_input("the first"))
    syncs.clear()
    yield store
    await store.close()


async def test_a_lease_is_granted_renewed_and_released_without_a_sync(store: SqliteStore, syncs: list[str]) -> None:
    lease = await store.acquire("s", "worker", seconds=30)
    assert lease is not None
    await store.renew(lease, seconds=30)
    await store.release(lease)

    assert syncs == []


async def test_every_record_is_synced_also_right_after_a_lease(store: SqliteStore, syncs: list[str]) -> None:
    lease = await store.acquire("s", "worker", seconds=30)
    assert lease is not None

    for seq in range(1, 4):
        assert await store.append(lease, [a_notice()], after=seq) == seq + 1
        assert syncs == ["s.db-wal"] * seq
    await store.release(lease)
    await store.admit("s", an_input("the next"))

    assert syncs == ["s.db-wal"] * 4


async def test_a_native_turn_takes_three_syncs_and_a_step_with_a_tool_three_more(
    tmp_path: Path, syncs: list[str]
) -> None:
    """Accepted; started and attempted; answered and ended. A tool adds its intent with the reply, and its result."""
    async with holdfast.open(tmp_path / "turns.db", tools=[depth]) as client:
        chat = await client.session("s")
        counts = dict[str, list[int]]()
        for text in ("say one", 'call depth {"place": "Kiel"}'):
            # What is learned from the first calls is written too.
            for _ in range(8):
                syncs.clear()
                await chat.send(text)
                counts.setdefault(text, []).append(len(syncs))

    assert [min(found) for found in counts.values()] == [3, 6]


@holdfast.tool
def depth(place: str) -> str:
    """Return how deep the water is at a place."""
    return f"12 fathoms at {place}"
