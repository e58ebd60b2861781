"""Parse a client's request: its upstream, its models, its conversation and the digests it is matched by."""

import asyncio
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby

import msgspec
from msgspec.structs import replace

from holdfast.core.limits.bounds import DROPIN_MARK
from holdfast.core.proxy.client_compaction import is_compaction
from holdfast.core.proxy.instructions import persons_part, split_first
from holdfast.core.proxy.plan import digest_of
from holdfast.gateway.http.asgi import Scope, header
from holdfast.gateway.http.problems import TooLargeError
from holdfast.gateway.proxy.request import ProxyRequest, conversation_of, parse_continuation
from holdfast.gateway.proxy.session_match import family_prefix
from holdfast.gateway.proxy.upstream import (
    SIMULATED,
    Upstream,
    check_key,
    key_in,
    model_card,
    simulated,
    simulated_models,
    upstream_headers,
)
from holdfast.models.dialects import DIALECTS, SERVED, model_at
from holdfast.models.http import HttpModel
from holdfast.models.limits import Overrides
from holdfast.models.transport import SocketTransport
from holdfast.models.wire import DecodedRequest, MalformedRequestError, Original, TooManyPartsError
from holdfast.types.messages import Message, Part, Role, Text

_MODELS_MAX = 1_000
_SESSION_HEADER = b"x-holdfast-session"
# zlib's own number for "gzip, by its header".
_GZIP_WBITS = 16 + zlib.MAX_WBITS
_ENCODINGS = {"gzip": _GZIP_WBITS, "x-gzip": _GZIP_WBITS, "deflate": zlib.MAX_WBITS}
# Parts of one message that are stored one by one. A recovery may record a replacement for each, so its work grows with
# their square.
_PARTS_APART_MAX = 500
_MERGED_ROLES = frozenset({Role.USER, Role.ASSISTANT})


class _Named(msgspec.Struct):
    model: str = ""


_bodies = msgspec.json.Decoder(_Named)


