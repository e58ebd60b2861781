"""Response encoder of the responses dialect, as one body or as stream events."""

from collections.abc import Iterator, Mapping

import msgspec

from holdfast.models.openai_responses.request_encoder import reasoning_id, reasoning_node
from holdfast.models.sse import encode_event
from holdfast.models.stream_encoder import AnswerHead, LiveEncoder, replay
from holdfast.models.wire import WireNode, to_bytes
from holdfast.types.messages import Reasoning, Reply, StopReason, Text, ToolCall, Usage

_Node = dict[str, WireNode]

_INCOMPLETE: Mapping[StopReason, str] = {
    StopReason.LENGTH: "max_output_tokens",
    StopReason.CONTENT_FILTER: "content_filter",
}


def encode_reply(reply: Reply, reply_id: str, created: int = 0) -> bytes:
    """Encode a reply as one JSON body."""
    output = [_output_node(part, f"{reply_id}_{at}") for at, part in enumerate(reply.parts)]
    return to_bytes(_final_response(AnswerHead(reply_id, reply.model, created), reply, output))


def encode_stream(reply: Reply, reply_id: str, created: int = 0, *, wants_usage: bool = True) -> Iterator[bytes]:
    """Encode a reply as stream events."""
    return replay(ResponsesEncoder(AnswerHead(reply_id, reply.model, created), wants_usage=wants_usage), reply)


def _response(head: AnswerHead, status: str, output: list[WireNode]) -> _Node:
    """Return a response with every field that the official client requires."""
    return {
        "id": head.reply_id,
        "object": "response",
        "created_at": head.created,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": head.model,
        "output": output,
        "parallel_tool_calls": True,
        "temperature": None,
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
        "usage": None,
    }


def _final_response(head: AnswerHead, reply: Reply, output: list[WireNode]) -> _Node:
    reason = _INCOMPLETE.get(reply.stop_reason)
    node = _response(head, "completed" if reason is None else "incomplete", output)
    node["incomplete_details"] = None if reason is None else {"reason": reason}
    node["usage"] = None if reply.usage is None else _usage_node(reply.usage)
    return node


def _usage_node(usage: Usage) -> WireNode:
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_input_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }


def _output_node(part: Text | ToolCall | Reasoning, name: str) -> WireNode:
    match part:
        case Text():
            return _message(f"msg_{name}", [_text(part.text)])
        case ToolCall():
            return _call(f"fc_{name}", part.call_id, part.name, part.arguments)
        case Reasoning():
            return reasoning_node(part, f"rs_{name}")


def _message(item_id: str, content: list[WireNode], status: str = "completed") -> _Node:
    return {"id": item_id, "type": "message", "status": status, "role": "assistant", "content": content}


def _text(text: str) -> _Node:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _call(item_id: str, call_id: str, name: str, arguments: str, status: str = "completed") -> _Node:
    return {
        "id": item_id,
        "type": "function_call",
        "status": status,
        "call_id": call_id,
        "name": name,
        "arguments": arguments,
    }


