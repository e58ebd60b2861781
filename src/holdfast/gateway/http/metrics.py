"""Prometheus metrics of the gateway, with bounded labels.

Sessions and texts are no labels. Names of models and keys count apart up to a number, then together as "other".

Engine metrics are computed from the records that this process writes, so the engine does not depend on them.
"""

from collections.abc import Iterator
from importlib.metadata import version
from time import monotonic

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    Info,
    ProcessCollector,
    generate_latest,
)

from holdfast.core.limits.bounds import is_proxy_session
from holdfast.gateway.http.auth import tenant_of
from holdfast.types.accounts import OwnRequest
from holdfast.types.faults import FaultKind
from holdfast.types.messages import Usage
from holdfast.types.records import (
    AttemptFailed,
    AttemptStarted,
    CompactionApplied,
    Logged,
    Outcome,
    PieceSummarised,
    ReplyRecorded,
    RungFinished,
    SummaryRefused,
    TurnEnded,
    TurnStarted,
)

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# Histogram buckets: a read takes milliseconds, a model's answer up to minutes.
_SECONDS = (0.002, 0.005, 0.01, 0.025, 0.1, 0.5, 1, 5, 15, 60, 300)
# Concurrent turns that are timed, and whose models and first faults are known. More are counted only.
_TIMED_MAX = 20_000
# Names of models and of keys that count apart: clients choose the names of models, and each is a few time series.
_MODELS_MAX = 50
_KEYS_MAX = 100
OTHER = "other"
_SERVER_ERROR, _CLIENT_ERROR, _LIMITED = 500, 400, 429


class _Names:
    """Names that are labels. The first ones count apart, later ones as "other"."""

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._known: set[str] = set()

    def label(self, name: str) -> str:
        if name in self._known:
            return name
        if len(self._known) >= self._count_max:
            return OTHER
        self._known.add(name)
        return name


