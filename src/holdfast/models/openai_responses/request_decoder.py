"""Request decoder and error encoder of the responses dialect, server side."""

from collections.abc import Mapping

import msgspec

from holdfast.models.openai_responses.request_encoder import read_reasoning
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
    Request,
    Role,
    Text,
    ToolCall,
    ToolResult,
    ToolSpec,
)

# --- Wire types (unused fields are ignored) ---


class Content(msgspec.Struct):
    """One content part of a message or tool output."""

    type: str = "input_text"
    text: str = ""
    refusal: str = ""
    image_url: str | None = None
    file_data: str | None = None
    file_url: str | None = None
    filename: str | None = None


class Element(msgspec.Struct):
    """One element of `input` of any type; messages may omit the type."""

    type: str = "message"
    role: str = ""
    content: str | list[Content] | None = None
    call_id: str = ""
    name: str = ""
    arguments: str = ""
    output: str | list[Content] | None = None
    encrypted_content: str | None = None
    # Input of free-form tools, instead of arguments.
    input: str = ""


class Reasoning(msgspec.Struct):
    """Reasoning settings."""

    effort: str | None = None


class ToolDefinition(msgspec.Struct):
    """A tool definition; server-side tools have other types and may have no name."""

    type: str = "function"
    name: str = ""
    description: str | None = None
    parameters: msgspec.Raw = msgspec.Raw(b"null")

    @property
    def schema(self) -> str:
        """Parameter schema as JSON text."""
        written = bytes(self.parameters).decode()
        return ANY_OBJECT if written == "null" else written


class ResponsesBody(msgspec.Struct):
    """Request body."""

    model: str
    input: str | list[msgspec.Raw] = ""
    instructions: str | None = None
    tools: list[ToolDefinition] | None = None
    max_output_tokens: int | None = None
    reasoning: Reasoning | None = None
    stream: bool | None = None
    previous_response_id: str | None = None


_body_decoder = msgspec.json.Decoder(ResponsesBody)
_element_decoder = msgspec.json.Decoder(Element)


def read_body(body: bytes) -> ResponsesBody:
    """Decode a request body, or raise `MalformedRequestError`."""
    try:
        return _body_decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise MalformedRequestError(f"the body is not a responses request: {error}") from error


def read_elements(body: ResponsesBody) -> list[tuple[bytes, Element]]:
    """Return the elements of `input`, each as bytes and decoded."""
    if isinstance(body.input, str):
        wire = msgspec.json.encode({"role": "user", "content": body.input})
        return [(wire, Element(role="user", content=body.input))]
    check_message_count(len(body.input))
    elements: list[tuple[bytes, Element]] = []
    for at, wire in enumerate(body.input):
        try:
            elements.append((bytes(wire), _element_decoder.decode(wire)))
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise MalformedRequestError(f"input[{at}] is malformed: {error}") from error
    return elements


def contents_of(content: str | list[Content] | None) -> list[Content]:
    """Return content as parts; a string is one text part."""
    if isinstance(content, str):
        return [Content(text=content)]
    return content or []


_EFFORTS: Mapping[str, Effort] = {
    "none": Effort.NONE,
    "minimal": Effort.LOW,
    "low": Effort.LOW,
    "medium": Effort.MEDIUM,
    "high": Effort.HIGH,
    "xhigh": Effort.HIGH,
    "max": Effort.HIGH,
}
_ADVICE = "send text, input_image or input_file"
_ASSISTANT = ("function_call", "custom_tool_call", "reasoning")
_RESULTS = ("function_call_output", "custom_tool_call_output")


