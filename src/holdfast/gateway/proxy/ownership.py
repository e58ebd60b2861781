"""Ids of answers and conversations that the provider stores in the operator's account, and the tenants they belong to.

With the gateway's own provider key every tenant asks as the operator, so the provider would continue any tenant's
answer for any other. An id belongs to the tenant that got it: it is recorded before the client can read it, and a
request that names another is rejected before the provider is asked. The records are in the store, so all gateways on it
agree, also after a restart.
"""

import asyncio
import hashlib
import logging
import re
from collections import OrderedDict
from collections.abc import Collection, Iterator
from functools import partial

import msgspec

from holdfast.errors import HoldfastError
from holdfast.gateway.http.asgi import off_loop
from holdfast.gateway.http.problems import MalformedError, NotFoundError
from holdfast.gateway.proxy.access import CONVERSATIONS, RESPONSES, RESPONSES_CALLS
from holdfast.models.wire import locate
from holdfast.ports import Log
from holdfast.runtime.sessions.response_links import links_in, log_of
from holdfast.types.records import AnswerLinked

log = logging.getLogger(__name__)

# Cached ids, some 150 bytes each; others are read from their logs.
_IDS_MAX = 20_000
# Ids named by one request: more than the items of a long conversation.
_NAMED_MAX = 20_000
# A longer line or body of an answer is not read, and its ids are not recorded. An opening event repeats the request's
# instructions and tools.
_ANSWER_BYTES_MAX = 64 * 2**20
_EVENTS = re.compile(rb'"response\.(?:created|queued|in_progress|output_item\.added|completed|incomplete)"')
# An escaped character of ASCII can hide a name from a search for its bytes.
_ESCAPED_ASCII = re.compile(rb"\\u00[2-7]")
_NAMES = ("previous_response_id", "conversation", "input")
_REFERENCE = "item_reference"


class UnknownAnswerError(NotFoundError):
    """An answer, conversation or item that the provider may have, but that this tenant did not get."""

    code = "previous_response_not_found"


class OwnedIds:
    """The provider's ids by tenant: an in-memory cache over logs in the store."""

    def __init__(self, store: Log) -> None:
        self._store = store
        self._known: OrderedDict[str, None] = OrderedDict()

    async def claim(self, tenant: str, names: Collection[str]) -> None:
        """Record ids that a tenant is about to get."""
        digests = {_digest(tenant, name) for name in names} - self._known.keys()
        await asyncio.gather(*(self._store.admit(log_of(one), AnswerLinked(one, "", "", 0)) for one in digests))
        for one in digests:
            self._remember(one)

    async def check(self, tenant: str, method: str, path: str, body: bytes) -> "tuple[NamedIds, list[str]]":
        """Return the ids that a request of a tenant names, and those of them that the tenant did not get."""
        named = await off_loop(len(body), partial(named_ids, method, path, body))
        return named, await self.foreign(tenant, named.names)

    async def foreign(self, tenant: str, names: Collection[str]) -> list[str]:
        """Return the ids that a tenant did not get."""
        unknown = {digest: name for name in names if (digest := _digest(tenant, name)) not in self._known}
        # Each log is read once, however many ids it may have.
        for log_key in {log_of(digest) for digest in unknown}:
            async for link in links_in(self._store, log_key):
                if unknown.pop(link.answer, None) is not None:
                    self._remember(link.answer)
        return list(unknown.values())

    def _remember(self, digest: str) -> None:
        self._known[digest] = None
        self._known.move_to_end(digest)
        while len(self._known) > _IDS_MAX:
            self._known.popitem(last=False)


def _digest(tenant: str, name: str) -> str:
    # Links to sessions have the digest of the client's key between the two.
    return hashlib.blake2b(f"{tenant}\0\0{name}".encode(), digest_size=16).hexdigest()


# --- Ids in requests ---


class _Named(msgspec.Struct):
    id: str


class _Element(msgspec.Struct):
    type: str | None = None
    id: str | None = None
    role: str | None = None
    encrypted_content: str | None = None

    @property
    def is_reference(self) -> bool:
        """True if the provider takes the content of this element from its own store."""
        if self.type == "reasoning":
            return not self.encrypted_content
        return self.type == _REFERENCE or (self.type is None and self.role is None)


class _Continuing(msgspec.Struct):
    previous_response_id: str | None = None
    conversation: str | _Named | None = None
    input: msgspec.Raw = msgspec.Raw(b"null")
    store: bool | None = None


_decoder = msgspec.json.Decoder(_Continuing)
_elements = msgspec.json.Decoder(list[msgspec.Raw])
_element = msgspec.json.Decoder(_Element)


class NamedIds(msgspec.Struct, frozen=True):
    """The stored objects that a request names, and whether the provider stores its answer."""

    names: frozenset[str] = frozenset()
    is_stored: bool = False


