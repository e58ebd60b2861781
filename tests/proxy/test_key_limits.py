"""Limits of gateway keys on proxied requests, as the official SDKs see them."""

import asyncio
from pathlib import Path

import anthropic
import openai
import pytest

from holdfast.gateway.http.keys import GatewayKey, KeyFile, Role
from holdfast.types.accounts import KeyLimits
from tests.gateway.gateways import recorded_usage
from tests.proxy.proxies import DropInRunning, a_dropin

PROVIDER_KEY = "sk-of-the-operator-0001"


def a_key(folder: Path, limits: KeyLimits, role: Role = Role.USE) -> str:
    return KeyFile(folder / "keys").add("alice", GatewayKey("alice", limits=limits, role=role))


def hello(running: DropInRunning, key: str, text: str = "hello") -> "asyncio.Future[object]":
    sdk = running.openai.with_options(api_key=key)
    sent = sdk.chat.completions.create(model="sim", messages=[{"role": "user", "content": text}])
    return asyncio.ensure_future(sent)


async def test_a_rate_limit_is_a_429_of_the_clients_dialect(tmp_path: Path) -> None:
    key = a_key(tmp_path, KeyLimits(requests_per_minute=1))
    async with a_dropin(keys=tmp_path / "keys", upstream_key=PROVIDER_KEY) as running:
        await hello(running, key)
        asked = len(running.sent)
        with pytest.raises(openai.RateLimitError) as refused:
            await hello(running, key)
        messages = running.anthropic.with_options(api_key=key).messages
        with pytest.raises(anthropic.RateLimitError) as refused_too:
            await messages.create(model="sim", max_tokens=50, messages=[{"role": "user", "content": "hello"}])
        google = f"{running.url}/v1beta/models/sim:generateContent"
        contents = {"contents": [{"parts": [{"text": "hello"}]}]}
        async with running.http.post(google, json=contents, headers={"x-goog-api-key": key}) as response:
            told, wait = (await response.json())["error"], response.headers["retry-after"]
        assert len(running.sent) == asked
    for error in (refused.value, refused_too.value):
        assert 0 < int(error.response.headers["retry-after"]) <= 60
        assert "this key had 1 requests in the last minute, its limit is 1" in str(error)
    assert (told["code"], told["status"]) == (429, "RESOURCE_EXHAUSTED")
    assert "this key had 1 requests in the last minute, its limit is 1" in told["message"]
    assert told["details"][1] == {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": f"{wait}s"}


async def test_tokens_of_forwarded_answers_exhaust_a_budget(tmp_path: Path) -> None:
    key = a_key(tmp_path, KeyLimits(tokens_per_day=10))
    async with a_dropin(keys=tmp_path / "keys", upstream_key=PROVIDER_KEY) as running:
        await hello(running, key)
        (row,) = await recorded_usage(running.engine.store, "alice", 1)
        with pytest.raises(openai.RateLimitError, match="of 10 tokens for this day"):
            await hello(running, key, "hello again")
    assert (row.model, row.totals.requests, row.totals.calls) == ("sim", 1, 1)
    assert row.totals.input_tokens > 0


async def test_a_model_that_a_key_may_not_use_is_a_403(tmp_path: Path) -> None:
    key = a_key(tmp_path, KeyLimits(models=("gpt-5*",)))
    async with a_dropin(keys=tmp_path / "keys", upstream_key=PROVIDER_KEY) as running:
        with pytest.raises(openai.PermissionDeniedError, match="may not use the model 'sim'; it may use: gpt-5"):
            await hello(running, key)
        assert running.sent == []


async def test_a_key_that_only_reads_calls_no_model(tmp_path: Path) -> None:
    key = a_key(tmp_path, KeyLimits(), Role.READ)
    async with a_dropin(keys=tmp_path / "keys", upstream_key=PROVIDER_KEY) as running:
        with pytest.raises(openai.PermissionDeniedError, match="may only read"):
            await hello(running, key)
