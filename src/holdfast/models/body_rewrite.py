"""Rewrite the conversation of a client's request; parts that are kept stay as the client wrote them."""

from collections.abc import Mapping, Sequence
from itertools import groupby

import msgspec

from holdfast.models.dialects import SERVED
from holdfast.models.json_spans import locate, replaced
from holdfast.models.message_merge import merge_user_elements
from holdfast.types.messages import Message


class Kept(msgspec.Struct, frozen=True):
    """A message of the client's own, by its place in what it sent, counted from 0; with its thinking, or without."""

    place: int
    with_reasoning: bool = True


def rewrite(
    dialect: str,
    body: bytes,
    conversation: Sequence[Kept | Message],
    blobs: Mapping[str, bytes],
    issuer: str,
) -> bytes:
    """Return the body with this conversation in place of its own.

    `body` must have been decoded in this dialect before. Messages of ours are encoded with the ids of calls as they
    are, so a result that is replaced still answers a call that is kept. Reasoning of ours goes only to `issuer`.
    """
    spoken = SERVED[dialect]
    without = spoken.without_reasoning
    own = own_elements(dialect, body)
    elements: list[bytes] = []
    for kept, group in groupby(conversation, key=lambda one: isinstance(one, Kept)):
        if kept:
            kept_own = (one for one in group if isinstance(one, Kept))
            written = (own[one.place] if one.with_reasoning else without(own[one.place]) for one in kept_own)
            elements += [element for element in written if element is not None]
        else:
            ours = [one for one in group if isinstance(one, Message)]
            elements += spoken.encode_messages(ours, blobs, issuer)
    return replaced(body, spoken.MESSAGES_FIELD, merge_user_elements(dialect, elements))


def own_elements(dialect: str, body: bytes) -> list[bytes]:
    """Return the messages of a body, each as the client wrote it."""
    field = locate(body, SERVED[dialect].MESSAGES_FIELD)
    own = [body[span.start : span.end] for span in field.elements] if field is not None else []
    if field is not None and not own and body[field.value.start : field.value.start + 1] == b'"':
        # The responses dialect takes a plain text for a conversation of one message.
        own = [b'{"role":"user","content":' + body[field.value.start : field.value.end] + b"}"]
    return own


def count_messages(dialect: str, body: bytes) -> int:
    """Return how many messages a request holds, without reading them."""
    field = locate(body, SERVED[dialect].MESSAGES_FIELD)
    if field is None:
        return 0
    return len(field.elements) or int(body[field.value.start : field.value.start + 1] == b'"')
