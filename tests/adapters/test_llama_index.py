"""`HoldfastChatStore` beside the SQL store of LlamaIndex, and crashes, which no suite tests."""

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("llama_index.core", reason="llama-index is not installed; `make adapters/llama-index` runs this")

from llama_index.core.base.llms.types import ChatMessage, ImageBlock, TextBlock
from llama_index.core.memory import Memory
from llama_index.core.storage.chat_store.base_db import AsyncDBChatStore, MessageStatus
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore

import holdfast.blocking
from holdfast.adapters.llama_index import HoldfastChatStore
from holdfast.types.messages import Role
from tests.adapters.suites import KILLS, at_once, count_reads, killed_writer, run_page

pytestmark = pytest.mark.adapter

CALL = {"id": "c1", "type": "function", "function": {"name": "depth", "arguments": '{"place": "é"}'}}
MESSAGES = [
    ChatMessage(role="system", content="be short"),
    ChatMessage(role="user", blocks=[TextBlock(text="find the harbour"), ImageBlock(image=b"A" * 80_000)]),
    ChatMessage(
        role="assistant", content="looking", additional_kwargs={"tool_calls": [CALL], "unknown": {"x": [None]}}
    ),
    ChatMessage(role="tool", content="12", additional_kwargs={"tool_call_id": "c1"}),
    ChatMessage(role="assistant", content="Kiel", additional_kwargs={"reasoning": {"encrypted": "Er==" * 900}}),
]
WRITER = """
import asyncio, sys, holdfast.blocking
from llama_index.core.base.llms.types import ChatMessage
from holdfast.adapters.llama_index import HoldfastChatStore
store = HoldfastChatStore(holdfast.blocking.open(sys.argv[1]))
async def write():
    for n in range(int(sys.argv[2])):
        messages = [ChatMessage(role="user", content=f"{sys.argv[3]}-{n}-{part}") for part in range(3)]
        await store.add_messages("k", messages)
        await store.archive_oldest_messages("k", 2)
        print(n, flush=True)
asyncio.run(write())
"""


@pytest.fixture
def client() -> Iterator[holdfast.blocking.Client]:
    with holdfast.blocking.open(":memory:") as made:
        yield made


@pytest.fixture
def store(client: holdfast.blocking.Client) -> HoldfastChatStore:
    return HoldfastChatStore(client)


def said(text: str) -> ChatMessage:
    return ChatMessage(role="user", content=text)


async def test_messages_come_back_equal_and_are_those_of_the_session(
    client: holdfast.blocking.Client, store: HoldfastChatStore
) -> None:
    await store.add_messages("é/" * 90, MESSAGES)

    assert await store.get_messages("é/" * 90) == MESSAGES
    assert await store.get_keys() == ["é/" * 90]
    roles = [one.role for one in client.session(store.session_key("é/" * 90)).view().messages]
    assert roles == [Role.USER, Role.ASSISTANT, Role.TOOL, Role.ASSISTANT]


@pytest.mark.parametrize("seed", range(12))
async def test_random_scripts_end_as_in_the_sql_store(store: HoldfastChatStore, tmp_path: Path, seed: int) -> None:
    theirs = SQLAlchemyChatStore("messages", async_database_uri=f"sqlite+aiosqlite:///{tmp_path / 's.db'}")

    assert await scripted(store, random.Random(seed)) == await scripted(theirs, random.Random(seed))


