"""Reload without dropping a stream, shutdown within a bound, TLS from files, and trusted proxies."""

import asyncio
import datetime as dt
import ipaddress
import json
import signal
import ssl
import subprocess
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from holdfast.config.schema import GatewaySettings, Settings, UpstreamSettings
from holdfast.errors import UsageError
from holdfast.gateway.bounds import GatewayBounds
from holdfast.gateway.http.keys import KeyFile
from holdfast.wiring import Reloader, open_gateway
from tests.cli.programs import PROGRAM, environment

STREAMS = 200
HANGS_SECONDS = 60
_REQUEST = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "hello"}]}


class SlowProvider:
    """A provider whose answers begin at once and end when the gate opens."""

    def __init__(self, name: str) -> None:
        self.name, self.gate, self.url = name, asyncio.Event(), ""
        self.begun = 0

    async def answer(self, request: web.Request) -> web.StreamResponse:
        await request.read()
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        self.begun += 1
        await response.write(_chunk(self.name, None))
        await self.gate.wait()
        await response.write(_chunk(" and done", None) + _chunk("", "stop") + b"data: [DONE]\n\n")
        return response


def _chunk(text: str, finish: str | None) -> bytes:
    delta = {"role": "assistant", "content": text} if finish is None else {}
    body = {
        "id": "a",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }
    return b"data: " + json.dumps(body).encode() + b"\n\n"


