"""Fold past a gap in the log: infer lost records where the next one cannot follow.

The writer of the records after a gap knew the lost ones, so a record that cannot follow is evidence of them: a turn
that must have started, a reply that must have been recorded. No inference may run a tool twice: a call that may have
been started counts as started.
"""

from msgspec.structs import replace

from holdfast.core.fold.session_state import NO_TURN, InFlight, PendingCompaction, Turn
from holdfast.types.faults import Rung
from holdfast.types.records import (
    ApprovalRequested,
    AttemptAbandoned,
    AttemptFailed,
    AttemptStarted,
    CompactionSettled,
    DamageSetAside,
    OutputRefused,
    ReplyRecorded,
    RungFinished,
    RungStarted,
    StepRecord,
    ToolInterrupted,
    ToolSettled,
    ToolStarted,
    Trigger,
    TurnEnded,
    TurnStarted,
)

# Damage that is not repaired yet: the last record of its writer is unknown. Above every seq that SQLite can store.
NOT_SET_ASIDE = 2**63 - 1
# Start count of a call whose start may be lost: above any bound on restarts.
_STARTS_ASSUMED = 2**31


def tear(turn: Turn, seq: int, hole: DamageSetAside) -> Turn:
    """Return the session state after a lost record."""
    turn = replace(turn, torn_until=max(turn.torn_until, hole.until or NOT_SET_ASIDE))
    if hole.is_owed:
        turn = replace(turn, waiting=(*turn.waiting, seq), unreadable=(*turn.unreadable, seq))
    if not turn.calls_asked:
        return turn
    # Any of these calls may have been started here. Each has an unknown outcome unless a result follows.
    maybe_started = tuple(replace(call, starts=_STARTS_ASSUMED) for call in turn.calls_asked)
    running = (*turn.calls_running, *maybe_started)
    return replace(turn, calls_asked=(), calls_running=running, in_flight=InFlight.TOOLS, climbing=None)


def make_fit(turn: Turn, record: StepRecord) -> tuple[Turn, bool]:
    """Return the nearest state that a record can follow, and whether the record still applies there."""
    match record:
        case TurnStarted(turn=number):
            return _waiting(_closed(turn), number), True
        case TurnEnded(turn=number):
            if number == turn.number:
                return _idle(turn), True
            return _waiting(_closed(turn), number), True
        case CompactionSettled(request=request):
            if all(pending.seq != request for pending in turn.wanted):
                turn = replace(turn, wanted=(*turn.wanted, PendingCompaction(request, Trigger.PERSON)))
            return _idle(turn), True
        case ToolStarted() | ToolSettled() | ToolInterrupted():
            return _fit_tool(_opened(turn, record.turn), record)
        case AttemptStarted() | RungStarted() | OutputRefused() | ApprovalRequested():
            return _idle(_opened(turn, record.turn)), True
        case ReplyRecorded() | AttemptFailed() | AttemptAbandoned():
            turn = _idle(_opened(turn, record.turn))
            return replace(turn, in_flight=InFlight.MODEL, attempts=max(turn.attempts, record.attempt)), True
        case _:
            turn = _opened(turn, record.turn)
            # The rung matters only for closing it as interrupted.
            rung = record.rung if isinstance(record, RungFinished) else turn.climbing or Rung.DIGEST
            return replace(_idle(turn), in_flight=InFlight.RUNG, climbing=rung), True


def _fit_tool(turn: Turn, record: ToolStarted | ToolSettled | ToolInterrupted) -> tuple[Turn, bool]:
    call_id = record.result.call_id if isinstance(record, ToolSettled) else record.call_id
    running = tuple(call for call in turn.calls_running if call.call.call_id == call_id)
    if isinstance(record, ToolStarted) and running:
        # Its start was assumed to be lost, and is recorded here.
        others = tuple(call for call in turn.calls_running if call not in running)
        asked = (*turn.calls_asked, *running)
        return replace(turn, calls_running=others, calls_asked=asked, in_flight=InFlight.TOOLS), True
    if turn.in_flight is InFlight.TOOLS:
        return turn, False
    # The reply with the call is lost, and with it the call's arguments: it can neither be shown nor run again.
    return _idle(turn), False


def _idle(turn: Turn) -> Turn:
    """Return the state with nothing in flight: the end of what was in flight is lost."""
    state = InFlight.READY if turn.number else InFlight.REST
    return replace(turn, in_flight=state, calls_running=(), climbing=None)


def _closed(turn: Turn) -> Turn:
    """Return the state without the open turn, whose end is lost. Its input may be lost too."""
    unreadable = tuple(other for other in turn.unreadable if other != turn.number)
    return _idle(replace(turn, unreadable=unreadable, **NO_TURN))


def _opened(turn: Turn, number: int) -> Turn:
    """Return the state with this turn open; 0: none."""
    if number == turn.number:
        return turn
    turn = _closed(turn)
    if not number:
        return turn
    waiting = tuple(other for other in turn.waiting if other != number)
    return replace(turn, waiting=waiting, number=number, last_turn=number, in_flight=InFlight.READY)


def _waiting(turn: Turn, number: int) -> Turn:
    return replace(turn, waiting=tuple(sorted({*turn.waiting, number})))
