"""The drop-in endpoints as one ASGI application below /v1: who is asked, what fits, what is rescued, what is kept.

OpenAI's chat completions and responses, Anthropic's messages, its count of tokens, the lists of models; whatever else a
client asks for below /v1 passes through as it is.
"""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from functools import lru_cache
from math import inf
from time import monotonic

import msgspec

from holdfast.core.limits.bounds import DROPIN_MARK
from holdfast.core.limits.fit import measure
from holdfast.core.limits.prices import NO_PRICES
from holdfast.errors import HoldfastError
from holdfast.gateway.bounds import GatewayBounds
from holdfast.gateway.http.asgi import Receive, Scope, Send, header, unless_gone, whole_body
from holdfast.gateway.http.auth import Tenant
from holdfast.gateway.http.metrics import Metrics
from holdfast.gateway.http.problems import NotFoundError
from holdfast.gateway.proxy.body_rewrite import together, unpacked
from holdfast.gateway.proxy.client_compaction import Loops, is_compaction
from holdfast.gateway.proxy.forward import OVERSIZE, Failed, Passage, Passed, names_of
from holdfast.gateway.proxy.preflight import measured, room_for, too_large, with_output_that_fits
from holdfast.gateway.proxy.recorder import Keeper
from holdfast.gateway.proxy.recovery import Errand, Refused, rescue
from holdfast.gateway.proxy.request import Asked, Outbox, going_on, is_forgotten
from holdfast.gateway.proxy.response_links import Linking
from holdfast.gateway.proxy.responses import JSON_HEADERS, error_body, tell_compaction, tell_end
from holdfast.gateway.proxy.session_match import Conversation, Recognition, digest_of, family_prefix
from holdfast.gateway.proxy.speculative_forward import Ahead, PlainHeads
from holdfast.gateway.proxy.truncation import Cuts
from holdfast.gateway.proxy.upstream import Upstream, Wire, key_in, passed_on
from holdfast.models.dialects import DIALECTS, SERVED, dialect_at
from holdfast.models.http import HttpModel, ModelCard
from holdfast.models.limits import declared_limits, open_limits
from holdfast.models.overrides import Overrides
from holdfast.models.prices import declared_prices
from holdfast.models.transport import BrokenOffError, SocketTransport, UnreachableError
from holdfast.models.wire import MalformedRequestError
from holdfast.runtime.engine.context import Engine
from holdfast.runtime.engine.learning import Known
from holdfast.types.faults import Confidence, Fault, FaultKind, Phase, Refusal, Unit
from holdfast.types.limits import NOTHING_LEARNED, Limits
from holdfast.types.messages import Reply, Role
from holdfast.types.records import AttemptFailed

log = logging.getLogger(__name__)

