"""Folding past a hole: what may be concluded where a record is lost, and where the next one cannot follow.

Whoever wrote the records behind a hole still knew what stood in it, so a record that cannot follow is evidence of what
was lost: a turn that must have begun, an answer that must have come. Nothing is concluded that could make a tool run
twice: what may have been started counts as started.
"""

from msgspec.structs import replace

from holdfast.core.fold.session_state import NO_TURN, InFlight, PendingCompaction, Turn
from holdfast.types.faults import Rung
from holdfast.types.records import (
    AttemptAbandoned,
    AttemptFailed,
    AttemptStarted,
    CompactionSettled,
    DamageSetAside,
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

# Damage that is not set aside yet: nobody knows up to where the writer knew more. Above every seq that SQLite can hold.
NOT_SET_ASIDE = 2**63 - 1
# How often a call counts as started whose start may be what was lost: more often than any bound lets it start again.
_STARTED = 2**31


def tear(turn: Turn, seq: int, hole: DamageSetAside) -> Turn:
    """Return where the session stands behind a place whose record is lost."""
    turn = replace(turn, torn_until=max(turn.torn_until, hole.until or NOT_SET_ASIDE))
    if hole.is_owed:
        turn = replace(turn, waiting=(*turn.waiting, seq), unreadable=(*turn.unreadable, seq))
    if not turn.calls_asked:
        return turn
    # Any of these calls may have been started here. Behind this each has an unknown outcome, unless a receipt comes.
    maybe_started = tuple(replace(call, starts=_STARTED) for call in turn.calls_asked)
    running = (*turn.calls_running, *maybe_started)
    return replace(turn, calls_asked=(), calls_running=running, in_flight=InFlight.TOOLS, climbing=None)


def make_fit(turn: Turn, record: StepRecord) -> tuple[Turn, bool]:
    """Return the nearest place at which a record can follow, and whether it still has a meaning there."""
    match record:
        case TurnStarted(turn=number):
            return _waiting(_closed(turn), number), True
        case TurnEnded(turn=number):
            if number == turn.number:
                return _quiet(turn), True
            return _waiting(_closed(turn), number), True
        case CompactionSettled(request=request):
            if all(wanted.seq != request for wanted in turn.wanted):
                turn = replace(turn, wanted=(*turn.wanted, PendingCompaction(request, Trigger.PERSON)))
            return _quiet(turn), True
        case ToolStarted() | ToolSettled() | ToolInterrupted():
            return _fit_tool(_opened(turn, record.turn), record)
        case AttemptStarted() | RungStarted():
            return _quiet(_opened(turn, record.turn)), True
        case ReplyRecorded() | AttemptFailed() | AttemptAbandoned():
            turn = _quiet(_opened(turn, record.turn))
            return replace(turn, in_flight=InFlight.MODEL, attempts=max(turn.attempts, record.attempt)), True
        case _:
            turn = _opened(turn, record.turn)
            # Which rung it was matters only to whoever closes it as interrupted.
            rung = record.rung if isinstance(record, RungFinished) else turn.climbing or Rung.DIGEST
            return replace(_quiet(turn), in_flight=InFlight.RUNG, climbing=rung), True


def _fit_tool(turn: Turn, record: ToolStarted | ToolSettled | ToolInterrupted) -> tuple[Turn, bool]:
    call_id = record.result.call_id if isinstance(record, ToolSettled) else record.call_id
    running = tuple(call for call in turn.calls_running if call.call.call_id == call_id)
    if isinstance(record, ToolStarted) and running:
        # Its start was taken for lost, and comes only here.
        others = tuple(call for call in turn.calls_running if call not in running)
        asked = (*turn.calls_asked, *running)
        return replace(turn, calls_running=others, calls_asked=asked, in_flight=InFlight.TOOLS), True
    if turn.in_flight is InFlight.TOOLS:
        return turn, False
    # The reply that asked for it is lost. What the call said nobody knows, so it can neither be shown nor run again.
    return _quiet(turn), False


def _quiet(turn: Turn) -> Turn:
    """Nothing is in flight any more: whatever was has come to an end that is lost."""
    state = InFlight.READY if turn.number else InFlight.REST
    return replace(turn, in_flight=state, calls_running=(), climbing=None)


def _closed(turn: Turn) -> Turn:
    return _quiet(replace(turn, **NO_TURN))


def _opened(turn: Turn, number: int) -> Turn:
    """The turn with this number is open; 0: none is."""
    if number == turn.number:
        return turn
    turn = _closed(turn)
    if not number:
        return turn
    waiting = tuple(other for other in turn.waiting if other != number)
    return replace(turn, waiting=waiting, number=number, last_turn=number, in_flight=InFlight.READY)


def _waiting(turn: Turn, number: int) -> Turn:
    return replace(turn, waiting=tuple(sorted({*turn.waiting, number})))
