"""Contract of gateway keys in a store: versions, order, and changes at the same time."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator

from holdfast.ports import KeyRow, KeyRows


class KeyRowsContract(ABC):
    """A store of keys is a subclass with a fixture `keys`, which is empty."""

    @abstractmethod
    def keys(self) -> AsyncIterator[KeyRows]:
        """Yield an empty table of keys."""

    async def test_a_key_is_stored_once_under_its_name(self, keys: KeyRows) -> None:
        assert await keys.put_key(KeyRow("alice", b"1"), version=0)
        assert not await keys.put_key(KeyRow("alice", b"2"), version=0)
        assert await keys.key_rows() == [KeyRow("alice", b"1", 1)]

    async def test_keys_are_listed_in_the_order_of_their_creation_also_after_a_change(self, keys: KeyRows) -> None:
        for name in ("bob", "alice", "carol"):
            await keys.put_key(KeyRow(name, b"1"), version=0)
        assert await keys.put_key(KeyRow("bob", b"2"), version=1)
        assert [(row.name, row.body) for row in await keys.key_rows()] == [
            ("bob", b"2"),
            ("alice", b"1"),
            ("carol", b"1"),
        ]

    async def test_a_change_or_removal_that_saw_another_version_changes_nothing(self, keys: KeyRows) -> None:
        await keys.put_key(KeyRow("alice", b"1"), version=0)
        assert await keys.put_key(KeyRow("alice", b"2"), version=1)
        assert not await keys.put_key(KeyRow("alice", b"3"), version=1)
        assert not await keys.remove_key("alice", version=1)
        (row,) = await keys.key_rows()
        assert row.body == b"2"
        assert await keys.remove_key("alice", version=row.version)
        assert await keys.key_rows() == []

    async def test_an_absent_key_is_neither_changed_nor_removed(self, keys: KeyRows) -> None:
        assert not await keys.put_key(KeyRow("alice", b"1"), version=1)
        assert not await keys.remove_key("alice", version=1)
        assert await keys.key_rows() == []

    async def test_of_changes_at_the_same_time_one_wins(self, keys: KeyRows) -> None:
        await keys.put_key(KeyRow("alice", b"0"), version=0)
        bodies = [str(number).encode() for number in range(1, 9)]
        won = await asyncio.gather(*(keys.put_key(KeyRow("alice", body), version=1) for body in bodies))
        (row,) = await keys.key_rows()
        assert won.count(True) == 1
        assert row.body == bodies[won.index(True)]
