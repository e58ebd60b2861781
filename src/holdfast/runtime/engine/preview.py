"""What a compaction would do, looked at without doing it.

It asks the same functions that make one. Nothing is written, unless a model is asked: what it wrote is paid for, so it
is kept as pieces, and a compaction that follows uses exactly them.
"""

import msgspec
from msgspec.structs import replace

from holdfast.core.compaction.plan import Keeps
from holdfast.core.fold.session_state import Turn
from holdfast.core.turn.ladder import SUMMARIES
from holdfast.core.view import conversation
from holdfast.runtime.engine.compaction import Planned, applied, digest_of, plan, summary_of
from holdfast.runtime.engine.context import Engine
from holdfast.runtime.engine.log import Log
from holdfast.runtime.engine.summary import Summariser
from holdfast.types.records import PieceSummarised, SummaryRefused


class Preview(msgspec.Struct, frozen=True):
    """What a compaction asked for now would make of the view. Numbers are those that its record would have."""

    # The first turn that would stay word for word, and within it the step; 0: all of it.
    boundary: int
    step: int
    # What would leave the view: from which record to which, how many messages, of how many turns. None at all: the same
    # past would only be represented anew, by a model instead of a digest.
    first_seq: int
    last_seq: int
    messages: int
    turns: int
    # What would stay: messages, and pinned inputs from before the boundary.
    messages_kept: int
    pins: tuple[int, ...]
    tokens_before: int
    tokens_after: int
    # What would stand for the past without a model, digest and ledger; and with one, if one was asked and answered.
    digest: str
    summary: str = ""
    model: str = ""
    # Why a model that was asked gave nothing that can be used.
    refused: tuple[str, ...] = ()


async def preview(log: Log, engine: Engine, *, focus: str, with_model: bool) -> Preview | None:
    """Return what a compaction would do, None where there is nothing to do."""
    # No model is given up while a compaction that is asked for is planned, so none is here.
    planned = await plan(log, engine, Keeps.LITTLE)
    if planned is None:
        return None
    digest = digest_of(planned)
    looked = _Asked("", "", ())
    if with_model:
        looked = await _ask(log, engine, planned, focus)
    record = applied(log, engine, planned, looked.summary or digest, model=looked.model)
    if record is None and planned.plan.moves(log.turn):
        return None
    tokens_after = record.tokens_after if record is not None else planned.plan.tokens_before
    return _described(log.turn, log, planned, tokens_after, digest=digest, looked=looked)


def _described(turn: Turn, log: Log, planned: Planned, tokens_after: int, *, digest: str, looked: "_Asked") -> Preview:
    cut = planned.plan
    said = conversation(log.tail, first_turn=turn.boundary, first_step=turn.first_step)
    leaving = [one for one in said if cut.represents(one)]
    return Preview(
        boundary=cut.boundary,
        step=cut.step,
        first_seq=min((one.seq for one in leaving), default=0),
        last_seq=max((one.seq for one in leaving), default=0),
        messages=len(leaving),
        turns=len({one.turn for one in leaving}),
        messages_kept=len(said) - len(leaving),
        pins=tuple(pin for pin in turn.pins if pin < cut.boundary),
        tokens_before=cut.tokens_before,
        tokens_after=tokens_after,
        digest=digest,
        summary=looked.summary,
        model=looked.model,
        refused=looked.refused,
    )


class _Asked(msgspec.Struct, frozen=True):
    """What models that were asked for a summary gave."""

    summary: str
    model: str
    refused: tuple[str, ...]


async def _ask(log: Log, engine: Engine, planned: Planned, focus: str) -> _Asked:
    """Ask for a summary in the ways and in the order in which a compaction would."""
    refused: list[str] = []

    async def keep(*records: PieceSummarised | SummaryRefused) -> None:
        for record in records:
            if isinstance(record, PieceSummarised):
                # It belongs to no turn: nobody who waits for an answer waits for it.
                await engine.store.admit(log.session, replace(record, turn=0))
                await log.catch_up(engine.store)
            else:
                refused.append(f"{record.model}: {record.why}")

    for model in engine.summarisers_for(log.turn):
        summariser = Summariser(model, log, engine, keep, focus=focus)
        for rung in SUMMARIES:
            summary = await summary_of(planned, summariser, rung)
            if summary is not None:
                return _Asked(summary, model.name, tuple(refused))
            await log.catch_up(engine.store)
    return _Asked("", "", tuple(refused))
