"""Repairs and seals of a log in a PostgreSQL store, in the transaction that reports them in the log."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, assert_never

from holdfast.core.integrity.reconcile import (
    ClearSealed,
    DropSnapshot,
    LogRepair,
    MarkMissing,
    PutBack,
    Recount,
    SetAside,
)
from holdfast.ports import Quarantined, Segment
from holdfast.stores.postgres.queries import SQL
from holdfast.stores.postgres.transaction import extend
from holdfast.stores.rows import SessionRow, is_intact, not_next_error, record_crc32
from holdfast.types.records import DamageSetAside, encode_record

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
