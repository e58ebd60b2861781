"""Cache of session statuses for lists, and numbered changes among all sessions of a tenant.

A status is a fold of the session's log, and a list must not read whole logs. A runner writes a snapshot every few
hundred records, so little is left to fold. A status stays cached until the session has a new record.

A live list can resume after the number of any change. A change says that a session has a new newest record. The session
is read when the change is sent, so a slow reader gets one event for a session that changed often. Records of this
process are reported at once. Records of other processes are found by polling the newest record of every session, about
once a second and only while a reader is connected.
"""

import asyncio
import secrets
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Sequence
from itertools import islice
from time import monotonic
from typing import TypeVar

import msgspec

from holdfast.core.fold.session_state import InFlight, Turn
from holdfast.core.limits.bounds import is_proxy_session
from holdfast.gateway.api.schemas import Budget, Gauge, SessionSummary
from holdfast.gateway.bounds import GatewayBounds
from holdfast.gateway.http.auth import Tenant
from holdfast.ports import Log, SessionInfo
from holdfast.runtime.engine.log import last_known, open_state, stand, state_at
from holdfast.runtime.engine.runner import SNAPSHOT_EVERY_RECORDS
from holdfast.runtime.sessions.client import Client
from holdfast.runtime.sessions.record_text import RUNGS
from holdfast.types.limits import Budgets
from holdfast.types.records import Logged

# Snapshots are written at the end of a turn, so a long turn may follow the newest one. The status of a turn with more
# records than this omits their details; each record costs about 20 microseconds.
_RECORDS_MAX = 2 * SNAPSHOT_EVERY_RECORDS
# Statuses of a few hundred bytes each: a few MiB.
_STATUSES_MAX = 20_000
# Folds that may carry a summary of about ten thousand bytes each: a few MiB too.
_TURNS_MAX = 300
# Earlier states of the sessions that somebody looks back in: folding 2,000 records takes some 40 milliseconds.
_PAST_EVERY_RECORDS = 2_000
_PAST_STATES_MAX = 100
_PAST_SESSIONS_MAX = 4
_CachedT = TypeVar("_CachedT")


class SessionStatus(msgspec.Struct, frozen=True):
    """Activity of a session as a stable word and as text, and the usage of its budgets."""

    state: str
    says: str
    gauge: Gauge | None
    # None: unknown without reading more of the log than a list may.
    generation: int | None
    open_turns: int
    model: str | None
    # Cost of all calls in US dollars; None: unknown, like the generation.
    cost_usd: float | None = None
    # The model of the last request.
    asked_model: str = ""


class StatusCache:
    """LRU caches of statuses and of the folds they come from."""

    def __init__(self, store: Log) -> None:
        self._store = store
        self._statuses: OrderedDict[str, tuple[SessionInfo, SessionStatus]] = OrderedDict()
        self._turns: OrderedDict[str, tuple[float, Turn]] = OrderedDict()
        self._past: OrderedDict[str, list[tuple[float, Turn]]] = OrderedDict()

    async def of(self, known: SessionInfo) -> SessionStatus:
        """Return the status of a session."""
        found = self._statuses.get(known.key)
        if found is not None and found[0] == known:
            self._statuses.move_to_end(known.key)
            return found[1]
        turn = await self._turn(known)
        status = _status(known, turn)
        if turn is None or turn.seq == known.last_seq:
            _remember(self._statuses, known.key, (known, status), _STATUSES_MAX)
        return status

    async def turn(self, known: SessionInfo) -> Turn:
        """Return the current state of a session. Folds only the records since the last call."""
        turn = await open_state(self._store, known.key, since=self._since(known))
        _remember(self._turns, known.key, (known.created_at, turn), _TURNS_MAX)
        return turn

    async def turn_at(self, known: SessionInfo, seq: int) -> Turn:
        """Return the state of a session after an earlier record. States on the way are kept for the next call."""
        since = self._since(known)
        newest = since if since is not None else await last_known(self._store, known.key)
        near = [newest, *(turn for created, turn in self._past.get(known.key, ()) if created == known.created_at)]
        turn = max((one for one in near if one.seq <= seq), key=lambda one: one.seq, default=Turn())
        kept = [(known.created_at, one) for one in near[1:]]
        while turn.seq < seq:
            before = turn.seq
            turn = await state_at(self._store, known.key, min(before + _PAST_EVERY_RECORDS, seq), since=turn)
            if turn.seq == before:
                break
            if len(kept) < _PAST_STATES_MAX and turn.seq - before == _PAST_EVERY_RECORDS:
                kept.append((known.created_at, turn))
        _remember(self._past, known.key, kept, _PAST_SESSIONS_MAX)
        return turn

    async def summaries(self, named: Sequence[tuple[str, SessionInfo]]) -> list[SessionSummary]:
        """Return the list rows of sessions, each with the key that its tenant uses."""
        statuses = await asyncio.gather(*(self.of(known) for _, known in named))
        return [summary(key, known, one) for (key, known), one in zip(named, statuses, strict=True)]

    async def _turn(self, known: SessionInfo) -> Turn | None:
        since = self._since(known)
        turn = await stand(self._store, known.key, since=since, records_max=_RECORDS_MAX)
        if turn is not None and (known.owed or since is not None):
            # The session is active, so the next request comes soon.
            _remember(self._turns, known.key, (known.created_at, turn), _TURNS_MAX)
        return turn

    def _since(self, known: SessionInfo) -> Turn | None:
        before = self._turns.get(known.key)
        # A session that was deleted and created again has another creation time, or, if imported, another last seq.
        is_same = before is not None and before[0] == known.created_at and before[1].seq <= known.last_seq
        return before[1] if before is not None and is_same else None


