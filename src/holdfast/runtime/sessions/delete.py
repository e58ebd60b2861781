"""Deletion of sessions, with their segments and the blobs that no other session names.

A rename to a reserved key hides the session in one step. Then its blobs are removed, its segments, and its rows last,
because the rows list what is left: the next deletion finishes the work of a dead process. The store records with every
append the blobs that a session names, so no log is read to find them.
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
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.engine.lease import renewed_lease, try_lease, unique_owner
from holdfast.runtime.engine.log import every_session, pages
from holdfast.runtime.maintenance.healing import check_clean
from holdfast.runtime.sessions.response_links import unlink
from holdfast.runtime.sessions.transfer import exclusive_lease, sweep_copies
from holdfast.stores.fallbacks import need_session_admin, segments
from holdfast.types.messages import BlobRef
from holdfast.types.records import AnyRecord, DamageSetAside, refs_in

# --- Blob references of sessions that are older than the store's own table of them ---


async def learn_blobs(store: Log) -> list[str]:
    """Record the blob references of every log that has none; return the sessions whose logs are unreadable now.

    Each log is recorded by itself, so a process that dies leaves less work to the next.
    """
    if not isinstance(store, BlobRefs):
        return []
    return [session for session in await store.unscanned_sessions() if not await learn_blobs_of(store, session)]


async def learn_blobs_of(store: BlobRefs, session: str) -> bool:
    """Record the blobs that a log names. Return False and record nothing if a part of the log is unreadable now."""
    refs: dict[str, BlobRef] = {}
    try:
        async for page in pages(store, session):
            if any(_is_unavailable(logged.record) for logged in page):
                return False
            refs |= {ref.sha256: ref for ref in refs_in(logged.record for logged in page)}
    except HoldfastError:
        # A record of a newer version, or a segment without its archive, can name any blob.
        return False
    await store.add_blob_refs(session, list(refs.values()))
    return True


def _is_unavailable(record: AnyRecord) -> bool:
    """Return whether this marks a record in a segment that can become readable again, not one that is lost."""
    return isinstance(record, DamageSetAside) and record.until == NOT_SET_ASIDE and bool(record.kept)


SECONDS_PER_DAY = 86_400.0
# Key prefix of a session while it is being deleted.
DELETING = f"{RESERVED_KEYS}deleting:"
_PAGE_SESSIONS = 100
_LEASE_SECONDS = 60.0
_CLOCK = SystemClock()


class Deleted(msgspec.Struct, frozen=True):
    """Result of a deletion."""

    # The key of the session, and the numbers of its records, archived segments and blobs that are gone.
    session: str
    records: int
    segments: int
    # Blobs that no other session names. One stored within the last hour stays; `holdfast doctor` reports it.
    blobs: int


class _Hidden(msgspec.Struct, frozen=True):
    """A session that is renamed to a reserved key, and what is to be removed with it."""

    lease: Lease
    records: int
    segments: Sequence[Segment]


class DeletedAll(msgspec.Struct, frozen=True):
    """Result of the deletion of many sessions."""

    sessions: tuple[str, ...]
    # The reason by the key of each session that was not deleted.
    stayed: dict[str, str]
    records: int
    segments: int
    blobs: int


async def delete_session(
    store: Log, blobs: Blobs, archive: Archive | None, session: str, *, force: bool = False
) -> Deleted:
    """Delete a session: records, snapshots, index, quarantine, segments, links, and the blobs that only it names.

    Unfinished deletions of dead processes are finished first. Raises `StoreDamagedError` if the log is damaged, unless
    forced, and `RetryLaterError` if a worker holds the session.
    """
    admin = need_session_admin(store, "delete sessions")
    await _finish_deletions(admin, blobs, archive)
    hidden = await _hide(admin, session, force=force)
    await unlink(admin, {session})
    count = await _remove(admin, blobs, archive, [hidden])
    return Deleted(session, hidden.records, len(hidden.segments), count)


async def delete_sessions(
    store: Log,
    blobs: Blobs,
    archive: Archive | None,
    sessions: Iterable[str],
    *,
    untouched_since: float | None = None,
) -> DeletedAll:
    """Delete many sessions. The blobs to remove are determined once for all of them.

    With `untouched_since`, only sessions without pending work and without a record after that time. A session that is
    in use, damaged or unknown stays; the others are deleted.
    """
    admin = need_session_admin(store, "delete sessions")
    await _finish_deletions(admin, blobs, archive)
    gone: dict[str, _Hidden] = {}
    stayed: dict[str, str] = {}
    for session in sessions:
        try:
            gone[session] = await _hide(admin, session, untouched_since=untouched_since)
        except (RetryLaterError, StoreDamagedError, BadInputError) as error:
            stayed[session] = str(error)
    await unlink(admin, set(gone))
    return DeletedAll(
        tuple(gone),
        stayed,
        sum(one.records for one in gone.values()),
        sum(len(one.segments) for one in gone.values()),
        await _remove(admin, blobs, archive, list(gone.values())),
    )


async def prune_sessions(
    store: Log, blobs: Blobs, archive: Archive | None, *, since: float, sessions_max: int | None = None
) -> DeletedAll:
    """Delete the sessions untouched since then, at most `sessions_max`; see `delete_sessions`."""
    keys = [known.key for known in await untouched_sessions(store, since)]
    return await delete_sessions(store, blobs, archive, keys[:sessions_max], untouched_since=since)


def check_days(days: float) -> float:
    """Return a retention in days. Raises `BadInputError` unless it is positive and finite."""
    if not 0 < days < math.inf:
        raise BadInputError(f"sessions cannot be untouched for {days} days; give a positive number")
    return days


async def untouched_sessions(store: Log, since: float) -> list[SessionInfo]:
    """Return the sessions without pending work and without a record after that time, except reserved ones."""
    return [
        known
        async for known in every_session(store)
        if known.updated_at <= since and not known.owed and not known.key.startswith(RESERVED_KEYS)
    ]


async def _hide(
    store: SessionAdmin, session: str, *, force: bool = False, untouched_since: float | None = None
) -> _Hidden:
    """Rename a session to a reserved key, which hides it from all readers."""
    known = await store.info(session)
    if known is None:
        raise BadInputError(f"session {session!r} does not exist; nothing to delete")
    lease = await exclusive_lease(store, session)
    try:
        async with renewed_lease(store, _CLOCK, lease, seconds=_LEASE_SECONDS):
            # Read again under the lease: a record may have been appended since.
            known = await store.info(session) or known
            if untouched_since is not None:
                _check_untouched(known, untouched_since)
            if not force:
                await check_clean(store, session)
            sealed = await segments(store, session)
        # The check of a long log takes a while, and a message can arrive until the rename.
        after = known.last_seq if untouched_since is not None else None
        lease = await store.rename(lease, f"{DELETING}{uuid4().hex}", after=after)
    except SeqMovedError as moved:
        await store.release(lease)
        raise RetryLaterError(f"session {session!r} was used meanwhile; it is not deleted") from moved
    except BaseException:
        await store.release(lease)
        raise
    return _Hidden(lease, known.last_seq, sealed)


async def _remove(store: SessionAdmin, blobs: Blobs, archive: Archive | None, hidden: Sequence[_Hidden]) -> int:
    """Remove blobs, segments and rows of hidden sessions, and return the number of blobs removed."""
    if not hidden:
        return 0
    count = sum([await blobs.remove(ref) for ref in await _unreferenced_blobs(store)])
    for one in hidden:
        if archive is not None:
            for segment in one.segments:
                await archive.remove(segment.name)
        # If this took longer than the lease, another process finishes the same removal.
        with suppress(LeaseLostError):
            await store.delete(one.lease)
    return count


async def _unreferenced_blobs(store: Log) -> list[BlobRef]:
    """Return the blobs that only hidden sessions name, including sessions that other processes are deleting.

    Otherwise two processes that delete sessions with a common blob would each leave it. No blob is removed while the
    references of a remaining session are unknown and its log is unreadable; `holdfast doctor` reports what is left.
    """
    if not isinstance(store, BlobRefs) or not all(session.startswith(DELETING) for session in await learn_blobs(store)):
        return []
    return await store.unshared_blobs([known.key async for known in _hidden_sessions(store)])


async def _hidden_sessions(store: Log) -> AsyncIterator[SessionInfo]:
    """Yield the sessions that are being deleted."""
    after = DELETING
    while page := await store.sessions(after=after, limit=_PAGE_SESSIONS):
        for known in page:
            if not known.key.startswith(DELETING):
                return
            yield known
        after = page[-1].key


async def _finish_deletions(store: SessionAdmin, blobs: Blobs, archive: Archive | None) -> None:
    """Finish copies and deletions of dead processes. Those in progress hold their lease and are skipped."""
    await sweep_copies(store)
    # Before any rename: segments of a session are found under its own key only.
    await learn_blobs(store)
    found: list[_Hidden] = []
    for known in [known async for known in _hidden_sessions(store)]:
        lease = await try_lease(store, known.key, unique_owner("sweep"), seconds=_LEASE_SECONDS)
        if lease is not None:
            found.append(_Hidden(lease, known.last_seq, await segments(store, known.key)))
    await _remove(store, blobs, archive, found)


def _check_untouched(known: SessionInfo, since: float) -> None:
    if known.owed:
        raise RetryLaterError(f"session {known.key!r} has an open turn; it is not deleted before that ends")
    if known.updated_at > since:
        raise RetryLaterError(f"session {known.key!r} was used meanwhile; it is not deleted")
