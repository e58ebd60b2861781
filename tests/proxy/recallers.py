"""Clients of all dialects, streaming and not, which keep what their SDK gives them and send it back."""

import json
from dataclasses import dataclass, field
from typing import Any

from holdfast.models.fake import Simulation
from holdfast.types.limits import Limits
from tests.proxy.proxies import DropInRunning

DIALECTS = ["chat", "responses", "anthropic", "gemini"]
SCHEMA: Any = {"type": "object", "properties": {}}
WINDOW = Limits(window_tokens=4_000, output_tokens_max=800)
FILLER = "the crew writes down what it saw on this day and what it means to do on the next. " * 12


def forgetful(limits: Limits = WINDOW) -> Simulation:
    """Return a provider that writes no summaries, so that the past is a digest without most of the facts."""
    simulation = Simulation(limits)
    simulation.summary_tokens_max = 0
    return simulation


def fact(number: int) -> tuple[str, str]:
    return f"berth-{number}", f"Quay{number * 7919 % 10_007}"


def a_past(messages: int = 40) -> list[Any]:
    """Return a conversation far larger than the window, with six facts in each message of the person."""
    past: list[Any] = []
    for number in range(messages):
        facts = " ".join("remember {} = {};".format(*fact(number * 6 + place)) for place in range(6))
        past += [{"role": "user", "content": f"{facts} {FILLER}"}, {"role": "assistant", "content": "Noted."}]
    return past


def tool(dialect: str, name: str) -> Any:
    if dialect == "anthropic":
        return {"name": name, "description": "A tool.", "input_schema": SCHEMA}
    if dialect == "gemini":
        return {"functionDeclarations": [{"name": name, "description": "A tool.", "parametersJsonSchema": SCHEMA}]}
    function = {"name": name, "description": "A tool.", "parameters": SCHEMA}
    return {"type": "function", "function": function} if dialect == "chat" else {"type": "function", **function}


def gemini_contents(messages: list[Any]) -> list[Any]:
    """Return messages of a person and contents of a model as Gemini's clients send them."""
    roles = {"user": "user", "assistant": "model"}
    return [
        {"role": roles[one["role"]], "parts": [{"text": one["content"]}]} if "content" in one else one
        for one in messages
    ]


@dataclass
class Answer:
    """An answer as a client has it."""

    text: str
    # Id and name of each call.
    calls: list[tuple[str, str]]
    stop: str
    tokens: tuple[int, int]
    reasoning: int = 0


