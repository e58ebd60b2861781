"""Changing a whole session on PostgreSQL: once, also when the connection is lost, and seen by every other node."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from urllib.parse import urlsplit

import pytest

from holdfast.core.integrity.reconcile import SetAside
from holdfast.errors import BadInputError, LeaseLostError, OutcomeUnknownError
from holdfast.ports import Lease
from holdfast.stores.postgres import PostgresStore, connections, session_admin
from holdfast.testing.builders import a_notice, an_input, lease_on, log_of
from holdfast.testing.maintenance_contract import segment_of, ten_notices
from holdfast.types.records import Logged
from tests.stores.postgres_proxy import Proxy
from tests.stores.postgres_server import Shared, on


@pytest.fixture
async def proxy(postgres_server: Shared) -> AsyncIterator[Proxy]:
    async with Proxy(postgres_server.socket) as proxy:
        yield proxy


@pytest.fixture
async def store(proxy: Proxy, postgres_url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(proxy.url(urlsplit(postgres_url).path.lstrip("/")))
    yield store
    await store.close()


async def _seal(store: PostgresStore, lease: Lease) -> object:
    segment, _ = await segment_of(store, 4)
    await store.search("s", "sentence")
    return await store.seal(lease, segment, after=10)


async def _mend(store: PostgresStore, lease: Lease) -> object:
    return await store.repair(lease, [SetAside(3, "torn")], [a_notice("mended")], after=10)


async def _adopt(store: PostgresStore, lease: Lease) -> object:
    return await store.adopt(lease, [Logged(11, 5.0, an_input("old"))])


async def _rename(store: PostgresStore, lease: Lease) -> object:
    return (await store.rename(lease, "t")).session


async def _delete(store: PostgresStore, lease: Lease) -> object:
    await store.delete(lease)
    return None


Change = Callable[[PostgresStore, Lease], Awaitable[object]]
CHANGES = pytest.mark.parametrize(
    ("change", "answer", "left"),
    [
        (_seal, 11, (7, 0, 1, 0)),
        (_mend, 11, (11, 1, 0, 0)),
        (_adopt, 11, (11, 0, 0, 1)),
        (_rename, "t", (10, 0, 0, 0)),
        (_delete, None, (0, 0, 0, 0)),
    ],
)
_COUNTS = """
    SELECT (SELECT count(*) FROM holdfast.records), (SELECT count(*) FROM holdfast.quarantine),
           (SELECT count(*) FROM holdfast.segments), (SELECT coalesce(sum(owed), 0)::int FROM holdfast.sessions)
"""


async def counted(url: str) -> tuple[int, ...]:
    """Records, rows in quarantine, segments and outcomes owed."""
    return tuple(await on(url, lambda db: db.fetchrow(_COUNTS)))


@CHANGES
@pytest.mark.parametrize("is_answered", [True, False])
async def test_a_change_whose_commit_is_not_answered_happens_once_and_is_told_as_it_was(  # noqa: PLR0913 - of fixtures
    store: PostgresStore,
    proxy: Proxy,
    postgres_url: str,
    change: Change,
    answer: object,
    left: object,
    *,
    is_answered: bool,
) -> None:
    lease = await ten_notices(store)
    proxy.cut_at(b"COMMIT", after_it_was_done=is_answered)

    assert await change(store, lease) == answer

    assert proxy.cuts == 1
    assert await counted(postgres_url) == left


async def test_where_nobody_can_say_what_came_of_a_change_that_is_what_is_told(
    store: PostgresStore, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = await ten_notices(store)
    monkeypatch.setattr(connections, "OUTAGE_SECONDS_MAX", 0.2)
    proxy.cut_at(b"COMMIT", after_it_was_done=True, stays_away=True)

    with pytest.raises(OutcomeUnknownError, match="session 's'"):
        await _mend(store, lease)

    proxy.come_back()
    monkeypatch.undo()
    assert len(await store.read("s")) == 11


async def test_a_change_that_is_refused_leaves_the_connection_to_the_next(store: PostgresStore) -> None:
    old = await ten_notices(store)
    lease = await lease_on(store)

    for _ in range(connections.CONNECTIONS_MAX + 1):
        with pytest.raises(LeaseLostError):
            await store.delete(old)

    assert len(store.connections._idle) == 1
    assert await store.adopt(lease, []) == 10


async def test_a_node_does_not_go_on_with_what_it_remembers_of_a_session_that_another_has_changed(
    postgres_url: str,
) -> None:
    here, there = PostgresStore(postgres_url), PostgresStore(postgres_url)
    await here.release(await ten_notices(here))
    lease = await lease_on(there, owner="there")
    await there.rename(lease, "t")
    await there.admit("s", an_input("another one"))

    assert (await here.admit("t", an_input("eleven"))).seq == 11
    assert (await here.admit("s", an_input("two"))).seq == 2

    await there.delete(await lease_on(there, owner="there"))
    assert (await here.admit("s", an_input("anew"))).seq == 1
    assert await log_of(there) == [an_input("anew")]
    await here.close()
    await there.close()


async def test_of_two_who_give_the_same_key_one_is_refused(postgres_url: str) -> None:
    store = PostgresStore(postgres_url)
    leases = [await ten_notices(store)]
    await store.admit("u", an_input())
    leases.append(await lease_on(store, "u"))

    came = await asyncio.gather(*(store.rename(lease, "t") for lease in leases), return_exceptions=True)

    assert sorted(type(each).__name__ for each in came) == ["BadInputError", "Lease"]
    with pytest.raises(BadInputError, match="already"):
        await store.rename(await lease_on(store, "t"), "t")
    await store.close()


async def test_a_session_with_many_rows_is_deleted_in_pieces(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_admin, "DELETED_ROWS_MAX", 3)
    store = PostgresStore(postgres_url)
    lease = await ten_notices(store)
    await store.repair(lease, [SetAside(2, "torn")], after=10)
    before = await on(postgres_url, lambda db: db.fetchval("SELECT count(*) FROM holdfast.changes"))

    await store.delete(lease)

    made = await on(postgres_url, lambda db: db.fetchval("SELECT count(*) FROM holdfast.changes"))
    assert (made - before, await counted(postgres_url)) == (4, (0, 0, 0, 0))
    await store.close()


async def test_the_names_of_changes_are_forgotten_after_a_day(postgres_url: str) -> None:
    store = PostgresStore(postgres_url)
    lease = await ten_notices(store)
    await store.adopt(lease, [Logged(11, 1.0, a_notice())])
    await on(postgres_url, lambda db: db.execute("UPDATE holdfast.changes SET made_at = now() - interval '25 hours'"))

    await store.adopt(lease, [Logged(12, 1.0, a_notice())])

    assert await on(postgres_url, lambda db: db.fetchval("SELECT count(*) FROM holdfast.changes")) == 1
    await store.close()