def named_ids(method: str, path: str, body: bytes) -> NamedIds:
    """Return the ids in a request that is sent with the gateway's own key. Raises for a body that hides some."""
    parts = path.split("/")[1:]
    is_call = path in RESPONSES_CALLS
    if not is_call:
        # `/v1/responses/ID/…` and `/v1/conversations/ID/…`
        is_below = path.startswith((f"{RESPONSES}/", f"{CONVERSATIONS}/"))
        return NamedIds(frozenset(parts[2:3]) if is_below else frozenset(), is_stored=path == CONVERSATIONS)
    if method != "POST":
        return NamedIds()
    try:
        found = _decoder.decode(body)
        _check_unambiguous(body)
        references = frozenset(_references(bytes(found.input)))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedError(f"the body cannot be checked for stored answers: {error}") from error
    conversation = found.conversation.id if isinstance(found.conversation, _Named) else found.conversation or ""
    previous = found.previous_response_id or ""
    names = references | ({previous, conversation} - {""})
    return NamedIds(names, found.store is not False or bool(conversation))


def _references(given: bytes) -> Iterator[str]:
    if not given.startswith(b"["):
        return
    elements = _elements.decode(given)
    if len(elements) > _NAMED_MAX:
        raise MalformedError(f"the input has {len(elements):,} elements, the limit is {_NAMED_MAX:,}")
    for wire in elements:
        if not bytes(wire).startswith(b"{"):
            continue
        element = _element.decode(wire)
        if element.is_reference and element.id:
            yield element.id
        if element.id is not None:
            _check_once(bytes(wire), "id")
            _check_once(bytes(wire), "type")


def _check_unambiguous(body: bytes) -> None:
    """Raise if a field that names stored objects is repeated: parsers differ in which one they take."""
    is_escaped = _ESCAPED_ASCII.search(body) is not None
    for name in _NAMES:
        if is_escaped or body.count(f'"{name}"'.encode()) > 1:
            _check_once(body, name)
    conversation = locate(body, "conversation") if b'"conversation"' in body or is_escaped else None
    if conversation is not None:
        _check_once(body[conversation.value.start : conversation.value.end], "id")


def _check_once(body: bytes, name: str) -> None:
    field = locate(body, name)
    if field is not None and locate(body[: field.value.start], name) is not None:
        raise MalformedError(f"the field {name!r} is repeated; send it once")


# --- Ids in answers ---


class _Id(msgspec.Struct):
    id: str | None = None


class _Answer(msgspec.Struct):
    id: str | None = None
    output: tuple[_Id, ...] = ()


class _Event(msgspec.Struct):
    response: _Answer = msgspec.field(default_factory=_Answer)
    output: _Id = msgspec.field(name="item", default_factory=_Id)


_events = msgspec.json.Decoder(_Event)


class AnswerIds:
    """Records the ids of one answer before the client can use them."""

    def __init__(self, owned: OwnedIds, tenant: str) -> None:
        self._owned = owned
        self._tenant = tenant
        # Chunks of a JSON body, or of the last line of a stream, and their size.
        self._unread: list[bytes] = []
        self._unread_bytes = 0
        self._is_json: bool | None = None

    async def relayed(self, chunk: bytes) -> bytes:
        """Record the ids in a chunk, and return the bytes to send now. A JSON body is held back until its end."""
        if self._is_json is None and chunk.strip():
            self._is_json = chunk.lstrip().startswith(b"{")
        if self._is_json:
            self._keep(chunk)
            if self._unread_bytes <= _ANSWER_BYTES_MAX:
                return b""
            self._is_json = False
            return self._take()
        whole, newline, unfinished = chunk.rpartition(b"\n")
        if newline:
            for line in (self._take() + whole).split(b"\n"):
                if line.startswith(b"data:") and _EVENTS.search(line):
                    await self._claim(line.removeprefix(b"data:"))
        if self._unread_bytes + len(unfinished) <= _ANSWER_BYTES_MAX:
            self._keep(unfinished)
        return chunk

    async def rest(self) -> bytes:
        """Record the ids of a JSON body that is complete, and return it."""
        if not self._is_json:
            return b""
        held = self._take()
        # A body is what its last event has in `response`.
        await self._claim(b'{"response":' + held + b"}")
        return held

    def _keep(self, chunk: bytes) -> None:
        self._unread.append(chunk)
        self._unread_bytes += len(chunk)

    def _take(self) -> bytes:
        taken = b"".join(self._unread)
        self._unread, self._unread_bytes = [], 0
        return taken

    async def _claim(self, wire: bytes) -> None:
        try:
            event = _events.decode(wire)
            names = {event.response.id, event.output.id, *(one.id for one in event.response.output)}
            await self._owned.claim(self._tenant, [name for name in names if name])
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            # Not an answer of the Responses API.
            return
        except HoldfastError as error:
            # The client has no use of an answer that is withheld; a request that continues from it is rejected.
            log.warning("the ids of an answer are not recorded", extra={"tenant": self._tenant, "code": error.code})
