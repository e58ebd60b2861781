"""Model requests of a session: build them from the view, load their blobs, send them within deadlines."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import Protocol

import msgspec
from msgspec.structs import replace

from holdfast.core.faults.classifier import classify, classify_reply
from holdfast.core.fold.session_state import Turn
from holdfast.core.limits.bounds import Deadlines
from holdfast.core.limits.claims import Call
from holdfast.core.limits.fit import Before, Sizes, measure, output_tokens_max
from holdfast.core.limits.parameters import EFFORT, native_names, sent_names, with_parameter
from holdfast.core.limits.prices import Prices
from holdfast.core.limits.settings import merged, unsupported, unsupported_notice, wire_settings
from holdfast.core.proxy.instructions import first_shown
from holdfast.core.turn.failure_messages import Shares
from holdfast.core.turn.reply_cleanup import tidy
from holdfast.core.view import ViewMessage, messages_in_view
from holdfast.errors import BlobMissingError
from holdfast.models.transport import IdleTimeout
from holdfast.ports import Blobs, Delta, Model
from holdfast.runtime.engine.context import Engine
from holdfast.runtime.engine.learning import Known
from holdfast.runtime.engine.live import LiveDelta
from holdfast.runtime.engine.log import Log
from holdfast.runtime.outputs import repair_text
from holdfast.types.faults import Confidence, Phase, Refusal, Rung, Sent
from holdfast.types.messages import (
    BlobRef,
    Effort,
    LargeText,
    Media,
    Message,
    Part,
    Reasoning,
    Reply,
    Request,
    StopReason,
    Text,
    ToolCall,
    ToolResult,
    text_of,
)
from holdfast.types.records import AttemptFailed, InputAdmitted, NoticePosted, OutputRefused, ReplyRecorded
from holdfast.types.settings import NO_SETTINGS, Settings


class Prepared(msgspec.Struct, frozen=True):
    """A request with its sizes. Blobs are loaded later, because the request may not fit."""

    request: Request
    sizes: Sizes


def prepare(log: Log, engine: Engine, known: Known, *, turn: Turn | None = None) -> Prepared:
    """Build the next request from the log, or for another state `turn`."""
    turn = turn or log.turn
    view = messages_in_view(log.tail, turn, pinned=log.pinned)
    request = replace(without_messages(turn, engine), messages=(*standing(log, engine, turn), *view))
    request = _with_settings(request, log, engine, known, turn)
    sizes = measure(request)
    output = turn.output_clamp or output_tokens_max(sizes, known.limits, known.calibration)
    if (most := request.settings.output_tokens_max) is not None:
        output = min(output or most, most)
    return Prepared(replace(request, output_tokens_max=output), sizes)


def _with_settings(request: Request, log: Log, engine: Engine, known: Known, turn: Turn) -> Request:
    """Return a request with the settings and the output that it is sent with, and the parameters that it leaves out."""
    omitted = known.refused.union(one.parameter for one in turn.dropped)
    settings, asked = settings_of(log, engine, turn), input_of(log, turn)
    effort = turn.effort if turn.is_effort_changed or not settings.effort else Effort(settings.effort)
    request = replace(
        request,
        omitted=tuple(sorted(omitted)),
        settings=settings,
        effort=effort,
        output=asked.output if asked is not None else None,
    )
    if EFFORT in omitted:
        request = replace(request, effort=None)
    elif EFFORT in known.required and request.effort is None and not engine.is_proxied:
        request = replace(request, effort=Effort.LOW)
    return request


def settings_of(log: Log, engine: Engine, turn: Turn) -> Settings:
    """Return the settings of the next request: of the client and the model, of the session, of the message."""
    if engine.is_proxied:
        return NO_SETTINGS
    asked = input_of(log, turn)
    own = asked.settings if asked is not None else None
    return merged(engine.settings(engine.model_for(turn)), turn.settings, own)


def input_of(log: Log, turn: Turn) -> InputAdmitted | None:
    """Return the input of the open turn, if one is open. It is always among the records of the view."""
    for logged in reversed(log.tail if turn.number else ()):
        if logged.seq == turn.number and isinstance(logged.record, InputAdmitted):
            return logged.record
    return None


def refused_output(log: Log, engine: Engine, replied: ReplyRecorded) -> OutputRefused | None:
    """Return the record that refuses an answer which is not of the requested type; None if it is, or none is due."""
    asked = input_of(log, log.turn)
    if asked is None or asked.output is None or any(isinstance(part, ToolCall) for part in replied.reply.parts):
        return None
    problem = engine.outputs.problem(asked.output, text_of(replied.reply.parts))
    return OutputRefused(replied.turn, repair_text(asked.output, problem)) if problem else None


def ignored_settings(log: Log, model: Model, prepared: Prepared) -> list[NoticePosted]:
    """Return the notice about settings that the dialect lacks: once for those of a session, else per message."""
    turn, names = log.turn, unsupported(dialect_of(model), prepared.request.settings)
    if not names:
        return []
    sentence, asked = unsupported_notice(model.name, names), input_of(log, turn)
    is_own = asked is not None and asked.settings is not None
    for logged in log.tail:
        match logged.record:
            case NoticePosted(turn=number, sentence=told) if told == sentence and (not is_own or number == turn.number):
                return []
            case _:
                pass
    return [NoticePosted(turn.number, "setting_not_sent", sentence)]


def standing(log: Log, engine: Engine, turn: Turn) -> tuple[Message, ...]:
    """Return the message with the client's instructions, if the view does not begin with its first message."""
    first = first_shown(log.tail, turn.boundary)
    shown = engine.instructions.shown(first, is_first_generation=turn.generation == 1)
    return (shown,) if shown is not None else ()


