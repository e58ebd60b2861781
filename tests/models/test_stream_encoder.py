"""Live response encoding: the providers' own libraries read it over a socket, delta by delta."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import anthropic
import openai
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import (
    HoldfastError,
    MissingKeyError,
    QueueFullError,
    SeqMovedError,
    StoppingError,
    StoreFullError,
    TurnFailedError,
    UnknownModelError,
    UsageError,
)
from holdfast.models.client_responses import client_error, encode_models, encode_token_count, whole_reply
from holdfast.models.dialects import DIALECTS, LIVE_ENCODERS
from holdfast.models.openai_responses.request_encoder import encrypted_reasoning
from holdfast.models.stream_encoder import AnswerHead
from holdfast.ports import Delta, ReasoningDelta, TextDelta, ToolCallDelta
from holdfast.types.messages import Reasoning, Reply, StopReason, Text, ToolCall, Usage

CHAT, ANTHROPIC, RESPONSES, GEMINI = "openai-chat", "anthropic", "openai-responses", "gemini"
every = pytest.mark.parametrize("dialect", [CHAT, ANTHROPIC, RESPONSES, GEMINI])
SEALED = encrypted_reasoning("rs_up", "hm, hm", "gAAA")
OPAQUES = {CHAT: "", ANTHROPIC: "c2ln", RESPONSES: SEALED, GEMINI: "c2ln"}
USAGE = Usage(10, 7, 4, 2)


def an_answer(dialect: str) -> tuple[list[Delta], Reply]:
    """An answer with everything, as the model of a dialect gives it."""
    opaque = OPAQUES[dialect]
    deltas: list[Delta] = [
        ReasoningDelta("hm, ", part_id="rs_up" if dialect == RESPONSES else ""),
        ReasoningDelta("hm", opaque, "rs_up" if dialect == RESPONSES else ""),
        TextDelta("hel"),
        TextDelta("lo"),
        ToolCallDelta(0, "echo", '{"word":', "call_a"),
        ToolCallDelta(0, "echo", ' "hey"}', "call_a"),
        ToolCallDelta(1, "echo", "{", "call_b"),
        ToolCallDelta(1, "echo", "}", "call_b"),
    ]
    parts = (
        Reasoning("hm, hm", f"{dialect}:host:m", opaque),
        Text("hello"),
        ToolCall("call_a", "echo", '{"word": "hey"}'),
        ToolCall("call_b", "echo", "{}"),
    )
    return deltas, Reply(parts, StopReason.TOOL_CALLS, USAGE, "m")


def written(dialect: str, deltas: Sequence[Delta], reply: Reply, issuer: str | None = None) -> list[bytes]:
    head = AnswerHead("id_1", "m", 5, f"{dialect}:host:m" if issuer is None else issuer)
    encoder = LIVE_ENCODERS[dialect](head)
    return [*encoder.start(), *(event for delta in deltas for event in encoder.feed(delta)), *encoder.finish(reply)]


def read_back(dialect: str, events: Sequence[bytes]) -> Reply:
    decoder = DIALECTS[dialect].StreamDecoder(f"{dialect}:host:m")
    for event in events:
        decoder.feed(event)
    reply = decoder.finish()
    assert isinstance(reply, Reply), reply
    return reply


# --- the encoders themselves -------------------------------------------------------------------------------------


@every
@pytest.mark.parametrize("count", range(9))
def test_whatever_of_an_answer_was_told_live_the_client_ends_up_with_the_reply(dialect: str, count: int) -> None:
    deltas, reply = an_answer(dialect)
    assert read_back(dialect, written(dialect, deltas[:count], reply)) == reply


@every
def test_each_delta_is_written_at_once(dialect: str) -> None:
    deltas, _ = an_answer(dialect)
    encoder = LIVE_ENCODERS[dialect](AnswerHead("id_1", "m"))
    encoder.start()
    for delta in deltas:
        told = b"".join(encoder.feed(delta)).decode()
        piece = delta.arguments if isinstance(delta, ToolCallDelta) else delta.text
        if dialect == GEMINI and isinstance(delta, ToolCallDelta):
            # A call has one event, when it is complete.
            continue
        assert json.dumps(piece)[1:-1] in told


@every
def test_a_call_waits_until_its_id_is_certain(dialect: str) -> None:
    reply = Reply((ToolCall("call_n_0", "echo", "{}"),), StopReason.TOOL_CALLS, None, "m")
    encoder = LIVE_ENCODERS[dialect](AnswerHead("id_1", "m"))
    opening = encoder.start()
    assert encoder.feed(ToolCallDelta(0, "echo", "{}")) == []
    assert read_back(dialect, [*opening, *encoder.finish(reply)]).parts == reply.parts


@every
def test_calls_that_come_interleaved_are_written_one_after_the_other(dialect: str) -> None:
    deltas = [
        ToolCallDelta(0, "f", '{"x"', "a"),
        ToolCallDelta(1, "g", "{}", "b"),
        ToolCallDelta(0, "f", ":1}", "a"),
    ]
    reply = Reply((ToolCall("a", "f", '{"x":1}'), ToolCall("b", "g", "{}")), StopReason.TOOL_CALLS, None, "m")
    assert read_back(dialect, written(dialect, deltas, reply)).parts == reply.parts


@every
def test_what_was_streamed_stands_where_the_reply_says_something_else(dialect: str) -> None:
    reply = Reply((Text("goodbye"),), StopReason.END, USAGE, "m")
    assert read_back(dialect, written(dialect, [TextDelta("hello")], reply)).parts == (Text("hello"),)


@every
def test_a_signature_of_another_dialect_is_not_shown(dialect: str) -> None:
    deltas: list[Delta] = [ReasoningDelta("hm"), ReasoningDelta("", "Zm9yZWlnbg"), TextDelta("hi")]
    issuer = f"{ANTHROPIC if dialect == GEMINI else GEMINI}:host:m"
    parts = (Reasoning("hm", issuer, "Zm9yZWlnbg"), Reasoning("", issuer, "c2Vjb25k"), Text("hi"))
    reply = Reply(parts, StopReason.END, USAGE, "m")
    live = b"".join(written(dialect, deltas, reply, issuer))
    whole = whole_reply(dialect, reply, "id_1", 5, issuer)
    for told in (live, whole):
        assert b"Zm9yZWlnbg" not in told
        assert b"c2Vjb25k" not in told
    assert read_back(dialect, [live]).parts[-1] == Text("hi")


@pytest.mark.parametrize("count", range(5))
def test_a_signature_of_gemini_stays_on_the_part_that_it_came_with(count: int) -> None:
    issuer = "gemini:host:m"
    deltas: list[Delta] = [
        ReasoningDelta("hm"),
        ReasoningDelta("", "for the text"),
        TextDelta("hi"),
        ReasoningDelta("", "alone"),
    ]
    parts = (Reasoning("hm", issuer), Reasoning("", issuer, "for the text"), Text("hi"), Reasoning("", issuer, "alone"))
    reply = Reply(parts, StopReason.END, USAGE, "m")
    assert read_back(GEMINI, written(GEMINI, deltas[:count], reply)) == reply


def test_hidden_thinking_of_anthropic_goes_through_live() -> None:
    parts = (Reasoning("", "anthropic:host:m", "redacted_thinking:c2VhbA"), Text("hi"))
    reply = Reply(parts, StopReason.END, USAGE, "m")
    deltas: list[Delta] = [ReasoningDelta("", "redacted_thinking:c2VhbA"), TextDelta("hi")]
    assert read_back(ANTHROPIC, written(ANTHROPIC, deltas, reply)) == reply


@given(
    st.sampled_from([CHAT, ANTHROPIC, RESPONSES, GEMINI]),
    st.lists(st.sampled_from([TextDelta("a"), ReasoningDelta("b"), ToolCallDelta(0, "f", "{}", "c")]), max_size=6),
)
def test_any_order_of_deltas_gives_a_stream_that_ends(dialect: str, deltas: list[Delta]) -> None:
    text = "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))
    reply = Reply((Text(text),) if text else (), StopReason.END, USAGE, "m")
    back = read_back(dialect, written(dialect, deltas, reply))
    assert "".join(part.text for part in back.parts if isinstance(part, Text)) == text


# --- the official clients ----------------------------------------------------------------------------------------


@asynccontextmanager
async def serving(dialect: str, events: list[bytes], whole: bytes, gate: asyncio.Event) -> AsyncIterator[str]:
    """A server that streams these events, the second half behind a gate, or gives the whole answer."""

    async def answer(request: web.Request) -> web.StreamResponse:
        if not (await request.json()).get("stream"):
            return web.Response(body=whole, content_type="application/json")
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        half = len(events) // 2
        await response.write(b"".join(events[:half]))
        await gate.wait()
        await response.write(b"".join(events[half:]))
        return response

    app = web.Application()
    app.router.add_post(DIALECTS[dialect].SERVER_PATH, answer)
    app.router.add_get("/v1/models", _listed)
    app.router.add_post("/v1/messages/count_tokens", _counted)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def _listed(request: web.Request) -> web.Response:
    dialect = ANTHROPIC if "anthropic-version" in request.headers else CHAT
    return web.Response(body=encode_models(dialect, ["a", "b"], 1_700_000_000), content_type="application/json")


async def _counted(_: web.Request) -> web.Response:
    return web.Response(body=encode_token_count(42), content_type="application/json")


@asynccontextmanager
async def openai_client(
    dialect: str, events: list[bytes], whole: bytes = b"", *, opened: bool = True
) -> AsyncIterator[tuple[openai.AsyncOpenAI, asyncio.Event]]:
    gate = asyncio.Event()
    if opened:
        gate.set()
    async with (
        serving(dialect, events, whole, gate) as url,
        openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0) as client,
    ):
        yield client, gate


@asynccontextmanager
async def anthropic_client(
    events: list[bytes], whole: bytes = b"", *, opened: bool = True
) -> AsyncIterator[tuple[anthropic.AsyncAnthropic, asyncio.Event]]:
    gate = asyncio.Event()
    if opened:
        gate.set()
    async with (
        serving(ANTHROPIC, events, whole, gate) as url,
        anthropic.AsyncAnthropic(base_url=url, api_key="any", max_retries=0) as client,
    ):
        yield client, gate


async def test_openais_client_reads_a_live_chat_completion_while_it_is_written() -> None:
    events = written(CHAT, *an_answer(CHAT))
    async with openai_client(CHAT, events, opened=False) as (client, gate):
        stream = await client.chat.completions.create(
            model="m",
            messages=[{"role": "user", "content": "hi"}],
            stream=True,
            stream_options={"include_usage": True},
        )
        chunks = [await anext(aiter(stream))]
        gate.set()
        chunks += [chunk async for chunk in stream]
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == "hello"
    calls = [call for chunk in chunks if chunk.choices for call in chunk.choices[0].delta.tool_calls or ()]
    assert [call.id for call in calls if call.id] == ["call_a", "call_b"]
    assert chunks[-2].choices[0].finish_reason == "tool_calls"
    assert chunks[-1].usage is not None
    assert (chunks[-1].usage.prompt_tokens, chunks[-1].usage.completion_tokens) == (10, 7)


async def test_openais_client_reads_a_live_response_while_it_is_written() -> None:
    events = written(RESPONSES, *an_answer(RESPONSES))
    async with (
        openai_client(RESPONSES, events, opened=False) as (client, gate),
        client.responses.stream(model="m", input="hi") as stream,
    ):
        first = await anext(aiter(stream))
        gate.set()
        kinds = [event.type async for event in stream]
        final = await stream.get_final_response()
    assert first.type == "response.created"
    assert kinds[-1] == "response.completed"
    assert final.output_text == "hello"
    assert [output.type for output in final.output] == ["reasoning", "message", "function_call", "function_call"]
    thought = final.output[0]
    assert thought.type == "reasoning"
    assert (thought.id, thought.encrypted_content, thought.summary[0].text) == ("rs_up", "gAAA", "hm, hm")
    assert final.usage is not None
    assert (final.usage.input_tokens_details.cached_tokens, final.usage.output_tokens_details.reasoning_tokens) == (
        4,
        2,
    )


async def test_anthropics_client_reads_a_live_message_while_it_is_written() -> None:
    events = written(ANTHROPIC, *an_answer(ANTHROPIC))
    async with (
        anthropic_client(events, opened=False) as (client, gate),
        client.messages.stream(model="m", max_tokens=9, messages=[{"role": "user", "content": "hi"}]) as stream,
    ):
        first = await anext(aiter(stream))
        gate.set()
        final = await stream.get_final_message()
    assert first.type == "message_start"
    assert [block.type for block in final.content] == ["thinking", "text", "tool_use", "tool_use"]
    thought, text, call, _ = final.content
    assert thought.type == "thinking"
    assert (thought.thinking, thought.signature) == ("hm, hm", "c2ln")
    assert text.type == "text"
    assert call.type == "tool_use"
    assert (text.text, call.id, call.input) == ("hello", "call_a", {"word": "hey"})
    assert (final.stop_reason, final.usage.output_tokens, final.usage.cache_read_input_tokens) == ("tool_use", 7, 4)


async def test_the_official_clients_read_whole_answers() -> None:
    wholes = {
        dialect: whole_reply(dialect, an_answer(dialect)[1], "id_1", 5, f"{dialect}:host:m")
        for dialect in LIVE_ENCODERS
    }
    async with openai_client(CHAT, [], wholes[CHAT]) as (client, _):
        chat = await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}])
    assert chat.choices[0].message.content == "hello"
    assert len(chat.choices[0].message.tool_calls or ()) == 2
    async with openai_client(RESPONSES, [], wholes[RESPONSES]) as (client, _):
        response = await client.responses.create(model="m", input="hi")
    assert (response.output_text, response.status) == ("hello", "completed")
    async with anthropic_client([], wholes[ANTHROPIC]) as (other, _):
        message = await other.messages.create(model="m", max_tokens=9, messages=[{"role": "user", "content": "hi"}])
    assert [block.type for block in message.content] == ["thinking", "text", "tool_use", "tool_use"]


async def test_an_answer_that_was_cut_short_is_told_as_such() -> None:
    reply = Reply((Text("he"),), StopReason.LENGTH, USAGE, "m")
    async with openai_client(RESPONSES, written(RESPONSES, [TextDelta("he")], reply)) as (client, _):
        stream = await client.responses.create(model="m", input="hi", stream=True)
        events = [event async for event in stream]
    last = events[-1]
    assert last.type == "response.incomplete"
    assert last.response.incomplete_details is not None
    assert last.response.incomplete_details.reason == "max_output_tokens"


async def test_an_error_inside_a_live_stream_is_raised_by_the_clients() -> None:
    def failing(dialect: str) -> list[bytes]:
        encoder = LIVE_ENCODERS[dialect](AnswerHead("id_1", "m"))
        return [*encoder.start(), *encoder.feed(TextDelta("hel")), *encoder.fail("api_error", "the model went away")]

    assert b'"code":500,"message":"the model went away"' in failing(GEMINI)[-1]

    async with openai_client(CHAT, failing(CHAT)) as (client, _):
        chat = await client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "hi"}], stream=True
        )
        with pytest.raises(openai.APIError, match="the model went away"):
            [chunk async for chunk in chat]
    async with openai_client(RESPONSES, failing(RESPONSES)) as (client, _):
        stream = await client.responses.create(model="m", input="hi", stream=True)
        last = [event async for event in stream][-1]
    assert last.type == "response.failed"
    assert last.response.error is not None
    assert last.response.error.message == "the model went away"
    async with anthropic_client(failing(ANTHROPIC)) as (other, _):
        with pytest.raises(anthropic.APIStatusError, match="the model went away"):
            async with other.messages.stream(
                model="m", max_tokens=9, messages=[{"role": "user", "content": "hi"}]
            ) as message:
                await message.get_final_message()


async def test_the_clients_list_models_and_count_tokens() -> None:
    async with openai_client(CHAT, []) as (client, _):
        assert [model.id async for model in client.models.list()] == ["a", "b"]
    async with anthropic_client([]) as (other, _):
        listed = [model async for model in other.models.list()]
        counted = await other.messages.count_tokens(model="a", messages=[{"role": "user", "content": "hi"}])
    assert [(model.id, model.created_at.year) for model in listed] == [("a", 2023), ("b", 2023)]
    assert counted.input_tokens == 42
    assert json.loads(encode_models(ANTHROPIC, []))["first_id"] is None


# --- our errors, in their words ----------------------------------------------------------------------------------


def failed(reason: str) -> Callable[[], HoldfastError]:
    return lambda: TurnFailedError("s", 1, reason, "It did not work.")


@pytest.mark.parametrize(
    ("error", "chat", "messages"),
    [
        (lambda: UsageError("no"), (400, "invalid_request_error", "usage"), (400, "invalid_request_error")),
        (lambda: UnknownModelError("no"), (404, "invalid_request_error", "model_not_found"), (404, "not_found_error")),
        (
            lambda: MissingKeyError("no"),
            (401, "invalid_request_error", "invalid_api_key"),
            (401, "authentication_error"),
        ),
        (lambda: QueueFullError("s", 9), (429, "rate_limit_error", "queue_full"), (429, "rate_limit_error")),
        (lambda: StoppingError("no"), (503, "server_error", "stopping"), (503, "api_error")),
        (lambda: SeqMovedError("s", 1, 2), (409, "invalid_request_error", "seq_moved"), (409, "invalid_request_error")),
        (lambda: StoreFullError("no"), (500, "server_error", "store_full"), (500, "api_error")),
        (
            failed("token_overflow"),
            (400, "invalid_request_error", "context_length_exceeded"),
            (400, "invalid_request_error"),
        ),
        (failed("wire_overflow"), (413, "invalid_request_error", "wire_overflow"), (413, "request_too_large")),
        (failed("rate_limit"), (429, "rate_limit_error", "rate_limit_exceeded"), (429, "rate_limit_error")),
        (failed("quota"), (429, "insufficient_quota", "insufficient_quota"), (402, "billing_error")),
        (failed("overloaded"), (503, "server_error", "overloaded"), (529, "overloaded_error")),
        (failed("stream_stall"), (504, "server_error", "stream_stall"), (504, "timeout_error")),
        (failed("something new"), (502, "server_error", "something new"), (502, "api_error")),
    ],
)
def test_each_of_our_errors_has_a_status_and_words_that_clients_know(
    error: Callable[[], HoldfastError], chat: tuple[int, str, str], messages: tuple[int, str]
) -> None:
    told = client_error(CHAT, error())
    assert (told.status, told.kind, told.code) == chat
    assert json.loads(told.body)["error"] == {
        "message": told.message,
        "type": told.kind,
        "param": None,
        "code": told.code,
    }
    google = client_error(GEMINI, error())
    shown = json.loads(google.body)["error"]
    assert (google.status, shown["code"], shown["status"]) == (chat[0], chat[0], google.kind)
    assert shown["details"][0]["reason"] == google.code.upper()
    other = client_error(ANTHROPIC, error())
    assert (other.status, other.kind) == messages
    assert json.loads(other.body) == {"type": "error", "error": {"type": other.kind, "message": other.message}}
