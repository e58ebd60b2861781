"""Request decoder and error encoder of the Anthropic dialect, server side."""

from collections.abc import Mapping
from typing import Literal

import msgspec

from holdfast.models.anthropic.reasoning import effort_of_budget, redacted_reasoning
from holdfast.models.wire import (
    ANY_OBJECT,
    DecodeContext,
    DecodedRequest,
    MalformedRequestError,
    Original,
    check_message_count,
    media_from_base64,
    to_bytes,
)
from holdfast.types.messages import (
    ContentPart,
    Effort,
    Media,
    Message,
    Part,
    Reasoning,
    Request,
    Role,
    Text,
    ToolCall,
    ToolOutcome,
    ToolResult,
    ToolSpec,
)

# --- Wire types (unused fields are ignored) ---


class Source(msgspec.Struct):
    """Source of an image or document."""

    type: str
    media_type: str = ""
    data: str = ""
    url: str = ""


class Block(msgspec.Struct):
    """One content block of any type. Blocks of server-side tools have other fields, which are ignored."""

    type: str
    text: str = ""
    # A string in blocks that are not decoded.
    source: Source | str | None = None
    id: str = ""
    name: str = ""
    input: msgspec.Raw = msgspec.Raw(b"{}")
    tool_use_id: str = ""
    content: "str | list[Block] | dict[str, msgspec.Raw] | None" = None
    is_error: bool | None = None
    thinking: str = ""
    signature: str = ""
    data: str = ""
    title: str | None = None


class InputMessage(msgspec.Struct):
    """One message."""

    # A system message may follow a user message and applies from there on.
    role: Literal["user", "assistant", "system"]
    content: str | list[Block]


class ToolDefinition(msgspec.Struct):
    """A tool definition."""

    name: str
    description: str | None = None
    input_schema: msgspec.Raw = msgspec.Raw(ANY_OBJECT.encode())


class Thinking(msgspec.Struct):
    """Thinking mode and budget."""

    type: str
    budget_tokens: int = 0


class OutputConfig(msgspec.Struct):
    """Output settings."""

    effort: str | None = None


class MessagesBody(msgspec.Struct):
    """Request body."""

    model: str
    max_tokens: int
    messages: list[msgspec.Raw]
    system: str | list[Block] | None = None
    tools: list[ToolDefinition] | None = None
    thinking: Thinking | None = None
    output_config: OutputConfig | None = None
    stream: bool | None = None


_message_decoder = msgspec.json.Decoder(InputMessage)
_body_decoder = msgspec.json.Decoder(MessagesBody)


def read_body(body: bytes) -> MessagesBody:
    """Decode a request body, or raise `MalformedRequestError`."""
    try:
        return _body_decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise MalformedRequestError(f"the body is not a messages request: {error}") from error


def read_messages(body: MessagesBody) -> list[tuple[bytes, InputMessage]]:
    """Return the messages, each as bytes and decoded."""
    check_message_count(len(body.messages))
    read: list[tuple[bytes, InputMessage]] = []
    for at, wire in enumerate(body.messages):
        try:
            read.append((bytes(wire), _message_decoder.decode(wire)))
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise MalformedRequestError(f"messages.{at} is malformed: {error}") from error
    return read


def blocks_of(content: str | list[Block] | None) -> list[Block]:
    """Return content as blocks; a string is one text block."""
    if isinstance(content, str):
        return [Block("text", text=content)]
    return content or []


_EFFORTS: Mapping[str, Effort] = {
    "low": Effort.LOW,
    "medium": Effort.MEDIUM,
    "high": Effort.HIGH,
    "xhigh": Effort.HIGH,
    "max": Effort.HIGH,
}


