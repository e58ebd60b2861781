"""Stream of one JSON list: a parser of its elements while bytes arrive, and an encoder.

Gemini streams a list of responses unless the query has `alt=sse`.
"""

import re

# Quotes and brackets; an escaped character is one token, so that it is skipped.
_TOKEN = re.compile(rb'\\.|["{}\[\]]', re.DOTALL)


class ListParser:
    """Splits a stream into the objects of its list. Each byte is scanned once."""

    def __init__(self) -> None:
        self._pending = bytearray()
        self._scanned = 0
        self._depth = 0
        self._start = -1
        self._is_text = False

    @property
    def pending_bytes(self) -> int:
        """Bytes of the element that is not complete."""
        return len(self._pending)

    def feed(self, chunk: bytes) -> list[bytes]:
        """Add bytes and return the completed objects."""
        self._pending += chunk
        found: list[bytes] = []
        for token in _TOKEN.finditer(self._pending, self._scanned):
            self._take(token, found)
        self._scanned = len(self._pending)
        if self._pending.endswith(b"\\") and not self._is_escaped_end():
            # The escaped character is in the next chunk.
            self._scanned -= 1
        if self._start < 0:
            del self._pending[: self._scanned]
            self._scanned = 0
        return found

    def _is_escaped_end(self) -> bool:
        return (len(self._pending) - len(self._pending.rstrip(b"\\"))) % 2 == 0

    def _take(self, token: re.Match[bytes], found: list[bytes]) -> None:
        mark = token[0]
        if mark == b'"':
            self._is_text = not self._is_text
        elif self._is_text or mark.startswith(b"\\"):
            return
        elif mark in b"{[":
            self._depth += 1
            if self._depth == 2:  # noqa: PLR2004 - an object in the list
                self._start = token.start()
        else:
            self._depth -= 1
            if self._depth == 1:
                found.append(bytes(self._pending[self._start : token.end()]))
                self._start = -1


class ListEncoder:
    """Encodes events as elements of one JSON list."""

    def __init__(self) -> None:
        self._count = 0

    def element(self, event: bytes) -> bytes:
        """Return an event or an object as the next element; nothing for a comment."""
        payload = event.strip().removeprefix(b"data:").strip()
        if not payload.startswith(b"{"):
            return b""
        self._count += 1
        return (b"[" if self._count == 1 else b",\r\n") + payload

    def end(self) -> bytes:
        """Return the end of the list."""
        return b"]" if self._count else b"[]"
