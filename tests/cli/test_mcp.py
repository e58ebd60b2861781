"""`holdfast mcp`: an agent lists, searches and reads earlier sessions over the protocol."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.cli.programs import holdfast

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
