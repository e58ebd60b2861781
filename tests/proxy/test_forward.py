"""A request that fits passes through byte for byte, both ways."""

import asyncio
import gzip
import json
import zlib
from typing import Any

import aiohttp
import openai
import pytest

from holdfast.core.limits.bounds import Deadlines
from holdfast.gateway.bounds import GatewayBounds
from holdfast.models.fake import Simulation
from holdfast.models.fake.server import serve_simulation
from holdfast.types.faults import Rung
from holdfast.types.limits import Limits
from holdfast.types.records import Outcome, ReplyRecorded, RungFinished, TurnEnded
from tests.proxy.proxies import DEADLINE_SECONDS, DropInRunning, a_dropin

CHAT = "/v1/chat/completions"
GEMINI = "/v1beta/models/sim:generateContent"
ODD_GEMINI = (
    b'{ "contents":[ {"parts":[ {"text":"hello"} ],"role":"user"} ] , "safety_settings":[],"labels":{"a":1.50} }'
)
ODD = b'{ "messages":[ {"role":"user", "content":"hello","x_mark":1.50} ],"model":"sim" , "x_unknown":[1,2] }'


async def _post(running: DropInRunning, url: str, path: str, body: bytes) -> tuple[int, dict[str, str], bytes]:
    name = "x-goog-api-key" if "generateContent" in path.replace("Gen", "gen") else "authorization"
    headers = {"content-type": "application/json", name: "Bearer sk-the-clients-own-key"}
    async with running.http.post(url + path, data=body, headers=headers) as response:
        return response.status, {name.lower(): text for name, text in response.headers.items()}, await response.read()


def _without_number(body: bytes, number: int) -> bytes:
    return body.replace(f"sim-{number}".encode(), b"sim-N")


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("path", [CHAT, "/v1/messages", "/v1/responses", GEMINI, GEMINI.replace("v1beta", "v1")])
async def test_a_request_that_fits_arrives_and_returns_to_the_byte(path: str, *, is_streamed: bool) -> None:
    if "generateContent" in path:
        path = path.replace(":generate", ":streamGenerate") if is_streamed else path
        await _check_bytes(path, ODD_GEMINI)
        return
    field = "input" if path.endswith("responses") else "messages"
    stream = b',"stream": true' if is_streamed else b""
    body = ODD.replace(b'"messages"', f'"{field}"'.encode()).replace(b'"model"', b'"max_tokens":50 ,"model"')
    body = body.replace(b',"x_mark":1.50', b"").replace(b' , "x_unknown":[1,2]', stream + b',  "metadata":{}')
    await _check_bytes(path, body)


async def test_a_gemini_stream_of_events_returns_to_the_byte() -> None:
    await _check_bytes(GEMINI.replace(":generate", ":streamGenerate") + "?alt=sse", ODD_GEMINI)


async def _check_bytes(path: str, body: bytes) -> None:
    """Check that a request and its answer are the same with and without the proxy."""
    async with a_dropin() as running:
        straight = await _post(running, running.upstream_url, path, body)
        through = await _post(running, running.url, path, body)
    assert straight[0] == through[0] == 200
    assert _without_number(straight[2], 1) == _without_number(through[2], 2)
    assert running.sent == [body, body]
    ours = {name for name in through[1] if name.startswith("x-holdfast")}
    assert ours == {"x-holdfast-session", "x-holdfast-request-id"}
    hop = {"date", "server", "transfer-encoding", "content-length", "connection", "x-request-id", "request-id"}
    assert set(straight[1]) - hop == set(through[1]) - hop - ours


@pytest.mark.parametrize("word", ["401", "403", "404", "bad-request", "quota", "content-filter"])
async def test_an_error_that_is_not_ours_to_cure_passes_unchanged(word: str) -> None:
    async with a_dropin(Simulation(faults=f"{word},{word}")) as running:
        straight = await _post(running, running.upstream_url, CHAT, ODD)
        through = await _post(running, running.url, CHAT, ODD)
        assert await running.sessions() == []
    assert through[0] == straight[0] >= 400
    assert through[2] == straight[2]
    assert len(running.sent) == 2


