"""What is wrong with a SQLite file as a file: its pages, its layout, rows of nobody, folds, leases of the dead.

Everything here only reads, and is safe while others use the store.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import apsw
import msgspec

from holdfast.ports import RowCheck, Segment
from holdfast.stores.rows import LOWEST_SEQ, LogEnd, examined, is_whole, record_crc32
from holdfast.stores.sqlite.blob_refs import sealed_until
from holdfast.stores.sqlite.file import APPLICATION_ID, connect, migrations

# Faults of one table that are told; the first ones say what there is to say.
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
    """Something that is not as it must be. `table` is where; `number` the session's own number, where it is known."""

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
    """Return what SQLite's own check finds wrong with a table and its indexes."""
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
    said = [str(line) for (line,) in found if line != "ok"]
    return [FileFault("pages", f"table {table}: {line}", table) for line in said[:_FAULTS_MAX]]


def _quoted(name: str) -> str:
    return "'" + name.replace("'", "''") + "'"


def layout_faults(path: Path) -> list[FileFault]:
    """Return how the layout of a file differs from what the numbered steps up to its version make."""
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
    """Make the tables and indexes that a file lacks, empty, and return how many: a migration that was half applied."""
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
                    # Empty, it would say that nobody names any blob.
                    _forget_blobs(db)
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute("COMMIT")
    finally:
        db.close(force=True)
        fresh.close()
    return made


def _forget_blobs(db: apsw.Connection, which: str = "created_at IS NOT NULL") -> None:
    """Within a transaction: have logs be read again for the blobs they name, where the layout knows of that."""
    if "blobs_unknown" in _objects(db):
        db.execute(f"INSERT OR IGNORE INTO blobs_unknown SELECT number FROM sessions WHERE {which}")  # noqa: S608 - ours


def rows_of_nobody(path: Path) -> list[FileFault]:
    """Return the numbers that rows belong to and no session has."""
    db = connect(path, is_reader=True)
    try:
        there = {name for (name,) in db.execute("SELECT name FROM sqlite_schema")}
        return [
            FileFault(
                "orphan_rows",
                f"{count:,} rows of {table} belong to session number {number}, which is unknown",
                table,
                int(number),
            )
            for table in _OWNED
            if table in there
            for number, count in db.execute(
                f"SELECT session, count(*) FROM {table}"  # noqa: S608 - a name of ours
                " WHERE session NOT IN (SELECT number FROM sessions) GROUP BY session"
            )
        ]
    finally:
        db.close()


def adopt_rows_of_nobody(path: Path) -> list[str]:
    """Give records that belong to no session one of their own, and return the keys of those sessions."""
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


def note_seal(path: Path, segment: Segment) -> bool:
    """Note a segment whose seal was lost, where it goes on from the last one that has its seal; say whether it did."""
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
    """Yield the sessions whose kept fold does not match its checksum, with the seq it says."""
    db = connect(path, is_reader=True)
    try:
        select = "SELECT key, number, seq, crc32, body FROM snapshots JOIN sessions ON number = session"
        for key, number, seq, checksum, body in db.execute(select):
            if record_crc32(number, seq, 0.0, body) != checksum:
                yield str(key), int(seq)
    finally:
        db.close(force=True)


def segment_names(path: Path) -> list[str]:
    """Return the names of all segments that seals name, in order."""
    db = connect(path, is_reader=True)
    try:
        return [str(name) for (name,) in db.execute("SELECT name FROM segments ORDER BY name")]
    finally:
        db.close()


def lease_holders(path: Path) -> list[tuple[str, str, str]]:
    """Return who holds leases: session, owner and the store instance that was asked."""
    db = connect(path, is_reader=True)
    try:
        select = "SELECT key, owner, coalesce(instance, '') FROM sessions WHERE owner IS NOT NULL ORDER BY key"
        return [(str(key), str(owner), str(instance)) for key, owner, instance in db.execute(select)]
    finally:
        db.close()


# --- Looking at the rows of a SQLite store as they are: where a log ends, and which of its rows check out.


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


def check_rows(db: apsw.Connection, session: str, after: int | None, limit: int) -> RowCheck:
    """Look at rows one by one; see `Store.examine`."""
    number = db.execute("SELECT number FROM sessions WHERE key = ?", (session,)).get
    start, at_most = LOWEST_SEQ if after is None else after, max(limit, 1)
    with db:
        rows = [] if number is None else rows_behind(db, number, start, at_most)
    return examined(number or 0, rows, at_most)
