"""Sessions are indexed before somebody searches them, in the time that is left."""

import asyncio
from functools import partial
from pathlib import Path

import apsw

from holdfast.errors import StoreBusyError
from holdfast.gateway.health import Indexer
from holdfast.ports import Hit, SessionInfo
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.engine.learning import LEARNED_KEY
from holdfast.stores.memory import MemoryStore
from holdfast.stores.sqlite import SqliteStore
from holdfast.stores.sqlite import search as searching
from holdfast.testing.builders import ManualClock
from holdfast.types.messages import Text
from holdfast.types.records import InputAdmitted, Logged


class _NoTime(ManualClock):
    """A clock whose pauses take no time, and are remembered."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await asyncio.sleep(0)


class _Searched(MemoryStore):
    """Remembers what was searched, and is busy as often as a test says."""

    def __init__(self, busy: int = 0) -> None:
        super().__init__(clock=SystemClock())
        self.searched: list[str] = []
        self.was_searched = asyncio.Event()
        self._busy = busy

    async def search(self, session: str, query: str, *, limit: int = 10) -> list[Hit]:
        self.searched.append(session)
        self.was_searched.set()
        return await super().search(session, query, limit=limit)

    async def sessions(self, *, after: str = "", limit: int = 100) -> list[SessionInfo]:
        if self._busy:
            self._busy -= 1
            raise StoreBusyError("busy")
        return await super().sessions(after=after, limit=limit)


def _said(text: str) -> InputAdmitted:
    return InputAdmitted((Text(text),), "", None)


async def _unindexed(store: SqliteStore, count: int) -> list[str]:
    keys = [f"s:{number}" for number in range(count)]
    return [key for key in keys if await store._read(partial(searching.next_slice, session=key)) is not None]


async def test_after_a_round_nothing_is_left_for_a_search_to_index(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db", clock=SystemClock())
    for number in range(20):
        await store.admit(f"s:{number}", _said(f"the narwhal number{number}"))
    waiting = await _unindexed(store, 20)

    indexed = await Indexer(store, _NoTime()).index_all()

    left = await _unindexed(store, 20)
    assert (len(waiting), indexed, left) == (20, 20, [])
    await store.close()


async def test_the_newest_session_comes_first_and_one_without_news_is_not_looked_at_again() -> None:
    store, clock = _Searched(), _NoTime()
    indexer = Indexer(store, clock)
    for key in ("b", "c", "a", LEARNED_KEY):
        await store.admit(key, _said("hello"))

    first = await indexer.index_all()
    await store.admit("b", _said("again"))
    second = await indexer.index_all()

    assert (first, second) == (3, 1)
    assert store.searched == ["a", "c", "b", "b"]
    # After some of them it pauses for longer than it worked.
    assert len(clock.pauses) == 2
    assert all(pause > 0 for pause in clock.pauses)


async def test_a_store_that_is_busy_is_looked_at_again_and_one_that_stops_ends_it() -> None:
    store, clock = _Searched(busy=2), _NoTime()
    await store.admit("a", _said("hello"))
    indexing = asyncio.create_task(Indexer(store, clock).run())
    await store.was_searched.wait()
    await store.close()

    await asyncio.wait_for(indexing, 60)

    # Thirty short pauses between two passes over all sessions.
    assert clock.pauses[:60] == [2.0] * 60
    assert store.searched == ["a"]


async def test_records_of_this_process_are_indexed_without_a_pass_over_all_sessions() -> None:
    store, clock = _Searched(), _NoTime()
    indexer = Indexer(store, clock)
    for key in ("a", "b", LEARNED_KEY):
        admitted = await store.admit(key, _said("hello"))
        if key != "a":
            indexer.observe(key, Logged(admitted.seq, 0.0, _said("hello")))

    assert (await indexer.index_written(), await indexer.index_written()) == (1, 0)
    # Of the session that another process wrote, the pass over all sessions takes care.
    assert store.searched == ["b"]
    assert (await indexer.index_all(), store.searched) == (1, ["b", "a"])


async def test_an_index_that_was_written_in_pieces_is_merged_before_sessions_are_looked_up(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db", clock=SystemClock())
    for number in range(40):
        await store.admit(f"s:{number}", _said(f"the narwhal number{number}"))
        await store.search(f"s:{number}", "narwhal")
    pieces = await store._read(_segments)
    known = await store.sessions(limit=100)

    found = await store.candidates(known, "number7")

    merged = await store._read(_segments)
    # "number" is a word of all of them.
    assert len(found) == 40
    assert await store.candidates(known, "absent") == []
    assert pieces > 2 >= merged
    await store.close()


def _segments(db: apsw.Connection) -> int:
    return int(db.execute("SELECT count(DISTINCT segid) FROM search_words_idx").get)
