"""Behind the drop-in endpoints no wrong belief lasts either, over restarts and in two gateways on one store."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.models.fake import Simulation
from holdfast.models.fake.server import serve_simulation
from holdfast.models.transport import HttpResponse
from holdfast.runtime.engine.learning import LEARNED_KEY, Learning
from holdfast.stores.memory import MemoryStore
from holdfast.testing.builders import ManualClock
from holdfast.types.limits import Evidence, Learned, Limits
from holdfast.types.records import AttemptFailed, LimitsLearned
from tests.proxy.proxies import DropInRunning, a_dropin

LARGE = Limits(window_tokens=200_000)


async def _learned(running: DropInRunning) -> list[Learned]:
    return list((await Learning(running.engine.store).everything()).values())


async def _asked(running: DropInRunning, messages: list[Any], **settings: Any) -> str:
    """Send a conversation, and add the answer to it."""
    completion = await running.openai.chat.completions.create(model="sim", messages=messages, **settings)
    text = completion.choices[0].message.content or ""
    messages.append({"role": "assistant", "content": text})
    return text


# Clients of OpenAI's chat completions and of Gemini's generateContent.
DIALECTS = ["chat", "gemini"]
_ROLES = {"user": "user", "assistant": "model"}
# Settings of the chat dialect by their names in Gemini's.
_GEMINI_SETTINGS = {"max_tokens": "maxOutputTokens", "top_p": "topP"}


class Conversation:
    """A client that keeps its history and sends it with each message."""

    def __init__(self, dialect: str = "chat") -> None:
        self.dialect = dialect
        self.messages: list[Any] = []

    def says(self, text: str, role: str = "user") -> None:
        """Add a message."""
        if self.dialect == "gemini":
            self.messages.append({"role": _ROLES[role], "parts": [{"text": text}]})
        else:
            self.messages.append({"role": role, "content": text})

    def looks(self, number: int, result: str) -> None:
        """Add a tool call and its result."""
        if self.dialect == "gemini":
            call = {"functionCall": {"name": "look", "args": {}}}
            answer = {"functionResponse": {"name": "look", "response": {"output": result}}}
            self.messages += [{"role": "model", "parts": [call]}, {"role": "user", "parts": [answer]}]
            return
        made = {"id": f"call_{number}", "type": "function", "function": {"name": "look", "arguments": "{}"}}
        self.messages.append({"role": "assistant", "content": None, "tool_calls": [made]})
        self.messages.append({"role": "tool", "tool_call_id": made["id"], "content": result})

    async def asks(self, running: DropInRunning, **settings: Any) -> str:
        """Send the conversation, and add the answer to it."""
        if self.dialect == "chat":
            return await _asked(running, self.messages, **settings)
        config = {_GEMINI_SETTINGS.get(name, name): value for name, value in settings.items()}
        body = {"contents": self.messages, **({"generationConfig": config} if config else {})}
        url = f"{running.url}/v1beta/models/sim:generateContent"
        async with running.http.post(url, json=body, headers={"x-goog-api-key": "AIza-k"}) as response:
            assert response.status == 200, await response.text()
            read = await response.json()
        text = "".join(part["text"] for part in read["candidates"][0]["content"]["parts"])
        self.says(text, "assistant")
        return text


def _sent(running: DropInRunning) -> Any:
    body = json.loads(running.sent[-1])
    return body.get("messages") or body["contents"]


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_usage_without_cached_tokens_changes_no_request_in_any_gateway(dialect: str) -> None:
    store, simulation = MemoryStore(clock=ManualClock()), Simulation(LARGE)
    simulation.set_faults("uncached*1000")
    async with serve_simulation(simulation) as url:
        for opened in range(2):
            async with a_dropin(simulation, store=store, upstream_url=url) as running:
                conversation = Conversation(dialect)
                conversation.says(f"conversation {opened}: hello")
                await conversation.asks(running)
                for turn in range(8):
                    conversation.says(f"{turn} " + "word " * (1_650 + 20 * (turn % 2)))
                    assert await conversation.asks(running)
                    assert _sent(running) == conversation.messages[:-1], "forwarded as it came"
                (learned,) = await _learned(running)
                assert (learned.claims, learned.window_tokens) == ((), None)
    assert {seen.status for seen in simulation.requests} == {200}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("is_rescued", [False, True])
async def test_tool_output_of_one_repeated_letter_is_answered_each_time(dialect: str, *, is_rescued: bool) -> None:
    """The estimate of such text is far too high. Seven of eleven messages died when an answer was cut for that."""
    simulation = Simulation(LARGE)
    async with a_dropin(simulation) as running:
        conversation = Conversation(dialect)
        conversation.says("look around")
        if is_rescued:
            # From here on the conversation is answered from the session's own view.
            for turn in range(4):
                conversation.says(f"room {turn} is empty", "assistant")
                conversation.says(f"{turn} " + "word " * 900)
            simulation.set_faults("overflow:limit=4000")
        for number in range(11):
            conversation.looks(number, "a" * 9_000 * (1 + number % 3))
            assert await conversation.asks(running)
            conversation.says(f"and room {number}?")
        for learned in await _learned(running):
            assert learned.window_tokens in ((4_000,) if is_rescued else (None,))
        records = [one for key in await running.sessions() for one in await running.records(key)]
        failed = [one for one in records if isinstance(one, AttemptFailed) and one.refusal.status == 200]
        assert failed == [], "no answer was discarded"


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("fault", ["output-cap:limit=512", "count-cap", "pixel-range"])
async def test_a_refusal_whose_numbers_are_about_something_else_teaches_no_window_bytes_or_pixels(
    fault: str, dialect: str
) -> None:
    simulation = Simulation(Limits(128_000))
    async with a_dropin(simulation) as running:
        conversation = Conversation(dialect)
        conversation.says("remember port = 8080. " + "word " * 6_000)
        await conversation.asks(running, max_tokens=2_000)
        conversation.says("what is port?")
        simulation.set_faults(fault)
        assert "8080" in await conversation.asks(running, max_tokens=2_000)
        for learned in await _learned(running):
            assert (learned.window_tokens, learned.wire_bytes_max, learned.media_pixels_max) == (None, None, None)


async def test_a_reasoning_effort_that_a_model_refuses_is_left_out_of_other_conversations() -> None:
    store, simulation = MemoryStore(clock=ManualClock()), Simulation(LARGE)
    simulation.set_refused({'"reasoning_effort"': "reasoning-400"})
    async with a_dropin(simulation, store=store) as running:
        for conversation in range(2):
            messages: list[Any] = [{"role": "user", "content": f"conversation {conversation}: hello"}]
            assert await _asked(running, messages, reasoning_effort="high")
        async with a_dropin(simulation, store=store, upstream_url=running.upstream_url) as other:
            messages = [{"role": "user", "content": "behind another gateway: hello"}]
            assert await _asked(other, messages, reasoning_effort="high")
        claims = [claim for learned in await _learned(running) for claim in learned.claims]
    assert [(one.limit, one.value, one.evidence) for one in claims] == [("reasoning_effort", 0, Evidence.LEFT_OUT)]
    assert [seen.status for seen in simulation.requests].count(400) == 1


SETTINGS: dict[str, Any] = {"max_tokens": 100, "temperature": 0.2, "top_p": 0.9, "seed": 7, "service_tier": "flex"}


async def test_parameters_that_a_model_refuses_are_left_out_of_every_later_request() -> None:
    """A client sends them each time; the provider saw a refused request for each before."""
    store, simulation = MemoryStore(clock=ManualClock()), Simulation(LARGE)
    simulation.refused_parameters = ("temperature", "max_tokens", "seed")
    async with a_dropin(simulation, store=store) as running:
        messages: list[Any] = [{"role": "user", "content": "hello"}]
        for turn in range(3):
            assert await _asked(running, messages, **SETTINGS)
            messages.append({"role": "user", "content": f"turn {turn}"})
        async with a_dropin(simulation, store=store, upstream_url=running.upstream_url) as other:
            messages = [{"role": "user", "content": "behind another gateway: hello"}]
            answer = await other.openai.chat.completions.with_raw_response.create(
                model="sim", messages=messages, **SETTINGS
            )
            assert answer.headers["x-holdfast-rescued"] == "parameter_dropped"
            assert "max_tokens, seed, temperature" in answer.headers["x-holdfast-notice"]
        claims = [(claim.limit, claim.value) for learned in await _learned(running) for claim in learned.claims]
    assert claims == [("temperature", 0), ("max_tokens", 0), ("seed", 0)]
    assert [seen.status for seen in simulation.requests] == [400, 400, 400, 200, 200, 200, 200]
    last = json.loads(simulation.requests[-1].body)
    kept = {"max_completion_tokens": 100, "top_p": 0.9, "service_tier": "flex"}
    assert last == {"model": "sim", "messages": messages} | kept


async def test_a_refused_parameter_of_the_anthropic_api_is_left_out_of_later_streams() -> None:
    store, simulation = MemoryStore(clock=ManualClock()), Simulation(LARGE)
    simulation.refused_parameters = ("temperature",)
    async with a_dropin(simulation, store=store) as running:
        for turn in range(3):
            stream = await running.anthropic.messages.create(
                model="sim",
                max_tokens=100,
                extra_body={"temperature": 0.5},
                messages=[{"role": "user", "content": f"hello {turn}"}],
                stream=True,
            )
            assert [event.type async for event in stream][-1] == "message_stop"
    assert [seen.status for seen in simulation.requests] == [400, 200, 200, 200]


@pytest.mark.parametrize("method", ["generateContent", "streamGenerateContent", "streamGenerateContent?alt=sse"])
async def test_refused_parameters_of_the_gemini_api_are_left_out_of_later_requests(method: str) -> None:
    store, simulation = MemoryStore(clock=ManualClock()), Simulation(LARGE)
    simulation.refused_parameters = ("topK", "seed", "reasoning_effort")
    config = {"temperature": 0.2, "topK": 4, "seed": 7, "thinkingConfig": {"thinkingBudget": 64}}
    async with serve_simulation(simulation) as url:
        for opened in range(2):
            # The first gateway learns from one request; the second reads it from the store.
            async with a_dropin(simulation, store=store, upstream_url=url) as running:
                for turn in range(1 + opened):
                    contents = [{"role": "user", "parts": [{"text": f"conversation {opened}, hello {turn}"}]}]
                    address = f"{running.url}/v1beta/models/sim:{method}"
                    body = {"contents": contents, "generationConfig": config}
                    async with running.http.post(address, json=body, headers={"x-goog-api-key": "AIza-k"}) as response:
                        assert response.status == 200, await response.text()
                    assert json.loads(running.sent[-1])["generationConfig"] == {"temperature": 0.2}
    assert [seen.status for seen in simulation.requests] == [400, 400, 400, 200, 200, 200]


class _LateRefusal(Simulation):
    """A provider whose refusal of a late conversation arrives when a test lets it."""

    def __init__(self) -> None:
        super().__init__(LARGE)
        self.refused_parameters = ("top_p", "topP")
        self.may_refuse = asyncio.Event()

    def respond(self, dialect: str, body: bytes, path: str = "") -> HttpResponse:
        response = super().respond(dialect, body, path)
        is_late = b"late" in body and response.status == 400
        return replace(response, chunks=self._held(response.chunks)) if is_late else response

    async def _held(self, chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
        await self.may_refuse.wait()
        async for chunk in chunks:
            yield chunk


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_request_that_is_refused_after_another_has_learned_why_is_sent_again_without_the_parameter(
    dialect: str,
) -> None:
    simulation = _LateRefusal()
    first, late = Conversation(dialect), Conversation(dialect)
    async with a_dropin(simulation) as running:
        late.says("a late one")
        waiting = asyncio.create_task(late.asks(running, top_p=0.5))
        await simulation.was_called.wait()
        for text in ("hello", "and again"):
            first.says(text)
            await first.asks(running, top_p=0.5)
        assert simulation.requests[-1].status == simulation.requests[-2].status == 200, "it is learned"
        simulation.may_refuse.set()
        assert "a late one" in await waiting
    assert [seen.status for seen in simulation.requests] == [400, 400, 200, 200, 200]


async def test_a_claim_about_a_clients_parameter_is_tested_when_it_is_old() -> None:
    store, simulation = MemoryStore(clock=ManualClock()), Simulation(LARGE)
    simulation.refused_parameters = ("top_p",)
    async with a_dropin(simulation, store=store) as running:
        messages: list[Any] = [{"role": "user", "content": "hello"}]
        await _asked(running, messages, top_p=0.5)
        ((issuer, learned),) = (await Learning(store).everything()).items()
        old = tuple(replace(claim, at=1.0, confirmed_at=1.0) for claim in learned.claims)
        await store.admit(LEARNED_KEY, LimitsLearned(issuer, replace(learned, claims=old)))
        simulation.refused_parameters = ()
        async with a_dropin(simulation, store=store, upstream_url=running.upstream_url) as later:
            messages = [{"role": "user", "content": "some months later"}]
            await _asked(later, messages, top_p=0.5)
            assert json.loads(simulation.requests[-1].body)["top_p"] == 0.5
            assert [claim for learned in await _learned(later) for claim in learned.claims] == []
