"""The Anthropic dialect as a server speaks it: requests in, answers and errors out."""

from collections.abc import Iterator, Mapping

import msgspec

from holdfast.core.messages import (
    ContentPart,
    Effort,
    Media,
    Message,
    Part,
    Reasoning,
    Reply,
    Request,
    Role,
    StopReason,
    Text,
    ToolCall,
    ToolOutcome,
    ToolResult,
    ToolSpec,
    Usage,
)
from holdfast.models.anthropic_messages.shapes import Block, MessagesBody, Source, Turn, blocks_of, read_body
from holdfast.models.anthropic_messages.thinking import effort_of_budget, hidden, thinking_block
from holdfast.models.sse import encode_event
from holdfast.models.wire import (
    DecodedRequest,
    MalformedRequestError,
    WireNode,
    object_text,
    received_media,
    to_bytes,
)

_EFFORTS: Mapping[str, Effort] = {
    "low": Effort.LOW,
    "medium": Effort.MEDIUM,
    "high": Effort.HIGH,
    "xhigh": Effort.HIGH,
    "max": Effort.HIGH,
}
_STOP_REASONS: Mapping[StopReason, str] = {
    StopReason.END: "end_turn",
    StopReason.TOOL_CALLS: "tool_use",
    StopReason.LENGTH: "max_tokens",
    StopReason.CONTENT_FILTER: "refusal",
    StopReason.OTHER: "end_turn",
}
# Letters per delta: about five tokens, so that a page shows a smooth stream and long answers stay cheap.
_DELTA_CHARS = 20


def decode_request(body: bytes, issuer: str = "") -> DecodedRequest:
    """Read the body of a request, or raise `MalformedRequestError`.

    Results and a person's words that came in one message become two. Thinking is said to come from `issuer`. An image
    that is named by an address becomes a line of text. Settings that `Request` does not know are dropped.
    """
    wire = read_body(body)
    blobs: dict[str, bytes] = {}
    messages = tuple(message for turn in wire.messages for message in _decoded(turn, blobs, issuer))
    system = wire.system or ""
    if not isinstance(system, str):
        system = "\n\n".join(block.text for block in system if block.text)
    request = Request(
        messages,
        system,
        tuple(ToolSpec(tool.name, tool.description, bytes(tool.input_schema).decode()) for tool in wire.tools or ()),
        wire.max_tokens,
        _effort(wire),
    )
    return DecodedRequest(request, wire.model, bool(wire.stream), blobs)


def _effort(wire: MessagesBody) -> Effort | None:
    thinking = wire.thinking
    if thinking is not None and thinking.type == "disabled":
        return Effort.NONE
    if thinking is not None and thinking.type == "enabled":
        return effort_of_budget(thinking.budget_tokens)
    named = wire.output_config.effort if wire.output_config is not None else None
    if named is not None and named not in _EFFORTS:
        raise MalformedRequestError(f"output_config.effort {named!r} is none of {', '.join(_EFFORTS)}")
    if named is not None:
        return _EFFORTS[named]
    return Effort.HIGH if thinking is not None else None


def _decoded(turn: Turn, blobs: dict[str, bytes], issuer: str) -> list[Message]:
    parts = [_part(block, blobs, issuer) for block in blocks_of(turn.content)]
    if turn.role == "assistant":
        return [Message(Role.ASSISTANT, tuple(parts))]
    results = tuple(part for part in parts if isinstance(part, ToolResult))
    words = tuple(part for part in parts if not isinstance(part, ToolResult))
    messages = [Message(Role.TOOL, results)] if results else []
    return [*messages, Message(Role.USER, words)] if words or not results else messages


def _part(block: Block, blobs: dict[str, bytes], issuer: str) -> Part:
    match block.type:
        case "tool_use":
            return ToolCall(block.id, block.name, bytes(block.input).decode())
        case "tool_result":
            outcome = ToolOutcome.FAILED if block.is_error else ToolOutcome.DONE
            return ToolResult(block.tool_use_id, _result_parts(block.content, blobs), outcome)
        case "thinking":
            return Reasoning(block.thinking, issuer, block.signature)
        case "redacted_thinking":
            return hidden(issuer, block.data)
        case _:
            return _content_part(block, blobs)


def _result_parts(content: str | list[Block] | None, blobs: dict[str, bytes]) -> tuple[ContentPart, ...]:
    return tuple(_content_part(block, blobs) for block in blocks_of(content))


