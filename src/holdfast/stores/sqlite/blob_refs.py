"""Blob references and sealed segments of the sessions of a SQLite store."""

from collections.abc import Collection, Iterable
from typing import Any

import apsw
import msgspec

from holdfast.ports import Segment
from holdfast.stores.rows import not_next_error
from holdfast.types.messages import BlobRef

_INSERT = "INSERT OR IGNORE INTO blob_names (session, sha256, size) VALUES (?, ?, ?)"
_SELECT_NUMBER = "SELECT number FROM sessions WHERE key = ?"
_SELECT_OF = "SELECT sha256, size FROM blob_names WHERE session = ? ORDER BY sha256"
_SELECT_OWN = "SELECT sha256, size FROM blob_names WHERE session IN (SELECT value FROM json_each(?))"
# Blobs that other sessions reference: read once by the index and once by the table itself (the autoindex of a table
# without rowids), which is scanned. A flipped bit hides a reference in one of the two at most.
_SELECT_ELSEWHERE = tuple(
    f"SELECT DISTINCT sha256 FROM blob_names INDEXED BY {tree} WHERE sha256 IN (SELECT value FROM json_each(?))"  # noqa: S608 - constant text
    " AND session NOT IN (SELECT value FROM json_each(?))"
    for tree in ("blob_names_by_blob", "sqlite_autoindex_blob_names_1")
)
_SELECT_UNSCANNED = "SELECT key FROM blobs_unknown JOIN sessions ON number = session ORDER BY key"


def insert_refs(db: apsw.Connection, number: int, refs: Iterable[BlobRef]) -> None:
    """Within a transaction: add blob references of a session."""
    db.executemany(_INSERT, [(number, ref.sha256, ref.size_bytes) for ref in refs])


def blob_refs(db: apsw.Connection, session: str) -> list[BlobRef]:
    """Return the blobs that a session references; see `BlobRefs.blob_refs`."""
    number = db.execute(_SELECT_NUMBER, (session,)).get
    return [BlobRef(sha256, size) for sha256, size in db.execute(_SELECT_OF, (number,))]


def unshared_blobs(db: apsw.Connection, sessions: Collection[str]) -> list[BlobRef]:
    """Return the blobs that only these sessions reference; see `BlobRefs.unshared_blobs`."""
    with db:
        found = [db.execute(_SELECT_NUMBER, (key,)).get for key in sessions]
        numbers = msgspec.json.encode([number for number in found if number is not None]).decode()
        own: dict[Any, Any] = dict(db.execute(_SELECT_OWN, (numbers,)).fetchall())  # type: ignore[arg-type]  # its layout
        names = msgspec.json.encode(list(own)).decode()
        for select in _SELECT_ELSEWHERE:
            for (sha256,) in db.execute(select, (names, numbers)):
                own.pop(sha256, None)
    return [BlobRef(sha256, own[sha256]) for sha256 in sorted(own)]


def unscanned_sessions(db: apsw.Connection) -> list[str]:
    """Return the sessions with incomplete references; see `BlobRefs.unscanned_sessions`."""
    return [str(key) for (key,) in db.execute(_SELECT_UNSCANNED)]


def add_blob_refs(db: apsw.Connection, session: str, refs: Collection[BlobRef]) -> None:
    """Within a transaction: add all blob references of a session; see `BlobRefs.add_blob_refs`."""
    number = db.execute(_SELECT_NUMBER, (session,)).get
    if number is not None:
        insert_refs(db, number, refs)
        db.execute("DELETE FROM blobs_unknown WHERE session = ?", (number,))


# --- Sealed segments ---

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
    """Return the last sealed seq of a session; 0 if none is sealed."""
    return db.execute(_SELECT_UNTIL, (number,)).get or 0


def segments(db: apsw.Connection, session: str) -> list[Segment]:
    """Return the sealed segments of a session, in order."""
    return [Segment(*found) for found in db.execute(_SELECT_SEGMENTS, (session,))]


def seal_rows(db: apsw.Connection, number: int, segment: Segment) -> None:
    """Within a transaction: record a segment and delete its rows. Rejects a segment that is not the next."""
    first, last, count = db.execute(_SELECT_LIVE, (number, segment.last)).get
    is_next = (first, last) == (segment.first, segment.last) and count == segment.last - segment.first + 1
    if not is_next or segment.first != sealed_until(db, number) + 1:
        raise not_next_error(segment, first or 0, last or 0)
    db.execute(_INSERT_SEGMENT, (number, segment.first, segment.last, segment.name, segment.sha256, segment.size))
    for delete in _DELETES:
        db.execute(delete, (number, segment.last))
