"""Request summaries from a model, in pieces if the past is too long; each piece is recorded once it is paid for."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial

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
from holdfast.core.compaction.notes import (
    NODES_MAX,
    Run,
    end_of,
    frontier,
    merged_by_rule,
    node_tokens_max,
    reusable,
    run_to_merge,
)
from holdfast.core.compaction.plan import Plan
from holdfast.core.compaction.reading import Portion, Position, Rendered, next_portion, render
from holdfast.core.compaction.summary import Unusable, ask_for_notes, citations_in, notes_of, why_not_paid
from holdfast.core.faults.classifier import classify
from holdfast.core.fold.session_state import Piece
from holdfast.core.limits.claims import Call
from holdfast.core.limits.fit import cap_stated, described, measure, output_tokens_max, sent
from holdfast.core.limits.parameters import EFFORT, native_names, sent_names, with_parameter
from holdfast.core.limits.settings import for_summaries
from holdfast.core.limits.sizing import tokens_of_message, tokens_of_text
from holdfast.core.turn.ladder import backoff_seconds, next_summary_rung
from holdfast.core.view import ViewMessage, conversation, heartbeats, lens_of
from holdfast.ports import Blobs, Delta, Model
from holdfast.runtime.engine.context import Engine
from holdfast.runtime.engine.learning import Known
from holdfast.runtime.engine.log import Log
from holdfast.runtime.engine.originals import Originals, load_texts, originals_before, place_of, represented_until
from holdfast.runtime.engine.requests import call_model, dialect_of, load_blobs, prepare
from holdfast.types.faults import Fault, Rung
from holdfast.types.messages import Reply, Request, Role, Usage, text_of
from holdfast.types.records import PieceSummarised, SummaryRefused

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
    if not warm or not stands_verbatim(wanted.originals, view, heartbeats(log.tail)):
        return None
    question = ask_behind(wanted, view)
    asked = replace(
        prepared.request,
        messages=(*prepared.request.messages, question.message),
        settings=for_summaries(prepared.request.settings),
        output=None,
    )
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
    request = ask_for_notes("", tokens_max=wanted.tokens_max, focus=wanted.focus)
    read = sum(tokens_of_message(one.message) for one in wanted.originals)
    return Usage(known.calibration.estimate(measure(request).tokens + read), wanted.tokens_max)


# Share of its window that a summariser reads, so that an estimation error does not fail the call; and the window of a
# model that does not declare one.
_READ_SHARE, _WINDOW_USUAL = 0.7, 128_000
# Smaller portions would take more text for the request than for the conversation.
_READ_TOKENS_MIN = 256
# Parts into which a rung divides what is unread: a refused request is tried with less at once, never with less of each.
_DIVISIONS = {Rung.SUMMARISE: 1, Rung.SUMMARISE_LESS: 2, Rung.SUMMARISE_PIECES: 4}
# Calls of one compaction while somebody waits for an answer, and while nobody does. The rest is read later.
_CALLS_WAITED, _CALLS_IDLE = 8, 40


class Notes(msgspec.Struct, frozen=True):
    """The notes that cover the past, and the place from which they do not; 0: they cover all of it."""

    nodes: tuple[Piece, ...]
    unread: int = 0


def notes_at_hand(log: Log, cut: Plan, *, focus: str | None = None) -> Notes:
    """Return the recorded notes that a planned compaction can use; with a focus, only notes made for it."""
    until, known = place_of(cut), frontier(log.turn)
    focuses = frozenset({focus, *(wanted.focus for wanted in log.turn.wanted)} if focus is not None else ())
    if focus is None:
        focuses = frozenset(node.focus for node in known)
    nodes = reusable(known, end=until, represented=represented_until(log), focuses=focuses)
    return Notes(nodes, 0 if end_of(nodes).place >= until else max(end_of(nodes).place, 1))


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
        self._calls_left = _CALLS_WAITED if log.turn.number else _CALLS_IDLE
        # Reason why the budget did not allow a call; "" if it did.
        self.over_budget = ""

    async def notes(self, cut: Plan, rung: Rung, *, tokens_max: int) -> Notes | None:
        """Read what no notes cover yet, merge notes that are too long together, and return all; None on a failure.

        Whatever was paid for is recorded, and used by the next rung and the next compaction.
        """
        nodes = notes_at_hand(self._log, cut, focus=self._focus).nodes
        room = await self._room()
        originals = await originals_before(
            self._engine, self._log, cut, since=end_of(nodes).place, tokens_max=room * self._calls_left
        )
        if not originals.messages and not nodes:
            return None
        node_tokens = node_tokens_max(tokens_max)
        cached = await self._cached(originals, nodes, node_tokens) if rung is Rung.SUMMARISE else None
        if cached is not None:
            end = Position(max(place_of(cut), originals.messages[-1].place + 1))
            notes: Notes | None = Notes((*nodes, await self._keep(cached, nodes, end, is_cached=True)))
        else:
            reader = _Reader(originals, place_of(cut), self._engine.blobs)
            notes = await self._read(reader, nodes, _divided(originals.messages, rung, room), node_tokens)
        return notes and replace(notes, nodes=await self._merged(notes.nodes, tokens_max, room))

    async def _read(
        self, reader: "_Reader", nodes: tuple[Piece, ...], portion_tokens: int, node_tokens: int
    ) -> Notes | None:
        """Summarise messages portion by portion and record each; None if one fails."""
        start = end_of(nodes)
        while self._calls_left and not reader.is_read(start):
            portion = await reader.portion(start, portion_tokens)
            start = portion.end
            if portion.text:
                request = ask_for_notes(portion.text, tokens_max=node_tokens, focus=self._focus)
                summary = await self._ask(request, portion.seqs, reader.answers, node_tokens)
                if summary is None:
                    return None
                nodes = (*nodes, await self._keep(summary, nodes, start))
        return Notes(nodes, 0 if reader.is_complete and reader.is_read(start) else max(start.place, 1))

    async def _room(self) -> int:
        """Return how many estimated tokens the model reads at once."""
        known = await self._engine.known(self._model, self._log.turn)
        window = known.limits.window_tokens or _WINDOW_USUAL
        return max(int(window * _READ_SHARE / known.calibration.scale), _READ_TOKENS_MIN)

    async def _keep(
        self, summary: "_Summary", before: Sequence[Piece], end: Position, *, is_cached: bool = False
    ) -> Piece:
        """Record notes on the messages after some nodes, up to a position."""
        start = end_of(before)
        record = PieceSummarised(self._log.turn.number, end.place, summary.text, self.name, summary.usage, start.place)
        cost = self._cost(summary.usage)
        record = replace(record, offset=end.offset, since_offset=start.offset, focus=self._focus)
        await self._record(replace(record, cost_usd=cost, is_riding=is_cached))
        return Piece(end.place, summary.text, self._focus, end.offset)

    async def _cached(self, originals: Originals, nodes: Sequence[Piece], tokens_max: int) -> "_Summary | None":
        """Request the summary once with the prompt cache, if that is possible and cheaper.

        After any failure the plain request follows, with its retries.
        """
        if not originals.messages or not originals.is_complete or end_of(nodes).offset:
            return None
        wanted = SummaryRequest(originals.messages, tokens_max, self._focus)
        cached = await cached_request(wanted, self._model, self._log, self._engine)
        if cached is None:
            return None
        answers = [text_of(one.parts) for one in cached.request.messages if one.role is Role.ASSISTANT]
        said = [*answers, *(node.notes for node in nodes)]
        check = partial(notes_of, tokens_max=tokens_max, seqs=cached.seqs, said=said)
        result = await self._once(cached.request, check, cached.blobs, is_cached=True)
        return result if isinstance(result, _Summary) else None

    async def _merged(self, nodes: tuple[Piece, ...], tokens_max: int, room: int) -> tuple[Piece, ...]:
        """Merge nodes until they fit, while calls are left and the model gives usable answers."""
        while self._calls_left and (run := run_to_merge(nodes, tokens_max=tokens_max, read_max=room)) is not None:
            texts = [node.notes for node in nodes[run.first : run.end]]
            most = node_tokens_max(tokens_max)
            request = ask_for_notes("\n\n".join(texts), tokens_max=most, focus=self._focus, is_merge=True)
            # Notes on several parts may well be those on the last one.
            summary = await self._ask(request, citations_in(texts), (), most)
            if summary is None:
                break
            nodes = await self._keep_merged(summary, nodes, run)
        while len(nodes) > NODES_MAX:
            run = Run(0, len(nodes) - NODES_MAX // 2)
            text = merged_by_rule(nodes[: run.end], tokens_max=tokens_max)
            nodes = await self._keep_merged(_Summary(text, None), nodes, run)
        return nodes

    async def _keep_merged(self, summary: "_Summary", nodes: tuple[Piece, ...], run: Run) -> tuple[Piece, ...]:
        """Record a node that replaces others, and return all nodes after that."""
        merged = nodes[run.first : run.end]
        start, end = end_of(nodes[: run.first]), end_of(merged)
        level = 1 + max(node.level for node in merged)
        record = PieceSummarised(self._log.turn.number, end.place, summary.text, self.name, summary.usage, start.place)
        record = replace(record, offset=end.offset, since_offset=start.offset, focus=self._focus, level=level)
        await self._record(replace(record, cost_usd=self._cost(summary.usage)))
        weight = sum(node.weight for node in merged)
        node = Piece(end.place, summary.text, self._focus, end.offset, level, weight)
        return (*nodes[: run.first], node, *nodes[run.end :])

    async def _ask(
        self, request: Request, seqs: Iterable[int], answers: Sequence[str], tokens_max: int
    ) -> "_Summary | None":
        """Request a summary, with the recovery steps of its faults. Unusable answers are recorded."""
        self._calls_left -= 1
        check = partial(notes_of, tokens_max=tokens_max, seqs=frozenset(seqs), said=answers)
        climbed: list[Rung] = []
        attempt: Request | None = request
        while attempt is not None:
            known = await self._engine.known(self._model, self._log.turn)
            attempt = _allowed(attempt, known)
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
            case Rung.DROP_PARAMETER if fault.parameter not in self._parameters(request):
                return None
            case Rung.CHANGE_EFFORT if request.effort is None:
                return None
            case Rung.DROP_PARAMETER:
                request = replace(request, omitted=(*request.omitted, fault.parameter))
            case Rung.CHANGE_EFFORT:
                request = replace(request, omitted=(*request.omitted, EFFORT))
            case None:
                return None
            case _:
                pass
        climbed.append(rung)
        return request

    def _parameters(self, request: Request) -> frozenset[str]:
        has_limit = request.output_tokens_max is not None
        names = native_names(dialect_of(self._model), has_effort=request.effort is not None, has_output_limit=has_limit)
        return sent_names(names, request.omitted)

    def _with_settings(self, request: Request, *, is_cached: bool) -> Request:
        """Return a summary request with the settings of its model; a cached one has those of the conversation."""
        own = for_summaries(self._engine.settings(self._model))
        return request if is_cached else replace(request, settings=own)

    async def _once(
        self,
        request: Request,
        check: Callable[[Reply], str | Unusable],
        blobs: Mapping[str, bytes],
        *,
        is_cached: bool = False,
    ) -> "_Summary | Fault | None":
        """Send one request and return the summary, the fault, or None if the reply is unusable."""
        request = self._with_settings(request, is_cached=is_cached)
        known, sizes = await self._engine.known(self._model, self._log.turn), measure(request)
        outcome = await call_model(self._model, request, blobs, self._engine.summary_deadlines, _discard)
        fault, text, usage = None, "", None
        if isinstance(outcome, Reply):
            found, usage = check(outcome), outcome.usage
            why, text = (found.why, "") if isinstance(found, Unusable) else ("", found)
        else:
            facts = sent(sizes, known.limits, known.calibration)
            fault = with_parameter(classify(outcome, described(facts, request, self._model.issuer)), outcome)
            why = f"{fault.kind}: {fault.said or outcome.cause or outcome.status}"
        # A cached request is the session's, which learns from its own calls.
        left_out = () if is_cached else tuple((name, "") for name in request.omitted if name not in known.refused)
        call = Call(sizes, request.output_tokens_max or 0, left_out=left_out)
        await self._engine.learning.observe(self._model, outcome, fault, call)
        if text:
            return _Summary(text, usage)
        if isinstance(outcome, Reply):
            # A call counts even if its usage is not reported.
            usage = usage or Usage()
        refused = SummaryRefused(self._log.turn.number, self.name, why, fault, usage, self._cost(usage))
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


class _Reader:
    """Renders messages in order, each once, with the texts that are in blobs, and divides them into portions."""

    def __init__(self, originals: Originals, until: int, blobs: Blobs) -> None:
        self._messages = originals.messages
        self.is_complete = originals.is_complete
        self._until = until
        self._blobs = blobs
        # By place and role: a reply shares its place with a message that was added for it.
        self._rendered: dict[tuple[int, Role], Rendered] = {}
        self._first = 0
        self.answers = [text_of(one.message.parts) for one in self._messages if one.message.role is Role.ASSISTANT]

    def is_read(self, position: Position) -> bool:
        """Return whether all messages are before a position."""
        return not self._messages or self._messages[-1].place < position.place

    async def portion(self, start: Position, tokens_max: int) -> Portion:
        """Return the portion from a position on. The last one ends where the next compaction begins."""
        portion = next_portion(await self._from(start, tokens_max), start, tokens_max=tokens_max)
        if self.is_complete and self.is_read(portion.end):
            portion = replace(portion, end=Position(max(self._until, portion.end.place)))
        return portion

    async def _from(self, start: Position, tokens_max: int) -> list[Rendered]:
        """Return the messages from a position on, as many as fill so many tokens."""
        while self._messages[self._first].place < start.place:
            self._rendered.pop(_key(self._messages[self._first]), None)
            self._first += 1
        found: list[Rendered] = []
        tokens = 0
        for said in self._messages[self._first :]:
            if _key(said) not in self._rendered:
                self._rendered[_key(said)] = render(said, await load_texts(said.message, self._blobs))
            found.append(self._rendered[_key(said)])
            tokens += tokens_of_text(found[-1].text[start.offset if said.place == start.place else 0 :])
            if tokens > tokens_max:
                break
        return found


def _divided(messages: Sequence[ViewMessage], rung: Rung, room: int) -> int:
    """Return the tokens of a portion: all that the model reads at once, or less after it was refused."""
    total = sum(tokens_of_message(one.message) for one in messages)
    divisions = _DIVISIONS[rung]
    return room if divisions == 1 else max(min(room, total) // divisions, _READ_TOKENS_MIN)


def _allowed(request: Request, known: Known) -> Request:
    """Return a request whose output limit is not above the model's, without the parameters that it refuses."""
    bounds = [most for most in (request.output_tokens_max, known.limits.output_tokens_max) if most is not None]
    omitted = known.refused.union(request.omitted)
    effort = None if EFFORT in omitted else request.effort
    return replace(request, output_tokens_max=min(bounds, default=None), effort=effort, omitted=tuple(sorted(omitted)))


def _discard(delta: Delta) -> None:
    """Ignore deltas: summaries have no live watchers."""
    del delta


def _key(said: ViewMessage) -> tuple[int, Role]:
    return said.place, said.message.role
