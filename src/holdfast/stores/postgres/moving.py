"""Whole sessions of a PostgreSQL store: taking over the records of another log, another key, and the end."""

from collections.abc import Sequence
from hashlib import sha256
from typing import TYPE_CHECKING

import asyncpg

from holdfast.core.records import InputAdmitted, Logged, owed, refs_in
from holdfast.errors import BadInputError, SeqMovedError
from holdfast.stores.postgres import leases
from holdfast.stores.postgres.changing import insert_records
from holdfast.stores.postgres.mending import sealed_until
from holdfast.stores.postgres.naming import insert_names
from holdfast.stores.rows import SessionRow, check_not_sealed

if TYPE_CHECKING:
    from holdfast.stores.postgres.connections import Connection

# Rows that are deleted in one transaction: a fraction of a second, in which nobody can write to this session.
DELETED_ROWS_MAX = 5_000

_INSERT_IDS = """
    INSERT INTO holdfast.client_ids (session, client_id, seq, sha256)
    SELECT $1, a.* FROM unnest($2::bytea[], $3::bigint[], $4::bytea[]) AS a ON CONFLICT DO NOTHING
"""
_SELECT_TAKEN = "SELECT number, created_at IS NOT NULL AS has_log FROM holdfast.sessions WHERE key = $1 FOR UPDATE"
# Of large tables, some rows at a time.
_DELETE_SOME = tuple(
    f"""
    DELETE FROM holdfast.{table} WHERE ctid = ANY (
        ARRAY(SELECT ctid FROM holdfast.{table} WHERE session = $1 LIMIT $2)
    )
    """  # noqa: S608 - names of our own
    for table in ("records", "quarantine")
)
_DELETE_REST = tuple(
    f"DELETE FROM holdfast.{table} WHERE session = $1"  # noqa: S608 - names of our own
    for table in (
        "search_words",
        "search_rows",
        "search_marks",
        "snapshots",
        "client_ids",
        "segments",
        "blob_names",
        "blobs_unknown",
    )
)


async def adopt(connection: "Connection", row: SessionRow, records: Sequence[Logged], bodies: Sequence[bytes]) -> int:
    """Append records with their own numbers and times; see `Store.adopt`."""
    for seq, logged in enumerate(records, start=row.last_seq + 1):
        if logged.seq != seq:
            raise SeqMovedError(row.key, logged.seq - 1, row.last_seq)
    if not records:
        return row.last_seq
    await insert_records(connection, row, [logged.at for logged in records], bodies)
    named = [
        (sha256(logged.record.client_id.encode()).digest(), logged.seq, sha256(body).digest())
        for logged, body in zip(records, bodies, strict=True)
        if isinstance(logged.record, InputAdmitted) and logged.record.client_id
    ]
    await connection.execute(_INSERT_IDS, row.number, *([each[place] for each in named] for place in range(3)))
    await insert_names(connection, row.number, refs_in(logged.record for logged in records))
    for logged in records:
        row.extend(1, owed(logged.record), logged.at)
    return row.last_seq


async def rename(connection: "Connection", row: SessionRow, key: str) -> int:
    """Give a session another key. What only leases are known of under that key is dropped."""
    if key == row.key:
        raise _taken(key)
    taken = await connection.fetchrow(_SELECT_TAKEN, key.encode())
    if taken is not None and taken["has_log"]:
        raise _taken(key)
    check_not_sealed(row.key, key, await sealed_until(connection, row.number))
    if taken is not None:
        await connection.execute("DELETE FROM holdfast.sessions WHERE number = $1", taken["number"])
    try:
        await connection.execute("UPDATE holdfast.sessions SET key = $2 WHERE number = $1", row.number, key.encode())
    except asyncpg.UniqueViolationError as error:
        raise _taken(key) from error
    await leases.rename_snapshot(connection, row.number, row.key, key)
    return row.last_seq


def _taken(key: str) -> BadInputError:
    return BadInputError(f"there is a session {key!r} already; choose another key")


async def delete_some(connection: "Connection", row: SessionRow) -> int:
    """Delete some rows of a session, and return 1 where any are left."""
    left = DELETED_ROWS_MAX
    for statement in _DELETE_SOME:
        told = await connection.execute(statement, row.number, left)
        left -= int(told.rpartition(" ")[2])
    if left <= 0:
        return 1
    for statement in _DELETE_REST:
        await connection.execute(statement, row.number)
    await connection.execute("DELETE FROM holdfast.sessions WHERE number = $1", row.number)
    return 0
