"""What operators see: counters, traces and logs, without sessions as labels, without keys and without text."""

import io
import json
import logging
import re

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from holdfast.gateway.http.server import JsonLines, log_as_json
from holdfast.gateway.http.traces import Traces
from holdfast.testing.engines import ScriptedModel, refuses
from holdfast.types.faults import Confidence, Fault, FaultKind, Phase, Refusal, Rung
from holdfast.types.messages import Reply, StopReason, Text, Usage
from holdfast.types.records import (
    Abandonment,
    AnyRecord,
    AttemptAbandoned,
    AttemptFailed,
    AttemptStarted,
    CompactionApplied,
    Logged,
    NoticePosted,
    Outcome,
    ReplyRecorded,
    RungFinished,
    RungResult,
    RungStarted,
    TurnEnded,
    TurnStarted,
)
from tests.gateway.gateways import Running, SilentModel, a_gateway

SECRET = "the harbour is Kiel"
REPLY = Reply((Text(SECRET),), StopReason.END, Usage(11, 7), "m")


async def test_counters_tell_requests_turns_faults_and_tokens_and_no_session() -> None:
    async with a_gateway(ScriptedModel([refuses(401, "no"), REPLY])) as running:
        await running.client.send("telegram:42", "hello")
        await running.client.send("telegram:42", "hello")
        await running.client.get("/api/sessions/nobody")
        shown = (await running.client.get("/metrics")).body.decode()

    lines = dict(line.rsplit(" ", 1) for line in shown.splitlines() if not line.startswith("#"))
    messages = 'route="/api/sessions/{key}/messages"'
    assert lines[f'holdfast_requests_total{{method="POST",{messages},status="200"}}'] == "1.0"
    assert lines[f'holdfast_requests_total{{method="POST",{messages},status="502"}}'] == "1.0"
    assert lines['holdfast_requests_total{method="GET",route="/api/sessions/{key}",status="404"}'] == "1.0"
    assert lines["holdfast_turns_total"] == "2.0"
    assert lines['holdfast_turn_outcomes_total{code="",outcome="answered"}'] == "1.0"
    assert lines['holdfast_turn_outcomes_total{code="auth",outcome="failed"}'] == "1.0"
    assert lines['holdfast_faults_total{kind="auth"}'] == "1.0"
    assert lines['holdfast_tokens_total{direction="input"}'] == "11.0"
    assert lines['holdfast_calls_unpriced_total{purpose="answers"}'] == "1.0"
    assert lines["holdfast_sessions_owing"] == "0.0"
    assert "telegram" not in shown
    assert "nobody" not in shown


async def test_the_age_of_the_oldest_unanswered_message_is_a_metric_until_it_has_an_outcome() -> None:
    async def oldest(running: Running) -> float:
        shown = (await running.client.get("/metrics")).body.decode()
        return float(re.findall(r"^holdfast_oldest_unanswered_seconds (.*)$", shown, re.MULTILINE)[0])

    async with a_gateway(silent := SilentModel()) as running:
        before = await oldest(running)
        await running.client.send("telegram:42", "hello", mode="post")
        await silent.called.wait()
        first, second = await oldest(running), await oldest(running)
        await running.client.post("/api/sessions/telegram:42/cancel", {})
        while await oldest(running):
            pass
    assert (before, 0 < first < second) == (0.0, True)


def told(*records: AnyRecord) -> InMemorySpanExporter:
    kept = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    traces = Traces(provider.get_tracer("test"))
    for seq, record in enumerate(records, start=1):
        traces.observe("telegram:42", Logged(seq, float(seq), record))
    return kept


