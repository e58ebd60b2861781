"""Archiving of old records in idle time, under the lease: put a segment, read it back, verify it, then seal it.

A process may die between any two steps. A segment that was put but not sealed is harmless: the same records give the
same bytes under the same name, so the next attempt finds it and continues. Sealing never delays a message: it stops on
a new inbox record and resumes when the session is idle.
"""

import asyncio
import hashlib
import logging
from collections.abc import Sequence
from contextlib import aclosing

import msgspec

from holdfast.core.integrity.segments import (
    Kept,
    Sealing,
    SegmentTornError,
    name_of,
    pack_segment,
    run_to_seal,
    sealable_until,
    unpack_segment,
)
from holdfast.core.limits.bounds import RESERVED_KEYS
from holdfast.errors import (
    ConflictError,
    HoldfastError,
    LeaseLostError,
    SegmentMissingError,
    SeqMovedError,
    StoreDamagedError,
)
from holdfast.ports import Archive, Lease, Maintenance, Segment, SessionInfo
from holdfast.runtime.engine.context import Engine
from holdfast.runtime.engine.log import Log, last_known
from holdfast.stores.fallbacks import need_maintenance, save_snapshot
from holdfast.types.records import InboxRecord, Logged, SegmentSealed

log = logging.getLogger(__name__)

# Records per read, so that few large records are read in vain.
_PAGE_RECORDS = 200
# Backoff after an archive error. Until then the records stay live.
RETRY_SECONDS = 600.0
# Interval between checks of an unchanged session: by then some of its records may be old enough.
_RECHECK_SECONDS = 3_600.0
# Entries of each cache of checked sessions. A full cache is cleared.
_CACHE_MAX = 10_000


class _NothingDue(msgspec.Struct, frozen=True):
    """Nothing is to be sealed in a session before `due_at`, while the sealable records end at `until`."""

    until: int
    due_at: float


