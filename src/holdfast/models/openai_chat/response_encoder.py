"""Response encoder of the OpenAI chat dialect, as one body or as stream events."""

from collections.abc import Iterator, Mapping

from holdfast.models.sse import encode_event
from holdfast.models.stream_encoder import AnswerHead, LiveEncoder, replay
from holdfast.models.wire import WireNode, to_bytes
from holdfast.types.messages import Reasoning, Reply, StopReason, Text, ToolCall, Usage

_FINISH_REASONS: Mapping[StopReason, str] = {
    StopReason.END: "stop",
    StopReason.TOOL_CALLS: "tool_calls",
    StopReason.LENGTH: "length",
    StopReason.CONTENT_FILTER: "content_filter",
    StopReason.OTHER: "stop",
}


def encode_reply(reply: Reply, reply_id: str, created: int = 0) -> bytes:
    """Encode a reply as one JSON body."""
    message: dict[str, WireNode] = {"role": "assistant", "content": _joined(reply, Text) or None, "refusal": None}
    reasoning = _joined(reply, Reasoning)
    if reasoning:
        message["reasoning_content"] = reasoning
    calls = [part for part in reply.parts if isinstance(part, ToolCall)]
    if calls:
        message["tool_calls"] = [
            {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in calls
        ]
    choice: WireNode = {
        "index": 0,
        "message": message,
        "logprobs": None,
        "finish_reason": _FINISH_REASONS[reply.stop_reason],
    }
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
    """Encode a reply as stream events."""
    return replay(ChatEncoder(AnswerHead(reply_id, reply.model, created), wants_usage=wants_usage), reply)


class ChatEncoder(LiveEncoder):
    """Encodes a reply as chat completion chunks. The dialect has no field for signatures."""

    dialect = "openai-chat"

    def start(self) -> list[bytes]:
        """Open the stream."""
        return [self._chunk({"role": "assistant", "content": ""})]

    def fail(self, kind: str, message: str, code: str | None = None) -> list[bytes]:
        """End the stream with an error, as OpenAI and compatible servers do."""
        error: WireNode = {"message": message, "type": kind, "param": None, "code": code}
        return [encode_event(to_bytes({"error": error})), encode_event(b"[DONE]")]

    def _head(self) -> dict[str, WireNode]:
        head = self.head
        return {
            "id": head.reply_id,
            "object": "chat.completion.chunk",
            "created": head.created,
            "model": head.model,
        }

    def _chunk(self, delta: WireNode, finish_reason: str | None = None) -> bytes:
        choices: WireNode = [{"index": 0, "delta": delta, "finish_reason": finish_reason}]
        return encode_event(to_bytes({**self._head(), "choices": choices}))

    def _call_chunk(self, call: dict[str, WireNode]) -> bytes:
        return self._chunk({"tool_calls": [call]})

    def _is_thinking(self) -> bool:
        return False

    def _write_text(self, text: str) -> list[bytes]:
        return [self._chunk({"content": text})]

    def _write_thinking(self, text: str, part_id: str) -> list[bytes]:  # noqa: ARG002 - reasoning has no id
        return [self._chunk({"reasoning_content": text})]

    def _sign_thinking(self, opaque: str) -> list[bytes]:  # noqa: ARG002 - no field for it
        return []

    def _open_call(self, index: int, call_id: str, name: str) -> list[bytes]:
        opening: WireNode = {"name": name, "arguments": ""}
        return [self._call_chunk({"index": index, "id": call_id, "type": "function", "function": opening})]

    def _write_call(self, index: int, piece: str) -> list[bytes]:
        return [self._call_chunk({"index": index, "function": {"arguments": piece}})]

    def _close_call(self, index: int, call_id: str, name: str, arguments: str) -> list[bytes]:  # noqa: ARG002
        return []  # A call ends with the start of the next one.

    def _end(self, reply: Reply) -> list[bytes]:
        events = [self._chunk({}, _FINISH_REASONS[reply.stop_reason])]
        if self.wants_usage and reply.usage is not None:
            usage = _usage_node(reply.usage)
            events.append(encode_event(to_bytes({**self._head(), "choices": [], "usage": usage})))
        return [*events, encode_event(b"[DONE]")]


def _joined(reply: Reply, kind: type[Text] | type[Reasoning]) -> str:
    return "".join(part.text for part in reply.parts if isinstance(part, kind))


def _usage_node(usage: Usage) -> WireNode:
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_input_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }
