"""Folded log of a session: its state, and the records of its view.

Opening reads the newest snapshot and the tail, not the whole log, so a session of a million records opens as fast as
one of a hundred. A snapshot that cannot be read, or has another fold version, is discarded and the log is folded again.

Damage does not stop reading: a `DamageSetAside` mark replaces a damaged record, and `wounds` lists them. The holder of
the lease repairs them (see `healing`); other readers continue.
"""

from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable

import msgspec

from holdfast import ports
from holdfast.core.fold.session_state import IllegalStepError, KeptMemory, Turn
from holdfast.core.turn.transitions import evolve
from holdfast.errors import StoreDamagedError
from holdfast.ports import Lease, SessionInfo, Snapshot
from holdfast.stores.fallbacks import load_snapshot
from holdfast.types.records import AnyRecord, BranchSwitched, CompactionApplied, DamageSetAside, InputAdmitted, Logged

# Increase this when a fold of the same records changes its result: older snapshots are then ignored.
FOLD_VERSION = 9

# Large enough that decoding dominates reading, small enough that memory stays flat on a long log.
_PAGE_RECORDS = 1_000
# Some 100 bytes each.
_PAGE_SESSIONS = 1_000

# Limits of the logs that stay open between two turns: sessions, and the text of their views by the tokens of their
# newest requests, some 64 MiB.
OPEN_LOGS_MAX = 256
OPEN_LOGS_TOKENS_MAX = 16 * 2**20


class _Fold(msgspec.Struct, frozen=True):
    version: int
    turn: Turn
    # Memories for the next compaction; older versions stored none.
    kept: tuple[KeptMemory, ...] = ()


_NOTHING = _Fold(FOLD_VERSION, Turn())
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
        # The last record in the stored snapshot, as far as is known; and memories of what the view represents.
        self.snapshot_seq = turn.seq
        self.kept: tuple[KeptMemory, ...] = ()
        self._kept_on_disk: tuple[KeptMemory, ...] = ()

    def extend(self, records: Iterable[Logged], *, is_ours: bool = True) -> None:
        """Fold further records, in order; records that are folded already are skipped.

        Our own records must follow; a record from the store that cannot follow is marked as damaged.
        """
        for logged in records:
            if isinstance(logged.record, DamageSetAside) and not logged.record.until:
                self.wounds[logged.seq] = logged.record.why
            shown = self._fold(logged, is_ours=is_ours) if logged.seq > self.turn.seq else logged
            self.tail.append(shown)
            if isinstance(logged.record, CompactionApplied | BranchSwitched):
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
        log.tail, log.pinned, log.kept = list(self.tail), list(self.pinned), self.kept
        log.snapshot_seq = self.snapshot_seq
        log.extend(Logged(self.turn.seq + place, at, record) for place, record in enumerate(records, start=1))
        return log

    @property
    def has_new_memory(self) -> bool:
        """True if the stored snapshot lacks a memory that was made since."""
        return self.kept is not self._kept_on_disk

    def restore(self, kept: tuple[KeptMemory, ...], seq: int) -> None:
        """Take over the memories of the stored snapshot."""
        self.kept = self._kept_on_disk = kept
        self.snapshot_seq = seq

    def note_saved(self) -> None:
        """Note that the stored snapshot is that of the current state."""
        self.snapshot_seq, self._kept_on_disk = self.turn.seq, self.kept

    def snapshot(self) -> Snapshot:
        """Return the fold as a snapshot."""
        return Snapshot(self.turn.seq, msgspec.json.encode(_Fold(FOLD_VERSION, self.turn, self.kept)))

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
        await self.read_pinned(store)

    async def read_pinned(self, store: ports.Log) -> None:
        """Read the pinned records from before the boundary."""
        wanted = [seq for seq in self.turn.pins if seq < self.turn.boundary]
        if wanted != [logged.seq for logged in self.pinned]:
            pages = [await store.read(self.session, after=seq - 1, limit=1) for seq in wanted]
            self.pinned = [logged for page in pages for logged in page]


