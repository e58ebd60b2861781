"""Prometheus metrics of the gateway. Sessions, keys and texts are never labels: their number is unbounded.

Engine metrics are computed from the records that this process writes, so the engine does not depend on them.
"""

from time import monotonic

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from holdfast.core.limits.bounds import is_proxy_session
from holdfast.types.faults import FaultKind
from holdfast.types.messages import Usage
from holdfast.types.records import (
    AttemptFailed,
    CompactionApplied,
    Logged,
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
# Concurrent turns that are timed. More are counted only.
_TIMED_MAX = 20_000


class Metrics:
    """All metrics in one registry, so that two gateways in one process stay separate."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._started: dict[tuple[str, int], float] = {}
        labels = ("route", "method", "status")
        self._requests = Counter("holdfast_requests", "Requests answered.", labels, registry=self.registry)
        self._request_seconds = Histogram(
            "holdfast_request_seconds", "Time to answer.", ("route",), buckets=_SECONDS, registry=self.registry
        )
        self._turns = Counter("holdfast_turns", "Turns started.", registry=self.registry)
        self._outcomes = Counter("holdfast_turn_outcomes", "Turns ended.", ("outcome", "code"), registry=self.registry)
        self._turn_seconds = Histogram(
            "holdfast_turn_seconds", "Time from the start of a turn.", buckets=_SECONDS, registry=self.registry
        )
        self._faults = Counter("holdfast_faults", "Attempts failed.", ("kind",), registry=self.registry)
        self._rungs = Counter("holdfast_rungs", "Rungs climbed.", ("rung", "result"), registry=self.registry)
        self._compactions = Counter("holdfast_compactions", "Compactions.", ("kind",), registry=self.registry)
        self._tokens = Counter("holdfast_tokens", "Tokens as reported.", ("direction",), registry=self.registry)
        self._proxied = Counter(
            "holdfast_dropin_requests",
            "Requests of proxied clients sent to an upstream.",
            ("dialect", "result"),
            registry=self.registry,
        )
        self._proxy_rungs = Counter(
            "holdfast_dropin_rungs",
            "Rungs climbed for requests of proxied clients.",
            ("rung", "result"),
            registry=self.registry,
        )
        self._upstream_faults = Counter(
            "holdfast_dropin_faults",
            "Failures of upstreams, including retried ones.",
            ("kind",),
            registry=self.registry,
        )
        self._client_compactions = Counter(
            "holdfast_dropin_compactions",
            "Compactions of clients that were recognised.",
            ("dialect",),
            registry=self.registry,
        )
        purpose = ("purpose",)
        self._cost = Counter("holdfast_cost_usd", "US dollars, by declared prices.", purpose, registry=self.registry)
        self._unpriced = Counter("holdfast_calls_unpriced", "Calls without a price.", purpose, registry=self.registry)
        self._pending = Gauge("holdfast_sessions_owing", "Sessions with pending work.", registry=self.registry)
        self._oldest = Gauge(
            "holdfast_oldest_unanswered_seconds",
            "Age of the oldest message without an outcome; 0: there is none.",
            registry=self.registry,
        )
        self._streams = Gauge("holdfast_event_streams", "Event streams open.", registry=self.registry)

    def observe(self, session: str, logged: Logged) -> None:
        """Update the metrics for a new record."""
        match logged.record:
            case TurnStarted(turn=turn):
                self._turns.inc()
                if len(self._started) < _TIMED_MAX:
                    self._started[session, turn] = monotonic()
            case TurnEnded(turn=turn, outcome=outcome, code=code):
                self._outcomes.labels(outcome.value, code).inc()
                started = self._started.pop((session, turn), None)
                if started is not None:
                    self._turn_seconds.observe(monotonic() - started)
            case ReplyRecorded(reply=reply, cost_usd=usd) if reply.usage is not None:
                self._count_usage(reply.usage, usd, "answers")
            case AttemptFailed(fault=fault, usage=usage, cost_usd=usd):
                self._faults.labels(fault.kind.value).inc()
                self._count_usage(usage, usd, "answers")
            case PieceSummarised(usage=usage, cost_usd=usd) | SummaryRefused(usage=usage, cost_usd=usd):
                self._count_usage(usage, usd, "summaries")
            case RungFinished(rung=rung, result=result):
                self._rungs.labels(rung.value, result.value).inc()
                if is_proxy_session(session):
                    self._proxy_rungs.labels(rung.value, result.value).inc()
            case CompactionApplied(kind=kind):
                self._compactions.labels(kind.value).inc()
            case _:
                pass

    def dropin_answered(self, dialect: str, *, rescued: str) -> None:
        """Count a proxied request; `rescued` names the recovery step, "" if it was forwarded unchanged."""
        self._proxied.labels(dialect, "rescued" if rescued else "passed").inc()

    def upstream_failed(self, kind: FaultKind) -> None:
        """Count an upstream failure."""
        self._upstream_faults.labels(kind.value).inc()

    def compaction_called(self, dialect: str) -> None:
        """Count a compaction request of a client."""
        self._client_compactions.labels(dialect).inc()

    def _count_usage(self, usage: Usage | None, usd: float | None, purpose: str) -> None:
        if usage is None:
            return
        self._tokens.labels("input").inc(usage.input_tokens)
        self._tokens.labels("output").inc(usage.output_tokens)
        if usd is None:
            self._unpriced.labels(purpose).inc()
        else:
            self._cost.labels(purpose).inc(usd)

    def observe_request(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count a request and its duration."""
        self._requests.labels(route, method, str(status)).inc()
        self._request_seconds.labels(route).observe(seconds)

    def render(self, *, owing: int, streams: int, oldest_seconds: float | None = None) -> bytes:
        """Return all metrics in the Prometheus text format."""
        self._pending.set(owing)
        self._oldest.set(oldest_seconds or 0)
        self._streams.set(streams)
        return generate_latest(self.registry)
