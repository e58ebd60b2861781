"""The answer of a model as bytes in any pieces: deltas on the way, one `Reply` or `Refusal` at the end.

This is the half that no dialect changes: is it a stream or one JSON body, how large may it grow, what is kept of an
answer that makes no sense. A dialect subclasses `AnswerDecoder` and reads its own events.
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

# The text and arguments of one answer. No model writes this much; a server that repeats itself for ever does.
ANSWER_BYTES_MAX = 16 * 2**20

_BLANK = b" \t\r\n\xef\xbb\xbf"


class AnswerDecoder(ABC):
    """Reads one answer. Feed it whatever came, in order, then ask how it ended."""

    dialect: ClassVar[str]

    def __init__(self, issuer: str, nonce: str = "0") -> None:
        """`nonce` tells apart the calls of servers that give them no ids; it must differ from answer to answer."""
        self.issuer = issuer
        self.nonce = nonce
        self._parser = EventParser()
        self._opening = bytearray()
        self._is_undecided = True
        self._json_body: bytearray | None = None
        self._has_events = False
        self._answer_bytes = 0
        self._refusal: Refusal | None = None

    @property
    def is_complete(self) -> bool:
        """Whether nothing that may still come can change the outcome."""
        return self._refusal is not None or self._is_ended()

    @property
    def answer_id(self) -> str:
        """The name by which its client may go on from it; "" in dialects that keep no answers."""
        return ""

    def feed(self, chunk: bytes) -> list[Delta]:
        """Take the next bytes and return the deltas they complete."""
        if self.is_complete:
            return []
        room = Bounds().refusal_body_bytes_max - len(self._opening)
        self._opening += chunk[: max(room, 0)]
        if self._is_undecided:
            chunk = chunk.lstrip(_BLANK)
            self._is_undecided = not chunk
            if chunk[:1] in (b"{", b"["):
                self._json_body = bytearray()  # No line of an event stream starts like this.
        if self._json_body is not None:
            self._json_body += chunk
            if len(self._json_body) > ANSWER_BYTES_MAX:
                self._fail(f"the answer has more than {ANSWER_BYTES_MAX:,} bytes")
            return []
        return self._feed_events(chunk)

    def finish(self) -> Reply | Refusal:
        """Say what came of it, once no more bytes come."""
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
        # Pieces of a half answer are the model's words, not the provider's: they must not be classified.
        body = b"" if self._has_events else bytes(self._opening)
        return self._refusal_for("the stream ended before the answer was complete", body)

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
                self._fail("an event of the stream could not be read", event.payload)
        return deltas

    def _decode_json_body(self, body: bytes) -> None:
        try:
            self._take_body(body)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            self._fail("the answer could not be read", body)

    def _take_last_event(self) -> None:
        for event in self._parser.finish():
            try:
                self._take_event(event)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                return  # Half an event: the stream was cut, which is what `finish` says.

    def _fail(self, cause: str, body: bytes = b"") -> None:
        self._refusal = self._refusal_for(cause, body)

    def _refusal_for(self, cause: str, body: bytes) -> Refusal:
        return Refusal(self.dialect, Phase.STREAM, body=cut_text(body), cause=cause)

    def _count(self, text: str) -> None:
        """Count what is kept of the answer, so that it stays bounded."""
        self._answer_bytes += len(text)
        if self._answer_bytes > ANSWER_BYTES_MAX:
            self._fail(f"the answer has more than {ANSWER_BYTES_MAX:,} characters")

    @abstractmethod
    def _take_event(self, event: Event) -> list[Delta]:
        """Read one event of a stream."""

    @abstractmethod
    def _take_body(self, body: bytes) -> None:
        """Read a whole answer that came as one JSON body."""

    @abstractmethod
    def _is_ended(self) -> bool:
        """Whether the stream said that it is over."""

    @abstractmethod
    def _reply(self) -> Reply | None:
        """Return the answer, or None while it is not complete."""
