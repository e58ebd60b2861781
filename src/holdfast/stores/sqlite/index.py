"""Writing the search index of a SQLite store: rows of a session, behind the mark that those before left."""

import apsw
import msgspec

from holdfast.core.finding import RowSize

# A row's number in the word index has the session's number above these bits and its place below: four thousand million
# rows for one session, and as many sessions.
ROW_BITS = 32

_UPSERT_MARK = """
    INSERT INTO search_marks (session, until, reread, rows) VALUES (?1, ?2, ?3, ?4)
    ON CONFLICT (session) DO UPDATE SET until = ?2, reread = ?3, rows = ?4 WHERE until = ?5
"""
_INSERT_ROW = "INSERT INTO search_rows (session, row, seq, call, called_words, said_words) VALUES (?, ?, ?, ?, ?, ?)"
_INSERT_WORDS = "INSERT INTO search_words (rowid, called, said) VALUES (?, ?, ?)"


class IndexedRow(msgspec.Struct, frozen=True):
    """A row ready to be written: its sizes, and its words as the index takes them."""

    size: RowSize
    called: str
    said: str


class Slice(msgspec.Struct, frozen=True):
    """The next records of a session as rows of the index, and the mark they belong behind."""

    session: int
    after: int
    until: int
    reread: int
    first_row: int
    rows: tuple[IndexedRow, ...]

    @property
    def size_bytes(self) -> int:
        """How much is written, about."""
        return sum(len(row.called) + len(row.said) for row in self.rows)


def write_slice(db: apsw.Connection, part: Slice) -> None:
    """Within a transaction: add rows to the index, unless somebody has meanwhile."""
    last_row = part.first_row + len(part.rows)
    db.execute(_UPSERT_MARK, (part.session, part.until, part.reread, last_row, part.after))
    if not db.changes():
        return
    for row, indexed in enumerate(part.rows, start=part.first_row):
        size = indexed.size
        db.execute(_INSERT_ROW, (part.session, row, size.seq, size.call, size.called_words, size.said_words))
        db.execute(_INSERT_WORDS, (part.session << ROW_BITS | row, indexed.called, indexed.said))
