"""The gateway on a PostgreSQL server: any node takes a message, and the next one goes on where it ended."""

import asyncio
import signal
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from holdfast.config.schema import GatewaySettings, Settings
from holdfast.errors import UsageError
from holdfast.stores.postgres import PostgresStore
from holdfast.wiring import has_key_table, keys_path, open_gateway
from tests.cli.programs import PROGRAM, environment
from tests.cli.programs import holdfast as run_program
from tests.gateway.gateways import GatewayClient, until

KEY = "/api/sessions/telegram:42"
HANGS_SECONDS = 60


@asynccontextmanager
async def a_node(url: str, folder: Path) -> AsyncGenerator[tuple["subprocess.Popen[bytes]", GatewayClient]]:
    """Run `holdfast serve` on a server until the end of the context, and give a client of it."""
    command_line = [*PROGRAM, "serve", "--port", "0", "--store", url]
    program = subprocess.Popen(  # noqa: ASYNC220 - starting one takes a millisecond, and nobody waits behind it
        command_line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(), cwd=folder
    )
    try:
        assert program.stdout is not None
        line = await asyncio.wait_for(asyncio.to_thread(program.stdout.readline), HANGS_SECONDS)
        assert line.startswith(b"holdfast gateway on "), (line, program.stderr and program.stderr.read())
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=HANGS_SECONDS)) as http:
            yield program, GatewayClient(http, line.decode().split()[-1])
    finally:
        program.kill()
        program.communicate()


async def test_two_nodes_on_one_server_are_one_gateway(postgres_url: str, tmp_path: Path) -> None:
    async with a_node(postgres_url, tmp_path) as (program, client), a_node(postgres_url, tmp_path) as (_, other):
        await client.send("telegram:42", "remember harbour = Kiel")
        # Whoever follows a session on one node sees what happens on the other.
        async with other.events(f"{KEY}/events?after=0") as events:
            seen = await until(events, "record", "TurnEnded")
            await client.send("telegram:42", "remember pier = 7")
            seen += await until(events, "record", "TurnEnded")
        program.send_signal(signal.SIGTERM)
        said, _ = await asyncio.to_thread(program.communicate, timeout=HANGS_SECONDS)
        answer = await other.send("telegram:42", "what is harbour?")

    assert (program.returncode, said.decode().splitlines()[-1]) == (0, "stopped")
    seqs = [event.told["seq"] for event in seen if event.name == "record"]
    assert seqs == list(range(1, len(seqs) + 1))
    assert answer.body["text"] == "harbour = Kiel."
    assert list(tmp_path.iterdir()) == []


async def test_health_tells_who_holds_leases_on_a_server_and_what_the_doctor_found(postgres_url: str) -> None:
    settings = Settings(store=postgres_url, gateway=GatewaySettings(port=0))
    store, alone = PostgresStore(postgres_url), PostgresStore(postgres_url)
    async with open_gateway(settings) as url, aiohttp.ClientSession() as http:
        client = GatewayClient(http, url)
        await client.send("telegram:42", "hello")
        held = [await store.acquire(f"held:{number}", "node-a", seconds=600) for number in range(2)]
        # Nobody renews this one, so its holder is taken for dead.
        expired = await alone.acquire("held:3", "node-b", seconds=0.001)
        health = (await client.get("/api/health")).body
        checked = await client.post("/api/health/check", {})
    await store.close()
    await alone.close()

    assert None not in [*held, expired]
    named = [node for node in health["nodes"] if node["owner"].startswith("node-")]
    assert named == [
        {"owner": "node-a", "is_alive": True, "sessions": 2},
        {"owner": "node-b", "is_alive": False, "sessions": 1},
    ]
    assert (checked.status, checked.body["found"]["findings"]) == (200, [])


async def test_a_gateway_on_a_server_that_others_can_reach_needs_keys(postgres_url: str) -> None:
    settings = Settings(store=postgres_url, gateway=GatewaySettings(host="0.0.0.0", port=0))

    with pytest.raises(UsageError, match="no keys"):
        async with open_gateway(settings):
            pytest.fail("it was opened")


def test_keys_are_kept_in_the_file_that_is_named_and_not_beside_a_server(tmp_path: Path) -> None:
    url = "postgresql://holdfast@db.example/sessions"
    named = GatewaySettings(keys_file=str(tmp_path / "keys"))

    assert keys_path(Settings(store=url)) is None
    assert keys_path(Settings(store=url, gateway=named)) == tmp_path / "keys"
    assert [has_key_table(Settings(store=url)), has_key_table(Settings(store=url, gateway=named))] == [True, False]


