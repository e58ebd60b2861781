"""Health of the gateway and its store: recent faults, lease holders, doctor checks, and the background indexer."""

import asyncio
import logging
import stat
from collections import Counter, OrderedDict, deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from glob import escape as glob_escape
from pathlib import Path
from time import monotonic, time
from typing import Literal, TypeAlias

import msgspec

from holdfast.core.limits.bounds import RESERVED_KEYS
from holdfast.errors import HoldfastError, StoppingError
from holdfast.gateway.http.auth import tenant_of
from holdfast.ports import Clock, Log, SearchIndex
from holdfast.runtime.engine.log import every_session, stand
from holdfast.runtime.maintenance.doctor import Finding
from holdfast.runtime.sessions.record_text import FAULTS
from holdfast.types.faults import FaultKind
from holdfast.types.records import AttemptFailed, AttemptStarted, Logged, Outcome, TurnEnded

# --- Counts of turns, faults and rescues by tenant, from the records that this process writes ---


# Open turns that are followed. A turn that waits for longer than this many others is not counted as rescued.
_TURNS_MAX = 10_000
# Names of models come from clients; those above this number are counted together.
_MODELS_MAX = 1_000
_OTHER_MODEL = "(others)"


class Tally(msgspec.Struct, frozen=True):
    """Counts of one tenant or of several."""

    turns: Counter[Outcome]
    # By model and kind; by kind.
    faults: Counter[tuple[str, FaultKind]]
    rescues: Counter[FaultKind]


class _Open(msgspec.Struct):
    model: str = ""
    cause: FaultKind | None = None


class Tallies:
    """The counts of all tenants since `since`.

    A rescue is a turn that had a fault and was answered nevertheless. Its cause is the first fault of the turn.
    """

    def __init__(self) -> None:
        self.since = time()
        self._tallies: dict[str, Tally] = {}
        self._models: set[str] = set()
        self._open: OrderedDict[tuple[str, int], _Open] = OrderedDict()

    def observe(self, session: str, logged: Logged) -> None:
        """Count a record."""
        match logged.record:
            case AttemptStarted(turn=turn, model=model):
                self._turn(session, turn).model = self._named(model)
            case AttemptFailed(turn=turn, fault=fault):
                found = self._turn(session, turn)
                found.cause = found.cause or fault.kind
                self._tally(session).faults[found.model, fault.kind] += 1
            case TurnEnded(turn=turn, outcome=outcome):
                tally, ended = self._tally(session), self._open.pop((session, turn), None)
                tally.turns[outcome] += 1
                if outcome is Outcome.ANSWERED and ended is not None and ended.cause is not None:
                    tally.rescues[ended.cause] += 1
            case _:
                pass

    def of(self, tenants: Collection[str] | None) -> Tally:
        """Return the counts of some tenants, or of all."""
        total = Tally(Counter(), Counter(), Counter())
        for name, tally in self._tallies.items():
            if tenants is None or name in tenants:
                total.turns.update(tally.turns)
                total.faults.update(tally.faults)
                total.rescues.update(tally.rescues)
        return total

    def _tally(self, session: str) -> Tally:
        return self._tallies.setdefault(tenant_of(session), Tally(Counter(), Counter(), Counter()))

    def _turn(self, session: str, turn: int) -> _Open:
        found = self._open.setdefault((session, turn), _Open())
        if len(self._open) > _TURNS_MAX:
            self._open.popitem(last=False)
        return found

    def _named(self, model: str) -> str:
        if model not in self._models and len(self._models) >= _MODELS_MAX:
            return _OTHER_MODEL
        self._models.add(model)
        return model


# --- Recent faults ---


# Recent faults in memory: a screen or two.
_FAULTS_MAX = 200
# Findings in a response. For more, run `holdfast doctor`.
_FINDINGS_MAX = 200


class RecentFault(msgspec.Struct, frozen=True):
    """A recent failure of a provider, with a plain description. `session` is the key in the store."""

    at: float
    session: str
    turn: int
    kind: str
    status: int | None
    words: str


