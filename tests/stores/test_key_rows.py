"""Gateway keys in a PostgreSQL store keep the promises of the contract; a table of keys above them decides."""

from collections.abc import AsyncIterator
from time import monotonic

import msgspec
import pytest

from holdfast.errors import StoreBusyError, StoreUnreachableError, UsageError
from holdfast.gateway.http import key_table
from holdfast.gateway.http.key_table import KeyTable
from holdfast.gateway.http.keys import GatewayKey, Role
from holdfast.ports import KeyRow
from holdfast.stores.postgres.connections import Address, Connections
from holdfast.stores.postgres.keys import PostgresKeyRows
from holdfast.testing.key_contract import KeyRowsContract


@pytest.fixture
async def keys(postgres_url: str) -> AsyncIterator[PostgresKeyRows]:
    connections = Connections(Address(postgres_url))
    yield PostgresKeyRows(connections)
    await connections.close()


class TestPostgresKeyRows(KeyRowsContract):
    @pytest.fixture
    async def keys(self, postgres_url: str) -> AsyncIterator[PostgresKeyRows]:
        connections = Connections(Address(postgres_url))
        yield PostgresKeyRows(connections)
        await connections.close()


async def test_a_table_has_only_hashes_and_finds_a_key_by_its_secret(keys: PostgresKeyRows) -> None:
    table = KeyTable(keys)
    secret = await table.add("alice", GatewayKey("alice", role=Role.READ))
    await table.change("alice", lambda key: msgspec.structs.replace(key, comment="night shift"))
    newest = await table.rotate("alice", overlap_seconds=60)
    (row,) = await keys.key_rows()
    (key,) = await table.all()

    assert (secret.encode() in row.body, newest.encode() in row.body) == (False, False)
    assert (key.role, key.comment, len(key.all_secrets())) == (Role.READ, "night shift", 2)
    assert [table.name_of(one) for one in (secret, newest, "hf_other")] == ["alice", "alice", None]
    with pytest.raises(UsageError, match="already exists"):
        await table.add("alice")
    with pytest.raises(UsageError, match="keys: alice"):
        await table.remove("bob")
    await table.remove("alice")
    assert await table.all() == ()


async def test_keys_that_cannot_be_read_for_a_minute_are_not_used(
    keys: PostgresKeyRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = KeyTable(keys)
    secret = await table.add("alice")
    await table.reload()
    assert table.name_of(secret) == "alice"
    now = monotonic()
    monkeypatch.setattr(key_table, "monotonic", lambda: now + 61)
    with pytest.raises(StoreUnreachableError):
        table.find(secret)


async def test_a_key_that_others_change_all_the_time_is_busy(keys: PostgresKeyRows) -> None:
    class Contended(PostgresKeyRows):
        async def put_key(self, row: KeyRow, *, version: int) -> bool:
            return version == 0 and await super().put_key(row, version=version)

    table = KeyTable(Contended(keys._connections))
    await table.add("alice")
    with pytest.raises(StoreBusyError, match="alice"):
        await table.rotate("alice", overlap_seconds=60)
