"""A gateway that dies at any write of a rescue leaves a session with which the next one answers the same request."""

from collections.abc import Sequence
from typing import Any, cast

import pytest

from holdfast.core.fold.session_state import InFlight
from holdfast.core.limits.bounds import Bounds
from holdfast.models.fake import Simulation
from holdfast.ports import Admission, Lease
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.engine.log import open_log
from holdfast.runtime.sessions.response_links import ANSWERS_KEY
from holdfast.stores.memory import MemoryStore
from holdfast.types.limits import Limits
from holdfast.types.records import (
    InboxRecord,
    InputAdmitted,
    LeasedRecord,
    Logged,
    ReplyRecorded,
    ToolInterrupted,
    ToolSettled,
    ToolStarted,
)
from tests.proxy.proxies import NONE_AHEAD, DropInRunning, a_dropin
from tests.proxy.recallers import DIALECTS, Recaller, a_past, fact, forgetful
from tests.proxy.test_refused_content import POISON, Agent
from tests.proxy.test_truncation import WINDOW, codex_body, filled, respond, talk

SMALL = Limits(window_tokens=4_000, output_tokens_max=800)
CODEX = "You are performing a CONTEXT CHECKPOINT COMPACTION. Create a handoff summary."
FILLER = "the crew writes down what it saw on this day and what it means to do on the next. " * 40
MESSAGES: Any = [
    *(
        {"role": role, "content": text}
        for number in range(6)
        for role, text in (("user", f"remember fact{number} = value{number} {FILLER}"), ("assistant", "Noted."))
    ),
    {"role": "user", "content": "what is fact0?"},
]


class WatchedStore(MemoryStore):
    """Remembers where each write ended."""

    def __init__(self) -> None:
        super().__init__(clock=SystemClock(), bounds=Bounds())
        self.ends: list[tuple[str, int]] = []

    async def append(self, lease: Lease, records: Sequence[LeasedRecord], *, after: int) -> int:
        """Append, and remember."""
        last = await super().append(lease, records, after=after)
        self.ends.append((lease.session, last))
        return last


async def _ask(running: DropInRunning) -> str:
    reply = await running.openai.chat.completions.create(model="sim", messages=MESSAGES, max_tokens=200)
    return reply.choices[0].message.content or ""


async def _store_with(key: str, records: Sequence[Logged]) -> MemoryStore:
    store = MemoryStore(clock=SystemClock(), bounds=Bounds())
    lease = await store.acquire(key, "a gateway that died", seconds=30)
    assert lease is not None
    await store.adopt(lease, records)
    await store.release(lease)
    return store


async def test_a_rescue_that_died_at_any_write_is_answered_by_the_next_gateway() -> None:
    store = WatchedStore()
    async with a_dropin(Simulation(SMALL), store=store) as running:
        assert "value0" in await _ask(running)
        (key,) = await running.sessions()
        records = await store.read(key)
    ends = [last for session, last in store.ends if session == key]
    assert len(ends) > 4
    for end in ends[:-1]:
        half = await _store_with(key, records[:end])
        async with a_dropin(Simulation(SMALL), store=half) as running:
            assert "value0" in await _ask(running), f"cut after record {end}"
            log = await open_log(half, key)
            after = await running.records(key)
        assert not log.wounds
        # A turn whose answer was recorded last is ended by the client's next message.
        assert log.turn.in_flight is InFlight.REST or log.turn.has_answer, f"cut after record {end}"
        # Whatever was entered before is not entered again.
        assert sum(isinstance(record, InputAdmitted) for record in after) == 7
        assert sum(isinstance(record, ReplyRecorded) for record in after) == 7


class _Writes(MemoryStore):
    """Remembers every record that was written, in the order in which it was."""

    def __init__(self) -> None:
        super().__init__(clock=SystemClock(), bounds=Bounds())
        self.written: list[tuple[str, list[Logged]]] = []

    async def append(self, lease: Lease, records: Sequence[LeasedRecord], *, after: int) -> int:
        """Append, and remember."""
        last = await super().append(lease, records, after=after)
        self.written.append((lease.session, await self.read(lease.session, after=after)))
        return last

    async def admit(self, session: str, record: InboxRecord) -> Admission:
        """Admit, and remember."""
        admitted = await super().admit(session, record)
        self.written.append((session, await self.read(session, after=admitted.seq - 1)))
        return admitted


