"""What the records of a climb change: rungs, compactions, and the requests that they meet."""

from typing import TypeAlias, assert_never

from msgspec.structs import replace

from holdfast.core.fold.session_state import QUIET_TURNS, IllegalStepError, Turn
from holdfast.core.limits.prices import NOTHING_SPENT, Spent
from holdfast.core.limits.usage import after_change
from holdfast.core.turn.ladder import SUMMARIES
from holdfast.types.faults import Rung
from holdfast.types.messages import Usage
from holdfast.types.records import (
    AttemptFailed,
    CompactionApplied,
    CompactionSettled,
    EffortChanged,
    GenerationStarted,
    Logged,
    OutputClamped,
    OutputMasked,
    PartReplaced,
    PieceSummarised,
    ReasoningDropped,
    ReplyRecorded,
    RungFinished,
    RungResult,
    RungStarted,
    SessionConfigured,
    SummaryRefused,
    TurnEnded,
)

# What comes of a climb, and of the requests that it may be for.
ClimbRecord: TypeAlias = (
    RungStarted
    | SummaryRefused
    | CompactionApplied
    | GenerationStarted
    | ReasoningDropped
    | EffortChanged
    | OutputClamped
    | OutputMasked
    | PartReplaced
    | RungFinished
    | CompactionSettled
)


def apply_climb(turn: Turn, seq: int, record: ClimbRecord) -> Turn:
    """Return where the session stands after one step of a climb."""
    match record:
        case RungStarted(rung=rung, kind=None):
            climbed = (*turn.climbed_for_wanted, rung)
            return replace(turn, climbed_for_wanted=climbed, climbing=rung, is_wanted_climb=True)
        case RungStarted(rung=rung):
            return replace(turn, climbed=(*turn.climbed, rung), climbing=rung, is_wanted_climb=False)
        case SummaryRefused(why=why):
            # Of a climb that answers a fault, nobody who asks for a compaction later wants to hear.
            return replace(turn, refused_why=why) if turn.is_wanted_climb else turn
        case GenerationStarted(generation=generation):
            pins = tuple(pin for pin in turn.pins if pin not in record.pins_left)
            turn = replace(turn, generation=generation, generations=generation, pins=pins)
            return _compacted(turn, seq, record, reasoning_from=seq)
        case CompactionApplied():
            # A turn that is being answered goes on with its own thinking, as providers demand behind a tool's result.
            # What they refused there stays behind.
            kept_from = max(turn.number, turn.reasoning_from) if turn.number else seq
            return _compacted(turn, seq, record, reasoning_from=kept_from)
        case ReasoningDropped(before=before):
            return replace(turn, reasoning_from=before)
        case EffortChanged(effort=effort):
            return replace(turn, effort=effort, is_effort_changed=True)
        case OutputClamped(output_tokens_max=most):
            return replace(turn, output_clamp=most)
        case OutputMasked(before=before):
            return replace(turn, masked_before=max(turn.masked_before, before))
        case PartReplaced():
            return replace(turn, replaced=(*turn.replaced, record))
        case RungFinished():
            return _rung_finished(turn, record)
        case CompactionSettled(request=request):
            return _settled(turn, seq, request)
        case _:
            assert_never(record)


def _compacted(turn: Turn, seq: int, record: CompactionApplied | GenerationStarted, *, reasoning_from: int) -> Turn:
    return replace(
        turn,
        compaction=record,
        compaction_seq=seq,
        is_choice_offered=False,
        warned_percent=0,
        budgets=after_change(turn.budgets, record.tokens_after),
        quiet_turns=QUIET_TURNS,
        # Signatures may be bound to what stood before them, and that has changed.
        reasoning_from=reasoning_from,
        wanted=tuple(replace(wanted, is_met=True) for wanted in turn.wanted),
        # What is pinned stays in the view, and so does what stands for parts of it.
        replaced=tuple(one for one in turn.replaced if one.seq >= record.boundary or one.seq in turn.pins),
    )


def _settled(turn: Turn, seq: int, request: int) -> Turn:
    left = tuple(wanted for wanted in turn.wanted if wanted.seq != request)
    if left == turn.wanted:
        raise IllegalStepError(seq, f"settles request {request}, which is not wanted")
    return replace(
        turn,
        wanted=left,
        climbed_for_wanted=(),
        summarisers_passed=0,
        refused_why="",
        quiet_turns=QUIET_TURNS,
        # An outcome is progress, as a reply is.
        interruptions=0,
    )


def _rung_finished(turn: Turn, record: RungFinished) -> Turn:
    turn = replace(turn, climbing=None)
    match record.result:
        case RungResult.UNCHANGED:
            return turn
        case RungResult.INTERRUPTED:
            return _uncount(turn)
        case RungResult.CHANGED if record.rung is Rung.NEXT_SUMMARISER:
            # The next summariser may try the same ways. There are finitely many summarisers.
            return replace(
                turn,
                summarisers_passed=turn.summarisers_passed + 1,
                climbed=_without_summaries(turn.climbed),
                climbed_for_wanted=_without_summaries(turn.climbed_for_wanted),
            )
        case RungResult.CHANGED if turn.is_wanted_climb:
            return turn
        case RungResult.CHANGED if record.rung is Rung.FALLBACK_MODEL:
            # Another model is another ladder. There are finitely many models.
            return replace(
                turn,
                fault=None,
                climbed=(),
                models_passed=turn.models_passed + 1,
                output_clamp=None,
                suspected=None,
                tokens_guessed=0,
            )
        case RungResult.CHANGED if record.rung is Rung.REPAIR_PAIRS:
            return replace(turn, fault=None, has_repaired_pairs=True)
        case RungResult.CHANGED:
            return replace(turn, fault=None)
        case _:
            assert_never(record.result)


def _uncount(turn: Turn) -> Turn:
    """Let a rung that was interrupted be climbed again."""
    if turn.is_wanted_climb:
        return replace(turn, climbed_for_wanted=turn.climbed_for_wanted[:-1], interruptions=turn.interruptions + 1)
    return replace(turn, climbed=turn.climbed[:-1], interruptions=turn.interruptions + 1)


def _without_summaries(climbed: tuple[Rung, ...]) -> tuple[Rung, ...]:
    return tuple(rung for rung in climbed if rung not in (*SUMMARIES, Rung.NEXT_SUMMARISER))


# --- What each record adds to what was spent.


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
