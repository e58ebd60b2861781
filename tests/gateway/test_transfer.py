"""Sessions over HTTP as wholes: forked, exported, imported, deleted, and what a compaction would make of them."""

import asyncio
import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.core.limits.bounds import Bounds
from holdfast.gateway.accounts import ACCOUNTS_KEY
from holdfast.gateway.bounds import GatewayBounds
from holdfast.models.catalogue import simulated_model
from holdfast.models.fake import Simulation
from holdfast.runtime.engine.learning import LEARNED_KEY
from holdfast.runtime.sessions.transfer import COPYING, export_session
from holdfast.testing.engines import ScriptedModel
from holdfast.types.limits import Limits
from tests.core.images import a_png
from tests.gateway.gateways import GatewayClient, Running, SilentModel, a_gateway, eventually, first, until
from tests.gateway.test_tenants import keys

KEY = "/api/sessions/telegram:42"


async def a_file(client: GatewayClient, key: str = "telegram:42") -> bytes:
    """Return a session as it is exported."""
    body = (await client.get(f"/api/sessions/{key}/export")).body
    assert isinstance(body, bytes)
    return body


def with_foot(lines: list[bytes]) -> bytes:
    """Return lines with the foot that belongs to them: what somebody sends who knows the format."""
    whole = b"".join(lines)
    foot = {"line": "foot", "lines": len(lines), "sha256": hashlib.sha256(whole).hexdigest()}
    return whole + json.dumps(foot).encode() + b"\n"


async def keys_in(running: Running) -> list[str]:
    """Return the keys of all sessions in the store, also of those that nobody sees."""
    known = [one.key for one in await running.engine.store.sessions()]
    return [key for key in known if key != LEARNED_KEY and not key.startswith(ACCOUNTS_KEY)]


# --- fork ----------------------------------------------------------------------------------------------------------


async def test_a_fork_goes_on_by_itself_from_the_record_that_is_named() -> None:
    async with a_gateway() as running:
        await running.client.send("telegram:42", "remember harbour = Kiel")
        last = (await running.client.get(KEY)).body["records"]
        await running.client.send("telegram:42", "remember harbour = Bergen")
        forked = await running.client.post(f"{KEY}/fork", {"into": "other", "at": last})
        there = await running.client.send("other", "what is harbour?")
        here = await running.client.send("telegram:42", "what is harbour?")

    assert (forked.status, forked.body) == (201, {"key": "other", "records": last})
    assert (there.body["text"], here.body["text"]) == ("harbour = Kiel.", "harbour = Bergen.")


async def test_a_fork_into_a_session_that_exists_or_behind_the_last_record_makes_nothing() -> None:
    async with a_gateway() as running:
        await running.client.send("telegram:42", "hello")
        taken = await running.client.post(f"{KEY}/fork", {"into": "telegram:42"})
        behind = await running.client.post(f"{KEY}/fork", {"into": "other", "at": 99})
        absent = await running.client.post("/api/sessions/nobody/fork", {"into": "other"})
        there = await keys_in(running)

    assert taken.code == (409, "exists")
    assert behind.code == (422, "bad_input")
    assert absent.code == (404, "not_found")
    assert there == ["telegram:42"]


# --- export and import ---------------------------------------------------------------------------------------------


async def test_an_export_is_the_file_that_the_command_writes_with_a_name_for_it() -> None:
    async with a_gateway() as running:
        await running.client.send('tele gram/"42', "hello")
        answer = await running.client.get("/api/sessions/tele%20gram%2F%2242/export")
        lines = [line async for line in export_session(running.engine.store, running.engine.blobs, 'tele gram/"42')]

    assert answer.status == 200
    assert answer.body == b"".join(lines)
    assert answer.headers["content-type"] == "application/jsonl"
    assert answer.headers["content-disposition"] == 'attachment; filename="tele-gram-42.jsonl"'


async def test_what_was_exported_is_imported_with_its_attachments_and_goes_on() -> None:
    picture = a_png(8, 8)
    async with a_gateway() as here, a_gateway() as there:
        upload = (await here.client.post("/api/attachments?name=a.png", picture)).body["upload"]
        sent = {"text": "remember harbour = Kiel", "attachments": [{"upload": upload}]}
        await here.client.post(f"{KEY}/messages", sent)
        file = await a_file(here.client)
        made = await there.client.post("/api/import", file)
        renamed = await there.client.post("/api/import?key=copy", file)
        asked = await there.client.send("copy", "what is harbour?")
        again = await a_file(there.client)
        taken = await there.client.post("/api/import", file)

    assert (made.status, renamed.status) == (201, 201)
    assert made.body == {"key": "telegram:42", "records": 5, "blobs": 1, "origin": "telegram:42"}
    assert renamed.body["key"] == "copy"
    assert asked.body["text"] == "harbour = Kiel."
    assert again == file
    assert taken.code == (409, "exists")


