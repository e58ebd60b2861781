"""A store combined with its archive: a log reads the same whether its older records are live or sealed.

All calls go to the store; only records before the first live one are read from the archive. A read continues there if
records are sealed while it runs.
"""

import asyncio
from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Sequence
from typing import Generic, Self, TypeVar

import msgspec

from holdfast.core.integrity.log_gaps import NOT_SET_ASIDE
from holdfast.core.integrity.reconcile import LogRepair
from holdfast.core.integrity.segments import (
    HEADER_BYTES,
    Frame,
    Header,
    Kept,
    SegmentTornError,
    header_size,
    unpack_frame,
    unpack_header,
)
from holdfast.core.search.rank import RowSize, rebuild_row, snippet
from holdfast.errors import RecordsSealedError, SegmentMissingError, StoreDamagedError
from holdfast.ports import (
    Admission,
    Archive,
    Feed,
    Hit,
    Lease,
    Quarantined,
    RowCheck,
    Segment,
    SessionFilter,
    SessionInfo,
    SessionOrder,
    SessionPage,
    Snapshot,
    Store,
)
from holdfast.stores.feeds import FEED_PAGE
from holdfast.types.messages import BlobRef
from holdfast.types.records import DamageSetAside, InboxRecord, LeasedRecord, Logged, WorkRecord, decode_record

# --- Reading sealed segments ---

# Cache of decoded frames, so that a reader that pages through a log reads each frame once: 250 frames.
FRAMES_BYTES_MAX = 32 * 2**20
# Headers take about a KiB each.
HEADERS_MAX = 1_000

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")


class LruCache(Generic[KeyT, ValueT]):
    """LRU cache with a bound on the total size of its values."""

    def __init__(self, size_max: int, size_of: Callable[[ValueT], int]) -> None:
        self._size_max, self._size_of = size_max, size_of
        self._entries: OrderedDict[KeyT, ValueT] = OrderedDict()
        self._size = 0

    def get(self, key: KeyT) -> ValueT | None:
        """Return a value and mark it as used."""
        if key in self._entries:
            self._entries.move_to_end(key)
        return self._entries.get(key)

    def put(self, key: KeyT, value: ValueT) -> None:
        """Add a value and evict the least recently used ones. A value above the bound is not cached."""
        self.drop(key)
        if self._size_of(value) > self._size_max:
            return
        self._entries[key] = value
        self._size += self._size_of(value)
        while self._size > self._size_max:
            _, oldest = self._entries.popitem(last=False)
            self._size -= self._size_of(oldest)

    def drop(self, key: KeyT) -> None:
        """Remove a value."""
        dropped = self._entries.pop(key, None)
        if dropped is not None:
            self._size -= self._size_of(dropped)


