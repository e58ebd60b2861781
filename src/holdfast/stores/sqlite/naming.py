"""Which blobs the sessions of a SQLite store name, as it is kept beside their records."""

from collections.abc import Collection, Iterable
from typing import Any

import apsw
import msgspec

from holdfast.core.messages import BlobRef

_INSERT = "INSERT OR IGNORE INTO blob_names (session, sha256, size) VALUES (?, ?, ?)"
_SELECT_NUMBER = "SELECT number FROM sessions WHERE key = ?"
_SELECT_OF = "SELECT sha256, size FROM blob_names WHERE session = ? ORDER BY sha256"
_SELECT_OWN = "SELECT sha256, size FROM blob_names WHERE session IN (SELECT value FROM json_each(?))"
# Of some blobs, those that other sessions name: once by the index, once by the table itself (as SQLite calls it where
# rows have no numbers), which is read through. A flipped bit hides a name in one of the two at most.
_SELECT_ELSEWHERE = tuple(
    f"SELECT DISTINCT sha256 FROM blob_names INDEXED BY {tree} WHERE sha256 IN (SELECT value FROM json_each(?))"  # noqa: S608 - ours
    " AND session NOT IN (SELECT value FROM json_each(?))"
    for tree in ("blob_names_by_blob", "sqlite_autoindex_blob_names_1")
)
_SELECT_UNKNOWN = "SELECT key FROM blobs_unknown JOIN sessions ON number = session ORDER BY key"


def insert_names(db: apsw.Connection, number: int, refs: Iterable[BlobRef]) -> None:
    """Within a transaction: note which blobs records of a session name."""
    db.executemany(_INSERT, [(number, ref.sha256, ref.size_bytes) for ref in refs])


def blobs_of(db: apsw.Connection, session: str) -> list[BlobRef]:
    """Return the blobs that a session names; see `Store.blobs_of`."""
    number = db.execute(_SELECT_NUMBER, (session,)).get
    return [BlobRef(sha256, size) for sha256, size in db.execute(_SELECT_OF, (number,))]


def blobs_only_of(db: apsw.Connection, sessions: Collection[str]) -> list[BlobRef]:
    """Return the blobs that these sessions alone name; see `Store.blobs_only_of`."""
    with db:
        found = [db.execute(_SELECT_NUMBER, (key,)).get for key in sessions]
        numbers = msgspec.json.encode([number for number in found if number is not None]).decode()
        own: dict[Any, Any] = dict(db.execute(_SELECT_OWN, (numbers,)).fetchall())  # type: ignore[arg-type]  # its layout
        names = msgspec.json.encode(list(own)).decode()
        for select in _SELECT_ELSEWHERE:
            for (sha256,) in db.execute(select, (names, numbers)):
                own.pop(sha256, None)
    return [BlobRef(sha256, own[sha256]) for sha256 in sorted(own)]


def blobs_unknown(db: apsw.Connection) -> list[str]:
    """Return the sessions whose blobs are not known; see `Store.blobs_unknown`."""
    return [str(key) for (key,) in db.execute(_SELECT_UNKNOWN)]


def know_blobs(db: apsw.Connection, session: str, refs: Collection[BlobRef]) -> None:
    """Within a transaction: note all blobs that a session names; see `Store.know_blobs`."""
    number = db.execute(_SELECT_NUMBER, (session,)).get
    if number is not None:
        insert_names(db, number, refs)
        db.execute("DELETE FROM blobs_unknown WHERE session = ?", (number,))
