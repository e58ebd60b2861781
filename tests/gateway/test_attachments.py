"""Attachments are read by whoever may read the record that names them, and run by nobody."""

import hashlib
import io
from pathlib import Path
from typing import Any

import pytest

from holdfast.stores.memory import MemoryBlobs
from holdfast.types.messages import BlobRef
from holdfast.types.records import InputAdmitted
from tests.core.images import a_gif, a_jpeg, a_lossy_webp, a_png
from tests.gateway.gateways import Answer, GatewayClient, a_gateway
from tests.gateway.test_tenants import keys

KEY = "/api/sessions/telegram:42"
# Each would run in a browser that took it for what it says it is.
HOSTILE = {
    "drawing.svg": b'<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"><script>alert(1)</script></svg>',
    "page.html": b"<!doctype html><script>alert(1)</script>",
    "both.png": b"<html><script>alert(1)</script>",
}
LARGE = 40_000


async def attached(client: GatewayClient, name: str, content: bytes) -> str:
    """Send something as an attachment, and return where its bytes are."""
    body: Any = io.BytesIO(content) if len(content) > LARGE * 2 else content
    upload = (await client.ask("POST", f"/api/attachments?name={name}", data=body)).body["upload"]
    sent = await client.post(f"{KEY}/messages", {"text": "look", "attachments": [{"upload": upload}], "mode": "post"})
    assert sent.status == 202, sent.body
    return f"{KEY}/records/{sent.body['turn']}/attachments/{hashlib.sha256(content).hexdigest()}"


def told(answer: Answer) -> tuple[int, str, str]:
    kind, disposition = answer.headers["content-type"], answer.headers["content-disposition"]
    return answer.status, kind, disposition.partition(";")[0]


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("a.png", a_png(3, 2), "image/png"),
        ("a.jpg", a_jpeg(3, 2), "image/jpeg"),
        ("a.gif", a_gif(3, 2), "image/gif"),
        ("a.webp", a_lossy_webp(3, 2), "image/webp"),
    ],
)
async def test_an_image_is_given_as_it_was_attached_and_by_its_type(name: str, content: bytes, kind: str) -> None:
    async with a_gateway() as running:
        answer = await running.client.get(await attached(running.client, name, content))
    assert (told(answer), answer.body) == ((200, kind, "inline"), content)
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-security-policy"] == "default-src 'none'; sandbox"
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"


@pytest.mark.parametrize(("name", "content"), [*HOSTILE.items(), ("a.pdf", b"%PDF-1.7 hello")])
async def test_whatever_a_browser_might_run_is_a_file_to_be_saved(name: str, content: bytes) -> None:
    # Long, so that it is kept in a blob and not in the message.
    whole = content + b" " * LARGE
    claimed = name.replace(".png", ".txt")
    async with a_gateway() as running:
        answer = await running.client.get(await attached(running.client, claimed, whole))
    assert (told(answer), answer.body) == ((200, "application/octet-stream", "attachment"), whole)
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-security-policy"] == "default-src 'none'; sandbox"


async def test_a_large_attachment_comes_in_pieces_and_whole() -> None:
    content = "".join(f"line {number}\n" for number in range(100_000)).encode()
    async with a_gateway() as running:
        answer = await running.client.get(await attached(running.client, "lines.txt", content))
    assert (answer.status, answer.body == content) == (200, True)


async def test_nobody_reads_what_is_attached_elsewhere(tmp_path: Path) -> None:
    path, made = keys(tmp_path, "alice", "bob")
    picture = a_png(3, 2)
    async with a_gateway(keys=path) as running:
        alice, bob = running.with_key(made["alice"]), running.with_key(made["bob"])
        where = await attached(alice, "a.png", picture)
        # A session and a record of the same names, which do not name these bytes.
        await bob.send("telegram:42", "hello")
        digest = where.rpartition("/")[2]
        refused = [
            await bob.get(where),
            await bob.get(f"{KEY}/records/2/attachments/{digest}"),
            await alice.get(f"{KEY}/records/2/attachments/{digest}"),
            await alice.get(f"{KEY}/records/999/attachments/{digest}"),
            await alice.get(f"{KEY}/records/x/attachments/{digest}"),
            await alice.get(f"{KEY}/records/1/attachments/..%2F..%2Fetc%2Fpasswd"),
            await alice.get(f"/api/sessions/other/records/1/attachments/{digest}"),
        ]
        without_key = await running.client.get(where)
        own = await alice.get(where)
    assert [one.code for one in refused] == [(404, "not_found")] * len(refused)
    assert without_key.code == (401, "unauthorized")
    assert (own.status, own.body) == (200, picture)


async def test_bytes_that_were_altered_are_not_given_as_if_they_were_whole() -> None:
    small, large = a_png(3, 2), b"narwhal " * LARGE
    async with a_gateway() as running:
        places = [
            await attached(running.client, "a.png", small),
            await attached(running.client, "large.txt", large),
        ]
        blobs = running.engine.blobs
        assert isinstance(blobs, MemoryBlobs)
        for content in (small, large):
            blobs._blobs[hashlib.sha256(content).hexdigest()] = content[:-1] + b"?"
        refused = await running.client.get(places[0])
        with pytest.raises(Exception, match="payload"):
            await running.client.get(places[1])
    assert refused.code == (500, "blob_missing")


async def test_bytes_that_are_gone_are_told_of() -> None:
    async with a_gateway() as running:
        ref = BlobRef("0" * 64, 5)
        await running.engine.store.admit("telegram:42", InputAdmitted((), originals=(ref,)))
        answer = await running.client.get(f"{KEY}/records/1/attachments/{ref.sha256}")
    assert answer.code == (500, "blob_missing")
