"""Moving old records into the archive, in idle moments, under the lease: put, read back, check, and only then seal.

A process may die between any two of these. A segment that was put and not sealed is harmless: the same records give the
same bytes under the same name, so the next one to come finds it there and goes on. Whoever writes to the session
meanwhile is not kept waiting: sealing stops at once, and goes on when there is nothing else to do.
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

# Records read at once, so that many large ones are not read in vain.
_PAGE_RECORDS = 200
# An archive that failed is left alone for so long: a bucket that is away comes back, and until then records stay live.
RETRY_SECONDS = 600.0
# A session that did not change is looked at again after so long: by then some of it may be old enough.
_GLANCE_SECONDS = 3_600.0
# Sessions for which it is remembered that nothing is due; beyond, all are looked at again.
_QUIET_MAX = 10_000


class _Quiet(msgspec.Struct, frozen=True):
    """Nothing is due in a session while this much may be sealed, until then."""

    until: int
    due_at: float


class Sealer:
    """Seals what is due, for all sessions of a process."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._quiet: dict[str, _Quiet] = {}
        # How far the log of a session went that was looked at, and until when that counts.
        self._glances: dict[str, tuple[int, float]] = {}

    async def is_worth_opening(self, known: SessionInfo) -> bool:
        """Whether a session that nobody works on may have something to seal. One that did not change is not asked."""
        sealing, now = self._engine.sealing, self._engine.clock.now()
        if self._engine.archive is None or sealing is None or known.owed or known.key.startswith(RESERVED_KEYS):
            return False
        if known.last_seq <= sealing.margin_records or self._glances.get(known.key, (0, 0.0)) > (known.last_seq, now):
            return False
        if len(self._glances) >= _QUIET_MAX:
            self._glances.clear()
        self._glances[known.key] = known.last_seq, now + _GLANCE_SECONDS
        return sealable_until(await last_known(self._engine.store, known.key), sealing) > 0

    def may_seal(self, folded: Log) -> bool:
        """Whether it is worth a look, by what is known without reading anything."""
        sealing = self._engine.sealing
        if self._engine.archive is None or sealing is None:
            return False
        until = sealable_until(folded.turn, sealing)
        quiet = self._quiet.get(folded.session)
        is_quiet = quiet is not None and quiet.until == until and self._engine.clock.now() < quiet.due_at
        return until > 0 and not is_quiet

    async def seal_behind(self, lease: Lease, folded: Log) -> None:
        """Seal all that is due in a session at rest, until somebody comes. What fails is tried again later."""
        archive, policy = self._engine.archive, self._engine.sealing
        if archive is None or policy is None or not self.may_seal(folded):
            return
        sealing = asyncio.create_task(self._seal_all(lease, folded, archive, policy), name=f"seal {lease.session}")
        watch = asyncio.create_task(self._somebody_came(folded), name=f"watch {lease.session}")
        try:
            await asyncio.wait([sealing, watch], return_when=asyncio.FIRST_COMPLETED)
        finally:
            sealing.cancel()
            watch.cancel()
            await asyncio.wait([sealing, watch])
        for task in (sealing, watch):
            error = None if task.cancelled() else task.exception()
            if error is not None:
                self._give_up(folded, error, policy)

    def _give_up(self, folded: Log, error: BaseException, policy: Sealing) -> None:
        if not isinstance(error, HoldfastError) or isinstance(error, LeaseLostError):
            raise error
        if isinstance(error, ConflictError):
            # Somebody wrote; the next idle moment will do.
            return
        # Records stay where they are, and all else goes on: nothing of this is the session's trouble.
        fields = {"session": folded.session, "code": error.code, "reason": str(error)}
        log.warning("records were not sealed", extra=fields)
        self._stay_quiet(folded, self._engine.clock.now() + RETRY_SECONDS, policy)

    def _stay_quiet(self, folded: Log, due_at: float, policy: Sealing) -> None:
        if len(self._quiet) >= _QUIET_MAX:
            self._quiet.clear()
        self._quiet[folded.session] = _Quiet(sealable_until(folded.turn, policy), due_at)

    async def _somebody_came(self, folded: Log) -> None:
        """Return when something was put into the session's inbox."""
        async with aclosing(self._engine.store.feed(folded.session, after=folded.turn.seq)) as feed:
            async for logged in feed:
                if isinstance(logged.record, InboxRecord):
                    return

    async def _seal_all(self, lease: Lease, folded: Log, archive: Archive, policy: Sealing) -> None:
        store, clock = need_maintenance(self._engine.store, "seal records"), self._engine.clock
        sealed = await store.segments(folded.session)
        after = sealed[-1].last if sealed else 0
        until = sealable_until(folded.turn, policy)
        # Whoever opens the session from here on begins at its boundary, and folds nothing that is in the archive.
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
        self._stay_quiet(folded, (rows[0].at if rows else clock.now()) + policy.age_seconds, policy)

    @staticmethod
    async def _first_live(store: Maintenance, session: str, after: int, until: int, policy: Sealing) -> list[Kept]:
        """Read the first live records, up to `until` or as many as one segment takes."""
        rows: list[Kept] = []
        size_bytes = 0
        last = min(until, after + policy.segment_records_max)
        while after < last and size_bytes < policy.segment_bytes_max:
            page = await store.live_rows(session, after=after, limit=min(_PAGE_RECORDS, last - after))
            if not page or page[0].seq != after + 1:
                # Another worker has sealed them since we looked.
                raise SeqMovedError(session, after, page[0].seq - 1 if page else after)
            rows += page
            size_bytes += sum(len(row.body) for row in page)
            after = page[-1].seq
        return rows


