"""The official SDKs over the in-process transport: a conversation that overflows, a stream, a tool, a disconnect."""

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import openai
import pytest

import holdfast.blocking
import holdfast.http
from holdfast.errors import UsageError
from holdfast.models.fake.simulation import SeenRequest
from tests.adapters.provider import (
    CALLING,
    KNOWN,
    MESSAGES,
    RESULT,
    STREAMED,
    Provider,
    a_provider,
    growing_message,
)
from tests.adapters.suites import run_page

SCHEMA = {"type": "object", "properties": {"place": {"type": "string"}}}


@pytest.fixture
def provider() -> Iterator[Provider]:
    with a_provider() as found:
        yield found


@pytest.fixture
def url(provider: Provider) -> str:
    return provider.url


@pytest.fixture
def client() -> Iterator[holdfast.blocking.Client]:
    with holdfast.blocking.open(":memory:") as made:
        yield made


async def got(value: Any) -> Any:
    """Return the value of a synchronous or an asynchronous call."""
    return await value if inspect.isawaitable(value) else value


async def each(stream: Any) -> AsyncIterator[Any]:
    if hasattr(stream, "__aiter__"):
        async for one in stream:
            yield one
    else:
        for one in stream:
            yield one


class Chat:
    """A conversation over OpenAI's chat completions."""

    sdks: tuple[Any, Any] = (openai.OpenAI, openai.AsyncOpenAI)
    path = "/v1"

    def __init__(self, sdk: Any) -> None:
        self.sdk, self.messages = sdk, list[Any]()

    def user(self, text: str) -> None:
        self.messages.append({"role": "user", "content": text})

    def orphan(self) -> None:
        call = {"id": "lost", "type": "function", "function": {"name": "depth", "arguments": "{}"}}
        self.messages.append({"role": "assistant", "content": None, "tool_calls": [call]})

    async def ask(self) -> tuple[str, list[str]]:
        tools = [{"type": "function", "function": {"name": "depth", "parameters": SCHEMA}}]
        answer = await got(self.sdk.chat.completions.create(model="sim", messages=self.messages, tools=tools))
        message = answer.choices[0].message
        self.messages.append(message.model_dump(exclude_none=True))
        return message.content or "", [call.id for call in message.tool_calls or ()]

    async def stream(self) -> str:
        create = self.sdk.chat.completions.create
        stream = await got(create(model="sim", messages=self.messages, stream=True))
        parts = [part async for part in each(stream)]
        text = "".join(part.choices[0].delta.content or "" for part in parts if part.choices)
        self.messages.append({"role": "assistant", "content": text})
        return text

    def result(self, call_id: str) -> None:
        self.messages.append({"role": "tool", "tool_call_id": call_id, "content": RESULT})


class Responses(Chat):
    """A conversation over OpenAI's responses."""

    def orphan(self) -> None:
        self.messages.append({"type": "function_call", "call_id": "lost", "name": "depth", "arguments": "{}"})

    async def ask(self) -> tuple[str, list[str]]:
        tools = [{"type": "function", "name": "depth", "parameters": SCHEMA, "strict": False}]
        answer = await got(self.sdk.responses.create(model="sim", input=self.messages, tools=tools, store=False))
        self.messages += [one.model_dump(exclude_none=True) for one in answer.output]
        return answer.output_text, [one.call_id for one in answer.output if one.type == "function_call"]

    async def stream(self) -> str:
        stream = await got(self.sdk.responses.create(model="sim", input=self.messages, stream=True, store=False))
        text = "".join([one.delta async for one in each(stream) if one.type == "response.output_text.delta"])
        self.messages.append({"role": "assistant", "content": text})
        return text

    def result(self, call_id: str) -> None:
        self.messages.append({"type": "function_call_output", "call_id": call_id, "output": RESULT})


class Anthropic(Chat):
    """A conversation over Anthropic's messages."""

    sdks = (anthropic.Anthropic, anthropic.AsyncAnthropic)
    path = ""

    def orphan(self) -> None:
        call = {"type": "tool_use", "id": "lost", "name": "depth", "input": {}}
        self.messages.append({"role": "assistant", "content": [call]})

    async def ask(self) -> tuple[str, list[str]]:
        tools = [{"name": "depth", "description": "Depth of a place.", "input_schema": SCHEMA}]
        create = self.sdk.messages.create
        answer = await got(create(model="sim", max_tokens=400, messages=self.messages, tools=tools))
        self.messages.append({"role": "assistant", "content": [one.model_dump() for one in answer.content]})
        text = "".join(one.text for one in answer.content if one.type == "text")
        return text, [one.id for one in answer.content if one.type == "tool_use"]

    async def stream(self) -> str:
        create = self.sdk.messages.create
        stream = await got(create(model="sim", max_tokens=400, messages=self.messages, stream=True))
        events = [one async for one in each(stream)]
        text = "".join(one.delta.text for one in events if one.type == "content_block_delta")
        self.messages.append({"role": "assistant", "content": text})
        return text

    def result(self, call_id: str) -> None:
        content = [{"type": "tool_result", "tool_use_id": call_id, "content": RESULT}]
        self.messages.append({"role": "user", "content": content})


