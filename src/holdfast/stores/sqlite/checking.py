"""Looking at the rows of a SQLite store as they are: where a log ends, and which of its rows check out."""

from typing import Any

import apsw

from holdfast.ports import Examined
from holdfast.stores.checking import LOWEST_SEQ, LogEnd, examined
from holdfast.stores.sqlite.sealing import sealed_until

_SELECT_ROWS = """
    SELECT seq, at, crc32, body FROM records WHERE session = ?1 AND seq > ?2
    UNION ALL
    SELECT seq, at, crc32, body FROM recent WHERE session = ?1 AND seq > ?2
    ORDER BY seq LIMIT ?3
"""
_SELECT_FROM_THE_END = """
    SELECT seq, at, crc32, body FROM records WHERE session = ?1
    UNION ALL
    SELECT seq, at, crc32, body FROM recent WHERE session = ?1
    ORDER BY seq DESC
"""


def credible_end(db: apsw.Connection, number: int) -> int:
    """Return how far a log goes, where its last row says something odd."""
    end = LogEnd(number, sealed_until(db, number))
    cursor = db.execute(_SELECT_FROM_THE_END, (number,))
    for row in cursor:
        if end.is_found(row):
            break
    cursor.close()
    return end.seq


def examine(db: apsw.Connection, session: str, after: int | None, limit: int) -> Examined:
    """Look at rows one by one; see `Store.examine`."""
    number = db.execute("SELECT number FROM sessions WHERE key = ?", (session,)).get
    start, at_most = LOWEST_SEQ if after is None else after, max(limit, 1)
    rows: list[tuple[Any, ...]] = []
    if number is not None:
        rows = db.execute(_SELECT_ROWS, (number, start, at_most)).fetchall()
    return examined(number or 0, rows, at_most)
