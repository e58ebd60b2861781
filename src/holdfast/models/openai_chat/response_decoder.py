"""Response decoder of the OpenAI chat dialect.

Tolerates differences between compatible servers: calls without id or index, calls in one chunk, usage in every chunk
or in none, a missing `[DONE]`, reasoning under either of two names, text as a list of parts.
"""

from typing import ClassVar

import msgspec

from holdfast.models.sse import Event
from holdfast.models.stream_decoder import AnswerDecoder
from holdfast.ports import Delta, ReasoningDelta, TextDelta, ToolCallDelta
from holdfast.types.messages import Reasoning, Reply, StopReason, Text, ToolCall, Usage

_STOP_REASONS = {
    "stop": StopReason.END,
    "tool_calls": StopReason.TOOL_CALLS,
    "function_call": StopReason.TOOL_CALLS,
    "length": StopReason.LENGTH,
    "model_context_window_exceeded": StopReason.LENGTH,
    "content_filter": StopReason.CONTENT_FILTER,
}

# Size charged per call besides its text, so that endless empty calls reach the limit too.
_CALL_WEIGHT = " " * 256


class _Function(msgspec.Struct):
    name: str | None = None
    # A string in the specification; some servers send an object.
    arguments: str | dict[str, msgspec.Raw] | None = None


