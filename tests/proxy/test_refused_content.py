"""Content that a provider refuses, behind the drop-in endpoints: the client sends its whole history every time."""

import asyncio
import base64
import json
from typing import Any

import anthropic
import openai
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from holdfast.core.limits.bounds import Bounds
from holdfast.models.fake import Simulation
from holdfast.runtime.clock import SystemClock
from holdfast.stores.memory import MemoryStore
from holdfast.types.faults import Confidence, FaultKind
from holdfast.types.records import AttemptFailed, CompactionApplied, MessageExcluded
from tests.e2e.images import a_png
from tests.proxy.proxies import DropInRunning, a_dropin

BOUNDS = Bounds(back_off_seconds_min=0.0001, back_off_seconds_max=0.001)
POISON = "zqxj"
IMAGE = base64.b64encode(a_png(width=3, height=3)).decode()
# Requests to the provider for one request of a client: as for a native message.
CALLS_MAX = 18
WORDS = ("content-filter", "bad-request", "bare-400", "template-500")


class Agent:
    """A client that keeps its own history, in one of the ways that clients keep a message that failed."""

    def __init__(self, dialect: str, keeps: str) -> None:
        self.dialect, self.keeps = dialect, keeps
        self.messages: list[Any] = []

    def says(self, content: Any) -> None:
        """Add a message of the person."""
        last = self.messages[-1] if self.messages else {}
        if self.keeps == "merges" and last.get("role") == "user" and not _is_result(last):
            last["content"] = [*_blocks(last["content"]), *_blocks(content)]
        else:
            self.messages.append({"role": "user", "content": content})

    def looks(self, *results: str) -> None:
        """Add parallel calls of a tool and their results, as if the last answer had asked for them."""
        ids = [f"toolu_{len(self.messages)}_{place}" for place in range(len(results))]
        if self.dialect == "openai":
            calls = [{"id": one, "type": "function", "function": {"name": "look", "arguments": "{}"}} for one in ids]
            self.messages.append({"role": "assistant", "content": None, "tool_calls": calls})
            for one, result in zip(ids, results, strict=True):
                self.messages.append({"role": "tool", "tool_call_id": one, "content": result})
        else:
            uses = [{"type": "tool_use", "id": one, "name": "look", "input": {}} for one in ids]
            self.messages.append({"role": "assistant", "content": uses})
            blocks = [
                {"type": "tool_result", "tool_use_id": one, "content": result}
                for one, result in zip(ids, results, strict=True)
            ]
            self.messages.append({"role": "user", "content": blocks})

    async def ask(self, running: DropInRunning) -> bool:
        """Send the history; add the answer to it, and return whether there was one."""
        try:
            if self.dialect == "openai":
                tools: Any = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
                chat = await running.openai.chat.completions.create(model="sim", messages=self.messages, tools=tools)
                answer: Any = chat.choices[0].message.content
            else:
                tools = [{"name": "look", "input_schema": {"type": "object"}}]
                message = await running.anthropic.messages.create(
                    model="sim", max_tokens=200, messages=self.messages, tools=tools
                )
                answer = "".join(getattr(block, "text", "") for block in message.content)
        except (openai.APIStatusError, anthropic.APIStatusError):
            if self.keeps == "drops":
                self.messages.pop()
            return False
        self.messages.append({"role": "assistant", "content": answer})
        return True


class GeminiAgent(Agent):
    """A client of generateContent, which streams every other answer. A blocked prompt has no candidates."""

    def __init__(self, keeps: str) -> None:
        super().__init__("gemini", keeps)
        self._asked = 0

    def says(self, content: Any) -> None:
        """Add a message of the person."""
        parts = [{"text": content}] if isinstance(content, str) else content
        last = self.messages[-1] if self.messages else {}
        if self.keeps == "merges" and last.get("role") == "user" and "functionResponse" not in last["parts"][0]:
            last["parts"] = [*last["parts"], *parts]
        else:
            self.messages.append({"role": "user", "parts": parts})

    def looks(self, *results: str) -> None:
        """Add parallel calls of a tool and their results, without ids."""
        calls = [{"functionCall": {"name": "look", "args": {}}} for _ in results]
        answers = [{"functionResponse": {"name": "look", "response": {"output": result}}} for result in results]
        self.messages += [{"role": "model", "parts": calls}, {"role": "user", "parts": answers}]

    async def ask(self, running: DropInRunning) -> bool:
        """Send the history; add the answer to it, and return whether there was one."""
        self._asked += 1
        method = "generateContent" if self._asked % 2 else "streamGenerateContent?alt=sse"
        tools = [{"functionDeclarations": [{"name": "look", "parametersJsonSchema": {"type": "object"}}]}]
        url = f"{running.url}/v1beta/models/sim:{method}"
        body = {"contents": self.messages, "tools": tools, "generationConfig": {"maxOutputTokens": 200}}
        async with running.http.post(url, json=body, headers={"x-goog-api-key": "AIza-k"}) as response:
            text = await response.text()
        events = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")] or [text]
        candidates = [one for event in events for one in json.loads(event).get("candidates") or ()]
        if response.status != 200 or not candidates:
            if self.keeps == "drops":
                self.messages.pop()
            return False
        said = "".join(part.get("text", "") for one in candidates for part in one["content"]["parts"])
        self.messages.append({"role": "model", "parts": [{"text": said}]})
        return True


