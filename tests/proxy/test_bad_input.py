"""What no provider would take is passed to it or made harmless, at a bounded cost, and nothing of it is stored."""

import base64
import gzip
import threading
from typing import Any

import pytest

from holdfast.gateway.http.asgi import off_loop
from holdfast.models.fake import Simulation
from holdfast.models.wire import MESSAGES_MAX
from holdfast.types.limits import Limits
from tests.core.images import a_png
from tests.proxy.proxies import a_dropin

GEMINI = "/v1beta/models/sim:generateContent"
PATHS = ("/v1/chat/completions", "/v1/responses", "/v1/messages", GEMINI)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "body",
    [
        b'{"model": "sim", "messages": [{"role": "user", "content": "\xff\xfe"}], "input": "\xff\xfe"}',
        b'{"model": "\xc3\x28", "messages": []}',
        b'{"model": "sim", "messages": ' + b"[" * 100_000,
        b'["model"]',
        b"\x00" * 1_000,
        b"",
    ],
    ids=["bytes-that-are-no-text", "a-name-that-is-no-text", "endless-nesting", "a-list", "zeros", "nothing"],
)
async def test_a_body_that_cannot_be_read_is_refused_by_the_provider_in_its_own_words(path: str, body: bytes) -> None:
    headers = {"content-type": "application/json", "authorization": "Bearer sk-x", "anthropic-version": "2023-06-01"}
    if path != "/v1/messages":
        del headers["anthropic-version"]
    async with a_dropin() as running:
        async with running.http.post(f"{running.upstream_url}{path}", data=body, headers=headers) as direct:
            said, status = await direct.read(), direct.status
        async with running.http.post(f"{running.url}{path}", data=body, headers=headers) as passed:
            assert (passed.status, await passed.read()) == (status, said)
        kept = await running.sessions()
    assert 400 <= status < 500
    assert kept == []


async def test_an_image_that_is_a_bomb_is_shown_by_a_line_and_never_opened() -> None:
    url = "data:image/png;base64," + base64.b64encode(a_png(100_000, 100_000)).decode()
    content: Any = [{"type": "text", "text": "look at this"}, {"type": "image_url", "image_url": {"url": url}}]
    async with a_dropin(Simulation(Limits(window_tokens=128_000, media_pixels_max=8_000))) as running:
        raw = await running.openai.chat.completions.with_raw_response.create(
            model="sim", messages=[{"role": "user", "content": content}], max_tokens=200
        )
        sent = running.sent[-1]
    assert raw.headers["x-holdfast-rescued"] == "media_overflow"
    assert raw.parse().choices[0].message.content
    assert b"base64" not in sent
    assert b"look at this" in sent


@pytest.mark.parametrize("path", PATHS)
async def test_a_request_with_more_messages_than_any_conversation_has_is_rejected_and_not_forwarded(path: str) -> None:
    field = {"/v1/responses": "input", GEMINI: "contents"}.get(path, "messages")
    one = '{"role":"user","parts":[]}' if path == GEMINI else '{"role":"user","content":"a"}'
    many = ",".join([one] * (MESSAGES_MAX + 1))
    body = gzip.compress(f'{{"model":"sim","max_tokens":5,"{field}":[{many}]}}'.encode())
    headers = {"content-type": "application/json", "content-encoding": "gzip", "authorization": "Bearer sk-x"}
    async with a_dropin() as running:
        async with running.http.post(f"{running.url}{path}", data=body, headers=headers) as response:
            status, refused = response.status, await response.json()
        assert running.sent == []
        assert await running.sessions() == []
    assert status == 413
    assert "50,001 messages, the limit is 50,000" in refused["error"]["message"]


async def test_a_large_body_is_parsed_in_a_thread_and_a_small_one_on_the_loop() -> None:
    assert await off_loop(10 * 2**20, threading.get_ident) != threading.get_ident()
    assert await off_loop(1_000, threading.get_ident) == threading.get_ident()
