"""Checks of a SQLite file for the doctor: pages, schema, orphaned rows, snapshots, leases and the ends of logs.

Most functions only read, and are safe while other processes use the store. The repairs at the file level write.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import apsw
import msgspec

from holdfast.ports import RowCheck, Segment
from holdfast.stores.rows import LOWEST_SEQ, LogEnd, check_page, is_intact, record_crc32, unpacked_rows
from holdfast.stores.sqlite.blob_refs import sealed_until
from holdfast.stores.sqlite.file import APPLICATION_ID, connect, migrations

# Faults reported per table; the first ones are enough.
_FAULTS_MAX = 20

# Tables that belong to a session by its number.
_OWNED = (
    "records",
    "recent",
    "snapshots",
    "client_ids",
    "segments",
    "search_marks",
    "search_rows",
    "blob_names",
    "blobs_unknown",
)


class FileFault(msgspec.Struct, frozen=True):
    """A fault of the file. `table` is its place; `number` is the internal number of the session, if known."""

    code: str
    what: str
    table: str = ""
    number: int = 0


def tables_of(path: Path) -> list[str]:
    """Return the tables and indexes of a file, in order."""
    db = connect(path, is_reader=True)
    try:
        return [name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")]
    finally:
        db.close()


def faults_of_table(path: Path, table: str) -> list[FileFault]:
    """Return the faults that the integrity check of SQLite finds in a table and its indexes."""
    db = connect(path, is_reader=True)
    try:
        found = db.execute(f"PRAGMA integrity_check({_quoted(table)})").fetchall()
    except apsw.CorruptError as error:
        return [FileFault("pages", f"table {table} cannot be read: {error}", table)]
    except apsw.SQLError:
        # A virtual table has no pages of its own.
        return []
    finally:
        db.close(force=True)
    faults = [str(line) for (line,) in found if line != "ok"]
    return [FileFault("pages", f"table {table}: {line}", table) for line in faults[:_FAULTS_MAX]]


def _quoted(name: str) -> str:
    return "'" + name.replace("'", "''") + "'"


def layout_faults(path: Path) -> list[FileFault]:
    """Return the differences between the schema of a file and the migrations up to its version."""
    db = connect(path, is_reader=True)
    try:
        version: int = db.execute("PRAGMA user_version").get
        found = _objects(db)
    finally:
        db.close()
    fresh = apsw.Connection(":memory:")
    try:
        for number, sql in migrations():
            if number <= version:
                fresh.execute(sql)
        wanted = _objects(fresh)
    finally:
        fresh.close()
    faults = [
        FileFault("layout", f"{name} is missing, which layout {version} has", name)
        for name in wanted.keys() - found.keys()
    ]
    faults += [
        FileFault("layout", f"{name} is not as layout {version} has it", name)
        for name in wanted.keys() & found.keys()
        if wanted[name] != found[name]
    ]
    return sorted(faults, key=lambda fault: fault.what)


def _objects(db: apsw.Connection) -> dict[str, str]:
    rows = db.execute("SELECT name, coalesce(sql, '') FROM sqlite_schema WHERE name NOT LIKE 'sqlite_stat%'")
    return {str(name): str(sql) for name, sql in rows}


def create_missing(path: Path) -> int:
    """Create missing tables and indexes, empty, and return their number: a migration was applied partially."""
    db, fresh, made = connect(path), apsw.Connection(":memory:"), 0
    try:
        db.execute("BEGIN IMMEDIATE")
        version: int = db.execute("PRAGMA user_version").get
        for number, sql in migrations():
            if number <= version:
                fresh.execute(sql)
        found = _objects(db)
        for name, sql in fresh.execute("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL"):
            if name not in found and name not in _objects(db):
                db.execute(str(sql))
                made += 1
                if name in {"blob_names", "blobs_unknown"}:
                    # An empty table would mean that no session references a blob.
                    _forget_blobs(db)
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute("COMMIT")
    finally:
        db.close(force=True)
        fresh.close()
    return made


def _forget_blobs(db: apsw.Connection, which: str = "created_at IS NOT NULL") -> None:
    """Within a transaction: mark sessions as not scanned for blobs, if the layout has that table."""
    if "blobs_unknown" in _objects(db):
        db.execute(f"INSERT OR IGNORE INTO blobs_unknown SELECT number FROM sessions WHERE {which}")  # noqa: S608 - constant text


def orphaned_rows(path: Path) -> list[FileFault]:
    """Return the session numbers of rows without a session."""
    db = connect(path, is_reader=True)
    try:
        there = {name for (name,) in db.execute("SELECT name FROM sqlite_schema")}
        return [
            FileFault(
                "orphan_rows",
                f"{count:,} rows of {table} belong to session number {number}, which does not exist",
                table,
                int(number),
            )
            for table in _OWNED
            if table in there
            for number, count in db.execute(
                f"SELECT session, count(*) FROM {table}"  # noqa: S608 - constant table names
                " WHERE session NOT IN (SELECT number FROM sessions) GROUP BY session"
            )
        ]
    finally:
        db.close()


def adopt_orphaned_rows(path: Path) -> list[str]:
    """Create a session for orphaned records, and return the keys of the new sessions."""
    db, keys = connect(path), []
    try:
        db.execute("BEGIN IMMEDIATE")
        select = (
            "SELECT session, min(at) FROM (SELECT session, at FROM records UNION ALL SELECT session, at FROM recent)"
            " WHERE session NOT IN (SELECT number FROM sessions) GROUP BY session"
        )
        for number, since in db.execute(select).fetchall():
            keys.append(f"recovered:{number}")
            insert = (
                "INSERT INTO sessions (number, key, owed, created_at, fence, lease_until) VALUES (?, ?, 0, ?, 0, 0)"
            )
            db.execute(insert, (number, keys[-1], since))
        _forget_blobs(db, "key LIKE 'recovered:%'")
        db.execute("COMMIT")
    finally:
        db.close(force=True)
    return keys


def restore_seal(path: Path, segment: Segment) -> bool:
    """Record a segment whose seal was lost, if it follows the last sealed one; return whether it did."""
    db = connect(path)
    try:
        db.execute("BEGIN IMMEDIATE")
        number = db.execute("SELECT number FROM sessions WHERE key = ?", (segment.session,)).get
        is_next = number is not None and sealed_until(db, number) + 1 == segment.first
        if is_next:
            row = (number, segment.first, segment.last, segment.name, segment.sha256, segment.size)
            db.execute("INSERT INTO segments (session, first, last, name, sha256, size) VALUES (?,?,?,?,?,?)", row)
        db.execute("COMMIT")
    finally:
        db.close(force=True)
    return is_next


def damaged_snapshots(path: Path) -> Iterator[tuple[str, int]]:
    """Yield the sessions whose snapshot does not match its checksum, with its seq."""
    db = connect(path, is_reader=True)
    try:
        select = "SELECT key, number, seq, crc32, body FROM snapshots JOIN sessions ON number = session"
        for key, number, seq, checksum, body in db.execute(select):
            if record_crc32(number, seq, 0.0, body) != checksum:
                yield str(key), int(seq)
    finally:
        db.close(force=True)


def segment_names(path: Path) -> list[str]:
    """Return the names of all sealed segments, in order."""
    db = connect(path, is_reader=True)
    try:
        return [str(name) for (name,) in db.execute("SELECT name FROM segments ORDER BY name")]
    finally:
        db.close()


def lease_holders(path: Path) -> list[tuple[str, str, str]]:
    """Return the lease holders: session, owner and store instance."""
    db = connect(path, is_reader=True)
    try:
        select = "SELECT key, owner, coalesce(instance, '') FROM sessions WHERE owner IS NOT NULL ORDER BY key"
        return [(str(key), str(owner), str(instance)) for key, owner, instance in db.execute(select)]
    finally:
        db.close()


# --- Rows and the end of a log ---

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

# The last and the first recent seq of a session, and their count.
RecentEnds: TypeAlias = tuple[int, int, int]


def end_of_log(db: apsw.Connection, number: int, older: int, recent: RecentEnds | None) -> int:
    """Return the last seq of a log. `older` is the last seq in `records` (0: none), `recent` the ends in `recent`.

    Consistent seqs are trusted. If a seq is missing or repeated, or the last row is damaged, a flipped bit may have
    moved a record, so all rows are checked.
    """
    if recent is not None:
        last, first, count = recent
        return last if last - first + 1 == count and first == older + 1 else _checked_end(db, number)
    if not older:
        return 0
    rows = unpacked_rows(db.execute(_SELECT_LAST_TWO, (number,)).fetchall())
    follows = older == 1 or len(rows) == 1 or rows[1][0] == older - 1
    begins = db.execute(_SELECT_FIRST, (number,)).get == sealed_until(db, number) + 1
    return older if follows and begins and is_intact(number, rows[0]) else _checked_end(db, number)


def end_of_log_now(db: apsw.Connection, number: int) -> int:
    """Return the last seq of a log for a reader: the same that a writer finds."""
    last, first, count = db.execute(_SELECT_RECENT, (number,)).get
    return end_of_log(
        db, number, db.execute(_SELECT_OLDER, (number,)).get or 0, (last, first, count) if count else None
    )


def _checked_end(db: apsw.Connection, number: int) -> int:
    end = LogEnd(number, sealed_until(db, number))
    for row in db.execute(_SELECT_ALL, (number,)):
        end.add(*unpacked_rows([row]))
    return end.seq


def rows_after(db: apsw.Connection, number: int, after: int, limit: int) -> list[Sequence[Any]]:
    """Return `limit` rows in order of seq (below 0: all), plus all rows with the seq of the last one."""
    # Fetched at once: an open query would pin an old snapshot.
    rows: list[tuple[Any, ...]] = db.execute(_SELECT_ROWS, (number, after, limit)).fetchall()
    if 0 < limit <= len(rows):
        last = rows[-1][0]
        rows = [row for row in rows if row[0] != last] + db.execute(_SELECT_ROWS_AT, (number, last)).fetchall()
    return unpacked_rows(rows)


def check_rows(db: apsw.Connection, session: str, after: int | None, limit: int) -> RowCheck:
    """Check rows one by one; see `Maintenance.check_rows`."""
    number = db.execute("SELECT number FROM sessions WHERE key = ?", (session,)).get
    start, at_most = LOWEST_SEQ if after is None else after, max(limit, 1)
    with db:
        rows = [] if number is None else rows_after(db, number, start, at_most)
    return check_page(number or 0, rows, at_most)
