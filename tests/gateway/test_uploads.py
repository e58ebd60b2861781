"""Uploads outlive the gateway that took them, for as long as they may wait and for whoever brought them."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from holdfast.config.schema import GatewaySettings, Settings
from holdfast.gateway.bounds import GatewayBounds
from holdfast.gateway.http.problems import NotFoundError
from holdfast.gateway.uploads import Uploads
from holdfast.testing.builders import ManualClock
from holdfast.wiring import open_gateway
from tests.gateway.gateways import GatewayClient

BOUNDS = GatewayBounds(upload_seconds_max=60.0)


async def chunks(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


async def test_a_message_names_an_upload_that_was_brought_before_a_restart(tmp_path: Path) -> None:
    settings = Settings(store=str(tmp_path / "store.db"), gateway=GatewaySettings(port=0))
    async with aiohttp.ClientSession() as http:
        async with open_gateway(settings) as url:
            upload = (await GatewayClient(http, url).post("/api/attachments?name=a.txt", b"the narwhal")).body["upload"]
        async with open_gateway(settings) as url:
            client = GatewayClient(http, url)
            sent = await client.post(
                "/api/sessions/telegram:42/messages", {"text": "look", "attachments": [{"upload": upload}]}
            )
            record = (await client.get("/api/sessions/telegram:42/records/1")).body["record"]

    assert sent.status == 200
    assert "the narwhal" in str(record)


async def test_an_upload_stays_its_tenants_own_and_is_gone_when_it_is_too_old(tmp_path: Path) -> None:
    folder, clock = tmp_path / "uploads", ManualClock()
    before = Uploads(BOUNDS, clock, folder)
    kept, _ = await before.save("alice", "note.json", chunks(b"text"))
    before.close()
    after = Uploads(BOUNDS, clock, folder)

    assert after.path_of("alice", kept).read_bytes() == b"text"
    assert after.pending_bytes("alice") == len(b"text")
    with pytest.raises(NotFoundError):
        after.path_of("bob", kept)
    after.close()

    clock.advance(61.0)
    later = Uploads(BOUNDS, clock, folder)
    with pytest.raises(NotFoundError):
        later.path_of("alice", kept)
    later.close()
    assert list(tmp_path.iterdir()) == []


async def test_what_was_not_received_whole_is_not_offered_and_is_removed_when_nobody_can_still_be_sending_it(
    tmp_path: Path,
) -> None:
    folder, clock = tmp_path / "uploads", ManualClock()
    before = Uploads(BOUNDS, clock, folder)
    cut, upload = await before.save("alice", "a.txt", chunks(b"text"))
    with upload.path.open("ab") as file:
        file.write(b" and more")
    (folder / "coming").mkdir()
    (folder / "left").mkdir()
    os.utime(folder / "coming", (clock.now(), clock.now()))
    os.utime(folder / "left", (clock.now() - 61, clock.now() - 61))
    before.close()
    after = Uploads(BOUNDS, clock, folder)

    with pytest.raises(NotFoundError):
        after.path_of("alice", cut)
    assert [one.name for one in folder.iterdir()] == ["coming"]
    after.close()
