"""Promises of the `Log` port about leases and feeds."""

import asyncio
import math

import pytest

from holdfast.errors import BadInputError, LeaseLostError, StoppingError
from holdfast.ports import Feed, Lease, Log
from holdfast.testing.builders import ManualClock, StorePromises, a_notice, an_input, lease_on, log_of
from holdfast.types.records import Logged


class LeasePromises(StorePromises):
    """`acquire`, `renew` and `release`: one worker at a time, and a stale one writes nothing."""

    async def test_a_free_session_can_be_taken_before_it_has_records(self, store: Log, clock: ManualClock) -> None:
        lease = await store.acquire("s", "a", seconds=30)

        assert lease is not None
        assert lease == Lease(session="s", owner="a", fence=lease.fence, expires_at=clock.now() + 30)
        assert await store.info("s") is None

    async def test_nobody_else_gets_a_lease_that_is_held(self, store: Log, clock: ManualClock) -> None:
        held = await lease_on(store, owner="a", seconds=30)
        clock.advance(29.9)

        assert await store.acquire("s", "b", seconds=30) is None

        assert await store.append(held, [a_notice()], after=0) == 1

    async def test_of_many_that_ask_at_once_one_gets_it(self, store: Log) -> None:
        got = await asyncio.gather(*(store.acquire("s", f"worker {number}", seconds=30) for number in range(10)))

        assert sum(lease is not None for lease in got) == 1

    async def test_a_lease_on_one_session_says_nothing_of_another(self, store: Log) -> None:
        await lease_on(store, "s", "a")

        assert await store.acquire("t", "b", seconds=30) is not None

    async def test_an_expired_lease_can_be_taken_and_the_old_holder_is_fenced_off(
        self, store: Log, clock: ManualClock
    ) -> None:
        old = await lease_on(store, owner="a", seconds=30)
        clock.advance(30)

        taken = await lease_on(store, owner="b")

        assert taken.fence > old.fence
        with pytest.raises(LeaseLostError):
            await store.append(old, [a_notice("stale")], after=0)
        with pytest.raises(LeaseLostError):
            await store.renew(old, seconds=30)
        assert await store.append(taken, [a_notice("current")], after=0) == 1
        assert await log_of(store) == [a_notice("current")]

    async def test_an_expired_lease_that_nobody_took_still_holds(self, store: Log, clock: ManualClock) -> None:
        lease = await lease_on(store, seconds=30)
        clock.advance(3_600)

        assert await store.append(lease, [a_notice()], after=0) == 1
        renewed = await store.renew(lease, seconds=30)

        assert await store.acquire("s", "b", seconds=30) is None
        assert await store.append(renewed, [a_notice()], after=1) == 2

    async def test_an_owner_that_asks_again_gets_a_new_fence_and_the_old_one_fails(self, store: Log) -> None:
        first = await lease_on(store, owner="a")

        second = await lease_on(store, owner="a")

        assert second.fence > first.fence
        with pytest.raises(LeaseLostError):
            await store.append(first, [a_notice()], after=0)
        assert await store.append(second, [a_notice()], after=0) == 1

    async def test_every_lease_has_a_higher_fence_than_all_before(self, store: Log, clock: ManualClock) -> None:
        fences = []
        for number in range(6):
            lease = await lease_on(store, owner=f"worker {number}", seconds=10)
            fences.append(lease.fence)
            if number % 2:
                await store.release(lease)
            else:
                clock.advance(10)

        assert fences == sorted(set(fences))

    async def test_renewing_counts_from_now_and_keeps_the_fence(self, store: Log, clock: ManualClock) -> None:
        lease = await lease_on(store, owner="a", seconds=30)
        clock.advance(20)

        renewed = await store.renew(lease, seconds=60)

        assert renewed == Lease(session="s", owner="a", fence=lease.fence, expires_at=clock.now() + 60)
        clock.advance(59.9)
        assert await store.acquire("s", "b", seconds=30) is None
        clock.advance(0.2)
        assert await store.acquire("s", "b", seconds=30) is not None

    async def test_what_was_written_under_a_lease_before_renewing_goes_on_after_it(self, store: Log) -> None:
        lease = await lease_on(store)
        renewed = await store.renew(lease, seconds=60)

        assert await store.append(lease, [a_notice("old copy")], after=0) == 1
        assert await store.append(renewed, [a_notice("new copy")], after=1) == 2

    async def test_a_released_lease_is_free_at_once_and_no_longer_writes(self, store: Log) -> None:
        lease = await lease_on(store, owner="a")

        await store.release(lease)

        with pytest.raises(LeaseLostError):
            await store.append(lease, [a_notice()], after=0)
        with pytest.raises(LeaseLostError):
            await store.renew(lease, seconds=30)
        assert await store.acquire("s", "b", seconds=30) is not None

    async def test_releasing_what_was_lost_already_does_nothing(self, store: Log, clock: ManualClock) -> None:
        old = await lease_on(store, owner="a", seconds=30)
        clock.advance(30)
        current = await lease_on(store, owner="b")

        await store.release(old)
        await store.release(old)

        assert await store.acquire("s", "c", seconds=30) is None
        assert await store.append(current, [a_notice()], after=0) == 1

    @pytest.mark.parametrize(
        ("owner", "seconds"), [("", 30.0), ("\ud800", 30.0), ("a", 0.0), ("a", -1.0), ("a", math.nan), ("a", math.inf)]
    )
    async def test_a_lease_for_nobody_or_for_no_time_is_refused(self, store: Log, owner: str, seconds: float) -> None:
        with pytest.raises(BadInputError):
            await store.acquire("s", owner, seconds=seconds)

        assert await store.acquire("s", "a", seconds=30) is not None


