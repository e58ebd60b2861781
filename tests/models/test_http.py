"""HTTP client over a real socket, against the simulated server and misbehaving servers."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager

import pytest

from holdfast.core.limits.bounds import Bounds
from holdfast.models import transport
from holdfast.models.catalogue import open_model
from holdfast.models.fake import Simulation
from holdfast.models.fake.server import serve_simulation
from holdfast.models.http import HttpModel
from holdfast.ports import TextDelta
from holdfast.types.faults import Phase, Refusal
from holdfast.types.limits import Limits
from holdfast.types.messages import Message, Reasoning, Reply, Role, StopReason, Text, ToolCall, ToolResult
from tests.core.images import a_png
from tests.models.conversations import (
    ECHO,
    a_blob,
    an_image,
    answered,
    asking,
    outcome,
    refusal_of,
    reply_of,
    returned,
    said,
    text_of_reply,
)

KEY = "sk-secret-0123456789"
every = pytest.mark.parametrize("provider", ["openai", "anthropic", "responses", "gemini"])
NAMES = {"openai": "openai-chat", "anthropic": "anthropic", "responses": "openai-responses", "gemini": "gemini"}
HI = asking(said("hi"))


def a_model(provider: str, url: str, name: str = "sim") -> HttpModel:
    base_url = f"{url}/v1" if provider in ("openai", "responses") else url
    environ = {"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY, "GEMINI_API_KEY": KEY}
    return open_model(f"{provider}:{name}", base_url=base_url, environ=environ)


@asynccontextmanager
async def connected(provider: str, simulation: Simulation) -> AsyncIterator[HttpModel]:
    async with serve_simulation(simulation) as url:
        model = a_model(provider, url)
        yield model
        await model.close()


Respond = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def a_server(respond: Respond) -> AsyncIterator[str]:
    """A server that says whatever a test wants, byte for byte."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await respond(reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def the_request(reader: asyncio.StreamReader) -> tuple[str, bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    length = next(int(line.split(":")[1]) for line in head.splitlines() if line.lower().startswith("content-length:"))
    return head, await reader.readexactly(length)


def saying(status: str, body: bytes, *headers: str) -> Respond:
    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await the_request(reader)
        lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]
        writer.write("\r\n".join(lines).encode() + body)
        await writer.drain()

    return respond


# --- what goes well ----------------------------------------------------------------------------------------------


@every
async def test_an_answer_streams_in_pieces_and_ends_in_a_reply(provider: str) -> None:
    async with connected(provider, Simulation()) as model:
        deltas, reply = await outcome(model, HI)
    assert isinstance(reply, Reply)
    assert len(deltas) > 1
    assert "".join(delta.text for delta in deltas if isinstance(delta, TextDelta)) == text_of_reply(reply)
    assert reply.stop_reason is StopReason.END
    assert reply.usage is not None


@every
async def test_tools_go_around(provider: str) -> None:
    async with connected(provider, Simulation()) as model:
        ask = said('think, then call echo {"word":"hey"} call echo {"word":"ho"}')
        first = await reply_of(model, asking(ask, tools=(ECHO,)))
        calls = [part for part in first.parts if isinstance(part, ToolCall)]
        results = returned(*(ToolResult(call.call_id, (Text(call.arguments),)) for call in calls))
        second = await reply_of(model, asking(ask, answered(*first.parts), results, tools=(ECHO,)))
    # Gemini's signature stands on the part behind the thought, and is a part of its own here.
    thoughts = [Reasoning] * (2 if provider == "gemini" else 1)
    assert [type(part) for part in first.parts] == [*thoughts, ToolCall, ToolCall]
    assert text_of_reply(second) == 'The tool echo returned: {"word":"hey"} The tool echo returned: {"word":"ho"}'


@every
async def test_images_arrive(provider: str) -> None:
    content = a_png(30, 40)
    request = asking(Message(Role.USER, (Text("look"), an_image(content, 30, 40))))
    async with connected(provider, Simulation()) as model:
        reply = await reply_of(model, request, {a_blob(content).sha256: content})
    assert "I see an attachment: image/png, 30x40 pixels" in text_of_reply(reply)


