"""`HoldfastStorage` and `HoldfastRepository` under the tests of Strands, and what they do not test."""

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("strands", reason="strands-agents is not installed; `make adapters/strands` runs this")

from strands.types.exceptions import SessionException, StorageError
from strands.types.session import Session, SessionAgent, SessionMessage, SessionType

import holdfast.blocking
from holdfast.adapters.strands import HoldfastRepository, HoldfastStorage
from holdfast.types.messages import Role
from tests.adapters.suites import KILLS, at_once, count_reads, fetched_sdist, killed_writer, run_page, run_suite

pytestmark = pytest.mark.adapter

VERSION = "1.62.0"
FILES = (
    "tests/strands/storage/test_in_memory_storage.py",
    "tests/strands/session/test_snapshot_session_manager.py",
    "tests/strands/session/test_repository_session_manager.py",
)
# A stash in a storage that is lost with the process is written into the snapshot; this storage is not lost.
EXCLUDED = [
    "TestSnapshotStashIntegration::test_save_includes_inline_stash_for_ephemeral_storage",
    "TestSnapshotStashIntegration::test_save_omits_stash_when_empty",
    "TestSnapshotStashIntegration::test_immutable_snapshot_includes_stash",
    "TestSnapshotStashIntegration::test_ephemeral_detection_survives_namespacing",
]
MESSAGES: list[Any] = [
    {"role": "user", "content": [
        {"text": "find the harbour"}, {"image": {"format": "png", "source": {"bytes": b"\0" * 60_000}}}]},
    {"role": "assistant", "content": [
        {"reasoningContent": {"redactedContent": b"\1\2" * 900}}, {"unknown": {"kind": [None]}},
        {"toolUse": {"toolUseId": "c1", "name": "depth", "input": {"place": "é"}}},
        {"toolUse": {"toolUseId": "c2", "name": "depth", "input": {}}}]},
    {"role": "user", "content": [
        {"toolResult": {"toolUseId": "c1", "status": "success", "content": [{"text": "12"}]}},
        {"toolResult": {"toolUseId": "c2", "status": "error", "content": [{"json": {"a": 1}}]}}]},
    {"role": "assistant", "content": [{"text": "Kiel"}]},
]  # fmt: skip
WRITER = """
import asyncio, sys, holdfast.blocking
from strands.types.session import *
from holdfast.adapters.strands import HoldfastRepository, HoldfastStorage
client = holdfast.blocking.open(sys.argv[1])
repository, storage = HoldfastRepository(client), HoldfastStorage(client)
async def write():
    for n in range(int(sys.argv[2])):
        message = {"role": "user", "content": [{"text": f"{sys.argv[3]}-{n}"}]}
        repository.create_message("s", "a", SessionMessage(message, 10_000 * int(sys.argv[3]) + n))
        await storage.write("k/" + sys.argv[3], b"x" * n)
        print(n, flush=True)
asyncio.run(write())
"""


@pytest.fixture
def client() -> Iterator[holdfast.blocking.Client]:
    with holdfast.blocking.open(":memory:") as made:
        yield made


@pytest.fixture
def repository(client: holdfast.blocking.Client) -> HoldfastRepository:
    return with_agent(client)


def with_agent(client: holdfast.blocking.Client) -> HoldfastRepository:
    made = HoldfastRepository(client)
    made.create_session(Session("s", SessionType.AGENT))
    made.create_agent("s", SessionAgent("a", {"x": 1}, {}))
    return made


def test_the_suites_pass_but_for_the_tests_of_a_lost_storage() -> None:
    folder = fetched_sdist("strands-agents", VERSION)

    passed, failed = run_suite(folder, "strands_plugin", FILES, [])

    assert sorted(one.split("::", 1)[1] for one in failed) == sorted(EXCLUDED)
    assert passed == 187


def test_messages_come_back_equal_and_are_those_of_the_session(
    client: holdfast.blocking.Client, repository: HoldfastRepository
) -> None:
    for number, message in enumerate(MESSAGES):
        repository.create_message("s", "a", SessionMessage(message, number))

    assert [one.message for one in repository.list_messages("s", "a")] == MESSAGES
    assert [one.message for one in repository.list_messages("s", "a", limit=2, offset=1)] == MESSAGES[1:3]
    roles = [one.role for one in client.session(repository.key("s", "a")).view().messages]
    assert roles == [Role.USER, Role.ASSISTANT, Role.TOOL, Role.ASSISTANT]


