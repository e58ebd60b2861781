"""Incremental decoder base of model responses: deltas while bytes arrive, one `Reply` or `Refusal` at the end.

The base class detects stream or JSON body, limits the size and keeps the start of malformed responses. A dialect
subclasses `AnswerDecoder` and decodes its own events.
"""

from abc import ABC, abstractmethod
from typing import ClassVar

import msgspec

from holdfast.core.limits.bounds import Bounds
from holdfast.models.sse import Event, EventParser, EventTooLargeError
from holdfast.models.wire import cut_text
from holdfast.ports import Delta
from holdfast.types.faults import Phase, Refusal
from holdfast.types.messages import Reply

# Text and arguments of one response. No model writes this much; only a server in an endless loop does.
ANSWER_BYTES_MAX = 16 * 2**20
# Tool calls of one response. Models make a few dozen at most; folding a reply takes steps for each pair of its calls.
CALLS_MAX = 1_024

_HEAD_BYTES_MAX = Bounds().refusal_body_bytes_max
_BLANK = b" \t\r\n\xef\xbb\xbf"


class AnswerDecoder(ABC):
    """Decodes one response: `feed` the bytes in order, then call `finish`."""

    dialect: ClassVar[str]

    def __init__(self, issuer: str, nonce: str = "0") -> None:
        """`nonce` makes generated call ids unique for servers that send none; it must differ between responses."""
        self.issuer = issuer
        self.nonce = nonce
        self._parser = EventParser()
        self._head = bytearray()
        self._is_undecided = True
        self._json_body: bytearray | None = None
        self._has_events = False
        self._answer_bytes = 0
        self._refusal: Refusal | None = None

    @property
    def is_complete(self) -> bool:
        """Return whether further bytes cannot change the outcome."""
        return self._refusal is not None or self._is_ended()

    @property
    def answer_id(self) -> str:
        """The response id that a client can continue from; "" in dialects without stored responses."""
        return ""

    def feed(self, chunk: bytes) -> list[Delta]:
        """Add bytes and return the completed deltas."""
        if self.is_complete:
            return []
        self._keep_head(chunk)
        if self._is_undecided:
            chunk = chunk.lstrip(_BLANK)
            self._is_undecided = not chunk
            if chunk[:1] in (b"{", b"["):
                self._json_body = bytearray()  # No event stream line starts with these.
        if self._json_body is not None:
            self._json_body += chunk
            if len(self._json_body) > ANSWER_BYTES_MAX:
                self._fail(f"the response has more than {ANSWER_BYTES_MAX:,} bytes")
            return []
        return self._feed_events(chunk)

    def _keep_head(self, chunk: bytes) -> None:
        """Keep the start of the response, for the refusal of a malformed one."""
        room = _HEAD_BYTES_MAX - len(self._head)
        if room > 0:
            self._head += chunk[:room]

    def finish(self) -> Reply | Refusal:
        """Return the outcome after the last byte."""
        if not self.is_complete:
            if self._json_body is not None:
                self._decode_json_body(bytes(self._json_body))
            else:
                self._take_last_event()
        if self._refusal is not None:
            return self._refusal
        reply = self._reply()
        if reply is not None:
            return reply
        # Text of a partial reply is from the model, not the provider: the fault classifier must not see it.
        body = b"" if self._has_events else bytes(self._head)
        return self._refusal_for("the stream ended before the response was complete", body)

    def _feed_events(self, chunk: bytes) -> list[Delta]:
        deltas: list[Delta] = []
        try:
            events = self._parser.feed(chunk)
        except EventTooLargeError as error:
            self._fail(str(error))
            return deltas
        for event in events:
            if self.is_complete:
                break
            self._has_events = True
            try:
                deltas += self._take_event(event)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                self._fail("the response has a malformed event", event.payload)
        return deltas

    def _decode_json_body(self, body: bytes) -> None:
        try:
            self._take_body(body)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            self._fail("the response is malformed", body)

    def _take_last_event(self) -> None:
        for event in self._parser.finish():
            try:
                self._take_event(event)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                return  # A partial event: `finish` reports the incomplete stream.

    def _fail(self, cause: str, body: bytes = b"") -> None:
        self._refusal = self._refusal_for(cause, body)

    def _refusal_for(self, cause: str, body: bytes) -> Refusal:
        return Refusal(self.dialect, Phase.STREAM, body=cut_text(body), cause=cause)

    def _count(self, text: str) -> None:
        """Count buffered characters against the limit."""
        self._answer_bytes += len(text)
        if self._answer_bytes > ANSWER_BYTES_MAX:
            self._fail(f"the response has more than {ANSWER_BYTES_MAX:,} characters")

    def _check_calls(self, count: int) -> None:
        """Reject a response with too many tool calls."""
        if count > CALLS_MAX:
            self._fail(f"the response has more than {CALLS_MAX:,} tool calls")

    @abstractmethod
    def _take_event(self, event: Event) -> list[Delta]:
        """Decode one stream event."""

    @abstractmethod
    def _take_body(self, body: bytes) -> None:
        """Decode a response sent as one JSON body."""

    @abstractmethod
    def _is_ended(self) -> bool:
        """Return whether the stream announced its end."""

    @abstractmethod
    def _reply(self) -> Reply | None:
        """Return the reply, or None while it is incomplete."""
