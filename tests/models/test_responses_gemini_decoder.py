"""Response decoders of the responses and Gemini dialects, for official and compatible servers."""

import json

import pytest

from holdfast.models.dialects import DIALECTS
from holdfast.models.sse import encode_event
from holdfast.ports import Delta, ReasoningDelta, TextDelta, ToolCallDelta
from holdfast.types.faults import Phase, Refusal
from holdfast.types.messages import Reasoning, Reply, StopReason, Text, ToolCall, Usage

RESPONSES, GEMINI = "openai-responses", "gemini"
ISSUER = "dialect:host:m"
DONE = {"type": "response.completed", "response": {"object": "response", "status": "completed", "model": "m"}}


def decoded(dialect: str, *events: object) -> tuple[list[Delta], Reply | Refusal]:
    decoder = DIALECTS[dialect].StreamDecoder(ISSUER, "n")
    deltas = [delta for event in events for delta in decoder.feed(encode_event(json.dumps(event).encode()))]
    return deltas, decoder.finish()


def whole(dialect: str, body: object) -> Reply | Refusal:
    decoder = DIALECTS[dialect].StreamDecoder(ISSUER, "n")
    decoder.feed(json.dumps(body).encode())
    return decoder.finish()


# --- responses ---------------------------------------------------------------------------------------------------


def test_the_item_that_is_done_counts_and_not_the_one_that_was_begun() -> None:
    begun = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "half"}
    summary = [{"type": "summary_text", "text": "one"}, {"type": "summary_text", "text": "two"}]
    done = {"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": "whole"}
    deltas, reply = decoded(
        RESPONSES,
        {"type": "response.output_item.added", "output_index": 0, "item": begun},
        {"type": "response.reasoning_summary_part.added", "output_index": 0, "summary_index": 0},
        {"type": "response.reasoning_summary_text.delta", "output_index": 0, "delta": "one"},
        {"type": "response.reasoning_summary_part.added", "output_index": 0, "summary_index": 1},
        {"type": "response.reasoning_summary_text.delta", "output_index": 0, "delta": "two"},
        {"type": "response.output_item.done", "output_index": 0, "item": done},
        {"type": "response.output_text.annotation.added", "output_index": 1},
        {"type": "response.audio.delta", "output_index": 1, "delta": "AAAA"},
        {"type": "response.output_text.delta", "output_index": 1, "delta": "hi"},
        DONE,
    )
    opaque = json.dumps(done)
    assert isinstance(reply, Reply)
    assert reply.parts == (Reasoning("one\n\ntwo", ISSUER, opaque), Text("hi"))
    assert deltas == [
        ReasoningDelta("one", part_id="rs_1"),
        ReasoningDelta("\n\n", part_id="rs_1"),
        ReasoningDelta("two", part_id="rs_1"),
        ReasoningDelta("", opaque, "rs_1"),
        TextDelta("hi"),
    ]


def test_calls_without_ids_or_with_one_twice_are_told_apart() -> None:
    def called(at: int, call_id: str) -> dict[str, object]:
        call = {"type": "function_call", "call_id": call_id, "name": "f", "arguments": "{}"}
        return {"type": "response.output_item.done", "output_index": at, "item": call}

    _, reply = decoded(RESPONSES, called(0, "a"), called(1, "a"), called(2, ""), DONE)
    assert reply == Reply(
        (ToolCall("a", "f", "{}"), ToolCall("call_n_1", "f", "{}"), ToolCall("call_n_2", "f", "{}")),
        StopReason.TOOL_CALLS,
        None,
        "m",
    )
    begun = {"type": "function_call", "call_id": "b", "name": "f"}
    piece = {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": "{}"}
    added = {"type": "response.output_item.added", "output_index": 0, "item": begun}
    deltas, reply = decoded(RESPONSES, added, piece, DONE)
    assert deltas == [ToolCallDelta(0, "f", "{}", "b")]
    assert isinstance(reply, Reply)
    assert reply.parts == (ToolCall("b", "f", "{}"),)


def test_what_runs_at_the_provider_is_passed_over_and_open_thinking_is_for_people() -> None:
    output = [
        {"type": "web_search_call", "id": "ws_1"},
        {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
        {"type": "message", "content": [{"type": "refusal", "refusal": "no"}, {"type": "output_text", "text": "hi"}]},
    ]
    usage = {
        "input_tokens": 9,
        "output_tokens": 5,
        "input_tokens_details": {"cached_tokens": 4},
        "output_tokens_details": {"reasoning_tokens": 2},
    }
    body = {"object": "response", "status": "completed", "model": "m", "output": output, "usage": usage}
    assert whole(RESPONSES, body) == Reply(
        (Reasoning("hm", ISSUER), Text("no"), Text("hi")), StopReason.END, Usage(9, 5, 4, 2), "m"
    )


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("max_output_tokens", StopReason.LENGTH),
        ("content_filter", StopReason.CONTENT_FILTER),
        ("steered", StopReason.OTHER),
    ],
)
def test_why_a_response_is_incomplete_is_told(reason: str, stop: StopReason) -> None:
    response = {"object": "response", "status": "incomplete", "incomplete_details": {"reason": reason}}
    _, reply = decoded(RESPONSES, {"type": "response.incomplete", "response": response})
    assert reply == Reply((), stop, None, "")


