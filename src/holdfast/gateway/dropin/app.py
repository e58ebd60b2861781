"""The drop-in endpoints as one ASGI application below /v1: who is asked, what fits, what is rescued, what is kept.

OpenAI's chat completions and responses, Anthropic's messages, its count of tokens, the lists of models; whatever else a
client asks for below /v1 passes through as it is.
"""

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Mapping
from dataclasses import replace
from functools import lru_cache
from math import inf
from time import monotonic, time

import msgspec

from holdfast.core.faults import Confidence, Fault, FaultKind, Phase, Refusal, Unit
from holdfast.core.fit import measure, output_reserved
from holdfast.core.learning import NOTHING_LEARNED
from holdfast.core.limits import DROPIN_MARK, Bounds, Limits
from holdfast.core.messages import Reply, Role
from holdfast.core.prices import NO_PRICES
from holdfast.core.records import AttemptFailed
from holdfast.errors import HoldfastError
from holdfast.gateway.asgi import ClientGoneError, Receive, Scope, Send, header, until_gone, whole_body
from holdfast.gateway.bounds import GatewayBounds
from holdfast.gateway.dropin.ahead import PlainHeads, sent_ahead
from holdfast.gateway.dropin.asked import Asked, Outbox
from holdfast.gateway.dropin.compactions import Loops, is_compaction, represented
from holdfast.gateway.dropin.keeping import Keeper
from holdfast.gateway.dropin.passing import OVERSIZE, Failed, Passage, Passed, names_of
from holdfast.gateway.dropin.recognition import Conversation, Recognition, digest_of, family_prefix
from holdfast.gateway.dropin.rescuing import Errand, Refused, rescue
from holdfast.gateway.dropin.upstream import Upstream, Wire, key_in, passed_on
from holdfast.gateway.meters import Meters
from holdfast.gateway.problems import NotFoundError
from holdfast.gateway.tenants import Tenant
from holdfast.models.declared import declared_limits, open_limits
from holdfast.models.dialects import DIALECTS, SERVED, dialect_at
from holdfast.models.http import HttpModel, ModelCard
from holdfast.models.overrides import Overrides
from holdfast.models.priced import declared_prices
from holdfast.models.transport import BrokenOffError, SocketTransport, UnreachableError
from holdfast.models.wire import MalformedRequestError
from holdfast.runtime.engine import Engine
from holdfast.runtime.learning import Known

log = logging.getLogger(__name__)

_COUNT_PATH = "/v1/messages/count_tokens"
# How we call a family's dialect in front of a model's name, as references to models do.
_REFERENCES = {"openai-chat": "openai", "openai-responses": "responses", "anthropic": "anthropic"}
# What other processes have learned may be known a second later.
_KNOWN_SECONDS = 1.0
# Statuses of servers that do not count tokens, or cannot count so many.
_CANNOT_COUNT = frozenset({400, 404, 405, 413, 501})
_CARDS_MAX = 1_000
# How many short answers go into what our own sessions keep free for one: a page each.
_SHORT_ANSWERS = 4
_SESSION_HEADER = b"x-holdfast-session"
_JSON = [(b"content-type", b"application/json")]


