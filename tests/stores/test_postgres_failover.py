"""Nodes as processes on one PostgreSQL database: killed or paused, their work goes on elsewhere, and nothing twice."""

import asyncio
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import holdfast
from holdfast.stores.postgres import PostgresStore
from holdfast.testing.crashes import check_log
from holdfast.types.messages import ToolOutcome
from holdfast.types.records import CompactionSettled, ToolSettled, TurnEnded
from tests.crashes.test_sigkill import noted
from tests.stores import postgres_node
from tests.stores.postgres_node import COMPACTION, LEASE_SECONDS, LOAD, PAUSED, STUCK_AMOUNT, TUNING, TURN, started

# A node that has not got so far within this time hangs; on a busy machine starting three took ten seconds.
HANGS_SECONDS = 60


@pytest.fixture
async def store(postgres_url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(postgres_url)
    yield store
    await store.close()


async def until_noted(path: Path, *, lines: int) -> None:
    # Another process writes the file; there is nothing to wait on but the file.
    while len(noted(path)) < lines:  # noqa: ASYNC110
        await asyncio.sleep(0.02)


async def until_ended(store: PostgresStore, session: str) -> None:
    """Follow the feed of a session until its turn has its outcome."""
    feed = store.feed(session)
    while not isinstance((await anext(feed)).record, TurnEnded):
        pass
    await feed.aclose()


async def until_nothing_is_owed(store: PostgresStore) -> None:
    while await store.pending():  # noqa: ASYNC110 - nobody tells when a whole store has come to rest
        await asyncio.sleep(0.05)


async def test_of_three_nodes_two_are_killed_and_every_message_gets_one_outcome(
    postgres_url: str, store: PostgresStore, tmp_path: Path
) -> None:
    """FM-101, FM-102, FM-103: one is killed in the middle of a turn, one in the middle of a compaction."""
    async with (
        asyncio.timeout(2 * HANGS_SECONDS),
        started(postgres_url, tmp_path, "1", "tool") as sender_of_a_turn,
        started(postgres_url, tmp_path, "2", "notes") as sender_of_a_compaction,
    ):
        # Either of the two may take the other's work, and gets stuck over it. The third would not, so it starts later.
        await until_noted(tmp_path / "stuck", lines=2)
        async with started(postgres_url, tmp_path, "3") as survivor:
            # All three have sent all they had to send.
            await until_noted(tmp_path / "accepted", lines=3 * LOAD + 1)
            sender_of_a_turn.kill()
            sender_of_a_compaction.kill()
            killed = time.monotonic()
            await until_ended(store, TURN)
            turn_seconds = time.monotonic() - killed
            await until_nothing_is_owed(store)
            survivor.kill()

    accepted: dict[str, list[int]] = {}
    for line in noted(tmp_path / "accepted"):
        key, _, turn = line.rpartition(" ")
        accepted.setdefault(key, []).append(int(turn))
    logs = {info.key: await store.read(info.key) for info in await store.sessions()}
    for key, records in logs.items():
        if not key.startswith("holdfast:"):
            check_log(records, accepted=accepted.get(key, ()))
    assert turn_seconds < 2 * LEASE_SECONDS
    assert max(Counter(noted(tmp_path / "effects")).values()) == 1, "no tool ran twice"
    assert str(STUCK_AMOUNT) in noted(tmp_path / "effects")
    settled = [logged.record for logged in logs[TURN] if isinstance(logged.record, ToolSettled)]
    assert [record.result.outcome for record in settled] == [ToolOutcome.UNKNOWN]
    assert [type(logged.record) for logged in logs[COMPACTION]].count(CompactionSettled) == 1


async def test_a_node_that_was_paused_beyond_its_lease_finds_its_writes_refused(
    postgres_url: str, store: PostgresStore, tmp_path: Path
) -> None:
    async with asyncio.timeout(2 * HANGS_SECONDS), started(postgres_url, tmp_path, "1", "pause") as paused:
        await until_noted(tmp_path / "stuck", lines=1)
        paused.send_signal(signal.SIGSTOP)

        model = postgres_node.NodeModel(tmp_path)
        purse = postgres_node.a_purse(tmp_path, "")
        async with holdfast.open(postgres_url, model=model, tools=[purse], tuning=TUNING):
            await until_ended(store, PAUSED)
        records = await store.read(PAUSED)

        # It wakes up in the middle of its turn, with the result of a tool in its hands.
        assert paused.stdin is not None
        paused.stdin.write(b"go\n")
        paused.send_signal(signal.SIGCONT)
        assert paused.stdout is not None
        assert await paused.stdout.readline() == b"lease lost\n"

        assert await store.read(PAUSED) == records
        check_log(records, accepted=[1])
        assert noted(tmp_path / "effects") == ["1"]