@pytest.mark.parametrize(
    "event",
    [
        {"type": "error", "code": "server_error", "message": "oh", "param": None, "sequence_number": 3},
        {"type": "response.failed", "response": {"object": "response", "error": {"code": "server_error"}}},
        {"type": "response.completed", "response": {"object": "response", "status": "cancelled"}},
        {"error": {"message": "oh", "code": "server_error"}},
    ],
)
def test_a_failure_inside_the_stream_is_a_refusal_with_what_was_sent(event: dict[str, object]) -> None:
    _, refusal = decoded(RESPONSES, {"type": "response.output_text.delta", "delta": "hi"}, event)
    assert isinstance(refusal, Refusal)
    assert (refusal.phase, json.loads(refusal.body)) == (Phase.STREAM, event)


@pytest.mark.parametrize(
    "body",
    [
        {"object": "list"},
        {"object": "response", "error": {"code": "server_error", "message": "oh"}},
        {"object": "response", "status": "failed"},
    ],
)
def test_a_body_that_is_no_answer_is_a_refusal(body: dict[str, object]) -> None:
    refusal = whole(RESPONSES, body)
    assert isinstance(refusal, Refusal)
    assert json.loads(refusal.body) == body


def test_the_end_that_some_servers_add_is_borne() -> None:
    decoder = DIALECTS[RESPONSES].StreamDecoder(ISSUER)
    decoder.feed(b"data: [DONE]\n\n")
    assert isinstance(decoder.finish(), Refusal)


# --- Gemini ------------------------------------------------------------------------------------------------------


def candidate(*parts: object, reason: str | None = None) -> dict[str, object]:
    return {"candidates": [{"content": {"parts": parts, "role": "model"}, "finishReason": reason}], "modelVersion": "g"}


def test_a_signature_keeps_its_part_and_calls_without_ids_get_one() -> None:
    usage = {"promptTokenCount": 9, "candidatesTokenCount": 3, "thoughtsTokenCount": 2, "cachedContentTokenCount": 4}
    _, reply = decoded(
        GEMINI,
        candidate({"text": "hm", "thought": True}),
        candidate({"text": ", hm", "thought": True}),
        candidate({"text": "so "}),
        candidate({"text": "it is"}),
        candidate({"functionCall": {"name": "f", "args": {"a": 1}}, "thoughtSignature": "s1"}),
        candidate({"functionCall": {"name": "f", "args": None}}),
        {**candidate({"text": "", "thoughtSignature": "s2"}, reason="STOP"), "usageMetadata": usage},
    )
    assert reply == Reply(
        (
            Reasoning("hm, hm", ISSUER),
            Text("so it is"),
            Reasoning("", ISSUER, "s1"),
            ToolCall("call_n_0", "f", '{"a": 1}'),
            ToolCall("call_n_1", "f", "{}"),
            Reasoning("", ISSUER, "s2"),
        ),
        StopReason.TOOL_CALLS,
        Usage(9, 5, 4, 2),
        "g",
    )


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("MAX_TOKENS", StopReason.LENGTH),
        ("SAFETY", StopReason.CONTENT_FILTER),
        ("RECITATION", StopReason.CONTENT_FILTER),
        ("MALFORMED_FUNCTION_CALL", StopReason.OTHER),
        ("STOP", StopReason.END),
    ],
)
def test_why_gemini_stopped_is_told(reason: str, stop: StopReason) -> None:
    assert decoded(GEMINI, candidate(reason=reason))[1] == Reply((), stop, None, "g")


def test_a_stream_as_one_list_and_a_prompt_that_is_blocked_are_understood() -> None:
    assert whole(GEMINI, [candidate({"text": "a"}), candidate({"text": "b"}, reason="STOP")]) == Reply(
        (Text("ab"),), StopReason.END, None, "g"
    )
    assert whole(GEMINI, {"promptFeedback": {"blockReason": "SAFETY"}}) == Reply(
        (), StopReason.CONTENT_FILTER, None, ""
    )


@pytest.mark.parametrize("is_list", [False, True])
def test_an_error_of_gemini_is_kept_alone_or_in_a_list(*, is_list: bool) -> None:
    error = {"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}
    sent: object = [error] if is_list else error
    for refusal in (whole(GEMINI, sent), decoded(GEMINI, candidate({"text": "a"}), sent)[1]):
        assert isinstance(refusal, Refusal)
        assert json.loads(refusal.body) == sent


def test_a_stream_of_gemini_without_a_reason_is_not_an_answer() -> None:
    assert isinstance(decoded(GEMINI, candidate({"text": "a"}))[1], Refusal)


def test_gemini_writes_signatures_that_stand_alone() -> None:
    reply = Reply(
        (Reasoning("", ISSUER, "s1"), Reasoning("", ISSUER, "s2"), Text("a"), Reasoning("", ISSUER, "s3")),
        StopReason.OTHER,
        None,
        "g",
    )
    for body in (DIALECTS[GEMINI].encode_reply(reply, "id"), b"".join(DIALECTS[GEMINI].encode_stream(reply, "id"))):
        decoder = DIALECTS[GEMINI].StreamDecoder(ISSUER)
        decoder.feed(body)
        assert decoder.finish() == reply
