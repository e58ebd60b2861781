"""An answer in the responses dialect, read as it comes.

Deltas are for whoever looks on; what counts is each item when it is done, and the response that closes the stream. Of
an item that a server never closes, the deltas are what there is.
"""

from typing import ClassVar

import msgspec

from holdfast.models.openai_responses.reasoning import PARAGRAPH, read_reasoning
from holdfast.models.sse import Event
from holdfast.models.stream_decoder import AnswerDecoder
from holdfast.ports import Delta, ReasoningDelta, TextDelta, ToolCallDelta
from holdfast.types.messages import Reasoning, Reply, StopReason, Text, ToolCall, Usage

# What one item weighs in the bound of an answer besides its text, so that empty ones without end are bounded too.
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
    # Behind some gateways an error stands bare, as an event without a type.
    error: msgspec.Raw = msgspec.Raw(b"null")


class _PartialItem:
    """An item while its pieces come. `wire` is the item itself once it is done."""

    def __init__(self, wire: msgspec.Raw | None, kind: str = "") -> None:
        output = _item_decoder.decode(wire) if wire is not None else _Output(kind)
        self.kind = output.type
        self.item_id = output.id or ""
        self.call_id = output.call_id or ""
        self.name = output.name or ""
        self.text: list[str] = []
        self.wire: bytes | None = None


_event_decoder = msgspec.json.Decoder(_Event)
_item_decoder = msgspec.json.Decoder(_Output)
_response_decoder = msgspec.json.Decoder(_Response)

_TEXT = ("response.output_text.delta", "response.refusal.delta")
_THINKING = ("response.reasoning_summary_text.delta", "response.reasoning_text.delta")
_CLOSING = ("response.completed", "response.incomplete")


class StreamDecoder(AnswerDecoder):
    """Reads one answer of the responses API, streamed or whole."""

    dialect: ClassVar[str] = "openai-responses"

    def __init__(self, issuer: str, nonce: str = "0") -> None:
        super().__init__(issuer, nonce)
        self._items: dict[int, _PartialItem] = {}
        self._response: _Response | None = None

    @property
    def answer_id(self) -> str:
        """The name by which its client may go on from it."""
        return (self._response.id or "") if self._response is not None else ""

    def _is_ended(self) -> bool:
        return self._response is not None

    def _take_event(self, event: Event) -> list[Delta]:
        if event.payload.strip() == b"[DONE]":
            return []
        read = _event_decoder.decode(event.payload)
        if read.type in ("error", "response.failed") or bytes(read.error) != b"null":
            self._fail("the provider reported an error inside the stream", event.payload)
        elif read.type in _CLOSING and read.response is not None:
            self._close(read.response, event.payload)
        elif read.type == "response.output_item.added" and bytes(read.item) != b"null":
            self._count(_ITEM_WEIGHT)
            self._items[read.output_index] = _PartialItem(read.item)
        elif read.type == "response.output_item.done" and bytes(read.item) != b"null":
            return self._take_item_done(read.output_index, read.item)
        elif read.type == "response.reasoning_summary_part.added" and read.summary_index:
            return self._take_delta(_THINKING[0], read.output_index, PARAGRAPH)
        elif read.delta:
            return self._take_delta(read.type, read.output_index, read.delta)
        return []

    def _take_body(self, body: bytes) -> None:
        response = _response_decoder.decode(body)
        if response.object != "response" or bytes(response.error) != b"null":
            self._fail("the provider sent something else in place of an answer", body)
            return
        self._close(response, body)

    def _close(self, response: _Response, payload: bytes) -> None:
        if response.status in ("failed", "cancelled"):
            self._fail("the provider gave the answer up", payload)
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
            return [ToolCallDelta(self._call_number(index), partial.name, piece, self._final_call_id(index))]
        return []  # What a client must bear: signs of progress, audio, events that come later.

    def _append(self, index: int, kind: str, piece: str) -> _PartialItem:
        self._count(piece)
        if index not in self._items:
            self._items[index] = _PartialItem(None, kind)
        partial = self._items[index]
        partial.text.append(piece)
        return partial

    def _take_item_done(self, index: int, output: msgspec.Raw) -> list[Delta]:
        partial = self._items.get(index)
        if partial is None:
            self._count(_ITEM_WEIGHT)
            partial = self._items[index] = _PartialItem(output)
        partial.wire = bytes(output)
        self._count(partial.wire.decode())
        if partial.kind != "reasoning":
            return []
        opaque = read_reasoning(partial.wire, self.issuer).opaque
        return [ReasoningDelta("", opaque, partial.item_id)] if opaque else []

    def _call_number(self, index: int) -> int:
        return sum(1 for at, other in self._items.items() if other.kind == "function_call" and at < index)

    def _final_call_id(self, index: int) -> str:
        """Return the id that the reply will have for a call: the first of several with one id keeps it."""
        call_id = self._items[index].call_id
        before = (other.call_id for at, other in self._items.items() if at < index)
        return "" if call_id in before else call_id

    # --- the outcome ---------------------------------------------------------------------------------------------

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
                whole = _PartialItem(wire)
                whole.wire = bytes(wire)
                parts += self._parts(whole, len(parts), used_ids)
        return Reply(tuple(parts), _stop_reason(response, parts), _usage(response.usage), response.model or "")

    def _parts(self, partial: _PartialItem, position: int, used_ids: set[str]) -> list[Text | ToolCall | Reasoning]:
        output = _item_decoder.decode(partial.wire) if partial.wire is not None else None
        text = "".join(partial.text)
        match partial.kind:
            case "message":
                texts = [piece.text or piece.refusal or "" for piece in output.content or ()] if output else [text]
                return [Text(text) for text in texts if text]
            case "reasoning":
                thought = read_reasoning(partial.wire, self.issuer) if partial.wire else Reasoning(text, self.issuer)
                return [thought] if thought.text or thought.opaque else []
            case "function_call":
                call_id = (output and output.call_id) or partial.call_id
                if not call_id or call_id in used_ids:
                    call_id = f"call_{self.nonce}_{position}"
                used_ids.add(call_id)
                arguments = (output and output.arguments) or text or "{}"
                return [ToolCall(call_id, (output and output.name) or partial.name, arguments)]
            case _:
                return []


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
