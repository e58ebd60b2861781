"""Response decoder of the Anthropic dialect.

Event types are read from the payload; SSE event names are ignored. Errors can occur inside a stream with status 200.
"""

from typing import ClassVar

import msgspec

from holdfast.models.anthropic.reasoning import redacted_reasoning
from holdfast.models.sse import Event
from holdfast.models.stream_decoder import AnswerDecoder
from holdfast.ports import Delta, ReasoningDelta, TextDelta, ToolCallDelta
from holdfast.types.messages import Reasoning, Reply, StopReason, Text, ToolCall, Usage

STOP_REASONS = {
    "end_turn": StopReason.END,
    "stop_sequence": StopReason.END,
    "tool_use": StopReason.TOOL_CALLS,
    "max_tokens": StopReason.LENGTH,
    "model_context_window_exceeded": StopReason.LENGTH,
    "refusal": StopReason.CONTENT_FILTER,
}

# Size charged per block besides its text, so that endless empty blocks reach the limit too.
_BLOCK_WEIGHT = " " * 256


class _OutputDetails(msgspec.Struct):
    thinking_tokens: int | None = None


class _Usage(msgspec.Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    output_tokens_details: _OutputDetails | None = None


class _Block(msgspec.Struct):
    type: str
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    id: str | None = None
    name: str | None = None
    input: msgspec.Raw = msgspec.Raw(b"{}")


class _BlockDelta(msgspec.Struct):
    """Delta of a block or of `message_delta`; only one of the fields is set."""

    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    partial_json: str | None = None
    stop_reason: str | None = None


class _Message(msgspec.Struct):
    type: str = ""
    model: str | None = None
    content: list[_Block] | None = None
    stop_reason: str | None = None
    usage: _Usage | None = None


class _Event(msgspec.Struct):
    type: str
    index: int = 0
    message: _Message | None = None
    content_block: _Block | None = None
    delta: _BlockDelta | None = None
    usage: _Usage | None = None


class _PartialBlock:
    """A block while it is streamed."""

    def __init__(self, block: _Block, position: int) -> None:
        self.kind = block.type
        self.position = position
        self.call_id = block.id or ""
        self.name = block.name or ""
        self.redacted = block.data or ""
        self.signature = [block.signature or ""]
        self.text = [block.text or block.thinking or ""]
        self.initial_input = bytes(block.input).decode()
        self.arguments: list[str] = []
        # The number of this call in the reply, and whether an earlier call has its id.
        self.call_number = 0
        self.is_id_used = False


_event_decoder = msgspec.json.Decoder(_Event)
_message_decoder = msgspec.json.Decoder(_Message)


class StreamDecoder(AnswerDecoder):
    """Decodes one response of the messages API, streamed or as one body."""

    dialect: ClassVar[str] = "anthropic"

    def __init__(self, issuer: str, nonce: str = "0") -> None:
        super().__init__(issuer, nonce)
        self._model = ""
        self._blocks: dict[int, _PartialBlock] = {}
        self._call_ids: set[str] = set()
        self._call_count = 0
        self._stop_reason: str | None = None
        self._usage: _Usage | None = None
        self._is_stopped = False

    def _is_ended(self) -> bool:
        return self._is_stopped

    def _take_event(self, event: Event) -> list[Delta]:
        read = _event_decoder.decode(event.payload)
        match read.type:
            case "message_start" if read.message is not None:
                return self._take_message(read.message)
            case "content_block_start" if read.content_block is not None:
                return self._take_block(read.index, read.content_block)
            case "content_block_delta" if read.delta is not None:
                return self._take_delta(read.index, read.delta)
            case "message_delta":
                if read.delta is not None:
                    self._stop_reason = read.delta.stop_reason or self._stop_reason
                self._take_usage(read.usage)
            case "content_block_stop":
                return self._take_block_stop(read.index)
            case "message_stop":
                self._is_stopped = True
            case "error":
                self._fail("the provider reported an error inside the stream", event.payload)
            case _:
                pass  # Pings and new event types: the API requires clients to ignore unknown ones.
        return []

    def _take_body(self, body: bytes) -> None:
        message = _message_decoder.decode(body)
        if message.type != "message":
            self._fail("the provider returned something other than a response", body)
            return
        self._take_message(message)
        self._is_stopped = True

    def _take_message(self, message: _Message) -> list[Delta]:
        self._model = message.model or self._model
        self._stop_reason = message.stop_reason or self._stop_reason
        self._take_usage(message.usage)
        deltas: list[Delta] = []
        for index, block in enumerate(message.content or ()):
            deltas += self._take_block(index, block)
        return deltas

    def _take_usage(self, usage: _Usage | None) -> None:
        """Merge usage; later numbers replace earlier ones because they are cumulative."""
        if usage is None:
            return
        known = msgspec.structs.asdict(self._usage) if self._usage is not None else {}
        newer = {name: count for name, count in msgspec.structs.asdict(usage).items() if count is not None}
        self._usage = _Usage(**{**known, **newer})

    def _take_block(self, index: int, block: _Block) -> list[Delta]:
        self._count(_BLOCK_WEIGHT)
        partial = _PartialBlock(block, len(self._blocks))
        self._blocks[index] = partial
        if partial.kind == "tool_use":
            self._number_call(partial)
        text = partial.text[0]
        self._count(text + partial.redacted + partial.initial_input)
        if not text:
            return []
        return [TextDelta(text)] if partial.kind == "text" else [ReasoningDelta(text)]

    def _take_delta(self, index: int, delta: _BlockDelta) -> list[Delta]:
        block = self._blocks.get(index)
        if block is None:
            # Some servers omit the start of a text block. A call needs its start event for the name.
            kind = "thinking" if delta.thinking is not None else "text"
            block = self._blocks[index] = _PartialBlock(_Block(kind), len(self._blocks))
        block.signature.append(delta.signature or "")
        if delta.partial_json is not None:
            self._count(delta.partial_json)
            block.arguments.append(delta.partial_json)
            # A duplicate id gets a new one in the reply.
            call_id = "" if block.is_id_used else block.call_id
            return [ToolCallDelta(block.call_number, block.name, delta.partial_json, call_id)]
        text = delta.text or delta.thinking or ""
        self._count(text)
        block.text.append(text)
        if not text:
            return []
        return [TextDelta(text)] if delta.text else [ReasoningDelta(text)]

    def _take_block_stop(self, index: int) -> list[Delta]:
        """Return the signature or redacted data of a finished thinking block."""
        block = self._blocks.get(index)
        if block is None:
            return []
        opaque = redacted_reasoning(self.issuer, block.redacted).opaque if block.redacted else "".join(block.signature)
        return [ReasoningDelta("", opaque)] if opaque and block.kind in ("thinking", "redacted_thinking") else []

    def _number_call(self, block: _PartialBlock) -> None:
        block.call_number, block.is_id_used = self._call_count, block.call_id in self._call_ids
        self._call_ids.add(block.call_id)
        self._call_count += 1
        self._check_calls(self._call_count)

    def _reply(self) -> Reply | None:
        if self._stop_reason is None and not self._is_stopped:
            return None
        parts: list[Text | ToolCall | Reasoning] = []
        used_ids: set[str] = set()
        for block in self._blocks.values():
            match block.kind:
                case "text" if text := "".join(block.text):
                    parts.append(Text(text))
                case "thinking" if (thinking := "".join(block.text)) or any(block.signature):
                    parts.append(Reasoning(thinking, self.issuer, "".join(block.signature)))
                case "redacted_thinking" if block.redacted:
                    parts.append(redacted_reasoning(self.issuer, block.redacted))
                case "tool_use":
                    parts.append(self._call(block, used_ids))
                case _:
                    pass
        return Reply(tuple(parts), self._reason(parts), self._total(), self._model)

    def _call(self, block: _PartialBlock, used_ids: set[str]) -> ToolCall:
        call_id = block.call_id
        if not call_id or call_id in used_ids:
            call_id = f"call_{self.nonce}_{block.position}"
        used_ids.add(call_id)
        return ToolCall(call_id, block.name, "".join(block.arguments) or block.initial_input)

    def _reason(self, parts: list[Text | ToolCall | Reasoning]) -> StopReason:
        reason = STOP_REASONS.get(self._stop_reason or "end_turn", StopReason.OTHER)
        if reason in (StopReason.END, StopReason.TOOL_CALLS):
            has_calls = any(isinstance(part, ToolCall) for part in parts)
            return StopReason.TOOL_CALLS if has_calls else StopReason.END
        return reason

    def _total(self) -> Usage | None:
        usage = self._usage
        if usage is None:
            return None
        cached = usage.cache_read_input_tokens or 0
        details = usage.output_tokens_details
        return Usage(
            # The API excludes cache reads and writes from `input_tokens`.
            input_tokens=(usage.input_tokens or 0) + cached + (usage.cache_creation_input_tokens or 0),
            output_tokens=usage.output_tokens or 0,
            cached_input_tokens=cached,
            reasoning_tokens=(details.thinking_tokens or 0) if details is not None else 0,
            cache_write_tokens=usage.cache_creation_input_tokens or 0,
        )
