"""Making what stands for the past: by a model's notes, or without a model, always with the exact facts beside it.

Notes are made from the originals, piece by piece where they are too long to be read at once, and each piece is on disk
as soon as it is paid for.
"""

from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise

import msgspec
from msgspec.structs import replace

from holdfast.core.compaction import asked_tail_tokens_max, plan_cut, summary_tokens_max, tail_tokens_max
from holdfast.core.digest import Passage, represent
from holdfast.core.faults import Fault, FaultKind, classify
from holdfast.core.fit import measure, sent
from holdfast.core.ladder import Rung
from holdfast.core.ledger import make_ledger
from holdfast.core.limits import Limits
from holdfast.core.messages import Reply, Request, Role, Usage, text_of
from holdfast.core.output import cap_stated
from holdfast.core.records import (
    CompactionApplied,
    Logged,
    NoticePosted,
    PieceSummarised,
    SummaryKind,
    SummaryRefused,
    TurnStarted,
    WorkRecord,
)
from holdfast.core.sizing import bytes_of_message, tokens_of_text
from holdfast.core.summaries import Detail, ask_for_notes, frame, pieces_of, render, why_not_notes
from holdfast.core.view import Said, conversation
from holdfast.ports import Delta, Model, Store
from holdfast.runtime.calls import call_model
from holdfast.runtime.engine import Engine
from holdfast.runtime.learning import Known
from holdfast.runtime.log import Log
from holdfast.runtime.requests import prepare

# What facts and digests are taken from, newest first. Beyond it a text of bounded length gains nothing, and a person
# would wait for it.
_ORIGINALS_BYTES_MAX = 4 * 2**20
_ORIGINALS_RECORDS_MAX = 20_000
_PAGE_RECORDS = 1_000
# Of the tokens that may stand for the past: notes, and exact facts beside them.
_NOTES_SHARE = 0.6
# A summariser reads at most this share of its window, so that an estimate that is off does not fail the call.
_READ_SHARE = 0.7
# Pieces of one compaction: 40 full windows of a small model are the longest session we have seen.
_PIECES_MAX = 40
# A wait within a summary; whoever asks for a longer one is passed over for the next summariser.
_WAIT_SECONDS_MAX = 20.0
_WAITED_OUT = {FaultKind.RATE_LIMIT, FaultKind.OVERLOADED, FaultKind.TRANSIENT}


class _Plan(msgspec.Struct, frozen=True):
    """What a compaction is about: the new boundary, what the view comes to now, what may stand for the past."""

    boundary: int
    step: int
    tokens_before: int
    summary_tokens: int


async def _plan(log: Log, engine: Engine, *, keeps_tail: bool) -> tuple[_Plan, Known] | None:
    turn = log.turn
    known = await engine.known(engine.model_for(turn), turn)
    tokens = prepare(log, engine, known).sizes.tokens
    keep = 0
    if keeps_tail and turn.is_wanted_climb:
        keep = asked_tail_tokens_max(known.limits, engine.bounds)
    elif keeps_tail:
        keep = tail_tokens_max(known.limits, engine.bounds, tokens)
    newest = turn.number or turn.last_turn
    said = conversation(log.tail, first_turn=turn.boundary, first_step=turn.first_step)
    cut = plan_cut(said, newest=newest, keep_tokens=keep)
    if cut is not None:
        boundary, step = cut.boundary, cut.step
    elif turn.compaction is not None and turn.compaction.kind is SummaryKind.DIGEST and not turn.number:
        # Nothing to cut, but a debt to pay: the same past, by a model this time.
        boundary, step = turn.boundary, turn.first_step
    else:
        return None
    return _Plan(boundary, step, tokens, summary_tokens_max(known.limits, tokens)), known


async def digest(log: Log, engine: Engine, *, keeps_tail: bool) -> list[WorkRecord] | None:
    """Represent the past without a model. Returns None where there is nothing to represent or nothing to gain."""
    planned = await _plan(log, engine, keeps_tail=keeps_tail)
    if planned is None or (planned[0].boundary, planned[0].step) == (log.turn.boundary, log.turn.first_step):
        return None
    plan, known = planned
    originals = await _originals(engine.store, log.session, plan)
    summary = represent(_newest(originals), tokens_max=plan.summary_tokens)
    return _applied(log, engine, known, plan, summary, model="")


