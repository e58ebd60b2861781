"""`HoldfastSessionStore` under the conformance suite of the Claude Agent SDK, and what it does not test."""

import asyncio
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip(
    "claude_agent_sdk", reason="claude-agent-sdk is not installed; `make adapters/claude-sdk` runs this"
)

from claude_agent_sdk import InMemorySessionStore
from claude_agent_sdk.testing import run_session_store_conformance

import holdfast.blocking
from holdfast.adapters.claude_sdk import HoldfastSessionStore
from holdfast.types.messages import Role
from tests.adapters.suites import KILLS, at_once, killed_writer, run_page

pytestmark = pytest.mark.adapter

KEY: Any = {"project_key": "-work-é/x:y", "session_id": "0" * 36}
ENTRIES: list[Any] = [
    {"type": "user", "uuid": "u1", "timestamp": "2026-11-17T00:00:00Z",
     "message": {"role": "user", "content": "find the harbour"}},
    {"type": "assistant", "uuid": "u2", "message": {"role": "assistant", "content": [
        {"type": "thinking", "thinking": "", "signature": "Er==" * 900},
        {"type": "text", "text": "looking"},
        {"type": "tool_use", "id": "t1", "name": "Read", "input": {"path": "é"}}]}},
    {"type": "user", "uuid": "u3", "message": {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "t1",
         "content": [{"type": "text", "text": "Kiel"}, {"type": "image"}]}]}},
    {"type": "custom-title", "title": "x"},
    {"type": "attachment", "uuid": "u4", "image": "data:image/png;base64," + "A" * 80_000},
    {"type": "user", "uuid": "u5", "message": {"role": "user", "content": [{"type": "text", "text": "thanks"}]}},
]  # fmt: skip
WRITER = """
import asyncio, sys, holdfast.blocking
from holdfast.adapters.claude_sdk import HoldfastSessionStore
store = HoldfastSessionStore(holdfast.blocking.open(sys.argv[1]))
async def write():
    for n in range(int(sys.argv[2])):
        entries = [{"type": "user", "uuid": f"{sys.argv[3]}-{n}-{part}"} for part in range(3)]
        await store.append({"project_key": "p", "session_id": "s"}, entries)
        print(n, flush=True)
asyncio.run(write())
"""


@pytest.fixture
def client() -> Iterator[holdfast.blocking.Client]:
    with holdfast.blocking.open(":memory:") as made:
        yield made


@pytest.fixture
def store(client: holdfast.blocking.Client) -> HoldfastSessionStore:
    return HoldfastSessionStore(client)


async def test_the_conformance_suite_passes_with_every_optional_method(tmp_path: Path) -> None:
    numbers, clients = itertools.count(), list[holdfast.blocking.Client]()

    def make() -> HoldfastSessionStore:
        clients.append(holdfast.blocking.open(tmp_path / f"{next(numbers)}.db"))
        return HoldfastSessionStore(clients[-1])

    await run_session_store_conformance(make)

    assert len(clients) >= 14
    for client in clients:
        client.close()


async def test_entries_come_back_equal_and_once(store: HoldfastSessionStore) -> None:
    await store.append(KEY, ENTRIES)
    await store.append(KEY, ENTRIES)

    untitled = ENTRIES[3]
    assert await store.load(KEY) == [*ENTRIES, untitled]


async def test_entries_are_messages_of_the_session(
    client: holdfast.blocking.Client, store: HoldfastSessionStore
) -> None:
    await store.append(KEY, ENTRIES)
    (known,) = client.sessions()

    roles = [message.role for message in client.session(known.key).view().messages]

    assert roles == [Role.USER, Role.ASSISTANT, Role.TOOL, Role.USER]
    assert [hit.seq for hit in client.session(known.key).search("harbour")] == [2]


async def test_summaries_are_those_of_the_store_in_memory(store: HoldfastSessionStore) -> None:
    reference = InMemorySessionStore()
    for batch in (ENTRIES[:2], ENTRIES[2:]):
        await store.append(KEY, batch)
        await reference.append(KEY, batch)

    ours = await store.list_session_summaries(KEY["project_key"])
    theirs = await reference.list_session_summaries(KEY["project_key"])

    assert [one["data"] for one in ours] == [one["data"] for one in theirs]
    assert [one["mtime"] for one in ours] == [one["mtime"] for one in await store.list_sessions(KEY["project_key"])]


async def test_a_deletion_takes_subagents_along_and_nothing_else(
    client: holdfast.blocking.Client, store: HoldfastSessionStore
) -> None:
    other: Any = {**KEY, "session_id": "1"}
    for key in (KEY, {**KEY, "subpath": "subagents/a"}, other):
        await store.append(key, ENTRIES[:1])
    assert await store.list_subkeys(KEY) == ["subagents/a"]

    await store.delete(KEY)

    assert (await store.load(KEY), await store.list_subkeys(KEY)) == (None, [])
    assert [one["session_id"] for one in await store.list_sessions(KEY["project_key"])] == ["1"]
    assert len(client.sessions()) == 1


def test_another_container_resumes(tmp_path: Path) -> None:
    for _ in range(2):
        with holdfast.blocking.open(tmp_path / "s.db") as client:
            asyncio.run(HoldfastSessionStore(client).append(KEY, ENTRIES[:2]))
    with holdfast.blocking.open(tmp_path / "s.db") as client:
        assert asyncio.run(HoldfastSessionStore(client).load(KEY)) == ENTRIES[:2]


@pytest.mark.parametrize("kill", KILLS)
def test_acknowledged_entries_survive_a_kill_and_no_batch_is_half(tmp_path: Path, kill: str) -> None:
    path = tmp_path / "s.db"

    acknowledged = killed_writer(WRITER, str(path), "1000", "w", lines=20, kill=kill)

    with holdfast.blocking.open(path) as client:
        found: Any = asyncio.run(HoldfastSessionStore(client).load({"project_key": "p", "session_id": "s"}))
    uuids = [one["uuid"] for one in found]
    assert uuids == [f"w-{n}-{part}" for n in range(len(uuids) // 3) for part in range(3)]
    assert len(acknowledged) <= len(uuids) // 3 <= len(acknowledged) + 1


def test_two_processes_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "s.db"

    at_once(WRITER, str(path), "20")

    with holdfast.blocking.open(path) as client:
        found: Any = asyncio.run(HoldfastSessionStore(client).load({"project_key": "p", "session_id": "s"}))
    assert sorted(one["uuid"] for one in found) == sorted(
        f"{w}-{n}-{part}" for w in "01" for n in range(20) for part in range(3)
    )


async def test_the_hundredth_append_costs_what_the_tenth_did(
    client: holdfast.blocking.Client, store: HoldfastSessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner, counts = client.client.engine.store, list[int]()
    read = inner.read

    async def counted(key: str, *, after: int = 0, limit: int | None = None) -> Any:
        found = await read(key, after=after, limit=limit)
        counts[-1] += len(found)
        return found

    monkeypatch.setattr(inner, "read", counted)
    for number in range(100):
        counts.append(0)
        await store.append(KEY, [{**one, "uuid": f"{number}-{place}"} for place, one in enumerate(ENTRIES[:3])])

    assert counts[99] <= 1.5 * counts[9]


def test_the_program_of_the_page_prints_what_it_says(tmp_path: Path) -> None:
    printed, shown = run_page("claude-sdk.md", tmp_path)

    assert printed == shown
