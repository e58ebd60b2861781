"""A model behind an endpoint: a request goes out as bytes of its dialect, deltas and one outcome come back.

A failure of the provider or of the network is an outcome, never an exception. Keys live in headers alone: they are in
no `repr`, no message, and are struck out of whatever a provider sends back.
"""

import asyncio
import binascii
import re
import secrets
from base64 import b64decode
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from hashlib import sha256
from urllib.parse import urlsplit

import msgspec

from holdfast.core.limits.bounds import Bounds
from holdfast.core.limits.prices import NO_PRICES, Prices
from holdfast.models.dialects import Dialect
from holdfast.models.stream_decoder import AnswerDecoder
from holdfast.models.transport import HttpResponse, BrokenOffError, Transport, UnreachableError
from holdfast.models.wire import cut_text
from holdfast.ports import Delta
from holdfast.types.faults import Phase, Refusal
from holdfast.types.limits import Limits
from holdfast.types.messages import Reply, Request

# --- Which image of a request a refusal points at.


# The list of messages as each dialect calls it, and the steps that lead further down.
_PATH = re.compile(r"(?<![\w])(messages|input|contents)((?:\.\w+|\[\d+\])+)")
_STEP = re.compile(r"\.(\w+)|\[(\d+)\]")
_DATA_URL = re.compile(r"data:[\w.+/-]+;base64,")


def offending_image(body: bytes, message: str) -> str:
    """Return the SHA-256 of the one image that a refusal of this body points at; "" where it points at none or many."""
    places = list(_PATH.finditer(message))
    try:
        sent: object = msgspec.json.decode(body) if places else None
    except msgspec.DecodeError:
        return ""
    for place in places:
        steps = [int(step) if step.isdigit() else step for pair in _STEP.findall(place[2]) for step in pair if step]
        node, left = _follow(sent.get(place[1]) if isinstance(sent, dict) else None, steps)
        images = list(_images(node))
        # "messages[5].image[0]" counts images, of which the body itself has no list.
        counted = [step for step in left if isinstance(step, int)]
        if counted and counted[0] < len(images):
            images = [images[counted[0]]]
        if len(images) == 1:
            return _sha256(images[0])
    return ""


def _follow(node: object, steps: list[int | str]) -> tuple[object, list[int | str]]:
    """Go down as far as the steps lead, and return what is there, with the steps that lead nowhere."""
    for number, step in enumerate(steps):
        if isinstance(step, int) and isinstance(node, list) and step < len(node):
            node = node[step]
            continue
        if isinstance(step, str) and isinstance(node, dict) and step in node:
            node = node[step]
            continue
        # Nothing was found at all where not even a message was.
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


_OK = range(200, 300)
_REDIRECT = range(300, 400)

# What a classifier or a person can use. Cookies, keys and everything else stay behind.
_DIAGNOSTIC_HEADERS = frozenset({"date", "content-type", "request-id", "x-request-id", "x-should-retry"})
_DIAGNOSTIC_PREFIXES = ("retry-after", "x-ratelimit", "anthropic-ratelimit")
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
            async with self._transport.post(self._dialect.request_path(card.model), headers, body) as response:
                if response.status not in _OK:
                    yield await self._refusal(response, body)
                    return
                decoder = self._dialect.StreamDecoder(self.issuer, secrets.token_hex(6))
                async with aclosing(_deltas(response, decoder)) as deltas:
                    async for delta in deltas:
                        yield delta
                yield self._outcome(response, decoder)
                await _drain(response)
        except UnreachableError as error:
            yield Refusal(self._dialect.NAME, Phase.CONNECT, cause=self._redact(str(error)))

    async def close(self) -> None:
        """Let go of connections."""
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
        """Strike the key out of what a provider sent: some repeat it in their errors."""
        return text.replace(self._key, "[key]") if len(self._key) >= _KEY_CHARS_MIN else text

    def _redact_bytes(self, body: bytes) -> bytes:
        return body.replace(self._key.encode(), b"[key]") if len(self._key) >= _KEY_CHARS_MIN else body


async def _deltas(response: HttpResponse, decoder: AnswerDecoder) -> AsyncGenerator[Delta, None]:
    try:
        async for chunk in response.chunks:
            for delta in decoder.feed(chunk):
                yield delta
            if decoder.is_complete:
                return
    except BrokenOffError:
        return  # What is missing decides: the decoder says that the answer is not complete, unless it is.


async def _drain(response: HttpResponse) -> None:
    """Read what follows the outcome, so that the connection can serve the next request."""
    try:
        async with asyncio.timeout(_DRAIN_SECONDS_MAX):
            async for _ in response.chunks:
                pass
    except (BrokenOffError, TimeoutError):
        pass  # The connection is closed instead.


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
        pass  # The status has been told; what there is of the body is better than none.
    return bytes(body[:bytes_max])
