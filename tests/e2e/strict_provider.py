"""A provider that refuses requests by their content, in many forms. It shares no code with the simulated provider."""

import itertools
import json
import re
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

from aiohttp import web

# Forms in which content is refused: status, content type and body. "{id}" is another one in every response.
JSON, HTML, PLAIN = "application/json", "text/html", "text/plain"
RESPONSES: dict[str, tuple[int, str, str]] = {
    "guardrail": (
        400,
        JSON,
        '{"object":"error","message":"Input blocked by guardrail.","type":"guardrail","code":400}',
    ),
    "no reason": (400, JSON, '{"error":{"message":"Provider returned error","code":400},"user_id":"u_{id}"}'),
    "unprocessable": (422, JSON, '{"detail":[{"loc":["body","messages",3],"msg":"String not encodable","type":"x"}]}'),
    "firewall": (403, HTML, "<html><title>Request Rejected</title><body>Your support ID is: {id}</body></html>"),
    "forbidden": (403, JSON, '{"error":{"message":"Forbidden","request_id":"req_{id}"}}'),
    "unavailable for legal reasons": (451, PLAIN, ""),
    "crash": (500, JSON, '{"error":{"message":"The server had an error. Request ID req_{id}.","type":"server_error"}}'),
    "silent crash": (500, PLAIN, ""),
    "gateway": (502, HTML, "<html><head><title>502 Bad Gateway</title></head><body>cloudfront {id}</body></html>"),
    "conflict": (409, JSON, '{"message":"conflict {id}"}'),
    "media type": (415, PLAIN, "Unsupported Media Type"),
    "too large": (413, PLAIN, "Payload rejected {id}"),
    "ok with an error": (200, JSON, '{"error":{"message":"Upstream rejected the input","code":"E{id}"}}'),
    "ok with a crash": (200, JSON, '{"error":{"message":"Internal Server Error","code":500,"trace":"{id}"}}'),
}
# Words were relayed before this error, so a client of the proxy has it whatever the gateway does.
LATE = "error after many words"
# Forms inside a stream: before any frame, after the frame that opens an answer, and after its first word.
ERROR = {"message": "This request was declined by the input scanner", "type": "invalid_request_error", "code": "scan"}
STREAMED = ("error frame", "error after opening", LATE)
FILTERED, EMPTY, DROPPED = "empty and filtered", "empty", "dropped"
FORMS = (*RESPONSES, *STREAMED, FILTERED, EMPTY, DROPPED)
# More than one read of a socket.
MANY_WORDS = "a word " * 60_000


@dataclass
class StrictProvider:
    """The provider, the content it refuses, and the number of requests it got."""

    is_refused: Callable[[str], bool]
    form: str
    is_streaming_only: bool = False
    url: str = ""
    bodies: list[str] = field(default_factory=list)
    _ids: Iterator[int] = field(default_factory=lambda: itertools.count(10_000_019, 7_919))

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Answer with the tool that the newest message asks for, or with a word; refuse by the messages' content."""
        body = json.loads(await request.read())
        messages = body.get("messages") or body.get("input")
        content = "\n".join(_texts(messages))
        self.bodies.append(content)
        wire = _WIRES[request.path.rsplit("/", 1)[-1]]
        is_stream = bool(body.get("stream"))
        if not self.is_refused(content) or (self.is_streaming_only and not is_stream):
            newest = _newest(messages)
            call = newest.removeprefix("call ") if newest.startswith("call ") else ""
            return await _written(request, wire.frames("ok", call) if is_stream else wire.body("ok", call))
        if self.form in RESPONSES:
            status, kind, text = RESPONSES[self.form]
            return web.Response(status=status, text=text.replace("{id}", str(next(self._ids))), content_type=kind)
        if self.form == DROPPED and request.transport is not None:
            request.transport.abort()
            return web.Response()
        if not is_stream:
            whole = {"error": ERROR} if self.form in STREAMED else wire.body("", filtered=self.form == FILTERED)
            return await _written(request, whole)
        if self.form not in STREAMED:
            return await _written(request, wire.frames("", filtered=self.form == FILTERED))
        opening = wire.frames(MANY_WORDS)[: (0, wire.opening, wire.opening + 1)[STREAMED.index(self.form)]]
        return await _written(request, [*opening, wire.error])


async def _written(request: web.Request, answer: dict[str, Any] | list[dict[str, Any]]) -> web.StreamResponse:
    if isinstance(answer, dict):
        return web.json_response(answer)
    response = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await response.prepare(request)
    for frame in answer:
        kind = f"event: {frame['type']}\n" if "type" in frame else ""
        await response.write(f"{kind}data: {json.dumps(frame)}\n\n".encode())
    if not any("error" in frame or "type" in frame for frame in answer):
        await response.write(b"data: [DONE]\n\n")
    await response.write_eof()
    return response