class ResponsesEncoder(LiveEncoder):
    """Encodes a reply as numbered events of the responses API."""

    dialect = "openai-responses"

    def __init__(self, head: AnswerHead, *, wants_usage: bool = True) -> None:
        super().__init__(head, wants_usage=wants_usage)
        self._number = 0
        self._items: list[WireNode] = []
        # Kind, id and text of the open item.
        self._kind = ""
        self._item_id = ""
        self._written = ""

    def start(self) -> list[bytes]:
        """Open the stream."""
        opening = _response(self.head, "in_progress", [])
        return [
            self._event("response.created", {"response": opening}),
            self._event("response.in_progress", {"response": opening}),
        ]

    def fail(self, kind: str, message: str, code: str | None = None) -> list[bytes]:
        """End the stream with an error."""
        failed = _response(self.head, "failed", self._items)
        failed["error"] = {"code": code or kind, "message": message}
        return [self._event("response.failed", {"response": failed})]

    def _event(self, name: str, fields: _Node) -> bytes:
        event = encode_event(to_bytes({"type": name, "sequence_number": self._number, **fields}), name)
        self._number += 1
        return event

    def _is_thinking(self) -> bool:
        return self._kind == "reasoning"

    def _part_id(self, part: Reasoning) -> str:
        return reasoning_id(part.opaque) if self._visible_opaque(part.opaque) else ""

    @property
    def _place(self) -> _Node:
        return {"item_id": self._item_id, "output_index": len(self._items)}

    def _item_added(self, kind: str, item_id: str, output: WireNode) -> bytes:
        self._kind, self._item_id, self._written = kind, item_id, ""
        return self._event("response.output_item.added", {"output_index": len(self._items), "item": output})

    def _item_done(self, output: WireNode) -> bytes:
        event = self._event("response.output_item.done", {"output_index": len(self._items), "item": output})
        self._items.append(output)
        self._kind, self._item_id = "", ""
        return event

    def _own_id(self, prefix: str) -> str:
        return f"{prefix}_{self.head.reply_id}_{len(self._items)}"

    # --- Text ---

    def _write_text(self, text: str) -> list[bytes]:
        events: list[bytes] = []
        if self._kind != "message":
            events += self._end_part()
            item_id = self._own_id("msg")
            events.append(self._item_added("message", item_id, _message(item_id, [], "in_progress")))
            part: _Node = {**self._place, "content_index": 0, "part": _text("")}
            events.append(self._event("response.content_part.added", part))
        self._written += text
        delta: _Node = {**self._place, "content_index": 0, "delta": text, "logprobs": []}
        return [*events, self._event("response.output_text.delta", delta)]

    def _end_part(self) -> list[bytes]:
        """End the open text or reasoning item."""
        if self._kind == "message":
            place: _Node = {**self._place, "content_index": 0}
            output = _message(self._item_id, [_text(self._written)])
            return [
                self._event("response.output_text.done", {**place, "text": self._written, "logprobs": []}),
                self._event("response.content_part.done", {**place, "part": _text(self._written)}),
                self._item_done(output),
            ]
        if self._kind == "reasoning":
            return [*self._end_summary(), self._item_done(reasoning_node(Reasoning(self._written), self._item_id))]
        return []

    # --- Reasoning ---

    def _write_thinking(self, text: str, part_id: str) -> list[bytes]:
        events: list[bytes] = []
        if self._kind != "reasoning" or (part_id and part_id != self._item_id):
            events += self._end_part()
            item_id = part_id or self._own_id("rs")
            opening: WireNode = {"id": item_id, "type": "reasoning", "summary": []}
            events.append(self._item_added("reasoning", item_id, opening))
            part: _Node = {**self._place, "summary_index": 0, "part": {"type": "summary_text", "text": ""}}
            events.append(self._event("response.reasoning_summary_part.added", part))
        self._written += text
        delta: _Node = {**self._place, "summary_index": 0, "delta": text}
        return [*events, self._event("response.reasoning_summary_text.delta", delta)]

    def _end_summary(self) -> list[bytes]:
        place: _Node = {**self._place, "summary_index": 0}
        part: WireNode = {"type": "summary_text", "text": self._written}
        return [
            self._event("response.reasoning_summary_text.done", {**place, "text": self._written}),
            self._event("response.reasoning_summary_part.done", {**place, "part": part}),
        ]

    def _sign_thinking(self, opaque: str) -> list[bytes]:
        output, item_id = msgspec.Raw(opaque.encode()), reasoning_id(opaque)
        if self._kind == "reasoning" and item_id == self._item_id:
            return [*self._end_summary(), self._item_done(output)]
        events = self._end_part()
        opening: WireNode = {"id": item_id, "type": "reasoning", "summary": []}
        return [*events, self._item_added("reasoning", item_id, opening), self._item_done(output)]

    # --- Calls and end ---

    def _open_call(self, index: int, call_id: str, name: str) -> list[bytes]:  # noqa: ARG002 - items have their own index
        events = self._end_part()
        item_id = self._own_id("fc")
        return [*events, self._item_added("call", item_id, _call(item_id, call_id, name, "", "in_progress"))]

    def _write_call(self, index: int, piece: str) -> list[bytes]:  # noqa: ARG002 - as above
        return [self._event("response.function_call_arguments.delta", {**self._place, "delta": piece})]

    def _close_call(self, index: int, call_id: str, name: str, arguments: str) -> list[bytes]:  # noqa: ARG002 - as above
        done: _Node = {**self._place, "name": name, "arguments": arguments}
        output = _call(self._item_id, call_id, name, arguments)
        return [self._event("response.function_call_arguments.done", done), self._item_done(output)]

    def _end(self, reply: Reply) -> list[bytes]:
        events = self._end_part()
        name = "response.completed" if reply.stop_reason not in _INCOMPLETE else "response.incomplete"
        return [*events, self._event(name, {"response": _final_response(self.head, reply, self._items)})]
