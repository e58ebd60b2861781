"""Several stores on one PostgreSQL database hand sessions over, feed each other, and never write past each other."""

import asyncio
import logging
import random
import sys
from collections.abc import AsyncIterator

import pytest
from click.testing import CliRunner

import holdfast
from holdfast.cli import command_line
from holdfast.core.limits.bounds import Bounds
from holdfast.errors import BlobMissingError, LeaseLostError, SeqMovedError, StorePathError
from holdfast.ports import Feed, Lease, Snapshot, Store
from holdfast.stores.memory import MemoryStore
from holdfast.stores.postgres import PostgresStore, batch, notify, reading
from holdfast.stores.postgres.blobs import PostgresBlobs
from holdfast.testing.builders import ManualClock, a_notice, a_reply, a_turn_ended, an_input, lease_on, log_of
from holdfast.types.records import CancelRequested, Logged
from holdfast.wiring import open_store
from tests.stores.postgres_server import on
from tests.stores.test_sqlite_equals_memory import answer_of, everything_in

TOGETHER = 64


@pytest.fixture
async def nodes(postgres_url: str) -> AsyncIterator[list[PostgresStore]]:
    nodes = [PostgresStore(postgres_url) for _ in range(3)]
    yield nodes
    for node in nodes:
        await node.close()


# --- leases ------------------------------------------------------------------------------------------------------


async def test_a_session_is_handed_over_and_its_last_holder_is_refused(nodes: list[PostgresStore]) -> None:
    one, two, _ = nodes
    first = await lease_on(one, owner="worker")
    assert await one.append(first, [a_notice("from one")], after=0) == 1
    assert await two.acquire("s", "worker", seconds=30) is None, "two stores are two workers"

    await one.release(first)
    second = await lease_on(two, owner="worker")

    assert second.fence > first.fence
    with pytest.raises(LeaseLostError):
        await one.append(first, [a_notice("stale")], after=1)
    with pytest.raises(LeaseLostError):
        await one.save_snapshot(first, Snapshot(1, b"stale"))
    with pytest.raises(LeaseLostError):
        await one.renew(first, seconds=30)
    assert await two.append(second, [a_notice("from two")], after=1) == 2
    assert await log_of(one) == [a_notice("from one"), a_notice("from two")]


async def test_a_lease_ends_by_the_clock_of_the_server(nodes: list[PostgresStore], postgres_url: str) -> None:
    one, two, _ = nodes
    held = await lease_on(one, seconds=3_600)
    assert await two.acquire("s", "b", seconds=30) is None
    now = await on(postgres_url, lambda db: db.fetchval("SELECT extract(epoch FROM now())::float8"))
    assert held.expires_at == pytest.approx(now + 3_600, abs=60)

    # An hour later, as far as the server is concerned.
    await on(postgres_url, lambda db: db.execute("UPDATE holdfast.sessions SET lease_until = lease_until - 3600"))

    taken = await two.acquire("s", "b", seconds=30)
    assert taken is not None
    with pytest.raises(LeaseLostError):
        await one.append(held, [a_notice("stale")], after=0)


async def test_of_many_nodes_that_ask_at_once_one_gets_the_lease(nodes: list[PostgresStore]) -> None:
    asked = [node.acquire("s", f"worker {n}", seconds=30) for node in nodes for n in range(5)]

    assert sum(lease is not None for lease in await asyncio.gather(*asked)) == 1


# --- writing together --------------------------------------------------------------------------------------------


async def test_appends_of_many_sessions_share_few_commits(nodes: list[PostgresStore]) -> None:
    node = nodes[0]
    leases = await asyncio.gather(*(lease_on(node, f"s{number}") for number in range(TOGETHER)))
    before = node.commits

    async def work(lease: Lease) -> None:
        for seq in range(10):
            assert await node.append(lease, [a_notice(str(seq))], after=seq) == seq + 1

    await asyncio.gather(*map(work, leases))

    assert node.commits - before <= 30, "640 appends"
    assert [len(await node.read(f"s{number}")) for number in range(TOGETHER)] == [10] * TOGETHER


async def test_an_operation_that_is_refused_fails_nobody_else(nodes: list[PostgresStore]) -> None:
    node = nodes[0]
    leases = [await lease_on(node, f"s{number}") for number in range(6)]
    await node.release(leases[1])

    came = await asyncio.gather(
        *(node.append(lease, [a_notice()], after=7 if place == 2 else 0) for place, lease in enumerate(leases)),
        return_exceptions=True,
    )

    kinds = [each if isinstance(each, int) else type(each) for each in came]
    assert kinds == [1, LeaseLostError, SeqMovedError, 1, 1, 1]


