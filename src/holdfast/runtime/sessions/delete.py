"""The end of a session: everything that is kept of it goes, and the blobs that it alone names.

It is gone for everybody in one step, by a key of ours that nobody sees. Then its blobs go, its segments, and its rows
last: as long as anything is left of it, its rows tell what. So whoever deletes next goes on where a process died. Which
blobs it names and nobody else does is asked of the store, which notes that with every append; no log is read for it.
"""

import math
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import suppress
from uuid import uuid4

import msgspec

from holdfast.core.integrity.log_gaps import NOT_SET_ASIDE
from holdfast.core.limits.bounds import RESERVED_KEYS
from holdfast.errors import (
    BadInputError,
    HoldfastError,
    LeaseLostError,
    RetryLaterError,
    SeqMovedError,
    StoreDamagedError,
)
from holdfast.ports import Archive, BlobRefs, Blobs, Lease, Log, Segment, SessionAdmin, SessionInfo
from holdfast.runtime.engine.log import every_session, pages
from holdfast.runtime.maintenance.healing import check_clean
from holdfast.runtime.sessions.response_links import unlink
from holdfast.runtime.sessions.transfer import leased, sweep_copies
from holdfast.stores.fallbacks import need_session_admin, segments
from holdfast.types.messages import BlobRef
from holdfast.types.records import AnyRecord, DamageSetAside, refs_in

# --- Which blobs sessions name: learned from the logs of those that are older than a store's own knowledge of it.


async def learn_blobs(store: Log) -> list[str]:
    """Read every log that was never looked at for blobs, and return the sessions whose logs cannot be read now.

    One after the other, each for good: whoever dies on the way has less to do next time.
    """
    if not isinstance(store, BlobRefs):
        return []
    return [session for session in await store.unscanned_sessions() if not await learn_blobs_of(store, session)]


async def learn_blobs_of(store: BlobRefs, session: str) -> bool:
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
    await store.add_blob_refs(session, list(refs.values()))
    return True


def _is_out_of_reach(record: AnyRecord) -> bool:
    """Whether this stands for a record in a segment that may come back, unlike one that was lost and set aside."""
    return isinstance(record, DamageSetAside) and record.until == NOT_SET_ASIDE and bool(record.kept)


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


class DeletedAll(msgspec.Struct, frozen=True):
    """What the deletion of many sessions came to: those that went, in order, and why others stayed, by their keys."""

    sessions: tuple[str, ...]
    stayed: dict[str, str]
    records: int
    segments: int
    blobs: int


async def deleted(store: Log, blobs: Blobs, archive: Archive | None, session: str, *, force: bool = False) -> Deleted:
    """Remove a session for good: records, folds, index, quarantine, segments, links, and the blobs it alone names.

    What a process that died on the way left is removed first. Raises `StoreDamagedError` where the log is not clean,
    unless forced, and `RetryLaterError` where somebody works on it.
    """
    admin = need_session_admin(store, "delete sessions")
    await _sweep(admin, blobs, archive)
    leaving = await _taken_away(admin, session, force=force)
    await unlink(admin, {session})
    count = await _removed(admin, blobs, archive, [leaving])
    return Deleted(session, leaving.records, len(leaving.segments), count)


async def deleted_all(
    store: Log,
    blobs: Blobs,
    archive: Archive | None,
    sessions: Iterable[str],
    *,
    untouched_since: float | None = None,
) -> DeletedAll:
    """Remove many sessions for good. Which blobs go with them is found out once for all.

    With `untouched_since`, only those that owe nobody an answer and have no record from after then. One that is worked
    on, damaged or unknown stays, and the others go all the same.
    """
    admin = need_session_admin(store, "delete sessions")
    await _sweep(admin, blobs, archive)
    gone: dict[str, _Leaving] = {}
    stayed: dict[str, str] = {}
    for session in sessions:
        try:
            gone[session] = await _taken_away(admin, session, untouched_since=untouched_since)
        except (RetryLaterError, StoreDamagedError, BadInputError) as error:
            stayed[session] = str(error)
    await unlink(admin, set(gone))
    return DeletedAll(
        tuple(gone),
        stayed,
        sum(one.records for one in gone.values()),
        sum(len(one.segments) for one in gone.values()),
        await _removed(admin, blobs, archive, list(gone.values())),
    )