async def take(feed: Feed, count: int) -> list[Logged]:
    """Return the next records of a feed."""
    return [await anext(feed) for _ in range(count)]


class FeedPromises(StorePromises):
    """`feed` and `close`: every record in order, each once, as it is appended."""

    async def test_a_feed_yields_what_is_there_and_then_what_comes(self, store: Log) -> None:
        await store.admit("s", an_input("before"))
        feed = store.feed("s")
        assert [each.record for each in await take(feed, 1)] == [an_input("before")]
        waiting = asyncio.create_task(take(feed, 2))

        await store.admit("s", an_input("while waiting"))
        await store.admit("s", an_input("later"))

        assert await waiting == (await store.read("s"))[1:]
        await feed.aclose()

    async def test_a_feed_may_start_anywhere(self, store: Log) -> None:
        lease = await lease_on(store)
        await store.append(lease, [a_notice(str(number)) for number in range(1, 6)], after=0)
        everything = await store.read("s")

        for after in range(5):
            feed = store.feed("s", after=after)
            assert await take(feed, 5 - after) == everything[after:]
            await feed.aclose()

    async def test_a_feed_of_a_session_that_does_not_exist_waits_for_it(self, store: Log) -> None:
        feed = store.feed("later")
        waiting = asyncio.create_task(take(feed, 1))
        await store.admit("another", an_input("not for this feed"))

        await store.admit("later", an_input("first"))

        assert [each.record for each in await waiting] == [an_input("first")]
        await feed.aclose()

    async def test_a_feed_that_starts_ahead_of_the_log_waits_for_that_place(self, store: Log) -> None:
        feed = store.feed("s", after=2)
        waiting = asyncio.create_task(take(feed, 1))

        for text in ("one", "two", "three"):
            await store.admit("s", an_input(text))

        assert [(each.seq, each.record) for each in await waiting] == [(3, an_input("three"))]
        await feed.aclose()

    async def test_nothing_is_missed_or_doubled_while_many_append(self, store: Log) -> None:
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

    async def test_a_long_log_is_fed_whole(self, store: Log) -> None:
        lease = await lease_on(store)
        await store.append(lease, [a_notice(str(number)) for number in range(1_001)], after=0)
        feed = store.feed("s")

        fed = await take(feed, 1_001)

        assert fed == await store.read("s")
        await feed.aclose()

    async def test_a_wait_that_was_cancelled_loses_nothing(self, store: Log) -> None:
        feed = store.feed("s")
        impatient = asyncio.create_task(take(feed, 1))
        await store.admit("other", an_input("gives the feed time to wait"))
        impatient.cancel()
        with pytest.raises(asyncio.CancelledError):
            await impatient

        await store.admit("s", an_input("after all"))

        assert [each.record for each in await take(feed, 1)] == [an_input("after all")]
        await feed.aclose()

    async def test_a_closed_feed_ends_for_the_task_that_waits_in_it(self, store: Log) -> None:
        feed = store.feed("s")
        waiting = asyncio.create_task(_all_of(feed))
        await store.admit("s", an_input("seen"))
        await store.admit("other", an_input("gives the feed time to wait"))

        await feed.aclose()

        assert [each.record for each in await waiting] in ([an_input("seen")], [])

    async def test_closing_one_feed_leaves_the_others_waiting(self, store: Log) -> None:
        closed, other = store.feed("s"), store.feed("s")
        waiting = asyncio.create_task(take(other, 1))
        await store.admit("other", an_input("gives the feed time to wait"))

        await closed.aclose()
        await store.admit("s", an_input("later"))

        assert [each.record for each in await waiting] == [an_input("later")]
        await other.aclose()

    async def test_closing_the_store_ends_its_feeds(self, store: Log) -> None:
        await store.admit("s", an_input("seen"))
        waiting = [asyncio.create_task(_all_of(store.feed("s"))) for _ in range(3)]
        ready = store.feed("s")
        await take(ready, 1)

        await store.close()

        assert [
            [each.record for each in log] in ([an_input("seen")], []) for log in await asyncio.gather(*waiting)
        ] == [True] * 3
        assert await _all_of(ready) == []

    async def test_a_closed_store_finishes_what_was_asked_and_takes_nothing_more(self, store: Log) -> None:
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
