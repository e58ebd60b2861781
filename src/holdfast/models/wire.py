"""Shared codec parts of the dialects: JSON with a fixed key order, byte spans, tool call ids, blobs as text or base64.

All functions are pure and deterministic: the same request always encodes to the same bytes, so prompt caches stay warm.
Splicing at the byte spans of a top-level field or its list elements keeps the rest of a request byte for byte: key
order, spaces, numbers and unknown fields.
"""

import base64
import binascii
import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias, TypeVar

import msgspec

from holdfast.core.limits.bounds import Bounds
from holdfast.core.text.media_type import GIF, JPEG, PNG, WEBP, pixels
from holdfast.core.text.truncation import well_formed
from holdfast.errors import BadInputError
from holdfast.types.messages import (
    BlobRef,
    LargeText,
    Media,
    Message,
    Part,
    Request,
    Role,
    Text,
    ToolOutcome,
    ToolResult,
)

WireNode: TypeAlias = "bool | int | float | str | msgspec.Raw | Sequence[WireNode] | Mapping[str, WireNode] | None"

_PartT = TypeVar("_PartT")

# Inline image types of all dialects; other media become a line of text with their name.
IMAGE_TYPES = frozenset({PNG, JPEG, GIF, WEBP})

# Placeholder for a user message without any part that the dialect can encode.
EMPTY_MESSAGE = "(empty message)"

# A tool with no usable schema takes any object.
ANY_OBJECT = '{"type":"object","properties":{}}'

# Wrapper key for call arguments that are not a JSON object; servers reject those.
INVALID_ARGUMENTS_KEY = "invalid_json_arguments"

_OUTCOME_TEXTS: Mapping[ToolOutcome, str] = {
    ToolOutcome.DONE: "(no output)",
    ToolOutcome.FAILED: "(the tool failed without a message)",
    ToolOutcome.TIMED_OUT: "(the tool took too long and was stopped)",
    ToolOutcome.CANCELLED: "(the tool was cancelled)",
    ToolOutcome.UNKNOWN: "(the process stopped while the tool ran: whether it had its effect is unknown)",
    ToolOutcome.DENIED: "(a person did not approve this call, so it was not run)",
}


class MalformedRequestError(BadInputError):
    """A request body that violates its dialect. The message addresses the client's developer."""

    code = "malformed_request"


class TooManyPartsError(MalformedRequestError):
    """A request with more messages, or more parts of messages, than any conversation has."""

    code = "too_many_parts"


# Messages and parts of one request. A window of a million tokens holds fewer; each costs some microseconds here.
MESSAGES_MAX = 50_000
PARTS_MAX = 200_000


def check_message_count(count: int) -> None:
    """Raise `TooManyPartsError` if a request has too many messages."""
    if count > MESSAGES_MAX:
        raise TooManyPartsError(f"the request has {count:,} messages, the limit is {MESSAGES_MAX:,}")


class Original(msgspec.Struct, frozen=True):
    """One client message as bytes, and the range of decoded messages made from it.

    A client message decodes to zero messages (a system message), one, or two. Several client messages can share a
    decoded one, such as the tool results of one reply: their ranges are equal.
    """

    wire: bytes
    # Range in `request.messages`; `last` is exclusive.
    first: int
    last: int
    # System text in the middle of a conversation. Its range is the message before it, so both move together.
    instruction: str = ""


class DecodedRequest(msgspec.Struct, frozen=True):
    """A decoded client request. `blobs` has the bytes of its media, by SHA-256.

    `originals` has the bytes of every client message, so that content unknown to `Request` is not lost; `unread` lists
    the types of skipped parts.
    """

    request: Request
    model: str
    wants_stream: bool
    blobs: dict[str, bytes]
    # OpenAI chat streams usage only on request.
    wants_usage: bool = True
    originals: tuple[Original, ...] = ()
    unread: tuple[str, ...] = ()
    # Gemini streams one JSON list of responses unless the query asks for events.
    is_list: bool = False
    # The part of the answer's call ids that stands for its place, in dialects whose calls may have no id; "": any.
    answer_place: str = ""