class Faults:
    """The newest faults recorded by this process, and counts of all."""

    def __init__(self) -> None:
        self.tallies = Tallies()
        self._faults: deque[RecentFault] = deque(maxlen=_FAULTS_MAX)

    def observe(self, session: str, logged: Logged) -> None:
        """Keep a record if it is a fault."""
        self.tallies.observe(session, logged)
        match logged.record:
            case AttemptFailed(turn=turn, refusal=refusal, fault=fault):
                kind = fault.kind
                self._faults.append(RecentFault(logged.at, session, turn, kind.value, refusal.status, FAULTS[kind]))
            case _:
                pass

    def newest(self) -> Sequence[RecentFault]:
        """Return the faults, newest first."""
        return list(reversed(self._faults))


class Node(msgspec.Struct, frozen=True):
    """A lease holder: its name, whether it is alive, and the number of sessions it works on."""

    owner: str
    is_alive: bool
    sessions: int


class StorageUse(msgspec.Struct, frozen=True):
    """Bytes on disk of a part of the store, and the number of its files."""

    name: Literal["records", "blobs", "archive", "other"]
    size_bytes: int
    files: int


_PARTS: dict[str, Literal["records", "blobs", "archive"]] = {
    "": "records",
    "-wal": "records",
    "-shm": "records",
    "-blobs": "blobs",
    "-archive": "archive",
}


def storage_of(path: Path) -> list[StorageUse]:
    """Return the sizes of a store file and of everything beside it that begins with its name."""
    sizes: Counter[str] = Counter()
    files: Counter[str] = Counter()
    for entry in path.parent.glob(f"{glob_escape(path.name)}*"):
        name = _PARTS.get(entry.name.removeprefix(path.name), "other")
        for one in entry.rglob("*") if entry.is_dir() else (entry,):
            with suppress(OSError):
                # A file may go while the folder is read.
                found = one.stat()
                if stat.S_ISREG(found.st_mode):
                    sizes[name] += found.st_size
                    files[name] += 1
    names: tuple[Literal["records", "blobs", "archive", "other"], ...] = ("records", "blobs", "archive", "other")
    return [StorageUse(name, sizes[name], files[name]) for name in names if files[name]]


class Checked(msgspec.Struct, frozen=True):
    """Result of a doctor check. The store is healthy if `findings` is empty. `more` counts findings left out."""

    at: float
    seconds: float
    sessions: int
    findings: list[Finding]
    notes: list[str]
    more: int = 0


# Returns the number of sessions checked, the findings, and notes.
Check: TypeAlias = Callable[[], Awaitable[tuple[int, Sequence[Finding], Sequence[str]]]]


@dataclass(frozen=True)
class Inspection:
    """Inspection of a store from outside its engine; a store in memory has none."""

    nodes: Callable[[], Awaitable[list[Node]]]
    check: Check
    # None: its size is not known here.
    storage: Callable[[], Awaitable[list[StorageUse]]] | None = None