def _remember(cache: OrderedDict[str, _CachedT], key: str, value: _CachedT, count_max: int) -> None:
    cache[key] = value
    cache.move_to_end(key)
    if len(cache) > count_max:
        cache.popitem(last=False)


def summary(key: str, known: SessionInfo, status: SessionStatus) -> SessionSummary:
    """Return the list row of a session."""
    return SessionSummary(
        key=key,
        records=known.last_seq,
        unanswered=known.owed,
        created_at=known.created_at,
        updated_at=known.updated_at,
        state=status.state,
        says=status.says,
        gauge=status.gauge,
        generation=status.generation,
        open_turns=status.open_turns,
        model=status.model,
        asked_model=status.asked_model,
        cost_usd=status.cost_usd,
    )


def _status(known: SessionInfo, turn: Turn | None) -> SessionStatus:
    if turn is None:
        state, says = ("working", "working") if known.owed else ("rest", "idle")
        return SessionStatus(state, says, None, None, known.owed, None)
    state, says = describe(turn, follows_client=is_proxy_session(known.key))
    open_turns = len(turn.waiting) + bool(turn.number)
    return SessionStatus(
        state,
        says,
        gauge_of(turn.budgets),
        turn.generation,
        open_turns,
        turn.model,
        cost_usd=turn.spent.usd,
        asked_model=turn.asked.model,
    )


def describe(turn: Turn, *, follows_client: bool = False) -> tuple[str, str]:
    """Return the activity of a session: a stable word for programs, and text for people."""
    queued = f"; {_count(len(turn.waiting), 'message')} queued" if turn.waiting else ""
    match turn.in_flight:
        case InFlight.MODEL:
            return "model", f"the model is answering{queued}"
        case InFlight.TOOLS:
            return "tools", _describe_tools(turn) + queued
        case InFlight.RUNG if turn.climbing is not None:
            return "rung", RUNGS[turn.climbing] + queued
        case InFlight.READY if names := _names_awaiting(turn):
            return "approval", f"waiting for an approval of {names}{queued}"
        case InFlight.READY if names := _names_answered(turn):
            return "ready", f"{names} was approved or denied; waiting for a program that has this tool{queued}"
        case InFlight.READY | InFlight.RUNG:
            return "ready", ("waiting for its client" if follows_client else "about to continue") + queued
        case InFlight.REST:
            return _describe_idle(turn)


def _names_awaiting(turn: Turn) -> str:
    """Return the names of the tools whose calls wait for an approval."""
    return ", ".join(dict.fromkeys(one.call.name for one in turn.calls_asked if one.is_waiting))


def _names_answered(turn: Turn) -> str:
    """Return the names of the tools whose calls were approved or denied, and which no program has taken up."""
    return ", ".join(dict.fromkeys(one.call.name for one in turn.calls_asked if one.is_approved is not None))


def _describe_tools(turn: Turn) -> str:
    """Name the running tools; those that a client runs only if no other runs."""
    remote = [one.call.name for one in turn.calls_running if one.reply]
    local = [one.call.name for one in turn.calls_running if not one.reply]
    return f"running {', '.join(local)}" if local else f"waiting for a client to run {', '.join(remote)}"


def _describe_idle(turn: Turn) -> tuple[str, str]:
    if turn.waiting:
        return "waiting", f"{_count(len(turn.waiting), 'message')} queued"
    return ("waiting", "a compaction is queued") if turn.wanted else ("rest", "idle")


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def gauge_of(budgets: Budgets | None) -> Gauge | None:
    """Return the usage of the budgets."""
    if budgets is None:
        return None
    return Gauge(
        tokens=_budget(budgets.tokens, budgets.tokens_max),
        wire_bytes=_budget(budgets.wire_bytes, budgets.wire_bytes_max),
        media=_budget(budgets.media, budgets.media_max),
    )


def _budget(used: int | None, limit: int | None) -> Budget | None:
    if used is None:
        return None
    return Budget(used, limit, None if limit is None else round(used / max(limit, 1), 4))


# Poll interval. A slow poll makes it longer: at most a tenth of the time is spent polling.
_POLL_SECONDS = 1.0
_POLL_SHARE = 0.1
# Buffered changes: a minute of a very busy gateway. A reader that is further behind reads the list again.
_CHANGES_MAX = 10_000
# A turn writes several records at once; they become one event.
_GATHER_SECONDS = 0.1
# After so long without a reader, start a new epoch: the next reader reads the list again.
_RESET_SECONDS = 600.0


