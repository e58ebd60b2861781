"""Log events for operators: constant names, structured fields, no message text.

Recoverable faults are logged as info, unrecoverable ones as errors.
"""

import logging
from collections.abc import Iterable

from holdfast.core.fold.session_state import Turn
from holdfast.core.limits.fit import Sizes
from holdfast.core.turn.decide import Climb, EndTurn
from holdfast.errors import HoldfastError
from holdfast.types.faults import Fault, FaultKind
from holdfast.types.records import CompactionApplied, GenerationStarted, Outcome, WorkRecord

log = logging.getLogger("holdfast")

# More messages in one request are slow for a model, and a sign that compaction does not work.
MESSAGES_MAX = 1_000
# Sessions remembered as above it, about 100 bytes each.
_SESSIONS_MAX = 10_000
_OVERFLOWS = {FaultKind.TOKEN_OVERFLOW, FaultKind.WIRE_OVERFLOW, FaultKind.MEDIA_OVERFLOW}
_OVERFLOW_CODES = {kind.value for kind in _OVERFLOWS}


def _fields(session: str, turn: Turn, kind: str) -> dict[str, object]:
    """Return the common fields of events about sizes: session, turn, attempt, request size and last rung."""
    rungs = turn.climbed_for_wanted if turn.is_wanted_climb else turn.climbed
    return {
        "session": session,
        "turn": turn.number,
        "attempt": turn.attempts,
        "kind": kind,
        "rung": rungs[-1].value if rungs else "",
        "tokens": turn.asked.tokens,
    }


def overflow_detected(session: str, turn: Turn, fault: Fault, sizes: Sizes) -> None:
    """Log that a request is too large by the model's error or our estimate."""
    if fault.kind in _OVERFLOWS:
        found = {"wire_bytes": sizes.wire_bytes, "limit": fault.limit, "requested": fault.requested}
        log.info("context.overflow.detected", extra=_fields(session, turn, fault.kind.value) | found)


def recovery_attempted(session: str, turn: Turn, action: Climb) -> None:
    """Log that a recovery step for an overflow begins."""
    if action.kind in _OVERFLOWS:
        fields = _fields(session, turn, action.kind.value) | {"rung": action.rung.value}
        log.info("context.overflow.attempting.recovery", extra=fields)


def turn_ended(session: str, turn: Turn, action: EndTurn) -> None:
    """Log the outcome of a turn."""
    code = action.ending.code if action.ending else ""
    fields = _fields(session, turn, code) | {"turn": action.turn}
    if action.outcome is Outcome.FAILED and code in _OVERFLOW_CODES:
        log.error("context.overflow.failed", extra=fields)
    log.info("turn ended", extra={**fields, "outcome": action.outcome.value})


def compactions_complete(session: str, turn: Turn, records: Iterable[WorkRecord]) -> None:
    """Log compactions and new generations."""
    for record in records:
        if isinstance(record, CompactionApplied):
            made = {
                "boundary": record.boundary,
                "tokens_before": record.tokens_before,
                "tokens_after": record.tokens_after,
                "model": record.model,
                "cost_usd": record.cost_usd,
            }
            log.info("compaction.complete", extra=_fields(session, turn, record.kind.value) | made)
        if isinstance(record, GenerationStarted):
            fields = {"session": session, "turn": record.turn, "generation": record.generation}
            log.warning("generation started", extra={**fields, "pins_left": len(record.pins_left)})


def write_postponed(session: str, turn: Turn, records: int, error: HoldfastError) -> None:
    """Log that the store failed and records wait in memory, so that the turn can continue."""
    fields = {
        "session": session,
        "turn": turn.number,
        "attempt": turn.attempts,
        "records": records,
        "code": error.code,
        "reason": str(error),
    }
    log.warning("store.write.postponed", extra=fields)


def store_full(session: str, turn: Turn) -> None:
    """Log that the disk is full and all pending work ends."""
    fields = {"session": session, "turn": turn.number, "attempt": turn.attempts, "waiting": len(turn.waiting)}
    log.error("store.full", extra=fields)


class MessageLimit:
    """Logs a session whose requests have too many messages, once until a request of it has fewer again."""

    def __init__(self) -> None:
        # Sessions above the limit, oldest first. One that is dropped from here is logged again, which does no harm.
        self._exceeded: dict[str, None] = {}

    def observe(self, session: str, turn: Turn, messages: int) -> None:
        """Log a request that exceeds the limit if the one before it did not."""
        if messages <= MESSAGES_MAX:
            self._exceeded.pop(session, None)
        elif session not in self._exceeded:
            self._exceeded[session] = None
            if len(self._exceeded) > _SESSIONS_MAX:
                del self._exceeded[next(iter(self._exceeded))]
            fields = _fields(session, turn, "messages") | {"messages": messages}
            log.warning("session.message-limit-exceeded", extra=fields)
