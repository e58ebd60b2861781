"""The memory behind digests and ledgers: continued from the stored one, it equals the one made from the whole log.

Its work is counted, because processor time depends on the machine.
"""

import asyncio
import random
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.core.compaction.facts import Judge
from holdfast.core.compaction.memory import kept as kept_memory
from holdfast.core.compaction.memory.observe import observe
from holdfast.core.compaction.memory.state import Memory
from holdfast.core.compaction.plan import Keeps, Plan, plan_compaction
from holdfast.core.limits.bounds import Bounds
from holdfast.core.limits.fit import as_estimated
from holdfast.errors import HoldfastError, TurnFailedError
from holdfast.ports import Snapshot
from holdfast.runtime.engine import memory as engine_memory
from holdfast.runtime.engine.context import Engine
from holdfast.runtime.engine.learning import Known
from holdfast.runtime.engine.log import Log, open_log
from holdfast.runtime.engine.memory import memory_before
from holdfast.runtime.sessions.session import Session
from holdfast.stores.memory import MemoryStore
from holdfast.testing.builders import ManualClock
from holdfast.testing.engines import FunctionModel, a_hold, an_engine, refuses, says
from holdfast.types.faults import Refusal
from holdfast.types.limits import Limits
from holdfast.types.messages import Message, Reply, Request, StopReason, Text, ToolCall, text_of
from holdfast.types.records import (
    CompactionApplied,
    GenerationStarted,
    InputAdmitted,
    Logged,
    ReplyRecorded,
    ToolSettled,
    TurnEnded,
)
from tests.runtime.talks import KEY, OVERFLOW

WINDOW = 4_000
TEXTS = (
    "Please mend src/part{n}.py, the port is 80{n}.",
    "yes, do option {n}",
    "Never push to main before {n} o'clock.",
    "- [ ] task {n}\n- [x] task {n}a\n",
    "HAF-{n}77 berth_{n} = {n}42mm. " + "word{n} " * 150,
    "look up {n}",
)


class Agent(FunctionModel):
    """A model that looks things up, asks questions, and refuses as often as it is told to."""

    def __init__(self) -> None:
        self.refusals = 0
        self.answers = 0
        super().__init__(self._answer, limits=Limits(window_tokens=WINDOW))

    def _answer(self, request: Request) -> Reply | Refusal:
        if request.system.startswith("You write the working notes"):
            return says("Goal: mend the parts. State: broken.")
        if self.refusals:
            self.refusals -= 1
            return refuses(400, OVERFLOW)
        self.answers += 1
        newest = request.messages[-1].parts[-1]
        if isinstance(newest, Text) and newest.text.startswith("look up"):
            call = ToolCall(f"c{self.answers}", "look_up", msgspec.json.encode({"number": self.answers}).decode())
            return Reply((Text("I look."), call), StopReason.TOOL_CALLS, None, "m")
        return says(f"Part {self.answers} is done. Should I go on with option {self.answers}?")


def look_up(number: int) -> str:
    """Look something up."""
    return f"Error: src/found{number}.py is missing, see req_{number}\n" + "finding " * 60


async def known_of(log: Log, engine: Engine) -> Known:
    return await engine.known(engine.model_for(log.turn), log.turn)


async def cuts_of(log: Log, engine: Engine) -> list[Plan]:
    known = await known_of(log, engine)
    limits = as_estimated(known.limits, known.calibration)
    plans = [plan_compaction(log.tail, log.turn, limits, engine.bounds, tokens=WINDOW, keeps=keeps) for keeps in Keeps]
    return [one for one in plans if one is not None]


def forget(log: Log) -> None:
    log.kept = ()


async def rebuilt(engine: Engine, session: str, cut: Plan) -> Memory:
    """Return the memory that the records alone give."""
    log = await open_log(engine.store, session)
    forget(log)
    return await memory_before(log, engine, cut, await known_of(log, engine))


async def assert_same(engine: Engine, session: str) -> None:
    log = await open_log(engine.store, session)
    known = await known_of(log, engine)
    for cut in await cuts_of(log, engine):
        # The copies share what is stored, not what is made here.
        opened = await open_log(engine.store, session)
        assert await memory_before(opened, engine, cut, known) == await rebuilt(engine, session, cut)
        # A second plan of the same compaction continues from what the first one has made.
        assert await memory_before(opened, engine, cut, known) == await rebuilt(engine, session, cut)


