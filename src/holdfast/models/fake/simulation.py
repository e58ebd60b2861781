"""The simulation itself: one request in, one answer out, by limits, rules and the script of faults.

Order of a request: the script's word is taken; the bytes are weighed; a scripted refusal is given; the body is read
and held against the rules and limits; only then is there an answer. Nothing is remembered but the count of requests,
the responses that clients may go on from, and which beginnings of requests need not be read again.
"""

import asyncio
import base64
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager

import msgspec

from holdfast.core.text.media_type import pixels
from holdfast.models import openai_responses
from holdfast.models.dialects import DIALECTS
from holdfast.models.fake.dialects import DIALECT_RULES
from holdfast.models.fake.errors import PROVIDER_ERRORS
from holdfast.models.fake.faults import OK, ErrorResponse, FaultStep, parse_faults
from holdfast.models.fake.replies import Draft, asks_for_summary, compose
from holdfast.models.fake.rules import PlacedImage
from holdfast.models.fake.state import NO_CACHE_USAGE, PromptCache, ResponseStore
from holdfast.models.fake.tokens import count_request, count_text, truncate_to_tokens
from holdfast.models.transport import BrokenOffError, HttpResponse
from holdfast.models.wire import DecodedRequest, MalformedRequestError
from holdfast.types.limits import Limits
from holdfast.types.messages import Reasoning, Reply, Request, StopReason, Text, ToolCall, Usage

# A window and an output that are common among small models.
DEFAULT_LIMITS = Limits(window_tokens=128_000, output_tokens_max=16_384)

# Requests kept for tests to look at, and the bytes of their bodies together: a long run must not fill memory.
REQUESTS_KEPT = 200
BODY_BYTES_KEPT = 64 * 2**20

# Between two signs of life: real providers send one every few seconds, and a test must not spin.
_KEEPALIVE_SECONDS = 0.05
# Deltas before a stream breaks where the script does not say: enough that something has been shown.
_DELTAS_BEFORE_BREAK = 2

Sleep = Callable[[float], Awaitable[None]]


class SeenRequest:
    """One request that came, and what became of it."""

    def __init__(self, number: int, dialect: str, body: bytes, path: str, step: FaultStep) -> None:
        self.number = number
        self.dialect = dialect
        self.body = body
        self.path = path
        self.fault = step.word
        self.model = ""
        self.tokens = 0
        self.status = 0
        # Set when the answer was given to its end or the client went away, which `was_closed_early` tells.
        self.ended = asyncio.Event()
        self.was_closed_early = False


class _AcceptedRequest(msgspec.Struct, frozen=True):
    """A request that has been read and taken."""

    decoded: DecodedRequest
    tokens: int


