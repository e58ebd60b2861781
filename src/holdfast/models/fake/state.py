"""What a provider keeps of the responses that it gave: the conversation up to each, for requests that go on from there.

A response is kept unless its request says `store: false`. A conversation of the provider's own grows with each of its
responses. Bounded: the oldest are forgotten, as a real provider forgets them after a month.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from itertools import count
from types import MappingProxyType

import msgspec

from holdfast.models import anthropic, gemini, openai_chat, openai_responses
from holdfast.models.fake.faults import No
from holdfast.models.fake.tokens import count_opening, count_parts
from holdfast.models.json_spans import replaced, without
from holdfast.models.wire import to_bytes
from holdfast.types.messages import Request

# Enough for any test; each holds what was said up to it.
_KEPT_MAX = 1_000


class _Named(msgspec.Struct):
    id: str = ""


class _Going(msgspec.Struct):
    """What of a request says where it goes on."""

    input: str | list[msgspec.Raw] = ""
    store: bool | None = None
    previous_response_id: str | None = None
    conversation: str | _Named | None = None

    @property
    def conversation_id(self) -> str:
        return self.conversation.id if isinstance(self.conversation, _Named) else self.conversation or ""


class _Given(msgspec.Struct):
    id: str
    output: list[msgspec.Raw]


class Stored:
    """Conversations by the id of the response that ends them, or by an id of their own."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[bytes, ...]] = OrderedDict()
        self._numbers = count(1)

    def begin(self) -> str:
        """Make a conversation, and return its id."""
        name = f"conv_sim_{next(self._numbers)}"
        self._keep(name, ())
        return name

    def whole(self, body: bytes) -> bytes | No:
        """Return a request with everything in it that it goes on from, or that this is not known."""
        try:
            going = msgspec.json.decode(body, type=_Going)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return body  # Whoever reads it next says what is wrong with it.
        for name, kind in ((going.previous_response_id, "Previous response"), (going.conversation_id, "Conversation")):
            if name and name not in self._kept:
                return _unknown(kind, name)
        before = self._kept.get(going.previous_response_id or going.conversation_id)
        if before is None:
            return body
        whole = without(without(body, "previous_response_id"), "conversation")
        return replaced(whole, "input", [*before, *_elements(going)])

    def keep(self, body: bytes, answer: bytes) -> None:
        """Keep an answer with all that led to it."""
        going, given = msgspec.json.decode(body, type=_Going), msgspec.json.decode(answer, type=_Given)
        before = self._kept.get(going.previous_response_id or going.conversation_id, ())
        said = (*before, *_elements(going), *map(bytes, given.output))
        if going.conversation_id:
            self._keep(going.conversation_id, said)
        if going.store is not False:
            self._keep(given.id, said)

    def _keep(self, name: str, said: tuple[bytes, ...]) -> None:
        self._kept[name] = said
        self._kept.move_to_end(name)
        while len(self._kept) > _KEPT_MAX:
            self._kept.popitem(last=False)


def _elements(going: _Going) -> list[bytes]:
    if isinstance(going.input, str):
        return [to_bytes({"role": "user", "content": going.input})]
    return [bytes(one) for one in going.input]


def _unknown(kind: str, name: str) -> No:
    is_response = kind == "Previous response"
    param = "previous_response_id" if is_response else "conversation"
    code = "previous_response_not_found" if is_response else "conversation_not_found"
    error = {"message": f"{kind} with id '{name}' not found.", "type": "invalid_request_error", "param": param}
    return No(400 if is_response else 404, to_bytes({"error": {**error, "code": code}}))


# --- What the simulated provider need not read again: the beginning that a request shares with earlier ones.


# Beginnings kept, at 32 bytes each: hundreds of long conversations.
_PREFIXES_KEPT_MAX = 20_000
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
        anthropic.NAME: _Habit(1_024, is_asked=True),
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
        while len(self._kept) > _PREFIXES_KEPT_MAX:
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
