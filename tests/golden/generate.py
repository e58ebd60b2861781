"""Makes the golden files: `python -m tests.golden.generate`. With `--force` it writes over those that exist.

Run it with `--force` only for an intended change of the format on disk, and review the difference: users have stores of
the earlier format. A file of a past layout must never change. It needs a PostgreSQL server, as the tests of stores do.
"""

import asyncio
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from holdfast.lab.benches.postgres import OwnServer
from holdfast.runtime.sessions.transfer import export_session
from holdfast.stores.archived import ArchivedStore
from holdfast.stores.archives import FolderArchive
from holdfast.stores.blobs import FolderBlobs
from holdfast.stores.memory import MemoryBlobs, MemoryStore
from holdfast.stores.postgres import migrations as postgres_layout
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.builders import ManualClock, lease_on
from holdfast.types.records import AnyRecord, decode_record, encode_record
from tests.golden import samples
from tests.golden.blobs import CONTENTS
from tests.golden.derived import values_after_each
from tests.golden.files import FOLDER, json_line, json_text, lines_text, read_json
from tests.golden.listing import line_of, listing
from tests.golden.postgres_rows import load_postgres, postgres_listing, rows_text, step_text
from tests.golden.script import CLIENT_LOG, LOG, SESSION
from tests.golden.shapes import choices, expanded
from tests.golden.sqlite_files import LATER, LAYOUTS, LOGS, dump, fill, load
from tests.stores.postgres_server import on

EXISTING = "{} exists; nothing was written. A golden file changes only with --force\n"


def main(arguments: Sequence[str], folder: Path = FOLDER) -> int:
    """Write all golden files. Returns 1 where some exist and may not be written over, 2 for an unknown argument."""
    if set(arguments) - {"--force"}:
        return 2
    with tempfile.TemporaryDirectory() as made:
        asyncio.run(make(Path(made)))
        files = sorted(path.relative_to(made) for path in Path(made).rglob("*") if path.is_file())
        taken = [path for path in files if (folder / path).exists()]
        if taken and "--force" not in arguments:
            sys.stderr.write(EXISTING.format(folder / taken[0]))
            return 1
        for path in files:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(Path(made) / path, folder / path)
    return 0


async def make(folder: Path) -> None:
    """Make all golden files in an empty folder."""
    _records(folder)
    _logs(folder)
    await _blobs(folder)
    await _export(folder)
    await _sqlite(folder)
    await _postgres(folder)


def _records(folder: Path) -> None:
    groups: dict[str, tuple[AnyRecord, ...]] = {"full": samples.FULL, "minimal": samples.MINIMAL}
    for name, records in groups.items():
        (folder / f"records_{name}.jsonl").write_bytes(lines_text(map(encode_record, records)))
    meanings = [expanded(decode_record(encode_record(record))) for record in samples.MINIMAL]
    (folder / "records_minimal_meaning.jsonl").write_bytes(lines_text(map(json_line, meanings)))
    (folder / "choices.json").write_bytes(json_text(choices()))


def _logs(folder: Path) -> None:
    for name, log in (("log", LOG), ("client_log", CLIENT_LOG)):
        messages, values = values_after_each(log)
        files = {
            name: [msgspec.json.encode(logged) for logged in log],
            f"{name}_messages": [message.encode() for message in messages],
            f"{name}_values": [json_line(line) for line in values],
        }
        for file, lines in files.items():
            (folder / f"{file}.jsonl").write_bytes(lines_text(lines))


async def _blobs(folder: Path) -> None:
    blobs = FolderBlobs(folder / "blobs")
    for content in CONTENTS.values():
        await blobs.put(content)
    (folder / "blobs" / "incoming").rmdir()


async def _export(folder: Path) -> None:
    store, blobs = MemoryStore(clock=ManualClock()), MemoryBlobs()
    for content in CONTENTS.values():
        await blobs.put(content)
    await store.adopt(await lease_on(store, SESSION), list(LOG))
    (folder / "export.jsonl").write_bytes(b"".join([line async for line in export_session(store, blobs, SESSION)]))


async def _sqlite(folder: Path) -> None:
    logs = {key: [line_of(logged) for logged in log] for key, log in LOGS.items()}
    layouts = {}
    with tempfile.TemporaryDirectory() as scratch:
        archive = FolderArchive(folder / "archive")
        for layout in LAYOUTS:
            path = Path(scratch) / f"{layout}.db"
            await fill(path, layout, archive)
            sql = dump(path, layout)
            (folder / f"sqlite_layout_{layout}.sql").write_text(sql, encoding="utf-8")
            live = SqliteStore(load(sql, Path(scratch) / f"{layout}-again.db"), clock=ManualClock(LATER))
            store = ArchivedStore(live, archive)
            layouts[str(layout)] = await listing(store, logs)
            await store.close()
        (folder / "archive" / ".incoming").rmdir()
    (folder / "store_logs.json").write_bytes(json_text(logs))
    (folder / "sqlite_listings.json").write_bytes(json_text(layouts))


async def _postgres(folder: Path) -> None:
    for number, sql in postgres_layout.migrations():
        (folder / f"postgres_step_{number}.sql").write_text(step_text(number, sql), encoding="utf-8")
        if rows := rows_text(number):
            (folder / f"postgres_rows_{number}.sql").write_text(rows, encoding="utf-8")
    server = OwnServer(is_durable=False)
    try:
        logs = read_json("store_logs.json", folder)
        listings = {
            str(number): await _postgres_listing(server, number, folder, logs)
            for number, _ in postgres_layout.migrations()
        }
    finally:
        server.close()
    (folder / "postgres_listings.json").write_bytes(json_text(listings))


async def _postgres_listing(server: OwnServer, number: int, folder: Path, logs: dict[str, list[str]]) -> dict[str, Any]:
    database = f"layout_{number}"
    await on(server.url(), lambda db: db.execute(f"CREATE DATABASE {database}"))
    await on(server.url(database), lambda db: load_postgres(db, number, folder))
    return await postgres_listing(server.url(database), logs)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
