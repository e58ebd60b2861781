"""Request summaries from a model, in pieces if the past is too long; each piece is recorded once it is paid for."""

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

# --- Cached summary: the next request of the session, byte for byte, with the summary prompt as its last message ---


class CachedRequest(msgspec.Struct, frozen=True):
    """A summary request that reuses the prompt cache, its blobs, and the records that the summary may cite."""

    request: Request
    blobs: dict[str, bytes]
    seqs: tuple[int, ...]


async def cached_request(wanted: SummaryRequest, model: Model, log: Log, engine: Engine) -> CachedRequest | None:
    """Return the cached summary request of a session; None if it is not possible or not cheaper."""
    turn, now = log.turn, engine.clock.now()
    if model is not engine.model_for(turn) or not may_ride(turn, log.tail, model.name, engine.bounds):
        return None
    known = await engine.known(model, turn)
    prepared = prepare(log, engine, known)
    view = conversation(log.tail, first_turn=turn.boundary, first_step=turn.first_step, lens=lens_of(turn))
    warm = warm_tokens(log.tail, view, model=model.name, raw=prepared.sizes.tokens, now=now)
    if not warm or not stands_verbatim(wanted.originals, view):
        return None
    question = ask_behind(wanted, view)
    asked = replace(prepared.request, messages=(*prepared.request.messages, question.message))
    sizes = measure(asked)
    if not has_room(sizes, known.limits, known.calibration, engine.bounds, tokens_max=wanted.tokens_max):
        return None
    usage = expected(sizes, known.calibration, warm=warm, tokens_max=wanted.tokens_max)
    if not is_cheaper(model.prices, usage, _plain_usage(wanted, known)):
        return None
    if why_not_paid(turn, model.prices, usage, now=now, bounds=engine.bounds) is not None:
        # It reads more tokens than a plain summary request, which may still be within the budget.
        return None
    most = output_tokens_max(sizes, known.limits, known.calibration)
    asked = replace(asked, output_tokens_max=output_asked(most, asked.effort, tokens_max=wanted.tokens_max))
    request, blobs = await load_blobs(asked, engine.blobs)
    # `load_blobs` replaces the part of a missing blob by a line, and then the request differs from the cached prefix.
    return CachedRequest(request, blobs, question.seqs) if request is asked else None


def _plain_usage(wanted: SummaryRequest, known: Known) -> Usage:
    """Return the expected usage of the same summary without the cache."""
    passages = [Passage(one.seq, one.message) for one in wanted.originals]
    request = ask_for_notes(render(passages, Detail.FULL), tokens_max=wanted.tokens_max, focus=wanted.focus)
    return Usage(known.calibration.estimate(measure(request).tokens), wanted.tokens_max)


# Share of its window that a summariser reads, so that an estimation error does not fail the call.
_READ_SHARE = 0.7
# Pieces of one compaction: the longest session seen filled 40 windows of a small model.
_PIECES_MAX = 40


