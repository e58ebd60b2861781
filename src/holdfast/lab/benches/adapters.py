"""`holdfast bench adapters`: cost of a step over the adapters of the installed frameworks, beside their own stores.

A step is what one turn writes, and reading the newest part back. Its processor time counts, that of all threads, and of
eleven steps around the tenth and around the hundredth the cheapest: the others measure what else runs on the machine.
The disk space is what the file system has allocated after 106 and after 1,000 steps, without an empty store of ours.
Frameworks that are not installed are left out; `make bench/adapters` runs each in its own environment.
"""

import asyncio
import importlib.util
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from functools import cache
from itertools import accumulate
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import click
import msgspec

import holdfast.blocking
from holdfast.cli.exit_codes import BROKEN
from holdfast.cli.output import json_option
from holdfast.lab.benches.harness import folder_option

# The hundredth step against the tenth: issue L.
GROWTH_MAX = 1.5
_STEPS, _EARLY, _LATE, _AROUND = 106, 10, 100, 5
# Steps before the second measurement of the disk: 1,000 to 2,000 messages.
_MANY_STEPS = 1_000
# The unit of `st_blocks`.
_BLOCK_BYTES = 512
# Messages in the queue of LlamaIndex before the oldest are archived.
_ACTIVE_MAX = 6
# Characters of a message.
_CHARS = 440
_VOCABULARY = 2_000

Step: TypeAlias = Callable[[int], Awaitable[object]]


class Cost(msgspec.Struct, frozen=True):
    """Cost of a step of one store: milliseconds at the tenth and the hundredth, and the disk space of the steps."""

    framework: str
    store: str
    early_ms: float
    late_ms: float
    disk_bytes: int
    # After many steps.
    disk_late_bytes: int

    @property
    def growth(self) -> float:
        """The hundredth step against the tenth."""
        return self.late_ms / max(self.early_ms, 1e-6)

    def line(self) -> str:
        """Return the costs as a line of text."""
        return (
            f"{self.framework:16} {self.store:22} step 10 {self.early_ms:8.2f} ms   step 100 {self.late_ms:8.2f} ms   "
            f"growth {self.growth:5.2f}   {self.disk_bytes / 1024:8,.0f} KiB   {self.disk_late_bytes / 1024:8,.0f} KiB"
        )


@cache
def _vocabulary() -> tuple[Sequence[str], Sequence[float]]:
    """Return made-up words, and how often each occurs: a few often and most rarely, as in a language."""
    chance = Random(0)  # noqa: S311 - the same words in each run
    syllables = [first + vowel for first in "bcdfghjklmnprstvw" for vowel in "aeiou"]
    words = ["".join(chance.choices(syllables, k=chance.randint(1, 4))) for _ in range(_VOCABULARY)]
    return words, list(accumulate(place**-0.6 for place in range(1, _VOCABULARY + 1)))


