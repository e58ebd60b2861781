"""Agents of every framework over the transport, each with the same three actions. Imported where one is installed."""

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any, Protocol

from tests.adapters.provider import RESULT

# Google's lane has no OpenAI SDK.
openai: Any = importlib.import_module("openai") if importlib.util.find_spec("openai") else None
# The HTTP module of the installed SDK: httpx2 for OpenAI's since its version 3.
http: Any = importlib.import_module(
    next(one.__module__.partition(".")[0] for one in openai.DefaultHttpxClient.__mro__[1:]) if openai else "httpx"
)
ORPHAN = {"id": "lost", "type": "function", "function": {"name": "depth", "arguments": "{}"}}
SCHEMA = {"type": "object", "properties": {"place": {"type": "string"}}}
TOOL = {"type": "function", "function": {"name": "depth", "description": "Depth of a place.", "parameters": SCHEMA}}


def depth(place: str = "") -> str:
    """Return how deep the water is at a place.

    Args:
        place: the place.
    """
    assert place is not None
    return RESULT


class Talking(Protocol):
    """An agent that keeps its own history."""

    async def ask(self, text: str) -> str:
        """Answer, and run tools on the way."""
        ...

    async def stream(self, text: str) -> str:
        """Answer in a stream."""
        ...

    def orphan(self) -> None:
        """Put a tool call without its result into the history."""
        ...


def _sync(transport: Any) -> Any:
    return http.Client(transport=transport)


def _sdk(transport: Any, url: str) -> Any:
    client = http.AsyncClient(transport=transport)
    return openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0, http_client=client)


class OpenAIAgents:
    """The OpenAI Agents SDK."""

    def __init__(self, transport: Any, url: str) -> None:
        import agents  # noqa: PLC0415 - installed in one environment only; so below

        agents.set_tracing_disabled(True)
        model = agents.OpenAIChatCompletionsModel(model="sim", openai_client=_sdk(transport, url))
        self._runner, self._items = agents.Runner, list[Any]()
        self._agent = agents.Agent(name="a", model=model, tools=[agents.function_tool(depth)])

    async def ask(self, text: str) -> str:
        result = await self._runner.run(self._agent, [*self._items, {"role": "user", "content": text}])
        self._items = result.to_input_list()
        return str(result.final_output)

    async def stream(self, text: str) -> str:
        result = self._runner.run_streamed(self._agent, [*self._items, {"role": "user", "content": text}])
        events = [event async for event in result.stream_events()]
        assert len(events) > 1
        self._items = result.to_input_list()
        return str(result.final_output)

    def orphan(self) -> None:
        self._items.append({"type": "function_call", "call_id": "lost", "name": "depth", "arguments": "{}"})


class PydanticAI:
    """Pydantic AI."""

    def __init__(self, transport: Any, url: str) -> None:
        from pydantic_ai import Agent  # noqa: PLC0415
        from pydantic_ai.models.openai import OpenAIChatModel  # noqa: PLC0415
        from pydantic_ai.providers.openai import OpenAIProvider  # noqa: PLC0415

        model = OpenAIChatModel("sim", provider=OpenAIProvider(openai_client=_sdk(transport, url)))
        self._agent, self._messages = Agent(model, tools=[depth]), list[Any]()

    async def ask(self, text: str) -> str:
        result = await self._agent.run(text, message_history=self._messages)
        self._messages = result.all_messages()
        return result.output

    async def stream(self, text: str) -> str:
        async with self._agent.run_stream(text, message_history=self._messages) as result:
            answer = [part async for part in result.stream_text()][-1]
            self._messages = result.all_messages()
        return answer

    def orphan(self) -> None:
        from pydantic_ai.messages import ModelResponse, ToolCallPart  # noqa: PLC0415

        self._messages.append(ModelResponse([ToolCallPart("depth", {}, tool_call_id="lost")]))


class Strands:
    """Strands Agents, without its own reduction of the context."""

    def __init__(self, transport: Any, url: str) -> None:
        from strands import Agent, tool  # noqa: PLC0415
        from strands.agent.conversation_manager import NullConversationManager  # noqa: PLC0415
        from strands.models.openai import OpenAIModel  # noqa: PLC0415

        model = OpenAIModel(client=_sdk(transport, url), model_id="sim")
        self._agent = Agent(
            model, tools=[tool(depth)], callback_handler=None, conversation_manager=NullConversationManager()
        )

    async def ask(self, text: str) -> str:
        return str(await self._agent.invoke_async(text)).strip()

    async def stream(self, text: str) -> str:
        events = [event async for event in self._agent.stream_async(text)]
        return "".join(str(event["data"]) for event in events if "data" in event)

    def orphan(self) -> None:
        use = {"toolUseId": "lost", "name": "depth", "input": {}}
        self._agent.messages.append({"role": "assistant", "content": [{"toolUse": use}]})


