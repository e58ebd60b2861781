"""What leaves with the gateway's own provider key, and which paths leave at all."""

import asyncio
import json
import posixpath
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from yarl import URL

from holdfast.errors import UsageError
from holdfast.gateway.http.keys import KeyFile
from holdfast.gateway.http.problems import MalformedError
from holdfast.gateway.proxy.access import ForwardTable, raw_path
from tests.proxy.proxies import DropInRunning, a_dropin
from tests.proxy.upstreams import a_raw_upstream

GATEWAY_KEY = "sk-of-the-operator-0001"
HELLO: Any = {"model": "sim", "max_tokens": 9, "messages": [{"role": "user", "content": "hello"}], "input": "hello"}
MODEL_CALLS = [
    ("POST", "/v1/chat/completions"),
    ("POST", "/v1/responses"),
    ("POST", "/v1/responses/input_tokens"),
    ("POST", "/v1/responses/compact"),
    ("POST", "/v1/messages"),
    ("POST", "/v1/messages/count_tokens"),
    ("GET", "/v1/models"),
    ("HEAD", "/v1/models"),
    ("GET", "/v1/models/gpt-9"),
    ("GET", "/v1/models/meta-llama/Llama-9"),
    ("GET", "/v1/models/meta-llama%2FLlama-9"),
    ("GET", "/v1beta/models"),
    ("GET", "/v1beta/models/gemini-9"),
    ("POST", "/v1/models/gemini-9:generateContent"),
    ("POST", "/v1beta/models/gemini-9:generateContent"),
    ("POST", "/v1beta/models/gemini-9:streamGenerateContent"),
    ("POST", "/v1beta/models/gemini-9:countTokens"),
]
# Of the accounts of both providers; none is a model call.
ACCOUNT = [
    ("GET", "/v1/files"),
    ("POST", "/v1/files"),
    ("DELETE", "/v1/files/file-1"),
    ("GET", "/v1/files/file-1/content"),
    ("POST", "/v1/uploads"),
    ("GET", "/v1/batches"),
    ("POST", "/v1/batches"),
    ("GET", "/v1/messages/batches"),
    ("POST", "/v1/messages/batches"),
    ("GET", "/v1/messages/batches/b1/results"),
    ("GET", "/v1/responses"),
    ("GET", "/v1/responses/resp_1"),
    ("DELETE", "/v1/responses/resp_1"),
    ("GET", "/v1/responses/resp_1/input_items"),
    ("POST", "/v1/responses/resp_1/cancel"),
    ("GET", "/v1/chat/completions"),
    ("GET", "/v1/chat/completions/chatcmpl-1/messages"),
    ("POST", "/v1/conversations"),
    ("GET", "/v1/conversations/conv_1/items"),
    ("DELETE", "/v1/models/ft:gpt-9:acme"),
    ("POST", "/v1/fine_tuning/jobs"),
    ("POST", "/v1beta/models/gemini-9:batchGenerateContent"),
    ("POST", "/v1beta/models/gemini-9%3Apredict:countTokens"),
    ("POST", "/v1beta/tunedModels/mine:generateContent"),
    ("POST", "/v1beta/cachedContents"),
    ("GET", "/v1beta/files"),
    ("GET", "/v1/assistants"),
    ("GET", "/v1/threads/t1"),
    ("GET", "/v1/vector_stores"),
    ("GET", "/v1/containers"),
    ("GET", "/v1/organization/admin_api_keys"),
    ("GET", "/v1/organizations/me"),
    ("GET", "/v1/realtime"),
    ("OPTIONS", "/v1/chat/completions"),
    ("PUT", "/v1/responses"),
    ("GET", "/v1/nothing"),
]


async def _request(
    running: DropInRunning, method: str, path: str, headers: dict[str, str], body: Any = HELLO
) -> tuple[int, bytes, dict[str, str]]:
    url = URL(running.url + path, encoded=True)
    content = json.dumps(body).encode() if method in {"POST", "PUT"} else None
    given = {"content-type": "application/json", **headers}
    async with running.http.request(method, url, data=content, headers=given) as response:
        return response.status, await response.read(), {name.lower(): text for name, text in response.headers.items()}


