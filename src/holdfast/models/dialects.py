"""The dialects by name: what every one of them can do, as a client and as a server."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Protocol

from holdfast.core.messages import Reply, Request
from holdfast.models import anthropic_messages, openai_chat
from holdfast.models.answers import AnswerDecoder
from holdfast.models.wire import DecodedRequest


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


class Dialect(Protocol):
    """One way of speaking with a model. Each is a package of pure functions."""

    NAME: str
    PATH: str
    SERVER_PATH: str
    DEFAULT_BASE_URL: str
    KEY_VARIABLE: str
    BASE_URL_VARIABLE: str

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

    def decode_request(self, body: bytes, issuer: str = "") -> DecodedRequest:
        """Read the body of a request."""
        ...

    def encode_reply(self, reply: Reply, reply_id: str, created: int = 0) -> bytes:
        """Return a whole answer."""
        ...

    @property
    def encode_stream(self) -> _EncodeStream:
        """Yield an answer as the events of a stream."""
        ...


DIALECTS: Mapping[str, Dialect] = MappingProxyType(
    {openai_chat.NAME: openai_chat, anthropic_messages.NAME: anthropic_messages}
)
