"""An answer on its way to a client while it is still being written: deltas in, events of the client's dialect out.

What was sent cannot be taken back, so an encoder sends only what is certain: a call waits until its id is known and the
call before it is complete. The `Reply` at the end has the last word about whatever has not been sent by then.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator

import msgspec

from holdfast.models.wire import is_json
from holdfast.ports import Delta, ReasoningDelta, TextDelta, ToolCallDelta
from holdfast.types.messages import Reasoning, Reply, Text, ToolCall

# Letters per delta: about five tokens, so that a page shows a smooth stream and long answers stay cheap.
_DELTA_CHARS = 20


class AnswerHead(msgspec.Struct, frozen=True):
    """What a client is told of an answer before its first word.

    `issuer` is who gives the answer, as `Model.issuer` says it; what only an issuer of another dialect could check is
    not shown to the client. `input_tokens` is an estimate, for dialects that tell the sum before the answer.
    """

    reply_id: str
    model: str
    created: int = 0
    issuer: str = ""
    input_tokens: int = 0


class _Call:
    """A call while its pieces come. `arguments` is all there is of it, `sent` how much of that the client has."""

    def __init__(self) -> None:
        self.call_id = ""
        self.name = ""
        self.arguments = ""
        self.sent = 0
        self.is_open = False
        self.is_closed = False


class LiveEncoder(ABC):
    """Writes one streamed answer in a dialect. Every method returns events, each ready for the wire.

    Call `start` once, `feed` for each delta, then `finish` or `fail`.
    """

    dialect: str

    def __init__(self, head: AnswerHead, *, wants_usage: bool = True) -> None:
        self.head = head
        self.wants_usage = wants_usage
        self._text = ""
        self._thinking = ""
        self._opaques: set[str] = set()
        self._calls: dict[int, _Call] = {}

    def feed(self, delta: Delta) -> list[bytes]:
        """Write a piece of the answer."""
        match delta:
            case TextDelta():
                self._text += delta.text
                return [*self._end_calls(), *self._write_text(delta.text)] if delta.text else []
            case ReasoningDelta():
                return self._take_reasoning(delta)
            case ToolCallDelta():
                return self._take_call(delta)

    def finish(self, reply: Reply) -> list[bytes]:
        """Write what the answer has beyond what was sent, and end the stream."""
        return [*self._unsent_events(reply), *self._end_calls(), *self._end(reply)]

    # --- what was sent -------------------------------------------------------------------------------------------

    def _visible_opaque(self, opaque: str) -> str:
        """Return what of an opaque text the client may have: its dialect's own alone."""
        return opaque if self.head.issuer.partition(":")[0] in ("", self.dialect) else ""

    def _take_reasoning(self, delta: ReasoningDelta) -> list[bytes]:
        self._thinking += delta.text
        events = self._end_calls()
        if delta.text:
            events += self._write_thinking(delta.text, delta.part_id)
        opaque = self._visible_opaque(delta.opaque)
        if opaque:
            self._opaques.add(opaque)
            events += self._sign_thinking(opaque)
        return events

    def _take_call(self, delta: ToolCallDelta) -> list[bytes]:
        call = self._calls.setdefault(delta.index, _Call())
        call.call_id = call.call_id or delta.call_id
        call.name = call.name or delta.name
        call.arguments += delta.arguments
        return self._advance(is_last=False)

    def _advance(self, *, is_last: bool) -> list[bytes]:
        """Write as much of the calls as is certain, one call after the other."""
        events: list[bytes] = []
        for index in sorted(self._calls):
            call = self._calls[index]
            if call.is_closed:
                continue
            if not (call.call_id and call.name):
                return events
            if not call.is_open:
                call.is_open = True
                events += self._open_call(index, call.call_id, call.name)
            piece, call.sent = call.arguments[call.sent :], len(call.arguments)
            events += self._write_call(index, piece) if piece else []
            if not is_last and not (index + 1 in self._calls and is_json(call.arguments)):
                return events
            call.is_closed = True
            events += self._close_call(index, call.call_id, call.name, call.arguments)
        return events

    def _end_calls(self) -> list[bytes]:
        return self._advance(is_last=True)

    # --- what is missing -----------------------------------------------------------------------------------------

    def _unsent_events(self, reply: Reply) -> Iterator[bytes]:
        texts = _Unsent(self._text, "".join(part.text for part in reply.parts if isinstance(part, Text)))
        thoughts = _Unsent(self._thinking, "".join(part.text for part in reply.parts if isinstance(part, Reasoning)))
        number = 0
        for part in reply.parts:
            match part:
                case Text():
                    for piece in pieces(texts.of(part.text)):
                        yield from self.feed(TextDelta(piece))
                case Reasoning():
                    missing = thoughts.of(part.text)
                    for piece in pieces(missing):
                        yield from self.feed(ReasoningDelta(piece, part_id=self._part_id(part)))
                    # A signature belongs to its thinking: once that has been sent and ended, it is too late.
                    if part.opaque and part.opaque not in self._opaques and (missing or self._can_sign(part)):
                        yield from self.feed(ReasoningDelta("", part.opaque))
                case ToolCall():
                    yield from self._unsent_call_events(number, part)
                    number += 1

    def _unsent_call_events(self, index: int, part: ToolCall) -> Iterator[bytes]:
        call = self._calls.setdefault(index, _Call())
        call.call_id, call.name = call.call_id or part.call_id, call.name or part.name
        if call.is_closed or not part.arguments.startswith(call.arguments):
            return
        for piece in pieces(part.arguments[len(call.arguments) :]):
            yield from self.feed(ToolCallDelta(index, part.name, piece, part.call_id))

    def _part_id(self, part: Reasoning) -> str:  # noqa: ARG002 - only some dialects name their thinking
        """Return what the provider calls a stretch of thinking."""
        return ""

    def _can_sign(self, part: Reasoning) -> bool:
        return not part.text or self._is_thinking()

    # --- what a dialect says -------------------------------------------------------------------------------------

    @abstractmethod
    def start(self) -> list[bytes]:
        """Open the stream."""

    @abstractmethod
    def fail(self, kind: str, message: str, code: str | None = None) -> list[bytes]:
        """End the stream with an error."""

    @abstractmethod
    def _is_thinking(self) -> bool:
        """Whether thinking has been begun and not ended."""

    @abstractmethod
    def _write_text(self, text: str) -> list[bytes]:
        """Write a piece of text."""

    @abstractmethod
    def _write_thinking(self, text: str, part_id: str) -> list[bytes]:
        """Write a piece of thinking."""

    @abstractmethod
    def _sign_thinking(self, opaque: str) -> list[bytes]:
        """End the thinking with what its issuer will want to see again; there may have been none to see."""

    @abstractmethod
    def _open_call(self, index: int, call_id: str, name: str) -> list[bytes]:
        """Begin a call."""

    @abstractmethod
    def _write_call(self, index: int, piece: str) -> list[bytes]:
        """Write a piece of a call's arguments."""

    @abstractmethod
    def _close_call(self, index: int, call_id: str, name: str, arguments: str) -> list[bytes]:
        """End a call."""

    @abstractmethod
    def _end(self, reply: Reply) -> list[bytes]:
        """End the stream."""


class _Unsent:
    """Walks over texts of which a beginning has been sent; where something else was sent, nothing follows."""

    def __init__(self, sent: str, whole: str) -> None:
        self._left = len(sent) if whole.startswith(sent) else len(whole)

    def of(self, text: str) -> str:
        """Return what of the next text has not been sent."""
        skipped = min(self._left, len(text))
        self._left -= skipped
        return text[skipped:]


def pieces(text: str) -> Iterator[str]:
    """Cut a text into pieces as a model would have written them."""
    return (text[at : at + _DELTA_CHARS] for at in range(0, len(text), _DELTA_CHARS))


def replay(encoder: LiveEncoder, reply: Reply) -> Iterator[bytes]:
    """Yield a whole answer as the events of a stream."""
    yield from encoder.start()
    yield from encoder.finish(reply)
