"""The providers' own clients against the simulated server."""

import base64
import json
from collections.abc import AsyncIterator

import anthropic
import openai
import pytest
from anthropic.types import MessageParam, ToolParam
from openai.types.chat import ChatCompletionMessage, ChatCompletionMessageParam, ChatCompletionToolParam

from holdfast.models.fake import Simulation
from holdfast.models.fake.server import serve_simulation
from holdfast.types.limits import Limits
from tests.core.images import a_png

PNG = base64.b64encode(a_png(30, 40)).decode()
SCHEMA: dict[str, object] = {"type": "object", "properties": {"word": {"type": "string"}}}
ASK = 'call echo {"word": "hey"} call echo {"word": "ho"}'
ANSWER = 'You said: "hello". This is message 1 from you that I see.'


@pytest.fixture
def simulation() -> Simulation:
    return Simulation()


@pytest.fixture
async def openai_client(simulation: Simulation) -> AsyncIterator[openai.AsyncOpenAI]:
    async with (
        serve_simulation(simulation) as url,
        openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0) as client,
    ):
        yield client


@pytest.fixture
async def anthropic_client(simulation: Simulation) -> AsyncIterator[anthropic.AsyncAnthropic]:
    async with (
        serve_simulation(simulation) as url,
        anthropic.AsyncAnthropic(base_url=url, api_key="any", max_retries=0) as client,
    ):
        yield client


# --- OpenAI ------------------------------------------------------------------------------------------------------

HELLO: list[ChatCompletionMessageParam] = [{"role": "user", "content": "hello"}]
OPENAI_TOOLS: list[ChatCompletionToolParam] = [
    {"type": "function", "function": {"name": "echo", "description": "Says it again.", "parameters": SCHEMA}}
]


async def test_openais_client_reads_a_whole_answer(openai_client: openai.AsyncOpenAI) -> None:
    answer = await openai_client.chat.completions.create(model="sim", messages=HELLO)
    assert answer.choices[0].message.content == ANSWER
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (5, 18)


async def test_openais_client_reads_a_stream(openai_client: openai.AsyncOpenAI) -> None:
    stream = await openai_client.chat.completions.create(
        model="sim", messages=HELLO, stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == ANSWER
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.total_tokens == 23


async def test_openais_client_gets_no_usage_that_it_did_not_ask_for(openai_client: openai.AsyncOpenAI) -> None:
    stream = await openai_client.chat.completions.create(model="sim", messages=HELLO, stream=True)
    assert [chunk.usage async for chunk in stream if chunk.usage is not None] == []


@pytest.mark.parametrize("streams", [False, True])
async def test_openais_client_calls_tools(openai_client: openai.AsyncOpenAI, *, streams: bool) -> None:
    messages: list[ChatCompletionMessageParam] = [{"role": "user", "content": ASK}]
    if streams:
        async with openai_client.chat.completions.stream(model="sim", messages=messages, tools=OPENAI_TOOLS) as stream:
            answer = await stream.get_final_completion()
        message: ChatCompletionMessage = answer.choices[0].message
    else:
        whole = await openai_client.chat.completions.create(model="sim", messages=messages, tools=OPENAI_TOOLS)
        message = whole.choices[0].message
    calls = [call for call in message.tool_calls or () if call.type == "function"]
    assert [call.function.arguments for call in calls] == ['{"word": "hey"}', '{"word": "ho"}']
    messages.append({"role": "assistant", "content": None, "tool_calls": [
        {"id": call.id, "type": "function", "function": {"name": "echo", "arguments": "{}"}} for call in calls
    ]})  # fmt: skip
    messages += [{"role": "tool", "tool_call_id": call.id, "content": "yes"} for call in calls]
    final = await openai_client.chat.completions.create(model="sim", messages=messages, tools=OPENAI_TOOLS)
    assert final.choices[0].message.content == "The tool echo returned: yes The tool echo returned: yes"


async def test_openais_client_sends_images(openai_client: openai.AsyncOpenAI) -> None:
    answer = await openai_client.chat.completions.create(
        model="sim",
        messages=[
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "look"},
                    {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
                ],
            }
        ],
    )
    assert "image/png, 30x40 pixels" in (answer.choices[0].message.content or "")


async def test_openais_client_takes_each_refusal_for_what_it_is(
    simulation: Simulation, openai_client: openai.AsyncOpenAI
) -> None:
    kinds: dict[str, type[openai.APIError]] = {
        "401": openai.AuthenticationError,
        "404": openai.NotFoundError,
        "429": openai.RateLimitError,
        "500": openai.InternalServerError,
        "overflow": openai.BadRequestError,
    }
    for word, kind in kinds.items():
        simulation.set_faults(word)
        with pytest.raises(kind):
            await openai_client.chat.completions.create(model="sim", messages=HELLO)


async def test_openais_client_reads_the_code_of_an_overflow(
    simulation: Simulation, openai_client: openai.AsyncOpenAI
) -> None:
    simulation.limits = Limits(window_tokens=2)
    with pytest.raises(openai.BadRequestError) as caught:
        await openai_client.chat.completions.create(model="sim", messages=HELLO)
    assert (caught.value.code, caught.value.param) == ("context_length_exceeded", "messages")


async def test_openais_client_is_told_of_an_error_inside_a_stream(
    simulation: Simulation, openai_client: openai.AsyncOpenAI
) -> None:
    simulation.set_faults("error-event")
    stream = await openai_client.chat.completions.create(model="sim", messages=HELLO, stream=True)
    with pytest.raises(openai.APIError, match="The server had an error"):
        [chunk async for chunk in stream]


