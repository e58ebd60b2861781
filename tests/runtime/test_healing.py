"""A damaged session heals on the way: it answers, one outcome each, the bytes are kept, and it is told."""

import asyncio
import contextlib
import logging
from contextlib import closing
from pathlib import Path

import apsw
import pytest
from msgspec.structs import replace

from holdfast.core.fold.session_state import Turn
from holdfast.core.turn.transitions import evolve
from holdfast.errors import BadInputError, StoreDamagedError, TurnFailedError
from holdfast.ports import Snapshot, Store
from holdfast.runtime.engine.log import Log, open_log
from holdfast.runtime.maintenance.healing import check_clean, open_healed
from holdfast.stores.memory import MemoryStore
from holdfast.stores.rows import ALTERED
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.builders import (
    ManualClock,
    a_notice,
    a_reply,
    a_turn_ended,
    an_attempt_started,
    an_input,
    lease_on,
)
from holdfast.testing.crashes import CrashingStore, Died, every_point
from holdfast.testing.engines import FunctionModel, ScriptedModel, a_hold, an_engine, says
from holdfast.types.messages import Reply, Request, Role, Text
from holdfast.types.records import (
    DamageSetAside,
    InputAdmitted,
    Logged,
    NoticePosted,
    Outcome,
    ReplyRecorded,
    TurnEnded,
    TurnStarted,
    encode_record,
)

KEY = "telegram:42"
LEASE_SECONDS = 30.0
TURN = (an_input("ahoy"), TurnStarted(1), an_attempt_started(), a_reply("aye"), a_turn_ended())


def echo(request: Request) -> Reply:
    said = [part.text for part in request.messages[-1].parts if isinstance(part, Text)]
    return says(f"{len(request.messages)} messages, the last: {said[-1]}")


async def a_conversation(path: Path, *texts: str) -> None:
    """One turn of five records for each text."""
    store = SqliteStore(path, clock=ManualClock())
    async with a_hold(an_engine(FunctionModel(echo), store=store)) as hold:
        for text in texts:
            await (await hold.session(KEY)).send(text)
    await store.close()


def damage(path: Path, sql: str, *values: int | bytes) -> None:
    with closing(apsw.Connection(str(path))) as db:
        db.execute(sql, values)
        assert db.changes() >= 1


async def living(path: Path) -> list[Logged]:
    """Open the store as a process would, send one message, and return the log."""
    store = SqliteStore(path, clock=ManualClock())
    async with a_hold(an_engine(FunctionModel(echo), store=store)) as hold:
        session = await hold.session(KEY)
        await session.send("and now?")
    records = await store.read(KEY)
    await store.close()
    return records


def notices(records: list[Logged]) -> list[str]:
    """Return the notices; one that was made between turns is repeated in the next turn."""
    return list(dict.fromkeys(each.record.sentence for each in records if isinstance(each.record, NoticePosted)))


def check_outcomes(records: list[Logged]) -> None:
    """The log folds, rests, and every message that can be read has exactly one outcome."""
    turn = Turn()
    for logged in records:
        turn = evolve(turn, logged)
    ended = [each.record.turn for each in records if isinstance(each.record, TurnEnded)]
    inputs = [each.seq for each in records if isinstance(each.record, InputAdmitted)]
    assert turn.owed == 0
    assert set(inputs) <= set(ended) | {each.seq for each in records if isinstance(each.record, DamageSetAside)} | (
        # Where the record of an outcome is what was lost, it was there.
        {number for number in inputs if number < turn.torn_until}
    )
    assert len(ended) == len(set(ended))


@pytest.mark.parametrize("seq", range(1, 11))
async def test_whichever_record_is_torn_the_next_message_is_answered_and_the_damage_is_told(
    tmp_path: Path, seq: int
) -> None:
    path = tmp_path / "s.db"
    await a_conversation(path, "one", "two")
    damage(path, "UPDATE recent SET body = x'00ff' WHERE seq = ?", seq)

    records = await living(path)

    mark = records[seq - 1].record
    assert isinstance(mark, DamageSetAside)
    assert (mark.why, mark.kept) == (ALTERED, "quarantine:1")
    check_outcomes(records)
    assert len(notices(records)) == 1
    assert f"record {seq} is moved to quarantine" in notices(records)[0]
    (answer,) = [each.record.reply.parts[0] for each in records[-4:] if isinstance(each.record, ReplyRecorded)]
    assert "the last: and now?" in str(answer)