async def test_a_gateway_key_reaches_the_models_and_nothing_else_of_the_operators_account(tmp_path: Path) -> None:
    key = KeyFile(tmp_path / "keys").add("alice")
    for dialect in ({"authorization": f"Bearer {key}"}, {"x-api-key": key, "anthropic-version": "2023-06-01"}):
        async with a_raw_upstream() as upstream:
            account = {"keys": tmp_path / "keys", "upstream_url": upstream.url, "upstream_key": GATEWAY_KEY}
            async with a_dropin(**account) as running:  # type: ignore[arg-type] # of several types
                allowed = [(await _request(running, *one, dialect))[0] for one in MODEL_CALLS]
                reached = len(upstream.seen)
                refused = [await _request(running, *one, dialect) for one in ACCOUNT]
        assert allowed == [200] * len(MODEL_CALLS)
        assert {seen.target for seen in upstream.seen[:reached]} == {f"/team-a{path}" for _, path in MODEL_CALLS}
        assert len(upstream.seen) == reached, upstream.targets[reached:]
        assert {status for status, _, _ in refused} == {404}
        for _, body, _ in refused:
            assert not body or json.loads(body)["error"]["message"]
        assert all(GATEWAY_KEY in str(seen.headers) and key not in str(seen) for seen in upstream.seen)


QUERY = "/v1beta/models/gemini-9:streamGenerateContent?{}alt=sse&%24fields=candidates"
CONTENTS: Any = {"contents": [{"role": "user", "parts": [{"text": "hello"}]}]}
SAID = b'{"candidates":[{"content":{"parts":[{"text":"hi"}],"role":"model"},"finishReason":"STOP"}]}'


@pytest.mark.parametrize("field", ["key={}&", "%6bey={}&", "key={}&key=other&"])
async def test_a_gateway_key_in_the_query_is_neither_forwarded_nor_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, field: str
) -> None:
    key = KeyFile(tmp_path / "keys").add("alice")
    caplog.set_level("DEBUG")
    async with a_raw_upstream() as upstream:
        upstream.body = SAID
        account = {"keys": tmp_path / "keys", "upstream_url": upstream.url, "upstream_key": GATEWAY_KEY}
        async with a_dropin(**account) as running:  # type: ignore[arg-type] # of several types
            path = QUERY.format(field.format(key))
            status, _, _ = await _request(running, "POST", path, {}, CONTENTS)
            refused, said, _ = await _request(running, "POST", QUERY.format("key=hf-nobodys&"), {}, CONTENTS)
    (seen,) = upstream.seen
    assert (status, refused) == (200, 401)
    assert seen.target == "/team-a" + QUERY.format("")
    assert seen.headers["x-goog-api-key"] == GATEWAY_KEY
    assert key not in str(upstream.seen)
    assert key not in caplog.text
    assert json.loads(said)["error"]["status"] == "UNAUTHENTICATED"


async def test_the_clients_own_google_key_in_the_query_is_forwarded_in_its_header_and_not_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("DEBUG")
    async with (
        a_raw_upstream() as upstream,
        a_dropin(upstream_url=upstream.url, upstream_key=GATEWAY_KEY) as running,
    ):
        upstream.body = SAID
        for path in (QUERY.format("key=AIza-of-the-client&"), "/v1beta/files?key=AIza-of-the-client"):
            assert (await _request(running, "POST", path, {}, CONTENTS))[0] == 200
        await _request(running, "GET", "/v1/models?key=AIza-of-the-client&pageSize=9", {})
        await _request(running, "GET", "/v1beta/models?key=ignored", {"x-goog-api-key": "AIza-of-the-client"})
    assert [seen.headers["x-goog-api-key"] for seen in upstream.seen] == ["AIza-of-the-client"] * 4
    assert upstream.targets[1:] == ["/team-a/v1beta/files", "/team-a/v1/models?pageSize=9", "/team-a/v1beta/models"]
    assert not any("key" in target for target in upstream.targets)
    assert "AIza-of-the-client" not in caplog.text


@pytest.mark.parametrize("has_keys", [True, False])
async def test_with_the_clients_own_provider_key_every_path_passes(tmp_path: Path, *, has_keys: bool) -> None:
    keys = tmp_path / "keys"
    headers = {"authorization": "Bearer sk-of-the-client-01"}
    if has_keys:
        headers["x-holdfast-key"] = KeyFile(keys).add("alice")
    async with (
        a_raw_upstream() as upstream,
        a_dropin(keys=keys if has_keys else None, upstream_url=upstream.url, upstream_key=GATEWAY_KEY) as running,
    ):
        for method, path in ACCOUNT:
            assert (await _request(running, method, path, headers))[0] == 200, (method, path)
    assert len(upstream.seen) == len(ACCOUNT)
    assert all(seen.headers.get("authorization") == "Bearer sk-of-the-client-01" for seen in upstream.seen)
    assert GATEWAY_KEY not in str(upstream.seen)


