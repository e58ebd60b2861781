"""Errors of the simulated provider in the responses and Gemini dialects, and their classification."""

import json

import pytest

from holdfast.core.faults.classifier import classify
from holdfast.models.catalogue import simulated_model
from holdfast.models.fake import Simulation
from holdfast.types.faults import FaultKind
from holdfast.types.limits import Limits
from holdfast.types.messages import Message, Reply, Role, StopReason, Text, ToolCall, ToolResult
from tests.core.images import a_png
from tests.models.conversations import (
    ECHO,
    IMAGES,
    an_image,
    answered,
    asking,
    outcome,
    refusal_of,
    reply_of,
    returned,
    said,
    text_of_reply,
)

RESPONSES, GEMINI = "openai-responses", "gemini"


@pytest.mark.parametrize(
    ("dialect", "word", "kind"),
    [
        (RESPONSES, "401", FaultKind.AUTH),
        (RESPONSES, "429:retry-after=2", FaultKind.RATE_LIMIT),
        (RESPONSES, "quota", FaultKind.QUOTA),
        (RESPONSES, "overflow", FaultKind.TOKEN_OVERFLOW),
        (RESPONSES, "413", FaultKind.WIRE_OVERFLOW),
        (RESPONSES, "reasoning-400", FaultKind.BAD_REQUEST_REASONING),
        (RESPONSES, "error-event", FaultKind.TRANSIENT),
        (GEMINI, "401", FaultKind.AUTH),
        (GEMINI, "404", FaultKind.MODEL_NOT_FOUND),
        (GEMINI, "429:retry-after=2", FaultKind.RATE_LIMIT),
        (GEMINI, "quota", FaultKind.QUOTA),
        (GEMINI, "overflow", FaultKind.TOKEN_OVERFLOW),
        (GEMINI, "413", FaultKind.WIRE_OVERFLOW),
        (GEMINI, "503", FaultKind.OVERLOADED),
        (GEMINI, "reasoning-400", FaultKind.BAD_REQUEST_REASONING),
        (GEMINI, "bad-request", FaultKind.BAD_REQUEST),
        (GEMINI, "error-event", FaultKind.OVERLOADED),
    ],
)
async def test_a_scripted_refusal_is_classified_as_what_it_stands_for(dialect: str, word: str, kind: FaultKind) -> None:
    refusal = await refusal_of(simulated_model(Simulation(faults=word), dialect), asking(said("hi")))
    assert classify(refusal).kind is kind


