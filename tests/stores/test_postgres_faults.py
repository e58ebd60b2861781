"""A PostgreSQL server that fails: what is wrong is told in our words, nothing is lost or doubled, and work goes on."""

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from functools import partial

import asyncpg
import pytest

from holdfast.cli.benches.own_postgres import NoServerError, OwnServer
from holdfast.core.messages import Role
from holdfast.core.records import TurnEnded
from holdfast.errors import (
    BadInputError,
    HoldfastError,
    LeaseLostError,
    OutcomeUnknownError,
    SeqMovedError,
    StoreAccessError,
    StoreBusyError,
    StoreFullError,
    StoreIoError,
    StorePathError,
    StoreReadOnlyError,
    StoreUnreachableError,
    StoreVersionError,
)
from holdfast.ports import Snapshot
from holdfast.runtime.toolbox import tool
from holdfast.stores.postgres import PostgresStore, connections, layout, writer
from holdfast.stores.postgres.address import Address
from holdfast.stores.postgres.troubles import Trouble, is_lost, translated
from holdfast.testing.builders import a_notice, a_tool_call, an_input
from holdfast.testing.crashes import check_log
from holdfast.testing.engines import a_hold, an_engine
from holdfast.testing.scripted import FunctionModel, says
from holdfast.testing.store_promises import lease_on, log_of
from tests.stores.postgres_proxy import Proxy
from tests.stores.postgres_server import on, unavailable

SECRET = "s3cr3t-passw0rd"


@pytest.fixture(scope="module")
def server() -> Iterator[OwnServer]:
    """A server of this module alone, which it may stop."""
    try:
        own = OwnServer(is_durable=False, settings={"max_connections": "20"})
    except NoServerError as error:
        unavailable(str(error))
        raise
    yield own
    own.close()


@pytest.fixture
async def url(server: OwnServer) -> AsyncIterator[str]:
    await on(server.url(), lambda db: db.execute("CREATE DATABASE sessions"))
    yield server.url("sessions")
    await on(server.url(), lambda db: db.execute("DROP DATABASE sessions WITH (FORCE)"))


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
    monkeypatch.setattr(connections, "PATIENCE_SECONDS", 0.3)
    await asyncio.to_thread(server.stop)
    try:
        asked = [store.admit("s", an_input("down")), store.read("s"), store.renew(lease, seconds=30), store.owing()]
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
    monkeypatch.setattr(connections, "PATIENCE_SECONDS", 0.2)
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
                await store.owing()
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
                writer._WRITE.replace("SELECT refused, now", "SELECT 1"), instance, number, 0.0, *arguments
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


# --- the server refuses ------------------------------------------------------------------------------------------


async def test_a_wrong_password_a_missing_database_and_a_missing_right_are_told_apart(
    server: OwnServer, url: str
) -> None:
    await on(url, lambda db: db.execute("CREATE ROLE guest LOGIN; CREATE ROLE locked LOGIN PASSWORD 'another'"))
    hba = server.folder / "cluster" / "pg_hba.conf"
    before = hba.read_text()
    hba.write_text(f"local all locked scram-sha-256\n{before}")
    await on(url, lambda db: db.execute("SELECT pg_reload_conf()"))
    addresses = {
        StoreAccessError: server.url("sessions", "guest"),
        StorePathError: server.url("nowhere"),
    }
    locked = server.url("sessions", "locked").replace("locked@", f"locked:{SECRET}@")
    try:
        for kind, address in addresses.items():
            store = PostgresStore(address)
            with pytest.raises(kind):
                await store.owing()
            await store.close()
        store = PostgresStore(locked)
        with pytest.raises(StoreAccessError) as told:
            await _until_reloaded(store)
        await store.close()
    finally:
        hba.write_text(before)
        await on(url, lambda db: db.execute("SELECT pg_reload_conf(); DROP ROLE guest; DROP ROLE locked"))
    assert "password" in str(told.value)
    assert SECRET not in f"{told.value!r} {told.value} {told.value.__cause__!r}"


async def _until_reloaded(store: PostgresStore) -> None:
    """Ask until the server has read its rules again; before that the user may enter without a right to anything."""
    while True:
        try:
            await store.owing()
        except StoreAccessError as error:
            if "let us in" in str(error):
                raise


async def test_too_many_connections_are_told_and_pass(server: OwnServer, url: str) -> None:
    store = PostgresStore(url)
    await store.admit("s", an_input("first"))
    # What a superuser may use beyond the others is set aside.
    taken = []
    try:
        while True:
            taken.append(await asyncpg.connect(server.url()))
    except asyncpg.TooManyConnectionsError:
        pass
    try:
        with pytest.raises(StoreBusyError) as told:
            await store.read("s")
    finally:
        for connection in taken:
            await connection.close()
    assert "max_connections" in str(told.value)
    assert await log_of(store) == [an_input("first")]
    await store.close()


