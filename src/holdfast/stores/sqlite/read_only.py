"""Read-only view of a SQLite store, without a migration.

Commands that only read work on a store of an older version, before its user decides to migrate it.
"""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

import apsw

from holdfast.core.limits.bounds import Bounds
from holdfast.errors import StoreVersionError
from holdfast.ports import Hit, SessionInfo
from holdfast.stores.fallbacks import scan
from holdfast.stores.feeds import FeedRegistry
from holdfast.stores.sqlite import SqliteStore
from holdfast.stores.sqlite.batch import Batch
from holdfast.stores.sqlite.file import BusyHandler, connect, layout_of
from holdfast.stores.sqlite.reading import Readers

# Tables that older layouts do not have, and the columns that are read.
_LATER_TABLES = {
    "segments": "session, first, last, name, sha256, size",
    "quarantine": "number INTEGER PRIMARY KEY, session, seq, at, crc32, body, why, since",
    "blob_names": "session, sha256, size",
    "session_tags": "tag, session",
}
# Older layouts have no blob references, so no session is scanned.
_NO_BLOBS_KNOWN = "CREATE TEMP VIEW blobs_unknown AS SELECT number AS session FROM sessions"
# Older layouts have no labels. In one hour, all sessions are sorted by the time of their last change.
_NO_LABELS_KNOWN = (
    "CREATE TEMP VIEW labels AS SELECT number AS session, '' AS opening, '' AS title, '[]' AS tags,"
    " '{}' AS metadata, NULL AS model, 0 AS used_hour FROM sessions"
)


class SqliteView(SqliteStore):
    """The logs of a store as they are. Every write raises `StoreVersionError`."""

    def __init__(self, path: str | Path) -> None:
        self._path, self._bounds = Path(path), Bounds()
        found, newest = layout_of(self._path)
        if found > newest:
            raise StoreVersionError(
                f"{path} has layout {found}, this version of Holdfast supports {newest} at most; "
                "install the version that wrote it, or a newer one"
            )
        self._registry = FeedRegistry()
        self._writer = _NoWriter(self._path)  # type: ignore[assignment]  # does less, and never alters
        self._readers = Readers(self._path, self._connect)

    async def search(self, session: str, query: str, *, limit: int = 10) -> list[Hit]:
        """Search a session by a scan: the view writes no index."""
        return await scan(self, session, query, limit=limit)

    async def candidates(self, sessions: Sequence[SessionInfo], query: str) -> list[str]:  # noqa: ARG002 - no index yet
        """Return all sessions: each one is scanned."""
        return [one.key for one in sessions]

    def _connect(self, busy_handler: BusyHandler | None) -> apsw.Connection:
        db = connect(self._path, busy_handler=busy_handler)
        for table, columns in _LATER_TABLES.items():
            # A missing table is replaced by an empty one for the life of the connection.
            if not _has(db, table):
                db.execute(f"CREATE TEMP TABLE {table} ({columns})")
        if not _has(db, "blobs_unknown"):
            db.execute(_NO_BLOBS_KNOWN)
        if not _has(db, "labels"):
            db.execute(_NO_LABELS_KNOWN)
        db.execute("PRAGMA query_only = ON")
        return db

    def _close_files(self) -> None:
        self._readers.close()


def _has(db: apsw.Connection, table: str) -> bool:
    return bool(db.execute("SELECT count(*) FROM main.sqlite_schema WHERE name = ?", (table,)).get)


class _NoWriter:
    """Rejects every write."""

    commits = 0

    def __init__(self, path: Path) -> None:
        self._path = path

    def run(
        self,
        _operation: Callable[[Batch], object],
        *,
        size_bytes: int = 0,  # noqa: ARG002
        ends_turn: bool = False,  # noqa: ARG002
        is_synced: bool = True,  # noqa: ARG002
    ) -> NoReturn:
        raise StoreVersionError(
            f"{self._path} is open read-only; use a command that writes, which migrates it to the newest layout first"
        )

    def info(self, _session: str) -> None:
        """Return None: nothing was written here."""

    def check_place(self) -> None:
        """No-op: the view accepts nothing that could be lost."""

    def start_polling(self) -> None:
        """No-op: the view does not poll."""

    async def close(self) -> None:
        """No-op: there is no thread."""
        await asyncio.sleep(0)
