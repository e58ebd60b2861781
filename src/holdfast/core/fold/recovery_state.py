"""Fold of recovery records (rungs, compactions, compaction requests) and of costs."""

from typing import TypeAlias, assert_never

from msgspec.structs import replace

from holdfast.core.fold.session_state import QUIET_TURNS, IllegalStepError, Turn
from holdfast.core.limits.fit import after_change
from holdfast.core.limits.prices import NOTHING_SPENT, Spent
from holdfast.core.limits.savings import after_reply, plus_saved, saved_by_reply
from holdfast.core.turn.failure_messages import FailedModel
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
    ParameterDropped,
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

# Effects of rungs on the next requests, without a compaction.
RequestChange: TypeAlias = (
    ReasoningDropped | EffortChanged | ParameterDropped | OutputClamped | OutputMasked | PartReplaced
)
# Records of rungs, their effects, and compaction requests.
ClimbRecord: TypeAlias = (
    RungStarted
    | SummaryRefused
    | CompactionApplied
    | GenerationStarted
    | RequestChange
    | RungFinished
    | CompactionSettled
)


def apply_climb(turn: Turn, seq: int, record: ClimbRecord) -> Turn:
    """Return the session state after one record of a climb."""
    match record:
        case RungStarted():
            return _start_rung(turn, record)
        case SummaryRefused(why=why):
            return _refuse_summary(turn, why)
        case GenerationStarted():
            return _start_generation(turn, seq, record)
        case CompactionApplied():
            return _apply_compaction(turn, seq, record)
        case RungFinished():
            return _finish_rung(turn, record)
        case CompactionSettled(request=request):
            return _settle_request(turn, seq, request)
        case _:
            return _change_request(turn, record)


def _change_request(turn: Turn, record: RequestChange) -> Turn:
    match record:
        case ReasoningDropped(before=before):
            return replace(turn, reasoning_from=before)
        case EffortChanged(effort=effort):
            return replace(turn, effort=effort, is_effort_changed=True)
        case ParameterDropped():
            return replace(turn, dropped=(*turn.dropped, record))
        case OutputClamped(output_tokens_max=most):
            return replace(turn, output_clamp=most)
        case OutputMasked(before=before):
            return replace(turn, masked_before=max(turn.masked_before, before))
        case PartReplaced():
            return replace(turn, replaced=(*turn.replaced, record))
        case _:
            assert_never(record)


def _start_rung(turn: Turn, record: RungStarted) -> Turn:
    rung = record.rung
    if record.kind is None:
        climbed = (*turn.climbed_for_wanted, rung)
        return replace(turn, climbed_for_wanted=climbed, climbing=rung, is_wanted_climb=True)
    return replace(turn, climbed=(*turn.climbed, rung), climbing=rung, is_wanted_climb=False)


def _refuse_summary(turn: Turn, why: str) -> Turn:
    """Keep the reason for the outcome of a compaction request; climbs for a fault have no use for it."""
    return replace(turn, refused_why=why) if turn.is_wanted_climb else turn


def _start_generation(turn: Turn, seq: int, record: GenerationStarted) -> Turn:
    pins = tuple(pin for pin in turn.pins if pin not in record.pins_left)
    turn = replace(turn, generation=record.generation, generations=record.generation, pins=pins)
    return _change_compaction(turn, seq, record, reasoning_from=seq)


def _apply_compaction(turn: Turn, seq: int, record: CompactionApplied) -> Turn:
    # Providers require the reasoning of the open turn behind its tool results; reasoning they refused stays dropped.
    reasoning_from = max(turn.number, turn.reasoning_from) if turn.number else seq
    return _change_compaction(turn, seq, record, reasoning_from=reasoning_from)


def _change_compaction(
    turn: Turn, seq: int, record: CompactionApplied | GenerationStarted, *, reasoning_from: int
) -> Turn:
    return replace(
        turn,
        compaction=record,
        compaction_seq=seq,
        is_choice_offered=False,
        warned_percent=0,
        budgets=after_change(turn.budgets, record.tokens_after),
        quiet_turns=QUIET_TURNS,
        # Signatures of reasoning may cover the messages before it, which have changed.
        reasoning_from=reasoning_from,
        wanted=tuple(replace(wanted, is_met=True) for wanted in turn.wanted),
        # Pinned messages stay in the view, and so do the replacements of their parts.
        replaced=tuple(one for one in turn.replaced if one.seq >= record.boundary or one.seq in turn.pins),
    )


def _settle_request(turn: Turn, seq: int, request: int) -> Turn:
    left = tuple(wanted for wanted in turn.wanted if wanted.seq != request)
    if left == turn.wanted:
        raise IllegalStepError(seq, f"settles request {request}, which is not wanted")
    return replace(
        turn,
        wanted=left,
        cancelled=tuple(other for other in turn.cancelled if other != request),
        climbed_for_wanted=(),
        summarisers_passed=0,
        refused_why="",
        quiet_turns=QUIET_TURNS,
        # An outcome is progress, like a reply.
        interruptions=0,
    )