class Sealer:
    """Seals old records, for all sessions of a process."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._nothing_due: dict[str, _NothingDue] = {}
        # The last seq of each checked session, and the time of its next check.
        self._checked: dict[str, tuple[int, float]] = {}

    async def is_worth_opening(self, known: SessionInfo) -> bool:
        """Return whether an idle session may have records to seal. A session unchanged since its check is skipped."""
        sealing, now = self._engine.sealing, self._engine.clock.now()
        if self._engine.archive is None or sealing is None or known.owed or known.key.startswith(RESERVED_KEYS):
            return False
        if known.last_seq <= sealing.margin_records or self._checked.get(known.key, (0, 0.0)) > (known.last_seq, now):
            return False
        if len(self._checked) >= _CACHE_MAX:
            self._checked.clear()
        self._checked[known.key] = known.last_seq, now + _RECHECK_SECONDS
        return sealable_until(await last_known(self._engine.store, known.key), sealing) > 0

    def may_seal(self, folded: Log) -> bool:
        """Return whether records may be due, without a read."""
        sealing = self._engine.sealing
        if self._engine.archive is None or sealing is None:
            return False
        until = sealable_until(folded.turn, sealing)
        cached = self._nothing_due.get(folded.session)
        has_nothing_due = cached is not None and cached.until == until and self._engine.clock.now() < cached.due_at
        return until > 0 and not has_nothing_due

    async def seal_due(self, lease: Lease, folded: Log) -> None:
        """Seal all due records of an idle session, until a new inbox record arrives. Errors are retried later."""
        archive, policy = self._engine.archive, self._engine.sealing
        if archive is None or policy is None or not self.may_seal(folded):
            return
        sealing = asyncio.create_task(self._seal_all(lease, folded, archive, policy), name=f"seal {lease.session}")
        watch = asyncio.create_task(self._wait_for_inbox(folded), name=f"watch {lease.session}")
        try:
            await asyncio.wait([sealing, watch], return_when=asyncio.FIRST_COMPLETED)
        finally:
            sealing.cancel()
            watch.cancel()
            await asyncio.wait([sealing, watch])
        for task in (sealing, watch):
            error = None if task.cancelled() else task.exception()
            if error is not None:
                self._back_off(folded, error, policy)

    def _back_off(self, folded: Log, error: BaseException, policy: Sealing) -> None:
        if not isinstance(error, HoldfastError) or isinstance(error, LeaseLostError):
            raise error
        if isinstance(error, ConflictError):
            # The session was written to; sealing resumes when it is idle.
            return
        # The records stay live, and the session is not affected.
        fields = {"session": folded.session, "code": error.code, "reason": str(error)}
        log.warning("records were not sealed", extra=fields)
        self._postpone(folded, self._engine.clock.now() + RETRY_SECONDS, policy)

    def _postpone(self, folded: Log, due_at: float, policy: Sealing) -> None:
        if len(self._nothing_due) >= _CACHE_MAX:
            self._nothing_due.clear()
        self._nothing_due[folded.session] = _NothingDue(sealable_until(folded.turn, policy), due_at)

    async def _wait_for_inbox(self, folded: Log) -> None:
        """Return when a new inbox record arrives."""
        async with aclosing(self._engine.store.feed(folded.session, after=folded.turn.seq)) as feed:
            async for logged in feed:
                if isinstance(logged.record, InboxRecord):
                    return

    async def _seal_all(self, lease: Lease, folded: Log, archive: Archive, policy: Sealing) -> None:
        store, clock = need_maintenance(self._engine.store, "seal records"), self._engine.clock
        sealed = await store.segments(folded.session)
        after = sealed[-1].last if sealed else 0
        until = sealable_until(folded.turn, policy)
        # With this snapshot the next open starts at the boundary and folds no archived record.
        await save_snapshot(store, lease, folded.snapshot())
        while rows := await self._first_live(store, folded.session, after, until, policy):
            run = run_to_seal(rows, until=until, now=clock.now(), sealing=policy)
            if not run:
                break
            segment = await put_segment(archive, folded.session, run)
            seq = await store.seal(lease, segment, after=folded.turn.seq)
            record = SegmentSealed(segment.first, segment.last, segment.name, segment.sha256, segment.size)
            folded.extend([Logged(seq, clock.now(), record)])
            fields = {"session": folded.session, "first": segment.first, "last": segment.last, "bytes": segment.size}
            log.info("records sealed", extra=fields)
            after = segment.last
        self._postpone(folded, (rows[0].at if rows else clock.now()) + policy.age_seconds, policy)

    @staticmethod
    async def _first_live(store: Maintenance, session: str, after: int, until: int, policy: Sealing) -> list[Kept]:
        """Read the first live records, up to `until` or the size of one segment."""
        rows: list[Kept] = []
        size_bytes = 0
        last = min(until, after + policy.segment_records_max)
        while after < last and size_bytes < policy.segment_bytes_max:
            page = await store.live_rows(session, after=after, limit=min(_PAGE_RECORDS, last - after))
            if not page or page[0].seq != after + 1:
                # Another worker has sealed them meanwhile.
                raise SeqMovedError(session, after, page[0].seq - 1 if page else after)
            rows += page
            size_bytes += sum(len(row.body) for row in page)
            after = page[-1].seq
        return rows


async def put_segment(archive: Archive, session: str, rows: Sequence[Kept]) -> Segment:
    """Put records into the archive as a segment, verify it by reading it back, and return it."""
    body = await asyncio.to_thread(pack_segment, session, rows)
    sha256 = hashlib.sha256(body).hexdigest()
    first, last = rows[0].seq, rows[-1].seq
    segment = Segment(session, first, last, name_of(session, first, last, sha256), sha256, len(body))
    await archive.put(segment.name, body)
    if not await _is_intact(archive, segment, rows):
        # The name contains the hash of these bytes, so a different object under it is replaced.
        await archive.remove(segment.name)
        await archive.put(segment.name, body)
        if not await _is_intact(archive, segment, rows):
            raise SegmentMissingError(segment.name, "was put but reads back altered")
    return segment


async def still_live(store: Maintenance, segment: Segment) -> list[Kept] | None:
    """Return the records of a segment if they are live and pack to its exact bytes, else None."""
    try:
        rows = await store.live_rows(segment.session, after=segment.first - 1, limit=segment.last - segment.first + 1)
    except StoreDamagedError:
        return None
    if [row.seq for row in rows] != list(range(segment.first, segment.last + 1)):
        return None
    body = await asyncio.to_thread(pack_segment, segment.session, rows)
    return rows if hashlib.sha256(body).hexdigest() == segment.sha256 else None


async def put_again(store: Maintenance, archive: Archive, segment: Segment) -> None:
    """Put a missing or damaged segment into the archive again, if its records are live."""
    rows = await still_live(store, segment)
    if rows is not None:
        await put_segment(archive, segment.session, rows)


async def _is_intact(archive: Archive, segment: Segment, rows: Sequence[Kept]) -> bool:
    """Return whether the archived segment unpacks to exactly these records, which are about to be cleared."""
    body = await archive.get(segment.name)

    def check() -> bool:
        try:
            header, found = unpack_segment(body)
        except SegmentTornError:
            return False
        is_same = hashlib.sha256(body).hexdigest() == segment.sha256
        return is_same and header.session == segment.session and found == list(rows)

    return await asyncio.to_thread(check)
