"""What a model reads and writes: messages made of parts, and a request made of messages.

Parts that are large live in a blob and are named by its SHA-256; a part never holds megabytes itself. The system
text is not a message: it is re-read from its source for every request.
"""

from enum import StrEnum
from typing import TypeAlias

import msgspec


class Role(StrEnum):
    """Who speaks. A tool speaks the results of the calls an assistant made."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class BlobRef(msgspec.Struct, frozen=True):
    """Names the original bytes of something large: their SHA-256 in hex, and how many there are."""

    sha256: str
    size_bytes: int


class _Part(msgspec.Struct, frozen=True, tag_field="type", omit_defaults=True):
    """One piece of a message. The tag is what stands on disk: renaming one is a migration."""


class Text(_Part, frozen=True, tag="text"):
    """Plain text, well-formed Unicode."""

    text: str


class LargeText(_Part, frozen=True, tag="large_text"):
    """Text kept in a blob as UTF-8. `head` is its beginning, enough to recognise it by."""

    blob: BlobRef
    head: str
    name: str = ""


class Media(_Part, frozen=True, tag="media"):
    """An image or document kept in a blob. Pixels are 0 where the format does not tell or has none."""

    blob: BlobRef
    media_type: str
    name: str = ""
    width_pixels: int = 0
    height_pixels: int = 0


class ToolCall(_Part, frozen=True, tag="tool_call"):
    """A model asks for a tool. `arguments` is the JSON text exactly as the model wrote it; it may be invalid."""

    call_id: str
    name: str
    arguments: str


class ToolOutcome(StrEnum):
    """How a tool call ended."""

    DONE = "done"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    # The process died while the tool ran: it may or may not have had its effect, and it is not repeated.
    UNKNOWN = "unknown"


class ToolResult(_Part, frozen=True, tag="tool_result"):
    """What came of a tool call, bounded. `originals` has the whole of what `parts` shorten; no model is sent them."""

    call_id: str
    parts: tuple[Text | LargeText | Media, ...]
    outcome: ToolOutcome = ToolOutcome.DONE
    originals: tuple[BlobRef, ...] = ()


class Reasoning(_Part, frozen=True, tag="reasoning"):
    """A model's thinking. `opaque` (a signature or encrypted text) goes back unaltered to `issuer`, or not at all.

    `issuer` is what `Model.issuer` says: the dialect, endpoint and model that alone can check the signature. A part
    with an empty `text` but an `opaque` is thinking that the provider keeps hidden.
    """

    text: str
    issuer: str = ""
    opaque: str = ""


ContentPart: TypeAlias = Text | LargeText | Media
Part: TypeAlias = Text | LargeText | Media | ToolCall | ToolResult | Reasoning


class Message(msgspec.Struct, frozen=True):
    """One utterance, in the order its parts were spoken."""

    role: Role
    parts: tuple[Part, ...]


class ToolSpec(msgspec.Struct, frozen=True):
    """What a model is told about a tool. `parameters` is the JSON Schema of its arguments, as JSON text."""

    name: str
    description: str
    parameters: str


class Effort(StrEnum):
    """How much a model may think before it answers. NONE asks for none where the provider allows it."""

    NONE = "none"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class Request(msgspec.Struct, frozen=True):
    """Everything one call of a model sends. `effort` None leaves the provider's default."""

    messages: tuple[Message, ...]
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    output_tokens_max: int | None = None
    effort: Effort | None = None
    # Nothing will be asked behind it, so keeping it in a cache would be paid for in vain.
    is_last: bool = False


class StopReason(StrEnum):
    """Why a model stopped writing."""

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
    # The part of what was read that was also kept for later calls, where the provider says so and asks more for it.
    cache_write_tokens: int = 0


class Reply(msgspec.Struct, frozen=True):
    """What a model answered: the whole message, not a piece of it. `usage` is None where none was reported."""

    parts: tuple[Text | ToolCall | Reasoning, ...]
    stop_reason: StopReason
    usage: Usage | None
    model: str


def text_of(parts: tuple[Part, ...]) -> str:
    """Return the plain text of some parts, joined; media, calls and reasoning have none."""
    return "".join(part.text for part in parts if isinstance(part, Text))