def _finish_rung(turn: Turn, record: RungFinished) -> Turn:
    turn = replace(turn, climbing=None)
    if record.result is RungResult.CHANGED and record.rung not in (Rung.BACKOFF, Rung.RETRY):
        # The next request differs, so its refusals are counted anew.
        turn = replace(turn, refused_as="", refused_times=0)
    match record.result:
        case RungResult.UNCHANGED:
            return turn
        case RungResult.INTERRUPTED:
            return _allow_again(turn)
        case RungResult.CHANGED if record.rung is Rung.NEXT_SUMMARISER:
            # The next summariser starts with all summary rungs. There are finitely many summarisers.
            return replace(
                turn,
                summarisers_passed=turn.summarisers_passed + 1,
                climbed=_without_summaries(turn.climbed),
                climbed_for_wanted=_without_summaries(turn.climbed_for_wanted),
            )
        case RungResult.CHANGED if turn.is_wanted_climb:
            return turn
        case RungResult.CHANGED if record.rung is Rung.FALLBACK_MODEL:
            # Another model starts a new ladder. There are finitely many models.
            return replace(
                turn,
                fault=None,
                climbed=(),
                models_passed=turn.models_passed + 1,
                failed_models=_with_failed_model(turn),
                output_clamp=None,
                dropped=(),
                suspected=None,
                tokens_guessed=0,
            )
        case RungResult.CHANGED if record.rung is Rung.REPAIR_PAIRS:
            return replace(turn, fault=None, has_repaired_pairs=True)
        case RungResult.CHANGED:
            return replace(turn, fault=None)
        case _:
            assert_never(record.result)


def _with_failed_model(turn: Turn) -> tuple[FailedModel, ...]:
    """Return the models given up, with the current one. A damaged log may lack its fault."""
    if turn.fault is None:
        return turn.failed_models
    return (*turn.failed_models, FailedModel(turn.asked.model, turn.fault.kind))


def _allow_again(turn: Turn) -> Turn:
    """Remove an interrupted rung from the climbed ones, so that it is climbed again."""
    if turn.is_wanted_climb:
        return replace(turn, climbed_for_wanted=turn.climbed_for_wanted[:-1], interruptions=turn.interruptions + 1)
    return replace(turn, climbed=turn.climbed[:-1], interruptions=turn.interruptions + 1)


def _without_summaries(climbed: tuple[Rung, ...]) -> tuple[Rung, ...]:
    return tuple(rung for rung in climbed if rung not in (*SUMMARIES, Rung.NEXT_SUMMARISER))


# --- Costs ---


_DAY_SECONDS = 86_400


def account(turn: Turn, logged: Logged) -> Turn:
    """Return the session state with the usage and cost of a record added."""
    match logged.record:
        case ReplyRecorded(reply=reply, cost_usd=usd) if reply.usage is not None or usd is not None:
            return _add_savings(_add_cost(turn, reply.usage, usd), logged.record)
        case AttemptFailed(usage=usage, cost_usd=usd) if usage is not None:
            return _add_cost(turn, usage, usd)
        case PieceSummarised(usage=usage, cost_usd=usd):
            counted = _add_summary_cost(_add_cost(turn, usage, usd), logged.at, usage, usd)
            return replace(counted, notes_in_vain=max(counted.notes_in_vain - 1, 0))
        case SummaryRefused(usage=usage, cost_usd=usd) if usage is not None:
            counted = _add_summary_cost(_add_cost(turn, usage, usd), logged.at, usage, usd)
            in_vain, refused = counted.notes_in_vain + 1, counted.refused_on_this + 1
            return replace(counted, notes_in_vain=in_vain, refused_on_this=refused)
        case CompactionApplied() | CompactionSettled() | TurnEnded():
            return replace(turn, spent_on_this=NOTHING_SPENT, refused_on_this=0)
        case SessionConfigured():
            # The new configuration may name another summariser.
            return replace(turn, notes_in_vain=0)
        case _:
            return turn


def spent_today(turn: Turn, now: float) -> Spent:
    """Return the cost of summaries on the current day."""
    return turn.spent_on_notes_today if turn.notes_day == _day(now) else NOTHING_SPENT


def in_vain_today(turn: Turn, now: float) -> int:
    """Return the number of unusable summaries today, less the usable ones."""
    return turn.notes_in_vain if turn.notes_day == _day(now) else 0


def _day(at: float) -> int:
    return int(at // _DAY_SECONDS)


def _add_cost(turn: Turn, usage: Usage | None, usd: float | None) -> Turn:
    on_turn = turn.spent_on_turn.plus(usage, usd) if turn.number else turn.spent_on_turn
    return replace(turn, spent=turn.spent.plus(usage, usd), spent_on_turn=on_turn)


def _add_savings(turn: Turn, record: ReplyRecorded) -> Turn:
    usage, own, at = record.reply.usage, record.own_request, record.answered_at
    if usage is not None and at:
        turn = replace(turn, cache=after_reply(turn.cache, usage, own, turn.view_changes, at))
    if own is None:
        return turn
    return replace(turn, saved=plus_saved(turn.saved, saved_by_reply(usage, record.cost_usd, own)))


def _add_summary_cost(turn: Turn, at: float, usage: Usage | None, usd: float | None) -> Turn:
    return replace(
        turn,
        spent_on_notes=turn.spent_on_notes.plus(usage, usd),
        spent_on_this=turn.spent_on_this.plus(usage, usd),
        spent_on_notes_today=spent_today(turn, at).plus(usage, usd),
        notes_in_vain=in_vain_today(turn, at),
        notes_day=_day(at),
    )
