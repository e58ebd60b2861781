"""Instructions that agents send at the head of every request stay verbatim, whatever was done to the rest."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.limits.bounds import Bounds
from holdfast.models.fake import Simulation
from holdfast.runtime.clock import SystemClock
from holdfast.stores.memory import MemoryStore
from holdfast.types.limits import Limits
from holdfast.types.records import CompactionApplied, GenerationStarted, OutputMasked, PartReplaced, TurnEnded
from tests.proxy.proxies import DropInRunning, a_dropin

WINDOW = Limits(window_tokens=9_000, output_tokens_max=1_000)
RULES = tuple(
    f"- Rule {number}: the folder harbour-{number} is written by crew {number * 7} only." for number in range(40)
)
FILLER = "the crew writes down what it saw on this day and what it means to do on the next. " * 40
RECORDED: dict[str, Any] = json.loads((Path(__file__).parents[1] / "recorded" / "agent_heads.json").read_text())


def _with_rules(recorded: Any, rules: str) -> Any:
    return json.loads(json.dumps(recorded).replace("RULES", json.dumps(f"# Project rules\n{rules}\n")[1:-1]))


class Agent:
    """A client that keeps its history, and writes its head anew into every request."""

    path = "v1/messages"

    def __init__(self) -> None:
        self.rules = "\n".join(RULES)
        self.history: list[Any] = []

    def head(self) -> list[Any]:
        """Return the messages before the history."""
        return []

    def body(self) -> dict[str, Any]:
        """Return the request for the history so far."""
        first, *rest = self.history
        lead = self.head()
        content = [*lead[0]["content"], {"type": "text", "text": first["content"]}]
        messages = [{"role": "user", "content": content}, *lead[1:], *rest]
        return {"model": "sim", "max_tokens": 300, "system": "Be brief.", "messages": messages}

    def answer(self, reply: Any) -> str:
        """Return the text of a response."""
        return str(reply["content"][0]["text"])

    def result(self, number: int, text: str) -> list[Any]:
        """Return a step of work: a call and its result."""
        call = {"type": "tool_use", "id": f"toolu_{number}", "name": "look", "input": {}}
        result = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": text}
        return [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]

    async def say(self, running: DropInRunning, text: str, status: int = 200) -> str:
        """Ask something and return the answer; "" if it was answered with another status, as expected."""
        self.history.append({"role": "user", "content": text})
        headers = {"authorization": "Bearer sk-the-clients-own-key"}
        url = f"{running.url}/{self.path}"
        async with running.http.post(url, json=self.body(), headers=headers) as response:
            reply = await response.json()
            assert response.status == status, reply
        if status != 200:
            self.history.pop()
            return ""
        self.history.append({"role": "assistant", "content": self.answer(reply)})
        return self.answer(reply)


class ClaudeCode(Agent):
    """The first message has a reminder with CLAUDE.md before the person's words, and a system message after them."""

    def head(self) -> list[Any]:
        recorded = RECORDED["claude_code"]["messages"][:2]
        reminder, _ = _with_rules(recorded, self.rules)[0]["content"]
        return [{"role": "user", "content": [reminder]}, recorded[1]]


class Codex(Agent):
    """Developer messages, then a user message with AGENTS.md and the environment, then the person's first message."""

    path = "v1/responses"

    def head(self) -> list[Any]:
        return list(_with_rules(RECORDED["codex"]["input"][:3], self.rules))

    def body(self) -> dict[str, Any]:
        messages = [
            {"type": "message", "role": one["role"], "content": [{"type": f"{way}_text", "text": one["content"]}]}
            if isinstance(one.get("content"), str)
            else one
            for one in self.history
            for way in ("output" if one.get("role") == "assistant" else "input",)
        ]
        return {"model": "sim", "max_output_tokens": 300, "store": False, "input": [*self.head(), *messages]}

    def answer(self, reply: Any) -> str:
        return "".join(part["text"] for item in reply["output"] for part in item.get("content", ()))

    def result(self, number: int, text: str) -> list[Any]:
        call = {"type": "function_call", "call_id": f"call_{number}", "name": "look", "arguments": "{}"}
        return [call, {"type": "function_call_output", "call_id": f"call_{number}", "output": text}]