class AgentFramework:
    """Microsoft's Agent Framework."""

    def __init__(self, transport: Any, url: str) -> None:
        from agent_framework import Agent  # noqa: PLC0415
        from agent_framework_openai import OpenAIChatCompletionClient  # noqa: PLC0415

        client = OpenAIChatCompletionClient(model="sim", async_client=_sdk(transport, url))
        self._agent, self._messages = Agent(client, tools=[depth]), list[Any]()

    async def ask(self, text: str) -> str:
        return await self._kept(text, self._agent.run([*self._messages, self._user(text)]))

    async def stream(self, text: str) -> str:
        stream = self._agent.run([*self._messages, self._user(text)], stream=True)
        assert len([part async for part in stream]) > 1
        return await self._kept(text, stream.get_final_response())

    async def _kept(self, text: str, running: Any) -> str:
        response = await running
        self._messages += [self._user(text), *response.messages]
        return str(response.text)

    def _user(self, text: str) -> Any:
        from agent_framework import Message  # noqa: PLC0415

        return Message("user", [text])

    def orphan(self) -> None:
        from agent_framework import Content, Message  # noqa: PLC0415

        self._messages.append(Message("assistant", [Content.from_function_call("lost", "depth", arguments="{}")]))


class LlamaIndex:
    """LlamaIndex: its model, with tools run here as its agents do."""

    def __init__(self, transport: Any, url: str) -> None:
        from llama_index.core.tools import FunctionTool  # noqa: PLC0415
        from llama_index.llms.openai import OpenAI  # noqa: PLC0415

        # A name that it knows: it looks up the window.
        self._model = OpenAI(
            model="gpt-4o", api_base=f"{url}/v1", api_key="any", max_retries=0,
            http_client=_sync(transport), async_http_client=http.AsyncClient(transport=transport),
        )  # fmt: skip
        self._tool, self._messages = FunctionTool.from_defaults(depth), list[Any]()

    async def ask(self, text: str) -> str:
        self._messages.append(_chat_message("user", text))
        while True:
            response = await self._model.achat_with_tools([self._tool], chat_history=self._messages)
            self._messages.append(response.message)
            calls = self._model.get_tool_calls_from_response(response, error_on_no_tool_call=False)
            if not calls:
                return response.message.content or ""
            for call in calls:
                output = str(self._tool(**call.tool_kwargs))
                self._messages.append(_chat_message("tool", output, tool_call_id=call.tool_id))

    async def stream(self, text: str) -> str:
        self._messages.append(_chat_message("user", text))
        parts = [part async for part in await self._model.astream_chat(self._messages)]
        self._messages.append(parts[-1].message)
        return parts[-1].message.content or ""

    def orphan(self) -> None:
        self._messages.append(_chat_message("assistant", "", tool_calls=[ORPHAN]))


def _chat_message(role: str, content: str, **kwargs: Any) -> Any:
    from llama_index.core.base.llms.types import ChatMessage  # noqa: PLC0415

    return ChatMessage(role=role, content=content, additional_kwargs=kwargs)


class LangChain:
    """LangChain's model, with tools run here."""

    def __init__(self, transport: Any, url: str) -> None:
        from langchain_openai import ChatOpenAI  # noqa: PLC0415

        self._model = ChatOpenAI(
            model="sim", base_url=f"{url}/v1", api_key="any", max_retries=0,
            http_client=_sync(transport), http_async_client=http.AsyncClient(transport=transport),
        )  # fmt: skip
        self._messages: list[Any] = []

    async def ask(self, text: str) -> str:
        self._messages.append({"role": "user", "content": text})
        while True:
            answer = await self._model.bind_tools([TOOL]).ainvoke(self._messages)
            self._messages.append(answer)
            if not answer.tool_calls:
                return str(answer.content)
            results = [{"role": "tool", "tool_call_id": one["id"], "content": depth()} for one in answer.tool_calls]
            self._messages += results

    async def stream(self, text: str) -> str:
        self._messages.append({"role": "user", "content": text})
        parts = [part.content async for part in self._model.astream(self._messages)]
        self._messages.append({"role": "assistant", "content": "".join(parts)})
        return "".join(parts)

    def orphan(self) -> None:
        self._messages.append({"role": "assistant", "content": None, "tool_calls": [ORPHAN]})


