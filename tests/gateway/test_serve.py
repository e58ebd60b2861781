"""The gateway as a process: it is started, watched, ended, and started again."""

import asyncio
import json
import signal
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

import holdfast
from holdfast.cli.commands.serve import serve as command
from holdfast.config.schema import GatewaySettings, ObservingSettings, Settings, read_configuration
from holdfast.errors import UsageError
from holdfast.wiring import open_gateway
from tests.cli.programs import PROGRAM, environment
from tests.cli.programs import holdfast as run_program
from tests.gateway.gateways import GatewayClient, first, until

KEY = "/api/sessions/telegram:42"
HANGS_SECONDS = 60


@asynccontextmanager
async def a_program(store: Path, *more: str) -> AsyncGenerator[tuple["subprocess.Popen[bytes]", GatewayClient]]:
    """Run `holdfast serve` until the end of the context, and give a client of it."""
    command_line = [*PROGRAM, "serve", "--port", "0", "--store", str(store), *more]
    program = subprocess.Popen(  # noqa: ASYNC220 - starting one takes a millisecond, and nobody waits behind it
        command_line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(), cwd=store.parent
    )
    try:
        assert program.stdout is not None
        line = await asyncio.wait_for(asyncio.to_thread(program.stdout.readline), HANGS_SECONDS)
        assert line.startswith(b"holdfast gateway on "), (line, program.stderr and program.stderr.read())
        url = line.decode().split()[-1]
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=HANGS_SECONDS)) as http:
            yield program, GatewayClient(http, url)
    finally:
        program.kill()
        program.communicate()


async def ended(program: "subprocess.Popen[bytes]") -> tuple[int, str, str]:
    said, logged = await asyncio.to_thread(program.communicate, timeout=HANGS_SECONDS)
    return program.returncode, said.decode(), logged.decode()


async def test_a_gateway_that_is_ended_and_started_again_goes_on_where_its_readers_were(tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    async with a_program(store) as (program, client):
        await client.send("telegram:42", "remember harbour = Kiel")
        async with client.events(f"{KEY}/events?after=0") as events:
            seen = await until(events, "record", "TurnEnded")
            program.send_signal(signal.SIGTERM)
            goodbye = await first(events, "reconnect")
        code, said, logged = await ended(program)
    async with a_program(store) as (program, client):
        async with client.events(f"{KEY}/events", cursor=seen[-1].cursor) as events:
            again = await first(events, "watching")
            answer = await client.send("telegram:42", "what is harbour?")
            more = await until(events, "record", "TurnEnded")
        program.send_signal(signal.SIGINT)
        second_code, _, _ = await ended(program)

    assert (code, said.splitlines()[-1], second_code) == (0, "stopped", 0)
    assert "reconnect with the last event id" in goodbye.told["why"]
    assert again.cursor == seen[-1].cursor
    assert answer.body["text"] == "harbour = Kiel."
    seqs = [event.told["seq"] for event in (*seen, *more) if event.name == "record"]
    assert seqs == list(range(1, len(seqs) + 1))
    assert all(json.loads(line)["event"] for line in logged.splitlines())


async def test_a_gateway_that_is_killed_answers_after_its_next_start_what_it_had_accepted(tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    async with a_program(store) as (program, client):
        posted = await client.send("telegram:42", "remember harbour = Kiel", mode="post", client_id="m1")
        program.kill()
    async with a_program(store) as (program, client):
        state = await client.get(f"{KEY}/turns/{posted.body['turn']}?wait_seconds=30")
        twice = await client.send("telegram:42", "remember harbour = Kiel", client_id="m1")

    assert state.body["outcome"] == "answered"
    assert twice.body["turn"] == posted.body["turn"]


async def test_a_call_that_a_client_runs_survives_the_gateway_and_the_client(tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    tool = {"name": "depth", "description": "Return the depth.", "parameters": {"type": "object"}}
    async with a_program(store) as (program, client):
        body = {"text": 'call depth {"place": "Kiel"}', "mode": "stream", "tools": [tool]}
        async with client.events(f"{KEY}/messages", body=body) as events:
            call = (await first(events, "call")).told
            program.kill()
    async with a_program(store) as (program, client):
        # The second start writes a new intent of the same call.
        async with client.events(f"{KEY}/events?after=0") as events:
            await until(events, "record", "ToolInterrupted")
        open_calls = (await client.get(KEY)).body["calls"]
        named = {"reply": call["reply"], "call_id": call["call_id"]}
        await client.post(f"{KEY}/results", {**named, "output": "12 fathoms"})
        state = await client.get(f"{KEY}/turns/{call['turn']}?wait_seconds=30")

    assert open_calls in ([call], [])
    assert state.body["answer"]["text"] == "The tool depth returned: 12 fathoms"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "gateway.example"])
async def test_an_address_that_others_can_reach_is_refused_without_keys(tmp_path: Path, host: str) -> None:
    settings = Settings(store=str(tmp_path / "store.db"), gateway=GatewaySettings(host=host, port=0))
    with pytest.raises(
        UsageError, match=r"reachable from other machines, and the gateway has no keys; create one with"
    ):
        async with open_gateway(settings):
            pass
    assert list(tmp_path.iterdir()) == []


async def test_with_keys_it_is_served_to_others(tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    made = run_program("keys", "--store", store, "add", "alice")
    listed = run_program("keys", "--store", store, "list")
    key = made.stdout.decode().strip()
    settings = Settings(store=str(store), gateway=GatewaySettings(host="0.0.0.0", port=0))
    async with open_gateway(settings) as url, aiohttp.ClientSession() as http:
        port = url.rpartition(":")[2]
        answers = [
            await GatewayClient(http, f"http://127.0.0.1:{port}", given).get("/api/sessions")
            for given in (key, "", "hf_x")
        ]
    removed = run_program("keys", "--store", store, "remove", "alice")

    assert [answer.status for answer in answers] == [200, 401, 401]
    assert b"alice" in listed.stdout
    assert removed.stdout == b"removed alice\n"
    assert run_program("keys", "--store", store, "list").stdout.startswith(b"There are no keys")
    assert run_program("keys", "--store", ":memory:", "list").returncode == 2


async def test_a_port_that_is_taken_is_a_sentence(tmp_path: Path) -> None:
    settings = Settings(store=":memory:", gateway=GatewaySettings(port=0))
    async with open_gateway(settings) as url:
        port = int(url.rpartition(":")[2])
        done = await asyncio.to_thread(run_program, "serve", "--store", ":memory:", "--port", str(port))

    assert done.returncode == 2
    assert f"cannot listen on 127.0.0.1:{port}".encode() in done.stderr
    assert list(tmp_path.iterdir()) == []


async def test_traces_are_told_where_they_are_wanted() -> None:
    settings = Settings(store=":memory:", observing=ObservingSettings(traces=True), gateway=GatewaySettings(port=0))
    async with open_gateway(settings) as url, aiohttp.ClientSession() as http:
        answer = await GatewayClient(http, url).send("telegram:42", "hello")

    assert answer.status == 200


def test_the_package_and_the_help_stay_lean() -> None:
    program = "import sys, holdfast.cli; print(sorted({'uvicorn', 'prometheus_client', 'msgspec'} & set(sys.modules)))"
    done = subprocess.run([PROGRAM[0], "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
    assert command.name == "serve"
    assert holdfast.__name__ == "holdfast"
    assert read_configuration(environ={}).settings.gateway.host == "127.0.0.1"
