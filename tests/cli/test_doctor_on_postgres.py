"""The command `doctor` on a PostgreSQL server: sessions are looked at through the port, and mended after a dump."""

import asyncio
import json

import pytest

from holdfast.cli import command_line
from holdfast.cli.exit_codes import run
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.postgres.blobs import PostgresBlobs
from holdfast.testing.builders import a_reply, a_turn_ended, a_turn_started, an_attempt_started, an_input, lease_on
from holdfast.types.messages import LargeText
from holdfast.types.records import InputAdmitted
from tests.stores.postgres_server import on

TURN = (a_turn_started(), an_attempt_started(), a_reply("aye"), a_turn_ended())


async def _fill(url: str) -> None:
    store = PostgresStore(url)
    ref = await PostgresBlobs(store.connections).put(b"a long text")
    for key in ("one", "two"):
        await store.admit(key, InputAdmitted((LargeText(ref, "a long"),)) if key == "one" else an_input())
        lease = await lease_on(store, key)
        await store.append(lease, list(TURN), after=1)
        await store.release(lease)
    await store.close()


@pytest.fixture
def url(postgres_url: str) -> str:
    """A store on a server with two sessions of five records, one of which names a blob."""
    asyncio.run(_fill(postgres_url))
    return postgres_url


def doctor(url: str, *options: str) -> int:
    return run(command_line, ["doctor", "--store", url, *options])


def damage(url: str, sql: str) -> None:
    assert asyncio.run(on(url, lambda db: db.execute(sql))).endswith(" 1")


def test_a_healthy_store_on_a_server_is_said_to_be_well_without_its_password(
    url: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert doctor(url) == 0

    said = capfd.readouterr().out.splitlines()
    assert said[0].startswith("postgresql://")
    assert "@" not in said[0]
    assert said[0].endswith("2 sessions checked")
    assert said[-1] == "No problems found."


def test_damage_on_a_server_is_named_and_repaired_once_a_dump_was_made(
    url: str, capfd: pytest.CaptureFixture[str]
) -> None:
    of_one = "(SELECT number FROM holdfast.sessions WHERE key = 'one'::bytea)"
    damage(url, f"UPDATE holdfast.records SET crc32 = crc32 + 1 WHERE seq = 4 AND session = {of_one}")

    assert doctor(url, "--json") == 3
    (finding,) = json.loads(capfd.readouterr().out)["found"]["findings"]
    assert (finding["code"], finding["session"], finding["seq"]) == ("damaged_record", "one", 4)
    assert doctor(url, "--session", "two") == 0

    assert doctor(url, "--fix") == 2
    assert "pg_dump" in capfd.readouterr().err
    assert doctor(url, "--fix", "--dumped") == 0
    assert "Repaired; no problems left." in capfd.readouterr().out
    assert doctor(url) == 0


def test_a_blob_that_is_gone_from_a_server_is_told(url: str, capfd: pytest.CaptureFixture[str]) -> None:
    damage(url, "DELETE FROM holdfast.blobs")

    assert doctor(url) == 3
    assert "blob" in capfd.readouterr().out