async def test_an_import_belongs_to_the_key_that_brings_it_whoever_exported_it(tmp_path: Path) -> None:
    path, made = keys(tmp_path, "alice", "bob")
    async with a_gateway(keys=path) as running:
        alice, bob = running.with_key(made["alice"]), running.with_key(made["bob"])
        await alice.send("telegram:42", "remember harbour = Kiel")
        file = await a_file(alice)
        imported = await bob.post("/api/import", file)
        stolen = [
            await bob.post("/api/sessions/x/fork", {"into": "y"}),
            await bob.get("/api/sessions/x/export"),
            await bob.ask("DELETE", "/api/sessions/x"),
            await bob.post("/api/sessions/x/compact/preview", {}),
        ]
        await alice.send("x", "mine")
        still = [
            await bob.post("/api/sessions/x/fork", {"into": "y"}),
            await bob.get("/api/sessions/x/export"),
            await bob.ask("DELETE", "/api/sessions/x"),
            await bob.post("/api/sessions/x/compact/preview", {}),
        ]
        there = await keys_in(running)

    assert imported.body == {"key": "telegram:42", "records": 5, "blobs": 0, "origin": "telegram:42"}
    assert [answer.code for answer in (*stolen, *still)] == [(404, "not_found")] * 8
    assert there == ["@alice/telegram:42", "@alice/x", "@bob/telegram:42"]


Lines = list[bytes]
BROKEN: dict[str, Callable[[Lines], bytes]] = {
    "empty": lambda _: b"",
    "something else": lambda _: b"hello",
    "without its foot": lambda lines: b"".join(lines[:-1]),
    "cut": lambda lines: b"".join(lines)[:-20],
    "a line missing": lambda lines: b"".join([lines[0], *lines[2:]]),
    "altered": lambda lines: b"".join(lines).replace(b"Kiel", b"Cork"),
    # A right foot does not help.
    "a record missing": lambda lines: with_foot([lines[0], *lines[2:-1]]),
    "two heads": lambda lines: with_foot([lines[0], *lines[:-1]]),
    "no head": lambda lines: with_foot(lines[1:-1]),
    "no records": lambda lines: with_foot(lines[:1]),
    "an unknown record": lambda lines: with_foot(
        [*lines[:-1], b'{"line":"record","logged":{"seq":6,"at":0,"record":{"type":"X"}}}\n']
    ),
}


@pytest.mark.parametrize("how", BROKEN)
async def test_a_file_that_is_not_whole_stores_nothing(how: str) -> None:
    async with a_gateway() as running:
        await running.client.send("telegram:42", "remember harbour = Kiel")
        file = await a_file(running.client)
        answer = await running.client.post("/api/import?key=copy", BROKEN[how](file.splitlines(keepends=True)))
        there = await keys_in(running)
        waiting = running.gateway.state.uploads.pending_bytes("")

    assert answer.code == (422, "bad_input")
    assert (there, waiting) == (["telegram:42"], 0)
    assert not any(key.startswith(COPYING) for key in there)


async def test_an_import_cannot_name_bytes_that_it_does_not_bring_nor_a_model_that_is_not_offered() -> None:
    async with a_gateway() as running:
        sent = {"text": "look", "attachments": [{"content": "aGVsbG8gd29ybGQ=", "name": "a.txt"}]}
        await running.client.post(f"{KEY}/messages", sent)
        lines = (await a_file(running.client)).splitlines(keepends=True)
        theirs = with_foot([line for line in lines[:-1] if not line.startswith(b'{"line":"blob"')])
        head = lines[0].replace(b'"last_seq":5', b'"last_seq":1')
        told = {"seq": 1, "at": 0.0, "record": {"type": "SessionConfigured", "model": "openai:gpt-5"}}
        dear = with_foot([head, json.dumps({"line": "record", "logged": told}).encode() + b"\n"])
        blob = await running.client.post("/api/import?key=a", theirs)
        model = await running.client.post("/api/import?key=b", dear)
        there = await keys_in(running)

    assert blob.code == (422, "bad_input")
    assert "which the file lacks" in blob.body["detail"]
    assert model.code == (422, "unknown_model")
    assert there == ["telegram:42"]


