"""Byte spans of a top-level JSON field and of its list elements.

Splicing at these spans keeps the rest of a request byte for byte: key order, spaces, numbers and unknown fields.
"""

import re
from collections.abc import Iterator

import msgspec

from holdfast.models.wire import MalformedRequestError

# A string, or a structural character. Only numbers, literals and white space stand between them.
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|([\[\]{},:])', re.DOTALL)
_BLANK = b" \t\r\n"
_OPENING = (b"{", b"[")
_ENDING = (b",", b"}", b"]")


class Span(msgspec.Struct, frozen=True):
    """A byte range of a body; `end` is exclusive."""

    start: int
    end: int


class Field(msgspec.Struct, frozen=True):
    """The span of a field's value. `elements` are the spans of a list's elements; empty for other values."""

    value: Span
    elements: tuple[Span, ...] = ()


def locate(body: bytes, name: str) -> Field | None:
    """Find a top-level field of a valid JSON body; None if it is missing.

    The last of several fields with one name wins, as in JSON parsers. Scans the body once without decoding it.
    """
    quoted = msgspec.json.encode(name)
    found: Field | None = None
    tokens = _TOKEN.finditer(body)
    opening = next(tokens, None)
    if opening is None or opening[1] != b"{":
        return None
    key = b""
    for token in tokens:
        if token[1] != b":":
            key = token[0]
        elif _normalised(key) == quoted:
            found = _read_value(body, tokens, token.end()) or found
        else:
            _skip_value(tokens)
    return found


def _skip_value(tokens: Iterator[re.Match[bytes]]) -> None:
    """Consume the tokens of one value and the comma or brace after it."""
    depth = 0
    for token in tokens:
        mark = token[1]
        if mark in _OPENING:
            depth += 1
        elif mark in _ENDING:
            if depth == 0:
                return
            depth -= mark != b","


def _read_value(body: bytes, tokens: Iterator[re.Match[bytes]], start: int) -> Field | None:
    """Consume one value like `_skip_value` and return its spans; None if the body ends before it."""
    depth = 0
    elements: list[Span] = []
    element_start = -1
    for token in tokens:
        mark = token[1]
        if mark in _OPENING:
            depth += 1
            if depth == 1 and mark == b"[":
                element_start = token.end()
        elif mark in _ENDING:
            if depth == 0:
                return Field(_trimmed(body, start, token.start())[0], tuple(elements))
            if depth == 1 and element_start >= 0:
                elements += _trimmed(body, element_start, token.start())
                element_start = token.end()
            depth -= mark != b","
    return None


def _normalised(key: bytes) -> bytes:
    """Return a quoted key without needless escapes."""
    return msgspec.json.encode(msgspec.json.decode(key)) if b"\\" in key else key


def _trimmed(body: bytes, start: int, end: int) -> list[Span]:
    """Return a span without surrounding white space; an empty list if nothing is left."""
    text = body[start:end]
    lead = len(text) - len(text.lstrip(_BLANK))
    length = len(text.strip(_BLANK))
    return [Span(start + lead, start + lead + length)] if length else []


def replaced(body: bytes, name: str, elements: list[bytes]) -> bytes:
    """Return a body with new elements in one top-level list; every other byte is unchanged."""
    field = locate(body, name)
    if field is None:
        raise MalformedRequestError(f"the body has no field {name!r}")
    return body[: field.value.start] + b"[" + b",".join(elements) + b"]" + body[field.value.end :]


def without(body: bytes, name: str) -> bytes:
    """Return a body without one top-level field; every other byte is unchanged."""
    while (field := locate(body, name)) is not None:
        colon = body.rindex(b":", 0, field.value.start)
        # The matched name contains no quotes.
        key = body.rindex(b'"', 0, body.rindex(b'"', 0, colon))
        head, tail = body[:key], body[field.value.end :].lstrip(_BLANK)
        if tail.startswith(b","):
            body = head + tail[1:].lstrip(_BLANK)
        else:
            body = head.rstrip(_BLANK).removesuffix(b",") + tail
    return body