@dataclass
class Recaller:
    """A client with tools of its own."""

    running: DropInRunning
    dialect: str
    is_streamed: bool = False
    tools: list[str] = field(default_factory=lambda: ["depth"])
    messages: list[Any] = field(default_factory=a_past)
    more: dict[str, Any] = field(default_factory=dict)

    async def ask(self, text: str) -> Answer:
        self.messages.append({"role": "user", "content": text})
        return await self.go_on()

    async def returns(self, answer: Answer, text: str) -> Answer:
        """Send the results of all calls of an answer."""
        if self.dialect == "anthropic":
            results = [{"type": "tool_result", "tool_use_id": call_id, "content": text} for call_id, _ in answer.calls]
            self.messages.append({"role": "user", "content": results})
        elif self.dialect == "gemini":
            named = [{"id": call_id, "name": name, "response": {"output": text}} for call_id, name in answer.calls]
            self.messages.append({"role": "user", "parts": [{"functionResponse": one} for one in named]})
        elif self.dialect == "chat":
            self.messages += [{"role": "tool", "tool_call_id": call_id, "content": text} for call_id, _ in answer.calls]
        else:
            self.messages += [
                {"type": "function_call_output", "call_id": call_id, "output": text} for call_id, _ in answer.calls
            ]
        return await self.go_on()

    async def go_on(self) -> Answer:
        settings: dict[str, Any] = {"model": "sim", **self.more}
        if self.tools:
            settings["tools"] = [tool(self.dialect, name) for name in self.tools]
        match self.dialect:
            case "chat":
                return await self._chat(settings)
            case "responses":
                return await self._responses(settings)
            case "gemini":
                return await self._gemini(settings)
            case _:
                return await self._anthropic(settings)

    async def _chat(self, settings: dict[str, Any]) -> Answer:
        settings |= {"messages": self.messages, "max_tokens": 300}
        api = self.running.openai.chat.completions
        if self.is_streamed:
            async with api.stream(**settings, stream_options={"include_usage": True}) as stream:
                async for _ in stream:
                    pass
                reply: Any = await stream.get_final_completion()
        else:
            reply = await api.create(**settings)
        message = reply.choices[0].message
        calls = message.tool_calls or []
        sent: dict[str, Any] = {"role": "assistant", "content": message.content}
        if calls:
            sent["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.function.name, "arguments": call.function.arguments},
                }
                for call in calls
            ]
        self.messages.append(sent)
        return Answer(
            message.content or "",
            [(call.id, call.function.name) for call in calls],
            reply.choices[0].finish_reason,
            (reply.usage.prompt_tokens, reply.usage.completion_tokens),
        )

    async def _responses(self, settings: dict[str, Any]) -> Answer:
        settings |= {"input": self.messages, "max_output_tokens": 300, "store": False}
        if self.is_streamed:
            async with self.running.openai.responses.stream(**settings) as stream:
                async for _ in stream:
                    pass
                reply: Any = await stream.get_final_response()
        else:
            reply = await self.running.openai.responses.create(**settings)
        parts = [part.to_dict() for part in reply.output]
        for part in parts:
            part.pop("parsed_arguments", None)
            for piece in part.get("content") or ():
                piece.pop("parsed", None)
        self.messages += parts
        calls = [(part["call_id"], part["name"]) for part in parts if part["type"] == "function_call"]
        return Answer(
            reply.output_text,
            calls,
            reply.status,
            (reply.usage.input_tokens, reply.usage.output_tokens),
            sum(part["type"] == "reasoning" for part in parts),
        )

    async def _anthropic(self, settings: dict[str, Any]) -> Answer:
        asked: dict[str, Any] = {"messages": self.messages, "max_tokens": 300, **settings}
        if self.is_streamed:
            async with self.running.anthropic.messages.stream(**asked) as stream:
                reply: Any = await stream.get_final_message()
        else:
            reply = await self.running.anthropic.messages.create(**asked)
        parts = [part.to_dict() for part in reply.content]
        for part in parts:
            part.pop("parsed_output", None)
        self.messages.append({"role": "assistant", "content": parts})
        usage = reply.usage
        cached = (usage.cache_read_input_tokens or 0) + (usage.cache_creation_input_tokens or 0)
        return Answer(
            "".join(part["text"] for part in parts if part["type"] == "text"),
            [(part["id"], part["name"]) for part in parts if part["type"] == "tool_use"],
            reply.stop_reason,
            (usage.input_tokens + cached, usage.output_tokens),
            sum("thinking" in part["type"] for part in parts),
        )

    async def _gemini(self, settings: dict[str, Any]) -> Answer:
        """Ask without the official client, which needs an environment of its own: make adapters/clients."""
        generation = {"maxOutputTokens": 300, **settings.pop("generationConfig", {})}
        body = {**settings, "contents": gemini_contents(self.messages), "generationConfig": generation}
        body.pop("model")
        method = "streamGenerateContent?alt=sse" if self.is_streamed else "generateContent"
        headers = {"x-goog-api-key": "AIza-the-clients-own-key"}
        url = f"{self.running.url}/v1beta/models/sim:{method}"
        async with self.running.http.post(url, json=body, headers=headers) as response:
            raw = (await response.read()).decode()
            assert response.status == 200, raw
        events = [json.loads(line[5:]) for line in raw.splitlines() if line.startswith("data:")] or [json.loads(raw)]
        contents = [one["candidates"][0]["content"] for one in events]
        # As the official client does: one content for each event.
        self.messages += [one for one in contents if one["parts"]]
        parts = [part for one in contents for part in one["parts"]]
        calls = [part["functionCall"] for part in parts if "functionCall" in part]
        usage = events[-1]["usageMetadata"]
        return Answer(
            "".join(part.get("text", "") for part in parts if not part.get("thought")),
            [(call["id"], call["name"]) for call in calls],
            events[-1]["candidates"][0]["finishReason"],
            (usage["promptTokenCount"], usage["candidatesTokenCount"]),
            sum("thoughtSignature" in part for part in parts),
        )
