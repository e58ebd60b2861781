"""HTTP client of one model: encode a request in its dialect, yield deltas and one outcome.

Provider and network failures are outcomes, never exceptions. API keys are only in headers: no `repr` or message holds
one, and they are redacted from provider responses.
"""

import asyncio
import binascii
import re
import secrets
from base64 import b64decode
from collections.abc import AsyncGenerator, Iterator, Mapping
from hashlib import sha256
from urllib.parse import urlsplit

import msgspec

from holdfast.core.limits.bounds import Bounds
from holdfast.core.limits.prices import NO_PRICES, Prices
from holdfast.core.limits.settings import wire_settings
from holdfast.models.dialects import Dialect
from holdfast.models.output_tool import OutputTool
from holdfast.models.parameters import without_parameters
from holdfast.models.reference import KeySource, read_key
from holdfast.models.stream_decoder import AnswerDecoder
from holdfast.models.transport import BrokenOffError, HttpResponse, Transport, UnreachableError
from holdfast.models.wire import cut_text
from holdfast.ports import Delta
from holdfast.types.faults import Phase, Refusal
from holdfast.types.limits import Limits
from holdfast.types.messages import Reply, Request

# --- Offending image ---

# The message list as each dialect names it, and the path steps below it.
_PATH = re.compile(r"(?<![\w])(messages|input|contents)((?:\.\w+|\[\d+\])+)")
_STEP = re.compile(r"\.(\w+)|\[(\d+)\]")
_DATA_URL = re.compile(r"data:[\w.+/-]+;base64,")


def offending_image(body: bytes, message: str) -> str:
    """Return the SHA-256 of the single image of `body` that an error message points at; "" for none or several."""
    paths = list(_PATH.finditer(message))
    try:
        sent: object = msgspec.json.decode(body) if paths else None
    except msgspec.DecodeError:
        return ""
    if not isinstance(sent, dict):
        return ""
    for path in paths:
        images = _images_at(sent.get(path[1]), _steps(path[2]))
        if len(images) == 1:
            return _sha256(images[0])
    return ""


def _steps(path: str) -> list[int | str]:
    return [int(step) if step.isdigit() else step for pair in _STEP.findall(path) for step in pair if step]


def _images_at(node: object, steps: list[int | str]) -> list[str]:
    node, remaining = _follow(node, steps)
    images = list(_images(node))
    # "messages[5].image[0]" indexes images, but the body has no list of images.
    indexes = [step for step in remaining if isinstance(step, int)]
    return [images[indexes[0]]] if indexes and indexes[0] < len(images) else images


def _follow(node: object, steps: list[int | str]) -> tuple[object, list[int | str]]:
    """Follow the steps as far as they exist; return that node and the remaining steps."""
    for number, step in enumerate(steps):
        if isinstance(step, int) and isinstance(node, list) and step < len(node):
            node = node[step]
            continue
        if isinstance(step, str) and isinstance(node, dict) and step in node:
            node = node[step]
            continue
        # Without a matching message there is no result.
        return (node, steps[number:]) if number else (None, steps)
    return node, []


