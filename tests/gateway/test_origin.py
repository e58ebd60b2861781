"""A gateway without keys in a browser's reach: its own page is served, the pages of others are not."""

import json
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from holdfast.errors import UsageError
from holdfast.gateway.api.routes import PREFIX, ROUTES
from holdfast.gateway.http.keys import KeyFile
from holdfast.gateway.http.origin import Origin, parse_authority, parse_origin, parse_origins
from tests.gateway.gateways import a_gateway
from tests.proxy.proxies import a_dropin

HELLO = json.dumps({"model": "sim", "max_tokens": 9, "messages": [{"role": "user", "content": "hello"}]}).encode()
# What a page of another port of this machine makes a browser send; `fetch` with `no-cors` asks nobody first.
OTHER_PORT = {"origin": "http://localhost:3000", "sec-fetch-site": "same-site", "sec-fetch-mode": "no-cors"}


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://localhost:3000"},
        {"origin": "http://127.0.0.1:3000"},
        {"origin": "http://127.0.0.1"},
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "file://"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "Cross-Site"},
        {"host": "evil.example"},
        {"host": "[::1].evil.com"},
        {"host": "[::1]evil.com"},
        {"host": "[::1]:80.evil.com"},
        {"host": "[::1%25lo]"},
        {"host": "::1"},
        {"host": "localhost:80@evil.com"},
        {"host": "user@localhost"},
        {"host": "localhost."},
        {"host": "localhost.evil.com"},
        {"host": "127.0.0.1.evil.com"},
        {"host": "127.0.0.1:99999"},
        {"host": "127.0.0.1:80:80"},
        {"host": "127.0.0.1/x"},
        {"host": "127.1"},
        {"host": "0x7f000001"},
        {"host": "0.0.0.0"},
        {"host": ""},
        {"host": "local host"},
    ],
)
async def test_a_page_of_another_origin_reads_and_writes_nothing(headers: dict[str, str]) -> None:
    async with a_gateway() as running:
        read = await running.client.get("/api/sessions", headers=headers)
        written = await running.client.post("/api/sessions/x/messages", {"text": "hello"}, headers=headers)
        left = await running.client.get("/api/sessions")
    assert (read.code, written.code) == ((403, "forbidden"), (403, "forbidden"))
    assert left.body["sessions"] == []


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8712", "127.0.0.1:80", "127.9.9.9", "[::1]:8712", "[::1]"])
async def test_the_gateways_own_page_and_programs_without_an_origin_are_served(host: str) -> None:
    async with a_gateway() as running:
        for headers in (
            {"host": host},
            {"host": host, "origin": f"http://{host}", "sec-fetch-site": "same-origin"},
            {"host": host, "sec-fetch-site": "none"},
        ):
            answer = await running.client.post("/api/sessions/x/messages", {"text": "hello"}, headers=headers)
            assert answer.status == 200, headers


async def test_no_address_that_writes_serves_a_page_of_another_port() -> None:
    """Whatever is added to the table of addresses is tried here too."""
    async with a_gateway() as running:
        await running.client.send("x", "hello")
        before = (await running.client.get("/api/sessions/x/records")).body
        for route in ROUTES:
            address = route.path.replace("{key}", "x").replace("{sha256}", "0" * 64)
            address = address.replace("{turn}", "1").replace("{seq}", "1")
            answer = await running.client.ask(
                route.method,
                PREFIX + address,
                b'{"text":"hello"}',
                headers={**OTHER_PORT, "content-type": "text/plain"},
            )
            assert answer.code == (403, "forbidden"), route.path
        assert (await running.client.get("/api/sessions/x/records")).body == before


