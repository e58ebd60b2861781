"""Reads from a PostgreSQL store: records, sessions and the search index."""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.integrity.segments import Kept
from holdfast.core.search.rank import (
    Posting,
    RowSize,
    asked_words,
    query_words,
    rank,
    read_rows,
    rebuild_row,
    snippet,
    word_counts,
)
from holdfast.errors import RecordsSealedError
from holdfast.ports import Hit, RowCheck, Segment, SessionInfo
from holdfast.stores.postgres.batch import client_digest
from holdfast.stores.postgres.migrations import SQL
from holdfast.stores.rows import LOWEST_SEQ, check_page, clean_rows, decode_rows
from holdfast.types.records import Logged

if TYPE_CHECKING:
    from holdfast.stores.postgres.connections import Connection, Connections

# Decoding this much takes a millisecond or two; more is decoded in a thread, to keep the event loop free.
_INLINE_BYTES_MAX = 256 * 2**10

_SELECT_PAGE_OF_RECORDS = SQL["read_page"]
_SELECT_CLIENT_IDS = SQL["find_client_ids"]
_SELECT_SEGMENTS = SQL["list_segments"]
_SELECT_INFO = SQL["read_session"]
_SELECT_PAGE = SQL["list_sessions"]
_SELECT_PENDING = SQL["list_pending"]


class Page(msgspec.Struct, frozen=True):
    """Rows of a log (seq, time, checksum, body) and the state of the log at the same moment."""

    number: int
    last_seq: int
    sealed_until: int
    rows: list[tuple[Any, ...]]


async def page_of(connection: "Connection", session: str, after: int, limit: int | None) -> Page | None:
    """Return the rows above `after`, unverified; None if the session does not exist."""
    at_most = None if limit is None else max(limit, 0)
    found = await connection.fetch(_SELECT_PAGE_OF_RECORDS, session.encode(), after, at_most)
    if not found:
        return None
    rows = [tuple(row)[:4] for row in found if row["seq"] is not None]
    return Page(found[0]["number"], found[0]["last_seq"], found[0]["sealed_until"], rows)


async def records(connections: "Connections", session: str, after: int, limit: int | None) -> list[Logged]:
    """Return records in order of seq, with a placeholder for each damaged or missing one.

    Raises `RecordsSealedError` if the first of them is sealed.
    """
    logged: list[Logged] = []
    start = position = max(after, 0)
    while limit is None or len(logged) < limit:
        asked = None if limit is None else limit - len(logged)
        page = await connections.query(partial(page_of, session=session, after=position, limit=asked))
        if page is None:
            break
        if not logged:
            check_live(session, page, start)
        is_last = asked is None or len(page.rows) < asked
        logged += await _decoded(session, page, start, is_last=is_last)
        if is_last:
            break
        # Rows with wrong seqs were skipped: there may be more after them.
        position, start = page.rows[-1][0], logged[-1].seq if logged else start
    return logged if limit is None else logged[: max(limit, 0)]


def check_live(session: str, page: Page, after: int) -> None:
    """Raise `RecordsSealedError` if the record directly after `after` is sealed."""
    if (not page.rows or page.rows[0][0] != after + 1) and page.sealed_until > after:
        raise RecordsSealedError(session, page.sealed_until)


async def _decoded(session: str, page: Page, after: int, *, is_last: bool) -> list[Logged]:
    if sum(len(row[3]) for row in page.rows) > _INLINE_BYTES_MAX:
        return await asyncio.to_thread(decode, session, page, after, is_last=is_last)
    return decode(session, page, after, is_last=is_last)


def decode(session: str, page: Page, after: int, *, is_last: bool) -> list[Logged]:
    """Decode a page, with placeholders; the last page is extended to the end of the log."""
    return list(decode_rows(session, page.number, page.rows, after, until=page.last_seq if is_last else 0))


async def client_ids(connection: "Connection", session: str, names: Sequence[str]) -> dict[str, int]:
    """Return the seqs of records by client id."""
    named = {client_digest(name): name for name in names}
    found = await connection.fetch(_SELECT_CLIENT_IDS, [session.encode()] * len(named), list(named))
    return {named[client_id]: seq for _, client_id, seq, _ in found}


async def live_rows(connection: "Connection", session: str, after: int, limit: int) -> list[Kept]:
    """Return live rows as stored. Raises `StoreDamagedError` at a damaged or missing one."""
    start = max(after, 0)
    page = await page_of(connection, session, start, limit)
    if page is None:
        return []
    if page.rows and page.rows[0][0] - 1 <= page.sealed_until:
        start = page.rows[0][0] - 1
    return clean_rows(session, page.number, page.rows, start)


async def check_rows(connection: "Connection", session: str, after: int | None, limit: int) -> RowCheck:
    """Check rows one by one; see `Maintenance.check_rows`."""
    at_most = max(limit, 1)
    page = await page_of(connection, session, LOWEST_SEQ if after is None else after, at_most)
    return check_page(page.number, page.rows, at_most) if page else check_page(0, [], at_most)


async def segments(connection: "Connection", session: str) -> list[Segment]:
    """Return the sealed segments of a session, in order."""
    return [Segment(session, *row) for row in await connection.fetch(_SELECT_SEGMENTS, session.encode())]