def _text(number: int) -> str:
    """Return a text that repeats nothing but common words: a compressed one is no shorter than one in English."""
    words, weights = _vocabulary()
    chosen = Random(number).choices(words, cum_weights=weights, k=_CHARS // 3)  # noqa: S311 - as above
    return f"{number}: {' '.join(chosen)}"[:_CHARS]


def _user(number: int) -> str:
    return "remember " + _text(number + 1_000_000)


async def _openai_agents(folder: Path, client: holdfast.blocking.Client | None, stack: ExitStack) -> Step:
    from agents.memory import SQLiteSession  # noqa: PLC0415 - installed in one environment only; so below

    from holdfast.adapters.openai_agents import HoldfastSession  # noqa: PLC0415

    session: Any = HoldfastSession("s", client) if client else SQLiteSession("s", folder / "peer.db")
    stack.callback(session.close)

    async def step(number: int) -> None:
        await session.add_items([{"role": "user", "content": _user(number)}])
        await session.get_items(limit=10)
        await session.add_items([{"role": "assistant", "content": _text(number)}])

    return step


async def _langgraph(folder: Path, client: holdfast.blocking.Client | None, stack: ExitStack) -> Step:
    import sqlite3  # noqa: PLC0415

    from langgraph.checkpoint.base import empty_checkpoint  # noqa: PLC0415
    from langgraph.checkpoint.sqlite import SqliteSaver  # noqa: PLC0415

    from holdfast.adapters.langgraph import HoldfastSaver  # noqa: PLC0415

    peer = None if client else sqlite3.connect(folder / "peer.db", check_same_thread=False)
    if peer is not None:
        stack.callback(peer.close)
    saver: Any = HoldfastSaver(client) if client else SqliteSaver(peer)
    config: Any = {"configurable": {"thread_id": "s", "checkpoint_ns": ""}}

    async def step(number: int) -> None:
        nonlocal config
        values = {"messages": [_user(number)], "fixed": "x"}
        versions = {"messages": f"{number + 1:08}", "fixed": "00000001"}
        checkpoint = {**empty_checkpoint(), "channel_values": values, "channel_versions": versions}
        new = versions if number == 0 else {"messages": versions["messages"]}
        config = saver.put(config, checkpoint, {"source": "loop", "step": number, "parents": {}}, new)
        saver.put_writes(config, [("messages", _text(number))], f"task-{number}")
        saver.get_tuple({"configurable": {"thread_id": "s"}})

    return step


async def _pydantic_ai(_folder: Path, client: holdfast.blocking.Client | None, _stack: ExitStack) -> Step | None:
    from pydantic_ai.conversation import Conversation  # noqa: PLC0415
    from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, UserPromptPart  # noqa: PLC0415

    from holdfast.adapters.pydantic_ai import HoldfastConversationStore  # noqa: PLC0415

    if client is None:
        return None
    store, conversation = HoldfastConversationStore(client), Conversation(conversation_id="s")

    async def step(number: int) -> None:
        conversation.messages.append(ModelRequest([UserPromptPart(_user(number))]))
        conversation.messages.append(ModelResponse([TextPart(_text(number))]))
        await store.save(conversation)
        await store.load("s", limit=10)

    return step


async def _agent_framework(folder: Path, client: holdfast.blocking.Client | None, _stack: ExitStack) -> Step:
    from agent_framework import FileHistoryProvider, Message  # noqa: PLC0415

    from holdfast.adapters.agent_framework import HoldfastHistoryProvider  # noqa: PLC0415

    provider: Any = HoldfastHistoryProvider(client) if client else FileHistoryProvider(folder / "peer")

    async def step(number: int) -> None:
        said = Message("user", [_user(number)]), Message("assistant", [_text(number)])
        await provider.save_messages("s", said)

    return step


async def _strands(folder: Path, client: holdfast.blocking.Client | None, _stack: ExitStack) -> Step:
    from strands.session.file_session_manager import FileSessionManager  # noqa: PLC0415
    from strands.types.session import Session, SessionAgent, SessionMessage, SessionType  # noqa: PLC0415

    from holdfast.adapters.strands import HoldfastRepository  # noqa: PLC0415

    if client:
        repository: Any = HoldfastRepository(client)
        repository.create_session(Session("s", SessionType.AGENT))
    else:
        repository = FileSessionManager("s", storage_dir=str(folder / "peer"))
    repository.create_agent("s", SessionAgent("a", {}, {}))

    async def step(number: int) -> None:
        message: Any = {"role": "user", "content": [{"text": _user(number)}]}
        repository.create_message("s", "a", SessionMessage(message, number))
        repository.update_agent("s", SessionAgent("a", {"turn": number}, {}))
        repository.read_message("s", "a", number)

    return step


async def _adk(folder: Path, client: holdfast.blocking.Client | None, _stack: ExitStack) -> Step:
    from google.adk.events.event import Event  # noqa: PLC0415
    from google.adk.events.event_actions import EventActions  # noqa: PLC0415
    from google.adk.sessions.base_session_service import GetSessionConfig  # noqa: PLC0415
    from google.adk.sessions.sqlite_session_service import SqliteSessionService  # noqa: PLC0415
    from google.genai import types  # noqa: PLC0415

    from holdfast.adapters.adk import HoldfastSessionService  # noqa: PLC0415

    service: Any = HoldfastSessionService(client) if client else SqliteSessionService(str(folder / "peer.db"))
    names = {"app_name": "a", "user_id": "u", "session_id": "s"}
    session = await service.create_session(**names)

    async def step(number: int) -> None:
        content = types.Content(role="user", parts=[types.Part(text=_user(number))])
        actions = EventActions(state_delta={f"k{number % 5}": number})
        await service.append_event(session, Event(author="user", content=content, actions=actions))
        await service.get_session(**names, config=GetSessionConfig(num_recent_events=10))

    return step


async def _llama_index(folder: Path, client: holdfast.blocking.Client | None, _stack: ExitStack) -> Step:
    from llama_index.core.base.llms.types import ChatMessage  # noqa: PLC0415
    from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore  # noqa: PLC0415

    from holdfast.adapters.llama_index import HoldfastChatStore  # noqa: PLC0415

    uri = f"sqlite+aiosqlite:///{folder / 'peer.db'}"
    store: Any = HoldfastChatStore(client) if client else SQLAlchemyChatStore("messages", async_database_uri=uri)

    async def step(number: int) -> None:
        said = [ChatMessage(role="user", content=_user(number)), ChatMessage(role="user", content=_text(number))]
        await store.add_messages("s", said)
        if await store.count_messages("s") > _ACTIVE_MAX:
            await store.archive_oldest_messages("s", 2)
        await store.get_messages("s")

    return step


Maker: TypeAlias = Callable[[Path, "holdfast.blocking.Client | None", ExitStack], Awaitable[Step | None]]
# Framework -> its module, the name of its own store, and the steps.
MEASURED: dict[str, tuple[str, str, Maker]] = {
    "openai-agents": ("agents", "SQLiteSession", _openai_agents),
    "langgraph": ("langgraph.checkpoint.sqlite", "SqliteSaver", _langgraph),
    "pydantic-ai": ("pydantic_ai", "", _pydantic_ai),
    "agent-framework": ("agent_framework", "FileHistoryProvider", _agent_framework),
    "strands": ("strands", "FileSessionManager", _strands),
    "adk": ("google.adk", "SqliteSessionService", _adk),
    "llama-index": ("llama_index.core", "SQLAlchemyChatStore", _llama_index),
}


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


async def _measured(step: Step, steps: int) -> tuple[float, float]:
    taken: list[float] = []
    for number in range(steps):
        start = time.process_time()
        await step(number)
        taken.append(1_000 * (time.process_time() - start))

    def around(place: int) -> float:
        return min(taken[place - 1 - _AROUND : place + _AROUND])

    return around(_EARLY), around(_LATE)


async def _cost(
    framework: str, folder: Path, client: holdfast.blocking.Client | None, steps: int
) -> tuple[float, float] | None:
    with ExitStack() as stack:
        step = await MEASURED[framework][2](folder, client, stack)
        return await _measured(step, steps) if step else None


def _disk_bytes(folder: Path) -> int:
    """Return the space that files take: many small ones take more than their bytes."""
    return sum(_BLOCK_BYTES * path.stat().st_blocks for path in folder.rglob("*") if path.is_file())


def _run(framework: str, folder: Path, steps: int, *, is_ours: bool) -> tuple[float, float, int] | None:
    """Run steps on a new store; return the costs of a step, and the disk space of all."""
    empty = 0
    if is_ours:
        holdfast.blocking.open(folder / "ours.db").close()
        empty = _disk_bytes(folder)
        with holdfast.blocking.open(folder / "ours.db") as client:
            found = asyncio.run(_cost(framework, folder, client, steps))
    else:
        found = asyncio.run(_cost(framework, folder, None, steps))
    return (*found, _disk_bytes(folder) - empty) if found else None


def _one(framework: str, folder: Path | None, *, is_ours: bool) -> Cost | None:
    found: list[tuple[float, float, int]] = []
    for steps in (_STEPS, _MANY_STEPS):
        with TemporaryDirectory(dir=folder) as made:
            ran = _run(framework, Path(made), steps, is_ours=is_ours)
            found += [ran] if ran else []
    if not found:
        return None
    (early, late, disk), (_, _, disk_late) = found
    return Cost(framework, "Holdfast" if is_ours else MEASURED[framework][1], early, late, disk, disk_late)


def measure_adapters(folder: Path | None, frameworks: Sequence[str]) -> list[Cost]:
    """Measure the stores of frameworks, each in folders of its own."""
    costs: list[Cost] = []
    for framework in frameworks:
        for is_ours in (True, False):
            cost = _one(framework, folder, is_ours=is_ours)
            costs += [cost] if cost else []
    return costs


@click.command()
@folder_option
@json_option
def adapters(folder: Path | None, *, as_json: bool) -> None:
    """Measure a step over the adapters of the installed frameworks; exit with 1 if the hundredth costs too much."""
    costs = measure_adapters(folder, [name for name, (module, _, _) in MEASURED.items() if _is_installed(module)])
    if as_json:
        sys.stdout.write(msgspec.json.encode(costs).decode() + "\n")
    else:
        for cost in costs:
            print(cost.line())
        if not costs:
            print("no framework with an adapter is installed here; `make bench/adapters` installs and measures all")
    if any(cost.store == "Holdfast" and cost.growth > GROWTH_MAX for cost in costs):
        sys.exit(BROKEN)
