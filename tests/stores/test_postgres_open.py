"""Opening a PostgreSQL store: past layouts become the newest, whole or not at all, and addresses keep secrets."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from holdfast.errors import BadInputError, StoreIoError, StorePathError, StoreVersionError
from holdfast.runtime.sessions.delete import learn_blobs
from holdfast.stores.postgres import PostgresStore, migrations
from holdfast.stores.postgres.connections import Address
from holdfast.stores.rows import record_crc32
from holdfast.testing.blob_contracts import FIRST, SECOND, referencing
from holdfast.testing.builders import an_input
from holdfast.types.records import encode_record
from tests.stores.postgres_server import on

SECRET = "s3cr3t-passw0rd"


@pytest.fixture
def url(bare_postgres_url: str) -> str:
    return bare_postgres_url


@pytest.fixture
async def store(url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(url)
    yield store
    await store.close()


async def test_a_newer_layout_is_refused_with_a_sentence(url: str, store: PostgresStore) -> None:
    await store.pending()
    await on(url, lambda db: db.execute("UPDATE holdfast.layout SET version = 99"))
    older = PostgresStore(url)

    with pytest.raises(StoreVersionError, match="layout 99"):
        await older.pending()
    with pytest.raises(StoreVersionError):
        await older.admit("s", an_input())

    await older.close()


async def test_a_schema_of_another_program_is_left_alone(url: str) -> None:
    await on(url, lambda db: db.execute("CREATE SCHEMA holdfast; CREATE TABLE holdfast.theirs (x int)"))
    store = PostgresStore(url)

    with pytest.raises(StorePathError, match="another program"):
        await store.pending()

    await store.close()


async def test_many_nodes_that_open_a_new_database_at_once_migrate_it_once(url: str) -> None:
    nodes = [PostgresStore(url) for _ in range(6)]

    admitted = await asyncio.gather(*(node.admit("s", an_input(f"from {n}")) for n, node in enumerate(nodes)))

    assert sorted(each.seq for each in admitted) == [1, 2, 3, 4, 5, 6]
    versions = await on(url, lambda db: db.fetch("SELECT version FROM holdfast.layout"))
    assert [tuple(row) for row in versions] == [(migrations.migrations()[-1][0],)]
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
    url: str, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = migrations.migrations()
    for newest in range(1, len(steps) + 1):
        monkeypatch.setattr(migrations, "migrations", lambda newest=newest: steps[:newest])
        await on(url, lambda db: migrations.prepare(db, "stepwise"))

    stepwise, fresh = await on(url, _schema), await on(postgres_url, _schema)

    assert stepwise == fresh
    assert len(fresh) > 40
    assert [number for number, _ in steps] == list(range(1, len(steps) + 1))


async def test_of_sessions_from_before_names_were_kept_it_is_said_that_their_blobs_are_unknown(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = migrations.migrations()
    monkeypatch.setattr(migrations, "migrations", lambda: steps[:4])
    session = "INSERT INTO holdfast.sessions VALUES (7, 'old', 1, 1, 0, 1, 1, 0, NULL, NULL, 0)"
    record, body = "INSERT INTO holdfast.records VALUES (7, 1, 1, $1, $2)", encode_record(referencing(FIRST))

    async def fill(db: "asyncpg.Connection[asyncpg.Record]") -> None:
        await migrations.prepare(db, "old")
        await db.execute(session)
        await db.execute(record, record_crc32(7, 1, 1.0, body), body)

    await on(url, fill)
    monkeypatch.setattr(migrations, "migrations", lambda: steps)
    store = PostgresStore(url)
    await store.admit("new", referencing(FIRST, SECOND))

    assert (await store.unscanned_sessions(), await store.blob_refs("old")) == (["old"], [])
    assert await learn_blobs(store) == []
    assert (await store.unscanned_sessions(), await store.blob_refs("old")) == ([], [FIRST])
    assert await store.unshared_blobs(["new"]) == [SECOND]
    await store.close()


async def test_a_migration_that_fails_leaves_nothing_behind(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = migrations.migrations()
    monkeypatch.setattr(migrations, "migrations", lambda: [*steps, (len(steps) + 1, "SELECT 1 / 0")])
    store = PostgresStore(url)
    with pytest.raises(StoreIoError):
        await store.pending()
    assert await on(url, lambda db: db.fetchval("SELECT to_regnamespace('holdfast') IS NULL")) is True

    monkeypatch.setattr(migrations, "migrations", lambda: steps)

    assert await store.pending() == []
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
