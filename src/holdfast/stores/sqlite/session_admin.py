"""Whole sessions of a SQLite store: adopt, rename and delete."""

from collections.abc import Sequence
from hashlib import sha256

import apsw

from holdfast.errors import BadInputError, SeqMovedError
from holdfast.stores.rows import SessionRow, check_not_sealed, record_crc32
from holdfast.stores.sqlite.blob_refs import insert_refs, sealed_until
from holdfast.stores.sqlite.repair import forget_index
from holdfast.types.records import InputAdmitted, Logged, encode_record, owed, refs_in

# Rows per transaction of a deletion: some ten milliseconds, in which no other process can write.
DELETED_ROWS_MAX = 5_000

_INSERT_RECORD = "INSERT INTO recent (session, seq, at, crc32, body) VALUES (?, ?, ?, ?, ?)"
_INSERT_CLIENT_ID = "INSERT OR IGNORE INTO client_ids (session, client_id, seq, sha256) VALUES (?, ?, ?, ?)"
_BY_ROWID = "DELETE FROM {} WHERE rowid IN (SELECT rowid FROM {} WHERE session = ? LIMIT ?)"


def adopt(db: apsw.Connection, row: SessionRow, records: Sequence[Logged]) -> int:
    """Append records with their own seqs and times; see `SessionAdmin.adopt`."""
    for seq, logged in enumerate(records, start=row.last_seq + 1):
        if logged.seq != seq:
            raise SeqMovedError(row.key, logged.seq - 1, row.last_seq)
    for logged in records:
        body = encode_record(logged.record)
        place = (row.number, logged.seq, logged.at, record_crc32(row.number, logged.seq, logged.at, body), body)
        db.execute(_INSERT_RECORD, place)
        if isinstance(logged.record, InputAdmitted) and logged.record.client_id:
            digest = sha256(body).digest()
            db.execute(_INSERT_CLIENT_ID, (row.number, logged.record.client_id, logged.seq, digest))
        row.extend(1, owed(logged.record), logged.at)
    insert_refs(db, row.number, refs_in(logged.record for logged in records))
    return row.last_seq


def rename(db: apsw.Connection, row: SessionRow, key: str) -> None:
    """Rename a session. A row of the new key that has only a lease is deleted."""
    taken = db.execute("SELECT created_at IS NOT NULL, number FROM sessions WHERE key = ?", (key,)).get
    if taken is not None and taken[0]:
        raise BadInputError(f"session {key!r} already exists; choose another key")
    check_not_sealed(row.key, key, sealed_until(db, row.number))
    if taken is not None:
        db.execute("DELETE FROM sessions WHERE number = ?", (taken[1],))
    db.execute("UPDATE sessions SET key = ? WHERE number = ?", (key, row.number))


def delete_some(db: apsw.Connection, row: SessionRow) -> bool:
    """Delete some rows of a session, and return whether any are left."""
    forget_index(db, row.number, after=-1)
    left = DELETED_ROWS_MAX
    for table in ("recent", "records", "quarantine"):
        db.execute(_BY_ROWID.format(table, table), (row.number, left))
        left -= db.changes()
    if left <= 0:
        return True
    for table in ("snapshots", "client_ids", "segments", "blob_names", "blobs_unknown"):
        db.execute(f"DELETE FROM {table} WHERE session = ?", (row.number,))  # noqa: S608 - constant table names
    db.execute("DELETE FROM sessions WHERE number = ?", (row.number,))
    return False
