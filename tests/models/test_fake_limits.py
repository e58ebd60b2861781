"""Limits and validation rules of the simulated provider."""

import asyncio
import json

import pytest

from holdfast.models.catalogue import simulated_model
from holdfast.models.fake import Simulation, count_request
from holdfast.types.faults import Phase
from holdfast.types.limits import Limits
from holdfast.types.messages import Message, Role
from tests.core.images import a_png
from tests.models.conversations import a_blob, an_image, asking, refusal_of, reply_of, said
from tests.models.fakes import ANTHROPIC, OPENAI, both, every, message_of

# --- limits ------------------------------------------------------------------------------------------------------


TOO_LONG = {
    OPENAI: "This model's maximum context length is 50 tokens. However, your messages resulted in 104 tokens. "
    "Please reduce the length of the messages.",
    ANTHROPIC: "prompt is too long: 104 tokens > 50 maximum",
}


@both
async def test_too_many_tokens_are_refused_with_the_numbers(dialect: str) -> None:
    model = simulated_model(Simulation(Limits(window_tokens=50)), dialect)
    request = asking(said("word " * 100))
    assert count_request(request) == 104
    refusal = await refusal_of(model, request)
    assert (refusal.status, refusal.phase, message_of(refusal)) == (400, Phase.RESPONSE, TOO_LONG[dialect])


TOO_LONG_TOGETHER = {
    OPENAI: "This model's maximum context length is 200 tokens. However, you requested 254 tokens (104 in the "
    "messages, 150 in the completion). Please reduce the length of the messages or completion.",
    ANTHROPIC: "input length and `max_tokens` exceed context limit: 104 + 150 > 200, "
    "decrease input length or `max_tokens` and try again",
}


@both
async def test_prompt_and_output_together_are_refused_with_both_numbers(dialect: str) -> None:
    model = simulated_model(Simulation(Limits(window_tokens=200)), dialect)
    refusal = await refusal_of(model, asking(said("word " * 100), output_tokens_max=150))
    assert message_of(refusal) == TOO_LONG_TOGETHER[dialect]


@every
async def test_a_request_that_fills_the_window_to_the_last_token_is_taken(dialect: str) -> None:
    model = simulated_model(Simulation(Limits(window_tokens=120)), dialect)
    reply = await reply_of(model, asking(said("word " * 100), output_tokens_max=16))
    assert reply.usage is not None
    assert reply.usage.input_tokens == 104


@both
async def test_an_output_above_the_models_own_is_refused(dialect: str) -> None:
    model = simulated_model(Simulation(Limits(output_tokens_max=100)), dialect)
    refusal = await refusal_of(model, asking(said("hi"), output_tokens_max=101))
    assert "101" in message_of(refusal)
    assert "100" in message_of(refusal)


@both
async def test_too_many_bytes_are_refused_before_anything_is_read(dialect: str) -> None:
    model = simulated_model(Simulation(Limits(wire_bytes_max=1_000)), dialect)
    refusal = await refusal_of(model, asking(said("x" * 1_000)))
    assert (refusal.status, "request_too_large" in refusal.body) == (413, True)


@both
@pytest.mark.parametrize(
    ("limits", "facts"),
    [
        (Limits(media_count_max=1), {"1"}),
        (Limits(media_bytes_max=20), {"29", "20"}),
        (Limits(media_pixels_max=399), {"399"}),
    ],
)
async def test_images_beyond_the_limits_are_refused(dialect: str, limits: Limits, facts: set[str]) -> None:
    content = a_png(300, 400)
    media = (an_image(content, 300, 400), an_image(a_png(1, 1), 1, 1))
    blobs = {a_blob(content).sha256: content, a_blob(a_png(1, 1)).sha256: a_png(1, 1)}
    refusal = await refusal_of(simulated_model(Simulation(limits), dialect), asking(Message(Role.USER, media)), blobs)
    assert refusal.status == 400
    assert facts <= set(message_of(refusal).replace(",", " ").replace(".", " ").split())


# --- rules -------------------------------------------------------------------------------------------------------


def posted(dialect: str, body: object, simulation: Simulation | None = None) -> tuple[int, str]:
    """Send a body past our own encoder, which would repair it; return the status and where one is the complaint."""
    raw = json.dumps(body).encode()
    answer = (simulation or Simulation()).respond(dialect, raw)

    async def read() -> bytes:
        return b"".join([chunk async for chunk in answer.chunks])

    whole = asyncio.run(read())
    return answer.status, json.loads(whole)["error"]["message"] if answer.status != 200 else ""


USER = {"role": "user", "content": "hi"}
OPENAI_CALL = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
ASKED = {"role": "assistant", "content": None, "tool_calls": [OPENAI_CALL]}
TOLD = {"role": "tool", "tool_call_id": "a", "content": "x"}
OPENAI_TIFF = {"type": "image_url", "image_url": {"url": "data:image/tiff;base64,AAAA"}}
LONG_CALL = {**OPENAI_CALL, "id": "a" * 41}


