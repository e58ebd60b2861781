"""Behind the proxy the ladder of native sessions holds, and every decision is the log's."""

import asyncio
import json
from itertools import pairwise
from typing import Any

import aiohttp
import pytest

from holdfast.core.limits.bounds import Bounds
from holdfast.gateway.proxy.services import CLIENTS_KEY
from holdfast.models.fake import Simulation
from holdfast.runtime.clock import SystemClock
from holdfast.stores.memory import MemoryStore
from holdfast.types.limits import Limits
from holdfast.types.records import (
    AttemptFailed,
    ClientCompacted,
    ClientResumed,
    InputAdmitted,
    ReplyRecorded,
    TurnEnded,
)
from tests.proxy.proxies import NONE_AHEAD, DropInRunning, a_dropin
from tests.proxy.recallers import DIALECTS, Recaller

SMALL = Limits(window_tokens=4_000, output_tokens_max=800)
FILLER = "the crew writes down what it saw on this day and what it means to do on the next. " * 40
CODEX = "You are performing a CONTEXT CHECKPOINT COMPACTION. Create a handoff summary."
TOOLS: Any = [{"type": "function", "function": {"name": "depth", "parameters": {"type": "object"}}}]


def _call(call_id: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "depth", "arguments": "{}"}}


def _function_call(call_id: str | None) -> dict[str, Any]:
    return {"functionCall": {"name": "depth", "args": {}} | ({"id": call_id} if call_id else {})}


def _function_result(call_id: str | None) -> dict[str, Any]:
    named = {"name": "depth", "response": {"output": "12 fathoms"}} | ({"id": call_id} if call_id else {})
    return {"role": "user", "parts": [{"functionResponse": named}]}


async def _chat(running: DropInRunning, messages: list[Any], **more: Any) -> str:
    reply = await running.openai.chat.completions.create(model="sim", messages=messages, **more)
    return reply.choices[0].message.content or ""


def _sent(running: DropInRunning) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = json.loads(running.sent[-1])["messages"]
    return messages


@pytest.mark.parametrize(
    "orphan",
    [
        [{"role": "assistant", "content": None, "tool_calls": [_call("c1")]}],
        [
            {"role": "assistant", "content": None, "tool_calls": [_call("c1"), _call("c2")]},
            {"role": "tool", "tool_call_id": "c2", "content": "12 fathoms"},
        ],
        [{"role": "tool", "tool_call_id": "c9", "content": "12 fathoms"}],
    ],
    ids=["call", "one of two calls", "result"],
)
async def test_orphaned_tool_calls_and_results_are_repaired_and_stay_repaired(orphan: list[Any]) -> None:
    messages: list[Any] = [
        {"role": "user", "content": "remember harbour = Kiel"},
        *orphan,
        {"role": "user", "content": "what is harbour?"},
    ]
    async with a_dropin() as running:
        first = await _chat(running, messages, tools=TOOLS)
        statuses = [seen.status for seen in running.simulation.requests]
        messages += [
            {"role": "assistant", "content": first},
            {"role": "user", "content": "and again: what is harbour?"},
        ]
        second = await _chat(running, messages, tools=TOOLS)
        repaired = _sent(running)
        after = [seen.status for seen in running.simulation.requests]
    assert "Kiel" in first
    assert "Kiel" in second
    # The first is forwarded as it came and rejected; later requests are repaired before they are sent.
    assert statuses == [400, 200]
    assert after == [400, 200, 200]
    calls = [call["id"] for one in repaired for call in one.get("tool_calls") or ()]
    results = [one["tool_call_id"] for one in repaired if one["role"] == "tool"]
    assert sorted(calls) == sorted(results)