async def test_an_import_that_is_too_long_or_has_a_line_that_is_is_refused() -> None:
    async with a_gateway() as running:
        await running.client.send("telegram:42", "hello")
        file = await a_file(running.client)
    async with a_gateway(bounds=GatewayBounds(import_bytes_max=len(file) - 1)) as running:
        long = await running.client.post("/api/import", file)
    async with a_gateway(bounds=GatewayBounds(body_bytes_max=100)) as running:
        line = await running.client.post("/api/import", file)

    assert long.code == (413, "too_large")
    assert line.code == (422, "bad_input")


async def test_a_reader_of_an_export_that_takes_nothing_is_cut_off() -> None:
    large = ScriptedModel(["x" * 2_000_000] * 12)
    async with a_gateway(large, bounds=GatewayBounds(stall_seconds_max=0.2)) as running:
        for _ in range(12):
            await running.client.send("telegram:42", "more")
        tenant = running.gateway.state.tenant("")
        async with running.connection() as (_, writer):
            writer.write(f"GET {KEY}/export HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n".encode())
            await eventually(lambda: tenant.requests == 1)
            await eventually(lambda: tenant.requests == 0)


# --- delete --------------------------------------------------------------------------------------------------------


async def test_a_session_that_is_deleted_is_gone_and_whoever_watches_it_is_told() -> None:
    async with a_gateway() as running:
        await running.client.send("telegram:42", "hello")
        async with running.client.events(f"{KEY}/events?after=0") as events:
            await until(events, "record", "TurnEnded")
            removed = await running.client.ask("DELETE", KEY)
            gone = await first(events, "gone")
            rest = [event async for event in events]
        absent = await running.client.get(KEY)
        again = await running.client.ask("DELETE", KEY)
        anew = await running.client.send("telegram:42", "hello")

    assert (removed.status, removed.body) == (200, {"records": 5, "segments": 0, "blobs": 0})
    assert "deleted" in gone.told["why"]
    assert rest == []
    assert absent.code == again.code == (404, "not_found")
    assert anew.body["turn"] == 1


async def test_a_session_that_is_being_worked_on_is_not_deleted() -> None:
    silent = SilentModel()
    async with a_gateway(silent, bounds=GatewayBounds(rest_seconds_max=0.2)) as running:
        await running.client.send("telegram:42", "hello", mode="post")
        await silent.called.wait()
        busy = await running.client.ask("DELETE", KEY)
        await running.client.post(f"{KEY}/cancel", {})
        async with asyncio.timeout(60):
            while (later := await running.client.ask("DELETE", KEY)).status == busy.status:
                pass
        there = await keys_in(running)

    assert busy.code == (503, "retry_later")
    assert (later.status, there) == (200, [])


# --- preview -------------------------------------------------------------------------------------------------------


async def test_a_preview_has_the_numbers_of_the_compaction_that_follows_and_writes_nothing() -> None:
    model = simulated_model(Simulation(Limits(window_tokens=16_000, output_tokens_max=2_000)))
    async with a_gateway(model, engine_bounds=Bounds(compacts_ahead=False)) as running:
        for number in range(8):
            await running.client.send("telegram:42", f"remember place{number} = Kiel. " + "A long letter came. " * 150)
        before = (await running.client.get(KEY)).body["records"]
        looked = await running.client.post(f"{KEY}/compact/preview", {})
        after = (await running.client.get(KEY)).body["records"]
        asked = await running.client.post(f"{KEY}/compact/preview", {"focus": "places", "with_model": True})
        await running.client.post(f"{KEY}/compact", {"focus": "places"})
        detail = (await running.client.get(KEY)).body
        record = (await running.client.get(f"{KEY}/records/{detail['compaction']}")).body["record"]

    would = looked.body["would"]
    assert looked.status == 200
    assert before == after
    assert would["first_seq"] < would["last_seq"] < would["boundary"]
    assert would["tokens_after"] < would["tokens_before"]
    assert would["digest"]
    assert would["summary"] == ""
    told = asked.body["would"]
    assert told["model"] == record["model"]
    assert (told["boundary"], told["summary"]) == (record["boundary"], record["summary"])
    assert (told["tokens_before"], told["tokens_after"]) == (record["tokens_before"], record["tokens_after"])


async def test_where_nothing_is_to_be_compacted_a_preview_says_so() -> None:
    async with a_gateway() as running:
        await running.client.send("telegram:42", "hello")
        looked = await running.client.post(f"{KEY}/compact/preview", {})
        long = await running.client.post(f"{KEY}/compact/preview", {"focus": "x" * 4_001})

    assert looked.body == {"would": None}
    assert long.code == (422, "invalid")
