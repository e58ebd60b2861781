"""A PostgreSQL store of every layout: the steps of the layout as SQL text, and the rows that each step has room for."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any
from zlib import crc32

from holdfast.stores.postgres import PostgresStore
from holdfast.stores.rows import record_crc32
from holdfast.types.messages import BlobRef
from holdfast.types.records import DamageSetAside, InputAdmitted, Logged, encode_record, owed, refs_in
from tests.golden.blobs import CONTENTS
from tests.golden.files import FOLDER
from tests.golden.listing import listing
from tests.golden.script import SESSION, SHORT_LOG, START
from tests.golden.sqlite_files import LATER, LOGS, SET_ASIDE_AT, SNAPSHOT_AT, folded

# Sessions have numbers that their writer chose.
_NUMBERS = {key: 1_000_003 * place for place, key in enumerate(LOGS, start=1)}
_MAKE = """CREATE SCHEMA holdfast;
COMMENT ON SCHEMA holdfast IS 'sessions of Holdfast';
CREATE TABLE holdfast.layout (version integer NOT NULL);
INSERT INTO holdfast.layout VALUES (0);
"""


def step_text(number: int, sql: str) -> str:
    """Return the text that takes a database from the layout before to this one."""
    return f"{_MAKE if number == 1 else ''}{sql}\nUPDATE holdfast.layout SET version = {number};\n"


def rows_text(number: int) -> str:
    """Return rows for the tables that a step brings; an empty text where it has none."""
    rows = {1: _first, 3: _blobs, 4: _damage, 5: _names}
    return "".join(f"{line}\n" for line in rows[number]()) if number in rows else ""


async def load_postgres(db: Any, layout: int, folder: Path = FOLDER) -> None:
    """Bring an empty database to a layout, with all rows that it has room for."""
    for number in range(1, layout + 1):
        await db.execute((folder / f"postgres_step_{number}.sql").read_text(encoding="utf-8"))
    # All rows come after the last step: a version that knew this layout wrote them.
    for number in range(1, layout + 1):
        rows = folder / f"postgres_rows_{number}.sql"
        if rows.exists():
            await db.execute(rows.read_text(encoding="utf-8"))


async def postgres_listing(url: str, logs: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return what the store in a database holds."""
    store = PostgresStore(url)
    found = await listing(store, logs)
    await store.close()
    return found


def _first() -> list[str]:
    lines = []
    for key, log in LOGS.items():
        owing, last = sum(owed(one.record) for one in log), log[-1]
        lines.append(
            "INSERT INTO holdfast.sessions VALUES "
            f"({_NUMBERS[key]}, {_text(key)}, 1, {last.seq}, {owing}, {log[0].at}, {last.at}, 2, NULL, NULL, 0);"
        )
        for one in log:
            lines.append(_record_row(_NUMBERS[key], one))
            if isinstance(one.record, InputAdmitted) and one.record.client_id:
                name, body = sha256(one.record.client_id.encode()), sha256(encode_record(one.record))
                digests = f"{_bytes(name.digest())}, {one.seq}, {_bytes(body.digest())}"
                lines.append(f"INSERT INTO holdfast.client_ids VALUES ({_NUMBERS[key]}, {digests});")
    kept = folded(SHORT_LOG[:SNAPSHOT_AT]).snapshot()
    # The checksum is over the key, not the number.
    checksum = record_crc32(crc32(SESSION.encode()), kept.seq, 0.0, kept.body)
    row = f"{_NUMBERS[SESSION]}, {kept.seq}, {checksum}, {_text(kept.body.decode())}"
    lines.append(f"INSERT INTO holdfast.snapshots VALUES ({row});")
    return lines


def _record_row(number: int, logged: Logged) -> str:
    body = encode_record(logged.record)
    checksum = record_crc32(number, logged.seq, logged.at, body)
    row = f"{number}, {logged.seq}, {logged.at}, {checksum}, {_text(body.decode())}"
    return f"INSERT INTO holdfast.records VALUES ({row});"


def _blobs() -> list[str]:
    lines = []
    for place, (name, content) in enumerate(CONTENTS.items()):
        upload = f"'00000000-0000-0000-0000-00000000000{place}'"
        digest = _bytes(bytes.fromhex(name))
        lines += [
            f"INSERT INTO holdfast.blobs VALUES ({upload}, to_timestamp({START}), {digest}, {len(content)});",
            f"INSERT INTO holdfast.blob_chunks VALUES ({upload}, 0, {_bytes(content)});",
        ]
    return lines


def _damage() -> list[str]:
    """Set a record of the second log aside."""
    key = list(LOGS)[1]
    number, lost = _NUMBERS[key], LOGS[key][SET_ASIDE_AT - 1]
    body = encode_record(lost.record)
    why = "its checksum does not match"
    mark = Logged(lost.seq, LATER, DamageSetAside(why, "quarantine:1", SET_ASIDE_AT))
    columns = "session, seq, at, crc32, body, why, since"
    row = f"{number}, {lost.seq}, {lost.at}, {record_crc32(number, lost.seq, lost.at, body)}, {_text(body.decode())}"
    return [
        f"INSERT INTO holdfast.quarantine ({columns}) VALUES ({row}, {_text(why)}, {LATER});",
        f"DELETE FROM holdfast.records WHERE session = {number} AND seq = {lost.seq};",
        _record_row(number, mark),
    ]


def _names() -> list[str]:
    """Note the blobs that each session names."""
    lines = []
    for key, log in LOGS.items():
        refs: Sequence[BlobRef] = sorted(set(refs_in(one.record for one in log)), key=lambda ref: ref.sha256)
        lines += [
            f"INSERT INTO holdfast.blob_names VALUES ({_NUMBERS[key]}, {_text(ref.sha256)}, {ref.size_bytes});"
            for ref in refs
        ]
    return lines


def _text(value: str) -> str:
    return "convert_to('" + value.replace("'", "''") + "', 'UTF8')"


def _bytes(value: bytes) -> str:
    return f"'\\x{value.hex()}'::bytea"
