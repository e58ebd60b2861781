"""`holdfast mcp`: an agent lists, searches and reads earlier sessions over the protocol, by pipe or HTTP."""

import contextlib
import http.client
import importlib
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.cli.programs import PROGRAM, bounded, environment, holdfast

HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("mcp") / "store.db"
    for session, text in (
        ("telegram:42", "remember harbour = Kiel"),
        ("work:1", "remember berth = 17"),
        ("@alice/private", "remember safe = 4711"),
    ):
        assert holdfast("chat", "--store", path, "--session", session, text).returncode == 0
    return path


def spoken(store: Path, *requests: tuple[str, dict[str, Any]], tenant: str = "") -> list[dict[str, Any]]:
    """Send requests after the greeting, and return their responses."""
    messages: list[dict[str, Any]] = [
        {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HELLO},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
    ]
    messages += [
        {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        for number, (method, params) in enumerate(requests, start=1)
    ]
    given = b"".join(msgspec.json.encode(message) + b"\n" for message in messages)
    ended = holdfast("mcp", "--store", store, *(["--tenant", tenant] if tenant else []), stdin=given)
    assert (ended.returncode, ended.stderr) == (0, b"")
    answers = [msgspec.json.decode(line) for line in ended.stdout.splitlines()]
    assert [one["id"] for one in answers] == list(range(len(requests) + 1))
    return answers


def called(store: Path, name: str, tenant: str = "", **arguments: object) -> tuple[str, bool]:
    answer = spoken(store, ("tools/call", {"name": name, "arguments": arguments}), tenant=tenant)[1]["result"]
    return answer["content"][0]["text"], answer["isError"]


def test_a_client_learns_the_version_and_the_tools(store: Path) -> None:
    hello, listed, pong, unknown = spoken(store, ("tools/list", {}), ("ping", {}), ("resources/list", {}))
    assert hello["result"]["protocolVersion"] == "2025-06-18"
    tools = {one["name"]: one["inputSchema"] for one in listed["result"]["tools"]}
    assert set(tools) == {"sessions", "search", "read", "recall"}
    assert tools["search"]["required"] == ["query"]
    assert all(schema["type"] == "object" for schema in tools.values())
    assert (pong["result"], unknown["error"]["code"]) == ({}, -32_601)


def test_a_fact_of_any_session_is_found_and_read(store: Path) -> None:
    found, is_error = called(store, "search", query="berth")
    assert not is_error
    assert found.startswith("work:1 [#")
    seq = int(found.partition("[#")[2].partition("]")[0])
    assert "remember berth = 17" in called(store, "read", session="work:1", seq=seq)[0]
    assert called(store, "search", query="berth", session="telegram:42")[0] == "nothing found for 'berth'"


def test_sessions_of_other_owners_are_not_shown(store: Path) -> None:
    listed = called(store, "sessions")[0].splitlines()
    assert sorted(line.split()[0] for line in listed) == ["telegram:42", "work:1"]
    assert called(store, "search", query="safe")[0] == "nothing found for 'safe'"
    assert called(store, "read", session="@alice/private", seq=1)[1]
    assert called(store, "sessions", tenant="alice")[0].split()[0] == "private"
    assert "safe = 4711" in called(store, "search", tenant="alice", query="safe")[0]
    assert called(store, "read", tenant="alice", session="../telegram:42", seq=1)[1]


def test_a_bad_call_is_explained_and_the_server_goes_on(store: Path) -> None:
    text, is_error = called(store, "read", session="work:1", seq=999)
    assert is_error
    assert "there is no record 999" in text
    assert called(store, "search")[1]
    answers = spoken(store, ("tools/call", {"name": "delete"}), ("ping", {}))
    assert (answers[1]["error"]["code"], answers[2]["result"]) == (-32_602, {})
    ended = holdfast("mcp", "--store", store, stdin=b'not json\n{"id": 1}\n{"id": 2, "method": "ping"}\n')
    told = [msgspec.json.decode(line) for line in ended.stdout.splitlines()]
    assert [one.get("error", {}).get("code") for one in told] == [-32_700, -32_600, None]


# --- Over HTTP ---


@contextmanager
def served(store: Path) -> Iterator[str]:
    """Serve a gateway on a store, and yield the address of its MCP server."""
    words = [*PROGRAM, "serve", "--port", "0", "--store", str(store)]
    program = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment(HOME=str(store.parent))
    )
    with bounded(program):
        assert program.stdout is not None
        found = (word for line in program.stdout for word in line.decode().split() if word.startswith("http://"))
        yield next(found).rstrip("/,;.") + "/mcp"


