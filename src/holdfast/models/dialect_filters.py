"""Filters of answers by dialect: events with content, events that open and end an answer, and the numbers in them."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from holdfast.models.answer_filter import AnswerFilter, HeldEvent, Node, object_of
from holdfast.models.gemini.json_list import ListEncoder, ListParser
from holdfast.models.gemini.request_decoder import call_id_at

# Between the texts of two answers, in a dialect whose message has one text.
TEXT_GAP = "\n\n"


class _MessagesFilter(AnswerFilter):
    """Filter of Anthropic's dialect."""

    # Content that is held back: parts that may turn out empty or belong to a hidden call, and their ends.
    _HELD = ("text", "text_delta", "thinking", "redacted_thinking", None)

    def begin(self, *, hides: bool) -> None:
        super().begin(hides=hides)
        self._thinking: set[int] = set()

    def _event(self, one: HeldEvent) -> Iterator[bytes]:
        node, kind = one.node, one.node.get("type")
        match kind:
            case "message_start":
                self._usage = object_of(object_of(node.get("message")).get("usage"))
                self._held.append(HeldEvent(one.raw, node, is_opening=True))
            case "content_block_start" | "content_block_delta" | "content_block_stop":
                yield from self._block_event(one, int(node.get("index", 0)))
            case "message_delta":
                self._usage = {**self._usage, **object_of(node.get("usage"))}
                self._ending.append(one)
            case "message_stop":
                self._ending.append(one)
            case "error":
                self._ending.append(one)
            case "ping" if not self._has_opened:
                self._held.append(HeldEvent(one.raw, node, is_opening=True))
            case "ping":
                yield one.raw
            case _:
                yield from self._show(one)

    def _block_event(self, one: HeldEvent, index: int) -> Iterator[bytes]:
        block = object_of(one.node.get("content_block"))
        if self._hides and block.get("type") == "tool_use" and block.get("name") == self._tool:
            self._hidden.add(index)
        if "thinking" in str(block.get("type")):
            self._thinking.add(index)
        if index in self._hidden:
            return
        delta = object_of(one.node.get("delta"))
        text = delta.get("text") or ""
        kind = block.get("type") or ("thinking" if index in self._thinking else delta.get("type"))
        if index in self._places or text or kind not in self._HELD:
            self._text += text
            yield from self._show(one)
        else:
            self._held.append(one)

    def _patch(self, node: Node) -> bool:
        if node.get("type") == "message_delta" and len(self._usages) > 1:
            node["usage"] = self._total()
            return True
        if "index" not in node or self._place(node["index"]) == node["index"]:
            return False
        node["index"] = self._places[node["index"]]
        return True

    def _hide_in(self, node: Node) -> bool:
        content = node.get("content")
        blocks = content if isinstance(content, list) else []
        kept = [one for one in blocks if one.get("type") != "tool_use" or one.get("name") != self._tool]
        node["content"] = kept
        return len(kept) < len(blocks)


class _ChatFilter(AnswerFilter):
    """Filter of OpenAI's chat dialect, for requests with one choice. Its reasoning is not signed, and is sent."""

    def __init__(self, tool: str) -> None:
        super().__init__(tool)
        self._id: Any = None

    def _event(self, one: HeldEvent) -> Iterator[bytes]:
        self._usage = object_of(one.node.get("usage")) or self._usage
        choice = (one.node.get("choices") or [{}])[0]
        delta = object_of(choice.get("delta"))
        has_hidden = self._hide_in_delta(delta)
        one.raw = b"" if has_hidden else one.raw
        if self._ending or self._is_ending(one.node, choice):
            self._ending.append(one)
        elif _has_content(delta):
            yield from self._show_delta(one, delta)
        elif self.has_shown and not has_hidden:
            yield self._written(one)
        elif not has_hidden:
            self._held.append(HeldEvent(one.raw, one.node, is_opening=True))

    def _is_ending(self, node: Node, choice: Node) -> bool:
        return bool(choice.get("finish_reason")) or "error" in node or (not choice and bool(self._usage))

    def _show_delta(self, one: HeldEvent, delta: Node) -> Iterator[bytes]:
        text = delta.get("content") or ""
        if text and self.said_before and not self._text:
            self.said_before += TEXT_GAP
            delta["content"] = TEXT_GAP + text
            one.raw = b""
        self._text += text
        yield from self._show(one)

    def _last_text(self, *, is_over: bool) -> Iterator[bytes]:
        for one in () if is_over else self._ending:
            choice = (one.node.get("choices") or [{}])[0]
            delta = object_of(choice.get("delta"))
            if _has_content(delta):
                # Some servers send the last text together with the reason for its end.
                choice["finish_reason"] = None
                yield from self._show_delta(HeldEvent(b"", one.node), delta)

    def _hide_in_delta(self, delta: Node) -> bool:
        calls = delta.get("tool_calls") or []
        for call in calls:
            if self._hides and object_of(call.get("function")).get("name") == self._tool:
                self._hidden.add(call.get("index", 0))
        kept = [call for call in calls if call.get("index", 0) not in self._hidden]
        if len(kept) < len(calls):
            delta["tool_calls"] = kept
        if "tool_calls" in delta and not kept:
            del delta["tool_calls"]
        return len(kept) < len(calls)

    def _patch(self, node: Node) -> bool:
        if not node:
            return False
        is_changed = self._id is not None and node.get("id") != self._id
        self._id = node["id"] = self._id if is_changed else node.get("id")
        if node.get("usage") and len(self._usages) > 1:
            node["usage"], is_changed = self._total(), True
        choices = node.get("choices")
        for call in object_of(choices[0].get("delta")).get("tool_calls") or () if choices else ():
            place = self._place(call.get("index", 0))
            is_changed = is_changed or place != call.get("index", 0)
            call["index"] = place
        return is_changed

    def _hide_in(self, node: Node) -> bool:
        choices = node.get("choices") or [{}]
        message = object_of(choices[0].get("message"))
        calls = message.get("tool_calls") or []
        kept = [call for call in calls if object_of(call.get("function")).get("name") != self._tool]
        if len(kept) < len(calls):
            message["tool_calls"] = kept
        return len(kept) < len(calls)


