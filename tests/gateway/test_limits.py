"""Limits and roles of gateway keys, over HTTP: rates, budgets, models, restarts and several gateways on one store."""

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.core.limits.prices import Prices
from holdfast.gateway.accounts import account_key
from holdfast.gateway.http.keys import GatewayKey, KeyFile, Role
from holdfast.models.catalogue import simulated_model
from holdfast.models.fake import Simulation
from holdfast.ports import Delta, Model
from holdfast.runtime.clock import SystemClock
from holdfast.stores.memory import MemoryStore
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.engines import FunctionModel, says
from holdfast.types.accounts import KeyLimits, UsageLimits
from holdfast.types.faults import Refusal
from holdfast.types.messages import Reply, Request, Usage
from tests.gateway.gateways import Answer, GatewayClient, Running, a_gateway, recorded_usage

# A reference in the settings of a gateway; limits name the model without its dialect.
MODEL = "openai:deep"
PRICED = Prices(input_usd=1.0, output_usd=1.0)


def a_model() -> Model:
    """Return a model whose every answer costs a thousand tokens and a tenth of a cent."""

    return FunctionModel(lambda _: replace(says("aye"), usage=Usage(900, 100)), name=MODEL, prices=PRICED)


class GatedModel(FunctionModel):
    """A model that says when it was asked, and answers when the gate is open."""

    def __init__(self) -> None:
        super().__init__(lambda _: says("aye"))
        self.asked, self.gate = asyncio.Event(), asyncio.Event()

    async def stream(
        self, request: Request, blobs: Mapping[str, bytes]
    ) -> AsyncGenerator[Delta | Reply | Refusal, None]:
        """Wait, then answer."""
        self.asked.set()
        await self.gate.wait()
        async for part in super().stream(request, blobs):
            yield part


def a_key(path: Path, name: str, limits: KeyLimits = KeyLimits(), role: Role = Role.USE) -> str:  # noqa: B008 - frozen
    return KeyFile(path).add(name, GatewayKey(name, limits=limits, role=role))


def of(running: Running, key: str) -> GatewayClient:
    return running.with_key(key)


@asynccontextmanager
async def gateway(keys: Path, store: Any = None) -> AsyncGenerator[Running, None]:
    async with a_gateway(a_model(), keys=keys, store=store, offered=(MODEL,)) as running:
        yield running


