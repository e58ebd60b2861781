"""Whole sessions of a PostgreSQL store: adopt, rename and delete; and their blob references."""

from collections.abc import Collection, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING

import asyncpg

from holdfast.errors import BadInputError, SeqMovedError
from holdfast.stores.postgres import leases
from holdfast.stores.postgres.queries import SQL
from holdfast.stores.postgres.repair import sealed_until
from holdfast.stores.postgres.transaction import insert_records
from holdfast.stores.rows import SessionRow, check_not_sealed
from holdfast.types.messages import BlobRef
from holdfast.types.records import InputAdmitted, Logged, owed, refs_in

if TYPE_CHECKING:
    from holdfast.stores.postgres.connections import Connection

_INSERT = SQL["insert_blob_refs"]
_SELECT_OF = SQL["list_blob_refs"]
_SELECT_ONLY_OF = SQL["list_unshared_blobs"]
_SELECT_UNSCANNED = SQL["list_unscanned_sessions"]
_ADD_REFS = SQL["add_blob_refs"]


async def insert_refs(connection: "Connection", number: int, refs: Sequence[BlobRef]) -> None:
    """Within a transaction: add blob references of a session."""
    if refs:
        await connection.execute(_INSERT, number, *_columns(refs))


async def blob_refs(connection: "Connection", session: str) -> list[BlobRef]:
    """Return the blobs that a session references; see `BlobRefs.blob_refs`."""
    return [_ref(*row) for row in await connection.fetch(_SELECT_OF, session.encode())]


async def unshared_blobs(connection: "Connection", sessions: Collection[str]) -> list[BlobRef]:
    """Return the blobs that only these sessions reference; see `BlobRefs.unshared_blobs`."""
    return [_ref(*row) for row in await connection.fetch(_SELECT_ONLY_OF, [key.encode() for key in sessions])]


async def unscanned_sessions(connection: "Connection") -> list[str]:
    """Return the sessions with incomplete references; see `BlobRefs.unscanned_sessions`."""
    return [bytes(key).decode() for (key,) in await connection.fetch(_SELECT_UNSCANNED)]


async def add_blob_refs(connection: "Connection", session: str, refs: Collection[BlobRef]) -> None:
    """Add all blob references of a session; see `BlobRefs.add_blob_refs`."""
    await connection.execute(_ADD_REFS, session.encode(), *_columns(refs))


def _columns(refs: Collection[BlobRef]) -> tuple[list[bytes], list[int]]:
    """Return each blob once, as columns: one statement cannot insert the same row twice."""
    sizes = {ref.sha256: ref.size_bytes for ref in refs}
    return [sha256.encode() for sha256 in sizes], list(sizes.values())


def _ref(sha256: bytes, size: int) -> BlobRef:
    return BlobRef(bytes(sha256).decode(), size)


# --- Adopt, rename, delete ---

# Rows per transaction of a deletion: a fraction of a second, in which nothing can write to this session.
DELETED_ROWS_MAX = 5_000

_INSERT_IDS = SQL["insert_client_ids"]
_SELECT_TAKEN = SQL["lock_key"]
# Large tables are deleted in several transactions.
_DELETE_SOME = tuple(
    f"""
    DELETE FROM holdfast.{table} WHERE ctid = ANY (
        ARRAY(SELECT ctid FROM holdfast.{table} WHERE session = $1 LIMIT $2)
    )
    """  # noqa: S608 - constant table names
    for table in ("records", "quarantine")
)
_DELETE_REST = tuple(
    f"DELETE FROM holdfast.{table} WHERE session = $1"  # noqa: S608 - constant table names
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
    """Append records with their own seqs and times; see `SessionAdmin.adopt`."""
    for seq, logged in enumerate(records, start=row.last_seq + 1):
        if logged.seq != seq:
            raise SeqMovedError(row.key, logged.seq - 1, row.last_seq)
    if not records:
        return row.last_seq
    await insert_records(connection, row, [logged.at for logged in records], bodies)
    await _insert_client_ids(connection, row.number, records, bodies)
    await insert_refs(connection, row.number, refs_in(logged.record for logged in records))
    for logged in records:
        row.extend(1, owed(logged.record), logged.at)
    return row.last_seq


async def _insert_client_ids(
    connection: "Connection", number: int, records: Sequence[Logged], bodies: Sequence[bytes]
) -> None:
    client_ids = [
        (sha256(logged.record.client_id.encode()).digest(), logged.seq, sha256(body).digest())
        for logged, body in zip(records, bodies, strict=True)
        if isinstance(logged.record, InputAdmitted) and logged.record.client_id
    ]
    await connection.execute(_INSERT_IDS, number, *([each[place] for each in client_ids] for place in range(3)))


async def rename(connection: "Connection", row: SessionRow, key: str) -> int:
    """Rename a session. A row of the new key that has only a lease is deleted."""
    if key == row.key:
        raise _taken_error(key)
    taken = await connection.fetchrow(_SELECT_TAKEN, key.encode())
    if taken is not None and taken["has_log"]:
        raise _taken_error(key)
    check_not_sealed(row.key, key, await sealed_until(connection, row.number))
    if taken is not None:
        await connection.execute(SQL["delete_session"], taken["number"])
    try:
        await connection.execute(SQL["set_key"], row.number, key.encode())
    except asyncpg.UniqueViolationError as error:
        raise _taken_error(key) from error
    await leases.rename_snapshot(connection, row.number, row.key, key)
    return row.last_seq


def _taken_error(key: str) -> BadInputError:
    return BadInputError(f"session {key!r} already exists; choose another key")


async def delete_some(connection: "Connection", row: SessionRow) -> int:
    """Delete some rows of a session, and return 1 if any are left."""
    left = DELETED_ROWS_MAX
    for statement in _DELETE_SOME:
        status = await connection.execute(statement, row.number, left)
        left -= int(status.rpartition(" ")[2])
    if left <= 0:
        return 1
    for statement in _DELETE_REST:
        await connection.execute(statement, row.number)
    await connection.execute(SQL["delete_session"], row.number)
    return 0
