"""What the dialects share: JSON with a fixed order of keys, names of tool calls, and blobs as text or base64.

Everything here is pure and deterministic: the same request always gives the same bytes, so prompt caches stay warm.
"""

import base64
import binascii
import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import msgspec

from holdfast.core.excerpt import well_formed
from holdfast.core.limits import Bounds
from holdfast.core.media import GIF, JPEG, PNG, WEBP, pixels
from holdfast.core.messages import BlobRef, LargeText, Media, Request, Text, ToolOutcome, ToolResult
from holdfast.errors import BadInputError

WireNode: TypeAlias = "bool | int | float | str | msgspec.Raw | Sequence[WireNode] | Mapping[str, WireNode] | None"

# What both dialects take as an inline image; other media travel as a line of text that names them.
IMAGE_TYPES = frozenset({PNG, JPEG, GIF, WEBP})

# A message must say something: stands where a person's message has no part that the dialect can carry.
EMPTY_MESSAGE = "(empty message)"

# A tool with no usable schema takes any object.
ANY_OBJECT = '{"type":"object","properties":{}}'

# The key under which arguments travel that are not a JSON object; dialects and their servers refuse them bare.
INVALID_ARGUMENTS_KEY = "invalid_json_arguments"

_BARE_OUTCOMES: Mapping[ToolOutcome, str] = {
    ToolOutcome.DONE: "(no output)",
    ToolOutcome.FAILED: "(the tool failed without a word)",
    ToolOutcome.TIMED_OUT: "(the tool took too long and was stopped)",
    ToolOutcome.CANCELLED: "(the tool was cancelled)",
    ToolOutcome.UNKNOWN: "(the process stopped while the tool ran: whether it had its effect is unknown)",
}


class MalformedRequestError(BadInputError):
    """A request body that does not follow its dialect. The message is a sentence for the client's developer."""

    code = "malformed_request"


class DecodedRequest(msgspec.Struct, frozen=True):
    """A request as a server received it. `blobs` has the bytes of the media it carried, by SHA-256."""

    request: Request
    model: str
    wants_stream: bool
    blobs: dict[str, bytes]
    # OpenAI chat reports usage in a stream only where it was asked to.
    wants_usage: bool = True


def to_bytes(node: WireNode) -> bytes:
    """Encode as JSON. Keys keep the order in which they were put; lone surrogates become U+FFFD."""
    try:
        return msgspec.json.encode(node)
    except UnicodeEncodeError:
        return msgspec.json.encode(_repaired(node))


def _repaired(node: WireNode) -> WireNode:
    if isinstance(node, str):
        return well_formed(node)
    if isinstance(node, Mapping):
        return {key: _repaired(value) for key, value in node.items()}
    if isinstance(node, Sequence) and not isinstance(node, bytes | bytearray):
        return [_repaired(value) for value in node]
    return node


def cut_text(raw: bytes, bytes_max: int = Bounds().refusal_body_bytes_max) -> str:
    """Return bytes as text of at most `bytes_max` bytes of UTF-8, never ending in half a character."""
    text = raw[:bytes_max].decode("utf-8", "ignore" if len(raw) > bytes_max else "replace")
    return text.encode()[:bytes_max].decode("utf-8", "ignore")


# --- tool calls --------------------------------------------------------------------------------------------------

# OpenAI takes 40 characters, Anthropic these letters alone; one form for both keeps a change of model harmless.
_PLAIN_CALL_ID = re.compile(r"[A-Za-z0-9_-]{1,40}")


class CallIds:
    """Gives each call of a request an id that both dialects take, and its result the same one.

    Some servers number their calls from zero in every answer. A second call under a used id gets its own, and results
    belong to the newest call of their id.
    """

    def __init__(self) -> None:
        self._uses: Counter[str] = Counter()

    def of_call(self, call_id: str) -> str:
        """Name a call, in the order in which calls stand in the request."""
        self._uses[call_id] += 1
        return self._name(call_id)

    def of_result(self, call_id: str) -> str:
        """Name the call that a result answers."""
        return self._name(call_id)

    def _name(self, call_id: str) -> str:
        use = self._uses[call_id]
        if use <= 1 and _PLAIN_CALL_ID.fullmatch(call_id):
            return call_id
        fingerprint = hashlib.sha256(f"{use}:{call_id}".encode("utf-8", "surrogatepass")).hexdigest()
        return f"call_{fingerprint[:24]}"


def object_text(arguments: str) -> str:
    """Return arguments as the text of a JSON object: unaltered where they are one, else wrapped in one."""
    if not arguments.strip():
        return "{}"
    if _is_object(arguments):
        return arguments
    return to_bytes({INVALID_ARGUMENTS_KEY: arguments}).decode()


def schema_text(parameters: str) -> str:
    """Return a tool's schema as the text of a JSON object."""
    return parameters if _is_object(parameters) else ANY_OBJECT


def _is_object(text: str) -> bool:
    try:
        return isinstance(msgspec.json.decode(text), dict)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return False


# --- parts -------------------------------------------------------------------------------------------------------


def inline_text(part: Text | LargeText, blobs: Mapping[str, bytes]) -> str:
    """Return the whole text of a part."""
    if isinstance(part, Text):
        return part.text
    whole = blobs.get(part.blob.sha256)
    if whole is None:
        return f"{part.head}\n[the rest of this text, {part.blob.size_bytes:,} bytes in all, is missing]"
    return whole.decode("utf-8", "replace")


def media_line(media: Media) -> str:
    """Name an attachment that the dialect cannot carry."""
    return f"[attached: {media.name or 'unnamed'} ({media.media_type}, {media.blob.size_bytes:,} bytes); not shown]"


def base64_text(media: Media, blobs: Mapping[str, bytes]) -> str | None:
    """Return an attachment's bytes in base64, or None where they are not at hand."""
    original = blobs.get(media.blob.sha256)
    return None if original is None else base64.b64encode(original).decode()


def bare_outcome(result: ToolResult) -> str:
    """Say how a call ended where its result has no text."""
    return _BARE_OUTCOMES[result.outcome]


def received_media(encoded: str, media_type: str, blobs: dict[str, bytes], name: str = "") -> Media:
    """Keep base64 bytes that came in a request and return the part that names them."""
    try:
        original = base64.b64decode(encoded, validate=True)
    except binascii.Error as error:
        raise MalformedRequestError(f"an attachment of type {media_type!r} is not valid base64") from error
    sha256 = hashlib.sha256(original).hexdigest()
    blobs[sha256] = original
    width, height = pixels(original)
    return Media(BlobRef(sha256, len(original)), media_type, name, width, height)
