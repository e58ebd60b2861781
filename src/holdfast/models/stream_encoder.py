"""Incremental encoder of a reply for a client: deltas in, stream events of the client's dialect out.

Sent events cannot be revoked, so an encoder sends only final content: a call waits until its id is known and the call
before it is complete. The `Reply` at the end supplies everything that is still unsent.
"""

from abc import ABC, abstractmethod
from bisect import insort
from collections.abc import Iterator

import msgspec

from holdfast.models.wire import is_json
from holdfast.ports import Delta, ReasoningDelta, TextDelta, ToolCallDelta
from holdfast.types.messages import Reasoning, Reply, Text, ToolCall

# Characters per delta: about five tokens, smooth to read and cheap for long replies.
_DELTA_CHARS = 20


class AnswerHead(msgspec.Struct, frozen=True):
    """Metadata of a response, known before its first delta.

    `issuer` is the replying model's `Model.issuer`; signatures from another dialect are withheld from the client.
    `input_tokens` is an estimate, for dialects that report it before the reply.
    """

    reply_id: str
    model: str
    created: int = 0
    issuer: str = ""
    input_tokens: int = 0


class _Call:
    """A partial call."""

    def __init__(self) -> None:
        self.call_id = ""
        self.name = ""
        # The arguments so far: pieces that were sent, and pieces that were not.
        self._sent: list[str] = []
        self._unsent: list[str] = []
        self._chars = 0
        # The length at which the arguments were last found incomplete.
        self._incomplete_at = 0
        self.is_open = False
        self.is_closed = False

    def extend(self, piece: str) -> None:
        """Add a piece of the arguments."""
        self._unsent.append(piece)
        self._chars += len(piece)

    def take_unsent(self) -> str:
        """Return the arguments that were not sent yet, and count them as sent."""
        piece = "".join(self._unsent)
        self._sent.append(piece)
        self._unsent = []
        return piece

    @property
    def arguments(self) -> str:
        """The arguments so far."""
        return "".join((*self._sent, *self._unsent))

    def is_complete(self) -> bool:
        """Return whether the arguments are one JSON value.

        Incomplete arguments are parsed again only when they are twice as long, so that the parsing is linear in them.
        """
        if self._incomplete_at and self._chars < 2 * self._incomplete_at:
            return False
        if is_json(self.arguments):
            return True
        self._incomplete_at = self._chars
        return False


