"""Effort settings and encrypted reasoning items of the responses dialect.

`Reasoning.opaque` is the complete reasoning item as the provider's JSON text; it is sent back byte for byte.
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

# Other models reject requests for encrypted reasoning: "Encrypted content is not supported with this model".
# Reasoning models: the o series, gpt-5 and later except the chat variants, and codex.
_REASONING_MODELS = re.compile(r"(?:^|/)(?:o\d|gpt-[5-9](?!.*-chat)|gpt-\d{2}|codex|gpt-oss)")

# Separator between the parts of a reasoning summary.
PARAGRAPH = "\n\n"


class _Kind(msgspec.Struct):
    type: str = ""


class _Summary(msgspec.Struct):
    text: str = ""


class WireReasoning(msgspec.Struct):
    """A reasoning item: a readable summary, raw text from open models, and the encrypted content."""

    id: str = ""
    summary: list[_Summary] | None = None
    content: list[_Summary] | None = None
    encrypted_content: str | None = None

    @property
    def text(self) -> str:
        """Readable text."""
        return PARAGRAPH.join(piece.text for piece in self.summary or self.content or () if piece.text)


_item_decoder = msgspec.json.Decoder(WireReasoning)
_kind_decoder = msgspec.json.Decoder(_Kind)


def supports_reasoning(model: str) -> bool:
    """Return whether a model is known to return encrypted reasoning."""
    return _REASONING_MODELS.search(model) is not None


def read_reasoning(wire: bytes, issuer: str) -> Reasoning:
    """Decode a reasoning item. Without encrypted content it cannot be sent back."""
    read = _item_decoder.decode(wire)
    return Reasoning(read.text, issuer, wire.decode() if read.encrypted_content else "")


def reasoning_id(wire: str) -> str:
    """Return the provider's id of an item, or ""."""
    return _item_decoder.decode(wire).id


def reasoning_node(part: Reasoning, item_id: str) -> WireNode:
    """Return the original item of a part, byte for byte, or a new one with only the readable text."""
    if part.opaque:
        return msgspec.Raw(part.opaque.encode())
    summary: list[WireNode] = [{"type": "summary_text", "text": part.text}] if part.text else []
    return {"id": item_id, "type": "reasoning", "summary": summary}


def encrypted_reasoning(item_id: str, text: str, encrypted: str) -> str:
    """Encode a reasoning item as the provider does."""
    summary: list[WireNode] = [{"type": "summary_text", "text": text}] if text else []
    node: WireNode = {"id": item_id, "type": "reasoning", "summary": summary, "encrypted_content": encrypted}
    return to_bytes(node).decode()


def without_reasoning(element: bytes) -> bytes | None:
    """Remove the reasoning of an element; None if it is a reasoning item.

    Its id is removed too: the provider links ids to reasoning items and rejects one without the other.
    """
    return None if _kind_decoder.decode(element).type == "reasoning" else without(element, "id")