async def test_a_read_only_server_refuses_writes_and_can_be_read(
    server: OwnServer, store: PostgresStore, url: str
) -> None:
    await store.admit("s", an_input("first"))
    await on(url, lambda db: db.execute("ALTER DATABASE sessions SET default_transaction_read_only = on"))
    standby = PostgresStore(url)

    with pytest.raises(StoreReadOnlyError):
        await standby.admit("s", an_input("refused"))
    assert await log_of(standby) == [an_input("first")]

    await on(server.url(), lambda db: db.execute("ALTER DATABASE sessions RESET ALL"))
    await standby.close()
    again = PostgresStore(url)
    assert (await again.admit("s", an_input("second"))).seq == 2
    await again.close()


async def test_a_row_that_somebody_holds_is_waited_for_and_then_told(
    store: PostgresStore, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "LOCK_SECONDS", 1)
    await store.admit("s", an_input("first"))

    async def hold(db: "asyncpg.Connection[asyncpg.Record]") -> None:
        async with db.transaction():
            await db.execute("SELECT FROM holdfast.sessions FOR UPDATE")
            with pytest.raises(StoreBusyError):
                await store.admit("s", an_input("refused"))
            # Others are not held up by it any longer than that.
            assert (await store.admit("t", an_input("another"))).seq == 1

    await on(url, hold)

    assert (await store.admit("s", an_input("second"))).seq == 2


async def test_when_all_connections_are_busy_a_question_is_refused_and_the_next_is_answered(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "BUSY_SECONDS", 0.1)
    gate = asyncio.Event()
    begins = [asyncio.Event() for _ in range(connections.CONNECTIONS_MAX)]

    async def hold(begun: asyncio.Event, _: object) -> None:
        begun.set()
        await gate.wait()

    holding = [asyncio.create_task(store.connections.ask(partial(hold, begun))) for begun in begins]
    await asyncio.gather(*(begun.wait() for begun in begins))

    with pytest.raises(StoreBusyError) as told:
        await store.owing()

    gate.set()
    await asyncio.gather(*holding)
    assert "busy" in str(told.value)
    assert await store.owing() == []


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("53100", StoreFullError),
        ("25006", StoreReadOnlyError),
        ("53300", StoreBusyError),
        ("53200", StoreBusyError),
        ("57014", StoreBusyError),
        ("55P03", StoreBusyError),
        ("40P01", StoreBusyError),
        ("28P01", StoreAccessError),
        ("42501", StoreAccessError),
        ("3D000", StorePathError),
        ("54000", BadInputError),
        ("57P01", StoreUnreachableError),
        ("08006", StoreUnreachableError),
        ("58030", StoreIoError),
        ("XX001", StoreIoError),
    ],
)
def test_every_code_of_the_server_has_a_meaning_of_its_own(code: str, kind: type[HoldfastError]) -> None:
    error = asyncpg.PostgresError.new({"C": code, "M": "the server says so"})

    assert type(translated("postgresql://host/db", error)) is kind


def test_whatever_asyncpg_says_of_a_connection_that_broke_is_a_lost_connection() -> None:
    told = [
        asyncpg.InternalClientError("cannot switch to state 15; another operation (2) is in progress"),
        asyncpg.InterfaceError("connection is closed"),
        asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation"),
        TimeoutError(),
        ConnectionResetError(),
    ]

    assert [isinstance(error, Trouble) and is_lost(error) for error in told] == [True] * 5
    assert {type(translated("postgresql://host/db", error)) for error in told} == {StoreUnreachableError}


async def test_an_address_that_asyncpg_cannot_read_is_refused_without_being_quoted(server: OwnServer) -> None:
    store = PostgresStore(f"{server.url().replace('holdfast@', f'holdfast:{SECRET}@')}&sslmode=sometimes")

    with pytest.raises(StorePathError) as told:
        await store.owing()

    assert SECRET not in f"{told.value} {told.value.__cause__}"
    await store.close()


async def test_a_full_disk_is_told_to_everyone_in_the_batch_and_passes(store: PostgresStore, url: str) -> None:
    await store.admit("s", an_input("first"))
    refusing = """
        CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$;
        CREATE TRIGGER full_disk BEFORE INSERT ON holdfast.records EXECUTE FUNCTION full_disk();
    """
    await on(url, lambda db: db.execute(refusing))

    came = await asyncio.gather(*(store.admit(f"t{n}", an_input()) for n in range(5)), return_exceptions=True)

    assert [type(each) for each in came] == [StoreFullError] * 5
    await on(url, lambda db: db.execute("DROP TRIGGER full_disk ON holdfast.records; DROP FUNCTION full_disk"))
    assert [(await store.admit(f"t{n}", an_input())).seq for n in range(5)] == [1] * 5
    assert (await store.admit("s", an_input("second"))).seq == 2


# --- opening -----------------------------------------------------------------------------------------------------


