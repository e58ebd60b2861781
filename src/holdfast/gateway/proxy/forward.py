"""Forward a request to its upstream and relay the answer, both byte for byte.

The answer is decoded along the way. Only its opening is held back, up to the first content of the model: an error in
it, or silence after it, can still be recovered from.
"""

import asyncio
import os
import re
import secrets
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import TypeAlias

import msgspec

from holdfast.core.faults.classifier import classify_reply
from holdfast.core.limits.bounds import Bounds, Deadlines
from holdfast.core.proxy.plan import filled_window
from holdfast.gateway.proxy.request import ProxyRequest, ResponseWriter
from holdfast.gateway.proxy.upstream import RawHeaders, UpstreamClient, UpstreamResponse, key_in
from holdfast.models.answer_filter import AnswerFilter
from holdfast.models.dialect_filters import FILTERS
from holdfast.models.dialects import DIALECTS
from holdfast.models.stream_decoder import AnswerDecoder
from holdfast.models.transport import BrokenOffError, IdleTimeout, UnreachableError
from holdfast.models.wire import cut_text
from holdfast.types.faults import Phase, Refusal, Sent
from holdfast.types.messages import Reply

_OK = range(200, 300)
# Lines of a stream that say only that a request was accepted, or that text is about to come; then the model may be
# silent. Reasoning and tools of the provider's own are work of the model. Comments and empty lines are keep-alives of
# servers with a full queue: the client is to see them.
_ACCEPTED = rb"message_start|ping|response\.created|response\.queued|response\.in_progress|chat\.completion\.chunk"
_ACCEPTED += rb"|candidates|usageMetadata"
_ABOUT_TO_SPEAK = rb"content_block_start|response\.output_item\.added|response\.content_part\.added"
_OPENING_LINE = re.compile(
    rb"\s*|event: ?(?:" + _ACCEPTED + rb"|" + _ABOUT_TO_SPEAK + rb")\s*|data: ?\{.*?\"(?:" + _ACCEPTED + rb")\".*"
    rb"|data: ?\{.*?\"(?:" + _ABOUT_TO_SPEAK + rb")\".*\"type\": ?\"(?:text|message|output_text)\".*"
)
# Text of the model in a stream, in the form that the dialects' servers give it.
_CONTENT = re.compile(
    rb"\"delta\": ?\{[^{}]{0,200}\"content\": ?\"[^\"]|\"text_delta\", ?\"text\": ?\"[^\"]"
    rb"|\"response\.output_text\.delta\"|\"parts\": ?\[\s*\{\s*\"text\": ?\"[^\"]"
)
# An incomplete answer says so at its very end.
_INCOMPLETE = b"response.incomplete"
# An opening may repeat the request's own instructions and tools. A longer one is something else.
_OPENING_BYTES_MAX = 2**20
# Bytes of a joined answer that wait for their end: the reasoning before a call, or a whole body.
_HELD_BYTES_MAX = 64 * 2**20
# Bytes of an answer that wait to be decoded: some hundred events, which take a millisecond or two.
_UNDECODED_BYTES_MAX = 16 * 2**10
_ERROR_BYTES_MAX = 2**20
_ERROR_SECONDS_MAX = 10.0
# A client hears from us this often while the events of an answer are held back; the idle limits of clients are minutes.
_COMMENT_SECONDS = 10.0
_COMMENT = b": the model is working\n\n"
# Keys shorter than this are placeholders, and would mask ordinary text; as in models/http.py.
_KEY_CHARS_MIN = 8
_ERROR_HEADERS = (
    "retry-after",
    "x-ratelimit",
    "anthropic-ratelimit",
    "date",
    "content-type",
    "request-id",
    "x-request-id",
)


class UpstreamError(msgspec.Struct, frozen=True):
    """A response of the upstream that is returned unchanged if nothing helps."""

    status: int
    headers: RawHeaders
    body: bytes

    def refusal(self, dialect: str, key: str) -> Refusal:
        """Return it as the classifier reads it, without the key."""
        headers = {
            name.decode("latin-1"): text.decode("latin-1")[:256]
            for name, text in self.headers
            if name.decode("latin-1").startswith(_ERROR_HEADERS)
        }
        body = self.body.replace(key.encode(), b"[key]") if len(key) >= _KEY_CHARS_MIN else self.body
        return Refusal(dialect, Phase.RESPONSE, self.status, headers, cut_text(body))