class _ResponsesFilter(AnswerFilter):
    """Filter of OpenAI's responses dialect."""

    _OPENINGS = ("response.created", "response.queued", "response.in_progress")
    _ENDINGS = ("response.completed", "response.incomplete", "response.failed", "error")
    # Parts that are held back until there is content, or content after them.
    _HELD = ("reasoning", "message")

    def __init__(self, tool: str) -> None:
        super().__init__(tool)
        self._sequence = 0
        self._id: Any = None
        # Finished parts of continued answers that were sent.
        self._shown_before: list[Node] = []

    def begin(self, *, hides: bool) -> None:
        super().begin(hides=hides)
        self._waiting: set[int] = set()
        self._done: list[Node] = []

    def end(self, *, is_over: bool) -> bytes:
        sent = super().end(is_over=is_over)
        self._shown_before += self._done if not is_over else []
        return sent

    def _event(self, one: HeldEvent) -> Iterator[bytes]:
        node, kind = one.node, str(one.node.get("type"))
        if kind in self._OPENINGS:
            self._held.append(HeldEvent(one.raw, node, is_opening=True))
        elif kind in self._ENDINGS:
            self._usage = object_of(object_of(node.get("response")).get("usage"))
            self._ending.append(one)
        elif "output_index" in node:
            yield from self._part_event(one, node["output_index"], kind)
        else:
            yield from self._show(one)

    def _part_event(self, one: HeldEvent, index: int, kind: str) -> Iterator[bytes]:
        part = object_of(one.node.get("item"))
        if self._hides and self._is_ours(part):
            self._hidden.add(index)
        if kind == "response.output_item.added" and part.get("type") in self._HELD:
            self._waiting.add(index)
        if index in self._hidden:
            return
        is_text = kind == "response.output_text.delta"
        if index in self._places or index not in self._waiting or is_text or kind.startswith("response.refusal"):
            self._text += one.node.get("delta") or "" if is_text else ""
            yield from self._show(one)
        else:
            self._held.append(one)

    def _is_ours(self, part: Node) -> bool:
        return part.get("type") == "function_call" and part.get("name") == self._tool

    def _patch(self, node: Node) -> bool:
        is_changed = "sequence_number" in node and node["sequence_number"] != self._sequence
        if is_changed:
            node["sequence_number"] = self._sequence
        self._sequence += 1
        is_changed = self._rename(object_of(node.get("response"))) or is_changed
        if "output_index" in node:
            place = self._place(node["output_index"])
            is_changed = is_changed or place != node["output_index"]
            node["output_index"] = place
            if node.get("type") == "response.output_item.done":
                self._done.append(object_of(node.get("item")))
        elif node.get("type") in self._ENDINGS:
            is_changed = self._patch_response(object_of(node.get("response"))) or is_changed
        return is_changed

    def _rename(self, response: Node) -> bool:
        """Give a response the id of the first one; the official client rejects an id that changes in a stream."""
        if not response or response.get("id") in (None, self._id):
            return False
        self._id = self._id or response["id"]
        self.replaced_id = self._id if response["id"] != self._id else ""
        is_changed = response["id"] != self._id
        response["id"] = self._id
        return bool(is_changed)

    def _patch_response(self, response: Node) -> bool:
        is_changed = self._hides and self._hide_in(response)
        if self._shown_before:
            response["output"], is_changed = [*self._shown_before, *(response.get("output") or ())], True
        if len(self._usages) > 1:
            response["usage"], is_changed = self._total(), True
        return is_changed

    def _hide_in(self, node: Node) -> bool:
        parts = node.get("output") or []
        kept = [part for part in parts if not self._is_ours(part)]
        if len(kept) < len(parts):
            node["output"] = kept
        return len(kept) < len(parts)