class ChatAgent(Agent):
    """An agent that no profile knows, over chat completions."""

    path = "v1/chat/completions"
    frame = "{rules}"

    def body(self) -> dict[str, Any]:
        first, *rest = self.history
        head = {"role": "user", "content": f"{self.frame.format(rules=self.rules)}\n\n{first['content']}"}
        return {
            "model": "sim",
            "max_tokens": 300,
            "messages": [{"role": "system", "content": "Be brief."}, head, *rest],
        }

    def answer(self, reply: Any) -> str:
        return str(reply["choices"][0]["message"]["content"])

    def result(self, number: int, text: str) -> list[Any]:
        call = {"id": f"call_{number}", "type": "function", "function": {"name": "look", "arguments": "{}"}}
        made = {"role": "assistant", "content": None, "tool_calls": [call]}
        return [made, {"role": "tool", "tool_call_id": f"call_{number}", "content": text}]


class Framed(ChatAgent):
    """Rules in a tag, in one text with the person's words."""

    frame = "<project_rules>\n{rules}\n</project_rules>"


class Separate(ChatAgent):
    """Rules without any frame, in a user message of their own."""

    def body(self) -> dict[str, Any]:
        head = {"role": "user", "content": f"Mind these:\n{self.rules}"}
        return {"model": "sim", "max_tokens": 300, "messages": [head, *self.history]}


class GeminiCli(Agent):
    """The session's context in a content of its own before the person's first, and the model in the path."""

    path = "v1beta/models/sim:generateContent"
    stream_path = "v1beta/models/sim:streamGenerateContent"

    def head(self) -> list[Any]:
        text = f"<session_context>\nThis is the Gemini CLI.\n# Project rules\n{self.rules}\n</session_context>"
        return [{"role": "user", "parts": [{"text": text}]}]

    def body(self) -> dict[str, Any]:
        roles = {"user": "user", "assistant": "model"}
        contents = [
            {"role": roles[one["role"]], "parts": [{"text": one["content"]}]} if "content" in one else one
            for one in self.history
        ]
        return {
            "systemInstruction": {"parts": [{"text": "Be brief."}]},
            "contents": [*self.head(), *contents],
            "generationConfig": {"maxOutputTokens": 300},
        }

    def answer(self, reply: Any) -> str:
        responses = reply if isinstance(reply, list) else [reply]
        candidates = [one for response in responses for one in response["candidates"]]
        return "".join(part["text"] for one in candidates for part in one["content"]["parts"])

    def result(self, number: int, text: str) -> list[Any]:
        call = {"functionCall": {"name": "look", "args": {"room": number}}}
        answer = {"functionResponse": {"name": "look", "response": {"output": text}}}
        return [{"role": "model", "parts": [call]}, {"role": "user", "parts": [answer]}]

    async def say(self, running: DropInRunning, text: str, status: int = 200) -> str:
        """Every other answer is a stream, without `alt=sse` one JSON list."""
        self.path, self.stream_path = self.stream_path, self.path
        return await super().say(running, text, status)


SHAPES: list[Callable[[], Agent]] = [ClaudeCode, Codex, Framed, GeminiCli]


def texts(body: bytes) -> list[str]:
    """Return all texts of a request's messages, in order."""
    found: list[str] = []

    def walk(node: Any) -> None:
        if isinstance(node, str):
            found.append(node)
        elif isinstance(node, list):
            for one in node:
                walk(one)
        elif isinstance(node, dict):
            for name in ("content", "parts", "text", "functionResponse", "response", "output"):
                walk(node.get(name))

    read = json.loads(body)
    walk(read.get("messages") or read.get("input") or read["contents"])
    return found


def forgotten(running: DropInRunning, rules: tuple[str, ...] = RULES) -> list[int]:
    """Return, for each accepted request that carries the conversation, how many rules it lacks."""
    answered = [
        seen for seen in running.simulation.requests if seen.status == 200 and b"<conversation>" not in seen.body
    ]
    return [sum(rule not in "\n".join(texts(seen.body)) for rule in rules) for seen in answered]