async def test_a_gateway_that_died_at_any_write_around_a_link_leaves_none_that_leads_nowhere() -> None:
    simulation, store = Simulation(), _Writes()
    async with a_dropin(simulation, store=store) as running:
        first = await running.openai.responses.create(model="sim", input="remember harbour = Kiel")
        (key,) = await running.sessions()
    writes = store.written
    assert any(session == key for session, _ in writes)
    assert any(session.startswith(ANSWERS_KEY) for session, _ in writes)
    for count in range(len(writes) + 1):
        half = MemoryStore(clock=SystemClock(), bounds=Bounds())
        for session, records in writes[:count]:
            lease = await half.acquire(session, "a gateway that died", seconds=30)
            assert lease is not None
            await half.adopt(lease, records)
            await half.release(lease)
        async with a_dropin(simulation, store=half) as running:
            is_linked = any(session.startswith(ANSWERS_KEY) for session, _ in writes[:count])
            raw = await running.openai.responses.with_raw_response.create(
                model="sim", input="what is harbour?", previous_response_id=first.id
            )
            answer = raw.parse()
            named = raw.headers.get("x-holdfast-session")
            kept = await running.records(key)
        # The provider knows what came before, so the client has its answer whatever we know.
        assert "Kiel" in answer.output_text, f"cut after write {count}"
        # With a link it is known to go on there, and the session that the link names is there.
        assert named == (key if is_linked else None), f"cut after write {count}"
        replies = sum(isinstance(record, ReplyRecorded) for record in kept)
        assert replies == (2 if is_linked else any(session == key for session, _ in writes[:count]))


async def _replayed(writes: Sequence[tuple[str, list[Logged]]]) -> MemoryStore:
    """Return a store as a gateway left it that died after so many writes, which is before the next one."""
    half = MemoryStore(clock=SystemClock(), bounds=Bounds())
    for session, records in writes:
        lease = await half.acquire(session, "a gateway that died", seconds=30)
        assert lease is not None
        await half.adopt(lease, records)
        await half.release(lease)
    return half


async def test_a_gateway_that_died_at_any_write_around_a_truncated_answer_answers_it_whole() -> None:
    """The retry of a client is recovered by whichever gateway gets it: the truncation is in the log."""
    store = _Writes()
    async with a_dropin(Simulation(Limits(window_tokens=WINDOW)), store=store) as running:
        items = filled(await talk(running))
        before = len(store.written)
        assert (await respond(running, codex_body(items)))[0] == ""
        assert (await respond(running, codex_body(items)))[0] == "response.completed"
        (key,) = await running.sessions()
    assert len(store.written) - before > 4
    for count in range(before, len(store.written)):
        half = await _replayed(store.written[:count])
        async with a_dropin(Simulation(Limits(window_tokens=WINDOW)), store=half) as running:
            endings = [(await respond(running, codex_body(items)))[0] for _ in range(2)]
            log = await open_log(half, key)
            records = await running.records(key)
        # Before the truncation is recorded it happens once more; after that the first retry is whole.
        assert "response.completed" in endings, f"died after write {count}"
        assert not log.wounds
        inputs = [record.origin for record in records if isinstance(record, InputAdmitted)]
        assert len(inputs) == len(set(inputs)), f"died after write {count}"


async def test_a_gateway_that_died_at_any_write_of_a_clients_own_compactions_still_ends_the_loop() -> None:
    store, compaction = _Writes(), [{"role": "user", "content": CODEX}]

    async def rounds(running: DropInRunning, number: int) -> list[bool]:
        rescued = []
        for _ in range(number):
            raw = await running.openai.chat.completions.with_raw_response.create(model="sim", messages=MESSAGES)
            rescued.append("x-holdfast-rescued" in raw.headers)
            await running.openai.chat.completions.create(model="sim", messages=cast("Any", compaction))
        return rescued

    async with a_dropin(store=store) as running:
        assert await rounds(running, 3) == [False, False, True]
    for count in range(len(store.written) + 1):
        async with a_dropin(store=await _replayed(store.written[:count])) as running:
            # Whatever was counted before, the loop ends after two more compactions at the latest.
            assert True in await rounds(running, 3), f"died after write {count}"