class _GenerateFilter(AnswerFilter):
    """Filter of Gemini's dialect, for requests with one candidate. Each event is a response with the new parts."""

    USAGE_FIELD = "usageMetadata"

    def __init__(self, tool: str) -> None:
        self._id: Any = None
        # Without `alt=sse` a stream is one JSON list; its elements are the events.
        self._elements = ListEncoder()
        super().__init__(tool)

    def begin(self, *, hides: bool) -> None:
        super().begin(hides=hides)
        self._list: ListParser | None = None
        self._calls = 0

    @property
    def is_stream(self) -> bool:
        """True if the answer is a stream of events, between which comments may stand."""
        return super().is_stream and self._list is None

    def feed(self, chunk: bytes) -> bytes:
        if self._is_json is None and chunk.lstrip().startswith(b"["):
            self._is_json, self._list = False, ListParser()
        return super().feed(chunk)

    def _feed_events(self, chunk: bytes) -> list[bytes]:
        if self._list is None:
            return super()._feed_events(chunk)
        return [sent for element in self._list.feed(chunk) for sent in self._take(b"data: " + element)]

    def _framed(self, sent: list[bytes], *, is_over: bool = False) -> bytes:
        if self._list is None:
            return super()._framed(sent)
        return b"".join([*map(self._elements.element, sent), self._elements.end() if is_over else b""])

    def _event(self, one: HeldEvent) -> Iterator[bytes]:
        node = one.node
        self._usage = object_of(node.get(self.USAGE_FIELD)) or self._usage
        is_hiding = self._hide_in(node) if self._hides else self._name_calls(node)
        one.raw = b"" if is_hiding else one.raw
        parts = _parts_of(_candidate(node))
        if self._ending or _is_ending(node):
            self._ending.append(one)
        elif any(map(_is_said, parts)):
            yield from self._show_parts(one)
        elif parts or not is_hiding:
            self._held.append(HeldEvent(one.raw, node, is_opening=not parts))

    def _show_parts(self, one: HeldEvent) -> Iterator[bytes]:
        texts = [part for part in _parts_of(_candidate(one.node)) if part.get("text") and not part.get("thought")]
        text = "".join(part["text"] for part in texts)
        if texts and self.said_before and not self._text:
            self.said_before += TEXT_GAP
            texts[0]["text"] = TEXT_GAP + texts[0]["text"]
            one.raw = b""
        self._text += text
        yield from self._show(one)

    def _last_text(self, *, is_over: bool) -> Iterator[bytes]:
        for one in () if is_over else self._ending:
            candidate = _candidate(one.node)
            if any(part.get("text") and not part.get("thought") for part in _parts_of(candidate)):
                # The last event has the last text together with the reason for its end.
                shown = {name: value for name, value in candidate.items() if name != "finishReason"}
                yield from self._show_parts(HeldEvent(b"", {**one.node, "candidates": [shown]}))

    def _patch(self, node: Node) -> bool:
        is_changed = self._id is not None and node.get("responseId") not in (None, self._id)
        if is_changed:
            node["responseId"] = self._id
        self._id = self._id or node.get("responseId")
        if node.get(self.USAGE_FIELD) and len(self._usages) > 1:
            node[self.USAGE_FIELD], is_changed = self._total(), True
        return is_changed

    def _hide_in(self, node: Node) -> bool:
        is_named = self._name_calls(node)
        content = object_of(_candidate(node).get("content"))
        parts = content.get("parts") or []
        kept = [part for part in parts if object_of(part.get("functionCall")).get("name") != self._tool]
        if len(kept) < len(parts):
            content["parts"] = kept
        return is_named or len(kept) < len(parts)

    def _name_calls(self, node: Node) -> bool:
        """Give an id to calls that have none: the client would number those that it sees in another way."""
        is_changed = False
        for part in _parts_of(_candidate(node)):
            if isinstance(call := part.get("functionCall"), dict):
                if not call.get("id"):
                    call["id"], is_changed = call_id_at(self.nonce, self._calls), True
                self._calls += 1
        return is_changed


def _candidate(node: Node) -> Node:
    return object_of((node.get("candidates") or [{}])[0])


def _parts_of(candidate: Node) -> list[Node]:
    return [object_of(part) for part in object_of(candidate.get("content")).get("parts") or ()]


def _is_ending(node: Node) -> bool:
    return bool(_candidate(node).get("finishReason")) or "error" in node or "promptFeedback" in node


def _is_said(part: Node) -> bool:
    """Return whether a part is content: no thought, and no empty text, which may carry a signature."""
    return not part.get("thought") and (bool(part.get("text")) or "text" not in part)


def _has_content(delta: Node) -> bool:
    return any(value for name, value in delta.items() if name != "role")


FILTERS: Mapping[str, type[AnswerFilter]] = MappingProxyType(
    {
        "anthropic": _MessagesFilter,
        "openai-chat": _ChatFilter,
        "openai-responses": _ResponsesFilter,
        "gemini": _GenerateFilter,
    }
)
