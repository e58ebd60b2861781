"""Services that all exchanges of the proxy share: connections, recorder, and caches over the store.

Caches only save time. The state of a client's own compactions and the limits of models are read from logs, so all
gateways on one store decide alike, also after a restart.
"""

import hashlib
from collections import OrderedDict
from dataclasses import dataclass, field
from time import monotonic

from holdfast.core.limits.bounds import RESERVED_KEYS
from holdfast.core.proxy.plan import ClientLoop, fold_loop
from holdfast.gateway.http.metrics import Metrics
from holdfast.gateway.proxy.forward import Forwarder
from holdfast.gateway.proxy.ownership import AnswerIds, OwnedIds, UnknownAnswerError
from holdfast.gateway.proxy.recorder import Recorder
from holdfast.gateway.proxy.response_links import ResponseLinks
from holdfast.gateway.proxy.session_match import SessionMatcher
from holdfast.gateway.proxy.upstream import PassThroughCache, Upstream, UpstreamClient
from holdfast.models.http import HttpModel
from holdfast.ports import Log
from holdfast.runtime.engine.context import Engine
from holdfast.runtime.engine.learning import Known, Learning
from holdfast.runtime.engine.log import pages
from holdfast.types.records import ClientCompacted, ClientResumed

# Logs of clients' own compactions: this prefix and a digest of tenant and client.
CLIENTS_KEY = f"{RESERVED_KEYS}client:"
# Clients whose state is cached, some 200 bytes each.
_CLIENTS_MAX = 5_000
# Limits that other processes have learned may be known this late.
_KNOWN_SECONDS = 1.0


@dataclass
class _CachedLoop:
    """The state of one client, the last record it covers, and the time at which the log was read."""

    loop: ClientLoop = field(default_factory=ClientLoop)
    seq: int = 0
    read_at: float = float("-inf")


class ClientLoops:
    """The state of each client's compactions, read from its log at most once a second."""

    def __init__(self, store: Log) -> None:
        self._store = store
        self._states: OrderedDict[str, _CachedLoop] = OrderedDict()

    async def state(self, client: str) -> ClientLoop:
        """Return the state of a client; records of other gateways may be known a second later."""
        cached = self._states.get(client) or _CachedLoop()
        if monotonic() - cached.read_at > _KNOWN_SECONDS:
            cached = await self._read_on(_client_key(client), cached)
            self._states[client] = cached
            self._states.move_to_end(client)
            while len(self._states) > _CLIENTS_MAX:
                self._states.popitem(last=False)
        return cached.loop

    async def _read_on(self, key: str, cached: _CachedLoop) -> _CachedLoop:
        known = await self._store.info(key)
        if known is None or known.last_seq < cached.seq:
            # No compaction yet, or the log was deleted.
            cached = _CachedLoop()
        if known is not None and known.last_seq != cached.seq:
            async for page in pages(self._store, key, after=cached.seq):
                for logged in page:
                    if isinstance(logged.record, ClientCompacted | ClientResumed):
                        cached.loop = fold_loop(cached.loop, logged.record)
                    cached.seq = logged.seq
        cached.read_at = monotonic()
        return cached

    async def record(self, client: str, record: ClientCompacted | ClientResumed) -> None:
        """Append a record to a client's log."""
        await self._store.admit(_client_key(client), record)
        if client in self._states:
            self._states[client].read_at = float("-inf")


def _client_key(client: str) -> str:
    return CLIENTS_KEY + hashlib.sha256(client.encode()).hexdigest()[:32]


class KnownLimits:
    """Limits of models by issuer, cached for a second."""

    def __init__(self, learning: Learning) -> None:
        self._learning = learning
        self._known: dict[str, tuple[float, Known]] = {}

    async def of(self, model: HttpModel) -> Known:
        """Return the limits of a model."""
        read_at, known = self._known.get(model.issuer, (float("-inf"), None))
        if known is None or monotonic() - read_at > _KNOWN_SECONDS:
            known = await self._learning.known(model)
            self._known[model.issuer] = (monotonic(), known)
        return known

    def forget(self, model: HttpModel) -> None:
        """Drop the cached limits of a model."""
        self._known.pop(model.issuer, None)


@dataclass(frozen=True)
class ProxyServices:
    """Everything that exchanges share."""

    engine: Engine
    client: UpstreamClient
    forwarder: Forwarder
    recorder: Recorder
    matcher: SessionMatcher
    links: ResponseLinks
    owned: OwnedIds
    loops: ClientLoops
    limits: KnownLimits
    cache: PassThroughCache
    metrics: Metrics

    async def answer_ids(
        self, tenant: str, upstream: Upstream, method: str, path: str, body: bytes
    ) -> AnswerIds | None:
        """Check the stored objects that a request to the operator's account names.

        Return the reader of the ids in its answer; None if the provider stores nothing.
        """
        named, foreign = await self.owned.check(tenant, method, path, body)
        for name in foreign:
            # Answers of earlier versions have only a link to their session.
            if not await self.links.has(tenant, upstream, name):
                raise UnknownAnswerError(f"{name[:80]!r} is not an answer that this key got from this gateway")
        return AnswerIds(self.owned, tenant) if named.is_stored else None


def open_services(engine: Engine, owner: str, metrics: Metrics) -> ProxyServices:
    """Return the services of one gateway; `owner` names it as the holder of leases."""
    client = UpstreamClient()
    matcher = SessionMatcher(engine.store, engine.bounds)
    return ProxyServices(
        engine=engine,
        client=client,
        forwarder=Forwarder(client, engine.deadlines, engine.bounds),
        recorder=Recorder(engine, owner),
        matcher=matcher,
        links=ResponseLinks(engine, matcher),
        owned=OwnedIds(engine.store),
        loops=ClientLoops(engine.store),
        limits=KnownLimits(engine.learning),
        cache=PassThroughCache(),
        metrics=metrics,
    )
