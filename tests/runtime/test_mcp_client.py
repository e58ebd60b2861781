"""MCP servers as a source of tools, with a real server in a process of its own."""

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from aiohttp import web

import holdfast
from holdfast.errors import OperatorError, UsageError
from holdfast.runtime.tools.mcp_server import MCPServer
from holdfast.types.messages import Media, ToolOutcome
from holdfast.types.records import ApprovalRequested, ToolSettled, ToolStarted
from tests.e2e.world import next_record, records_of

PROGRAM = str(Path(__file__).parent / "mcp_program.py")


def a_server(folder: Path, **fields: object) -> MCPServer:
    return holdfast.MCPServer.stdio("box", sys.executable, "-W", "ignore", PROGRAM, str(folder), **fields)  # type: ignore[arg-type]


def effects(folder: Path) -> list[str]:
    path = folder / "effects.txt"
    return path.read_text("utf-8").splitlines() if path.exists() else []


async def test_tools_of_a_server_are_offered_run_and_recorded_like_others(tmp_path: Path) -> None:
    async with holdfast.open(tmp_path / "s.db", mcp=[a_server(tmp_path)]) as client:
        chat = await client.session("a")
        names = [spec.name for spec in (await chat.view()).tools]
        assert names == ["box_add", "box_die", "box_fail", "box_picture", "box_read_resource", "recall"]
        answer = await chat.send('call box_add {"first": 2, "second": 40}')
        assert answer.text == "The tool box_add returned: sum = 42"
        assert [one.name for one in await records_of(chat, ToolStarted)] == ["box_add"]
        answer = await chat.send("call box_fail")
        assert answer.text == "The tool box_fail returned: Error executing tool fail: the server is cross"
        await chat.send('call box_add {"first": "x"}')
        outcomes = [settled.result.outcome for settled in await records_of(chat, ToolSettled)]
        assert outcomes == [ToolOutcome.DONE, ToolOutcome.FAILED, ToolOutcome.FAILED]
        await chat.send("call box_picture")
        settled = (await records_of(chat, ToolSettled))[-1]
        assert [type(part) for part in settled.result.parts] == [Media]
    assert effects(tmp_path) == ["add"]


async def test_a_call_whose_server_dies_runs_once_and_the_next_call_reconnects(tmp_path: Path) -> None:
    async with holdfast.open(tmp_path / "s.db", mcp=[a_server(tmp_path)]) as client:
        chat = await client.session("a")
        answer = await chat.send("call box_die")
        assert "outcome unknown" in answer.text
        assert (await records_of(chat, ToolSettled))[-1].result.outcome is ToolOutcome.FAILED
        answer = await chat.send('call box_add {"first": 1, "second": 1}')
        assert answer.text == "The tool box_add returned: sum = 2"
    assert effects(tmp_path) == ["die", "add"], "a call that may have had its effect is not repeated"


async def test_a_resource_is_listed_and_read_and_a_long_one_can_be_recalled(tmp_path: Path) -> None:
    async with holdfast.open(tmp_path / "s.db", mcp=[a_server(tmp_path)]) as client:
        chat = await client.session("a")
        assert "note://log" in (await chat.send("call box_read_resource")).text
        await chat.send('call box_read_resource {"uri": "note://log"}')
        (original,) = (await records_of(chat, ToolSettled))[-1].result.originals
        page = await chat.recall(blob=original.sha256[:12])
        assert page.text.startswith("berth 17 is free")
        await chat.send('call box_read_resource {"uri": "note://none"}')
        assert (await records_of(chat, ToolSettled))[-1].result.outcome is ToolOutcome.FAILED


# --- Over HTTP ---


