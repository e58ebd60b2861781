"""Where many sessions stand, for a list of them: read from snapshots and the few records behind, and remembered.

What a session is doing is a fold of its log, and a list must not read logs. A runner keeps a snapshot every few hundred
records, so little is left to fold; what is told of a session is kept until it has another record.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from typing import TypeVar

import msgspec

from holdfast.core.fold.session_state import InFlight, Turn
from holdfast.core.limits.bounds import follows_a_client
from holdfast.gateway.api.schemas import Budget, Gauge, SessionSummary
from holdfast.ports import Log, SessionInfo
from holdfast.runtime.engine.log import stand
from holdfast.runtime.engine.runner import SNAPSHOT_EVERY_RECORDS
from holdfast.runtime.sessions.record_text import RUNGS
from holdfast.types.usage import Budgets

# Snapshots are made at the end of a turn, so a long one may be behind the newest. A turn that is longer is told without
# what only its records could say; each costs some 20 microseconds.
_RECORDS_MAX = 2 * SNAPSHOT_EVERY_RECORDS
# What is told of a session is some hundred bytes: these are a few MiB.
_TOLD_MAX = 20_000
# A fold may carry a summary of some ten thousand bytes: these are a few MiB too.
_TURNS_MAX = 300


_KeptT = TypeVar("_KeptT")


class SessionStatus(msgspec.Struct, frozen=True):
    """What a session is doing: a word for programs, a few for people, and how full its budgets are."""

    state: str
    says: str
    gauge: Gauge | None
    # None: not known without reading more of the log than a list may.
    generation: int | None
    open_turns: int
    model: str | None


class StatusCache:
    """What is known of where sessions stand."""

    def __init__(self, store: Log) -> None:
        self._store = store
        self._told: OrderedDict[str, tuple[SessionInfo, SessionStatus]] = OrderedDict()
        self._turns: OrderedDict[str, tuple[float, Turn]] = OrderedDict()

    async def of(self, known: SessionInfo) -> SessionStatus:
        """Return where a session stands, by its key in the store."""
        found = self._told.get(known.key)
        if found is not None and found[0] == known:
            self._told.move_to_end(known.key)
            return found[1]
        turn = await self._turn(known)
        standing = _standing(known, turn)
        if turn is None or turn.seq == known.last_seq:
            _remember(self._told, known.key, (known, standing), _TOLD_MAX)
        return standing

    async def summaries(self, named: Sequence[tuple[str, SessionInfo]]) -> list[SessionSummary]:
        """Return what a list shows of sessions, each under the name that its tenant has for it."""
        standings = await asyncio.gather(*(self.of(known) for _, known in named))
        return [summary(key, known, one) for (key, known), one in zip(named, standings, strict=True)]

    async def _turn(self, known: SessionInfo) -> Turn | None:
        before = self._turns.get(known.key)
        # One that was deleted and made anew has another beginning, or, where it was imported again, another end.
        is_same = before is not None and before[0] == known.created_at and before[1].seq <= known.last_seq
        since = before[1] if before is not None and is_same else None
        turn = await stand(self._store, known.key, since=since, records_max=_RECORDS_MAX)
        if turn is not None and (known.owed or since is not None):
            # It is being worked on, so somebody will ask again in a moment.
            _remember(self._turns, known.key, (known.created_at, turn), _TURNS_MAX)
        return turn


def _remember(kept: OrderedDict[str, _KeptT], key: str, value: _KeptT, count_max: int) -> None:
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > count_max:
        kept.popitem(last=False)


def summary(key: str, known: SessionInfo, standing: SessionStatus) -> SessionSummary:
    """Return what a list shows of a session."""
    return SessionSummary(
        key=key,
        records=known.last_seq,
        unanswered=known.owed,
        created_at=known.created_at,
        updated_at=known.updated_at,
        state=standing.state,
        says=standing.says,
        gauge=standing.gauge,
        generation=standing.generation,
        open_turns=standing.open_turns,
        model=standing.model,
    )


def _standing(known: SessionInfo, turn: Turn | None) -> SessionStatus:
    if turn is None:
        state, says = ("working", "being worked on") if known.owed else ("rest", "at rest")
        return SessionStatus(state, says, None, None, known.owed, None)
    state, says = in_words(turn, follows_client=follows_a_client(known.key))
    open_turns = len(turn.waiting) + bool(turn.number)
    return SessionStatus(state, says, gauge_of(turn.budgets), turn.generation, open_turns, turn.model)


def in_words(turn: Turn, *, follows_client: bool = False) -> tuple[str, str]:
    """Say what a session is doing: a stable word, and plain ones."""
    behind = f"; {_count(len(turn.waiting), 'message')} behind it" if turn.waiting else ""
    match turn.in_flight:
        case InFlight.MODEL:
            return "model", f"the model is answering{behind}"
        case InFlight.TOOLS:
            theirs = [one.call.name for one in turn.calls_running if one.reply]
            ours = [one.call.name for one in turn.calls_running if not one.reply]
            what = f"running {', '.join(ours)}" if ours else f"waiting for a client to run {', '.join(theirs)}"
            return "tools", what + behind
        case InFlight.RUNG if turn.climbing is not None:
            return "rung", RUNGS[turn.climbing] + behind
        case InFlight.READY | InFlight.RUNG:
            return "ready", ("waiting for its client" if follows_client else "about to go on") + behind
        case InFlight.REST:
            return _at_rest(turn)


def _at_rest(turn: Turn) -> tuple[str, str]:
    if turn.waiting:
        waits = "waits" if len(turn.waiting) == 1 else "wait"
        return "waiting", f"{_count(len(turn.waiting), 'message')} {waits} to be answered"
    return ("waiting", "a compaction was asked for") if turn.wanted else ("rest", "at rest")


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def gauge_of(budgets: Budgets | None) -> Gauge | None:
    """Return how full the budgets are."""
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