async def test_without_gateway_keys_the_operators_key_opens_the_same_paths_alone() -> None:
    async with (
        a_raw_upstream() as upstream,
        a_dropin(upstream_url=upstream.url, upstream_key=GATEWAY_KEY) as running,
    ):
        files = await _request(running, "GET", "/v1/files", {})
        models = await _request(running, "GET", "/v1/models", {})
    assert (files[0], models[0], upstream.targets) == (404, 200, ["/team-a/v1/models"])


async def test_an_upstream_without_any_key_serves_every_path_to_local_clients() -> None:
    async with a_raw_upstream() as upstream, a_dropin(upstream_url=upstream.url) as running:
        assert (await _request(running, "POST", "/v1/embeddings", {}))[0] == 200


async def test_a_path_that_the_operator_allows_is_forwarded_and_its_neighbours_are_not(tmp_path: Path) -> None:
    headers = {"authorization": f"Bearer {KeyFile(tmp_path / 'keys').add('alice')}"}
    allowed = ["POST /v1/embeddings", "/v1/files/*"]
    async with (
        a_raw_upstream() as upstream,
        a_dropin(
            keys=tmp_path / "keys", upstream_url=upstream.url, upstream_key=GATEWAY_KEY, allowed_paths=allowed
        ) as running,
    ):
        passed = [("POST", "/v1/embeddings"), ("GET", "/v1/files/a"), ("DELETE", "/v1/files/a/b")]
        refused = [
            ("GET", "/v1/embeddings"),
            ("GET", "/v1/files"),
            ("GET", "/v1/filesystem"),
            ("POST", "/v1/embedding"),
        ]
        assert [(await _request(running, *one, headers))[0] for one in passed] == [200] * 3
        assert [(await _request(running, *one, headers))[0] for one in refused] == [404] * 4
    assert len(upstream.seen) == 3


@pytest.mark.parametrize("pattern", ["", "files", "/v2/files", "/v1/../files", "/v1/a?b", "get /v1/files", "/v1/*/x"])
def test_a_pattern_that_is_not_a_path_is_refused_at_the_start(pattern: str) -> None:
    with pytest.raises(UsageError, match="allow_paths"):
        ForwardTable([pattern])


async def test_no_header_takes_the_clients_key_away_and_gets_the_operators_in_its_place(tmp_path: Path) -> None:
    key = KeyFile(tmp_path / "keys").add("alice")
    headers = {"x-holdfast-key": key, "authorization": "Bearer sk-of-the-client-01", "connection": "authorization"}
    async with (
        a_raw_upstream() as upstream,
        a_dropin(keys=tmp_path / "keys", upstream_url=upstream.url, upstream_key=GATEWAY_KEY) as running,
    ):
        await _request(running, "GET", "/v1/files", headers)
    assert [seen.headers["authorization"] for seen in upstream.seen] == ["Bearer sk-of-the-client-01"]


async def test_a_gateway_key_is_not_forwarded_from_either_header(tmp_path: Path) -> None:
    key = KeyFile(tmp_path / "keys").add("alice")
    headers = {"x-holdfast-key": key, "authorization": f"Bearer {key}"}
    async with (
        a_raw_upstream() as upstream,
        a_dropin(keys=tmp_path / "keys", upstream_url=upstream.url, upstream_key=GATEWAY_KEY) as running,
    ):
        files = await _request(running, "GET", "/v1/files", headers)
        models = await _request(running, "GET", "/v1/models", headers)
    assert (files[0], models[0], len(upstream.seen)) == (404, 200, 1)
    assert key not in str(upstream.seen)


async def test_a_tenant_does_not_choose_another_part_of_the_operators_account(tmp_path: Path) -> None:
    chosen = {"openai-project": "p", "openai-organization": "o", "x-http-method-override": "DELETE", "cookie": "a=b"}
    headers = {"authorization": f"Bearer {KeyFile(tmp_path / 'keys').add('alice')}", **chosen}
    async with (
        a_raw_upstream() as upstream,
        a_dropin(keys=tmp_path / "keys", upstream_url=upstream.url, upstream_key=GATEWAY_KEY) as running,
    ):
        await _request(running, "GET", "/v1/models", headers)
    assert not chosen.keys() & upstream.seen[0].headers.keys()


async def test_headers_for_browsers_do_not_come_from_an_upstream() -> None:
    async with a_raw_upstream() as upstream, a_dropin(upstream_url=upstream.url) as running:
        upstream.headers += (
            b"Access-Control-Allow-Origin: *\r\naccess-control-allow-credentials: true\r\nSet-Cookie: a=b\r\n"
            b"x-holdfast-session: forged\r\nclear-site-data: *\r\nx-kept: 1\r\n"
        )
        answers = [
            await _request(running, "GET", "/v1/models", {}),
            await _request(running, "POST", "/v1/chat/completions", {}),
        ]
    for _, _, headers in answers:
        names = {name for name in headers if name.startswith(("access-control", "set-cookie", "clear-"))}
        assert (names, headers["x-kept"]) == (set(), "1")
        assert headers.get("x-holdfast-session") != "forged"


