"""Which conversation a request goes on with, seen by its bytes: most clients send what they sent before, and more.

Reading a request costs more than passing it on. Where all but its newest messages are those of an earlier request, to
the byte, it belongs to the same conversation, and can be read when its client has the first of the answer.
"""

import hashlib
from collections import OrderedDict

import msgspec

from holdfast.gateway.dropin.asked import Asked
from holdfast.gateway.dropin.recognition import Conversation
from holdfast.models.dialects import SERVED

# Requests that are remembered, 16 bytes and a reference each.
_SEEN_MAX = 10_000
# How many messages a request may have more than the one before it: an answer with many calls, and their results.
_NEW_MAX = 16
_DIGEST_BYTES = 16


class _Messages(msgspec.Struct):
    messages: list[msgspec.Raw] = []


_bodies = msgspec.json.Decoder(_Messages)


class Beginnings:
    """The newest requests, by whose they are and what they say, each with its conversation."""

    def __init__(self) -> None:
        self._seen: OrderedDict[bytes, Conversation] = OrderedDict()

    def find(self, asked: Asked, tenant: str) -> Conversation | None:
        """Return the conversation of the longest request that was seen at the beginning of this one, and remember it.

        None where that conversation has gone on in another way: whose this is then is seen when it is read.
        """
        digests = _digests(asked, tenant, count=_NEW_MAX)
        for told in reversed(digests):
            found = self._seen.get(told)
            if found is not None:
                if found.newest != told:
                    return None
                self._remember(digests[-1], found)
                return found
        return None

    def learn(self, asked: Asked, tenant: str, conversation: Conversation) -> None:
        """Remember the conversation of a request that was read."""
        for told in _digests(asked, tenant, count=1):
            self._remember(told, conversation)
        if len(conversation.digests) > len(asked.digests):
            # Its log goes on behind this request; what comes next may go on in another way.
            conversation.newest = b""

    def _remember(self, told: bytes, conversation: Conversation) -> None:
        conversation.newest = told
        self._seen[told] = conversation
        self._seen.move_to_end(told)
        while len(self._seen) > _SEEN_MAX:
            self._seen.popitem(last=False)


def _digests(asked: Asked, tenant: str, *, count: int) -> list[bytes]:
    """Return what the messages of a request say, up to each of the last so many; empty where it has none."""
    if SERVED[asked.dialect].MESSAGES_FIELD != "messages":
        # Its requests may name what came before in place of sending it.
        return []
    try:
        messages = _bodies.decode(asked.body).messages
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []
    whose = f"{tenant}\0{asked.named}\0{asked.owner}"
    told: list[bytes] = []
    said = hashlib.blake2b(whose.encode(), digest_size=_DIGEST_BYTES)
    first = len(messages) - count
    for number, message in enumerate(messages):
        # Each begins and ends with a brace, so there is one way to cut them apart.
        said.update(message)
        if number >= first:
            told.append(said.digest())
    return told
