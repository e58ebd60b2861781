"""Request encoder of the responses dialect, with its effort settings and encrypted reasoning items.

The key order is fixed and only settings follow `input`, so a longer conversation shares its prefix with a shorter one.
`Reasoning.opaque` is the complete reasoning item as the provider's JSON text; it is sent back byte for byte.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from holdfast.core.text.media_type import PDF
from holdfast.models.openai_chat.request_encoder import TOOL_CHOICES
from holdfast.models.wire import (
    EMPTY_MESSAGE,
    IMAGE_TYPES,
    UnchangedCallIds,
    UniqueCallIds,
    WireNode,
    data_url,
    inline_text,
    is_json,
    media_line,
    object_text,
    outcome_text,
    schema_text,
    to_bytes,
    without,
)
from holdfast.types.messages import (
    ContentPart,
    Effort,
    LargeText,
    Media,
    Message,
    Reasoning,
    Request,
    Role,
    Text,
    ToolCall,
    ToolResult,
    ToolSpec,
)

EFFORTS: Mapping[Effort, str] = {
    Effort.NONE: "none",
    Effort.LOW: "low",
    Effort.MEDIUM: "medium",
    Effort.HIGH: "high",
}

# Other models reject requests for encrypted reasoning: "Encrypted content is not supported with this model".
# Reasoning models: the o series, gpt-5 and later except the chat variants, and codex.
_REASONING_MODELS = re.compile(r"(?:^|/)(?:o\d|gpt-[5-9](?!.*-chat)|gpt-\d{2}|codex|gpt-oss)")

# Separator between the parts of a reasoning summary.
PARAGRAPH = "\n\n"


class _Kind(msgspec.Struct):
    type: str = ""


class _Summary(msgspec.Struct):
    text: str = ""


class WireReasoning(msgspec.Struct):
    """A reasoning item: a readable summary, raw text from open models, and the encrypted content."""

    id: str = ""
    summary: list[_Summary] | None = None
    content: list[_Summary] | None = None
    encrypted_content: str | None = None

    @property
    def text(self) -> str:
        """Readable text."""
        return PARAGRAPH.join(piece.text for piece in self.summary or self.content or () if piece.text)


_item_decoder = msgspec.json.Decoder(WireReasoning)
_kind_decoder = msgspec.json.Decoder(_Kind)


def supports_reasoning(model: str) -> bool:
    """Return whether a model is known to return encrypted reasoning."""
    return _REASONING_MODELS.search(model) is not None


def read_reasoning(wire: bytes, issuer: str) -> Reasoning:
    """Decode a reasoning item. Without encrypted content it cannot be sent back."""
    read = _item_decoder.decode(wire)
    return Reasoning(read.text, issuer, wire.decode() if read.encrypted_content else "")


def reasoning_id(wire: str) -> str:
    """Return the provider's id of an item, or ""."""
    return _item_decoder.decode(wire).id


def reasoning_node(part: Reasoning, item_id: str) -> WireNode:
    """Return the original item of a part, byte for byte, or a new one with only the readable text."""
    if part.opaque:
        return msgspec.Raw(part.opaque.encode())
    summary: list[WireNode] = [{"type": "summary_text", "text": part.text}] if part.text else []
    return {"id": item_id, "type": "reasoning", "summary": summary}


def encrypted_reasoning(item_id: str, text: str, encrypted: str) -> str:
    """Encode a reasoning item as the provider does."""
    summary: list[WireNode] = [{"type": "summary_text", "text": text}] if text else []
    node: WireNode = {"id": item_id, "type": "reasoning", "summary": summary, "encrypted_content": encrypted}
    return to_bytes(node).decode()


def without_reasoning(element: bytes) -> bytes | None:
    """Remove the reasoning of an element; None if it is a reasoning item.

    Its id is removed too: the provider links ids to reasoning items and rejects one without the other.
    """
    return None if _kind_decoder.decode(element).type == "reasoning" else without(element, "id")


_Node = dict[str, WireNode]


def encode_request(
    request: Request,
    model: str,
    blobs: Mapping[str, bytes],
    issuer: str,
    *,
    is_official: bool = True,  # noqa: ARG001 - same for compatible servers
    wants_stream: bool = True,
) -> bytes:
    """Encode a request body.

    Lossy: reasoning of another issuer, without encrypted content, or at the end of its message is dropped; tool
    outcomes are dropped; empty text and empty assistant messages are dropped.
    """
    body: _Node = {"model": model}
    if request.system:
        body["instructions"] = request.system
    if request.tools:
        body["tools"] = [_tool(spec) for spec in request.tools]
    nodes = [node for message in _nodes(request.messages, UniqueCallIds(), blobs, issuer) for node in message]
    body["input"] = nodes or [_user_node([_text("input_text", EMPTY_MESSAGE)])]
    if request.output_tokens_max is not None:
        body["max_output_tokens"] = request.output_tokens_max
    if request.effort is not None:
        body["reasoning"] = {"effort": EFFORTS[request.effort]}
    if supports_reasoning(model):
        body["include"] = ["reasoning.encrypted_content"]
    body.update(_settings(request))
    # The log has the conversation; the provider must not store it.
    body["store"] = False
    if wants_stream:
        body["stream"] = True
    return to_bytes(body | request.settings.extra)


