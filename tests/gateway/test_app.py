"""The application around the API: other faces beside it, clients that leave, operators' errors."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.errors import InternalError, LeaseLostError, StoreDamagedError, StoreFullError
from holdfast.gateway.bounds import GatewayBounds
from holdfast.gateway.http.app import Mount
from holdfast.gateway.http.asgi import Receive, Scope, Send, send_response
from holdfast.gateway.http.keys import KeyFile
from holdfast.gateway.http.problems import NotFoundError, problem_of
from holdfast.gateway.uploads import Uploads
from holdfast.testing.builders import ManualClock
from tests.gateway.gateways import SilentModel, a_gateway, eventually


async def a_face(scope: Scope, _receive: Receive, send: Send) -> None:
    tenant = scope.get("holdfast.tenant")
    await send_response(send, 200, json.dumps({"path": scope["path"], "tenant": tenant and tenant.name}).encode())


async def test_another_face_is_mounted_beside_the_api_with_the_tenant_or_open_to_all(tmp_path: Path) -> None:
    file = KeyFile(tmp_path / "keys")
    key = file.add("alice")
    async with a_gateway(keys=file.path) as running:
        running.gateway._mounts.update({"v1": Mount(a_face), "": Mount(a_face, is_open=True)})
        alice = running.with_key(key)
        answers = [
            await alice.get("/v1/models"),
            await running.client.get("/v1/models"),
            await running.client.get("/index.html"),
            await alice.get("/api/nothing"),
        ]

    assert answers[0].body == {"path": "/v1/models", "tenant": "alice"}
    assert answers[1].code == (401, "unauthorized")
    assert answers[2].body == {"path": "/index.html", "tenant": None}
    assert answers[3].code == (404, "not_found")


async def test_a_client_that_leaves_is_not_waited_for_and_its_message_is_answered() -> None:
    silent = SilentModel()
    async with a_gateway(silent) as running:
        tenant = running.gateway.state.tenant("")
        waiting = asyncio.ensure_future(running.client.send("telegram:42", "hello"))
        await silent.called.wait()
        assert tenant.requests == 1
        waiting.cancel()
        await eventually(lambda: tenant.requests == 0)
        session = await running.client.get("/api/sessions/telegram:42")

    assert session.body["unanswered"] == 1


async def test_an_answer_that_breaks_in_its_middle_is_cut_off(caplog: pytest.LogCaptureFixture) -> None:
    async def breaks(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"10")]})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})
        raise ZeroDivisionError

    async with a_gateway() as running:
        running.gateway._mounts["v1"] = Mount(breaks)
        raw = await running.raw(b"GET /v1/x HTTP/1.1\r\nhost: localhost\r\n\r\n")
        after = await running.client.get("/healthz")

    assert raw.endswith(b"half")
    assert after.status == 200
    assert "request failed" in caplog.messages


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (StoreFullError("no space is left for /secret/place"), 507, "store_full"),
        (StoreDamagedError("/secret/place", 3, "torn"), 500, "store_damaged"),
        (InternalError("/secret/place", ValueError("x")), 500, "internal"),
        (ZeroDivisionError("/secret/place"), 500, "internal"),
        (LeaseLostError("s", 1), 409, "lease_lost"),
    ],
)
def test_what_only_the_operator_can_cure_is_told_without_its_details(error: Exception, status: int, code: str) -> None:
    problem = problem_of(error)

    assert (problem.status, problem.code) == (status, code)
    assert "/secret/place" not in problem.detail


async def test_an_upload_is_gone_when_it_is_too_old() -> None:
    clock = ManualClock()
    uploads = Uploads(GatewayBounds(upload_seconds_max=60.0), clock)

    async def chunks() -> AsyncIterator[bytes]:
        yield b"text"

    upload_id, kept = await uploads.save("alice", "a.txt", chunks())
    assert uploads.path_of("alice", upload_id).read_bytes() == b"text"
    clock.advance(61.0)
    with pytest.raises(NotFoundError, match="upload the attachment again"):
        uploads.path_of("alice", upload_id)
    assert not kept.path.exists()
    uploads.close()
