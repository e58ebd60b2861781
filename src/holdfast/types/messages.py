"""Messages, their parts, and the requests and replies of a model.

Large parts are stored as blobs and referenced by SHA-256; a part never holds megabytes itself. The system text is not
a message: it is re-read from its source for every request.
"""

from enum import StrEnum
from typing import TypeAlias

import msgspec

from holdfast.types.settings import NO_SETTINGS, OutputSpec, Settings


class Role(StrEnum):
    """The author of a message. Results of tool calls have the role `tool`."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class BlobRef(msgspec.Struct, frozen=True):
    """Reference to a blob: SHA-256 in hex and size."""

    # The hash, by which `Client.blob` returns the bytes, and their number.
    sha256: str
    size_bytes: int


class Payload(msgspec.Struct, frozen=True, omit_defaults=True):
    """Bytes that a caller keeps beside a message, unaltered, and the name of their format.

    One field has them: `text` if they are UTF-8, `content` if not, and `blob` if they are large.
    """

    tag: str
    text: str = ""
    content: bytes = b""
    blob: BlobRef | None = None


class _Part(msgspec.Struct, frozen=True, tag_field="type", omit_defaults=True):
    """One part of a message. The tag is stored on disk: renaming one is a migration."""


class Text(_Part, frozen=True, tag="text"):
    """Plain text, well-formed Unicode."""

    text: str


class LargeText(_Part, frozen=True, tag="large_text"):
    """Text stored in a blob as UTF-8. `head` is its beginning, for previews."""

    blob: BlobRef
    head: str
    # The file name, if it was attached.
    name: str = ""


class Media(_Part, frozen=True, tag="media"):
    """An image or document stored in a blob. Pixels are 0 where the format has none or does not state them."""

    blob: BlobRef
    # Such as "image/png"; and the file name, if it has one.
    media_type: str
    name: str = ""
    width_pixels: int = 0
    height_pixels: int = 0


class ToolCall(_Part, frozen=True, tag="tool_call"):
    """A tool call by a model. `arguments` is the JSON text exactly as the model wrote it; it may be invalid."""

    call_id: str
    # The name of the tool.
    name: str
    arguments: str


class ToolOutcome(StrEnum):
    """Outcome of a tool call."""

    DONE = "done"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    # The process died while the tool ran: its effect is unknown, and it is not retried.
    UNKNOWN = "unknown"
    # A person did not approve the call, so it was not run.
    DENIED = "denied"


class ToolResult(_Part, frozen=True, tag="tool_result"):
    """Result of a tool call, truncated if large. `originals` are the full outputs; they are not sent to a model."""

    call_id: str
    # What the model is shown, and how the call ended.
    parts: tuple[Text | LargeText | Media, ...]
    outcome: ToolOutcome = ToolOutcome.DONE
    originals: tuple[BlobRef, ...] = ()


class Reasoning(_Part, frozen=True, tag="reasoning"):
    """Reasoning of a model. `opaque` (a signature or encrypted text) is sent back only to `issuer`, unaltered.

    `issuer` is `Model.issuer`: the dialect, endpoint and model that can verify the signature. A part with an empty
    `text` but an `opaque` is reasoning that the provider keeps hidden.
    """

    text: str
    issuer: str = ""
    opaque: str = ""


ContentPart: TypeAlias = Text | LargeText | Media
Part: TypeAlias = Text | LargeText | Media | ToolCall | ToolResult | Reasoning


class Message(msgspec.Struct, frozen=True):
    """One message with its parts in order."""

    # Its author.
    role: Role
    parts: tuple[Part, ...]


class ToolSpec(msgspec.Struct, frozen=True):
    """Definition of a tool for a model. `parameters` is the JSON Schema of its arguments, as JSON text."""

    # The name that the model calls it by, and what it does.
    name: str
    description: str
    parameters: str


class Effort(StrEnum):
    """Reasoning effort. NONE turns reasoning off where the provider allows it."""

    NONE = "none"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class Request(msgspec.Struct, frozen=True):
    """One request to a model. `effort` None leaves the provider's default."""

    messages: tuple[Message, ...]
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    output_tokens_max: int | None = None
    effort: Effort | None = None
    # No request follows that could reuse its prompt cache, so no cache write is requested.
    is_last: bool = False
    # Parameters that the model refuses, by their names on the wire.
    omitted: tuple[str, ...] = ()
    # Its effort and output limit are the fields above.
    settings: Settings = NO_SETTINGS
    # The answer must be JSON of this type.
    output: OutputSpec | None = None


class StopReason(StrEnum):
    """The reason why a model stopped generating."""

    END = "end"
    TOOL_CALLS = "tool_calls"
    LENGTH = "length"
    CONTENT_FILTER = "content_filter"
    OTHER = "other"


class Usage(msgspec.Struct, frozen=True, omit_defaults=True):
    """Tokens as the provider reported them. `input_tokens` counts everything read, cached or not."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_input_tokens: int = 0
    reasoning_tokens: int = 0
    # Input tokens written to the prompt cache, where the provider reports and charges them.
    cache_write_tokens: int = 0


class Reply(msgspec.Struct, frozen=True):
    """A complete reply of a model. `usage` is None where none was reported."""

    parts: tuple[Text | ToolCall | Reasoning, ...]
    stop_reason: StopReason
    usage: Usage | None
    model: str


def text_of(parts: tuple[Part, ...]) -> str:
    """Return the joined text parts; media, calls and reasoning are skipped."""
    return "".join(part.text for part in parts if isinstance(part, Text))
