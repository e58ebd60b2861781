"""Response encoder of the Gemini dialect, as one body or as stream events."""

from collections.abc import Iterator, Mapping

import msgspec

from holdfast.models.sse import encode_event
from holdfast.models.stream_encoder import pieces
from holdfast.models.wire import WireNode, object_text, to_bytes
from holdfast.types.messages import Reasoning, Reply, StopReason, Text, ToolCall, Usage

_Node = dict[str, WireNode]

_FINISH_REASONS: Mapping[StopReason, str] = {
    StopReason.END: "STOP",
    StopReason.TOOL_CALLS: "STOP",
    StopReason.LENGTH: "MAX_TOKENS",
    StopReason.CONTENT_FILTER: "SAFETY",
    StopReason.OTHER: "OTHER",
}


def encode_reply(reply: Reply, reply_id: str, created: int = 0) -> bytes:  # noqa: ARG001 - no time in this dialect
    """Encode a reply as one JSON body."""
    parts = [node for nodes in _wire_parts(reply) for node in nodes]
    return to_bytes(_response(reply, reply_id, parts, is_last=True))


def encode_stream(
    reply: Reply,
    reply_id: str,
    created: int = 0,  # noqa: ARG001 - as above
    *,
    wants_usage: bool = True,  # noqa: ARG001 - this dialect always reports usage
) -> Iterator[bytes]:
    """Encode a reply as stream events."""
    for nodes in _wire_parts(reply):
        for node in nodes:
            for piece in _split(node):
                yield encode_event(to_bytes(_response(reply, reply_id, [piece], is_last=False)))
    yield encode_event(to_bytes(_response(reply, reply_id, [], is_last=True)))


def _response(reply: Reply, reply_id: str, parts: list[_Node], *, is_last: bool) -> _Node:
    candidate: _Node = {"content": {"parts": parts, "role": "model"}, "index": 0}
    body: _Node = {"candidates": [candidate]}
    if is_last:
        candidate["finishReason"] = _FINISH_REASONS[reply.stop_reason]
        if reply.usage is not None:
            body["usageMetadata"] = _usage_node(reply.usage)
    return {**body, "modelVersion": reply.model, "responseId": reply_id}


def _wire_parts(reply: Reply) -> Iterator[list[_Node]]:
    """Yield the wire parts of a reply; a signature is attached to the next part."""
    signature = ""
    for part in reply.parts:
        match part:
            case Reasoning() if part.text:
                yield _signed({"text": part.text, "thought": True}, part.opaque)
                continue
            case Reasoning():
                if signature:
                    yield _signed({"text": ""}, signature)
                signature = part.opaque
                continue
            case Text():
                yield _signed({"text": part.text}, signature)
            case ToolCall():
                arguments = msgspec.Raw(object_text(part.arguments).encode())
                yield _signed({"functionCall": {"name": part.name, "args": arguments, "id": part.call_id}}, signature)
        signature = ""
    if signature:
        yield _signed({"text": ""}, signature)


def _signed(node: _Node, signature: str) -> list[_Node]:
    return [{**node, "thoughtSignature": signature}] if signature else [node]


def _split(part: _Node) -> Iterator[_Node]:
    """Split a text into pieces. The last piece of a thought has its signature; a signed text stays in one piece."""
    text = part.get("text")
    if not isinstance(text, str) or not text or ("thoughtSignature" in part and "thought" not in part):
        yield part
        return
    cut = list(pieces(text))
    for piece in cut[:-1]:
        yield {key: node for key, node in {**part, "text": piece}.items() if key != "thoughtSignature"}
    yield {**part, "text": cut[-1]}


def _usage_node(usage: Usage) -> WireNode:
    return {
        "promptTokenCount": usage.input_tokens,
        "candidatesTokenCount": usage.output_tokens - usage.reasoning_tokens,
        "cachedContentTokenCount": usage.cached_input_tokens,
        "thoughtsTokenCount": usage.reasoning_tokens,
        "totalTokenCount": usage.input_tokens + usage.output_tokens,
    }
