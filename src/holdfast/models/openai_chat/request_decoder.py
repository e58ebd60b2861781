"""Request decoder and error encoder of the OpenAI chat dialect, server side."""

from collections.abc import Mapping
from typing import Literal

import msgspec

from holdfast.models.wire import (
    ANY_OBJECT,
    DecodeContext,
    DecodedRequest,
    MalformedRequestError,
    MergedMessages,
    Original,
    check_message_count,
    media_from_url,
    to_bytes,
)
from holdfast.types.messages import (
    ContentPart,
    Effort,
    Message,
    Part,
    Reasoning,
    Request,
    Role,
    Text,
    ToolCall,
    ToolResult,
    ToolSpec,
)

# --- Wire types (unused fields are ignored) ---


class ImageUrl(msgspec.Struct):
    """URL of an image; only data URLs are decoded."""

    url: str


class File(msgspec.Struct):
    """A document as a data URL."""

    file_data: str = ""
    filename: str = ""


class Piece(msgspec.Struct):
    """One content part of a message."""

    type: str
    text: str = ""
    refusal: str = ""
    image_url: ImageUrl | str | None = None
    file: File | None = None


class Function(msgspec.Struct):
    """Function and arguments of a call."""

    name: str
    arguments: str = ""


class Custom(msgspec.Struct):
    """Free-form tool and input of a call."""

    name: str
    input: str = ""


class Call(msgspec.Struct):
    """A tool call of an assistant message."""

    id: str = ""
    function: Function | None = None
    custom: Custom | None = None


class ChatMessage(msgspec.Struct):
    """One message of any role. Role "function" and `function_call` are the legacy form of calls."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[Piece] | None = None
    tool_calls: list[Call] | None = None
    tool_call_id: str = ""
    name: str = ""
    refusal: str | None = None
    function_call: Function | None = None
    # Two names for reasoning text, both from compatible servers.
    reasoning_content: str | None = None
    reasoning: str | None = None


class ToolFunction(msgspec.Struct):
    """Function definition."""

    name: str
    description: str | None = None
    parameters: msgspec.Raw = msgspec.Raw(b"null")

    @property
    def schema(self) -> str:
        """Parameter schema as JSON text."""
        written = bytes(self.parameters).decode()
        return ANY_OBJECT if written == "null" else written


class ChatTool(msgspec.Struct):
    """A tool definition; free-form tools have no function."""

    function: ToolFunction | None = None


class StreamOptions(msgspec.Struct):
    """Stream settings."""

    include_usage: bool | None = None


class ChatBody(msgspec.Struct):
    """Request body."""

    model: str
    messages: list[msgspec.Raw]
    tools: list[ChatTool] | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    reasoning_effort: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None


_message_decoder = msgspec.json.Decoder(ChatMessage)
_body_decoder = msgspec.json.Decoder(ChatBody)


def read_body(body: bytes) -> ChatBody:
    """Decode a request body, or raise `MalformedRequestError`."""
    try:
        return _body_decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise MalformedRequestError(f"the body is not a chat completion request: {error}") from error


def read_messages(body: ChatBody) -> list[tuple[bytes, ChatMessage]]:
    """Return the messages, each as bytes and decoded."""
    check_message_count(len(body.messages))
    read: list[tuple[bytes, ChatMessage]] = []
    for at, wire in enumerate(body.messages):
        try:
            read.append((bytes(wire), _message_decoder.decode(wire)))
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise MalformedRequestError(f"messages[{at}] is malformed: {error}") from error
    return read


_EFFORTS: Mapping[str, Effort] = {
    "none": Effort.NONE,
    "minimal": Effort.LOW,
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

    System messages are joined to the system text in order; consecutive tool results become one message; an image URL
    becomes a line of text. Settings unknown to `Request` are dropped; unknown parts are rejected, or listed in `unread`
    if `is_tolerant`.
    """
    wire = read_body(body)
    context = DecodeContext(issuer, is_tolerant=is_tolerant)
    systems: list[str] = []
    messages = MergedMessages()
    originals: list[Original] = []
    for written, message in read_messages(wire):
        if message.role in ("system", "developer"):
            systems.append("".join(part.text for part in _parts(message.content, context) if isinstance(part, Text)))
            originals.append(Original(written, len(messages), len(messages)))
            continue
        place = messages.append(_message(message, context), is_merged=message.role in ("tool", "function"))
        originals.append(Original(written, place, place + 1))
    output_tokens_max = wire.max_tokens if wire.max_completion_tokens is None else wire.max_completion_tokens
    request = Request(
        messages.all(),
        "\n\n".join(system for system in systems if system),
        tuple(_tool(tool) for tool in wire.tools or () if tool.function is not None),
        output_tokens_max,
        _effort(wire.reasoning_effort, context),
    )
    wants_usage = wire.stream_options is not None and bool(wire.stream_options.include_usage)
    return DecodedRequest(
        request, wire.model, bool(wire.stream), context.blobs, wants_usage, tuple(originals), tuple(context.unread)
    )


