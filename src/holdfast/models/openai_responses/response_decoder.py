"""Response decoder of the responses dialect.

Finished items and the closing response are authoritative. Deltas only feed the live stream, and replace an item that
the server never finishes.
"""

from bisect import bisect_left, insort
from collections.abc import Sequence
from typing import ClassVar

import msgspec

from holdfast.models.openai_responses.request_encoder import PARAGRAPH, read_reasoning
from holdfast.models.sse import Event
from holdfast.models.stream_decoder import AnswerDecoder
from holdfast.ports import Delta, ReasoningDelta, TextDelta, ToolCallDelta
from holdfast.types.messages import Reasoning, Reply, StopReason, Text, ToolCall, Usage

# Size charged per item besides its text, so that endless empty items reach the limit too.
_ITEM_WEIGHT = " " * 256

_INCOMPLETE = {
    "max_output_tokens": StopReason.LENGTH,
    "content_filter": StopReason.CONTENT_FILTER,
}


class _Content(msgspec.Struct):
    type: str = ""
    text: str | None = None
    refusal: str | None = None


class _Output(msgspec.Struct):
    type: str = ""
    id: str | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    content: list[_Content] | None = None


class _InputDetails(msgspec.Struct):
    cached_tokens: int | None = None


class _OutputDetails(msgspec.Struct):
    reasoning_tokens: int | None = None


