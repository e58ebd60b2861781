"""Requests that name what came before in place of sending it: `previous_response_id`, `conversation`.

The provider holds their history and passes judgement on it; so does our log. Each answer that went through here is kept
under the name that the provider gave it, with the session that holds it, so the next request is known to go on there.
Such a request passes as it is. Where the provider cannot take it, its history is read from the log and sent along.
"""

import hashlib
import logging
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace

import msgspec

from holdfast.errors import HoldfastError
from holdfast.gateway.proxy.request import ProxyRequest
from holdfast.gateway.proxy.session_match import SessionMatcher
from holdfast.models.body_rewrite import own_elements
from holdfast.models.dialects import SERVED
from holdfast.models.json_spans import replaced, without
from holdfast.models.wire import Original
from holdfast.ports import Log
from holdfast.runtime.engine.context import Engine
from holdfast.runtime.engine.log import pages
from holdfast.runtime.engine.requests import load_blobs
from holdfast.runtime.sessions.response_links import links_in, log_of
from holdfast.types.messages import Message, Part, Request, Role, ToolResult
from holdfast.types.records import AnswerLinked, InputAdmitted, ReplyRecorded, ToolSettled

log = logging.getLogger(__name__)

# Links in memory, some 300 bytes each. Their logs are read only where memory does not have one.
_LINKS_MAX = 20_000
# Longer instructions are no instructions; such an answer is not linked.
_INSTRUCTIONS_CHARS_MAX = 2**20
_LINKING_FIELDS = ("previous_response_id", "conversation")


class Links:
    """Which answer belongs to which conversation: in memory, and in logs of the store."""

    def __init__(self, store: Log) -> None:
        self._store = store
        self._links: OrderedDict[str, AnswerLinked] = OrderedDict()

    async def find(self, scope: str, name: str) -> AnswerLinked | None:
        """Return the link of an answer or a conversation of the provider's; `scope` says whose it is."""
        return await self._found(_digest(scope, name))

    async def _found(self, answer: str) -> AnswerLinked | None:
        if answer not in self._links:
            async for link in links_in(self._store, log_of(answer)):
                if link.answer == answer:
                    self._remember(link)
        return self._links.get(answer)

    async def instructions(self, link: AnswerLinked) -> str:
        """Return the instructions that stood between the messages that lead to an answer, as they were written."""
        source = await self._found(link.instructions_of) if link.instructions_of else link
        return source.instructions if source is not None else ""

    async def keep(self, scope: str, name: str, link: AnswerLinked) -> None:
        """Keep a link under a name, for good. Of two with one name the newer counts."""
        link = msgspec.structs.replace(link, answer=_digest(scope, name))
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
    """Finds what requests go on from, and keeps what later ones may go on from."""

    def __init__(self, engine: Engine, recognition: SessionMatcher) -> None:
        self._engine = engine
        self._recognition = recognition
        self._links = Links(engine.store)

    async def linked(self, request: ProxyRequest, tenant: str) -> ProxyRequest:
        """Return a request with the conversation that it goes on from; as an unread one where that is unknown.

        A conversation of the provider's own is taken for new where it was never seen.
        """
        going = request.continuation
        if request.decoded is None or not (going.name or going.is_linked):
            return request
        request = replace(request, scope=f"{tenant}\0{request.owner}")
        link = await self._links.find(request.scope, going.name) if going.name else None
        if link is not None:
            known = await self._recognition.known(link.family, link.session, link.count)
            if known is not None:
                digests = [*known, *request.digests]
                request = replace(request, link=link, held=link.count, digests=digests, prefix=link.family)
        if going.previous_response_id and request.link is None:
            return replace(request, decoded=None)
        to_link = await _following(request, self._links) if going.is_linked else None
        return replace(request, to_link=to_link)

    async def unfolded(self, request: ProxyRequest) -> ProxyRequest | None:
        """Return a request with all of its history in it; None where nobody here has that."""
        if request.link is None or not request.held:
            return request
        instructions = await self._links.instructions(request.link)
        return await _unfolded(request, request.link.session, instructions, self._engine)

    async def keep(self, request: ProxyRequest, session: str, answer_id: str, *, is_held: bool = True) -> None:
        """Keep the names by which a client may go on from an answer, which is in the log of a session.

        The client has its answer: where this fails, its next request is passed on without being known.
        """
        if request.to_link is None:
            return
        link = msgspec.structs.replace(request.to_link, session=session, count=request.count + 1)
        try:
            if answer_id and request.continuation.store is not False:
                await self._links.keep(request.scope, answer_id, link)
            if request.continuation.conversation_id:
                # A request that went out in another form is not in the provider's own conversation.
                link = msgspec.structs.replace(link, is_held=is_held)
                await self._links.keep(request.scope, request.continuation.conversation_id, link)
        except HoldfastError as error:
            log.warning("an answer is not linked", extra={"session": session, "code": error.code})


async def _following(request: ProxyRequest, links: Links) -> AnswerLinked:
    """Return what a link to the answer of a request will say: the instructions that it had between its messages."""
    assert request.decoded is not None, "what cannot be read is not linked"
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
    """Return a request with its history in it, read from the log; None where the log does not have all of it."""
    assert request.decoded is not None, "only what was read is linked"
    history = await _history(engine.store, session, request.held)
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
    originals += [
        msgspec.structs.replace(one, first=one.first + held, last=one.last + held) for one in decoded.originals
    ]
    messages = (*shown.messages, *decoded.request.messages)
    return replace(
        request,
        body=body,
        decoded=msgspec.structs.replace(
            decoded,
            request=msgspec.structs.replace(whole.request, messages=messages),
            blobs={**loaded, **decoded.blobs},
            originals=tuple(originals),
        ),
        held=0,
    )


async def _history(store: Log, session: str, count: int) -> list[Message]:
    """Return the first messages of a conversation as its log has them, up to the first that it does not have."""
    found: dict[int, Message] = {}
    async for page in pages(store, session):
        for logged in page:
            match logged.record:
                case InputAdmitted(origin=int() as origin, parts=parts):
                    found[origin] = Message(Role.USER, parts)
                case ReplyRecorded(origin=int() as origin, reply=reply):
                    found[origin] = Message(Role.ASSISTANT, reply.parts)
                case ToolSettled(origin=int() as origin, result=result):
                    before = found[origin].parts if origin in found else ()
                    found[origin] = Message(Role.TOOL, _joined(before, result))
                case _:
                    pass
    messages: list[Message] = []
    while len(messages) < count and len(messages) in found:
        messages.append(found[len(messages)])
    return messages


def _joined(before: Sequence[Part], result: ToolResult) -> tuple[Part, ...]:
    """Return the results of one message with another of them; the same again takes the place of the one before."""
    others = [part for part in before if isinstance(part, ToolResult) and part.call_id != result.call_id]
    return (*others, result)