async def talk(chat: Chat, *, has_orphan: bool = False) -> list[str]:
    """Send the 17 messages, and return the answers."""
    answers: list[str] = []
    for number in range(1, MESSAGES + 1):
        chat.user(growing_message(number))
        if number == STREAMED:
            answers.append(await chat.stream())
            continue
        text, calls = await chat.ask()
        if number == CALLING:
            for call in calls:
                chat.result(call)
            text, _ = await chat.ask()
            assert RESULT in text
        answers.append(text)
        if has_orphan and number == 2:
            chat.orphan()
    return answers


def an_sdk(kind: type[Chat], transport: Any, url: str, *, is_async: bool) -> Any:
    http = httpx2.AsyncClient(transport=transport) if is_async else httpx2.Client(transport=transport)
    return kind.sdks[is_async](base_url=f"{url}{kind.path}", api_key="any", max_retries=0, http_client=http)


@pytest.mark.parametrize("has_orphan", [False, True], ids=["", "orphan"])
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("kind", [Chat, Responses, Anthropic], ids=["chat", "responses", "anthropic"])
async def test_seventeen_growing_messages_are_answered_in_a_small_window(
    client: holdfast.blocking.Client, url: str, kind: type[Chat], *, is_async: bool, has_orphan: bool
) -> None:
    sdk = an_sdk(kind, holdfast.http.transport(client, upstream=url), url, is_async=is_async)

    answers = await talk(kind(sdk), has_orphan=has_orphan)

    assert len([one for one in answers if one]) == MESSAGES
    assert KNOWN in answers[-1]
    await got(sdk.close())


@pytest.mark.parametrize("kind", [Chat, Responses, Anthropic], ids=["chat", "responses", "anthropic"])
async def test_without_the_transport_the_conversation_overflows(url: str, kind: type[Chat]) -> None:
    sdk = kind.sdks[0](base_url=f"{url}{kind.path}", api_key="any", max_retries=0)

    with pytest.raises((openai.APIStatusError, anthropic.APIStatusError)):
        await talk(kind(sdk))
    sdk.close()


async def test_a_client_of_the_same_loop_needs_no_thread(url: str) -> None:
    async with holdfast.open(":memory:") as client:
        sdk = an_sdk(Chat, holdfast.http.transport(client, upstream=url), url, is_async=True)
        answers = await talk(Chat(sdk))
        assert KNOWN in answers[-1]
        with pytest.raises(UsageError, match="asynchronous API"):
            an_sdk(Chat, holdfast.http.transport(client, upstream=url), url, is_async=False).models.list()
        await sdk.close()


def test_two_event_loops_and_threads_share_a_transport(client: holdfast.blocking.Client, url: str) -> None:
    transport = holdfast.http.transport(client, upstream=url)
    answers: list[str] = []

    async def ask() -> None:
        sdk = an_sdk(Chat, transport, url, is_async=True)
        answer = await sdk.chat.completions.create(model="sim", messages=[{"role": "user", "content": "hello"}])
        answers.append(answer.choices[0].message.content)

    threads = [threading.Thread(target=lambda: asyncio.run(ask())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(answers) == 4
    assert len(set(answers)) == 1


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
async def test_a_reader_that_leaves_a_stream_disconnects_from_the_provider(
    client: holdfast.blocking.Client, provider: Provider, *, is_async: bool
) -> None:
    url, simulation = provider.url, provider.simulation
    simulation.delta_seconds = 0.01
    sdk = an_sdk(Chat, holdfast.http.transport(client, upstream=url), url, is_async=is_async)

    asked = [{"role": "user", "content": "write 2000 words"}]
    stream = await got(sdk.chat.completions.create(model="sim", messages=asked, stream=True))
    async for _ in each(stream):
        break
    await got(stream.close())

    (seen,) = simulation.requests
    await asyncio.to_thread(provider.thread.run, _ended(seen))
    assert seen.was_closed_early
    answer = await got(sdk.chat.completions.create(model="sim", messages=[{"role": "user", "content": "hello"}]))
    assert answer.choices[0].message.content
    await got(sdk.close())


async def _ended(seen: SeenRequest) -> None:
    await seen.ended.wait()


async def test_an_answer_that_breaks_off_is_a_read_error(client: holdfast.blocking.Client, provider: Provider) -> None:
    url, simulation = provider.url, provider.simulation
    simulation.set_faults("cut")
    sdk = an_sdk(Chat, holdfast.http.transport(client, upstream=url), url, is_async=True)

    stream = await sdk.chat.completions.create(
        model="sim", messages=[{"role": "user", "content": "write 200 words"}], stream=True
    )
    with pytest.raises((httpx2.ReadError, openai.APIError)):
        async for _ in stream:
            pass
    await sdk.close()


def test_an_error_of_ours_comes_in_the_dialect_of_the_client(client: holdfast.blocking.Client, url: str) -> None:
    sdk = an_sdk(Chat, holdfast.http.transport(client, upstream={"anthropic": url}), url, is_async=False)

    with pytest.raises(openai.NotFoundError, match="no upstream for openai"):
        sdk.chat.completions.create(model="sim", messages=[{"role": "user", "content": "hello"}])
    sdk.close()


def test_an_unknown_upstream_is_a_usage_error(client: holdfast.blocking.Client) -> None:
    with pytest.raises(UsageError, match="cohere"):
        holdfast.http.transport(client, upstream={"cohere": "http://127.0.0.1:1"})


def test_the_program_of_the_page_is_answered(url: str, tmp_path: Path) -> None:
    printed, _ = run_page("transport.md", tmp_path, OPENAI_BASE_URL=f"{url}/v1", OPENAI_API_KEY="any")

    assert printed.startswith('You said: "hello".')
