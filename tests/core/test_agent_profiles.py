"""The launch of an agent follows from its profile and from settings that the user already has."""

import msgspec
import pytest

from holdfast.core.proxy.agent_launch import (
    CHATGPT_BASE_URL,
    KEY_IN_ENVIRONMENT,
    STORED_LOGIN,
    CodexLogin,
    Gateway,
    Launch,
    codex_login,
    launch,
    merged,
    own_upstreams,
    redirect,
    why_not,
)
from holdfast.core.proxy.agent_profiles import AGENTS, ANY_COMMAND, AgentProfile, agent_of, agents_table
from holdfast.core.proxy.client_profiles import PROFILES

GATEWAY = Gateway("http://127.0.0.1:9", "/tmp/run")


def known(command: str) -> AgentProfile:
    agent = agent_of(command)
    assert agent is not None
    return agent


def test_every_agent_of_the_table_has_its_own_command_and_name() -> None:
    assert len({agent.command for agent in AGENTS}) == len({agent.name for agent in AGENTS}) == len(AGENTS) == 12
    assert agent_of("vi") is None
    # Three have no compaction of their own that the gateway would have to answer, or are not redirected.
    assert {agent.name for agent in AGENTS} - {profile.name for profile in PROFILES} == {"crush", "goose"}


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.command)
def test_every_template_of_an_agent_is_filled(agent: AgentProfile) -> None:
    set_ = launch(agent, GATEWAY)
    shown = msgspec.json.encode(set_).decode()
    for name in ("{root}", "{v1}", "{window}", "{folder}", "{auth}", "{providers}"):
        assert name not in shown


def test_claude_code_is_told_that_anthropic_is_behind_the_gateway_only_if_it_is() -> None:
    official = launch(known("claude"), GATEWAY)
    assert official == Launch(
        {
            "ANTHROPIC_BASE_URL": "http://127.0.0.1:9",
            "ENABLE_TOOL_SEARCH": "true",
            "CLAUDE_CODE_MAX_CONTEXT_TOKENS": "1000000",
            "_CLAUDE_CODE_ASSUME_FIRST_PARTY_BASE_URL": "1",
        },
        (),
        {},
    )
    foreign = launch(known("claude"), msgspec.structs.replace(GATEWAY, is_anthropic_official=False))
    assert official.variables.keys() - foreign.variables.keys() == {"_CLAUDE_CODE_ASSUME_FIRST_PARTY_BASE_URL"}


def test_an_address_that_the_user_has_set_becomes_the_upstream() -> None:
    assert own_upstreams(known("claude"), {}) == {}
    assert own_upstreams(known("claude"), {"ANTHROPIC_BASE_URL": "https://llm.example/v1/"}) == {
        "anthropic": "https://llm.example"
    }
    both = {"OPENAI_BASE_URL": "http://a/v1", "OPENAI_API_BASE": "http://b/v1"}
    assert own_upstreams(ANY_COMMAND, both) == {"openai": "http://a/v1"}
    assert own_upstreams(known("goose"), {"OPENAI_HOST": "http://a"}) == {"openai": "http://a/v1"}


@pytest.mark.parametrize(
    ("stored", "config", "expected"),
    [
        ({}, {}, CodexLogin(KEY_IN_ENVIRONMENT)),
        ({"OPENAI_API_KEY": "k"}, {}, CodexLogin(STORED_LOGIN)),
        ({"OPENAI_API_KEY": None, "tokens": {"a": 1}}, {}, CodexLogin(STORED_LOGIN, CHATGPT_BASE_URL)),
        (
            {"tokens": {"a": 1}},
            {"model_provider": "own", "model_providers": {"own": {"base_url": "http://a/v1/", "env_key": "OWN"}}},
            CodexLogin('env_key="OWN"', "http://a/v1"),
        ),
        (
            {},
            {"model_provider": "own", "model_providers": {"own": {"base_url": "http://a/v1"}}},
            CodexLogin(STORED_LOGIN, "http://a/v1"),
        ),
    ],
)
def test_codex_keeps_its_login(stored: dict[str, object], config: dict[str, object], expected: CodexLogin) -> None:
    assert codex_login(stored, config) == expected


def test_built_in_providers_get_the_gateway_without_an_entry() -> None:
    table = known("opencode").providers
    assert table is not None
    found = redirect(table, {"provider": "nonsense"})
    assert (found.upstreams, found.left) == ({}, ())
    assert found.config == {
        "provider": {"anthropic": {"options": {"baseURL": "{v1}"}}, "openai": {"options": {"baseURL": "{v1}"}}}
    }


def test_own_providers_are_redirected_to_one_upstream_per_family_and_others_are_left() -> None:
    table = known("pi").providers
    assert table is not None
    config = {
        "providers": {
            "first": {"baseUrl": "http://a/v1", "api": "openai-completions"},
            "same": {"baseUrl": "http://b/v1/"},
            "chosen": {"baseUrl": "http://b/v1"},
            "ours": {"baseUrl": "http://c", "api": "anthropic-messages"},
            "anthropic": {"baseUrl": "http://d/v1"},
            "keyed": {"apiKey": "k"},
            "odd": 1,
        }
    }
    found = redirect(table, config, "chosen")
    assert found.upstreams == {"openai": "http://b/v1", "anthropic": "http://c"}
    assert found.left == ("first", "anthropic")
    assert found.config["providers"] == {
        "openai": {"baseUrl": "{v1}"},
        "same": {"baseUrl": "{v1}"},
        "chosen": {"baseUrl": "{v1}"},
        "ours": {"baseUrl": "{root}"},
    }
    together = merged(config, found.config)["providers"]
    assert together["chosen"] == {"baseUrl": "{v1}"}
    assert together["keyed"] == {"apiKey": "k"}
    assert together["ours"] == {"baseUrl": "{root}", "api": "anthropic-messages"}


def test_an_agent_that_cannot_be_redirected_says_why() -> None:
    assert "Google login" in why_not(known("gemini"), {})
    assert why_not(known("gemini"), {"GEMINI_API_KEY": "k"}) == ""
    assert "GitHub" in why_not(known("copilot"), {})
    assert why_not(known("copilot"), {"COPILOT_PROVIDER_API_KEY": "k"}) == ""
    assert why_not(known("claude"), {}) == ""


def test_the_table_names_every_agent_and_what_it_is_given() -> None:
    table = agents_table()
    assert all(f"`holdfast run {agent.command}`" in table for agent in AGENTS)
    assert "`OPENCLAW_CONFIG_PATH`" in table
    assert "flags, a temporary file" in table
    assert "`GOOGLE_GEMINI_BASE_URL`" in table