@pytest.mark.parametrize(
    ("messages", "complaint"),
    [
        ([], "empty array"),
        ([USER, TOLD], "must be a response to a preceeding message"),
        ([USER, ASKED], "did not have response messages: a"),
        ([USER, ASKED, USER, TOLD], "did not have response messages: a"),
        ([USER, ASKED, TOLD, TOLD], "must be a response to a preceeding message"),
        ([USER, {"role": "assistant", "tool_calls": [LONG_CALL]}], "maximum length 40"),
        ([{"role": "user", "content": [OPENAI_TIFF]}], "unsupported image"),
    ],
)  # fmt: skip
def test_openai_refuses_what_the_real_one_refuses(messages: list[object], complaint: str) -> None:
    status, message = posted(OPENAI, {"model": "m", "messages": messages})
    assert status == 400
    assert complaint in message


def test_openai_takes_calls_with_their_results() -> None:
    assert posted(OPENAI, {"model": "m", "messages": [USER, ASKED, TOLD, USER]}) == (200, "")


ANTHROPIC_CALL = {"type": "tool_use", "id": "a", "name": "f", "input": {}}
CALLED = {"role": "assistant", "content": [ANTHROPIC_CALL]}
RESULT = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "x"}]}
TIFF = {"type": "image", "source": {"type": "base64", "media_type": "image/tiff", "data": "AAAA"}}
SEEN = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": [TIFF]}]}
ANSWER = {"role": "assistant", "content": "hello"}
RULE = {"role": "system", "content": "be brief"}


@pytest.mark.parametrize(
    ("messages", "complaint"),
    [
        ([], "at least one message"),
        ([ANSWER, USER], "first message must use"),
        ([USER, ANSWER], "must end with a user message"),
        ([{"role": "user", "content": []}], "messages.0: all messages must have non-empty content"),
        ([{"role": "user", "content": [{"type": "text", "text": ""}]}], "text content blocks must be non-empty"),
        ([{"role": "user", "content": " "}], "must contain non-whitespace text"),
        ([USER, CALLED, USER], "messages.1: `tool_use` ids were found without `tool_result` blocks"),
        ([USER, ANSWER, RESULT], "messages.2.content.0: unexpected `tool_use_id` found in `tool_result` blocks: a."),
        ([USER, CALLED, RESULT, CALLED, RESULT], "messages.3.content.0: `tool_use` ids must be unique"),
        ([USER, {"role": "assistant", "content": [{**ANTHROPIC_CALL, "id": "a b"}]}, RESULT], "should match pattern"),
        ([{"role": "user", "content": [TIFF]}], "messages.0.content.0.image.source.base64.media_type"),
        ([USER, CALLED, SEEN], "messages.2.content.0.tool_result.content.0.image"),
        ([RULE, USER], "messages.0: use the top-level 'system' parameter"),
        ([USER, ANSWER, RULE, USER], "messages.2: role 'system' must follow a user turn"),
        ([USER, RULE, USER], "messages.1: role 'system' must follow a user turn and be last or precede an assistant"),
        ([USER, RULE, RULE], "messages.1: role 'system' must follow a user turn and be last or precede an assistant"),
    ],
)  # fmt: skip
def test_anthropic_refuses_what_the_real_one_refuses(messages: list[object], complaint: str) -> None:
    status, message = posted(ANTHROPIC, {"model": "m", "max_tokens": 9, "messages": messages})
    assert status == 400
    assert complaint in message


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"max_tokens": 0}, "greater than or equal to 1"),
        ({"thinking": {"type": "enabled", "budget_tokens": 1_000}}, "greater than or equal to 1024"),
        ({"thinking": {"type": "enabled", "budget_tokens": 9_000}}, "`max_tokens` must be greater than"),
        ({"thinking": {"type": "enabled", "budget_tokens": 2_000}}, "must start with a thinking block"),
    ],
)
def test_anthropic_refuses_settings_that_the_real_one_refuses(settings: dict[str, object], complaint: str) -> None:
    body = {"model": "m", "max_tokens": 9_000, "messages": [USER, CALLED, RESULT], **settings}
    status, message = posted(ANTHROPIC, body)
    assert status == 400
    assert complaint in message


def test_anthropic_takes_instructions_behind_a_persons_turn() -> None:
    silent = {"role": "system", "content": []}
    messages = [USER, RULE, CALLED, RESULT, silent]
    assert posted(ANTHROPIC, {"model": "m", "max_tokens": 9, "messages": messages}) == (200, "")


async def test_instructions_between_messages_are_seen() -> None:
    asked = [{"role": "user", "content": "what is door?"}, {"role": "system", "content": "door = open"}]
    body = {"model": "m", "max_tokens": 99, "messages": asked}
    answer = Simulation().respond(ANTHROPIC, json.dumps(body).encode())
    assert b"door = open." in b"".join([chunk async for chunk in answer.chunks])


def test_anthropic_combines_messages_of_one_role() -> None:
    assert posted(ANTHROPIC, {"model": "m", "max_tokens": 9, "messages": [USER, USER, CALLED, RESULT, USER]}) == (
        200,
        "",
    )


@both
def test_a_body_that_is_no_request_is_refused(dialect: str) -> None:
    status, message = posted(dialect, {"model": 5})
    assert (status, message.startswith("the body is not a")) == (400, True)