DIALECTS = ["openai", "anthropic", "gemini"]


def an_agent(dialect: str, keeps: str = "keeps") -> Agent:
    """Return a client of a dialect."""
    return GeminiAgent(keeps) if dialect == "gemini" else Agent(dialect, keeps)


def _is_result(message: dict[str, Any]) -> bool:
    content = message.get("content")
    return isinstance(content, list) and any(block["type"] == "tool_result" for block in content)


def _blocks(content: Any) -> list[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _picture(dialect: str) -> Any:
    if dialect == "gemini":
        return [{"inlineData": {"mimeType": "image/png", "data": IMAGE}}, {"text": "what is in the picture?"}]
    text = {"type": "text", "text": "what is in the picture?"}
    if dialect == "openai":
        return [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{IMAGE}"}}, text]
    return [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": IMAGE}}, text]


@settings(max_examples=60, deadline=None, derandomize=True, phases=[Phase.explicit, Phase.generate])
@given(
    dialect=st.sampled_from(DIALECTS),
    keeps=st.sampled_from(["keeps", "merges", "drops"]),
    word=st.sampled_from(WORDS),
    bad=st.sampled_from(["text", "result", "image"]),
    before=st.integers(0, 2),
    restarts=st.lists(st.booleans(), min_size=8, max_size=8),
)
def test_every_message_after_refused_content_is_answered_although_the_client_sends_it_again(
    dialect: str, keeps: str, word: str, bad: str, before: int, restarts: list[bool]
) -> None:
    """Over restarts of the gateway, which keeps nothing but its store."""
    simulation = Simulation()
    trigger = IMAGE if bad == "image" else POISON
    simulation.set_refused({trigger: word})
    agent = an_agent(dialect, keeps)

    async def talk() -> None:
        store = MemoryStore(clock=SystemClock(), bounds=BOUNDS)
        steps = [*["before"] * before, "bad", *["after"] * 3]
        answered: list[bool] = []
        calls: list[int] = []
        while len(answered) < len(steps):
            async with a_dropin(simulation, store=store, bounds=BOUNDS) as running:
                while len(answered) < len(steps):
                    step, seen = steps[len(answered)], simulation.request_count
                    if step == "bad":
                        agent.says({"text": f"about {POISON}", "result": "read it"}.get(bad) or _picture(dialect))
                        if bad == "result":
                            agent.looks(f"line one\n{POISON} line two")
                    else:
                        agent.says(f"{step} {len(answered)}")
                    answered.append(await agent.ask(running))
                    calls.append(simulation.request_count - seen)
                    if restarts[len(answered)]:
                        break
        harmless = answered[:before] + answered[before + 1 :]
        assert all(harmless), (answered, agent.messages)
        assert max(calls) <= CALLS_MAX, calls
        if bad != "text":
            assert answered[before], "answered without it"

    asyncio.run(talk())


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_client_that_asks_again_after_a_refusal_sees_the_providers_error_again(dialect: str) -> None:
    simulation = Simulation()
    simulation.set_refused({POISON: "content-filter"})
    agent = an_agent(dialect)
    async with a_dropin(simulation, bounds=BOUNDS) as running:
        agent.says("hello")
        assert await agent.ask(running)
        agent.says(f"about {POISON}")
        assert [await agent.ask(running) for _ in range(3)] == [False, False, False]
        agent.says("something else")
        assert await agent.ask(running)
        records = [record for key in await running.sessions() for record in await running.records(key)]
        last = simulation.requests[-1].body
    assert any(isinstance(record, MessageExcluded) for record in records)
    assert POISON.encode() not in last
    assert b"is left out here" in last


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("word", WORDS)
async def test_one_refused_result_among_parallel_ones_is_left_out_alone(dialect: str, word: str) -> None:
    simulation = Simulation()
    simulation.set_refused({POISON: word})
    agent = an_agent(dialect)
    async with a_dropin(simulation, bounds=BOUNDS) as running:
        agent.says("look around")
        agent.looks("a calm sea", f"line one {POISON} line two", "two gulls")
        assert await agent.ask(running)
        last = simulation.requests[-1].body
        agent.says("something else")
        assert await agent.ask(running)
        later = simulation.requests[-1].body
    for body in (last, later):
        assert (b"a calm sea" in body, b"two gulls" in body, POISON.encode() in body) == (True, True, False)
        assert body.count(b"is left out here") == 1


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_refusal_without_a_reason_of_what_has_grown_is_tried_again_unchanged_first(dialect: str) -> None:
    """The overflow is a guess: a glitch costs one more call and nothing of the view, also behind the proxy."""
    simulation = Simulation()
    agent = an_agent(dialect)
    async with a_dropin(simulation, bounds=BOUNDS) as running:
        agent.says("hello")
        assert await agent.ask(running)
        agent.says("word " * 6_900)
        simulation.set_faults("bare-400")
        assert await agent.ask(running)
        first, second = (seen.body for seen in list(simulation.requests)[-2:])
        records = [record for key in await running.sessions() for record in await running.records(key)]
    assert first == second
    (failed,) = (record for record in records if isinstance(record, AttemptFailed))
    assert (failed.fault.kind, failed.fault.confidence) == (FaultKind.TOKEN_OVERFLOW, Confidence.GUESS)
    assert not any(isinstance(record, CompactionApplied) for record in records)