@every
async def test_many_requests_share_a_connection_one_after_the_other(provider: str) -> None:
    async with connected(provider, Simulation()) as model:
        for _ in range(5):
            await reply_of(model, HI)
        session = model._transport._session  # type: ignore[attr-defined] # what is kept open is nobody's business but a test's
        assert len(session.connector._conns) == 1


@every
async def test_the_issuer_names_dialect_endpoint_and_model(provider: str) -> None:
    model = a_model(provider, "http://127.0.0.1:8123", "m-1")
    assert model.issuer == f"{NAMES[provider]}:127.0.0.1:8123:m-1"
    assert model.name == f"{provider}:m-1"


# --- what goes wrong ---------------------------------------------------------------------------------------------


@every
@pytest.mark.parametrize(
    ("word", "status", "phase"),
    [
        ("401", 401, Phase.RESPONSE),
        ("404", 404, Phase.RESPONSE),
        ("413", 413, Phase.RESPONSE),
        ("429:retry-after=2", 429, Phase.RESPONSE),
        ("500", 500, Phase.RESPONSE),
        ("502", 502, Phase.RESPONSE),
        ("529", 529, Phase.RESPONSE),
        ("overflow", 400, Phase.RESPONSE),
        ("reasoning-400", 400, Phase.RESPONSE),
        ("bad-request", 400, Phase.RESPONSE),
        ("cut", 200, Phase.STREAM),
        ("error-event", 200, Phase.STREAM),
    ],
)
async def test_every_fault_is_told_as_it_came_and_the_next_request_works(
    provider: str, word: str, status: int, phase: Phase
) -> None:
    # Google takes a wrong key and too many bytes for wrong arguments, and says in the body when to come back.
    status = {"401": 400, "413": 400, "529": 503}.get(word, status) if provider == "gemini" else status
    tells = word.startswith("429") and provider != "gemini"
    async with connected(provider, Simulation(faults=word)) as model:
        refusal = await refusal_of(model, HI)
        assert (refusal.status, refusal.phase) == (status, phase)
        assert bool(refusal.body) is (word != "cut")
        assert refusal.headers.get("retry-after") == ("2" if tells else None)
        assert isinstance((await outcome(model, HI))[1], Reply)


@every
async def test_a_request_of_too_many_bytes_is_refused_over_the_wire(provider: str) -> None:
    async with connected(provider, Simulation(Limits(wire_bytes_max=100_000))) as model:
        refusal = await refusal_of(model, asking(said("x" * 5_000_000)))
    told = (400, "exceeds the limit: 100000 bytes") if provider == "gemini" else (413, "request_too_large")
    assert (refusal.status, told[1] in refusal.body) == (told[0], True)


@every
async def test_a_server_that_refuses_before_it_has_read_everything_is_understood(provider: str) -> None:
    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Payload Too Large\r\nContent-Length: 9\r\nConnection: close\r\n\r\ntoo large")
        await writer.drain()

    async with a_server(respond) as url:
        model = a_model(provider, url)
        refusal = await refusal_of(model, asking(said("x" * 20_000_000)))
        await model.close()
    # The response may arrive before the connection breaks; the error has the size in both cases.
    assert (refusal.status, refusal.body) == (413, "too large") or "request of 20,0" in refusal.cause


@every
@pytest.mark.parametrize("word", ["stall", "stall:after=1", "keepalive"])
async def test_closing_reaches_the_server(provider: str, word: str) -> None:
    simulation = Simulation(faults=word)
    async with connected(provider, simulation) as model:
        waiting = asyncio.create_task(outcome(model, HI))
        async with asyncio.timeout(10):
            await simulation.was_called.wait()
            waiting.cancel()
            await asyncio.wait([waiting])
            await simulation.requests[0].ended.wait()
    assert simulation.requests[0].was_closed_early


@every
async def test_closing_in_the_middle_of_an_answer_reaches_the_server(provider: str) -> None:
    shown: list[object] = []
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) > 10:
            await asyncio.Event().wait()

    simulation = Simulation(delta_seconds=1.0, sleep=sleep)
    async with connected(provider, simulation) as model, asyncio.timeout(10):
        async with aclosing(model.stream(asking(said("write 500 words")), {})) as stream:
            async for delta in stream:
                shown.append(delta)
                if len(shown) == 2:
                    break
        await simulation.requests[0].ended.wait()
    assert simulation.requests[0].was_closed_early


