"""The dialects by name: what every one of them can do, as a client and as a server."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

from holdfast.models import anthropic, gemini, openai_chat, openai_responses
from holdfast.models.stream_decoder import AnswerDecoder
from holdfast.models.stream_encoder import LiveEncoder
from holdfast.models.wire import DecodedRequest
from holdfast.types.messages import Message, Reply, Request


class _EncodeRequest(Protocol):
    def __call__(
        self,
        request: Request,
        model: str,
        blobs: Mapping[str, bytes],
        issuer: str,
        *,
        is_official: bool = True,
        wants_stream: bool = True,
    ) -> bytes: ...


class _EncodeStream(Protocol):
    def __call__(
        self, reply: Reply, reply_id: str, created: int = 0, *, wants_usage: bool = True
    ) -> Iterator[bytes]: ...


class _DecodeRequest(Protocol):
    def __call__(
        self, body: bytes, issuer: str = "", path: str = "", *, is_tolerant: bool = False
    ) -> DecodedRequest: ...


class Dialect(Protocol):
    """One way of speaking with a model. Each is a package of pure functions."""

    NAME: str
    # Where a server of this dialect listens; for Gemini, what the address begins with.
    SERVER_PATH: str
    DEFAULT_BASE_URL: str
    # The variables that may hold the key; the first that is set counts.
    KEY_VARIABLES: tuple[str, ...]
    BASE_URL_VARIABLE: str

    def request_path(self, model: str) -> str:
        """Return where requests to a model go, behind the base URL."""
        ...

    @property
    def encode_request(self) -> _EncodeRequest:
        """Return the body of a request."""
        ...

    @property
    def StreamDecoder(self) -> type[AnswerDecoder]:  # noqa: N802 - a class, named like one
        """Read one answer."""
        ...

    def key_headers(self, key: str) -> dict[str, str]:
        """Return the headers that a request needs, the key among them."""
        ...

    @property
    def decode_request(self) -> _DecodeRequest:
        """Read the body of a request, and the path that it came to."""
        ...

    def encode_reply(self, reply: Reply, reply_id: str, created: int = 0) -> bytes:
        """Return a whole answer."""
        ...

    @property
    def encode_stream(self) -> _EncodeStream:
        """Yield an answer as the events of a stream."""
        ...


class ServedDialect(Dialect, Protocol):
    """A dialect in which clients may speak to us: it can also answer live, and rewrite what a client sent."""

    # The field of a request that holds the conversation.
    MESSAGES_FIELD: str

    def encode_messages(self, messages: Sequence[Message], blobs: Mapping[str, bytes], issuer: str) -> list[bytes]:
        """Return messages as elements of the field that holds the conversation."""
        ...

    def without_reasoning(self, element: bytes) -> bytes | None:
        """Return an element of that field without signed thinking; None where it is nothing else."""
        ...

    def settled(self, body: bytes) -> bytes:
        """Return a request whose settings agree with the thinking that is left in it."""
        ...


DIALECTS: Mapping[str, Dialect] = MappingProxyType(
    {
        openai_chat.NAME: openai_chat,
        anthropic.NAME: anthropic,
        openai_responses.NAME: openai_responses,
        gemini.NAME: gemini,
    }
)

SERVED: Mapping[str, ServedDialect] = MappingProxyType(
    {
        openai_chat.NAME: openai_chat,
        anthropic.NAME: anthropic,
        openai_responses.NAME: openai_responses,
    }
)

LIVE_ENCODERS: Mapping[str, type[LiveEncoder]] = MappingProxyType(
    {
        openai_chat.NAME: openai_chat.ChatEncoder,
        anthropic.NAME: anthropic.MessagesEncoder,
        openai_responses.NAME: openai_responses.ResponsesEncoder,
    }
)


def dialect_at(path: str) -> str | None:
    """Return the name of the dialect that is spoken at a path, or None where none is."""
    for name, dialect in DIALECTS.items():
        if path == dialect.SERVER_PATH or (dialect.SERVER_PATH.endswith("/") and path.startswith(dialect.SERVER_PATH)):
            return name
    return None
