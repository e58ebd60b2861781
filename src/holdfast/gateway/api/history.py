"""Handler for a session's past: records that left the view, the reason, and their replacement."""

from collections.abc import Iterator, Sequence
from typing import Literal

from holdfast.core.compaction.ledger import lines_in
from holdfast.core.fold.session_state import Turn
from holdfast.core.view import MASKED_BYTES_MIN, bytes_shown, conversation, heartbeats, lens_of
from holdfast.gateway.api.report_schemas import CompactionMade, InForce, Left, Past
from holdfast.gateway.api.request_context import RequestContext
from holdfast.runtime.engine.log import Log, open_end
from holdfast.runtime.sessions.record_text import describe_parts, describe_record
from holdfast.runtime.sessions.session import Session
from holdfast.types.messages import Reasoning
from holdfast.types.records import (
    CompactionApplied,
    GenerationStarted,
    Logged,
    MessageExcluded,
    OutputMasked,
    PartReplaced,
    ReasoningDropped,
    ReplyRecorded,
    ToolSettled,
)

# Length of the chain of compactions that is followed, one record read each: more than a person looks through.
_COMPACTIONS_MAX = 100
# Ranges listed in a response, and records of the view that are looked at for them.
_PARTS_MAX = 1_000
_RECORDS_MAX = 1_000


async def show_past(context: RequestContext) -> Past:
    """Return the records that left the view."""
    session, known = await context.session()
    context.check_tag(known)
    store, turn = context.state.client.engine.store, await context.state.statuses.turn(known)
    log = await open_end(store, session.key, records_max=_RECORDS_MAX, turn=turn)
    chain, is_complete = await _chain(session, turn)
    is_complete = is_complete and (not log.tail or log.tail[0].seq <= max(turn.boundary, 1))
    compactions = [_compaction(logged, chain[place + 1 : place + 2]) for place, logged in enumerate(chain)]
    left = [
        *_compacted(turn, chain, compactions),
        *_dropped_reasoning(log),
        *_masked_outputs(log),
        *_replaced_parts(log),
        *_excluded_messages(log),
        *_dropped_heartbeats(log),
    ]
    return Past(
        boundary=turn.boundary,
        generation=turn.generation,
        in_force=_in_force(turn),
        compactions=compactions,
        left=left[:_PARTS_MAX],
        pinned=list(turn.pins),
        is_whole=is_complete and len(left) <= _PARTS_MAX,
    )


async def _chain(session: Session, turn: Turn) -> tuple[list[Logged], bool]:
    """Return the compactions that led to the current one, newest first, and whether the chain is complete."""
    chain: list[Logged] = []
    seq = turn.compaction_seq
    while seq and len(chain) < _COMPACTIONS_MAX:
        logged = await session.read(seq)
        if not isinstance(logged.record, CompactionApplied):
            # The record is damaged; the current compaction covers everything before it.
            return chain, False
        chain.append(logged)
        seq = logged.record.before
    return chain, seq == 0


def _compaction(logged: Logged, previous: Sequence[Logged]) -> CompactionMade:
    record = logged.record
    assert isinstance(record, CompactionApplied), "a chain is of compactions"
    earlier = previous[0].record if previous else None
    start = earlier.boundary if isinstance(earlier, CompactionApplied) else 1
    first, last = (start, record.boundary - 1) if start < record.boundary else (0, 0)
    return CompactionMade(
        seq=logged.seq,
        at=logged.at,
        kind=record.kind,
        model=record.model,
        first=first,
        last=last,
        tokens_before=record.tokens_before,
        tokens_after=record.tokens_after,
        generation=record.generation if isinstance(record, GenerationStarted) else None,
    )


def _compacted(turn: Turn, chain: Sequence[Logged], compactions: Sequence[CompactionMade]) -> Iterator[Left]:
    """Yield the ranges that compactions removed from the view, oldest first, then the steps of a split turn."""
    for logged, one in reversed(list(zip(chain, compactions, strict=True))):
        if one.last:
            reason = _reason(logged)
            yield Left(one.first, one.last, reason, logged.seq, describe_record(logged.record))
    if turn.first_step > turn.boundary + 1 and chain:
        words = f"turn {turn.boundary} is shown verbatim only from record {turn.first_step} on"
        yield Left(turn.boundary + 1, turn.first_step - 1, _reason(chain[0]), chain[0].seq, words)