class _Dicts:
    """A client of chat completions that takes messages as dicts, with tools run here."""

    def __init__(self) -> None:
        self._messages: list[Any] = []

    async def ask(self, text: str) -> str:
        self._messages.append({"role": "user", "content": text})
        while True:
            content, calls = self._answer()
            shown = [{"id": i, "type": "function", "function": {"name": n, "arguments": a}} for i, n, a in calls]
            self._messages.append({"role": "assistant", "content": content or None, "tool_calls": shown or None})
            if not calls:
                self._messages[-1].pop("tool_calls")
                return content
            self._messages += [{"role": "tool", "tool_call_id": i, "content": depth()} for i, _, _ in calls]

    async def stream(self, text: str) -> str:
        self._messages.append({"role": "user", "content": text})
        answer = self._streamed()
        self._messages.append({"role": "assistant", "content": answer})
        return answer

    def orphan(self) -> None:
        self._messages.append({"role": "assistant", "content": None, "tool_calls": [ORPHAN]})

    def _answer(self) -> tuple[str, list[tuple[str, str, str]]]:
        raise NotImplementedError

    def _streamed(self) -> str:
        raise NotImplementedError


class LiteLLM(_Dicts):
    """LiteLLM."""

    def __init__(self, transport: Any, url: str) -> None:
        super().__init__()
        import litellm  # noqa: PLC0415

        sdk = openai.OpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0, http_client=_sync(transport))
        self._complete: Callable[..., Any] = lambda **kwargs: litellm.completion(
            model="openai/sim", messages=self._messages, client=sdk, max_retries=0, **kwargs
        )

    def _answer(self) -> tuple[str, list[tuple[str, str, str]]]:
        message = self._complete(tools=[TOOL]).choices[0].message
        calls = [(one.id, one.function.name, one.function.arguments) for one in message.tool_calls or ()]
        return message.content or "", calls

    def _streamed(self) -> str:
        return "".join(part.choices[0].delta.content or "" for part in self._complete(stream=True) if part.choices)


class DSPy(_Dicts):
    """DSPy's language model. It has an HTTP client of its own, which takes a base URL only."""

    def __init__(self, _transport: Any, url: str) -> None:
        super().__init__()
        import dspy  # noqa: PLC0415

        self._model = dspy.LM("openai/sim", api_base=f"{url}/v1", api_key="any", cache=False, num_retries=0)

    def _answer(self) -> tuple[str, list[tuple[str, str, str]]]:
        (answer,) = self._model(messages=self._messages, tools=[TOOL])
        if isinstance(answer, str):
            return answer, []
        calls = [(one.id, one.function.name, one.function.arguments) for one in answer.get("tool_calls") or ()]
        return answer.get("text") or "", calls

    def _streamed(self) -> str:
        # `dspy.streamify` streams programs with signatures, not messages.
        return self._answer()[0]


class Smolagents(_Dicts):
    """The model of smolagents."""

    def __init__(self, transport: Any, url: str) -> None:
        super().__init__()
        from smolagents import OpenAIModel, tool  # noqa: PLC0415

        self._tool = tool(depth)
        self._model = OpenAIModel(
            model_id="sim", api_base=f"{url}/v1", api_key="any",
            client_kwargs={"http_client": _sync(transport), "max_retries": 0},
        )  # fmt: skip

    def _answer(self) -> tuple[str, list[tuple[str, str, str]]]:
        given = self._model._prepare_completion_kwargs(
            messages=[], model="sim", tools_to_call_from=[self._tool], tool_choice="auto"
        )
        given["messages"] = self._messages
        message = self._model.client.chat.completions.create(**given).choices[0].message
        calls = [(one.id, one.function.name, one.function.arguments) for one in message.tool_calls or ()]
        return message.content or "", calls

    def _streamed(self) -> str:
        from smolagents.models import ChatMessage  # noqa: PLC0415

        messages = [
            ChatMessage(role=one["role"], content=one["content"]) for one in self._messages if one.get("content")
        ]
        return "".join(part.content or "" for part in self._model.generate_stream(messages))


class CrewAI(_Dicts):
    """The model of CrewAI, which runs the tools itself. It gives one HTTP client to a synchronous and an asynchronous
    SDK, so it takes a base URL only.
    """

    def __init__(self, _transport: Any, url: str) -> None:
        super().__init__()
        from crewai import LLM  # noqa: PLC0415

        given: Any = {
            "model": "openai/sim", "provider": "openai", "base_url": f"{url}/v1", "api_key": "any",
        }  # fmt: skip
        self._model, self._streaming = LLM(**given), LLM(**given, stream=True)

    async def ask(self, text: str) -> str:
        self._messages.append({"role": "user", "content": text})
        answer = str(self._model.call(self._messages, tools=[TOOL], available_functions={"depth": depth}))
        self._messages.append({"role": "assistant", "content": answer})
        return answer

    def _streamed(self) -> str:
        return str(self._streaming.call(self._messages))


