"""`HoldfastConversationStore` beside the store in memory of Pydantic AI, and crashes, which no suite tests."""

import asyncio
import dataclasses
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="pydantic-ai is not installed; `make adapters/pydantic-ai` runs this")

from pydantic_ai import Agent
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import ConversationConflict, ConversationStore, InMemoryConversationStore
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import (
    BinaryImage,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.test import TestModel

import holdfast.blocking
from holdfast.adapters.pydantic_ai import HoldfastConversationStore
from holdfast.types.messages import Role
from tests.adapters.suites import KILLS, at_once, count_reads, killed_writer, run_page

pytestmark = pytest.mark.adapter

MESSAGES: list[ModelMessage] = [
    ModelRequest([UserPromptPart(["find the harbour", BinaryImage(b"\0" * 60_000, media_type="image/png")])]),
    ModelResponse(
        [
            ThinkingPart("", id="rs_1", signature="Er==" * 900, provider_name="openai", provider_details={"x": [1]}),
            ToolCallPart("depth", '{"place": "é"}', tool_call_id="c1"),
            ToolCallPart("depth", {"place": "Kiel"}, tool_call_id="c2"),
        ],
        provider_details={"unknown": {"kind": None}},
    ),
    ModelRequest([ToolReturnPart("depth", "12", tool_call_id="c1"), ToolReturnPart("depth", [1], tool_call_id="c2")]),
    ModelResponse([TextPart("Kiel it is")]),
]
WRITER = """
import asyncio, sys, holdfast.blocking
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import ConversationConflict
from pydantic_ai.messages import ModelRequest, UserPromptPart
from holdfast.adapters.pydantic_ai import HoldfastConversationStore
store = HoldfastConversationStore(holdfast.blocking.open(sys.argv[1]))
async def write():
    for n in range(int(sys.argv[2])):
        while True:
            conversation = await store.load("c") or Conversation(conversation_id="c")
            for part in range(3):
                text = f"{sys.argv[3]}-{n}-{part}"
                conversation.messages.append(ModelRequest([UserPromptPart(text)]))
            try:
                await store.save(conversation)
                break
            except ConversationConflict:
                pass
        print(n, flush=True)
asyncio.run(write())
"""


@pytest.fixture
def client() -> Iterator[holdfast.blocking.Client]:
    with holdfast.blocking.open(":memory:") as made:
        yield made


@pytest.fixture
def store(client: holdfast.blocking.Client) -> HoldfastConversationStore:
    return HoldfastConversationStore(client)


def asked(text: str) -> ModelRequest:
    return ModelRequest([UserPromptPart(text)])


def texts(conversation: Conversation | None) -> list[str]:
    assert conversation is not None
    return [str(part.content) for message in conversation.messages for part in message.parts]  # type: ignore[union-attr]


async def test_messages_come_back_equal(store: HoldfastConversationStore) -> None:
    await store.save(Conversation(conversation_id="é/:" * 90, messages=list(MESSAGES)), scope="user")

    loaded = await store.load("é/:" * 90, scope="user")

    assert loaded is not None
    assert loaded.messages == MESSAGES
    assert await store.load("é/:" * 90, scope="other") is None


async def test_messages_are_those_of_the_session(
    client: holdfast.blocking.Client, store: HoldfastConversationStore
) -> None:
    await store.save(Conversation(conversation_id="c", messages=list(MESSAGES)))
    session = client.session(store.key("c"))

    roles = [message.role for message in session.view().messages]

    assert roles == [Role.USER, Role.ASSISTANT, Role.TOOL, Role.ASSISTANT]
    assert [hit.excerpt for hit in session.search("harbour", limit=1)] == ["find the harbour [binary]"]


async def test_the_view_follows_the_branch(client: holdfast.blocking.Client, store: HoldfastConversationStore) -> None:
    conversation = Conversation(conversation_id="c", messages=[asked("one"), asked("two"), asked("three")])
    await store.save(conversation)

    branched = await store.branch("c", at=1, expected_revision=conversation.revision)
    branched.messages.append(asked("other"))
    await store.save(branched)
    seen = [_said(client, store)]
    (left,) = (await store.list_conversations())[0].branches
    await store.branch("c", from_entry=left, expected_revision=branched.revision)
    seen.append(_said(client, store))

    assert seen == [["one", "other"], ["one", "two", "three"]]
    assert texts(await store.load("c")) == ["one", "two", "three"]


def _said(client: holdfast.blocking.Client, store: HoldfastConversationStore) -> list[str]:
    messages = client.session(store.key("c")).view().messages
    return [part.text for message in messages for part in message.parts]  # type: ignore[union-attr]


async def test_a_fork_outlives_its_original_and_the_deletion_is_real(
    client: holdfast.blocking.Client, store: HoldfastConversationStore
) -> None:
    await store.save(Conversation(conversation_id="c", messages=list(MESSAGES)))
    await store.fork("c", at=2, new_conversation_id="f")
    entries = await store.load_entries("c")
    assert entries is not None

    await store.delete("c")

    forked = await store.load("f")
    assert forked is not None
    assert forked.messages == MESSAGES[:2]
    with pytest.raises(LookupError):
        await store.read_entry(entries[3].id)
    assert [known.key for known in client.sessions()] == [store.key("f")]


@pytest.mark.parametrize("seed", range(12))
async def test_random_scripts_end_as_in_the_store_in_memory(store: HoldfastConversationStore, seed: int) -> None:
    ours = await scripted(store, random.Random(seed))
    theirs = await scripted(InMemoryConversationStore(), random.Random(seed))

    assert ours == theirs


async def scripted(store: ConversationStore, chance: random.Random) -> list[Any]:
    """Run a random script, and return the outcome of every step."""
    outcomes: list[Any] = []
    for step in range(60):
        name, other = (chance.choice("abc") for _ in range(2))
        action = chance.choice(["save", "save", "save", "stale", "branch", "back", "fork", "delete", "rewrite", "list"])
        at, limit = chance.randrange(4), chance.choice([None, 0, 1, 3])
        try:
            outcomes.append((action, await _one(store, action, (name, other), (at, limit), f"{step}")))
        except UserError as error:
            outcomes.append((action, type(error).__name__))
    for name in "abc":
        loaded = await store.load(name)
        outcomes.append(None if loaded is None else texts(loaded))
    return outcomes


async def _one(
    store: ConversationStore, action: str, names: tuple[str, str], where: tuple[int, int | None], text: str
) -> Any:
    (name, other), (at, limit) = names, where
    record = await store.read_record(name)
    match action:
        case "save":
            conversation = await store.load(name, limit=limit) or Conversation(conversation_id=name)
            conversation.messages.append(asked(text))
            return len(await store.save(conversation, scope="x" if record is None else None))
        case "stale":
            return await store.save(Conversation(conversation_id=name, messages=[asked(text)], revision="old"))
        case "branch" if record is not None:
            return texts(await store.branch(name, at=at, expected_revision=record.revision))
        case "back" if record is not None and record.branches:
            tip = record.branches[0]
            return texts(await store.branch(name, from_entry=tip, expected_revision=record.revision))
        case "fork":
            return texts(await store.fork(name, at=at, new_conversation_id=other))
        case "rewrite" if record is not None:
            loaded = await store.load(name)
            assert loaded is not None
            kept = [asked(text), *loaded.messages[1:]]
            return len(await store.save(dataclasses.replace(loaded, messages=kept, new_message_index=None)))
        case "delete":
            return await store.delete(name)
        case _:
            return [one.conversation_id for one in await store.list_conversations(limit=limit)]


async def test_a_stale_revision_conflicts_and_writes_nothing(store: HoldfastConversationStore) -> None:
    await store.save(Conversation(conversation_id="c", messages=[asked("one")]))
    first, second = await store.load("c"), await store.load("c")
    assert first is not None
    assert second is not None
    first.messages.append(asked("two"))
    second.messages.append(asked("three"))
    await store.save(first)

    with pytest.raises(ConversationConflict):
        await store.save(second)

    assert texts(await store.load("c")) == ["one", "two"]


@pytest.mark.parametrize("kill", KILLS)
def test_acknowledged_saves_survive_a_kill_and_none_is_half(tmp_path: Path, kill: str) -> None:
    path = tmp_path / "s.db"

    acknowledged = killed_writer(WRITER, str(path), "1000", "w", lines=15, kill=kill)

    with holdfast.blocking.open(path) as client:
        found = texts(asyncio.run(HoldfastConversationStore(client).load("c")))
    assert found == [f"w-{n}-{part}" for n in range(len(found) // 3) for part in range(3)]
    assert len(acknowledged) <= len(found) // 3 <= len(acknowledged) + 1


def test_two_processes_conflict_and_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "s.db"

    at_once(WRITER, str(path), "15")

    with holdfast.blocking.open(path) as client:
        found = texts(asyncio.run(HoldfastConversationStore(client).load("c")))
    assert sorted(found) == sorted(f"{w}-{n}-{part}" for w in "01" for n in range(15) for part in range(3))
    batches = [found[place : place + 3] for place in range(0, len(found), 3)]
    assert all(len({one.rpartition("-")[0] for one in batch}) == 1 for batch in batches)


async def test_the_hundredth_save_costs_what_the_tenth_did(
    client: holdfast.blocking.Client, store: HoldfastConversationStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = count_reads(client, monkeypatch)
    conversation = Conversation(conversation_id="c")
    for number in range(100):
        conversation.messages += [asked(f"{number}"), ModelResponse([TextPart("a")])]
        await store.save(conversation)
        await store.load("c", limit=4)
        counts.append(0)

    assert counts[99] <= 1.5 * counts[9]


async def test_an_agent_continues_its_conversation(store: HoldfastConversationStore) -> None:
    agent = Agent(TestModel(custom_output_text="Kiel"))
    result = await agent.run("hello", conversation=Conversation(conversation_id="c"))
    await store.save(result)

    again = await agent.run("again", conversation=await store.load("c"))
    await store.save(again)

    loaded = await store.load("c")
    assert loaded is not None
    assert (texts(loaded), loaded.usage.requests) == (["hello", "Kiel", "again", "Kiel"], 2)


def test_the_program_of_the_page_prints_what_it_says(tmp_path: Path) -> None:
    printed, shown = run_page("pydantic-ai.md", tmp_path)

    assert printed == shown
