"""Merge consecutive user messages of a request body, element by element, so that roles alternate.

Some providers reject two user messages in a row. Parts that the client wrote stay byte for byte.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

_TEXT_TYPES = {"openai-chat": "text", "openai-responses": "input_text", "anthropic": "text"}


class _Element(msgspec.Struct):
    role: str = ""
    type: str = "message"
    content: str | list[msgspec.Raw] | None = None


_elements = msgspec.json.Decoder(_Element)


def merge_user_elements(dialect: str, elements: Sequence[bytes]) -> list[bytes]:
    """Return the messages of a body with consecutive user messages merged into one."""
    merged: list[bytes] = []
    # The contents of the user messages in a row at the end of `merged`, and the first of them.
    contents: list[str | list[msgspec.Raw]] = []
    first = b""
    for element in elements:
        content = _user_content(element)
        if content is None:
            contents = []
            merged.append(element)
        elif not contents:
            contents, first = [content], element
            merged.append(element)
        else:
            contents.append(content)
            merged[-1] = _joined(dialect, first, contents)
    return merged


def _user_content(element: bytes) -> str | list[msgspec.Raw] | None:
    """Return the content of a user message; None for any other element."""
    if b'"user"' not in element:
        return None
    try:
        decoded = _elements.decode(element)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return decoded.content if decoded.role == "user" and decoded.type == "message" else None


def _joined(dialect: str, first: bytes, contents: Sequence[str | list[msgspec.Raw]]) -> bytes:
    fields: dict[str, Any] = msgspec.json.decode(first, type=dict[str, msgspec.Raw])
    texts = [content for content in contents if isinstance(content, str)]
    if len(texts) == len(contents):
        fields["content"] = "\n\n".join(texts)
    else:
        fields["content"] = [part for content in contents for part in _parts(dialect, content)]
    return msgspec.json.encode(fields)


def _parts(dialect: str, content: str | list[msgspec.Raw]) -> list[Any]:
    if isinstance(content, str):
        return [{"type": _TEXT_TYPES[dialect], "text": content}] if content else []
    return list(content)