class _Usage(msgspec.Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: _InputDetails | None = None
    output_tokens_details: _OutputDetails | None = None


class _Incomplete(msgspec.Struct):
    reason: str | None = None


class _Response(msgspec.Struct):
    id: str | None = None
    object: str = ""
    status: str | None = None
    model: str | None = None
    output: list[msgspec.Raw] | None = None
    usage: _Usage | None = None
    incomplete_details: _Incomplete | None = None
    error: msgspec.Raw = msgspec.Raw(b"null")


_NOTHING = msgspec.Raw(b"null")


class _Event(msgspec.Struct):
    type: str = ""
    output_index: int = 0
    summary_index: int = 0
    delta: str | None = None
    item: msgspec.Raw = _NOTHING
    response: _Response | None = None
    # Some gateways send a bare error, as an event without a type.
    error: msgspec.Raw = msgspec.Raw(b"null")


class _PartialOutput:
    """An item while it is streamed. `wire` is the finished item."""

    def __init__(self, wire: msgspec.Raw | None, kind: str = "") -> None:
        output = _item_decoder.decode(wire) if wire is not None else _Output(kind)
        self.kind = output.type
        self.item_id = output.id or ""
        self.call_id = output.call_id or ""
        self.name = output.name or ""
        self.text: list[str] = []
        self.wire: bytes | None = None

    @property
    def finished(self) -> _Output:
        """The finished item; empty before that."""
        return _item_decoder.decode(self.wire) if self.wire is not None else _Output()


_event_decoder = msgspec.json.Decoder(_Event)
_item_decoder = msgspec.json.Decoder(_Output)
_response_decoder = msgspec.json.Decoder(_Response)

_TEXT = ("response.output_text.delta", "response.refusal.delta")
_THINKING = ("response.reasoning_summary_text.delta", "response.reasoning_text.delta")
_CLOSING = ("response.completed", "response.incomplete")
_FAILED = ("error", "response.failed")
_ITEM_ADDED, _ITEM_DONE = "response.output_item.added", "response.output_item.done"


class StreamDecoder(AnswerDecoder):
    """Decodes one response of the responses API, streamed or as one body."""

    dialect: ClassVar[str] = "openai-responses"

    def __init__(self, issuer: str, nonce: str = "0") -> None:
        super().__init__(issuer, nonce)
        self._items: dict[int, _PartialOutput] = {}
        # The indexes of the calls, in order, and the lowest index of each call id.
        self._call_indexes: list[int] = []
        self._index_of_id: dict[str, int] = {}
        self._response: _Response | None = None

    @property
    def answer_id(self) -> str:
        """The response id that a client can continue from."""
        return (self._response.id or "") if self._response is not None else ""

    def _is_ended(self) -> bool:
        return self._response is not None

    def _take_event(self, event: Event) -> list[Delta]:
        if event.payload.strip() == b"[DONE]":
            return []
        read = _event_decoder.decode(event.payload)
        if read.type in _FAILED or bytes(read.error) != b"null":
            self._fail("the provider reported an error inside the stream", event.payload)
        elif read.type in _CLOSING and read.response is not None:
            self._close(read.response, event.payload)
        elif read.type in (_ITEM_ADDED, _ITEM_DONE) and bytes(read.item) != b"null":
            return self._take_output(read.type, read.output_index, read.item)
        elif read.type == "response.reasoning_summary_part.added" and read.summary_index:
            return self._take_delta(_THINKING[0], read.output_index, PARAGRAPH)
        elif read.delta:
            return self._take_delta(read.type, read.output_index, read.delta)
        return []

    def _take_body(self, body: bytes) -> None:
        response = _response_decoder.decode(body)
        if response.object != "response" or bytes(response.error) != b"null":
            self._fail("the provider returned something other than a response", body)
            return
        self._close(response, body)

    def _close(self, response: _Response, payload: bytes) -> None:
        if response.status in ("failed", "cancelled"):
            self._fail("the provider gave up the response", payload)
            return
        self._response = response

    def _take_delta(self, kind: str, index: int, piece: str) -> list[Delta]:
        if kind in _TEXT:
            self._append(index, "message", piece)
            return [TextDelta(piece)]
        if kind in _THINKING:
            partial = self._append(index, "reasoning", piece)
            return [ReasoningDelta(piece, part_id=partial.item_id)]
        if kind == "response.function_call_arguments.delta":
            partial = self._append(index, "function_call", piece)
            number = bisect_left(self._call_indexes, index)
            return [ToolCallDelta(number, partial.name, piece, self._final_call_id(index, partial.call_id))]
        return []  # Progress, audio and unknown events.

    def _append(self, index: int, kind: str, piece: str) -> _PartialOutput:
        self._count(piece)
        partial = self._items.get(index) or self._add(index, _PartialOutput(None, kind))
        partial.text.append(piece)
        return partial

    def _add(self, index: int, partial: _PartialOutput) -> _PartialOutput:
        replaced = self._items.get(index)
        self._items[index] = partial
        if partial.kind == "function_call":
            self._index_of_id[partial.call_id] = min(index, self._index_of_id.get(partial.call_id, index))
            if replaced is None or replaced.kind != "function_call":
                insort(self._call_indexes, index)
            self._check_calls(len(self._call_indexes))
        return partial

    def _take_output(self, kind: str, index: int, output: msgspec.Raw) -> list[Delta]:
        partial = self._items.get(index)
        if partial is None or kind == _ITEM_ADDED:
            self._count(_ITEM_WEIGHT)
            partial = self._add(index, _PartialOutput(output))
        if kind == _ITEM_ADDED:
            return []
        partial.wire = bytes(output)
        self._count(partial.wire.decode())
        if partial.kind != "reasoning":
            return []
        opaque = read_reasoning(partial.wire, self.issuer).opaque
        return [ReasoningDelta("", opaque, partial.item_id)] if opaque else []

    def _final_call_id(self, index: int, call_id: str) -> str:
        """Return the call id that the reply will have; "" for a duplicate id, which gets a new one."""
        return "" if self._index_of_id.get(call_id, index) < index else call_id

    # --- Reply ---

    def _reply(self) -> Reply | None:
        response = self._response
        if response is None:
            return None
        parts: list[Text | ToolCall | Reasoning] = []
        used_ids: set[str] = set()
        if self._items:
            for index in sorted(self._items):
                parts += self._parts(self._items[index], len(parts), used_ids)
        else:
            for wire in response.output or ():
                item = _PartialOutput(wire)
                item.wire = bytes(wire)
                parts += self._parts(item, len(parts), used_ids)
        return Reply(tuple(parts), _stop_reason(response, parts), _usage(response.usage), response.model or "")

    def _parts(self, item: _PartialOutput, position: int, used_ids: set[str]) -> Sequence[Text | ToolCall | Reasoning]:
        match item.kind:
            case "message":
                return _texts(item)
            case "reasoning":
                return self._reasoning(item)
            case "function_call":
                return [self._call(item, position, used_ids)]
            case _:
                return []

    def _reasoning(self, item: _PartialOutput) -> list[Reasoning]:
        if item.wire is not None:
            part = read_reasoning(item.wire, self.issuer)
        else:
            part = Reasoning("".join(item.text), self.issuer)
        return [part] if part.text or part.opaque else []

    def _call(self, item: _PartialOutput, position: int, used_ids: set[str]) -> ToolCall:
        finished = item.finished
        call_id = finished.call_id or item.call_id
        if not call_id or call_id in used_ids:
            call_id = f"call_{self.nonce}_{position}"
        used_ids.add(call_id)
        return ToolCall(call_id, finished.name or item.name, finished.arguments or "".join(item.text) or "{}")


def _texts(item: _PartialOutput) -> list[Text]:
    if item.wire is None:
        texts = ["".join(item.text)]
    else:
        texts = [piece.text or piece.refusal or "" for piece in item.finished.content or ()]
    return [Text(text) for text in texts if text]


def _stop_reason(response: _Response, parts: list[Text | ToolCall | Reasoning]) -> StopReason:
    details = response.incomplete_details
    if response.status == "incomplete" or (details is not None and details.reason):
        return _INCOMPLETE.get((details.reason if details else None) or "", StopReason.OTHER)
    has_calls = any(isinstance(part, ToolCall) for part in parts)
    return StopReason.TOOL_CALLS if has_calls else StopReason.END


def _usage(usage: _Usage | None) -> Usage | None:
    if usage is None:
        return None
    read, written = usage.input_tokens_details, usage.output_tokens_details
    return Usage(
        input_tokens=usage.input_tokens or 0,
        output_tokens=usage.output_tokens or 0,
        cached_input_tokens=(read.cached_tokens or 0) if read is not None else 0,
        reasoning_tokens=(written.reasoning_tokens or 0) if written is not None else 0,
    )