async def test_many_nodes_that_write_to_the_same_sessions_leave_gapless_logs(nodes: list[PostgresStore]) -> None:
    async def send(node: PostgresStore, name: str) -> None:
        for number in range(30):
            session = f"s{number % 3}"
            await node.admit(session, an_input(f"{name} {number}", client_id=f"{name} {number}"))
            # All of them say the same thing as well; it counts once.
            await node.admit(session, an_input("same", client_id=f"same {number}"))

    await asyncio.gather(*(send(node, str(place)) for place, node in enumerate(nodes)))

    for place in range(3):
        log = await log_of(nodes[place], f"s{place}")
        assert len(log) == len({record for record in log if record != an_input("same")}) == 10 * 3 + 10


async def test_what_one_node_knows_of_a_row_may_be_old_and_does_no_harm(nodes: list[PostgresStore]) -> None:
    one, two, _ = nodes
    lease = await lease_on(one)
    await one.append(lease, [a_notice("1")], after=0)
    await two.admit("s", an_input("2"))

    # Right, although the node believes that the log ends at 1; wrong, although it believes so.
    assert await one.append(lease, [a_notice("3")], after=2) == 3
    await two.admit("s", an_input("4"))
    with pytest.raises(SeqMovedError) as moved:
        await one.append(lease, [a_notice("late")], after=3)

    assert moved.value.found == 4


async def test_rows_that_are_kept_are_bounded(nodes: list[PostgresStore], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "ROWS_KEPT_MAX", 3)
    for number in range(10):
        await nodes[0].admit(f"s{number}", an_input())

    kept = [writer.cache._rows for writer in nodes[0]._writers._writers]
    assert max(map(len, kept)) <= 4
    assert (await nodes[0].admit("s0", an_input())).seq == 2


# --- feeds -------------------------------------------------------------------------------------------------------


async def test_nodes_feed_each_other_at_once(nodes: list[PostgresStore], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notify, "POLL_SECONDS", 3_600.0)
    feeds = [node.feed("s") for node in nodes]
    waiting = [asyncio.create_task(_take(feed, 60)) for feed in feeds]

    async with asyncio.timeout(30):
        for number in range(60):
            await nodes[number % 3].admit("s", an_input(str(number)))
            if number % 10 == 0:
                # Let the feeds come to rest, so that they have to be woken.
                await asyncio.sleep(0.02)
        fed = await asyncio.gather(*waiting)

    assert fed == [await nodes[0].read("s")] * 3