def instruction_places(log: Log, engine: Engine) -> set[tuple[int, int]]:
    """Return the parts in the log, by record and place, that are instructions of the client and stay verbatim."""
    return {
        (logged.seq, place)
        for logged in log.tail
        if isinstance(logged.record, InputAdmitted) and logged.record.origin == 0
        for place in engine.instructions.places(logged.record.parts)
    }


def without_instructions(originals: Sequence[ViewMessage], engine: Engine) -> list[ViewMessage]:
    """Return messages to compact without the instructions that stay in the view."""
    if not engine.instructions.parts:
        return [*originals]
    left = [(one, engine.instructions.without(one.message)) for one in originals]
    return [replace(one, message=message) for one, message in left if message is not None]


def without_messages(turn: Turn, engine: Engine) -> Request:
    """Return a request of the session without messages: system text, tools and effort."""
    return Request(
        messages=(),
        system=engine.system() if turn.system is None else turn.system,
        tools=engine.tools_for(turn),
        effort=turn.effort,
    )


def shares_of(log: Log, engine: Engine, known: Known) -> Shares:
    """Return the sizes of the components of the next request."""
    sizes = prepare(log, engine, known).sizes
    bare = without_messages(log.turn, engine)
    fixed, system = measure(bare).tokens, measure(replace(bare, tools=())).tokens
    instructions = measure(replace(bare, messages=engine.instructions.framed)).tokens - fixed
    scale = known.calibration.scale
    return Shares(
        tokens=known.calibration.estimate(sizes.tokens),
        system_tokens=round(scale * system),
        tools_tokens=round(scale * (fixed - system)),
        messages_tokens=round(scale * (sizes.tokens - fixed - instructions)),
        window_tokens=known.limits.window_tokens,
        wire_bytes=sizes.wire_bytes,
        instructions_tokens=round(scale * instructions),
    )


def sizes_at_least(sizes: Sizes, turn: Turn) -> Sizes:
    """Return the sizes of the newest request, or of a part of the next, whichever are larger."""
    taken = turn.budgets
    wire_bytes = max(sizes.wire_bytes, (taken.wire_bytes or 0) if taken is not None else 0)
    return replace(sizes, tokens=max(sizes.tokens, turn.answered.raw), wire_bytes=wire_bytes)