async def do(step: tuple[str, int], agent: Agent, session: Session) -> Session:
    kind, number = step
    match kind:
        case "send":
            await session.send(TEXTS[number % len(TEXTS)].format(n=number))
        case "compact":
            await session.compact()
        case "undo":
            await session.undo()
        case "exclude" | "take back":
            records = await session.history(limit=10_000)
            seqs = [one.seq for one in records if isinstance(one.record, InputAdmitted | ReplyRecorded | ToolSettled)]
            if seqs:
                await session.exclude(seqs[number % len(seqs)], undo=kind == "take back")
        case "refused":
            agent.refusals = number % 16
            await session.send(TEXTS[number % len(TEXTS)].format(n=number))
        case "fork":
            session = await session.fork(f"{session.key}-{number}")
        case _:
            raise AssertionError(kind)
    return session


STEPS = st.tuples(
    st.sampled_from(["send"] * 8 + ["compact"] * 3 + ["undo", "exclude", "take back", "refused", "fork"]),
    st.integers(0, 60),
)


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=st.lists(STEPS, min_size=4, max_size=30))
def test_a_continued_memory_equals_one_made_from_the_whole_log(steps: list[tuple[str, int]]) -> None:
    async def run() -> None:
        agent = Agent()
        engine = an_engine(agent, bounds=Bounds(compacts_ahead=False), tools=[look_up])
        async with a_hold(engine) as hold:
            session = await hold.session(KEY)
            for step in steps:
                # A turn that fails and a fork of nothing are steps too.
                with suppress(HoldfastError):
                    session = await do(step, agent, session)
                agent.refusals = 0
                if step[0] != "send":
                    await assert_same(engine, session.key)
            await assert_same(engine, session.key)

    asyncio.run(run())


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Count the messages that memories observe, by their record."""
    seen: list[int] = []

    def counting(memory: Memory, seq: int, message: Message, judge: Judge) -> Memory:
        seen.append(seq)
        return observe(memory, seq, message, judge)

    with monkeypatch.context() as patch:
        patch.setattr(engine_memory, "observe", counting)
        yield seen


class CountingStore(MemoryStore):
    """A store that counts the records it reads."""

    records_read = 0

    async def read(self, session: str, *, after: int = 0, limit: int | None = None) -> list[Logged]:
        records = await super().read(session, after=after, limit=limit)
        self.records_read += len(records)
        return records


def a_counting_engine(agent: Agent) -> tuple[CountingStore, Engine]:
    clock, bounds = ManualClock(), Bounds(compacts_ahead=False)
    store = CountingStore(clock=clock, bounds=bounds)
    return store, an_engine(agent, store=store, clock=clock, bounds=bounds, tools=[look_up])


async def test_the_work_of_a_compaction_does_not_grow_with_the_history(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty compactions of as many new messages each: the last one costs what the third one costs."""
    agent = Agent()
    store, engine = a_counting_engine(agent)
    observed: list[int] = []
    read: list[int] = []
    async with a_hold(engine) as hold:
        session = await hold.session(KEY)
        for _ in range(20):
            for number in range(6):
                await session.send(TEXTS[number % 5].format(n=number))
            before = store.records_read
            with counted(monkeypatch) as seen:
                await session.compact()
            observed.append(len(seen))
            read.append(store.records_read - before)
        records = await session.history(limit=10_000)
        compactions = [one for one in records if isinstance(one.record, CompactionApplied)]
        assert len(compactions) == 20
    assert max(observed[3:]) <= observed[2] + 2, observed
    assert max(read[3:]) <= read[2] * 1.5, read


