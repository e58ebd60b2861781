"""Request decoder and error encoder of the Gemini dialect, server side."""

from collections import Counter, defaultdict, deque

import msgspec

from holdfast.models.gemini.request_encoder import NO_SIGNATURE, effort_of
from holdfast.models.wire import (
    ANY_OBJECT,
    DecodeContext,
    DecodedRequest,
    MalformedRequestError,
    WireNode,
    check_message_count,
    media_from_base64,
    to_bytes,
)
from holdfast.types.messages import (
    ContentPart,
    Message,
    Reasoning,
    Request,
    Role,
    Text,
    ToolCall,
    ToolOutcome,
    ToolResult,
    ToolSpec,
)
from holdfast.types.messages import Part as OurPart

# --- Wire types (unused fields are ignored) ---


class InlineMedia(msgspec.Struct, rename="camel"):
    """Inline media."""

    mime_type: str = ""
    data: str = ""


class MediaLink(msgspec.Struct, rename="camel"):
    """Media by URI."""

    file_uri: str = ""


class FunctionCall(msgspec.Struct):
    """A tool call."""

    name: str = ""
    args: msgspec.Raw = msgspec.Raw(b"{}")
    id: str | None = None


class FunctionResponse(msgspec.Struct):
    """A tool result."""

    name: str = ""
    response: dict[str, msgspec.Raw] = {}
    id: str | None = None


class Part(msgspec.Struct, rename="camel"):
    """One part of a message, of any kind."""

    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    inline_data: InlineMedia | None = None
    file_data: MediaLink | None = None
    function_call: FunctionCall | None = None
    function_response: FunctionResponse | None = None


class Content(msgspec.Struct):
    """One message."""

    role: str = "user"
    parts: list[Part] = []


class Declaration(msgspec.Struct, rename="camel"):
    """A function definition."""

    name: str
    description: str = ""
    parameters: msgspec.Raw = msgspec.Raw(ANY_OBJECT.encode())
    parameters_json_schema: msgspec.Raw = msgspec.Raw(b"null")

    @property
    def schema(self) -> str:
        """Parameter schema as JSON text."""
        written = bytes(self.parameters_json_schema)
        return (bytes(self.parameters) if written == b"null" else written).decode()


class Tool(msgspec.Struct, rename="camel"):
    """A group of function definitions."""

    function_declarations: list[Declaration] | None = None


class ThinkingConfig(msgspec.Struct, rename="camel"):
    """Thinking settings."""

    thinking_budget: int | None = None
    thinking_level: str | None = None


class GenerationConfig(msgspec.Struct, rename="camel"):
    """Generation settings."""

    max_output_tokens: int | None = None
    thinking_config: ThinkingConfig | None = None


class GenerateBody(msgspec.Struct, rename="camel"):
    """Request body."""

    contents: list[Content]
    system_instruction: Content | None = None
    tools: list[Tool] | None = None
    generation_config: GenerationConfig | None = None


_body_decoder = msgspec.json.Decoder(GenerateBody)


def read_body(body: bytes) -> GenerateBody:
    """Decode a request body, or raise `MalformedRequestError`."""
    try:
        return _body_decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise MalformedRequestError(f"Invalid JSON payload received. {error}") from error


_STREAMS = ":streamGenerateContent"


def decode_request(body: bytes, issuer: str = "", path: str = "", *, is_tolerant: bool = False) -> DecodedRequest:
    """Decode a request body and its path, or raise `MalformedRequestError`.

    A call without an id gets one from its position, and a result without one matches the oldest open call of its name.
    A file URI becomes a line of text. Settings unknown to `Request` are dropped.
    """
    wire = read_body(body)
    context = DecodeContext(issuer, is_tolerant=is_tolerant)
    calls = _OpenCalls()
    messages: list[Message] = []
    check_message_count(len(wire.contents))
    for content in wire.contents:
        context.take_parts(content.parts)
        messages += _messages(content, calls, context)
    settings = wire.generation_config
    thinking = settings.thinking_config if settings is not None else None
    system = wire.system_instruction
    request = Request(
        tuple(messages),
        "\n\n".join(part.text for part in system.parts if part.text) if system is not None else "",
        tuple(spec for tool in wire.tools or () for spec in _specs(tool)),
        settings.max_output_tokens if settings is not None else None,
        effort_of(thinking.thinking_level, thinking.thinking_budget) if thinking is not None else None,
    )
    model = path.rpartition("/")[2].partition(":")[0]
    return DecodedRequest(request, model, _STREAMS in path, context.blobs, unread=tuple(context.unread))


