"""Opening a log: from a snapshot and the tail, or from nothing, with the same result."""

import pytest

from holdfast.ports import Lease, Snapshot
from holdfast.runtime.engine.log import Log, open_log
from holdfast.stores.memory import MemoryStore
from holdfast.testing.builders import ManualClock, a_notice, a_reply, an_attempt_started, an_input
from holdfast.types.faults import FaultKind, Rung
from holdfast.types.records import (
    CompactionApplied,
    Outcome,
    RungFinished,
    RungResult,
    RungStarted,
    TurnEnded,
    TurnStarted,
    WorkRecord,
)
from tests.core.turns import failed

KEY = "s"


async def a_store(*, turns: int, compact_at: int = 0) -> tuple[MemoryStore, Lease]:
    """A store with one session of some turns of five records; one of them compacts everything before it."""
    store = MemoryStore(clock=ManualClock())
    lease = await store.acquire(KEY, "me", seconds=30)
    assert lease is not None
    for number in range(turns):
        turn = (await store.admit(KEY, an_input(f"message {number}"))).seq
        records: list[WorkRecord] = [TurnStarted(turn), an_attempt_started(turn)]
        if number == compact_at > 0:
            records += [
                failed(FaultKind.TOKEN_OVERFLOW),
                RungStarted(turn, Rung.DIGEST, FaultKind.TOKEN_OVERFLOW),
                CompactionApplied(turn, turn, "what was said", 100, 10),
                RungFinished(turn, Rung.DIGEST, RungResult.CHANGED),
                an_attempt_started(turn, 2),
            ]
        records += [a_reply("ok", turn=turn), TurnEnded(turn, Outcome.ANSWERED)]
        await store.append(lease, records, after=turn)
    return store, lease


async def test_the_tail_begins_with_the_first_turn_in_view() -> None:
    store, _ = await a_store(turns=10, compact_at=6)

    log = await open_log(store, KEY)

    assert log.turn.boundary == 31
    assert [logged.seq for logged in log.tail] == list(range(31, 56))


async def test_a_log_opened_from_a_snapshot_equals_one_that_was_folded_from_the_start() -> None:
    store, lease = await a_store(turns=10, compact_at=6)
    folded = await open_log(store, KEY)
    await store.save_snapshot(lease, folded.snapshot())
    await store.admit(KEY, an_input("one more"))

    opened = await open_log(store, KEY)

    await folded.catch_up(store)
    assert (opened.turn, opened.tail) == (folded.turn, folded.tail)


@pytest.mark.parametrize("body", [b"", b"not json", b'{"version":0,"turn":{}}', b'{"version":1,"turn":{"seq":"x"}}'])
async def test_a_snapshot_that_cannot_be_used_is_thrown_away(body: bytes) -> None:
    store, lease = await a_store(turns=3)
    expected = await open_log(store, KEY)
    await store.save_snapshot(lease, Snapshot(10, body))

    opened = await open_log(store, KEY)

    assert (opened.turn, opened.tail) == (expected.turn, expected.tail)


async def test_a_record_that_cannot_follow_is_a_wound_and_the_rest_is_read() -> None:
    store, lease = await a_store(turns=1)
    await store.append(lease, [TurnStarted(99), a_notice()], after=5)

    log = await open_log(store, KEY)

    assert (log.turn.seq, log.misfits, list(log.wounds)) == (7, {6}, [6])
    assert "record 6 starts turn 99, which is not waiting" in log.wounds[6]


async def test_a_session_that_does_not_exist_opens_empty() -> None:
    log = await open_log(MemoryStore(clock=ManualClock()), "nobody")

    assert (log.turn.seq, log.tail) == (0, [])
    assert isinstance(log, Log)
