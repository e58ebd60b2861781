"""Climbing a rung: what each way of recovering does, and the records that say so."""

from itertools import islice
from typing import assert_never

from holdfast.core.compaction import plan_cut, summary_tokens_max, tail_tokens_max
from holdfast.core.digest import Passage, represent
from holdfast.core.faults import Phase
from holdfast.core.ladder import Rung
from holdfast.core.records import (
    AttemptFailed,
    CompactionApplied,
    Logged,
    NoticePosted,
    RungFinished,
    RungResult,
    WorkRecord,
)
from holdfast.core.sizing import bytes_of_message, tokens_of_text
from holdfast.core.view import conversation
from holdfast.ports import Store
from holdfast.runtime.engine import Engine
from holdfast.runtime.learning import Known
from holdfast.runtime.log import Log
from holdfast.runtime.requests import prepare

# What a digest is made from, newest first. About the text of 25 full small windows; beyond it, a digest of bounded
# length gains nothing and a person would wait for it.
_ORIGINALS_BYTES_MAX = 4 * 2**20
_PAGE_RECORDS = 1_000


async def climb(rung: Rung, log: Log, engine: Engine) -> list[WorkRecord]:
    """Do what a rung does and return the records of it, the last of which says whether it changed anything."""
    turn = log.turn
    models = engine.models(turn.model)
    known = await engine.learning.known(models[turn.models_passed])
    match rung:
        case Rung.TRY_AGAIN | Rung.BACK_OFF:
            return [RungFinished(turn.number, rung, RungResult.CHANGED)]
        case Rung.NEXT_MODEL:
            has_next = turn.models_passed + 1 < len(models)
            result = RungResult.CHANGED if has_next else RungResult.UNCHANGED
            return [RungFinished(turn.number, rung, result)]
        case Rung.DIGEST:
            keep = tail_tokens_max(known.limits, engine.bounds, prepare(log, engine, known).sizes.tokens)
            return await _compact(rung, log, engine, known, keep_tokens=keep)
        case Rung.KEEP_NEWEST:
            return await _compact(rung, log, engine, known, keep_tokens=0)
        case Rung.SEND_ANYWAY:
            result = RungResult.UNCHANGED if _was_sent(log) else RungResult.CHANGED
            return [RungFinished(turn.number, rung, result)]
        case _:
            assert_never(rung)


def _was_sent(log: Log) -> bool:
    """Return whether the last refusal came from a model, and not from our own estimate."""
    refusals = (logged.record.refusal for logged in reversed(log.tail) if isinstance(logged.record, AttemptFailed))
    return all(refusal.phase is not Phase.ESTIMATE for refusal in islice(refusals, 1))


async def _compact(rung: Rung, log: Log, engine: Engine, known: Known, *, keep_tokens: int) -> list[WorkRecord]:
    turn = log.turn
    cut = plan_cut(conversation(log.tail, first_turn=turn.boundary), newest=turn.number, keep_tokens=keep_tokens)
    if cut is None:
        return [RungFinished(turn.number, rung, RungResult.UNCHANGED)]
    tokens_before = prepare(log, engine, known).sizes.tokens
    passages = await _originals(engine.store, log.session, before=cut.boundary)
    summary = represent(passages, tokens_max=summary_tokens_max(known.limits, tokens_before))
    freed = cut.tokens_before - cut.tokens_kept
    tokens_after = tokens_before - freed + tokens_of_text(summary)
    if tokens_after >= tokens_before:
        return [RungFinished(turn.number, rung, RungResult.UNCHANGED)]
    sentence = (
        f"The conversation had grown to about {tokens_before:,} tokens, so everything before message {cut.boundary} is "
        f"now represented by a digest ({tokens_of_text(summary):,} tokens, made without a model). "
        "The originals are kept and can be read."
    )
    return [
        CompactionApplied(turn.number, cut.boundary, summary, tokens_before, tokens_after),
        NoticePosted(turn.number, "compacted", sentence),
        RungFinished(turn.number, rung, RungResult.CHANGED),
    ]


async def _originals(store: Store, session: str, *, before: int) -> list[Passage]:
    """Return what was said before a turn, from the records themselves, never from an earlier digest."""
    records: list[Logged] = []
    after = 0
    while after < before - 1 and (page := await store.read(session, after=after, limit=_PAGE_RECORDS)):
        records += page
        after = page[-1].seq
    passages = [Passage(said.seq, said.message) for said in conversation(records) if said.turn < before]
    return _newest(passages)


def _newest(passages: list[Passage]) -> list[Passage]:
    kept: list[Passage] = []
    left = _ORIGINALS_BYTES_MAX
    for passage in reversed(passages):
        left -= bytes_of_message(passage.message)
        if left < 0:
            break
        kept.append(passage)
    return kept[::-1]