async def test_each_message_is_observed_once_over_many_compactions(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = Agent()
    _, engine = a_counting_engine(agent)
    async with a_hold(engine) as hold:
        session = await hold.session(KEY)
        with counted(monkeypatch) as seen:
            for _ in range(5):
                for number in range(6):
                    await session.send(TEXTS[number].format(n=number))
                await session.compact()
        assert len(seen) == len(set(seen)) > 50


async def test_an_old_snapshot_without_a_memory_is_read_and_the_memory_made_again() -> None:
    agent = Agent()
    _, engine = a_counting_engine(agent)
    async with a_hold(engine) as hold:
        session = await hold.session(KEY)
        for number in range(12):
            await session.send(TEXTS[number % 5].format(n=number))
        await session.compact()
    store = engine.store
    assert isinstance(store, MemoryStore)
    stored = await store.load_snapshot(KEY)
    assert stored is not None
    body = msgspec.json.decode(stored.body)
    assert body.pop("kept")
    lease = await store.acquire(KEY, "test", seconds=30)
    assert lease is not None
    await store.save_snapshot(lease, Snapshot(stored.seq, msgspec.json.encode(body)))
    log = await open_log(store, KEY)
    assert (log.kept, log.turn.compaction_seq > 0, log.snapshot_seq) == ((), True, stored.seq)
    await assert_same(engine, KEY)


async def test_a_snapshot_is_bounded_whatever_was_said() -> None:
    """Thousands of distinct names, ids, sentences and values."""
    chance = random.Random(1)
    agent = Agent()
    _, engine = a_counting_engine(agent)
    async with a_hold(engine) as hold:
        session = await hold.session(KEY)
        for number in range(20):
            words = " ".join(f"name_{chance.randrange(10**9)}.Of{chance.randrange(10**9)}" for _ in range(300))
            await session.send(f"Part {number} costs {chance.randrange(10**6)} marks. Never forget {words}.")
            await session.compact()
        log = await open_log(engine.store, KEY)
        assert 0 < len(log.kept) <= 3
        assert all(len(one.body) <= kept_memory.BODY_BYTES_MAX for one in log.kept)
        assert len(log.snapshot().body) < 3 * kept_memory.BODY_BYTES_MAX * 4 / 3 + 100_000


async def test_a_long_unobserved_past_is_observed_in_shares_and_the_view_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As after an import: first the newest messages, in the end all of them."""
    monkeypatch.setattr(engine_memory, "_IDLE_BYTES", 8_000)
    monkeypatch.setattr(engine_memory, "_WAITED_BYTES", 8_000)
    monkeypatch.setattr(engine_memory, "_TOKEN_BYTES", 0)
    agent = Agent()
    _, engine = a_counting_engine(agent)
    async with a_hold(engine) as hold:
        session = await hold.session(KEY)
        for number in range(60):
            await session.send(f"Part {number} is of berth_{number}. " + "word " * 30)
        log = await open_log(engine.store, KEY)
        (cut, *_) = await cuts_of(log, engine)
        forget(log)
        known = await known_of(log, engine)
        first = await memory_before(log, engine, cut, known)
        assert first.is_part
        assert first.last_seq > 200
        made = first
        parts: list[int] = []
        while made.is_part and len(parts) < 40:
            parts.append(made.messages)
            made = await memory_before(log, engine, cut, known)
        assert not made.is_part
        assert made.messages > 80
        assert max(parts) < made.messages / 2, "each time a share"
        assert [one.since for one in log.kept] == [0, 0]
    monkeypatch.undo()
    assert made == await rebuilt(engine, KEY, cut)


async def test_a_memory_outlives_roll_overs_and_unanswered_copies() -> None:
    agent = Agent()
    engine = an_engine(agent, bounds=Bounds(compacts_ahead=False), tools=[look_up])
    async with a_hold(engine) as hold:
        session = await hold.session(KEY)
        for number in range(8):
            await session.send(TEXTS[number % 5].format(n=number))
        for times in (15, 15, 2):
            agent.refusals = times
            with suppress(TurnFailedError):
                await session.send("Please mend src/again.py.")
            agent.refusals = 0
            await assert_same(engine, KEY)
        await session.send("and now?")
        records = [one.record for one in await session.history(limit=10_000)]
        assert any(isinstance(one, GenerationStarted) for one in records)
        assert any(isinstance(one, TurnEnded) and one.code for one in records)
        await assert_same(engine, KEY)
        texts = [text_of(one.parts) for one in records if isinstance(one, InputAdmitted)]
        assert texts.count("Please mend src/again.py.") == 3