def _effort(named: str | None, context: DecodeContext) -> Effort | None:
    if named is None:
        return None
    if named not in _EFFORTS and not context.is_tolerant:
        raise MalformedRequestError(f"reasoning_effort {named!r} is none of {', '.join(_EFFORTS)}")
    return _EFFORTS.get(named)


def _tool(tool: ChatTool) -> ToolSpec:
    function = tool.function
    assert function is not None
    return ToolSpec(function.name, function.description or "", function.schema)


def _message(message: ChatMessage, context: DecodeContext) -> Message:
    content = _parts(message.content, context)
    if message.role in ("tool", "function"):
        # The legacy form has the function name instead of an id.
        call_id = message.tool_call_id or (message.name if message.role == "function" else "")
        if not call_id:
            raise MalformedRequestError("a message with role 'tool' has no tool_call_id")
        return Message(Role.TOOL, (ToolResult(call_id, content),))
    if message.role == "user":
        return Message(Role.USER, content)
    return _assistant_message(message, content, context)


def _assistant_message(message: ChatMessage, content: tuple[ContentPart, ...], context: DecodeContext) -> Message:
    parts: list[Part] = []
    reasoning = message.reasoning_content or message.reasoning
    if reasoning:
        parts.append(Reasoning(reasoning, context.issuer))
    parts += content
    if message.refusal:
        parts.append(Text(message.refusal))
    parts += [_call(call) for call in context.take_parts(message.tool_calls or ())]
    if message.function_call is not None:
        parts.append(ToolCall(message.function_call.name, message.function_call.name, message.function_call.arguments))
    return Message(Role.ASSISTANT, tuple(parts))


def _call(call: Call) -> ToolCall:
    if call.function is not None:
        return ToolCall(call.id, call.function.name, call.function.arguments)
    if call.custom is not None:
        return ToolCall(call.id, call.custom.name, call.custom.input)
    raise MalformedRequestError(f"the call {call.id!r} has no function")


def _parts(content: str | list[Piece] | None, context: DecodeContext) -> tuple[ContentPart, ...]:
    if content is None:
        return ()
    if isinstance(content, str):
        return (Text(content),)
    return tuple(_part(piece, context) for piece in context.take_parts(content))


def _part(piece: Piece, context: DecodeContext) -> ContentPart:
    match piece.type:
        case "text":
            return Text(piece.text)
        case "refusal":
            return Text(piece.refusal)
        case "image_url" if piece.image_url is not None:
            image = piece.image_url
            return media_from_url(image if isinstance(image, str) else image.url, "", context.blobs)
        case "file" if piece.file is not None and piece.file.file_data:
            return media_from_url(piece.file.file_data, piece.file.filename, context.blobs)
        case kind:
            return context.unknown_part(kind, "send text, image_url or file")


def encode_error(kind: str, message: str, *, code: str | None = None, param: str | None = None) -> bytes:
    """Encode an error body."""
    return to_bytes({"error": {"message": message, "type": kind, "param": param, "code": code}})
