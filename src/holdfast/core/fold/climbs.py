"""What the records of a climb change: rungs, compactions, and the requests that they meet."""

from typing import TypeAlias, assert_never

from msgspec.structs import replace

from holdfast.core.budgets import after_change
from holdfast.core.fold.standing import QUIET_TURNS, IllegalStepError, Turn
from holdfast.core.ladder import SUMMARIES, Rung
from holdfast.core.records import (
    CompactionApplied,
    CompactionSettled,
    EffortChanged,
    GenerationStarted,
    OutputClamped,
    OutputMasked,
    PartReplaced,
    ReasoningDropped,
    RungFinished,
    RungResult,
    RungStarted,
    SummaryRefused,
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
            return replace(turn, effort=effort)
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
        case RungResult.CHANGED if record.rung is Rung.NEXT_MODEL:
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
