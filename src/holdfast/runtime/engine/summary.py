"""Asking a model for notes on the past: piece by piece where it is too long, each on disk as soon as it is paid for."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise

import msgspec
from msgspec.structs import replace

from holdfast.core.compaction.cached_summary import (
    SummaryRequest,
    ask_behind,
    expected,
    has_room,
    is_cheaper,
    may_ride,
    output_asked,
    stands_verbatim,
    warm_tokens,
)
from holdfast.core.compaction.facts import Passage
from holdfast.core.compaction.summary import Detail, ask_for_notes, is_within, pieces_of, render, why_not_notes
from holdfast.core.faults.classifier import classify
from holdfast.core.fold.session_state import Piece
from holdfast.core.limits.fit import cap_stated, described, measure, output_tokens_max, sent
from holdfast.core.limits.sizing import tokens_of_text
from holdfast.core.limits.spend_limit import why_not_paid
from holdfast.core.turn.ladder import backoff_seconds, next_summary_rung
from holdfast.core.view import ViewMessage, conversation, lens_of
from holdfast.ports import Delta, Model
from holdfast.runtime.engine.context import Engine
from holdfast.runtime.engine.learning import Known
from holdfast.runtime.engine.log import Log
from holdfast.runtime.engine.requests import call_model, load_blobs, prepare
from holdfast.types.faults import Fault, Rung
from holdfast.types.limits import Limits
from holdfast.types.messages import Reply, Request, Role, Usage, text_of
from holdfast.types.records import PieceSummarised, SummaryRefused, TurnStarted

# --- A request for notes that rides on the next request of a session: the same to the byte, with one …


class Ride(msgspec.Struct, frozen=True):
    """A request that may be sent, the bytes of what it names, and the records that its answer may cite."""

    request: Request
    blobs: dict[str, bytes]
    seqs: tuple[int, ...]


async def ride_for(sought: SummaryRequest, model: Model, log: Log, engine: Engine) -> Ride | None:
    """Return the request for notes behind the next one of a session; None where it would not do or not pay."""
    turn, now = log.turn, engine.clock.now()
    if model is not engine.model_for(turn) or not may_ride(turn, log.tail, model.name, engine.bounds):
        return None
    known = await engine.known(model, turn)
    prepared = prepare(log, engine, known)
    view = conversation(log.tail, first_turn=turn.boundary, first_step=turn.first_step, lens=lens_of(turn))
    warm = warm_tokens(log.tail, view, model=model.name, raw=prepared.sizes.tokens, now=now)
    if not warm or not stands_verbatim(sought.originals, view):
        return None
    question = ask_behind(sought, view)
    asked = replace(prepared.request, messages=(*prepared.request.messages, question.message))
    sizes = measure(asked)
    if not has_room(sizes, known.limits, known.calibration, engine.bounds, tokens_max=sought.tokens_max):
        return None
    riding = expected(sizes, known.calibration, warm=warm, tokens_max=sought.tokens_max)
    if not is_cheaper(model.prices, riding, _usual(sought, known)):
        return None
    if why_not_paid(turn, model.prices, riding, now=now, bounds=engine.bounds) is not None:
        # It reads more than the usual way, which may still be within what is allowed.
        return None
    most = output_tokens_max(sizes, known.limits, known.calibration)
    asked = replace(asked, output_tokens_max=output_asked(most, asked.effort, tokens_max=sought.tokens_max))
    request, blobs = await load_blobs(asked, engine.blobs)
    # Where a blob is gone, a line stands in the place of an original.
    return Ride(request, blobs, question.seqs) if request is asked else None


def _usual(sought: SummaryRequest, known: Known) -> Usage:
    """Return what the same notes would likely come to in the usual way."""
    passages = [Passage(said.seq, said.message) for said in sought.originals]
    request = ask_for_notes(render(passages, Detail.FULL), tokens_max=sought.tokens_max, focus=sought.focus)
    return Usage(known.calibration.estimate(measure(request).tokens), sought.tokens_max)


# A summariser reads at most this share of its window, so that an estimate that is off does not fail the call.
_READ_SHARE = 0.7
# Pieces of one compaction: 40 full windows of a small model are the longest session we have seen.
_PIECES_MAX = 40


class Summariser:
    """One model, asked for notes on the past of one session.

    `record` keeps what was paid for, and what could not be used. `focus` is what the notes should keep in particular.
    """

    def __init__(
        self, model: Model, log: Log, engine: Engine, record: Callable[..., Awaitable[None]], *, focus: str
    ) -> None:
        self.name = model.name
        self._model = model
        self._log = log
        self._engine = engine
        self._record = record
        self._focus = focus
        # Why no more was paid for, where that is what failed.
        self.over_budget = ""

    async def notes(self, originals: Sequence[ViewMessage], rung: Rung, *, tokens_max: int) -> str | None:
        """Return notes on all originals, of which those that pieces cover already are not read again."""
        turn = self._log.turn
        known = await self._engine.known(self._model, self._log.turn)
        window = known.limits.window_tokens
        room = int(window * _READ_SHARE / known.calibration.scale) if window else None
        detail = Detail.FULL if rung is Rung.SUMMARISE else Detail.STRIPPED
        covered = self._covered(originals[-1].place + 1)
        start = covered[-1].until if covered else 0
        unread = [said for said in originals if said.place >= start]
        texts = [piece.notes for piece in covered]
        ridden = await self._ridden(unread, texts, tokens_max) if unread and rung is Rung.SUMMARISE else None
        parts = self._parts(unread, rung, detail, room) if ridden is None else [tuple(unread)]
        if parts is None:
            return None
        for part in parts:
            noted = ridden or await self._piece(part, detail, tokens_max)
            if noted is None:
                return None
            until = part[-1].place + 1
            piece = PieceSummarised(turn.number, until, noted.text, self.name, noted.usage, since=start)
            paid = replace(piece, focus=self._focus, cost_usd=self._cost(noted.usage), is_riding=ridden is not None)
            await self._record(paid)
            texts.append(noted.text)
            start = until
        return await self._joined(texts, start, [said.seq for said in originals], tokens_max)

    async def _ridden(self, unread: Sequence[ViewMessage], texts: Sequence[str], tokens_max: int) -> "_Noted | None":
        """Ask once, behind the conversation as it was last sent, where that may be done and pays.

        Whatever fails, the usual way follows, which waits and asks again where that may help.
        """
        ride = await ride_for(SummaryRequest(unread, tokens_max, self._focus), self._model, self._log, self._engine)
        if ride is None:
            return None
        said = [text_of(one.parts) for one in ride.request.messages if one.role is Role.ASSISTANT]
        check = partial(why_not_notes, tokens_max=tokens_max, seqs=ride.seqs, said=[*said, *texts])
        noted = await self._once(ride.request, check, ride.blobs, is_riding=True)
        return noted if isinstance(noted, _Noted) else None

    def _covered(self, end: int) -> list[Piece]:
        """Return notes that need not be made again, of what came before `end`.

        An undo may have moved the boundary back behind what was summarised before. Notes on what is represented already
        are used whatever they were to keep in particular; further ones only if they were made for who asks now.
        """
        turn = self._log.turn
        focuses = {self._focus, *(wanted.focus for wanted in turn.wanted)}
        represented = _represented_until(self._log)
        covered: list[Piece] = []
        for piece in turn.pieces:
            if piece.until > end or (piece.until > represented and piece.focus not in focuses):
                break
            covered.append(piece)
        return covered

    def _parts(
        self, unread: Sequence[ViewMessage], rung: Rung, detail: Detail, room: int | None
    ) -> list[tuple[ViewMessage, ...]] | None:
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

    async def _piece(self, part: Sequence[ViewMessage], detail: Detail, tokens_max: int) -> "_Noted | None":
        passages = [Passage(said.seq, said.message) for said in part]
        request = ask_for_notes(render(passages, detail), tokens_max=tokens_max, focus=self._focus)
        said = [text_of(one.message.parts) for one in part if one.message.role is Role.ASSISTANT]
        return await self._ask(request, [one.seq for one in part], said, tokens_max)

    async def _joined(self, texts: Sequence[str], until: int, seqs: Sequence[int], tokens_max: int) -> str | None:
        """Return the notes as one: side by side where they fit, else merged by the model, which is kept too."""
        joined = "\n\n".join(texts)
        if len(texts) <= 1 or tokens_of_text(joined) <= tokens_max:
            return joined
        turn = self._log.turn
        kept = turn.merged
        if kept is not None and (kept.until, kept.focus) == (until, self._focus) and is_within(kept.notes, tokens_max):
            return kept.notes
        request = ask_for_notes(joined, tokens_max=tokens_max, focus=self._focus, is_merge=True)
        noted = await self._ask(request, seqs, texts, tokens_max)
        if noted is None:
            return None
        piece = PieceSummarised(turn.number, until, noted.text, self.name, noted.usage, is_merged=True)
        await self._record(replace(piece, focus=self._focus, cost_usd=self._cost(noted.usage)))
        return noted.text

    async def _ask(
        self, request: Request, seqs: Sequence[int], said: Sequence[str], tokens_max: int
    ) -> "_Noted | None":
        """Ask for a summary, climbing the ladder of its fault. Answers that cannot be used are recorded."""
        check = partial(why_not_notes, tokens_max=tokens_max, seqs=seqs, said=said)
        climbed: list[Rung] = []
        attempt: Request | None = request
        while attempt is not None:
            known = await self._engine.known(self._model, self._log.turn)
            attempt = _within_output(attempt, known.limits)
            if not await self._may_pay(Usage(known.calibration.estimate(measure(attempt).tokens), tokens_max)):
                return None
            result = await self._once(attempt, check, {})
            if not isinstance(result, Fault):
                return result
            attempt = await self._climbed(attempt, result, climbed)
        return None

    async def _climbed(self, request: Request, fault: Fault, climbed: list[Rung]) -> Request | None:
        """Return the request to repeat after a fault; None if the summariser is given up."""
        rung = next_summary_rung(fault, climbed, self._engine.bounds)
        match rung:
            case Rung.BACKOFF:
                await self._engine.clock.sleep(backoff_seconds(fault, climbed, self._engine.bounds))
            case Rung.CLAMP_OUTPUT if cap_stated(fault) is None:
                return None
            case Rung.CHANGE_EFFORT if request.effort is None:
                return None
            case Rung.CHANGE_EFFORT:
                request = replace(request, effort=None)
            case None:
                return None
            case _:
                pass
        climbed.append(rung)
        return request

    async def _once(
        self,
        request: Request,
        check: Callable[[Reply], str | None],
        blobs: Mapping[str, bytes],
        *,
        is_riding: bool = False,
    ) -> "_Noted | Fault | None":
        """Ask, and return the notes; the fault where there was one; None where what came is no notes."""
        known, sizes = await self._engine.known(self._model, self._log.turn), measure(request)
        outcome = await call_model(self._model, request, blobs, self._engine.summary_deadlines, _unseen)
        fault = None
        if isinstance(outcome, Reply):
            why = check(outcome)
        else:
            facts = sent(sizes, known.limits, known.calibration)
            fault = classify(outcome, described(facts, request, self._model.issuer))
            why = f"{fault.kind}: {fault.said or outcome.cause or outcome.status}"
        await self._engine.learning.observe(self._model, outcome, fault, sizes)
        usage = outcome.usage if isinstance(outcome, Reply) else None
        if why is None and isinstance(outcome, Reply):
            return _Noted(text_of(outcome.parts).strip(), usage)
        refused = SummaryRefused(self._log.turn.number, self.name, why or "", fault, usage, self._cost(usage))
        await self._record(replace(refused, is_riding=is_riding))
        return fault

    def _cost(self, usage: Usage | None) -> float | None:
        return self._model.prices.cost(usage)

    async def _may_pay(self, expected: Usage) -> bool:
        """Return whether a call may be made; that it was not is recorded like any other failure."""
        turn, engine = self._log.turn, self._engine
        why = why_not_paid(turn, self._model.prices, expected, now=engine.clock.now(), bounds=engine.bounds)
        if why is None:
            return True
        self.over_budget = why
        told = f"it was not asked for: {why}"
        await self._record(SummaryRefused(turn.number, self.name, told, is_over_budget=True))
        return False


class _Noted(msgspec.Struct, frozen=True):
    text: str
    usage: Usage | None


def _represented_until(log: Log) -> int:
    """Return the record before which the conversation is represented already, but for the newest input."""
    turn = log.turn
    if turn.compaction is None or turn.first_step:
        return turn.first_step
    started = (logged for logged in log.tail if isinstance(logged.record, TurnStarted))
    return next((logged.seq for logged in started if logged.seq > turn.boundary), turn.boundary)


def _within_output(request: Request, limits: Limits) -> Request:
    """Return a request that asks for no more output than the model writes."""
    bounds = [most for most in (request.output_tokens_max, limits.output_tokens_max) if most is not None]
    return replace(request, output_tokens_max=min(bounds, default=None))


def _unseen(delta: Delta) -> None:
    """Nobody looks on while notes are written."""
    del delta