class DropIn:
    """The application. `close` it when its gateway has stopped."""

    def __init__(
        self,
        engine: Engine,
        upstreams: Mapping[str, Upstream],
        *,
        bounds: GatewayBounds,
        overrides: Overrides,
        owner: str,
        meters: Meters | None = None,
    ) -> None:
        self._engine = engine
        self._meters = meters or Meters()
        self._upstreams = upstreams
        self._bounds = bounds
        self._overrides = overrides
        self._wire = Wire()
        self._transports = {
            family: SocketTransport(one.endpoint.base_url, proxy=one.endpoint.proxy)
            for family, one in upstreams.items()
        }
        self._keeper = Keeper(engine, owner)
        self._recognition = Recognition(engine.store)
        self._passage = Passage(self._wire, engine, engine.deadlines, self._meters.upstream_failed)
        self._known: dict[str, tuple[float, Known]] = {}
        self._loops = Loops()
        self._plain = PlainHeads()
        # Clients name models as they please, most of them one.
        self._card = lru_cache(maxsize=_CARDS_MAX)(self._make_card)
        self._keeping: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        """Finish what is being kept, and let go of connections."""
        if self._keeping:
            await asyncio.wait(self._keeping)
        await self._wire.close()
        for transport in self._transports.values():
            await transport.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        path, tenant = scope["path"], scope["holdfast.tenant"]
        dialect = dialect_at(path) if scope["method"] == "POST" else None
        scope["holdfast.route"] = path if dialect in SERVED or path in (_COUNT_PATH, "/v1/models") else "/v1/other"
        outbox = Outbox(send)
        with tenant.working():
            body = await whole_body(scope, receive, self._bounds)
            if dialect is not None and dialect in SERVED:
                work = self._serve(scope, self._addressed(scope, dialect, body), outbox, tenant)
            else:
                work = self._other(scope, body, outbox)
            try:
                await _unless_gone(receive, work)
                if dialect is not None and dialect in SERVED:
                    self._meters.dropin_answered(dialect, rescued=outbox.notes.get("x-holdfast-rescued", ""))
            except BrokenOffError as error:
                log.warning("an answer broke off", extra={"route": scope["holdfast.route"], "reason": str(error)})
                # What is missing cannot be told any more; the client sees that the answer is cut off.
                scope["holdfast.abort"]()

    # What is asked.

    def _upstream(self, scope: Scope) -> Upstream:
        """Return who is meant: Anthropic's clients name their version, or carry their key in their own header."""
        names = {name for name, _ in scope["headers"]}
        is_anthropic = b"anthropic-version" in names or scope["path"].startswith("/v1/messages")
        family = "anthropic" if is_anthropic else "openai"
        if family not in self._upstreams:
            raise NotFoundError(f"this gateway has no upstream for {family}; its operator sets one in [upstream]")
        return self._upstreams[family]

    def _addressed(self, scope: Scope, dialect: str, body: bytes) -> Asked:
        """Return a request of which only the model was read: where it goes, and with which headers."""
        upstream = self._upstream(scope)
        headers = passed_on(scope["headers"], upstream, is_key_ours=bool(scope.get("holdfast.key_is_ours")))
        address = upstream.address(scope["path"], scope["query_string"])
        try:
            names = names_of(_model_in(body), upstream.fallbacks)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            # The provider says best what is wrong with it.
            return Asked(dialect, upstream, address, headers, body, (), ())
        models = tuple(self._model(dialect, upstream, name, key_in(headers)) for name in names)
        return Asked(dialect, upstream, address, headers, body, models, names)

    def _read(self, asked: Asked, scope: Scope, tenant: Tenant) -> Asked:
        """Return the request with what it says; as it is where it cannot be read, or says nothing."""
        try:
            decoded = SERVED[asked.dialect].decode_request(asked.body, asked.issuer, is_tolerant=True)
        except (MalformedRequestError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return replace(asked, models=(), names=())
        read = replace(asked, decoded=decoded)
        if not read.messages:
            return asked
        digests = [digest_of(message) for message in read.messages]
        named = header(scope, _SESSION_HEADER)
        own = DROPIN_MARK + named.removeprefix(DROPIN_MARK) if named else family_prefix(asked.owner, digests)
        return replace(
            read,
            digests=digests,
            prefix=tenant.store_key(own),
            is_compaction=is_compaction(decoded.request),
        )

    def _model(self, dialect: str, upstream: Upstream, name: str, key: str) -> HttpModel:
        return HttpModel(
            DIALECTS[dialect], self._card(dialect, upstream, name), self._transports[upstream.family], key=key
        )

    def _make_card(self, dialect: str, upstream: Upstream, name: str) -> ModelCard:
        reference = f"{_REFERENCES[dialect]}:{name}"
        declared = declared_limits(reference) if upstream.is_official else open_limits(name)
        limits = self._overrides.applied(reference, declared)
        listed = declared_prices(reference) if upstream.is_official else NO_PRICES
        prices = self._overrides.priced(reference, listed)
        return ModelCard(reference, name, upstream.endpoint.place, limits, upstream.is_official, prices)

    async def _known_of(self, model: HttpModel) -> Known:
        looked_at, known = self._known.get(model.issuer, (float("-inf"), None))
        if known is None or monotonic() - looked_at > _KNOWN_SECONDS:
            known = await self._engine.learning.known(model)
            self._known[model.issuer] = (monotonic(), known)
        return known

    # Answering.

    async def _serve(self, scope: Scope, asked: Asked, outbox: Outbox, tenant: Tenant) -> None:
        """Answer a request; one that surely goes as it is goes first and is read while the upstream works."""
        if not await self._goes_first(asked):
            await self._answer(self._read(asked, scope, tenant), outbox, tenant)
            return
        sending = self._wire.send(asked.upstream, "POST", asked.address, asked.headers, asked.body)
        async with sent_ahead(sending) as ahead:
            await self._answer(replace(self._read(asked, scope, tenant), ahead=ahead), outbox, tenant)

    async def _goes_first(self, asked: Asked) -> bool:
        if not asked.models or not self._plain.has(asked.owner, asked.body) or self._loops.has_compacted(asked.owner):
            return False
        limits = (await self._known_of(asked.models[0])).limits
        # No token is shorter than a byte.
        return len(asked.body) <= min(_room(limits, self._engine.bounds), limits.wire_bytes_max or inf)

    async def _answer(self, asked: Asked, outbox: Outbox, tenant: Tenant) -> None:
        if asked.decoded is None:
            unknown = Known(Limits(), NOTHING_LEARNED.calibration)
            await self._finish(asked, outbox, await self._passage.carry(asked, outbox, unknown))
            return
        if asked.is_compaction:
            self._meters.compaction_called(asked.dialect)
        conversation = await self._recognition.find(asked.prefix, asked.digests)
        outbox.notes["x-holdfast-session"] = tenant.key_of(conversation.key) or ""
        self._plain.learn(asked.owner, asked.body, is_plain=not conversation.is_rescued)
        if conversation.is_rescued:
            await self._rescue(asked, outbox, conversation, None)
            return
        model = asked.models[0]
        known = await self._known_of(model)
        fault = _too_large(asked, known, self._engine.bounds) or self._circling(asked)
        if fault is not None:
            refusal = Refusal(asked.dialect, Phase.ESTIMATE, cause="not sent: it is larger than what the model takes")
            await self._rescue(asked, outbox, conversation, Failed(refusal, fault))
            return
        outcome = await self._passage.carry(asked, outbox, known)
        if isinstance(outcome, Failed) and outcome.fault.kind is FaultKind.BAD_REQUEST and asked.is_compaction:
            await self._represent(asked, outbox)
            return
        if isinstance(outcome, Failed) and outcome.fault.kind in OVERSIZE:
            await self._engine.learning.heed(model, outcome.refusal, outcome.fault, asked.sizes)
            self._known.pop(model.issuer, None)
            await self._rescue(asked, outbox, conversation, outcome)
            return
        if isinstance(outcome, Passed) and outcome.reply is not None:
            # The client may go the moment it has read the answer; what was said is kept all the same.
            keeping = asyncio.create_task(self._keep(asked, conversation, outcome), name="keep a conversation")
            self._keeping.add(keeping)
            keeping.add_done_callback(self._keeping.discard)
            await asyncio.shield(keeping)
        await self._finish(asked, outbox, outcome)

    def _circling(self, asked: Asked) -> Fault | None:
        """Return why a request is made smaller although it fits: its agent compacts and compacts, and gains nothing."""
        owner = asked.owner
        if asked.is_compaction:
            self._loops.compacted(owner)
            return None
        said = [place for place, one in enumerate(asked.messages) if one.role is Role.USER]
        newest = asked.digests[said[-1]] if said else b""
        if not self._loops.is_circling(owner, newest, len(asked.body)):
            return None
        tokens = asked.sizes.tokens
        return Fault(FaultKind.TOKEN_OVERFLOW, Confidence.GUESS, limit=tokens // 2, requested=tokens, unit=Unit.TOKENS)

    async def _represent(self, asked: Asked, outbox: Outbox) -> None:
        """Answer an agent's own compaction without a model."""
        assert asked.decoded is not None, "only what was read is known to be a compaction"
        dialect, decoded = SERVED[asked.dialect], asked.decoded
        reply = represented(decoded.request, decoded.model)
        outbox.notes["x-holdfast-rescued"] = "compaction_answered"
        outbox.notes["x-holdfast-notice"] = "the provider refused this compaction; it was made without a model"
        reply_id = f"holdfast-{secrets.token_hex(8)}"
        if not decoded.wants_stream:
            await outbox.whole(200, _JSON, dialect.encode_reply(reply, reply_id, int(time())))
            return
        await outbox.begin(200, [(b"content-type", b"text/event-stream; charset=utf-8")])
        for event in dialect.encode_stream(reply, reply_id, int(time()), wants_usage=decoded.wants_usage):
            await outbox.write(event)
        await outbox.end()

    async def _keep(self, asked: Asked, conversation: Conversation, passed: Passed) -> None:
        """Put what was said into the log. The client has its answer, so whatever fails here is for the operator."""
        assert passed.reply is not None
        try:
            await self._keeper.keep(asked, conversation, passed.reply)
            await self._engine.learning.heed(asked.models[0], passed.reply, None, asked.sizes)
        except HoldfastError as error:
            # The next request of this conversation brings the same messages again, and then they are kept.
            log.warning("a conversation is not kept yet", extra={"session": conversation.key, "code": error.code})

    async def _finish(self, asked: Asked, outbox: Outbox, outcome: Passed | Failed) -> None:
        if isinstance(outcome, Passed):
            await outbox.end()
        elif outcome.error is not None:
            await outbox.whole(outcome.error.status, outcome.error.headers, outcome.error.body)
        else:
            is_late = outcome.refusal.phase is Phase.STALL
            told = f"holdfast: the upstream did not answer: {outcome.refusal.cause}"
            await outbox.whole(504 if is_late else 502, _JSON, _error(asked.dialect, told))

    async def _rescue(self, asked: Asked, outbox: Outbox, conversation: Conversation, failed: Failed | None) -> None:
        if asked.is_compaction and len(asked.messages) == 1:
            # All its history is in this one message, so nothing of it can be left out and still be summarised.
            await self._represent(asked, outbox)
            return
        if conversation.common(asked.digests) == len(asked.digests) < len(conversation.digests):
            # The log goes on behind this request: another answer to it is another conversation.
            conversation = await self._recognition.branch(asked.prefix, asked.digests)
        self._plain.learn(asked.owner, asked.body, is_plain=False)
        errand = Errand(asked, outbox, self._wire, key_in(asked.headers), error=failed.error if failed else None)
        attempt = AttemptFailed(0, 0, failed.refusal, failed.fault) if failed is not None else None
        came = await rescue(errand, conversation, self._keeper, attempt)
        log.info(
            "request rescued", extra={"session": conversation.key, "rescued": outbox.notes.get("x-holdfast-rescued")}
        )
        if outbox.has_begun:
            if not isinstance(came, Reply):
                raise BrokenOffError("the answer broke off after a part of it was sent")
            await outbox.end()
            return
        if asked.is_compaction:
            await self._represent(asked, outbox)
            return
        error = errand.error or Refused(502, _JSON, _error(asked.dialect, _told(came)))
        await outbox.whole(error.status, error.headers, error.body)

    # Everything else.

    async def _other(self, scope: Scope, body: bytes, outbox: Outbox) -> None:
        upstream = self._upstream(scope)
        headers = passed_on(scope["headers"], upstream, is_key_ours=bool(scope.get("holdfast.key_is_ours")))
        address = upstream.address(scope["path"], scope["query_string"])
        try:
            async with self._wire.send(upstream, scope["method"], address, headers, body) as raw:
                if scope["path"] == _COUNT_PATH and raw.status in _CANNOT_COUNT and (count := _count(body)):
                    outbox.notes["x-holdfast-notice"] = "counted by estimate: the upstream did not count it"
                    await outbox.whole(200, _JSON, msgspec.json.encode({"input_tokens": count}))
                    return
                await outbox.begin(raw.status, raw.headers)
                async for chunk in raw.chunks:
                    await outbox.write(chunk)
                await outbox.end()
        except UnreachableError as error:
            dialect = "anthropic" if upstream.family == "anthropic" else "openai-chat"
            await outbox.whole(502, _JSON, _error(dialect, f"holdfast: the upstream did not answer: {error}"))


class _Named(msgspec.Struct):
    model: str = ""


def _model_in(body: bytes) -> str:
    return msgspec.json.decode(body, type=_Named).model


def _too_large(asked: Asked, known: Known, bounds: Bounds) -> Fault | None:
    """Return why a request cannot fit, where that is all but certain: a provider may know better than an estimate."""
    room, body_bytes = _room(known.limits, bounds), len(asked.body)
    # No token is shorter than a byte, so most requests need not be measured.
    if body_bytes > room and (tokens := known.calibration.estimate(asked.sizes.tokens)) > room:
        return Fault(FaultKind.TOKEN_OVERFLOW, Confidence.LIKELY, limit=int(room), requested=tokens, unit=Unit.TOKENS)
    wire = known.limits.wire_bytes_max
    if wire is not None and body_bytes > wire:
        return Fault(FaultKind.WIRE_OVERFLOW, Confidence.LIKELY, limit=wire, requested=body_bytes, unit=Unit.BYTES)
    return None


def _room(limits: Limits, bounds: Bounds) -> float:
    """Return how many tokens a request may have.

    An answer that breaks off for want of room is an error to most agents, so a short one must have its place.
    """
    if limits.window_tokens is None:
        return inf
    return limits.window_tokens - output_reserved(limits, bounds) // _SHORT_ANSWERS


def _count(body: bytes) -> int:
    """Return our own estimate of a request's tokens; 0 where it cannot be read."""
    # What is only to be counted need not say how long its answer may be; whoever reads requests wants to know.
    whole = body.replace(b"{", b'{"max_tokens":1,', 1)
    try:
        return measure(SERVED["anthropic"].decode_request(whole, is_tolerant=True).request).tokens
    except MalformedRequestError:
        return 0


async def _unless_gone(receive: Receive, work: Awaitable[None]) -> None:
    """Work for as long as the client waits; when it goes, the upstream is let go at once."""
    working = asyncio.current_task()
    assert working is not None, "requests are served in tasks"
    is_gone = False

    async def watch() -> None:
        nonlocal is_gone
        await until_gone(receive)
        is_gone = True
        working.cancel()

    watching = asyncio.create_task(watch(), name="watch for a client that goes")
    try:
        await work
    except asyncio.CancelledError:
        # Whoever else stops this task wants it stopped, not the request answered.
        if is_gone and working.uncancel() == 0:
            raise ClientGoneError from None
        raise
    finally:
        watching.cancel()


def _told(came: object) -> str:
    sentence = getattr(came, "sentence", "")
    return f"holdfast: {sentence or 'the request could not be made to fit'}"


def _error(dialect: str, message: str) -> bytes:
    """Return an error of ours as a client of this dialect reads it."""
    if dialect == "anthropic":
        return msgspec.json.encode({"type": "error", "error": {"type": "api_error", "message": message}})
    return msgspec.json.encode({"error": {"message": message, "type": "api_error", "param": None, "code": None}})
