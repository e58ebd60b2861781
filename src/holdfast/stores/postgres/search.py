"""Searching a PostgreSQL store: bringing the index of a session up to date, and asking it.

As on SQLite, records are indexed when their session is searched, slice by slice, each in one statement that does
nothing where another node has been quicker. Words are cut and rows are scored by Holdfast, so every store finds the
same.
"""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.finding import Posting, RowSize, counted, query_words, rank, read_rows, row_again
from holdfast.core.glimpse import glimpse
from holdfast.core.records import Logged
from holdfast.ports import Hit, SessionInfo
from holdfast.stores.postgres import reading
from holdfast.stores.postgres.reading import Page

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
    page = await reading.page_of(connection, session, before, None if is_end else until - before + count)
    if page is None:
        return None
    # Whatever came since the search began may wait for the next one.
    return Slice(page, until, before, mark["rows"], is_end, is_end or until + count >= mark["last_seq"])


def indexed(session: str, part: Slice) -> tuple[int, tuple[Any, ...]]:
    """Return how far a slice reaches, and the slice as the statement takes it. Takes a while: for a thread."""
    records = reading.decode(session, part.page, part.before, is_last=part.is_end)
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


async def mentioning(connection: "Connection", sessions: Sequence[SessionInfo], query: str) -> list[str]:
    """Return those sessions whose index has a word of a question, or lacks records that may have one."""
    keys, newest = [one.key.encode() for one in sessions], [one.last_seq for one in sessions]
    found = await connection.fetch(_SELECT_MENTIONING, keys, newest, list(query_words(query)))
    return [key.decode() for (key,) in found]


async def _glimpse(connection: "Connection", session: str, size: RowSize, query: str) -> str:
    """Return an excerpt of a row, an empty one where some of it was sealed."""
    records: list[Logged] = []
    for seq in sorted({size.call, size.seq} - {0}):
        page = await reading.page_of(connection, session, seq - 1, 1)
        if page is None or seq <= page.sealed_until:
            return ""
        records += reading.decode(session, page, seq - 1, is_last=False)[:1]
    return glimpse(row_again(size, records), query)
