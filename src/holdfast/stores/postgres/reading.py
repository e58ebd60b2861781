"""What is read from a PostgreSQL store: records, checked by whoever has the time, and sessions."""

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.records import Logged
from holdfast.core.segments import Kept
from holdfast.errors import RecordsSealedError
from holdfast.ports import Examined, Segment, SessionInfo
from holdfast.stores.checking import LOWEST_SEQ, examined, kept_rows, read_marked

if TYPE_CHECKING:
    from holdfast.stores.postgres.connections import Connection, Connections

# Decoding this much takes a millisecond or two; more is done in a thread, where it holds up nobody's event loop.
_INLINE_BYTES_MAX = 256 * 2**10

# Everything of one state of the database: the rows, how far the log goes, and how far it was sealed.
_SELECT_PAGE_OF_RECORDS = """
    WITH s AS MATERIALIZED (
        SELECT number, last_seq, coalesce(
            (SELECT last FROM holdfast.segments WHERE session = number ORDER BY first DESC LIMIT 1), 0
        ) AS sealed_until
        FROM holdfast.sessions WHERE key = $1
    )
    SELECT r.seq, r.at, r.crc32, r.body, s.number, s.last_seq, s.sealed_until
    FROM s LEFT JOIN LATERAL (
        SELECT seq, at, crc32, body FROM holdfast.records WHERE session = s.number AND seq > $2 ORDER BY seq LIMIT $3
    ) AS r ON true
    ORDER BY r.seq
"""
_SELECT_SEGMENTS = """
    SELECT first, last, name, sha256, size FROM holdfast.segments
    WHERE session = (SELECT number FROM holdfast.sessions WHERE key = $1) ORDER BY first
"""
_SELECT_SESSIONS = (
    "SELECT key, last_seq, owed, created_at, updated_at FROM holdfast.sessions WHERE created_at IS NOT NULL"
)
_SELECT_INFO = f"{_SELECT_SESSIONS} AND key = $1"
_SELECT_PAGE = f"{_SELECT_SESSIONS} AND key > $1 ORDER BY key LIMIT $2"
_SELECT_OWING = "SELECT key FROM holdfast.sessions WHERE owed > 0 ORDER BY key"


class Page(msgspec.Struct, frozen=True):
    """Rows of a log as they stand (seq, time, checksum, body), and what was known of it at the same moment."""

    number: int
    last_seq: int
    sealed_until: int
    rows: list[tuple[Any, ...]]


async def page_of(connection: "Connection", session: str, after: int, limit: int | None) -> Page | None:
    """Return the rows behind `after`, whatever they say; None where there is no such session."""
    at_most = None if limit is None else max(limit, 0)
    found = await connection.fetch(_SELECT_PAGE_OF_RECORDS, session.encode(), after, at_most)
    if not found:
        return None
    rows = [tuple(row)[:4] for row in found if row["seq"] is not None]
    return Page(found[0]["number"], found[0]["last_seq"], found[0]["sealed_until"], rows)


async def records(connections: "Connections", session: str, after: int, limit: int | None) -> list[Logged]:
    """Return records in order of seq, with a mark in the place of each that is damaged or missing.

    Raises `RecordsSealedError` where the first of them was sealed.
    """
    logged: list[Logged] = []
    start = position = max(after, 0)
    while limit is None or len(logged) < limit:
        asked = None if limit is None else limit - len(logged)
        page = await connections.ask(partial(page_of, session=session, after=position, limit=asked))
        if page is None:
            break
        if not logged:
            check_live(session, page, start)
        is_last = asked is None or len(page.rows) < asked
        logged += await _decoded(session, page, start, is_last=is_last)
        if is_last:
            break
        # Rows whose numbers are not to be believed were passed over: there may be more behind them.
        position, start = page.rows[-1][0], logged[-1].seq if logged else start
    return logged if limit is None else logged[: max(limit, 0)]


def check_live(session: str, page: Page, after: int) -> None:
    """Raise where the record right behind `after` was sealed."""
    if (not page.rows or page.rows[0][0] != after + 1) and page.sealed_until > after:
        raise RecordsSealedError(session, page.sealed_until)


async def _decoded(session: str, page: Page, after: int, *, is_last: bool) -> list[Logged]:
    if sum(len(row[3]) for row in page.rows) > _INLINE_BYTES_MAX:
        return await asyncio.to_thread(decode, session, page, after, is_last=is_last)
    return decode(session, page, after, is_last=is_last)


def decode(session: str, page: Page, after: int, *, is_last: bool) -> list[Logged]:
    """Return the records of a page, at once, with marks; where it is the last, up to the end of the log."""
    return list(read_marked(session, page.number, page.rows, after, until=page.last_seq if is_last else 0))


async def kept(connection: "Connection", session: str, after: int, limit: int) -> list[Kept]:
    """Return live records as they are kept. Raises `StoreDamagedError` at one that is altered or missing."""
    start = max(after, 0)
    page = await page_of(connection, session, start, limit)
    if page is None:
        return []
    if page.rows and page.rows[0][0] - 1 <= page.sealed_until:
        start = page.rows[0][0] - 1
    return kept_rows(session, page.number, page.rows, start)


async def examine(connection: "Connection", session: str, after: int | None, limit: int) -> Examined:
    """Look at rows one by one; see `Store.examine`."""
    at_most = max(limit, 1)
    page = await page_of(connection, session, LOWEST_SEQ if after is None else after, at_most)
    return examined(page.number, page.rows, at_most) if page else examined(0, [], at_most)


async def segments(connection: "Connection", session: str) -> list[Segment]:
    """Return what was sealed of a session, in order."""
    return [Segment(session, *row) for row in await connection.fetch(_SELECT_SEGMENTS, session.encode())]


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
