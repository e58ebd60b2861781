"""Which blobs sessions name: learned from the logs of those that are older than a store's own knowledge of it.

A store notes with every append what its records name, so this reads nothing but logs from before it did, each once in
its life, and one whose notes `doctor` found wanting.
"""

from holdfast.core.holes import NOT_SET_ASIDE
from holdfast.core.messages import BlobRef
from holdfast.core.records import AnyRecord, DamageSetAside, refs_in
from holdfast.errors import HoldfastError
from holdfast.ports import Store
from holdfast.runtime.log import pages


async def learn_blobs(store: Store) -> list[str]:
    """Read every log that was never looked at for blobs, and return the sessions whose logs cannot be read now.

    One after the other, each for good: whoever dies on the way has less to do next time.
    """
    return [session for session in await store.blobs_unknown() if not await learn_blobs_of(store, session)]


async def learn_blobs_of(store: Store, session: str) -> bool:
    """Read a log and note which blobs it names. False, and nothing is noted, where a part of it cannot be read now."""
    refs: dict[str, BlobRef] = {}
    try:
        async for page in pages(store, session):
            if any(_is_out_of_reach(logged.record) for logged in page):
                return False
            refs |= {ref.sha256: ref for ref in refs_in(logged.record for logged in page)}
    except HoldfastError:
        # A newer version's record, or a segment without its archive: it may name anything.
        return False
    await store.know_blobs(session, list(refs.values()))
    return True


def _is_out_of_reach(record: AnyRecord) -> bool:
    """Whether this stands for a record in a segment that may come back, unlike one that was lost and set aside."""
    return isinstance(record, DamageSetAside) and record.until == NOT_SET_ASIDE and bool(record.kept)