class DecodeContext:
    """State while decoding a request.

    A tolerant context replaces unknown parts by a line of text; a strict one rejects them, as providers do.
    """

    def __init__(self, issuer: str = "", *, is_tolerant: bool = False) -> None:
        self.issuer = issuer
        self.is_tolerant = is_tolerant
        self.blobs: dict[str, bytes] = {}
        self.unread: dict[str, None] = {}
        self._parts_left = PARTS_MAX

    def take_parts(self, parts: Sequence[_PartT]) -> Sequence[_PartT]:
        """Count parts against the limit of a request, and return them."""
        self._parts_left -= len(parts)
        if self._parts_left < 0:
            raise TooManyPartsError(f"the request has more than {PARTS_MAX:,} parts, which is the limit")
        return parts

    def unknown_part(self, kind: str, advice: str) -> Text:
        """Return a placeholder for an unknown part, or reject it in a strict context."""
        if not self.is_tolerant:
            raise MalformedRequestError(f"unsupported part of type {kind!r}; {advice}")
        self.unread[kind] = None
        return Text(f"[a part of type {kind}, not shown here]")


class MergedMessages:
    """The messages of a request while it is decoded. Merging a run of messages takes time linear in its parts."""

    def __init__(self) -> None:
        self._messages: list[tuple[Role, list[Part]]] = []

    def append(self, message: Message, *, is_merged: bool) -> int:
        """Add a message, and return its place; if `is_merged`, its parts join a message of the same role before it."""
        if is_merged and self._messages and self._messages[-1][0] is message.role:
            self._messages[-1][1].extend(message.parts)
        else:
            self._messages.append((message.role, [*message.parts]))
        return len(self._messages) - 1

    def __len__(self) -> int:
        return len(self._messages)

    def all(self) -> tuple[Message, ...]:
        """Return all messages."""
        return tuple([Message(role, tuple(parts)) for role, parts in self._messages])


def to_bytes(node: WireNode) -> bytes:
    """Encode as JSON in insertion order of keys; lone surrogates become U+FFFD."""
    try:
        return msgspec.json.encode(node)
    except UnicodeEncodeError:
        return msgspec.json.encode(_well_formed(node))


def _well_formed(node: WireNode) -> WireNode:
    if isinstance(node, str):
        return well_formed(node)
    if isinstance(node, Mapping):
        return {key: _well_formed(value) for key, value in node.items()}
    if isinstance(node, Sequence) and not isinstance(node, bytes | bytearray):
        return [_well_formed(value) for value in node]
    return node


def cut_text(raw: bytes, bytes_max: int = Bounds().refusal_body_bytes_max) -> str:
    """Decode bytes and truncate to `bytes_max` bytes of UTF-8 at a character boundary."""
    text = raw[:bytes_max].decode("utf-8", "ignore" if len(raw) > bytes_max else "replace")
    return text.encode()[:bytes_max].decode("utf-8", "ignore")


# --- Tool calls ---

# OpenAI accepts 40 characters, Anthropic only these; a form valid for both survives a model switch.
_PLAIN_CALL_ID = re.compile(r"[A-Za-z0-9_-]{1,40}")


class UnchangedCallIds:
    """Keeps call ids unchanged, for requests whose other messages refer to them."""

    def of_call(self, call_id: str) -> str:
        """Return the wire id of a call."""
        return call_id

    def of_result(self, call_id: str) -> str:
        """Return the wire id of the call that a result belongs to."""
        return call_id


class UniqueCallIds(UnchangedCallIds):
    """Gives each call of a request a unique id valid in all dialects, and its result the same one.

    Some servers number calls from zero in every reply. A second call with a used id gets a new one, and a result
    matches the newest call with its id.
    """

    def __init__(self) -> None:
        self._uses: Counter[str] = Counter()

    def of_call(self, call_id: str) -> str:
        """Return the wire id of a call; call in request order."""
        self._uses[call_id] += 1
        return self._name(call_id)

    def of_result(self, call_id: str) -> str:
        """Return the wire id of the call that a result belongs to."""
        return self._name(call_id)

    def _name(self, call_id: str) -> str:
        use = self._uses[call_id]
        if use <= 1 and _PLAIN_CALL_ID.fullmatch(call_id):
            return call_id
        fingerprint = hashlib.sha256(f"{use}:{call_id}".encode("utf-8", "surrogatepass")).hexdigest()
        return f"call_{fingerprint[:24]}"


def object_text(arguments: str) -> str:
    """Return arguments as JSON object text; anything else is wrapped in an object."""
    if not arguments.strip():
        return "{}"
    if _is_object(arguments):
        return arguments
    return to_bytes({INVALID_ARGUMENTS_KEY: arguments}).decode()


def schema_text(parameters: str) -> str:
    """Return a tool schema as JSON object text."""
    return parameters if _is_object(parameters) else ANY_OBJECT


