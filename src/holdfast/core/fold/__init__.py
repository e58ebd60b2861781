"""What each record changes of where a session stands.

This is the meaning of the records, one by one. Which record may follow which is the turn's to say.
"""

from typing import assert_never

from msgspec.structs import replace

from holdfast.core.faults.codes import OK
from holdfast.core.fold.recovery_state import account, apply_climb, in_vain_today, spent_today
from holdfast.core.fold.session_state import (
    NO_TURN,
    QUIET_TURNS,
    Asked,
    Call,
    IllegalStepError,
    InFlight,
    PendingCompaction,
    Piece,
    Turn,
)
from holdfast.core.limits.usage import after_change
from holdfast.core.turn.failure_messages import CHOICE
from holdfast.types.faults import Confidence, Fault, FaultKind
from holdfast.types.messages import ToolCall, Usage
from holdfast.types.records import (
    Abandonment,
    AnswerLinked,
    AttemptAbandoned,
    AttemptFailed,
    AttemptStarted,
    CancelRequested,
    ClientCompacted,
    ClientResumed,
    CompactionRequested,
    CompactionUndone,
    GenerationStarted,
    InboxRecord,
    InputAdmitted,
    LimitsLearned,
    MessagePinned,
    NoticePosted,
    PieceSummarised,
    ReplyRecorded,
    ResultSubmitted,
    SessionConfigured,
    StepRecord,
    ToolInterrupted,
    ToolSettled,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    WindowWarned,
)
from holdfast.types.usage import Budgets

__all__ = [
    "NO_TURN",
    "QUIET_TURNS",
    "Asked",
    "Call",
    "IllegalStepError",
    "InFlight",
    "PendingCompaction",
    "Piece",
    "Turn",
    "account",
    "apply",
    "in_vain_today",
    "notice",
    "receive",
    "spent_today",
]


def receive(turn: Turn, seq: int, record: InboxRecord) -> Turn:
    """Return where the session stands after something came into its inbox."""
    match record:
        case SessionConfigured(model=model, system=system, tools=tools):
            return replace(turn, model=model, system=system, tools=tools)
        case InputAdmitted():
            return replace(turn, waiting=(*turn.waiting, seq))
        case CancelRequested(turn=number):
            # Whoever asks too late, again, or for what never was, asks for nothing.
            is_owed = number in turn.waiting or (number == turn.number and number > 0)
            if not is_owed or number in turn.cancelled:
                return turn
            return replace(turn, cancelled=(*turn.cancelled, number))
        case CompactionRequested(trigger=trigger, focus=focus, seen=seen):
            # One that came while this was on its way to the log is the one that was asked for, unless by its focus.
            is_met = not focus and 0 < seen < turn.compaction_seq
            return replace(turn, wanted=(*turn.wanted, PendingCompaction(seq, trigger, focus, is_met)))
        case CompactionUndone():
            return _undone(turn, record)
        case MessagePinned(pinned=pinned):
            others = tuple(other for other in turn.pins if other != pinned)
            return replace(turn, pins=tuple(sorted((*others, pinned))) if record.is_pinned else others)
        case PieceSummarised():
            return _noted(turn, record)
        case LimitsLearned() | ResultSubmitted() | AnswerLinked() | ClientCompacted() | ClientResumed():
            # A result counts when its receipt is written; the others are kept in logs of their own.
            return turn
        case _:
            assert_never(record)


def _undone(turn: Turn, record: CompactionUndone) -> Turn:
    gone = turn.compaction
    if gone is None or record.undone != turn.compaction_seq:
        return turn
    # Whoever wants the view as it was does not want us to compact it again at once.
    turn = replace(
        turn,
        compaction=record.restored,
        compaction_seq=record.restored_seq,
        warned_percent=0,
        quiet_turns=QUIET_TURNS,
        budgets=after_change(turn.budgets, gone.tokens_before),
    )
    if isinstance(gone, GenerationStarted):
        turn = replace(turn, generation=gone.left, pins=tuple(sorted({*turn.pins, *gone.pins_left})))
    return turn


def _noted(turn: Turn, record: PieceSummarised) -> Turn:
    piece = Piece(record.until, record.notes, record.focus)
    if record.is_merged:
        return replace(turn, merged=piece)
    kept = tuple(other for other in turn.pieces if other.until <= record.since)
    if record.since != (kept[-1].until if kept else 0) or record.until <= record.since:
        # Made by somebody who did not see what came meanwhile; with a gap before them notes cover less than they say.
        return turn
    is_merged_of_others = turn.merged is not None and record.since < turn.merged.until
    return replace(turn, pieces=(*kept, piece), merged=None if is_merged_of_others else turn.merged)


def notice(turn: Turn, record: WindowWarned | NoticePosted) -> Turn:
    """Return where the session stands after the person was told something."""
    return replace(turn, warned_percent=record.percent) if isinstance(record, WindowWarned) else turn


