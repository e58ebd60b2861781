"""`HoldfastSession` under the session tests of the Agents SDK, and what those do not test."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("agents", reason="openai-agents is not installed; `make adapters/openai-agents` runs this")

from agents import Agent, Runner
from agents.memory.session import Session
from agents.testing import ScriptedModel
from openai.types.responses import ResponseOutputMessage, ResponseOutputText

import holdfast.blocking
from holdfast.adapters.openai_agents import HoldfastSession
from holdfast.types.messages import Role, ToolCall, ToolResult
from tests.adapters.suites import KILLS, at_once, fetched_sdist, killed_writer, run_page, run_suite

pytestmark = pytest.mark.adapter

SUITE = "tests/memory/test_session.py::test_"
# They read the tables or the connections of SQLiteSession.
EXCLUDED = [
    SUITE + name
    for name in (
        "sqlite_session_close_closes_worker_thread_connections",
        "sqlite_session_reaps_connections_from_exited_worker_threads",
        "sqlite_session_closes_retired_connections_before_the_next_allocation",
        "sqlite_session_keeps_connections_of_live_worker_threads",
        "sqlite_session_pop_item_skips_corrupt_most_recent",
        "sqlite_session_pop_item_returns_none_after_dropping_only_corrupt_rows",
        "sqlite_session_get_items_limit_skips_corrupt_newest_rows",
        "sqlite_session_get_items_session_settings_limit_skips_corrupt_rows",
        "sqlite_session_file_lock_is_shared_across_instances",
        "sqlite_session_failed_add_items_releases_write_lock",
        "sqlite_session_failed_clear_session_rolls_back",
        "sqlite_session_failed_pop_item_releases_write_lock",
        "sqlite_session_rollback_failure_evicts_connection",
        "sqlite_session_close_retries_quarantined_connection",
        "sqlite_session_post_commit_cancellation_propagates_after_known_outcome[add]",
        "sqlite_session_post_commit_cancellation_propagates_after_known_outcome[pop]",
        "sqlite_session_post_commit_cancellation_propagates_after_known_outcome[clear]",
    )
]
ITEMS: list[Any] = [
    {"role": "user", "content": "hello"},
    {"type": "function_call", "call_id": "c1", "name": "depth", "arguments": "{}", "id": "fc_1"},
    {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "12"}, {"type": "x"}]},
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA" * 2_000},
    {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "é 😀 \u0000", "logprobs": []}],
    },
    {"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64," + "A" * 80_000}]},
    {"type": "holodeck_call", "nested": {"a": [1, 2.5, None, True]}, "call_id": 7},
]
WRITER = """
import asyncio, sys, holdfast.blocking
from holdfast.adapters.openai_agents import HoldfastSession
client = holdfast.blocking.open(sys.argv[1])
session = HoldfastSession("s", client)
async def write():
    for number in range(int(sys.argv[2])):
        await session.add_items([{"role": "user", "content": f"{sys.argv[3]}-{number}-{part}"} for part in range(3)])
        print(number, flush=True)
