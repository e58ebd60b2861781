"""OpenAI's own client in the responses dialect, and hand-made Gemini requests, against the simulated server."""

import base64
import json
from collections.abc import AsyncIterator
from typing import Any, cast

import aiohttp
import openai
import pytest
from openai.types.responses import FunctionToolParam, Response, ResponseInputParam

from holdfast.models.fake import Simulation
from holdfast.models.fake.server import serve_simulation
from holdfast.types.limits import Limits
from tests.core.images import a_png

PNG = base64.b64encode(a_png(30, 40)).decode()
ANSWER = 'You said: "hello". This is message 1 from you that I see.'
ECHO: FunctionToolParam = {
    "type": "function",
    "name": "echo",
    "description": "Says it again.",
    "parameters": {"type": "object", "properties": {"word": {"type": "string"}}},
    "strict": False,
}
streaming = pytest.mark.parametrize("streams", [False, True])


@pytest.fixture
def simulation() -> Simulation:
    return Simulation()


@pytest.fixture
async def url(simulation: Simulation) -> AsyncIterator[str]:
    async with serve_simulation(simulation) as served:
        yield served


@pytest.fixture
async def client(url: str) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0) as made:
        yield made


async def answer_to(client: openai.AsyncOpenAI, conversation: ResponseInputParam, *, streams: bool) -> Response:
    if not streams:
        return await client.responses.create(model="sim", input=conversation, tools=[ECHO], store=False)
    async with client.responses.stream(model="sim", input=conversation, tools=[ECHO], store=False) as stream:
        return await stream.get_final_response()


@streaming
async def test_openais_client_reads_a_response(client: openai.AsyncOpenAI, *, streams: bool) -> None:
    answer = await answer_to(client, [{"role": "user", "content": "hello"}], streams=streams)
    assert (answer.output_text, answer.status) == (ANSWER, "completed")
    assert answer.usage is not None
    assert answer.usage.output_tokens == 18


@streaming
async def test_openais_client_calls_tools_and_brings_thinking_back(
    client: openai.AsyncOpenAI, *, streams: bool
) -> None:
    ask = 'think, then call echo {"word": "hey"} call echo {"word": "ho"}'
    conversation: ResponseInputParam = [{"role": "user", "content": ask}]
    answer = await answer_to(client, conversation, streams=streams)
    assert [output.type for output in answer.output] == ["reasoning", "function_call", "function_call"]
    conversation += cast("ResponseInputParam", [output.model_dump(exclude_none=True) for output in answer.output])
    for output in answer.output:
        if output.type == "function_call":
            conversation.append({"type": "function_call_output", "call_id": output.call_id, "output": "yes"})
    final = await answer_to(client, conversation, streams=streams)
    assert final.output_text == "The tool echo returned: yes The tool echo returned: yes"


async def test_openais_client_sends_images(client: openai.AsyncOpenAI) -> None:
    url = f"data:image/png;base64,{PNG}"
    conversation: ResponseInputParam = [
        {"role": "user", "content": [{"type": "input_image", "image_url": url, "detail": "auto"}]}
    ]
    answer = await answer_to(client, conversation, streams=False)
    assert "image/png, 30x40 pixels" in answer.output_text


async def test_openais_client_takes_each_refusal_for_what_it_is(
    simulation: Simulation, client: openai.AsyncOpenAI
) -> None:
    kinds: dict[str, type[openai.APIError]] = {
        "401": openai.AuthenticationError,
        "404": openai.NotFoundError,
        "413": openai.APIStatusError,
        "429": openai.RateLimitError,
        "500": openai.InternalServerError,
    }
    for word, kind in kinds.items():
        simulation.set_faults(word)
        with pytest.raises(kind):
            await client.responses.create(model="sim", input="hello")
    simulation.limits = Limits(window_tokens=2)
    with pytest.raises(openai.BadRequestError) as caught:
        await client.responses.create(model="sim", input="hello")
    assert (caught.value.code, caught.value.param) == ("context_length_exceeded", "input")


async def test_an_answer_that_is_cut_short_is_incomplete(client: openai.AsyncOpenAI) -> None:
    answer = await client.responses.create(model="sim", input="write 500 words", max_output_tokens=20)
    assert answer.status == "incomplete"
    assert answer.incomplete_details is not None
    assert answer.incomplete_details.reason == "max_output_tokens"


# --- Gemini ------------------------------------------------------------------------------------------------------


async def posted(url: str, body: object) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.post(url, data=json.dumps(body)) as response:
        return response.status, await response.text()


HELLO: dict[str, Any] = {"contents": [{"role": "user", "parts": [{"text": "hello"}]}]}


async def test_gemini_answers_whole_and_in_a_stream(url: str) -> None:
    status, whole = await posted(f"{url}/v1beta/models/sim:generateContent", HELLO)
    read = json.loads(whole)
    assert (status, read["modelVersion"]) == (200, "sim")
    assert read["candidates"][0] == {
        "content": {"parts": [{"text": ANSWER}], "role": "model"},
        "index": 0,
        "finishReason": "STOP",
    }
    assert read["usageMetadata"]["totalTokenCount"] == 23
    _, stream = await posted(f"{url}/v1beta/models/sim:streamGenerateContent?alt=sse", HELLO)
    events = [json.loads(line.removeprefix("data: ")) for line in stream.splitlines() if line]
    parts = [part for event in events for part in event["candidates"][0]["content"]["parts"]]
    assert "".join(part["text"] for part in parts) == ANSWER
    assert [event["candidates"][0].get("finishReason") for event in events] == [None] * (len(events) - 1) + ["STOP"]


async def test_gemini_calls_tools_with_a_signature_on_the_first_call(url: str) -> None:
    declared = {"functionDeclarations": [{"name": "echo", "parameters": {"type": "object"}}]}
    ask = {"role": "user", "parts": [{"text": 'think quietly, call echo {"word": "hey"} call echo {}'}]}
    _, told = await posted(f"{url}/v1beta/models/sim:generateContent", {"contents": [ask], "tools": [declared]})
    content = json.loads(told)["candidates"][0]["content"]
    assert ["thoughtSignature" in part for part in content["parts"]] == [True, False]
    results = [{"functionResponse": {"name": "echo", "response": {"output": "yes"}}}] * 2
    again = {"contents": [ask, content, {"role": "user", "parts": results}], "tools": [declared]}
    status, final = await posted(f"{url}/v1beta/models/sim:generateContent", again)
    assert (status, "returned: yes" in final) == (200, True)
