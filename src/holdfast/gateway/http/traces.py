"""OpenTelemetry spans of turns and model calls, named by the GenAI conventions; own names begin with `holdfast.`.

Spans are made from the records that this process writes. Only the API is used: the operator configures the exporter,
for instance with `opentelemetry-instrument`. Spans contain no message text.
"""

from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, get_tracer, set_span_in_context

from holdfast.types.records import (
    AttemptAbandoned,
    AttemptFailed,
    AttemptStarted,
    CompactionApplied,
    Logged,
    Outcome,
    ReplyRecorded,
    RungStarted,
    TurnEnded,
    TurnStarted,
)

# Open spans; a turn that continues in another process leaves its span open here.
_OPEN_MAX = 20_000


class Traces:
    """Open spans by session: one for its turn, and one for the current model call."""

    def __init__(self, tracer: Tracer | None = None) -> None:
        self._tracer = tracer or get_tracer("holdfast")
        self._turns: dict[str, Span] = {}
        self._calls: dict[str, Span] = {}

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
                if (call := self._calls.pop(session, None)) is not None:
                    call.set_attribute("gen_ai.response.finish_reasons", [reply.stop_reason.value])
                    if reply.usage is not None:
                        call.set_attribute("gen_ai.usage.input_tokens", reply.usage.input_tokens)
                        call.set_attribute("gen_ai.usage.output_tokens", reply.usage.output_tokens)
                    call.end(at)
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
                "gen_ai.conversation.id": session,
                "gen_ai.request.model": record.model,
                "holdfast.attempt": record.attempt,
                "holdfast.tokens_estimated": record.tokens_estimated,
            }
        )
        self._calls[session] = span

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