@pytest.mark.parametrize(
    "orphan",
    [
        [{"role": "model", "parts": [_function_call("c1")]}],
        [{"role": "model", "parts": [_function_call("c1"), _function_call("c2")]}, _function_result("c2")],
        [_function_result("c9")],
        [{"role": "model", "parts": [_function_call(None), _function_call(None)]}, _function_result(None)],
    ],
    ids=["call", "one of two calls", "result", "without ids"],
)
async def test_orphans_of_gemini_are_repaired_and_stay_repaired(orphan: list[Any]) -> None:
    """The provider counts calls and results; their ids may be missing."""
    client_messages: list[Any] = [{"role": "user", "content": "remember harbour = Kiel"}, *orphan]
    async with a_dropin() as running:
        client = Recaller(running, "gemini", messages=client_messages)
        first = await client.ask("what is harbour?")
        second = await client.ask("and again: what is harbour?")
        statuses = [seen.status for seen in running.simulation.requests]
        contents = json.loads(running.sent[-1])["contents"]
    assert "Kiel" in first.text
    assert "Kiel" in second.text
    assert statuses == [400, 200, 200]
    parts = [part for content in contents for part in content["parts"]]
    assert sum("functionCall" in part for part in parts) == sum("functionResponse" in part for part in parts)
    assert {part["functionResponse"]["name"] for part in parts if "functionResponse" in part} <= {"depth", "unknown"}


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_after_a_rescue_roles_alternate(dialect: str) -> None:
    history: list[Any] = []
    for number in range(6):
        history.append({"role": "user", "content": f"remember fact{number} = value{number} {FILLER}"})
        history.append({"role": "assistant", "content": "Noted."})
    history += [{"role": "user", "content": "one more thing."}, {"role": "user", "content": "what is fact0?"}]
    async with a_dropin(Simulation(SMALL)) as running:
        if dialect == "chat":
            await _chat(running, history, max_tokens=200)
        elif dialect == "anthropic":
            await running.anthropic.messages.create(model="sim", max_tokens=200, messages=history)
        elif dialect == "gemini":
            await Recaller(running, dialect, messages=history).go_on()
        else:
            await running.openai.responses.create(model="sim", max_output_tokens=200, input=history)
        body = json.loads(running.sent[-1])
    field = {"responses": "input", "gemini": "contents"}.get(dialect, "messages")
    roles = [one["role"] for one in body[field]]
    assert all(one != other for one, other in pairwise(roles))
    assert roles[0] == roles[-1] == "user"
    assert "what is fact0?" in json.dumps(body)


@pytest.mark.parametrize(
    "word", ["bad-request", "reasoning-400", "403", "500*9", "quota", "404", "empty*9", "bare-400*9"]
)
async def test_a_compaction_of_the_client_is_answered_whatever_the_provider_says(word: str) -> None:
    messages: Any = [
        {"role": "user", "content": f"The deploy key is in /etc/harbour/deploy.key. {FILLER}"},
        {"role": "assistant", "content": "Noted."},
        {"role": "user", "content": CODEX},
    ]
    async with a_dropin(Simulation(faults=word)) as running:
        raw = await running.openai.chat.completions.with_raw_response.create(model="sim", messages=messages)
    assert "/etc/harbour/deploy.key" in (raw.parse().choices[0].message.content or "")


async def _leave_at_the_last_byte(running: DropInRunning, messages: list[Any]) -> tuple[str, str]:
    """Read a stream to its last event, then close the connection at once, as Codex does; return text and session."""
    text = ""
    headers = {"authorization": "Bearer sk-the-clients-own-key"}
    body = {"model": "sim", "messages": messages, "stream": True}
    connector = aiohttp.TCPConnector(force_close=True)
    async with aiohttp.ClientSession(connector=connector) as http:
        answer = await http.post(f"{running.url}/v1/chat/completions", json=body, headers=headers)
        async for line in answer.content:
            if line.startswith(b"data: {"):
                choices = json.loads(line[6:])["choices"]
                text += "".join(choice["delta"].get("content") or "" for choice in choices)
            if line.startswith(b"data: [DONE]"):
                break
        answer.close()
    return text, answer.headers["x-holdfast-session"]


async def _until(running: DropInRunning, key: str, replies: int) -> None:
    """Return when a session has so many answers; its feed tells."""
    async with asyncio.timeout(30):
        async for _ in running.engine.store.feed(key, after=0):
            records = await running.records(key)
            if sum(isinstance(record, ReplyRecorded) for record in records) >= replies:
                return


@pytest.mark.parametrize("limits", [Limits(), SMALL], ids=["forwarded", "rescued"])
async def test_an_answer_is_recorded_once_also_if_the_client_leaves_at_its_last_byte(limits: Limits) -> None:
    messages: list[Any] = []
    async with a_dropin(Simulation(limits)) as running:
        for number in range(6):
            messages.append({"role": "user", "content": f"remember fact{number} = value{number} {FILLER}"})
            text, key = await _leave_at_the_last_byte(running, messages)
            messages.append({"role": "assistant", "content": text})
            await _until(running, key, number + 1)
        (only,) = await running.sessions()
        records = await running.records(only)
    assert sum(isinstance(record, ReplyRecorded) for record in records) == 6
    inputs = [record for record in records if isinstance(record, InputAdmitted)]
    assert len(inputs) == 6
    # No input is invented.
    assert all(record.origin is not None for record in inputs)


