"""Filter of the answers to one request: hide calls of one tool, and join an answer with those that continue it.

Events and bodies that need no change keep their bytes. Text is sent as it comes. Reasoning is held back until the part
after it is known: the reasoning of an answer that is continued here belongs to a call that the client never sees.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, TypeAlias

import msgspec

from holdfast.models.sse import encode_event

# Decoded JSON of a provider, with fields that only it knows.
Node: TypeAlias = dict[str, Any]

_EVENT_END = re.compile(rb"\r?\n\r?\n")


class HeldEvent(msgspec.Struct):
    """An event that is not sent yet. `raw` is empty if its content was changed."""

    raw: bytes
    node: Node
    is_opening: bool = False


class AnswerFilter(ABC):
    """Filters the answers to one request of a client: `begin`, `feed` and `end` for each of them."""

    # The field of a body with its usage.
    USAGE_FIELD = "usage"
    # Makes the ids of calls that have none; as for the decoder of the answer.
    nonce = "0"

    def __init__(self, tool: str) -> None:
        self._tool = tool
        # Text of continued answers that was sent, and the usage of all answers that have ended.
        self.said_before = ""
        # The id that the client was sent in place of that of the last answer; "" if it has the latter.
        self.replaced_id = ""
        self._usages: list[Node] = []
        self._has_opened = False
        self._next_place = 0
        self.begin(hides=True)

    def begin(self, *, hides: bool) -> None:
        """Begin another answer; one that was not shown is forgotten. `hides`: calls of the tool are hidden."""
        self._hides = hides
        # Content of this answer was sent.
        self.has_shown = False
        # Bytes since something was last sent.
        self.held_bytes = 0
        self._buffer = b""
        self._body: list[bytes] = []
        self._is_json: bool | None = None
        self._held: list[HeldEvent] = []
        self._ending: list[HeldEvent] = []
        self._usage: Node = {}
        self._text = ""
        # Places of parts: those that are hidden, and those that were sent, with their place in the joined answer.
        self._hidden: set[int] = set()
        self._places: dict[int, int] = {}

    @property
    def is_stream(self) -> bool:
        """True if the answer is a stream of events."""
        return self._is_json is False

    def feed(self, chunk: bytes) -> bytes:
        """Add bytes of the answer, and return those to send now."""
        self.held_bytes += len(chunk)
        if self._is_json is None and chunk.strip():
            self._is_json = chunk.lstrip().startswith(b"{")
        if self._is_json is not False:
            self._body.append(chunk)
            return b""
        sent = self._framed(self._feed_events(chunk))
        self.held_bytes = 0 if sent else self.held_bytes
        return sent

    def _feed_events(self, chunk: bytes) -> list[bytes]:
        self._buffer += chunk
        sent: list[bytes] = []
        start = 0
        for found in _EVENT_END.finditer(self._buffer):
            sent += self._take(self._buffer[start : found.end()])
            start = found.end()
        self._buffer = self._buffer[start:]
        return sent

    def end(self, *, is_over: bool) -> bytes:
        """End an answer, and return the rest to send. `is_over`: it is the last one, else it is continued."""
        if self._is_json:
            return self._end_body(is_over=is_over)
        sent = [*(self._take(self._buffer) if self._buffer.strip() else ()), *self._last_text(is_over=is_over)]
        self._usages += [self._usage] if self._usage else []
        if is_over:
            sent += [*self._flush(), *(self._written(one) for one in self._ending)]
            self.has_shown = True
        self.said_before += self._text if not is_over else ""
        return self._framed(sent, is_over=is_over)

    def _framed(self, sent: list[bytes], *, is_over: bool = False) -> bytes:  # noqa: ARG002 - only lists have an end
        """Return events as bytes of the response."""
        return b"".join(sent)

    # --- Events ---

    def _take(self, raw: bytes) -> Iterator[bytes]:
        lines = [line.removeprefix(b"data:").strip() for line in raw.splitlines() if line.startswith(b"data:")]
        payload = b"\n".join(lines)
        node = _object(payload)
        if node is None and payload:
            self._ending.append(HeldEvent(raw, {}))
        elif node is None:
            # A comment keeps the connection alive.
            yield raw
        else:
            yield from self._event(HeldEvent(raw, node))

    def _show(self, one: HeldEvent) -> Iterator[bytes]:
        """Send content, after everything that is held back."""
        yield from self._flush()
        self.has_shown = True
        yield self._written(one)

    def _flush(self) -> list[bytes]:
        held, self._held = self._held, []
        has_opened, self._has_opened = self._has_opened, True
        return [self._written(one) for one in held if not (one.is_opening and has_opened)]

    def _written(self, one: HeldEvent) -> bytes:
        if not self._patch(one.node) and one.raw:
            return one.raw
        name = str(one.node.get("type", "")) if one.raw.startswith(b"event:") or not one.raw else ""
        return encode_event(msgspec.json.encode(one.node), name)

    def _place(self, place: int) -> int:
        """Return the place in the joined answer of a part that is being sent."""
        if place not in self._places:
            self._places[place] = self._next_place
            self._next_place += 1
        return self._places[place]

    def _total(self) -> Node:
        """Return the usage of all answers together."""
        total: Node = {}
        for usage in self._usages:
            total = _added(total, usage)
        return total

    def _last_text(self, *, is_over: bool) -> Iterator[bytes]:  # noqa: ARG002 - only chat has text in its ending
        """Yield content of the ending of an answer that is continued."""
        yield from ()

    # --- Bodies ---

    def _end_body(self, *, is_over: bool) -> bytes:
        body = b"".join(self._body)
        node = _object(body)
        if node is None:
            return body
        usage = node.get(self.USAGE_FIELD)
        self._usages += [usage] if isinstance(usage, dict) else []
        if not is_over:
            return b""
        self.has_shown = True
        is_changed = self._hides and self._hide_in(node)
        if len(self._usages) > 1:
            node[self.USAGE_FIELD], is_changed = self._total(), True
        return msgspec.json.encode(node) if is_changed else body

    # --- Dialects ---

    @abstractmethod
    def _event(self, one: HeldEvent) -> Iterator[bytes]:
        """Take one event of a stream: send it, hold it back or drop it."""

    @abstractmethod
    def _patch(self, node: Node) -> bool:
        """Change the numbers of an event that is being sent to those of the joined answer; return False if none."""

    @abstractmethod
    def _hide_in(self, node: Node) -> bool:
        """Remove hidden calls from a body, and return whether there were some."""


def object_of(value: object) -> Node:
    """Return a JSON object; an empty one for any other value."""
    return value if isinstance(value, dict) else {}


def _object(body: bytes) -> Node | None:
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _added(total: Node, usage: Node) -> Node:
    """Return the sum of two usages, field by field; of other values the last."""
    summed = dict(total)
    for name, value in usage.items():
        before = summed.get(name)
        if isinstance(value, dict):
            summed[name] = _added(object_of(before), value)
        elif isinstance(value, int | float) and isinstance(before, int | float) and not isinstance(value, bool):
            summed[name] = before + value
        elif value is not None or name not in summed:
            summed[name] = value
    return summed