class OpenLogs:
    """Logs of sessions that were worked on a moment ago: the next turn reads only the records since.

    Only the holder of the lease repairs, renames or deletes. So a log still stands if the next lease of its session
    directly follows the one under which it was kept; the time of the first record tells a session from its successor.
    Losing a log costs a read.
    """

    def __init__(self) -> None:
        self._logs: OrderedDict[str, tuple[int, float, Log]] = OrderedDict()
        self._tokens = 0

    def keep(self, lease: Lease, known: SessionInfo, log: Log) -> None:
        """Keep a log that was worked on under a lease."""
        self._remove(lease.session)
        self._logs[lease.session] = (lease.fence, known.created_at, log)
        self._tokens += log.turn.answered.tokens
        while len(self._logs) > OPEN_LOGS_MAX or (self._tokens > OPEN_LOGS_TOKENS_MAX and self._logs):
            self._remove(next(iter(self._logs)))

    def take(self, lease: Lease, known: SessionInfo) -> Log | None:
        """Return the log of a session for work under a new lease, or None if it may differ from the one on disk."""
        kept = self._remove(lease.session)
        if kept is None or kept[:2] != (lease.fence - 1, known.created_at):
            return None
        return kept[2]

    def _remove(self, session: str) -> tuple[int, float, Log] | None:
        kept = self._logs.pop(session, None)
        if kept is not None:
            self._tokens -= kept[2].turn.answered.tokens
        return kept


async def open_log(store: ports.Log, session: str) -> Log:
    """Open a session from its newest snapshot and the records after it."""
    fold = _decoded(await load_snapshot(store, session))
    turn = fold.turn
    log = await _open(store, session, turn)
    log.restore(fold.kept, turn.seq)
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


async def open_state(store: ports.Log, session: str, *, since: Turn | None = None) -> Turn:
    """Return the current state of a session without its records: from `since` or the newest snapshot on.

    Costs as much as the records since, not as the view, which can be far longer where messages are short.
    """
    known = since if since is not None else _folded(await load_snapshot(store, session))
    log = Log(session, known)
    async for page in pages(store, session, after=known.seq):
        log.extend(page, is_ours=False)
        log.tail.clear()
    return (await open_log(store, session)).turn if log.misfits and known.seq else log.turn


async def state_at(store: ports.Log, session: str, seq: int, *, since: Turn | None = None) -> Turn:
    """Return the state of a session after the record `seq`: from `since`, which is not later, or from the beginning.

    Costs as much as the records in between; other tasks run between pages of them.
    """
    log = Log(session, since if since is not None else Turn())
    while log.turn.seq < seq:
        page = await store.read(session, after=log.turn.seq, limit=min(_PAGE_RECORDS, seq - log.turn.seq))
        if not page:
            break
        log.extend(page, is_ours=False)
        log.tail.clear()
    return log.turn


async def open_end(store: ports.Log, session: str, *, records_max: int, turn: Turn, before: int = 0) -> Log:
    """Return a log in a state that is known, with at most so many records of its view: those before a seq, or the last.

    `tail[0].seq` is the boundary if these are all. Else the tail begins with an input, so that no answer or tool result
    lacks its beginning.
    """
    log = Log(session, turn)
    end = min(before - 1, turn.seq) if before else turn.seq
    start = max(turn.boundary, end - records_max + 1, 1)
    log.tail = await store.read(session, after=start - 1, limit=end - start + 1) if start <= end else []
    if start > max(turn.boundary, 1):
        first = (place for place, logged in enumerate(log.tail) if isinstance(logged.record, InputAdmitted))
        del log.tail[: next(first, 0)]
    else:
        await log.read_pinned(store)
    return log


async def last_known(store: ports.Log, session: str) -> Turn:
    """Return the state in the newest snapshot of a session, without reading its log."""
    return _folded(await load_snapshot(store, session))


def _folded(snapshot: Snapshot | None) -> Turn:
    return _decoded(snapshot).turn


def _decoded(snapshot: Snapshot | None) -> _Fold:
    if snapshot is None:
        return _NOTHING
    try:
        fold = _decoder.decode(snapshot.body)
    except msgspec.DecodeError:
        return _NOTHING
    return fold if fold.version == FOLD_VERSION else _NOTHING
