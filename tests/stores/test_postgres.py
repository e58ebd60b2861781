"""The PostgreSQL store keeps every promise, alone and with an archive."""

from collections.abc import AsyncIterator

import pytest

from holdfast.core.limits.bounds import Bounds
from holdfast.ports import Archive
from holdfast.stores.archived import ArchivedStore
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.postgres.blobs import PostgresBlobs
from holdfast.stores.postgres.connections import Address, Connections
from holdfast.testing.blob_contracts import BlobsContract
from holdfast.testing.builders import ManualClock
from holdfast.testing.store_contract import StoreContract
from tests.stores.test_archived import ArchivedContract


class TestPostgresStore(StoreContract):
    @pytest.fixture
    async def store(self, postgres_url: str, clock: ManualClock, bounds: Bounds) -> AsyncIterator[PostgresStore]:
        store = PostgresStore(postgres_url, clock=clock, bounds=bounds)
        yield store
        await store.close()


class TestArchivedPostgresStore(ArchivedContract):
    @pytest.fixture
    async def store(
        self, postgres_url: str, clock: ManualClock, bounds: Bounds, archive: Archive
    ) -> AsyncIterator[ArchivedStore]:
        store = ArchivedStore(PostgresStore(postgres_url, clock=clock, bounds=bounds), archive)
        yield store
        await store.close()


class TestPostgresBlobs(BlobsContract):
    @pytest.fixture
    async def blobs(self, postgres_url: str) -> AsyncIterator[PostgresBlobs]:
        connections = Connections(Address(postgres_url))
        yield PostgresBlobs(connections)
        await connections.close()