class Simulation:
    """A stand-in for a provider. Limits and faults may be changed at any time; they apply to the next request."""

    def __init__(
        self,
        limits: Limits = DEFAULT_LIMITS,
        *,
        faults: str = "",
        delta_seconds: float = 0.0,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        """`delta_seconds` is the pause before each event of a stream; `sleep` makes it, so that tests can set time."""
        self.limits = limits
        # The most that a request for a summary may have: longer ones are too long, and with 0 a content policy refuses
        # each. None: as much as any other.
        self.summary_tokens_max: int | None = None
        self.delta_seconds = delta_seconds
        # Whether the beginning of a request is found again in the next one.
        self.caches = True
        self.request_count = 0
        # Set by every request that comes, and cleared by whoever waits for the next one.
        self.was_called = asyncio.Event()
        self.requests: deque[SeenRequest] = deque(maxlen=REQUESTS_KEPT)
        # What the responses dialect lets its clients go on from.
        self.responses = ResponseStore()
        self._cache = PromptCache()
        self._sleep = sleep
        self._steps: deque[FaultStep] = deque(parse_faults(faults))

    @property
    def faults_left(self) -> int:
        """How many words of the script have not been used."""
        return len(self._steps)

    def set_faults(self, script: str) -> None:
        """Replace what is left of the script."""
        self._steps = deque(parse_faults(script))

    def respond(self, dialect: str, body: bytes, path: str = "") -> HttpResponse:
        """Take a request and return its answer; the body of the answer comes as its chunks are read.

        `path` is the address that the request came to, query included; some dialects name the model there.
        """
        step = self._steps.popleft() if self._steps else OK
        self.request_count += 1
        seen = SeenRequest(self.request_count, dialect, body, path, step)
        self._keep(seen)
        self.was_called.set()
        outcome = self._wire_error(seen, step) or self._read(seen, step)
        headers = {DIALECT_RULES[dialect].request_id_header: f"req_sim_{seen.number}"}
        if isinstance(outcome, ErrorResponse):
            seen.status = outcome.status
            headers |= {"content-type": outcome.content_type, **outcome.headers}
            return HttpResponse(outcome.status, headers, self._whole(seen, outcome.body))
        seen.status = 200
        return self._answer(seen, step, outcome, headers)

    def _keep(self, seen: SeenRequest) -> None:
        self.requests.append(seen)
        while sum(len(kept.body) for kept in self.requests) > BODY_BYTES_KEPT and len(self.requests) > 1:
            self.requests.popleft()

    # --- refusing ------------------------------------------------------------------------------------------------

    def _wire_error(self, seen: SeenRequest, step: FaultStep) -> ErrorResponse | None:
        limit = self.limits.wire_bytes_max
        if step.word == "413" or (limit is not None and len(seen.body) > limit):
            return PROVIDER_ERRORS[seen.dialect].wire_overflow(limit)
        return None

    def _read(self, seen: SeenRequest, step: FaultStep) -> ErrorResponse | _AcceptedRequest:
        errors = PROVIDER_ERRORS[seen.dialect]
        body = self.responses.whole(seen.body) if seen.dialect == openai_responses.NAME else seen.body
        if isinstance(body, ErrorResponse):
            return body
        try:
            decoded = DIALECTS[seen.dialect].decode_request(body, path=seen.path)
            error_message, images = DIALECT_RULES[seen.dialect].inspect(body, decoded.model)
        except MalformedRequestError as error:
            return errors.malformed(str(error))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return errors.malformed("We could not parse the JSON body of your request.")
        seen.model, seen.tokens = decoded.model, count_request(decoded.request)
        # Whoever wants no stream gets the error that the stream would have had inside.
        word = "500" if step.word == "error-event" and not decoded.wants_stream else step.word
        scripted_error = errors.scripted_error(word, step.setting, decoded.model)
        if scripted_error is not None:
            return scripted_error
        if step.word == "overflow":
            limit = step.count
            return (
                errors.overflow_without_numbers()
                if limit is None
                else errors.overflow(max(seen.tokens, limit + 1), None, limit)
            )
        if error_message is not None:
            return errors.malformed(error_message)
        return (
            self._summary_error(seen, decoded)
            or self._image_error(seen, images)
            or self._token_error(seen, decoded)
            or _AcceptedRequest(decoded, seen.tokens)
        )

    def _image_error(self, seen: SeenRequest, images: list[PlacedImage]) -> ErrorResponse | None:
        errors, limits = PROVIDER_ERRORS[seen.dialect], self.limits
        if limits.media_count_max is not None and len(images) > limits.media_count_max:
            return errors.too_many_images(len(images), limits.media_count_max)
        for image in images:
            # The body has been read before, so its base64 is known to be valid.
            original = base64.b64decode(image.encoded)
            if limits.media_bytes_max is not None and len(original) > limits.media_bytes_max:
                return errors.image_too_large(image.path, len(original), limits.media_bytes_max)
            longest = max(pixels(original))
            if limits.media_pixels_max is not None and longest > limits.media_pixels_max:
                return errors.image_too_wide(image.path, longest, limits.media_pixels_max)
        return None

    def _token_error(self, seen: SeenRequest, decoded: DecodedRequest) -> ErrorResponse | None:
        errors, requested = PROVIDER_ERRORS[seen.dialect], decoded.request.output_tokens_max
        limit, window = self.limits.output_tokens_max, self.limits.window_tokens
        if limit is not None and requested is not None and requested > limit:
            return errors.output_too_large(requested, limit, decoded.model)
        if window is not None and seen.tokens + (requested or 0) > window:
            return errors.overflow(seen.tokens, requested, window)
        return None

    def _summary_error(self, seen: SeenRequest, decoded: DecodedRequest) -> ErrorResponse | None:
        """Refuse to summarise what it would have answered: some models take less here than they say, some nothing."""
        errors, limit = PROVIDER_ERRORS[seen.dialect], self.summary_tokens_max
        if limit is None or seen.tokens <= limit or not asks_for_summary(decoded.request):
            return None
        return (
            errors.overflow(seen.tokens, None, limit)
            if limit
            else errors.scripted_error("content-filter", None, decoded.model)
        )

    # --- answering -----------------------------------------------------------------------------------------------

    def _answer(
        self, seen: SeenRequest, step: FaultStep, accepted: _AcceptedRequest, headers: dict[str, str]
    ) -> HttpResponse:
        decoded = accepted.decoded
        dialect = DIALECTS[seen.dialect]
        reply = self._reply(seen, step, accepted)
        reply_id = _reply_id(seen)
        if seen.dialect == openai_responses.NAME:
            self.responses.keep(seen.body, dialect.encode_reply(reply, reply_id))
        if not decoded.wants_stream and step.word not in ("stall", "mute", "keepalive", "cut"):
            headers["content-type"] = "application/json"
            return HttpResponse(200, headers, self._whole(seen, dialect.encode_reply(reply, reply_id)))
        headers["content-type"] = "text/event-stream; charset=utf-8"
        events = dialect.encode_stream(reply, reply_id, wants_usage=decoded.wants_usage)
        return HttpResponse(200, headers, self._stream(seen, step, events))

    def _reply(self, seen: SeenRequest, step: FaultStep, accepted: _AcceptedRequest) -> Reply:
        decoded = accepted.decoded
        read, tokens = _truncated_input(decoded.request, accepted.tokens, step)
        draft = Draft("") if step.word in ("empty", "length") else compose(read)
        parts, stop_reason = _limited_output(draft, self._output_room(accepted))
        if step.word == "length":
            stop_reason = StopReason.LENGTH
        if step.word == "filtered":
            parts, stop_reason = [Text(draft.text[: len(draft.text) // 2 + 1])], StopReason.CONTENT_FILTER
        signed: list[Reasoning] = []
        if draft.thought is not None:
            signed = DIALECT_RULES[seen.dialect].thinking(draft.thought, decoded.model, _reply_id(seen))
        thinking = count_text(draft.thought.text) if draft.thought is not None else 0
        written = sum(count_text(part.text if isinstance(part, Text) else part.arguments) for part in parts)
        found = NO_CACHE_USAGE
        if self.caches and read is decoded.request:
            found = self._cache.take(seen.dialect, seen.body, decoded.model, read)
        usage = Usage(tokens, written + thinking, found.read, thinking, found.written)
        return Reply((*signed, *parts), stop_reason, usage, decoded.model)

    def _output_room(self, accepted: _AcceptedRequest) -> int | None:
        """Return how many tokens an answer may have: as asked for, as the model writes, as the window leaves."""
        window = self.limits.window_tokens
        left = None if window is None else window - accepted.tokens
        bounds = (accepted.decoded.request.output_tokens_max, self.limits.output_tokens_max, left)
        return min((bound for bound in bounds if bound is not None), default=None)

    async def _whole(self, seen: SeenRequest, body: bytes) -> AsyncGenerator[bytes, None]:
        try:
            yield body
        finally:
            seen.ended.set()

    async def _stream(self, seen: SeenRequest, step: FaultStep, events: Iterator[bytes]) -> AsyncGenerator[bytes, None]:
        seen.was_closed_early = True
        try:
            async for event in self._paced(seen.dialect, step, events):
                yield event
            seen.was_closed_early = False
        finally:
            seen.ended.set()

    async def _paced(self, dialect: str, step: FaultStep, events: Iterator[bytes]) -> AsyncIterator[bytes]:
        while step.word == "keepalive":
            yield DIALECT_RULES[dialect].keep_alive
            await self._sleep(_KEEPALIVE_SECONDS)
        for event in _until_break(dialect, step, list(events)):
            if self.delta_seconds:
                await self._sleep(self.delta_seconds)
            yield event
        match step.word:
            case "stall" | "mute":
                await asyncio.Event().wait()
            case "error-event":
                yield DIALECT_RULES[dialect].error_event
            case "cut":
                raise BrokenOffError("the simulated stream was cut")


class SimulationTransport:
    """Reaches a simulation without a socket, through the same codecs as a real endpoint."""

    def __init__(self, simulation: Simulation, dialect: str) -> None:
        self._simulation = simulation
        self._dialect = dialect

    @asynccontextmanager
    async def post(self, path: str, headers: Mapping[str, str], body: bytes) -> AsyncIterator[HttpResponse]:  # noqa: ARG002
        """Answer a request; a simulation needs no key."""
        answer = self._simulation.respond(self._dialect, body, path)
        async with aclosing(_cooperative(answer)) as chunks:
            yield HttpResponse(answer.status, answer.headers, chunks)

    async def close(self) -> None:
        """Let go of nothing: there are no connections."""


async def _cooperative(answer: HttpResponse) -> AsyncGenerator[bytes, None]:
    async for chunk in answer.chunks:
        yield chunk
        # A socket lets others run between two chunks, and so does this.
        await asyncio.sleep(0)


def _reply_id(seen: SeenRequest) -> str:
    return f"{DIALECT_RULES[seen.dialect].reply_prefix}-sim-{seen.number}"


def _truncated_input(request: Request, tokens: int, step: FaultStep) -> tuple[Request, int]:
    """Return what is read of a request, and its tokens. A server that cuts drops the oldest messages in silence."""
    limit = step.count if step.word == "truncate" else None
    if limit is None or tokens <= limit:
        return request, tokens
    messages = request.messages
    while len(messages) > 1 and count_request(msgspec.structs.replace(request, messages=messages)) > limit:
        messages = messages[1:]
    read = msgspec.structs.replace(request, messages=messages)
    return read, min(count_request(read), limit)


def _until_break(dialect: str, step: FaultStep, events: list[bytes]) -> list[bytes]:
    """Return what is shown of a stream before its fault: everything up to the last delta that is still to come."""
    if step.word not in ("stall", "mute", "cut", "error-event"):
        return events
    after = step.count if step.count is not None else 0 if step.word == "stall" else _DELTAS_BEFORE_BREAK
    deltas = [at for at, event in enumerate(events) if DIALECT_RULES[dialect].delta_mark in event and at > 0]
    if step.word == "mute":
        return events[: deltas[0]] if deltas else []
    last = min(after, len(deltas))
    return events[: deltas[last - 1] + 1] if last > 0 else []


def _limited_output(draft: Draft, room: int | None) -> tuple[list[Text | ToolCall], StopReason]:
    """Cut an answer to its room. Calls are not cut: they are short, and real APIs cut them only in the worst case."""
    if draft.calls:
        return list(draft.calls), StopReason.TOOL_CALLS
    text = draft.text if room is None else truncate_to_tokens(draft.text, room)
    reason = StopReason.END if text == draft.text else StopReason.LENGTH
    return ([Text(text)] if text else []), reason