async def test_an_answer_of_several_items_is_one_message_and_invents_no_input() -> None:
    """Codex sends one answer back as several assistant items."""
    async with a_dropin() as running:
        first = await running.openai.responses.create(model="sim", input="remember harbour = Kiel")
        words = first.output_text.split(" ", 1)
        items: Any = [
            {"role": "user", "content": "remember harbour = Kiel"},
            {"role": "assistant", "content": words[0] + " "},
            {"role": "assistant", "content": words[1]},
            {"role": "user", "content": "what is harbour?"},
        ]
        second = await running.openai.responses.create(model="sim", input=items, store=False)
        (key,) = await running.sessions()
        records = await running.records(key)
    assert "Kiel" in second.output_text
    assert sum(isinstance(record, ReplyRecorded) for record in records) == 2
    assert sum(isinstance(record, InputAdmitted) for record in records) == 2


async def test_two_gateways_on_one_store_record_a_conversation_once_and_decide_alike() -> None:
    store = MemoryStore(clock=SystemClock(), bounds=Bounds())
    messages: list[Any] = []
    async with a_dropin(Simulation(SMALL), store=store) as one, a_dropin(Simulation(SMALL), store=store) as other:
        for number in range(8):
            running = (one, other)[number % 2]
            messages.append({"role": "user", "content": f"remember fact{number} = value{number} {FILLER}"})
            messages.append({"role": "assistant", "content": await _chat(running, messages, max_tokens=100)})
        # The gateway that did not compact shows the model the same view as the one that did.
        messages.append({"role": "user", "content": "what is fact0?"})
        text = await _chat(one, messages, max_tokens=100)
        (key,) = await one.sessions()
        records = await one.records(key)
        largest = max(len(body) for body in (one.sent[-1], other.sent[-1]))
    assert "value0" in text
    assert sum(isinstance(record, InputAdmitted) for record in records) == 9
    assert sum(isinstance(record, ReplyRecorded) for record in records) == 9
    # A short first message stays, because it may hold rules.
    assert largest < len(json.dumps(messages)) * 0.6


async def test_a_loop_of_compactions_is_known_to_another_gateway_and_after_a_restart() -> None:
    store = MemoryStore(clock=SystemClock(), bounds=Bounds())
    history: list[Any] = []
    for number in range(6):
        history.append({"role": "user", "content": f"remember fact{number} = value{number} {FILLER}"})
        history.append({"role": "assistant", "content": "Noted."})
    history.append({"role": "user", "content": "what is fact0?"})
    rescued = []
    for _ in range(3):
        # Each round is another process.
        async with a_dropin(store=store) as running:
            raw = await running.openai.chat.completions.with_raw_response.create(model="sim", messages=history)
            rescued.append("x-holdfast-rescued" in raw.headers)
            await _chat(running, [{"role": "user", "content": CODEX}])
    assert rescued == [False, False, True]
    async with a_dropin(store=store) as running:
        keys = [info.key for info in await store.sessions(limit=100)]
        logs = [await running.records(key) for key in keys if key.startswith(CLIENTS_KEY)]
    assert [[type(record) for record in log] for log in logs] == [
        [ClientCompacted, ClientResumed, ClientCompacted, ClientCompacted]
    ]


async def test_a_failed_answer_that_was_relayed_in_part_is_not_repeated_behind_the_client() -> None:
    messages: list[Any] = [
        *({"role": role, "content": FILLER} for _ in range(6) for role in ("user", "assistant")),
        {"role": "user", "content": "write 200 words"},
    ]
    async with a_dropin(Simulation(SMALL), bounds=NONE_AHEAD) as running:
        text = await _chat(running, messages, max_tokens=200)
        running.simulation.set_faults("cut:after=20")
        messages += [{"role": "assistant", "content": text}, {"role": "user", "content": "write 100 words"}]
        before = len(running.sent)
        stream = await running.openai.chat.completions.create(
            model="sim", messages=messages, max_tokens=200, stream=True
        )
        with pytest.raises(Exception, match=r"."):
            async for _ in stream:
                pass
        attempts = len(running.sent) - before
        records = [record for key in await running.sessions() for record in await running.records(key)]
    assert attempts == 1
    relayed = [record for record in records if isinstance(record, AttemptFailed) and record.is_relayed]
    assert len(relayed) == 1
    assert [record.code for record in records if isinstance(record, TurnEnded)][-1] == "broken_off"