@asynccontextmanager
async def a_provider(name: str) -> AsyncGenerator[SlowProvider]:
    provider = SlowProvider(name)
    app = web.Application()
    app.router.add_post("/v1/chat/completions", provider.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    provider.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    try:
        yield provider
    finally:
        provider.gate.set()
        await runner.cleanup()


@asynccontextmanager
async def a_program(folder: Path, *more: str) -> AsyncGenerator[tuple["subprocess.Popen[bytes]", str]]:
    command = [*PROGRAM, "serve", "--port", "0", "--config", "holdfast.toml", *more]
    with (folder / "log").open("wb") as log:
        program = subprocess.Popen(  # noqa: ASYNC220 - starting one takes a millisecond
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, env=environment(), cwd=folder
        )
    try:
        assert program.stdout is not None
        line = await asyncio.wait_for(asyncio.to_thread(program.stdout.readline), HANGS_SECONDS)
        assert line.startswith(b"holdfast gateway on "), (folder / "log").read_text()
        yield program, line.decode().split()[-1]
    finally:
        program.kill()
        program.communicate()


async def logged(folder: Path, event: str) -> dict[str, str]:
    """Return the first log line with this event."""
    async with asyncio.timeout(HANGS_SECONDS):
        while True:
            for line in (folder / "log").read_text().splitlines():
                if json.loads(line)["event"].startswith(event):
                    found: dict[str, str] = json.loads(line)
                    return found
            await asyncio.sleep(0.01)


def write_settings(folder: Path, upstream: str, models: str = '["sim"]', extra: str = "") -> None:
    (folder / "holdfast.toml").write_text(
        f'store = "a.db"\nmodel = {models}\n[upstream]\nopenai_base_url = "{upstream}"\n{extra}'
    )


async def test_sighup_under_200_open_streams_drops_none(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        old, fresh = (
            await stack.enter_async_context(a_provider("old")),
            await stack.enter_async_context(a_provider("new")),
        )
        write_settings(tmp_path, old.url)
        program, url = await stack.enter_async_context(a_program(tmp_path))
        connector = aiohttp.TCPConnector(limit=0)
        timeout = aiohttp.ClientTimeout(total=HANGS_SECONDS)
        http = await stack.enter_async_context(aiohttp.ClientSession(connector=connector, timeout=timeout))
        # Half of the streams are answers of a provider, half are watches of sessions.
        answers = await asyncio.gather(
            *(http.post(f"{url}/v1/chat/completions", json=_REQUEST) for _ in range(STREAMS // 2))
        )
        watches = await asyncio.gather(*(http.get(f"{url}/api/events") for _ in range(STREAMS // 2)))
        assert {response.status for response in (*answers, *watches)} == {200}
        assert old.begun == STREAMS // 2

        write_settings(tmp_path, fresh.url, models='["sim", "sim:anthropic"]')
        program.send_signal(signal.SIGHUP)
        reloaded = await logged(tmp_path, "reloaded")
        later = await http.post(f"{url}/v1/chat/completions", json=_REQUEST)
        fresh.gate.set()
        old.gate.set()
        texts = await asyncio.gather(*(response.text() for response in answers))
        sent = await status(http, "POST", f"{url}/api/sessions/s/messages", json={"text": "remember harbour = Kiel"})
        seen = await asyncio.gather(*(_until(response, b"event: session") for response in watches))
        later_text = await later.text()
        for watch in watches:
            watch.close()

    assert reloaded["changed"] == "model, upstream.openai_base_url"
    assert [text for text in texts if "old" not in text or "and done" not in text or "[DONE]" not in text] == []
    assert (sent, len(seen)) == (200, STREAMS // 2)
    assert "new" in later_text


async def status(http: aiohttp.ClientSession, method: str, url: str, **more: Any) -> int:
    """Return the status of a response that is read to its end."""
    async with http.request(method, url, **more) as response:
        await response.read()
        return response.status


async def _until(response: aiohttp.ClientResponse, wanted: bytes) -> bytes:
    async for line in response.content:
        if wanted in line:
            return line
    raise AssertionError("the stream ended")


async def test_settings_that_cannot_be_used_change_nothing(tmp_path: Path) -> None:
    write_settings(tmp_path, "http://127.0.0.1:1/v1")
    async with a_program(tmp_path) as (program, url), aiohttp.ClientSession() as http:
        write_settings(tmp_path, "http://127.0.0.1:1/v1", models='["nonesuch:x"]')
        program.send_signal(signal.SIGHUP)
        failed = await logged(tmp_path, "reload failed")
        write_settings(tmp_path, "http://127.0.0.1:1/v1", extra="[engine]\nlease_seconds = 7\n")
        program.send_signal(signal.SIGHUP)
        restart = await logged(tmp_path, "settings need a restart")
        alive = await status(http, "GET", f"{url}/healthz")

    assert ("nonesuch" in failed["reason"], failed["level"]) == (True, "error")
    assert restart["settings"] == "engine.lease_seconds"
    assert alive == 200


async def test_sigterm_ends_within_its_bound_although_a_stream_is_open(tmp_path: Path) -> None:
    async with a_provider("old") as provider:
        write_settings(tmp_path, provider.url, extra="[gateway_bounds]\nshutdown_seconds = 1\n")
        async with a_program(tmp_path) as (program, url), aiohttp.ClientSession() as http:
            response = await http.post(f"{url}/v1/chat/completions", json=_REQUEST)
            began = time.monotonic()
            program.send_signal(signal.SIGTERM)
            code = await asyncio.to_thread(program.wait, HANGS_SECONDS)
            seconds = time.monotonic() - began
            response.close()

    # One second for requests, and up to five for turns; the rest is a busy machine.
    assert (code, seconds < 20) == (0, True)


async def test_a_reload_in_the_process_changes_keys_limits_models_and_origins(tmp_path: Path) -> None:
    base = Settings(store=str(tmp_path / "a.db"), gateway=GatewaySettings(port=0))
    changed = Settings(
        store=base.store,
        model=("sim", "sim:anthropic"),
        gateway=GatewaySettings(port=0, origins=("http://localhost:3000",)),
        upstream=UpstreamSettings(openai_base_url=""),
        gateway_bounds=GatewayBounds(requests_max=1, body_bytes_max=10),
    )
    reloader = Reloader()
    async with open_gateway(base, reloader) as url, aiohttp.ClientSession() as http:
        body = {"text": "remember harbour = Kiel"}
        before = await status(http, "POST", f"{url}/api/sessions/s/messages", json=body)
        result = await reloader.reload(changed)
        too_large = await status(http, "POST", f"{url}/api/sessions/s/messages", json=body)
        page = await status(http, "GET", f"{url}/api/sessions", headers={"origin": "http://localhost:3000"})
        none = await status(http, "POST", f"{url}/v1/chat/completions", json=_REQUEST)
        KeyFile(tmp_path / "a.db-keys").add("alice")
        await reloader.reload(base)
        locked = await status(http, "GET", f"{url}/api/sessions")

    assert (before, too_large, page, none, locked) == (200, 413, 200, 404, 401)
    assert "upstream.openai_base_url" in result.changed
    assert result.needs_restart == ()


# --- TLS ---


def a_certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """Write a self-signed certificate for 127.0.0.1 and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    certificate_path, key_path = folder / "cert.pem", folder / "key.pem"
    certificate_path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    key_path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return certificate_path, key_path


async def served_name(url: str) -> str:
    """Return the name in the certificate that a server shows."""
    host, port = url.removeprefix("https://").split(":")
    pem = await asyncio.to_thread(ssl.get_server_certificate, (host, int(port)))
    (attribute,) = x509.load_pem_x509_certificate(pem.encode()).subject
    return str(attribute.value)


async def test_tls_from_files_that_a_reload_reads_again_while_a_stream_stays_open(tmp_path: Path) -> None:
    certificate, key = a_certificate(tmp_path, "first")
    gateway = GatewaySettings(port=0, tls_certificate=str(certificate), tls_key=str(key))
    settings = Settings(store=str(tmp_path / "a.db"), gateway=gateway)
    reloader = Reloader()
    async with open_gateway(settings, reloader) as url, aiohttp.ClientSession() as http:
        trusting = ssl.create_default_context(cafile=str(certificate))
        stream = await http.get(f"{url}/api/events", ssl=trusting)
        first = await served_name(url)
        a_certificate(tmp_path, "second")
        await reloader.reload(settings)
        second = await served_name(url)
        key.write_text("nothing")
        with pytest.raises(UsageError, match="do not make a pair"):
            await reloader.reload(settings)
        third = await served_name(url)
        fresh = ssl.create_default_context(cafile=str(certificate))
        await status(http, "POST", f"{url}/api/sessions/s/messages", json={"text": "hello"}, ssl=fresh)
        line = await _until(stream, b"event: session")
        stream.close()

    assert (url[:8], first, second, third) == ("https://", "first", "second", "second")
    assert line


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (("a.pem", ""), r"gateway.tls_key is not set"),
        (("/nowhere/a.pem", "/nowhere/b.pem"), r"gateway.tls_certificate: cannot read /nowhere/a.pem"),
    ],
)
async def test_tls_that_cannot_be_served_is_a_sentence(tmp_path: Path, given: tuple[str, str], sentence: str) -> None:
    gateway = GatewaySettings(port=0, tls_certificate=given[0], tls_key=given[1])
    with pytest.raises(UsageError, match=sentence):
        async with open_gateway(Settings(store=str(tmp_path / "a.db"), gateway=gateway)):
            pass


# --- Trusted proxies ---


@pytest.mark.parametrize(("trusted", "expected"), [((), 200), (("127.0.0.0/8",), 403), (("10.0.0.0/8",), 200)])
async def test_forwarded_addresses_count_only_from_a_trusted_proxy(
    tmp_path: Path, trusted: tuple[str, ...], expected: int
) -> None:
    settings = Settings(store=str(tmp_path / "a.db"), gateway=GatewaySettings(port=0, trusted_proxies=trusted))
    headers = {"x-forwarded-for": "203.0.113.7", "x-forwarded-proto": "https"}
    async with open_gateway(settings) as url, aiohttp.ClientSession() as http:
        forwarded = await status(http, "GET", f"{url}/api/sessions", headers=headers)
        direct = await status(http, "GET", f"{url}/api/sessions")

    # A gateway without keys serves this machine only, so a forwarded address of another one is refused.
    assert (forwarded, direct) == (expected, 200)


async def test_a_proxy_that_is_no_address_is_a_sentence(tmp_path: Path) -> None:
    settings = Settings(store=str(tmp_path / "a.db"), gateway=GatewaySettings(port=0, trusted_proxies=("nginx",)))
    with pytest.raises(UsageError, match=r"gateway.trusted_proxies: 'nginx' is not an address"):
        async with open_gateway(settings):
            pass


# --- Rotation ---


async def test_a_key_is_rotated_under_load_without_a_failed_request(tmp_path: Path) -> None:
    keys = KeyFile(tmp_path / "a.db-keys")
    current = [keys.add("alice")]
    settings = Settings(store=str(tmp_path / "a.db"), gateway=GatewaySettings(port=0))
    is_rotated = asyncio.Event()
    async with open_gateway(settings) as url, aiohttp.ClientSession() as http:

        async def ask(client: int) -> list[int]:
            """Send messages with the newest secret that this client knows; it learns a new one after each answer."""
            found: list[int] = []
            while not is_rotated.is_set() or len(found) < 5:
                address, secret = f"{url}/api/sessions/s{client}/messages", current[-1]
                headers = {"authorization": f"Bearer {secret}"}
                found.append(await status(http, "POST", address, json={"text": "hello"}, headers=headers))
            return found

        async def rotate() -> None:
            for _ in range(4):
                fresh = await asyncio.to_thread(keys.rotate, "alice", overlap_seconds=60)
                # The gateway reads the file within a second; until then clients use the old secret.
                headers = {"authorization": f"Bearer {fresh}"}
                while await status(http, "GET", f"{url}/api/sessions", headers=headers) != 200:  # noqa: ASYNC110 - the gateway's own clock
                    await asyncio.sleep(0.05)
                current.append(fresh)
            is_rotated.set()

        *answers, _ = await asyncio.gather(*(ask(client) for client in range(8)), rotate())

    statuses = [one for found in answers for one in found or []]
    assert (set(statuses), len(statuses) >= 40, len(current)) == ({200}, True, 5)
