"""Simulated provider: one request in, one response out, by limits, validation rules and the fault script.

Steps of a request: consume a fault word, check the byte size, decode, return a scripted error, validate, check limits,
reply. The only state is the request count, stored responses and the prompt cache.
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
from holdfast.models.fake.faults import OK, ErrorResponse, FaultStep, output_cap, parse_fault, parse_faults
from holdfast.models.fake.outputs import requested_schema
from holdfast.models.fake.replies import Draft, asks_for_summary, compose
from holdfast.models.fake.rules import PlacedImage
from holdfast.models.fake.state import NO_CACHE_USAGE, PromptCache, ResponseStore
from holdfast.models.fake.tokens import count_request, count_text, truncate_to_tokens
from holdfast.models.gemini.json_list import ListEncoder
from holdfast.models.parameters import parameters_in
from holdfast.models.transport import BrokenOffError, HttpResponse
from holdfast.models.wire import DecodedRequest, MalformedRequestError, locate
from holdfast.types.limits import Limits
from holdfast.types.messages import Reasoning, Reply, Request, StopReason, Text, ToolCall, Usage
from holdfast.types.settings import OutputSpec

# Common limits of small models.
DEFAULT_LIMITS = Limits(window_tokens=128_000, output_tokens_max=16_384)

# Recent requests kept for tests, by count and by total body bytes.
REQUESTS_KEPT = 200
BODY_BYTES_KEPT = 64 * 2**20

# Interval of keep-alives. Real providers send one every few seconds.
_KEEPALIVE_SECONDS = 0.05
# Default number of deltas before a stream breaks.
_DELTAS_BEFORE_BREAK = 2

Sleep = Callable[[float], Awaitable[None]]


class SeenRequest:
    """A received request and its result."""

    def __init__(self, number: int, dialect: str, body: bytes, path: str, step: FaultStep) -> None:
        self.number = number
        self.dialect = dialect
        self.body = body
        self.path = path
        self.fault = step.word
        self.model = ""
        self.tokens = 0
        self.status = 0
        # Set after the last chunk or a client disconnect; `was_closed_early` tells which.
        self.ended = asyncio.Event()
        self.was_closed_early = False


class _AcceptedRequest(msgspec.Struct, frozen=True):
    """A decoded request that passed all checks."""

    decoded: DecodedRequest
    tokens: int


def _with_output(decoded: DecodedRequest, body: bytes) -> DecodedRequest:
    """Return a request with the type of the output that its body asks for."""
    if not (schema := requested_schema(body)):
        return decoded
    replace = msgspec.structs.replace
    return replace(decoded, request=replace(decoded.request, output=OutputSpec("output", schema)))


class Simulation:
    """A fake provider. Changes to limits and faults apply to the next request."""

    def __init__(
        self,
        limits: Limits = DEFAULT_LIMITS,
        *,
        faults: str = "",
        delta_seconds: float = 0.0,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        """`delta_seconds` is the pause before each stream event, made by `sleep`, which tests can replace."""
        self.limits = limits
        # Token limit of summary requests; 0 rejects each by content policy, None applies no extra limit.
        self.summary_tokens_max: int | None = None
        # Fault of every request whose body contains a text.
        self._refused: dict[str, FaultStep] = {}
        # Parameters that every request is refused for, by their names on the wire.
        self.refused_parameters: tuple[str, ...] = ()
        self.delta_seconds = delta_seconds
        # Enables prompt caching.
        self.caches = True
        self.request_count = 0
        # Set by every request, cleared by tests that wait for the next one.
        self.was_called = asyncio.Event()
        self.requests: deque[SeenRequest] = deque(maxlen=REQUESTS_KEPT)
        # Stored responses of the responses dialect.
        self.responses = ResponseStore()
        self._cache = PromptCache()
        self._sleep = sleep
        self._steps: deque[FaultStep] = deque(parse_faults(faults))

    @property
    def faults_left(self) -> int:
        """Number of unused fault words."""
        return len(self._steps)

    def set_faults(self, script: str) -> None:
        """Replace the fault script."""
        self._steps = deque(parse_faults(script))

    @property
    def refuses(self) -> dict[str, str]:
        """Fault word of every request whose body contains a text, such as {"zqxj": "content-filter"}."""
        return {text: step.word for text, step in self._refused.items()}

    def set_refused(self, refuses: Mapping[str, str]) -> None:
        """Replace the refused texts, each with one fault."""
        self._refused = {text: parse_fault(fault) for text, fault in refuses.items()}

    def respond(self, dialect: str, body: bytes, path: str = "") -> HttpResponse:
        """Return the response to a request; its chunks are produced lazily.

        `path` includes the query; some dialects have the model in it.
        """
        step = self._content_fault(body) or (self._steps.popleft() if self._steps else OK)
        self.request_count += 1
        seen = SeenRequest(self.request_count, dialect, body, path, step)
        self._remember(seen)
        self.was_called.set()
        outcome = self._wire_error(seen, step) or self._read(seen, step)
        headers = {DIALECT_RULES[dialect].request_id_header: f"req_sim_{seen.number}"}
        if isinstance(outcome, ErrorResponse):
            seen.status = outcome.status
            headers |= {"content-type": outcome.content_type, **outcome.headers}
            return HttpResponse(outcome.status, headers, self._single_chunk(seen, outcome.body))
        seen.status = 200
        return self._success(seen, step, outcome, headers)

    def _content_fault(self, body: bytes) -> FaultStep | None:
        return next((step for text, step in self._refused.items() if text.encode() in body), None)

    def _remember(self, seen: SeenRequest) -> None:
        self.requests.append(seen)
        while sum(len(kept.body) for kept in self.requests) > BODY_BYTES_KEPT and len(self.requests) > 1:
            self.requests.popleft()

    # --- Errors ---

    def _wire_error(self, seen: SeenRequest, step: FaultStep) -> ErrorResponse | None:
        limit = self.limits.wire_bytes_max
        if step.word == "413" or (limit is not None and len(seen.body) > limit):
            return PROVIDER_ERRORS[seen.dialect].wire_overflow(limit)
        return None

    def _read(self, seen: SeenRequest, step: FaultStep) -> ErrorResponse | _AcceptedRequest:
        errors = PROVIDER_ERRORS[seen.dialect]
        body = self.responses.expand(seen.body) if seen.dialect == openai_responses.NAME else seen.body
        if isinstance(body, ErrorResponse):
            return body
        try:
            decoded = _with_output(DIALECTS[seen.dialect].decode_request(body, path=seen.path), body)
            error_message, images = DIALECT_RULES[seen.dialect].inspect(body, decoded.model)
        except MalformedRequestError as error:
            return errors.malformed(str(error))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return errors.malformed("We could not parse the JSON body of your request.")
        seen.model, seen.tokens = decoded.model, count_request(decoded.request)
        return (
            self._scripted_error(seen, step, decoded)
            or self._parameter_error(seen)
            or (errors.malformed(error_message) if error_message is not None else None)
            or self._summary_error(seen, decoded)
            or self._image_error(seen, images)
            or self._token_error(seen, decoded)
            or _AcceptedRequest(decoded, seen.tokens)
        )

    def _parameter_error(self, seen: SeenRequest) -> ErrorResponse | None:
        """Return the error of the first parameter in the body that the model refuses."""
        present = parameters_in(seen.dialect, seen.body) if self.refused_parameters else frozenset()
        fields = (name for name in self.refused_parameters if name in present or locate(seen.body, name) is not None)
        refused = next(fields, None)
        return PROVIDER_ERRORS[seen.dialect].unsupported(refused) if refused is not None else None

    def _scripted_error(self, seen: SeenRequest, step: FaultStep, decoded: DecodedRequest) -> ErrorResponse | None:
        errors = PROVIDER_ERRORS[seen.dialect]
        if step.word == "overflow":
            limit = step.count
            if limit is None:
                return errors.overflow_without_numbers()
            return errors.overflow(max(seen.tokens, limit + 1), None, limit)
        if step.word == "output-cap":
            asked, cap = decoded.request.output_tokens_max, step.count or 0
            return output_cap(cap) if asked is not None and asked > cap else None
        # Without a stream there is no error event, so the error becomes the response.
        word = "500" if step.word == "error-event" and not decoded.wants_stream else step.word
        return errors.scripted_error(word, step.setting, decoded.model)

    def _image_error(self, seen: SeenRequest, images: list[PlacedImage]) -> ErrorResponse | None:
        errors, limits = PROVIDER_ERRORS[seen.dialect], self.limits
        if limits.media_count_max is not None and len(images) > limits.media_count_max:
            return errors.too_many_images(len(images), limits.media_count_max)
        for image in images:
            # Decoding has validated the base64.
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
        """Reject a summary request, like models that accept less here than declared, or nothing."""
        errors, limit = PROVIDER_ERRORS[seen.dialect], self.summary_tokens_max
        if limit is None or seen.tokens <= limit or not asks_for_summary(decoded.request):
            return None
        return (
            errors.overflow(seen.tokens, None, limit)
            if limit
            else errors.scripted_error("content-filter", None, decoded.model)
        )

    # --- Replies ---

    def _success(
        self, seen: SeenRequest, step: FaultStep, accepted: _AcceptedRequest, headers: dict[str, str]
    ) -> HttpResponse:
        decoded = accepted.decoded
        dialect = DIALECTS[seen.dialect]
        reply = self._reply(seen, step, accepted)
        reply_id = _reply_id(seen)
        if seen.dialect == openai_responses.NAME:
            self.responses.save(seen.body, dialect.encode_reply(reply, reply_id))
        if not decoded.wants_stream and step.word not in ("stall", "mute", "keepalive", "cut"):
            headers["content-type"] = "application/json"
            return HttpResponse(200, headers, self._single_chunk(seen, dialect.encode_reply(reply, reply_id)))
        headers["content-type"] = "application/json" if decoded.is_list else "text/event-stream; charset=utf-8"
        events = dialect.encode_stream(reply, reply_id, wants_usage=decoded.wants_usage)
        stream = self._stream(seen, step, events)
        return HttpResponse(200, headers, _as_list(stream) if decoded.is_list else stream)

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
        cached = NO_CACHE_USAGE
        if self.caches and read is decoded.request:
            cached = self._cache.lookup(seen.dialect, seen.body, decoded.model, read)
        usage = Usage(tokens, written + thinking, cached.read, thinking, cached.written)
        if step.word == "uncached":
            usage = Usage(tokens - cached.read, written + thinking, reasoning_tokens=thinking)
        return Reply((*signed, *parts), stop_reason, usage, decoded.model)

    def _output_room(self, accepted: _AcceptedRequest) -> int | None:
        """Return the output limit: the least of request, model and remaining window."""
        window = self.limits.window_tokens
        left = None if window is None else window - accepted.tokens
        bounds = (accepted.decoded.request.output_tokens_max, self.limits.output_tokens_max, left)
        return min((bound for bound in bounds if bound is not None), default=None)

    async def _single_chunk(self, seen: SeenRequest, body: bytes) -> AsyncGenerator[bytes, None]:
        try:
            yield body
        finally:
            seen.ended.set()

    async def _stream(self, seen: SeenRequest, step: FaultStep, events: Iterator[bytes]) -> AsyncGenerator[bytes, None]:
        seen.was_closed_early = True
        try:
            async for event in self._events_with_faults(seen.dialect, step, events):
                yield event
            seen.was_closed_early = False
        finally:
            seen.ended.set()

    async def _events_with_faults(self, dialect: str, step: FaultStep, events: Iterator[bytes]) -> AsyncIterator[bytes]:
        while step.word == "keepalive":
            yield DIALECT_RULES[dialect].keep_alive
            await self._sleep(_KEEPALIVE_SECONDS)
        for event in _events_before_fault(dialect, step, list(events)):
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
    """Transport to a simulation without a socket, through the same codecs as a real endpoint."""

    def __init__(self, simulation: Simulation, dialect: str) -> None:
        self._simulation = simulation
        self._dialect = dialect

    @asynccontextmanager
    async def post(self, path: str, headers: Mapping[str, str], body: bytes) -> AsyncIterator[HttpResponse]:  # noqa: ARG002
        """Return the simulated response; no key is needed."""
        response = self._simulation.respond(self._dialect, body, path)
        async with aclosing(_cooperative(response)) as chunks:
            yield HttpResponse(response.status, response.headers, chunks)

    async def close(self) -> None:
        """No-op: there are no connections."""


async def _as_list(events: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """Yield a stream of events as one JSON list."""
    encoder = ListEncoder()
    async with aclosing(events):
        async for event in events:
            yield encoder.element(event)
    yield encoder.end()


async def _cooperative(response: HttpResponse) -> AsyncGenerator[bytes, None]:
    async for chunk in response.chunks:
        yield chunk
        # Yield to the event loop between chunks, as a socket does.
        await asyncio.sleep(0)


def _reply_id(seen: SeenRequest) -> str:
    return f"{DIALECT_RULES[seen.dialect].reply_prefix}-sim-{seen.number}"


def _truncated_input(request: Request, tokens: int, step: FaultStep) -> tuple[Request, int]:
    """Return the request and its tokens after silent truncation of the oldest messages."""
    limit = step.count if step.word in ("truncate", "shift") else None
    if limit is None or tokens <= limit:
        return request, tokens
    messages = request.messages
    while len(messages) > 1 and count_request(msgspec.structs.replace(request, messages=messages)) > limit:
        messages = messages[1:]
    read = msgspec.structs.replace(request, messages=messages)
    return read, limit if step.word == "shift" else min(count_request(read), limit)


def _events_before_fault(dialect: str, step: FaultStep, events: list[bytes]) -> list[bytes]:
    """Return the events before a stream fault."""
    if step.word not in ("stall", "mute", "cut", "error-event"):
        return events
    after = step.count if step.count is not None else 0 if step.word == "stall" else _DELTAS_BEFORE_BREAK
    deltas = [at for at, event in enumerate(events) if DIALECT_RULES[dialect].delta_mark in event and at > 0]
    if step.word == "mute":
        return events[: deltas[0]] if deltas else []
    last = min(after, len(deltas))
    return events[: deltas[last - 1] + 1] if last > 0 else []


def _limited_output(draft: Draft, room: int | None) -> tuple[list[Text | ToolCall], StopReason]:
    """Truncate a reply to its output limit. Calls are short and stay complete."""
    if draft.calls:
        return list(draft.calls), StopReason.TOOL_CALLS
    text = draft.text if room is None else truncate_to_tokens(draft.text, room)
    reason = StopReason.END if text == draft.text else StopReason.LENGTH
    return ([Text(text)] if text else []), reason