class Metrics:
    """All metrics in one registry, so that two gateways in one process stay separate."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        Info("holdfast_build", "Version.", registry=self.registry).info({"version": version("holdfast")})
        self._started: dict[tuple[str, int], float] = {}
        # The first fault of an open turn, and the model of the call in flight, by session.
        self._causes: dict[str, str] = {}
        self._calling: dict[str, str] = {}
        self._models, self._keys = _Names(_MODELS_MAX), _Names(_KEYS_MAX)
        count = self._counter
        self._requests = count("requests", "Requests answered.", "route", "method", "status")
        self._request_seconds = Histogram(
            "holdfast_request_seconds", "Time to answer.", ("route",), buckets=_SECONDS, registry=self.registry
        )
        self._turns = count("turns", "Turns started.")
        self._outcomes = count("turn_outcomes", "Turns ended.", "outcome", "code")
        self._turn_seconds = Histogram(
            "holdfast_turn_seconds", "Time from the start of a turn.", buckets=_SECONDS, registry=self.registry
        )
        self._faults = count("faults", "Attempts failed.", "kind")
        self._rungs = count("rungs", "Rungs climbed.", "rung", "result")
        self._compactions = count("compactions", "Compactions.", "kind")
        self._tokens = count("tokens", "Tokens as reported; cached_input is a part of input.", "direction", "model")
        self._calls = count("model_calls", "Calls of models: answered, or the kind of fault.", "model", "outcome")
        self._cached = count("cache_hits", "Answers for which a prompt cache was read.", "model")
        self._rescues = count("rescues", "Turns answered after a fault, by the first one.", "cause")
        self._saved = count("tokens_saved", "Tokens by which compactions made a request smaller.", "kind")
        self._key_requests = count("key_requests", "Requests by gateway key.", "key", "outcome")
        self._key_tokens = count("key_tokens", "Tokens by gateway key.", "key", "direction")
        self._proxied = count(
            "dropin_requests", "Requests of proxied clients sent to an upstream.", "dialect", "result"
        )
        self._proxy_rungs = count("dropin_rungs", "Rungs climbed for requests of proxied clients.", "rung", "result")
        self._upstream_faults = count("dropin_faults", "Failures of upstreams, including retried ones.", "kind")
        self._client_compactions = count(
            "dropin_compactions", "Compactions of clients that were recognised.", "dialect"
        )
        self._cost = count("cost_usd", "US dollars, by declared prices.", "purpose")
        self._proxy_tokens = count(
            "dropin_tokens",
            "Tokens of proxied clients: sent, and of their own requests as they came (own).",
            "request",
            "direction",
        )
        self._proxy_cost = count("dropin_cost_usd", "US dollars of proxied clients, as for dropin_tokens.", "request")
        self._proxy_refused = count("dropin_refused_unchanged", "Answers to requests that would have been rejected.")
        self._unpriced = count("calls_unpriced", "Calls without a price.", "purpose")
        self._pending = Gauge("holdfast_sessions_owing", "Sessions with pending work.", registry=self.registry)
        self._oldest = Gauge(
            "holdfast_oldest_unanswered_seconds",
            "Age of the oldest message without an outcome; 0: there is none.",
            registry=self.registry,
        )
        self._streams = Gauge("holdfast_event_streams", "Event streams open.", registry=self.registry)

    def _counter(self, name: str, description: str, *labels: str) -> Counter:
        return Counter(f"holdfast_{name}", description, labels, registry=self.registry)

    def observe(self, session: str, logged: Logged) -> None:
        """Update the metrics for a new record."""
        match logged.record:
            case TurnStarted(turn=turn):
                self._turns.inc()
                if len(self._started) < _TIMED_MAX:
                    self._started[session, turn] = monotonic()
            case TurnEnded(turn=turn, outcome=outcome, code=code):
                self._outcomes.labels(outcome.value, code).inc()
                self._end_turn(session, turn, outcome)
            case AttemptStarted(model=model) if len(self._calling) < _TIMED_MAX:
                self._calling[session] = model
            case ReplyRecorded(reply=reply, cost_usd=usd) if reply.usage is not None:
                model = self._calling.pop(session, reply.model)
                self._count_own(session, reply.usage, usd, logged.record.own_request)
                self._calls.labels(self._models.label(model), "answered").inc()
                self._count_usage(session, model, reply.usage, usd, "answers")
            case AttemptFailed(fault=fault, usage=usage, cost_usd=usd):
                self._count_fault(session, fault.kind.value, usage, usd)
            case (
                PieceSummarised(model=model, usage=usage, cost_usd=usd)
                | SummaryRefused(model=model, usage=usage, cost_usd=usd)
            ):
                self._count_usage(session, model, usage, usd, "summaries")
                self._count_own(session, usage or Usage(), usd, OwnRequest(usd=0.0))
            case RungFinished(rung=rung, result=result):
                self._rungs.labels(rung.value, result.value).inc()
                if is_proxy_session(session):
                    self._proxy_rungs.labels(rung.value, result.value).inc()
            case CompactionApplied(kind=kind, tokens_before=before, tokens_after=after):
                self._compactions.labels(kind.value).inc()
                self._saved.labels(kind.value).inc(max(before - after, 0))
            case _:
                pass

    def _end_turn(self, session: str, turn: int, outcome: Outcome) -> None:
        started = self._started.pop((session, turn), None)
        if started is not None:
            self._turn_seconds.observe(monotonic() - started)
        self._calling.pop(session, None)
        cause = self._causes.pop(session, None)
        if cause is not None and outcome is Outcome.ANSWERED:
            self._rescues.labels(cause).inc()

    def _count_fault(self, session: str, kind: str, usage: Usage | None, usd: float | None) -> None:
        model = self._calling.pop(session, OTHER)
        self._faults.labels(kind).inc()
        self._calls.labels(self._models.label(model), kind).inc()
        if len(self._causes) < _TIMED_MAX:
            self._causes.setdefault(session, kind)
        self._count_usage(session, model, usage, usd, "answers")

    def dropin_answered(self, dialect: str, *, rescued: str) -> None:
        """Count a proxied request; `rescued` names the recovery step, "" if it was forwarded unchanged."""
        self._proxied.labels(dialect, "rescued" if rescued else "passed").inc()

    def upstream_failed(self, kind: FaultKind) -> None:
        """Count an upstream failure."""
        self._upstream_faults.labels(kind.value).inc()

    def compaction_called(self, dialect: str) -> None:
        """Count a compaction request of a client."""
        self._client_compactions.labels(dialect).inc()

    def _count_usage(self, session: str, model: str, usage: Usage | None, usd: float | None, purpose: str) -> None:
        if usage is None:
            return
        label, key = self._models.label(model), self._keys.label(tenant_of(session))
        for direction, amount in _directions(usage):
            self._tokens.labels(direction, label).inc(amount)
            self._key_tokens.labels(key, direction).inc(amount)
        if usage.cached_input_tokens:
            self._cached.labels(label).inc()
        if usd is None:
            self._unpriced.labels(purpose).inc()
        else:
            self._cost.labels(purpose).inc(usd)

    def _count_own(self, session: str, usage: Usage, usd: float | None, own: OwnRequest | None) -> None:
        """Count a call for a proxied client, and the client's own request in its place."""
        if not is_proxy_session(session):
            return
        sent = OwnRequest(usage.input_tokens, usage.cached_input_tokens, usage.output_tokens, usd)
        own = own or sent
        for request, each in (("sent", sent), ("own", own)):
            self._proxy_tokens.labels(request, "input").inc(each.input_tokens)
            self._proxy_tokens.labels(request, "cached_input").inc(each.cached_input_tokens)
            self._proxy_tokens.labels(request, "output").inc(each.output_tokens)
            if usd is not None and each.usd is not None:
                self._proxy_cost.labels(request).inc(each.usd)
        if own.is_refused and not own.is_added:
            self._proxy_refused.inc()

    def observe_request(self, route: str, method: str, status: int, seconds: float, key: str | None = None) -> None:
        """Count a request and its duration; `key` is the name of its key, None if it is not known."""
        if key is not None:
            self._key_requests.labels(self._keys.label(key), _outcome(status)).inc()
        self._requests.labels(route, method, str(status)).inc()
        self._request_seconds.labels(route).observe(seconds)

    def render(self, *, owing: int, streams: int, oldest_seconds: float | None = None) -> bytes:
        """Return all metrics in the Prometheus text format."""
        self._pending.set(owing)
        self._oldest.set(oldest_seconds or 0)
        self._streams.set(streams)
        return generate_latest(self.registry)


def _directions(usage: Usage) -> Iterator[tuple[str, int]]:
    yield "input", usage.input_tokens
    yield "cached_input", usage.cached_input_tokens
    yield "output", usage.output_tokens


def _outcome(status: int) -> str:
    """Return the outcome of a request in one of five words."""
    if status == 0:
        return "gone"
    if status == _LIMITED:
        return "limited"
    if status >= _SERVER_ERROR:
        return "failed"
    return "rejected" if status >= _CLIENT_ERROR else "answered"
