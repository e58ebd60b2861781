"""What operators see: counters, traces and logs, without sessions as labels, without keys and without text."""

import io
import json
import logging
import re
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from holdfast.gateway.http.metrics import Metrics
from holdfast.gateway.http.server import JsonLines, log_as_json
from holdfast.gateway.http.traces import RequestSpans, Traces
from holdfast.testing.engines import ScriptedModel, refuses
from holdfast.types.faults import Confidence, Fault, FaultKind, Phase, Refusal, Rung
from holdfast.types.messages import Reply, StopReason, Text, ToolOutcome, ToolResult, Usage
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
    ToolSettled,
    ToolStarted,
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
    assert lines['holdfast_tokens_total{direction="input",model="test:model"}'] == "11.0"
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
        "gen_ai.provider.name": "holdfast",
        "gen_ai.request.model": "sim",
        "gen_ai.response.model": "m",
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


# --- Bounded labels ---


def rendered(metrics: Metrics) -> dict[str, float]:
    shown = metrics.render(owing=0, streams=0).decode()
    return {
        name: float(value) for name, value in (line.rsplit(" ", 1) for line in shown.splitlines() if line[0] != "#")
    }


def test_names_of_models_and_keys_count_apart_up_to_a_number() -> None:
    metrics = Metrics()
    for number in range(300):
        session = f"@key-{number}/s"
        metrics.observe(session, Logged(1, 0.0, AttemptStarted(1, 1, f"model-{number}")))
        metrics.observe(session, Logged(2, 0.0, ReplyRecorded(1, 1, REPLY)))
        metrics.observe_request("/v1/other", "POST", 429, 0.1, f"key-{number}")
    found = rendered(metrics)

    labels = {
        name: {series for series in found if series.startswith(name)}
        for name in ("holdfast_model_calls_total", "holdfast_key_requests_total")
    }
    assert {name: len(series) for name, series in labels.items()} == {
        "holdfast_model_calls_total": 51,
        "holdfast_key_requests_total": 101,
    }
    assert found['holdfast_model_calls_total{model="other",outcome="answered"}'] == 250
    assert found['holdfast_key_requests_total{key="other",outcome="limited"}'] == 200


def test_rescues_saved_tokens_and_cache_hits_are_counted_by_their_cause() -> None:
    metrics = Metrics()
    fault = Fault(FaultKind.TOKEN_OVERFLOW, Confidence.CERTAIN)
    cached = Reply((), StopReason.END, Usage(100, 7, cached_input_tokens=90), "m")
    records: list[AnyRecord] = [
        TurnStarted(1),
        AttemptStarted(1, 1, "openai:gpt-5", 100),
        AttemptFailed(1, 1, Refusal("openai-chat", Phase.RESPONSE), fault),
        CompactionApplied(1, 1, SECRET, 100, 10),
        AttemptStarted(1, 2, "openai:gpt-5", 10),
        ReplyRecorded(1, 2, cached),
        TurnEnded(1, Outcome.ANSWERED),
        # A turn that fails is no rescue.
        TurnStarted(9),
        AttemptStarted(9, 1, "openai:gpt-5", 100),
        AttemptFailed(9, 1, Refusal("openai-chat", Phase.RESPONSE), fault),
        TurnEnded(9, Outcome.FAILED, "token_overflow"),
    ]
    for seq, record in enumerate(records, start=1):
        metrics.observe("@alice/telegram:42", Logged(seq, float(seq), record))
    found = rendered(metrics)

    assert found['holdfast_rescues_total{cause="token_overflow"}'] == 1
    assert found['holdfast_tokens_saved_total{kind="digest"}'] == 90
    assert found['holdfast_cache_hits_total{model="openai:gpt-5"}'] == 1
    assert found['holdfast_model_calls_total{model="openai:gpt-5",outcome="token_overflow"}'] == 2
    assert found['holdfast_key_tokens_total{direction="cached_input",key="alice"}'] == 90
    assert found["process_resident_memory_bytes"] > 0


# --- Ids of requests and traces ---

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"


async def test_every_log_line_of_a_request_has_its_id_and_an_iso_time() -> None:
    handler = logging.StreamHandler(shown := io.StringIO())
    handler.setFormatter(JsonLines())
    log = logging.getLogger("holdfast")
    log.addHandler(handler)
    try:
        async with a_gateway(ScriptedModel([REPLY])) as running:
            headers = {"x-request-id": "client-7", "traceparent": PARENT}
            sent = await running.client.post("/api/sessions/s/messages", {"text": "hello"}, headers=headers)
            made = await running.client.get("/api/sessions", headers={"x-request-id": "no\ttabs"})
    finally:
        log.removeHandler(handler)
    lines = [json.loads(line) for line in shown.getvalue().splitlines()]

    assert sent.headers["x-request-id"] == sent.headers["x-holdfast-request-id"] == "client-7"
    assert re.fullmatch(r"req-[0-9a-f]{16}", made.headers["x-request-id"])
    mine = [line for line in lines if line.get("request_id") == "client-7"]
    assert {"turn ended", "request"} <= {line["event"] for line in mine}
    assert {line["trace_id"] for line in mine} == {TRACE}
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", line["at"]) for line in lines)
    assert [line for line in lines if "request_id" not in line] == []


def test_a_request_is_a_span_of_the_clients_trace_and_its_parent_is_passed_on() -> None:
    kept = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    tracer = provider.get_tracer("test")
    traces = Traces(tracer)
    scope: dict[str, Any] = {"method": "POST", "headers": [(b"traceparent", PARENT.encode())]}
    with RequestSpans(tracer).serving(scope) as ended:
        traces.observe("s", Logged(1, 1.0, TurnStarted(1)))
        traces.observe("s", Logged(2, 2.0, ToolStarted(1, "c1", "depth")))
        traces.observe("s", Logged(3, 3.0, ToolSettled(1, ToolResult("c1", (), ToolOutcome.FAILED))))
        traces.observe("s", Logged(4, 4.0, TurnEnded(1, Outcome.ANSWERED)))
        ended("/v1/chat/completions", 503)
    tool, turn, request = kept.get_finished_spans()

    assert (tool.name, tool.status.status_code) == ("execute_tool depth", StatusCode.ERROR)
    assert (request.name, request.status.status_code) == ("POST /v1/chat/completions", StatusCode.ERROR)
    assert {format(span.context.trace_id, "032x") for span in (tool, turn, request) if span.context} == {TRACE}
    assert request.context is not None
    assert turn.parent is not None
    assert turn.parent.span_id == request.context.span_id
    ((name, passed),) = scope["headers"]
    assert (name, passed.decode().split("-")[1:3]) == (b"traceparent", [TRACE, format(request.context.span_id, "016x")])
