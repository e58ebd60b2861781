"""The search index of a SQLite store: made when it is needed, in slices, once."""

import asyncio
from pathlib import Path

import apsw
import pytest

from holdfast.core.limits.bounds import Bounds
from holdfast.stores.sqlite import SqliteStore
from holdfast.stores.sqlite import search as sqlite_search
from holdfast.testing.builders import ManualClock, a_notice, a_reply, an_input, lease_on
from holdfast.types.messages import Text
from holdfast.types.records import InputAdmitted
from tests.stores.older import a_store_of_layout, fill

ALL_WORDS = "SELECT count(*) FROM search_rows"


def opened(path: Path) -> SqliteStore:
    return SqliteStore(path, clock=ManualClock(), bounds=Bounds())


def asked(path: Path, sql: str) -> object:
    """Ask the file itself; no store has it open."""
    db = apsw.Connection(str(path))
    try:
        return db.execute(sql).get
    finally:
        db.close()


async def test_appending_writes_nothing_to_the_index_and_searching_does(tmp_path: Path) -> None:
    store = opened(tmp_path / "s.db")
    await store.admit("s", an_input("hello"))
    await store.admit("other", an_input("hello"))
    await store.close()
    assert asked(tmp_path / "s.db", ALL_WORDS) == 0

    store = opened(tmp_path / "s.db")
    await store.search("s", "hello")
    await store.close()

    assert asked(tmp_path / "s.db", ALL_WORDS) == 1


async def test_a_store_from_before_there_was_an_index_is_found_through_when_first_searched(tmp_path: Path) -> None:
    path = a_store_of_layout(1, tmp_path / "s.db")
    fill(path, an_input("written long ago"))

    store = opened(path)
    hits = await store.search("s", "long ago")
    await store.close()

    assert [hit.excerpt for hit in hits] == ["written long ago"]


async def test_an_index_that_was_emptied_is_made_again(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    store = opened(path)
    await store.admit("s", an_input("hello"))
    before = await store.search("s", "hello")
    await store.close()
    db = apsw.Connection(str(path))
    db.execute("DELETE FROM search_marks; DELETE FROM search_rows; DELETE FROM search_words")
    db.close()

    store = opened(path)
    again = await store.search("s", "hello")
    await store.close()

    assert again == before


async def test_a_long_log_is_indexed_slice_by_slice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_search, "SLICE_RECORDS", 7)
    monkeypatch.setattr(sqlite_search, "SLICE_BYTES_MAX", 1_000)
    store = opened(tmp_path / "s.db")
    lease = await lease_on(store)
    replies = [a_reply(f"pebble {'x' * (400 * (number % 5))}") for number in range(40)]
    await store.append(lease, [record for reply in replies for record in (reply, a_notice())], after=0)

    first = await store.search("s", "pebble", limit=100)
    commits = store.commits
    again = await store.search("s", "pebble", limit=100)

    assert sorted(hit.seq for hit in first) == list(range(1, 80, 2))
    assert again == first
    assert store.commits == commits
    await store.close()


async def test_searches_at_the_same_time_index_each_record_once(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    stores = [opened(path), opened(path)]
    lease = await lease_on(stores[0])
    await stores[0].append(lease, [a_reply(f"pebble {number}") for number in range(300)], after=0)

    answers = await asyncio.gather(*(store.search("s", "pebble 7", limit=3) for store in stores * 4))

    assert all(answer == answers[0] for answer in answers)
    await asyncio.gather(*(store.close() for store in stores))
    assert asked(path, ALL_WORDS) == 300


async def test_words_of_a_session_do_not_reach_one_whose_number_begins_alike(tmp_path: Path) -> None:
    store = opened(tmp_path / "s.db")
    for number in range(1, 13):
        await store.admit(f"s{number}", InputAdmitted((Text(f"zebra of session {number}"),)))

    for number in range(1, 13):
        [hit] = await store.search(f"s{number}", "zebra")
        assert hit.excerpt == f"zebra of session {number}"
    await store.close()


async def test_a_slice_of_a_long_log_does_not_read_the_rest_of_it(tmp_path: Path) -> None:
    await opened(tmp_path / "s.db").close()
    db = apsw.Connection(str(tmp_path / "s.db"))

    steps = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {sqlite_search._SELECT_SIZES}", (1, 0, 200))]
    db.close()

    assert steps[0] == "MERGE (UNION ALL)"
    # The table of recent records is small, and is read through; that of all others never is.
    assert [step for step in steps if "SCAN" in step] == ["SCAN recent"]
    assert [step.split(" USING")[0] for step in steps if "records" in step] == ["SEARCH records"]
    assert steps.index("SCAN recent") < next(place for place, step in enumerate(steps) if "B-TREE" in step)
