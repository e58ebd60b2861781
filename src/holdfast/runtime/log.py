"""A session's log, folded: where it stands, and the records that its view is made of.

Opening reads the newest snapshot and the tail, not the whole log, so a session of a million records opens like one of a
hundred. A snapshot that cannot be read, or was made by other code, is thrown away and the fold is made anew.
"""

from collections.abc import AsyncIterator, Iterable

import msgspec

from holdfast.core.fold import IllegalStepError, Turn
from holdfast.core.records import AnyRecord, CompactionApplied, Logged
from holdfast.core.turn import evolve
from holdfast.errors import StoreDamagedError
from holdfast.ports import Snapshot, Store

# Raise this whenever a fold of the same records would come out differently: older snapshots are then not used.
FOLD_VERSION = 2

# Large enough that reading is dominated by decoding, small enough that memory stays flat on a long log.
_PAGE_RECORDS = 1_000


class _Fold(msgspec.Struct, frozen=True):
    version: int
    turn: Turn


_decoder = msgspec.json.Decoder(_Fold)


async def pages(store: Store, session: str, *, after: int = 0) -> AsyncIterator[list[Logged]]:
    """Yield the records behind `after` page by page, those included that are appended while somebody reads."""
    while page := await store.read(session, after=after, limit=_PAGE_RECORDS):
        yield page
        after = page[-1].seq


class Log:
    """The fold of one session, kept up to date by whoever reads or appends."""

    def __init__(self, session: str, turn: Turn) -> None:
        self.session = session
        self.turn = turn
        # Every record from the first turn in view on, and those of pinned inputs from before it.
        self.tail: list[Logged] = []
        self.pinned: list[Logged] = []

    def extend(self, records: Iterable[Logged]) -> None:
        """Fold further records, in order; those that are known already are passed over."""
        for logged in records:
            if logged.seq > self.turn.seq:
                self._fold(logged)
            self.tail.append(logged)
            if isinstance(logged.record, CompactionApplied):
                self._trim()

    def _fold(self, logged: Logged) -> None:
        try:
            self.turn = evolve(self.turn, logged)
        except IllegalStepError as error:
            raise StoreDamagedError(self.session, error.seq, error.why) from error

    def _trim(self) -> None:
        boundary = self.turn.boundary
        self.tail = [logged for logged in self.tail if logged.seq >= boundary]

    def followed_by(self, records: Iterable[AnyRecord], at: float) -> "Log":
        """Return the log as it would be with these records behind it; this one stays as it is."""
        log = Log(self.session, self.turn)
        log.tail, log.pinned = list(self.tail), list(self.pinned)
        log.extend(Logged(self.turn.seq + place, at, record) for place, record in enumerate(records, start=1))
        return log

    def snapshot(self) -> Snapshot:
        """Return the fold as something to keep."""
        return Snapshot(self.turn.seq, msgspec.json.encode(_Fold(FOLD_VERSION, self.turn)))

    async def catch_up(self, store: Store) -> None:
        """Fold whatever was appended since."""
        async for page in pages(store, self.session, after=self.turn.seq):
            self.extend(page)
        await self._complete(store)

    async def _complete(self, store: Store) -> None:
        """Read what the view needs and the tail lacks: an undo moves the boundary back, a pin reaches behind it."""
        first = self.tail[0].seq if self.tail else self.turn.seq + 1
        after = max(self.turn.boundary - 1, 0)
        if after + 1 < first:
            self.tail[:0] = await store.read(self.session, after=after, limit=first - after - 1)
        wanted = [seq for seq in self.turn.pins if seq < self.turn.boundary]
        if wanted != [logged.seq for logged in self.pinned]:
            pages = [await store.read(self.session, after=seq - 1, limit=1) for seq in wanted]
            self.pinned = [logged for page in pages for logged in page]


async def open_log(store: Store, session: str) -> Log:
    """Read what is needed to go on with a session, and nothing else."""
    log = Log(session, _folded(await store.load_snapshot(session)))
    async for page in pages(store, session, after=max(log.turn.boundary - 1, 0)):
        log.extend(page)
    await log.catch_up(store)
    return log


async def last_known(store: Store, session: str) -> Turn:
    """Return where a session stood at its newest snapshot, without reading its log."""
    return _folded(await store.load_snapshot(session))


def _folded(snapshot: Snapshot | None) -> Turn:
    if snapshot is None:
        return Turn()
    try:
        fold = _decoder.decode(snapshot.body)
    except msgspec.DecodeError:
        return Turn()
    return fold.turn if fold.version == FOLD_VERSION else Turn()
