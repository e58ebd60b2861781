"""The responses dialect as a server reads it: requests in, and the errors that answer them."""

from collections.abc import Mapping

from holdfast.core.messages import (
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
from holdfast.models.openai_responses.shapes import Content, Element, contents_of, read_body, read_elements
from holdfast.models.openai_responses.thinking import read_reasoning
from holdfast.models.wire import (
    DecodedRequest,
    Intake,
    MalformedRequestError,
    Original,
    media_of_url,
    to_bytes,
)

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
    path: str = "",  # noqa: ARG001 - one address for all models
    *,
    is_tolerant: bool = False,
) -> DecodedRequest:
    """Read the body of a request, or raise `MalformedRequestError`.

    Elements of one speaker in a row become one message. System and developer messages join the instructions. Settings
    that `Request` does not know are dropped; parts it does not know are refused, or named in `unread` where the reader
    is tolerant. An answer that is kept at the provider (`previous_response_id`) cannot be known here.
    """
    wire = read_body(body)
    if wire.previous_response_id and not is_tolerant:
        raise MalformedRequestError("previous_response_id: answers are not kept here; send the whole conversation")
    intake = Intake(issuer, is_tolerant=is_tolerant)
    systems = [wire.instructions or ""]
    messages: list[Message] = []
    originals: list[Original] = []
    for written, element in read_elements(wire):
        if element.role in ("system", "developer"):
            systems.append("".join(piece.text for piece in contents_of(element.content)))
            originals.append(Original(written, len(messages), len(messages)))
            continue
        _join(messages, _message(written, element, intake))
        originals.append(Original(written, len(messages) - 1, len(messages)))
    tools = tuple(ToolSpec(tool.name, tool.description or "", tool.schema) for tool in wire.tools or () if tool.name)
    request = Request(
        tuple(messages),
        "\n\n".join(system for system in systems if system),
        tools,
        wire.max_output_tokens,
        _effort(wire.reasoning.effort if wire.reasoning is not None else None, intake),
    )
    return DecodedRequest(
        request,
        wire.model,
        bool(wire.stream),
        intake.blobs,
        originals=tuple(originals),
        unread=tuple(intake.unread),
    )


def _join(messages: list[Message], message: Message) -> None:
    """Add a message; what an assistant says and what its tools return come in pieces that belong together."""
    if messages and messages[-1].role is message.role and message.role is not Role.USER:
        message = Message(message.role, messages.pop().parts + message.parts)
    messages.append(message)


def _effort(named: str | None, intake: Intake) -> Effort | None:
    if named is None:
        return None
    if named not in _EFFORTS and not intake.is_tolerant:
        raise MalformedRequestError(f"reasoning.effort {named!r} is none of {', '.join(_EFFORTS)}")
    return _EFFORTS.get(named)


def _message(written: bytes, element: Element, intake: Intake) -> Message:
    match element.type:
        case "message" if element.role in ("user", "assistant"):
            return Message(Role(element.role), _contents(element.content, intake))
        case "message":
            raise MalformedRequestError(f"role {element.role!r} is none of user, assistant, system, developer")
        case kind if kind in _ASSISTANT:
            return Message(Role.ASSISTANT, (_spoken(written, element, intake),))
        case kind if kind in _RESULTS:
            if not element.call_id:
                raise MalformedRequestError(f"an element of type {kind!r} has no call_id")
            return Message(Role.TOOL, (ToolResult(element.call_id, _contents(element.output, intake)),))
        case kind:
            return Message(Role.ASSISTANT, (intake.unknown(kind, "send messages, calls and their outputs"),))


def _spoken(written: bytes, element: Element, intake: Intake) -> Part:
    if element.type == "reasoning":
        return read_reasoning(written, intake.issuer)
    return ToolCall(element.call_id, element.name, element.arguments or element.input)


def _contents(content: str | list[Content] | None, intake: Intake) -> tuple[ContentPart, ...]:
    return tuple(_content(piece, intake) for piece in contents_of(content))


def _content(piece: Content, intake: Intake) -> ContentPart:
    match piece.type:
        case "input_text" | "output_text" | "text" | "summary_text":
            return Text(piece.text)
        case "refusal":
            return Text(piece.refusal)
        case "input_image" if piece.image_url:
            return media_of_url(piece.image_url, "", intake.blobs)
        case "input_file" if piece.file_data:
            return media_of_url(piece.file_data, piece.filename or "", intake.blobs)
        case "input_file" if piece.file_url:
            return Text(f"[file at {piece.file_url}]")
        case kind:
            return intake.unknown(kind, _ADVICE)


def encode_error(kind: str, message: str, *, code: str | None = None, param: str | None = None) -> bytes:
    """Return the body of an error."""
    return to_bytes({"error": {"message": message, "type": kind, "param": param, "code": code}})
