"""`HoldfastHistoryProvider` beside the provider of the Agent Framework that writes files, and crashes."""

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip(
    "agent_framework", reason="agent-framework is not installed; `make adapters/agent-framework` runs this"
)

from agent_framework import Agent, AgentSession, BaseChatClient, ChatResponse, Content, FileHistoryProvider, Message

import holdfast.blocking
from holdfast.adapters.agent_framework import HoldfastHistoryProvider
from holdfast.types.messages import Role
from tests.adapters.suites import KILLS, at_once, count_reads, killed_writer, run_page

pytestmark = pytest.mark.adapter

MESSAGES = [
    Message("user", ["find the harbour", Content.from_uri("data:image/png;base64," + "A" * 80_000)], message_id="1"),
    Message(
        "assistant",
        [
            Content.from_text_reasoning(text="", protected_data="Er==" * 900),
            Content.from_function_call("c1", "depth", arguments='{"place": "é"}'),
            Content.from_function_call("c2", "depth", arguments={"place": "Kiel"}),
        ],
        additional_properties={"unknown": {"kind": [None]}},
    ),
    Message("tool", [Content.from_function_result("c1", result="12"), Content.from_function_result("c2", result="9")]),
    Message("system", ["be short"]),
    Message("assistant", ["Kiel"], author_name="pilot"),
]
WRITER = """
import asyncio, sys, holdfast.blocking
from agent_framework import Message
from holdfast.adapters.agent_framework import HoldfastHistoryProvider
provider = HoldfastHistoryProvider(holdfast.blocking.open(sys.argv[1]))
async def write():
    for n in range(int(sys.argv[2])):
        await provider.save_messages("s", [Message("user", [f"{sys.argv[3]}-{n}-{part}"]) for part in range(3)])
        print(n, flush=True)
asyncio.run(write())
"""


@pytest.fixture
def client() -> Iterator[holdfast.blocking.Client]:
    with holdfast.blocking.open(":memory:") as made:
        yield made


@pytest.fixture
def provider(client: holdfast.blocking.Client) -> HoldfastHistoryProvider:
    return HoldfastHistoryProvider(client)


async def test_messages_come_back_equal_and_are_those_of_the_session(
    client: holdfast.blocking.Client, provider: HoldfastHistoryProvider
) -> None:
    await provider.save_messages("é/" * 200, MESSAGES)

    found = await provider.get_messages("é/" * 200)

    assert [one.to_dict() for one in found] == [one.to_dict() for one in MESSAGES]
    roles = [one.role for one in client.session(provider.key("é/" * 200)).view().messages]
    assert roles == [Role.USER, Role.ASSISTANT, Role.TOOL, Role.ASSISTANT]


@pytest.mark.parametrize("seed", range(20))
async def test_what_is_sent_again_is_stored_as_by_the_provider_of_files(
    provider: HoldfastHistoryProvider, tmp_path: Path, seed: int
) -> None:
    chance, files, said = random.Random(seed), FileHistoryProvider(tmp_path), list[Message]()
    for number in range(12):
        fresh = [
            Message(
                chance.choice(["user", "assistant"]), [chance.choice("ab")], message_id=chance.choice([None, f"{n}"])
            )
            for n in range(number, number + chance.randrange(1, 3))
        ]
        again = said[len(said) - chance.randrange(len(said) + 1) :] if chance.random() < 0.5 else []
        for one in (provider, files):
            await one.save_messages("s", [*again, *fresh])
        said = await files.get_messages("s")

    assert [one.to_dict() for one in await provider.get_messages("s")] == [one.to_dict() for one in said]


async def test_an_excluded_message_is_skipped_if_wanted(client: holdfast.blocking.Client) -> None:
    provider = HoldfastHistoryProvider(client, skip_excluded=True)
    excluded = Message("user", ["old"], additional_properties={"_excluded": True})

    await provider.save_messages(None, [excluded, Message("user", ["new"])])

    assert [one.text for one in await provider.get_messages(None)] == ["new"]


async def test_an_agent_continues_its_session(provider: HoldfastHistoryProvider) -> None:
    class Scripted(BaseChatClient):  # type: ignore[misc]  # counts the messages it gets
        async def _inner_get_response(self, *, messages: list[Message], **_kwargs: Any) -> ChatResponse:
            return ChatResponse(messages=[Message("assistant", [f"{len(messages)}"])])

    agent = Agent(Scripted(), context_providers=[provider])

    answers = [(await agent.run("hello", session=AgentSession(session_id="s"))).text for _ in range(2)]

    assert answers == ["1", "3"]
    assert [one.text for one in await provider.get_messages("s")] == ["hello", "1", "hello", "3"]


@pytest.mark.parametrize("kill", KILLS)
def test_acknowledged_messages_survive_a_kill_and_no_batch_is_half(tmp_path: Path, kill: str) -> None:
    path = tmp_path / "s.db"

    acknowledged = killed_writer(WRITER, str(path), "1000", "w", lines=15, kill=kill)

    found = stored(path)
    assert found == [f"w-{n}-{part}" for n in range(len(found) // 3) for part in range(3)]
    assert len(acknowledged) <= len(found) // 3 <= len(acknowledged) + 1


def test_two_processes_at_once_lose_nothing_and_mix_no_batch(tmp_path: Path) -> None:
    path = tmp_path / "s.db"

    at_once(WRITER, str(path), "20")

    found = stored(path)
    assert sorted(found) == sorted(f"{w}-{n}-{part}" for w in "01" for n in range(20) for part in range(3))
    batches = [found[place : place + 3] for place in range(0, len(found), 3)]
    assert all(len({one.rpartition("-")[0] for one in batch}) == 1 for batch in batches)


def stored(path: Path) -> list[str]:
    with holdfast.blocking.open(path) as client:
        return [one.text for one in asyncio.run(HoldfastHistoryProvider(client).get_messages("s"))]


async def test_the_hundredth_save_costs_what_the_tenth_did(
    client: holdfast.blocking.Client, provider: HoldfastHistoryProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = count_reads(client, monkeypatch)
    for number in range(100):
        await provider.save_messages("s", [Message("user", [f"{number}"]), Message("assistant", ["a"])])
        counts.append(0)

    assert counts[99] <= 1.5 * counts[9]


def test_the_program_of_the_page_prints_what_it_says(tmp_path: Path) -> None:
    printed, shown = run_page("agent-framework.md", tmp_path)

    assert printed == shown