class SegmentReader:
    """Reads segments of an archive, with a cache of headers and frames."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        # Each header with the position of its first frame.
        self._headers: LruCache[str, tuple[Header, int]] = LruCache(HEADERS_MAX, lambda _: 1)
        self._frames: LruCache[tuple[str, int], list[Kept]] = LruCache(
            FRAMES_BYTES_MAX, lambda rows: sum(len(row.body) for row in rows)
        )

    async def rows(self, segment: Segment, first: int, last: int) -> list[Kept]:
        """Return the rows `first` to `last` of a segment that contains them.

        Raises `SegmentMissingError` if the segment is missing or is not what was sealed.
        """
        try:
            header, start = await self._header(segment)
            places = range(header.frame_of(first), header.frame_of(last) + 1)
            found = {place: self._frames.get((segment.name, place)) for place in places}
            missing = [place for place, rows in found.items() if rows is None]
            found |= await self._read(segment, header.frames, start, missing)
            rows = [row for place in places for row in found[place] or ()]
        except SegmentTornError as torn:
            raise SegmentMissingError(segment.name, f"is damaged: {torn}") from torn
        if [row.seq for row in rows] != list(range(rows[0].seq, rows[0].seq + len(rows))) or rows[0].seq > first:
            raise SegmentMissingError(segment.name, "is damaged: its frames do not match its header")
        return rows[first - rows[0].seq : last - rows[0].seq + 1]

    async def _header(self, segment: Segment) -> tuple[Header, int]:
        known = self._headers.get(segment.name)
        if known is not None:
            return known
        beginning = await self._archive.read(segment.name, start=0, length=HEADER_BYTES)
        if header_size(beginning) > len(beginning):
            beginning = await self._archive.read(segment.name, start=0, length=header_size(beginning))
        header = unpack_header(beginning)
        if (header.session, header.first, header.last) != (segment.session, segment.first, segment.last):
            raise SegmentMissingError(segment.name, "does not hold the records of its seal")
        found = header, header_size(beginning)
        self._headers.put(segment.name, found)
        return found

    async def _read(
        self, segment: Segment, frames: tuple[Frame, ...], start: int, missing: list[int]
    ) -> dict[int, list[Kept]]:
        """Read all frames from the first to the last missing one in one request."""
        if not missing:
            return {}
        wanted = range(missing[0], missing[-1] + 1)
        begin = frames[wanted[0]].start
        end = frames[wanted[-1]].start + frames[wanted[-1]].size
        body = await self._archive.read(segment.name, start=start + begin, length=end - begin)

        def unpack() -> dict[int, list[Kept]]:
            places = ((place, frames[place].start - begin) for place in wanted)
            return {place: unpack_frame(body[at : at + frames[place].size]) for place, at in places}

        read = await asyncio.to_thread(unpack)
        for place, rows in read.items():
            self._frames.put((segment.name, place), rows)
        return read


# Cached segment entries of all sessions together: some 20 MiB.
SEGMENTS_KNOWN_MAX = 50_000


class ArchivedStore:
    """A store whose sealed records are in an archive."""

    def __init__(self, store: Store, archive: Archive) -> None:
        self._store, self._archive = store, archive
        self._reader = SegmentReader(archive)
        self._known: LruCache[str, list[Segment]] = LruCache(SEGMENTS_KNOWN_MAX, len)

    @property
    def live(self) -> Store:
        """The wrapped store, with the live records."""
        return self._store

    async def read(self, session: str, *, after: int = 0, limit: int | None = None) -> list[Logged]:
        """Return records above `after`, live or sealed; see `Log.read`."""
        records: list[Logged] = []
        position = max(after, 0)
        while True:
            left = None if limit is None else limit - len(records)
            try:
                return records + await self._store.read(session, after=position, limit=left)
            except RecordsSealedError as sealed:
                records += await self._sealed(session, position, left, sealed.until)
            if limit is not None and len(records) >= limit:
                return records
            position = records[-1].seq

    async def _sealed(self, session: str, after: int, limit: int | None, until: int) -> list[Logged]:
        """Return at most `limit` sealed records above `after`, up to `until`."""
        last = until if limit is None else min(until, after + limit)
        segments = await self._segments_up_to(session, until)
        records: list[Logged] = []
        for segment in segments[bisect_right(segments, after, key=lambda one: one.last) :]:
            if segment.first > last:
                break
            places = range(max(segment.first, after + 1), min(segment.last, last) + 1)
            try:
                rows = await self._reader.rows(segment, places[0], places[-1])
            except SegmentMissingError as error:
                # A missing segment does not hide the others. The next read sees a restored segment or a corrected
                # seal, so the placeholders are not stored.
                self._known.drop(session)
                mark = DamageSetAside(str(error), segment.name, NOT_SET_ASIDE)
                records += [Logged(seq, 0.0, mark) for seq in places]
            else:
                records += [_decoded(session, row) for row in rows]
        return records

    async def sealed_rows(self, session: str, *, first: int, last: int) -> list[Kept]:
        """Return sealed rows as the archive has them now; see `SealedRows.sealed_rows`."""
        reader, rows = SegmentReader(self._archive), list[Kept]()
        for segment in await self._store.segments(session):
            if segment.first <= last and segment.last >= first:
                rows += await reader.rows(segment, max(segment.first, first), min(segment.last, last))
        return rows

    async def _segments_up_to(self, session: str, until: int) -> list[Segment]:
        known = self._known.get(session)
        if known is None or known[-1].last < until:
            known = await self._store.segments(session)
            self._known.put(session, known)
        return known

    def feed(self, session: str, *, after: int = 0) -> "SpanningFeed":
        """Yield records as they are appended, sealed ones first; see `Log.feed`."""
        return SpanningFeed(self, self._store, session, max(after, 0))

    async def search(self, session: str, query: str, *, limit: int = 10) -> list[Hit]:
        """Search a session, with excerpts of sealed records too; see `SearchIndex.search`."""
        hits = await self._store.search(session, query, limit=limit)
        return [hit if hit.excerpt else await self._with_excerpt(session, hit, query) for hit in hits]

    async def candidates(self, sessions: Sequence[SessionInfo], query: str) -> list[str]:
        """Return the sessions that may match; see `SearchIndex.candidates`. Sealed records stay indexed."""
        return await self._store.candidates(sessions, query)

    async def _with_excerpt(self, session: str, hit: Hit, query: str) -> Hit:
        records: list[Logged] = []
        for seq in sorted({hit.call, hit.seq} - {0}):
            records += await self.read(session, after=seq - 1, limit=1)
        row = rebuild_row(RowSize(hit.seq, hit.call, 0, 0), records)
        return msgspec.structs.replace(hit, excerpt=snippet(row, query))

    # Delegation to the store.

    async def admit(self, session: str, record: InboxRecord) -> Admission:
        """Append one inbox record; see `Log.admit`."""
        return await self._store.admit(session, record)

    async def extend(self, session: str, records: Sequence[InboxRecord], *, after: int) -> int:
        """See `Appends.extend`."""
        return await self._store.extend(session, records, after=after)

    async def find(self, session: str, client_ids: Sequence[str]) -> dict[str, int]:
        """See `Appends.find`."""
        return await self._store.find(session, client_ids)

    async def append(self, lease: Lease, records: Sequence[LeasedRecord], *, after: int) -> int:
        """Append work records atomically; see `Log.append`."""
        return await self._store.append(lease, records, after=after)

    async def acquire(self, session: str, owner: str, *, seconds: float) -> Lease | None:
        """Take the lease of a session; see `Log.acquire`."""
        return await self._store.acquire(session, owner, seconds=seconds)

    async def renew(self, lease: Lease, *, seconds: float) -> Lease:
        """Extend a lease; see `Log.renew`."""
        return await self._store.renew(lease, seconds=seconds)

    async def release(self, lease: Lease) -> None:
        """Release a lease; see `Log.release`."""
        await self._store.release(lease)

    async def save_snapshot(self, lease: Lease, snapshot: Snapshot) -> None:
        """Replace the snapshot; see `Snapshots.save_snapshot`."""
        await self._store.save_snapshot(lease, snapshot)

    async def load_snapshot(self, session: str) -> Snapshot | None:
        """Return the newest snapshot, or None."""
        return await self._store.load_snapshot(session)

    async def live_rows(self, session: str, *, after: int = 0, limit: int) -> list[Kept]:
        """Return live rows exactly as stored; see `Maintenance.live_rows`."""
        return await self._store.live_rows(session, after=after, limit=limit)

    async def seal(self, lease: Lease, segment: Segment, *, after: int) -> int:
        """Remove sealed rows; see `Maintenance.seal`."""
        return await self._store.seal(lease, segment, after=after)

    async def segments(self, session: str) -> list[Segment]:
        """Return the sealed segments, in order."""
        return await self._store.segments(session)

    async def check_rows(self, session: str, *, after: int | None = None, limit: int = 1_000) -> RowCheck:
        """Check live rows; see `Maintenance.check_rows`."""
        return await self._store.check_rows(session, after=after, limit=limit)

    async def repair(
        self, lease: Lease, repairs: Sequence[LogRepair], records: Sequence[WorkRecord] = (), *, after: int
    ) -> int:
        """Repair a log and report it there; see `Maintenance.repair`."""
        return await self._store.repair(lease, repairs, records, after=after)

    async def quarantine(self, session: str, *, after: str = "", limit: int = 100) -> list[Quarantined]:
        """Return quarantined rows; see `Maintenance.quarantine`."""
        return await self._store.quarantine(session, after=after, limit=limit)

    async def adopt(self, lease: Lease, records: Sequence[Logged]) -> int:
        """Append records of another log; see `SessionAdmin.adopt`."""
        return await self._store.adopt(lease, records)

    async def rename(self, lease: Lease, key: str, *, after: int | None = None) -> Lease:
        """Rename a session; see `SessionAdmin.rename`."""
        self._known.drop(lease.session)
        return await self._store.rename(lease, key, after=after)

    async def delete(self, lease: Lease) -> None:
        """Delete a session; see `SessionAdmin.delete`. Its segments stay in the archive."""
        self._known.drop(lease.session)
        await self._store.delete(lease)

    async def blob_refs(self, session: str) -> list[BlobRef]:
        """Return the blobs that a session references; see `BlobRefs.blob_refs`."""
        return await self._store.blob_refs(session)

    async def unshared_blobs(self, sessions: Collection[str]) -> list[BlobRef]:
        """Return the blobs that only these sessions reference; see `BlobRefs.unshared_blobs`."""
        return await self._store.unshared_blobs(sessions)

    async def unscanned_sessions(self) -> list[str]:
        """Return the sessions with incomplete references; see `BlobRefs.unscanned_sessions`."""
        return await self._store.unscanned_sessions()

    async def add_blob_refs(self, session: str, refs: Collection[BlobRef]) -> None:
        """Add blob references; see `BlobRefs.add_blob_refs`."""
        await self._store.add_blob_refs(session, refs)

    async def info(self, session: str) -> SessionInfo | None:
        """Return the summary of a session, or None."""
        return await self._store.info(session)

    async def sessions(self, *, after: str = "", limit: int = 100) -> list[SessionInfo]:
        """Return sessions in order of their keys."""
        return await self._store.sessions(after=after, limit=limit)

    async def list_sessions(
        self, wanted: SessionFilter, *, order: SessionOrder, after: str = "", limit: int = 100
    ) -> SessionPage:
        """See `Directory.list_sessions`."""
        return await self._store.list_sessions(wanted, order=order, after=after, limit=limit)

    async def pending(self) -> list[str]:
        """Return the keys of all sessions with pending work, in order."""
        return await self._store.pending()

    async def close(self) -> None:
        """Close the store. An archive needs no closing."""
        await self._store.close()


class SpanningFeed:
    """Every record of a session after a position: sealed ones from the archive, then the feed of the store.

    It survives a cancelled wait, and a seal of records that it has not read yet.
    """

    def __init__(self, archived: ArchivedStore, store: Store, session: str, after: int) -> None:
        self._archived, self._store, self._session = archived, store, session
        self._position = after
        self._page: deque[Logged] = deque()
        self._live: Feed = store.feed(session, after=after)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Logged:
        while not self._page:
            try:
                logged = await anext(self._live)
            except RecordsSealedError:
                await self._fetch()
            else:
                self._position = logged.seq
                return logged
        return self._page.popleft()

    async def _fetch(self) -> None:
        page = await self._archived.read(self._session, after=self._position, limit=FEED_PAGE)
        await self._live.aclose()
        self._page.extend(page)
        self._position = page[-1].seq
        self._live = self._store.feed(self._session, after=self._position)

    async def aclose(self) -> None:
        """End the feed, also for a task that waits in it."""
        self._page.clear()
        await self._live.aclose()


def _decoded(session: str, row: Kept) -> Logged:
    try:
        return Logged(row.seq, row.at, decode_record(row.body))
    except msgspec.DecodeError as error:
        raise StoreDamagedError(
            session, row.seq, f"its bytes are intact, but its record type is unknown: {error}"
        ) from error