def places(body: bytes) -> tuple[int, int]:
    """Return where the first rule and the text that represents the past stand."""
    read = "\n".join(texts(body))
    past = [read.find(mark) for mark in ("<summary", "<digest", "earlier", "summar") if mark in read]
    return read.find(RULES[0]), min(past, default=len(read))


async def _grow(running: DropInRunning, agent: Agent, rounds: int, first: int = 0) -> None:
    for number in range(first, first + rounds):
        await agent.say(running, f"remember fact{number} = value{number}\n{FILLER}")


@pytest.mark.parametrize("shape", [*SHAPES, Separate])
async def test_every_request_of_a_conversation_that_outgrows_the_window_has_all_rules(
    shape: Callable[[], Agent],
) -> None:
    window = Limits(window_tokens=24_000, output_tokens_max=1_000) if shape is Separate else WINDOW
    async with a_dropin(Simulation(window)) as running:
        agent = shape()
        await _grow(running, agent, 45 if shape is Separate else 14)
        (key,) = await running.sessions()
        records = await running.records(key)
        told = await agent.say(running, "what is fact0?")
        assert set(forgotten(running)) == {0}
        rule, past = places(running.sent[-1])
    assert sum(isinstance(record, CompactionApplied) for record in records) >= 2
    assert rule < past
    assert "value0" in told
    # They are not paid for twice: nothing that represents the past repeats them.
    assert not any(RULES[7] in record.summary for record in records if isinstance(record, CompactionApplied))


@pytest.mark.parametrize("shape", SHAPES)
async def test_rules_stay_when_no_model_summarises(shape: Callable[[], Agent]) -> None:
    simulation = Simulation(WINDOW)
    simulation.summary_tokens_max = 0
    async with a_dropin(simulation) as running:
        agent = shape()
        await _grow(running, agent, 12)
        assert set(forgotten(running)) == {0}
        (key,) = await running.sessions()
        records = await running.records(key)
    assert any(isinstance(record, CompactionApplied) for record in records)


@pytest.mark.parametrize("shape", SHAPES)
async def test_rules_stay_when_output_is_masked_and_the_newest_turn_is_cut(shape: Callable[[], Agent]) -> None:
    async with a_dropin(Simulation(WINDOW)) as running:
        agent = shape()
        agent.history.append({"role": "user", "content": "look into every room"})
        agent.history += [
            one for number in range(14) for one in agent.result(number, f"room {number}: {FILLER[:1500]}")
        ]
        await agent.say(running, "go on")
        agent.history.append({"role": "user", "content": "look again"})
        agent.history += [one for number in range(14, 30) for one in agent.result(number, f"room {number}: {FILLER}")]
        await agent.say(running, "and on")
        assert set(forgotten(running)) == {0}
        (key,) = await running.sessions()
        kinds = {type(record) for record in await running.records(key)}
    assert {OutputMasked, CompactionApplied} & kinds


@pytest.mark.parametrize("shape", SHAPES)
async def test_rules_stay_when_a_part_of_the_same_message_is_too_large(shape: Callable[[], Agent]) -> None:
    async with a_dropin(Simulation(WINDOW)) as running:
        agent = shape()
        await agent.say(running, "read this: " + FILLER * 30)
        await agent.say(running, "go on")
        assert set(forgotten(running)) == {0}
        (key,) = await running.sessions()
        replaced = [record for record in await running.records(key) if isinstance(record, PartReplaced)]
    assert replaced


@pytest.mark.parametrize("shape", [ClaudeCode, Codex, GeminiCli])
async def test_rules_stay_after_a_roll_over(shape: Callable[[], Agent]) -> None:
    """A provider that refuses everything until nothing but the newest message is left."""
    async with a_dropin(Simulation(WINDOW)) as running:
        agent = shape()
        await _grow(running, agent, 2)
        running.simulation.set_faults("overflow*40")
        await agent.say(running, "what is fact0?", 400)
        running.simulation.set_faults("")
        told = await agent.say(running, "what is fact0?")
        (key,) = await running.sessions()
        records = await running.records(key)
        assert set(forgotten(running)) == {0}
    assert any(isinstance(record, GenerationStarted) for record in records)
    assert "value0" in told