async def test_a_budget_stops_one_key_and_no_other(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    poor, rich = a_key(keys, "poor", KeyLimits(usd_per_day=0.0015)), a_key(keys, "rich")
    async with gateway(keys) as running:
        answers = [await of(running, poor).send("a", "hello") for _ in range(3)]
        other = await of(running, rich).send("a", "hello")
    assert [one.status for one in (*answers, other)] == [200, 200, 429, 200]
    refused = answers[2]
    assert (refused.body["code"], refused.body["limit"]) == ("over_limit", "usd_per_day")
    assert "this key has used $0.0020 of $0.0015 for this day" in refused.body["detail"]
    assert int(refused.headers["retry-after"]) == refused.body["retry_seconds"] > 0


async def test_a_refused_message_is_not_stored(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    key = a_key(keys, "alice", KeyLimits(requests_per_minute=1))
    async with gateway(keys) as running:
        await of(running, key).send("a", "first")
        refused = await of(running, key).send("a", "second")
        records = (await of(running, key).get("/api/sessions/a/records")).body["records"]
    assert refused.status == 429
    assert refused.body["limit"] == "requests_per_minute"
    assert "second" not in str(records)


async def test_a_budget_holds_over_a_restart_and_for_a_second_gateway(tmp_path: Path) -> None:
    keys, path = tmp_path / "keys", tmp_path / "store.db"
    key = a_key(keys, "alice", KeyLimits(tokens_per_month=1_500))
    async with gateway(keys, SqliteStore(path, clock=SystemClock())) as running:
        assert [(await of(running, key).send("a", "hello")).status for _ in range(2)] == [200, 200]
        await recorded_usage(running.engine.store, "alice", 2)
        async with gateway(keys, SqliteStore(path, clock=SystemClock())) as second:
            beside = await of(second, key).send("b", "hello")
    async with gateway(keys, SqliteStore(path, clock=SystemClock())) as restarted:
        after = await of(restarted, key).send("a", "hello")
    assert (beside.status, after.status) == (429, 429)


async def test_usage_that_was_not_recorded_yet_counts_already(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    key = a_key(keys, "alice", KeyLimits(tokens_per_day=2_000))
    async with gateway(keys) as running:
        # Nothing waits for the account's log between these.
        statuses = [(await of(running, key).send("a", "hello")).status for _ in range(4)]
    assert statuses == [200, 200, 429, 429]


async def test_usage_is_shown_to_its_key_and_all_of_it_to_the_operator(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    alice, bob = a_key(keys, "alice"), a_key(keys, "bob")
    boss = a_key(keys, "boss", role=Role.OPERATOR)
    async with gateway(keys) as running:
        await of(running, alice).send("a", "hello")
        await of(running, bob).send("a", "hello")
        own = await of(running, alice).get("/api/usage")
        foreign = await of(running, alice).get("/api/usage?key=bob")
        everybody = await of(running, boss).get("/api/usage")
        named = await of(running, boss).get("/api/usage?key=bob")
        counters = [await of(running, key).get("/metrics") for key in (boss, bob)]
    day = time.strftime("%Y-%m-%d", time.gmtime())
    row = {"requests": 1, "calls": 1, "input_tokens": 900, "output_tokens": 100, "usd": 0.001}
    same = {"input_tokens": 900, "cached_input_tokens": 0, "output_tokens": 100, "usd": 0.001, "refused": 0}
    assert own.body["rows"] == [
        {"key": "alice", "period": day, "model": "deep", "totals": row, "without_changes": same}
    ]
    assert foreign.status == 403
    assert [one["key"] for one in everybody.body["rows"]] == ["alice", "bob"]
    assert [one["key"] for one in named.body["rows"]] == ["bob"]
    assert [one.status for one in counters] == [200, 403]


async def test_a_key_uses_only_its_models(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    key = a_key(keys, "alice", KeyLimits(models=("other*",)))
    async with gateway(keys) as running:
        refused = await of(running, key).send("a", "hello")
        configured = await of(running, key).ask("PUT", "/api/sessions/a", {"model": MODEL})
    assert (refused.status, configured.status) == (403, 403)
    assert "this key may not use the model 'openai:deep'; it may use: other*" in refused.body["detail"]


async def test_a_limit_on_requests_in_flight_ends_with_the_request(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    key = a_key(keys, "alice", KeyLimits(per_model={"sim": UsageLimits(concurrent_requests=1)}))
    model = GatedModel()
    async with a_gateway(model, keys=keys) as running:
        first = asyncio.create_task(of(running, key).send("a", "hello"))
        await model.asked.wait()
        refused = await of(running, key).send("b", "hello")
        model.gate.set()
        answered = await first
        later = await of(running, key).send("b", "hello")
        statuses = (answered.status, refused.status, later.status)
    assert statuses == (200, 429, 200)
    assert refused.body["limit"] == "concurrent_requests"


async def test_a_key_that_only_reads_changes_nothing(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    user = a_key(keys, "alice")
    async with gateway(keys) as running:
        await of(running, user).send("a", "hello")
        KeyFile(keys).change("alice", lambda key: replace(key, role=Role.READ))
        assert isinstance(running.gateway.state.keys, KeyFile)
        running.gateway.state.keys._checked_at = float("-inf")  # a second later
        reader = of(running, user)
        read = await reader.get("/api/sessions/a/records")
        rejected = [
            await reader.send("a", "no"),
            await reader.ask("DELETE", "/api/sessions/a"),
        ]
    assert read.status == 200
    assert [one.status for one in rejected] == [403, 403]


async def test_a_rotated_key_works_with_both_secrets_until_the_old_one_expires(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    old = a_key(keys, "alice")
    new = KeyFile(keys).rotate("alice", overlap_seconds=3_600)
    async with gateway(keys) as running:
        answers: list[Answer] = [await of(running, key).send("a", "hello") for key in (old, new)]
        sessions = [await of(running, key).get("/api/sessions") for key in (old, new)]
    assert [one.status for one in answers] == [200, 200]
    assert sessions[0].body == sessions[1].body
    # Without an overlap only the newest secret is left.
    newest = KeyFile(keys).rotate("alice", overlap_seconds=0)
    file = KeyFile(keys)
    assert [file.name_of(key) for key in (old, new, newest)] == [None, None, "alice"]


async def test_an_expired_key_is_rejected(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    secret = KeyFile(keys).add("alice", GatewayKey("alice", expires_at=time.time() - 1))
    other = a_key(keys, "bob")
    async with gateway(keys) as running:
        assert [(await of(running, key).get("/api/sessions")).status for key in (secret, other)] == [401, 200]


async def test_a_key_file_of_an_earlier_version_still_opens(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    secret = a_key(keys, "alice")
    (key,) = KeyFile(keys).all()
    keys.write_text(f'[{{"name": "alice", "sha256": "{key.secrets[0].sha256}", "created_at": 1.5}}]')
    file = KeyFile(keys)
    assert file.name_of(secret) == "alice"
    new = file.rotate("alice", overlap_seconds=60)
    assert [KeyFile(keys).name_of(one) for one in (secret, new)] == ["alice", "alice"]


async def test_many_models_and_records_keep_an_account_readable(tmp_path: Path) -> None:
    store = MemoryStore(clock=SystemClock())
    keys = tmp_path / "keys"
    key = a_key(keys, "alice", KeyLimits(requests_per_minute=10**6))
    async with a_gateway(simulated_model(Simulation()), keys=keys, store=store) as running:
        for number in range(5):
            assert (await of(running, key).send(f"s{number}", "hello")).status == 200
        (row,) = await recorded_usage(running.engine.store, "alice", 5)
        known = await store.info(account_key("alice"))
    assert (row.totals.requests, row.totals.calls) == (5, 5)
    assert known is not None
    assert known.owed == 0


def test_a_key_may_have_a_bounded_number_of_secrets(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    a_key(keys, "alice")
    for _ in range(7):
        KeyFile(keys).rotate("alice", overlap_seconds=60)
    with pytest.raises(Exception, match="8 valid secrets, which is the limit"):
        KeyFile(keys).rotate("alice", overlap_seconds=60)
    assert len(KeyFile(keys).all()[0].all_secrets()) == 8
