"""Services that all exchanges of the proxy share: connections, recorder, and caches over the store.

Caches only save time. The state of a client's own compactions and the limits of models are read from logs, so all
gateways on one store decide alike, also after a restart.
"""

import hashlib
from collections import OrderedDict
from dataclasses import dataclass
from time import monotonic

from holdfast.core.limits.bounds import RESERVED_KEYS
from holdfast.core.proxy.plan import ClientLoop, fold_loop
from holdfast.gateway.http.metrics import Metrics
from holdfast.gateway.proxy.forward import Forwarder
from holdfast.gateway.proxy.recorder import Recorder
from holdfast.gateway.proxy.response_links import ResponseLinks
from holdfast.gateway.proxy.session_match import SessionMatcher
from holdfast.gateway.proxy.speculative_forward import PassThroughCache
from holdfast.gateway.proxy.upstream import UpstreamClient
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


class ClientLoops:
    """The state of each client's compactions, cached up to the last record that was read."""

    def __init__(self, store: Log) -> None:
        self._store = store
        self._states: OrderedDict[str, tuple[int, ClientLoop]] = OrderedDict()

    async def state(self, client: str) -> ClientLoop:
        """Return the state of a client as the log has it now."""
        key = _client_key(client)
        seq, loop = self._states.get(key, (0, ClientLoop()))
        known = await self._store.info(key)
        if known is None:
            return ClientLoop()
        if known.last_seq != seq:
            if known.last_seq < seq:
                seq, loop = 0, ClientLoop()
            async for page in pages(self._store, key, after=seq):
                for logged in page:
                    if isinstance(logged.record, ClientCompacted | ClientResumed):
                        loop = fold_loop(loop, logged.record)
                    seq = logged.seq
            self._states[key] = (seq, loop)
            self._states.move_to_end(key)
            while len(self._states) > _CLIENTS_MAX:
                self._states.popitem(last=False)
        return loop

    async def record(self, client: str, record: ClientCompacted | ClientResumed) -> None:
        """Append a record to a client's log."""
        await self._store.admit(_client_key(client), record)


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
    loops: ClientLoops
    limits: KnownLimits
    cache: PassThroughCache
    metrics: Metrics


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
        loops=ClientLoops(engine.store),
        limits=KnownLimits(engine.learning),
        cache=PassThroughCache(),
        metrics=metrics,
    )
