"""What each record adds to what was spent."""

from msgspec.structs import replace

from holdfast.core.fold.standing import Turn
from holdfast.core.messages import Usage
from holdfast.core.prices import NOTHING_SPENT, Spent
from holdfast.core.records import (
    AttemptFailed,
    CompactionApplied,
    CompactionSettled,
    Logged,
    PieceSummarised,
    ReplyRecorded,
    SessionConfigured,
    SummaryRefused,
    TurnEnded,
)

_DAY_SECONDS = 86_400


def account(turn: Turn, logged: Logged) -> Turn:
    """Return where the session stands with what a record says was paid."""
    match logged.record:
        case ReplyRecorded(reply=reply, cost_usd=usd) if reply.usage is not None or usd is not None:
            return _paid(turn, reply.usage, usd)
        case AttemptFailed(usage=usage, cost_usd=usd) if usage is not None:
            return _paid(turn, usage, usd)
        case PieceSummarised(usage=usage, cost_usd=usd):
            return replace(_noted(_paid(turn, usage, usd), logged.at, usage, usd), notes_in_vain=0)
        case SummaryRefused(usage=usage, cost_usd=usd) if usage is not None:
            noted = _noted(_paid(turn, usage, usd), logged.at, usage, usd)
            return replace(noted, notes_in_vain=noted.notes_in_vain + 1)
        case CompactionApplied() | CompactionSettled() | TurnEnded():
            return replace(turn, spent_on_this=NOTHING_SPENT)
        case SessionConfigured():
            # Another model may do better.
            return replace(turn, notes_in_vain=0)
        case _:
            return turn


def spent_today(turn: Turn, now: float) -> Spent:
    """Return what was spent on notes on the day it is now."""
    return turn.spent_on_notes_today if turn.notes_day == _day(now) else NOTHING_SPENT


def in_vain_today(turn: Turn, now: float) -> int:
    """Return how many answers of summarisers could not be used today, since the last that could."""
    return turn.notes_in_vain if turn.notes_day == _day(now) else 0


def _day(at: float) -> int:
    return int(at // _DAY_SECONDS)


def _paid(turn: Turn, usage: Usage | None, usd: float | None) -> Turn:
    on_turn = turn.spent_on_turn.plus(usage, usd) if turn.number else turn.spent_on_turn
    return replace(turn, spent=turn.spent.plus(usage, usd), spent_on_turn=on_turn)


def _noted(turn: Turn, at: float, usage: Usage | None, usd: float | None) -> Turn:
    return replace(
        turn,
        spent_on_notes=turn.spent_on_notes.plus(usage, usd),
        spent_on_this=turn.spent_on_this.plus(usage, usd),
        spent_on_notes_today=spent_today(turn, at).plus(usage, usd),
        notes_in_vain=in_vain_today(turn, at),
        notes_day=_day(at),
    )