class LiveEncoder(ABC):
    """Encodes one streamed reply. Every method returns encoded events.

    Call `start` once, `feed` for each delta, then `finish` or `fail`.
    """

    dialect: str

    def __init__(self, head: AnswerHead, *, wants_usage: bool = True) -> None:
        self.head = head
        self.wants_usage = wants_usage
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._opaques: set[str] = set()
        self._calls: dict[int, _Call] = {}
        # Indexes of the calls that are not closed, in order.
        self._unclosed: list[int] = []

    def feed(self, delta: Delta) -> list[bytes]:
        """Encode a delta."""
        match delta:
            case TextDelta():
                self._text.append(delta.text)
                return [*self._end_calls(), *self._write_text(delta.text)] if delta.text else []
            case ReasoningDelta():
                return self._take_reasoning(delta)
            case ToolCallDelta():
                return self._take_call(delta)

    def finish(self, reply: Reply) -> list[bytes]:
        """Encode the unsent rest of the reply and end the stream."""
        return [*self._unsent_events(reply), *self._end_calls(), *self._end(reply)]

    # --- Deltas ---

    def _visible_opaque(self, opaque: str) -> str:
        """Return a signature that the client may see: only one of its own dialect."""
        return opaque if self.head.issuer.partition(":")[0] in ("", self.dialect) else ""

    def _take_reasoning(self, delta: ReasoningDelta) -> list[bytes]:
        self._thinking.append(delta.text)
        events = self._end_calls()
        if delta.text:
            events += self._write_thinking(delta.text, delta.part_id)
        opaque = self._visible_opaque(delta.opaque)
        if opaque:
            self._opaques.add(opaque)
            events += self._sign_thinking(opaque)
        return events

    def _take_call(self, delta: ToolCallDelta) -> list[bytes]:
        call = self._call_at(delta.index)
        call.call_id = call.call_id or delta.call_id
        call.name = call.name or delta.name
        call.extend(delta.arguments)
        return self._advance(is_last=False)

    def _call_at(self, index: int) -> _Call:
        if index not in self._calls:
            self._calls[index] = _Call()
            insort(self._unclosed, index)
        return self._calls[index]

    def _advance(self, *, is_last: bool) -> list[bytes]:
        """Encode the final part of the calls, one call after the other."""
        events: list[bytes] = []
        while self._unclosed:
            index = self._unclosed[0]
            call = self._calls[index]
            if not (call.call_id and call.name):
                return events
            if not call.is_open:
                call.is_open = True
                events += self._open_call(index, call.call_id, call.name)
            if piece := call.take_unsent():
                events += self._write_call(index, piece)
            if not is_last and not (index + 1 in self._calls and call.is_complete()):
                return events
            call.is_closed = True
            self._unclosed.pop(0)
            events += self._close_call(index, call.call_id, call.name, call.arguments)
        return events

    def _end_calls(self) -> list[bytes]:
        return self._advance(is_last=True)

    # --- Unsent rest ---

    def _unsent_events(self, reply: Reply) -> Iterator[bytes]:
        texts = _Unsent("".join(self._text), "".join(part.text for part in reply.parts if isinstance(part, Text)))
        thoughts = _Unsent(
            "".join(self._thinking), "".join(part.text for part in reply.parts if isinstance(part, Reasoning))
        )
        number = 0
        for part in reply.parts:
            match part:
                case Text():
                    for piece in pieces(texts.of(part.text)):
                        yield from self.feed(TextDelta(piece))
                case Reasoning():
                    yield from self._unsent_reasoning_events(part, thoughts.of(part.text))
                case ToolCall():
                    yield from self._unsent_call_events(number, part)
                    number += 1

    def _unsent_reasoning_events(self, part: Reasoning, unsent: str) -> Iterator[bytes]:
        for piece in pieces(unsent):
            yield from self.feed(ReasoningDelta(piece, part_id=self._part_id(part)))
        # A signature can only follow its own reasoning, before that block ends.
        if part.opaque and part.opaque not in self._opaques and (unsent or self._can_sign(part)):
            yield from self.feed(ReasoningDelta("", part.opaque))

    def _unsent_call_events(self, index: int, part: ToolCall) -> Iterator[bytes]:
        call = self._call_at(index)
        call.call_id, call.name = call.call_id or part.call_id, call.name or part.name
        if call.is_closed or not part.arguments.startswith(call.arguments):
            return
        for piece in pieces(part.arguments[len(call.arguments) :]):
            yield from self.feed(ToolCallDelta(index, part.name, piece, part.call_id))

    def _part_id(self, part: Reasoning) -> str:  # noqa: ARG002 - only some dialects have reasoning ids
        """Return the provider's id of a reasoning part."""
        return ""

    def _can_sign(self, part: Reasoning) -> bool:
        return not part.text or self._is_thinking()

    # --- Dialect events ---

    @abstractmethod
    def start(self) -> list[bytes]:
        """Open the stream."""

    @abstractmethod
    def fail(self, kind: str, message: str, code: str | None = None) -> list[bytes]:
        """End the stream with an error."""

    @abstractmethod
    def _is_thinking(self) -> bool:
        """Return whether a reasoning block is open."""

    @abstractmethod
    def _write_text(self, text: str) -> list[bytes]:
        """Encode a piece of text."""

    @abstractmethod
    def _write_thinking(self, text: str, part_id: str) -> list[bytes]:
        """Encode a piece of reasoning."""

    @abstractmethod
    def _sign_thinking(self, opaque: str) -> list[bytes]:
        """End a reasoning block, which may be empty, with its signature."""

    @abstractmethod
    def _open_call(self, index: int, call_id: str, name: str) -> list[bytes]:
        """Encode the start of a call."""

    @abstractmethod
    def _write_call(self, index: int, piece: str) -> list[bytes]:
        """Encode a piece of a call's arguments."""

    @abstractmethod
    def _close_call(self, index: int, call_id: str, name: str, arguments: str) -> list[bytes]:
        """Encode the end of a call."""

    @abstractmethod
    def _end(self, reply: Reply) -> list[bytes]:
        """End the stream."""


class _Unsent:
    """Yields the unsent rest of consecutive texts; nothing if the sent text differs."""

    def __init__(self, sent: str, full: str) -> None:
        self._left = len(sent) if full.startswith(sent) else len(full)

    def of(self, text: str) -> str:
        """Return the unsent rest of the next text."""
        skipped = min(self._left, len(text))
        self._left -= skipped
        return text[skipped:]


def pieces(text: str) -> Iterator[str]:
    """Split a text into delta-sized pieces."""
    return (text[at : at + _DELTA_CHARS] for at in range(0, len(text), _DELTA_CHARS))


def replay(encoder: LiveEncoder, reply: Reply) -> Iterator[bytes]:
    """Encode a complete reply as stream events."""
    yield from encoder.start()
    yield from encoder.finish(reply)