async def test_repeated_host_and_origin_headers_are_refused() -> None:
    async with a_gateway() as running:
        port = urlsplit(running.url).port
        own = f"127.0.0.1:{port}"
        for lines in (
            f"Host: {own}\r\nHost: evil.example",
            f"Host: {own}\r\nOrigin: http://{own}\r\nOrigin: http://evil.example",
        ):
            raw = await running.raw(f"GET /api/sessions HTTP/1.1\r\n{lines}\r\nConnection: close\r\n\r\n".encode())
            assert raw.split()[1] == b"400", lines


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1/responses", "/v1/messages/count_tokens"])
async def test_a_page_of_another_port_does_not_spend_the_operators_key_or_plant_a_session(path: str) -> None:
    async with a_dropin(upstream_key="sk-of-the-operator-0001") as running:
        refused = []
        for headers in (
            {**OTHER_PORT, "content-type": "text/plain"},
            {**OTHER_PORT, "content-type": "application/json"},
            {"content-type": "text/plain"},
            {"content-type": "text/plain;charset=application/json"},
            {"content-type": "application/x-www-form-urlencoded"},
            {"content-type": "multipart/form-data; boundary=x"},
            {"content-type": ""},
        ):
            async with running.http.post(running.url + path, data=HELLO, headers=headers) as response:
                refused.append(response.status)
                assert "error" in await response.json(content_type=None)
        assert (running.sent, await running.sessions()) == ([], [])
    assert refused == [403, 403, *[415] * 5]


async def test_files_are_uploaded_as_forms_and_texts_are_not() -> None:
    async with a_dropin(upstream_key="sk-of-the-operator-0001") as running:
        statuses = []
        for kind in ("multipart/form-data; boundary=x", "text/plain", "application/x-www-form-urlencoded"):
            headers = {"authorization": "Bearer sk-own", "content-type": kind}
            async with running.http.post(f"{running.url}/v1/files", data=b"x", headers=headers) as response:
                statuses.append(response.status)
    # 404 is the answer of the provider here.
    assert statuses == [404, 415, 415]


async def test_a_page_that_the_operator_lists_is_served_and_may_read_the_answers() -> None:
    page = {"origin": "http://localhost:3000", "sec-fetch-site": "same-site"}
    asked = {"access-control-request-method": "POST", "access-control-request-headers": "content-type"}
    async with a_gateway(origins=["http://LOCALHOST:3000"]) as running:
        preflight = await running.client.ask("OPTIONS", "/api/sessions/x/messages", headers={**page, **asked})
        written = await running.client.post("/api/sessions/x/messages", {"text": "hello"}, headers=page)
        missing = await running.client.get("/api/sessions/nothing", headers=page)
        program = await running.client.get("/api/sessions")
        foreign = {"origin": "http://localhost:3001", **asked}
        others = [
            await running.client.ask("OPTIONS", "/api/sessions/x/messages", headers=foreign),
            await running.client.post("/api/sessions/x/messages", {"text": "hello"}, headers=foreign),
        ]
    assert (preflight.status, written.status, missing.status) == (200, 200, 404)
    assert preflight.headers["access-control-allow-headers"] == "content-type"
    for answer in (preflight, written, missing):
        assert answer.headers["access-control-allow-origin"] == "http://localhost:3000"
    for answer in (program, *others):
        assert "access-control-allow-origin" not in answer.headers
    assert [answer.code for answer in others] == [(403, "forbidden")] * 2


async def test_with_keys_a_page_needs_one_and_no_origin_is_asked_for(tmp_path: Path) -> None:
    key = KeyFile(tmp_path / "keys").add("alice")
    async with a_gateway(keys=tmp_path / "keys") as running:
        without = await running.client.get("/api/sessions", headers=OTHER_PORT)
        with_key = await running.with_key(key).get("/api/sessions", headers={"host": "gateway.example"})
    assert (without.code, with_key.status) == ((401, "unauthorized"), 200)


@pytest.mark.parametrize(
    "text", ["null", "", "http://", "http://a b", "http://u@h", "http://h/p", "ftp://h", "http://h:x"]
)
def test_a_text_that_is_no_origin_is_none_and_refused_in_the_settings(text: str) -> None:
    assert parse_origin(text) is None
    with pytest.raises(UsageError, match=r"gateway\.origins"):
        parse_origins([text])


def test_origins_and_hosts_are_compared_without_case_and_with_their_default_ports() -> None:
    assert parse_origin("http://LocalHost") == Origin("http", "localhost", 80)
    assert parse_origin("https://[::1]") == Origin("https", "::1", 443)
    assert parse_origins(["http://a:1", "http://A:1"]) == {Origin("http", "a", 1)}
    assert parse_authority("h:0") != parse_authority("h")
