"""The end of a session: everything that is kept of it goes, and the blobs that it alone names.

It is gone for everybody in one step, by a key of ours that nobody sees. Then its blobs go, its segments, and its rows
last: as long as anything is left of it, its rows tell what. So whoever deletes next goes on where a process died.
"""

import math
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from uuid import uuid4

import msgspec

from holdfast.core.limits import RESERVED_KEYS
from holdfast.core.mending import NOT_SET_ASIDE
from holdfast.core.messages import BlobRef
from holdfast.core.records import DamageSetAside, decode_record, refs_of
from holdfast.core.segments import SegmentTornError, unpack_segment
from holdfast.errors import (
    BadInputError,
    LeaseLostError,
    RetryLaterError,
    SegmentMissingError,
    SeqMovedError,
    StoreDamagedError,
)
from holdfast.ports import Archive, Blobs, Lease, Segment, SessionInfo, Store
from holdfast.runtime.copies import leased, records_of, sweep_copies
from holdfast.runtime.healing import check_clean
from holdfast.runtime.links import unlink
from holdfast.runtime.log import every_session

SECONDS_PER_DAY = 86_400.0
# What is being removed stands under such a key until nothing is left of it.
DELETING = f"{RESERVED_KEYS}deleting:"
_PAGE_SESSIONS = 100


class Deleted(msgspec.Struct, frozen=True):
    """What a deletion came to."""

    session: str
    records: int
    segments: int
    # Those that no other session names. One that was put within the last hour stays; `holdfast doctor` tells of it.
    blobs: int


class _Leaving(msgspec.Struct, frozen=True):
    """A session that is gone for everybody, and what has to go with it."""

    lease: Lease
    records: int
    segments: Sequence[Segment]
    refs: dict[str, BlobRef]


class DeletedAll(msgspec.Struct, frozen=True):
    """What the deletion of many sessions came to: those that went, in order, and why others stayed, by their keys."""

    sessions: tuple[str, ...]
    stayed: dict[str, str]
    records: int
    segments: int
    blobs: int