class ForwardResult(msgspec.Struct, frozen=True):
    """The client has the whole answer. `reply` is its decoded form, None if it could not be decoded."""

    reply: Reply | None
    answer_id: str = ""


class AttemptError(msgspec.Struct, frozen=True):
    """The attempt failed and the client has seen nothing of it. `error` is the upstream's response, if there was one.

    `reply` is a decoded answer that is of no use, such as an empty one.
    """

    refusal: Refusal
    error: UpstreamError | None = None
    reply: Reply | None = None


class BrokenOff(msgspec.Struct, frozen=True):
    """The answer broke off after a part of it was relayed."""

    refusal: Refusal


class Truncated(msgspec.Struct, frozen=True):
    """The answer filled the window. Its ending was not relayed, so the client repeats the request."""

    window_tokens: int


AttemptOutcome: TypeAlias = ForwardResult | AttemptError | BrokenOff | Truncated


class JoinedAnswer:
    """The answers to one request of a client that are joined into one, without the calls of our own tool."""

    def __init__(self, dialect: str, tool: str) -> None:
        self.filter: AnswerFilter = FILTERS[dialect](tool)
        # Returns whether an answer is continued here, so that the client waits for the next one.
        self.is_continued: Callable[[Reply], bool] = lambda _: False


class Relay:
    """The answer of one attempt on its way to the client, decoded when there is time."""

    def __init__(
        self, decoder: AnswerDecoder | None, writer: ResponseWriter, joined: JoinedAnswer | None = None
    ) -> None:
        self.decoder = decoder
        self._writer = writer
        self._joined = joined
        self._head: tuple[int, RawHeaders] = (200, [])
        self._written_at = monotonic()
        self._is_over = joined is None
        self._undecoded: list[bytes] = []
        self._undecoded_bytes = 0
        self._outcome: Reply | Refusal | None = None

    @property
    def undecoded(self) -> bytes:
        """Bytes that are not decoded yet."""
        return b"".join(self._undecoded)

    def hold(self, chunk: bytes) -> None:
        """Keep a chunk to be decoded."""
        if self.decoder is not None:
            self._undecoded.append(chunk)
            self._undecoded_bytes += len(chunk)

    @property
    def has_shown(self) -> bool:
        """True if the client has seen a part of this attempt's answer."""
        return self._writer.has_begun if self._joined is None else self._joined.filter.has_shown

    async def begin(self, response: UpstreamResponse) -> None:
        """Send the head of the response; that of a joined answer waits for content."""
        self._head = (response.status, response.headers)
        if self._joined is None:
            await self._writer.begin(*self._head)
        else:
            # The length of an answer without some of its calls is another.
            self._head = (response.status, without_length(response.headers))

    async def write(self, chunk: bytes) -> None:
        """Send a chunk to the client first; decode once enough has come."""
        self.hold(chunk)
        await self.pass_on(chunk)
        if self._undecoded_bytes > _UNDECODED_BYTES_MAX:
            self.decode()

    async def pass_on(self, chunk: bytes) -> None:
        """Send a chunk to the client; of a joined answer, those events that it may see."""
        if self._joined is None:
            await self._writer.write(chunk)
            return
        shown = self._joined.filter.feed(chunk)
        if self._joined.filter.held_bytes > _HELD_BYTES_MAX:
            raise BrokenOffError(f"the answer has more than {_HELD_BYTES_MAX:,} bytes that cannot be sent yet")
        if not shown and self._joined.filter.is_stream and monotonic() - self._written_at > _COMMENT_SECONDS:
            shown = _COMMENT
        await self._write_joined(shown)

    async def end(self, outcome: Reply | Refusal | None) -> None:
        """Send the rest of an answer that is complete; of one that is continued, nothing more."""
        if self._joined is None or (not isinstance(outcome, Reply) and not self.has_shown):
            return
        is_over = not isinstance(outcome, Reply) or not self._joined.is_continued(outcome)
        await self._write_joined(self._joined.filter.end(is_over=is_over))
        self._is_over = is_over

    async def _write_joined(self, shown: bytes) -> None:
        if not shown:
            return
        if not self._writer.has_begun:
            await self._writer.begin(*self._head)
        self._written_at = monotonic()
        await self._writer.write(shown)

    def decode(self) -> bool:
        """Decode the held chunks, and return whether there was content in them."""
        if self.decoder is None or not self._undecoded:
            return False
        chunks, self._undecoded, self._undecoded_bytes = self._undecoded, [], 0
        return bool(self.decoder.feed(b"".join(chunks)))

    @property
    def is_complete(self) -> bool:
        """True if the client has all content of the answer."""
        if self.decoder is None or not self._writer.has_begun or not self._is_over:
            return False
        self.decode()
        if self._outcome is None and self.decoder.is_complete:
            self._outcome = self.decoder.finish()
        return isinstance(self._outcome, Reply)

    def finish(self) -> Reply | Refusal | None:
        """Return the decoded answer; None if it is not decoded at all."""
        if self.decoder is None:
            return None
        # A decoder can finish only once: a second call would decode the body again.
        if self._undecoded or self._outcome is None:
            self.decode()
            self._outcome = self.decoder.finish()
        return self._outcome


