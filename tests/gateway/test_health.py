"""How a gateway is: what is owed and worked on, who holds leases, what failed lately, what the doctor found."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

import aiohttp

from holdfast.config.schema import GatewaySettings, Settings
from holdfast.gateway.bounds import GatewayBounds
from holdfast.gateway.health import Checks, Inspection, Node, StorageUse, storage_of
from holdfast.gateway.http.keys import KeyFile
from holdfast.runtime.engine.learning import LEARNED_KEY
from holdfast.runtime.maintenance.doctor import Finding
from holdfast.testing.engines import ScriptedModel, refuses
from holdfast.types.limits import Claim, Evidence, Learned, Support
from holdfast.types.records import LimitsLearned
from holdfast.wiring import open_gateway
from tests.gateway.gateways import DEADLINE_SECONDS, GatewayClient, SilentModel, a_gateway
from tests.gateway.test_tenants import keys


async def test_health_tells_what_is_owed_worked_on_and_failed_of_late() -> None:
    script = ScriptedModel([refuses(401, "invalid x-api-key: sk-secret")])
    async with a_gateway(script) as running:
        await running.client.send("telegram:42", "hello")
        health = (await running.client.get("/api/health")).body
    async with a_gateway(silent := SilentModel()) as running:
        await running.client.send("busy", "hello", mode="post")
        await silent.called.wait()
        busy = (await running.client.get("/api/health")).body

    (fault,) = health["faults"]
    assert (fault["session"], fault["turn"], fault["kind"], fault["status"]) == ("telegram:42", 1, "auth", 401)
    assert fault["words"] == "the provider does not accept the key"
    assert "sk-secret" not in str(health)
    assert (health["is_operator"], health["owing"], health["check"], health["nodes"]) == (True, [], None, None)
    assert (busy["owing_count"], busy["owing"], busy["working"]) == (1, ["busy"], ["busy"])
    assert (health["oldest_unanswered_seconds"], busy["oldest_unanswered_seconds"] > 0) == (None, True)


async def test_a_key_is_told_about_its_own_sessions_and_the_operator_about_all(tmp_path: Path) -> None:
    path, made = keys(tmp_path, "alice", "bob", "operator")
    async with a_gateway(ScriptedModel([refuses(401), refuses(401)]), keys=path) as running:
        alice, bob, operator = (running.with_key(made[name]) for name in ("alice", "bob", "operator"))
        await alice.send("one", "hello")
        await bob.send("two", "hello")
        theirs = (await alice.get("/api/health")).body
        everything = (await operator.get("/api/health")).body
        forbidden = await alice.post("/api/health/check", {})

    assert [fault["session"] for fault in theirs["faults"]] == ["one"]
    assert (theirs["is_operator"], theirs["learned"], theirs["nodes"], theirs["check"]) == (False, None, None, None)
    assert [fault["session"] for fault in everything["faults"]] == ["@bob/two", "@alice/one"]
    assert everything["learned"] is not None
    assert forbidden.code == (403, "forbidden")


async def test_a_store_that_is_no_file_cannot_be_checked_here() -> None:
    async with a_gateway() as running:
        refused = await running.client.post("/api/health/check", {})

    assert refused.code == (422, "bad_input")


async def test_the_doctor_looks_at_the_store_of_a_gateway_on_demand_and_what_it_found_is_kept(tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    settings = Settings(store=str(store), gateway=GatewaySettings(port=0))
    async with open_gateway(settings) as url, aiohttp.ClientSession() as http:
        client = GatewayClient(http, url)
        await client.send("telegram:42", "hello")
        checked = await client.post("/api/health/check", {})
        health = (await client.get("/api/health")).body
        await client.send("telegram:42", "and again")

    found = checked.body["found"]
    assert (checked.status, found["findings"], found["more"], found["sessions"]) == (200, [], 0, found["sessions"])
    assert found["sessions"] >= 1
    assert health["check"] == found
    assert health["is_checking"] is False
    assert isinstance(health["nodes"], list)
    assert str(tmp_path) not in str(health)


async def test_whoever_asks_for_a_check_while_one_runs_gets_that_one_and_nobody_waits_for_ever() -> None:
    gate, calls = asyncio.Event(), 0

    async def check() -> tuple[int, Sequence[Finding], Sequence[str]]:
        nonlocal calls
        calls += 1
        await gate.wait()
        return 3, [Finding("record", "record 2 is altered", "s", number) for number in range(250)], ["a note"]

    async def nodes() -> list[Node]:
        return [Node("here:1", is_alive=True, sessions=2)]

    inspection = Inspection(nodes, check)
    bounds = GatewayBounds(wait_seconds_max=0.05)
    async with a_gateway(bounds=bounds, inspection=inspection) as running:
        early = await running.client.post("/api/health/check", {})
        checking = (await running.client.get("/api/health")).body
        again = await running.client.post("/api/health/check", {})
        gate.set()
        async with asyncio.timeout(DEADLINE_SECONDS):
            while (health := (await running.client.get("/api/health")).body)["check"] is None:
                pass

    assert (early.status, early.body, again.status) == (202, {"found": None, "is_running": True}, 202)
    assert (checking["is_checking"], checking["nodes"]) == (
        True,
        [{"owner": "here:1", "is_alive": True, "sessions": 2}],
    )
    assert calls == 1
    assert (len(health["check"]["findings"]), health["check"]["more"], health["check"]["notes"]) == (
        200,
        50,
        ["a note"],
    )


async def test_a_check_that_is_under_way_does_not_hold_up_the_end() -> None:
    began = asyncio.Event()

    async def check() -> tuple[int, Sequence[Finding], Sequence[str]]:
        began.set()
        await asyncio.Event().wait()
        return 0, (), ()

    checks = Checks()
    asked = asyncio.create_task(checks.run(check))
    await began.wait()
    await checks.close()
    await asyncio.wait({asked})

    assert asked.cancelled()
    assert (checks.is_running, checks.newest) == (False, None)


async def test_the_operator_sees_claims_with_their_evidence_and_drops_them(tmp_path: Path) -> None:
    path, made = keys(tmp_path, "alice", "operator")
    claim = Claim("window_tokens", 8_000, Evidence.STATED, 1.0, 1.0, records=(Support("telegram:42", 7),))
    learned = Learned(window_tokens=8_000, accepted_tokens=5_000, claims=(claim,))
    issuer = "openai-chat:127.0.0.1:8000/v1:gpt"
    async with a_gateway(keys=path) as running:
        await running.engine.store.admit(LEARNED_KEY, LimitsLearned(issuer, learned))
        alice, operator = running.with_key(made["alice"]), running.with_key(made["operator"])
        address = f"/api/models/{quote(issuer, safe='')}"
        refused = [(await alice.get("/api/models")).code, (await alice.ask("DELETE", address)).code]
        before = (await operator.get("/api/models")).body
        gone = (await operator.ask("DELETE", address)).body
        after = (await operator.get("/api/models")).body
        again = await operator.ask("DELETE", address)

    assert refused == [(403, "forbidden")] * 2
    (model,) = before["models"]
    assert (model["model"], model["accepted_tokens"]) == (issuer, 5_000)
    assert model["claims"][0]["words"] == (
        "takes at most 8,000 tokens: the provider stated this number when it refused a larger request; "
        "see telegram:42 record 7"
    )
    assert (gone, after["models"]) == ({"model": issuer}, [])
    opus = next(one for one in after["prices"] if one["model"] == "anthropic:claude-opus-5-5")
    assert opus == {
        "model": "anthropic:claude-opus-5-5",
        "prices": {"input_usd": 4.0, "cached_input_usd": 0.2, "output_usd": 20.0, "cache_write_usd": 5.0},
        "stated_in": "copies of https://platform.claude.com/docs/en/about-claude/pricing, compared on 2026-11-18",
    }
    assert again.code == (404, "not_found")


# --- at a glance ---------------------------------------------------------------------------------------------------


async def test_the_overview_counts_turns_faults_by_model_and_rescues_by_cause() -> None:
    limited = refuses(429, "Rate limit reached", headers={"retry-after": "0"})
    broken = refuses(401, "no such key")
    script = ScriptedModel([limited, "rescued", "plain", broken])
    async with a_gateway(script) as running:
        for text in ("one", "two", "three"):
            await running.client.send("telegram:42", text)
        seen = (await running.client.get("/api/overview")).body

    assert (seen["sessions"], seen["used_today"], seen["pending"]) == (1, 1, 0)
    assert (seen["answered"], seen["failed"], seen["cancelled"]) == (2, 1, 0)
    assert {(one["model"], one["kind"]): one["count"] for one in seen["faults"]} == {
        (script.name, "rate_limit"): 1,
        (script.name, "auth"): 1,
    }
    assert [(one["kind"], one["count"]) for one in seen["rescues"]] == [("rate_limit", 1)]
    assert seen["storage"] is None


async def test_the_overview_of_a_key_has_no_figures_of_another(tmp_path: Path) -> None:
    file = KeyFile(tmp_path / "keys")
    alice, bob, operator = file.add("alice"), file.add("bob"), file.add("operator")
    async with a_gateway(keys=tmp_path / "keys") as running:
        await running.with_key(alice).send("of-alice", "hello")
        figures = [
            (seen["sessions"], seen["answered"])
            for key in (alice, bob, operator)
            if (seen := (await running.with_key(key).get("/api/overview")).body)
        ]
    assert figures == [(1, 1), (0, 0), (0, 1)]


def test_the_storage_of_a_store_is_counted_by_part(tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    (tmp_path / "store.db-blobs" / "ab").mkdir(parents=True)
    for name, size in (("store.db", 100), ("store.db-wal", 20), ("store.db-blobs/ab/c", 7), ("store.db-keys", 3)):
        (tmp_path / name).write_bytes(b"x" * size)
    (tmp_path / "another.db").write_bytes(b"x" * 1_000)
    assert storage_of(store) == [
        StorageUse("records", 120, 2),
        StorageUse("blobs", 7, 1),
        StorageUse("other", 3, 1),
    ]
