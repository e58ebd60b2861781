"""A client's request on its way: its parts, the bodies it may be sent as, and the writer of its response."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import msgspec
from msgspec.structs import replace

from holdfast.core.limits.fit import Sizes, measure
from holdfast.core.proxy.client_profiles import ClientProfile, profile_of
from holdfast.core.proxy.instructions import ClientInstructions, instructions_of
from holdfast.core.proxy.plan import RequestFacts
from holdfast.core.proxy.recall import allows_recall
from holdfast.gateway.http.asgi import Send
from holdfast.gateway.proxy.ownership import AnswerIds
from holdfast.gateway.proxy.upstream import RawHeaders, SpeculativeForward, Upstream, key_in, owner_of
from holdfast.models.body_rewrite import Kept, rewrite
from holdfast.models.dialects import SERVED, with_model
from holdfast.models.http import HttpModel
from holdfast.models.parameters import has_effort, parameters_in
from holdfast.models.wire import DecodedRequest
from holdfast.types.messages import Message, Part, Reasoning, Reply, Role, Text
from holdfast.types.records import AnswerLinked

# The error code of a provider that does not have the response that a request continues from.
_HISTORY_LOST = "previous_response_not_found"
# Headers are short by custom; servers cut them at 8 KiB.
_NOTICE_CHARS_MAX = 500


class _Named(msgspec.Struct):
    id: str = ""


class Continuation(msgspec.Struct, frozen=True):
    """Fields of a Responses API request that name its history instead of sending it."""

    previous_response_id: str | None = None
    conversation: str | _Named | None = None
    store: bool | None = None

    @property
    def name(self) -> str:
        """The id that it continues from; "" if it begins a conversation."""
        return self.previous_response_id or self.conversation_id

    @property
    def conversation_id(self) -> str:
        """The provider's own conversation; "" if there is none."""
        return self.conversation.id if isinstance(self.conversation, _Named) else self.conversation or ""

    @property
    def is_linked(self) -> bool:
        """True if a later request may continue from the answer."""
        return self.store is not False or bool(self.conversation_id)


_continuations = msgspec.json.Decoder(Continuation)
NO_CONTINUATION = Continuation(store=False)


def parse_continuation(dialect: str, body: bytes) -> Continuation:
    """Parse `previous_response_id` and `conversation`, which only the Responses API has."""
    if dialect != "openai-responses":
        return NO_CONTINUATION
    try:
        return _continuations.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return NO_CONTINUATION


def is_history_lost(body: str) -> bool:
    """Return whether a provider says that it does not have the response that a request continues from."""
    return _HISTORY_LOST in body


def conversation_of(decoded: DecodedRequest) -> tuple[Message, ...]:
    """Return the messages of a request up to the answer that is asked for."""
    messages = decoded.request.messages
    return messages[:-1] if _prefill(messages) else messages


def _prefill(messages: Sequence[Message]) -> tuple[Part, ...]:
    if not messages or messages[-1].role is not Role.ASSISTANT:
        return ()
    parts = messages[-1].parts
    return parts if all(isinstance(part, Text) for part in parts) else ()


