"""Response decoder of the Gemini dialect.

Each event is a response with the new parts. An error is the body or an event, alone or in a list; a blocked prompt is
a response without candidates.
"""

from typing import ClassVar

import msgspec

from holdfast.models.gemini.json_list import ListParser
from holdfast.models.gemini.request_decoder import call_id_at
from holdfast.models.sse import Event
from holdfast.models.stream_decoder import ANSWER_BYTES_MAX, AnswerDecoder
from holdfast.ports import Delta, ReasoningDelta, TextDelta, ToolCallDelta
from holdfast.types.messages import Reasoning, Reply, StopReason, Text, ToolCall, Usage

_FILTERED = ("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE", "IMAGE_SAFETY")
_STOP_REASONS = {
    "STOP": StopReason.END,
    "MAX_TOKENS": StopReason.LENGTH,
    **dict.fromkeys(_FILTERED, StopReason.CONTENT_FILTER),
}

# Size charged per part besides its text, so that endless empty parts reach the limit too.
_PART_WEIGHT = " " * 64


class _Call(msgspec.Struct):
    name: str = ""
    args: msgspec.Raw = msgspec.Raw(b"{}")
    id: str | None = None


class _Part(msgspec.Struct, rename="camel"):
    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    function_call: _Call | None = None


class _Content(msgspec.Struct):
    parts: list[_Part] | None = None


class _Candidate(msgspec.Struct, rename="camel"):
    content: _Content | None = None
    finish_reason: str | None = None


class _Feedback(msgspec.Struct, rename="camel"):
    block_reason: str | None = None


class _Usage(msgspec.Struct, rename="camel"):
    prompt_token_count: int | None = None
    candidates_token_count: int | None = None
    thoughts_token_count: int | None = None
    cached_content_token_count: int | None = None
    tool_use_prompt_token_count: int | None = None


class _Response(msgspec.Struct, rename="camel"):
    candidates: list[_Candidate] | None = None
    prompt_feedback: _Feedback | None = None
    usage_metadata: _Usage | None = None
    model_version: str | None = None
    error: msgspec.Raw = msgspec.Raw(b"null")


class _PartialText:
    """A text or thought while it is streamed."""

    def __init__(self, text: str, *, is_thought: bool, signature: str = "") -> None:
        self.pieces = [text]
        self.is_thought = is_thought
        self.signature = signature

    def part(self, issuer: str) -> Text | Reasoning:
        text = "".join(self.pieces)
        return Reasoning(text, issuer, self.signature) if self.is_thought else Text(text)


_response_decoder = msgspec.json.Decoder(_Response)
_list_decoder = msgspec.json.Decoder(list[_Response])
_BLANK = b" \t\r\n\xef\xbb\xbf"


