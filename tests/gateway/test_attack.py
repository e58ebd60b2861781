"""The attack finds what does not hold, and a gateway of ours holds."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import msgspec
import pytest
from aiohttp import web

from holdfast.lab.attack import growth, page, probes, storage
from holdfast.lab.attack.browser import browser_tab, chromium_path
from holdfast.lab.attack.faulty import Faults
from holdfast.lab.attack.run import ProbeResult
from holdfast.lab.attack.target import Outcome, Target
from tests.cli.programs import holdfast


@pytest.fixture
async def careless() -> AsyncIterator[Target]:
    """A server that says yes to everything, and closes the connection at a larger body."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        if request.content_length and request.content_length > 10_000:
            assert request.transport is not None
            request.transport.abort()
        return web.json_response({"sessions": "private", "text": "the-secret-of-alice"})

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    url = f"http://{host}:{port}"
    async with aiohttp.ClientSession() as http:
        yield Target(url, http, "a", "b", open_url=url)
    await runner.cleanup()


@pytest.mark.parametrize(
    "probe", [probes.hostile_bodies, probes.other_tenants, probes.other_origins], ids=lambda probe: probe.__name__
)
async def test_a_careless_server_is_found_out(probe: probes.ProbeFunction, careless: Target) -> None:
    outcome = await probe(careless)
    assert outcome.findings


async def test_a_smuggled_request_is_found_out() -> None:
    async def twice(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1_000)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\nHTTP/1.1 404 Not Found\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(twice, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()[:2]
    async with server, aiohttp.ClientSession() as http:
        outcome = await probes.smuggling(Target(f"http://{host}:{port}", http))
    assert len(outcome.findings) >= 30


def test_a_gateway_of_ours_holds() -> None:
    done = holdfast("attack", "--json", "--only", "smuggling", "--only", "hostile bodies", "--only", "other tenants",
                    "--only", "operator's account", "--only", "other origins", "--only", "secrets")  # fmt: skip
    results = msgspec.json.decode(done.stdout, type=list[ProbeResult])
    assert [result.findings for result in results] == [[]] * 6
    assert done.returncode == 0


def test_another_machine_is_not_attacked() -> None:
    done = holdfast("attack", "--url", "http://192.0.2.1:80")
    assert done.returncode == 2
    assert "is not an address of this machine" in done.stderr.decode()


# --- Each probe fails where something does not hold ---


async def test_a_page_that_runs_what_it_shows_is_found_out(tmp_path: Path) -> None:
    if (path := chromium_path()) is None:
        pytest.skip("the probe of the page needs a Chromium; get one with `apt-get install chromium`")
    shown = (
        "<h1>ready</h1><img src=x onerror=\"document.title='taken'\"><a href='javascript:1'>x</a><img src='/own.png'>"
    )

    async def answer(_request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(text=f"<!doctype html><body>{shown}", content_type="text/html")

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    outcome = Outcome()
    async with aiohttp.ClientSession() as http, browser_tab(path, tmp_path / "profile", http) as tab:
        await page.look(outcome, tab, f"http://{host}:{port}/", "ready")
    await runner.cleanup()
    assert outcome.attempts == 2
    assert "a script ran" in outcome.findings[0]
    assert "onerror" in outcome.findings[1]
    assert "javascript:" in outcome.findings[1]
    assert "own.png" not in outcome.findings[1]


async def test_without_a_chromium_the_probe_of_the_page_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOLDFAST_CHROMIUM", raising=False)
    monkeypatch.setenv("PATH", "")
    async with aiohttp.ClientSession() as http:
        outcome = await page.hostile_page(Target("http://127.0.0.1:1", http))
    assert (outcome.attempts, outcome.findings) == (0, [])
    assert "no Chromium was found" in outcome.skipped


async def test_quadratic_work_is_found_out() -> None:
    outcome = Outcome()

    async def quadratic(size: int) -> float:
        return float(size * size)

    async def linear(size: int) -> float:
        return float(size)

    await growth.expect_linear(outcome, "quadratic", quadratic, 10)
    await growth.expect_linear(outcome, "linear", linear, 10)
    assert outcome.findings == ["quadratic: 64 times the time for 8 times as much"]


async def test_a_disk_that_fails_on_demand_fails_the_gateway_and_a_lost_message_is_found_out(tmp_path: Path) -> None:
    async with storage.store_gateway(tmp_path) as gateway:
        assert await gateway.start()
        assert await gateway.send("before") == ""
        gateway.set_faults(Faults(("write",)))
        assert await gateway.send("meanwhile") == "store_io"
        gateway.set_faults(Faults(clock=-86_400.0))
        outcome = Outcome()
        await storage.expect_kept(outcome, gateway)
        assert (outcome.attempts, outcome.findings) == (2, [])
        # A gateway that acknowledges what it does not keep.
        gateway.acknowledged.append("never kept")
        await storage.expect_kept(outcome, gateway)
        assert outcome.findings == ["acknowledged and lost: never kept"]
        assert await gateway.send("after") == ""
        found = await gateway.target.ask("GET", f"/api/sessions/{storage.session_of('after')}/records")
        at = msgspec.json.decode(found.body)["records"][-1]["at"]
        assert at < time.time() - 80_000, "by the shifted clock"


async def test_a_store_without_its_messages_is_found_out(tmp_path: Path) -> None:
    """The probe of damaged files counts what a killed gateway had acknowledged."""
    async with storage.store_gateway(tmp_path) as gateway:
        outcome = Outcome()
        kept = await storage.fill(outcome, gateway)
        assert len(kept) == 12
        gateway.store.unlink()
        gateway.store.with_name(f"{gateway.store.name}-wal").unlink()
        assert await gateway.start()
        await storage.expect_kept(outcome, gateway)
        assert outcome.findings
        assert outcome.findings[0].startswith("acknowledged and lost: before-0")
