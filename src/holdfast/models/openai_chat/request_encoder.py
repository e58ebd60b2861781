"""Request encoder of the OpenAI chat dialect.

The key order is fixed and only settings follow `messages`, so a longer conversation shares its prefix with a shorter
one.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from holdfast.core.text.media_type import PDF
from holdfast.models.wire import (
    EMPTY_MESSAGE,
    IMAGE_TYPES,
    UnchangedCallIds,
    UniqueCallIds,
    WireNode,
    data_url,
    inline_text,
    media_line,
    object_text,
    outcome_text,
    schema_text,
    to_bytes,
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

# Markers for attachments of tool results, since a tool message has only text. The simulated model knows them too.
ATTACHED_BELOW = "[an attachment of this result follows the results]"
ATTACHED_ABOVE = "[attachments of the tool results above]"

# Tool choices that are no names of tools.
TOOL_CHOICES = ("auto", "none", "required")

_EFFORTS: Mapping[Effort, str] = {
    Effort.NONE: "none",
    Effort.LOW: "low",
    Effort.MEDIUM: "medium",
    Effort.HIGH: "high",
}


def encode_request(
    request: Request,
    model: str,
    blobs: Mapping[str, bytes],
    issuer: str,  # noqa: ARG001 - part of the interface; this dialect never sends reasoning
    *,
    is_official: bool = True,
    wants_stream: bool = True,
) -> bytes:
    """Encode a request body.

    Lossy: reasoning, empty text and assistant messages without text and calls are dropped; media of tool results move
    to a user message after the results; assistant text is joined. Endpoints other than OpenAI's own (`is_official`)
    get the output limit under its legacy name, which all servers know.
    """
    body: dict[str, WireNode] = {"model": model}
    if request.tools:
        body["tools"] = [_tool(spec) for spec in request.tools]
    system: list[WireNode] = [{"role": "system", "content": request.system}] if request.system else []
    body["messages"] = system + _messages(request.messages, UniqueCallIds(), blobs)
    if request.output_tokens_max is not None:
        body["max_completion_tokens" if is_official else "max_tokens"] = request.output_tokens_max
    if request.effort is not None:
        body["reasoning_effort"] = _EFFORTS[request.effort]
    body.update(_settings(request))
    if wants_stream:
        body["stream"] = True
        body["stream_options"] = {"include_usage": True}
    return to_bytes(body | request.settings.extra)


def _settings(request: Request) -> dict[str, WireNode]:
    """Return the settings of a request as fields. Tool settings without tools are rejected by the API."""
    settings = request.settings
    choice = settings.tool_choice
    wire: dict[str, WireNode] = {
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "stop": settings.stop or None,
        "seed": settings.seed,
        "verbosity": settings.verbosity,
        "service_tier": settings.service_tier,
        "metadata": settings.metadata or None,
    }
    if request.tools:
        named: WireNode = {"type": "function", "function": {"name": choice}}
        wire["tool_choice"] = choice if choice in (*TOOL_CHOICES, None) else named
        wire["parallel_tool_calls"] = settings.parallel_tool_calls
    if request.output is not None:
        schema: WireNode = {"name": request.output.name, "schema": msgspec.Raw(request.output.schema.encode())}
        wire["response_format"] = {"type": "json_schema", "json_schema": schema}
    return {name: value for name, value in wire.items() if value is not None}


def encode_tool(spec: ToolSpec) -> bytes:
    """Encode a tool as an element of `tools`."""
    return to_bytes(_tool(spec))


def _tool(spec: ToolSpec) -> WireNode:
    schema = msgspec.Raw(schema_text(spec.parameters).encode())
    return {
        "type": "function",
        "function": {"name": spec.name, "description": spec.description, "parameters": schema},
    }


def encode_messages(messages: Sequence[Message], blobs: Mapping[str, bytes], issuer: str) -> list[bytes]:  # noqa: ARG001
    """Encode messages as elements of `messages`, with unchanged call ids."""
    return [to_bytes(node) for node in _messages(messages, UnchangedCallIds(), blobs)]


def _messages(messages: Iterable[Message], ids: UnchangedCallIds, blobs: Mapping[str, bytes]) -> list[WireNode]:
    wire: list[WireNode] = []
    attachments: list[Media] = []
    for message in messages:
        results = [part for part in message.parts if isinstance(part, ToolResult)]
        if not results:
            # All results of one reply must follow it without a gap, so attachments wait until after the last.
            wire += _attachments_message(attachments, blobs)
            attachments = []
        if message.role is Role.ASSISTANT:
            wire += _assistant_message(message, ids, blobs)
        else:
            wire += _tool_and_user_messages(message, results, ids, blobs)
            attachments += _media_of(results)
    return wire + _attachments_message(attachments, blobs)


def _tool_and_user_messages(
    message: Message, results: Sequence[ToolResult], ids: UnchangedCallIds, blobs: Mapping[str, bytes]
) -> list[WireNode]:
    wire = [_tool_message(result, ids, blobs) for result in results]
    content = [part for part in message.parts if isinstance(part, Text | LargeText | Media)]
    if content or not results:
        wire.append({"role": "user", "content": _content(content, blobs)})
    return wire


def _media_of(results: Iterable[ToolResult]) -> list[Media]:
    return [part for result in results for part in result.parts if isinstance(part, Media)]


def _assistant_message(message: Message, ids: UnchangedCallIds, blobs: Mapping[str, bytes]) -> list[WireNode]:
    texts: list[str] = []
    calls: list[WireNode] = []
    for part in message.parts:
        match part:
            case Text() | LargeText():
                texts.append(inline_text(part, blobs))
            case Media():
                texts.append(media_line(part))
            case ToolCall():
                function = {"name": part.name, "arguments": object_text(part.arguments)}
                calls.append({"id": ids.of_call(part.call_id), "type": "function", "function": function})
            case Reasoning() | ToolResult():
                pass  # The dialect has no reasoning; tool results are separate messages.
    text = "".join(texts)
    if calls:
        return [{"role": "assistant", "content": text or None, "tool_calls": calls}]
    return [{"role": "assistant", "content": text}] if text else []


def _tool_message(result: ToolResult, ids: UnchangedCallIds, blobs: Mapping[str, bytes]) -> WireNode:
    texts = [ATTACHED_BELOW if isinstance(part, Media) else inline_text(part, blobs) for part in result.parts]
    content = [text for text in texts if text] or [outcome_text(result)]
    return {
        "role": "tool",
        "tool_call_id": ids.of_result(result.call_id),
        "content": content[0] if len(content) == 1 else [{"type": "text", "text": text} for text in content],
    }


def _attachments_message(attachments: Sequence[Media], blobs: Mapping[str, bytes]) -> list[WireNode]:
    if not attachments:
        return []
    return [{"role": "user", "content": _content([Text(ATTACHED_ABOVE), *attachments], blobs)}]


def _content(parts: Iterable[ContentPart], blobs: Mapping[str, bytes]) -> WireNode:
    nodes = [node for part in parts if (node := _content_node(part, blobs)) is not None]
    match nodes:
        case []:
            return EMPTY_MESSAGE
        case [{"type": "text", "text": str(only)}]:
            return only
        case _:
            return nodes


def _content_node(part: ContentPart, blobs: Mapping[str, bytes]) -> dict[str, WireNode] | None:
    if isinstance(part, Media):
        return _media_node(part, blobs)
    text = inline_text(part, blobs)
    return {"type": "text", "text": text} if text else None


def _media_node(media: Media, blobs: Mapping[str, bytes]) -> dict[str, WireNode]:
    url = data_url(media, blobs) if media.media_type in IMAGE_TYPES | {PDF} else None
    if url is None:
        return {"type": "text", "text": media_line(media)}
    if media.media_type == PDF:
        return {"type": "file", "file": {"filename": media.name or "document.pdf", "file_data": url}}
    return {"type": "image_url", "image_url": {"url": url}}
