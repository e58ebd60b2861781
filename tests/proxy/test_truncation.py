"""An answer that broke off because the window was full is had whole when its request comes again, as Codex's does."""

import json
from typing import Any

import aiohttp
import pytest

from holdfast.core.limits.bounds import Bounds
from holdfast.core.proxy.plan import filled_window
from holdfast.models.dialects import DIALECTS
from holdfast.models.fake import Simulation, count_request
from holdfast.types.limits import Limits
from holdfast.types.messages import Reply, StopReason, Text, Usage
from tests.proxy.proxies import DropInRunning, a_dropin

WINDOW = 6_000
FILLER = "the crew writes down what it saw on this day and what it means to do on the next. " * 40
# What is left for the answer, which is to have some 300 tokens.
LEFT = 40
ASKED = "write 300 words"


def _item(role: str, text: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def codex_body(items: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a request as Codex makes it."""
    return {
        "model": "sim",
        "instructions": "You are a coding agent.",
        "input": items,
        "tools": [
            {"type": "function", "name": "shell", "strict": False, "parameters": {"type": "object", "properties": {}}}
        ],
        "tool_choice": "auto",
        "parallel_tool_calls": False,
        "reasoning": None,
        "store": False,
        "stream": True,
        "include": [],
        "prompt_cache_key": "0190",
    }


def _tokens(body: dict[str, Any]) -> int:
    return count_request(DIALECTS["openai-responses"].decode_request(json.dumps(body).encode()).request)


def filled(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a conversation whose last message leaves little of the window for the answer."""
    last = _item("user", ASKED)
    left = WINDOW - LEFT - _tokens(codex_body([*items, last]))
    return [*items, _item("user", "ha " * left + ASKED)]


async def respond(
    running: DropInRunning, body: dict[str, Any], client: str = "codex_exec/0.166.0 (Debian)"
) -> tuple[str, dict[str, Any], dict[str, str]]:
    """Return how a stream ended, the response that closed it, and the headers; nothing where it was broken off."""
    headers = {"user-agent": client, "originator": client.partition("/")[0], "accept": "text/event-stream"}
    async with running.http.post(f"{running.url}/v1/responses", json=body, headers=headers) as answer:
        told = {name.lower(): text for name, text in answer.headers.items()}
        try:
            lines = [line.decode() async for line in answer.content]
        except aiohttp.ClientPayloadError:
            return "", {}, told
    last: dict[str, Any] = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: {")][-1]
    return last["type"], last["response"], told


def _text(response: dict[str, Any]) -> str:
    return "".join(piece["text"] for item in response["output"] for piece in item.get("content") or [])


async def talk(running: DropInRunning) -> list[dict[str, Any]]:
    items = [_item("developer", "Run what you like."), _item("user", "<environment_context>here</environment_context>")]
    for number in range(4):
        items.append(_item("user", f"remember fact{number} = value{number}.\n{FILLER}"))
        _, response, _ = await respond(running, codex_body(items))
        items.append(_item("assistant", _text(response)))
    return items


async def test_an_answer_that_fills_the_window_is_broken_off_and_had_whole_when_codex_asks_again() -> None:
    async with a_dropin(Simulation(Limits(window_tokens=WINDOW))) as running:
        items = filled(await talk(running))
        first = await respond(running, codex_body(items))
        again, response, headers = await respond(running, codex_body(items))
        items += [_item("assistant", _text(response)), _item("user", "what is fact0? what is fact3?")]
        _, told, _ = await respond(running, codex_body(items))
        sessions = await running.sessions()
        statuses = {seen.status for seen in running.simulation.requests}
    assert first[0] == ""
    assert again == "response.completed"
    assert len(_text(response).split()) == 300
    assert "compacted" in headers["x-holdfast-rescued"]
    assert "fact0 = value0" in _text(told)
    assert "fact3 = value3" in _text(told)
    assert len(sessions) == 1
    # The window was learned without a refusal.
    assert statuses == {200}


async def test_with_the_piece_of_the_answer_in_it_the_request_is_still_the_same() -> None:
    async with a_dropin(Simulation(Limits(window_tokens=WINDOW))) as running:
        items = filled(await talk(running))
        await respond(running, codex_body(items))
        again, response, _ = await respond(running, codex_body([*items, _item("assistant", "the ship keeps")]))
    assert again == "response.completed"
    assert len(_text(response).split()) == 300


async def test_other_clients_get_as_much_of_the_answer_as_there_is() -> None:
    async with a_dropin(Simulation(Limits(window_tokens=WINDOW))) as running:
        items = filled(await talk(running))
        ends = [(await respond(running, codex_body(items), "OpenAI/Python 2.1"))[0] for _ in range(2)]
        sent = [json.loads(body) for body in running.sent[-2:]]
    assert ends == ["response.incomplete"] * 2
    assert sent == [codex_body(items)] * 2


def gemini_contents(left: int) -> dict[str, Any]:
    """Return a request whose last content leaves so much of the window for the answer."""
    told = f"remember fact0 = value0.\n{FILLER}"
    contents = [
        {"role": role, "parts": [{"text": text}]}
        for role, text in (("user", told), ("model", "Noted."), ("user", ASKED))
    ]
    path = "/v1beta/models/sim:generateContent"
    decoded = DIALECTS["gemini"].decode_request(json.dumps({"contents": contents}).encode(), path=path)
    contents[-1]["parts"] = [{"text": "ha " * (WINDOW - left - count_request(decoded.request)) + ASKED}]
    return {"contents": contents}


async def generate(running: DropInRunning, body: dict[str, Any], method: str) -> list[dict[str, Any]]:
    """Return the responses of Gemini's stream, or the only one."""
    url = f"{running.url}/v1beta/models/sim:{method}"
    async with running.http.post(url, json=body, headers={"x-goog-api-key": "AIza-k"}) as answer:
        assert answer.status == 200, await answer.text()
        read = await answer.text()
    if "alt=sse" in method:
        return [json.loads(line.removeprefix("data: ")) for line in read.splitlines() if line.startswith("data: ")]
    found = json.loads(read)
    return list(found) if isinstance(found, list) else [found]


def _parts(responses: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [part for one in responses for part in one["candidates"][0]["content"]["parts"]]


@pytest.mark.parametrize("method", ["generateContent", "streamGenerateContent", "streamGenerateContent?alt=sse"])
async def test_a_client_of_gemini_gets_as_much_of_the_answer_as_there_is_and_the_next_one_whole(method: str) -> None:
    async with a_dropin(Simulation(Limits(window_tokens=WINDOW))) as running:
        body = gemini_contents(LEFT)
        await generate(running, body, method)
        ended = await generate(running, body, method)
        assert ended[-1]["candidates"][0]["finishReason"] == "MAX_TOKENS"
        assert [json.loads(sent) for sent in running.sent] == [body, body], "forwarded as they came"
        asked = [{"role": "model", "parts": _parts(ended)}, {"role": "user", "parts": [{"text": "what is fact0?"}]}]
        told = _parts(await generate(running, {"contents": [*body["contents"], *asked]}, method))
        sessions = await running.sessions()
    assert "fact0 = value0" in "".join(part["text"] for part in told)
    assert len(sessions) == 1


async def test_an_answer_that_is_as_long_as_the_server_lets_any_be_ends_as_it_ends() -> None:
    async with a_dropin(Simulation(Limits(window_tokens=WINDOW * 2, output_tokens_max=LEFT))) as running:
        items = filled(await talk(running))
        # What it reads and writes together is no size that a window has.
        items[-1]["content"][0]["text"] += " and then"
        ends = [(await respond(running, codex_body(items)))[0] for _ in range(2)]
        sent = [json.loads(body) for body in running.sent[-2:]]
    assert ends == ["response.incomplete"] * 2
    assert sent == [codex_body(items)] * 2


@pytest.mark.parametrize(
    ("usage", "reason"),
    [
        (Usage(5_990, 10), StopReason.END),
        (None, StopReason.LENGTH),
        (Usage(5_951, 10), StopReason.LENGTH),
        (Usage(1_900, 148), StopReason.END),
        (Usage(900, 100), StopReason.LENGTH),
        (Usage(60_000, 4_096), StopReason.LENGTH),
    ],
)
def test_an_answer_fills_the_window_only_where_all_speaks_for_it(usage: Usage | None, reason: StopReason) -> None:
    assert filled_window(Reply((Text("the ship"),), reason, usage, "sim"), None, Bounds()) is None


def test_an_answer_that_stops_at_a_size_that_windows_have_has_filled_it() -> None:
    reply = Reply((Text("the ship"),), StopReason.LENGTH, Usage(5_990, 10), "sim")
    assert filled_window(reply, None, Bounds()) == 6_000
    # As long as it was to be.
    assert filled_window(reply, 10, Bounds()) is None
