"""A model with its own endpoint, key, headers and settings."""

from pathlib import Path

import pytest

import holdfast
from holdfast.errors import MissingKeyError, UsageError
from holdfast.models.catalogue import open_model
from holdfast.models.fake import Simulation
from holdfast.models.fake.server import serve_simulation
from holdfast.types.faults import Phase, Refusal
from holdfast.types.messages import Message, Request, Role, Text

SECRET = "sk-very-secret-4711"
ASK = Request((Message(Role.USER, (Text("hi"),)),))


def test_a_key_and_a_header_are_in_no_repr() -> None:
    model = holdfast.Model("openai:m", base_url="http://box/v1", api_key=SECRET, headers={"X-Team": SECRET})
    assert SECRET not in repr(model)
    assert SECRET not in repr(open_model(model, environ={}))
    assert "x-team" in repr(model)


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ({"Host": "a"}, "'Host' cannot be set"),
        ({"a b": "c"}, "'a b' cannot be set"),
        ({"x-a": "b\r\nc: d"}, "header x-a has characters"),
    ],
)
def test_a_header_that_would_break_a_request_is_refused(headers: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        holdfast.Model("openai:m", headers=headers)


def test_a_key_comes_from_the_variable_that_the_model_names() -> None:
    model = holdfast.Model("openai:m", api_key="env:TEAM_KEY")
    with pytest.raises(MissingKeyError, match="set TEAM_KEY"):
        open_model(model, environ={"OPENAI_API_KEY": "other"})
    with pytest.raises(UsageError, match="TEAM_KEY has characters"):
        open_model(model, environ={"TEAM_KEY": "a\nb"})
    open_model(model, environ={"TEAM_KEY": SECRET})


async def headers_sent(model: holdfast.Model) -> dict[str, str]:
    opened = open_model(model, environ={})
    return await opened._request_headers()


async def test_a_key_is_a_value_a_function_or_none() -> None:
    keys = iter(("first-key", "second-key"))

    async def rotated() -> str:
        return next(keys)

    url = "http://127.0.0.1:1/v1"
    assert (await headers_sent(holdfast.Model("openai:m", base_url=url, api_key=SECRET)))["authorization"] == (
        f"Bearer {SECRET}"
    )
    assert "authorization" not in await headers_sent(holdfast.Model("openai:m", base_url=url, api_key=""))
    opened = open_model(holdfast.Model("openai:m", base_url=url, api_key=rotated), environ={})
    assert [(await opened._request_headers())["authorization"] for _ in range(2)] == [
        "Bearer first-key",
        "Bearer second-key",
    ], "it is called before each request"
    with_header = holdfast.Model("openai:m", base_url=url, api_key="", headers={"API-Key": SECRET})
    assert (await headers_sent(with_header))["api-key"] == SECRET


async def test_a_function_that_fails_is_a_missing_key_and_its_message_is_not_shown() -> None:
    def broken() -> str:
        raise RuntimeError(SECRET)

    opened = open_model(holdfast.Model("openai:m", base_url="http://127.0.0.1:1/v1", api_key=broken), environ={})
    (outcome,) = [event async for event in opened.stream(ASK, {})]
    assert isinstance(outcome, Refusal)
    assert (outcome.phase, outcome.status) == (Phase.RESPONSE, 401)
    assert "failed with RuntimeError" in outcome.cause
    assert SECRET not in repr(outcome)


def test_keys_and_headers_are_redacted_from_what_a_provider_sends_back() -> None:
    opened = open_model(
        holdfast.Model("openai:m", base_url="http://box/v1", api_key=SECRET, headers={"x-team": "team-secret-1"}),
        environ={},
    )
    opened._secrets = (SECRET, "team-secret-1")
    assert opened._redact(f"bad key {SECRET} of team-secret-1") == "bad key [key] of [key]"
    assert opened._redact_bytes(f"{SECRET}".encode()) == b"[key]"


@pytest.mark.parametrize("suffix", ["", "/", "/v1", "/v1/"])
async def test_fallbacks_mix_providers_each_at_its_own_address(tmp_path: Path, suffix: str) -> None:
    """An OpenAI to Anthropic fallback asked for /v1/v1/messages."""
    first, second = Simulation(faults="401"), Simulation()
    async with serve_simulation(first) as one, serve_simulation(second) as other:
        models = [
            holdfast.Model("openai:a", base_url=f"{one}/v1", api_key=SECRET),
            holdfast.Model("anthropic:b", base_url=other + suffix, api_key="key-of-the-other"),
        ]
        async with holdfast.open(tmp_path / "s.db", model=models) as client:
            chat = await client.session("a")
            answer = await chat.send("hello")
            log = [str(logged) for logged in await chat.history(limit=1_000)]
    assert answer.model == "b"
    assert [seen.path.rstrip("?") for seen in (*first.requests, *second.requests)] == [
        "/v1/chat/completions",
        "/v1/messages",
    ]
    assert not any(SECRET in line or "key-of-the-other" in line for line in log)


async def test_one_base_url_serves_several_dialects_of_one_server(tmp_path: Path) -> None:
    simulation = Simulation(faults="401")
    async with (
        serve_simulation(simulation) as url,
        holdfast.open(tmp_path / "s.db", model=["openai:a", "anthropic:b"], base_url=f"{url}/v1") as client,
    ):
        await (await client.session("a")).send("hello")
    assert [seen.path.rstrip("?") for seen in simulation.requests] == ["/v1/chat/completions", "/v1/messages"]


async def test_two_models_of_one_name_are_refused() -> None:
    models = [holdfast.Model("openai:a", base_url=f"http://box{number}/v1") for number in range(2)]
    with pytest.raises(UsageError, match="two models are named 'openai:a'"):
        async with holdfast.open(":memory:", model=models):
            pass


async def test_a_session_takes_a_model_and_stores_its_name_only(tmp_path: Path) -> None:
    simulation = Simulation()
    async with serve_simulation(simulation) as url:
        model = holdfast.Model("openai:a", name="team", base_url=f"{url}/v1", api_key=SECRET)
        async with holdfast.open(tmp_path / "s.db") as client:
            chat = await client.session("a", model=model)
            assert (await chat.send("hello")).model == "a"
            assert (await chat.state()).model == "team"
            assert not any(SECRET in str(logged) for logged in await chat.history())
        async with holdfast.open(tmp_path / "s.db", model=["sim", model]) as client:
            assert (await (await client.session("a")).send("hello")).model == "a", "registered by `open`"
    assert len(simulation.requests) == 2
