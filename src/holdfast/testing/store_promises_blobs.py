"""Blobs that records name: noted with the records themselves, for as long as their session is there."""

import pytest

from holdfast.core.messages import BlobRef, LargeText, Media, Text, ToolResult
from holdfast.core.reconcile import SetAside
from holdfast.core.records import InputAdmitted, Logged, ToolSettled
from holdfast.errors import ClientIdReusedError, LeaseLostError, SeqMovedError
from holdfast.ports import Store
from holdfast.testing.builders import a_notice, an_input
from holdfast.testing.store_promises import StorePromises, lease_on
from holdfast.testing.store_promises_sealing import segment_of

FIRST, SECOND, THIRD = (BlobRef(digit * 64, size) for size, digit in enumerate("abc", start=1))


def naming(*refs: BlobRef, client_id: str = "") -> InputAdmitted:
    """An input that names blobs."""
    return InputAdmitted(tuple(LargeText(ref, "long") for ref in refs), client_id=client_id)


class BlobNamePromises(StorePromises):
    """Promises of `blobs_of`, `blobs_only_of`, `blobs_unknown` and `know_blobs`."""

    async def test_whatever_way_a_record_comes_in_its_blobs_are_known_each_once(self, store: Store) -> None:
        await store.admit("s", naming(THIRD, THIRD))
        lease = await lease_on(store)
        settled = ToolSettled(1, ToolResult("call", (Text("see"), Media(FIRST, "image/png")), originals=(THIRD,)))
        await store.append(lease, [a_notice(), settled], after=1)
        await store.adopt(lease, [Logged(4, 5.0, naming(SECOND)), Logged(5, 6.0, an_input())])

        assert await store.blobs_of("s") == [FIRST, SECOND, THIRD]
        assert (await store.blobs_of("nobody"), await store.blobs_unknown()) == ([], [])

    async def test_what_is_refused_names_nothing(self, store: Store) -> None:
        await store.admit("s", an_input("hi", client_id="c"))
        old = await lease_on(store)
        lease = await lease_on(store)
        settled = ToolSettled(1, ToolResult("call", (LargeText(FIRST, "long"),)))

        with pytest.raises(ClientIdReusedError):
            await store.admit("s", naming(FIRST, client_id="c"))
        with pytest.raises(LeaseLostError):
            await store.append(old, [settled], after=1)
        with pytest.raises(SeqMovedError):
            await store.append(lease, [settled], after=0)
        with pytest.raises(SeqMovedError):
            await store.adopt(lease, [Logged(5, 5.0, naming(FIRST))])

        assert await store.blobs_of("s") == []

    async def test_a_blob_is_of_some_sessions_only_where_no_other_names_it(self, store: Store) -> None:
        await store.admit("a", naming(FIRST, SECOND))
        await store.admit("b", naming(SECOND, THIRD))
        await store.admit("c", naming(THIRD))

        assert await store.blobs_only_of(["a"]) == [FIRST]
        assert await store.blobs_only_of(["b"]) == []
        assert await store.blobs_only_of(["b", "a", "nobody"]) == [FIRST, SECOND]
        assert await store.blobs_only_of(["a", "b", "c"]) == [FIRST, SECOND, THIRD]
        assert await store.blobs_only_of([]) == []

    async def test_a_session_that_is_renamed_takes_its_names_along_and_one_that_is_deleted_gives_them_up(
        self, store: Store
    ) -> None:
        await store.admit("a", naming(FIRST))
        await store.admit("b", naming(FIRST))
        lease = await store.rename(await lease_on(store, "a"), "c")

        assert (await store.blobs_of("a"), await store.blobs_of("c")) == ([], [FIRST])
        assert await store.blobs_only_of(["b"]) == []

        await store.delete(lease)
        await store.admit("c", an_input("another one"))

        assert (await store.blobs_of("c"), await store.blobs_only_of(["b"])) == ([], [FIRST])

    async def test_what_was_sealed_or_set_aside_is_still_known_to_be_named(self, store: Store) -> None:
        await store.admit("s", naming(FIRST))
        await store.admit("s", naming(SECOND))
        lease = await lease_on(store)
        await store.append(lease, [a_notice()], after=2)
        segment, _ = await segment_of(store, 1)

        await store.seal(lease, segment, after=3)
        await store.mend(lease, [SetAside(2, "torn")], after=4)

        assert await store.blobs_of("s") == [FIRST, SECOND]

    async def test_what_is_learned_of_a_session_is_added_to_what_is_known_of_it(self, store: Store) -> None:
        await store.admit("s", naming(FIRST))

        for _ in range(2):
            await store.know_blobs("s", [SECOND, FIRST])
        await store.know_blobs("s", [])
        await store.know_blobs("nobody", [THIRD])

        assert (await store.blobs_of("s"), await store.blobs_of("nobody")) == ([FIRST, SECOND], [])
        await store.admit("nobody", an_input())
        assert await store.blobs_of("nobody") == []
