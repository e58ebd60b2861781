"""Files that leave a store: an exported session, and a segment in the archive."""

from hashlib import sha256
from pathlib import Path

import msgspec
import pytest

from holdfast.core.integrity.segments import folder_of, name_of, pack_segment, range_in, salvage, unpack_segment
from holdfast.ports import Blobs, Store
from holdfast.runtime.sessions.transfer import (
    export_session,
    import_lines,
    is_exported_session,
    lines_of,
    verified_origin,
)
from holdfast.stores.blobs import FolderBlobs
from holdfast.stores.memory import MemoryBlobs, MemoryStore
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.builders import ManualClock
from holdfast.types.messages import BlobRef
from holdfast.types.records import Logged, decode_record
from tests.golden.blobs import CONTENTS
from tests.golden.files import FOLDER, read_json, read_lines
from tests.golden.listing import line_of
from tests.golden.script import LOG, SESSION
from tests.golden.sqlite_files import SEALED_UNTIL

EXPORT = FOLDER / "export.jsonl"
(SEGMENT,) = [path for path in (FOLDER / "archive").rglob("*") if path.is_file()]


def _place(kind: str, folder: Path) -> tuple[Store, Blobs]:
    if kind == "memory":
        return MemoryStore(clock=ManualClock()), MemoryBlobs()
    return SqliteStore(folder / "s.db", clock=ManualClock()), FolderBlobs(folder / "blobs")


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_an_exported_session_is_imported_whole_and_exported_as_the_same_bytes(kind: str, tmp_path: Path) -> None:
    store, blobs = _place(kind, tmp_path)

    copied = await import_lines(lines_of(EXPORT), store, blobs)
    found = [line_of(logged).encode() for logged in await store.read(SESSION)]
    contents = {ref.sha256: await blobs.get(ref) for ref in await store.blob_refs(SESSION)}
    again = b"".join([line async for line in export_session(store, blobs, SESSION)])
    await store.close()

    assert (copied.session, copied.origin, copied.records, copied.blobs) == (SESSION, SESSION, len(LOG), len(CONTENTS))
    assert found == read_lines("log.jsonl")
    assert contents == CONTENTS
    assert again == EXPORT.read_bytes()


def test_an_exported_file_is_known_by_its_beginning_and_found_whole() -> None:
    assert is_exported_session(EXPORT.read_bytes())
    assert verified_origin(EXPORT) == SESSION


async def test_a_blob_of_an_exported_session_is_kept_under_its_own_name() -> None:
    store, blobs = MemoryStore(clock=ManualClock()), MemoryBlobs()
    await import_lines(lines_of(EXPORT), store, blobs, key="another")

    assert {name: await blobs.get(BlobRef(name, len(content))) for name, content in CONTENTS.items()} == CONTENTS


def test_a_segment_has_the_records_that_were_sealed() -> None:
    header, rows = unpack_segment(SEGMENT.read_bytes())

    lines = [line_of(Logged(row.seq, row.at, decode_record(row.body))) for row in rows]
    assert lines == read_json("store_logs.json")[SESSION][:SEALED_UNTIL]
    assert [row.body for row in rows] == [bytes(msgspec.json.decode(line, type=_Raw).record) for line in lines]
    assert (header.version, header.session, header.first, header.last) == (1, SESSION, 1, SEALED_UNTIL)
    assert salvage(SEGMENT.read_bytes()) == rows


class _Raw(msgspec.Struct):
    record: msgspec.Raw


def test_a_segment_has_the_name_that_it_had() -> None:
    name, digest = SEGMENT.relative_to(FOLDER / "archive").as_posix(), sha256(SEGMENT.read_bytes()).hexdigest()

    assert name == name_of(SESSION, 1, SEALED_UNTIL, digest)
    assert range_in(name) == (1, SEALED_UNTIL, digest)
    assert name.startswith(folder_of(SESSION))


def test_a_segment_that_is_packed_today_unpacks_to_the_same() -> None:
    header, rows = unpack_segment(SEGMENT.read_bytes())

    # Compressed bytes may differ from one zlib to the next.
    assert unpack_segment(pack_segment(SESSION, rows))[1] == rows
    assert header.frames[0].first == 1