def readings_before(turn: Turn, model: Model, known: Known, prepared: Prepared) -> Before:
    """Return what earlier calls tell about a request."""
    answered = turn.answered
    parts = (part for message in prepared.request.messages for part in message.parts)
    # A request whose history the provider holds was not measured, so it cannot be compared.
    is_same = answered.model == model.name and answered.raw > 0
    is_other = not is_same and 0 < answered.raw <= prepared.sizes.tokens
    return Before(
        known.reports_all_read,
        known.accepted_tokens,
        answered.tokens,
        answered.raw if is_same else 0,
        answered.reported if is_same else 0,
        answered.reported if is_other else 0,
        is_plain=not prepared.sizes.media_count and not any(isinstance(part, Reasoning) for part in parts),
    )


def parameters_sent(request: Request, model: Model, engine: Engine) -> frozenset[str]:
    """Return the names of the parameters of a request that it can do without."""
    if engine.client_parameters is not None:
        return sent_names(engine.client_parameters, request.omitted)
    has_limit = request.output_tokens_max is not None
    dialect, has_effort = dialect_of(model), request.effort is not None
    also = wire_settings(dialect, request.settings, request.output)
    names = native_names(dialect, has_effort=has_effort, has_output_limit=has_limit, settings=also)
    return sent_names(names, request.omitted)


def call_facts(turn: Turn, known: Known, prepared: Prepared, before: Before) -> Call:
    """Return the facts about a request that its outcome will be learned with."""
    has_dropped = Rung.DROP_PARAMETER in turn.climbed
    added = round(known.calibration.scale * (prepared.sizes.tokens - before.answered_raw))
    # The ladder leaves out a refused effort, and adds one if there was none.
    is_changed, has_effort = Rung.CHANGE_EFFORT in turn.climbed, turn.effort is not None
    is_sent = prepared.request.effort is not None
    return Call(
        prepared.sizes,
        prepared.request.output_tokens_max or 0,
        added=max(added, 0) if before.answered_reported else 0,
        reported_before=before.answered_reported,
        guessed=turn.tokens_guessed,
        effort=("added" if has_effort else "left_out") if is_changed else "sent" if is_sent else "",
        left_out=tuple((one.parameter, one.said) for one in turn.dropped) if has_dropped else (),
    )


async def load_blobs(request: Request, blobs: Blobs) -> tuple[Request, dict[str, bytes]]:
    """Load the blobs of a request, and return both.

    The part of a missing blob is replaced by a line that says so, so that the session can continue.
    """
    loaded: dict[str, bytes] = {}
    missing: set[str] = set()
    for ref in {part.blob for part in _parts_with_blobs(request.messages)}:
        try:
            loaded[ref.sha256] = await blobs.get(ref)
        except BlobMissingError:
            missing.add(ref.sha256)
    if missing:
        messages = tuple(
            Message(message.role, tuple(_without(part, missing) for part in message.parts))
            for message in request.messages
        )
        request = replace(request, messages=messages)
    return request, loaded


def _parts_with_blobs(messages: Iterable[Message]) -> Iterable[LargeText | Media]:
    for message in messages:
        for part in message.parts:
            inner: tuple[Part, ...] = part.parts if isinstance(part, ToolResult) else (part,)
            yield from (piece for piece in inner if isinstance(piece, LargeText | Media))


def _without(part: Part, missing: set[str]) -> Part:
    match part:
        case LargeText(blob=blob) if blob.sha256 in missing:
            return Text(f"{part.head}\n[{_gone('text', part.name, blob)}]")
        case Media(blob=blob) if blob.sha256 in missing:
            return Text(f"[{_gone(part.media_type, part.name, blob)}]")
        case ToolResult():
            pieces = tuple(_without(piece, missing) for piece in part.parts)
            return replace(part, parts=pieces)
        case _:
            return part


def _gone(kind: str, name: str, blob: BlobRef) -> str:
    return f"{kind} {name or blob.sha256[:12]} of {blob.size_bytes:,} bytes stood here; its original is missing"


# --- Model call: send the request, publish deltas, return a reply or a refusal within the deadlines ---


# A tuple: a union would be made anew for each delta.
_OUTCOMES = (Reply, Refusal)


