"""A SQLite store that is only looked at: it is not brought to the newest layout, and nothing is written to it.

So whatever only reads works on a store of an older version before anybody decides to use the newer one on it.
"""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

import apsw

from holdfast.core.limits.bounds import Bounds
from holdfast.core.search.rank import Index, glimpse, read_rows, row_again
from holdfast.errors import StoreVersionError
from holdfast.ports import Hit, SessionInfo
from holdfast.stores.feeds import Bells
from holdfast.stores.sqlite import SqliteStore
from holdfast.stores.sqlite.batch import Batch
from holdfast.stores.sqlite.file import Patience, connect, layout_of
from holdfast.stores.sqlite.reading import Readers
from holdfast.types.records import Logged

# What is read of tables that older layouts do not have.
_LATER_TABLES = {
    "segments": "session, first, last, name, sha256, size",
    "quarantine": "number INTEGER PRIMARY KEY, session, seq, at, crc32, body, why, since",
    "blob_names": "session, sha256, size",
}
# Before it was kept which blobs records name, it was known of no session.
_NO_BLOBS_KNOWN = "CREATE TEMP VIEW blobs_unknown AS SELECT number AS session FROM sessions"


class SqliteView(SqliteStore):
    """The logs of a store as they are. Whatever would write raises `StoreVersionError`."""

    def __init__(self, path: str | Path) -> None:
        self._path, self._bounds = Path(path), Bounds()
        found, newest = layout_of(self._path)
        if found > newest:
            raise StoreVersionError(
                f"{path} has layout {found}, this version of Holdfast knows {newest} at most; "
                "install the version that wrote it, or a newer one"
            )
        self._bells = Bells()
        self._writer = _NoWriter(self._path)  # type: ignore[assignment]  # does less, and never alters
        self._readers = Readers(self._path, self._connect)

    async def search(self, session: str, query: str, *, limit: int = 10) -> list[Hit]:
        """Return what answers a question best, by an index that is made for this question alone."""
        index, records = Index(), await self.read(session)
        for row in read_rows(records, after=0).rows:
            index.add(row)
        by_seq: dict[int, Logged] = {logged.seq: logged for logged in records}
        hits: list[Hit] = []
        for scored in index.find(query, limit=limit):
            size = index.rows[scored.row]
            read = [by_seq[seq] for seq in sorted({size.call, size.seq} - {0})]
            hits.append(Hit(size.seq, scored.score, glimpse(row_again(size, read), query), size.call))
        return hits

    async def candidates(self, sessions: Sequence[SessionInfo], query: str) -> list[str]:  # noqa: ARG002 - no index yet
        """Return all of them: what is in them is seen when they are searched."""
        return [one.key for one in sessions]

    def _connect(self, patience: Patience | None) -> apsw.Connection:
        db = connect(self._path, patience=patience)
        for table, columns in _LATER_TABLES.items():
            # Where the file has none yet, an empty one that lives as long as the connection stands in for it.
            if not _has(db, table):
                db.execute(f"CREATE TEMP TABLE {table} ({columns})")
        if not _has(db, "blobs_unknown"):
            db.execute(_NO_BLOBS_KNOWN)
        db.execute("PRAGMA query_only = ON")
        return db

    def _let_go(self) -> None:
        self._readers.close()


def _has(db: apsw.Connection, table: str) -> bool:
    return bool(db.execute("SELECT count(*) FROM main.sqlite_schema WHERE name = ?", (table,)).get)


class _NoWriter:
    """Refuses to write."""

    commits = 0

    def __init__(self, path: Path) -> None:
        self._path = path

    def run(
        self,
        _operation: Callable[[Batch], object],
        *,
        size_bytes: int = 0,  # noqa: ARG002
        is_ending: bool = False,  # noqa: ARG002
    ) -> NoReturn:
        raise StoreVersionError(
            f"{self._path} is only looked at; use a command that writes, which brings it to the newest layout first"
        )

    def nudge(self) -> None:
        """Nobody waits here for what others write."""

    async def close(self) -> None:
        """Nothing is held."""
        await asyncio.sleep(0)
