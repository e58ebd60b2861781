"""Rungs for content that a provider refuses: leave out what came last, and take it back if that does not help."""

from holdfast.core.fold import receive
from holdfast.core.fold.session_state import Turn
from holdfast.core.turn.ladder import CONTENT_KINDS
from holdfast.core.view import messages_in_view
from holdfast.core.view.exclusion import (
    Choice,
    Place,
    given_up_in_vain,
    has_input_been_read,
    left_out_in_vain,
    next_suspects,
    told_of_excluded,
    unanswered_inputs,
)
from holdfast.runtime.engine.context import Engine
from holdfast.runtime.engine.log import Log
from holdfast.types.faults import Confidence, Fault, FaultKind
from holdfast.types.messages import Message
from holdfast.types.records import (
    CompactionApplied,
    CompactionUndone,
    MessageExcluded,
    NoticePosted,
    WorkRecord,
)


def leave_out_unanswered(log: Log, _engine: Engine) -> list[WorkRecord] | None:
    """Leave out the inputs of turns that ended without an answer since the last one."""
    return _left_out(log, Choice(tuple(unanswered_inputs(log.tail, log.turn))))


def leave_out_new(log: Log, _engine: Engine) -> list[WorkRecord] | None:
    """Leave out the next suspect of what the model has not read yet, except for the text of the newest input."""
    passed: set[Place] = set()
    while (choice := next_suspects(log.tail, log.turn, passed)).left_out:
        if done := _left_out(log, choice):
            return done
        passed.update(choice.left_out)
    return None


def _left_out(log: Log, choice: Choice) -> list[WorkRecord] | None:
    """Return the records that leave content out; None if the request would stay the same."""
    turn = log.turn
    why = turn.fault.kind.value if turn.fault else FaultKind.CONTENT_POLICY.value
    records = [
        *(MessageExcluded(seq, place, is_excluded=False, turn=turn.number) for seq, place in choice.shown_again),
        *(MessageExcluded(seq, place, turn=turn.number, why=why) for seq, place in choice.left_out),
    ]
    without = turn
    for record in records:
        without = receive(without, turn.seq, record)
    if _messages(log, turn) == _messages(log, without):
        return None
    return [*records, NoticePosted(turn.number, "left_out", told_of_excluded(choice))]


def _messages(log: Log, turn: Turn) -> tuple[Message, ...]:
    return messages_in_view(log.tail, turn, pinned=log.pinned)


def taken_back(log: Log) -> list[WorkRecord]:
    """Return the records that take back what was left out in this turn and has not helped."""
    number = log.turn.number
    return [
        MessageExcluded(one.excluded, one.place, is_excluded=False, turn=number)
        for one in left_out_in_vain(log.tail, log.turn)
    ]


async def take_back(log: Log, engine: Engine) -> list[WorkRecord]:
    """Restore the view that this turn began with: nothing that was left out of it was the cause.

    Then the newest input is. It is left out of later requests if the provider has said for certain that it refuses
    content; otherwise the next refusal shows whether it was the cause.
    """
    turn, fault = log.turn, log.turn.fault
    done: list[WorkRecord] = taken_back(log)
    first = given_up_in_vain(log.tail, turn, CONTENT_KINDS)
    if first is not None:
        restored = await _compaction(log, engine, first.before)
        done.append(CompactionUndone(turn.compaction_seq, restored, first.before))
    if fault is not None and _is_input_refused(fault) and not has_input_been_read(log.tail, turn):
        done.append(MessageExcluded(turn.number, turn=turn.number, why=fault.kind.value))
    return done


def _is_input_refused(fault: Fault) -> bool:
    return fault.kind is FaultKind.CONTENT_POLICY and fault.confidence is not Confidence.GUESS


async def _compaction(log: Log, engine: Engine, seq: int) -> CompactionApplied | None:
    """Return the compaction with this seq; None if there is none, or it cannot be read any more."""
    found = await engine.store.read(log.session, after=seq - 1, limit=1) if seq else []
    return found[0].record if found and isinstance(found[0].record, CompactionApplied) else None