asyncio.run(write())
"""


@pytest.fixture
def client() -> Iterator[holdfast.blocking.Client]:
    with holdfast.blocking.open(":memory:") as made:
        yield made


@pytest.fixture
def session(client: holdfast.blocking.Client) -> HoldfastSession:
    return HoldfastSession("user-1", client)


def says(text: str) -> ResponseOutputMessage:
    content = ResponseOutputText(text=text, type="output_text", annotations=[])
    return ResponseOutputMessage(id="1", type="message", role="assistant", content=[content], status="completed")


def test_the_suite_of_the_sdk_passes() -> None:
    files = ["tests/memory/test_session.py", "tests/memory/test_session_limit.py"]

    options = ["--noconftest", "-o", "asyncio_mode=auto"]
    options += [option for name in EXCLUDED for option in ("--deselect", name)]
    passed, failed = run_suite(fetched_sdist("openai-agents", "0.24.0"), "agents_plugin", files, options)

    assert (passed, failed) == (54, [])


async def test_items_come_back_equal(session: HoldfastSession) -> None:
    assert isinstance(session, Session)
    await session.add_items(ITEMS)

    assert await session.get_items() == ITEMS
    assert await session.get_items(limit=2) == ITEMS[-2:]
    assert json.dumps(await session.pop_item()) == json.dumps(ITEMS[-1])


async def test_items_are_messages_of_the_holdfast_session(
    client: holdfast.blocking.Client, session: HoldfastSession
) -> None:
    await session.add_items(ITEMS)

    view = client.session(session.key).view()

    assert [message.role for message in view.messages] == [
        Role.USER,
        Role.ASSISTANT,
        Role.TOOL,
        Role.ASSISTANT,
        Role.USER,
    ]
    assert view.messages[1].parts == (ToolCall("c1", "depth", "{}"),)
    (result,) = view.messages[2].parts
    assert isinstance(result, ToolResult)
    assert [hit.seq for hit in client.session(session.key).search("hello")] == [1]


async def test_ten_pops_at_once_return_ten_items(session: HoldfastSession) -> None:
    await session.add_items([{"role": "user", "content": f"{number}"} for number in range(12)])

    popped = await asyncio.gather(*(session.pop_item() for _ in range(10)))

    assert sorted(int(one["content"]) for one in popped) == list(range(2, 12))  # type: ignore[index, typeddict-item, arg-type]
    assert len(await session.get_items()) == 2


def test_a_run_in_another_event_loop_uses_the_same_session(session: HoldfastSession) -> None:
    agent = Agent(name="a", model=ScriptedModel([[says("one")], [says("two")]]))

    first = Runner.run_sync(agent, "hello", session=session)
    second = asyncio.run(Runner.run(agent, "again", session=session))

    assert (first.final_output, second.final_output) == ("one", "two")
    assert len(asyncio.run(session.get_items())) == 4


async def test_a_cancelled_add_has_a_known_outcome(session: HoldfastSession) -> None:
    adding = asyncio.create_task(session.add_items(ITEMS))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    adding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await adding

    before = await session.get_items()
    await asyncio.sleep(0)
    assert before in ([], ITEMS)
    assert await session.get_items() == before


@pytest.mark.parametrize("kill", KILLS)
async def test_acknowledged_items_survive_a_kill_and_no_batch_is_half(tmp_path: Path, kill: str) -> None:
    path = tmp_path / "s.db"

    acknowledged = killed_writer(WRITER, str(path), "1000", "w", lines=20, kill=kill)

    with holdfast.blocking.open(path) as client:
        items = await HoldfastSession("s", client).get_items()
    contents = [one["content"] for one in items]  # type: ignore[index, typeddict-item]
    batches = len(contents) // 3
    assert contents == [f"w-{number}-{part}" for number in range(batches) for part in range(3)]
    assert len(acknowledged) <= batches <= len(acknowledged) + 1


async def test_two_processes_at_once_lose_nothing_and_mix_no_batch(tmp_path: Path) -> None:
    path = tmp_path / "s.db"

    at_once(WRITER, str(path), "30")

    with holdfast.blocking.open(path) as client:
        items = await HoldfastSession("s", client).get_items()
    contents = [str(one["content"]) for one in items]  # type: ignore[index, typeddict-item]
    assert sorted(contents) == sorted(f"{w}-{number}-{part}" for w in "01" for number in range(30) for part in range(3))
    batches = [contents[place : place + 3] for place in range(0, len(contents), 3)]
    assert all(len({one.rpartition("-")[0] for one in batch}) == 1 for batch in batches)


async def test_the_hundredth_turn_costs_what_the_tenth_did(
    client: holdfast.blocking.Client, session: HoldfastSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, counts = client.client.engine.store, list[int]()
    read = store.read

    async def counted(key: str, *, after: int = 0, limit: int | None = None) -> Any:
        found = await read(key, after=after, limit=limit)
        counts[-1] += len(found)
        return found

    monkeypatch.setattr(store, "read", counted)
    for _ in range(100):
        counts.append(0)
        await session.add_items([{"role": "user", "content": "q"}, *ITEMS[1:3]])
        await session.get_items(limit=4)
        await session.add_items([{"role": "assistant", "content": "a"}])
        await session.pop_item()
        await session.add_items([{"role": "assistant", "content": "b"}])

    assert counts[99] <= 1.5 * counts[9]


def test_the_program_of_the_page_prints_what_it_says(tmp_path: Path) -> None:
    printed, shown = run_page("openai-agents.md", tmp_path)

    assert printed == shown