async def test_a_transient_error_is_retried_by_the_table_of_native_sessions() -> None:
    async with a_dropin(Simulation(faults="500, 500, 500")) as running:
        answer = await running.openai.chat.completions.create(
            model="sim", messages=[{"role": "user", "content": "remember harbour = Kiel"}]
        )
        (key,) = await running.sessions()
        records = await running.records(key)
    assert "Kiel" in (answer.choices[0].message.content or "")
    assert [seen.status for seen in running.simulation.requests] == [500, 500, 500, 200]
    # Byte for byte the same request each time.
    assert len(set(running.sent)) == 1
    waits = [record.rung for record in records if isinstance(record, RungFinished)]
    assert waits == [Rung.BACKOFF] * 3
    assert sum(isinstance(record, ReplyRecorded) for record in records) == 1


async def test_a_transient_error_that_stays_is_returned_unchanged_after_the_last_retry() -> None:
    async with a_dropin(Simulation(faults="500*9")) as running:
        straight = await _post(running, running.upstream_url, CHAT, ODD)
        through = await _post(running, running.url, CHAT, ODD)
        sent = len(running.sent)
        (key,) = await running.sessions()
        ended = [record for record in await running.records(key) if isinstance(record, TurnEnded)]
    assert (through[0], through[2]) == (straight[0], straight[2])
    # One straight, then one forwarded and three retries.
    assert sent == 1 + 4
    assert [(record.outcome, record.code) for record in ended] == [(Outcome.FAILED, "transient")]


@pytest.mark.parametrize("word", ["empty", "error-event:after=0", "cut:after=0"])
async def test_an_empty_answer_and_a_stream_that_breaks_before_content_are_retried_before_the_client_sees_them(
    word: str,
) -> None:
    async with a_dropin(Simulation(faults=word)) as running:
        stream = await running.openai.chat.completions.create(
            model="sim", messages=[{"role": "user", "content": "remember harbour = Kiel"}], stream=True
        )
        text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])
    assert "Kiel" in text
    assert len(running.sent) == 2


async def test_what_we_cannot_read_is_for_the_provider_to_refuse() -> None:
    body = b'{"messages": "no list", "model": "sim"}'
    async with a_dropin() as running:
        straight = await _post(running, running.upstream_url, CHAT, body)
        through = await _post(running, running.url, CHAT, body)
    assert straight[0] == through[0] == 400
    assert straight[2] == through[2]


async def test_the_official_sdks_speak_and_stream_through_it() -> None:
    async with a_dropin() as running:
        message: Any = [{"role": "user", "content": "remember port = 8080"}]
        request: Any = [{"role": "user", "content": "remember port = 8080; what is port?"}]
        plain = await running.openai.chat.completions.create(model="sim", messages=message)
        stream = await running.openai.chat.completions.create(model="sim", messages=request, stream=True)
        streamed = "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])
        response = await running.openai.responses.create(model="sim", input="remember port = 8080; what is port?")
        async with running.anthropic.messages.stream(model="sim", max_tokens=99, messages=request) as events:
            text = await events.get_final_text()
    assert plain.choices[0].message.content
    assert "8080" in streamed
    assert "8080" in response.output_text
    assert "8080" in text


async def test_a_client_that_goes_lets_the_provider_stop_at_once() -> None:
    simulation = Simulation(faults="stall:after=1")
    async with a_dropin(simulation) as running:
        body = json.dumps({"model": "sim", "stream": True, "messages": [{"role": "user", "content": "write 50 words"}]})
        async with running.http.post(
            running.url + CHAT, data=body, headers={"content-type": "application/json"}
        ) as response:
            await response.content.readany()
        seen = simulation.requests[0]
        async with asyncio.timeout(DEADLINE_SECONDS):
            await seen.ended.wait()
        assert seen.was_closed_early


async def test_a_body_that_is_too_long_is_refused_before_it_is_sent() -> None:
    async with a_dropin(gateway_bounds=GatewayBounds(body_bytes_max=1_000)) as running:
        status, _, _ = await _post(running, running.url, CHAT, b'{"x":"' + b"x" * 2_000 + b'"}')
    assert status == 413
    assert running.sent == []


async def test_a_rate_limit_is_waited_out_and_the_client_never_sees_it() -> None:
    async with a_dropin(Simulation(faults="429:retry-after=0.01,529")) as running:
        status, _, _ = await _post(running, running.url, CHAT, ODD)
    assert status == 200
    assert len(running.sent) == 3


async def test_an_overload_that_lasts_is_told_as_it_is() -> None:
    async with a_dropin(Simulation(faults="529*9")) as running:
        with pytest.raises(openai.APIStatusError) as told:
            await running.openai.chat.completions.create(model="sim", messages=[{"role": "user", "content": "hi"}])
    assert told.value.status_code >= 500
    assert len(running.sent) == 4


