"""A PostgreSQL server that refuses: what is wrong is told in our words, without a password, and passes when it does."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from functools import partial

import asyncpg
import pytest

from holdfast.errors import (
    BadInputError,
    HoldfastError,
    StoreAccessError,
    StoreBusyError,
    StoreFullError,
    StoreIoError,
    StorePathError,
    StoreReadOnlyError,
    StoreUnreachableError,
)
from holdfast.lab.benches.postgres import OwnServer
from holdfast.stores.postgres import PostgresStore, connections
from holdfast.stores.postgres.connections import SERVER_ERRORS, is_connection_lost, translate_error
from holdfast.testing.builders import an_input, log_of
from tests.stores.own_servers import a_database, an_own_server
from tests.stores.postgres_server import on

SECRET = "s3cr3t-passw0rd"


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
                await store.pending()
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
            await store.pending()
        except StoreAccessError as error:
            if "denies access" in str(error):
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

    holding = [asyncio.create_task(store.connections.query(partial(hold, begun))) for begun in begins]
    await asyncio.gather(*(begun.wait() for begun in begins))

    with pytest.raises(StoreBusyError) as told:
        await store.pending()

    gate.set()
    await asyncio.gather(*holding)
    assert "busy" in str(told.value)
    assert await store.pending() == []


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

    assert type(translate_error("postgresql://host/db", error)) is kind


def test_whatever_asyncpg_says_of_a_connection_that_broke_is_a_lost_connection() -> None:
    told = [
        asyncpg.InternalClientError("cannot switch to state 15; another operation (2) is in progress"),
        asyncpg.InterfaceError("connection is closed"),
        asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation"),
        TimeoutError(),
        ConnectionResetError(),
    ]

    assert [isinstance(error, SERVER_ERRORS) and is_connection_lost(error) for error in told] == [True] * 5
    assert {type(translate_error("postgresql://host/db", error)) for error in told} == {StoreUnreachableError}


async def test_an_address_that_asyncpg_cannot_read_is_refused_without_being_quoted(server: OwnServer) -> None:
    store = PostgresStore(f"{server.url().replace('holdfast@', f'holdfast:{SECRET}@')}&sslmode=sometimes")

    with pytest.raises(StorePathError) as told:
        await store.pending()

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