class _OpenCalls:
    """Calls without a result: the ids of each name, and the uses of each id, in order."""

    def __init__(self) -> None:
        self._ids_by_name: defaultdict[str, deque[str]] = defaultdict(deque)
        self._open: Counter[str] = Counter()
        self._count = 0

    def add(self, call_id: str | None, name: str, arguments: str) -> ToolCall:
        """Add a call; generate its id if it has none."""
        self._count += 1
        call = ToolCall(call_id or f"call_{self._count}", name, arguments)
        self._ids_by_name[name].append(call.call_id)
        self._open[call.call_id] += 1
        return call

    def close(self, result: FunctionResponse) -> str:
        """Remove the call that a result belongs to and return its id."""
        if result.id:
            self._open[result.id] = max(self._open[result.id] - 1, 0)
            return result.id
        ids = self._ids_by_name[result.name]
        while ids:
            call_id = ids.popleft()
            # A call that was closed by its id is skipped here.
            if self._open[call_id] > 0:
                self._open[call_id] -= 1
                return call_id
        return result.name


def _specs(tool: Tool) -> list[ToolSpec]:
    return [ToolSpec(one.name, one.description, one.schema) for one in tool.function_declarations or ()]


def _messages(content: Content, calls: _OpenCalls, context: DecodeContext) -> list[Message]:
    if content.role == "model":
        return [
            Message(
                Role.ASSISTANT, tuple(part for wire in content.parts for part in _model_parts(wire, calls, context))
            )
        ]
    if content.role not in ("user", "function"):
        raise MalformedRequestError(f"Please use a valid role: user, model. Found {content.role!r}.")
    return _user_messages(content.parts, calls, context)


def _user_messages(parts: list[Part], calls: _OpenCalls, context: DecodeContext) -> list[Message]:
    results = tuple(_result(part.function_response, calls) for part in parts if part.function_response is not None)
    user_parts = tuple(_content(part, context) for part in parts if part.function_response is None)
    messages = [Message(Role.TOOL, results)] if results else []
    return [*messages, Message(Role.USER, user_parts)] if user_parts or not results else messages


def _model_parts(wire: Part, calls: _OpenCalls, context: DecodeContext) -> list[OurPart]:
    signature = wire.thought_signature or ""
    if wire.thought:
        return [Reasoning(wire.text or "", context.issuer, signature)]
    parts: list[OurPart] = []
    if signature and signature != NO_SIGNATURE:
        parts.append(Reasoning("", context.issuer, signature))
    if wire.function_call is not None:
        call = wire.function_call
        parts.append(calls.add(call.id, call.name, bytes(call.args).decode()))
    elif wire.text or not signature:
        parts.append(_content(wire, context))
    return parts


def _result(response: FunctionResponse, calls: _OpenCalls) -> ToolResult:
    call_id = calls.close(response)
    outcome = ToolOutcome.FAILED if "error" in response.response else ToolOutcome.DONE
    output = response.response.get("error", response.response.get("output"))
    if output is None:
        return ToolResult(call_id, (Text(msgspec.json.encode(response.response).decode()),), outcome)
    read = msgspec.json.decode(output)
    pieces = read if isinstance(read, list) else [read]
    texts = (piece if isinstance(piece, str) else msgspec.json.encode(piece).decode() for piece in pieces)
    return ToolResult(call_id, tuple(Text(text) for text in texts), outcome)


def _content(wire: Part, context: DecodeContext) -> ContentPart:
    if wire.inline_data is not None:
        return media_from_base64(wire.inline_data.data, wire.inline_data.mime_type, context.blobs)
    if wire.file_data is not None:
        return Text(f"[file at {wire.file_data.file_uri}]")
    if wire.text is not None:
        return Text(wire.text)
    return context.unknown_part("other", "send text, inlineData, functionCall or functionResponse")


def encode_error(status: int, name: str, message: str, details: list[WireNode] | None = None) -> bytes:
    """Encode an error body."""
    error: dict[str, WireNode] = {"code": status, "message": message, "status": name}
    if details:
        error["details"] = details
    return to_bytes({"error": error})