def is_json(text: str) -> bool:
    """Return whether a text is one complete JSON value."""
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return False
    return True


def _is_object(text: str) -> bool:
    return text.lstrip(" \t\r\n").startswith("{") and is_json(text)


# --- Parts ---


def inline_text(part: Text | LargeText, blobs: Mapping[str, bytes]) -> str:
    """Return the complete text of a part."""
    if isinstance(part, Text):
        return part.text
    content = blobs.get(part.blob.sha256)
    if content is None:
        return f"{part.head}\n[the rest of this text, {part.blob.size_bytes:,} bytes in all, is missing]"
    return content.decode("utf-8", "replace")


def media_line(media: Media) -> str:
    """Return a placeholder line for an attachment that the dialect cannot encode."""
    return f"[attached: {media.name or 'unnamed'} ({media.media_type}, {media.blob.size_bytes:,} bytes); not shown]"


def base64_text(media: Media, blobs: Mapping[str, bytes]) -> str | None:
    """Return an attachment as base64, or None if its bytes are missing."""
    content = blobs.get(media.blob.sha256)
    return None if content is None else base64.b64encode(content).decode()


def outcome_text(result: ToolResult) -> str:
    """Describe the outcome of a call whose result has no text."""
    return _OUTCOME_TEXTS[result.outcome]


def data_url(media: Media, blobs: Mapping[str, bytes]) -> str | None:
    """Return an attachment as a data URL, or None if its bytes are missing."""
    encoded = base64_text(media, blobs)
    return None if encoded is None else f"data:{media.media_type};base64,{encoded}"


def media_from_url(url: str, name: str, blobs: dict[str, bytes]) -> Media | Text:
    """Decode a data URL into `blobs`; any other URL becomes a line of text."""
    head, comma, encoded = url.partition(",")
    if not head.startswith("data:") or not comma:
        return Text(f"[image at {url}]")
    media_type = head.removeprefix("data:").removesuffix(";base64")
    return media_from_base64(encoded, media_type, blobs, name)


def media_from_base64(encoded: str, media_type: str, blobs: dict[str, bytes], name: str = "") -> Media:
    """Decode base64 media into `blobs` and return a reference to it."""
    try:
        content = base64.b64decode(encoded, validate=True)
    except binascii.Error as error:
        raise MalformedRequestError(f"an attachment of type {media_type!r} is not valid base64") from error
    sha256 = hashlib.sha256(content).hexdigest()
    blobs[sha256] = content
    width, height = pixels(content)
    return Media(BlobRef(sha256, len(content)), media_type, name, width, height)


# A string, or a structural character. Only numbers, literals and white space stand between them.
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|([\[\]{},:])', re.DOTALL)
_BLANK = b" \t\r\n"
_BLANKS = re.compile(rb"[ \t\r\n]*")
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
    fields = [field for _, field in _occurrences(body, name)]
    return fields[-1] if fields else None


def _occurrences(body: bytes, name: str) -> Iterator[tuple[int, Field]]:
    """Yield each top-level field with a name, and the start of its key."""
    quoted = msgspec.json.encode(name)
    tokens = _TOKEN.finditer(body)
    key = next(tokens, None)
    if key is None or key[1] != b"{":
        return
    for token in tokens:
        if token[1] != b":":
            key = token
        elif _normalised(key[0]) != quoted:
            _skip_value(tokens)
        elif (field := _read_value(body, tokens, token.end())) is not None:
            yield key.start(), field


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
    kept: list[bytes] = []
    position = 0
    for key_start, field in _occurrences(body, name):
        kept.append(body[position:key_start])
        after = _BLANKS.match(body, field.value.end)
        position = after.end() if after is not None else field.value.end
        if body[position : position + 1] == b",":
            blanks = _BLANKS.match(body, position + 1)
            position = blanks.end() if blanks is not None else position + 1
        else:
            # The last field of the object: the comma before it goes too.
            kept = [b"".join(kept).rstrip(_BLANK).removesuffix(b",")]
    return b"".join((*kept, body[position:]))


def renamed(body: bytes, name: str, other: str) -> bytes:
    """Return a body with another name for one top-level field; every other byte is unchanged."""
    kept: list[bytes] = []
    position = 0
    for key_start, _ in _occurrences(body, name):
        key = _TOKEN.match(body, key_start)
        assert key is not None, "a field begins with its key"
        kept += [body[position:key_start], msgspec.json.encode(other)]
        position = key.end()
    return b"".join((*kept, body[position:]))