async def test_gemini_says_in_the_body_when_to_come_back() -> None:
    refusal = await refusal_of(simulated_model(Simulation(faults="429:retry-after=7"), GEMINI), asking(said("hi")))
    details = json.loads(refusal.body)["error"]["details"]
    assert details[-1] == {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7s"}
    assert classify(refusal).retry_after_seconds == 7


async def test_a_prompt_that_gemini_blocks_is_an_answer_without_anything_in_it() -> None:
    _, reply = await outcome(simulated_model(Simulation(faults="content-filter"), GEMINI), asking(said("hi")))
    assert reply == Reply((), StopReason.CONTENT_FILTER, None, "sim")


async def test_too_many_tokens_are_told_by_gemini_with_numbers_and_by_responses_without() -> None:
    simulation = Simulation(Limits(window_tokens=50))
    told = {
        dialect: json.loads((await refusal_of(simulated_model(simulation, dialect), asking(said("word " * 99)))).body)
        for dialect in (RESPONSES, GEMINI)
    }
    assert told[RESPONSES]["error"]["message"] == (
        "Your input exceeds the context window of this model. Please adjust your input and try again."
    )
    assert told[RESPONSES]["error"]["code"] == "context_length_exceeded"
    assert told[GEMINI]["error"] == {
        "code": 400,
        "message": "The input token count (103) exceeds the maximum number of tokens allowed (50).",
        "status": "INVALID_ARGUMENT",
    }


@pytest.mark.parametrize("dialect", [RESPONSES, GEMINI])
@pytest.mark.parametrize(
    "limits", [Limits(media_count_max=1), Limits(media_bytes_max=20), Limits(media_pixels_max=299)]
)
async def test_images_beyond_the_limits_are_refused(dialect: str, limits: Limits) -> None:
    image = an_image(a_png(300, 400), 300, 400)
    request = asking(Message(Role.USER, (Text("look"), image, image)))
    refusal = await refusal_of(simulated_model(Simulation(limits), dialect), request, IMAGES)
    assert (refusal.status, "mage" in refusal.body) == (400, True)


@pytest.mark.parametrize("dialect", [RESPONSES, GEMINI])
async def test_an_output_above_the_models_own_is_refused(dialect: str) -> None:
    simulation = Simulation(Limits(output_tokens_max=100))
    refusal = await refusal_of(simulated_model(simulation, dialect), asking(said("hi"), output_tokens_max=5_000))
    assert (refusal.status, "5000" in refusal.body) == (400, True)


def call(call_id: str) -> dict[str, object]:
    return {"type": "function_call", "call_id": call_id, "name": "f", "arguments": "{}"}


def result(call_id: str) -> dict[str, object]:
    return {"type": "function_call_output", "call_id": call_id, "output": "r"}


@pytest.mark.parametrize(
    ("elements", "complaint"),
    [
        ([], "must be provided"),
        ([call("a")], "No tool output found for function call a."),
        ([result("a")], "No tool call found for function call output with call_id a."),
        ([call("a" * 65), result("a" * 65)], "string too long"),
        (
            [{"type": "reasoning", "summary": []}, {"role": "user", "content": "x"}],
            "without its required following item",
        ),
        (
            [{"role": "user", "content": [{"type": "input_image", "image_url": "data:image/tiff;base64,AAAA"}]}],
            "does not represent a valid image",
        ),
    ],
)
async def test_responses_refuse_what_the_real_one_does(elements: list[object], complaint: str) -> None:
    body = json.dumps({"model": "m", "input": elements}).encode()
    answer = Simulation().respond(RESPONSES, body)
    told = b"".join([chunk async for chunk in answer.chunks])
    assert (answer.status, complaint in told.decode()) == (400, True)


@pytest.mark.parametrize(
    ("contents", "complaint"),
    [
        ([], "contents is not specified"),
        ([{"role": "user", "parts": []}], "must not be empty"),
        ([{"role": "model", "parts": [{"functionCall": {"name": "f"}}]}], "function call turn"),
        (
            [{"role": "user", "parts": [{"functionResponse": {"name": "f"}}]}],
            "number of function response parts is equal",
        ),
        ([{"role": "user", "parts": [{"inlineData": {"mimeType": "image/tiff", "data": "AAAA"}}]}], "MIME type"),
    ],
)
async def test_gemini_refuses_what_the_real_one_does(contents: list[object], complaint: str) -> None:
    answer = Simulation().respond(GEMINI, json.dumps({"contents": contents}).encode(), "/v1beta/models/m:generate")
    told = b"".join([chunk async for chunk in answer.chunks])
    assert (answer.status, complaint in told.decode()) == (400, True)


@pytest.mark.parametrize("dialect", [RESPONSES, GEMINI])
async def test_thinking_goes_back_through_a_round_of_tools(dialect: str) -> None:
    model = simulated_model(Simulation(), dialect)
    ask = said('think quietly, then call echo {"word":"hey"}')
    first = await reply_of(model, asking(ask, tools=(ECHO,)))
    (called,) = [part for part in first.parts if isinstance(part, ToolCall)]
    results = returned(ToolResult(called.call_id, (Text("yes"),)))
    second = await reply_of(model, asking(ask, answered(*first.parts), results, tools=(ECHO,)))
    assert text_of_reply(second) == "The tool echo returned: yes"