async def test_openais_client_lists_the_models(openai_client: openai.AsyncOpenAI) -> None:
    assert [model.id async for model in openai_client.models.list()] == ["sim"]


# --- Anthropic ---------------------------------------------------------------------------------------------------

GREETING: list[MessageParam] = [{"role": "user", "content": "hello"}]
ANTHROPIC_TOOLS: list[ToolParam] = [{"name": "echo", "description": "Says it again.", "input_schema": SCHEMA}]


def texts(message: anthropic.types.Message) -> str:
    return "".join(block.text for block in message.content if block.type == "text")


async def test_anthropics_client_reads_a_whole_answer(anthropic_client: anthropic.AsyncAnthropic) -> None:
    answer = await anthropic_client.messages.create(model="sim", max_tokens=1_000, messages=GREETING)
    assert texts(answer) == ANSWER
    assert answer.stop_reason == "end_turn"
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (5, 18)


async def test_anthropics_client_reads_a_stream(anthropic_client: anthropic.AsyncAnthropic) -> None:
    async with anthropic_client.messages.stream(model="sim", max_tokens=1_000, messages=GREETING) as stream:
        pieces = [piece async for piece in stream.text_stream]
        final = await stream.get_final_message()
    assert len(pieces) > 1
    assert "".join(pieces) == texts(final) == ANSWER
    assert final.usage.output_tokens == 18


@pytest.mark.parametrize("streams", [False, True])
async def test_anthropics_client_calls_tools(anthropic_client: anthropic.AsyncAnthropic, *, streams: bool) -> None:
    messages: list[MessageParam] = [{"role": "user", "content": ASK}]
    if streams:
        async with anthropic_client.messages.stream(
            model="sim", max_tokens=1_000, messages=messages, tools=ANTHROPIC_TOOLS
        ) as stream:
            answer: anthropic.types.Message = await stream.get_final_message()
    else:
        answer = await anthropic_client.messages.create(
            model="sim", max_tokens=1_000, messages=messages, tools=ANTHROPIC_TOOLS
        )
    calls = [block for block in answer.content if block.type == "tool_use"]
    assert [call.input for call in calls] == [{"word": "hey"}, {"word": "ho"}]
    messages.append({"role": "assistant", "content": answer.content})
    messages.append({"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": call.id, "content": "yes"} for call in calls
    ]})  # fmt: skip
    final = await anthropic_client.messages.create(
        model="sim", max_tokens=1_000, messages=messages, tools=ANTHROPIC_TOOLS
    )
    assert texts(final) == "The tool echo returned: yes The tool echo returned: yes"


async def test_anthropics_client_sends_images(anthropic_client: anthropic.AsyncAnthropic) -> None:
    answer = await anthropic_client.messages.create(
        model="sim",
        max_tokens=1_000,
        messages=[
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "look"},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
                ],
            }
        ],
    )
    assert "image/png, 30x40 pixels" in texts(answer)


@pytest.mark.parametrize("streams", [False, True])
async def test_anthropics_client_brings_thinking_back_unaltered(
    anthropic_client: anthropic.AsyncAnthropic, *, streams: bool
) -> None:
    messages: list[MessageParam] = [{"role": "user", "content": "think"}]
    if streams:
        async with anthropic_client.messages.stream(
            model="sim",
            max_tokens=4_000,
            messages=messages,
            thinking={"type": "enabled", "budget_tokens": 1_024},
        ) as stream:
            answer: anthropic.types.Message = await stream.get_final_message()
    else:
        answer = await anthropic_client.messages.create(
            model="sim", max_tokens=4_000, messages=messages, thinking={"type": "enabled", "budget_tokens": 1_024}
        )
    assert answer.content[0].type == "thinking"
    messages += [{"role": "assistant", "content": answer.content}, {"role": "user", "content": "and?"}]
    final = await anthropic_client.messages.create(model="sim", max_tokens=4_000, messages=messages)
    assert texts(final).startswith('You said: "and?"')


async def test_anthropics_client_takes_each_refusal_for_what_it_is(
    simulation: Simulation, anthropic_client: anthropic.AsyncAnthropic
) -> None:
    kinds: dict[str, type[anthropic.APIError]] = {
        "401": anthropic.AuthenticationError,
        "404": anthropic.NotFoundError,
        "413": anthropic.APIStatusError,
        "429": anthropic.RateLimitError,
        "500": anthropic.InternalServerError,
        "529": anthropic.APIStatusError,
        "overflow": anthropic.BadRequestError,
    }
    for word, kind in kinds.items():
        simulation.set_faults(word)
        with pytest.raises(kind):
            await anthropic_client.messages.create(model="sim", max_tokens=9, messages=GREETING)


async def test_anthropics_client_is_told_of_an_error_inside_a_stream(
    simulation: Simulation, anthropic_client: anthropic.AsyncAnthropic
) -> None:
    simulation.set_faults("error-event")
    stream = await anthropic_client.messages.create(model="sim", max_tokens=999, messages=GREETING, stream=True)
    with pytest.raises(anthropic.APIStatusError, match="Overloaded"):
        [event async for event in stream]


async def test_what_the_clients_sent_can_be_read(simulation: Simulation, openai_client: openai.AsyncOpenAI) -> None:
    await openai_client.chat.completions.create(model="sim-9", messages=HELLO)
    (seen,) = simulation.requests
    assert (seen.dialect, seen.model, seen.status, seen.fault, seen.tokens) == ("openai-chat", "sim-9", 200, "ok", 5)
    assert json.loads(seen.body)["messages"] == HELLO
