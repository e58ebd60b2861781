"""How quick the PostgreSQL store is, against plain inserts through the same driver into the same server.

The reference does the least that one could do: for each of 64 messages a row of its own, sent in one pipeline and made
durable by one commit, with no order to keep, no lease to check, nothing computed and nobody to wake. Both sides take
turns of a fraction of a second, and ratios are taken turn by turn.
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

# What order, leases, checksums and waking may cost.
TOGETHER_FLOOR = 0.5


@asynccontextmanager
async def temporary_database(url: str | None) -> AsyncGenerator[str, None]:
    """Make a database that is gone afterwards: on the server at this address, or on one of our own."""
    server = await asyncio.to_thread(OwnServer) if url is None else None
    name = f"holdfast_bench_{uuid4().hex[:12]}"
    address = server.url() if server is not None else url
    try:
        admin = await asyncpg.connect(address)
        try:
            await admin.execute(f"CREATE DATABASE {name}")
            yield server.url(name) if server is not None else _beside(str(url), name)
        except asyncpg.InsufficientPrivilegeError as error:
            raise StoreAccessError("the user may not make a database to measure in; name one that may") from error
        finally:
            await admin.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
            await admin.close()
    finally:
        if server is not None:
            await asyncio.to_thread(server.close)


def _beside(url: str, name: str) -> str:
    """Return the address of another database on the same server."""
    scheme, _, rest = url.partition("://")
    place, mark, options = rest.partition("?")
    return f"{scheme}://{place.partition('/')[0]}/{name}{mark}{options}"


class PlainInserts:
    """The reference: asyncpg's `executemany`, which pipelines the inserts of a turn and commits them once."""

    def __init__(self, connection: "asyncpg.Connection[asyncpg.Record]") -> None:
        self._connection = connection
        self._body, self._seq = encode_record(RECORD), 0

    async def make(self) -> None:
        """Make its table."""
        await self._connection.execute(
            "CREATE TABLE plain (session bigint, seq bigint, body bytea NOT NULL, PRIMARY KEY (session, seq))"
        )

    async def append(self, times: int) -> None:
        """Write one message for each session, so many times, each time in one pipeline and one commit."""
        for _ in range(times):
            self._seq += 1
            rows = [(session, self._seq, self._body) for session in range(SESSIONS_TOGETHER)]
            await self._connection.executemany("INSERT INTO plain (session, seq, body) VALUES ($1, $2, $3)", rows)


async def measure_appends(url: str, effort: Effort) -> list[Measured]:
    """Appends per second of many sessions together, each acknowledged before its next."""
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
    """Milliseconds to open a session and build its next request, with a long log and with a short one."""
    store = PostgresStore(url)
    try:
        await fill(store, "short", effort.short_records)
        await fill(store, "long", effort.long_records)
        return [await compare_openings(store, f"open at {effort.long_records:,} records", effort.openings)]
    finally:
        await store.close()


async def measure(url: str | None, effort: Effort) -> list[Measured]:
    """Run every measurement, in a database that is gone afterwards."""
    async with temporary_database(url) as database:
        return [*await measure_appends(database, effort), *await measure_opening(database, effort)]


async def measure_archive(url: str | None, folder: Path, records: int) -> list[Measured]:
    """Seal a long session into a folder and hold it against a short one, in a database that is gone afterwards."""
    async with temporary_database(url) as database:
        return await store.measure_archive(PostgresStore(database), folder, records)