def decode_request(
    body: bytes,
    issuer: str = "",
    path: str = "",  # noqa: ARG001 - one path for all models
    *,
    is_tolerant: bool = False,
) -> DecodedRequest:
    """Decode a request body, or raise `MalformedRequestError`.

    A message with tool results and user content becomes two. System messages in the middle of the conversation are
    appended to the system text. Thinking is attributed to `issuer`. An image URL becomes a line of text. Settings
    unknown to `Request` are dropped; unknown blocks are rejected, or listed in `unread` if `is_tolerant`.
    """
    wire = read_body(body)
    context = DecodeContext(issuer, is_tolerant=is_tolerant)
    messages: list[Message] = []
    originals: list[Original] = []
    instructions = [_text_of(wire.system)]
    for written, message in read_messages(wire):
        first = len(messages)
        if message.role == "system":
            instructions.append(_text_of(message.content))
            originals.append(Original(written, max(first - 1, 0), first, instructions[-1]))
            continue
        messages += _decode_message(message, context)
        originals.append(Original(written, first, len(messages)))
    request = Request(
        tuple(messages),
        "\n\n".join(text for text in instructions if text),
        tuple(
            ToolSpec(tool.name, tool.description or "", bytes(tool.input_schema).decode()) for tool in wire.tools or ()
        ),
        wire.max_tokens,
        _effort(wire, context),
    )
    return DecodedRequest(
        request,
        wire.model,
        bool(wire.stream),
        context.blobs,
        originals=tuple(originals),
        unread=tuple(context.unread),
    )


def _text_of(content: str | list[Block] | None) -> str:
    return "\n\n".join(block.text for block in blocks_of(content) if block.text)


def _effort(wire: MessagesBody, context: DecodeContext) -> Effort | None:
    match wire.thinking:
        case Thinking(type="disabled"):
            return Effort.NONE
        case Thinking(type="enabled", budget_tokens=budget):
            return effort_of_budget(budget)
    # Adaptive thinking without a known effort is the API's default: high.
    default = None if wire.thinking is None else Effort.HIGH
    named = wire.output_config.effort if wire.output_config is not None else None
    if named is None:
        return default
    if named not in _EFFORTS and not context.is_tolerant:
        raise MalformedRequestError(f"output_config.effort {named!r} is none of {', '.join(_EFFORTS)}")
    return _EFFORTS.get(named, default)


def _decode_message(message: InputMessage, context: DecodeContext) -> list[Message]:
    parts = [_part(block, context) for block in context.take_parts(blocks_of(message.content))]
    if message.role == "assistant":
        return [Message(Role.ASSISTANT, tuple(parts))]
    results = tuple(part for part in parts if isinstance(part, ToolResult))
    content = tuple(part for part in parts if not isinstance(part, ToolResult))
    messages = [Message(Role.TOOL, results)] if results else []
    return [*messages, Message(Role.USER, content)] if content or not results else messages


def _part(block: Block, context: DecodeContext) -> Part:
    match block.type:
        case "tool_use":
            return ToolCall(block.id, block.name, bytes(block.input).decode())
        case "tool_result":
            outcome = ToolOutcome.FAILED if block.is_error else ToolOutcome.DONE
            content = block.content if isinstance(block.content, str | list) else None
            return ToolResult(block.tool_use_id, _result_parts(content, context), outcome)
        case "thinking":
            return Reasoning(block.thinking, context.issuer, block.signature)
        case "redacted_thinking":
            return redacted_reasoning(context.issuer, block.data)
        case _:
            return _content_part(block, context)


def _result_parts(content: str | list[Block] | None, context: DecodeContext) -> tuple[ContentPart, ...]:
    return tuple(_content_part(block, context) for block in context.take_parts(blocks_of(content)))


def _content_part(block: Block, context: DecodeContext) -> ContentPart:
    match block.type:
        case "text":
            return Text(block.text)
        case "image" | "document" if isinstance(block.source, Source):
            return _source_part(block.source, block.title or "", context)
        case kind:
            return context.unknown_part(kind, "send text, image or document")


def _source_part(source: Source, title: str, context: DecodeContext) -> Text | Media:
    match source.type:
        case "base64":
            return media_from_base64(source.data, source.media_type, context.blobs, title)
        case "text":
            return Text(source.data)
        case "url":
            return Text(f"[file at {source.url}]")
        case kind:
            return context.unknown_part(f"{kind} source", "send base64, text or url")


def encode_error(kind: str, message: str) -> bytes:
    """Encode an error body; inside a stream it is the payload of an `error` event."""
    return to_bytes({"type": "error", "error": {"type": kind, "message": message}})