# --- Paths ---

OTHER_PATHS = [
    "/v1/../../team-b/v1/files",
    "/v1/..",
    "/v1/./models",
    "/v1/%2e%2e/%2E%2e/team-b",
    "/v1/%2E./x",
    "/v1/.%2e/x",
    "/v1/..;/x",
    "/v1/..;a=b/x",
    "/v1/..%3b/x",
    "/v1/%252e%252e/x",
    "/v1/%25252e%25252e/x",
    "/v1/..%2f..%2fteam-b",
    "/v1/models/..%2F..%2Fteam-b",
    "/v1/models/x%2f..%2f..%2fteam-b",
    "/v1/..\\x",
    "/v1/..%5cx",
    "/v1/a%5c..%5cb",
    "/v1//models",
    "/v1//evil.example/x",
    "/v1/%2f%2fevil.example",
    "/v1/%c0%ae%c0%ae/x",
    "/v1/%ef%bc%8e%ef%bc%8e/x",
    "/v1/%e2%80%a5/x",
    "/v1/..%20/x",
    "/v1/.../x",
    "/v1/models%00",
    "/v1/models%0d%0ahost:%20evil",
    "/v1/models%09x",
    "/v1/%ff",
    "/%76%31/models",
    "/v1",
]
KEPT_PATHS = [
    "/v1/models/a%20b",
    "/v1/models/a%3Fb=c",
    "/v1/models/a%23b",
    "/v1/models/ft:gpt-9:acme::1",
    "/v1/models/a%2Fb",
    "/v1/models/%E2%82%AC",
    "/v1/models/a;b=c",
    "/v1/models/.hidden",
    "/v1/models/a..b",
    "/v1/models/x?before=%2e%2e/%20#",
]


async def _raw_get(running: DropInRunning, target: str) -> int:
    url = URL(running.url)
    reader, writer = await asyncio.open_connection(url.host, url.port)
    head = (
        f"GET {target} HTTP/1.1\r\nhost: {url.authority}\r\nauthorization: Bearer sk-own\r\nconnection: close\r\n\r\n"
    )
    writer.write(head.encode("latin-1"))
    try:
        line = await asyncio.wait_for(reader.readline(), 60)
        return int(line.split()[1])
    finally:
        writer.transport.abort()


async def test_a_path_that_leads_elsewhere_never_leaves_and_any_other_leaves_as_it_came() -> None:
    async with a_raw_upstream() as upstream, a_dropin(upstream_url=upstream.url) as running:
        refused = {path: await _raw_get(running, path) for path in OTHER_PATHS}
        assert upstream.targets == []
        for path in KEPT_PATHS:
            assert await _raw_get(running, path) == 200, path
    assert {path: status for path, status in refused.items() if status not in (400, 404)} == {}
    assert upstream.targets == [f"/team-a{path.removesuffix('#')}" for path in KEPT_PATHS]


_DOTS = [".", "..", "%2e", "%2E", "%252e", "%c0%ae", "%ef%bc%8e"]
_SEPARATORS = ["/", "//", "%2f", "%2F", "%252F", "\\", "%5c", ";", "%3b", "?"]
_OTHERS = ["a", "models", "%20", "%3F", "%23", "%00", "x=1", "%", "%zz", "~", ":", "@"]
_PIECES = st.sampled_from([*_DOTS, *_SEPARATORS, *_OTHERS])


@settings(max_examples=300, deadline=None)
@given(st.lists(_PIECES, max_size=8))
def test_whatever_a_path_is_made_of_it_stays_itself_or_is_refused(pieces: list[str]) -> None:
    target = "/v1/" + "".join(pieces)
    path, _, query = target.partition("?")
    scope: Any = {"raw_path": path.encode(), "path": path, "query_string": query.encode()}
    try:
        kept = raw_path(scope)
    except MalformedError:
        return
    assert kept == path
    # However often and in whatever order a server decodes and resolves it, it stays below /v1.
    seen = path
    for _ in range(4):
        without_parameters = "/".join(one.partition(";")[0] for one in seen.replace("\\", "/").split("/"))
        assert posixpath.normpath(without_parameters).startswith("/v1"), seen
        assert ".." not in without_parameters.split("/")
        seen = unquote(seen)