async def test_the_next_model_answers_only_where_it_was_allowed() -> None:
    async with a_dropin(Simulation(faults="529*4"), fallbacks=["sim-2"]) as running:
        status, headers, _ = await _post(running, running.url, CHAT, ODD)
    assert status == 200
    assert headers["x-holdfast-rescued"] == "next_model"
    assert [json.loads(body)["model"] for body in running.sent] == ["sim"] * 4 + ["sim-2"]
    assert running.sent[-1] == ODD.replace(b'"sim"', b'"sim-2"')


async def test_a_stall_before_the_first_byte_is_tried_again() -> None:
    deadlines = Deadlines(connect_seconds=0.1, first_token_seconds=0.2)
    async with a_dropin(Simulation(faults="stall:after=0"), deadlines=deadlines) as running:
        body = ODD.replace(b'"model"', b'"stream":true,"model"')
        status, _, through = await _post(running, running.url, CHAT, body)
    assert status == 200
    assert b"[DONE]" in through
    assert len(running.sent) == 2


async def test_nothing_is_tried_again_once_the_client_has_seen_bytes() -> None:
    async with a_dropin(Simulation(faults="cut:after=1")) as running:
        body = ODD.replace(b'"model"', b'"stream":true,"model"')
        with pytest.raises(aiohttp.ClientError):
            await _post(running, running.url, CHAT, body)
    assert len(running.sent) == 1


async def test_the_lists_of_models_come_from_who_is_asked() -> None:
    async with a_dropin() as running:
        theirs = [model.id async for model in running.openai.models.list()]
        others = [model.id async for model in running.anthropic.models.list()]
    assert theirs == others == ["sim"]


async def test_tokens_are_counted_by_estimate_where_the_provider_does_not_count() -> None:
    async with a_dropin() as running:
        counted = await running.anthropic.messages.count_tokens(
            model="sim", messages=[{"role": "user", "content": "one two three four five six"}]
        )
    assert 5 <= counted.input_tokens <= 40


async def test_an_upstream_that_cannot_be_reached_is_told_in_the_clients_dialect() -> None:
    # A port that was free a moment ago, so nobody listens there.
    async with serve_simulation(Simulation()) as gone:
        pass
    async with a_dropin(upstream_url=gone) as running:
        with pytest.raises(openai.APIStatusError) as told:
            await running.openai.chat.completions.create(model="sim", messages=[{"role": "user", "content": "hi"}])
        with pytest.raises(openai.APIStatusError) as listed:
            await running.openai.models.list()
    assert told.value.status_code == listed.value.status_code == 502
    assert "could not be reached" in told.value.message


@pytest.mark.parametrize("name", ["gzip", "deflate"])
async def test_a_compressed_request_is_read_kept_and_rescued_like_any_other(name: str) -> None:
    said = [f"remember fact{number} = {number}\n" + "the crew writes down what it saw. " * 80 for number in range(20)]
    messages = [{"role": "assistant" if place % 2 else "user", "content": text} for place, text in enumerate(said[:19])]
    body = {"model": "sim", "max_tokens": 100, "messages": messages}
    plain = json.dumps(body).encode()
    packed = gzip.compress(plain) if name == "gzip" else zlib.compress(plain)
    headers = {"content-encoding": name, "anthropic-version": "2023-06-01", "anthropic-beta": "context-1m-2025-08-07"}
    headers["content-type"] = "application/json"
    async with a_dropin(Simulation(Limits(window_tokens=6_000, output_tokens_max=1_000))) as running:
        async with running.http.post(f"{running.url}/v1/messages", data=packed, headers=headers) as answer:
            answered = await answer.json()
            told = dict(answer.headers)
        (key,) = await running.sessions()
        sent = [json.loads(one) for one in running.sent]
    assert answered["type"] == "message"
    assert told["x-holdfast-session"] == key
    assert told["x-holdfast-rescued"]
    assert sent[0] == body
    assert len(sent) > 1


@pytest.mark.parametrize(
    "packed", [b"\x28\xb5\x2f\xfd not for us", gzip.compress(b"{}", mtime=0)[:-9]], ids=["another way", "cut off"]
)
async def test_what_is_packed_in_a_way_that_is_not_read_goes_on_as_it_came(packed: bytes) -> None:
    headers = {"content-encoding": "zstd" if packed.startswith(b"\x28") else "gzip", "content-type": "application/json"}
    async with a_dropin() as running:
        async with running.http.post(f"{running.url}/v1/messages", data=packed, headers=headers) as answer:
            assert answer.status == 400
        assert running.sent == [packed]
        assert await running.sessions() == []