_COUNT_PATH = "/v1/messages/count_tokens"
# How we call a family's dialect in front of a model's name, as references to models do.
_REFERENCES = {"openai-chat": "openai", "openai-responses": "responses", "anthropic": "anthropic"}
# What other processes have learned may be known a second later.
_KNOWN_SECONDS = 1.0
# Statuses of servers that do not count tokens, or cannot count so many.
_CANNOT_COUNT = frozenset({400, 404, 405, 413, 501})
_MODELS_MAX = 1_000
_UNKNOWN = Known(Limits(), NOTHING_LEARNED.calibration)
_SESSION_HEADER = b"x-holdfast-session"


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
        metrics: Metrics | None = None,
    ) -> None:
        self._engine = engine
        self._meters = metrics or Metrics()
        self._upstreams = upstreams
        self._bounds = bounds
        self._overrides = overrides
        self._wire = Wire()
        self._transports = {
            family: SocketTransport(one.endpoint.base_url, proxy=one.endpoint.proxy)
            for family, one in upstreams.items()
        }
        self._keeper = Keeper(engine, owner)
        self._recognition = Recognition(engine.store, engine.bounds)
        self._linking = Linking(engine, self._recognition)
        self._cuts = Cuts()
        self._passage = Passage(self._wire, engine, self._cuts, self._meters.upstream_failed)
        self._known: dict[str, tuple[float, Known]] = {}
        self._loops = Loops()
        self._plain = PlainHeads()
        # Clients name models as they please, most of them one.
        self._models = lru_cache(maxsize=_MODELS_MAX)(self._make_models)
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
                body = unpacked(scope, body, self._bounds.body_bytes_max)
            if dialect is not None and dialect in SERVED:
                work = self._serve(self._addressed(scope, dialect, body), outbox, tenant)
            else:
                work = self._other(scope, body, outbox)
            try:
                await unless_gone(receive, work)
                if dialect is not None and dialect in SERVED:
                    self._meters.dropin_answered(dialect, rescued=outbox.notes.get("x-holdfast-rescued", ""))
            except BrokenOffError as error:
                log.warning("an answer broke off", extra={"route": scope["holdfast.route"], "reason": str(error)})
                # What is missing cannot be told any more; the client sees that the answer is cut off.
                scope["holdfast.abort"]()

    # What is asked.

    def _upstream(self, scope: Scope) -> Upstream:
        """Return who is meant: Anthropic's clients name their version, or carry their key in their own header."""
        is_anthropic = scope["path"].startswith("/v1/messages") or any(
            name == b"anthropic-version" for name, _ in scope["headers"]
        )
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
            model = _bodies.decode(body).model
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            # The provider says best what is wrong with it.
            return Asked(dialect, upstream, address, headers, body, (), ())
        models, names = self._models(dialect, upstream.family, model, key_in(headers))
        return Asked(dialect, upstream, address, headers, body, models, names, header(scope, _SESSION_HEADER))

    def _read(self, asked: Asked, tenant: Tenant) -> Asked:
        """Return the request with what it says; as it is where it cannot be read, or says nothing."""
        try:
            decoded = SERVED[asked.dialect].decode_request(asked.body, asked.issuer, is_tolerant=True)
        except (MalformedRequestError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return replace(asked, models=(), names=())
        read = replace(asked, decoded=together(decoded))
        if not read.messages:
            return asked
        digests = [digest_of(message) for message in read.messages]
        named = DROPIN_MARK + asked.named.removeprefix(DROPIN_MARK) if asked.named else ""
        own = named or family_prefix(asked.owner, digests)
        return replace(
            read,
            digests=digests,
            prefix=tenant.store_key(own),
            is_compaction=is_compaction(decoded.request),
            going=going_on(asked.dialect, asked.body),
        )

    def _make_models(
        self, dialect: str, family: str, named: str, key: str
    ) -> tuple[tuple[HttpModel, ...], tuple[str, ...]]:
        """Return who is asked where a client names a model, and what each of them is called, best first."""
        upstream, spoken = self._upstreams[family], DIALECTS[dialect]
        names = names_of(named, upstream.fallbacks)
        cards = [self._card(dialect, upstream, name) for name in names]
        return tuple(HttpModel(spoken, card, self._transports[family], key=key) for card in cards), names

    def _card(self, dialect: str, upstream: Upstream, name: str) -> ModelCard:
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

    async def _serve(self, asked: Asked, outbox: Outbox, tenant: Tenant) -> None:
        """Answer a request; one that surely goes as it is goes first and is read while the upstream works."""
        if not await self._goes_first(asked):
            await self._answer(self._read(asked, tenant), outbox, tenant)
            return
        ahead = Ahead(self._wire.send(asked.upstream, "POST", asked.address, asked.headers, asked.body))
        try:
            await ahead.gone_out()
            await self._answer(replace(self._read(asked, tenant), ahead=ahead), outbox, tenant)
        finally:
            await ahead.drop()

    async def _goes_first(self, asked: Asked) -> bool:
        if not asked.models or not self._plain.has(asked.owner, asked.body):
            return False
        if self._loops.has_compacted(asked.owner) or self._cuts.has(asked.owner):
            return False
        known = await self._known_of(asked.models[0])
        if known.counts_output:
            # How much output it asks for is not read yet.
            return False
        limits = known.limits
        # No token is shorter than a byte.
        return len(asked.body) <= min(room_for(limits, self._engine.bounds), limits.wire_bytes_max or inf)

    async def _answer(self, asked: Asked, outbox: Outbox, tenant: Tenant) -> None:
        asked = await self._linking.linked(asked, tenant.name)
        if asked.decoded is None:
            await tell_end(asked, outbox, await self._passage.carry(asked, outbox, _UNKNOWN))
            return
        if asked.is_compaction:
            self._meters.compaction_called(asked.dialect)
        conversation = await self._recognition.find(asked.prefix, asked.digests)
        outbox.notes["x-holdfast-session"] = tenant.key_of(conversation.key) or ""
        # What is shown to the model is the provider's to say where it holds the history.
        is_rescued = conversation.is_rescued if asked.link is None else not asked.link.is_held
        self._plain.learn(asked.owner, asked.body, is_plain=not is_rescued)
        if is_rescued:
            await self._rescue(asked, outbox, conversation, self._cut_before(asked))
            return
        known = await self._known_of(asked.models[0])
        failed = self._cut_before(asked)
        fault = too_large(asked, known, self._engine.bounds) or self._circling(asked)
        if fault is not None:
            refusal = Refusal(asked.dialect, Phase.ESTIMATE, cause="not sent: it is larger than what the model takes")
            failed = Failed(refusal, fault)
        if failed is not None:
            await self._rescue(asked, outbox, conversation, failed)
            return
        asked = with_output_that_fits(asked, known, outbox, self._engine.bounds)
        await self._settle(asked, outbox, conversation, await self._passage.carry(asked, outbox, known))

    async def _settle(self, asked: Asked, outbox: Outbox, conversation: Conversation, outcome: Passed | Failed) -> None:
        """Keep what a request was answered, or cure what can be cured of it."""
        if isinstance(outcome, Failed):
            await self._failed(asked, outbox, conversation, outcome)
            return
        if outcome.reply is not None:
            # The client may go the moment it has read the answer; what was said is kept all the same.
            work = self._keep(asked, conversation, outcome)
            keeping = asyncio.create_task(work, name="keep a conversation")
            self._keeping.add(keeping)
            keeping.add_done_callback(self._keeping.discard)
            await asyncio.shield(keeping)
        await tell_end(asked, outbox, outcome)

    async def _failed(self, asked: Asked, outbox: Outbox, conversation: Conversation, failed: Failed) -> None:
        """Cure what can be cured of a request that was refused; else the client is told what the provider said."""
        kind = failed.fault.kind
        if kind is FaultKind.BAD_REQUEST and asked.is_compaction:
            await tell_compaction(asked, outbox)
        elif asked.held and is_forgotten(failed.refusal.body):
            await self._rescue(asked, outbox, conversation, failed)
        elif kind in OVERSIZE:
            whole = await self._linking.unfolded(asked)
            if whole is not None and not (asked.held and conversation.is_rescued):
                # Of a history that the provider has in another form nobody knows how large it was.
                await self._engine.learning.observe(asked.models[0], failed.refusal, failed.fault, whole.sizes)
            self._known.pop(asked.models[0].issuer, None)
            await self._rescue(asked, outbox, conversation, failed)
        else:
            await tell_end(asked, outbox, failed)

    def _circling(self, asked: Asked) -> Fault | None:
        """Return why a request is made smaller although it fits: its agent compacts and compacts, and gains nothing."""
        owner = asked.owner
        if asked.is_compaction:
            self._loops.compacted(owner)
            return None
        said = [place for place, one in enumerate(asked.messages) if one.role is Role.USER]
        newest = asked.digests[asked.held + said[-1]] if said else b""
        if not self._loops.is_circling(owner, newest, len(asked.body)):
            return None
        tokens = asked.sizes.tokens
        return Fault(FaultKind.TOKEN_OVERFLOW, Confidence.GUESS, limit=tokens // 2, requested=tokens, unit=Unit.TOKENS)

    def _cut_before(self, asked: Asked) -> Failed | None:
        """Return what came of the same request before, where its answer broke off because the window was full."""
        fault = self._cuts.asked_again(asked)
        if fault is None:
            return None
        cause = "answered before, but the answer broke off: the window was full"
        return Failed(Refusal(asked.dialect, Phase.STREAM, status=200, cause=cause), fault)

    async def _keep(self, asked: Asked, conversation: Conversation, passed: Passed) -> None:
        """Put what was said into the log. The client has its answer, so whatever fails here is for the operator."""
        assert passed.reply is not None
        try:
            # One that goes on where others went on already is a conversation of its own, from its beginning.
            is_branch = conversation.common(asked.digests) < asked.held
            whole = await self._linking.unfolded(asked) if is_branch else asked
            if whole is None:
                return
            known = await self._known_of(asked.models[0])
            size = measured(asked, known, passed.reply, self._engine.bounds)
            if await self._keeper.keep(whole, conversation, passed.reply, size):
                await self._linking.keep(asked, conversation.key, passed.answer_id)
            if not asked.held:
                await self._engine.learning.observe(asked.models[0], passed.reply, None, asked.sizes)
        except HoldfastError as error:
            # The next request of this conversation brings the same messages again, and then they are kept.
            log.warning("a conversation is not kept yet", extra={"session": conversation.key, "code": error.code})

    async def _rescue(
        self,
        asked: Asked,
        outbox: Outbox,
        conversation: Conversation,
        failed: Failed | None = None,
    ) -> None:
        if asked.is_compaction and asked.count == 1:
            # All its history is in this one message, so nothing of it can be left out and still be summarised.
            await tell_compaction(asked, outbox)
            return
        whole = await self._linking.unfolded(asked)
        if whole is None:
            await tell_end(asked, outbox, failed or await self._passage.carry(asked, outbox, _UNKNOWN))
            return
        asked = whole
        if conversation.common(asked.digests) == len(asked.digests) < len(conversation.digests):
            # The log goes on behind this request: another answer to it is another conversation.
            shown = outbox.notes.get("x-holdfast-session", "")
            tenant_prefix = conversation.key.removesuffix(shown)
            conversation = await self._recognition.branch(asked.prefix, asked.digests)
            outbox.notes["x-holdfast-session"] = conversation.key.removeprefix(tenant_prefix)
        self._plain.learn(asked.owner, asked.body, is_plain=False)
        errand = Errand(asked, outbox, self._wire, key_in(asked.headers), error=failed.error if failed else None)
        is_oversize = failed is not None and failed.fault.kind in OVERSIZE
        attempt = AttemptFailed(0, 0, failed.refusal, failed.fault) if failed is not None and is_oversize else None
        came = await rescue(errand, conversation, self._keeper, attempt)
        if isinstance(came, Reply):
            await self._linking.keep(asked, conversation.key, errand.answer_id, is_held=False)
        log.info(
            "request rescued", extra={"session": conversation.key, "rescued": outbox.notes.get("x-holdfast-rescued")}
        )
        if outbox.has_begun:
            if not isinstance(came, Reply):
                raise BrokenOffError("the answer broke off after a part of it was sent")
            await outbox.end()
            return
        if asked.is_compaction:
            await tell_compaction(asked, outbox)
            return
        error = errand.error or Refused(502, JSON_HEADERS, error_body(asked.dialect, _told(came)))
        await outbox.whole(error.status, error.headers, error.body)

    # Everything else.

    async def _other(self, scope: Scope, body: bytes, outbox: Outbox) -> None:
        upstream = self._upstream(scope)
        headers = passed_on(scope["headers"], upstream, is_key_ours=bool(scope.get("holdfast.key_is_ours")))
        address = upstream.address(scope["path"], scope["query_string"])
        try:
            raw = await self._wire.send(upstream, scope["method"], address, headers, body)
        except UnreachableError as error:
            dialect = "anthropic" if upstream.family == "anthropic" else "openai-chat"
            await outbox.whole(
                502, JSON_HEADERS, error_body(dialect, f"holdfast: the upstream did not answer: {error}")
            )
            return
        with closing(raw):
            if scope["path"] == _COUNT_PATH and raw.status in _CANNOT_COUNT and (count := _count(body)):
                outbox.notes["x-holdfast-notice"] = "counted by estimate: the upstream did not count it"
                await outbox.whole(200, JSON_HEADERS, msgspec.json.encode({"input_tokens": count}))
                return
            await outbox.begin(raw.status, raw.headers)
            while chunk := await raw.next():
                await outbox.write(chunk)
            await outbox.end()


class _Named(msgspec.Struct):
    model: str = ""


_bodies = msgspec.json.Decoder(_Named)


def _count(body: bytes) -> int:
    """Return our own estimate of a request's tokens; 0 where it cannot be read."""
    # What is only to be counted need not say how long its answer may be; whoever reads requests wants to know.
    whole = body.replace(b"{", b'{"max_tokens":1,', 1)
    try:
        return measure(SERVED["anthropic"].decode_request(whole, is_tolerant=True).request).tokens
    except MalformedRequestError:
        return 0


def _told(came: object) -> str:
    sentence = getattr(came, "sentence", "")
    return f"holdfast: {sentence or 'the request could not be made to fit'}"
