"""Reading a session of many short turns, none of them compacted: bounded work, pages, and tags."""

from collections.abc import AsyncIterator

import pytest

from holdfast.core.limits.bounds import Bounds
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.engine.log import open_log
from holdfast.stores.memory import MemoryStore
from holdfast.testing.builders import lease_on
from holdfast.types.messages import Reply, StopReason, Text
from holdfast.types.records import (
    AttemptStarted,
    InputAdmitted,
    LeasedRecord,
    Logged,
    Outcome,
    ReplyRecorded,
    TurnEnded,
    TurnStarted,
)
from tests.gateway.gateways import Running, a_gateway

KEY = "/api/sessions/long"
TURNS = 1_500
RECORDS_OF_A_TURN = 5
# Of each address: the default page of a view, the part of it that the past looks at, and single records.
RECORDS_READ_MAX = 1_100


class CountingStore(MemoryStore):
    """A store that counts the records that were read from it."""

    records_read = 0

    async def read(self, session: str, *, after: int = 0, limit: int | None = None) -> list[Logged]:
        found = await super().read(session, after=after, limit=limit)
        self.records_read += len(found)
        return found


def a_turn(number: int) -> list[LeasedRecord]:
    reply = Reply((Text(f"answer {number}"),), StopReason.END, usage=None, model="sim")
    return [
        InputAdmitted((Text(f"question {number}"),)),
        TurnStarted(number),
        AttemptStarted(number, 1, "sim", 10),
        ReplyRecorded(number, 1, reply),
        TurnEnded(number, Outcome.ANSWERED, "", ""),
    ]


@pytest.fixture
async def store() -> CountingStore:
    store = CountingStore(clock=SystemClock(), bounds=Bounds())
    lease = await lease_on(store, "long")
    last = 0
    for _ in range(TURNS):
        last = await store.append(lease, a_turn(last + 1), after=last)
    await store.save_snapshot(lease, (await open_log(store, "long")).snapshot())
    await store.release(lease)
    store.records_read = 0
    return store


@pytest.fixture
async def running(store: CountingStore) -> AsyncIterator[Running]:
    async with a_gateway(store=store) as running:
        yield running


@pytest.mark.parametrize("path", ["", "/view", "/past"])
async def test_a_request_reads_a_bounded_number_of_records(running: Running, store: CountingStore, path: str) -> None:
    answer = await running.client.get(f"{KEY}{path}")

    assert answer.status == 200
    assert store.records_read <= RECORDS_READ_MAX < TURNS * RECORDS_OF_A_TURN


async def test_the_pages_of_a_view_are_the_whole_view(running: Running) -> None:
    whole = (await (await running.gateway.state.client.session("long")).view()).messages
    pages, before = list[list[object]](), 0
    while True:
        page = (await running.client.get(f"{KEY}/view?limit=1000&before={before}")).body
        pages.insert(0, page["messages"])
        if page["first"] <= 1:
            break
        assert not page["is_whole"]
        before = page["first"]

    assert len(pages) == TURNS * RECORDS_OF_A_TURN // 1_000 + 1
    assert sum(map(len, pages)) == len(whole) == 2 * TURNS


@pytest.mark.parametrize("path", ["", "/past"])
async def test_a_session_that_has_not_changed_is_not_sent_again(
    running: Running, store: CountingStore, path: str
) -> None:
    tag = (await running.client.get(f"{KEY}{path}")).headers["etag"]
    store.records_read = 0

    same = await running.client.get(f"{KEY}{path}", headers={"if-none-match": tag})
    assert (same.status, same.body, same.headers["etag"]) == (304, b"", tag)
    assert store.records_read == 0

    await running.client.send("long", "hello")
    changed = await running.client.get(f"{KEY}{path}", headers={"if-none-match": tag})
    assert changed.status == 200
    assert changed.headers["etag"] != tag