async def summarise(
    rung: Rung, log: Log, engine: Engine, record: Callable[..., Awaitable[None]]
) -> list[WorkRecord] | None:
    """Represent the past by a model's notes. Returns None where there is nothing to gain or the model failed."""
    planned = await _plan(log, engine, keeps_tail=True)
    if planned is None:
        return None
    plan, known = planned
    summariser = Summariser(engine.summariser_for(log.turn), log, engine, record)
    originals = await _originals(engine.store, log.session, plan)
    if not originals:
        return None
    notes = await summariser.notes(originals, rung, tokens_max=int(plan.summary_tokens * _NOTES_SHARE))
    if notes is None:
        return None
    facts_tokens = plan.summary_tokens - tokens_of_text(frame(notes, ""))
    facts = make_ledger(_newest(originals), tokens_max=max(facts_tokens, 0)).render()
    done = _applied(log, engine, known, plan, frame(notes, facts), model=summariser.name)
    if done is None:
        await record(SummaryRefused(log.turn.number, summariser.name, "it is larger than what it would replace"))
    return done


def _applied(
    log: Log, engine: Engine, known: Known, plan: _Plan, summary: str, *, model: str
) -> list[WorkRecord] | None:
    """Return the records of a compaction, None where it would not make the request smaller."""
    turn = log.turn
    kind = SummaryKind.SUMMARY if model else SummaryKind.DIGEST
    applied = CompactionApplied(turn.number, plan.boundary, summary, plan.tokens_before, 0, kind, model, plan.step)
    after = prepare(log, engine, known, turn=replace(turn, compaction=applied)).sizes.tokens
    pays_debt = kind is SummaryKind.SUMMARY and (plan.boundary, plan.step) == (turn.boundary, turn.first_step)
    if after >= plan.tokens_before and not pays_debt:
        return None
    made = f"a summary by {model}" if model else "a digest made without a model"
    sentence = (
        f"The conversation came to about {plan.tokens_before:,} tokens, so what was said before message "
        f"{plan.boundary} is now represented by {made}: about {after:,} tokens. The originals are kept and can be read."
    )
    return [replace(applied, tokens_after=after), NoticePosted(turn.number, "compacted", sentence)]


