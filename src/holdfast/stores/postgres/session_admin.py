"""Whole sessions of a PostgreSQL store: taking over the records of another log, another key, and the end."""

from collections.abc import Collection, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING

import asyncpg

from holdfast.errors import BadInputError, SeqMovedError
from holdfast.stores.postgres import leases
from holdfast.stores.postgres.repair import sealed_until
from holdfast.stores.postgres.transaction import insert_records
from holdfast.stores.rows import SessionRow, check_not_sealed
from holdfast.types.messages import BlobRef
from holdfast.types.records import InputAdmitted, Logged, owed, refs_in

# --- Which blobs the sessions of a PostgreSQL store name, as it is kept beside their records.


if TYPE_CHECKING:
    from holdfast.stores.postgres.connections import Connection

_INSERT = """
    INSERT INTO holdfast.blob_names (session, sha256, size)
    SELECT $1, a.* FROM unnest($2::bytea[], $3::bigint[]) AS a ON CONFLICT DO NOTHING
"""
_SELECT_OF = """
    SELECT sha256, size FROM holdfast.blob_names
    WHERE session = (SELECT number FROM holdfast.sessions WHERE key = $1) ORDER BY sha256
"""
_SELECT_ONLY_OF = """
    WITH leaving AS MATERIALIZED (SELECT number FROM holdfast.sessions WHERE key = ANY ($1))
    SELECT DISTINCT own.sha256, own.size FROM holdfast.blob_names AS own
    WHERE own.session IN (SELECT number FROM leaving)
      AND NOT EXISTS (
        SELECT FROM holdfast.blob_names AS other
        WHERE other.sha256 = own.sha256 AND other.session NOT IN (SELECT number FROM leaving)
      )
    ORDER BY own.sha256
"""
_SELECT_UNKNOWN = """
    SELECT key FROM holdfast.unscanned_sessions JOIN holdfast.sessions ON number = session ORDER BY key
"""
# In one statement, so that it is made as a whole; made twice it comes to the same.
_KNOW = """
    WITH known AS (
        DELETE FROM holdfast.unscanned_sessions WHERE session = (SELECT number FROM holdfast.sessions WHERE key = $1)
    )
    INSERT INTO holdfast.blob_names (session, sha256, size)
    SELECT number, a.sha256, a.size
    FROM holdfast.sessions, unnest($2::bytea[], $3::bigint[]) AS a (sha256, size) WHERE key = $1
    ON CONFLICT DO NOTHING
"""


async def insert_names(connection: "Connection", number: int, refs: Sequence[BlobRef]) -> None:
    """Within a change: note which blobs records of a session name."""
    if refs:
        await connection.execute(_INSERT, number, *_columns(refs))


async def blob_refs(connection: "Connection", session: str) -> list[BlobRef]:
    """Return the blobs that a session names; see `Store.blob_refs`."""
    return [_ref(*row) for row in await connection.fetch(_SELECT_OF, session.encode())]


async def unshared_blobs(connection: "Connection", sessions: Collection[str]) -> list[BlobRef]:
    """Return the blobs that these sessions alone name; see `Store.unshared_blobs`."""
    return [_ref(*row) for row in await connection.fetch(_SELECT_ONLY_OF, [key.encode() for key in sessions])]


async def unscanned_sessions(connection: "Connection") -> list[str]:
    """Return the sessions whose blobs are not known; see `Store.unscanned_sessions`."""
    return [bytes(key).decode() for (key,) in await connection.fetch(_SELECT_UNKNOWN)]


async def add_blob_refs(connection: "Connection", session: str, refs: Collection[BlobRef]) -> None:
    """Note all blobs that a session names; see `Store.add_blob_refs`."""
    await connection.execute(_KNOW, session.encode(), *_columns(refs))


def _columns(refs: Collection[BlobRef]) -> tuple[list[bytes], list[int]]:
    """Return each blob once, as columns: one statement cannot meet the same row twice."""
    sizes = {ref.sha256: ref.size_bytes for ref in refs}
    return [sha256.encode() for sha256 in sizes], list(sizes.values())


def _ref(sha256: bytes, size: int) -> BlobRef:
    return BlobRef(bytes(sha256).decode(), size)


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
