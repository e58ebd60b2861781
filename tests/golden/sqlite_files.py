"""SQLite stores of every layout as SQL text, and back."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw

from holdfast.core.fold.session_state import Turn
from holdfast.core.integrity.reconcile import SetAside
from holdfast.ports import Archive, Lease, Segment, Store
from holdfast.runtime.engine.log import Log
from holdfast.stores.sqlite import SqliteStore
from holdfast.stores.sqlite import file as sqlite_file
from holdfast.testing.builders import ManualClock, a_notice, lease_on
from holdfast.testing.maintenance_contract import segment_of
from holdfast.types.records import Logged
from tests.golden.script import (
    APPENDED,
    APPENDED_SESSION,
    CLIENT_SESSION,
    LINKS_LOG,
    LINKS_SESSION,
    SESSION,
    SHORT_CLIENT_LOG,
    SHORT_LOG,
    START,
)

NEWEST = sqlite_file.migrations()[-1][0]
LAYOUTS = range(1, NEWEST + 1)
LOGS = {SESSION: SHORT_LOG, CLIENT_SESSION: SHORT_CLIENT_LOG, LINKS_SESSION: LINKS_LOG}
# The moment of sealing and healing.
LATER = START + 200_000
SNAPSHOT_AT, SEALED_UNTIL, SET_ASIDE_AT, OLDER_UNTIL = 20, 12, 12, 16
# Layouts that brought searching, the archive, healing, and packed bodies.
_SEARCH, _ARCHIVE, _HEALING, _PACKED = 2, 4, 5, 8
# The tables of the FTS5 index.
_SHADOWS = ("search_words_data", "search_words_idx", "search_words_docsize", "search_words_config")
_TABLES = (
    "sessions",
    "records",
    "recent",
    "client_ids",
    "snapshots",
    "search_marks",
    "search_rows",
    "segments",
    "quarantine",
    "blob_names",
    "blobs_unknown",
    "labels",
    "session_tags",
)


def folded(records: tuple[Logged, ...]) -> Log:
    """Return the fold of records that begin with the first."""
    log = Log(SESSION, Turn())
    log.extend(records)
    return log


async def fill(path: Path, layout: int, archive: Archive) -> None:
    """Make a store of the newest layout that holds only things for which this layout has a table."""
    store = SqliteStore(path, clock=ManualClock(LATER))
    for key, log in LOGS.items():
        lease = await lease_on(store, key)
        await store.adopt(lease, list(log))
        if key == SESSION:
            await store.save_snapshot(lease, folded(SHORT_LOG[:SNAPSHOT_AT]).snapshot())
        await store.release(lease)
    if layout >= _SEARCH:
        await store.search(SESSION, "harbour")
    if layout >= _ARCHIVE:
        await _seal(store, await lease_on(store, SESSION), archive)
    if layout >= _HEALING:
        lease = await lease_on(store, CLIENT_SESSION)
        repairs = [SetAside(SET_ASIDE_AT, "its checksum does not match")]
        await store.repair(lease, repairs, [a_notice("One record was set aside.")], after=len(SHORT_CLIENT_LOG))
        await store.release(lease)
    if layout >= _PACKED:
        await store.extend(APPENDED_SESSION, APPENDED, after=0)
    await store.close()
    with closing(apsw.Connection(str(path))) as db:
        # Some records are old and some are recent.
        columns = "session, seq, at, crc32, body"
        db.execute(f"INSERT OR IGNORE INTO records SELECT {columns} FROM recent WHERE seq <= {OLDER_UNTIL}")
        db.execute(f"DELETE FROM recent WHERE seq <= {OLDER_UNTIL}")


async def _seal(store: Store, lease: Lease, archive: Archive) -> Segment:
    segment, body = await segment_of(store, SEALED_UNTIL, session=SESSION)
    await archive.put(segment.name, body)
    await store.seal(lease, segment, after=len(SHORT_LOG))
    await store.release(lease)
    return segment


def dump(path: Path, layout: int) -> str:
    """Return a store as SQL text, cut to the tables and columns of a layout."""
    with closing(apsw.Connection(":memory:")) as shape, closing(apsw.Connection(str(path))) as db:
        for number, sql in sqlite_file.migrations():
            if number <= layout:
                shape.execute(sql)
        lines = [
            f"PRAGMA application_id = {sqlite_file.APPLICATION_ID};",
            f"PRAGMA user_version = {layout};",
            *(f"{sql};" for sql in _schema(shape)),
            *_rows(shape, db),
        ]
    return "".join(f"{line}\n" for line in lines)


def _schema(shape: apsw.Connection) -> Iterator[str]:
    for name, sql in shape.execute("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY rowid"):
        if name not in _SHADOWS:
            yield str(sql)


def _rows(shape: apsw.Connection, db: apsw.Connection) -> Iterator[str]:
    for table in (*_TABLES, *_SHADOWS):
        columns = [str(name) for (name,) in shape.execute("SELECT name FROM pragma_table_info(?)", (table,))]
        if not columns:
            continue
        if table in _SHADOWS:
            yield f"DELETE FROM {table};"
        names = ", ".join(columns)
        for row in db.execute(f"SELECT {names} FROM {table} ORDER BY {names}"):
            yield f"INSERT INTO {table} ({names}) VALUES ({', '.join(map(_literal, row))});"


def _literal(value: Any) -> str:
    match value:
        case None:
            return "NULL"
        case str():
            return "'" + value.replace("'", "''") + "'"
        case bytes() if value.startswith(b"{"):
            return f"CAST({_literal(value.decode())} AS BLOB)"
        case bytes():
            return f"x'{value.hex()}'"
        case _:
            return repr(value)


def load(sql: str, path: Path) -> Path:
    """Make the store file that such a text describes."""
    with closing(apsw.Connection(str(path))) as db:
        db.execute("PRAGMA journal_mode = WAL")
        with db:
            db.execute(sql)
    return path
