"""Search index of a SQLite store.

Records are indexed after the append, not by it: indexing every append would halve the write throughput of many
sessions. The gateway does it in idle time (`gateway.health.Indexer`), and `search_marks` has how far each session is. A
search catches up first, in slices that each take the writer a few milliseconds, so it finds every record appended
before it began.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import apsw
import msgspec

from holdfast.core.search.rank import (
    Posting,
    Row,
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
from holdfast.ports import Hit, SessionInfo
from holdfast.stores.sqlite import reading
from holdfast.types.records import Logged

# --- Writes ---

# A rowid of the word index has the session number above these bits and the row below: four thousand million rows per
# session, and as many sessions.
ROW_BITS = 32

_UPSERT_MARK = """
    INSERT INTO search_marks (session, until, reread, rows) VALUES (?1, ?2, ?3, ?4)
    ON CONFLICT (session) DO UPDATE SET until = ?2, reread = ?3, rows = ?4 WHERE until = ?5
"""
_INSERT_ROW = "INSERT INTO search_rows (session, row, seq, call, called_words, said_words) VALUES (?, ?, ?, ?, ?, ?)"
_INSERT_WORDS = "INSERT INTO search_words (rowid, called, said) VALUES (?, ?, ?)"


class IndexedRow(msgspec.Struct, frozen=True):
    """A row of the index: its sizes, and its words in the format of the index."""

    size: RowSize
    called: str
    said: str


class Slice(msgspec.Struct, frozen=True):
    """The next rows of the index of a session, and the position before them."""

    session: int
    after: int
    until: int
    reread: int
    first_row: int
    rows: tuple[IndexedRow, ...]

    @property
    def size_bytes(self) -> int:
        """Approximate size of the write."""
        return sum(len(row.called) + len(row.said) for row in self.rows)


def write_slice(db: apsw.Connection, part: Slice) -> None:
    """Within a transaction: add rows to the index, unless another process did."""
    last_row = part.first_row + len(part.rows)
    db.execute(_UPSERT_MARK, (part.session, part.until, part.reread, last_row, part.after))
    if not db.changes():
        return
    for row, indexed in enumerate(part.rows, start=part.first_row):
        size = indexed.size
        db.execute(_INSERT_ROW, (part.session, row, size.seq, size.call, size.called_words, size.said_words))
        db.execute(_INSERT_WORDS, (part.session << ROW_BITS | row, indexed.called, indexed.said))


# Pages that a step of a merge may write: some five milliseconds.
_MERGE_PAGES = 64
# Segments of a level that are merged into one: as few as possible.
_MERGED_AT_LEAST = 2


def merge(db: apsw.Connection) -> bool:
    """Within a transaction: merge some segments of the word index, and return whether more may be left.

    Every write of the index adds a segment, and a lookup reads all of them: with 17 of them a lookup takes ten times as
    long as with two. SQLite merges four segments of a level into one by itself; here it merges two.
    """
    if db.execute("SELECT v FROM search_words_config WHERE k = 'usermerge'").get != _MERGED_AT_LEAST:
        db.execute("INSERT INTO search_words (search_words, rank) VALUES ('usermerge', ?)", (_MERGED_AT_LEAST,))
    before = db.total_changes()
    db.execute("INSERT INTO search_words (search_words, rank) VALUES ('merge', ?)", (_MERGE_PAGES,))
    # The statement itself counts as one change.
    return db.total_changes() - before > 1


# --- Reads ---

# Records and bytes per slice: tokenizing them takes a reader thread some 50 ms, and writing them a few milliseconds.
SLICE_RECORDS = 200
SLICE_BYTES_MAX = 512 * 2**10

_SELECT_MARK = """
    SELECT number, coalesce(until, 0), coalesce(reread, 1), coalesce(rows, 0)
    FROM sessions LEFT JOIN search_marks ON session = number WHERE key = ?
"""
_SELECT_ROWS = "SELECT seq, call, called_words, said_words FROM search_rows WHERE session = ? ORDER BY row"
_SELECT_PLACES = "SELECT doc, col, count(*) FROM search_places WHERE term = ? GROUP BY doc, col"
# Words are stored per session, so a common word of other sessions costs nothing. A match stops at its first row, where
# `search_places` reads all of them. No word has a quotation mark (`core.search.tokenizer`).
_SELECT_CANDIDATES = """
    SELECT sessions.key FROM json_each(?1) AS asked
    CROSS JOIN sessions ON sessions.key = asked.value ->> 0
    LEFT JOIN search_marks ON session = number
    WHERE coalesce(until, 0) < asked.value ->> 1
    OR EXISTS (
        SELECT 1 FROM json_each(?2) AS word CROSS JOIN search_words
        WHERE search_words MATCH '"' || number || '|' || word.value || '"'
    )
    ORDER BY asked.id
