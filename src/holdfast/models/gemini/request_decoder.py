"""Request decoder and error encoder of the Gemini dialect, server side."""

import re
from collections import Counter, defaultdict, deque
from typing import Any
from urllib.parse import unquote

import msgspec

from holdfast.models.gemini.request_encoder import NO_SIGNATURE, effort_of
from holdfast.models.wire import (
    ANY_OBJECT,
    DecodeContext,
    DecodedRequest,
    MalformedRequestError,
    Original,
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
    """Request body. `read_contents` decodes its messages."""

    contents: list[msgspec.Raw]
    system_instruction: Content | None = None
    tools: list[Tool] | None = None
    generation_config: GenerationConfig | None = None


_body_decoder = msgspec.json.Decoder(GenerateBody)
_content_decoder = msgspec.json.Decoder(Content)
# The API accepts each field name in both spellings; its own examples mix them.
_SNAKE = re.compile(
    rb'"(?:system_instruction|generation_config|function_(?:declarations|call|response)|(?:inline|file)_data'
    rb"|thought_signature|mime_type|file_uri|max_output_tokens|thinking_(?:config|budget|level)"
    rb'|parameters_json_schema)"\s*:'
)
_UNDERSCORE = re.compile(r"_([a-z])")
# Fields whose content belongs to the client or the model.
_OPAQUE = frozenset({"args", "response", "parameters", "parametersJsonSchema"})


def read_body(body: bytes) -> GenerateBody:
    """Decode a request body, or raise `MalformedRequestError`."""
    try:
        return _body_decoder.decode(_camel_body(body) if _SNAKE.search(body) else body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise MalformedRequestError(f"Invalid JSON payload received. {error}") from error


def read_contents(body: GenerateBody) -> list[Content]:
    """Decode the messages of a body, or raise `MalformedRequestError`."""
    check_message_count(len(body.contents))
    contents: list[Content] = []
    for at, wire in enumerate(body.contents):
        try:
            contents.append(_content_decoder.decode(wire))
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise MalformedRequestError(f"Invalid value at 'contents[{at}]'. {error}") from error
    return contents


def _camel_body(body: bytes) -> bytes:
    return msgspec.json.encode(_camel(msgspec.json.decode(body)))


def _camel(node: Any) -> Any:  # noqa: ANN401 - any JSON
    """Return JSON with field names in camel case; what the client or the model wrote stays."""
    if isinstance(node, list):
        return [_camel(one) for one in node]
    if not isinstance(node, dict):
        return node
    renamed = {_UNDERSCORE.sub(lambda found: found[1].upper(), name): value for name, value in node.items()}
    return {name: value if name in _OPAQUE else _camel(value) for name, value in renamed.items()}


_STREAMS = ":streamGenerateContent"
_SSE = re.compile(r"[?&]alt=sse(?:&|$)")


def decode_request(body: bytes, issuer: str = "", path: str = "", *, is_tolerant: bool = False) -> DecodedRequest:
    """Decode a request body and its path with the query, or raise `MalformedRequestError`.

    A call without an id gets one from its position, and a result without the id of an open call matches the first open
    call of its name in the reply before it. A file URI becomes a line of text. Settings unknown to `Request` are
    dropped.
    """
    wire = read_body(body)
    context = DecodeContext(issuer, is_tolerant=is_tolerant)
    calls = _OpenCalls()
    messages: list[Message] = []
    originals: list[Original] = []
    for place, content in enumerate(read_contents(wire)):
        context.take_parts(content.parts)
        calls.enter(place, is_model=content.role == _MODEL)
        first = len(messages)
        messages += _messages(content, calls, context)
        originals.append(Original(bytes(wire.contents[place]), first, len(messages)))
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
    wants_stream = _STREAMS in path
    return DecodedRequest(
        request,
        model_in(path),
        wants_stream,
        context.blobs,
        originals=tuple(originals),
        unread=tuple(context.unread),
        is_list=wants_stream and _SSE.search(path) is None,
        # A client may send a call of the answer back without an id: then its place is its id.
        answer_place=str(len(originals)),
    )


def model_in(path: str) -> str:
    """Return the name of the model in the path of a request."""
    return unquote(path.partition("?")[0].rpartition("/")[2].partition(":")[0])


def call_id_at(place: str, number: int) -> str:
    """Return the id of a call that has none: by the place of its message, and its number in that."""
    return f"call_{place}_{number}"


_MODEL = "model"


class _OpenCalls:
    """Calls without a result: the ids of each name in the newest reply in order, and the uses of each id.

    Messages of the model in a row are one reply: clients that read a stream keep one for each event.
    """

    def __init__(self) -> None:
        self._open: defaultdict[str, deque[str]] = defaultdict(deque)
        self._count: Counter[str] = Counter()
        self._place = 0
        self._number = 0
        self._is_model = False

    def enter(self, place: int, *, is_model: bool) -> None:
        """Begin the message at a place."""
        if is_model and not self._is_model:
            self._place, self._number = place, 0
            self._open.clear()
        self._is_model = is_model

    def add(self, call_id: str | None, name: str, arguments: str) -> ToolCall:
        """Add a call; generate its id if it has none."""
        call = ToolCall(call_id or call_id_at(str(self._place), self._number), name, arguments)
        self._number += 1
        self._open[name].append(call.call_id)
        self._count[call.call_id] += 1
        return call

    def close(self, result: FunctionResponse) -> str:
        """Remove the call that a result belongs to and return its id.

        Some clients give a result an id of their own although its call has none.
        """
        if result.id and self._count[result.id] > 0:
            self._count[result.id] -= 1
            return result.id
        ids = self._open[result.name]
        while ids:
            call_id = ids.popleft()
            # A call that was closed by its id is skipped here.
            if self._count[call_id] > 0:
                self._count[call_id] -= 1
                return call_id
        return result.id or result.name


def _specs(tool: Tool) -> list[ToolSpec]:
    return [ToolSpec(one.name, one.description, one.schema) for one in tool.function_declarations or ()]


def _messages(content: Content, calls: _OpenCalls, context: DecodeContext) -> list[Message]:
    if content.role == _MODEL:
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
