"""What the simulated provider need not read again: the beginning that a request shares with earlier ones.

As real ones tell it: a beginning is found where it was sent before to the letter, to the same model and with the same
wish for thinking; short ones are not kept. One dialect keeps whole requests, and only those that ask for it, and tells
what it keeps; the others keep every beginning, told in steps.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from types import MappingProxyType

import msgspec

from holdfast.core.messages import Request
from holdfast.models import anthropic_messages, gemini, openai_chat, openai_responses
from holdfast.models.simulated.tokens import count_opening, count_parts

# Beginnings kept, at 32 bytes each: hundreds of long conversations.
_KEPT_MAX = 20_000
_ASKS = b'"cache_control"'


class _Habit(msgspec.Struct, frozen=True):
    """The least that a provider keeps, in which steps it tells reads, and whether it must be asked."""

    tokens_min: int
    step: int = 1
    is_asked: bool = False


_HABITS: Mapping[str, _Habit] = MappingProxyType(
    {
        openai_chat.NAME: _Habit(1_024, 128),
        openai_responses.NAME: _Habit(1_024, 128),
        anthropic_messages.NAME: _Habit(1_024, is_asked=True),
        gemini.NAME: _Habit(4_096),
    }
)


class Found(msgspec.Struct, frozen=True):
    """Of a request's tokens: what was found in the cache, and what was put there at a price of its own."""

    read: int = 0
    written: int = 0


NOTHING_FOUND = Found()


class PromptCache:
    """Beginnings of requests, by a digest of everything in them. Bounded: those longest unused are forgotten."""

    def __init__(self) -> None:
        self._kept: OrderedDict[bytes, None] = OrderedDict()

    def take(self, dialect: str, body: bytes, model: str, request: Request) -> Found:
        """Look a request up, then keep it."""
        habit = _HABITS[dialect]
        if habit.is_asked and _ASKS not in body:
            return NOTHING_FOUND
        beginnings = [one for one in _beginnings(f"{dialect} {model}", request) if one[1] >= habit.tokens_min]
        if not beginnings:
            return NOTHING_FOUND
        read = max((tokens for digest, tokens in beginnings if digest in self._kept), default=0)
        for digest, _ in beginnings[-1:] if habit.is_asked else beginnings:
            self._kept[digest] = None
            self._kept.move_to_end(digest)
        while len(self._kept) > _KEPT_MAX:
            self._kept.popitem(last=False)
        return Found(read // habit.step * habit.step, beginnings[-1][1] - read if habit.is_asked else 0)


def _beginnings(whose: str, request: Request) -> Iterator[tuple[bytes, int]]:
    """Yield the digest of everything up to each part of a request, and how many tokens that has."""
    head = msgspec.json.encode((whose, request.effort, request.tools, request.system))
    digest, tokens = hashlib.sha256(head).digest(), count_opening(request)
    yield digest, tokens
    for message in request.messages:
        for place, part in enumerate(message.parts):
            digest = hashlib.sha256(digest + msgspec.json.encode((message.role, part))).digest()
            tokens += count_parts([part], is_first=place == 0)
            yield digest, tokens