async def put_segment(archive: Archive, session: str, rows: Sequence[Kept]) -> Segment:
    """Put records into the archive as a segment that was read back and checked, and return where it is."""
    body = await asyncio.to_thread(pack_segment, session, rows)
    sha256 = hashlib.sha256(body).hexdigest()
    first, last = rows[0].seq, rows[-1].seq
    segment = Segment(session, first, last, name_of(session, first, last, sha256), sha256, len(body))
    await archive.put(segment.name, body)
    if not await _is_whole(archive, segment, rows):
        # Under this name only these bytes are right, and they are at hand.
        await archive.remove(segment.name)
        await archive.put(segment.name, body)
        if not await _is_whole(archive, segment, rows):
            raise SegmentMissingError(segment.name, "was put, but comes back altered")
    return segment


async def still_live(store: Maintenance, segment: Segment) -> list[Kept] | None:
    """Return the records that were sealed in a segment, where they are live and give its bytes again."""
    try:
        rows = await store.live_rows(segment.session, after=segment.first - 1, limit=segment.last - segment.first + 1)
    except StoreDamagedError:
        return None
    if [row.seq for row in rows] != list(range(segment.first, segment.last + 1)):
        return None
    body = await asyncio.to_thread(pack_segment, segment.session, rows)
    return rows if hashlib.sha256(body).hexdigest() == segment.sha256 else None


async def put_again(store: Maintenance, archive: Archive, segment: Segment) -> None:
    """Put a segment that is gone or damaged into the archive again, where its records give it."""
    rows = await still_live(store, segment)
    if rows is not None:
        await put_segment(archive, segment.session, rows)


async def _is_whole(archive: Archive, segment: Segment, rows: Sequence[Kept]) -> bool:
    """Whether what is in the archive gives back exactly these records: they are about to exist nowhere else."""
    body = await archive.get(segment.name)

    def check() -> bool:
        try:
            header, found = unpack_segment(body)
        except SegmentTornError:
            return False
        is_same = hashlib.sha256(body).hexdigest() == segment.sha256
        return is_same and header.session == segment.session and found == list(rows)

    return await asyncio.to_thread(check)
