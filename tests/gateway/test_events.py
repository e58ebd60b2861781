"""Watching a session: every record once, or an explicit resync; never a silent gap."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, MutableMapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.gateway.bounds import GatewayBounds
from holdfast.gateway.http import events
from holdfast.gateway.http.asgi import Send
from holdfast.gateway.http.events import EncodedUpdates, EventStream, cursor_of, epoch_of
from holdfast.ports import SessionInfo
from holdfast.runtime.clock import SystemClock
from holdfast.stores.memory import MemoryStore
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.engines import FunctionModel, says
from holdfast.types.messages import Text
from holdfast.types.records import InputAdmitted, Logged, NoticePosted
from tests.gateway.gateways import Event, Running, SilentModel, a_gateway, eventually, first, until

KEY = "/api/sessions/telegram:42"


async def seqs(running: Running, cursor: str = "", query: str = "", *, until_seq: int) -> list[int]:
    """Return the seqs of the records that a watch tells, up to one."""
    found: list[int] = []
    async with running.client.events(f"{KEY}/events{query}", cursor=cursor) as events:
        async for event in events:
            if event.name == "record":
                found.append(event.told["seq"])
                if found[-1] >= until_seq:
                    return found
    raise AssertionError("the stream ended")


@contextlib.asynccontextmanager
async def two_gateways(folder: Path) -> AsyncGenerator[tuple[Running, Running], None]:
    """Run two gateways, each with a store of its own on one file, as two processes have it."""
    async with contextlib.AsyncExitStack() as stack:
        stores = [SqliteStore(folder / "two.db", clock=SystemClock()) for _ in range(2)]
        one, other = [await stack.enter_async_context(a_gateway(store=store)) for store in stores]
        yield one, other


async def be_quiet(running: Running) -> None:
    """Let the one stream of a gateway have been quiet for a heartbeat."""
    (stream,) = running.gateway.state.streams._open
    stream._written_at = float("-inf")
    await stream.heartbeat()


async def a_cursor(running: Running) -> str:
    """Make the session, and return the cursor behind its first record."""
    return str((await running.client.ask("PUT", KEY, {})).body["cursor"])


async def newest(running: Running) -> int:
    return int((await running.client.get(KEY)).body["records"])


async def test_a_watch_tells_every_record_and_the_deltas_before_the_reply() -> None:
    async with a_gateway() as running:
        await running.client.ask("PUT", KEY, {})
        async with running.client.events(f"{KEY}/events") as events:
            began = await first(events, "watching")
            await running.client.send("telegram:42", "remember harbour = Kiel")
            seen = await until(events, "record", "TurnEnded")

    assert (began.told["seq"], began.cursor) == (1, began.told["cursor"])
    records = [event for event in seen if event.name == "record"]
    assert [event.told["seq"] for event in records] == [2, 3, 4, 5, 6]
    names = [event.name if event.name != "record" else event.told["record"]["type"] for event in seen]
    assert names.index("delta") < names.index("ReplyRecorded")


async def test_a_reader_that_comes_back_at_any_place_gets_exactly_the_rest() -> None:
    async with a_gateway() as running:
        await running.client.send("telegram:42", "remember harbour = Kiel")
        last = await newest(running)
        async with running.client.events(f"{KEY}/events?after=0") as events:
            cursors = [event.cursor for event in await until(events, "record", "TurnEnded")]
        for place, cursor in enumerate(cursors[:-1]):
            assert await seqs(running, cursor, until_seq=last) == list(range(place + 1, last + 1))
        by_query = await seqs(running, query=f"?cursor={cursors[2]}", until_seq=last)

    assert by_query == list(range(3, last + 1))


async def test_a_cursor_survives_a_restart_of_the_gateway() -> None:
    store = MemoryStore(clock=SystemClock())
    async with a_gateway(store=store) as running:
        cursor = await a_cursor(running)
        await running.client.send("telegram:42", "hello")
    async with a_gateway(store=store) as running:
        last = await newest(running)
        assert await seqs(running, cursor, until_seq=last) == list(range(2, last + 1))


async def a_resync(running: Running, cursor: str) -> Event:
    async with running.client.events(f"{KEY}/events", cursor=cursor) as events:
        return (await until(events, "resync"))[0]


@pytest.mark.parametrize(
    "cursor",
    [
        "nonsense",
        "0-0",
        "00000000-3-1",
        "{epoch}-99-1",
        "{epoch}-2-1",
        "{epoch}-x-1",
        "{epoch}--1",
        "{epoch}-" + "9" * 40,
    ],
)
async def test_a_cursor_from_another_life_is_resynced_and_the_stream_goes_on(cursor: str) -> None:
    async with a_gateway() as running:
        await running.client.send("telegram:42", "hello")
        detail = (await running.client.get(KEY)).body
        epoch = detail["cursor"].partition("-")[0]
        async with running.client.events(f"{KEY}/events", cursor=cursor.format(epoch=epoch)) as events:
            told = await first(events, "resync")
            await running.client.send("telegram:42", "and on")
            seen = await until(events, "record", "TurnEnded")

    assert (told.told["seq"], told.cursor) == (detail["records"], detail["cursor"])
    assert "read the missing records" in told.told["why"]
    assert next(event.told["seq"] for event in seen if event.name == "record") == detail["records"] + 1


async def test_a_cursor_of_the_same_session_made_anew_is_resynced() -> None:
    async with a_gateway() as running:
        cursor = await a_cursor(running)
    async with a_gateway() as running:
        await running.client.send("telegram:42", "hello")
        assert (await a_resync(running, cursor)).name == "resync"


async def test_a_session_that_another_node_makes_anew_is_resynced_while_it_is_watched(tmp_path: Path) -> None:
    async with two_gateways(tmp_path) as (watched, other):
        await watched.client.ask("PUT", KEY, {})
        async with watched.client.events(f"{KEY}/events") as events:
            await first(events, "watching")
            await other.client.ask("DELETE", KEY)
            await other.client.send("telegram:42", "hello again")
            seen = [event async for event in events]
        detail = (await watched.client.get(KEY)).body
        # Where everything was written before the watch noticed, nothing follows.
        is_all = seen[-1].told["seq"] == detail["records"]
        again = [] if is_all else await seqs(watched, seen[-1].cursor, "", until_seq=detail["records"])

    # Nothing of the new life was told as if it were the old one's.
    assert [event.name for event in seen] == ["resync"]
    assert "deleted and created again by another process" in seen[-1].told["why"]
    assert seen[-1].cursor.partition("-")[0] == detail["cursor"].partition("-")[0]
    assert again == list(range(seen[-1].told["seq"] + 1, detail["records"] + 1))


async def test_a_session_made_anew_with_fewer_records_is_resynced_although_none_of_them_comes(tmp_path: Path) -> None:
    async with two_gateways(tmp_path) as (watched, other):
        await watched.client.send("telegram:42", "hello")
        async with watched.client.events(f"{KEY}/events") as events:
            await first(events, "watching")
            await other.client.ask("DELETE", KEY)
            made = (await other.client.ask("PUT", KEY, {})).body
            await be_quiet(watched)
            seen = [event async for event in events]

    assert [(event.name, event.cursor) for event in seen] == [("resync", made["cursor"])]


async def test_a_session_that_another_node_deletes_is_told_to_be_gone(tmp_path: Path) -> None:
    async with two_gateways(tmp_path) as (watched, other):
        await watched.client.send("telegram:42", "hello")
        async with watched.client.events(f"{KEY}/events") as events:
            await first(events, "watching")
            await be_quiet(watched)
            await other.client.ask("DELETE", KEY)
            await be_quiet(watched)
            seen = [event.name async for event in events]

    # The first silence was only that.
    assert seen == ["heartbeat", "gone"]


async def test_a_reader_that_is_too_far_behind_is_resynced_and_not_fed_for_hours() -> None:
    async with a_gateway(bounds=GatewayBounds(replay_records_max=3)) as running:
        cursor = await a_cursor(running)
        await running.client.send("telegram:42", "hello")
        told = await a_resync(running, cursor)
        ahead = None
        async with running.client.events(f"{KEY}/events?after=999") as events:
            ahead = await first(events, "resync")

    assert "records to replay, the limit is 3" in told.told["why"]
    assert "not 999" in ahead.told["why"]


async def test_a_quiet_stream_is_kept_alive() -> None:
    async with a_gateway(bounds=GatewayBounds(heartbeat_seconds=0.05)) as running:
        await running.client.ask("PUT", KEY, {})
        async with running.client.events(f"{KEY}/events") as events:
            assert (await first(events, "heartbeat")).name == "heartbeat"


async def test_a_stopping_gateway_tells_its_readers_to_connect_again() -> None:
    async with contextlib.AsyncExitStack() as stack:
        running = await stack.enter_async_context(a_gateway())
        await running.client.ask("PUT", KEY, {})
        async with running.client.events(f"{KEY}/events") as events:
            await first(events, "watching")
            running.gateway.stop()
            rest = [event async for event in events]
        late = await running.client.get("/readyz")
        async with running.client.events(f"{KEY}/events") as events:
            at_once = [event.name async for event in events]

    assert [event.name for event in rest] == ["reconnect"]
    assert late.code == (503, "stopping")
    assert at_once[-1] == "reconnect"


async def test_a_request_that_waits_is_told_when_the_gateway_stops_and_its_message_is_kept() -> None:
    silent = SilentModel()
    store = MemoryStore(clock=SystemClock())
    async with a_gateway(silent, store=store) as running:
        waiting = asyncio.ensure_future(running.client.send("telegram:42", "hello", client_id="m1"))
        await silent.called.wait()
        running.gateway.stop()
        told = await waiting
    async with a_gateway(FunctionModel(lambda _: says("here")), store=store) as running:
        answer = await running.client.send("telegram:42", "hello", client_id="m1")

    assert told.code == (503, "stopping")
    assert (answer.body["turn"], answer.body["text"]) == (1, "here")


async def test_a_reader_that_takes_nothing_is_cut_off_and_memory_stays_bounded() -> None:
    bounds = GatewayBounds(stall_seconds_max=0.3)
    store = MemoryStore(clock=SystemClock())
    async with a_gateway(store=store, bounds=bounds) as running:
        await running.client.ask("PUT", KEY, {})
        async with running.connection() as (_, writer):
            writer.write(f"GET {KEY}/events HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
            await writer.drain()
            streams = running.gateway.state.streams
            await eventually(lambda: len(streams) == 1)
            # 40 MB of records, and nobody reads: more than all buffers between us hold.
            lease = await store.acquire("telegram:42", "test", seconds=60)
            assert lease is not None
            for number in range(40):
                await store.append(lease, [NoticePosted(0, "test", "x" * 100_000)] * 10, after=1 + 10 * number)
            await eventually(lambda: len(streams) == 0)


async def test_streams_of_one_key_have_a_bound() -> None:
    async with a_gateway(bounds=GatewayBounds(streams_max=1)) as running:
        await running.client.ask("PUT", KEY, {})
        async with running.client.events(f"{KEY}/events") as events:
            await first(events, "watching")
            refused = await running.client.get(f"{KEY}/events")
        both = await running.client.get(f"{KEY}/events?cursor=a", headers={"last-event-id": "b"})

    assert refused.code == (429, "too_many")
    assert refused.headers["retry-after"] == "1"
    assert both.code == (422, "invalid")


def test_a_cursor_names_the_life_the_seq_and_the_time_of_its_record() -> None:
    known = SessionInfo("s", 3, 0, 1.5, 2.5)
    cursor = cursor_of(epoch_of(known), Logged(3, 2.5, InputAdmitted((Text("hi"),))))

    assert cursor == f"{epoch_of(known)}-3-2500"
    assert epoch_of(known) != epoch_of(SessionInfo("s", 3, 0, 1.25, 2.5))


async def test_an_answer_is_encoded_for_many_watchers_as_often_as_for_one() -> None:
    """Each record once, and each delta of the shared interval once; a stream adds only its writes."""
    words = "word " * 3_000
    watchers = 30
    async with contextlib.AsyncExitStack() as stack:
        running = await stack.enter_async_context(a_gateway(FunctionModel(lambda _request: says(words))))
        await running.client.ask("PUT", KEY, {})
        streams = [await stack.enter_async_context(running.client.events(f"{KEY}/events")) for _ in range(watchers)]
        for events in streams:
            await first(events, "watching")
        await running.client.send("telegram:42", "hello")
        seen = [await until(events, "record", "TurnEnded") for events in streams]

    written = sum(len(each) for each in seen)
    texts = {"".join(event.told["text"] for event in each if event.name == "delta") for each in seen}
    assert texts == {words}
    # Streams that are served a little earlier or later take another range of deltas; records are the same for all.
    assert running.gateway.state.streams.encoded.count <= written / 3


@pytest.mark.parametrize(("is_full", "timers"), [(False, 0), (True, 1)])
async def test_a_write_needs_a_timer_only_if_the_reader_is_behind(
    monkeypatch: pytest.MonkeyPatch, *, is_full: bool, timers: int
) -> None:
    timed: list[bytes] = []
    sent: list[bytes] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message["body"])

    async def timed_write(to: Send, chunk: bytes, *, seconds_max: float) -> None:
        assert seconds_max > 0
        timed.append(chunk)
        await to({"body": chunk})

    monkeypatch.setattr(events, "write", timed_write)
    flow = SimpleNamespace(write_paused=is_full)
    stream = EventStream({"holdfast.flow": flow}, send, GatewayBounds(), EncodedUpdates())
    await stream.event("delta", {"a": 1})
    assert sent == [b'event: delta\ndata: {"a":1}\n\n']
    assert len(timed) == timers
