"""OpenTelemetry spans of turns and model calls, named by the GenAI conventions; own names begin with `holdfast.`.

Spans are made from the records that this process writes. Only the API is used: the operator configures the exporter,
for instance with `opentelemetry-instrument`. Spans contain no message text.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, get_tracer, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from holdfast.gateway.http.asgi import Scope
from holdfast.types.messages import Reply, ToolOutcome, Usage
from holdfast.types.records import (
    AttemptAbandoned,
    AttemptFailed,
    AttemptStarted,
    CompactionApplied,
    Logged,
    Outcome,
    ReplyRecorded,
    RungStarted,
    ToolSettled,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)

# Open spans; a turn that continues in another process leaves its span open here.
_OPEN_MAX = 20_000
_SERVER_ERROR = 500
# Names of providers in the conventions, by the beginning of a model's reference.
_PROVIDERS = {"openai": "openai", "responses": "openai", "anthropic": "anthropic", "gemini": "gcp.gemini"}
_TRACE_HEADERS = ("traceparent", "tracestate")


class RequestSpans:
    """Spans of requests. A client's `traceparent` is the parent, and an upstream gets that of the span."""

    def __init__(self, tracer: Tracer | None = None) -> None:
        self._tracer = tracer or get_tracer("holdfast")
        self._propagator = TraceContextTextMapPropagator()

    @contextmanager
    def serving(self, scope: Scope) -> Iterator[Callable[[str, int], None]]:
        """Open the span of a request; the function that is returned takes its route and status."""
        given = [(name.decode("latin-1"), text.decode("latin-1")) for name, text in scope["headers"]]
        carried = {name: text for name, text in given if name in _TRACE_HEADERS}
        method = scope["method"]
        with self._tracer.start_as_current_span(
            method, context=self._propagator.extract(carried), kind=SpanKind.SERVER
        ) as span:
            sent: dict[str, str] = {}
            self._propagator.inject(sent)
            # A proxied request is forwarded with its headers.
            kept = [(name, text) for name, text in scope["headers"] if name.decode("latin-1") not in _TRACE_HEADERS]
            scope["headers"] = [*kept, *((name.encode(), text.encode()) for name, text in sent.items())]

            def ended(route: str, status: int) -> None:
                span.update_name(f"{method} {route}")
                span.set_attributes(
                    {"http.request.method": method, "http.route": route, "http.response.status_code": status}
                )
                if status >= _SERVER_ERROR or status == 0:
                    span.set_status(Status(StatusCode.ERROR))

            yield ended


class Traces:
    """Open spans by session: one for its turn, and one for the current model call."""

    def __init__(self, tracer: Tracer | None = None) -> None:
        self._tracer = tracer or get_tracer("holdfast")
        self._turns: dict[str, Span] = {}
        self._calls: dict[str, Span] = {}
        self._tools: dict[tuple[str, str], Span] = {}

    def observe(self, session: str, logged: Logged) -> None:
        """Start, annotate or end the span of a record."""
        record, at = logged.record, round(logged.at * 1e9)
        match record:
            case TurnStarted(turn=number) if len(self._turns) < _OPEN_MAX:
                span = self._tracer.start_span("holdfast.turn", start_time=at, kind=SpanKind.INTERNAL)
                span.set_attributes({"gen_ai.conversation.id": session, "holdfast.turn": number})
                self._turns[session] = span
            case AttemptStarted():
                self._begin_call(session, record, at)
            case ReplyRecorded(reply=reply):
                self._answer_call(session, reply, at)
            case ToolStarted() | ToolSettled():
                self._observe_tool(session, record, at)
            case AttemptFailed(fault=fault):
                self._end_call(session, fault.kind.value, at)
            case AttemptAbandoned(reason=reason):
                self._end_call(session, reason.value, at)
            case RungStarted(rung=rung):
                self._mark(session, "holdfast.rung", {"holdfast.rung": rung.value}, at)
            case CompactionApplied(kind=kind, tokens_before=before, tokens_after=after):
                attributes = {
                    "gen_ai.conversation.compacted": True,
                    "holdfast.compaction.kind": kind.value,
                    "holdfast.compaction.tokens_before": before,
                    "holdfast.compaction.tokens_after": after,
                }
                self._mark(session, "holdfast.compaction", attributes, at)
            case TurnEnded(outcome=outcome, code=code):
                self._end_turn(session, outcome, code, at)
            case _:
                pass

    def _begin_call(self, session: str, record: AttemptStarted, at: int) -> None:
        turn = self._turns.get(session)
        if turn is None:
            return
        span = self._tracer.start_span(
            f"chat {record.model}", context=set_span_in_context(turn), start_time=at, kind=SpanKind.CLIENT
        )
        span.set_attributes(
            {
                "gen_ai.operation.name": "chat",
                "gen_ai.provider.name": _PROVIDERS.get(record.model.partition(":")[0], "holdfast"),
                "gen_ai.conversation.id": session,
                "gen_ai.request.model": record.model,
                "holdfast.attempt": record.attempt,
                "holdfast.tokens_estimated": record.tokens_estimated,
            }
        )
        self._calls[session] = span

    def _answer_call(self, session: str, reply: Reply, at: int) -> None:
        if (call := self._calls.pop(session, None)) is not None:
            call.set_attribute("gen_ai.response.finish_reasons", [reply.stop_reason.value])
            if reply.model:
                call.set_attribute("gen_ai.response.model", reply.model)
            if reply.usage is not None:
                call.set_attributes(_usage_attributes(reply.usage))
            call.end(at)

    def _observe_tool(self, session: str, record: ToolStarted | ToolSettled, at: int) -> None:
        turn = self._turns.get(session)
        if isinstance(record, ToolSettled):
            if (span := self._tools.pop((session, record.result.call_id), None)) is not None:
                if record.result.outcome is not ToolOutcome.DONE:
                    span.set_status(Status(StatusCode.ERROR))
                span.end(at)
        elif turn is not None and len(self._tools) < _OPEN_MAX:
            attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": record.name}
            self._tools[session, record.call_id] = self._tracer.start_span(
                f"execute_tool {record.name}",
                context=set_span_in_context(turn),
                start_time=at,
                kind=SpanKind.INTERNAL,
                attributes={**attributes, "gen_ai.tool.call.id": record.call_id},
            )

    def _end_call(self, session: str, why: str, at: int) -> None:
        if (call := self._calls.pop(session, None)) is not None:
            call.set_attribute("error.type", why)
            call.set_status(Status(StatusCode.ERROR, why))
            call.end(at)

    def _mark(self, session: str, name: str, attributes: dict[str, str | int | bool], at: int) -> None:
        if (turn := self._turns.get(session)) is not None:
            turn.add_event(name, attributes, timestamp=at)

    def _end_turn(self, session: str, outcome: Outcome, code: str, at: int) -> None:
        if (turn := self._turns.pop(session, None)) is not None:
            turn.set_attribute("holdfast.outcome", outcome.value)
            if outcome is Outcome.FAILED:
                turn.set_attribute("error.type", code)
                turn.set_status(Status(StatusCode.ERROR, code))
            turn.end(at)


def _usage_attributes(usage: Usage) -> dict[str, int]:
    amounts = {
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cached_input_tokens,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_write_tokens,
    }
    always = ("gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens")
    return {name: amount for name, amount in amounts.items() if amount or name in always}
