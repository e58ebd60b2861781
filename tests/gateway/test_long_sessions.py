"""Reading a session of many short turns, none of them compacted: bounded work, pages, and tags."""

from collections.abc import AsyncIterator

import pytest

from holdfast.core.limits.bounds import Bounds
from holdfast.models.catalogue import simulated_model
from holdfast.models.fake import Simulation
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.engine.log import open_log
from holdfast.stores.memory import MemoryStore
from holdfast.testing.builders import lease_on
from holdfast.types.limits import Limits
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


async def test_the_view_at_an_earlier_request_is_what_the_model_saw(running: Running, store: CountingStore) -> None:
    attempt = 700 * RECORDS_OF_A_TURN + 3
    seen = (await running.client.get(f"{KEY}/layers?at={attempt}")).body
    store.records_read = 0
    following = (await running.client.get(f"{KEY}/layers?at={attempt + RECORDS_OF_A_TURN}")).body
    beyond = await running.client.get(f"{KEY}/layers?at={TURNS * RECORDS_OF_A_TURN + 1}")

    question = attempt - 2
    assert seen["messages"][-1]["message"]["parts"][0]["text"] == f"question {question}"
    assert (seen["messages"][-1]["seq"], seen["messages"][-2]["seq"]) == (question, question - 2)
    assert {one["layer"] for one in seen["messages"]} == {"tail"}
    assert (seen["at"], seen["is_whole"], seen["compaction"]) == (attempt, False, 0)
    assert len(following["messages"]) == len(seen["messages"])
    assert following["messages"][-1]["seq"] == question + RECORDS_OF_A_TURN
    # The states on the way are kept: the next step reads the end of the log alone.
    assert store.records_read <= 2_000 + 500
    assert beyond.code == (404, "not_found")


async def test_layers_of_a_compacted_session_sum_up_to_its_tokens_and_hold_every_line() -> None:
    limits = Limits(window_tokens=6_000, output_tokens_max=1_000)
    async with a_gateway(simulated_model(Simulation(limits)), engine_bounds=Bounds(compacts_ahead=False)) as running:
        for number in range(6):
            said = f"remember berth{number} = {number}; its file is /srv/port/berth-{number}.toml. write 300 words"
            await running.client.send("long", said)
        await running.client.ask("PUT", f"{KEY}/pins/1")
        await running.client.post(f"{KEY}/compact", {})
        view = (await running.client.get(f"{KEY}/layers")).body
        past = (await running.client.get(f"{KEY}/past")).body

    tokens = {one["name"]: one["tokens"] for one in view["layers"]}
    assert list(tokens) == ["instructions", "state", "story", "facts", "tail"]
    assert sum(tokens.values()) == view["tokens_estimated"]
    assert all(tokens.values())
    assert [(one["layer"], one["seq"]) for one in view["messages"][:2]] == [("instructions", 1), ("summary", 0)]
    shown = sorted(line for one in view["layers"] for line in one["text"].splitlines())
    assert shown == sorted(past["in_force"]["text"].splitlines())
