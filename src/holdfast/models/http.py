"""A model behind an endpoint: a request goes out as bytes of its dialect, deltas and one outcome come back.

A failure of the provider or of the network is an outcome, never an exception. Keys live in headers alone: they are in
no `repr`, no message, and are struck out of whatever a provider sends back.
"""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from urllib.parse import urlsplit

import msgspec

from holdfast.core.faults import Phase, Refusal
from holdfast.core.limits import Bounds, Limits
from holdfast.core.messages import Reply, Request
from holdfast.core.prices import NO_PRICES, Prices
from holdfast.models.answers import AnswerDecoder
from holdfast.models.blame import blamed_image
from holdfast.models.dialects import Dialect
from holdfast.models.transport import Answer, BrokenOffError, Transport, UnreachableError
from holdfast.models.wire import cut_text
from holdfast.ports import Delta

_OK = range(200, 300)
_REDIRECT = range(300, 400)

# What a classifier or a person can use. Cookies, keys and everything else stay behind.
_USEFUL_HEADERS = frozenset({"date", "content-type", "request-id", "x-request-id", "x-should-retry"})
_USEFUL_PREFIXES = ("retry-after", "x-ratelimit", "anthropic-ratelimit")
# The longest such header seen has under 100 characters, and no provider sends more than 16 of them.
_HEADER_CHARS_MAX = 256
_HEADERS_MAX = 40

# An error's body follows its status at once; a server that stops in between is not waited for longer than this.
_ERROR_BODY_SECONDS_MAX = 10.0
# The end of a stream follows its last event in the same packet; a new connection costs about this much.
_DRAIN_SECONDS_MAX = 0.2
# Shorter ones are placeholders such as "none", and striking them out would mangle the text.
_KEY_CHARS_MIN = 8
# Read this much more of a body than is kept, so that a key across the cut is struck out whole. None seen is longer.
_KEY_CHARS_MAX = 512


class ModelCard(msgspec.Struct, frozen=True):
    """What is known of a model before it is called.

    `name` is what people call it, `model` what its endpoint calls it; `place` is the endpoint's host, with its port
    where it is unusual; `is_official` says that the endpoint is the dialect's own.
    """

    name: str
    model: str
    place: str
    limits: Limits = Limits()
    is_official: bool = False
    prices: Prices = NO_PRICES


class HttpModel:
    """One model at one endpoint, in one dialect."""

    def __init__(self, dialect: Dialect, card: ModelCard, transport: Transport, *, key: str = "") -> None:
        self._dialect = dialect
        self._card = card
        self._transport = transport
        self._key = key

    def __repr__(self) -> str:
        return f"HttpModel({self.name!r} as {self.issuer!r})"

    @property
    def name(self) -> str:
        """What people call it."""
        return self._card.name

    @property
    def issuer(self) -> str:
        """Dialect, endpoint and model in one word."""
        return f"{self._dialect.NAME}:{self._card.place}:{self._card.model}"

    @property
    def limits(self) -> Limits:
        """What it is declared to accept."""
        return self._card.limits

    @property
    def prices(self) -> Prices:
        """What it is declared to cost."""
        return self._card.prices

    async def stream(
        self, request: Request, blobs: Mapping[str, bytes]
    ) -> AsyncGenerator[Delta | Reply | Refusal, None]:
        """Send a request; yield deltas, then exactly one outcome. Closing this closes the connection."""
        card = self._card
        body = self._dialect.encode_request(request, card.model, blobs, self.issuer, is_official=card.is_official)
        headers = {
            "content-type": "application/json",
            "accept": "text/event-stream, application/json",
            **self._dialect.key_headers(self._key),
        }
        try:
            async with self._transport.post(self._dialect.request_path(card.model), headers, body) as answer:
                if answer.status not in _OK:
                    yield await self._refusal(answer, body)
                    return
                decoder = self._dialect.StreamDecoder(self.issuer, secrets.token_hex(6))
                async with aclosing(_deltas(answer, decoder)) as deltas:
                    async for delta in deltas:
                        yield delta
                yield self._outcome(answer, decoder)
                await _drain(answer)
        except UnreachableError as error:
            yield Refusal(self._dialect.NAME, Phase.CONNECT, cause=self._struck(str(error)))

    async def close(self) -> None:
        """Let go of connections."""
        await self._transport.close()

    def _outcome(self, answer: Answer, decoder: AnswerDecoder) -> Reply | Refusal:
        outcome = decoder.finish()
        if isinstance(outcome, Reply):
            return outcome if outcome.model else msgspec.structs.replace(outcome, model=self._card.model)
        return msgspec.structs.replace(
            outcome,
            status=answer.status,
            headers=self._useful(answer.headers),
            body=self._struck(outcome.body),
        )

    async def _refusal(self, answer: Answer, sent: bytes) -> Refusal:
        cause = ""
        if answer.status in _REDIRECT:
            host = urlsplit(answer.headers.get("location", "")).hostname or "another address"
            cause = f"the endpoint redirects to {host}, which is not followed; set the base URL to the final address"
        told = cut_text(self._struck_bytes(await _error_body(answer)))
        return Refusal(
            self._dialect.NAME,
            Phase.RESPONSE,
            answer.status,
            self._useful(answer.headers),
            told,
            cause,
            blamed_image(sent, told),
        )

    def _useful(self, headers: Mapping[str, str]) -> dict[str, str]:
        kept = {
            name: self._struck(text[:_HEADER_CHARS_MAX])
            for name, text in headers.items()
            if name in _USEFUL_HEADERS or name.startswith(_USEFUL_PREFIXES)
        }
        return dict(sorted(kept.items())[:_HEADERS_MAX])

    def _struck(self, text: str) -> str:
        """Strike the key out of what a provider sent: some repeat it in their errors."""
        return text.replace(self._key, "[key]") if len(self._key) >= _KEY_CHARS_MIN else text

    def _struck_bytes(self, body: bytes) -> bytes:
        return body.replace(self._key.encode(), b"[key]") if len(self._key) >= _KEY_CHARS_MIN else body


async def _deltas(answer: Answer, decoder: AnswerDecoder) -> AsyncGenerator[Delta, None]:
    try:
        async for chunk in answer.chunks:
            for delta in decoder.feed(chunk):
                yield delta
            if decoder.is_complete:
                return
    except BrokenOffError:
        return  # What is missing decides: the decoder says that the answer is not complete, unless it is.


async def _drain(answer: Answer) -> None:
    """Read what follows the outcome, so that the connection can serve the next request."""
    try:
        async with asyncio.timeout(_DRAIN_SECONDS_MAX):
            async for _ in answer.chunks:
                pass
    except (BrokenOffError, TimeoutError):
        pass  # The connection is closed instead.


async def _error_body(answer: Answer) -> bytes:
    bytes_max = Bounds().refusal_body_bytes_max + _KEY_CHARS_MAX
    body = bytearray()
    try:
        async with asyncio.timeout(_ERROR_BODY_SECONDS_MAX):
            async for chunk in answer.chunks:
                body += chunk
                if len(body) > bytes_max:
                    break
    except (BrokenOffError, TimeoutError):
        pass  # The status has been told; what there is of the body is better than none.
    return bytes(body[:bytes_max])
