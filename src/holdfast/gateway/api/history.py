"""The native API, what left the view of a session: why, by which record, and what stands in its place."""

from collections.abc import Iterator, Sequence
from typing import Literal

from holdfast.core.compaction.ledger import lines_in
from holdfast.core.fold.session_state import Turn
from holdfast.core.view import MASKED_BYTES_MIN, bytes_shown
from holdfast.gateway.api.report_schemas import CompactionMade, InForce, Left, Past
from holdfast.gateway.api.request_context import RequestContext
from holdfast.runtime.engine.log import Log, open_log
from holdfast.runtime.sessions.record_text import describe_parts, describe_record
from holdfast.runtime.sessions.session import Session
from holdfast.types.messages import Reasoning
from holdfast.types.records import (
    CompactionApplied,
    GenerationStarted,
    Logged,
    OutputMasked,
    PartReplaced,
    ReasoningDropped,
    ReplyRecorded,
    ToolSettled,
)

# Compactions that are followed back, each a record to read: more than a person looks through.
_COMPACTIONS_MAX = 100
# Outputs and parts that are told one by one.
_PARTS_MAX = 1_000


async def show_past(call: RequestContext) -> Past:
    """Answer with what left the view."""
    session, _ = await call.session()
    log = await open_log(call.gateway.hold.engine.store, session.key)
    turn, made, is_whole = log.turn, *await _chain(session, log.turn)
    compactions = [_compaction(logged, made[place + 1 : place + 2]) for place, logged in enumerate(made)]
    left = [*_compacted(turn, made, compactions), *_changed(log)]
    return Past(
        boundary=turn.boundary,
        generation=turn.generation,
        in_force=_in_force(turn),
        compactions=compactions,
        left=left[:_PARTS_MAX],
        pinned=list(turn.pins),
        is_whole=is_whole and len(left) <= _PARTS_MAX,
    )


async def _chain(session: Session, turn: Turn) -> tuple[list[Logged], bool]:
    """Return the compactions that led to the one in force, newest first, and whether these are all."""
    made: list[Logged] = []
    seq = turn.compaction_seq
    while seq and len(made) < _COMPACTIONS_MAX:
        logged = await session.read(seq)
        if not isinstance(logged.record, CompactionApplied):
            # Damaged since: what it says is lost, and the one in force stands for all before it.
            return made, False
        made.append(logged)
        seq = logged.record.before
    return made, seq == 0


def _compaction(logged: Logged, before: Sequence[Logged]) -> CompactionMade:
    record = logged.record
    assert isinstance(record, CompactionApplied), "a chain is of compactions"
    earlier = before[0].record if before else None
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


def _compacted(turn: Turn, made: Sequence[Logged], compactions: Sequence[CompactionMade]) -> Iterator[Left]:
    """Yield what compactions took out of the view, oldest first, and of the turn at the boundary the steps before."""
    for logged, one in reversed(list(zip(made, compactions, strict=True))):
        if one.last:
            reason = _reason(logged)
            yield Left(one.first, one.last, reason, logged.seq, describe_record(logged.record))
    if turn.first_step > turn.boundary + 1 and made:
        words = f"of turn {turn.boundary} only what came from record {turn.first_step} on is shown word for word"
        yield Left(turn.boundary + 1, turn.first_step - 1, _reason(made[0]), made[0].seq, words)


def _reason(logged: Logged) -> Literal["compacted", "rolled_over"]:
    return "rolled_over" if isinstance(logged.record, GenerationStarted) else "compacted"


def _changed(log: Log) -> Iterator[Left]:
    """Yield what is in the tail and is shown as something else."""
    turn = log.turn
    thought = [one.seq for one in log.tail if turn.boundary <= one.seq < turn.reasoning_from and _thinks(one)]
    if thought:
        # A compaction does so too: what was thought before it was thought about another view.
        dropped = (
            one.seq
            for one in reversed(log.tail)
            if isinstance(one.record, ReasoningDropped) and one.record.before == turn.reasoning_from
        )
        by = next(dropped, turn.compaction_seq)
        words = f"the model's thinking before record {turn.reasoning_from} is not sent back any more"
        yield Left(thought[0], thought[-1], "thinking", by, words)
    by = _newest(log.tail, OutputMasked)
    for logged in log.tail:
        if turn.boundary <= logged.seq < turn.masked_before and isinstance(logged.record, ToolSettled):
            size = sum(map(bytes_shown, logged.record.result.parts))
            if size >= MASKED_BYTES_MIN:
                words = f"{size:,} bytes of tool output are shown by one line"
                yield Left(logged.seq, logged.seq, "masked", by, words)
    written = {(one.record.seq, one.record.place): one.seq for one in log.tail if isinstance(one.record, PartReplaced)}
    for replaced in turn.replaced:
        if replaced.seq >= turn.boundary:
            by = written.get((replaced.seq, replaced.place), 0)
            yield Left(replaced.seq, replaced.seq, "replaced", by, replaced.why, describe_parts([replaced.shown]))


def _thinks(logged: Logged) -> bool:
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
