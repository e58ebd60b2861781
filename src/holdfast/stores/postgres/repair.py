"""Sealing and repairing the log of a session in a PostgreSQL store, within the change that says so in the log."""

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
from holdfast.stores.postgres.transaction import extend
from holdfast.stores.rows import SessionRow, is_whole, not_next, record_crc32
from holdfast.types.records import DamageSetAside, encode_record

if TYPE_CHECKING:
    from holdfast.stores.postgres.connections import Connection

_PREFIX = "quarantine:"

_SELECT_UNTIL = "SELECT coalesce(max(last), 0) FROM holdfast.segments WHERE session = $1"
_SELECT_LIVE = "SELECT min(seq), max(seq), count(*) FROM holdfast.records WHERE session = $1 AND seq <= $2"
_INSERT_SEGMENT = (
    "INSERT INTO holdfast.segments (session, first, last, name, sha256, size) VALUES ($1, $2, $3, $4, $5, $6)"
)
_DELETE_RUN = "DELETE FROM holdfast.records WHERE session = $1 AND seq BETWEEN $2 AND $3"
_SELECT_ROW = "SELECT seq, at, crc32, body FROM holdfast.records WHERE session = $1 AND seq = $2"
_UPSERT_ROW = """
    INSERT INTO holdfast.records (session, seq, at, crc32, body) VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT (session, seq) DO UPDATE SET at = excluded.at, crc32 = excluded.crc32, body = excluded.body
"""
_INSERT_QUARANTINE = """
    INSERT INTO holdfast.quarantine (session, seq, at, crc32, body, why, since) VALUES ($1, $2, $3, $4, $5, $6, $7)
    RETURNING number
"""
_SELECT_QUARANTINE = """
    SELECT number, seq, why, since, body FROM holdfast.quarantine
    WHERE session = (SELECT number FROM holdfast.sessions WHERE key = $1) AND number > $2 ORDER BY number LIMIT $3
"""
_SELECT_FIRST_FORGOTTEN = "SELECT min(row) FROM holdfast.search_rows WHERE session = $1 AND seq > $2"
# A slice of words may begin before the rows that go: of it the places before them stay. Three numbers are one place.
_FORGET_WORDS = (
    "DELETE FROM holdfast.search_words WHERE session = $1 AND first_row >= $2",
    """
    UPDATE holdfast.search_words SET places = ARRAY(
        SELECT part FROM unnest(places) WITH ORDINALITY AS a (part, place)
        WHERE places[place - (place - 1) % 3] < $2 ORDER BY place
    )
    WHERE session = $1 AND first_row = (
        SELECT max(first_row) FROM holdfast.search_words WHERE session = $1 AND first_row < $2
    )
    """,
    "DELETE FROM holdfast.search_rows WHERE session = $1 AND row >= $2",
    "UPDATE holdfast.search_marks SET rows = $2 WHERE session = $1",
)
_FORGET_MARK = "UPDATE holdfast.search_marks SET until = $2, reread = $2 + 1 WHERE session = $1 AND until > $2"


async def sealed_until(connection: "Connection", number: int) -> int:
    """Return the last record of a session that was sealed; 0: none was."""
    until: int = await connection.fetchval(_SELECT_UNTIL, number)
    return until


async def seal(connection: "Connection", row: SessionRow, segment: Segment, body: bytes, now: float) -> int:
    """Note a segment, remove its records, and append the record that says so. Refuses what does not come next."""
    found = await connection.fetchrow(_SELECT_LIVE, row.number, segment.last)
    assert found is not None, "an aggregate has one row"
    first, last, count = found
    is_next = (first, last) == (segment.first, segment.last) and count == segment.last - segment.first + 1
    if not is_next or segment.first != await sealed_until(connection, row.number) + 1:
        raise not_next(segment, first or 0, last or 0)
    values = (segment.first, segment.last, segment.name, segment.sha256, segment.size)
    await connection.execute(_INSERT_SEGMENT, row.number, *values)
    await connection.execute(_DELETE_RUN, row.number, segment.first, segment.last)
    return await extend(connection, row, (body,), now)


async def apply_repairs(
    connection: "Connection", row: SessionRow, repairs: Sequence[LogRepair], bodies: Sequence[bytes], now: float
) -> int:
    """Make repairs and append records. The caller has checked the lease and how far the log goes."""
    number, until = row.number, row.last_seq
    for repair in repairs:
        match repair:
            case SetAside():
                kept = await _take_out(connection, number, repair, now)
                if repair.leaves_mark:
                    mark = DamageSetAside(repair.why, kept, until, repair.is_owed)
                    await _leave_mark(connection, number, repair.seq, mark, now)
            case MarkMissing():
                mark = DamageSetAside(repair.why, "", until, repair.is_owed)
                await _leave_mark(connection, number, repair.seq, mark, now)
            case PutBack():
                await _put_back(connection, number, repair)
            case ClearSealed(run=run):
                await connection.execute(_DELETE_RUN, number, run.first, run.last)
            case DropSnapshot():
                await connection.execute("DELETE FROM holdfast.snapshots WHERE session = $1", number)
            case Recount(owed=owed):
                row.owed = owed
            case _:
                assert_never(repair)
    if any(not isinstance(repair, Recount | DropSnapshot) for repair in repairs):
        # The words of sealed records stay: they could not be read again here.
        await _forget_index(connection, number, after=await sealed_until(connection, number))
    return await extend(connection, row, bodies, now)


async def _take_out(connection: "Connection", number: int, repair: SetAside, now: float) -> str:
    """Move a row to quarantine if it does not check out, or is to leave a mark. Return under which name; "": none."""
    found = await connection.fetchrow(_SELECT_ROW, number, repair.seq)
    if found is None or (is_whole(number, tuple(found)) and not repair.leaves_mark):
        return ""
    place = await connection.fetchval(_INSERT_QUARANTINE, number, *found, repair.why.encode(), now)
    await connection.execute(_DELETE_RUN, number, repair.seq, repair.seq)
    return f"{_PREFIX}{place}"


async def _leave_mark(connection: "Connection", number: int, seq: int, mark: DamageSetAside, now: float) -> None:
    body = encode_record(mark)
    await connection.execute(_UPSERT_ROW, number, seq, now, record_crc32(number, seq, now, body), body)


async def _put_back(connection: "Connection", number: int, repair: PutBack) -> None:
    found: Any = await connection.fetchrow(_SELECT_ROW, number, repair.seq)
    if found is None or not is_whole(number, (repair.to, *tuple(found)[1:])):
        return
    await connection.execute(_UPSERT_ROW, number, repair.to, *tuple(found)[1:])
    await connection.execute(_DELETE_RUN, number, repair.seq, repair.seq)


async def _forget_index(connection: "Connection", number: int, *, after: int) -> None:
    """Take the records behind `after` out of the search index; the next search reads them again."""
    first: int | None = await connection.fetchval(_SELECT_FIRST_FORGOTTEN, number, after)
    if first is not None:
        for statement in _FORGET_WORDS:
            await connection.execute(statement, number, first)
    await connection.execute(_FORGET_MARK, number, after)


async def quarantine(connection: "Connection", session: str, after: str, limit: int) -> list[Quarantined]:
    """Return what was set aside of a session; see `Store.quarantine`."""
    behind = int(after.removeprefix(_PREFIX) or 0)
    found = await connection.fetch(_SELECT_QUARANTINE, session.encode(), behind, max(limit, 0))
    return [
        Quarantined(f"{_PREFIX}{number}", seq, bytes(why).decode(), since, body)
        for number, seq, why, since, body in found
    ]
