"""Links between provider response ids and sessions, for `previous_response_id` and `conversation`.

The provider holds the history of such requests, and so does our log. Each recorded answer is stored under the
provider's id with its session, so that the next request is matched to that session. The request is forwarded as it is.
If the provider refuses it, its history is read from the log and sent with it.
"""

import hashlib
import logging
from collections import OrderedDict

import msgspec
from msgspec.structs import replace

from holdfast.errors import HoldfastError
from holdfast.gateway.proxy.request import ProxyRequest
from holdfast.gateway.proxy.session_match import SessionMatcher, history_of
from holdfast.gateway.proxy.upstream import Upstream, owner_of
from holdfast.models.body_rewrite import own_elements
from holdfast.models.dialects import SERVED
from holdfast.models.openai_responses import NAME as RESPONSES
from holdfast.models.wire import Original, replaced, without
from holdfast.ports import Log
from holdfast.runtime.engine.context import Engine
from holdfast.runtime.engine.requests import load_blobs
from holdfast.runtime.sessions.response_links import links_in, log_of
from holdfast.types.messages import Request
from holdfast.types.records import AnswerLinked

log = logging.getLogger(__name__)

# Cached links, some 300 bytes each; others are read from their logs.
_LINKS_MAX = 20_000
# An answer with longer instructions is not linked.
_INSTRUCTIONS_CHARS_MAX = 2**20
_LINKING_FIELDS = ("previous_response_id", "conversation")


class Links:
    """Links from answers to sessions: an in-memory cache over logs in the store."""

    def __init__(self, store: Log) -> None:
        self._store = store
        self._links: OrderedDict[str, AnswerLinked] = OrderedDict()

    async def find(self, scope: str, name: str) -> AnswerLinked | None:
        """Return the link of a response id or conversation id; `scope` is the tenant and owner of the id."""
        return await self._found(_digest(scope, name))

    async def _found(self, answer: str) -> AnswerLinked | None:
        if answer not in self._links:
            async for link in links_in(self._store, log_of(answer)):
                if link.answer == answer:
                    self._remember(link)
        return self._links.get(answer)

    async def instructions(self, link: AnswerLinked) -> str:
        """Return the instructions between the messages before an answer, as JSON elements."""
        source = await self._found(link.instructions_of) if link.instructions_of else link
        return source.instructions if source is not None else ""

    async def keep(self, scope: str, name: str, link: AnswerLinked) -> None:
        """Store a link under an id. A newer link replaces an older one."""
        link = replace(link, answer=_digest(scope, name))
        if len(link.instructions) > _INSTRUCTIONS_CHARS_MAX or self._links.get(link.answer) == link:
            return
        await self._store.admit(log_of(link.answer), link)
        self._remember(link)

    def _remember(self, link: AnswerLinked) -> None:
        self._links[link.answer] = link
        self._links.move_to_end(link.answer)
        while len(self._links) > _LINKS_MAX:
            self._links.popitem(last=False)


def _digest(scope: str, name: str) -> str:
    return hashlib.blake2b(f"{scope}\0{name}".encode(), digest_size=16).hexdigest()


