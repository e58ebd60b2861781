"""Feeds: every record behind a place, in order, each once, as it comes."""

import asyncio

import pytest

from holdfast.core.records import Logged
from holdfast.errors import StoppingError
from holdfast.ports import Feed, Store
from holdfast.testing.builders import a_notice, an_input
from holdfast.testing.store_promises import StorePromises, lease_on


async def take(feed: Feed, count: int) -> list[Logged]:
    """Return the next records of a feed."""
    return [await anext(feed) for _ in range(count)]


class FeedPromises(StorePromises):
    """Promises of `feed` and `close`."""

    async def test_a_feed_yields_what_is_there_and_then_what_comes(self, store: Store) -> None:
        await store.admit("s", an_input("before"))
        feed = store.feed("s")
        assert [each.record for each in await take(feed, 1)] == [an_input("before")]
        waiting = asyncio.create_task(take(feed, 2))

        await store.admit("s", an_input("while waiting"))
        await store.admit("s", an_input("later"))

        assert await waiting == (await store.read("s"))[1:]
        await feed.aclose()

    async def test_a_feed_may_start_anywhere(self, store: Store) -> None:
        lease = await lease_on(store)
        await store.append(lease, [a_notice(str(number)) for number in range(1, 6)], after=0)
        everything = await store.read("s")

        for after in range(5):
            feed = store.feed("s", after=after)
            assert await take(feed, 5 - after) == everything[after:]
            await feed.aclose()

    async def test_a_feed_of_a_session_that_does_not_exist_waits_for_it(self, store: Store) -> None:
        feed = store.feed("later")
        waiting = asyncio.create_task(take(feed, 1))
        await store.admit("another", an_input("not for this feed"))

        await store.admit("later", an_input("first"))

        assert [each.record for each in await waiting] == [an_input("first")]
        await feed.aclose()

    async def test_a_feed_that_starts_ahead_of_the_log_waits_for_that_place(self, store: Store) -> None:
        feed = store.feed("s", after=2)
        waiting = asyncio.create_task(take(feed, 1))

        for text in ("one", "two", "three"):
            await store.admit("s", an_input(text))

        assert [(each.seq, each.record) for each in await waiting] == [(3, an_input("three"))]
        await feed.aclose()

    async def test_nothing_is_missed_or_doubled_while_many_append(self, store: Store) -> None:
        sessions = [f"s{number}" for number in range(4)]
        rounds = 60
        feeds = [store.feed(session, after=after) for session in sessions for after in (0, 25)]
        readers = [
            asyncio.create_task(take(feed, 2 * rounds - feed_after))
            for feed, feed_after in zip(feeds, [0, 25] * 4, strict=True)
        ]

        async def work(session: str) -> None:
            lease, seq = await lease_on(store, session), 0
            for number in range(rounds):
                seq = await store.append(lease, [a_notice(f"{session} {number}"), a_notice("second")], after=seq)

        await asyncio.gather(*(work(session) for session in sessions))

        got = await asyncio.gather(*readers)
        for index, session in enumerate(sessions):
            log = await store.read(session)
            assert [got[2 * index], got[2 * index + 1]] == [log, log[25:]]
        for feed in feeds:
            await feed.aclose()

    async def test_a_long_log_is_fed_whole(self, store: Store) -> None:
        lease = await lease_on(store)
        await store.append(lease, [a_notice(str(number)) for number in range(1_001)], after=0)
        feed = store.feed("s")

        fed = await take(feed, 1_001)

        assert fed == await store.read("s")
        await feed.aclose()

    async def test_a_wait_that_was_cancelled_loses_nothing(self, store: Store) -> None:
        feed = store.feed("s")
        impatient = asyncio.create_task(take(feed, 1))
        await store.admit("other", an_input("gives the feed time to wait"))
        impatient.cancel()
        with pytest.raises(asyncio.CancelledError):
            await impatient

        await store.admit("s", an_input("after all"))

        assert [each.record for each in await take(feed, 1)] == [an_input("after all")]
        await feed.aclose()

    async def test_a_closed_feed_ends_for_the_task_that_waits_in_it(self, store: Store) -> None:
        feed = store.feed("s")
        waiting = asyncio.create_task(_all_of(feed))
        await store.admit("s", an_input("seen"))
        await store.admit("other", an_input("gives the feed time to wait"))

        await feed.aclose()

        assert [each.record for each in await waiting] in ([an_input("seen")], [])

    async def test_closing_the_store_ends_its_feeds(self, store: Store) -> None:
        await store.admit("s", an_input("seen"))
        waiting = [asyncio.create_task(_all_of(store.feed("s"))) for _ in range(3)]
        ready = store.feed("s")
        await take(ready, 1)

        await store.close()

        assert [
            [each.record for each in log] in ([an_input("seen")], []) for log in await asyncio.gather(*waiting)
        ] == [True] * 3
        assert await _all_of(ready) == []

    async def test_a_closed_store_finishes_what_was_asked_and_takes_nothing_more(self, store: Store) -> None:
        asked = [asyncio.ensure_future(store.admit("s", an_input(str(number)))) for number in range(10)]
        await asyncio.sleep(0)

        await store.close()
        await store.close()

        assert sorted(admission.seq for admission in await asyncio.gather(*asked)) == list(range(1, 11))
        with pytest.raises(StoppingError):
            await store.admit("s", an_input("late"))
        with pytest.raises(StoppingError):
            await store.read("s")


async def _all_of(feed: Feed) -> list[Logged]:
    return [each async for each in feed]