class Forwarder:
    """Makes single attempts; callers decide about retries."""

    def __init__(self, client: UpstreamClient, deadlines: Deadlines, bounds: Bounds) -> None:
        self._client = client
        self._deadlines = deadlines
        self._bounds = bounds

    async def attempt(
        self,
        request: ProxyRequest,
        place: int,
        body: bytes,
        writer: ResponseWriter,
        *,
        may_truncate: bool = False,
        joined: JoinedAnswer | None = None,
    ) -> AttemptOutcome:
        """Send a body to the model at a place, and relay the answer.

        `may_truncate`: hold back the ending of an answer that filled the window from a client that takes such an
        ending for an error, so that it repeats the request. `joined`: relay it as a part of this answer.
        """
        relay = writer.relay = Relay(self._decoder(request, place, joined), writer, joined)
        response: UpstreamResponse | None = None
        try:
            async with asyncio.timeout(self._deadlines.connect_seconds + self._deadlines.first_token_seconds):
                response = await self._send(request, place, body)
                if response.status not in _OK:
                    error = await read_error(response)
                    return AttemptError(error.refusal(request.dialect, key_in(request.headers)), error)
                held, has_ended = await _opening(response, relay)
            if failed := self._failed_opening(request, response, held, relay, has_ended=has_ended):
                return failed
            await relay.begin(response)
            try:
                async with IdleTimeout() as idle:
                    return await self._relay(request, response, held, relay, idle, may_truncate=may_truncate)
            except TimeoutError as error:
                raise BrokenOffError("nothing more came within the deadline") from error
        except TimeoutError:
            return AttemptError(Refusal(request.dialect, Phase.STALL, cause="nothing came within the deadline"))
        except UnreachableError as error:
            return AttemptError(Refusal(request.dialect, Phase.CONNECT, cause=str(error)))
        except BrokenOffError as error:
            refusal = Refusal(request.dialect, Phase.STREAM, cause=str(error))
            return BrokenOff(refusal) if relay.has_shown else AttemptError(refusal)
        finally:
            if response is not None:
                response.close()

    async def _send(self, request: ProxyRequest, place: int, body: bytes) -> UpstreamResponse:
        if request.speculative is not None and not request.speculative.is_taken:
            return await request.speculative.take()
        return await self._client.send(request.upstream, "POST", request.address_for(place), request.headers, body)

    def _failed_opening(
        self, request: ProxyRequest, response: UpstreamResponse, held: bytes, relay: Relay, *, has_ended: bool
    ) -> AttemptError | None:
        """Return the failure of an answer that ended or reported an error before any content."""
        decoder = relay.decoder
        if decoder is None or not (has_ended or decoder.is_complete):
            return None
        outcome = relay.finish()
        error = UpstreamError(response.status, without_length(response.headers), held)
        if isinstance(outcome, Refusal):
            return AttemptError(msgspec.structs.replace(outcome, status=response.status), error)
        if outcome is not None and classify_reply(outcome, Sent()) is not None:
            refusal = Refusal(request.dialect, Phase.STREAM, status=response.status, cause="the answer is empty")
            return AttemptError(refusal, error, outcome)
        return None

    async def _relay(
        self,
        request: ProxyRequest,
        response: UpstreamResponse,
        held: bytes,
        relay: Relay,
        idle: IdleTimeout,
        *,
        may_truncate: bool,
    ) -> ForwardResult | Truncated | AttemptError:
        chunk = held
        is_first = True
        while chunk:
            if (
                may_truncate
                and _INCOMPLETE in chunk
                and request.profile.is_incomplete_an_error
                and (window := self._window(request, relay, b"" if is_first else chunk)) is not None
            ):
                return Truncated(window)
            if is_first:
                # The opening is decoded already.
                is_first = False
                await relay.pass_on(chunk)
                # The client may wake on the core that this process runs on: let it run first.
                os.sched_yield()
            else:
                await relay.write(chunk)
            idle.start(self._deadlines.idle_seconds)
            chunk = await response.next()
            idle.stop()
        # The event loop sends written bytes on its next iteration.
        await asyncio.sleep(0)
        outcome = relay.finish()
        await relay.end(outcome)
        if isinstance(outcome, Refusal) and not relay.has_shown:
            return AttemptError(msgspec.structs.replace(outcome, status=response.status))
        if not isinstance(outcome, Reply):
            return ForwardResult(None)
        return ForwardResult(outcome, relay.decoder.answer_id if relay.decoder is not None else "")

    def _window(self, request: ProxyRequest, relay: Relay, chunk: bytes) -> int | None:
        relay.hold(chunk)
        outcome = relay.finish()
        if not isinstance(outcome, Reply) or request.decoded is None or request.held:
            return None
        return filled_window(outcome, request.decoded.request.output_tokens_max, self._bounds)

    def _decoder(self, request: ProxyRequest, place: int, joined: JoinedAnswer | None) -> AnswerDecoder | None:
        if not request.models:
            return None
        nonce = secrets.token_hex(6)
        if joined is not None:
            joined.filter.nonce = nonce
        elif request.decoded is not None and request.decoded.answer_place:
            nonce = request.decoded.answer_place
        return DIALECTS[request.dialect].StreamDecoder(request.models[place].issuer, nonce)


