"""Registry of wire dialects and their interface, for clients and servers."""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Protocol

from holdfast.models import anthropic, gemini, openai_chat, openai_responses
from holdfast.models.parameters import with_fields
from holdfast.models.stream_decoder import AnswerDecoder
from holdfast.models.stream_encoder import LiveEncoder
from holdfast.models.wire import DecodedRequest
from holdfast.types.messages import Message, Reply, Request, ToolSpec

# Cached paths: clients use a few.
_PATHS_MAX = 64


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
    """Codec of one provider API. Each dialect is a package of pure functions."""

    NAME: str
    # Request path at a server; for Gemini, its prefix.
    SERVER_PATH: str
    DEFAULT_BASE_URL: str
    # Environment variables for the key; the first one set wins.
    KEY_VARIABLES: tuple[str, ...]
    BASE_URL_VARIABLE: str

    def request_path(self, model: str) -> str:
        """Return the path of requests to a model, relative to the base URL."""
        ...

    @property
    def encode_request(self) -> _EncodeRequest:
        """Encode a request body."""
        ...

    @property
    def StreamDecoder(self) -> type[AnswerDecoder]:  # noqa: N802 - a class, named like one
        """Decoder of one response."""
        ...

    def key_headers(self, key: str) -> dict[str, str]:
        """Return the authentication and version headers of a request."""
        ...

    @property
    def decode_request(self) -> _DecodeRequest:
        """Decode a request body and its path."""
        ...

    def encode_reply(self, reply: Reply, reply_id: str, created: int = 0) -> bytes:
        """Encode a reply as one JSON body."""
        ...

    @property
    def encode_stream(self) -> _EncodeStream:
        """Encode a reply as stream events."""
        ...


class ServedDialect(Dialect, Protocol):
    """A dialect of the proxy endpoints: it can also encode live streams and rewrite client requests."""

    # The request field with the conversation.
    MESSAGES_FIELD: str

    def encode_messages(self, messages: Sequence[Message], blobs: Mapping[str, bytes], issuer: str) -> list[bytes]:
        """Encode messages as elements of `MESSAGES_FIELD`."""
        ...

    def encode_tool(self, spec: ToolSpec) -> bytes:
        """Encode a tool as an element of the field `tools`."""
        ...

    def without_reasoning(self, element: bytes) -> bytes | None:
        """Remove signed reasoning from an element; None if nothing is left."""
        ...

    def settled(self, body: bytes, model: str = "") -> bytes:
        """Adjust a rewritten request for a model: reasoning settings to the reasoning that is left in it, and pairs."""
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
        gemini.NAME: gemini,
    }
)

LIVE_ENCODERS: Mapping[str, type[LiveEncoder]] = MappingProxyType(
    {
        openai_chat.NAME: openai_chat.ChatEncoder,
        anthropic.NAME: anthropic.MessagesEncoder,
        openai_responses.NAME: openai_responses.ResponsesEncoder,
        gemini.NAME: gemini.GenerateEncoder,
    }
)


@lru_cache(maxsize=_PATHS_MAX)
def dialect_at(path: str) -> str | None:
    """Return the name of the dialect served at a path without its query, or None."""
    if gemini.is_generation(path):
        return gemini.NAME
    return next((name for name, dialect in DIALECTS.items() if path == dialect.SERVER_PATH), None)


def model_at(dialect: str, address: str) -> str | None:
    """Return the model that the address of a request names; None in dialects that have it in the body."""
    return gemini.model_in(address) if dialect == gemini.NAME else None


def with_model(dialect: str, address: str, body: bytes, model: str) -> tuple[str, bytes]:
    """Return a request with the name of another model in its address, or in its body."""
    if dialect == gemini.NAME:
        return gemini.with_model(address, model), with_fields(body, {"model": f"models/{model}"})
    return address, with_fields(body, {"model": model})