async def call_model(
    model: Model,
    request: Request,
    blobs: Mapping[str, bytes],
    deadlines: Deadlines,
    show: Callable[[Delta], None],
) -> Reply | Refusal:
    """Send a request and return its outcome.

    A model that sends no content within a deadline is cut off; keep-alives are filtered out before and do not count.
    The connection is closed in any case.
    """
    dialect = dialect_of(model)
    try:
        async with (
            asyncio.timeout(deadlines.total_seconds),
            aclosing(model.stream(request, blobs)) as stream,
        ):
            seconds = deadlines.connect_seconds + deadlines.first_token_seconds
            try:
                async with IdleTimeout() as idle:
                    while True:
                        idle.start(seconds)
                        event = await anext(stream)
                        if isinstance(event, _OUTCOMES):
                            return event
                        show(event)
                        seconds = deadlines.idle_seconds
            except TimeoutError:
                return _stalled(dialect, f"nothing came for {seconds:g} seconds")
    except StopAsyncIteration:
        return Refusal(dialect, Phase.STREAM, cause="the stream ended without an answer")
    except TimeoutError:
        return _stalled(dialect, f"the answer was not complete after {deadlines.total_seconds:g} seconds")


def dialect_of(model: Model) -> str:
    """Return the dialect of a model from its issuer."""
    return model.issuer.partition(":")[0]


def _stalled(dialect: str, cause: str) -> Refusal:
    return Refusal(dialect, Phase.STALL, cause=cause)


class Caller(Protocol):
    """Sends the requests of one session to a model and returns each outcome."""

    @property
    def is_relayed(self) -> bool:
        """True if a part of the answer has reached a client, so that no other answer can be sent."""
        ...

    async def call(self, model: Model, prepared: Prepared, log: Log) -> Reply | Refusal:
        """Send a request and return its outcome, within the deadlines."""
        ...

    def noted(self, record: ReplyRecorded) -> ReplyRecorded:
        """Return the record of an answer with what only the caller knows: the form in which a client has it."""
        ...


class NativeCaller:
    """The caller of native sessions: deltas go to live watchers."""

    is_relayed = False

    def __init__(self, engine: Engine, session: str) -> None:
        self._engine = engine
        self._session = session

    async def call(self, model: Model, prepared: Prepared, log: Log) -> Reply | Refusal:
        """Send a request with the bytes of its blobs, and publish deltas."""
        engine, number, attempt = self._engine, log.turn.number, log.turn.attempts
        request, blobs = await load_blobs(prepared.request, engine.blobs)

        def show(delta: Delta) -> None:
            engine.live.publish(self._session, LiveDelta(number, attempt, delta))

        return await call_model(model, request, blobs, engine.deadlines, show)

    def noted(self, record: ReplyRecorded) -> ReplyRecorded:
        """Return the record as it is."""
        return record


def outcome_record(
    turn: Turn,
    outcome: Reply | Refusal,
    known: Sent,
    prices: Prices,
    caller: Caller,
    parameters: Collection[str] = (),
) -> ReplyRecorded | AttemptFailed:
    """Return the record of an attempt's outcome. An answer without content is a failure too.

    `parameters` are the names of those that were sent and that the request can do without.
    """
    number, attempt = turn.number, turn.attempts
    if isinstance(outcome, Refusal):
        refused = with_parameter(classify(outcome, known), outcome, parameters)
        return AttemptFailed(number, attempt, outcome, refused, is_relayed=caller.is_relayed)
    cost = prices.cost(outcome.usage)
    fault = classify_reply(outcome, known)
    is_guess = fault is not None and fault.confidence is Confidence.GUESS
    # A guess discards no complete answer, is acted on once, and never if the client has the answer already.
    is_kept = outcome.stop_reason is not StopReason.LENGTH or turn.suspected is not None
    if fault is None or (is_guess and is_kept) or caller.is_relayed:
        return caller.noted(ReplyRecorded(number, attempt, tidy(outcome), cost_usd=cost))
    refusal = Refusal("", Phase.STREAM, status=200, cause=f"answered, but: {outcome.stop_reason}")
    return AttemptFailed(number, attempt, refusal, fault, outcome.usage, cost)