class Change(msgspec.Struct, frozen=True):
    """A change of a session, by its key in the store, with the number of the change."""

    number: int
    session: str


class SessionWatch:
    """The changes of one tenant's sessions."""

    def __init__(self, tenant: Tenant, bounds: GatewayBounds, now: Callable[[], float] = monotonic) -> None:
        self.tenant = tenant
        self._bounds, self._now = bounds, now
        self._polling = asyncio.Lock()
        self._reset()

    def _reset(self) -> None:
        # A new epoch: cursors of earlier epochs are invalid.
        self.epoch = secrets.token_hex(4)
        self.number = 0
        self._changes: deque[Change] = deque(maxlen=_CHANGES_MAX)
        # The newest record of every session, and the session's creation time.
        self._heads: dict[str, tuple[int, float]] = {}
        self._polled_at = float("-inf")
        self._pause_seconds = _POLL_SECONDS
        self._notify = asyncio.Event()

    def cursor(self, number: int) -> str:
        """Return the cursor that resumes after a change."""
        return f"{self.epoch}-{number}"

    def position(self, cursor: str) -> tuple[int, str]:
        """Return the number of a cursor; or the newest number, and the reason why the stream cannot resume."""
        if not cursor:
            return self.number, ""
        epoch, _, text = cursor.partition("-")
        if epoch != self.epoch or not text.isdecimal() or len(text) > len(str(self.number)):
            return self.number, "the cursor is invalid or from an earlier run of this gateway"
        number = int(text)
        if number > self.number or self.is_lost(number):
            return self.number, f"more than {_CHANGES_MAX:,} changes since the cursor"
        return number, ""

    def is_lost(self, position: int) -> bool:
        """Whether changes after a position were dropped from the buffer."""
        return self.number - position > len(self._changes)

    def touch(self, session: str, seq: int = 0) -> None:
        """Record that a session has the new record `seq`; 0: that it was deleted."""
        if not seq:
            self._heads.pop(session, None)
        elif session in self._heads:
            self._heads[session] = (seq, self._heads[session][1])
        self.number += 1
        self._changes.append(Change(self.number, session))
        self._notify.set()
        self._notify = asyncio.Event()

    async def poll(self, client: Client, *, at_once: bool = False) -> None:
        """Read the newest record of all sessions, unless another call has just done so."""
        requested_at = self._now()
        async with self._polling:
            if requested_at - self._polled_at > _RESET_SECONDS:
                self._reset()
            last = self._polled_at
            if last > requested_at or (not at_once and requested_at - last < self._pause_seconds):
                return
            began = self._now()
            found = await self.tenant.every_session(client, count_max=self._bounds.sessions_watched_max)
            self._compare({known.key: (known.last_seq, known.created_at) for _, known in found})
            self._polled_at = self._now()
            self._pause_seconds = max(_POLL_SECONDS, (self._polled_at - began) / _POLL_SHARE)

    def _compare(self, heads: dict[str, tuple[int, float]]) -> None:
        is_first = self._polled_at == float("-inf")
        before, self._heads = self._heads, heads
        if is_first:
            return
        for session in [*heads, *(gone for gone in before if gone not in heads)]:
            known, found = before.get(session), heads.get(session)
            # `touch` may have recorded a newer seq than this poll read.
            if known is None or found is None or known[1] != found[1] or found[0] > known[0]:
                self.touch(session, found[0] if found else 0)

    async def since(self, position: int, client: Client) -> AsyncIterator[Change | None]:
        """Yield the last change of each session after a position, in order, forever; None if changes were dropped."""
        while True:
            if self.is_lost(position):
                position = self.number
                yield None
            # Taken before the changes are read, so that a change during the yields sets it.
            notify, count = self._notify, self.number - position
            newest: dict[str, Change] = {}
            for change in islice(reversed(self._changes), count):
                newest.setdefault(change.session, change)
            position = self.number
            for change in reversed(newest.values()):
                yield change
            try:
                async with asyncio.timeout(self._pause_seconds):
                    await notify.wait()
                await asyncio.sleep(_GATHER_SECONDS)
            except TimeoutError:
                await self.poll(client)


class SessionWatches:
    """The watches of all tenants, made on first use."""

    def __init__(self) -> None:
        self._watches: dict[str, SessionWatch] = {}

    def of(self, tenant: Tenant, bounds: GatewayBounds) -> SessionWatch:
        """Return the watch of a tenant."""
        found = self._watches.get(tenant.name)
        if found is None:
            found = self._watches[tenant.name] = SessionWatch(tenant, bounds)
        return found

    def observe(self, session: str, logged: Logged) -> None:
        """Record the change that a record of this process makes."""
        self.touch(session, logged.seq)

    def touch(self, session: str, seq: int = 0) -> None:
        """Record that a session has the new record `seq`; 0: that it was deleted."""
        for watch in self._watches.values():
            if watch.tenant.key_of(session) is not None:
                watch.touch(session, seq)