async def scripted(store: AsyncDBChatStore, chance: random.Random) -> list[Any]:
    """Run a random script, and return the outcome of every step."""
    outcomes: list[Any] = []
    for step in range(50):
        key, count, status = chance.choice("kl"), chance.randrange(4), chance.choice(list(MessageStatus))
        messages = [said(f"{step}-{part}") for part in range(count or 1)]
        limit, offset = chance.choice([None, 1, 3]), chance.randrange(3)
        action = chance.choice(["add", "add", "add", "archive", "delete", "set", "clear", "get"])
        match action:
            case "add":
                outcomes.append(await store.add_messages(key, messages, status))
            case "archive":
                outcomes.append(await store.archive_oldest_messages(key, count))
            case "delete":
                outcomes.append(await store.delete_oldest_messages(key, count))
            case "set":
                outcomes.append(await store.set_messages(key, messages, status))
            case "clear":
                outcomes.append(await store.delete_messages(key, chance.choice([None, status])))
            case _:
                outcomes.append(await store.get_messages(key, status, limit or 50, offset))
        outcomes.append([await store.get_messages(key, one) for one in (None, *MessageStatus)])
        outcomes.append([await store.count_messages(key, one) for one in (None, *MessageStatus)])
        outcomes.append(sorted(await store.get_keys()))
    return outcomes


async def test_a_deleted_message_leaves_the_view(client: holdfast.blocking.Client, store: HoldfastChatStore) -> None:
    await store.add_messages("k", [said("one"), said("two"), said("three")])

    deleted = await store.delete_message("k", 1)

    assert deleted == said("two")
    assert await store.get_messages("k") == [said("one"), said("three")]
    assert "two" not in str(client.session(store.session_key("k")).view().messages)
    assert await store.delete_message("k", 9) is None


async def test_ten_concurrent_takes_get_ten_messages(store: HoldfastChatStore) -> None:
    await store.add_messages("k", [said(f"{number}") for number in range(12)])

    taken = await asyncio.gather(*(store.delete_oldest_messages("k", 1) for _ in range(10)))

    assert sorted(int(one.content or "") for found in taken for one in found) == list(range(10))
    assert await store.get_messages("k") == [said("10"), said("11")]


async def test_a_memory_flushes_into_the_archive(store: HoldfastChatStore) -> None:
    memory = Memory.from_defaults(
        session_id="s", chat_store=store, token_limit=50, chat_history_token_ratio=0.7, token_flush_size=10
    )
    for number in range(20):
        await memory.aput(said(f"sounding {number} found sand"))

    active = await memory.aget()
    assert active[-1] == said("sounding 19 found sand")
    assert len(active) + await store.count_messages("s", MessageStatus.ARCHIVED) == 20


@pytest.mark.parametrize("kill", KILLS)
def test_acknowledged_messages_survive_a_kill_and_no_batch_is_half(tmp_path: Path, kill: str) -> None:
    path = tmp_path / "s.db"

    acknowledged = killed_writer(WRITER, str(path), "1000", "w", lines=15, kill=kill)

    found, archived = stored(path)
    assert found == [f"w-{n}-{part}" for n in range(len(found) // 3) for part in range(3)]
    assert len(acknowledged) <= len(found) // 3 <= len(acknowledged) + 1
    assert 2 * len(acknowledged) <= archived <= 2 * len(found) // 3


def test_two_processes_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "s.db"

    at_once(WRITER, str(path), "15")

    found, archived = stored(path)
    assert sorted(found) == sorted(f"{w}-{n}-{part}" for w in "01" for n in range(15) for part in range(3))
    assert archived == 60


def stored(path: Path) -> tuple[list[str], int]:
    async def read(store: HoldfastChatStore) -> tuple[list[str], int]:
        messages = await store.get_messages("k", None)
        return [one.content or "" for one in messages], await store.count_messages("k", MessageStatus.ARCHIVED)

    with holdfast.blocking.open(path) as client:
        return asyncio.run(read(HoldfastChatStore(client)))


async def test_the_hundredth_step_costs_what_the_tenth_did(
    client: holdfast.blocking.Client, store: HoldfastChatStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = count_reads(client, monkeypatch)
    await store.add_messages("k", [said(f"{number}") for number in range(8)])
    for number in range(100):
        counts.append(0)
        await store.add_messages("k", [said(f"{number}"), said("a")])
        await store.archive_oldest_messages("k", 2)
        await store.get_messages("k")

    assert counts[99] <= 1.5 * counts[9]


def test_the_program_of_the_page_prints_what_it_says(tmp_path: Path) -> None:
    printed, shown = run_page("llama-index.md", tmp_path)

    assert printed == shown
