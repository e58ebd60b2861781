"""Folded log of a session: its state, and the records of its view.

Opening reads the newest snapshot and the tail, not the whole log, so a session of a million records opens as fast as
one of a hundred. A snapshot that cannot be read, or has another fold version, is discarded and the log is folded again.

Damage does not stop reading: a `DamageSetAside` mark replaces a damaged record, and `wounds` lists them. The holder of
the lease repairs them (see `healing`); other readers continue.
"""

from collections.abc import AsyncIterator, Iterable

import msgspec

from holdfast import ports
from holdfast.core.fold.session_state import IllegalStepError, Turn
from holdfast.core.turn.transitions import evolve
from holdfast.errors import StoreDamagedError
from holdfast.ports import SessionInfo, Snapshot
from holdfast.stores.fallbacks import load_snapshot
from holdfast.types.records import AnyRecord, CompactionApplied, DamageSetAside, Logged

# Increase this when a fold of the same records changes its result: older snapshots are then ignored.
FOLD_VERSION = 5

# Large enough that decoding dominates reading, small enough that memory stays flat on a long log.
_PAGE_RECORDS = 1_000
# Some 100 bytes each.
_PAGE_SESSIONS = 1_000


class _Fold(msgspec.Struct, frozen=True):
    version: int
    turn: Turn


_decoder = msgspec.json.Decoder(_Fold)


async def pages(store: ports.Log, session: str, *, after: int = 0) -> AsyncIterator[list[Logged]]:
    """Yield the records after `after` page by page, including those appended meanwhile."""
    while page := await store.read(session, after=after, limit=_PAGE_RECORDS):
        yield page
        after = page[-1].seq


async def every_session(store: ports.Log) -> AsyncIterator[SessionInfo]:
    """Yield the info of each session of a store, in key order."""
    after = ""
    while page := await store.sessions(after=after, limit=_PAGE_SESSIONS):
        for known in page:
            yield known
        after = page[-1].key


class Log:
    """The fold of one session, updated by readers and writers."""

    def __init__(self, session: str, turn: Turn) -> None:
        self.session = session
        self.turn = turn
        # Every record from the first turn in view on, and those of pinned inputs from before it.
        self.tail: list[Logged] = []
        self.pinned: list[Logged] = []
        # Damaged records that are not set aside yet, with the reason; those of them that are readable but cannot follow
        # the records before them; and the reason why the stored snapshot is wrong.
        self.wounds: dict[int, str] = {}
        self.misfits: set[int] = set()
        self.against_snapshot = ""

    def extend(self, records: Iterable[Logged], *, is_ours: bool = True) -> None:
        """Fold further records, in order; records that are folded already are skipped.

        Our own records must follow; a record from the store that cannot follow is marked as damaged.
        """
        for logged in records:
            if isinstance(logged.record, DamageSetAside) and not logged.record.until:
                self.wounds[logged.seq] = logged.record.why
            shown = self._fold(logged, is_ours=is_ours) if logged.seq > self.turn.seq else logged
            self.tail.append(shown)
            if isinstance(logged.record, CompactionApplied):
                self._trim()

    def _fold(self, logged: Logged, *, is_ours: bool) -> Logged:
        """Fold one record, and return it, or the mark that replaces it."""
        try:
            self.turn = evolve(self.turn, logged)
        except IllegalStepError as error:
            if is_ours or logged.seq != self.turn.seq + 1:
                raise StoreDamagedError(self.session, error.seq, error.why) from error
            why = f"it cannot follow the records before it: {error}"
            logged = Logged(logged.seq, logged.at, DamageSetAside(why))
            self.wounds[logged.seq] = why
            self.misfits.add(logged.seq)
            self.turn = evolve(self.turn, logged)
        return logged

    def _trim(self) -> None:
        boundary = self.turn.boundary
        self.tail = [logged for logged in self.tail if logged.seq >= boundary]

    def followed_by(self, records: Iterable[AnyRecord], at: float) -> "Log":
        """Return a copy of the log with further records."""
        log = Log(self.session, self.turn)
        log.tail, log.pinned = list(self.tail), list(self.pinned)
        log.extend(Logged(self.turn.seq + place, at, record) for place, record in enumerate(records, start=1))
        return log

    def snapshot(self) -> Snapshot:
        """Return the fold as a snapshot."""
        return Snapshot(self.turn.seq, msgspec.json.encode(_Fold(FOLD_VERSION, self.turn)))

    async def catch_up(self, store: ports.Log) -> None:
        """Fold the records that were appended since."""
        async for page in pages(store, self.session, after=self.turn.seq):
            self.extend(page, is_ours=False)
        await self._complete(store)

    async def _complete(self, store: ports.Log) -> None:
        """Read records of the view that the tail lacks: an undo moves the boundary back, and pins lie before it."""
        first = self.tail[0].seq if self.tail else self.turn.seq + 1
        after = max(self.turn.boundary - 1, 0)
        if after + 1 < first:
            self.tail[:0] = await store.read(self.session, after=after, limit=first - after - 1)
        wanted = [seq for seq in self.turn.pins if seq < self.turn.boundary]
        if wanted != [logged.seq for logged in self.pinned]:
            pages = [await store.read(self.session, after=seq - 1, limit=1) for seq in wanted]
            self.pinned = [logged for page in pages for logged in page]


async def open_log(store: ports.Log, session: str) -> Log:
    """Open a session from its newest snapshot and the records after it."""
    turn = _folded(await load_snapshot(store, session))
    log = await _open(store, session, turn)
    if log.misfits and turn.seq:
        # The records are authoritative: a snapshot that they cannot follow is discarded.
        anew = await _open(store, session, Turn())
        anew.against_snapshot = "the records behind it cannot follow it"
        return anew
    return log


async def _open(store: ports.Log, session: str, turn: Turn) -> Log:
    log = Log(session, turn)
    async for page in pages(store, session, after=max(turn.boundary - 1, 0)):
        log.extend(page, is_ours=False)
    await log.catch_up(store)
    return log


def against(snapshot: Snapshot, turn: Turn) -> str:
    """Return the reason why a snapshot differs from the fold of the records up to it; "" if it does not."""
    stored = _folded(snapshot)
    # A snapshot of another version, or an unreadable one, is ignored.
    return "it is not what the records fold to" if stored.seq and stored != turn else ""


async def stand(store: ports.Log, session: str, *, since: Turn | None = None, records_max: int) -> Turn | None:
    """Return the current state of a session without its records, for callers that read many sessions.

    Folds from `since` if given, else from the newest snapshot. Returns None if more than `records_max` records follow,
    or if they cannot follow: then `open_log` is needed.
    """
    known = since if since is not None else _folded(await load_snapshot(store, session))
    records = await store.read(session, after=known.seq, limit=records_max + 1)
    if len(records) > records_max:
        return None
    log = Log(session, known)
    log.extend(records, is_ours=False)
    return None if log.misfits and known.seq else log.turn


async def last_known(store: ports.Log, session: str) -> Turn:
    """Return the state in the newest snapshot of a session, without reading its log."""
    return _folded(await load_snapshot(store, session))


def _folded(snapshot: Snapshot | None) -> Turn:
    if snapshot is None:
        return Turn()
    try:
        fold = _decoder.decode(snapshot.body)
    except msgspec.DecodeError:
        return Turn()
    return fold.turn if fold.version == FOLD_VERSION else Turn()