async def pruned(
    store: Log, blobs: Blobs, archive: Archive | None, *, since: float, sessions_max: int | None = None
) -> DeletedAll:
    """Remove the sessions that are untouched since then, so many at most; see `deleted_all`."""
    keys = [known.key for known in await untouched(store, since)]
    return await deleted_all(store, blobs, archive, keys[:sessions_max], untouched_since=since)


def check_days(days: float) -> float:
    """Refuse to take for old what is not even a moment old, or what cannot be counted."""
    if not 0 < days < math.inf:
        raise BadInputError(f"sessions cannot be untouched for {days} days; give a positive number")
    return days


async def untouched(store: Log, since: float) -> list[SessionInfo]:
    """Return the sessions without a record from after then that owe nobody an answer. Ours are not among them."""
    return [
        known
        async for known in every_session(store)
        if known.updated_at <= since and not known.owed and not known.key.startswith(RESERVED_KEYS)
    ]


async def _taken_away(
    store: SessionAdmin, session: str, *, force: bool = False, untouched_since: float | None = None
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
        sealed = await segments(store, session)
        # Looking a long log over takes a while, and anybody may send a message meanwhile, up to the moment it goes.
        after = known.last_seq if untouched_since is not None else None
        lease = await store.rename(lease, f"{DELETING}{uuid4().hex}", after=after)
    except SeqMovedError as moved:
        await store.release(lease)
        raise RetryLaterError(f"session {session!r} has been used meanwhile; it stays") from moved
    except BaseException:
        await store.release(lease)
        raise
    return _Leaving(lease, known.last_seq, sealed)


async def _removed(store: SessionAdmin, blobs: Blobs, archive: Archive | None, gone: Sequence[_Leaving]) -> int:
    """Remove everything of sessions that are gone for everybody, and return how many blobs went with them."""
    if not gone:
        return 0
    count = sum([await blobs.remove(ref) for ref in await _named_by_nobody(store)])
    for one in gone:
        if archive is not None:
            for segment in one.segments:
                await archive.remove(segment.name)
        # Where that took so long that another took it for dead, it goes on with the same.
        with suppress(LeaseLostError):
            await store.delete(one.lease)
    return count


async def _named_by_nobody(store: Log) -> list[BlobRef]:
    """Return the blobs that go with all sessions that are going, those included that other processes are removing.

    Two that name a blob together would otherwise leave it to each other. Where a session that stays has a log that
    cannot be read now, and was never looked at for blobs, no blob goes; `holdfast doctor` tells of what is left over.
    """
    if not isinstance(store, BlobRefs) or not all(session.startswith(DELETING) for session in await learn_blobs(store)):
        return []
    return await store.unshared_blobs([known.key async for known in _leaving(store)])


async def _leaving(store: Log) -> AsyncIterator[SessionInfo]:
    """Yield what is left of sessions that are gone for everybody."""
    after = DELETING
    while page := await store.sessions(after=after, limit=_PAGE_SESSIONS):
        for known in page:
            if not known.key.startswith(DELETING):
                return
            yield known
        after = page[-1].key


async def _sweep(store: SessionAdmin, blobs: Blobs, archive: Archive | None) -> None:
    """Finish what others began and died over. What is still under way has its lease."""
    await sweep_copies(store)
    # Under the keys they have: what is sealed of a session is not found under another.
    await learn_blobs(store)
    left = [known async for known in _leaving(store)]
    leases = [(known, await store.acquire(known.key, f"sweep:{uuid4().hex}", seconds=60.0)) for known in left]
    found = [
        _Leaving(lease, known.last_seq, await segments(store, known.key))
        for known, lease in leases
        if lease is not None
    ]
    await _removed(store, blobs, archive, found)


def _check_untouched(known: SessionInfo, since: float) -> None:
    if known.owed:
        raise RetryLaterError(f"session {known.key!r} has a turn that is open; it stays until that has its outcome")
    if known.updated_at > since:
        raise RetryLaterError(f"session {known.key!r} has been used meanwhile; it stays")