@every
async def test_a_server_that_is_not_there_is_named_with_what_to_check(provider: str) -> None:
    async with serve_simulation(Simulation()) as url:
        port = url.rpartition(":")[2]
    model = a_model(provider, url)
    refusal = await refusal_of(model, HI)
    await model.close()
    assert refusal == Refusal(
        NAMES[provider],
        Phase.CONNECT,
        cause=f"127.0.0.1:{port}: the connection was refused; check that the server runs and the port is right",
    )


async def test_a_name_that_does_not_exist_is_told() -> None:
    model = a_model("openai", "http://nowhere.invalid")
    refusal = await refusal_of(model, HI)
    await model.close()
    assert refusal.phase is Phase.CONNECT
    assert refusal.cause.startswith("nowhere.invalid:80: the name could not be resolved")


async def test_a_server_that_hangs_up_is_told_with_the_size_of_the_request() -> None:
    async def respond(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await the_request(reader)

    async with a_server(respond) as url:
        model = a_model("openai", url)
        refusal = await refusal_of(model, HI)
        await model.close()
    assert refusal.phase is Phase.CONNECT
    assert "the connection was closed before a response to a request of" in refusal.cause


async def test_a_server_without_encryption_behind_https_is_told() -> None:
    async def respond(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()

    async with a_server(respond) as url:
        model = a_model("openai", url.replace("http:", "https:"))
        refusal = await refusal_of(model, HI)
        await model.close()
    assert refusal.phase is Phase.CONNECT
    assert "no encrypted connection could be made; check whether it is http:// or https://" in refusal.cause


async def test_a_server_that_does_not_answer_the_greeting_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "CONNECT_SECONDS_MAX", 0.1)
    gone = asyncio.Event()

    async def respond(_: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
        await gone.wait()

    async with a_server(respond) as url:
        model = a_model("openai", url.replace("http:", "https:"))
        refusal = await refusal_of(model, HI)
        await model.close()
        gone.set()
    assert refusal.phase is Phase.CONNECT
    assert "no connection within 0.1 s; check the address and the firewall" in refusal.cause


async def test_an_address_that_cannot_be_reached_is_told() -> None:
    # Broadcast: no machine lets a plain program connect to it.
    model = a_model("openai", "http://255.255.255.255:9")
    refusal = await refusal_of(model, HI)
    await model.close()
    assert refusal.phase is Phase.CONNECT
    assert refusal.cause.startswith("255.255.255.255:9: no connection could be made (")


async def test_a_proxy_that_refuses_is_named_without_its_password() -> None:
    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()

    async with a_server(respond) as url:
        proxy = url.replace("http://", "http://me:pass-word@")
        model = open_model("openai:m", environ={"HTTPS_PROXY": proxy, "OPENAI_API_KEY": KEY})
        refusal = await refusal_of(model, HI)
        await model.close()
    place = url.removeprefix("http://")
    assert refusal == Refusal(
        "openai-chat",
        Phase.CONNECT,
        cause=f"the proxy {place}: it did not connect (status 407); check the proxy's settings",
    )


async def test_a_redirect_is_not_followed() -> None:
    stolen: list[str] = []

    async def thief(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        stolen.append((await the_request(reader))[0])

    async with a_server(thief) as elsewhere:
        respond = saying("307 Temporary Redirect", b"", f"Location: {elsewhere}/v1/chat/completions?secret=1")
        async with a_server(respond) as url:
            model = a_model("openai", url)
            refusal = await refusal_of(model, HI)
            await model.close()
    assert stolen == []
    assert (refusal.status, refusal.phase) == (307, Phase.RESPONSE)
    assert refusal.cause == (
        "the endpoint redirects to 127.0.0.1, which is not followed; set the base URL to the final address"
    )


async def test_a_page_in_place_of_an_answer_is_kept() -> None:
    async with a_server(saying("200 OK", b"<html>Sign in</html>", "Content-Type: text/html")) as url:
        model = a_model("openai", url)
        refusal = await refusal_of(model, HI)
        await model.close()
    assert (refusal.status, refusal.phase, refusal.body) == (200, Phase.STREAM, "<html>Sign in</html>")
    assert refusal.headers == {"content-type": "text/html"}


async def test_a_whole_answer_in_place_of_a_stream_is_understood() -> None:
    body = b'{"choices":[{"message":{"content":"hello"},"finish_reason":"stop"}]}'
    async with a_server(saying("200 OK", body, "Content-Type: application/json")) as url:
        model = a_model("openai", url, "m-1")
        reply = await reply_of(model, HI)
        await model.close()
    # The answer does not say which model wrote it, so it is the one that was asked.
    assert reply == Reply((Text("hello"),), StopReason.END, None, "m-1")


# --- secrets and bounds ------------------------------------------------------------------------------------------


@every
async def test_the_key_travels_in_a_header_and_nowhere_else(provider: str) -> None:
    requests: list[tuple[str, bytes]] = []

    async def respond(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        requests.append(await the_request(reader))

    async with a_server(respond) as url:
        model = a_model(provider, url)
        await refusal_of(model, HI)
        await model.close()
    ((head, body),) = requests
    lines = {"anthropic": f"x-api-key: {KEY}", "gemini": f"x-goog-api-key: {KEY}"}
    line = lines.get(provider, f"authorization: Bearer {KEY}")
    assert [found.lower() for found in head.splitlines() if KEY in found] == [line.lower()]
    assert KEY.encode() not in body


@every
async def test_a_provider_that_repeats_the_key_does_not_get_it_into_the_refusal(
    provider: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    # The key stands across the place where the body is cut.
    body = b"x" * (Bounds().refusal_body_bytes_max - 10) + f"bad key {KEY} is wrong {KEY}".encode()
    headers = (f"X-Request-Id: {KEY}", f"Set-Cookie: id={KEY}", f"Authorization: Bearer {KEY}", "Retry-After: 1")
    async with a_server(saying("401 Unauthorized", body, *headers)) as url:
        model = a_model(provider, url)
        refusal = await refusal_of(model, HI)
        await model.close()
    assert refusal.headers == {"retry-after": "1", "x-request-id": "[key]"}
    assert refusal.body.endswith("xbad key [k")
    assert len(refusal.body.encode()) == Bounds().refusal_body_bytes_max
    assert KEY[:8] not in repr(refusal) + repr(model) + caplog.text


async def test_a_key_inside_of_a_stream_is_struck_out_too() -> None:
    event = b'data: {"error":{"message":"' + KEY.encode() + b'"}}\n\n'
    async with a_server(saying("200 OK", event)) as url:
        model = a_model("openai", url)
        refusal = await refusal_of(model, HI)
        await model.close()
    assert refusal.body == '{"error":{"message":"[key]"}}'


async def test_a_body_without_end_is_cut_and_the_connection_closed() -> None:
    closed = asyncio.Event()

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await the_request(reader)
        writer.write(b"HTTP/1.1 500 Oops\r\nContent-Type: text/plain\r\n\r\n")
        try:
            while True:
                writer.write(b"x" * 65_536)
                await writer.drain()
        except ConnectionError:
            closed.set()

    async with a_server(respond) as url:
        model = a_model("openai", url)
        refusal = await refusal_of(model, HI)
        async with asyncio.timeout(10):
            await closed.wait()
        await model.close()
    assert refusal.body == "x" * Bounds().refusal_body_bytes_max


async def test_useful_headers_are_kept_and_bounded() -> None:
    many = [f"X-RateLimit-{number:03}: {'9' * 500}" for number in range(60)]
    headers = ("Retry-After-Ms: 5", "anthropic-ratelimit-tokens-remaining: 0", "Server: x", *many)
    async with a_server(saying("429 Slow down", b"", *headers)) as url:
        model = a_model("openai", url)
        refusal = await refusal_of(model, HI)
        await model.close()
    assert len(refusal.headers) == 40
    assert (refusal.headers["retry-after-ms"], refusal.headers["anthropic-ratelimit-tokens-remaining"]) == ("5", "0")
    assert "server" not in refusal.headers
    assert max(len(text) for text in refusal.headers.values()) == 256
