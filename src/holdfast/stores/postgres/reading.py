"""What is read from a PostgreSQL store: records as rows, to be checked by whoever has the time, and sessions."""

import asyncio
from typing import TYPE_CHECKING, Any

from holdfast.core.records import Logged
from holdfast.ports import SessionInfo
from holdfast.stores.checking import read_marked

if TYPE_CHECKING:
    from holdfast.stores.postgres.connections import Connection

# Decoding this much takes a millisecond or two; more is done in a thread, where it holds up nobody's event loop.
_INLINE_BYTES_MAX = 256 * 2**10

_SELECT_RECORDS = """
    SELECT seq, at, crc32, body, session FROM holdfast.records
    WHERE session = (SELECT number FROM holdfast.sessions WHERE key = $1) AND seq > $2
    ORDER BY seq LIMIT $3
"""
_SELECT_SESSIONS = (
    "SELECT key, last_seq, owed, created_at, updated_at FROM holdfast.sessions WHERE created_at IS NOT NULL"
)
_SELECT_INFO = f"{_SELECT_SESSIONS} AND key = $1"
_SELECT_PAGE = f"{_SELECT_SESSIONS} AND key > $1 ORDER BY key LIMIT $2"
_SELECT_OWING = "SELECT key FROM holdfast.sessions WHERE owed > 0 ORDER BY key"


async def rows_of(connection: "Connection", session: str, after: int, limit: int | None) -> list[Any]:
    """Return the rows of records behind `after`."""
    at_most = None if limit is None else max(limit, 0)
    return await connection.fetch(_SELECT_RECORDS, session.encode(), max(after, 0), at_most)


async def decoded(session: str, after: int, rows: list[Any]) -> list[Logged]:
    """Return the records in these rows. Raises `StoreDamagedError` at the first that is altered or missing."""
    if sum(len(row["body"]) for row in rows) > _INLINE_BYTES_MAX:
        return await asyncio.to_thread(decode, session, after, rows)
    return decode(session, after, rows)


def decode(session: str, after: int, rows: list[Any]) -> list[Logged]:
    """Return the records in these rows, at once."""
    if not rows:
        return []
    return list(read_marked(session, rows[0]["session"], (tuple(row)[:4] for row in rows), max(after, 0)))


async def info(connection: "Connection", session: str) -> SessionInfo | None:
    """Return what is known of one session."""
    found = await connection.fetchrow(_SELECT_INFO, session.encode())
    return None if found is None else _info_of(found)


async def sessions(connection: "Connection", after: str, limit: int) -> list[SessionInfo]:
    """Return sessions in order of their keys."""
    # A key that is not well-formed stands between those that are; PostgreSQL compares bytes as Python does characters.
    behind = after.encode("utf-8", "surrogatepass")
    return [_info_of(row) for row in await connection.fetch(_SELECT_PAGE, behind, max(limit, 0))]


async def owing(connection: "Connection") -> list[str]:
    """Return the keys of all sessions that owe an outcome, in order."""
    return [bytes(key).decode() for (key,) in await connection.fetch(_SELECT_OWING)]


def _info_of(row: Any) -> SessionInfo:  # noqa: ANN401 - a row of asyncpg
    key, last_seq, owed, created_at, updated_at = row
    return SessionInfo(bytes(key).decode(), last_seq, owed, created_at, updated_at)