def _images(node: object) -> Iterator[str]:
    """Yield the base64 text of every image below a node."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "data" and isinstance(value, str):
                yield value
            else:
                yield from _images(value)
    elif isinstance(node, list):
        for value in node:
            yield from _images(value)
    elif isinstance(node, str) and (head := _DATA_URL.match(node)):
        yield node[head.end() :]


def _sha256(encoded: str) -> str:
    try:
        return sha256(b64decode(encoded, validate=True)).hexdigest()
    except (binascii.Error, ValueError):
        return ""


# --- Client ---

_OK = range(200, 300)
_REDIRECT = range(300, 400)
_UNAUTHORIZED = 401

# Headers useful to the fault classifier or to operators. Cookies, keys and all others are dropped.
_DIAGNOSTIC_HEADERS = frozenset({"date", "content-type", "request-id", "x-request-id", "x-should-retry"})
_DIAGNOSTIC_PREFIXES = ("retry-after", "x-ratelimit", "anthropic-ratelimit")
# The longest such header observed has under 100 characters, and no provider sends more than 16.
_HEADER_CHARS_MAX = 256
_HEADERS_MAX = 40

# An error body follows its status at once; stop waiting for a stalled one after this time.
_ERROR_BODY_SECONDS_MAX = 10.0
# The end of a stream follows its last event in the same packet; opening a new connection takes about as long.
_DRAIN_SECONDS_MAX = 0.2
# Shorter keys are placeholders such as "none"; redacting them would mangle the text.
_KEY_CHARS_MIN = 8
# Read this much beyond the body limit, so that a key across the limit is redacted. No observed key is longer.
_KEY_CHARS_MAX = 512


class ModelCard(msgspec.Struct, frozen=True):
    """Static description of a model.

    `name` is the reference that users write, `model` the name at the endpoint, `place` the endpoint's host with any
    non-default port; `is_official` marks the provider's own endpoint.
    """

    name: str
    model: str
    place: str
    limits: Limits = Limits()
    is_official: bool = False
    prices: Prices = NO_PRICES


class HttpModel:
    """One model at one endpoint, in one dialect."""

    def __init__(
        self,
        dialect: Dialect,
        card: ModelCard,
        transport: Transport,
        *,
        key: KeySource = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._dialect = dialect
        self._card = card
        self._transport = transport
        self._key = key
        self._headers = headers or {}
        # Texts to redact from responses: the newest key and the values of additional headers.
        self._secrets: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"HttpModel({self.name!r} as {self.issuer!r})"

    @property
    def name(self) -> str:
        """The reference that users write."""
        return self._card.name

    @property
    def issuer(self) -> str:
        """Dialect, endpoint and model, joined by colons."""
        return f"{self._dialect.NAME}:{self._card.place}:{self._card.model}"

    @property
    def limits(self) -> Limits:
        """Declared limits."""
        return self._card.limits

    @property
    def prices(self) -> Prices:
        """Declared prices."""
        return self._card.prices

    async def stream(
        self, request: Request, blobs: Mapping[str, bytes]
    ) -> AsyncGenerator[Delta | Reply | Refusal, None]:
        """Send a request; yield deltas, then exactly one outcome. Closing the generator closes the connection."""
        card = self._card
        tool = OutputTool(request, self._dialect.NAME)
        body = self._encode(tool.request, blobs)
        try:
            headers = await self._request_headers()
        except Exception as error:  # noqa: BLE001 - the user's function: the next model may have a key
            # Only the class: the message may hold a part of the key.
            cause = f"the function for the key of {self.name} failed with {type(error).__name__}"
            yield Refusal(self._dialect.NAME, Phase.RESPONSE, status=_UNAUTHORIZED, cause=cause)
            return
        try:
            async with self._transport.post(self._dialect.request_path(card.model), headers, body) as response:
                if response.status not in _OK:
                    yield await self._refusal(response, body)
                    return
                decoder = self._dialect.StreamDecoder(self.issuer, secrets.token_hex(6))
                while not decoder.is_complete and (chunk := await _next_chunk(response)) is not None:
                    for delta in tool.read_deltas(decoder.feed(chunk)):
                        yield delta
                outcome = self._outcome(response, decoder)
                yield tool.read_reply(outcome) if isinstance(outcome, Reply) else outcome
                await _drain(response)
        except UnreachableError as error:
            yield Refusal(self._dialect.NAME, Phase.CONNECT, cause=self._redact(str(error)))

    def _encode(self, request: Request, blobs: Mapping[str, bytes]) -> bytes:
        card, dialect = self._card, self._dialect
        body = dialect.encode_request(request, card.model, blobs, self.issuer, is_official=card.is_official)
        also = wire_settings(dialect.NAME, request.settings)
        return without_parameters(dialect.NAME, body, request.omitted, also)

    async def _request_headers(self) -> dict[str, str]:
        key = await read_key(self._key)
        self._secrets = tuple(text for text in (key, *self._headers.values()) if len(text) >= _KEY_CHARS_MIN)
        return {
            "content-type": "application/json",
            "accept": "text/event-stream, application/json",
            **self._dialect.key_headers(key),
            **self._headers,
        }

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.close()

    def _outcome(self, response: HttpResponse, decoder: AnswerDecoder) -> Reply | Refusal:
        outcome = decoder.finish()
        if isinstance(outcome, Reply):
            return outcome if outcome.model else msgspec.structs.replace(outcome, model=self._card.model)
        return msgspec.structs.replace(
            outcome,
            status=response.status,
            headers=self._diagnostic_headers(response.headers),
            body=self._redact(outcome.body),
        )

    async def _refusal(self, response: HttpResponse, sent: bytes) -> Refusal:
        cause = ""
        if response.status in _REDIRECT:
            host = urlsplit(response.headers.get("location", "")).hostname or "another address"
            cause = f"the endpoint redirects to {host}, which is not followed; set the base URL to the final address"
        message = cut_text(self._redact_bytes(await _error_body(response)))
        return Refusal(
            self._dialect.NAME,
            Phase.RESPONSE,
            response.status,
            self._diagnostic_headers(response.headers),
            message,
            cause,
            offending_image(sent, message),
        )

    def _diagnostic_headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        headers_kept = {
            name: self._redact(text[:_HEADER_CHARS_MAX])
            for name, text in headers.items()
            if name in _DIAGNOSTIC_HEADERS or name.startswith(_DIAGNOSTIC_PREFIXES)
        }
        return dict(sorted(headers_kept.items())[:_HEADERS_MAX])

    def _redact(self, text: str) -> str:
        """Redact the key from provider text: some providers repeat it in errors."""
        for secret in self._secrets:
            text = text.replace(secret, "[key]")
        return text

    def _redact_bytes(self, body: bytes) -> bytes:
        for secret in self._secrets:
            body = body.replace(secret.encode(), b"[key]")
        return body


async def _next_chunk(response: HttpResponse) -> bytes | None:
    """Return the next chunk; None at the end, also of a broken stream: the decoder reports whether it is complete."""
    try:
        return await anext(response.chunks)
    except (StopAsyncIteration, BrokenOffError):
        return None


async def _drain(response: HttpResponse) -> None:
    """Read the rest of the stream, so that the connection can be reused."""
    try:
        async with asyncio.timeout(_DRAIN_SECONDS_MAX):
            async for _ in response.chunks:
                pass
    except (BrokenOffError, TimeoutError):
        pass  # The connection is closed instead of reused.


async def _error_body(response: HttpResponse) -> bytes:
    bytes_max = Bounds().refusal_body_bytes_max + _KEY_CHARS_MAX
    body = bytearray()
    try:
        async with asyncio.timeout(_ERROR_BODY_SECONDS_MAX):
            async for chunk in response.chunks:
                body += chunk
                if len(body) > bytes_max:
                    break
    except (BrokenOffError, TimeoutError):
        pass  # A partial error body is better than none.
    return bytes(body[:bytes_max])
