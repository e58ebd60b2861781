"""Fold of the log: the effect of each record on the session state.

The legal order of records is defined in `core.turn.transitions`.
"""

import hashlib
import re
from collections.abc import Callable
from typing import assert_never

from msgspec.structs import replace

from holdfast.core.faults.codes import OK
from holdfast.core.fold.recovery_state import account, apply_climb, in_vain_today, spent_today
from holdfast.core.fold.retraction import retract, switch
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
from holdfast.core.limits.fit import after_change
from holdfast.core.text.title import opening_of
from holdfast.core.turn.failure_messages import CHOICE
from holdfast.core.turn.ladder import REFUSED_TURN_KINDS
from holdfast.types.faults import Confidence, Fault, FaultKind, Refusal, Rung
from holdfast.types.limits import Budgets
from holdfast.types.messages import Role, ToolCall, Usage
from holdfast.types.records import (
    Abandonment,
    AnswerLinked,
    ApprovalAnswered,
    ApprovalRequested,
    AttemptAbandoned,
    AttemptFailed,
    AttemptStarted,
    BranchSwitched,
    CancelRequested,
    ClientCompacted,
    ClientResumed,
    CompactionRequested,
    CompactionUndone,
    GenerationStarted,
    InboxRecord,
    InputAdmitted,
    LimitsLearned,
    MessageAppended,
    MessageExcluded,
    MessagePinned,
    MessagesRetracted,
    NoticePosted,
    OutputRefused,
    PayloadStored,
    PieceSummarised,
    ReplyRecorded,
    ResultSubmitted,
    SessionConfigured,
    SessionLabelled,
    SessionLinked,
    StepRecord,
    ToolInterrupted,
    ToolSettled,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    UsageRecorded,
    UsageTotalled,
    WindowWarned,
)

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

# Exclusions in force. The oldest belong to summarised messages; each takes some 60 bytes of the snapshot.
EXCLUDED_MAX = 10_000
# Agents that a session can be handed back to. More is a loop.
HANDOFFS_MAX = 20


def receive(turn: Turn, seq: int, record: InboxRecord) -> Turn:
    """Return the session state after an inbox record."""
    match record:
        case SessionConfigured() | SessionLabelled():
            return _configure(turn, record)
        case InputAdmitted():
            return replace(turn, waiting=(*turn.waiting, seq), opening=_opening(turn, record))
        case MessageAppended() | MessagesRetracted() | BranchSwitched():
            return _change_conversation(turn, seq, record)
        case CancelRequested(turn=number):
            return _cancel(turn, number)
        case CompactionRequested():
            return _request_compaction(turn, seq, record)
        case CompactionUndone():
            return _undo_compaction(turn, record)
        case MessagePinned() | MessageExcluded():
            return _mark(turn, record)
        case PieceSummarised():
            return _add_piece(turn, record)
        case ApprovalAnswered():
            return _answer_approval(turn, record)
        case (
            PayloadStored()
            | SessionLinked()
            | LimitsLearned()
            | ResultSubmitted()
            | AnswerLinked()
            | ClientCompacted()
            | ClientResumed()
            | UsageRecorded()
            | UsageTotalled()
        ):
            # A payload is not in the view. A submitted result counts once `ToolSettled` is written; the others belong
            # to logs of their own.
            return turn
        case _:
            assert_never(record)


def _mark(turn: Turn, record: MessagePinned | MessageExcluded) -> Turn:
    return _pin(turn, record) if isinstance(record, MessagePinned) else _exclude(turn, record)


