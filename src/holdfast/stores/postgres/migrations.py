"""Schema migrations and named SQL queries of a PostgreSQL store.

Everything is in the schema `holdfast`, so that a database can be shared with other programs. A migration holds an
advisory lock: of several nodes that start at once, one migrates and the others wait.

Queries are loaded once from `queries.sql`. A query begins with a line `-- name --`, followed by a comment line with its
purpose and the statement. Statements that depend on a table name or a number of parameters are built in Python.
"""

import re
from collections.abc import Mapping
from importlib import resources
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

import asyncpg

from holdfast.errors import StorePathError, StoreVersionError

_QUERY = re.compile(r"^-- (?P<name>\w+) --\n-- (?P<purpose>.+)\n(?P<sql>(?:(?!--).*\n)+)", re.MULTILINE)


def load_queries(text: str) -> dict[str, str]:
    """Return the statements of a file by their names."""
    queries: dict[str, str] = {}
    for found in _QUERY.finditer(text):
        assert found["name"] not in queries, f"two queries are named {found['name']}"
        queries[found["name"]] = found["sql"].strip()
    return queries


SQL: Mapping[str, str] = MappingProxyType(
    load_queries((resources.files("holdfast.stores.postgres") / "queries.sql").read_text(encoding="utf-8"))
)


if TYPE_CHECKING:
    Connection: TypeAlias = asyncpg.Connection[asyncpg.Record]

# "HOLD": distinguishes our lock from those of other programs in the same database.
_MIGRATION = 0x484F4C44
# Creating an index on a large table takes longer than the timeout of other statements.
_MIGRATION_SECONDS = 3_600

_FIND = SQL["find_schema"]
_MAKE = SQL["create_schema"]


def migrations() -> list[tuple[int, str]]:
    """Return the numbered migrations."""
    folder = resources.files("holdfast.stores") / "sql" / "postgres"
    files = sorted((entry.name, entry) for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return [(int(name.partition("_")[0]), entry.read_text(encoding="utf-8")) for name, entry in files]


async def prepare(connection: "Connection", shown: str) -> None:
    """Create the schema if it is missing, check that it is ours, and migrate it to the newest layout."""
    newest = migrations()[-1][0]
    if await _version(connection, shown) == newest:
        return
    async with connection.transaction():
        # LOCAL: for this transaction only. It rolls back completely if a migration fails.
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
    """Return the layout version; None if there is no schema. Raises if the schema is not ours or too new."""
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
            f"{shown} has layout {version}, this version of Holdfast supports {newest} at most; "
            "install the version that wrote it, or a newer one"
        )
    return version
