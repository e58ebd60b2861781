"""Model requests of a session: build them from the view, load their blobs, send them within deadlines."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import aclosing
from typing import Protocol

import msgspec
from msgspec.structs import replace

from holdfast.core.fold.session_state import Turn
from holdfast.core.limits.bounds import Deadlines
from holdfast.core.limits.fit import Sizes, measure, output_tokens_max
from holdfast.core.turn.failure_messages import Shares
from holdfast.core.view import messages_in_view
from holdfast.errors import BlobMissingError
from holdfast.ports import Blobs, Delta, Model
from holdfast.runtime.engine.context import Engine
from holdfast.runtime.engine.learning import Known
from holdfast.runtime.engine.live import LiveDelta
from holdfast.runtime.engine.log import Log
from holdfast.types.faults import Phase, Refusal
from holdfast.types.messages import BlobRef, LargeText, Media, Message, Part, Reply, Request, Text, ToolResult


class Prepared(msgspec.Struct, frozen=True):
    """A request with its sizes. Blobs are loaded later, because the request may not fit."""

    request: Request
    sizes: Sizes


def prepare(log: Log, engine: Engine, known: Known, *, turn: Turn | None = None) -> Prepared:
    """Build the next request from the log, or for another state `turn`."""
    turn = turn or log.turn
    request = replace(without_messages(turn, engine), messages=messages_in_view(log.tail, turn, pinned=log.pinned))
    sizes = measure(request)
    output = turn.output_clamp or output_tokens_max(sizes, known.limits, known.calibration)
    return Prepared(replace(request, output_tokens_max=output), sizes)


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
    scale = known.calibration.scale
    return Shares(
        tokens=known.calibration.estimate(sizes.tokens),
        system_tokens=round(scale * system),
        tools_tokens=round(scale * (fixed - system)),
        messages_tokens=round(scale * (sizes.tokens - fixed)),
        window_tokens=known.limits.window_tokens,
        wire_bytes=sizes.wire_bytes,
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
            while True:
                try:
                    async with asyncio.timeout(seconds):
                        event = await anext(stream)
                except TimeoutError:
                    return _stalled(dialect, f"nothing came for {seconds:g} seconds")
                if isinstance(event, Reply | Refusal):
                    return event
                show(event)
                seconds = deadlines.idle_seconds
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

    # The number that the proxy's client will give the answer; None in native sessions.
    origin: int | None

    @property
    def is_relayed(self) -> bool:
        """True if a part of the answer has reached a client, so that no other answer can be sent."""
        ...

    async def call(self, model: Model, prepared: Prepared, log: Log) -> Reply | Refusal:
        """Send a request and return its outcome, within the deadlines."""
        ...


class NativeCaller:
    """The caller of native sessions: deltas go to live watchers."""

    origin: int | None = None
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