"""
# Bodies are measured before they are read, so that a slice of large records stays small. In this form SQLite merges the
# two tables in order and stops at the limit; as a subquery it would read the rest of the log for every slice.
_SELECT_SIZES = """
    SELECT seq, length(body) FROM records WHERE session = ?1 AND seq > ?2
    UNION ALL
    SELECT seq, length(body) FROM recent WHERE session = ?1 AND seq > ?2
    ORDER BY seq LIMIT ?3
"""


def next_read(db: apsw.Connection, session: str) -> int:
    """Return the record from which the log must be read to bring the index up to date: none before it is needed."""
    mark: tuple[int, int, int, int] | None = db.execute(_SELECT_MARK, (session,)).get
    return 1 if mark is None else mark[2]


def next_slice(db: apsw.Connection, session: str) -> Slice | None:
    """Return the next slice to index, or None if the index is up to date."""
    mark: tuple[int, int, int, int] | None = db.execute(_SELECT_MARK, (session,)).get
    if mark is None:
        return None
    number, until, reread, first_row = mark
    count = size_bytes = 0
    sizes: list[tuple[Any, ...]] = db.execute(_SELECT_SIZES, (number, until, SLICE_RECORDS)).fetchall()
    for _, size in sizes:
        if count and size_bytes + size > SLICE_BYTES_MAX:
            break
        count, size_bytes = count + 1, size_bytes + size
    if not count:
        return None
    before = min(reread - 1, until)
    records = reading.records(db, session, before, until - before + count)
    read = read_rows(records, after=until)
    rows = tuple(_indexed(number, row) for row in read.rows)
    return Slice(number, until, read.until, read.reread, first_row, rows)


def _indexed(number: int, row: Row) -> IndexedRow:
    called, said = word_counts(row.called), word_counts(row.said)
    size = RowSize(row.seq, row.call, sum(called.values()), sum(said.values()))
    return IndexedRow(size, _column(number, called), _column(number, said))


def _column(number: int, times: dict[str, int]) -> str:
    return " ".join(f"{number}|{word}" for word, count in times.items() for _ in range(count))


def find(db: apsw.Connection, session: str, query: str, limit: int) -> list[Hit]:
    """Rank the indexed rows of a session."""
    # One transaction for all reads.
    with db:
        found = _find(db, session, query, limit)
    return found  # noqa: RET504 - to mypy the context may swallow an exception


def _find(db: apsw.Connection, session: str, query: str, limit: int) -> list[Hit]:
    number: int | None = db.execute("SELECT number FROM sessions WHERE key = ?", (session,)).get
    if number is None:
        return []
    rows = [RowSize(*found) for found in db.execute(_SELECT_ROWS, (number,))]
    asked = asked_words(query)
    best = rank(asked, {word: _postings(db, number, word) for word in asked.all}, rows, limit=limit)
    sized = [(rows[scored.row], scored.score) for scored in best]
    return [Hit(size.seq, score, _snippet(db, session, size, query), size.call) for size, score in sized]


def candidates(db: apsw.Connection, sessions: Sequence[SessionInfo], query: str) -> list[str]:
    """Return the sessions whose index has a word of the query, or is not up to date."""
    known = msgspec.json.encode([(one.key, one.last_seq) for one in sessions]).decode()
    words = msgspec.json.encode(list(query_words(query))).decode()
    return [key for (key,) in db.execute(_SELECT_CANDIDATES, (known, words))]


def _postings(db: apsw.Connection, number: int, word: str) -> list[Posting]:
    times: defaultdict[int, dict[str, int]] = defaultdict(dict)
    for place, column, count in db.execute(_SELECT_PLACES, (f"{number}|{word}",)):
        times[place][column] = count
    first = number << ROW_BITS
    return [Posting(place - first, found.get("called", 0), found.get("said", 0)) for place, found in times.items()]


def _snippet(db: apsw.Connection, session: str, size: RowSize, query: str) -> str:
    """Return a snippet of a row; "" if a part of it is sealed."""
    records: list[Logged] = []
    try:
        for seq in sorted({size.call, size.seq} - {0}):
            records += reading.records(db, session, seq - 1, 1)
    except RecordsSealedError:
        return ""
    return snippet(rebuild_row(size, records), query)