class RequestParser:
    """Parses requests for a set of upstreams, and holds the models of each."""

    def __init__(self, upstreams: Mapping[str, Upstream], overrides: Overrides) -> None:
        self._upstreams = upstreams
        self._overrides = overrides
        self._transports = {
            family: SocketTransport(one.endpoint.base_url, proxy=one.endpoint.proxy)
            for family, one in upstreams.items()
        }
        # Clients may name any model; most name one.
        self._models = lru_cache(maxsize=_MODELS_MAX)(self._make_models)

    async def close(self) -> None:
        """Close the connections for summaries."""
        for transport in self._transports.values():
            await transport.close()

    def addressed(self, scope: Scope, upstream: Upstream, dialect: str, body: bytes) -> ProxyRequest:
        """Return a request with its address, headers and models; of the body only the model name is parsed."""
        path = scope["holdfast.path"]
        headers = upstream_headers(scope["headers"], upstream, is_key_ours=bool(scope.get("holdfast.key_is_ours")))
        try:
            model = model_at(dialect, path) or _bodies.decode(body).model
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            # Forward it: the provider's error message is the best one.
            address = upstream.address(path, scope["query_string"])
            return ProxyRequest(dialect, upstream, address, headers, body, (), ())
        if upstream.is_official and model == SIMULATED:
            upstream = simulated(upstream)
        check_key(upstream, headers)
        address = upstream.address(path, scope["query_string"])
        if upstream.is_simulated:
            models, names = simulated_models(dialect)
        else:
            models, names = self._models(dialect, upstream.family, model, key_in(headers))
        return ProxyRequest(dialect, upstream, address, headers, body, models, names, header(scope, _SESSION_HEADER))

    def parsed(self, request: ProxyRequest, store_key: Callable[[str], str]) -> ProxyRequest:
        """Return the request with its conversation; unparsed if it cannot be parsed or has none."""
        try:
            codec = SERVED[request.dialect]
            decoded = codec.decode_request(request.body, request.issuer, request.address, is_tolerant=True)
        except TooManyPartsError as error:
            raise TooLargeError(str(error)) from error
        except (MalformedRequestError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return replace(request, models=(), names=())
        apart = with_instructions_apart(merge_messages(decoded))
        messages = conversation_of(apart)
        if not messages:
            return request
        first, *others = messages
        digests = [digest_of(persons_part(first)), *map(digest_of, others)]
        named = DROPIN_MARK + request.named.removeprefix(DROPIN_MARK) if request.named else ""
        return replace(
            request,
            decoded=apart,
            digests=digests,
            prefix=store_key(named or family_prefix(request.owner, digests)),
            is_compaction=is_compaction(decoded.request),
            continuation=parse_continuation(request.dialect, request.body),
        )

    def _make_models(
        self, dialect: str, family: str, named: str, key: str
    ) -> tuple[tuple[HttpModel, ...], tuple[str, ...]]:
        """Return the models for a name in a request, best first, and their names."""
        upstream, spoken = self._upstreams[family], DIALECTS[dialect]
        names = tuple(dict.fromkeys((named, *upstream.fallbacks)))
        cards = [model_card(upstream, dialect, name, self._overrides) for name in names]
        return tuple(HttpModel(spoken, card, self._transports[family], key=key) for card in cards), names


def merge_messages(decoded: DecodedRequest) -> DecodedRequest:
    """Merge consecutive user messages into one, and consecutive assistant messages likewise.

    Some clients send several in a row. As separate turns, compaction could remove the first while the second is
    answered; and an answer of several items would not match the recorded one.
    """
    messages = decoded.request.messages
    if _are_apart(messages):
        return decoded
    merged: list[tuple[Role, list[Part]]] = []
    # For each message, and for the end after them, its place among the merged ones.
    places: list[int] = []
    for message in messages:
        if merged and message.role in _MERGED_ROLES and merged[-1][0] is message.role:
            merged[-1][1].extend(message.parts)
        else:
            merged.append((message.role, [*message.parts]))
        places.append(len(merged) - 1)
    messages = tuple(Message(role, tuple(_with_texts_joined(parts))) for role, parts in merged)
    places.append(len(merged))
    return replace(
        decoded,
        request=replace(decoded.request, messages=messages),
        originals=tuple(_moved(original, places) for original in decoded.originals),
    )


def _are_apart(messages: Sequence[Message]) -> bool:
    """Return whether no two messages are to be merged, and none has too many parts."""
    before: Role | None = None
    for message in messages:
        role = message.role
        if (role is before and role in _MERGED_ROLES) or len(message.parts) > _PARTS_APART_MAX:
            return False
        before = role
    return True


def _with_texts_joined(parts: list[Part]) -> Iterator[Part]:
    """Yield the parts of a message; of more than `_PARTS_APART_MAX`, neighbouring texts are joined, several to one."""
    if len(parts) <= _PARTS_APART_MAX:
        yield from parts
        return
    at_once = -(-len(parts) // _PARTS_APART_MAX)
    for is_text, group in groupby(parts, key=lambda part: isinstance(part, Text)):
        run = list(group)
        if not is_text:
            yield from run
            continue
        texts = [part.text for part in run if isinstance(part, Text)]
        for first in range(0, len(texts), at_once):
            yield Text("\n\n".join(texts[first : first + at_once]))


def with_instructions_apart(decoded: DecodedRequest) -> DecodedRequest:
    """Return a request with the instructions in its first message as parts of their own."""
    messages = split_first(decoded.request.messages)
    return replace(decoded, request=replace(decoded.request, messages=messages))


def _moved(original: Original, places: list[int]) -> Original:
    first = places[original.first]
    last = places[original.last - 1] + 1 if original.last > original.first else first
    return replace(original, first=first, last=last)


async def decompress_body(scope: Scope, body: bytes, bytes_max: int) -> bytes:
    """Return a body without its content encoding, and drop the header.

    A body that is not compressed, not in an encoding that is known here, or larger than `bytes_max`, stays as it is. It
    is decompressed in a thread: a small one can hold a thousand times its size.
    """
    wbits = _ENCODINGS.get(header(scope, b"content-encoding").strip().lower())
    plain = await asyncio.to_thread(_decompressed, body, wbits, bytes_max) if wbits is not None else None
    if plain is None:
        return body
    scope["headers"] = [(name, text) for name, text in scope["headers"] if name != b"content-encoding"]
    return plain


def _decompressed(body: bytes, wbits: int, bytes_max: int) -> bytes | None:
    decompressor = zlib.decompressobj(wbits)
    try:
        # One byte above the limit shows that there is more.
        plain = decompressor.decompress(body, bytes_max + 1)
    except zlib.error:
        return None
    return None if len(plain) > bytes_max or not decompressor.eof or decompressor.unused_data else plain
