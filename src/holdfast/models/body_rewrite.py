"""Rewrite the conversation of a client request; unchanged messages keep their bytes.

Consecutive user messages are merged element by element, because some providers reject two in a row. Parts that the
client wrote stay byte for byte.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import msgspec

from holdfast.models import gemini
from holdfast.models.dialects import SERVED, ServedDialect
from holdfast.models.wire import locate, replaced
from holdfast.types.messages import Message, ToolSpec


class Kept(msgspec.Struct, frozen=True):
    """A client message to keep, by its index in the request, with or without its reasoning."""

    place: int
    with_reasoning: bool = True


def rewrite(
    dialect: str,
    body: bytes,
    conversation: Sequence[Kept | Message],
    blobs: Mapping[str, bytes],
    issuer: str,
) -> bytes:
    """Return the body with its conversation replaced.

    `body` must be valid in this dialect. Call ids of new messages stay unchanged, so that a replaced result still
    matches a kept call. Reasoning in new messages is sent only to its own `issuer`.
    """
    codec = SERVED[dialect]
    client_elements = own_elements(dialect, body)
    elements: list[bytes] = []
    for _, group in groupby(conversation, key=lambda one: isinstance(one, Kept)):
        run = list(group)
        elements += _kept_elements(codec, client_elements, [one for one in run if isinstance(one, Kept)])
        elements += codec.encode_messages([one for one in run if isinstance(one, Message)], blobs, issuer)
    return replaced(body, codec.MESSAGES_FIELD, elements)


def _kept_elements(codec: ServedDialect, elements: Sequence[bytes], kept: Sequence[Kept]) -> list[bytes]:
    written = (
        elements[one.place] if one.with_reasoning else codec.without_reasoning(elements[one.place]) for one in kept
    )
    return [element for element in written if element is not None]


def with_tools(dialect: str, body: bytes, specs: Sequence[ToolSpec]) -> bytes:
    """Return a body with more tools behind the client's own, which keep their bytes and their prompt cache."""
    field = locate(body, "tools")
    if not specs or field is None:
        return body
    own = [body[span.start : span.end] for span in field.elements]
    return replaced(body, "tools", [*own, *(SERVED[dialect].encode_tool(spec) for spec in specs)])


def own_elements(dialect: str, body: bytes) -> list[bytes]:
    """Return the messages of a body, each as the client's bytes."""
    field = locate(body, SERVED[dialect].MESSAGES_FIELD)
    own = [body[span.start : span.end] for span in field.elements] if field is not None else []
    if field is not None and not own and body[field.value.start : field.value.start + 1] == b'"':
        # The responses dialect accepts a plain string as a conversation of one message.
        own = [b'{"role":"user","content":' + body[field.value.start : field.value.end] + b"}"]
    return own


def count_messages(dialect: str, body: bytes) -> int:
    """Count the messages of a request without decoding them."""
    field = locate(body, SERVED[dialect].MESSAGES_FIELD)
    if field is None:
        return 0
    return len(field.elements) or int(body[field.value.start : field.value.start + 1] == b'"')


_TEXT_TYPES = {"openai-chat": "text", "openai-responses": "input_text", "anthropic": "text"}


class _Element(msgspec.Struct):
    role: str = ""
    type: str = "message"
    content: str | list[msgspec.Raw] | None = None


_elements = msgspec.json.Decoder(_Element)


def merge_user_elements(dialect: str, elements: Sequence[bytes]) -> list[bytes]:
    """Return the messages of a body with consecutive user messages merged into one."""
    if dialect == gemini.NAME:
        return gemini.merge_user_contents(elements)
    merged: list[bytes] = []
    read = ((element, _user_content(element)) for element in elements)
    for is_user, group in groupby(read, key=lambda one: one[1] is not None):
        run = list(group)
        if is_user and len(run) > 1:
            merged.append(_joined(dialect, run[0][0], [content for _, content in run if content is not None]))
        else:
            merged += [element for element, _ in run]
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
