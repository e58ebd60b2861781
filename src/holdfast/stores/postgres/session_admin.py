"""Whole sessions of a PostgreSQL store: repair, seal, adopt, rename and delete; and their blob references.

Repairs and seals are written in the transaction that reports them in the log.
"""

from collections.abc import Collection, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, assert_never

import asyncpg

from holdfast.core.integrity.reconcile import (
    ClearSealed,
    DropSnapshot,
    LogRepair,
    MarkMissing,
    PutBack,
    Recount,
    SetAside,
)
from holdfast.errors import BadInputError, SeqMovedError
from holdfast.ports import Quarantined, Segment
from holdfast.stores.listing import listing_change
from holdfast.stores.postgres import leases
from holdfast.stores.postgres.directory import write_row
from holdfast.stores.postgres.leases import extend, insert_records
from holdfast.stores.postgres.migrations import SQL
from holdfast.stores.rows import SessionRow, check_not_sealed, is_intact, not_next_error, record_crc32
from holdfast.types.messages import BlobRef
from holdfast.types.records import DamageSetAside, Logged, client_id_of, encode_record, owed, refs_in

if TYPE_CHECKING:
    from holdfast.stores.postgres.connections import Connection

_PREFIX = "quarantine:"

_SELECT_UNTIL = SQL["read_sealed_until"]
_SELECT_LIVE = SQL["count_live"]
_INSERT_SEGMENT = SQL["insert_segment"]
_DELETE_RUN = SQL["delete_records"]
_SELECT_ROW = SQL["read_record"]
_UPSERT_ROW = SQL["replace_record"]
_INSERT_QUARANTINE = SQL["insert_quarantine"]
_SELECT_QUARANTINE = SQL["list_quarantine"]
_SELECT_FIRST_FORGOTTEN = SQL["first_index_row"]
_FORGET_WORDS = tuple(SQL[name] for name in ("forget_word_slices", "trim_word_slice", "forget_rows", "set_index_rows"))
_FORGET_MARK = SQL["reset_index_mark"]


async def sealed_until(connection: "Connection", number: int) -> int:
    """Return the last sealed seq of a session; 0 if none is sealed."""
    until: int = await connection.fetchval(_SELECT_UNTIL, number)
    return until


async def seal(connection: "Connection", row: SessionRow, segment: Segment, body: bytes, now: float) -> int:
    """Record a segment, delete its rows and append the record of the seal. Rejects a segment that is not the next."""
    found = await connection.fetchrow(_SELECT_LIVE, row.number, segment.last)
    assert found is not None, "an aggregate has one row"
    first, last, count = found
    is_next = (first, last) == (segment.first, segment.last) and count == segment.last - segment.first + 1
    if not is_next or segment.first != await sealed_until(connection, row.number) + 1:
        raise not_next_error(segment, first or 0, last or 0)
    values = (segment.first, segment.last, segment.name, segment.sha256, segment.size)
    await connection.execute(_INSERT_SEGMENT, row.number, *values)
    await connection.execute(_DELETE_RUN, row.number, segment.first, segment.last)
    return await extend(connection, row, (body,), now)


async def apply_repairs(
    connection: "Connection", row: SessionRow, repairs: Sequence[LogRepair], bodies: Sequence[bytes], now: float
) -> int:
    """Apply repairs and append records. The caller has checked the lease and the end of the log."""
    number, until = row.number, row.last_seq
    for repair in repairs:
        match repair:
            case SetAside():
                name = await _quarantine_row(connection, number, repair, now)
                if repair.leaves_mark:
                    mark = DamageSetAside(repair.why, name, until, repair.is_owed)
                    await _put_placeholder(connection, number, repair.seq, mark, now)
            case MarkMissing():
                mark = DamageSetAside(repair.why, "", until, repair.is_owed)
                await _put_placeholder(connection, number, repair.seq, mark, now)
            case PutBack():
                await _put_back(connection, number, repair)
            case ClearSealed(run=run):
                await connection.execute(_DELETE_RUN, number, run.first, run.last)
            case DropSnapshot():
                await connection.execute(SQL["delete_snapshot"], number)
            case Recount(owed=owed):
                row.owed = owed
            case _:
                assert_never(repair)
    if any(not isinstance(repair, Recount | DropSnapshot) for repair in repairs):
        # The index of sealed records stays: it could not be rebuilt here.
        await _forget_index(connection, number, after=await sealed_until(connection, number))
    return await extend(connection, row, bodies, now)


async def _quarantine_row(connection: "Connection", number: int, repair: SetAside, now: float) -> str:
    """Move a row to quarantine if it is damaged or leaves a placeholder. Return its name there; "" if it stays."""
    found = await connection.fetchrow(_SELECT_ROW, number, repair.seq)
    if found is None or (is_intact(number, tuple(found)) and not repair.leaves_mark):
        return ""
    place = await connection.fetchval(_INSERT_QUARANTINE, number, *found, repair.why.encode(), now)
    await connection.execute(_DELETE_RUN, number, repair.seq, repair.seq)
    return f"{_PREFIX}{place}"


async def _put_placeholder(connection: "Connection", number: int, seq: int, mark: DamageSetAside, now: float) -> None:
    body = encode_record(mark)
    await connection.execute(_UPSERT_ROW, number, seq, now, record_crc32(number, seq, now, body), body)


async def _put_back(connection: "Connection", number: int, repair: PutBack) -> None:
    found: Any = await connection.fetchrow(_SELECT_ROW, number, repair.seq)
    if found is None or not is_intact(number, (repair.to, *tuple(found)[1:])):
        return
    await connection.execute(_UPSERT_ROW, number, repair.to, *tuple(found)[1:])
    await connection.execute(_DELETE_RUN, number, repair.seq, repair.seq)


async def _forget_index(connection: "Connection", number: int, *, after: int) -> None:
    """Remove the records above `after` from the search index; the next search indexes them again."""
    first: int | None = await connection.fetchval(_SELECT_FIRST_FORGOTTEN, number, after)
    if first is not None:
        for statement in _FORGET_WORDS:
            await connection.execute(statement, number, first)
    await connection.execute(_FORGET_MARK, number, after)


async def quarantine(connection: "Connection", session: str, after: str, limit: int) -> list[Quarantined]:
    """Return quarantined rows; see `Maintenance.quarantine`."""
    start = int(after.removeprefix(_PREFIX) or 0)
    found = await connection.fetch(_SELECT_QUARANTINE, session.encode(), start, max(limit, 0))
    return [
        Quarantined(f"{_PREFIX}{number}", seq, bytes(why).decode(), since, body)
        for number, seq, why, since, body in found
    ]


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
        "labels",
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
    change = listing_change(logged.record for logged in records)
    if row.is_listed_anew(change, row.updated_at):
        await write_row(connection, row.number, change, row.hour)
    return row.last_seq


async def _insert_client_ids(
    connection: "Connection", number: int, records: Sequence[Logged], bodies: Sequence[bytes]
) -> None:
    client_ids = [
        (sha256(client_id.encode()).digest(), logged.seq, sha256(body).digest())
        for logged, body in zip(records, bodies, strict=True)
        if (client_id := client_id_of(logged.record))
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
