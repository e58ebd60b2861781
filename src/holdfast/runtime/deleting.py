"""The end of a session: everything that is kept of it goes, and the blobs that it alone names."""

import math
from collections.abc import Iterable
from uuid import uuid4

import msgspec

from holdfast.core.limits import RESERVED_KEYS
from holdfast.core.messages import BlobRef
from holdfast.core.records import refs_of
from holdfast.errors import BadInputError, RetryLaterError, StoreDamagedError
from holdfast.ports import Archive, Blobs, SessionInfo, Store
from holdfast.runtime.copies import COPYING, leased, records_of, sweep_copies
from holdfast.runtime.healing import check_clean
from holdfast.runtime.links import unlink
from holdfast.runtime.log import every_session

SECONDS_PER_DAY = 86_400.0


class Deleted(msgspec.Struct, frozen=True):
    """What a deletion came to."""

    session: str
    records: int
    segments: int
    # Those that no other session names. One that was put within the last hour stays; `holdfast doctor` tells of it.
    blobs: int


class DeletedAll(msgspec.Struct, frozen=True):
    """What the deletion of many sessions came to: those that went, in order, and why others stayed, by their keys."""

    sessions: tuple[str, ...]
    stayed: dict[str, str]
    records: int
    segments: int
    blobs: int


async def deleted(store: Store, blobs: Blobs, archive: Archive | None, session: str, *, force: bool = False) -> Deleted:
    """Remove a session for good: records, folds, index, quarantine, segments, links, and the blobs it alone names.

    It is gone for everybody in one step, and then removed piece by piece; the next deletion removes what a process that
    died left. Raises `StoreDamagedError` where the log is not clean, unless forced, and `RetryLaterError` where
    somebody works on it.
    """
    await sweep_copies(store)
    gone, refs = await _removed(store, archive, session, force=force)
    await unlink(store, {session})
    return msgspec.structs.replace(gone, blobs=await _without_names(store, blobs, refs))


async def deleted_all(
    store: Store,
    blobs: Blobs,
    archive: Archive | None,
    sessions: Iterable[str],
    *,
    untouched_since: float | None = None,
) -> DeletedAll:
    """Remove many sessions for good. Which blobs go with them is found out once for all: every log is read once.

    With `untouched_since`, only those that owe nobody an answer and have no record from after then. One that is worked
    on, damaged or unknown stays, and the others go all the same. A process that dies on the way leaves blobs that no
    record names, of which `holdfast doctor` tells.
    """
    await sweep_copies(store)
    gone: list[Deleted] = []
    stayed: dict[str, str] = {}
    refs: dict[str, BlobRef] = {}
    for session in sessions:
        try:
            one, named = await _removed(store, archive, session, untouched_since=untouched_since)
        except (RetryLaterError, StoreDamagedError, BadInputError) as error:
            stayed[session] = str(error)
        else:
            gone.append(one)
            refs |= named
    await unlink(store, {one.session for one in gone})
    return DeletedAll(
        tuple(one.session for one in gone),
        stayed,
        sum(one.records for one in gone),
        sum(one.segments for one in gone),
        await _without_names(store, blobs, refs),
    )


def check_days(days: float) -> float:
    """Refuse to take for old what is not even a moment old, or what cannot be counted."""
    if not 0 < days < math.inf:
        raise BadInputError(f"sessions cannot be untouched for {days} days; give a positive number")
    return days


async def untouched(store: Store, since: float) -> list[SessionInfo]:
    """Return the sessions without a record from after then that owe nobody an answer. Ours are not among them."""
    return [
        known
        async for known in every_session(store)
        if known.updated_at <= since and not known.owed and not known.key.startswith(RESERVED_KEYS)
    ]


async def _removed(
    store: Store, archive: Archive | None, session: str, *, force: bool = False, untouched_since: float | None = None
) -> tuple[Deleted, dict[str, BlobRef]]:
    """Remove everything of a session but its blobs, and return which ones it named."""
    known = await store.info(session)
    if known is None:
        raise BadInputError(f"there is no session {session!r} to delete")
    lease = await leased(store, session)
    try:
        # Under the lease: something may have come in since.
        known = await store.info(session) or known
        if untouched_since is not None:
            _check_untouched(known, untouched_since)
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
    return Deleted(session, known.last_seq, len(segments), blobs=0), refs


def _check_untouched(known: SessionInfo, since: float) -> None:
    if known.owed:
        raise RetryLaterError(f"session {known.key!r} has a turn that is open; it stays until that has its outcome")
    if known.updated_at > since:
        raise RetryLaterError(f"session {known.key!r} has been used meanwhile; it stays")


async def _without_names(store: Store, blobs: Blobs, refs: dict[str, BlobRef]) -> int:
    """Remove those of these blobs that no session names, and return how many they were."""
    return sum([await blobs.remove(ref) for ref in await _named_by_nobody(store, refs)])


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
