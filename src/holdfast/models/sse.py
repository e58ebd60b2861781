"""Server-sent events: incremental parser and encoder.

The parser buffers only the current line and event, and both are bounded: an endless line cannot fill memory.
"""

import re

import msgspec

# Some servers send a complete response, or all arguments of a call, in one event.
EVENT_BYTES_MAX = 16 * 2**20

_LINE_END = re.compile(rb"\r\n|\n|\r")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Event(msgspec.Struct, frozen=True):
    """One event: its name (or "") and its payload, with data lines joined."""

    name: str
    payload: bytes


class EventTooLargeError(Exception):
    """An event exceeds the size limit."""


class EventParser:
    """Splits a byte stream into events. Comments and fields other than `event` and `data` are dropped."""

    def __init__(self, event_bytes_max: int = EVENT_BYTES_MAX) -> None:
        self._event_bytes_max = event_bytes_max
        self._pending = bytearray()
        self._scanned = 0
        self._at_start = True
        self._name = ""
        self._lines: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[Event]:
        """Add bytes and return the completed events."""
        events: list[Event] = []
        if self._is_between() and chunk.endswith(b"\n\n") and b"\r" not in chunk:
            # Most chunks are whole events.
            for block in chunk[:-2].split(b"\n\n"):
                self._take_block(block, events)
            return events
        self._pending += chunk
        start = 0
        for end in _LINE_END.finditer(self._pending, self._scanned):
            if end.group() == b"\r" and end.end() == len(self._pending):
                break  # The matching line feed may be in the next chunk.
            self._take_line(bytes(self._pending[start : end.start()]), events)
            start = end.end()
        del self._pending[:start]
        held_back = 1 if self._pending.endswith(b"\r") else 0
        self._scanned = len(self._pending) - held_back
        self._check_size(len(self._pending))
        return events

    def finish(self) -> list[Event]:
        """Return the last event of a stream that ended without a blank line."""
        events: list[Event] = []
        self._take_line(bytes(self._pending).rstrip(b"\r"), events)
        self._pending.clear()
        self._scanned = 0
        self._take_line(b"", events)
        return events

    def _is_between(self) -> bool:
        """Return whether the next byte begins an event."""
        return not (self._pending or self._at_start or self._lines or self._name)

    def _take_block(self, block: bytes, events: list[Event]) -> None:
        """Take all lines of an event."""
        head, _, payload = block.rpartition(b"\n")
        if payload.startswith(b"data: ") and (not head or (head.startswith(b"event: ") and b"\n" not in head)):
            self._check_size(len(payload) - len(b"data:"))
            events.append(Event(head[7:].decode("utf-8", "replace"), payload[6:]))
            return
        for line in (*block.split(b"\n"), b""):
            self._take_line(line, events)

    def _take_line(self, line: bytes, events: list[Event]) -> None:
        if self._at_start:
            self._at_start = False
            line = line.removeprefix(_BYTE_ORDER_MARK)
        if not line:
            if self._lines:
                events.append(Event(self._name, b"\n".join(self._lines)))
            self._name, self._lines, self._size = "", [], 0
            return
        field, _, text = line.partition(b":")
        text = text.removeprefix(b" ")
        if field == b"data":
            self._size += len(text) + 1
            self._check_size(0)
            self._lines.append(text)
        elif field == b"event":
            self._name = text.decode("utf-8", "replace")

    def _check_size(self, pending: int) -> None:
        if self._size + pending > self._event_bytes_max:
            raise EventTooLargeError(f"an event of the stream has more than {self._event_bytes_max:,} bytes")


def encode_event(payload: bytes, name: str = "") -> bytes:
    """Encode one event. The payload must be a single line, such as JSON."""
    head = f"event: {name}\n".encode() if name else b""
    return head + b"data: " + payload + b"\n\n"
