"""The layout of a PostgreSQL store: whether the schema is ours, in which version, and bringing it to the newest.

Everything lies in the schema `holdfast`, so that a database can be shared with other programs. Whoever migrates holds
an advisory lock: of several nodes that start at once one migrates, and the others find the work done.
"""

from importlib import resources
from typing import TYPE_CHECKING, TypeAlias

import asyncpg

from holdfast.errors import StorePathError, StoreVersionError

if TYPE_CHECKING:
    Connection: TypeAlias = asyncpg.Connection[asyncpg.Record]

# "HOLD": tells our lock from those of other programs in the same database.
_MIGRATION = 0x484F4C44
# Making an index over a large table takes longer than any question may.
_MIGRATION_SECONDS = 3_600

# From the catalogue itself: `to_regnamespace` answers from a cache, which within a transaction may be older than the
# lock.
_FIND = """
    SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = 'holdfast') AS is_there,
           EXISTS (SELECT FROM pg_tables WHERE schemaname = 'holdfast' AND tablename = 'layout') AS is_ours
"""
_MAKE = """
    CREATE SCHEMA holdfast;
    COMMENT ON SCHEMA holdfast IS 'sessions of Holdfast';
    CREATE TABLE holdfast.layout (version integer NOT NULL);
    INSERT INTO holdfast.layout VALUES (0);
"""


def migrations() -> list[tuple[int, str]]:
    """Return the numbered steps from an empty schema to the newest layout."""
    folder = resources.files("holdfast.stores") / "sql" / "postgres"
    files = sorted((entry.name, entry) for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return [(int(name.partition("_")[0]), entry.read_text(encoding="utf-8")) for name, entry in files]


async def prepare(connection: "Connection", shown: str) -> None:
    """Make the schema where there is none, see that it is ours, and bring it to the newest layout."""
    newest = migrations()[-1][0]
    if await _version(connection, shown) == newest:
        return
    async with connection.transaction():
        # Both for this transaction alone, which takes everything back where a step fails.
        await connection.execute(f"SET LOCAL statement_timeout = '{_MIGRATION_SECONDS}s'; SET LOCAL lock_timeout = 0")
        await connection.execute("SELECT pg_advisory_xact_lock($1)", _MIGRATION)
        version = await _version(connection, shown)
        if version is None:
            await connection.execute(_MAKE)
            version = 0
        for number, sql in migrations():
            if number > version:
                await connection.execute(sql)
        await connection.execute("UPDATE holdfast.layout SET version = $1", newest)


async def _version(connection: "Connection", shown: str) -> int | None:
    """Return the version of the layout; None where there is none. Raises where it is not ours or newer than we are."""
    found = await connection.fetchrow(_FIND)
    assert found is not None, "a SELECT without FROM has one row"
    if not found["is_there"]:
        return None
    if not found["is_ours"]:
        raise StorePathError(f"the schema holdfast in {shown} belongs to another program; choose another database")
    version: int = await connection.fetchval("SELECT version FROM holdfast.layout")
    newest = migrations()[-1][0]
    if version > newest:
        raise StoreVersionError(
            f"{shown} has layout {version}, this version of Holdfast knows {newest} at most; "
            "install the version that wrote it, or a newer one"
        )
    return version