async def test_keys_in_the_database_hold_on_every_node_and_follow_a_change_within_a_second(
    postgres_url: str, tmp_path: Path
) -> None:
    async with a_node(postgres_url, tmp_path) as (_, one), a_node(postgres_url, tmp_path) as (_, two):
        before = [(await node.get("/api/sessions")).status for node in (one, two)]
        secret = await run_keys(postgres_url, "add", "alice", "--comment", "night shift")
        # Without keys a node serves everybody; from the first key on it wants one.
        without = [await until_status(node, "wrong", 401) for node in (one, two)]
        opened = [await until_status(node, secret, 200) for node in (one, two)]
        rotated = await run_keys(postgres_url, "rotate", "alice", "--overlap", "1h")
        both = [await until_status(node, key, 200) for node in (one, two) for key in (secret, rotated)]
        listed = await run_keys(postgres_url, "list")
        await run_keys(postgres_url, "remove", "alice")
        removed = [await until_status(node, rotated, 401) for node in (one, two)]

    assert (before, without) == ([200, 200], [401, 401])
    assert (opened, both, removed) == ([200] * 2, [200] * 4, [401] * 2)
    assert "night shift" in listed
    # Neither a secret nor a file of keys is on any disk of the nodes.
    assert list(tmp_path.iterdir()) == []


async def test_a_budget_stops_one_key_and_no_other_on_every_node_and_after_a_restart(
    postgres_url: str, tmp_path: Path
) -> None:
    poor = await run_keys(postgres_url, "add", "poor", "--tokens-day", "1")
    rich = await run_keys(postgres_url, "add", "rich")
    async with a_node(postgres_url, tmp_path) as (program, one):
        async with a_node(postgres_url, tmp_path) as (_, two):
            first = await said(one, poor)
            async with asyncio.timeout(HANGS_SECONDS):
                # The other node knows within a second.
                while (there := await said(two, poor)) != 429:  # noqa: ASYNC110 - another process changes it
                    await asyncio.sleep(0.05)
            here = await said(one, poor)
            others = [await said(node, rich) for node in (one, two)]
        program.send_signal(signal.SIGTERM)
        await asyncio.to_thread(program.communicate, timeout=HANGS_SECONDS)
    async with a_node(postgres_url, tmp_path) as (_, again):
        after = [await said(again, key) for key in (poor, rich)]

    assert (first, here, there) == (200, 429, 429)
    assert (others, after) == ([200, 200], [429, 200])


async def said(node: GatewayClient, key: str) -> int:
    """Send a message with a key, and return the status of its answer."""
    headers = {"authorization": f"Bearer {key}"}
    return (await node.ask("POST", f"{KEY}/messages", {"text": "hello"}, headers=headers)).status


async def run_keys(url: str, *arguments: str) -> str:
    told = await asyncio.to_thread(run_program, "keys", "--store", url, *arguments)
    assert told.returncode == 0, told.stderr
    return told.stdout.decode().strip()


async def until_status(node: GatewayClient, key: str, status: int) -> int:
    """Ask until a node answers with this status: it reads keys every second."""
    async with asyncio.timeout(HANGS_SECONDS):
        while (await node.get("/api/sessions", headers={"authorization": f"Bearer {key}"})).status != status:  # noqa: ASYNC110 - another process changes it
            await asyncio.sleep(0.05)
    return status


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_settings_are_shown_without_the_password_of_a_server(options: tuple[str, ...]) -> None:
    url = "postgresql://holdfast:s3cr3t@db.example/sessions?password=s3cr3t"

    told = run_program("config", "--set", f"store={url}", *options)

    assert told.returncode == 0
    assert b"db.example/sessions" in told.stdout
    assert b"s3cr3t" not in told.stdout + told.stderr


@pytest.mark.parametrize("command", [("backup", "copy.db"), ("doctor", "--fix")])
def test_commands_for_files_say_what_to_use_for_a_server(command: tuple[str, ...]) -> None:
    told = run_program(*command, "--store", "postgresql://holdfast:s3cr3t@db.example/sessions")

    assert (told.returncode, b"pg_dump" in told.stderr, b"s3cr3t" in told.stderr) == (2, True, False)


def test_doctor_says_that_a_server_cannot_be_reached_without_its_password() -> None:
    told = run_program("doctor", "--store", "postgresql://holdfast:s3cr3t@127.0.0.1:1/sessions")

    assert (told.returncode, b"127.0.0.1" in told.stderr, b"s3cr3t" in told.stderr) == (75, True, False)
