"""State of the simulated provider: stored responses and the prompt cache, both bounded.

A response is stored with its conversation unless the request has `store: false`. A provider-side conversation grows
with each of its responses. The oldest entries are evicted, as real providers do after a month.
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
from holdfast.models.wire import replaced, to_bytes, without
from holdfast.types.messages import Request

# Enough for any test; each entry has its full conversation.
_CONVERSATIONS_MAX = 1_000


class _Named(msgspec.Struct):
    id: str = ""


class _Continuation(msgspec.Struct):
    """Fields of a request that continue a stored conversation."""

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
    """Conversations by the id of their last response, or by conversation id."""

    def __init__(self) -> None:
        self._entries: OrderedDict[str, tuple[bytes, ...]] = OrderedDict()
        self._numbers = count(1)

    def create_conversation(self) -> str:
        """Create a conversation and return its id."""
        name = f"conv_sim_{next(self._numbers)}"
        self._put(name, ())
        return name

    def expand(self, body: bytes) -> bytes | ErrorResponse:
        """Return a request with its stored conversation inserted, or an error for an unknown id."""
        try:
            continuation = msgspec.json.decode(body, type=_Continuation)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return body  # The request decoder reports the error.
        for name, kind in (
            (continuation.previous_response_id, "Previous response"),
            (continuation.conversation_id, "Conversation"),
        ):
            if name and name not in self._entries:
                return _unknown(kind, name)
        before = self._entries.get(continuation.previous_response_id or continuation.conversation_id)
        if before is None:
            return body
        expanded = without(without(body, "previous_response_id"), "conversation")
        return replaced(expanded, "input", [*before, *_elements(continuation)])

    def save(self, body: bytes, response: bytes) -> None:
        """Store a response with its conversation."""
        continuation = msgspec.json.decode(body, type=_Continuation)
        given = msgspec.json.decode(response, type=_GivenResponse)
        before = self._entries.get(continuation.previous_response_id or continuation.conversation_id, ())
        elements = (*before, *_elements(continuation), *map(bytes, given.output))
        if continuation.conversation_id:
            self._put(continuation.conversation_id, elements)
        if continuation.store is not False:
            self._put(given.id, elements)

    def _put(self, name: str, elements: tuple[bytes, ...]) -> None:
        self._entries[name] = elements
        self._entries.move_to_end(name)
        while len(self._entries) > _CONVERSATIONS_MAX:
            self._entries.popitem(last=False)


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


# --- Prompt cache ---

# Prefix digests of 32 bytes each: hundreds of long conversations.
_PREFIXES_MAX = 20_000
_CACHE_CONTROL = b'"cache_control"'


class _CachePolicy(msgspec.Struct, frozen=True):
    """Minimum cached tokens, rounding of reported reads, and whether caching is opt-in."""

    tokens_min: int
    step: int = 1
    is_opt_in: bool = False


_CACHE_POLICIES: Mapping[str, _CachePolicy] = MappingProxyType(
    {
        openai_chat.NAME: _CachePolicy(1_024, 128),
        openai_responses.NAME: _CachePolicy(1_024, 128),
        anthropic.NAME: _CachePolicy(1_024, is_opt_in=True),
        gemini.NAME: _CachePolicy(4_096),
    }
)


class CacheUsage(msgspec.Struct, frozen=True):
    """Cache reads and billed cache writes of a request, in tokens."""

    read: int = 0
    written: int = 0


NO_CACHE_USAGE = CacheUsage()


class PromptCache:
    """Request prefixes by digest; least recently used ones are evicted."""

    def __init__(self) -> None:
        self._entries: OrderedDict[bytes, None] = OrderedDict()

    def lookup(self, dialect: str, body: bytes, model: str, request: Request) -> CacheUsage:
        """Find the longest cached prefix of a request, then cache its prefixes."""
        policy = _CACHE_POLICIES[dialect]
        if policy.is_opt_in and _CACHE_CONTROL not in body:
            return NO_CACHE_USAGE
        prefixes = [one for one in _prefixes(f"{dialect} {model}", request) if one[1] >= policy.tokens_min]
        if not prefixes:
            return NO_CACHE_USAGE
        read = max((tokens for digest, tokens in prefixes if digest in self._entries), default=0)
        for digest, _ in prefixes[-1:] if policy.is_opt_in else prefixes:
            self._entries[digest] = None
            self._entries.move_to_end(digest)
        while len(self._entries) > _PREFIXES_MAX:
            self._entries.popitem(last=False)
        return CacheUsage(read // policy.step * policy.step, prefixes[-1][1] - read if policy.is_opt_in else 0)


def _prefixes(scope: str, request: Request) -> Iterator[tuple[bytes, int]]:
    """Yield the digest and token count of each prefix of a request."""
    head = msgspec.json.encode((scope, request.effort, request.tools, request.system))
    digest, tokens = hashlib.sha256(head).digest(), count_opening(request)
    yield digest, tokens
    for message in request.messages:
        for place, part in enumerate(message.parts):
            digest = hashlib.sha256(digest + msgspec.json.encode((message.role, part))).digest()
            tokens += count_parts([part], is_first=place == 0)
            yield digest, tokens
