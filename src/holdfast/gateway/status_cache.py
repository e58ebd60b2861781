"""Cache of session statuses for lists, built from snapshots and the few records after them.

A status is a fold of the session's log, and a list must not read whole logs. A runner writes a snapshot every few
hundred records, so little is left to fold. A status stays cached until the session has a new record.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from typing import TypeVar

import msgspec

from holdfast.core.fold.session_state import InFlight, Turn
from holdfast.core.limits.bounds import is_proxy_session
from holdfast.gateway.api.schemas import Budget, Gauge, SessionSummary
from holdfast.ports import Log, SessionInfo
from holdfast.runtime.engine.log import stand
from holdfast.runtime.engine.runner import SNAPSHOT_EVERY_RECORDS
from holdfast.runtime.sessions.record_text import RUNGS
from holdfast.types.usage import Budgets

# Snapshots are written at the end of a turn, so a long turn may follow the newest one. The status of a turn with more
# records than this omits their details; each record costs about 20 microseconds.
_RECORDS_MAX = 2 * SNAPSHOT_EVERY_RECORDS
# Statuses of a few hundred bytes each: a few MiB.
_STATUSES_MAX = 20_000
# Folds that may carry a summary of about ten thousand bytes each: a few MiB too.
_TURNS_MAX = 300


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


class StatusCache:
    """LRU caches of statuses and of the folds they come from."""

    def __init__(self, store: Log) -> None:
        self._store = store
        self._statuses: OrderedDict[str, tuple[SessionInfo, SessionStatus]] = OrderedDict()
        self._turns: OrderedDict[str, tuple[float, Turn]] = OrderedDict()

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

    async def summaries(self, named: Sequence[tuple[str, SessionInfo]]) -> list[SessionSummary]:
        """Return the list rows of sessions, each with the key that its tenant uses."""
        statuses = await asyncio.gather(*(self.of(known) for _, known in named))
        return [summary(key, known, one) for (key, known), one in zip(named, statuses, strict=True)]

    async def _turn(self, known: SessionInfo) -> Turn | None:
        before = self._turns.get(known.key)
        # A session that was deleted and created again has another creation time, or, if imported, another last seq.
        is_same = before is not None and before[0] == known.created_at and before[1].seq <= known.last_seq
        since = before[1] if before is not None and is_same else None
        turn = await stand(self._store, known.key, since=since, records_max=_RECORDS_MAX)
        if turn is not None and (known.owed or since is not None):
            # The session is active, so the next request comes soon.
            _remember(self._turns, known.key, (known.created_at, turn), _TURNS_MAX)
        return turn


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
    )


def _status(known: SessionInfo, turn: Turn | None) -> SessionStatus:
    if turn is None:
        state, says = ("working", "working") if known.owed else ("rest", "idle")
        return SessionStatus(state, says, None, None, known.owed, None)
    state, says = describe(turn, follows_client=is_proxy_session(known.key))
    open_turns = len(turn.waiting) + bool(turn.number)
    return SessionStatus(state, says, gauge_of(turn.budgets), turn.generation, open_turns, turn.model)


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
        case InFlight.READY | InFlight.RUNG:
            return "ready", ("waiting for its client" if follows_client else "about to continue") + queued
        case InFlight.REST:
            return _describe_idle(turn)


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