@contextmanager
def a_program_at(folder: Path, port: int) -> Iterator[None]:
    """Run the server over HTTP until the end of the block, then kill it."""
    with (folder / "log.txt").open("ab") as log:
        program = subprocess.Popen([sys.executable, "-W", "ignore", PROGRAM, folder, str(port)], stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 60.0
        while not _listens(port):
            assert program.poll() is None, (folder / "log.txt").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        yield
    finally:
        program.kill()
        program.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def a_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def test_over_http_calls_run_at_most_once_and_a_restarted_server_is_used_again(tmp_path: Path) -> None:
    port = a_free_port()
    with ExitStack() as first:
        first.enter_context(a_program_at(tmp_path, port))
        server = MCPServer.http("box", f"http://127.0.0.1:{port}/mcp", headers={"x-tenant": "a"})
        async with holdfast.open(tmp_path / "s.db", mcp=[server]) as client:
            chat = await client.session("a")
            assert (await chat.send('call box_add {"first": 2, "second": 40}')).text.endswith("sum = 42")
            await chat.send('call box_read_resource {"uri": "note://log"}')
            (original,) = (await records_of(chat, ToolSettled))[-1].result.originals
            assert (await chat.recall(blob=original.sha256[:12])).text.startswith("berth 17 is free")
            assert "outcome unknown" in (await chat.send("call box_die")).text
            first.close()
            down = await chat.send('call box_add {"first": 1, "second": 1}')
            assert "the call was not made: MCP server box: the server cannot be reached" in down.text
            for _ in range(2):
                # The second server does not know the session of the first, and the third not that of the second.
                with a_program_at(tmp_path, port):
                    assert (await chat.send('call box_add {"first": 1, "second": 1}')).text.endswith("sum = 2")
                    both = [(await client.session(key)).send("call box_picture") for key in ("b", "c")]
                    await asyncio.gather(*both)
    assert effects(tmp_path) == ["add", "die", "add", "add"], "no call ran twice"


async def test_a_server_that_refuses_requests_is_told_with_its_status(tmp_path: Path) -> None:
    async def refuse(request: web.Request) -> web.Response:
        return web.Response(status=int(request.match_info["status"]))

    app = web.Application()
    app.router.add_post("/{status}/mcp", refuse)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        for status in (401, 404, 503):
            server = MCPServer.http("box", f"http://127.0.0.1:{runner.addresses[0][1]}/{status}/mcp")
            with pytest.raises(OperatorError, match=f"could not be opened: McpError: HTTP {status}"):
                async with holdfast.open(tmp_path / "s.db", mcp=[server]):
                    pass
    finally:
        await runner.cleanup()


async def test_only_the_chosen_tools_are_offered_and_each_call_may_need_an_approval(tmp_path: Path) -> None:
    server = a_server(tmp_path, tools=["add"], approve=True)
    async with holdfast.open(tmp_path / "s.db", mcp=[server]) as client:
        chat = await client.session("a")
        assert [spec.name for spec in (await chat.view()).tools] == ["box_add", "recall"]
        turn = await chat.post('call box_add {"first": 1, "second": 2}')
        await next_record(chat, ApprovalRequested)
        assert effects(tmp_path) == []
        (waiting,) = await chat.approvals()
        await chat.approve(waiting.request)
        assert (await chat.wait(turn)).text == "The tool box_add returned: sum = 3"
    assert effects(tmp_path) == ["add"]


@pytest.mark.parametrize(
    ("server", "said"),
    [
        (MCPServer.stdio("box", sys.executable, "-c", "raise SystemExit(1)"), "could not be opened"),
        (MCPServer.stdio("box", "/nowhere/at/all"), "could not be opened"),
        (MCPServer.http("box", "http://127.0.0.1:9/mcp"), "could not be opened"),
    ],
)
async def test_a_server_that_cannot_be_reached_is_an_error_that_names_it(
    tmp_path: Path, server: MCPServer, said: str
) -> None:
    with pytest.raises(OperatorError, match=said):
        async with holdfast.open(tmp_path / "s.db", mcp=[server]):
            pass


async def test_bad_descriptions_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a name has 1 to 24"):
        MCPServer.stdio("two words", "x")
    with pytest.raises(UsageError, match="http://"):
        MCPServer.http("box", "ftp://x")
    with pytest.raises(UsageError, match="either a command or an address"):
        MCPServer(name="box")
    with pytest.raises(UsageError, match="the same name"):
        async with holdfast.open(tmp_path / "s.db", mcp=[a_server(tmp_path), a_server(tmp_path)]):
            pass
    with pytest.raises(UsageError, match="has no tool 'none'"):
        async with holdfast.open(tmp_path / "s.db", mcp=[a_server(tmp_path, tools=["none"])]):
            pass
    secret = MCPServer.http("box", "https://x/mcp?key=secret", headers={"authorization": "secret"})
    assert "secret" not in repr(secret)
