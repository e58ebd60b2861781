"""Promises of the `BlobRefs` port."""

import pytest

from holdfast.errors import ClientIdReusedError, LeaseLostError, SeqMovedError
from holdfast.ports import BlobRefs
from holdfast.testing.builders import a_notice, an_input
from holdfast.testing.store_fixture import StorePromises, lease_on
from holdfast.types.messages import BlobRef, LargeText, Media, Text, ToolResult
from holdfast.types.records import InputAdmitted, ToolSettled

FIRST, SECOND, THIRD = (BlobRef(digit * 64, size) for size, digit in enumerate("abc", start=1))


def referencing(*refs: BlobRef, client_id: str = "") -> InputAdmitted:
    """Return an input that references blobs."""
    return InputAdmitted(tuple(LargeText(ref, "long") for ref in refs), client_id=client_id)


class BlobRefContract(StorePromises):
    """All promises of `holdfast.ports.BlobRefs`."""

    async def test_every_append_adds_its_blobs_each_once(self, store: BlobRefs) -> None:
        await store.admit("s", referencing(SECOND, SECOND))
        lease = await lease_on(store)
        settled = ToolSettled(1, ToolResult("call", (Text("see"), Media(FIRST, "image/png")), originals=(SECOND,)))
        await store.append(lease, [a_notice(), settled], after=1)

        assert await store.blob_refs("s") == [FIRST, SECOND]
        assert (await store.blob_refs("nobody"), await store.unscanned_sessions()) == ([], [])

    async def test_a_rejected_write_adds_no_blobs(self, store: BlobRefs) -> None:
        await store.admit("s", an_input("hi", client_id="c"))
        old = await lease_on(store)
        lease = await lease_on(store)
        settled = ToolSettled(1, ToolResult("call", (LargeText(FIRST, "long"),)))

        with pytest.raises(ClientIdReusedError):
            await store.admit("s", referencing(FIRST, client_id="c"))
        with pytest.raises(LeaseLostError):
            await store.append(old, [settled], after=1)
        with pytest.raises(SeqMovedError):
            await store.append(lease, [settled], after=0)

        assert await store.blob_refs("s") == []

    async def test_a_blob_is_of_some_sessions_only_where_no_other_names_it(self, store: BlobRefs) -> None:
        await store.admit("a", referencing(FIRST, SECOND))
        await store.admit("b", referencing(SECOND, THIRD))
        await store.admit("c", referencing(THIRD))

        assert await store.unshared_blobs(["a"]) == [FIRST]
        assert await store.unshared_blobs(["b"]) == []
        assert await store.unshared_blobs(["b", "a", "nobody"]) == [FIRST, SECOND]
        assert await store.unshared_blobs(["a", "b", "c"]) == [FIRST, SECOND, THIRD]
        assert await store.unshared_blobs([]) == []

    async def test_what_is_learned_of_a_session_is_added_to_what_is_known_of_it(self, store: BlobRefs) -> None:
        await store.admit("s", referencing(FIRST))

        for _ in range(2):
            await store.add_blob_refs("s", [SECOND, FIRST])
        await store.add_blob_refs("s", [])
        await store.add_blob_refs("nobody", [THIRD])

        assert (await store.blob_refs("s"), await store.blob_refs("nobody")) == ([FIRST, SECOND], [])
        await store.admit("nobody", an_input())
        assert await store.blob_refs("nobody") == []