async def test_a_healthy_session_is_opened_without_a_write_or_a_further_read(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    await a_conversation(path, "one")
    store = SqliteStore(path, clock=ManualClock())
    lease = await lease_on(store, KEY)
    counting = CrashingStore(store)
    known = await store.info(KEY)

    log = await open_healed(lease, counting, known)

    assert (counting.writes, log.wounds, log.turn) == (0, {}, (await open_log(store, KEY)).turn)
    await store.close()


async def test_what_is_healed_once_is_not_healed_again(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    await a_conversation(path, "one", "two")
    damage(path, "UPDATE recent SET crc32 = 1 WHERE seq = 4")
    damage(path, "DELETE FROM recent WHERE seq = 2")

    first = await living(path)
    second = await living(path)

    assert len(notices(first)) == 1
    assert second[: len(first)] == first
    assert notices(second) == notices(first)


async def test_a_message_that_was_lost_before_its_answer_ends_in_one_outcome(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    store = SqliteStore(path, clock=ManualClock())
    await store.admit(KEY, an_input("lost"))
    await store.admit(KEY, an_input("kept"))
    await store.close()
    damage(path, "UPDATE recent SET body = substr(body, 1, 30) WHERE seq = 1")

    store = SqliteStore(path, clock=ManualClock())
    async with a_hold(an_engine(FunctionModel(echo), store=store)) as hold:
        session = await hold.session(KEY)
        assert str(await session.wait(2)) == "1 messages, the last: kept"
        with pytest.raises(TurnFailedError) as failed:
            await session.wait(1)
    records = await store.read(KEY)
    await store.close()

    assert failed.value.reason == "damaged"
    assert [each.record.turn for each in records if isinstance(each.record, TurnEnded)] == [1, 2]


async def test_a_message_that_is_found_damaged_by_whoever_waits_for_it_says_so(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    await a_conversation(path, "one")
    damage(path, "UPDATE recent SET body = x'00' WHERE seq = 1")
    store = SqliteStore(path, clock=ManualClock())
    async with a_hold(an_engine(FunctionModel(echo), store=store)) as hold:
        session = await hold.session(KEY)
        with pytest.raises(StoreDamagedError, match="set aside"):
            await session.wait(1)
        with pytest.raises(BadInputError, match="no turn 2"):
            await session.wait(2)
    await store.close()


async def test_whoever_only_looks_sees_the_rest_and_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    await a_conversation(path, "one", "two")
    damage(path, "UPDATE recent SET body = x'00' WHERE seq = 4")
    store = SqliteStore(path, clock=ManualClock())
    async with a_hold(an_engine(FunctionModel(echo), store=store)) as hold:
        session = await hold.session(KEY)
        view = await session.view()
        commits = store.commits
        history = await session.history()
    assert [message.role for message in view.messages] == [Role.USER, Role.USER, Role.ASSISTANT]
    assert [each.seq for each in history if isinstance(each.record, DamageSetAside)] == [4]
    assert (store.commits, await store.quarantine(KEY)) == (commits, [])
    await store.close()


@pytest.mark.parametrize("owed", [0, 1, 7])
async def test_a_wrong_count_of_what_is_owed_is_put_right_and_stops_nobody(tmp_path: Path, owed: int) -> None:
    path = tmp_path / "s.db"
    await a_conversation(path, "one")
    damage(path, "UPDATE sessions SET owed = ? WHERE key = 'telegram:42'", owed)

    store = SqliteStore(path, clock=ManualClock())
    lease = await lease_on(store, KEY)
    await open_healed(lease, store, await store.info(KEY))

    assert await store.pending() == []
    assert len(notices(await store.read(KEY))) == (1 if owed else 0)
    await store.release(lease)
    await store.close()
    check_outcomes(await living(path))


async def test_a_snapshot_that_the_records_cannot_follow_is_dropped_and_told() -> None:
    store = MemoryStore(clock=ManualClock())
    lease = await lease_on(store, KEY)
    await store.admit(KEY, TURN[0])
    await store.append(lease, list(TURN[1:]), after=1)
    wrong = Log(KEY, Turn(seq=2, number=99))
    await store.save_snapshot(lease, Snapshot(2, wrong.snapshot().body))

    log = await open_healed(lease, store)

    assert (await store.load_snapshot(KEY), log.turn.owed, log.wounds) == (None, 0, {})
    assert "the snapshot at" in notices(await store.read(KEY))[0]


async def test_a_record_that_cannot_follow_is_set_aside_and_the_rest_goes_on() -> None:
    store = MemoryStore(clock=ManualClock())
    lease = await lease_on(store, KEY)
    await store.append(lease, [*TURN, TurnStarted(1), a_notice("behind")], after=0)

    log = await open_healed(lease, store)

    records = await store.read(KEY)
    assert isinstance(records[5].record, DamageSetAside)
    assert "cannot follow" in records[5].record.why
    assert records[6].record == a_notice("behind")
    (kept,) = await store.quarantine(KEY)
    assert (kept.body, log.wounds) == (encode_record(TurnStarted(1)), {})
    await store.append(lease, [a_notice("more")], after=log.turn.seq)


async def test_our_own_record_that_cannot_follow_is_a_bug_and_not_damage() -> None:
    with pytest.raises(StoreDamagedError):
        Log(KEY, Turn()).extend([Logged(1, 0.0, TurnStarted(1))])


async def test_what_cannot_be_taken_back_is_refused_on_a_log_that_is_not_clean(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    await a_conversation(path, "one")
    store = SqliteStore(path, clock=ManualClock())
    await check_clean(store, KEY)
    damage(path, "UPDATE recent SET body = x'00' WHERE seq = 4")

    with pytest.raises(StoreDamagedError, match=r"record 4 .* doctor --fix"):
        await check_clean(store, KEY)
    await store.close()


# --- dying while healing -------------------------------------------------------------------------------------------


async def _live(store: Store, clock: ManualClock) -> None:
    async with a_hold(an_engine(FunctionModel(echo), store=store, clock=clock), lease_seconds=LEASE_SECONDS) as hold:
        session = await hold.session(KEY)
        await session.wait(await session.post("and now?", client_id="now"))


async def _die_or_live(crashing: CrashingStore, clock: ManualClock) -> None:
    work = asyncio.create_task(_live(crashing, clock))
    dying = asyncio.create_task(crashing.died.wait())
    await asyncio.wait([work, dying], return_when=asyncio.FIRST_COMPLETED)
    for task in (work, dying):
        task.cancel()
    for task in (work, dying):
        with contextlib.suppress(asyncio.CancelledError, Died, BaseExceptionGroup):
            await task
    clock.advance(LEASE_SECONDS + 1)


async def _a_damaged_store(clock: ManualClock) -> MemoryStore:
    store = MemoryStore(clock=clock)
    await store.admit(KEY, an_input("one"))
    lease = await lease_on(store, KEY)
    await store.append(lease, [TurnStarted(1), an_attempt_started(), a_reply("aye"), a_turn_ended()], after=1)
    await store.admit(KEY, an_input("lost"))
    await store.release(lease)
    for seq in (3, 6):
        store._logs[KEY][seq - 1] = replace(store._logs[KEY][seq - 1], body=b"\x00torn")
    return store


async def test_a_process_that_dies_at_any_write_of_healing_leaves_the_old_state_or_the_new(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.CRITICAL)
    asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)
    clock = ManualClock()
    whole = CrashingStore(await _a_damaged_store(clock))
    await _die_or_live(whole, clock)
    assert whole.writes >= 8

    for point in every_point(whole.writes):
        clock = ManualClock()
        store = await _a_damaged_store(clock)
        await _die_or_live(CrashingStore(store, point), clock)
        await _die_or_live(CrashingStore(store), clock)

        records = await store.read(KEY)
        check_outcomes(records)
        assert [each.seq for each in records if isinstance(each.record, DamageSetAside)] == [3, 6], str(point)
        assert [kept.body for kept in await store.quarantine(KEY)] == [b"\x00torn"] * 2, str(point)
        assert len(notices(records)) == 1, str(point)
        lost = [each.record for each in records if isinstance(each.record, TurnEnded) and each.record.turn == 6]
        assert [(ended.outcome, ended.code) for ended in lost] == [(Outcome.FAILED, "damaged")], str(point)


async def test_damage_is_told_with_the_next_answer(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    await a_conversation(path, "one", "two")
    damage(path, "UPDATE recent SET crc32 = 1 WHERE seq = 4")
    store = SqliteStore(path, clock=ManualClock())
    async with a_hold(an_engine(ScriptedModel(["fine"]), store=store)) as hold:
        session = await hold.session(KEY)
        first, second = await session.send("still there?"), await session.send("and now?")
    await store.close()

    assert any("damaged on disk" in notice for notice in first.notices)
    assert second.notices == ()