class ResponseLinks:
    """Resolves the links of requests, and stores links for their answers."""

    def __init__(self, engine: Engine, matcher: SessionMatcher) -> None:
        self._engine = engine
        self._matcher = matcher
        self._links = Links(engine.store)

    async def has(self, tenant: str, upstream: Upstream, name: str) -> bool:
        """Return whether a tenant has a link under this id, made with the gateway's own key."""
        owner = owner_of(f"{RESPONSES}\0{upstream.key}")
        return await self._links.find(f"{tenant}\0{owner}", name) is not None

    async def linked(self, request: ProxyRequest, tenant: str) -> ProxyRequest:
        """Return a request with the link to its history; as an unparsed one if the link is unknown.

        An unknown conversation id begins a new conversation.
        """
        continuation = request.continuation
        if request.decoded is None or not (continuation.name or continuation.is_linked):
            return request
        request = replace(request, scope=f"{tenant}\0{request.owner}")
        link = await self._links.find(request.scope, continuation.name) if continuation.name else None
        if link is not None:
            known = await self._matcher.known(link.family, link.session, link.count)
            if known is not None:
                digests = [*known, *request.digests]
                request = replace(request, link=link, held=link.count, digests=digests, prefix=link.family)
        if continuation.previous_response_id and request.link is None:
            return replace(request, decoded=None)
        to_link = await _following(request, self._links) if continuation.is_linked else None
        return replace(request, to_link=to_link)

    async def unfolded(self, request: ProxyRequest) -> ProxyRequest | None:
        """Return a request with its whole history; None if the log does not have it."""
        if request.link is None or not request.held:
            return request
        instructions = await self._links.instructions(request.link)
        return await _unfolded(request, request.link.session, instructions, self._engine)

    async def keep(
        self,
        request: ProxyRequest,
        session: str,
        answer_id: str,
        *,
        is_held: bool = True,
        is_answer_held: bool = True,
    ) -> None:
        """Store the ids from which a client may continue after a recorded answer.

        The provider can continue from the answer if it `is_answer_held`, and from the conversation if that `is_held`.
        The client has its answer already: if this fails, its next request is forwarded without a session.
        """
        if request.to_link is None:
            return
        link = replace(request.to_link, session=session, count=request.count + 1)
        try:
            if answer_id and request.continuation.store is not False:
                held = replace(link, is_held=is_answer_held)
                await self._links.keep(request.scope, answer_id, held)
            if request.continuation.conversation_id:
                # The provider's conversation does not contain a rewritten request.
                link = replace(link, is_held=is_held)
                await self._links.keep(request.scope, request.continuation.conversation_id, link)
        except HoldfastError as error:
            log.warning("an answer is not linked", extra={"session": session, "code": error.code})


async def _following(request: ProxyRequest, links: Links) -> AnswerLinked:
    """Return the link for the answer of a request, with the instructions between its messages."""
    assert request.decoded is not None, "an unparsed request is not linked"
    before = request.link
    own = [one.wire.decode() for one in request.decoded.originals if one.first == one.last]
    if before is None:
        return AnswerLinked("", "", request.prefix, 0, ",".join(own))
    if not own:
        source = before.instructions_of or (before.answer if before.instructions else "")
        return AnswerLinked("", "", request.prefix, 0, instructions_of=source)
    earlier = await links.instructions(before)
    return AnswerLinked("", "", request.prefix, 0, ",".join([earlier, *own] if earlier else own))


async def _unfolded(request: ProxyRequest, session: str, instructions: str, engine: Engine) -> ProxyRequest | None:
    """Return a request with its history from the log; None if the log does not have all of it."""
    assert request.decoded is not None, "only a parsed request is linked"
    history = await history_of(engine.store, session, request.held)
    if len(history) < request.held:
        return None
    shown, loaded = await load_blobs(Request(tuple(history)), engine.blobs)
    spoken, issuer = SERVED[request.dialect], request.issuer
    wires = [bytes(one) for one in msgspec.json.decode(f"[{instructions}]", type=list[msgspec.Raw])]
    originals = [Original(wire, 0, 0) for wire in wires]
    for number, message in enumerate(shown.messages):
        written = spoken.encode_messages([message], loaded, issuer)
        wires += written
        originals += [Original(wire, number, number + 1) for wire in written]
    body = request.body
    own = own_elements(request.dialect, body)
    for name in _LINKING_FIELDS:
        body = without(body, name)
    body = replaced(body, spoken.MESSAGES_FIELD, [*wires, *own])
    whole, held = spoken.decode_request(body, issuer, is_tolerant=True), request.held
    decoded = request.decoded
    originals += [replace(one, first=one.first + held, last=one.last + held) for one in decoded.originals]
    messages = (*shown.messages, *decoded.request.messages)
    return replace(
        request,
        body=body,
        decoded=replace(
            decoded,
            request=replace(whole.request, messages=messages),
            blobs={**loaded, **decoded.blobs},
            originals=tuple(originals),
        ),
        held=0,
    )
