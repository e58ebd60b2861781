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
from holdfast.models.fake.faults import ErrorResponse
from holdfast.models.fake.tokens import count_opening, count_parts
from holdfast.models.json_spans import replaced, without
from holdfast.models.wire import to_bytes
from holdfast.types.messages import Request

# Enough for any test; each holds what was said up to it.
_CONVERSATIONS_MAX = 1_000


class _Named(msgspec.Struct):
    id: str = ""


class _Continuation(msgspec.Struct):
    """What of a request says where it goes on."""

    input: str | list[msgspec.Raw] = ""
    store: bool | None = None
    previous_response_id: str | None = None
    conversation: str | _Named | None = None

    @property
    def conversation_id(self) -> str:
        return self.conversation.id if isinstance(self.conversation, _Named) else self.conversation or ""


class _GivenResponse(msgspec.Struct):
    id: str
    output: list[msgspec.Raw]


class ResponseStore:
    """Conversations by the id of the response that ends them, or by an id of their own."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[bytes, ...]] = OrderedDict()
        self._numbers = count(1)

    def begin(self) -> str:
        """Make a conversation, and return its id."""
        name = f"conv_sim_{next(self._numbers)}"
        self._keep(name, ())
        return name

    def whole(self, body: bytes) -> bytes | ErrorResponse:
        """Return a request with everything in it that it goes on from, or that this is not known."""
        try:
            continuation = msgspec.json.decode(body, type=_Continuation)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return body  # Whoever reads it next says what is wrong with it.
        for name, kind in (
            (continuation.previous_response_id, "Previous response"),
            (continuation.conversation_id, "Conversation"),
        ):
            if name and name not in self._kept:
                return _unknown(kind, name)
        before = self._kept.get(continuation.previous_response_id or continuation.conversation_id)
        if before is None:
            return body
        whole = without(without(body, "previous_response_id"), "conversation")
        return replaced(whole, "input", [*before, *_elements(continuation)])

    def keep(self, body: bytes, answer: bytes) -> None:
        """Keep an answer with all that led to it."""
        continuation, given = (
            msgspec.json.decode(body, type=_Continuation),
            msgspec.json.decode(answer, type=_GivenResponse),
        )
        before = self._kept.get(continuation.previous_response_id or continuation.conversation_id, ())
        said = (*before, *_elements(continuation), *map(bytes, given.output))
        if continuation.conversation_id:
            self._keep(continuation.conversation_id, said)
        if continuation.store is not False:
            self._keep(given.id, said)

    def _keep(self, name: str, said: tuple[bytes, ...]) -> None:
        self._kept[name] = said
        self._kept.move_to_end(name)
        while len(self._kept) > _CONVERSATIONS_MAX:
            self._kept.popitem(last=False)


def _elements(continuation: _Continuation) -> list[bytes]:
    if isinstance(continuation.input, str):
        return [to_bytes({"role": "user", "content": continuation.input})]
    return [bytes(one) for one in continuation.input]


def _unknown(kind: str, name: str) -> ErrorResponse:
    is_response = kind == "Previous response"
    param = "previous_response_id" if is_response else "conversation"
    code = "previous_response_not_found" if is_response else "conversation_not_found"
    error = {"message": f"{kind} with id '{name}' not found.", "type": "invalid_request_error", "param": param}
    return ErrorResponse(400 if is_response else 404, to_bytes({"error": {**error, "code": code}}))


# --- What the simulated provider need not read again: the beginning that a request shares with earlier ones.


# Beginnings kept, at 32 bytes each: hundreds of long conversations.
_PREFIXES_MAX = 20_000
_CACHE_CONTROL = b'"cache_control"'


class _CachePolicy(msgspec.Struct, frozen=True):
    """The least that a provider keeps, in which steps it tells reads, and whether it must be asked."""

    tokens_min: int
    step: int = 1
    needs_request: bool = False


_CACHE_POLICIES: Mapping[str, _CachePolicy] = MappingProxyType(
    {
        openai_chat.NAME: _CachePolicy(1_024, 128),
        openai_responses.NAME: _CachePolicy(1_024, 128),
        anthropic.NAME: _CachePolicy(1_024, needs_request=True),
        gemini.NAME: _CachePolicy(4_096),
    }
)


class CacheUsage(msgspec.Struct, frozen=True):
    """Of a request's tokens: what was found in the cache, and what was put there at a price of its own."""

    read: int = 0
    written: int = 0


NO_CACHE_USAGE = CacheUsage()


class PromptCache:
    """Beginnings of requests, by a digest of everything in them. Bounded: those longest unused are forgotten."""

    def __init__(self) -> None:
        self._kept: OrderedDict[bytes, None] = OrderedDict()

    def take(self, dialect: str, body: bytes, model: str, request: Request) -> CacheUsage:
        """Look a request up, then keep it."""
        policy = _CACHE_POLICIES[dialect]
        if policy.needs_request and _CACHE_CONTROL not in body:
            return NO_CACHE_USAGE
        prefixes = [one for one in _prefixes(f"{dialect} {model}", request) if one[1] >= policy.tokens_min]
        if not prefixes:
            return NO_CACHE_USAGE
        read = max((tokens for digest, tokens in prefixes if digest in self._kept), default=0)
        for digest, _ in prefixes[-1:] if policy.needs_request else prefixes:
            self._kept[digest] = None
            self._kept.move_to_end(digest)
        while len(self._kept) > _PREFIXES_MAX:
            self._kept.popitem(last=False)
        return CacheUsage(read // policy.step * policy.step, prefixes[-1][1] - read if policy.needs_request else 0)


def _prefixes(whose: str, request: Request) -> Iterator[tuple[bytes, int]]:
    """Yield the digest of everything up to each part of a request, and how many tokens that has."""
    head = msgspec.json.encode((whose, request.effort, request.tools, request.system))
    digest, tokens = hashlib.sha256(head).digest(), count_opening(request)
    yield digest, tokens
    for message in request.messages:
        for place, part in enumerate(message.parts):
            digest = hashlib.sha256(digest + msgspec.json.encode((message.role, part))).digest()
            tokens += count_parts([part], is_first=place == 0)
            yield digest, tokens