def apply(turn: Turn, seq: int, record: StepRecord) -> Turn:
    """Return where the session stands after one step of work. What is in flight is not changed here."""
    match record:
        case TurnStarted(turn=number):
            return _started(turn, seq, number)
        case AttemptStarted():
            return replace(
                turn,
                attempts=turn.attempts + 1,
                output_asked=record.output_tokens_max,
                budgets=record.budgets or turn.budgets,
                asked=Asked(record.model, record.tokens_estimated, record.tokens_raw),
            )
        case ReplyRecorded(reply=reply):
            asked = tuple(Call(part) for part in reply.parts if isinstance(part, ToolCall))
            # A reply is progress: the ladder and the count of deaths begin anew. Steps are bounded, so all of it is.
            return replace(
                turn,
                steps=turn.steps + 1,
                calls_asked=asked,
                has_answer=not asked,
                climbed=(),
                interruptions=0,
                output_clamp=None,
                suspected=None,
                budgets=_reported(turn.budgets, reply.usage),
                answered=replace(turn.asked, reported=reply.usage.input_tokens if reply.usage else 0),
                tokens_guessed=0,
            )
        case AttemptFailed(fault=fault):
            return replace(
                turn,
                fault=fault,
                suspected=fault if _is_suspicion(record) else turn.suspected,
                tokens_guessed=turn.asked.tokens if _is_guess(record) else turn.tokens_guessed,
                is_relayed=record.is_relayed,
            )
        case AttemptAbandoned(reason=reason):
            died = reason is Abandonment.INTERRUPTED
            return replace(turn, interruptions=turn.interruptions + died)
        case ToolStarted():
            return _tool_started(turn, seq, record)
        case ToolInterrupted(call_id=call_id):
            call, running = _take(turn.calls_running, call_id, seq)
            return replace(turn, calls_running=running, calls_asked=(*turn.calls_asked, call))
        case ToolSettled(result=result):
            _, running = _take(turn.calls_running, result.call_id, seq)
            return replace(turn, calls_running=running)
        case TurnEnded(turn=number, code=code):
            is_offered = turn.is_choice_offered or code == CHOICE.code
            return replace(_ended(turn, seq, number), is_choice_offered=is_offered)
        case _:
            return apply_climb(turn, seq, record)


def _reported(measured: Budgets | None, usage: Usage | None) -> Budgets | None:
    """Return what is known of the request that was answered: where nobody measured it, what the model read."""
    if usage is None or (measured is not None and measured.tokens_max is not None):
        return measured
    return Budgets(usage.input_tokens)


def _is_suspicion(failed: AttemptFailed) -> bool:
    """Return whether a model did answer, and only its own count of what it read was against it."""
    return failed.refusal.status == OK and _is_taken_for_too_large(failed.fault)


def _is_guess(failed: AttemptFailed) -> bool:
    """Return whether a model refused without a word, and the size of the request is only the likeliest reason."""
    return failed.refusal.status != OK and _is_taken_for_too_large(failed.fault)


def _is_taken_for_too_large(fault: Fault) -> bool:
    return fault.kind is FaultKind.TOKEN_OVERFLOW and fault.confidence is Confidence.GUESS


def _started(turn: Turn, seq: int, number: int) -> Turn:
    if number not in turn.waiting:
        raise IllegalStepError(seq, f"starts turn {number}, which is not waiting")
    waiting = tuple(other for other in turn.waiting if other != number)
    # Deaths while a compaction was made at rest are not this turn's.
    return replace(turn, waiting=waiting, number=number, last_turn=number, interruptions=0)


def _tool_started(turn: Turn, seq: int, record: ToolStarted) -> Turn:
    call, asked = _take(turn.calls_asked, record.call_id, seq)
    call = replace(call, starts=call.starts + 1, is_idempotent=record.is_idempotent, reply=record.reply)
    return replace(turn, calls_asked=asked, calls_running=(*turn.calls_running, call))


def _take(calls: tuple[Call, ...], call_id: str, seq: int) -> tuple[Call, tuple[Call, ...]]:
    """Return one call and the others."""
    for place, call in enumerate(calls):
        if call.call.call_id == call_id:
            return call, calls[:place] + calls[place + 1 :]
    raise IllegalStepError(seq, f"is about tool call {call_id!r}, which is not open")


def _ended(turn: Turn, seq: int, number: int) -> Turn:
    # An input that waits ends without having started, but not while another is being answered.
    if number not in ((turn.number,) if turn.number else turn.waiting):
        raise IllegalStepError(seq, f"ends turn {number}, which is not open")
    return replace(
        turn,
        waiting=tuple(other for other in turn.waiting if other != number),
        cancelled=tuple(other for other in turn.cancelled if other != number),
        unreadable=tuple(other for other in turn.unreadable if other != number),
        quiet_turns=max(turn.quiet_turns - 1, 0),
        **NO_TURN,
    )