async def read_error(response: UpstreamResponse) -> UpstreamError:
    """Read an error response to its end, within bounds."""
    body = bytearray()
    with suppress(BrokenOffError, TimeoutError):
        async with asyncio.timeout(_ERROR_SECONDS_MAX):
            while len(body) <= _ERROR_BYTES_MAX and (chunk := await response.next()):
                body += chunk
    return UpstreamError(response.status, without_length(response.headers), bytes(body))


def without_length(headers: RawHeaders) -> RawHeaders:
    """Return headers without the content length, for a body that may have been cut."""
    return [(name, text) for name, text in headers if name != b"content-length"]


async def _opening(response: UpstreamResponse, relay: Relay) -> tuple[bytes, bool]:
    """Return the beginning of an answer up to its first content, and whether that is all of it."""
    held, decoder = b"", relay.decoder
    while chunk := await response.next():
        held += chunk
        relay.hold(chunk)
        if decoder is None or (_CONTENT.search(chunk) and b"error" not in chunk):
            # The pattern finds content without decoding it.
            return held, False
        has_content = relay.decode()
        if has_content or decoder.is_complete or len(held) > _OPENING_BYTES_MAX or not _is_opening(held):
            return held, False
    return held, True


def _is_opening(held: bytes) -> bool:
    """Return whether these bytes may be followed by an error: a stream without content, or a part of a JSON body."""
    if held.lstrip()[:1] in (b"{", b"["):
        return True
    *lines, unfinished = held.split(b"\n")
    is_stream = held.startswith((b"data:", b"event:")) and not unfinished.startswith(b":")
    return is_stream and all(_OPENING_LINE.fullmatch(line) for line in lines)