class Summariser:
    """One model, asked for notes on the past of one session."""

    def __init__(self, model: Model, log: Log, engine: Engine, record: Callable[..., Awaitable[None]]) -> None:
        self.name = model.name
        self._model = model
        self._log = log
        self._engine = engine
        self._record = record
        self._focus = "; ".join(wanted.focus for wanted in log.turn.wanted if wanted.focus)

    async def notes(self, originals: Sequence[Said], rung: Rung, *, tokens_max: int) -> str | None:
        """Return notes on all originals, of which those that pieces cover already are not read again."""
        turn = self._log.turn
        known = await self._engine.known(self._model, self._log.turn)
        window = known.limits.window_tokens
        room = int(window * _READ_SHARE / known.calibration.scale) if window else None
        detail = Detail.FULL if rung is Rung.SUMMARISE else Detail.STRIPPED
        # An undo may have moved the boundary back behind what was summarised before.
        covered = [piece for piece in turn.pieces if piece.until <= originals[-1].place + 1]
        start = covered[-1].until if covered else 0
        unread = [said for said in originals if said.place >= start]
        parts = self._parts(unread, rung, detail, room)
        if parts is None:
            return None
        texts = [piece.notes for piece in covered]
        for part in parts:
            noted = await self._piece(part, detail, tokens_max)
            if noted is None:
                return None
            until = part[-1].place + 1
            await self._record(PieceSummarised(turn.number, until, noted.text, self.name, noted.usage))
            texts.append(noted.text)
        return await self._joined(texts, [said.seq for said in originals], tokens_max)

    def _parts(
        self, unread: Sequence[Said], rung: Rung, detail: Detail, room: int | None
    ) -> list[tuple[Said, ...]] | None:
        """Cut what is to be read into what can be read at once; None where that is not what this rung does."""
        if not unread:
            return []
        passages = [Passage(said.seq, said.message) for said in unread]
        tokens = tokens_of_text(render(passages, detail))
        if rung is not Rung.SUMMARISE_PIECES:
            return [tuple(unread)] if room is None or tokens <= room else None
        pieces = pieces_of(passages, tokens_max=min(room or tokens, max(tokens // 2, 1)), detail=detail)
        if len(pieces) > _PIECES_MAX:
            return None
        places = [0]
        for piece in pieces:
            places.append(places[-1] + len(piece))
        return [tuple(unread[start:end]) for start, end in pairwise(places)]

    async def _piece(self, part: Sequence[Said], detail: Detail, tokens_max: int) -> "_Noted | None":
        passages = [Passage(said.seq, said.message) for said in part]
        request = ask_for_notes(render(passages, detail), tokens_max=tokens_max, focus=self._focus)
        said = [text_of(one.message.parts) for one in part if one.message.role is Role.ASSISTANT]
        return await self._ask(request, [one.seq for one in part], said, tokens_max)

    async def _joined(self, texts: Sequence[str], seqs: Sequence[int], tokens_max: int) -> str | None:
        """Return the notes as one: side by side where they fit, else merged by the model."""
        joined = "\n\n".join(texts)
        if len(texts) <= 1 or tokens_of_text(joined) <= tokens_max:
            return joined
        request = ask_for_notes(joined, tokens_max=tokens_max, focus=self._focus, is_merge=True)
        noted = await self._ask(request, seqs, texts, tokens_max)
        return None if noted is None else noted.text

    async def _ask(
        self, request: Request, seqs: Sequence[int], said: Sequence[str], tokens_max: int
    ) -> "_Noted | None":
        """Ask once, and once more after a short wait where waiting may help. What cannot be used is recorded."""
        for is_last in (False, True):
            known = await self._engine.known(self._model, self._log.turn)
            request = _within_output(request, known.limits)
            sizes = measure(request)
            outcome = await call_model(self._model, request, {}, self._engine.summary_deadlines, _unseen)
            fault = None
            if isinstance(outcome, Reply):
                why = why_not_notes(outcome, tokens_max=tokens_max, seqs=seqs, said=said)
            else:
                fault = classify(outcome, sent(sizes, known.limits, known.calibration))
                why = f"{fault.kind}: {fault.said or outcome.cause or outcome.status}"
            await self._engine.learning.heed(self._model, outcome, fault, sizes)
            usage = outcome.usage if isinstance(outcome, Reply) else None
            if why is None and isinstance(outcome, Reply):
                return _Noted(text_of(outcome.parts).strip(), usage)
            await self._record(SummaryRefused(self._log.turn.number, self.name, why or "", fault, usage))
            if is_last or fault is None:
                break
            if fault.kind is FaultKind.BAD_REQUEST_REASONING and request.effort is not None:
                request = replace(request, effort=None)
                continue
            if cap_stated(fault) is not None:
                # What was just learned bounds the next request.
                continue
            if not _is_worth_waiting(fault):
                break
            await self._engine.clock.sleep(fault.retry_after_seconds or self._engine.bounds.back_off_seconds_min)
        return None


class _Noted(msgspec.Struct, frozen=True):
    text: str
    usage: Usage | None


def _is_worth_waiting(fault: Fault) -> bool:
    return fault.kind in _WAITED_OUT and (fault.retry_after_seconds or 0) <= _WAIT_SECONDS_MAX


def _within_output(request: Request, limits: Limits) -> Request:
    """Return a request that asks for no more output than the model writes."""
    bounds = [most for most in (request.output_tokens_max, limits.output_tokens_max) if most is not None]
    return replace(request, output_tokens_max=min(bounds, default=None))


def _unseen(delta: Delta) -> None:
    """Nobody looks on while notes are written."""
    del delta


async def _originals(store: Store, session: str, plan: _Plan) -> list[Said]:
    """Return what is to be represented, from the records themselves, never from what stands for them."""
    after = max(plan.boundary - _ORIGINALS_RECORDS_MAX, 0)
    records: list[Logged] = []
    # The turn before may have gone on after the next input came, so the end is where the next turn starts.
    while not _reaches(records, plan):
        page = await store.read(session, after=after + len(records), limit=_PAGE_RECORDS)
        if not page:
            break
        records += page
    return [said for said in conversation(records, first_turn=after + 1) if _is_before(said, plan)]


def _reaches(records: Sequence[Logged], plan: _Plan) -> bool:
    """Return whether records reach the plan's boundary."""
    if not records or records[-1].seq < plan.step:
        return False
    newest = (logged.record for logged in reversed(records))
    return any(isinstance(record, TurnStarted) and record.turn >= plan.boundary for record in newest)


def _is_before(said: Said, plan: _Plan) -> bool:
    """Return whether a message is to be represented. The input of the turn that is cut into is not: it stays."""
    is_input = said.seq == said.turn
    return said.turn < plan.boundary or (said.turn == plan.boundary and said.place < plan.step and not is_input)


def _newest(originals: Sequence[Said]) -> list[Passage]:
    """Return originals as passages, as many of the newest as are read for facts and digests."""
    kept: list[Passage] = []
    left = _ORIGINALS_BYTES_MAX
    for said in reversed(originals):
        left -= bytes_of_message(said.message)
        if left < 0:
            break
        kept.append(Passage(said.seq, said.message))
    return kept[::-1]
