"""Layouts: every past one becomes the newest, whole or not at all, and can be read before it does."""

from contextlib import closing
from pathlib import Path

import apsw
import pytest

from holdfast.errors import StoreVersionError
from holdfast.ports import Hit, SessionFilter, SessionOrder
from holdfast.stores.sqlite import SqliteStore
from holdfast.stores.sqlite import file as sqlite_file
from holdfast.stores.sqlite.read_only import SqliteView
from holdfast.testing.builders import ManualClock, a_notice, an_input, lease_on, log_of
from holdfast.types.records import encode_record
from tests.stores.older import WITH_LABELS, a_store_of_layout, fill, schema_of
from tests.stores.places import names_in

NEWEST = sqlite_file.migrations()[-1][0]
PAST = range(1, NEWEST)
# The layout that brought references to blobs.
WITH_BLOBS = 6
RECORDS = (an_input("written long ago", client_id="c"), a_notice("and this"))


def opened(path: Path) -> SqliteStore:
    return SqliteStore(path, clock=ManualClock())


def layout(path: Path) -> int:
    with closing(apsw.Connection(str(path))) as db:
        version: int = db.execute("PRAGMA user_version").get
    return version


@pytest.mark.parametrize("version", PAST)
async def test_a_store_of_any_past_layout_becomes_what_a_fresh_one_is_and_keeps_its_log(
    tmp_path: Path, version: int
) -> None:
    await opened(tmp_path / "fresh.db").close()
    path = a_store_of_layout(version, tmp_path / "s.db")
    fill(path, *RECORDS)

    store = opened(path)
    records = await log_of(store)
    await store.close()

    assert (schema_of(path), layout(path)) == (schema_of(tmp_path / "fresh.db"), NEWEST)
    assert records == list(RECORDS)


@pytest.mark.parametrize("version", PAST)
async def test_a_store_with_contents_is_copied_before_its_layout_changes(tmp_path: Path, version: int) -> None:
    path = a_store_of_layout(version, tmp_path / "s.db")
    fill(path, *RECORDS)
    before = schema_of(path)

    await opened(path).close()
    await opened(path).close()

    copy = tmp_path / f"s.db-layout-{version}"
    assert names_in(tmp_path) == ["s.db", copy.name, "s.db-reserve"]
    assert (schema_of(copy), layout(copy), copy.stat().st_mode & 0o077) == (before, version, 0)
    with closing(apsw.Connection(str(copy))) as db:
        assert [body for (body,) in db.execute("SELECT body FROM records")] == [encode_record(one) for one in RECORDS]


async def test_an_empty_store_is_not_copied(tmp_path: Path) -> None:
    path = a_store_of_layout(1, tmp_path / "s.db")

    await opened(path).close()

    assert names_in(tmp_path) == ["s.db", "s.db-reserve"]


@pytest.mark.parametrize("step", PAST)
async def test_a_step_that_fails_leaves_the_layout_before_it_and_the_next_start_goes_on(
    tmp_path: Path, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = a_store_of_layout(1, tmp_path / "s.db")
    fill(path, *RECORDS)
    whole = sqlite_file.migrations()
    broken = [(number, sql + ("; SELECT * FROM nowhere" if number == step + 1 else "")) for number, sql in whole]
    monkeypatch.setattr(sqlite_file, "migrations", lambda: broken)
    with pytest.raises(Exception, match="nowhere"):
        opened(path)
    assert layout(path) == step

    monkeypatch.setattr(sqlite_file, "migrations", lambda: whole)
    store = opened(path)

    assert (layout(path), await log_of(store)) == (NEWEST, list(RECORDS))
    await store.close()


@pytest.mark.parametrize("version", PAST)
async def test_sessions_of_a_past_layout_are_listed_with_titles_after_the_migration(
    tmp_path: Path, version: int
) -> None:
    path = a_store_of_layout(version, tmp_path / "s.db")
    fill(path, *RECORDS)
    store = opened(path)

    for order in SessionOrder:
        (listed,) = (await store.list_sessions(SessionFilter(), order=order)).sessions
        assert (listed.key, listed.title, listed.last_seq) == ("s", "written long ago", 2)
    await store.close()


@pytest.mark.parametrize("version", PAST)
async def test_a_store_of_a_past_layout_is_read_as_it_is(tmp_path: Path, version: int) -> None:
    path = a_store_of_layout(version, tmp_path / "s.db")
    fill(path, *RECORDS)
    before = schema_of(path)
    store = SqliteView(path)

    known = await store.info("s")
    assert known is not None
    assert (known.last_seq, await log_of(store), await store.read("s", after=2)) == (2, list(RECORDS), [])
    assert await store.pending() == ["s"]
    assert [(hit.seq, hit.excerpt) for hit in await store.search("s", "long ago")] == [(1, "written long ago")]
    assert (await store.segments("s"), await store.quarantine("s"), (await store.check_rows("s")).bad) == ([], [], ())
    assert (await store.blob_refs("s"), await store.unscanned_sessions()) == ([], ["s"] if version < WITH_BLOBS else [])
    for order in SessionOrder:
        page = await store.list_sessions(SessionFilter(), order=order)
        title = "written long ago" if version >= WITH_LABELS else ""
        assert [(one.key, one.title, one.tags) for one in page.sessions] == [("s", title, ())]
    with pytest.raises(StoreVersionError, match="open read-only"):
        await store.admit("s", an_input())
    with pytest.raises(StoreVersionError, match="open read-only"):
        await lease_on(store)
    await store.close()

    assert (schema_of(path), layout(path)) == (before, version)


async def test_a_store_of_a_newer_layout_is_not_looked_at_either(tmp_path: Path) -> None:
    path = a_store_of_layout(1, tmp_path / "s.db")
    with closing(apsw.Connection(str(path))) as db:
        db.execute(f"PRAGMA user_version = {NEWEST + 1}")

    with pytest.raises(StoreVersionError, match="install the version that wrote it"):
        SqliteView(path)


async def test_a_question_to_a_view_finds_tool_steps_too(tmp_path: Path) -> None:
    path = a_store_of_layout(2, tmp_path / "s.db")
    fill(path, an_input("where is the harbour?"))
    store = SqliteView(path)

    hits = await store.search("s", "harbour")

    assert [type(hit) for hit in hits] == [Hit]
    await store.close()
