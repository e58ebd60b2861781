"""A gateway as it comes: /v1 answers with the simulated model, and errors name the setting to change."""

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from holdfast.config.schema import GatewaySettings, Settings, UpstreamSettings
from holdfast.core.limits.bounds import Bounds
from holdfast.gateway.http.keys import GatewayKey, KeyFile
from holdfast.types.accounts import KeyLimits
from holdfast.wiring import open_gateway

_HELLO: list[Any] = [{"role": "user", "content": "remember harbour = Kiel"}]
_KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY")


@pytest.fixture
async def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[str]:
    for variable in _KEYS:
        monkeypatch.delenv(variable, raising=False)
    settings = Settings(store=str(tmp_path / "a.db"), gateway=GatewaySettings(port=0))
    async with open_gateway(settings) as address:
        yield address


async def asked(url: str, path: str, body: object = None, **headers: str) -> tuple[int, Any]:
    method = "GET" if body is None else "POST"
    async with (
        aiohttp.ClientSession() as http,
        http.request(method, url + path, json=body, headers=headers) as response,
    ):
        return response.status, await response.json()


async def test_the_simulated_model_answers_both_sdks_in_every_dialect_without_a_provider(url: str) -> None:
    async with (
        AsyncOpenAI(base_url=f"{url}/v1", api_key="none") as openai,
        AsyncAnthropic(base_url=url, api_key="none") as anthropic,
    ):
        chat = await openai.chat.completions.create(model="sim", messages=_HELLO)
        streamed = [
            chunk.choices[0].delta.content or ""
            async for chunk in await openai.chat.completions.create(model="sim", messages=_HELLO, stream=True)
            if chunk.choices
        ]
        response = await openai.responses.create(model="sim", input="remember harbour = Kiel")
        followed = await openai.responses.create(
            model="sim", input="what is harbour?", previous_response_id=response.id
        )
        message = await anthropic.messages.create(model="sim", max_tokens=100, messages=_HELLO)

    assert "Kiel" in (chat.choices[0].message.content or "")
    assert "Kiel" in "".join(streamed)
    assert "Kiel" in followed.output_text
    assert "Kiel" in str(message.content)


async def test_the_simulated_model_answers_in_the_dialect_of_gemini_without_a_provider(url: str) -> None:
    body = {"contents": [{"role": "user", "parts": [{"text": "remember harbour = Kiel"}]}]}
    for version in ("v1beta", "v1"):
        path = f"/{version}/models/sim"
        answer = await asked(url, f"{path}:generateContent", body)
        listed = await asked(url, f"{path}:streamGenerateContent", body)
        counted = await asked(url, f"{path}:countTokens", {"generateContentRequest": body})
        assert "Kiel" in str(answer[1]["candidates"][0]["content"])
        assert [one.get("modelVersion") for one in listed[1]] == ["sim"] * len(listed[1])
        assert (counted[0], counted[1]["totalTokens"] > 0) == (200, True)
    models = await asked(url, "/v1beta/models")
    model = await asked(url, "/v1beta/models/sim")
    other = await asked(url, "/v1beta/models/gemini-9:generateContent", body)
    wrong = await asked(url, "/v1beta/models/sim:countTokens", {"contents": 5})
    assert [one["name"] for one in models[1]["models"]] == [model[1]["name"]] == ["models/sim"]
    assert [(status, told["error"]["status"]) for status, told in (other, wrong)] == [(401, "UNAUTHENTICATED")] * 2
    assert "upstream.gemini_key_variable" in other[1]["error"]["message"]


async def test_a_conversation_with_the_simulated_model_is_a_session(url: str) -> None:
    status, _ = await asked(url, "/v1/chat/completions", {"model": "sim", "messages": _HELLO})
    listed = await asked(url, "/api/sessions")

    assert status == 200
    assert [one["key"][:7] for one in listed[1]["sessions"]] == ["dropin:"]


async def test_without_any_key_the_error_names_the_settings_and_the_model_that_needs_none(url: str) -> None:
    openai = await asked(url, "/v1/chat/completions", {"model": "gpt-5", "messages": _HELLO})
    anthropic = await asked(url, "/v1/messages", {"model": "claude-x", "max_tokens": 9, "messages": _HELLO})
    other = await asked(url, "/v1/embeddings", {"model": "e", "input": "a"})
    models = await asked(url, "/v1/models")
    counted = await asked(url, "/v1/messages/count_tokens", {"model": "sim", "messages": _HELLO})

    assert (openai[0], anthropic[0], other[0]) == (401, 401, 401)
    for (_, body), family in ((openai, "openai"), (anthropic, "anthropic"), (other, "openai")):
        assert f"upstream.{family}_key_variable" in body["error"]["message"]
        assert "'sim' needs none" in body["error"]["message"]
    assert [model["id"] for model in models[1]["data"]] == ["sim"]
    assert counted[1]["input_tokens"] > 0


async def test_an_upstream_that_cannot_be_reached_names_its_setting(tmp_path: Path) -> None:
    upstream = UpstreamSettings(openai_base_url="http://127.0.0.1:1/v1", anthropic_base_url="http://127.0.0.1:1")
    settings = Settings(
        store=str(tmp_path / "a.db"),
        gateway=GatewaySettings(port=0),
        upstream=upstream,
        bounds=Bounds(back_off_seconds_min=0.01),
    )
    async with open_gateway(settings) as url:
        call = await asked(url, "/v1/chat/completions", {"model": "sim", "messages": _HELLO}, authorization="Bearer a")
        other = await asked(url, "/v1/models", **{"anthropic-version": "2023-06-01", "x-api-key": "a"})

    assert (call[0], other[0]) == (502, 502)
    assert "upstream.openai_base_url" in call[1]["error"]["message"]
    assert "upstream.anthropic_base_url" in other[1]["error"]["message"]


async def test_a_key_that_may_use_other_models_only_does_not_reach_the_simulated_one(url: str, tmp_path: Path) -> None:
    keys = KeyFile(tmp_path / "a.db-keys")
    limited = keys.add("alice", GatewayKey("alice", limits=KeyLimits(models=("gpt-5*",))))
    free = keys.add("bob")
    body = {"model": "sim", "messages": _HELLO}

    found = [await asked(url, "/v1/chat/completions", body, authorization=f"Bearer {key}") for key in (limited, free)]

    assert [status for status, _ in found] == [403, 200]