class Checks:
    """Doctor checks of the store: one at a time, shared by concurrent callers; the newest result is kept."""

    def __init__(self) -> None:
        self.newest: Checked | None = None
        self._running: asyncio.Task[Checked] | None = None

    @property
    def is_running(self) -> bool:
        """Whether a check is running."""
        return self._running is not None

    async def run(self, check: Check) -> Checked:
        """Check the whole store and keep the result. The check continues if its caller is cancelled."""
        if self._running is None:
            self._running = asyncio.create_task(self._check(check), name="check of the store")
        return await asyncio.shield(self._running)

    async def _check(self, check: Check) -> Checked:
        began = time()
        try:
            sessions, findings, notes = await check()
            shown, more = list(findings[:_FINDINGS_MAX]), max(len(findings) - _FINDINGS_MAX, 0)
            self.newest = Checked(began, round(time() - began, 3), sessions, shown, list(notes), more)
            return self.newest
        finally:
            self._running = None

    async def close(self) -> None:
        """Cancel a running check: it only reads."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])


# --- Oldest unanswered message ---

# Sessions with pending work that are looked at: a message that waits for long is among few.
_OLDEST_SESSIONS_MAX = 200
_OLDEST_RECORDS_MAX = 1_000


async def oldest_unanswered(store: Log, sessions: Sequence[str], now: float) -> float | None:
    """Return the age in seconds of the oldest message without an outcome in these sessions; None: there is none."""
    ages = [await _oldest_in(store, session, now) for session in sessions[:_OLDEST_SESSIONS_MAX]]
    return max((age for age in ages if age is not None), default=None)


async def _oldest_in(store: Log, session: str, now: float) -> float | None:
    turn = await stand(store, session, records_max=_OLDEST_RECORDS_MAX)
    if turn is None:
        # Its turn is long; the newest record is younger than the message.
        known = await store.info(session)
        return now - known.updated_at if known is not None else None
    unanswered = [number for number in (turn.number, *turn.waiting) if number]
    found = await store.read(session, after=min(unanswered) - 1, limit=1) if unanswered else []
    return max(now - found[0].at, 0.0) if found else None


# --- Background search index ---


log = logging.getLogger(__name__)

# Share of one store reader's time, so that requests do not wait: ten thousand sessions of the usual size take a minute
# or two.
_SHARE = 0.2
# Sessions indexed concurrently: the store combines their writes into one sync.
_AT_ONCE = 8
# Interval between passes over all sessions, for records of other processes. A search indexes newer records itself.
_AGAIN_SECONDS = 60.0
# Records of this process are indexed so long after they were written.
_SOON_SECONDS = 2.0
# Sessions remembered as indexed, about 150 bytes each. Sessions above this number are searched again in each pass.
_KNOWN_MAX = 100_000
# Any query makes the store index the session; this word has few hits.
_WORD = "holdfast"


class Indexer:
    """Background task that makes the store index new records before the first search."""

    def __init__(self, store: Log, clock: Clock) -> None:
        self._store, self._clock = store, clock
        # Last indexed record of each session, by its key.
        self._until: dict[str, int] = {}
        # Newest record of the sessions that this process has written to since they were indexed.
        self._written: dict[str, Logged] = {}

    def observe(self, session: str, logged: Logged) -> None:
        """Note a record of this process, to be indexed soon."""
        if not session.startswith(RESERVED_KEYS) and (len(self._written) < _KNOWN_MAX or session in self._written):
            self._written[session] = logged

    async def run(self) -> None:
        """Index forever."""
        left = 0.0
        while True:
            try:
                if left <= 0:
                    left = _AGAIN_SECONDS
                    await self.index_all()
                else:
                    await self.index_written()
            except StoppingError:
                return
            except HoldfastError as error:
                log.warning("indexing failed", extra={"code": error.code})
            left -= _SOON_SECONDS
            await self._clock.sleep(_SOON_SECONDS)

    async def index_written(self) -> int:
        """Index the sessions that this process has written to, and return their number."""
        written, self._written = self._written, {}
        return await self._index([(logged.at, session, logged.seq) for session, logged in written.items()])

    async def index_all(self) -> int:
        """Index every session with new records, most recently used first, and return their number."""
        store = self._store
        if not isinstance(store, SearchIndex):
            return 0
        waiting = [
            (known.updated_at, known.key, known.last_seq)
            async for known in every_session(store)
            if self._until.get(known.key) != known.last_seq and not known.key.startswith(RESERVED_KEYS)
        ]
        return await self._index(waiting)

    async def _index(self, waiting: list[tuple[float, str, int]]) -> int:
        store = self._store
        if not isinstance(store, SearchIndex):
            return 0
        waiting.sort(reverse=True)
        for first in range(0, len(waiting), _AT_ONCE):
            some, began = waiting[first : first + _AT_ONCE], monotonic()
            await asyncio.gather(*(store.search(key, _WORD, limit=1) for _, key, _ in some))
            for _, key, last_seq in some:
                if len(self._until) < _KNOWN_MAX or key in self._until:
                    self._until[key] = last_seq
            await self._clock.sleep((monotonic() - began) * (1 - _SHARE) / _SHARE)
        return len(waiting)
