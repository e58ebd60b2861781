"""Speed of the PostgreSQL store, compared with plain inserts through the same driver into the same server.

The reference does the minimum: one row for each of 64 messages, sent in one pipeline and one commit, without ordering,
leases, checksums or notifications. Both sides alternate every fraction of a second; ratios are per round.
"""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

import asyncpg

from holdfast.errors import StoreAccessError
from holdfast.lab.benches import store
from holdfast.lab.benches.harness import RECORD, SESSIONS_TOGETHER, Appender, Effort, Measured, compare_rates
from holdfast.lab.benches.opening import compare_openings, fill
from holdfast.lab.benches.postgres_server import OwnServer
from holdfast.stores.postgres import PostgresStore
from holdfast.types.records import encode_record

# Allowed cost of ordering, leases, checksums and notifications.
TOGETHER_FLOOR = 0.5


@asynccontextmanager
async def temporary_database(url: str | None) -> AsyncGenerator[str, None]:
    """Create a temporary database, on the given server or on a temporary one."""
    server = await asyncio.to_thread(OwnServer) if url is None else None
    name = f"holdfast_bench_{uuid4().hex[:12]}"
    address = server.url() if server is not None else url
    try:
        admin = await asyncpg.connect(address)
        try:
            await admin.execute(f"CREATE DATABASE {name}")
            yield server.url(name) if server is not None else _beside(str(url), name)
        except asyncpg.InsufficientPrivilegeError as error:
            raise StoreAccessError(
                "this user may not create a database for the measurement; use one that may"
            ) from error
        finally:
            await admin.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
            await admin.close()
    finally:
        if server is not None:
            await asyncio.to_thread(server.close)


def _beside(url: str, name: str) -> str:
    """Return the URL of another database on the same server."""
    scheme, _, rest = url.partition("://")
    place, mark, options = rest.partition("?")
    return f"{scheme}://{place.partition('/')[0]}/{name}{mark}{options}"


class PlainInserts:
    """The reference: asyncpg's `executemany`, which pipelines the inserts of a round and commits once."""

    def __init__(self, connection: "asyncpg.Connection[asyncpg.Record]") -> None:
        self._connection = connection
        self._body, self._seq = encode_record(RECORD), 0

    async def make(self) -> None:
        """Create its table."""
        await self._connection.execute(
            "CREATE TABLE plain (session bigint, seq bigint, body bytea NOT NULL, PRIMARY KEY (session, seq))"
        )

    async def append(self, times: int) -> None:
        """Write one message per session, several times, each time in one pipeline and one commit."""
        for _ in range(times):
            self._seq += 1
            rows = [(session, self._seq, self._body) for session in range(SESSIONS_TOGETHER)]
            await self._connection.executemany("INSERT INTO plain (session, seq, body) VALUES ($1, $2, $3)", rows)


async def measure_appends(url: str, effort: Effort) -> list[Measured]:
    """Measure appends per second of many parallel sessions."""
    store, connection = PostgresStore(url), await asyncpg.connect(url)
    try:
        plain = PlainInserts(connection)
        await plain.make()
        together = [await Appender.of(store, f"together-{number}") for number in range(SESSIONS_TOGETHER)]
        each = max(effort.appends // 4, 1)
        await plain.append(each)
        await asyncio.gather(*(appender.append(each) for appender in together))
        plain_rates, our_rates = [], []
        for _ in range(effort.turns):
            started = time.perf_counter()
            await plain.append(each)
            plain_rates.append(each * SESSIONS_TOGETHER / (time.perf_counter() - started))

            started = time.perf_counter()
            await asyncio.gather(*(appender.append(each) for appender in together))
            our_rates.append(each * SESSIONS_TOGETHER / (time.perf_counter() - started))
    finally:
        await store.close()
        await connection.close()
    return [compare_rates(f"append, {SESSIONS_TOGETHER} sessions together", our_rates, plain_rates, TOGETHER_FLOOR)]


async def measure_opening(url: str, effort: Effort) -> list[Measured]:
    """Measure the time to open a session with a long and with a short log."""
    store = PostgresStore(url)
    try:
        await fill(store, "short", effort.short_records)
        await fill(store, "long", effort.long_records)
        return [await compare_openings(store, f"open at {effort.long_records:,} records", effort.openings)]
    finally:
        await store.close()


async def measure(url: str | None, effort: Effort) -> list[Measured]:
    """Run every measurement in a temporary database."""
    async with temporary_database(url) as database:
        return [*await measure_appends(database, effort), *await measure_opening(database, effort)]


async def measure_archive(url: str | None, folder: Path, records: int) -> list[Measured]:
    """Run the archive benchmark in a temporary database."""
    async with temporary_database(url) as database:
        return await store.measure_archive(PostgresStore(database), folder, records)