def _reason(logged: Logged) -> Literal["compacted", "rolled_over"]:
    return "rolled_over" if isinstance(logged.record, GenerationStarted) else "compacted"


def _dropped_reasoning(log: Log) -> Iterator[Left]:
    """Yield the range of the tail whose reasoning is not sent back."""
    turn = log.turn
    replies = [one.seq for one in log.tail if turn.boundary <= one.seq < turn.reasoning_from and _has_reasoning(one)]
    if not replies:
        return
    # A compaction drops reasoning too: reasoning before it refers to another view.
    dropped = (
        one.seq
        for one in reversed(log.tail)
        if isinstance(one.record, ReasoningDropped) and one.record.before == turn.reasoning_from
    )
    by = next(dropped, turn.compaction_seq)
    words = f"the model's reasoning before record {turn.reasoning_from} is not sent back"
    yield Left(replies[0], replies[-1], "thinking", by, words)


def _masked_outputs(log: Log) -> Iterator[Left]:
    """Yield the tool outputs of the tail that are shown as one line."""
    turn, by = log.turn, _newest(log.tail, OutputMasked)
    for logged in log.tail:
        if turn.boundary <= logged.seq < turn.masked_before and isinstance(logged.record, ToolSettled):
            size = sum(map(bytes_shown, logged.record.result.parts))
            if size >= MASKED_BYTES_MIN:
                yield Left(logged.seq, logged.seq, "masked", by, f"{size:,} bytes of tool output masked by one line")


def _replaced_parts(log: Log) -> Iterator[Left]:
    """Yield the parts of the tail that were replaced by smaller ones."""
    recorded = {(one.record.seq, one.record.place): one.seq for one in log.tail if isinstance(one.record, PartReplaced)}
    for replaced in log.turn.replaced:
        if replaced.seq >= log.turn.boundary:
            by = recorded.get((replaced.seq, replaced.place), 0)
            yield Left(replaced.seq, replaced.seq, "replaced", by, replaced.why, describe_parts([replaced.shown]))


def _excluded_messages(log: Log) -> Iterator[Left]:
    """Yield the messages and parts of the tail that are left out."""
    recorded = {
        (one.record.excluded, one.record.place): one.seq for one in log.tail if isinstance(one.record, MessageExcluded)
    }
    for one in log.turn.excluded:
        if one.excluded >= log.turn.boundary:
            by = recorded.get((one.excluded, one.place), 0)
            yield Left(one.excluded, one.excluded, "excluded", by, one.why or "by request")


def _dropped_heartbeats(log: Log) -> Iterator[Left]:
    """Yield the heartbeats after the boundary that the current compaction dropped, each with its answer."""
    turn, beats = log.turn, heartbeats(log.tail)
    if not beats:
        return
    first_turn, first_step = turn.boundary, turn.first_step
    shown = {
        one.turn for one in conversation(log.tail, first_turn=first_turn, first_step=first_step, lens=lens_of(turn))
    }
    said = conversation(log.tail, first_turn=first_turn, first_step=first_step)
    for beat in sorted(beats - shown):
        if places := [one.seq for one in said if one.turn == beat]:
            yield Left(beat, max(places), "heartbeat", turn.compaction_seq, "a heartbeat, which no summary keeps")


def _has_reasoning(logged: Logged) -> bool:
    record = logged.record
    return isinstance(record, ReplyRecorded) and any(isinstance(part, Reasoning) for part in record.reply.parts)


def _newest(tail: Sequence[Logged], kind: type[OutputMasked]) -> int:
    return next((logged.seq for logged in reversed(tail) if isinstance(logged.record, kind)), 0)


def _in_force(turn: Turn) -> InForce | None:
    one = turn.compaction
    if one is None:
        return None
    return InForce(
        seq=turn.compaction_seq,
        kind=one.kind,
        model=one.model,
        first=1,
        last=max(one.boundary, one.step) - 1,
        text=one.summary,
        ledger=list(lines_in(one.summary)),
    )
