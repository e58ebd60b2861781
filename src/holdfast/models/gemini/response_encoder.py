"""Response encoder of the Gemini dialect, as one body or as stream events."""

from collections.abc import Iterator, Mapping

import msgspec

from holdfast.models.gemini.request_decoder import encode_error
from holdfast.models.sse import encode_event
from holdfast.models.stream_encoder import AnswerHead, LiveEncoder, pieces
from holdfast.models.wire import WireNode, object_text, to_bytes
from holdfast.ports import ReasoningDelta
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


class GenerateEncoder(LiveEncoder):
    """Encodes a reply as responses with one part each. A call is sent when it is complete."""

    dialect = "gemini"

    def __init__(self, head: AnswerHead, *, wants_usage: bool = True) -> None:
        super().__init__(head, wants_usage=wants_usage)
        # The signature of the next part.
        self._signature = ""
        self._has_open_thought = False

    def start(self) -> list[bytes]:
        """Open the stream: the dialect has no event for it."""
        return []

    def fail(self, kind: str, message: str, code: str | None = None) -> list[bytes]:
        """End the stream with an error; `code` is its HTTP status."""
        return [encode_event(encode_error(int(code or 500), kind, message))]

    def _is_thinking(self) -> bool:
        return self._has_open_thought

    def _take_reasoning(self, delta: ReasoningDelta) -> list[bytes]:
        """Encode a piece of reasoning: a signature belongs to the text that it comes with, else to the next part."""
        self._thinking.append(delta.text)
        events = self._end_calls()
        opaque = self._visible_opaque(delta.opaque)
        self._opaques |= {opaque} if opaque else set()
        if delta.text:
            self._has_open_thought = not opaque
            return [*events, self._part(_signed({"text": delta.text, "thought": True}, opaque)[0])]
        if opaque:
            events += self._unattached()
            self._signature = opaque
        return events

    def _unsent_reasoning_events(self, part: Reasoning, unsent: str) -> Iterator[bytes]:
        is_signed = not part.opaque or part.opaque in self._opaques
        *before, last = [*pieces(unsent)] or [""]
        for piece in before:
            yield from self.feed(ReasoningDelta(piece))
        if last or (not is_signed and not part.text):
            yield from self.feed(ReasoningDelta(last, "" if is_signed else part.opaque))
        elif not is_signed and self._has_open_thought:
            self._opaques.add(part.opaque)
            self._has_open_thought = False
            if opaque := self._visible_opaque(part.opaque):
                yield self._part({"text": "", "thought": True, "thoughtSignature": opaque})

    def _write_text(self, text: str) -> list[bytes]:
        return [self._signed_part({"text": text})]

    def _write_thinking(self, text: str, part_id: str) -> list[bytes]:  # noqa: ARG002 - thoughts have no id
        return [self._part({"text": text, "thought": True})]

    def _sign_thinking(self, opaque: str) -> list[bytes]:
        return [self._part({"text": "", "thought": True, "thoughtSignature": opaque})]

    def _open_call(self, index: int, call_id: str, name: str) -> list[bytes]:  # noqa: ARG002 - sent when complete
        return []

    def _write_call(self, index: int, piece: str) -> list[bytes]:  # noqa: ARG002 - as above
        return []

    def _close_call(self, index: int, call_id: str, name: str, arguments: str) -> list[bytes]:  # noqa: ARG002 - no index
        args = msgspec.Raw(object_text(arguments).encode())
        return [self._signed_part({"functionCall": {"name": name, "args": args, "id": call_id}})]

    def _end(self, reply: Reply) -> list[bytes]:
        return [*self._unattached(), self._event([], reply)]

    def _unattached(self) -> list[bytes]:
        return [self._signed_part({"text": ""})] if self._signature else []

    def _signed_part(self, node: _Node) -> bytes:
        signature, self._signature = self._signature, ""
        self._has_open_thought = False
        return self._part(_signed(node, signature)[0])

    def _part(self, node: _Node) -> bytes:
        return self._event([node])

    def _event(self, parts: list[_Node], reply: Reply | None = None) -> bytes:
        shown = reply or Reply((), StopReason.END, None, self.head.model)
        return encode_event(to_bytes(_response(shown, self.head.reply_id, parts, is_last=reply is not None)))


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
