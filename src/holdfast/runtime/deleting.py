"""The end of a session: everything that is kept of it goes, and the blobs that it alone names."""

from uuid import uuid4

import msgspec

from holdfast.core.messages import BlobRef
from holdfast.core.records import refs_of
from holdfast.errors import BadInputError
from holdfast.ports import Archive, Blobs, Store
from holdfast.runtime.copies import COPYING, leased, records_of, sweep_copies
from holdfast.runtime.healing import check_clean
from holdfast.runtime.log import every_session


class Deleted(msgspec.Struct, frozen=True):
    """What a deletion came to."""

    session: str
    records: int
    segments: int
    # Those that no other session names. One that was put within the last hour stays; `holdfast doctor` tells of it.
    blobs: int


async def deleted(store: Store, blobs: Blobs, archive: Archive | None, session: str, *, force: bool = False) -> Deleted:
    """Remove a session for good: records, folds, index, quarantine, segments, and the blobs that it alone names.

    It is gone for everybody in one step, and then removed piece by piece; the next deletion removes what a process that
    died left. Raises `StoreDamagedError` where the log is not clean, unless forced, and `RetryLaterError` where
    somebody works on it.
    """
    await sweep_copies(store)
    known = await store.info(session)
    if known is None:
        raise BadInputError(f"there is no session {session!r} to delete")
    lease = await leased(store, session)
    try:
        if not force:
            await check_clean(store, session)
        refs: dict[str, BlobRef] = {}
        async for logged in records_of(store, session, known.last_seq):
            refs |= {ref.sha256: ref for ref in refs_of(logged.record)}
        segments = await store.segments(session)
        lease = await store.rename(lease, f"{COPYING}{uuid4().hex}")
    except BaseException:
        await store.release(lease)
        raise
    if archive is not None:
        for segment in segments:
            await archive.remove(segment.name)
    await store.delete(lease)
    removed = [await blobs.remove(ref) for ref in await _named_by_nobody(store, refs)]
    return Deleted(session, known.last_seq, len(segments), sum(removed))


async def _named_by_nobody(store: Store, refs: dict[str, BlobRef]) -> list[BlobRef]:
    """Return those of these blobs that no session names. Every log is read, unless there are no blobs to look for."""
    left = dict(refs)
    if not left:
        return []
    async for known in every_session(store):
        async for logged in records_of(store, known.key, known.last_seq):
            for ref in refs_of(logged.record):
                left.pop(ref.sha256, None)
        if not left:
            break
    return list(left.values())
