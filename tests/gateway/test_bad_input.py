"""Whatever comes over the socket: a clear refusal, at a bounded cost, and nothing stored."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from holdfast.gateway.bounds import GatewayBounds
from tests.core.images import a_png
from tests.gateway.gateways import Running, a_gateway, eventually

KEY = "/api/sessions/telegram:42"
QUICK = GatewayBounds(
    header_seconds_max=0.3,
    body_idle_seconds_max=0.3,
    body_seconds_max=1.0,
    body_bytes_max=100_000,
    upload_bytes_max=200_000,
    uploads_bytes_max=300_000,
    header_bytes_max=8_192,
    connections_max=4,
    keep_alive_seconds=1.0,
)


def parsed(raw: bytes) -> tuple[int, str]:
    """Return status and code of the first answer."""
    head, _, body = raw.partition(b"\r\n\r\n")
    assert b"application/problem+json" in head.lower(), raw[:500]
    told = json.loads(body)
    assert told["status"] == int(head.split()[1])
    return told["status"], told["code"]


async def nothing_stored(running: Running) -> bool:
    return bool((await running.client.get("/api/sessions")).body["sessions"] == [])


def a_post(body: bytes, *, kind: str = "application/json", path: str = f"{KEY}/messages", more: str = "") -> bytes:
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n"
    return f"{head}connection: close\r\n{more}\r\n".encode() + body


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", (400, "malformed")),
        (b"{", (400, "malformed")),
        (b'{"text": "x"} trailing', (400, "malformed")),
        (b'{"text": "\xff\xfe"}', (400, "malformed")),
        (b'{"text": "\\ud800"}', (400, "malformed")),
        (b"[" * 90_000, (422, "invalid")),
        (b'{"tools": [{"name": "a", "parameters": ' + b'{"a":' * 15_000, (400, "malformed")),
        (b"[]", (422, "invalid")),
        (b'{"text": 5}', (422, "invalid")),
        (b'{"text": null}', (422, "invalid")),
        (b'{"txet": "x"}', (422, "invalid")),
        (b'{"text": "x", "role": "system"}', (422, "invalid")),
        (b'{"text": "x", "mode": "soon"}', (422, "invalid")),
        (b'{"text": "x", "attachments": [{"content": "!!"}]}', (422, "invalid")),
        (b'{"text": "x", "tools": [{"name": "a b"}]}', (422, "invalid")),
        (b'{"text": "x", "tools": [{"name": "recall"}]}', (422, "bad_input")),
        (b'{"text": "x", "tools": [{"name": "a", "parameters": {"type": "array"}}]}', (422, "bad_input")),
        (b'{"text": "  "}', (422, "bad_input")),
        (b'{"text": "a\\u0000b"}', (422, "bad_input")),
        (b'{"text": "x", "client_id": "a\\nb"}', (422, "bad_input")),
        (b'{"text": "x", "client_id": "' + b"c" * 300 + b'"}', (422, "bad_input")),
        (b'{"text": "x", "attachments": [{"content": "AAEC"}]}', (422, "bad_input")),
    ],
)
async def test_a_body_that_cannot_be_taken_is_refused_and_nothing_is_stored(
    body: bytes, expected: tuple[int, str]
) -> None:
    async with a_gateway(bounds=QUICK) as running:
        assert parsed(await running.raw(a_post(body))) == expected
        assert await nothing_stored(running)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/api/sessions/holdfast:learned", (422, "bad_input")),
        ("/api/sessions/%00", (422, "bad_input")),
        ("/api/sessions/a%0d%0ax-evil:1", (422, "bad_input")),
        ("/api/sessions/%20x", (422, "bad_input")),
        ("/api/sessions/%ff", (400, "malformed")),
        ("/api/sessions/%F0%9F", (400, "malformed")),
        ("/api/sessions/", (422, "bad_input")),
        ("/api/sessions/" + "k" * 201, (422, "invalid")),
        ("/api/sessions/@tenant%2Fx", (422, "invalid")),
        ("/api/sessions/../../etc/passwd", (404, "not_found")),
        ("/api/sessions/..%2F..%2Fetc%2Fpasswd", (404, "not_found")),
        ("/api//sessions", (404, "not_found")),
        ("/api", (404, "not_found")),
        ("/", (404, "not_found")),
        ("/api/sessions/x/turns/-1", (404, "not_found")),
        ("/api/sessions/x/turns/%D9%A1", (404, "not_found")),
        ("/api/sessions/x/records/99999999999999999999", (404, "not_found")),
        ("/api/sessions?limit=0", (422, "invalid")),
        ("/api/sessions?limit=x", (422, "invalid")),
        ("/api/sessions?limit=1&limit=2", (422, "invalid")),
        ("/api/sessions?page=1", (422, "invalid")),
        ("/api/sessions?after=%ff", (400, "malformed")),
        ("/api/sessions?" + "&".join(f"a{number}=1" for number in range(30)), (400, "malformed")),
        ("/api/sessions/x?verbose=1", (422, "invalid")),
    ],
)
async def test_a_path_or_query_with_tricks_is_refused(path: str, expected: tuple[int, str]) -> None:
    async with a_gateway(bounds=QUICK) as running:
        if path.startswith("/api/sessions/x"):
            await running.client.ask("PUT", "/api/sessions/x", {})
        raw = await running.raw(f"GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode())
        assert parsed(raw) == expected
        assert b"x-evil" not in raw.partition(b"\r\n\r\n")[0]


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"nonsense\r\n\r\n", (400, "malformed")),
        (b"GET /healthz HTTP/1.1\r\nbad header\r\n\r\n", (400, "malformed")),
        (b"GET /api/sessions HTTP/1.1\r\nhost: localhost\r\nhost: evil\r\n\r\n", (400, "malformed")),
        (b"GET /api/sessions HTTP/1.1\r\nhost: localhost\r\nx: " + b"y" * 9_000 + b"\r\n\r\n", (431, "too_large")),
        (b"GET /" + b"a" * 9_000 + b" HTTP/1.1\r\nhost: localhost\r\n\r\n", (431, "too_large")),
        (b"POST /a HTTP/1.1\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", (400, "malformed")),
        (b"POST /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n", (405, "method_not_allowed")),
        (b"PATCH /api/sessions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n", (405, "method_not_allowed")),
    ],
)
async def test_what_is_no_proper_request_is_refused(raw: bytes, expected: tuple[int, str]) -> None:
    async with a_gateway(bounds=QUICK) as running:
        assert parsed(await running.raw(raw)) == expected


async def test_a_body_of_another_type_is_refused() -> None:
    async with a_gateway(bounds=QUICK) as running:
        assert parsed(await running.raw(a_post(b'{"text":"x"}', kind="text/plain"))) == (415, "media_type")
        assert await nothing_stored(running)


async def test_a_gigabyte_is_refused_by_its_length_alone() -> None:
    async with a_gateway(bounds=QUICK) as running:
        head = a_post(b"").replace(b"content-length: 0", b"content-length: 1073741824")
        assert parsed(await running.raw(head)) == (413, "too_large")
        assert await nothing_stored(running)


async def endless(piece: bytes) -> AsyncIterator[bytes]:
    while True:
        yield piece
        await asyncio.sleep(0)


CHUNKED = f"POST {KEY}/messages HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n".encode()


async def test_a_chunked_body_without_end_is_cut_and_its_sender_is_told() -> None:
    async with a_gateway(bounds=QUICK) as running:
        sent = CHUNKED + b"transfer-encoding: chunked\r\n\r\n"
        raw = await running.raw(sent, more=endless(b"400\r\n" + b" " * 1_024 + b"\r\n"))
        assert parsed(raw) == (413, "too_large")
        assert await nothing_stored(running)


async def test_a_body_that_nobody_asked_for_is_cut_too() -> None:
    async with a_gateway(bounds=QUICK) as running:
        sent = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
        raw = await running.raw(sent, more=endless(b"400\r\n" + b" " * 1_024 + b"\r\n"))
        assert raw.startswith(b"HTTP/1.1 200")
        await eventually(lambda: len(running.gateway.state.streams) == 0)


async def dripping(piece: bytes) -> AsyncIterator[bytes]:
    """One byte now and then: slower than any deadline, but never quite silent."""
    while True:
        yield piece
        await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    ("begin", "piece", "expected"),
    [
        (b"", None, (408, "too_slow")),
        (b"GET /healthz HT", None, (408, "too_slow")),
        (b"GET /healthz HTTP/1.1\r\nx: ", b"y", (408, "too_slow")),
        (CHUNKED + b"content-length: 50\r\n\r\n{", None, (408, "too_slow")),
        (CHUNKED + b"content-length: 5000\r\n\r\n{", b" ", (408, "too_slow")),
    ],
)
async def test_who_sends_too_slowly_is_cut_off(begin: bytes, piece: bytes | None, expected: tuple[int, str]) -> None:
    async with a_gateway(bounds=QUICK) as running:
        raw = await running.raw(begin, more=dripping(piece) if piece else None)
        assert parsed(raw) == expected
        assert await nothing_stored(running)


async def test_a_second_request_on_a_connection_has_the_same_deadline() -> None:
    async with a_gateway(bounds=QUICK) as running:
        first = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"
        raw = await running.raw(first + first[:20])
        assert raw.count(b"HTTP/1.1 200") == 1
        assert b"HTTP/1.1 408" in raw


async def test_connections_have_a_bound_and_those_that_are_open_go_on() -> None:
    async with a_gateway(bounds=QUICK) as running, running.connection() as (reader, writer):
        writer.write(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        others = [await asyncio.open_connection(*running.url.removeprefix("http://").split(":")) for _ in range(4)]
        assert parsed(await others[-1][0].read()) == (503, "too_many")
        for _, other in others:
            other.transport.abort()


async def test_an_image_that_is_a_bomb_is_refused_and_nothing_is_stored() -> None:
    bomb = a_png(100_000, 100_000)
    async with a_gateway() as running:
        up = await running.client.ask("POST", "/api/attachments?name=bomb.png", bomb)
        answer = await running.client.send("telegram:42", "look", attachments=[{"upload": up.body["upload"]}])
        assert answer.code == (422, "bad_input")
        assert answer.body["detail"].startswith("file 'bomb.png' has 100,000 by 100,000 pixels")
        assert await nothing_stored(running)


@pytest.mark.parametrize("name", ["..", ".", "../../etc/passwd", "a%00b", "x" * 300, "", "..%5C..%5Cx", "%E2%80%AEx"])
async def test_the_name_of_an_upload_leads_nowhere(name: str) -> None:
    async with a_gateway() as running:
        up = await running.client.ask("POST", f"/api/attachments?name={name}", b"plain text")
        assert up.status == 201
        path = running.gateway.state.uploads.path_of("", up.body["upload"])
        assert path.parent.name == up.body["upload"]
        assert path.read_bytes() == b"plain text"


async def test_uploads_have_bounds_and_one_that_is_cut_off_leaves_nothing() -> None:
    async with a_gateway(bounds=QUICK) as running:
        uploads = running.gateway.state.uploads
        too_long = await running.client.ask("POST", "/api/attachments", b"x" * 200_001)
        kept = await running.client.ask("POST", "/api/attachments", b"x" * 200_000)
        too_many = await running.client.ask("POST", "/api/attachments", b"x" * 100_001)
        async with running.connection() as (_, writer):
            writer.write(b"POST /api/attachments HTTP/1.1\r\nhost: localhost\r\ncontent-length: 90000\r\n\r\nhalf")
            await eventually(lambda: len(list(uploads._folder.iterdir())) == 2)
        await eventually(lambda: len(list(uploads._folder.iterdir())) == 1)

    assert too_long.code == (413, "too_large")
    assert kept.status == 201
    assert too_many.code == (429, "too_many")


async def test_texts_have_bounds() -> None:
    async with a_gateway() as running:
        await running.client.ask("PUT", KEY, {})
        answers = [
            await running.client.ask("PUT", KEY, {"system": "x" * 200_001}),
            await running.client.post(f"{KEY}/compact", {"focus": "x" * 4_001}),
            await running.client.get(f"{KEY}/search?query={'x' * 2_001}"),
        ]
        records = (await running.client.get(KEY)).body["records"]

    assert [answer.code for answer in answers] == [(422, "invalid")] * 3
    assert records == 1


async def test_a_failure_of_ours_is_told_without_its_words(caplog: pytest.LogCaptureFixture) -> None:
    async with a_gateway() as running:

        async def fails(*_: object, **__: object) -> None:
            raise ZeroDivisionError("the secret of somebody")

        running.gateway.state.client.session_page = fails  # type: ignore[method-assign,assignment] # what nobody foresaw
        answer = await running.client.get("/api/sessions")

    assert answer.code == (500, "internal")
    assert "secret" not in json.dumps(answer.body)
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == ["request failed"]