def _settings(request: Request) -> _Node:
    """Return the settings of a request as fields; the dialect has no stop texts and no seed."""
    settings, choice = request.settings, request.settings.tool_choice
    text: _Node = {"verbosity": settings.verbosity} if settings.verbosity else {}
    if request.output is not None:
        # Strict schemas have no optional properties, and most types have some.
        schema = msgspec.Raw(request.output.schema.encode())
        text["format"] = {"type": "json_schema", "name": request.output.name, "schema": schema, "strict": False}
    wire: _Node = {
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "service_tier": settings.service_tier,
        "metadata": settings.metadata or None,
        "text": text or None,
    }
    if request.tools:
        wire["tool_choice"] = choice if choice in (*TOOL_CHOICES, None) else {"type": "function", "name": choice}
        wire["parallel_tool_calls"] = settings.parallel_tool_calls
    return {name: value for name, value in wire.items() if value is not None}


def encode_messages(messages: Sequence[Message], blobs: Mapping[str, bytes], issuer: str) -> list[bytes]:
    """Encode messages as elements of `input`, with unchanged call ids."""
    return [to_bytes(node) for nodes in _nodes(messages, UnchangedCallIds(), blobs, issuer) for node in nodes]


def encode_tool(spec: ToolSpec) -> bytes:
    """Encode a tool as an element of `tools`."""
    return to_bytes(_tool(spec))


def _tool(spec: ToolSpec) -> WireNode:
    schema = msgspec.Raw(schema_text(spec.parameters).encode())
    # The default, strict, rejects schemas with optional properties.
    return {
        "type": "function",
        "name": spec.name,
        "description": spec.description,
        "parameters": schema,
        "strict": False,
    }


def _nodes(
    messages: Iterable[Message], ids: UnchangedCallIds, blobs: Mapping[str, bytes], issuer: str
) -> Iterable[list[WireNode]]:
    for message in messages:
        if message.role is Role.ASSISTANT:
            yield _assistant_nodes(message, ids, blobs, issuer)
            continue
        results = [part for part in message.parts if isinstance(part, ToolResult)]
        content = [part for part in message.parts if isinstance(part, Text | LargeText | Media)]
        nodes: list[WireNode] = [_result(result, ids, blobs) for result in results]
        if content or not results:
            nodes.append(_user_node(_content(content, blobs) or [_text("input_text", EMPTY_MESSAGE)]))
        yield nodes


def _assistant_nodes(
    message: Message, ids: UnchangedCallIds, blobs: Mapping[str, bytes], issuer: str
) -> list[WireNode]:
    nodes: list[WireNode] = []
    trailing_reasoning = 0
    for part in message.parts:
        match part:
            case Text() | LargeText() | Media():
                text = media_line(part) if isinstance(part, Media) else inline_text(part, blobs)
                if text:
                    nodes.append({"type": "message", "role": "assistant", "content": [_text("output_text", text)]})
                    trailing_reasoning = 0
            case ToolCall():
                call_id, arguments = ids.of_call(part.call_id), object_text(part.arguments)
                nodes.append({"type": "function_call", "call_id": call_id, "name": part.name, "arguments": arguments})
                trailing_reasoning = 0
            case Reasoning():
                if part.opaque and part.issuer == issuer and is_json(part.opaque):
                    nodes.append(msgspec.Raw(part.opaque.encode()))
                    trailing_reasoning += 1
            case ToolResult():
                pass  # Tool results are separate elements.
    # The API rejects trailing reasoning: "was provided without its required following item".
    return nodes[: len(nodes) - trailing_reasoning]


def _user_node(content: Sequence[WireNode]) -> WireNode:
    return {"type": "message", "role": "user", "content": content}


def _result(result: ToolResult, ids: UnchangedCallIds, blobs: Mapping[str, bytes]) -> WireNode:
    content = _content(result.parts, blobs)
    output: WireNode = content
    match content:
        case []:
            output = outcome_text(result)
        case [{"type": "input_text", "text": str(only)}]:
            output = only
    return {"type": "function_call_output", "call_id": ids.of_result(result.call_id), "output": output}


def _content(parts: Iterable[ContentPart], blobs: Mapping[str, bytes]) -> list[_Node]:
    nodes: list[_Node] = []
    for part in parts:
        if isinstance(part, Media):
            nodes.append(_media(part, blobs))
        elif text := inline_text(part, blobs):
            nodes.append(_text("input_text", text))
    return nodes


def _media(media: Media, blobs: Mapping[str, bytes]) -> _Node:
    url = data_url(media, blobs) if media.media_type in IMAGE_TYPES | {PDF} else None
    if url is None:
        return _text("input_text", media_line(media))
    if media.media_type == PDF:
        return {"type": "input_file", "filename": media.name or "document.pdf", "file_data": url}
    return {"type": "input_image", "image_url": url, "detail": "auto"}


def _text(kind: str, text: str) -> _Node:
    return {"type": kind, "text": text}
