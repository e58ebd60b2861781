"""PostgreSQL stores of every layout: all that was kept comes out."""

import pytest

from holdfast.runtime.engine.log import open_log
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.postgres import migrations as layout
from holdfast.stores.postgres.blobs import PostgresBlobs
from holdfast.types.messages import BlobRef
from tests.golden.blobs import CONTENTS
from tests.golden.derived import values_of
from tests.golden.files import FOLDER, read_json, without_comments
from tests.golden.postgres_rows import load_postgres, postgres_listing, step_text
from tests.golden.script import SESSION
from tests.golden.sqlite_files import LATER, SNAPSHOT_AT, folded
from tests.stores.postgres_server import on

LOGS = read_json("store_logs.json")
LISTINGS = read_json("postgres_listings.json")
LAYOUTS = [number for number, _ in layout.migrations()]
# The first layout that has blobs.
_BLOBS = 3


def test_every_layout_has_a_golden_store() -> None:
    assert [int(number) for number in LISTINGS] == LAYOUTS


@pytest.mark.parametrize(("number", "sql"), layout.migrations(), ids=lambda one: one if isinstance(one, int) else "")
def test_a_step_from_layout_to_layout_never_changes(number: int, sql: str) -> None:
    stored = (FOLDER / f"postgres_step_{number}.sql").read_text(encoding="utf-8")

    assert without_comments(step_text(number, sql)) == without_comments(stored)


@pytest.mark.parametrize("number", LAYOUTS)
async def test_a_store_of_any_layout_gives_back_all_that_it_kept(bare_postgres_url: str, number: int) -> None:
    await on(bare_postgres_url, lambda db: load_postgres(db, number))

    assert await postgres_listing(bare_postgres_url, LOGS) == LISTINGS[str(number)]


async def test_a_session_with_a_kept_snapshot_stands_where_its_records_say(bare_postgres_url: str) -> None:
    await on(bare_postgres_url, lambda db: load_postgres(db, LAYOUTS[0]))
    store = PostgresStore(bare_postgres_url)

    kept, opened = await store.load_snapshot(SESSION), await open_log(store, SESSION)
    from_the_start = folded(tuple(await store.read(SESSION)))
    await store.close()

    assert kept is not None
    assert kept.seq == SNAPSHOT_AT
    assert values_of(opened.turn, LATER) == values_of(from_the_start.turn, LATER)
    assert (opened.turn, opened.wounds, opened.against_snapshot) == (from_the_start.turn, {}, "")


async def test_blobs_in_a_database_are_found_under_their_names(bare_postgres_url: str) -> None:
    await on(bare_postgres_url, lambda db: load_postgres(db, _BLOBS))
    store = PostgresStore(bare_postgres_url)
    blobs = PostgresBlobs(store.connections)

    found = {name: await blobs.get(BlobRef(name, len(content))) for name, content in CONTENTS.items()}
    await store.close()

    assert found == CONTENTS
