"""Sessions: what is known of them, what they owe, and that any key will do."""

import asyncio

import pytest

from holdfast.core.records import Outcome, SessionConfigured
from holdfast.errors import BadInputError
from holdfast.ports import SessionInfo, Snapshot, Store
from holdfast.testing.builders import a_notice, a_turn_ended, a_turn_started, an_input
from holdfast.testing.clock import ManualClock
from holdfast.testing.store_promises import StorePromises, lease_on, log_of

ODD_KEYS = (
    "telegram:42",
    "'; DROP TABLE sessions; --",
    'a "quoted" key',
    "slashes/../and\\more",
    "%_*?[]",
    " spaces ",
    "line\nbreak",
    "nul\x00inside",
    "nul\x00inside2",
    "nul",
    "Ünïcödé",
    "U\u0308ni",
    "\u200b",
    "会话",
    "😀",
    "\uffff",
    "CASE",
    "case",
    "0",
    "00",
    "k" * 256,
)


class SessionPromises(StorePromises):
    """Promises of `info`, `sessions`, `owing`, and of keeping sessions apart."""

    async def test_info_tells_what_the_log_holds(self, store: Store, clock: ManualClock) -> None:
        created = clock.now()
        await store.admit("s", an_input("one"))
        clock.advance(10)
        await store.admit("s", an_input("two"))
        lease = await lease_on(store)
        clock.advance(10)

        await store.append(lease, [a_turn_started(1), a_turn_ended(1)], after=2)

        assert await store.info("s") == SessionInfo(
            key="s", last_seq=4, owed=1, created_at=created, updated_at=created + 20
        )

    async def test_a_lease_alone_does_not_make_a_session(self, store: Store, clock: ManualClock) -> None:
        lease = await lease_on(store)
        clock.advance(7)
        assert (await store.info("s"), await store.sessions()) == (None, [])

        await store.append(lease, [a_notice()], after=0)

        now = clock.now()
        assert await store.info("s") == SessionInfo("s", last_seq=1, owed=0, created_at=now, updated_at=now)

    async def test_leases_and_snapshots_do_not_count_as_news(self, store: Store, clock: ManualClock) -> None:
        await store.admit("s", an_input())
        before = await store.info("s")
        clock.advance(60)

        lease = await lease_on(store)
        await store.save_snapshot(lease, Snapshot(seq=1, body=b"fold"))
        await store.release(await store.renew(lease, seconds=30))

        assert await store.info("s") == before

    async def test_sessions_come_in_order_of_their_keys_page_by_page(self, store: Store) -> None:
        keys = [f"k{number:02}" for number in range(25)]
        for key in reversed(keys):
            await store.admit(key, an_input(key))

        pages: list[list[SessionInfo]] = []
        while not pages or pages[-1]:
            pages.append(await store.sessions(after=pages[-1][-1].key if pages else "", limit=10))

        assert [[info.key for info in page] for page in pages] == [keys[:10], keys[10:20], keys[20:], []]
        assert pages[0][3] == await store.info("k03")
        assert await store.sessions(limit=0) == []

    async def test_a_page_may_start_behind_a_key_that_does_not_exist(self, store: Store) -> None:
        for key in ("a", "c", "e"):
            await store.admit(key, an_input())

        assert [info.key for info in await store.sessions(after="b")] == ["c", "e"]

    async def test_every_input_is_owed_an_outcome_until_it_has_one(self, store: Store) -> None:
        async def owed() -> list[tuple[str, int]]:
            return [(info.key, info.owed) for info in await store.sessions()]

        await store.admit("a", an_input("one"))
        await store.admit("a", an_input("two"))
        await store.admit("b", an_input("three"))
        await store.admit("c", SessionConfigured(model="m"))
        assert (await store.owing(), await owed()) == (["a", "b"], [("a", 2), ("b", 1), ("c", 0)])

        lease_a, lease_b = await lease_on(store, "a"), await lease_on(store, "b")
        await store.append(lease_a, [a_turn_started(1), a_turn_ended(1, Outcome.FAILED)], after=2)
        await store.append(lease_b, [a_turn_ended(1, Outcome.CANCELLED)], after=1)
        assert (await store.owing(), await owed()) == (["a"], [("a", 1), ("b", 0), ("c", 0)])

        await store.append(lease_a, [a_turn_ended(2)], after=4)
        assert (await store.owing(), await owed()) == ([], [("a", 0), ("b", 0), ("c", 0)])

    async def test_what_is_refused_owes_nothing(self, store: Store) -> None:
        await store.admit("s", an_input("hi", client_id="c"))
        await store.admit("s", an_input("hi", client_id="c"))
        with pytest.raises(BadInputError):
            await store.admit("s", an_input("\ud800"))

        info = await store.info("s")
        assert info is not None
        assert (info.last_seq, info.owed) == (1, 1)

    async def test_any_key_names_a_session_of_its_own(self, store: Store) -> None:
        await asyncio.gather(*(store.admit(key, an_input(f"to {key}", client_id=key)) for key in ODD_KEYS))
        for key in ODD_KEYS:
            lease = await lease_on(store, key)
            await store.append(lease, [a_notice(f"of {key}")], after=1)
            await store.save_snapshot(lease, Snapshot(seq=2, body=key.encode()))

        for key in ODD_KEYS:
            assert await log_of(store, key) == [an_input(f"to {key}", client_id=key), a_notice(f"of {key}")]
            assert await store.load_snapshot(key) == Snapshot(seq=2, body=key.encode())
        assert [info.key for info in await store.sessions(limit=100)] == sorted(ODD_KEYS)
        assert sorted(await store.owing()) == sorted(ODD_KEYS)

    @pytest.mark.parametrize("key", ["", "\ud800", "half \udcff a character"])
    async def test_a_key_that_cannot_be_kept_is_refused(self, store: Store, key: str) -> None:
        with pytest.raises(BadInputError):
            await store.admit(key, an_input())
        with pytest.raises(BadInputError):
            await store.acquire(key, "worker", seconds=30)
        with pytest.raises(BadInputError):
            await store.read(key)

        assert await store.sessions() == []