def _google(transport: Any, url: str) -> Any:
    from google import genai  # noqa: PLC0415
    from google.genai import types  # noqa: PLC0415

    client = http.AsyncClient(transport=transport) if transport is not None else None
    return genai.Client(api_key="any", http_options=types.HttpOptions(base_url=url, httpx_async_client=client))


def _lost_call() -> Any:
    from google.genai import types  # noqa: PLC0415

    call = types.FunctionCall(id="lost", name="depth", args={})
    return types.Content(role="model", parts=[types.Part(function_call=call)])


class GoogleGenAI:
    """Google's own client, whose chat runs the tools."""

    def __init__(self, transport: Any, url: str) -> None:
        self._client = _google(transport, url)
        self._chat = self._client.aio.chats.create(model="sim", config={"tools": [depth]})

    async def ask(self, text: str) -> str:
        return (await self._chat.send_message(text)).text or ""

    async def stream(self, text: str) -> str:
        parts = [part.text or "" async for part in await self._chat.send_message_stream(text)]
        assert len(parts) > 1
        return "".join(parts)

    def orphan(self) -> None:
        history = [*self._chat.get_history(), _lost_call()]
        self._chat = self._client.aio.chats.create(model="sim", config={"tools": [depth]}, history=history)


class GoogleGenAIByUrl(GoogleGenAI):
    """The same with a base URL only."""

    def __init__(self, _transport: Any, url: str) -> None:
        super().__init__(None, url)


class GoogleADK:
    """Google's Agent Development Kit with its default models."""

    def __init__(self, transport: Any, url: str) -> None:
        from google.adk.agents import LlmAgent  # noqa: PLC0415
        from google.adk.models.google_llm import Gemini  # noqa: PLC0415
        from google.adk.runners import InMemoryRunner  # noqa: PLC0415

        model = Gemini(model="sim", client=_google(transport, url))
        self._runner = InMemoryRunner(agent=LlmAgent(name="a", model=model, tools=[depth]), app_name="a")
        self._session: Any = None
        self._lost: list[Any] = []

    async def ask(self, text: str) -> str:
        return await self._run(text)

    async def stream(self, text: str) -> str:
        from google.adk.agents.run_config import RunConfig, StreamingMode  # noqa: PLC0415

        return await self._run(text, RunConfig(streaming_mode=StreamingMode.SSE))

    async def _run(self, text: str, config: Any = None) -> str:
        from google.adk.events.event import Event  # noqa: PLC0415
        from google.genai import types  # noqa: PLC0415

        names = {"app_name": "a", "user_id": "u"}
        service = self._runner.session_service
        self._session = self._session or await service.create_session(**names)
        self._session = await service.get_session(**names, session_id=self._session.id)
        for content in self._lost:
            await service.append_event(self._session, Event(author="a", invocation_id="lost", content=content))
        self._lost = []
        asked = types.Content(role="user", parts=[types.Part(text=text)])
        given = {"user_id": "u", "session_id": self._session.id, "new_message": asked}
        events = [one async for one in self._runner.run_async(**given, **({"run_config": config} if config else {}))]
        if config:
            assert any(one.partial for one in events)
        said = [one for one in events if one.is_final_response() and one.content and one.content.parts]
        return "".join(part.text or "" for one in said for part in one.content.parts)

    def orphan(self) -> None:
        self._lost.append(_lost_call())


FRAMEWORKS: dict[str, tuple[str, Callable[[Any, str], Talking]]] = {
    "openai-agents": ("agents", OpenAIAgents),
    "pydantic-ai": ("pydantic_ai", PydanticAI),
    "strands": ("strands", Strands),
    "agent-framework": ("agent_framework", AgentFramework),
    "llama-index": ("llama_index.llms.openai", LlamaIndex),
    "langchain": ("langchain_openai", LangChain),
    "litellm": ("litellm", LiteLLM),
    "dspy": ("dspy", DSPy),
    "smolagents": ("smolagents", Smolagents),
    "crewai": ("crewai", CrewAI),
    "google-genai": ("google.genai", GoogleGenAI),
    "google-genai-url": ("google.genai", GoogleGenAIByUrl),
    "adk": ("google.adk", GoogleADK),
}
# Clients that take no transport, and are served by a gateway.
BASE_URL_ONLY = {"dspy", "crewai", "google-genai-url"}