class StreamDecoder(AnswerDecoder):
    """Decodes one response of generateContent, streamed or as one body."""

    dialect: ClassVar[str] = "gemini"

    def __init__(self, issuer: str, nonce: str = "0") -> None:
        super().__init__(issuer, nonce)
        self._model = ""
        self._parts: list[_PartialText | ToolCall | Reasoning] = []
        self._call_ids: set[str] = set()
        self._call_count = 0
        self._finish_reason: str | None = None
        self._is_blocked = False
        self._usage: Usage | None = None
        # Without `alt=sse` a stream is one list of responses.
        self._list: ListParser | None = None

    def feed(self, chunk: bytes) -> list[Delta]:
        """Add bytes and return the completed deltas."""
        if self._is_undecided and chunk.lstrip(_BLANK).startswith(b"["):
            self._is_undecided, self._list = False, ListParser()
        if self._list is None or self.is_complete:
            return super().feed(chunk)
        self._keep_head(chunk)
        deltas: list[Delta] = []
        for element in self._list.feed(chunk):
            self._has_events = True
            if self._refusal is None:
                deltas += self._take_element(element)
        if self._list.pending_bytes > ANSWER_BYTES_MAX:
            self._fail(f"the response has more than {ANSWER_BYTES_MAX:,} bytes")
        return deltas

    def _take_element(self, element: bytes) -> list[Delta]:
        try:
            return self._take_response(_response_decoder.decode(element), b"[" + element + b"]")
        except (msgspec.MsgspecError, UnicodeDecodeError):
            self._fail("the response has a malformed element", element)
            return []

    def _is_ended(self) -> bool:
        return False  # Usage may follow the finish reason, so only the end of the stream is final.

    def _take_event(self, event: Event) -> list[Delta]:
        is_list = event.payload.lstrip().startswith(b"[")
        decoded = _list_decoder.decode(event.payload) if is_list else [_response_decoder.decode(event.payload)]
        return [delta for response in decoded for delta in self._take_response(response, event.payload)]

    def _take_body(self, body: bytes) -> None:
        self._take_response(_response_decoder.decode(body), body)

    def _take_response(self, response: _Response, payload: bytes) -> list[Delta]:
        if bytes(response.error) != b"null":
            self._fail("the provider returned an error instead of a response", payload)
            return []
        self._model = response.model_version or self._model
        if response.usage_metadata is not None:
            self._usage = _usage(response.usage_metadata)
        if response.prompt_feedback is not None and response.prompt_feedback.block_reason:
            self._is_blocked = True
        deltas: list[Delta] = []
        # Requests ask for one candidate, so all belong to the same reply.
        for candidate in response.candidates or ():
            deltas += self._take_candidate(candidate)
        return deltas

    def _take_candidate(self, candidate: _Candidate) -> list[Delta]:
        deltas: list[Delta] = []
        for part in (candidate.content.parts if candidate.content else None) or ():
            deltas += self._take_part(part)
        if candidate.finish_reason not in (None, "", "FINISH_REASON_UNSPECIFIED"):
            self._finish_reason = candidate.finish_reason
        return deltas

    def _take_part(self, part: _Part) -> list[Delta]:
        signature = part.thought_signature or ""
        text = part.text or ""
        self._count(_PART_WEIGHT + text + signature)
        if part.thought:
            return self._take_thought(text, signature)
        deltas: list[Delta] = []
        if signature:
            self._parts.append(Reasoning("", self.issuer, signature))
            deltas.append(ReasoningDelta("", signature))
        if part.function_call is not None:
            deltas.append(self._take_call(part.function_call))
        elif text:
            last = self._parts[-1] if self._parts else None
            if isinstance(last, _PartialText) and not last.is_thought and not signature:
                last.pieces.append(text)
            else:
                self._parts.append(_PartialText(text, is_thought=False))
            deltas.append(TextDelta(text))
        return deltas

    def _take_thought(self, text: str, signature: str) -> list[Delta]:
        last = self._parts[-1] if self._parts else None
        if isinstance(last, _PartialText) and last.is_thought and any(last.pieces) and not last.signature:
            last.pieces.append(text)
            last.signature = signature
        elif text or signature:
            self._parts.append(_PartialText(text, is_thought=True, signature=signature))
        return [ReasoningDelta(text, signature)] if text or signature else []

    def _take_call(self, call: _Call) -> Delta:
        index = self._call_count
        self._call_count += 1
        self._check_calls(self._call_count)
        call_id = call.id or ""
        if not call_id or call_id in self._call_ids:
            call_id = call_id_at(self.nonce, index)
        self._call_ids.add(call_id)
        arguments = bytes(call.args).decode()
        arguments = "{}" if arguments == "null" else arguments
        self._count(arguments)
        self._parts.append(ToolCall(call_id, call.name, arguments))
        return ToolCallDelta(index, call.name, arguments, call_id)

    def _reply(self) -> Reply | None:
        if self._finish_reason is None and not self._is_blocked:
            return None
        parts = [part.part(self.issuer) if isinstance(part, _PartialText) else part for part in self._parts]
        return Reply(tuple(parts), self._stop_reason(), self._usage, self._model)

    def _stop_reason(self) -> StopReason:
        if self._is_blocked:
            return StopReason.CONTENT_FILTER
        reason = _STOP_REASONS.get(self._finish_reason or "", StopReason.OTHER)
        if reason is StopReason.END and self._call_ids:
            return StopReason.TOOL_CALLS
        return reason


def _usage(usage: _Usage) -> Usage:
    thinking = usage.thoughts_token_count or 0
    return Usage(
        input_tokens=(usage.prompt_token_count or 0) + (usage.tool_use_prompt_token_count or 0),
        # The API reports thinking tokens separately.
        output_tokens=(usage.candidates_token_count or 0) + thinking,
        cached_input_tokens=usage.cached_content_token_count or 0,
        reasoning_tokens=thinking,
    )