def _configure(turn: Turn, record: SessionConfigured | SessionLabelled) -> Turn:
    if isinstance(record, SessionLabelled):
        return replace(turn, labels=record)
    handed_over = turn.handed_over
    if record.is_return:
        handed_over = handed_over[:-1]
    elif record.agent and record.agent != turn.agent:
        before = SessionConfigured(
            turn.model, turn.system, turn.tools, turn.settings, turn.tool_names, agent=turn.agent
        )
        handed_over = (*handed_over, before)
    configured = replace(
        turn,
        model=record.model,
        system=record.system,
        tools=record.tools,
        settings=record.settings,
        tool_names=record.tool_names,
        agent=record.agent if record.agent or record.is_return else turn.agent,
        handed_over=handed_over[-HANDOFFS_MAX:],
    )
    if record.settings == turn.settings:
        return configured
    # New settings count again, also where the ladder had changed the effort.
    return replace(configured, effort=None, is_effort_changed=False)


def _change_conversation(turn: Turn, seq: int, record: MessageAppended | MessagesRetracted) -> Turn:
    if isinstance(record, BranchSwitched):
        return switch(turn, seq, record)
    if isinstance(record, MessagesRetracted):
        return retract(turn, seq, record)
    opening = _opening(turn, record) if record.role is Role.USER else turn.opening
    return replace(turn, last_turn=record.turn or seq, opening=opening)


def _opening(turn: Turn, record: InputAdmitted | MessageAppended) -> str:
    """Return the beginning of the first message of the user. A heartbeat is none."""
    return turn.opening or ("" if record.is_heartbeat else opening_of(record.parts))


def _cancel(turn: Turn, number: int) -> Turn:
    """Mark an input or a compaction request as cancelled; ignore unknown, ended and already cancelled ones."""
    is_wanted = any(wanted.seq == number for wanted in turn.wanted)
    is_owed = is_wanted or number in turn.waiting or (number == turn.number and number > 0)
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


def _exclude(turn: Turn, record: MessageExcluded) -> Turn:
    """Leave a message or a part out, or take it back. The whole message includes its parts."""
    others = tuple(
        other
        for other in turn.excluded
        if other.excluded != record.excluded or (record.place is not None and other.place != record.place)
    )
    excluded = (*others, record) if record.is_excluded else others
    return replace(turn, excluded=excluded[-EXCLUDED_MAX:])


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
    piece = Piece(record.until, record.notes, record.focus, record.offset, record.level)
    if record.is_merged:
        return replace(turn, merged=piece)
    since, until = (record.since, record.since_offset), (record.until, record.offset)
    kept = tuple(other for other in turn.pieces if (other.until, other.offset) <= since)
    if since != ((kept[-1].until, kept[-1].offset) if kept else (0, 0)) or until <= since:
        # A stale writer made these notes; with a gap before them they would cover less than they claim.
        return turn
    is_merged_of_others = turn.merged is not None and record.since < turn.merged.until
    turn = replace(turn, merged=None if is_merged_of_others else turn.merged)
    return _add_node(turn, len(kept), piece) if record.level else replace(turn, pieces=(*kept, piece))


def _add_node(turn: Turn, first: int, node: Piece) -> Turn:
    """Replace the nodes that a merged one covers, from an index on."""
    covered = tuple(other for other in turn.pieces[first:] if (other.until, other.offset) <= (node.until, node.offset))
    if not covered or (covered[-1].until, covered[-1].offset) != (node.until, node.offset):
        # It was merged from nodes that are no longer there.
        return turn
    merged = replace(node, weight=sum(other.weight for other in covered))
    return replace(turn, pieces=(*turn.pieces[:first], merged, *turn.pieces[first + len(covered) :]))


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
        case ReplyRecorded():
            return _add_reply(turn, record)
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
        case ToolSettled():
            return _settle(turn, seq, record)
        case OutputRefused() | ApprovalRequested():
            return _hold_up(turn, seq, record)
        case TurnEnded(turn=number, code=code):
            is_offered = turn.is_choice_offered or code == CHOICE.code
            return replace(_end_turn(turn, seq, number), is_choice_offered=is_offered)
        case _:
            return apply_climb(turn, seq, record)


def _settle(turn: Turn, seq: int, record: ToolSettled) -> Turn:
    _, running = _take(turn.calls_running, record.result.call_id, seq)
    return replace(turn, calls_running=running, has_folded=turn.has_folded or bool(record.folded))


