"""The OpenAI chat dialect as a server speaks it: requests in, answers and errors out."""

from collections.abc import Iterator, Mapping

from holdfast.core.messages import (
    ContentPart,
    Effort,
    Message,
    Part,
    Reasoning,
    Reply,
    Request,
    Role,
    StopReason,
    Text,
    ToolCall,
    ToolResult,
    ToolSpec,
    Usage,
)
from holdfast.models.openai_chat.shapes import ChatMessage, ChatTool, Piece, read_body
from holdfast.models.sse import encode_event
from holdfast.models.wire import (
    DecodedRequest,
    MalformedRequestError,
    WireNode,
    received_media,
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
_FINISH_REASONS: Mapping[StopReason, str] = {
    StopReason.END: "stop",
    StopReason.TOOL_CALLS: "tool_calls",
    StopReason.LENGTH: "length",
    StopReason.CONTENT_FILTER: "content_filter",
    StopReason.OTHER: "stop",
}
# Letters per delta: about five tokens, so that a page shows a smooth stream and long answers stay cheap.
_DELTA_CHARS = 20


def decode_request(body: bytes, issuer: str = "") -> DecodedRequest:
    """Read the body of a request, or raise `MalformedRequestError`.

    All system messages become the system text, in order; results of one answer become one message; an image that is
    named by an address becomes a line of text. Settings that `Request` does not know are dropped.
    """
    wire = read_body(body)
    blobs: dict[str, bytes] = {}
    systems: list[str] = []
    messages: list[Message] = []
    for message in wire.messages:
        if message.role in ("system", "developer"):
            systems.append("".join(part.text for part in _parts(message.content, {}) if isinstance(part, Text)))
            continue
        decoded = _message(message, blobs, issuer)
        if decoded.role is Role.TOOL and messages and messages[-1].role is Role.TOOL:
            decoded = Message(Role.TOOL, messages.pop().parts + decoded.parts)
        messages.append(decoded)
    output_tokens_max = wire.max_tokens if wire.max_completion_tokens is None else wire.max_completion_tokens
    request = Request(
        tuple(messages),
        "\n\n".join(system for system in systems if system),
        tuple(_tool(tool) for tool in wire.tools or ()),
        output_tokens_max,
        _effort(wire.reasoning_effort),
    )
    wants_usage = wire.stream_options is not None and wire.stream_options.include_usage
    return DecodedRequest(request, wire.model, bool(wire.stream), blobs, wants_usage)


def _effort(named: str | None) -> Effort | None:
    if named is None:
        return None
    if named not in _EFFORTS:
        raise MalformedRequestError(f"reasoning_effort {named!r} is none of {', '.join(_EFFORTS)}")
    return _EFFORTS[named]


def _tool(tool: ChatTool) -> ToolSpec:
    function = tool.function
    return ToolSpec(function.name, function.description, bytes(function.parameters).decode())


def _message(message: ChatMessage, blobs: dict[str, bytes], issuer: str) -> Message:
    content = _parts(message.content, blobs)
    if message.role == "tool":
        if not message.tool_call_id:
            raise MalformedRequestError("a message with role 'tool' has no tool_call_id")
        return Message(Role.TOOL, (ToolResult(message.tool_call_id, content),))
    if message.role == "user":
        return Message(Role.USER, content)
    parts: list[Part] = []
    if message.reasoning_content:
        parts.append(Reasoning(message.reasoning_content, issuer))
    parts += content
    parts += [ToolCall(call.id, call.function.name, call.function.arguments) for call in message.tool_calls or ()]
    return Message(Role.ASSISTANT, tuple(parts))


def _parts(content: str | list[Piece] | None, blobs: dict[str, bytes]) -> tuple[ContentPart, ...]:
    if content is None:
        return ()
    if isinstance(content, str):
        return (Text(content),)
    return tuple(_part(piece, blobs) for piece in content)


def _part(piece: Piece, blobs: dict[str, bytes]) -> ContentPart:
    match piece.type:
        case "text":
            return Text(piece.text)
        case "refusal":
            return Text(piece.refusal)
        case "image_url" if piece.image_url is not None:
            image = piece.image_url
            return _inline(image if isinstance(image, str) else image.url, "", blobs)
        case "file" if piece.file is not None and piece.file.file_data:
            return _inline(piece.file.file_data, piece.file.filename, blobs)
        case other:
            raise MalformedRequestError(f"a part of type {other!r} cannot be read here; send text, image_url or file")


def _inline(url: str, name: str, blobs: dict[str, bytes]) -> ContentPart:
    head, comma, encoded = url.partition(",")
    if not head.startswith("data:") or not comma:
        return Text(f"[image at {url}]")
    media_type = head.removeprefix("data:").removesuffix(";base64")
    return received_media(encoded, media_type, blobs, name)


# --- answers -----------------------------------------------------------------------------------------------------


def encode_reply(reply: Reply, reply_id: str, created: int = 0) -> bytes:
    """Return a whole answer as a JSON body."""
    message: dict[str, WireNode] = {"role": "assistant", "content": _joined(reply, Text) or None, "refusal": None}
    thought = _joined(reply, Reasoning)
    if thought:
        message["reasoning_content"] = thought
    calls = [part for part in reply.parts if isinstance(part, ToolCall)]
    if calls:
        message["tool_calls"] = [
            {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in calls
        ]
    choice: WireNode = {"index": 0, "message": message, "finish_reason": _FINISH_REASONS[reply.stop_reason]}
    body: dict[str, WireNode] = {
        "id": reply_id,
        "object": "chat.completion",
        "created": created,
        "model": reply.model,
        "choices": [choice],
    }
    if reply.usage is not None:
        body["usage"] = _usage_node(reply.usage)
    return to_bytes(body)


def encode_stream(reply: Reply, reply_id: str, created: int = 0, *, wants_usage: bool = True) -> Iterator[bytes]:
    """Yield an answer as the events of a stream."""
    head: dict[str, WireNode] = {
        "id": reply_id,
        "object": "chat.completion.chunk",
        "created": created,
        "model": reply.model,
    }

    def chunk(delta: WireNode, finish_reason: str | None = None) -> bytes:
        choices: WireNode = [{"index": 0, "delta": delta, "finish_reason": finish_reason}]
        return encode_event(to_bytes({**head, "choices": choices}))

    yield chunk({"role": "assistant", "content": ""})
    for piece in _pieces(_joined(reply, Reasoning)):
        yield chunk({"reasoning_content": piece})
    for piece in _pieces(_joined(reply, Text)):
        yield chunk({"content": piece})
    calls = [part for part in reply.parts if isinstance(part, ToolCall)]
    for index, call in enumerate(calls):
        opening: WireNode = {"name": call.name, "arguments": ""}
        yield chunk({"tool_calls": [{"index": index, "id": call.call_id, "type": "function", "function": opening}]})
        for piece in _pieces(call.arguments):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield chunk({}, _FINISH_REASONS[reply.stop_reason])
    if wants_usage and reply.usage is not None:
        yield encode_event(to_bytes({**head, "choices": [], "usage": _usage_node(reply.usage)}))
    yield encode_event(b"[DONE]")


def encode_error(kind: str, message: str, *, code: str | None = None, param: str | None = None) -> bytes:
    """Return the body of an error."""
    return to_bytes({"error": {"message": message, "type": kind, "param": param, "code": code}})


def _joined(reply: Reply, kind: type[Text] | type[Reasoning]) -> str:
    return "".join(part.text for part in reply.parts if isinstance(part, kind))


def _pieces(text: str) -> Iterator[str]:
    return (text[at : at + _DELTA_CHARS] for at in range(0, len(text), _DELTA_CHARS))


def _usage_node(usage: Usage) -> WireNode:
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_input_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }
