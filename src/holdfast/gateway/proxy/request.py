"""One request of a client while it is on its way: what it says, what it may be sent as, and what has been told back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import msgspec

from holdfast.core.limits.fit import Sizes, measure
from holdfast.gateway.http.asgi import Send
from holdfast.gateway.proxy.speculative_forward import Ahead
from holdfast.gateway.proxy.upstream import RawHeaders, Upstream, key_in, owner_of
from holdfast.models.body_rewrite import Kept, rewrite
from holdfast.models.dialects import SERVED
from holdfast.models.http import HttpModel
from holdfast.models.json_spans import Span, locate
from holdfast.models.wire import DecodedRequest
from holdfast.types.messages import Message, Part, Reasoning, Reply, Role, Text
from holdfast.types.records import AnswerLinked

# --- Where a request goes on that names what came before in place of sending it.


# What a provider says that has forgotten an answer, or was never to keep it.
_FORGOTTEN = "previous_response_not_found"


class _Named(msgspec.Struct):
    id: str = ""


class Going(msgspec.Struct, frozen=True):
    """What of a request says where it goes on, and whether its answer may be gone on from."""

    previous_response_id: str | None = None
    conversation: str | _Named | None = None
    store: bool | None = None

    @property
    def name(self) -> str:
        """What it goes on from; "" where it begins."""
        return self.previous_response_id or self.conversation_id

    @property
    def conversation_id(self) -> str:
        """The provider's own conversation that it belongs to; "" where it belongs to none."""
        return self.conversation.id if isinstance(self.conversation, _Named) else self.conversation or ""

    @property
    def is_linked(self) -> bool:
        """Whether a later request may go on from its answer."""
        return self.store is not False or bool(self.conversation_id)


_goings = msgspec.json.Decoder(Going)
NOT_GOING_ON = Going(store=False)


def going_on(dialect: str, body: bytes) -> Going:
    """Return what a request says about where it goes on; only the responses dialect can say such a thing."""
    if dialect != "openai-responses":
        return NOT_GOING_ON
    try:
        return _goings.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return NOT_GOING_ON


def is_forgotten(body: str) -> bool:
    """Return whether a provider says that it does not have what a request goes on from."""
    return _FORGOTTEN in body


# What the dialects call the most that a model may write; whichever of them the client uses.
OUTPUT_FIELDS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
# Headers are short by custom; servers cut them at 8 KiB.
_NOTICE_CHARS_MAX = 500