def _hold_up(turn: Turn, seq: int, record: OutputRefused | ApprovalRequested) -> Turn:
    """Return the session state in which an answer must be repaired, or a call waits for an approval."""
    if isinstance(record, OutputRefused):
        return replace(turn, has_answer=False, outputs_refused=turn.outputs_refused + 1)
    return _with_calls(turn, lambda call: call.call.call_id == record.call_id, approval=seq)


def _answer_approval(turn: Turn, record: ApprovalAnswered) -> Turn:
    """Note the first answer to an approval request; ignore others."""

    def is_asked(call: Call) -> bool:
        return call.is_waiting and call.approval == record.request

    return _with_calls(turn, is_asked, is_approved=record.is_approved, note=record.note)


def _with_calls(turn: Turn, is_meant: Callable[[Call], bool], **changes: object) -> Turn:
    """Return the session state with changes to asked calls."""
    asked = tuple(replace(call, **changes) if is_meant(call) else call for call in turn.calls_asked)
    return replace(turn, calls_asked=asked)


def _start_attempt(turn: Turn, record: AttemptStarted) -> Turn:
    return replace(
        turn,
        attempts=turn.attempts + 1,
        output_asked=record.output_tokens_max,
        budgets=record.budgets or turn.budgets,
        asked=Asked(record.model, record.tokens_estimated, record.tokens_raw),
    )


def _add_reply(turn: Turn, record: ReplyRecorded) -> Turn:
    """Reset the ladder and the count of interruptions: a reply is progress, and `steps_max` bounds the replies."""
    reply = record.reply
    calls = tuple(
        Call(part, is_own=part.call_id in record.own_calls) for part in reply.parts if isinstance(part, ToolCall)
    )
    is_continued = bool(record.own_calls) and record.origin is None
    return replace(
        turn,
        steps=turn.steps + 1,
        calls_asked=calls,
        own_rounds=turn.own_rounds + 1 if is_continued else 0,
        has_answer=not calls,
        climbed=(),
        interruptions=0,
        refused_as="",
        refused_times=0,
        refused_turns=0,
        output_clamp=None,
        suspected=None,
        budgets=_reported_budgets(turn.budgets, reply.usage),
        answered=replace(
            turn.asked,
            reported=reply.usage.input_tokens if reply.usage else 0,
            suspected=record.tokens_suspected,
        ),
        tokens_guessed=0,
    )


def _fail_attempt(turn: Turn, record: AttemptFailed) -> Turn:
    refused_as = refusal_digest(record.refusal)
    return replace(
        turn,
        fault=record.fault,
        refused_as=refused_as,
        refused_times=turn.refused_times + 1 if refused_as == turn.refused_as else 1,
        suspected=record.fault if _is_suspicion(record) else turn.suspected,
        tokens_guessed=turn.asked.tokens if _is_guess(record) else turn.tokens_guessed,
        is_relayed=record.is_relayed,
    )


def refusal_digest(refusal: Refusal) -> str:
    """Return a digest of an error response; "" without one, as no two lost connections are the same.

    Many servers put the id of the request or the time into their errors, so words with a digit do not count.
    """
    if refusal.status is None or refusal.status == OK:
        return ""
    body = " ".join(word for word in re.findall(r"[\w-]+", refusal.body) if not any(map(str.isdigit, word)))
    return hashlib.blake2b(f"{refusal.status}\0{body}".encode("utf-8", "replace"), digest_size=8).hexdigest()


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
        refused_turns=_refused_turns(turn, number),
        **NO_TURN,
    )


def _refused_turns(turn: Turn, number: int) -> int:
    """Return the count of refused turns in a row after a turn has ended."""
    if number != turn.number or turn.fault is None or turn.fault.kind not in REFUSED_TURN_KINDS:
        return turn.refused_turns
    # The input was refused without the past, so the past is not to blame.
    return 0 if Rung.ROLL_OVER in turn.climbed else turn.refused_turns + 1
