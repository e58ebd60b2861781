"""SQLite stores of every layout: all that was kept comes out."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.runtime.engine.log import open_log
from holdfast.stores.archived import ArchivedStore
from holdfast.stores.archives import FolderArchive
from holdfast.stores.blobs import FolderBlobs
from holdfast.stores.sqlite import SqliteStore
from holdfast.stores.sqlite.read_only import SqliteView
from holdfast.testing.builders import ManualClock
from holdfast.types.messages import BlobRef
from tests.golden.blobs import CONTENTS
from tests.golden.derived import values_of
from tests.golden.files import FOLDER, read_json, without_comments
from tests.golden.listing import line_of, listing
from tests.golden.script import SESSION
from tests.golden.sqlite_files import LATER, LAYOUTS, SNAPSHOT_AT, folded, load
from tests.stores.older import schema_of

LOGS = read_json("store_logs.json")
LISTINGS = read_json("sqlite_listings.json")


def golden(layout: int, folder: Path) -> Path:
    """Return the store of a layout as an earlier version left it."""
    sql = (FOLDER / f"sqlite_layout_{layout}.sql").read_text(encoding="utf-8")
    return load(sql, folder / "s.db")


def schema(path: Path) -> list[str]:
    """Return all that a file's layout consists of."""
    return [without_comments("\n".join(map(str, row))) for row in schema_of(path)]


@pytest.fixture
def archive(tmp_path: Path) -> FolderArchive:
    shutil.copytree(FOLDER / "archive", tmp_path / "archive")
    return FolderArchive(tmp_path / "archive")


@pytest.fixture(params=LAYOUTS)
async def store(request: pytest.FixtureRequest, tmp_path: Path, archive: FolderArchive) -> AsyncIterator[ArchivedStore]:
    store = ArchivedStore(SqliteStore(golden(request.param, tmp_path), clock=ManualClock(LATER)), archive)
    yield store
    await store.close()


def test_every_layout_has_a_golden_store() -> None:
    assert [int(layout) for layout in LISTINGS] == list(LAYOUTS)


@pytest.mark.parametrize("layout", LAYOUTS)
async def test_a_store_of_any_layout_gives_back_all_that_it_kept(
    tmp_path: Path, archive: FolderArchive, layout: int
) -> None:
    store = ArchivedStore(SqliteStore(golden(layout, tmp_path), clock=ManualClock(LATER)), archive)

    found = await listing(store, LOGS)
    await store.close()

    assert found == LISTINGS[str(layout)]


@pytest.mark.parametrize("layout", LAYOUTS)
async def test_a_store_of_any_layout_gives_the_same_records_to_whoever_only_looks(
    tmp_path: Path, archive: FolderArchive, layout: int
) -> None:
    store = ArchivedStore(SqliteView(golden(layout, tmp_path)), archive)

    found = {key: [line_of(logged) for logged in await store.read(key)] for key in LOGS}
    await store.close()

    for key, lines in LOGS.items():
        differing = LISTINGS[str(layout)]["differing"][key]
        count = max([len(lines), *map(int, differing)])
        expected = [differing.get(str(number)) or lines[number - 1] for number in range(1, count + 1)]
        assert found[key] == expected


@pytest.mark.parametrize("layout", LAYOUTS)
async def test_a_store_of_any_layout_becomes_what_a_fresh_one_is(tmp_path: Path, layout: int) -> None:
    await SqliteStore(tmp_path / "fresh.db", clock=ManualClock()).close()
    path = golden(layout, tmp_path)

    await SqliteStore(path, clock=ManualClock(LATER)).close()

    assert schema(path) == schema(tmp_path / "fresh.db")


async def test_a_session_with_a_kept_snapshot_stands_where_its_records_say(store: ArchivedStore) -> None:
    """A fold that an earlier version kept is used as it was meant, or not at all."""
    kept = await store.load_snapshot(SESSION)
    assert kept is not None
    assert kept.seq == SNAPSHOT_AT

    opened = await open_log(store, SESSION)

    from_the_start = folded(tuple(await store.read(SESSION)))
    assert values_of(opened.turn, LATER) == values_of(from_the_start.turn, LATER)
    assert (opened.turn, opened.wounds, opened.against_snapshot) == (from_the_start.turn, {}, "")


async def test_blobs_in_a_folder_are_found_under_their_names(tmp_path: Path) -> None:
    shutil.copytree(FOLDER / "blobs", tmp_path / "blobs")
    blobs = FolderBlobs(tmp_path / "blobs")

    found = {name: await blobs.get(BlobRef(name, len(content))) for name, content in CONTENTS.items()}

    assert found == CONTENTS


async def test_a_blob_that_is_put_today_lies_where_it_lay(tmp_path: Path) -> None:
    blobs = FolderBlobs(tmp_path / "blobs")
    for content in CONTENTS.values():
        await blobs.put(content)

    places = {path.relative_to(tmp_path) for path in (tmp_path / "blobs").rglob("*") if path.is_file()}

    assert places == {path.relative_to(FOLDER) for path in (FOLDER / "blobs").rglob("*") if path.is_file()}
