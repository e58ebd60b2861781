"""A gateway that dies at any write of a rescue leaves a session with which the next one answers the same request."""

from collections.abc import Sequence
from typing import Any

from holdfast.core.fold import InFlight
from holdfast.core.limits import Bounds, Limits
from holdfast.core.records import InputAdmitted, LeasedRecord, Logged, ReplyRecorded
from holdfast.models.simulated import Simulation
from holdfast.ports import Lease
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.log import open_log
from holdfast.stores.memory import MemoryStore
from tests.dropin.dropins import DropInRunning, a_dropin

SMALL = Limits(window_tokens=4_000, output_tokens_max=800)
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