class _CallPiece(msgspec.Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _TextPiece(msgspec.Struct):
    type: str = "text"
    text: str | None = None


class _MessageDelta(msgspec.Struct):
    content: str | list[_TextPiece] | None = None
    refusal: str | None = None
    # Two names for reasoning text, both from compatible servers.
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[_CallPiece] | None = None


class _Choice(msgspec.Struct):
    delta: _MessageDelta | None = None
    message: _MessageDelta | None = None
    finish_reason: str | None = None


class _InputDetails(msgspec.Struct):
    cached_tokens: int | None = None


class _OutputDetails(msgspec.Struct):
    reasoning_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _InputDetails | None = None
    completion_tokens_details: _OutputDetails | None = None


class _Chunk(msgspec.Struct):
    """A stream chunk or a complete response; they differ only in `delta` and `message`."""

    object: str | None = None
    model: str | None = None
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    error: msgspec.Raw = msgspec.Raw(b"null")


class _Call:
    """A call while it is streamed."""

    def __init__(self, index: int, number: int) -> None:
        self.index = index
        # The place among the calls of the reply.
        self.number = number
        self.call_id = ""
        # An earlier call of the reply has this id.
        self.is_id_used = False
        self.name = ""
        self.arguments: list[str] = []


_chunk_decoder = msgspec.json.Decoder(_Chunk)


class StreamDecoder(AnswerDecoder):
    """Decodes one chat completion, streamed or as one body."""

    dialect: ClassVar[str] = "openai-chat"

    def __init__(self, issuer: str, nonce: str = "0") -> None:
        super().__init__(issuer, nonce)
        self._model = ""
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[_Call] = []
        # The newest call of each index, and the first call of each id.
        self._call_at: dict[int, _Call] = {}
        self._call_with: dict[str, _Call] = {}
        self._finish_reason: str | None = None
        self._usage: Usage | None = None
        self._is_done = False

    def _is_ended(self) -> bool:
        return self._is_done

    def _take_event(self, event: Event) -> list[Delta]:
        if event.payload.strip() == b"[DONE]":
            self._is_done = True
            return []
        return self._take_chunk(event.payload)

    def _take_body(self, body: bytes) -> None:
        self._take_chunk(body)

    def _take_chunk(self, payload: bytes) -> list[Delta]:
        chunk = _chunk_decoder.decode(payload)
        if bytes(chunk.error) != b"null" or chunk.object == "error":
            self._fail("the provider returned an error instead of a response", payload)
            return []
        self._model = self._model or chunk.model or ""
        if chunk.usage is not None:
            self._usage = _usage(chunk.usage)
        deltas: list[Delta] = []
        # Requests ask for one choice, so all belong to the same reply.
        for choice in chunk.choices or ():
            message = choice.delta or choice.message
            if message is not None:
                deltas += self._take_message(message)
            self._finish_reason = choice.finish_reason or self._finish_reason
        return deltas

    def _take_message(self, message: _MessageDelta) -> list[Delta]:
        deltas: list[Delta] = []
        reasoning = message.reasoning_content or message.reasoning
        if reasoning:
            self._count(reasoning)
            self._reasoning.append(reasoning)
            deltas.append(ReasoningDelta(reasoning))
        for text in (_text_of(message.content), message.refusal):
            if text:
                self._count(text)
                self._text.append(text)
                deltas.append(TextDelta(text))
        deltas += [self._take_call(piece) for piece in message.tool_calls or ()]
        return deltas

    def _take_call(self, piece: _CallPiece) -> Delta:
        function = piece.function or _Function()
        call = self._call_of(piece, function)
        if not call.call_id and piece.id:
            call.call_id = piece.id
            call.is_id_used = self._call_with.setdefault(piece.id, call) is not call
        # Some servers repeat the name in every chunk; none splits it.
        call.name = call.name or function.name or ""
        arguments = function.arguments or ""
        if isinstance(arguments, dict):
            arguments = msgspec.json.encode(arguments).decode()
        self._count(arguments)
        call.arguments.append(arguments)
        # A duplicate id gets a new one in the reply.
        return ToolCallDelta(call.number, call.name, arguments, "" if call.is_id_used else call.call_id)

    def _call_of(self, piece: _CallPiece, function: _Function) -> _Call:
        """Find the call that a chunk continues, or start one."""
        last_index = self._calls[-1].index if self._calls else 0
        index = last_index if piece.index is None else piece.index
        known = self._call_at.get(index)
        if known is not None and not _is_new_call(known, piece, function):
            return known
        self._count(_CALL_WEIGHT)
        call = _Call(index, len(self._calls))
        self._calls.append(call)
        self._call_at[index] = call
        self._check_calls(len(self._calls))
        return call

    def _reply(self) -> Reply | None:
        if self._finish_reason is None and not self._is_done:
            return None
        parts: list[Text | ToolCall | Reasoning] = []
        if self._reasoning:
            parts.append(Reasoning("".join(self._reasoning), self.issuer))
        if self._text:
            parts.append(Text("".join(self._text)))
        used_ids: set[str] = set()
        for position, call in enumerate(self._calls):
            call_id = call.call_id
            if not call_id or call_id in used_ids:
                call_id = f"call_{self.nonce}_{position}"
            used_ids.add(call_id)
            parts.append(ToolCall(call_id, call.name, "".join(call.arguments) or "{}"))
        return Reply(tuple(parts), self._stop_reason(), self._usage, self._model)

    def _stop_reason(self) -> StopReason:
        reason = _STOP_REASONS.get(self._finish_reason or "stop", StopReason.OTHER)
        # Some servers end calls with "stop", or text with "tool_calls".
        if reason in (StopReason.END, StopReason.TOOL_CALLS):
            return StopReason.TOOL_CALLS if self._calls else StopReason.END
        return reason


def _is_new_call(known: _Call, piece: _CallPiece, function: _Function) -> bool:
    """Return whether a chunk with a known index starts a new call, from servers that reuse one index."""
    if piece.id and known.call_id:
        return piece.id != known.call_id
    return piece.index is None and not piece.id and bool(function.name) and bool(known.arguments)


def _text_of(content: str | list[_TextPiece] | None) -> str:
    if isinstance(content, list):
        return "".join(piece.text or "" for piece in content if piece.type == "text")
    return content or ""


def _usage(usage: _Usage) -> Usage:
    read, written = usage.prompt_tokens_details, usage.completion_tokens_details
    return Usage(
        input_tokens=usage.prompt_tokens or 0,
        output_tokens=usage.completion_tokens or 0,
        cached_input_tokens=(read.cached_tokens or 0) if read is not None else 0,
        reasoning_tokens=(written.reasoning_tokens or 0) if written is not None else 0,
    )