class ProxyRequest(msgspec.Struct, frozen=True, dict=True):
    """A request to an endpoint of a model. `decoded` is None if its body cannot be parsed."""

    dialect: str
    upstream: Upstream
    address: str
    headers: RawHeaders
    body: bytes
    # Models to send it to, best first: the one in the body, then the fallbacks. And their names.
    models: tuple[HttpModel, ...]
    names: tuple[str, ...]
    # The session that the client names in a header.
    named: str = ""
    decoded: DecodedRequest | None = None
    digests: Sequence[bytes] = ()
    # The key prefix of all sessions that begin with the same message.
    prefix: str = ""
    is_compaction: bool = False
    # The history it continues from by the provider's ids, the scope of those ids, and the link that we have for it.
    continuation: Continuation = NO_CONTINUATION
    scope: str = ""
    link: AnswerLinked | None = None
    # The link that its answer will get; None if no request can continue from the answer.
    to_link: AnswerLinked | None = None
    # Messages of its conversation that the provider holds; `digests` has them too.
    held: int = 0
    # New tool output with its repeated lines folded, by call; None: the request is not changed to save money.
    folds: Mapping[str, tuple[str, ...]] | None = None
    # The provider rejects it as it came, as far as that is known; set for a recovery.
    is_rejected: bool = False
    # Set if it was sent before it was parsed.
    speculative: SpeculativeForward | None = None

    @cached_property
    def owner(self) -> str:
        """A digest of the key and dialect that the request carries."""
        return owner_of(f"{self.dialect}\0{key_in(self.headers)}")

    @cached_property
    def profile(self) -> ClientProfile:
        """The profile of the client."""
        agents = [text.decode("latin-1") for name, text in self.headers if name == b"user-agent"]
        return profile_of(agents[0] if agents else "")

    @property
    def issuer(self) -> str:
        """The issuer of the first model, which may have signed reasoning in the request."""
        return self.models[0].issuer if self.models else ""

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation up to the answer that is asked for."""
        return conversation_of(self.decoded) if self.decoded is not None else ()

    @cached_property
    def prefill(self) -> tuple[Part, ...]:
        """The beginning of the answer, if the client sends one."""
        return _prefill(self.decoded.request.messages) if self.decoded is not None else ()

    @cached_property
    def instructions(self) -> ClientInstructions:
        """Instructions at the head of the conversation."""
        return instructions_of(self.messages, self.decoded.blobs if self.decoded is not None else {})

    @property
    def count(self) -> int:
        """Messages of the conversation, those included that the provider holds."""
        return self.held + len(self.messages)

    def answered(self, reply: Reply) -> Reply:
        """Return an answer as the client will have it: after its own prefill."""
        return replace(reply, parts=(*self.prefill, *reply.parts)) if self.prefill else reply

    @cached_property
    def sizes(self) -> Sizes:
        """The estimated sizes. They cost about a millisecond, so they are made on demand."""
        assert self.decoded is not None, "an unparsed request cannot be measured"
        return measure(self.decoded.request)

    def facts(self, *, is_repeated: bool) -> RequestFacts:
        """Return the facts that a plan depends on."""
        messages = self.messages
        inputs = (place for place in range(len(messages) - 1, -1, -1) if messages[place].role is Role.USER)
        newest = next((self.digests[self.held + place].hex() for place in inputs), "")
        return RequestFacts(
            is_compaction=self.is_compaction,
            messages=self.count,
            is_held=bool(self.held),
            is_repeated=is_repeated,
            has_fallback=len(self.models) > 1,
            is_divisible=self.count > 1 or any(len(one.parts) > 1 for one in self.messages),
            newest=newest,
            wire_bytes=len(self.body),
        )

    def failure_facts(self, facts: RequestFacts) -> RequestFacts:
        """Return facts with those that only the plan after a failure needs; they take a scan of the body."""
        return replace(facts, has_reasoning=bool(self._signed), has_effort=self.has_effort, parameters=self.parameters)

    @cached_property
    def parameters(self) -> frozenset[str]:
        """The parameters of the body that the request can do without."""
        return parameters_in(self.dialect, self.body)

    @property
    def has_effort(self) -> bool:
        """True if the client sends a reasoning setting."""
        return has_effort(self.dialect, self.body)

    @property
    def allows_recall(self) -> bool:
        """True if the model may get a tool of ours beside those of the client."""
        return self.decoded is not None and bool(self.decoded.request.tools) and allows_recall(self.body)

    def body_for(self, place: int) -> bytes:
        """Return the body for the model at a place: unchanged for the first.

        Fallbacks get their own name, and no reasoning, which only its issuer can read.
        """
        body = self.renamed(place)
        if place == 0 or self.decoded is None or not self._signed:
            return body
        wires = range(len(self.decoded.originals))
        conversation = [Kept(wire, with_reasoning=wire not in self._signed) for wire in wires]
        return SERVED[self.dialect].settled(rewrite(self.dialect, body, conversation, {}, ""), self.names[place])

    def renamed(self, place: int) -> bytes:
        """Return the body with the name of the model at a place."""
        return self.body if place == 0 else with_model(self.dialect, self.address, self.body, self.names[place])[1]

    def address_for(self, place: int) -> str:
        """Return the address of the model at a place: Gemini has its name in the path."""
        return self.address if place == 0 else with_model(self.dialect, self.address, b"{}", self.names[place])[0]

    @cached_property
    def _signed(self) -> set[int]:
        """The messages on the wire that have signed reasoning."""
        if self.decoded is None:
            return set()
        is_signed = [
            any(isinstance(part, Reasoning) and part.opaque for part in message.parts)
            for message in self.decoded.request.messages
        ]
        return {
            wire
            for wire, original in enumerate(self.decoded.originals)
            if any(is_signed[original.first : original.last])
        }

    def with_body(self, body: bytes) -> "ProxyRequest":
        """Return the same request with another body."""
        return replace(self, body=body)


class AnswerState(Protocol):
    """The progress of an answer that is being relayed."""

    @property
    def is_complete(self) -> bool:
        """True if the client has all content of the answer."""
        ...


@dataclass
class ResponseWriter:
    """Writes the response to the client. Once its head is sent, no other response can be."""

    send: Send
    # Set if the ids in the answer become the client's.
    ids: AnswerIds | None = None
    has_begun: bool = False
    is_ended: bool = False
    # Headers of our own.
    notes: dict[str, str] = field(default_factory=dict)
    # The answer that is being relayed.
    relay: AnswerState | None = None

    async def begin(self, status: int, headers: RawHeaders) -> None:
        """Send the status and the headers."""
        self.has_begun = True
        ours = [(name.encode(), _header_text(text)) for name, text in self.notes.items() if text]
        await self.send({"type": "http.response.start", "status": status, "headers": [*headers, *ours]})

    async def write(self, chunk: bytes) -> None:
        """Send a piece of the body."""
        if self.ids is not None:
            chunk = await self.ids.relayed(chunk)
        await self.send({"type": "http.response.body", "body": chunk, "more_body": True})

    async def end(self) -> None:
        """Send the end of the body."""
        rest = await self.ids.rest() if self.ids is not None else b""
        self.is_ended = True
        await self.send({"type": "http.response.body", "body": rest, "more_body": False})

    async def whole(self, status: int, headers: RawHeaders, body: bytes) -> None:
        """Send a response in one piece."""
        await self.begin(status, headers)
        await self.write(body)
        await self.end()


def _header_text(text: str) -> bytes:
    """Return a text as a header value: ASCII, one line, short."""
    return " ".join(text.split()).encode("ascii", "replace")[:_NOTICE_CHARS_MAX]
