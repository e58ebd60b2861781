"""Fold of the log: the effect of each record on the session state.

The legal order of records is defined in `core.turn.transitions`.
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
from holdfast.types.messages import Reply, ToolCall, Usage
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
    """Return the session state after an inbox record."""
    match record:
        case SessionConfigured(model=model, system=system, tools=tools):
            return replace(turn, model=model, system=system, tools=tools)
        case InputAdmitted():
            return replace(turn, waiting=(*turn.waiting, seq))
        case CancelRequested(turn=number):
            return _cancel(turn, number)
        case CompactionRequested():
            return _request_compaction(turn, seq, record)
        case CompactionUndone():
            return _undo_compaction(turn, record)
        case MessagePinned():
            return _pin(turn, record)
        case PieceSummarised():
            return _add_piece(turn, record)
        case LimitsLearned() | ResultSubmitted() | AnswerLinked() | ClientCompacted() | ClientResumed():
            # A submitted result counts once `ToolSettled` is written; the others belong to logs of their own.
            return turn
        case _:
            assert_never(record)


def _cancel(turn: Turn, number: int) -> Turn:
    """Mark an input as cancelled; ignore unknown, ended and already cancelled inputs."""
    is_owed = number in turn.waiting or (number == turn.number and number > 0)
    if not is_owed or number in turn.cancelled:
        return turn
    return replace(turn, cancelled=(*turn.cancelled, number))


def _request_compaction(turn: Turn, seq: int, record: CompactionRequested) -> Turn:
    # A compaction applied after the requester last read the log meets the request, unless the request has a focus.
    is_met = not record.focus and 0 < record.seen < turn.compaction_seq
    return replace(turn, wanted=(*turn.wanted, PendingCompaction(seq, record.trigger, record.focus, is_met)))


def _pin(turn: Turn, record: MessagePinned) -> Turn:
    others = tuple(other for other in turn.pins if other != record.pinned)
    return replace(turn, pins=tuple(sorted((*others, record.pinned))) if record.is_pinned else others)


def _undo_compaction(turn: Turn, record: CompactionUndone) -> Turn:
    gone = turn.compaction
    if gone is None or record.undone != turn.compaction_seq:
        return turn
    # Quiet turns keep the automatic trigger from compacting the restored view at once.
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


def _add_piece(turn: Turn, record: PieceSummarised) -> Turn:
    piece = Piece(record.until, record.notes, record.focus)
    if record.is_merged:
        return replace(turn, merged=piece)
    kept = tuple(other for other in turn.pieces if other.until <= record.since)
    if record.since != (kept[-1].until if kept else 0) or record.until <= record.since:
        # A stale writer made these notes; with a gap before them they would cover less than they claim.
        return turn
    is_merged_of_others = turn.merged is not None and record.since < turn.merged.until
    return replace(turn, pieces=(*kept, piece), merged=None if is_merged_of_others else turn.merged)


def notice(turn: Turn, record: WindowWarned | NoticePosted) -> Turn:
    """Return the session state after a notice to the person."""
    return replace(turn, warned_percent=record.percent) if isinstance(record, WindowWarned) else turn


def apply(turn: Turn, seq: int, record: StepRecord) -> Turn:
    """Return the session state after one step of work; `in_flight` is left to the caller."""
    match record:
        case TurnStarted(turn=number):
            return _start_turn(turn, seq, number)
        case AttemptStarted():
            return _start_attempt(turn, record)
        case ReplyRecorded(reply=reply):
            return _add_reply(turn, reply)
        case AttemptFailed():
            return _fail_attempt(turn, record)
        case AttemptAbandoned(reason=reason):
            is_crash = reason is Abandonment.INTERRUPTED
            return replace(turn, interruptions=turn.interruptions + is_crash)
        case ToolStarted():
            return _start_tool(turn, seq, record)
        case ToolInterrupted(call_id=call_id):
            call, running = _take(turn.calls_running, call_id, seq)
            return replace(turn, calls_running=running, calls_asked=(*turn.calls_asked, call))
        case ToolSettled(result=result):
            _, running = _take(turn.calls_running, result.call_id, seq)
            return replace(turn, calls_running=running)
        case TurnEnded(turn=number, code=code):
            is_offered = turn.is_choice_offered or code == CHOICE.code
            return replace(_end_turn(turn, seq, number), is_choice_offered=is_offered)
        case _:
            return apply_climb(turn, seq, record)


def _start_attempt(turn: Turn, record: AttemptStarted) -> Turn:
    return replace(
        turn,
        attempts=turn.attempts + 1,
        output_asked=record.output_tokens_max,
        budgets=record.budgets or turn.budgets,
        asked=Asked(record.model, record.tokens_estimated, record.tokens_raw),
    )


def _add_reply(turn: Turn, reply: Reply) -> Turn:
    """Reset the ladder and the count of interruptions: a reply is progress, and `steps_max` bounds the replies."""
    calls = tuple(Call(part) for part in reply.parts if isinstance(part, ToolCall))
    return replace(
        turn,
        steps=turn.steps + 1,
        calls_asked=calls,
        has_answer=not calls,
        climbed=(),
        interruptions=0,
        output_clamp=None,
        suspected=None,
        budgets=_reported_budgets(turn.budgets, reply.usage),
        answered=replace(turn.asked, reported=reply.usage.input_tokens if reply.usage else 0),
        tokens_guessed=0,
    )


def _fail_attempt(turn: Turn, record: AttemptFailed) -> Turn:
    return replace(
        turn,
        fault=record.fault,
        suspected=record.fault if _is_suspicion(record) else turn.suspected,
        tokens_guessed=turn.asked.tokens if _is_guess(record) else turn.tokens_guessed,
        is_relayed=record.is_relayed,
    )


def _reported_budgets(measured: Budgets | None, usage: Usage | None) -> Budgets | None:
    """Return the measured budgets of the answered request, or its reported input tokens if it was not measured."""
    if usage is None or (measured is not None and measured.tokens_max is not None):
        return measured
    return Budgets(usage.input_tokens)


def _is_suspicion(failed: AttemptFailed) -> bool:
    """Return whether an answer was rejected because its reported usage was below the request size."""
    return failed.refusal.status == OK and _is_guessed_overflow(failed.fault)


def _is_guess(failed: AttemptFailed) -> bool:
    """Return whether a refusal gave no reason, and overflow is only the likeliest one."""
    return failed.refusal.status != OK and _is_guessed_overflow(failed.fault)


def _is_guessed_overflow(fault: Fault) -> bool:
    return fault.kind is FaultKind.TOKEN_OVERFLOW and fault.confidence is Confidence.GUESS


def _start_turn(turn: Turn, seq: int, number: int) -> Turn:
    if number not in turn.waiting:
        raise IllegalStepError(seq, f"starts turn {number}, which is not waiting")
    waiting = tuple(other for other in turn.waiting if other != number)
    # Interruptions of a compaction between turns do not count against this turn.
    return replace(turn, waiting=waiting, number=number, last_turn=number, interruptions=0)


def _start_tool(turn: Turn, seq: int, record: ToolStarted) -> Turn:
    call, left = _take(turn.calls_asked, record.call_id, seq)
    call = replace(call, starts=call.starts + 1, is_idempotent=record.is_idempotent, reply=record.reply)
    return replace(turn, calls_asked=left, calls_running=(*turn.calls_running, call))


def _take(calls: tuple[Call, ...], call_id: str, seq: int) -> tuple[Call, tuple[Call, ...]]:
    """Return the call with this id, and the other calls."""
    for place, call in enumerate(calls):
        if call.call.call_id == call_id:
            return call, calls[:place] + calls[place + 1 :]
    raise IllegalStepError(seq, f"is about tool call {call_id!r}, which is not open")


def _end_turn(turn: Turn, seq: int, number: int) -> Turn:
    # A waiting input may end without a start, but only while no turn is open.
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
