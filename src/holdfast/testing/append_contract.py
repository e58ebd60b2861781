"""Contract of the port `Appends`."""

import asyncio

import pytest

from holdfast.errors import ClientIdReusedError, SeqMovedError
from holdfast.ports import Appends, BlobRefs, Store
from holdfast.testing.builders import StorePromises, an_input, lease_on, require_ports
from holdfast.types.messages import BlobRef, Payload, Role, Text
from holdfast.types.records import MessageAppended, PayloadStored

_REF = BlobRef("ab" * 32, 7)


def appended(text: str, client_id: str = "") -> MessageAppended:
    """Return an appended message of the user."""
    return MessageAppended(Role.USER, (Text(text),), client_id=client_id)


def stored(client_id: str, *, blob: BlobRef | None = None) -> PayloadStored:
    """Return a stored payload with a client id."""
    return PayloadStored(Payload("test", text="" if blob else "content", blob=blob), client_id)


class AppendContract(StorePromises):
    """Promises about appends without a lease and records found by client id."""

    async def test_records_are_appended_together_after_the_last_one(self, store: Store) -> None:
        require_ports(store, Appends)
        await store.admit("s", an_input("first"))

        last = await store.extend("s", [appended("a"), stored("b")], after=1)

        assert last == 3
        assert [logged.record for logged in await store.read("s", after=1)] == [appended("a"), stored("b")]

    async def test_an_append_after_another_record_than_the_last_writes_nothing(self, store: Store) -> None:
        require_ports(store, Appends)
        await store.extend("s", [appended("a")], after=0)

        for after in (0, 2):
            with pytest.raises(SeqMovedError):
                await store.extend("s", [appended("late", "id")], after=after)

        assert [logged.seq for logged in await store.read("s")] == [1]
        assert await store.find("s", ["id"]) == {}

    async def test_of_appends_at_once_one_succeeds(self, store: Store) -> None:
        require_ports(store, Appends)

        outcomes = await asyncio.gather(
            *(store.extend("s", [appended(f"{number}")], after=0) for number in range(8)), return_exceptions=True
        )

        assert sorted(type(one).__name__ for one in outcomes) == [*["SeqMovedError"] * 7, "int"]
        assert len(await store.read("s")) == 1

    async def test_records_are_found_by_their_client_ids(self, store: Store) -> None:
        require_ports(store, Appends)
        await store.admit("s", an_input("input", client_id="i"))
        await store.extend("s", [appended("a", "é/1"), appended("b"), stored("c")], after=1)

        assert await store.find("s", ["c", "i", "é/1", "missing"]) == {"i": 1, "é/1": 2, "c": 4}
        assert await store.find("other", ["i"]) == {}

    async def test_a_known_client_id_is_rejected_and_nothing_is_written(self, store: Store) -> None:
        require_ports(store, Appends)
        await store.extend("s", [stored("a")], after=0)

        with pytest.raises(ClientIdReusedError):
            await store.extend("s", [stored("b"), stored("a")], after=1)

        assert await store.find("s", ["a", "b"]) == {"a": 1}
        assert [logged.seq for logged in await store.read("s")] == [1]

    async def test_an_append_adds_no_pending_work_and_needs_no_lease(self, store: Store) -> None:
        require_ports(store, Appends)
        lease = await lease_on(store)

        await store.extend("s", [appended("a")], after=0)

        known = await store.info("s")
        assert known is not None
        assert (known.last_seq, known.owed, await store.pending()) == (1, 0, [])
        await store.release(lease)

    async def test_a_payload_references_its_blob(self, store: Store) -> None:
        require_ports(store, Appends, BlobRefs)

        await store.extend("s", [stored("a", blob=_REF)], after=0)

        assert await store.blob_refs("s") == [_REF]
