"""Links to answers go with the session that holds the answers, and nothing else goes with them."""

import hashlib
from pathlib import Path

import pytest

from holdfast.errors import BadInputError
from holdfast.ports import Store
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.sessions.delete import delete_session, delete_sessions
from holdfast.runtime.sessions.response_links import links_in, log_of
from holdfast.stores.memory import MemoryBlobs, MemoryStore
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.builders import ManualClock
from holdfast.testing.crashes import CrashingStore, Died, every_point
from holdfast.types.messages import Text
from holdfast.types.records import AnswerLinked, InputAdmitted

GONE, STAYS, LATER = "dropin:gone", "@alice/dropin:stays", "dropin:later"
# More than there are logs, so that some logs have links of both.
COUNT = 300


def _answer(name: str) -> str:
    return hashlib.blake2b(name.encode(), digest_size=16).hexdigest()


def _link(
    name: str, session: str, count: int = 2, *, instructions: str = "", instructions_of: str = ""
) -> AnswerLinked:
    return AnswerLinked(_answer(name), session, session, count, instructions, instructions_of)


async def _keep(store: Store, link: AnswerLinked) -> None:
    await store.admit(log_of(link.answer), link)


async def _linked(store: Store, count: int = COUNT) -> list[AnswerLinked]:
    """Make sessions with links, and return the links that must stay when one of the sessions goes."""
    for session in (GONE, STAYS, LATER):
        await store.admit(session, InputAdmitted((Text("hello"),), "", None))
    staying = [_link(f"stays {number}", STAYS) for number in range(count)]
    for number, link in enumerate(staying):
        await _keep(store, link)
        await _keep(store, _link(f"gone {number}", GONE, instructions='{"role":"developer"}'))
    # The name of a conversation is linked anew with each answer; the newest counts.
    await _keep(store, _link("conversation", STAYS))
    staying.append(_link("conversation", STAYS, 4))
    await _keep(store, staying[-1])
    return staying


async def _found(store: Store, names: list[str]) -> dict[str, AnswerLinked]:
    """Return the links of these names, as whoever looks for them finds them: the newest."""
    found: dict[str, AnswerLinked] = {}
    for log in sorted({log_of(_answer(name)) for name in names}):
        found |= {link.answer: link async for link in links_in(store, log)}
    return found


def _names(count: int = COUNT) -> list[str]:
    return ["conversation", *(f"{word} {number}" for word in ("gone", "stays") for number in range(count))]


async def test_links_go_with_their_session_and_those_of_others_stay() -> None:
    store = MemoryStore(clock=SystemClock())
    staying = await _linked(store)

    await delete_session(store, MemoryBlobs(), None, GONE)

    assert await _found(store, _names()) == {link.answer: link for link in staying}
    kept = [known.key for known in await store.sessions(limit=1_000)]
    assert not [key for key in kept if key.endswith(".aside")]


async def test_links_in_a_file_go_with_their_session(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "links.db", clock=SystemClock())
    staying = await _linked(store, 10)

    await delete_session(store, MemoryBlobs(), None, GONE)

    assert await _found(store, _names(10)) == {link.answer: link for link in staying}
    await store.close()


async def test_links_on_a_server_go_with_their_session(postgres_url: str) -> None:
    store = PostgresStore(postgres_url)
    staying = await _linked(store, 10)

    await delete_session(store, MemoryBlobs(), None, GONE)

    assert await _found(store, _names(10)) == {link.answer: link for link in staying}
    await store.close()


async def test_links_go_with_sessions_that_have_expired() -> None:
    store = MemoryStore(clock=SystemClock())
    staying = await _linked(store, 20)

    gone = await delete_sessions(store, MemoryBlobs(), None, [GONE, LATER, "dropin:unknown"])

    assert gone.sessions == (GONE, LATER)
    assert await _found(store, _names(20)) == {link.answer: link for link in staying}


async def test_a_session_of_our_own_has_no_links_and_its_end_looks_for_none() -> None:
    store = MemoryStore(clock=SystemClock())
    await _linked(store, 2)
    await store.admit("telegram:42", InputAdmitted((Text("hello"),), "", None))
    before = await _found(store, _names(2))

    await delete_session(store, MemoryBlobs(), None, "telegram:42")

    assert await _found(store, _names(2)) == before


async def test_instructions_that_a_branch_shares_with_a_session_that_goes_stay_with_the_branch() -> None:
    store = MemoryStore(clock=SystemClock())
    for session in (GONE, STAYS):
        await store.admit(session, InputAdmitted((Text("hello"),), "", None))
    source = _link("source", GONE, instructions='{"role":"developer","content":"be brief"}')
    branch = _link("branch", STAYS, 4, instructions_of=source.answer)
    await _keep(store, source)
    await _keep(store, branch)

    await delete_session(store, MemoryBlobs(), None, GONE)

    own = _link("branch", STAYS, 4, instructions=source.instructions)
    assert await _found(store, ["source", "branch"]) == {own.answer: own}


async def test_a_log_of_links_that_another_process_works_on_is_left_to_the_next_deletion() -> None:
    store = MemoryStore(clock=SystemClock())
    staying = await _linked(store, 1)
    busy = log_of(_answer("gone 0"))
    lease = await store.acquire(busy, "another process", seconds=60)
    assert lease is not None

    await delete_session(store, MemoryBlobs(), None, GONE)
    held = await _found(store, _names(1))
    await store.release(lease)
    await delete_session(store, MemoryBlobs(), None, LATER)

    assert _answer("gone 0") in held
    assert await _found(store, _names(1)) == {link.answer: link for link in staying}


async def _deletes(store: Store) -> None:
    """Delete the session, as whoever finds it there still; then another one, as anybody does some day."""
    for session in (GONE, LATER):
        try:
            await delete_session(store, MemoryBlobs(), None, session)
        except BadInputError:
            # It went before the process died.
            continue


async def test_a_process_that_dies_at_any_write_of_a_deletion_loses_no_link_and_leaves_none_that_leads_nowhere() -> (
    None
):
    count = 3
    counting = CrashingStore(MemoryStore(clock=SystemClock()))
    await _linked(counting, count)
    before = counting.writes
    await delete_session(counting, MemoryBlobs(), None, GONE)
    points = [point for point in every_point(counting.writes) if point.write > before]
    assert len(points) > 20
    for point in points:
        clock = ManualClock()
        store = MemoryStore(clock=clock)
        staying = {link.answer: link for link in await _linked(store, count)}
        dying = CrashingStore(store, type(point)(point.write - before, point.side))
        with pytest.raises(Died):
            await delete_session(dying, MemoryBlobs(), None, GONE)
        # Whatever was in the middle of it, those that stay are found at every moment.
        halfway = await _found(store, _names(count))
        assert staying.items() <= halfway.items(), point
        # The leases of a process that died end some day.
        clock.advance(3_600)
        await _deletes(store)
        assert await _found(store, _names(count)) == staying, point
