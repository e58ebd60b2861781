"""Looking at the rows of a SQLite store as they are: where a log ends, and which of its rows check out.

Whoever reads and whoever writes must come to the same end of a log, or what one found the other would refuse for ever.
"""

from typing import Any, TypeAlias

import apsw

from holdfast.ports import Examined
from holdfast.stores.checking import LOWEST_SEQ, LogEnd, examined, is_whole
from holdfast.stores.sqlite.sealing import sealed_until

_SELECT_ROWS = """
    SELECT seq, at, crc32, body FROM records WHERE session = ?1 AND seq > ?2
    UNION ALL
    SELECT seq, at, crc32, body FROM recent WHERE session = ?1 AND seq > ?2
    ORDER BY seq LIMIT ?3
"""
_SELECT_ROWS_AT = """
    SELECT seq, at, crc32, body FROM records WHERE session = ?1 AND seq = ?2
    UNION ALL
    SELECT seq, at, crc32, body FROM recent WHERE session = ?1 AND seq = ?2
"""
_SELECT_ALL = """
    SELECT seq, at, crc32, body FROM records WHERE session = ?1
    UNION ALL
    SELECT seq, at, crc32, body FROM recent WHERE session = ?1
"""
_SELECT_LAST_TWO = "SELECT seq, at, crc32, body FROM records WHERE session = ? ORDER BY seq DESC LIMIT 2"
_SELECT_FIRST = "SELECT min(seq) FROM records WHERE session = ?"
_SELECT_OLDER = "SELECT max(seq) FROM records WHERE session = ?"
_SELECT_RECENT = "SELECT max(seq), min(seq), count(*) FROM recent WHERE session = ?"

# The last and the first recent record of a session, and how many there are.
RecentEnds: TypeAlias = tuple[int, int, int]


def end_of_log(db: apsw.Connection, number: int, older: int, recent: RecentEnds | None) -> int:
    """Return how far a log goes. `older` is the last number among `records`, 0: none; `recent` what `recent` has.

    Numbers that are as they must be are believed. Where one is missing or too many, or the last row does not check out,
    a flipped bit may have sent a record to the end of the world or back among the others, and nobody may append there.
    """
    if recent is not None:
        last, first, count = recent
        return last if last - first + 1 == count and first == older + 1 else _credible_end(db, number)
    if not older:
        return 0
    rows: list[tuple[Any, ...]] = db.execute(_SELECT_LAST_TWO, (number,)).fetchall()
    follows = older == 1 or len(rows) == 1 or rows[1][0] == older - 1
    begins = db.execute(_SELECT_FIRST, (number,)).get == sealed_until(db, number) + 1
    return older if follows and begins and is_whole(number, rows[0]) else _credible_end(db, number)


def end_now(db: apsw.Connection, number: int) -> int:
    """Return how far a log goes, for whoever reads: the same as whoever writes would find."""
    last, first, count = db.execute(_SELECT_RECENT, (number,)).get
    return end_of_log(
        db, number, db.execute(_SELECT_OLDER, (number,)).get or 0, (last, first, count) if count else None
    )


def _credible_end(db: apsw.Connection, number: int) -> int:
    end = LogEnd(number, sealed_until(db, number))
    for row in db.execute(_SELECT_ALL, (number,)):
        end.add(row)
    return end.seq


def rows_behind(db: apsw.Connection, number: int, after: int, limit: int) -> list[tuple[Any, ...]]:
    """Return so many rows in order of seq, below 0: all; and with the last one all that say the same number."""
    # All at once: a query left in the middle would keep its connection in the past.
    rows: list[tuple[Any, ...]] = db.execute(_SELECT_ROWS, (number, after, limit)).fetchall()
    if limit <= 0 or len(rows) < limit:
        return rows
    last = rows[-1][0]
    return [row for row in rows if row[0] != last] + db.execute(_SELECT_ROWS_AT, (number, last)).fetchall()


def examine(db: apsw.Connection, session: str, after: int | None, limit: int) -> Examined:
    """Look at rows one by one; see `Store.examine`."""
    number = db.execute("SELECT number FROM sessions WHERE key = ?", (session,)).get
    start, at_most = LOWEST_SEQ if after is None else after, max(limit, 1)
    with db:
        rows = [] if number is None else rows_behind(db, number, start, at_most)
    return examined(number or 0, rows, at_most)