async def deleted(store: Store, blobs: Blobs, archive: Archive | None, session: str, *, force: bool = False) -> Deleted:
    """Remove a session for good: records, folds, index, quarantine, segments, links, and the blobs it alone names.

    What a process that died on the way left is removed first. Raises `StoreDamagedError` where the log is not clean,
    unless forced, and `RetryLaterError` where somebody works on it.
    """
    await _sweep(store, blobs, archive)
    leaving = await _taken_away(store, session, force=force)
    await unlink(store, {session})
    count = await _removed(store, blobs, archive, [leaving])
    return Deleted(session, leaving.records, len(leaving.segments), count)


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
    on, damaged or unknown stays, and the others go all the same.
    """
    await _sweep(store, blobs, archive)
    gone: dict[str, _Leaving] = {}
    stayed: dict[str, str] = {}
    for session in sessions:
        try:
            gone[session] = await _taken_away(store, session, untouched_since=untouched_since)
        except (RetryLaterError, StoreDamagedError, BadInputError) as error:
            stayed[session] = str(error)
    await unlink(store, set(gone))
    return DeletedAll(
        tuple(gone),
        stayed,
        sum(one.records for one in gone.values()),
        sum(len(one.segments) for one in gone.values()),
        await _removed(store, blobs, archive, list(gone.values())),
    )


async def pruned(
    store: Store, blobs: Blobs, archive: Archive | None, *, since: float, sessions_max: int | None = None
) -> DeletedAll:
    """Remove the sessions that are untouched since then, so many at most; see `deleted_all`."""
    keys = [known.key for known in await untouched(store, since)]
    return await deleted_all(store, blobs, archive, keys[:sessions_max], untouched_since=since)


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


async def _taken_away(
    store: Store, session: str, *, force: bool = False, untouched_since: float | None = None
) -> _Leaving:
    """Have a session be gone for everybody."""
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
        # Before it has another key: its segments know it by this one. What nobody can read names nothing that goes.
        refs: dict[str, BlobRef] = {}
        with suppress(*((StoreDamagedError,) if force else ())):
            refs |= await _refs_in(store, known)
        segments = await store.segments(session)
        # Reading a long log takes a while, and anybody may send a message meanwhile, up to the very moment it goes.
        after = known.last_seq if untouched_since is not None else None
        lease = await store.rename(lease, f"{DELETING}{uuid4().hex}", after=after)
    except SeqMovedError as moved:
        await store.release(lease)
        raise RetryLaterError(f"session {session!r} has been used meanwhile; it stays") from moved
    except BaseException:
        await store.release(lease)
        raise
    return _Leaving(lease, known.last_seq, segments, refs)


async def _removed(store: Store, blobs: Blobs, archive: Archive | None, gone: Sequence[_Leaving]) -> int:
    """Remove everything of sessions that are gone for everybody, and return how many blobs went with them."""
    refs = {sha256: ref for one in gone for sha256, ref in one.refs.items()}
    nameless = await _named_by_nobody(store, refs, besides={one.lease.session for one in gone})
    count = sum([await blobs.remove(ref) for ref in nameless])
    for one in gone:
        if archive is not None:
            for segment in one.segments:
                await archive.remove(segment.name)
        # Where that took so long that another took it for dead, it goes on with the same.
        with suppress(LeaseLostError):
            await store.delete(one.lease)
    return count


async def _sweep(store: Store, blobs: Blobs, archive: Archive | None) -> None:
    """Finish what others began and died over. What is still under way has its lease."""
    await sweep_copies(store)
    after = DELETING
    while page := await store.sessions(after=after, limit=_PAGE_SESSIONS):
        left = [known for known in page if known.key.startswith(DELETING)]
        leases = [(known, await store.acquire(known.key, f"sweep:{uuid4().hex}", seconds=60.0)) for known in left]
        found = [await _left_of(store, archive, known, lease) for known, lease in leases if lease is not None]
        await _removed(store, blobs, archive, found)
        after = page[-1].key
        if len(left) < len(page):
            return


async def _left_of(store: Store, archive: Archive | None, known: SessionInfo, lease: Lease) -> _Leaving:
    """Return what has to go of a session that somebody began to remove. Where rows or segments are gone, blobs are."""
    refs: dict[str, BlobRef] = {}
    with suppress(StoreDamagedError):
        refs |= await _refs_in(store, known)
    segments = await store.segments(known.key)
    if archive is not None:
        for segment in segments:
            # Read as they are: they know the session by the key that it had.
            with suppress(SegmentMissingError, SegmentTornError):
                _, rows = unpack_segment(await archive.get(segment.name))
                refs |= {ref.sha256: ref for row in rows for ref in refs_of(decode_record(row.body))}
    return _Leaving(lease, known.last_seq, segments, refs)


async def _refs_in(store: Store, known: SessionInfo) -> dict[str, BlobRef]:
    refs: dict[str, BlobRef] = {}
    async for logged in records_of(store, known.key, known.last_seq):
        refs |= {ref.sha256: ref for ref in refs_of(logged.record)}
    return refs


def _check_untouched(known: SessionInfo, since: float) -> None:
    if known.owed:
        raise RetryLaterError(f"session {known.key!r} has a turn that is open; it stays until that has its outcome")
    if known.updated_at > since:
        raise RetryLaterError(f"session {known.key!r} has been used meanwhile; it stays")


async def _named_by_nobody(store: Store, refs: dict[str, BlobRef], *, besides: Collection[str]) -> list[BlobRef]:
    """Return those of these blobs that no other session names. All are read, unless there are no blobs to look for.

    None of them where something cannot be read that may name them: it may yet be repaired, restored or understood.
    """
    left = dict(refs)
    if not left:
        return []
    async for known in every_session(store):
        if known.key in besides:
            continue
        try:
            await _keep_named(store, known, left)
        except StoreDamagedError:
            return []
        if not left:
            break
    return list(left.values())


async def _keep_named(store: Store, known: SessionInfo, left: dict[str, BlobRef]) -> None:
    """Take out of `left` what a session names, in its log and in what was set aside of it."""
    is_mended = False
    async for logged in records_of(store, known.key, known.last_seq):
        for ref in refs_of(logged.record):
            left.pop(ref.sha256, None)
        if isinstance(logged.record, DamageSetAside):
            is_mended = True
            if not logged.record.until or (logged.record.until == NOT_SET_ASIDE and logged.record.kept):
                # Damage that nobody has set aside yet, or a segment that is away.
                raise StoreDamagedError(known.key, logged.seq, logged.record.why)
    after = ""
    while is_mended and left and (page := await store.quarantine(known.key, after=after, limit=_PAGE_SESSIONS)):
        for one in page:
            for sha256 in [sha256 for sha256 in left if sha256.encode() in one.body]:
                del left[sha256]
        after = page[-1].name
