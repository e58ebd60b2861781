"""What is read from a PostgreSQL store: records, checked by whoever has the time, and sessions."""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.integrity.segments import Kept
from holdfast.core.search.rank import Posting, RowSize, counted, glimpse, query_words, rank, read_rows, row_again
from holdfast.errors import RecordsSealedError
from holdfast.ports import Hit, RowCheck, Segment, SessionInfo
from holdfast.stores.rows import LOWEST_SEQ, examined, kept_rows, read_marked
from holdfast.types.records import Logged

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


async def live_rows(connection: "Connection", session: str, after: int, limit: int) -> list[Kept]:
    """Return live records as they are kept. Raises `StoreDamagedError` at one that is altered or missing."""
    start = max(after, 0)
    page = await page_of(connection, session, start, limit)
    if page is None:
        return []
    if page.rows and page.rows[0][0] - 1 <= page.sealed_until:
        start = page.rows[0][0] - 1
    return kept_rows(session, page.number, page.rows, start)


async def check_rows(connection: "Connection", session: str, after: int | None, limit: int) -> RowCheck:
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


async def pending(connection: "Connection") -> list[str]:
    """Return the keys of all sessions that owe an outcome, in order."""
    return [bytes(key).decode() for (key,) in await connection.fetch(_SELECT_OWING)]


def _info_of(row: Any) -> SessionInfo:  # noqa: ANN401 - a row of asyncpg
    key, last_seq, owed, created_at, updated_at = row
    return SessionInfo(bytes(key).decode(), last_seq, owed, created_at, updated_at)


# --- Searching a PostgreSQL store: bringing the index of a session up to date, and asking it.


if TYPE_CHECKING:
    from holdfast.stores.postgres.connections import Connection

# Records and bytes that are read into the index at once: their words are some 50 ms of work for a thread.
SLICE_RECORDS = 200
SLICE_BYTES_MAX = 512 * 2**10

_SELECT_MARK = """
    SELECT number, last_seq, coalesce(until, 0) AS until, coalesce(reread, 1) AS reread, coalesce(rows, 0) AS rows
    FROM holdfast.sessions LEFT JOIN holdfast.search_marks ON session = number WHERE key = $1
"""
# Bodies are measured before they are read, so that a slice of large records stays small.
_SELECT_SIZES = "SELECT octet_length(body) FROM holdfast.records WHERE session = $1 AND seq > $2 ORDER BY seq LIMIT $3"
# Nothing for a session that was deleted meanwhile.
_INSERT_SLICE = """
    WITH s AS (SELECT number FROM holdfast.sessions WHERE number = $1 FOR KEY SHARE), mark AS (
        INSERT INTO holdfast.search_marks AS m (session, until, reread, rows) SELECT number, $2, $3, $4 FROM s
        ON CONFLICT (session) DO UPDATE SET until = $2, reread = $3, rows = $4 WHERE m.until = $5
        RETURNING session
    ), rows AS (
        INSERT INTO holdfast.search_rows (session, row, seq, call, called_words, said_words)
        SELECT mark.session, a.* FROM mark, unnest($6::int[], $7::bigint[], $8::bigint[], $9::int[], $10::int[]) AS a
    )
    INSERT INTO holdfast.search_words (session, word, first_row, places)
    SELECT mark.session, a.word, $11, string_to_array(a.places, ' ')::int[]
    FROM mark, unnest($12::text[], $13::text[]) AS a (word, places)
"""
_SELECT_ROWS = """
    SELECT seq, call, called_words, said_words FROM holdfast.search_rows WHERE session = $1 ORDER BY row
"""
_SELECT_PLACES = (
    "SELECT word, places FROM holdfast.search_words WHERE session = $1 AND word = ANY ($2) ORDER BY first_row"
)

_SELECT_MENTIONING = """
    SELECT key FROM unnest($1::bytea[], $2::bigint[]) WITH ORDINALITY AS asked (key, last_seq, place)
    JOIN holdfast.sessions USING (key) LEFT JOIN holdfast.search_marks ON session = number
    WHERE coalesce(until, 0) < asked.last_seq
    OR EXISTS (SELECT FROM holdfast.search_words AS w WHERE w.session = number AND word = ANY ($3))
    ORDER BY asked.place
"""


class Slice(msgspec.Struct, frozen=True):
    """The next records of a session, as rows of the database, and the mark they belong behind."""

    page: Page
    until: int
    before: int
    first_row: int
    # Whether these are all that there are, and whether these are all that there were when the search began.
    is_end: bool
    is_last: bool


