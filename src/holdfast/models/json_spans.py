"""Where a field of a JSON body stands, to the byte, and each element of its list.

A request is changed by cutting at these places, so that whatever is not changed stays as the client wrote it: order,
spaces, numbers, fields that we have never heard of.
"""

import re

import msgspec

from holdfast.models.wire import MalformedRequestError

# A string whole, or a mark that opens, closes or parts; between them are only numbers, words and spaces.
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{},:]', re.DOTALL)
_BLANK = b" \t\r\n"


class Span(msgspec.Struct, frozen=True):
    """A stretch of a body, from `start` up to and without `end`."""

    start: int
    end: int


class Field(msgspec.Struct, frozen=True):
    """Where a field's value stands. `elements` are those of a list; none where it is something else."""

    value: Span
    elements: tuple[Span, ...] = ()


def locate(body: bytes, name: str) -> Field | None:
    """Find a field at the top of a body that is known to be valid JSON; None where it is not there.

    Of several with one name the last counts, as JSON readers have it. Reads every byte once, and builds nothing.
    """
    quoted = msgspec.json.encode(name)
    found: Field | None = None
    depth, key, start, elements = 0, b"", -1, []
    element = -1
    for token in _TOKEN.finditer(body):
        mark = token.group()
        if mark in (b"{", b"["):
            depth += 1
            if depth == 2 and key == quoted and mark == b"[":  # noqa: PLR2004 - the list right under the top
                element = token.end()
        elif mark in (b"}", b"]", b",") and depth:
            if element >= 0 and depth == 2 and mark != b"}":  # noqa: PLR2004 - between the elements, or behind the last
                elements += _stretch(body, element, token.start())
                element = token.end() if mark == b"," else -1
            if depth == 1:
                if start >= 0 and key == quoted:
                    found = Field(_stretch(body, start, token.start())[0], tuple(elements))
                key, start, elements = b"", -1, []
            depth -= mark != b","
        elif mark == b":":
            start = token.end() if depth == 1 else start
        elif depth == 1 and start < 0:
            key = _plain(mark)
    return found


def _plain(key: bytes) -> bytes:
    """Return a key in the one form in which we write it, whatever escapes it came with."""
    return msgspec.json.encode(msgspec.json.decode(key)) if b"\\" in key else key


def _stretch(body: bytes, start: int, end: int) -> list[Span]:
    """Return a stretch without the spaces around it; nothing where there is nothing else."""
    text = body[start:end]
    lead = len(text) - len(text.lstrip(_BLANK))
    kept = len(text.strip(_BLANK))
    return [Span(start + lead, start + lead + kept)] if kept else []


def replaced(body: bytes, name: str, elements: list[bytes]) -> bytes:
    """Return a body with other elements in one of its lists, and all else to the byte as it was."""
    field = locate(body, name)
    if field is None:
        raise MalformedRequestError(f"the body has no field {name!r}")
    return body[: field.value.start] + b"[" + b",".join(elements) + b"]" + body[field.value.end :]


def without(body: bytes, name: str) -> bytes:
    """Return a body without one of the fields at its top, and all else to the byte as it was."""
    while (field := locate(body, name)) is not None:
        colon = body.rindex(b":", 0, field.value.start)
        # The name that was found has no quotes in it.
        key = body.rindex(b'"', 0, body.rindex(b'"', 0, colon))
        head, tail = body[:key], body[field.value.end :].lstrip(_BLANK)
        if tail.startswith(b","):
            body = head + tail[1:].lstrip(_BLANK)
        else:
            body = head.rstrip(_BLANK).removesuffix(b",") + tail
    return body
