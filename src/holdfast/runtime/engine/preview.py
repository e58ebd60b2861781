"""Preview of a compaction.

It uses the functions of a real compaction. Nothing is written, except for a model's summary: its pieces are paid for,
so they are recorded, and a later compaction reuses them.
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
    """The result of a compaction if it were requested now, with the numbers of its record."""

    # The first turn that would stay verbatim, and its first step; 0: all of it.
    boundary: int
    step: int
    # Records that would leave the view: first and last seq, number of messages and turns. All 0 if a summary would only
    # replace a digest of the same past.
    first_seq: int
    last_seq: int
    messages: int
    turns: int
    # Messages that would stay, and pinned inputs before the boundary.
    messages_kept: int
    pins: tuple[int, ...]
    tokens_before: int
    tokens_after: int
    # The digest with its ledger; and a model's summary, if one was requested and given.
    digest: str
    summary: str = ""
    model: str = ""
    # Reasons why summaries of models are unusable.
    refused: tuple[str, ...] = ()


async def preview(log: Log, engine: Engine, *, focus: str, with_model: bool) -> Preview | None:
    """Return the preview of a compaction, None if there is nothing to compact."""
    # A requested compaction keeps little verbatim.
    planned = await plan(log, engine, Keeps.LITTLE)
    if planned is None:
        return None
    digest = digest_of(planned)
    summarised = _ModelSummary("", "", ())
    if with_model:
        summarised = await _ask(log, engine, planned, focus)
    record = applied(log, engine, planned, summarised.summary or digest, model=summarised.model)
    if record is None and planned.plan.moves(log.turn):
        return None
    tokens_after = record.tokens_after if record is not None else planned.plan.tokens_before
    return _preview_of(log.turn, log, planned, tokens_after, digest=digest, summarised=summarised)


def _preview_of(
    turn: Turn, log: Log, planned: Planned, tokens_after: int, *, digest: str, summarised: "_ModelSummary"
) -> Preview:
    cut = planned.plan
    messages = conversation(log.tail, first_turn=turn.boundary, first_step=turn.first_step)
    leaving = [one for one in messages if cut.represents(one)]
    return Preview(
        boundary=cut.boundary,
        step=cut.step,
        first_seq=min((one.seq for one in leaving), default=0),
        last_seq=max((one.seq for one in leaving), default=0),
        messages=len(leaving),
        turns=len({one.turn for one in leaving}),
        messages_kept=len(messages) - len(leaving),
        pins=tuple(pin for pin in turn.pins if pin < cut.boundary),
        tokens_before=cut.tokens_before,
        tokens_after=tokens_after,
        digest=digest,
        summary=summarised.summary,
        model=summarised.model,
        refused=summarised.refused,
    )


class _ModelSummary(msgspec.Struct, frozen=True):
    """The summary of the first model that gave a usable one, and reasons why others did not."""

    summary: str
    model: str
    refused: tuple[str, ...]


async def _ask(log: Log, engine: Engine, planned: Planned, focus: str) -> _ModelSummary:
    """Request a summary with the models and rungs of a compaction, in its order."""
    refused: list[str] = []

    async def keep(*records: PieceSummarised | SummaryRefused) -> None:
        for record in records:
            if isinstance(record, PieceSummarised):
                # It belongs to no turn.
                await engine.store.admit(log.session, replace(record, turn=0))
                await log.catch_up(engine.store)
            else:
                refused.append(f"{record.model}: {record.why}")

    for model in engine.summarisers_for(log.turn):
        summariser = Summariser(model, log, engine, keep, focus=focus)
        for rung in SUMMARIES:
            summary = await summary_of(planned, summariser, rung)
            if summary is not None:
                return _ModelSummary(summary, model.name, tuple(refused))
            await log.catch_up(engine.store)
    return _ModelSummary("", "", tuple(refused))
