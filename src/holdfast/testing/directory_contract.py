"""Contract of the port `Directory`."""

from collections.abc import Sequence

from holdfast.ports import Directory, SessionAdmin, SessionFilter, SessionOrder, Store
from holdfast.testing.builders import ManualClock, StorePromises, an_input, lease_on, require_ports
from holdfast.types.messages import Role, Text
from holdfast.types.records import (
    InboxRecord,
    Logged,
    MessageAppended,
    Outcome,
    SessionConfigured,
    SessionLabelled,
    TurnEnded,
)

_ALL = SessionFilter()
_RECENT = SessionOrder.RECENT


async def keys(store: Store, wanted: SessionFilter = _ALL, order: SessionOrder = SessionOrder.KEY) -> list[str]:
    """Return the keys of a list, read in pages of two."""
    found: list[str] = []
    after: str | None = ""
    while after is not None:
        page = await store.list_sessions(wanted, order=order, after=after, limit=2)
        found += [one.key for one in page.sessions]
        after = page.next
    return found


async def admit_all(store: Store, records: Sequence[tuple[str, InboxRecord]]) -> None:
    """Append inbox records to sessions."""
    for key, record in records:
        await store.admit(key, record)


class DirectoryContract(StorePromises):
    """Promises about lists of sessions."""

    async def test_a_list_has_the_labels_of_each_session(self, store: Store) -> None:
        require_ports(store, Directory)
        labels = SessionLabelled("Harbour \U0001f6a2", ("a", "b"), {"owner": "Änne"})
        await admit_all(store, [("s", an_input("first")), ("s", labels), ("s", SessionConfigured("openai:m"))])

        (found,) = (await store.list_sessions(_ALL, order=SessionOrder.KEY)).sessions

        assert (found.title, found.is_title_made, found.tags, dict(found.metadata), found.model) == (
            "Harbour \U0001f6a2",
            False,
            ("a", "b"),
            {"owner": "Änne"},
            "openai:m",
        )
        assert (found.key, found.last_seq, found.owed) == ("s", 3, 1)

    async def test_the_title_is_made_from_the_first_message_until_one_is_given(self, store: Store) -> None:
        require_ports(store, Directory)
        await admit_all(store, [("s", SessionConfigured()), ("s", an_input("# What is\x00 it?\nmore"))])
        await store.admit("s", an_input("second"))

        (made,) = (await store.list_sessions(_ALL, order=SessionOrder.KEY)).sessions
        await store.admit("s", SessionLabelled("given"))
        (given,) = (await store.list_sessions(_ALL, order=SessionOrder.KEY)).sessions
        await store.admit("s", SessionLabelled())
        (again,) = (await store.list_sessions(_ALL, order=SessionOrder.KEY)).sessions

        assert [(one.title, one.is_title_made) for one in (made, given, again)] == [
            ("What is\x00 it?", True),
            ("given", False),
            ("What is\x00 it?", True),
        ]

    async def test_an_appended_message_gives_a_title_too(self, store: Store) -> None:
        require_ports(store, Directory)
        await store.extend("s", [MessageAppended(Role.USER, (Text("hello there"),))], after=0)

        (found,) = (await store.list_sessions(_ALL, order=SessionOrder.KEY)).sessions

        assert found.title == "hello there"

    async def test_pages_have_every_session_once_in_both_orders(self, store: Store, clock: ManualClock) -> None:
        require_ports(store, Directory)
        for key in ("e", "a", "d", "b", "c"):
            await store.admit(key, an_input(key))
            clock.advance(1_500.0)
        await store.admit("a", an_input("again"))

        assert await keys(store) == ["a", "b", "c", "d", "e"]
        assert await keys(store, order=_RECENT) == ["a", "c", "b", "d", "e"]

    async def test_a_filter_leaves_out_every_other_session(self, store: Store) -> None:
        require_ports(store, Directory)
        await admit_all(
            store,
            [
                ("@t/a", an_input("alpha")),
                ("a", an_input("Straße in Kiel")),
                ("b", SessionLabelled("beta", ("x", "y"))),
                ("c", SessionConfigured("openai:m")),
                ("c", SessionLabelled("gamma", ("x",))),
            ],
        )

        for order in SessionOrder:
            assert sorted(await keys(store, SessionFilter(prefix="@t/"), order)) == ["@t/a"]
            assert sorted(await keys(store, SessionFilter(prefixes_left_out=("@", "z")), order)) == ["a", "b", "c"]
            assert await keys(store, SessionFilter(text="STRASSE"), order) == ["a"]
            assert sorted(await keys(store, SessionFilter(tags=("x",)), order)) == ["b", "c"]
            assert await keys(store, SessionFilter(tags=("x", "y")), order) == ["b"]
            assert await keys(store, SessionFilter(model="openai:m"), order) == ["c"]
            assert sorted(await keys(store, SessionFilter(is_pending=True), order)) == ["@t/a", "a"]
            assert sorted(await keys(store, SessionFilter(is_pending=False), order)) == ["b", "c"]

    async def test_a_tag_that_was_removed_is_found_no_more(self, store: Store) -> None:
        require_ports(store, Directory)
        await admit_all(store, [("s", SessionLabelled(tags=("x",))), ("s", SessionLabelled(tags=("y",)))])

        assert await keys(store, SessionFilter(tags=("x",))) == []
        assert await keys(store, SessionFilter(tags=("y",))) == ["s"]

    async def test_an_adopted_log_brings_its_labels_and_a_deleted_one_takes_them_along(self, store: Store) -> None:
        require_ports(store, Directory, SessionAdmin)
        lease = await lease_on(store, "copy")
        records = [Logged(1, 5.0, an_input("hello")), Logged(2, 6.0, TurnEnded(1, Outcome.CANCELLED))]
        await store.adopt(lease, [*records, Logged(3, 7.0, SessionLabelled(tags=("x",)))])

        (found,) = (await store.list_sessions(SessionFilter(tags=("x",)), order=_RECENT)).sessions
        assert (found.key, found.title, found.updated_at) == ("copy", "hello", 7.0)

        await store.delete(lease)
        assert await keys(store, order=_RECENT) == []
        assert await keys(store, SessionFilter(tags=("x",))) == []

    async def test_inputs_of_an_append_need_an_outcome(self, store: Store) -> None:
        require_ports(store, Directory)

        await store.extend("s", [SessionLabelled("t"), an_input("hello")], after=0)

        assert await store.pending() == ["s"]