async def info(connection: "Connection", session: str) -> SessionInfo | None:
    """Return the summary of a session, or None."""
    found = await connection.fetchrow(_SELECT_INFO, session.encode())
    return None if found is None else _info_of(found)


async def sessions(connection: "Connection", after: str, limit: int) -> list[SessionInfo]:
    """Return sessions in order of their keys."""
    # `after` need not be well-formed Unicode. PostgreSQL orders bytes as Python orders characters.
    start = after.encode("utf-8", "surrogatepass")
    return [_info_of(row) for row in await connection.fetch(_SELECT_PAGE, start, max(limit, 0))]


async def pending(connection: "Connection") -> list[str]:
    """Return the keys of all sessions with pending work, in order."""
    return [bytes(key).decode() for (key,) in await connection.fetch(_SELECT_PENDING)]


def _info_of(row: Any) -> SessionInfo:  # noqa: ANN401 - a row of asyncpg
    key, last_seq, owed, created_at, updated_at = row
    return SessionInfo(bytes(key).decode(), last_seq, owed, created_at, updated_at)


# --- Search index ---

# Records and bytes per slice: tokenizing them takes a thread some 50 ms.
SLICE_RECORDS = 200
SLICE_BYTES_MAX = 512 * 2**10

_SELECT_MARK = SQL["read_index_mark"]
_SELECT_SIZES = SQL["read_body_sizes"]
_INSERT_SLICE = SQL["insert_slice"]
_SELECT_ROWS = SQL["list_index_rows"]
_SELECT_PLACES = SQL["find_words"]

_SELECT_CANDIDATES = SQL["find_candidates"]


class Slice(msgspec.Struct, frozen=True):
    """The next records to index, as rows, and the position of the index before them."""

    page: Page
    until: int
    before: int
    first_row: int
    # `is_end`: the slice reaches the end of the log. `is_last`: it reaches the end as of the start of the search.
    is_end: bool
    is_last: bool


async def next_read(connection: "Connection", session: str) -> int:
    """Return the first record that the next index update reads."""
    mark = await connection.fetchrow(_SELECT_MARK, session.encode())
    return 1 if mark is None else int(mark["reread"])


async def next_slice(connection: "Connection", session: str) -> Slice | None:
    """Return the next slice to index, or None if the index is up to date."""
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
    # No limit at the end, so that records appended meanwhile do not look missing.
    page = await page_of(connection, session, before, None if is_end else until - before + count)
    if page is None:
        return None
    # Records appended since the search began are left to the next one.
    return Slice(page, until, before, mark["rows"], is_end, is_end or until + count >= mark["last_seq"])


def indexed(session: str, part: Slice) -> tuple[int, tuple[Any, ...]]:
    """Return the end of a slice, and the arguments of `insert_slice`. Slow: call it in a thread."""
    records = decode(session, part.page, part.before, is_last=part.is_end)
    read = read_rows(records, after=part.until)
    places: defaultdict[str, list[str]] = defaultdict(list)
    sizes: list[RowSize] = []
    for place, row in enumerate(read.rows, start=part.first_row):
        called, said = word_counts(row.called), word_counts(row.said)
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
    """Add rows to the index, unless another process did."""
    await connection.execute(_INSERT_SLICE, *arguments)


async def find(connection: "Connection", session: str, query: str, limit: int) -> list[Hit]:
    """Rank the indexed rows of a session."""
    # All reads see one state of the database.
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        number = await connection.fetchval(SQL["find_session"], session.encode())
        if number is None:
            return []
        asked = asked_words(query)
        postings: defaultdict[str, list[Posting]] = defaultdict(list)
        for word, found in await connection.fetch(_SELECT_PLACES, number, asked.all):
            postings[word] += (Posting(*found[at : at + 3]) for at in range(0, len(found), 3))
        rows = [RowSize(*row) for row in await connection.fetch(_SELECT_ROWS, number)]
        best = await asyncio.to_thread(rank, asked, postings, rows, limit=limit)
        hits: list[Hit] = []
        for scored in best:
            size = rows[scored.row]
            hits.append(Hit(size.seq, scored.score, await _snippet(connection, session, size, query), size.call))
    return hits


async def candidates(connection: "Connection", sessions: Sequence[SessionInfo], query: str) -> list[str]:
    """Return the sessions whose index has a word of the query, or is not up to date."""
    keys, newest = [one.key.encode() for one in sessions], [one.last_seq for one in sessions]
    found = await connection.fetch(_SELECT_CANDIDATES, keys, newest, list(query_words(query)))
    return [key.decode() for (key,) in found]


async def _snippet(connection: "Connection", session: str, size: RowSize, query: str) -> str:
    """Return a snippet of a row; "" if a part of it is sealed."""
    records: list[Logged] = []
    for seq in sorted({size.call, size.seq} - {0}):
        page = await page_of(connection, session, seq - 1, 1)
        if page is None or seq <= page.sealed_until:
            return ""
        records += decode(session, page, seq - 1, is_last=False)[:1]
    return snippet(rebuild_row(size, records), query)