def _content_part(block: Block, blobs: dict[str, bytes]) -> ContentPart:
    match block.type:
        case "text":
            return Text(block.text)
        case "image" | "document" if block.source is not None:
            return _sourced(block.source, block.title or "", blobs)
        case other:
            raise MalformedRequestError(f"a block of type {other!r} cannot be read here; send text, image or document")


def _sourced(source: Source, title: str, blobs: dict[str, bytes]) -> Text | Media:
    match source.type:
        case "base64":
            return received_media(source.data, source.media_type, blobs, title)
        case "text":
            return Text(source.data)
        case "url":
            return Text(f"[file at {source.url}]")
        case other:
            raise MalformedRequestError(f"a source of type {other!r} cannot be read here; send base64, text or url")


# --- answers -----------------------------------------------------------------------------------------------------


def encode_reply(reply: Reply, reply_id: str, created: int = 0) -> bytes:  # noqa: ARG001 - no time in this dialect
    """Return a whole answer as a JSON body."""
    usage = reply.usage or Usage()
    return to_bytes(
        {
            **_message_head(reply, reply_id),
            "content": [_block(part) for part in reply.parts],
            "stop_reason": _STOP_REASONS[reply.stop_reason],
            "stop_sequence": None,
            "usage": _usage_node(usage),
        }
    )


def encode_stream(
    reply: Reply,
    reply_id: str,
    created: int = 0,  # noqa: ARG001 - as above
    *,
    wants_usage: bool = True,  # noqa: ARG001 - this dialect always tells
) -> Iterator[bytes]:
    """Yield an answer as the events of a stream."""
    usage = reply.usage or Usage()
    opening: dict[str, WireNode] = {
        **_message_head(reply, reply_id),
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": _usage_node(Usage(usage.input_tokens, 1, usage.cached_input_tokens)),
    }
    yield _event("message_start", {"message": opening})
    for index, part in enumerate(reply.parts):
        yield _event("content_block_start", {"index": index, "content_block": _opened(part)})
        for delta in _block_deltas(part):
            yield _event("content_block_delta", {"index": index, "delta": delta})
        yield _event("content_block_stop", {"index": index})
    closing: dict[str, WireNode] = {"stop_reason": _STOP_REASONS[reply.stop_reason], "stop_sequence": None}
    yield _event("message_delta", {"delta": closing, "usage": {"output_tokens": usage.output_tokens}})
    yield _event("message_stop", {})


def encode_error(kind: str, message: str) -> bytes:
    """Return the body of an error; inside a stream it is the payload of an `error` event."""
    return to_bytes({"type": "error", "error": {"type": kind, "message": message}})


def _event(name: str, fields: dict[str, WireNode]) -> bytes:
    return encode_event(to_bytes({"type": name, **fields}), name)


def _message_head(reply: Reply, reply_id: str) -> dict[str, WireNode]:
    return {"id": reply_id, "type": "message", "role": "assistant", "model": reply.model}


def _block(part: Text | ToolCall | Reasoning) -> dict[str, WireNode]:
    match part:
        case Text():
            return {"type": "text", "text": part.text}
        case ToolCall():
            arguments = msgspec.Raw(object_text(part.arguments).encode())
            return {"type": "tool_use", "id": part.call_id, "name": part.name, "input": arguments}
        case Reasoning():
            return thinking_block(part)


def _opened(part: Text | ToolCall | Reasoning) -> WireNode:
    """Return a block as it starts: whatever comes in deltas is empty."""
    block = _block(part)
    emptied: dict[str, WireNode] = {"text": "", "thinking": "", "signature": "", "input": {}}
    return {key: emptied.get(key, node) for key, node in block.items()}


def _block_deltas(part: Text | ToolCall | Reasoning) -> Iterator[WireNode]:
    match part:
        case Text():
            for piece in _pieces(part.text):
                yield {"type": "text_delta", "text": piece}
        case ToolCall():
            for piece in _pieces(object_text(part.arguments)):
                yield {"type": "input_json_delta", "partial_json": piece}
        case Reasoning():
            block = thinking_block(part)
            if block["type"] == "thinking":
                for piece in _pieces(part.text):
                    yield {"type": "thinking_delta", "thinking": piece}
                yield {"type": "signature_delta", "signature": part.opaque}


def _pieces(text: str) -> Iterator[str]:
    return (text[at : at + _DELTA_CHARS] for at in range(0, len(text), _DELTA_CHARS))


def _usage_node(usage: Usage) -> WireNode:
    return {
        "input_tokens": usage.input_tokens - usage.cached_input_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached_input_tokens,
        "output_tokens": usage.output_tokens,
    }