class Summariser:
    """Requests summaries of one session from one model.

    `record` appends paid pieces and rejected summaries. `focus` names the topics that the summary should keep.
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
        # Reason why the budget did not allow a call; "" if it did.
        self.over_budget = ""

    async def summary(self, originals: Sequence[ViewMessage], rung: Rung, *, tokens_max: int) -> str | None:
        """Return a summary of all originals; recorded pieces are reused."""
        room = await self._room()
        covered = self._covered(originals[-1].place + 1)
        texts = [piece.notes for piece in covered]
        start = covered[-1].until if covered else 0
        unread = [message for message in originals if message.place >= start]
        if unread:
            cached = await self._cached(unread, texts, tokens_max) if rung is Rung.SUMMARISE else None
            if cached is not None:
                await self._record_piece(cached, unread, start, is_cached=True)
                further: list[str] | None = [cached.text]
            else:
                further = await self._summarise_parts(unread, rung, room, start, tokens_max)
            if further is None:
                return None
            texts += further
            start = unread[-1].place + 1
        return await self._joined(texts, start, [message.seq for message in originals], tokens_max)

    async def _room(self) -> int | None:
        """Return how many estimated tokens the model reads at once; None if its window is unknown."""
        known = await self._engine.known(self._model, self._log.turn)
        window = known.limits.window_tokens
        return int(window * _READ_SHARE / known.calibration.scale) if window else None

    async def _summarise_parts(
        self, unread: Sequence[ViewMessage], rung: Rung, room: int | None, start: int, tokens_max: int
    ) -> list[str] | None:
        """Summarise messages part by part and record each piece; None if a part fails."""
        detail = Detail.FULL if rung is Rung.SUMMARISE else Detail.STRIPPED
        parts = self._parts(unread, rung, detail, room)
        if parts is None:
            return None
        texts: list[str] = []
        for part in parts:
            summary = await self._piece(part, detail, tokens_max)
            if summary is None:
                return None
            await self._record_piece(summary, part, start)
            texts.append(summary.text)
            start = part[-1].place + 1
        return texts

    async def _record_piece(
        self, summary: "_Summary", part: Sequence[ViewMessage], start: int, *, is_cached: bool = False
    ) -> None:
        until = part[-1].place + 1
        piece = PieceSummarised(self._log.turn.number, until, summary.text, self.name, summary.usage, since=start)
        cost = self._cost(summary.usage)
        await self._record(replace(piece, focus=self._focus, cost_usd=cost, is_riding=is_cached))

    async def _cached(self, unread: Sequence[ViewMessage], texts: Sequence[str], tokens_max: int) -> "_Summary | None":
        """Request the summary once with the prompt cache, if that is possible and cheaper.

        After any failure the plain request follows, with its retries.
        """
        wanted = SummaryRequest(unread, tokens_max, self._focus)
        cached = await cached_request(wanted, self._model, self._log, self._engine)
        if cached is None:
            return None
        answers = [text_of(one.parts) for one in cached.request.messages if one.role is Role.ASSISTANT]
        check = partial(why_not_notes, tokens_max=tokens_max, seqs=cached.seqs, said=[*answers, *texts])
        result = await self._once(cached.request, check, cached.blobs, is_cached=True)
        return result if isinstance(result, _Summary) else None

    def _covered(self, end: int) -> list[Piece]:
        """Return the recorded pieces before `end` that can be reused.

        An undo may have moved the boundary back before summarised messages. Pieces of messages that the view represents
        already are reused with any focus; later ones only if their focus is the current one.
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
        """Split messages into parts that the model can read at once; None if they do not fit and may not be split."""
        if not unread:
            return []
        passages = [Passage(one.seq, one.message) for one in unread]
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

    async def _piece(self, part: Sequence[ViewMessage], detail: Detail, tokens_max: int) -> "_Summary | None":
        passages = [Passage(one.seq, one.message) for one in part]
        request = ask_for_notes(render(passages, detail), tokens_max=tokens_max, focus=self._focus)
        answers = [text_of(one.message.parts) for one in part if one.message.role is Role.ASSISTANT]
        return await self._ask(request, [one.seq for one in part], answers, tokens_max)

    async def _joined(self, texts: Sequence[str], until: int, seqs: Sequence[int], tokens_max: int) -> str | None:
        """Return one summary: the pieces joined if they fit, else merged by the model and recorded."""
        joined = "\n\n".join(texts)
        if len(texts) <= 1 or tokens_of_text(joined) <= tokens_max:
            return joined
        turn = self._log.turn
        merged = turn.merged
        is_same = merged is not None and (merged.until, merged.focus) == (until, self._focus)
        if merged is not None and is_same and is_within(merged.notes, tokens_max):
            return merged.notes
        request = ask_for_notes(joined, tokens_max=tokens_max, focus=self._focus, is_merge=True)
        summary = await self._ask(request, seqs, texts, tokens_max)
        if summary is None:
            return None
        piece = PieceSummarised(turn.number, until, summary.text, self.name, summary.usage, is_merged=True)
        await self._record(replace(piece, focus=self._focus, cost_usd=self._cost(summary.usage)))
        return summary.text

    async def _ask(
        self, request: Request, seqs: Sequence[int], answers: Sequence[str], tokens_max: int
    ) -> "_Summary | None":
        """Request a summary, with the recovery steps of its faults. Unusable answers are recorded."""
        check = partial(why_not_notes, tokens_max=tokens_max, seqs=seqs, said=answers)
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
        """Return the request to retry after a fault; None if the summariser is given up."""
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
        is_cached: bool = False,
    ) -> "_Summary | Fault | None":
        """Send one request and return the summary, the fault, or None if the reply is unusable."""
        known, sizes = await self._engine.known(self._model, self._log.turn), measure(request)
        outcome = await call_model(self._model, request, blobs, self._engine.summary_deadlines, _discard)
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
            return _Summary(text_of(outcome.parts).strip(), usage)
        refused = SummaryRefused(self._log.turn.number, self.name, why or "", fault, usage, self._cost(usage))
        await self._record(replace(refused, is_riding=is_cached))
        return fault

    def _cost(self, usage: Usage | None) -> float | None:
        return self._model.prices.cost(usage)

    async def _may_pay(self, expected: Usage) -> bool:
        """Return whether the budget allows a call; a refused call is recorded like any other failure."""
        turn, engine = self._log.turn, self._engine
        why = why_not_paid(turn, self._model.prices, expected, now=engine.clock.now(), bounds=engine.bounds)
        if why is None:
            return True
        self.over_budget = why
        reason = f"it was not asked for: {why}"
        await self._record(SummaryRefused(turn.number, self.name, reason, is_over_budget=True))
        return False


class _Summary(msgspec.Struct, frozen=True):
    text: str
    usage: Usage | None


def _represented_until(log: Log) -> int:
    """Return the seq before which the view represents the conversation, except for the newest input."""
    turn = log.turn
    if turn.compaction is None or turn.first_step:
        return turn.first_step
    started = (logged for logged in log.tail if isinstance(logged.record, TurnStarted))
    return next((logged.seq for logged in started if logged.seq > turn.boundary), turn.boundary)


def _within_output(request: Request, limits: Limits) -> Request:
    """Return a request whose output limit is not above the model's."""
    bounds = [most for most in (request.output_tokens_max, limits.output_tokens_max) if most is not None]
    return replace(request, output_tokens_max=min(bounds, default=None))


def _discard(delta: Delta) -> None:
    """Ignore deltas: summaries have no live watchers."""
    del delta