async def next_read(connection: "Connection", session: str) -> int:
    """Return the record from which the log must be read to bring the index up to date: none before it is needed."""
    mark = await connection.fetchrow(_SELECT_MARK, session.encode())
    return 1 if mark is None else int(mark["reread"])


async def next_slice(connection: "Connection", session: str) -> Slice | None:
    """Return what the index of a session lacks, or the first part of it; None where it lacks nothing."""
    mark = await connection.fetchrow(_SELECT_MARK, session.encode())
    if mark is None or mark["until"] >= mark["last_seq"]:
        return None
    number, until = mark["number"], mark["until"]
    count = size_bytes = 0
    sizes = await connection.fetch(_SELECT_SIZES, number, until, SLICE_RECORDS)
    for (size,) in sizes:
        if count and size_bytes + size > SLICE_BYTES_MAX:
            break
        count, size_bytes = count + 1, size_bytes + size
    before = min(mark["reread"] - 1, until)
    is_end = count == len(sizes) < SLICE_RECORDS
    # To the end without a limit, so that what came meanwhile is not taken for missing.
    page = await page_of(connection, session, before, None if is_end else until - before + count)
    if page is None:
        return None
    # Whatever came since the search began may wait for the next one.
    return Slice(page, until, before, mark["rows"], is_end, is_end or until + count >= mark["last_seq"])


def indexed(session: str, part: Slice) -> tuple[int, tuple[Any, ...]]:
    """Return how far a slice reaches, and the slice as the statement takes it. Takes a while: for a thread."""
    records = decode(session, part.page, part.before, is_last=part.is_end)
    read = read_rows(records, after=part.until)
    places: defaultdict[str, list[str]] = defaultdict(list)
    sizes: list[RowSize] = []
    for place, row in enumerate(read.rows, start=part.first_row):
        called, said = counted(row.called), counted(row.said)
        sizes.append(RowSize(row.seq, row.call, sum(called.values()), sum(said.values())))
        for word in called.keys() | said.keys():
            places[word].append(f"{place} {called.get(word, 0)} {said.get(word, 0)}")
    arguments = (
        *(part.page.number, read.until, read.reread, part.first_row + len(sizes), part.until),
        list(range(part.first_row, part.first_row + len(sizes))),
        *([size.seq for size in sizes], [size.call for size in sizes]),
        *([size.called_words for size in sizes], [size.said_words for size in sizes]),
        part.first_row,
        list(places),
        [" ".join(found) for found in places.values()],
    )
    return read.until, arguments


async def write_slice(connection: "Connection", arguments: tuple[Any, ...]) -> None:
    """Add rows to the index, unless somebody has meanwhile."""
    await connection.execute(_INSERT_SLICE, *arguments)


async def find(connection: "Connection", session: str, query: str, limit: int) -> list[Hit]:
    """Return what answers a question best among the rows that are indexed."""
    # One state of the database for all that is read.
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        number = await connection.fetchval("SELECT number FROM holdfast.sessions WHERE key = $1", session.encode())
        if number is None:
            return []
        asked = query_words(query)
        postings: defaultdict[str, list[Posting]] = defaultdict(list)
        for word, found in await connection.fetch(_SELECT_PLACES, number, list(asked)):
            postings[word] += (Posting(*found[at : at + 3]) for at in range(0, len(found), 3))
        rows = [RowSize(*row) for row in await connection.fetch(_SELECT_ROWS, number)]
        best = await asyncio.to_thread(rank, asked, postings, rows, limit=limit)
        hits: list[Hit] = []
        for scored in best:
            size = rows[scored.row]
            hits.append(Hit(size.seq, scored.score, await _glimpse(connection, session, size, query), size.call))
    return hits


async def candidates(connection: "Connection", sessions: Sequence[SessionInfo], query: str) -> list[str]:
    """Return those sessions whose index has a word of a question, or lacks records that may have one."""
    keys, newest = [one.key.encode() for one in sessions], [one.last_seq for one in sessions]
    found = await connection.fetch(_SELECT_MENTIONING, keys, newest, list(query_words(query)))
    return [key.decode() for (key,) in found]


async def _glimpse(connection: "Connection", session: str, size: RowSize, query: str) -> str:
    """Return an excerpt of a row, an empty one where some of it was sealed."""
    records: list[Logged] = []
    for seq in sorted({size.call, size.seq} - {0}):
        page = await page_of(connection, session, seq - 1, 1)
        if page is None or seq <= page.sealed_until:
            return ""
        records += decode(session, page, seq - 1, is_last=False)[:1]
    return glimpse(row_again(size, records), query)
