"""A PostgreSQL server that goes away, also in the middle of a write: nothing is lost or doubled, and work goes on."""

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator

import asyncpg
import pytest

from holdfast.errors import LeaseLostError, OutcomeUnknownError, SeqMovedError, StoreUnreachableError
from holdfast.lab.benches.postgres import OwnServer
from holdfast.ports import Snapshot
from holdfast.runtime.tools.function_tool import tool
from holdfast.stores.postgres import PostgresStore, connections, writer
from holdfast.testing.builders import a_notice, a_tool_call, an_input, lease_on, log_of
from holdfast.testing.crashes import check_log
from holdfast.testing.engines import FunctionModel, a_hold, an_engine, says
from holdfast.types.messages import Role
from holdfast.types.records import TurnEnded
from tests.stores.own_servers import a_database, an_own_server
from tests.stores.postgres_proxy import Proxy
from tests.stores.postgres_server import on


@pytest.fixture(scope="module")
def server() -> Iterator[OwnServer]:
    """A server of this module alone, which it may stop."""
    yield from an_own_server()


@pytest.fixture
async def url(server: OwnServer) -> AsyncIterator[str]:
    async with a_database(server) as url:
        yield url


@pytest.fixture
async def store(url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(url)
    yield store
    await store.close()


@pytest.fixture
async def proxy(server: OwnServer) -> AsyncIterator[Proxy]:
    async with Proxy(server.folder / ".s.PGSQL.5432") as proxy:
        yield proxy


@pytest.fixture
async def through_proxy(url: str, proxy: Proxy) -> AsyncIterator[PostgresStore]:
    del url
    store = PostgresStore(proxy.url("sessions"))
    yield store
    await store.close()


# --- the server goes away ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT])
async def test_work_and_feeds_go_on_across_a_restart_of_the_server(
    server: OwnServer, store: PostgresStore, how: signal.Signals
) -> None:
    lease = await lease_on(store)
    await store.append(lease, [a_notice("0")], after=0)
    feed = store.feed("s")
    fed = [await anext(feed)]
    waiting = asyncio.create_task(anext(feed))

    await asyncio.to_thread(server.stop, how)
    appending = [asyncio.create_task(store.append(lease, [a_notice("1")], after=1))]
    reading = asyncio.create_task(store.info("s"))
    await asyncio.to_thread(server.start)

    assert [await each for each in appending] == [2]
    assert (await reading) is not None
    fed.append(await asyncio.wait_for(waiting, 10))
    for number in range(2, 6):
        await store.append(lease, [a_notice(str(number))], after=number)
        fed.append(await asyncio.wait_for(anext(feed), 10))
    assert fed == await store.read("s")
    assert [each.seq for each in fed] == list(range(1, 7))
    await feed.aclose()


async def test_a_server_that_stays_away_is_told_and_nothing_waits_for_ever(
    server: OwnServer, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = await lease_on(store)
    await store.admit("s", an_input("before"))
    monkeypatch.setattr(connections, "OUTAGE_SECONDS_MAX", 0.3)
    await asyncio.to_thread(server.stop)
    try:
        asked = [store.admit("s", an_input("down")), store.read("s"), store.renew(lease, seconds=30), store.pending()]
        refusals = await asyncio.gather(*asked, return_exceptions=True)
    finally:
        await asyncio.to_thread(server.start)

    assert [type(refusal) for refusal in refusals] == [StoreUnreachableError] * 4
    assert "does not answer" in str(refusals[0])
    assert await log_of(store) == [an_input("before")]
    assert (await store.admit("s", an_input("after"))).seq == 2


async def test_a_turn_that_an_outage_stopped_is_taken_up_again_when_the_server_is_back(
    server: OwnServer, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "OUTAGE_SECONDS_MAX", 0.2)
    called, gate = asyncio.Event(), asyncio.Event()

    @tool(idempotent=True)
    async def look_up() -> str:
        """Look something up, for as long as the server is away."""
        called.set()
        await gate.wait()
        return "found"

    model = FunctionModel(
        lambda request: (
            says("done") if request.messages[-1].role is Role.TOOL else says("", a_tool_call("look_up", call_id="c"))
        )
    )
    async with a_hold(an_engine(model, store=store, tools=[look_up]), lease_seconds=1.5) as hold:
        session = await hold.session("s")
        turn = await session.post("look it up")
        waiting = asyncio.create_task(session.wait(turn))
        await called.wait()
        await asyncio.to_thread(server.stop)
        gate.set()
        with pytest.raises(StoreUnreachableError):
            await waiting
        await asyncio.to_thread(server.start)

        # Nobody asks for it: the node looks for itself.
        feed = store.feed("s")
        async with asyncio.timeout(30):
            while not isinstance((await anext(feed)).record, TurnEnded):
                pass
        await feed.aclose()

    check_log(await store.read("s"), accepted=[turn])


async def test_a_server_that_was_never_there_is_told_at_once(server: OwnServer) -> None:
    await asyncio.to_thread(server.stop)
    store = PostgresStore(server.url("sessions"))
    try:
        async with asyncio.timeout(5):
            with pytest.raises(StoreUnreachableError):
                await store.pending()
            with pytest.raises(StoreUnreachableError):
                await store.admit("s", an_input())
    finally:
        await asyncio.to_thread(server.start)
        await store.close()


# --- the connection is lost in the middle of a write -------------------------------------------------------------


@pytest.mark.parametrize("is_answered", [True, False])
async def test_a_write_whose_answer_is_lost_happens_once_and_is_told_as_it_was(
    through_proxy: PostgresStore, proxy: Proxy, *, is_answered: bool
) -> None:
    store = through_proxy
    lease = await lease_on(store)
    await store.append(lease, [a_notice("0")], after=0)

    for number in range(1, 6):
        # The batch reaches the server and its answer does not reach us, or not even the batch arrives.
        proxy.cut_at(b"holdfast.write", after_it_was_done=is_answered)
        assert await store.append(lease, [a_notice(str(number))], after=number) == number + 1
        assert proxy.cuts == number

    assert await log_of(store) == [a_notice(str(number)) for number in range(6)]


@pytest.mark.parametrize("is_answered", [True, False])
async def test_refusals_in_a_batch_whose_answer_is_lost_are_told_to_whom_they_concern(
    through_proxy: PostgresStore, proxy: Proxy, url: str, *, is_answered: bool
) -> None:
    store, elsewhere = through_proxy, PostgresStore(url)
    leases = [await lease_on(store, f"s{number}") for number in range(4)]
    await asyncio.gather(*(store.append(lease, [a_notice("first")], after=0) for lease in leases))
    # Another node has written to one session and taken the lease on another.
    await elsewhere.admit("s1", an_input("from elsewhere"))
    await store.release(leases[2])
    assert await elsewhere.acquire("s2", "successor", seconds=30) is not None

    proxy.cut_at(b"holdfast.write", after_it_was_done=is_answered)
    came = await asyncio.gather(
        *(store.append(lease, [a_notice("second")], after=1) for lease in leases), return_exceptions=True
    )

    assert [type(each) if isinstance(each, Exception) else each for each in came] == [
        2,
        SeqMovedError,
        LeaseLostError,
        2,
    ]
    assert await log_of(store, "s1") == [a_notice("first"), an_input("from elsewhere")]
    assert await log_of(store, "s3") == [a_notice("first"), a_notice("second")]
    await elsewhere.close()


async def test_a_batch_that_arrives_late_is_not_written_once_it_was_asked_for(url: str, store: PostgresStore) -> None:
    await store.admit("s", an_input("first"))
    instance, number = store._writers.of("s")._instance, store._writers.of("s")._number + 1

    async def settle_then_write(db: "asyncpg.Connection[asyncpg.Record]") -> None:
        settled = await db.fetchrow("SELECT is_known, refused FROM holdfast.settle($1, $2)", instance, number)
        assert settled is not None
        assert tuple(settled) == (True, None)
        no: list[int] = []
        arguments = [no] * 4 + [no] * 9
        with pytest.raises(asyncpg.PostgresError, match="void"):
            await db.execute(
                writer._WRITES[0].replace("SELECT refused, now", "SELECT 1"), instance, number, 0.0, *arguments
            )

    await on(url, settle_then_write)

    # The store itself goes on under the next number.
    assert (await store.admit("s", an_input("second"))).seq == 2
    assert await log_of(store) == [an_input("first"), an_input("second")]


async def test_where_nobody_can_say_what_came_of_a_write_that_is_what_is_told(
    through_proxy: PostgresStore, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = through_proxy
    await store.admit("s", an_input("first"))
    monkeypatch.setattr(writer, "IN_DOUBT_SECONDS", 0.3)
    proxy.cut_at(b"holdfast.write", after_it_was_done=True, stays_away=True)

    with pytest.raises(OutcomeUnknownError) as told:
        await store.admit("s", an_input("in doubt", client_id="c"))

    proxy.come_back()
    assert "client id" in str(told.value)
    assert (await store.admit("s", an_input("in doubt", client_id="c"))).is_new is False
    assert len(await store.read("s")) == 2


async def test_connections_that_were_cut_while_idle_are_replaced(store: PostgresStore, url: str) -> None:
    await store.admit("s", an_input("first"))
    await store.read("s")
    cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'holdfast'"
    await on(url, lambda db: db.execute(cut))

    assert (await store.admit("s", an_input("second"))).seq == 2
    assert len(await store.read("s")) == 2


async def test_reads_and_leases_survive_a_connection_that_is_lost_under_them(
    through_proxy: PostgresStore, proxy: Proxy
) -> None:
    store = through_proxy
    lease = await lease_on(store)
    await store.append(lease, [a_notice()], after=0)

    for statement in (b"lease_until", b"holdfast.snapshots", b"FROM holdfast.records"):
        proxy.cut_at(statement, after_it_was_done=True)
        renewed = await store.renew(lease, seconds=30)
        await store.save_snapshot(renewed, Snapshot(1, b"fold"))
        assert len(await store.read("s")) == 1
    assert proxy.cuts == 3
    assert await store.append(lease, [a_notice()], after=1) == 2
