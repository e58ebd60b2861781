"""Rewrite the conversation of a client request; unchanged messages keep their bytes."""

from collections.abc import Mapping, Sequence
from itertools import groupby

import msgspec

from holdfast.models.dialects import SERVED, ServedDialect
from holdfast.models.json_spans import locate, replaced
from holdfast.types.messages import Message


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