def posted(url: str, message: object, key: str = "", **headers: str) -> tuple[int, Any]:
    sent = {"content-type": "application/json", "accept": "application/json, text/event-stream", **headers}
    sent |= {"authorization": f"Bearer {key}"} if key else {}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, msgspec.json.encode(message), sent)) as answer:
            status, body = answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            status, body = error.code, error.read()
    return status, msgspec.json.decode(body) if body else None


def announced(url: str, key: str, size_bytes: int) -> int:
    """Return the status of a request whose body is only announced."""
    address = urllib.parse.urlsplit(url)
    with contextlib.closing(http.client.HTTPConnection(address.netloc)) as connection:
        connection.putrequest("POST", address.path)
        connection.putheader("authorization", f"Bearer {key}")
        connection.putheader("content-length", str(size_bytes))
        connection.endheaders()
        return connection.getresponse().status


def asked(url: str, name: str, key: str = "", **arguments: object) -> tuple[str, bool]:
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
    status, answer = posted(url, call, key)
    assert status == 200, answer
    return answer["result"]["content"][0]["text"], answer["result"]["isError"]


@pytest.fixture(scope="module")
def tenants(store: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """A gateway with two keys on the store: alice's, which has a session, and one of a reader without any."""
    keys = {}
    for name, options in (("alice", []), ("bob", ["--role", "read"])):
        ended = holdfast("keys", "add", name, *options, "--json", settings={"HOLDFAST_STORE": str(store)})
        assert ended.returncode == 0, ended.stderr
        keys[name] = msgspec.json.decode(ended.stdout)["key"]
    with served(store) as url:
        yield url, keys


def test_over_http_a_key_reaches_its_own_sessions_only(tenants: tuple[str, dict[str, str]]) -> None:
    url, keys = tenants
    hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HELLO}
    status, answer = posted(url, hello, keys["alice"])
    assert (status, answer["result"]["serverInfo"]["name"]) == (200, "holdfast")
    assert posted(url, {"jsonrpc": "2.0", "method": "notifications/initialized"}, keys["alice"]) == (202, None)
    assert asked(url, "sessions", keys["alice"])[0].split()[0] == "private"
    assert "safe = 4711" in asked(url, "search", keys["alice"], query="safe")[0]
    assert "safe = 4711" in asked(url, "read", keys["alice"], session="private", seq=1)[0]
    # Another key finds nothing of it, by any name; a key that may only read is enough.
    assert asked(url, "sessions", keys["bob"]) == ("there are no sessions", False)
    assert asked(url, "search", keys["bob"], query="safe")[0] == "nothing found for 'safe'"
    for name in ("private", "@alice/private", "../alice/private", "telegram:42"):
        assert asked(url, "read", keys["bob"], session=name, seq=1)[1], name
    assert posted(url, hello)[0] == 401


def test_over_http_bad_requests_are_explained(tenants: tuple[str, dict[str, str]]) -> None:
    url, keys = tenants
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    assert posted(url, ping, keys["alice"], **{"mcp-protocol-version": "2025-06-18"})[0] == 200
    status, problem = posted(url, ping, keys["alice"], **{"mcp-protocol-version": "1999-01-01"})
    assert (status, "is not known; known: 2024-11-05" in problem["detail"]) == (422, True)
    assert posted(url, [ping], keys["alice"])[1]["error"]["code"] == -32_600
    assert announced(url, keys["alice"], 2**20 + 1) == 413
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(urllib.request.Request(url, headers={"authorization": f"Bearer {keys['alice']}"}))
    with refused.value as error:
        assert error.code == 405


def test_the_official_client_lists_and_calls_the_tools(tenants: tuple[str, dict[str, str]]) -> None:
    mcp = pytest.importorskip("mcp", reason="the official SDK of the protocol is not installed")
    anyio = pytest.importorskip("anyio")
    httpx = pytest.importorskip("httpx2" if hasattr(mcp, "Client") else "httpx")
    url, keys = tenants
    assert anyio.run(_official, mcp, httpx, url, keys["alice"]) == ["read", "recall", "search", "sessions", True]


async def _official(mcp: Any, httpx: Any, url: str, key: str) -> list[object]:
    streamable_http = importlib.import_module("mcp.client.streamable_http")
    http = httpx.AsyncClient(headers={"authorization": f"Bearer {key}"})
    async with (
        http,
        streamable_http.streamable_http_client(url, http_client=http) as streams,
        mcp.ClientSession(streams[0], streams[1]) as session,
    ):
        await session.initialize()
        tools = sorted(tool.name for tool in (await session.list_tools()).tools)
        found = await session.call_tool("search", {"query": "safe"})
        return [*tools, "safe = 4711" in found.content[0].text]