def _texts(value: Any) -> Iterator[str]:
    """Yield every string of the messages, but for what a client cannot choose."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)
    elif isinstance(value, dict):
        for name, one in value.items():
            if name not in {"role", "type", "id", "status"}:
                yield from _texts(one)


def _newest(messages: list[dict[str, Any]]) -> str:
    last = messages[-1]
    content = last.get("content", "") if last.get("role") == "user" else ""
    if isinstance(content, list):
        content = "" if any(one["type"] == "tool_result" for one in content) else content[-1].get("text", "")
    return str(content)


class Chat:
    """Chat completions."""

    opening = 1
    error: ClassVar[dict[str, Any]] = {"error": ERROR}

    @staticmethod
    def body(text: str, call: str = "", *, filtered: bool = False) -> dict[str, Any]:
        calls = [{"id": "call_1", "type": "function", "function": {"name": call, "arguments": "{}"}}]
        message = {"role": "assistant", "content": None if call else text, **({"tool_calls": calls} if call else {})}
        stop = "content_filter" if filtered else "tool_calls" if call else "stop"
        choice = {"index": 0, "message": message, "finish_reason": stop}
        return {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}

    @staticmethod
    def frames(text: str, call: str = "", *, filtered: bool = False) -> list[dict[str, Any]]:
        said = Chat.body(text, call, filtered=filtered)["choices"][0]
        delta = {name: value for name, value in said["message"].items() if name != "role"}
        if call:
            delta["tool_calls"] = [{"index": 0, **one} for one in delta["tool_calls"]]
        deltas = [({"role": "assistant", "content": ""}, None), (delta, None), ({}, said["finish_reason"])]
        head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        return [{**head, "choices": [{"index": 0, "delta": one, "finish_reason": stop}]} for one, stop in deltas]


class Anthropic:
    """Messages."""

    opening = 2
    error: ClassVar[dict[str, Any]] = {"type": "error", "error": ERROR}

    @staticmethod
    def body(text: str, call: str = "", *, filtered: bool = False) -> dict[str, Any]:
        use = {"type": "tool_use", "id": "toolu_1", "name": call, "input": {}}
        content: list[Any] = [use] if call else [{"type": "text", "text": text}] if text else []
        stop = "refusal" if filtered else "tool_use" if call else "end_turn"
        usage = {"input_tokens": 10, "output_tokens": 1}
        head = {"id": "m", "type": "message", "role": "assistant", "model": "m", "stop_sequence": None}
        return {**head, "content": content, "stop_reason": stop, "usage": usage}

    @staticmethod
    def frames(text: str, call: str = "", *, filtered: bool = False) -> list[dict[str, Any]]:
        whole = Anthropic.body(text, call, filtered=filtered)
        started = {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}}
        block = whole["content"][0] if whole["content"] else {"type": "text", "text": ""}
        empty = {**block, "text": ""} if block["type"] == "text" else block
        delta = {"type": "text_delta", "text": text} if not call else {"type": "input_json_delta", "partial_json": "{}"}
        return [
            started,
            {"type": "content_block_start", "index": 0, "content_block": empty},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": whole["stop_reason"]}, "usage": {"output_tokens": 1}},
            {"type": "message_stop"},
        ]


class Responses:
    """OpenAI's responses."""

    opening = 3
    error: ClassVar[dict[str, Any]] = {**ERROR, "type": "error", "param": None}

    @staticmethod
    def body(text: str, call: str = "", *, filtered: bool = False) -> dict[str, Any]:
        said = {"type": "output_text", "text": text, "annotations": []}
        message = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [said]}
        used = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": call, "arguments": "{}"}
        output: list[Any] = [{**used, "status": "completed"}] if call else [message] if text else []
        whole = {"id": "r", "object": "response", "created_at": 1, "model": "m", "status": "completed"}
        if filtered:
            whole |= {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}
        usage = {"input_tokens": 10, "output_tokens": 1, "total_tokens": 11}
        return {"incomplete_details": None, "error": None, **whole, "output": output, "usage": usage}

    @staticmethod
    def frames(text: str, call: str = "", *, filtered: bool = False) -> list[dict[str, Any]]:
        whole = Responses.body(text, call, filtered=filtered)
        begun = {**whole, "output": [], "status": "in_progress", "incomplete_details": None, "usage": None}
        item = whole["output"][0] if whole["output"] else {"type": "message", "id": "msg_1", "content": []}
        at = {"item_id": item["id"], "output_index": 0}
        said = {"type": "response.output_text.delta", **at, "content_index": 0, "delta": text}
        used = {"type": "response.function_call_arguments.delta", **at, "delta": "{}"}
        empty = {**item, "arguments": ""} if call else {**item, "content": []}
        frames: list[dict[str, Any]] = [
            {"type": "response.created", "response": begun},
            {"type": "response.in_progress", "response": begun},
            {"type": "response.output_item.added", "output_index": 0, "item": empty},
            used if call else said,
            {"type": "response.output_item.done", "output_index": 0, "item": item},
        ]
        if filtered:
            return [*frames[:2], {"type": "response.incomplete", "response": whole}]
        return [*frames, {"type": "response.completed", "response": whole}]


_WIRES: dict[str, type[Chat | Anthropic | Responses]] = {
    "completions": Chat,
    "messages": Anthropic,
    "responses": Responses,
}
# The dialects' paths behind the address of the provider.
PATHS = {"openai": "/v1/chat/completions", "responses": "/v1/responses", "anthropic": "/v1/messages"}


def by_pattern(pattern: str) -> Callable[[str], bool]:
    """Return whether some content matches a pattern."""
    compiled = re.compile(pattern, re.IGNORECASE | re.DOTALL)
    return lambda content: compiled.search(content) is not None


@asynccontextmanager
async def a_strict_provider(provider: StrictProvider) -> AsyncGenerator[StrictProvider]:
    """Serve on a free port until the end of the context."""
    app = web.Application(client_max_size=2**26)
    app.router.add_post("/{path:.*}", provider.serve)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        provider.url = f"http://{host}:{port}"
        yield provider
    finally:
        await runner.cleanup()