@dataclass(frozen=True)
class Asked:
    """A request to one of the endpoints where a model answers. `decoded` is None where we cannot read it."""

    dialect: str
    upstream: Upstream
    address: str
    headers: RawHeaders
    body: bytes
    # Who is asked, as the engine knows models: the one in the body, then those it may be passed on to.
    models: tuple[HttpModel, ...]
    names: tuple[str, ...]
    # What its session is to be called, where the client says so.
    named: str = ""
    decoded: DecodedRequest | None = None
    digests: Sequence[bytes] = ()
    # What its conversation's family is called.
    prefix: str = ""
    # Whether it is an agent's own call for a summary of its history.
    is_compaction: bool = False
    # Where it goes on, by the provider's own names, whose names they are, and what we know of that.
    going: Going = NOT_GOING_ON
    scope: str = ""
    link: AnswerLinked | None = None
    # What a link to its answer will say; None where nobody can go on from that.
    to_link: AnswerLinked | None = None
    # How many messages the provider holds in front of these; `digests` has them too.
    held: int = 0
    # Set where it is on its way already.
    ahead: Ahead | None = None

    @cached_property
    def owner(self) -> str:
        """Whose request it is, by the key that it carries and the dialect that it speaks."""
        return owner_of(f"{self.dialect}\0{key_in(self.headers)}")

    @property
    def issuer(self) -> str:
        """What reasoning in it is signed by, if the model that is asked first signed it."""
        return self.models[0].issuer if self.models else ""

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation, as we read it, up to where the model is to answer."""
        if self.decoded is None:
            return ()
        messages = self.decoded.request.messages
        return messages[:-1] if self.prefill else messages

    @cached_property
    def prefill(self) -> tuple[Part, ...]:
        """The beginning of the answer, where the client puts it into the model's mouth."""
        messages = self.decoded.request.messages if self.decoded is not None else ()
        if not messages or messages[-1].role is not Role.ASSISTANT:
            return ()
        parts = messages[-1].parts
        return parts if all(isinstance(part, Text) for part in parts) else ()

    @property
    def count(self) -> int:
        """How many messages its conversation has, those included that the provider holds."""
        return self.held + len(self.messages)

    def answered(self, reply: Reply) -> Reply:
        """Return an answer as the client will have it: with the beginning that it gave itself."""
        return msgspec.structs.replace(reply, parts=(*self.prefill, *reply.parts)) if self.prefill else reply

    @cached_property
    def sizes(self) -> Sizes:
        """What it comes to, by estimate. Costs about a millisecond, so it is made when somebody asks."""
        assert self.decoded is not None, "what cannot be read cannot be measured"
        return measure(self.decoded.request)

    @property
    def may_have_anothers(self) -> bool:
        """Whether some of its thinking may be signed by a fallback, which answered in place of who is asked now."""
        return len(self.models) > 1 and bool(self._signed)

    def body_for(self, place: int, *, has_thoughts: bool = True) -> bytes:
        """Return the body for the model at a place: as it came for the first, unless its thinking is to be left out.

        For the others with their name, and without thinking, which only who signed it can read.
        """
        body = self.renamed(place)
        if (place == 0 and has_thoughts) or self.decoded is None or not self._signed:
            return body
        wires = range(len(self.decoded.originals))
        conversation = [Kept(wire, with_reasoning=wire not in self._signed) for wire in wires]
        return SERVED[self.dialect].settled(rewrite(self.dialect, body, conversation, {}, ""))

    def renamed(self, place: int) -> bytes:
        """Return the body with the name of the model at a place, and all else as it came."""
        return self.body if place == 0 else with_fields(self.body, {"model": self.names[place]})

    @cached_property
    def _signed(self) -> set[int]:
        """The messages on the wire that are, or are a part of, one with signed thinking."""
        if self.decoded is None:
            return set()
        thinks = [
            any(isinstance(part, Reasoning) and part.opaque for part in message.parts)
            for message in self.decoded.request.messages
        ]
        return {
            wire for wire, original in enumerate(self.decoded.originals) if any(thinks[original.first : original.last])
        }

    def with_body(self, body: bytes) -> "Asked":
        """Return the same request with another body."""
        return replace(self, body=body)


def with_fields(body: bytes, fields: Mapping[str, str | int]) -> bytes:
    """Return a body with other values in fields that it has; all else stays to the byte."""
    cuts: list[tuple[Span, bytes]] = []
    for name, value in fields.items():
        found = locate(body, name)
        if found is not None:
            cuts.append((found.value, msgspec.json.encode(value)))
    for span, encoded in sorted(cuts, key=lambda cut: cut[0].start, reverse=True):
        body = body[: span.start] + encoded + body[span.end :]
    return body


@dataclass
class Outbox:
    """The way back to the client. Once something was sent there is no second try."""

    send: Send
    has_begun: bool = False
    is_ended: bool = False
    notes: dict[str, str] = field(default_factory=dict)

    async def begin(self, status: int, headers: RawHeaders) -> None:
        """Send the status and the headers, with what we have to say in headers of our own."""
        self.has_begun = True
        ours = [(name.encode(), _plain(text)) for name, text in self.notes.items() if text]
        await self.send({"type": "http.response.start", "status": status, "headers": [*headers, *ours]})

    async def write(self, chunk: bytes) -> None:
        """Send a piece of the body."""
        await self.send({"type": "http.response.body", "body": chunk, "more_body": True})

    async def end(self) -> None:
        """Send the end of the body."""
        self.is_ended = True
        await self.send({"type": "http.response.body", "body": b"", "more_body": False})

    async def whole(self, status: int, headers: RawHeaders, body: bytes) -> None:
        """Send an answer in one piece."""
        await self.begin(status, headers)
        await self.write(body)
        await self.end()


def _plain(text: str) -> bytes:
    """Return a text as one header takes it: ASCII, one line, short."""
    return " ".join(text.split()).encode("ascii", "replace")[:_NOTICE_CHARS_MAX]
