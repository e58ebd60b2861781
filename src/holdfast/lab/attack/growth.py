"""Probe of growth: what is eight times as large costs about eight times the processor time, for every parser."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

from holdfast.lab.attack.target import Outcome, Target

_TIMES = 8
_OK, _BAD_REQUEST = 200, 400
# Quadratic work costs 64 times as much. Clock ticks are 10 ms, so that less than two say nothing.
_RATIO_MAX, _SECONDS_MIN = 30.0, 0.02
_CHAT, _MESSAGES, _RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"
_LIST = {_CHAT: "messages", _MESSAGES: "messages", _RESPONSES: "input"}
_TEXT = {_CHAT: "text", _MESSAGES: "text", _RESPONSES: "input_text"}


Shape: TypeAlias = Callable[[str, int], list[Any]]


def _texts(path: str, count: int) -> list[Any]:
    return [{"role": "user", "content": f"{path} {count} {number}"} for number in range(count)]


def _parts(path: str, count: int) -> list[Any]:
    parts = [{"type": _TEXT[path], "text": f"{count} {number}"} for number in range(count)]
    return [{"role": "user", "content": parts}]


def _systems(path: str, count: int) -> list[Any]:
    if path == _MESSAGES:
        return _texts(path, count)
    return [{"role": "user", "content": f"{path} {count}"}, *({"role": "system", "content": "be brief"},) * count]


def _calls(path: str, count: int) -> list[Any]:
    """One reply with many calls, then their results."""
    ids = [f"call_{number}" for number in range(count)]
    asked = {"role": "user", "content": f"{path} {count} calls"}
    if path == _CHAT:
        calls = [{"id": one, "type": "function", "function": {"name": "f", "arguments": "{}"}} for one in ids]
        results = [{"role": "tool", "tool_call_id": one, "content": "a"} for one in ids]
        return [asked, {"role": "assistant", "tool_calls": calls}, *results]
    if path == _MESSAGES:
        calls = [{"type": "tool_use", "id": one, "name": "f", "input": {}} for one in ids]
        results = [{"type": "tool_result", "tool_use_id": one, "content": "a"} for one in ids]
        return [asked, {"role": "assistant", "content": calls}, {"role": "user", "content": results}]
    calls = [{"type": "function_call", "call_id": one, "name": "f", "arguments": "{}"} for one in ids]
    results = [{"type": "function_call_output", "call_id": one, "output": "a"} for one in ids]
    return [asked, *calls, *results]


# Shapes of a request, with the count of the smaller one: it costs some hundredths of a second.
_SHAPES: Mapping[str, tuple[Shape, int]] = MappingProxyType(
    {
        "messages": (_texts, 2_000),
        "parts": (_parts, 2_000),
        "system messages": (_systems, 2_000),
        "tool calls": (_calls, 1_000),
    }
)
# Answers of the provider: deltas, tool calls (a reply has at most 1,024), and letters of an error that repeats a word.
_ANSWERS: Mapping[str, int] = MappingProxyType({"deltas": 2_000, "calls": 120, "error": 4_000})
# Texts of the native API, each with its count: words, one long word, base64, lines, and quotes that are never closed.
_TEXTS: Mapping[str, tuple[str, int]] = MappingProxyType(
    {
        "words": ("word ", 10_000),
        "one long word": ("a", 50_000),
        "base64": ("QUJD", 12_000),
        "lines": ("x\n", 12_000),
        "tags": ("<b", 12_000),
        "quotes": ("`\"'", 12_000),
        "Markdown": ("[a](", 12_000),
        "paths": ("/a/../b", 6_000),
    }
)


async def growth(target: Target) -> Outcome:
    """Requests, answers and texts of eight times the size: about eight times the processor time."""
    outcome = Outcome()
    for path, name in _LIST.items():
        for shape, (build, count) in _SHAPES.items():

            async def send(size: int, path: str = path, name: str = name, build: Shape = build) -> float:
                return await _cost(outcome, target, path, {"model": "m", "max_tokens": 5, name: build(path, size)})

            await expect_linear(outcome, f"{path}, {shape}", send, count)
    for kind, count in _ANSWERS.items():

        async def answer(size: int, kind: str = kind) -> float:
            said = [{"role": "user", "content": f"{kind} {size}"}]
            return await _cost(outcome, target, _CHAT, {"model": f"{kind}-{size}", "stream": True, "messages": said})

        await expect_linear(outcome, f"an answer of {kind}", answer, count)
    for shape, (piece, count) in _TEXTS.items():

        async def tell(size: int, piece: str = piece) -> float:
            session = f"growth-{sum(piece.encode())}-{size}"
            return await _cost(
                outcome, target, f"/api/sessions/{session}/messages", {"text": piece * size, "mode": "wait"}
            )

        await expect_linear(outcome, f"a text of {shape}", tell, count)
    return outcome


async def _cost(outcome: Outcome, target: Target, path: str, body: Mapping[str, Any]) -> float:
    """Return the processor time of a request that is answered: a refused one costs nothing."""
    sending = asyncio.ensure_future(target.ask("POST", path, json.dumps(body).encode()))
    seconds = await target.cost(sending)
    status, is_error = sending.result().status, str(body.get("model")).startswith("error")
    if status != (_BAD_REQUEST if is_error else _OK):
        outcome.findings.append(f"{path}: status {status}")
    return seconds


async def expect_linear(outcome: Outcome, name: str, cost: Callable[[int], Awaitable[float]], count: int) -> None:
    """Expect that eight times as much costs about eight times the processor time."""
    small, large = await cost(count), await cost(count * _TIMES)
    ratio = large / max(small, _SECONDS_MIN)
    outcome.expect(ratio < _RATIO_MAX, f"{name}: {ratio:.0f} times the time for {_TIMES} times as much")
