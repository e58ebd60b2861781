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

from holdfast.core.limits.bounds import Bounds
from holdfast.core.text.media_type import GIF, JPEG, PNG, WEBP, pixels
from holdfast.core.text.truncation import well_formed
from holdfast.errors import BadInputError
from holdfast.types.messages import BlobRef, LargeText, Media, Request, Text, ToolOutcome, ToolResult

WireNode: TypeAlias = "bool | int | float | str | msgspec.Raw | Sequence[WireNode] | Mapping[str, WireNode] | None"

# What both dialects take as an inline image; other media travel as a line of text that names them.
IMAGE_TYPES = frozenset({PNG, JPEG, GIF, WEBP})

# A message must say something: stands where a person's message has no part that the dialect can carry.
EMPTY_MESSAGE = "(empty message)"

# A tool with no usable schema takes any object.
ANY_OBJECT = '{"type":"object","properties":{}}'

# The key under which arguments travel that are not a JSON object; dialects and their servers refuse them bare.
INVALID_ARGUMENTS_KEY = "invalid_json_arguments"

_OUTCOME_TEXTS: Mapping[ToolOutcome, str] = {
    ToolOutcome.DONE: "(no output)",
    ToolOutcome.FAILED: "(the tool failed without a word)",
    ToolOutcome.TIMED_OUT: "(the tool took too long and was stopped)",
    ToolOutcome.CANCELLED: "(the tool was cancelled)",
    ToolOutcome.UNKNOWN: "(the process stopped while the tool ran: whether it had its effect is unknown)",
}


class MalformedRequestError(BadInputError):
    """A request body that does not follow its dialect. The message is a sentence for the client's developer."""

    code = "malformed_request"


class Original(msgspec.Struct, frozen=True):
    """One message as a client wrote it, to the byte, and what of the request's messages it became.

    A message of theirs may be none of ours (a system message), one, or two. Several of theirs may share one of ours,
    such as the results of one answer: then `first` and `last` name the same.
    """

    wire: bytes
    # Which of `request.messages`: from `first` up to and without `last`.
    first: int
    last: int
    # What a message says that instructs from its place on. It names the message before it, and goes where that goes.
    instruction: str = ""


class DecodedRequest(msgspec.Struct, frozen=True):
    """A request as a server received it. `blobs` has the bytes of the media it carried, by SHA-256.

    `originals` has every message as the client wrote it, so that what `Request` does not know is not lost;
    `unread` names the fields and types of parts that were passed over.
    """

    request: Request
    model: str
    wants_stream: bool
    blobs: dict[str, bytes]
    # OpenAI chat reports usage in a stream only where it was asked to.
    wants_usage: bool = True
    originals: tuple[Original, ...] = ()
    unread: tuple[str, ...] = ()


class DecodeContext:
    """What is gathered while a request is read.

    A tolerant one stands in for what it does not know with a line of text; a strict one refuses it, as providers do.
    """

    def __init__(self, issuer: str = "", *, is_tolerant: bool = False) -> None:
        self.issuer = issuer
        self.is_tolerant = is_tolerant
        self.blobs: dict[str, bytes] = {}
        self.unread: dict[str, None] = {}

    def unknown_part(self, kind: str, advice: str) -> Text:
        """Stand in for a part that cannot be read here, or refuse it."""
        if not self.is_tolerant:
            raise MalformedRequestError(f"a part of type {kind!r} cannot be read here; {advice}")
        self.unread[kind] = None
        return Text(f"[a part of type {kind}, not shown here]")


def to_bytes(node: WireNode) -> bytes:
    """Encode as JSON. Keys keep the order in which they were put; lone surrogates become U+FFFD."""
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
    """Return bytes as text of at most `bytes_max` bytes of UTF-8, never ending in half a character."""
    text = raw[:bytes_max].decode("utf-8", "ignore" if len(raw) > bytes_max else "replace")
    return text.encode()[:bytes_max].decode("utf-8", "ignore")


# --- tool calls --------------------------------------------------------------------------------------------------

# OpenAI takes 40 characters, Anthropic these letters alone; one form for both keeps a change of model harmless.
_PLAIN_CALL_ID = re.compile(r"[A-Za-z0-9_-]{1,40}")


class UnchangedCallIds:
    """Leaves the ids of calls as they are: for requests in which other messages name them too."""

    def of_call(self, call_id: str) -> str:
        """Name a call."""
        return call_id

    def of_result(self, call_id: str) -> str:
        """Name the call that a result answers."""
        return call_id


class UniqueCallIds(UnchangedCallIds):
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


def is_json(text: str) -> bool:
    """Whether a text is one whole JSON value."""
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return False
    return True


def _is_object(text: str) -> bool:
    return text.lstrip(" \t\r\n").startswith("{") and is_json(text)


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
    content = blobs.get(media.blob.sha256)
    return None if content is None else base64.b64encode(content).decode()


def outcome_text(result: ToolResult) -> str:
    """Say how a call ended where its result has no text."""
    return _OUTCOME_TEXTS[result.outcome]


def data_url(media: Media, blobs: Mapping[str, bytes]) -> str | None:
    """Return an attachment as an address that holds its bytes, or None where they are not at hand."""
    encoded = base64_text(media, blobs)
    return None if encoded is None else f"data:{media.media_type};base64,{encoded}"


def media_from_url(url: str, name: str, blobs: dict[str, bytes]) -> Media | Text:
    """Keep what an address holds; one that only points somewhere becomes a line of text."""
    head, comma, encoded = url.partition(",")
    if not head.startswith("data:") or not comma:
        return Text(f"[image at {url}]")
    media_type = head.removeprefix("data:").removesuffix(";base64")
    return media_from_base64(encoded, media_type, blobs, name)


def media_from_base64(encoded: str, media_type: str, blobs: dict[str, bytes], name: str = "") -> Media:
    """Keep base64 bytes that came in a request and return the part that names them."""
    try:
        content = base64.b64decode(encoded, validate=True)
    except binascii.Error as error:
        raise MalformedRequestError(f"an attachment of type {media_type!r} is not valid base64") from error
    sha256 = hashlib.sha256(content).hexdigest()
    blobs[sha256] = content
    width, height = pixels(content)
    return Media(BlobRef(sha256, len(content)), media_type, name, width, height)