def test_a_turn_is_a_span_with_a_span_per_call_by_the_names_of_the_conventions() -> None:
    fault = Fault(FaultKind.TOKEN_OVERFLOW, Confidence.CERTAIN)
    spans = told(
        TurnStarted(1),
        AttemptStarted(1, 1, "sim", 100),
        AttemptFailed(1, 1, Refusal("openai-chat", Phase.RESPONSE), fault),
        RungStarted(1, Rung.DIGEST, FaultKind.TOKEN_OVERFLOW),
        CompactionApplied(1, 1, SECRET, 100, 10),
        RungFinished(1, Rung.DIGEST, RungResult.CHANGED),
        AttemptStarted(1, 2, "sim", 10),
        ReplyRecorded(1, 2, REPLY),
        NoticePosted(1, "x", SECRET),
        TurnEnded(1, Outcome.ANSWERED),
    ).get_finished_spans()

    assert [span.name for span in spans] == ["chat sim", "chat sim", "holdfast.turn"]
    refused, answered, turn = spans
    assert refused.attributes is not None
    assert refused.attributes["error.type"] == "token_overflow"
    assert dict(answered.attributes or {}) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.conversation.id": "telegram:42",
        "gen_ai.request.model": "sim",
        "gen_ai.response.finish_reasons": ("end",),
        "gen_ai.usage.input_tokens": 11,
        "gen_ai.usage.output_tokens": 7,
        "holdfast.attempt": 2,
        "holdfast.tokens_estimated": 10,
    }
    assert [event.name for event in turn.events] == ["holdfast.rung", "holdfast.compaction"]
    assert turn.attributes == {
        "gen_ai.conversation.id": "telegram:42",
        "holdfast.turn": 1,
        "holdfast.outcome": "answered",
    }
    assert answered.parent is not None
    assert turn.context is not None
    assert answered.parent.span_id == turn.context.span_id
    assert SECRET not in "".join(span.to_json() for span in spans)


def test_a_turn_that_failed_and_a_call_that_was_given_up_are_errors() -> None:
    spans = told(
        # Of a turn that began elsewhere nothing is told.
        AttemptStarted(0, 1, "sim"),
        ReplyRecorded(0, 1, REPLY),
        CompactionApplied(0, 1, "s", 2, 1),
        TurnEnded(0, Outcome.ANSWERED),
        TurnStarted(5),
        AttemptStarted(5, 1, "sim"),
        AttemptAbandoned(5, 1, Abandonment.INTERRUPTED),
        TurnEnded(5, Outcome.FAILED, "auth"),
    ).get_finished_spans()

    assert [(span.name, span.status.status_code, (span.attributes or {})["error.type"]) for span in spans] == [
        ("chat sim", StatusCode.ERROR, "interrupted"),
        ("holdfast.turn", StatusCode.ERROR, "auth"),
    ]


def test_a_log_line_is_json_with_its_fields_and_without_the_words_of_an_exception() -> None:
    with pytest.raises(ValueError, match=SECRET) as caught:
        int(SECRET)
    raised = (caught.type, caught.value, caught.tb)
    record = logging.LogRecord("holdfast.x", logging.ERROR, __file__, 1, "request failed", (), raised)
    record.code, record.long, record.odd = "internal", "x" * 5_000, {"a": 1}

    line = json.loads(JsonLines().format(record))

    assert (line["event"], line["level"], line["code"], line["error"]) == (
        "request failed",
        "error",
        "internal",
        "ValueError",
    )
    assert len(line["long"]) == 1_000
    assert line["came_through"][0].endswith(
        "test_a_log_line_is_json_with_its_fields_and_without_the_words_of_an_exception"
    )
    assert SECRET not in json.dumps(line)


async def test_what_is_logged_of_a_request_names_no_session_no_key_and_no_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    screen = io.StringIO()
    loggers = [logging.getLogger(name) for name in ("holdfast", "uvicorn.error")]
    for log in loggers:
        monkeypatch.setattr(log, "handlers", [])
        monkeypatch.setattr(log, "propagate", log.propagate)
        monkeypatch.setattr(log, "level", log.level)
    handler = log_as_json("info")
    monkeypatch.setattr(handler, "stream", screen)
    async with a_gateway() as running:
        await running.client.get("/api/sessions/telegram:42", headers={"authorization": "Bearer hf_secret"})
        await running.client.send("telegram:42", SECRET)
    for log in loggers:
        log.handlers = []

    lines = [json.loads(line) for line in screen.getvalue().splitlines()]
    assert [(one["route"], one["status"]) for one in lines if one["event"] == "request"] == [
        ("/api/sessions/{key}", 404),
        ("/api/sessions/{key}/messages", 200),
    ]
    assert "hf_secret" not in screen.getvalue()
    assert SECRET not in screen.getvalue()