async def test_what_nobody_told_of_is_found_by_looking(
    nodes: list[PostgresStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notify, "POLL_SECONDS", 0.05)
    # A node that died before it could tell, as it looks from here.
    monkeypatch.setattr(notify, "_NOTIFY", "SELECT $1::text, $2::text")
    feed = nodes[0].feed("s")
    waiting = asyncio.create_task(_take(feed, 2))

    await nodes[1].admit("s", an_input("one"))
    await nodes[1].admit("s", an_input("two"))

    assert [each.record for each in await asyncio.wait_for(waiting, 10)] == [an_input("one"), an_input("two")]


async def test_more_news_than_can_be_told_tell_everyone_to_look(
    nodes: list[PostgresStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notify, "POLL_SECONDS", 3_600.0)
    feed = nodes[0].feed("s")
    first = asyncio.create_task(_take(feed, 1))
    await nodes[1].admit("s", an_input("one"))
    await asyncio.wait_for(first, 10)
    waiting = asyncio.create_task(_take(feed, 1))
    monkeypatch.setattr(notify, "_UNSENT_MAX", 0)

    await nodes[1].admit("s", an_input("two"))

    assert [each.record for each in await asyncio.wait_for(waiting, 10)] == [an_input("two")]


async def _take(feed: Feed, count: int) -> list[Logged]:
    return [await anext(feed) for _ in range(count)]


# --- the same as the others --------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
async def test_whatever_is_asked_of_them_postgres_and_memory_answer_alike(postgres_url: str, seed: int) -> None:
    rng, clock, bounds = random.Random(seed), ManualClock(), Bounds(inputs_waiting_max=3)
    memory, postgres = MemoryStore(clock=clock, bounds=bounds), PostgresStore(postgres_url, clock=clock, bounds=bounds)
    leases: list[Lease] = []

    async def both(name: str, *arguments: object, **options: object) -> object:
        one, two = [await answer_of(getattr(store, name)(*arguments, **options)) for store in (memory, postgres)]
        assert one == two, (name, arguments, options)
        return one[1]

    for _ in range(120):
        session = rng.choice(["a", "b", "ü\x00'"])
        lease = rng.choice(leases) if leases else None
        match rng.randrange(9):
            case 0 | 1:
                await both("admit", session, an_input(rng.choice("xy"), client_id=rng.choice(["", "c1", "c2"])))
            case 2:
                await both("admit", session, CancelRequested(turn=1))
            case 3:
                got = await both("acquire", session, rng.choice(["one", "two"]), seconds=rng.choice([1.0, 10.0]))
                leases += [got] if isinstance(got, Lease) else []
            case 4 | 5 if lease:
                known = await memory.info(lease.session)
                after = (known.last_seq if known else 0) - rng.choice([0, 0, 0, 1])
                records = [a_notice(str(n)) if n else a_turn_ended() for n in range(rng.randrange(4))]
                await both("append", lease, records, after=after)
            case 6 if lease:
                await both("save_snapshot", lease, Snapshot(2, b"fold"))
                if rng.random() < 0.5:
                    await both("release", lease)
            case 7 if lease:
                await both("renew", lease, seconds=rng.choice([1.0, 10.0]))
            case 8:
                clock.advance(rng.choice([0.5, 1.0, 20.0]))
                await both("search", session, rng.choice(["x", "y", "x y", ""]), limit=rng.choice([1, 10]))
        assert await everything_in(memory) == await everything_in(postgres)
    await postgres.close()


async def test_a_long_session_is_indexed_in_slices_and_found_as_in_memory(
    nodes: list[PostgresStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "SLICE_RECORDS", 7)
    monkeypatch.setattr(reading, "SLICE_BYTES_MAX", 2_000)
    memory = MemoryStore(clock=ManualClock())
    words = ["harbour", "pier", "berth", "tide", "mast", "rope", "deck"]
    rng = random.Random(5)
    texts = [" ".join(rng.choices(words, k=rng.randrange(2, 60))) for _ in range(60)]

    async def written(store: Store) -> None:
        lease = await lease_on(store)
        await store.append(lease, [a_reply(text) for text in texts], after=0)

    await written(memory)
    await written(nodes[0])

    for query in ("harbour", "pier tide", "what of the mast"):
        expected = await memory.search("s", query, limit=20)
        # Two nodes that index at once do not index twice.
        assert await asyncio.gather(*(node.search("s", query, limit=20) for node in nodes)) == [expected] * 3


# --- the whole ---------------------------------------------------------------------------------------------------


async def test_a_turn_with_a_tool_runs_on_postgres_and_goes_on_from_another_node(postgres_url: str) -> None:
    @holdfast.tool
    def depth(place: str) -> str:
        """Return how deep the water is at a place."""
        return f"12 fathoms at {place}"

    async with holdfast.open(postgres_url, tools=[depth]) as hold:
        chat = await hold.session("telegram:42")
        await chat.send("remember harbour = Kiel")
        answer = await chat.send(
            'call depth {"place": "Kiel"}', attachments=[holdfast.Attachment(b"a" * 50_000, "a.txt")]
        )
        assert answer.text == "The tool depth returned: 12 fathoms at Kiel"
    async with holdfast.open(postgres_url) as hold:
        assert (await (await hold.session("telegram:42")).send("what is harbour?")).text == "harbour = Kiel."


def test_the_command_line_takes_the_address_of_a_database(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run = CliRunner().invoke
    sent = run(command_line, ["chat", "--store", postgres_url, "--session", "k", "remember pier = long"])
    assert (sent.exit_code, sent.output.strip()) == (0, "I will remember that pier = long.")

    listed = run(command_line, ["sessions", "--store", postgres_url])
    monkeypatch.setenv("HOLDFAST_STORE", postgres_url)
    asked = run(command_line, ["chat", "--session", "k", "what is pier?"])

    assert listed.output.splitlines()[1].startswith("k ")
    assert asked.output.strip().endswith("pier = long.")


def test_without_the_extra_the_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith(("asyncpg", "holdfast.stores.postgres"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "asyncpg", None)

    with pytest.raises(StorePathError, match=r"holdfast\[postgres\]"):
        open_store("postgresql://host/db", Bounds())


async def test_nothing_is_logged_of_an_address_but_where_it_is(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    store = PostgresStore("postgresql://someone:s3cr3t@127.0.0.1:1/db")
    feed = store.feed("s")
    waiting = asyncio.create_task(anext(feed, None))
    with pytest.raises(holdfast.HoldfastError) as told:
        await store.admit("s", an_input())
    await feed.aclose()
    await waiting
    await store.close()

    assert "s3cr3t" not in f"{caplog.text} {told.value!r}"


async def test_a_blob_that_was_altered_is_not_given_out_and_what_is_half_done_is_swept(
    nodes: list[PostgresStore], postgres_url: str
) -> None:
    blobs = PostgresBlobs(nodes[0].connections)
    ref = await blobs.put(b"original")
    long = await blobs.put(bytes(3 * 2**20))
    assert await blobs.read(long, start=2**20 - 3, length=2**20 + 6) == bytes(2**20 + 6)
    await on(
        postgres_url,
        lambda db: db.execute(
            "UPDATE holdfast.blob_chunks SET body = 'altered' WHERE body = 'original';"
            "INSERT INTO holdfast.blobs (upload, begun_at) VALUES (gen_random_uuid(), now() - interval '2 days')"
        ),
    )

    with pytest.raises(BlobMissingError):
        await blobs.get(ref)
    await PostgresBlobs(nodes[1].connections).put(b"another")

    assert await on(postgres_url, lambda db: db.fetchval("SELECT count(*) FROM holdfast.blobs")) == 3
