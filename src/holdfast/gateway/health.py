"""How the gateway and its store are: who works on what, what is owed, what failed lately, and what the doctor found."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from time import monotonic, time
from typing import TypeAlias

import msgspec

from holdfast.core.limits.bounds import RESERVED_KEYS
from holdfast.errors import HoldfastError, StoppingError
from holdfast.ports import Clock, Log, SearchIndex
from holdfast.runtime.engine.log import every_session
from holdfast.runtime.maintenance.doctor import Finding
from holdfast.runtime.sessions.record_text import FAULTS
from holdfast.types.records import AttemptFailed, Logged

# Faults that are remembered: a screen or two, whatever a provider does.
_FAULTS_MAX = 200
# What is told of a check: whoever has more findings runs the doctor by hand.
_FINDINGS_MAX = 200


class RecentFault(msgspec.Struct, frozen=True):
    """A provider's failure of late, in plain words. `session` is the key in the store."""

    at: float
    session: str
    turn: int
    kind: str
    status: int | None
    words: str


class Faults:
    """The newest faults that this process has seen."""

    def __init__(self) -> None:
        self._faults: deque[RecentFault] = deque(maxlen=_FAULTS_MAX)

    def observe(self, session: str, logged: Logged) -> None:
        """Remember a record, if it is a fault."""
        match logged.record:
            case AttemptFailed(turn=turn, refusal=refusal, fault=fault):
                kind = fault.kind
                self._faults.append(RecentFault(logged.at, session, turn, kind.value, refusal.status, FAULTS[kind]))
            case _:
                pass

    def newest(self) -> Sequence[RecentFault]:
        """Return them, newest first."""
        return list(reversed(self._faults))


class Node(msgspec.Struct, frozen=True):
    """Somebody who holds leases: its name, whether it lives, and on how many sessions it works."""

    owner: str
    is_alive: bool
    sessions: int


class Checked(msgspec.Struct, frozen=True):
    """What the doctor found: nothing is well only if there are no findings. `more` counts those that are not told."""

    at: float
    seconds: float
    sessions: int
    findings: list[Finding]
    notes: list[str]
    more: int = 0


# Returns how many sessions were looked at, what was found and what is worth knowing.
Check: TypeAlias = Callable[[], Awaitable[tuple[int, Sequence[Finding], Sequence[str]]]]


@dataclass(frozen=True)
class Inspection:
    """How to look at a store from outside; a store in memory has none."""

    nodes: Callable[[], Awaitable[list[Node]]]
    check: Check


class Checks:
    """The doctor's check of the store: one at a time, whoever asks meanwhile gets the same, and the newest is kept."""

    def __init__(self) -> None:
        self.newest: Checked | None = None
        self._running: asyncio.Task[Checked] | None = None

    @property
    def is_running(self) -> bool:
        """Whether the store is being looked at."""
        return self._running is not None

    async def run(self, check: Check) -> Checked:
        """Look at the whole store, and keep what was found. Whoever leaves early leaves the look to itself."""
        if self._running is None:
            self._running = asyncio.create_task(self._check(check), name="check of the store")
        return await asyncio.shield(self._running)

    async def _check(self, check: Check) -> Checked:
        began = time()
        try:
            sessions, findings, notes = await check()
            told, more = list(findings[:_FINDINGS_MAX]), max(len(findings) - _FINDINGS_MAX, 0)
            self.newest = Checked(began, round(time() - began, 3), sessions, told, list(notes), more)
            return self.newest
        finally:
            self._running = None

    async def close(self) -> None:
        """Leave a look that is under way: it only reads."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])


# --- Makes sessions findable before somebody looks for something: their records are indexed while the gateway runs.


log = logging.getLogger(__name__)

# Of the time of one reader of the store so much at most, so that nobody waits for it: ten thousand sessions of a usual
# size take a minute or two.
_SHARE = 0.2
# Sessions that are indexed together: a store gathers what they write into one sync.
_AT_ONCE = 8
# What has come since is looked for so often. A search indexes what is newer by itself; that is little then.
_AGAIN_SECONDS = 60.0
# Sessions that are known to be indexed, some 150 bytes each; of more the oldest are looked at again each time.
_KNOWN_MAX = 100_000
# Any word makes a store index; this one finds little.
_WORD = "holdfast"


class Indexer:
    """Goes through a store again and again, and has it index what it has not yet."""

    def __init__(self, store: Log, clock: Clock) -> None:
        self._store, self._clock = store, clock
        # How far each session was indexed, by its key.
        self._until: dict[str, int] = {}

    async def run(self) -> None:
        """Index, without end."""
        while True:
            try:
                await self.index_all()
            except StoppingError:
                return
            except HoldfastError as error:
                log.warning("sessions are not indexed", extra={"code": error.code})
            await self._clock.sleep(_AGAIN_SECONDS)

    async def index_all(self) -> int:
        """Index every session that has something new, those that were used last first, and return how many."""
        store = self._store
        if not isinstance(store, SearchIndex):
            return 0
        waiting = [
            (known.updated_at, known.key, known.last_seq)
            async for known in every_session(store)
            if self._until.get(known.key) != known.last_seq and not known.key.startswith(RESERVED_KEYS)
        ]
        waiting.sort(reverse=True)
        for first in range(0, len(waiting), _AT_ONCE):
            some, began = waiting[first : first + _AT_ONCE], monotonic()
            await asyncio.gather(*(store.search(key, _WORD, limit=1) for _, key, _ in some))
            for _, key, last_seq in some:
                if len(self._until) < _KNOWN_MAX or key in self._until:
                    self._until[key] = last_seq
            await self._clock.sleep((monotonic() - began) * (1 - _SHARE) / _SHARE)
        return len(waiting)