def decode_request(
    body: bytes,
    issuer: str = "",
    path: str = "",  # noqa: ARG001 - one path for all models
    *,
    is_tolerant: bool = False,
) -> DecodedRequest:
    """Decode a request body, or raise `MalformedRequestError`.

    Consecutive elements of one role become one message. System and developer messages are appended to the instructions.
    Settings unknown to `Request` are dropped; unknown parts are rejected, or listed in `unread` if `is_tolerant`.
    Responses stored at the provider (`previous_response_id`) are not available.
    """
    wire = read_body(body)
    if wire.previous_response_id and not is_tolerant:
        raise MalformedRequestError("previous_response_id: responses are not stored here; send the full conversation")
    context = DecodeContext(issuer, is_tolerant=is_tolerant)
    systems = [wire.instructions or ""]
    messages = MergedMessages()
    originals: list[Original] = []
    for written, element in read_elements(wire):
        if element.role in ("system", "developer"):
            systems.append("".join(piece.text for piece in contents_of(element.content)))
            originals.append(Original(written, len(messages), len(messages)))
            continue
        message = _message(written, element, context)
        messages.append(message, is_merged=message.role is not Role.USER)
        originals.append(Original(written, len(messages) - 1, len(messages)))
    request = Request(
        messages.all(),
        "\n\n".join(system for system in systems if system),
        _tools(wire),
        wire.max_output_tokens,
        _effort(wire.reasoning, context),
    )
    return DecodedRequest(
        request,
        wire.model,
        bool(wire.stream),
        context.blobs,
        originals=tuple(originals),
        unread=tuple(context.unread),
    )


def _tools(wire: ResponsesBody) -> tuple[ToolSpec, ...]:
    return tuple(ToolSpec(tool.name, tool.description or "", tool.schema) for tool in wire.tools or () if tool.name)


def _effort(reasoning: Reasoning | None, context: DecodeContext) -> Effort | None:
    named = reasoning.effort if reasoning is not None else None
    if named is None:
        return None
    if named not in _EFFORTS and not context.is_tolerant:
        raise MalformedRequestError(f"reasoning.effort {named!r} is none of {', '.join(_EFFORTS)}")
    return _EFFORTS.get(named)


def _message(written: bytes, element: Element, context: DecodeContext) -> Message:
    match element.type:
        case "message" if element.role in ("user", "assistant"):
            return Message(Role(element.role), _contents(element.content, context))
        case "message":
            raise MalformedRequestError(f"role {element.role!r} is none of user, assistant, system, developer")
        case kind if kind in _ASSISTANT:
            return Message(Role.ASSISTANT, (_assistant_part(written, element, context),))
        case kind if kind in _RESULTS:
            if not element.call_id:
                raise MalformedRequestError(f"an element of type {kind!r} has no call_id")
            return Message(Role.TOOL, (ToolResult(element.call_id, _contents(element.output, context)),))
        case kind:
            return Message(Role.ASSISTANT, (context.unknown_part(kind, "send messages, calls and their outputs"),))


def _assistant_part(written: bytes, element: Element, context: DecodeContext) -> Part:
    if element.type == "reasoning":
        return read_reasoning(written, context.issuer)
    return ToolCall(element.call_id, element.name, element.arguments or element.input)


def _contents(content: str | list[Content] | None, context: DecodeContext) -> tuple[ContentPart, ...]:
    return tuple(_content(piece, context) for piece in context.take_parts(contents_of(content)))


def _content(piece: Content, context: DecodeContext) -> ContentPart:
    match piece.type:
        case "input_text" | "output_text" | "text" | "summary_text":
            return Text(piece.text)
        case "refusal":
            return Text(piece.refusal)
        case "input_image" if piece.image_url:
            return media_from_url(piece.image_url, "", context.blobs)
        case "input_file" if piece.file_data:
            return media_from_url(piece.file_data, piece.filename or "", context.blobs)
        case "input_file" if piece.file_url:
            return Text(f"[file at {piece.file_url}]")
        case kind:
            return context.unknown_part(kind, _ADVICE)


def encode_error(kind: str, message: str, *, code: str | None = None, param: str | None = None) -> bytes:
    """Encode an error body."""
    return to_bytes({"error": {"message": message, "type": kind, "param": param, "code": code}})
