"""How effort and encrypted thinking are said in the responses dialect, in both directions.

`Reasoning.opaque` is the whole reasoning item, the JSON text as the provider wrote it: it goes back to the byte.
"""

import re
from collections.abc import Mapping

import msgspec

from holdfast.models.json_spans import without
from holdfast.models.wire import WireNode, to_bytes
from holdfast.types.messages import Effort, Reasoning

EFFORTS: Mapping[Effort, str] = {
    Effort.NONE: "none",
    Effort.LOW: "low",
    Effort.MEDIUM: "medium",
    Effort.HIGH: "high",
}

# Models that do not think refuse to be asked for encrypted thinking: "Encrypted content is not supported with this
# model". These think: the o series, gpt-5 and later but for the chat variants, and codex.
_REASONING_MODELS = re.compile(r"(?:^|/)(?:o\d|gpt-[5-9](?!.*-chat)|gpt-\d{2}|codex|gpt-oss)")

# Between the parts of a summary, each of which is a paragraph of its own.
PARAGRAPH = "\n\n"


class _Kind(msgspec.Struct):
    type: str = ""


class _Summary(msgspec.Struct):
    text: str = ""


class WireReasoning(msgspec.Struct):
    """A stretch of thinking: a summary for people, raw text from open models, and the encrypted whole."""

    id: str = ""
    summary: list[_Summary] | None = None
    content: list[_Summary] | None = None
    encrypted_content: str | None = None

    @property
    def text(self) -> str:
        """Return what there is to read."""
        return PARAGRAPH.join(piece.text for piece in self.summary or self.content or () if piece.text)


_item_decoder = msgspec.json.Decoder(WireReasoning)
_kind_decoder = msgspec.json.Decoder(_Kind)


def supports_reasoning(model: str) -> bool:
    """Whether a model is known to think, and so to encrypt what it thought."""
    return _REASONING_MODELS.search(model) is not None


def read_reasoning(wire: bytes, issuer: str) -> Reasoning:
    """Return the part that an item stands for. Without the encrypted whole it is only for people."""
    read = _item_decoder.decode(wire)
    return Reasoning(read.text, issuer, wire.decode() if read.encrypted_content else "")


def reasoning_id(wire: str) -> str:
    """Return what the provider calls an item; "" where it has no name."""
    return _item_decoder.decode(wire).id


def reasoning_node(part: Reasoning, item_id: str) -> WireNode:
    """Return the item that a part came from, to the byte, or one that is only for people."""
    if part.opaque:
        return msgspec.Raw(part.opaque.encode())
    summary: list[WireNode] = [{"type": "summary_text", "text": part.text}] if part.text else []
    return {"id": item_id, "type": "reasoning", "summary": summary}


def encrypted_reasoning(item_id: str, text: str, encrypted: str) -> str:
    """Return an item as a provider writes it."""
    summary: list[WireNode] = [{"type": "summary_text", "text": text}] if text else []
    node: WireNode = {"id": item_id, "type": "reasoning", "summary": summary, "encrypted_content": encrypted}
    return to_bytes(node).decode()


def without_reasoning(element: bytes) -> bytes | None:
    """Return an element of a message whose thinking is left out; None where it is thinking.

    Its name goes with that: by it the provider knows what was thought, and refuses the one without the other.
    """
    return None if _kind_decoder.decode(element).type == "reasoning" else without(element, "id")