@pytest.mark.parametrize("shape", SHAPES)
async def test_a_fallback_model_gets_the_rules_too(shape: Callable[[], Agent]) -> None:
    async with a_dropin(Simulation(WINDOW), fallbacks=("sim-other",)) as running:
        agent = shape()
        await _grow(running, agent, 12)
        running.simulation.set_faults("429*4")
        await agent.say(running, "what is fact0?")
        assert running.simulation.requests[-1].model == "sim-other"
        assert set(forgotten(running)) == {0}


@pytest.mark.parametrize("shape", SHAPES)
async def test_rules_stay_after_a_restart_and_on_another_gateway(shape: Callable[[], Agent]) -> None:
    store = MemoryStore(clock=SystemClock(), bounds=Bounds())
    agent = shape()
    async with a_dropin(Simulation(WINDOW), store=store) as running:
        await _grow(running, agent, 12)
        keys = await running.sessions()
    async with a_dropin(Simulation(WINDOW), store=store) as first, a_dropin(Simulation(WINDOW), store=store) as second:
        await agent.say(first, "what is fact0?")
        await agent.say(second, "what is fact1?")
        await _grow(first, agent, 4, first=12)
        assert set(forgotten(first)) == set(forgotten(second)) == {0}
        assert await second.sessions() == keys


@pytest.mark.parametrize("shape", [ClaudeCode, Codex, GeminiCli])
async def test_edited_rules_replace_the_old_ones_in_the_same_session(shape: Callable[[], Agent]) -> None:
    async with a_dropin(Simulation(WINDOW)) as running:
        agent = shape()
        await _grow(running, agent, 12)
        edited = tuple(rule.replace("harbour", "basin") for rule in RULES)
        agent.rules = "\n".join(edited)
        before = len(running.sent)
        told = await agent.say(running, "what is fact0?")
        sent = "\n".join(text for body in running.sent[before:] for text in texts(body))
        keys = await running.sessions()
    assert len(keys) == 1
    assert "value0" in told
    assert [rule for rule in edited if rule not in sent] == []
    assert [rule for rule in RULES if rule in sent] == []


async def test_a_newer_environment_of_codex_replaces_the_first_once_it_is_summarised() -> None:
    newer = "<environment_context>\n  <cwd>/project/docs</cwd>\n</environment_context>"
    async with a_dropin(Simulation(WINDOW)) as running:
        agent = Codex()
        await _grow(running, agent, 2)
        agent.history.append({"role": "user", "content": newer})
        await _grow(running, agent, 12, first=2)
        read = "\n".join(texts(running.sent[-1]))
        assert set(forgotten(running)) == {0}
    assert read.count("<cwd>/project/docs</cwd>") == 1
    assert "<cwd>/project</cwd>" not in read


async def test_rules_stay_after_the_agents_own_compaction() -> None:
    async with a_dropin(Simulation(WINDOW)) as running:
        agent = ClaudeCode()
        await _grow(running, agent, 12)
        told = "This session is being continued from a previous conversation.\nSummary:\nfact0 = value0\n"
        agent.history = []
        await agent.say(running, told)
        await _grow(running, agent, 12, first=12)
        assert set(forgotten(running)) == {0}
        assert len(await running.sessions()) == 2


@pytest.mark.parametrize("shape", [ClaudeCode, Codex, GeminiCli])
async def test_rules_that_alone_exceed_the_window_are_named_as_the_reason(shape: Callable[[], Agent]) -> None:
    agent = shape()
    agent.rules = "\n".join(RULES * 20)
    async with a_dropin(Simulation(WINDOW)) as running:
        agent.history = [{"role": "user", "content": "hello"}]
        headers = {"authorization": "Bearer sk-the-clients-own-key"}
        async with running.http.post(f"{running.url}/{agent.path}", json=agent.body(), headers=headers) as response:
            assert response.status == 400
            told = response.headers["x-holdfast-notice"]
        (key,) = await running.sessions()
        ended = [record for record in await running.records(key) if isinstance(record, TurnEnded)]
    assert "shorten the instructions" in ended[-1].sentence
    assert told
