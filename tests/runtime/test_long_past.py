"""More than 20,000 records before the first compaction: all are read, in shares, and the counted work stays bounded."""

import re
from collections import Counter

import pytest

from holdfast.core.limits.bounds import Bounds
from holdfast.runtime.engine import memory as engine_memory
from holdfast.runtime.sessions.session import Session
from holdfast.testing.builders import ManualClock
from holdfast.testing.engines import a_hold, an_engine, refuses, says
from holdfast.types.messages import Reply, Request, StopReason, Text, text_of
from holdfast.types.records import (
    AttemptStarted,
    CompactionApplied,
    InputAdmitted,
    LeasedRecord,
    Outcome,
    PieceSummarised,
    ReplyRecorded,
    TurnEnded,
    TurnStarted,
)
from tests.runtime.summarisers import ONLY_WHEN_ASKED, Talker, until_idle
from tests.runtime.talks import KEY
from tests.runtime.test_kept_memory import CountingStore, counted

_CODE = re.compile(r"code-\d+")
TURNS = 5_000
WINDOW = 32_000
# Calls that a person waits for, records and messages that one message or compaction may read once the past is known.
CALLS_MAX, RECORDS_MAX, MESSAGES_MAX = 8, 100, 300

# Bytes that a compaction reads for its digest in one of the tests; each token of the window adds five, and a message
# has some 600 with its overhead.
SHARE_BYTES = 2**19
SHARE_MESSAGES = (SHARE_BYTES + 5 * WINDOW) // 600


def read_in(request: Request) -> list[str]:
    text = text_of(request.messages[0].parts)
    return [] if "Below are notes" in text else _CODE.findall(text.partition("<conversation>\n")[2])


def notes(request: Request) -> Reply:
    codes = read_in(request)
    return says(f"Goal: moor the ships. Codes {codes[0]} to {codes[-1]}." if codes else "Goal: moor the ships.")


async def import_past(store: CountingStore) -> int:
    """Append a past as an import does, and return the number of its records."""
    lease = await store.acquire(KEY, "test", seconds=600)
    assert lease is not None
    seq, batch = 0, list[LeasedRecord]()
    reply = Reply((Text("Noted. The crew goes on."),), StopReason.END, None, "m")
    for number in range(TURNS):
        turn = seq + len(batch) + 1
        batch += [
            InputAdmitted((Text(f"Ship {number} of berth_{number % 50} has code-{number} and waits for the tide."),)),
            TurnStarted(turn),
            AttemptStarted(turn, 1, "m", 100),
            ReplyRecorded(turn, 1, reply),
            TurnEnded(turn, Outcome.ANSWERED),
        ]
        if len(batch) == 500:
            seq, batch = await store.append(lease, batch, after=seq), []
    await store.release(lease)
    return seq


async def applied_of(session: Session, after: int) -> list[CompactionApplied]:
    records = [logged.record for logged in await session.history(after=after, limit=100_000)]
    return [record for record in records if isinstance(record, CompactionApplied)]


async def test_beyond_20_000_records_everything_is_read_once_in_bounded_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Talker(notes, window=WINDOW)
    clock = ManualClock()
    store = CountingStore(clock=clock)
    end = await import_past(store)
    assert end >= 25_000
    async with a_hold(an_engine(model, store=store, clock=clock, bounds=Bounds())) as hold:
        session = await hold.session(KEY)
        with counted(monkeypatch) as observed:
            assert (await session.send("go on")).text == "ok"
        waited = len(model.notes_asked)
        assert waited <= CALLS_MAX
        (first, *_) = await applied_of(session, end)
        assert first.unread > 0
        assert f"No model has read #{first.unread} to" in first.summary
        assert len(observed) < 2 * 2 * TURNS, "the oldest and the newest, each once at most"

        rounds = 0
        while (await applied_of(session, end))[-1].unread:
            rounds += 1
            assert rounds <= 40
            store.records_read, asked = 0, len(model.notes_asked)
            with counted(monkeypatch) as observed:
                await session.send("and on")
                await until_idle(hold)
            # One idle compaction reads the imported records twice at most: for the notes, and for the memory.
            assert store.records_read <= 2 * end, rounds
            assert len(observed) <= 2 * TURNS, rounds
            assert len(model.notes_asked) - asked <= 3 * CALLS_MAX, rounds
        assert "No model has read" not in (await applied_of(session, end))[-1].summary

        # Every message was paid for once.
        read = Counter(code for request in model.notes_asked for code in read_in(request))
        shown = _CODE.findall("\n".join(text_of(one.parts) for one in (await session.view()).messages[1:]))
        assert {f"code-{number}" for number in range(TURNS)} <= {*read, *shown}
        assert max(read.values()) <= 2
        assert sum(read.values()) <= 1.05 * TURNS
        leaves = [one.record for one in await session.history(after=end, limit=100_000)]
        assert sum(isinstance(one, PieceSummarised) for one in leaves) <= 60

        # From here on a compaction is one of a short session.
        await session.compact()
        for number in range(20):
            await session.send(f"Ship {TURNS + number} is late. " + "The wind has turned. " * 40)
        store.records_read, asked = 0, len(model.notes_asked)
        with counted(monkeypatch) as observed:
            await session.compact()
        assert store.records_read <= RECORDS_MAX
        assert 0 < len(observed) <= MESSAGES_MAX
        assert len(model.notes_asked) - asked <= 2


async def test_beyond_20_000_records_a_digest_says_which_messages_it_has_not_read_until_it_has_read_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine_memory, "_IDLE_BYTES", SHARE_BYTES)
    monkeypatch.setattr(engine_memory, "_WAITED_BYTES", SHARE_BYTES)
    model = Talker(refuses(400, "summaries are not allowed here"), window=WINDOW)
    clock = ManualClock()
    store = CountingStore(clock=clock)
    end = await import_past(store)
    async with a_hold(an_engine(model, store=store, clock=clock, bounds=ONLY_WHEN_ASKED)) as hold:
        session = await hold.session(KEY)
        observed_at: list[int] = []
        told = ""
        for _ in range(20):
            with counted(monkeypatch) as observed:
                assert (await session.send("go on " * 300)).text == "ok"
                await session.compact()
            observed_at.append(len(observed))
            (*_, last) = await applied_of(session, end)
            told = last.summary
            if "are not read for this text yet" not in told:
                break
            assert re.search(r"Messages before #\d{4,} are not read", told), "the newest messages come first"
        # A message that is rejected for its size plans up to six compactions, and each reads two shares at most.
        assert len(observed_at) > 1, "in shares"
        assert max(observed_at) <= 6 * 2 * SHARE_MESSAGES
        assert re.search(r"\n[\d,]{4,} messages, #1 to #\d{5}\.", told)
        assert "Ship 0 of berth_0 has code-0" in told, "the first request is the goal"
