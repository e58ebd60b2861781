"""Response encoder of the Anthropic dialect, as one body or as stream events."""

from collections.abc import Iterator, Mapping

import msgspec

from holdfast.models.anthropic.reasoning import redacted_text, thinking_block
from holdfast.models.anthropic.request_decoder import encode_error
from holdfast.models.sse import encode_event
from holdfast.models.stream_encoder import AnswerHead, LiveEncoder, replay
from holdfast.models.wire import WireNode, object_text, to_bytes
from holdfast.types.messages import Reasoning, Reply, StopReason, Text, ToolCall, Usage

_STOP_REASONS: Mapping[StopReason, str] = {
    StopReason.END: "end_turn",
    StopReason.TOOL_CALLS: "tool_use",
    StopReason.LENGTH: "max_tokens",
    StopReason.CONTENT_FILTER: "refusal",
    StopReason.OTHER: "end_turn",
}


def encode_reply(reply: Reply, reply_id: str, created: int = 0) -> bytes:  # noqa: ARG001 - no time in this dialect
    """Encode a reply as one JSON body."""
    return to_bytes(
        {
            **_message_head(reply_id, reply.model),
            "content": [_block(part) for part in reply.parts],
            "stop_reason": _STOP_REASONS[reply.stop_reason],
            "stop_sequence": None,
            "usage": _usage_node(reply.usage or Usage()),
        }
    )


def encode_stream(reply: Reply, reply_id: str, created: int = 0, *, wants_usage: bool = True) -> Iterator[bytes]:
    """Encode a reply as stream events."""
    usage = reply.usage or Usage()
    head = AnswerHead(reply_id, reply.model, created, input_tokens=_uncached_input_tokens(usage))
    return replay(MessagesEncoder(head, wants_usage=wants_usage), reply)


class MessagesEncoder(LiveEncoder):
    """Encodes a reply as events of the messages API: one numbered block at a time."""

    dialect = "anthropic"

    def __init__(self, head: AnswerHead, *, wants_usage: bool = True) -> None:
        super().__init__(head, wants_usage=wants_usage)
        self._index = -1
        # Type of the open block: "text", "thinking", "tool_use", or "".
        self._open = ""

    def start(self) -> list[bytes]:
        """Open the stream."""
        opening: dict[str, WireNode] = {
            **_message_head(self.head.reply_id, self.head.model),
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": _usage_node(Usage(self.head.input_tokens, 1)),
        }
        return [_event("message_start", {"message": opening})]

    def fail(self, kind: str, message: str, code: str | None = None) -> list[bytes]:  # noqa: ARG002 - no codes here
        """End the stream with an error."""
        return [encode_event(encode_error(kind, message), "error")]

    def _is_thinking(self) -> bool:
        return self._open == "thinking"

    def _begin(self, kind: str, block: WireNode) -> list[bytes]:
        ended = self._stop()
        self._index += 1
        self._open = kind
        return [*ended, _event("content_block_start", {"index": self._index, "content_block": block})]

    def _delta(self, delta: WireNode) -> bytes:
        return _event("content_block_delta", {"index": self._index, "delta": delta})

    def _stop(self) -> list[bytes]:
        if not self._open:
            return []
        # Clients treat thinking as complete only after a signature; an empty one means none.
        unsigned = [self._delta({"type": "signature_delta", "signature": ""})] if self._open == "thinking" else []
        return [*unsigned, *self._stop_block()]

    def _stop_block(self) -> list[bytes]:
        self._open = ""
        return [_event("content_block_stop", {"index": self._index})]

    def _write_text(self, text: str) -> list[bytes]:
        begun = [] if self._open == "text" else self._begin("text", {"type": "text", "text": ""})
        return [*begun, self._delta({"type": "text_delta", "text": text})]

    def _write_thinking(self, text: str, part_id: str) -> list[bytes]:  # noqa: ARG002 - thinking blocks have no id
        return [*self._begin_thinking(), self._delta({"type": "thinking_delta", "thinking": text})]

    def _begin_thinking(self) -> list[bytes]:
        block: WireNode = {"type": "thinking", "thinking": "", "signature": ""}
        return [] if self._open == "thinking" else self._begin("thinking", block)

    def _sign_thinking(self, opaque: str) -> list[bytes]:
        redacted = redacted_text(opaque)
        if redacted is not None:
            return [*self._begin("hidden", {"type": "redacted_thinking", "data": redacted}), *self._stop_block()]
        begun = self._begin_thinking()
        return [*begun, self._delta({"type": "signature_delta", "signature": opaque}), *self._stop_block()]

    def _open_call(self, index: int, call_id: str, name: str) -> list[bytes]:  # noqa: ARG002 - blocks have their own index
        return self._begin("tool_use", {"type": "tool_use", "id": call_id, "name": name, "input": {}})

    def _write_call(self, index: int, piece: str) -> list[bytes]:  # noqa: ARG002 - as above
        return [self._delta({"type": "input_json_delta", "partial_json": piece})]

    def _close_call(self, index: int, call_id: str, name: str, arguments: str) -> list[bytes]:  # noqa: ARG002 - as above
        return self._stop_block()

    def _end(self, reply: Reply) -> list[bytes]:
        usage = reply.usage or Usage()
        closing: dict[str, WireNode] = {"stop_reason": _STOP_REASONS[reply.stop_reason], "stop_sequence": None}
        return [
            *self._stop(),
            _event("message_delta", {"delta": closing, "usage": _usage_node(usage)}),
            _event("message_stop", {}),
        ]


def _event(name: str, fields: dict[str, WireNode]) -> bytes:
    return encode_event(to_bytes({"type": name, **fields}), name)


def _message_head(reply_id: str, model: str) -> dict[str, WireNode]:
    return {"id": reply_id, "type": "message", "role": "assistant", "model": model}


def _block(part: Text | ToolCall | Reasoning) -> dict[str, WireNode]:
    match part:
        case Text():
            return {"type": "text", "text": part.text}
        case ToolCall():
            arguments = msgspec.Raw(object_text(part.arguments).encode())
            return {"type": "tool_use", "id": part.call_id, "name": part.name, "input": arguments}
        case Reasoning():
            return thinking_block(part)


def _uncached_input_tokens(usage: Usage) -> int:
    """Return input tokens without cache reads and writes, which the API reports separately."""
    return usage.input_tokens - usage.cached_input_tokens - usage.cache_write_tokens


def _usage_node(usage: Usage) -> WireNode:
    node: dict[str, WireNode] = {
        "input_tokens": _uncached_input_tokens(usage),
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "cache_read_input_tokens": usage.cached_input_tokens,
        "output_tokens": usage.output_tokens,
    }
    if usage.reasoning_tokens:
        node["output_tokens_details"] = {"thinking_tokens": usage.reasoning_tokens}
    return node