def test_a_redacted_message_leaves_the_view(client: holdfast.blocking.Client, repository: HoldfastRepository) -> None:
    repository.create_message("s", "a", SessionMessage(MESSAGES[0], 0))
    found = repository.read_message("s", "a", 0)
    assert found is not None
    found.redact_message = {"role": "user", "content": [{"text": "[redacted]"}]}

    repository.update_message("s", "a", found)

    again = repository.read_message("s", "a", 0)
    assert again is not None
    assert again.to_message() == found.redact_message
    assert "harbour" not in str(client.session(repository.key("s", "a")).view().messages)


def test_a_deleted_session_takes_its_agents_along(
    client: holdfast.blocking.Client, repository: HoldfastRepository
) -> None:
    repository.create_message("s", "a", SessionMessage(MESSAGES[0], 0))

    repository.delete_session("s")

    assert (repository.read_session("s"), repository.read_agent("s", "a"), client.sessions()) == (None, None, [])
    with pytest.raises(SessionException, match="does not exist"):
        repository.delete_session("s")


@pytest.mark.parametrize("seed", range(8))
async def test_random_versions_of_a_value_come_back_equal(client: holdfast.blocking.Client, seed: int) -> None:
    storage, chance, value = HoldfastStorage(client), random.Random(seed), b""
    for _ in range(120):
        first, last = sorted(chance.randrange(len(value) + 1) for _ in range(2))
        inserted = chance.randbytes(chance.choice([0, 1, 5, 200]))
        value = value[:first] + inserted + value[first if chance.random() < 0.7 else last :]
        await storage.write("é/key" * 60, value)
        assert await storage.read("é/key" * 60) == value
    assert await storage.list("é/key") == ["é/key" * 60]


async def test_versions_of_a_growing_value_take_as_much_space_as_the_value(client: holdfast.blocking.Client) -> None:
    storage, value = HoldfastStorage(client), b""
    for number in range(200):
        value = b'{"messages": [' + b"".join(b'{"text": "sounding %d"},' % n for n in range(number)) + b"]}"
        await storage.write("k", value)

    stored = client.session("strands-storage:k").stored()

    assert sum(len(one.payload or b"") for one in stored) < 4 * len(value)


async def test_an_invalid_key_and_a_closed_client_are_errors_of_the_storage(client: holdfast.blocking.Client) -> None:
    storage = HoldfastStorage(client)
    with pytest.raises(StorageError):
        await storage.read("../x")
    client.close()
    with pytest.raises(StorageError, match="closed"):
        await storage.read("x")


@pytest.mark.parametrize("kill", KILLS)
def test_acknowledged_writes_survive_a_kill(tmp_path: Path, kill: str) -> None:
    path = tmp_path / "s.db"
    with holdfast.blocking.open(path) as client:
        with_agent(client)

    acknowledged = killed_writer(WRITER, str(path), "1000", "1", lines=15, kill=kill)

    with holdfast.blocking.open(path) as client:
        numbers = [one.message_id - 10_000 for one in HoldfastRepository(client).list_messages("s", "a")]
        value = asyncio.run(HoldfastStorage(client).read("k/1"))
    assert numbers == list(range(len(numbers)))
    assert len(acknowledged) <= len(numbers) <= len(acknowledged) + 1
    assert value is not None
    assert len(acknowledged) - 1 <= len(value) <= len(acknowledged)


def test_two_processes_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with holdfast.blocking.open(path) as client:
        with_agent(client)

    at_once(WRITER, str(path), "20")

    with holdfast.blocking.open(path) as client:
        numbers = [one.message_id for one in HoldfastRepository(client).list_messages("s", "a")]
        assert asyncio.run(HoldfastStorage(client).list("")) == ["k/0", "k/1"]
    assert numbers == [10_000 * writer + number for writer in range(2) for number in range(20)]


def test_the_hundredth_message_costs_what_the_tenth_did(
    client: holdfast.blocking.Client, repository: HoldfastRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = count_reads(client, monkeypatch)
    for number in range(100):
        repository.create_message("s", "a", SessionMessage(MESSAGES[3], number))
        repository.update_agent("s", SessionAgent("a", {"x": number}, {}))
        counts.append(0)

    assert counts[99] <= 1.5 * counts[9]


def test_the_program_of_the_page_prints_what_it_says(tmp_path: Path) -> None:
    printed, shown = run_page("strands.md", tmp_path)

    assert printed == shown
