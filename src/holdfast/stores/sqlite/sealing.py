"""Sealing in a SQLite store: taking records out of the live tables, and knowing what was taken out."""

import apsw

from holdfast.ports import Segment
from holdfast.stores.rows import not_next

_SELECT_UNTIL = "SELECT max(last) FROM segments WHERE session = ?"
_SELECT_SEGMENTS = """
    SELECT key, first, last, name, sha256, size FROM segments JOIN sessions ON number = session
    WHERE key = ? ORDER BY first
"""
_SELECT_LIVE = """
    SELECT min(seq), max(seq), count(*) FROM (
        SELECT seq FROM records WHERE session = ?1 AND seq <= ?2
        UNION ALL
        SELECT seq FROM recent WHERE session = ?1 AND seq <= ?2
    )
"""
_INSERT_SEGMENT = "INSERT INTO segments (session, first, last, name, sha256, size) VALUES (?, ?, ?, ?, ?, ?)"
_DELETES = (
    "DELETE FROM records WHERE session = ? AND seq <= ?",
    "DELETE FROM recent WHERE session = ? AND seq <= ?",
)


def sealed_until(db: apsw.Connection, number: int) -> int:
    """Return the last record of a session that was sealed; 0: none was."""
    return db.execute(_SELECT_UNTIL, (number,)).get or 0


def segments(db: apsw.Connection, session: str) -> list[Segment]:
    """Return what was sealed of a session, in order."""
    return [Segment(*found) for found in db.execute(_SELECT_SEGMENTS, (session,))]


def move_out(db: apsw.Connection, number: int, segment: Segment) -> None:
    """Within a transaction: note a segment and remove its records. Refuses, before any change, what is not next."""
    first, last, count = db.execute(_SELECT_LIVE, (number, segment.last)).get
    is_next = (first, last) == (segment.first, segment.last) and count == segment.last - segment.first + 1
    if not is_next or segment.first != sealed_until(db, number) + 1:
        raise not_next(segment, first or 0, last or 0)
    db.execute(_INSERT_SEGMENT, (number, segment.first, segment.last, segment.name, segment.sha256, segment.size))
    for delete in _DELETES:
        db.execute(delete, (number, segment.last))