async def test_a_newer_layout_is_refused_with_a_sentence(url: str, store: PostgresStore) -> None:
    await store.owing()
    await on(url, lambda db: db.execute("UPDATE holdfast.layout SET version = 99"))
    older = PostgresStore(url)

    with pytest.raises(StoreVersionError, match="layout 99"):
        await older.owing()
    with pytest.raises(StoreVersionError):
        await older.admit("s", an_input())

    await older.close()


async def test_a_schema_of_another_program_is_left_alone(url: str) -> None:
    await on(url, lambda db: db.execute("CREATE SCHEMA holdfast; CREATE TABLE holdfast.theirs (x int)"))
    store = PostgresStore(url)

    with pytest.raises(StorePathError, match="another program"):
        await store.owing()

    await store.close()


async def test_many_nodes_that_open_a_new_database_at_once_migrate_it_once(url: str) -> None:
    nodes = [PostgresStore(url) for _ in range(6)]

    admitted = await asyncio.gather(*(node.admit("s", an_input(f"from {n}")) for n, node in enumerate(nodes)))

    assert sorted(each.seq for each in admitted) == [1, 2, 3, 4, 5, 6]
    versions = await on(url, lambda db: db.fetch("SELECT version FROM holdfast.layout"))
    assert [tuple(row) for row in versions] == [(layout.migrations()[-1][0],)]
    for node in nodes:
        await node.close()


_COLUMNS = """
    SELECT table_name, column_name, data_type, is_nullable, column_default FROM information_schema.columns
    WHERE table_schema = 'holdfast' ORDER BY 1, 2
"""
_THINGS = """
    SELECT indexdef FROM pg_indexes WHERE schemaname = 'holdfast'
    UNION ALL SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = 'holdfast'::regnamespace
    UNION ALL SELECT conrelid::regclass || ' ' || pg_get_constraintdef(oid) FROM pg_constraint
    WHERE connamespace = 'holdfast'::regnamespace
    ORDER BY 1
"""


async def _schema(db: "asyncpg.Connection[asyncpg.Record]") -> list[tuple[object, ...]]:
    return [tuple(row) for row in [*await db.fetch(_COLUMNS), *await db.fetch(_THINGS)]]


async def test_a_layout_that_was_migrated_step_by_step_equals_a_fresh_one(
    server: OwnServer, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await on(server.url(), lambda db: db.execute("CREATE DATABASE stepwise"))
    steps = layout.migrations()
    try:
        for newest in range(1, len(steps) + 1):
            monkeypatch.setattr(layout, "migrations", lambda newest=newest: steps[:newest])
            await on(server.url("stepwise"), lambda db: layout.prepare(db, "stepwise"))
        await on(url, lambda db: layout.prepare(db, "fresh"))

        stepwise, fresh = await on(server.url("stepwise"), _schema), await on(url, _schema)
    finally:
        await on(server.url(), lambda db: db.execute("DROP DATABASE stepwise WITH (FORCE)"))

    assert stepwise == fresh
    assert len(fresh) > 40
    assert [number for number, _ in steps] == list(range(1, len(steps) + 1))


async def test_a_migration_that_fails_leaves_nothing_behind(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = layout.migrations()
    monkeypatch.setattr(layout, "migrations", lambda: [*steps, (len(steps) + 1, "SELECT 1 / 0")])
    store = PostgresStore(url)
    with pytest.raises(StoreIoError):
        await store.owing()
    assert await on(url, lambda db: db.fetchval("SELECT to_regnamespace('holdfast') IS NULL")) is True

    monkeypatch.setattr(layout, "migrations", lambda: steps)

    assert await store.owing() == []
    await store.close()


@pytest.mark.parametrize(
    "address", [f"postgresql://u:{SECRET}@[::1/db", f"postgresql://u:{SECRET}@host:port/db", "postgresql://h/d?x"]
)
def test_an_address_that_cannot_be_read_is_refused_without_being_quoted(address: str) -> None:
    with pytest.raises(StorePathError) as told:
        PostgresStore(address)

    assert SECRET not in f"{told.value} {told.value.__cause__} {told.value.__context__}"


def test_several_hosts_may_be_named() -> None:
    address = Address(f"postgresql://u:{SECRET}@one:1,[::1]:2,three/db?target_session_attrs=read-write")

    assert address.shown == "postgresql://one:1,[::1]:2,three/db"


def test_an_address_is_shown_without_its_password() -> None:
    address = Address(f"postgresql://someone:{SECRET}@db.example:6432/sessions?sslmode=require")

    assert (address.shown, repr(address)) == (
        "postgresql://db.example:6432/sessions",
        "Address('postgresql://db.example:6432/sessions')",
    )


async def test_a_key_that_no_index_takes_is_refused(store: PostgresStore) -> None:
    with pytest.raises(BadInputError):
        await store.admit("k" * 3_000, an_input())

    assert (await store.admit("k" * 2_600, an_input(client_id="c" * 10_000))).seq == 1
