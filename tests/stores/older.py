"""Store files of past layouts, made by the numbered SQL files themselves."""

from contextlib import closing
from pathlib import Path

import apsw

from holdfast.stores.rows import record_crc32
from holdfast.stores.sqlite import file as sqlite_file
from holdfast.types.messages import text_of
from holdfast.types.records import AnyRecord, InputAdmitted, encode_record, owed

# The layout that brought the list of sessions.
WITH_LABELS = 7


def a_store_of_layout(version: int, path: Path) -> Path:
    """Make an empty store as the version of Holdfast did that knew so many layouts."""
    with closing(apsw.Connection(str(path))) as db:
        db.execute("PRAGMA journal_mode = WAL")
        for number, sql in sqlite_file.migrations():
            if number <= version:
                db.execute(sql)
        db.execute(f"PRAGMA application_id = {sqlite_file.APPLICATION_ID}")
        db.execute(f"PRAGMA user_version = {version}")
    return path


def fill(path: Path, *records: AnyRecord, session: str = "s") -> None:
    """Write a log into such a store, as its own version would have: with a row of the list since there is one."""
    with closing(apsw.Connection(str(path))) as db:
        owing = sum(map(owed, records))
        db.execute(
            "INSERT INTO sessions (key, owed, created_at, fence, lease_until) VALUES (?, ?, 1, 0, 0)", (session, owing)
        )
        number = db.last_insert_rowid()
        for seq, record in enumerate(records, start=1):
            body = encode_record(record)
            row = (number, seq, 1.0, record_crc32(number, seq, 1.0, body), body)
            db.execute("INSERT INTO records (session, seq, at, crc32, body) VALUES (?, ?, ?, ?, ?)", row)
        if db.execute("PRAGMA user_version").get >= WITH_LABELS:
            opening = next((text_of(one.parts) for one in records if isinstance(one, InputAdmitted)), "")
            labels = (number, opening, "", "[]", "{}", None, 0)
            db.execute("INSERT INTO labels VALUES (?, ?, ?, ?, ?, ?, ?)", labels)


def schema_of(path: Path) -> list[tuple[object, ...]]:
    """Return everything that a file's layout consists of."""
    with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as db:
        return db.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name").fetchall()
