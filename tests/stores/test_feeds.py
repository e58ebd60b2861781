"""Feeds in memory of the process: nobody is woken for nothing, and nothing is kept for a feed that was dropped."""

import asyncio
import gc

from holdfast.stores.feeds import FEED_PAGE, Feed, FeedRegistry, NewRow
from holdfast.testing.builders import a_notice
from holdfast.types.records import Logged, encode_record


class Log:
    """Records to be fed, and how often they were asked for."""

    def __init__(self) -> None:
        self.logged: list[Logged] = []
        self.reads = 0

    def add(self, count: int) -> None:
        first = len(self.logged) + 1
        self.logged += [Logged(seq, 0.0, a_notice(str(seq))) for seq in range(first, first + count)]

    async def read_page(self, _session: str, after: int, limit: int) -> list[Logged]:
        self.reads += 1
        return self.logged[after : after + limit]


async def test_a_feed_reads_whole_pages_and_no_more_often_than_needed() -> None:
    log, registry = Log(), FeedRegistry()
    log.add(2 * FEED_PAGE + 1)
    feed = Feed(registry, "s", 0, log.read_page)

    seqs = [(await anext(feed)).seq for _ in range(2 * FEED_PAGE + 1)]
    waiting = asyncio.ensure_future(anext(feed))
    await asyncio.sleep(0)

    assert (seqs, log.reads, registry.waiting_count) == (list(range(1, 2 * FEED_PAGE + 2)), 3, 1)
    log.add(1)
    registry.wake(["s"])
    assert ((await waiting).seq, log.reads, registry.waiting_count) == (2 * FEED_PAGE + 2, 4, 0)


async def test_a_record_that_comes_during_a_read_is_not_missed() -> None:
    log, registry = Log(), FeedRegistry()

    async def read_and_miss(_session: str, after: int, limit: int) -> list[Logged]:
        page = await log.read_page("s", after, limit)
        if not log.logged:
            log.add(1)
            registry.wake(["s"])
        return page

    feed = Feed(registry, "s", 0, read_and_miss)

    assert (await anext(feed)).seq == 1


async def test_a_feed_dropped_without_closing_leaves_no_trace() -> None:
    registry = FeedRegistry()
    kept = Feed(registry, "kept", 3, Log().read_page)
    dropped = Feed(registry, "dropped", 0, Log().read_page)
    before = registry.positions()

    del dropped
    gc.collect()

    assert (before, registry.positions()) == ({"kept": 3, "dropped": 0}, {"kept": 3})
    await kept.aclose()
    assert registry.positions() == {}


async def test_the_lowest_position_of_a_sessions_feeds_counts() -> None:
    registry = FeedRegistry()
    feeds = [Feed(registry, "s", after, Log().read_page) for after in (7, 2, 5)]

    assert registry.positions() == {"s": 2}
    for feed in feeds:
        await feed.aclose()
        await feed.aclose()


async def test_the_first_that_waits_is_announced() -> None:
    registry, log, announced = FeedRegistry(), Log(), asyncio.Event()
    registry.on_first_wait = announced.set
    feed = Feed(registry, "s", 0, log.read_page)
    waiting = asyncio.ensure_future(anext(feed, None))

    await announced.wait()

    registry.close()
    assert await waiting is None


def fresh(log: Log, count: int) -> dict[str, list[NewRow]]:
    """Add records, and return them as a store tells of them that has just written them."""
    log.add(count)
    return {"s": [(one.seq, one.at, encode_record(one.record)) for one in log.logged[-count:]]}


async def test_a_feed_that_has_come_so_far_takes_what_was_just_written_without_reading() -> None:
    log, registry = Log(), FeedRegistry()
    log.add(1)
    feed = Feed(registry, "s", 0, log.read_page)
    first = await anext(feed)
    waiting = asyncio.ensure_future(anext(feed))
    await asyncio.sleep(0)

    registry.deliver(fresh(log, 2))
    fed = [first, await waiting, await anext(feed)]
    waiting = asyncio.ensure_future(anext(feed))
    await asyncio.sleep(0)
    registry.deliver(fresh(log, 1))
    fed.append(await waiting)

    assert (fed, log.reads, registry.positions()) == (log.logged, 1, {"s": 4})


async def test_a_feed_that_missed_a_record_reads_instead_of_taking_the_one_behind_it() -> None:
    log, registry = Log(), FeedRegistry()
    feed = Feed(registry, "s", 0, log.read_page)
    waiting = asyncio.ensure_future(anext(feed))
    await asyncio.sleep(0)

    # Another process has written the first of these.
    log.add(1)
    registry.deliver(fresh(log, 1))

    assert [await waiting, await anext(feed)] == log.logged
    assert log.reads == 2


async def test_what_is_written_while_a_feed_reads_is_fed_once() -> None:
    log, registry = Log(), FeedRegistry()

    async def read_and_be_told(_session: str, after: int, limit: int) -> list[Logged]:
        if not log.logged:
            registry.deliver(fresh(log, 1))
        return await log.read_page("s", after, limit)

    feed = Feed(registry, "s", 0, read_and_be_told)
    one = await anext(feed)
    waiting = asyncio.ensure_future(anext(feed))
    for _ in range(3):
        await asyncio.sleep(0)
    registry.deliver(fresh(log, 1))

    assert [one, await waiting] == log.logged


async def test_the_backlog_of_a_slow_reader_stays_in_the_store() -> None:
    log, registry = Log(), FeedRegistry()
    feed = Feed(registry, "s", 0, log.read_page)
    waiting = asyncio.ensure_future(anext(feed))
    await asyncio.sleep(0)

    for _ in range(3 * FEED_PAGE):
        registry.deliver(fresh(log, 1))
    held = feed.position
    fed = [await waiting] + [await anext(feed) for _ in range(3 * FEED_PAGE - 1)]

    assert (held, fed) == (FEED_PAGE, log.logged)