@pytest.mark.parametrize(("bad", "word"), [("text", "content-filter"), ("result", "bare-400"), ("text", "bare-400")])
async def test_a_gateway_that_died_at_any_write_about_refused_content_answers_every_later_message(
    bad: str, word: str
) -> None:
    """The client sends its whole history again, with the refused content in it."""
    simulation, store = Simulation(), _Writes()
    simulation.set_refused({POISON: word})
    agent = Agent("openai", "keeps")
    async with a_dropin(simulation, store=store) as running:
        agent.says("hello")
        assert await agent.ask(running)
        before = len(store.written)
        agent.says(f"about {POISON}" if bad == "text" else "read it")
        if bad == "result":
            agent.looks(f"line one\n{POISON} line two")
        sent = list(agent.messages)
        assert await agent.ask(running) == (bad == "result")
        if bad == "text":
            # What the next request finds out about the unanswered message is written with it.
            agent.says("something else")
            assert await agent.ask(running)
    assert len(store.written) > before + 4
    # The start is a death after the last write before the content was sent.
    for count in range(before, len(store.written)):
        half = await _replayed(store.written[:count])
        late = Agent("openai", "keeps")
        late.messages = list(sent)
        async with a_dropin(simulation, store=half) as running:
            was_answered = await late.ask(running)
            late.says("after the crash")
            answered = [await late.ask(running)]
            late.says("and again")
            answered.append(await late.ask(running))
            logs = [await open_log(half, key) for key in await running.sessions()]
            last = simulation.requests[-1].body
        assert answered == [True, True], f"died after write {count}"
        assert was_answered or bad == "text", f"died after write {count}"
        assert POISON.encode() not in last, f"died after write {count}"
        assert not any(log.wounds for log in logs)


def _unanswered(store: _Writes, key: str) -> list[int]:
    """Return the numbers of the writes to a session up to its last answer; then a retry is another conversation."""
    own = [number for number, (session, _) in enumerate(store.written) if session == key]
    answers = [
        number
        for number in own
        if any(
            isinstance(one.record, ReplyRecorded) and one.record.origin is not None for one in store.written[number][1]
        )
    ]
    return [number for number in own if number <= answers[-1]]


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_gateway_that_died_at_any_write_around_a_recall_answers_the_same_request(dialect: str) -> None:
    store, (name, value) = _Writes(), fact(40)
    async with a_dropin(forgetful(), store=store, bounds=NONE_AHEAD) as running:
        assert value in (await Recaller(running, dialect, messages=a_past(24)).ask(f"what is {name}?")).text
        (key,) = await running.sessions()
        written = await running.records(key)
    assert sum(isinstance(record, ToolSettled) for record in written) == 1
    writes = _unanswered(store, key)
    assert len(writes) > 6
    for count in writes:
        half = await _replayed(store.written[:count])
        async with a_dropin(forgetful(), store=half, bounds=NONE_AHEAD) as running:
            answer = await Recaller(running, dialect, messages=a_past(24)).ask(f"what is {name}?")
            log = await open_log(half, key)
            records = await running.records(key)
            assert len(await running.sessions()) == 1
        assert (value in answer.text, answer.calls) == (True, []), f"died after write {count}"
        assert not log.wounds
        # A call has one result. It only reads, so it may be started again if its result is missing.
        settled = [record.result.call_id for record in records if isinstance(record, ToolSettled)]
        assert len(settled) == len(set(settled)) >= 1, f"died after write {count}"
        started = [record for record in records if isinstance(record, ToolStarted)]
        assert len(started) - len(settled) == sum(isinstance(record, ToolInterrupted) for record in records)
        origins = [record.origin for record in records if isinstance(record, ReplyRecorded | InputAdmitted)]
        known = [origin for origin in origins if origin is not None]
        assert len(known) == len(set(known)) == 50, f"died after write {count}"


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_gateway_that_died_at_any_write_around_a_mixed_reply_takes_the_clients_results(dialect: str) -> None:
    """The client has its part of the reply; the rest is in the log, half of it, or nowhere."""
    store = _Writes()
    async with a_dropin(forgetful(), store=store, bounds=NONE_AHEAD) as running:
        client = Recaller(running, dialect, messages=a_past(24))
        assert (await client.ask("write 5 words")).text
        before = len(store.written)
        mixed = await client.ask('call depth {} call recall {"query": "berth-9"}')
        asked = list(client.messages)
        assert "12 fathoms" in (await client.returns(mixed, "12 fathoms")).text
        (key,) = await running.sessions()
    writes = [number for number in _unanswered(store, key) if number >= before]
    assert len(writes) > 4
    for count in writes:
        half = await _replayed(store.written[:count])
        async with a_dropin(forgetful(), store=half, bounds=NONE_AHEAD) as running:
            late = Recaller(running, dialect, messages=list(asked))
            answer = await late.returns(mixed, "12 fathoms")
            assert "12 fathoms" in answer.text, f"died after write {count}"
            assert (await late.ask("write 7 words")).text
            records = await running.records(key)
            log = await open_log(half, key)
            assert len(await running.sessions()) == 1, f"died after write {count}"
        assert not log.wounds
        settled = [record.result.call_id for record in records if isinstance(record, ToolSettled)]
        assert len(settled) == len(set(settled)), f"died after write {count}"
        own = [call for record in records if isinstance(record, ReplyRecorded) for call in record.own_calls]
        assert set(own) <= set(settled)
