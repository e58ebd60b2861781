"""Model references: the opened model, and errors for unknown ones."""

import subprocess
import sys

import pytest

from holdfast.errors import MissingKeyError, UnknownModelError, UsageError
from holdfast.models.catalogue import open_model, simulated_model
from holdfast.models.fake import Simulation
from holdfast.models.limits import declared_limits
from holdfast.models.transport import Endpoint, parse_endpoint
from holdfast.types.limits import Limits
from tests.models.conversations import asking, reply_of, said, text_of_reply

KEYS = {"OPENAI_API_KEY": "sk-0123456789", "ANTHROPIC_API_KEY": "sk-ant-0123456789"}


@pytest.mark.parametrize("reference", ["sim", "sim:openai-chat", "sim:anthropic"])
async def test_the_simulated_model_needs_nothing(reference: str) -> None:
    simulation = Simulation(Limits(window_tokens=8_000))
    model = open_model(reference, environ={}, simulation=simulation)
    assert "hello" in text_of_reply(await reply_of(model, asking(said("hello"))))
    assert (model.name, model.limits) == (reference, Limits(window_tokens=8_000))
    assert simulation.requests[0].dialect == (reference.partition(":")[2] or "openai-chat")


async def test_a_simulated_model_is_made_where_none_is_given() -> None:
    assert "hello" in text_of_reply(await reply_of(open_model("sim", environ={}), asking(said("hello"))))


def test_a_simulated_model_declares_what_it_is_told_to() -> None:
    assert simulated_model(Simulation(), declared=Limits()).limits == Limits()


@pytest.mark.parametrize(
    ("reference", "issuer"),
    [
        ("openai:gpt-5", "openai-chat:api.openai.com:gpt-5"),
        ("anthropic:claude-opus-5", "anthropic:api.anthropic.com:claude-opus-5"),
    ],
)
def test_a_providers_model_is_reached_at_the_providers_address(reference: str, issuer: str) -> None:
    model = open_model(reference, environ=KEYS)
    assert (model.name, model.issuer) == (reference, issuer)
    assert model.limits == declared_limits(reference) != Limits()


@pytest.mark.parametrize(
    ("reference", "hint"),
    [
        ("opnai:gpt-5", "did you mean 'openai:gpt-5'?"),
        ("gpt-4o", "did you mean 'openai:gpt-4o'?"),
        ("claude-opus-5", "did you mean 'anthropic:claude-opus-5'?"),
        ("simm", "did you mean 'sim'?"),
        ("gemini-2.5-pro", "did you mean 'gemini:gemini-2.5-pro'?"),
        ("response:gpt-5", "did you mean 'responses:gpt-5'?"),
        ("xyz:1", "is not known. Known are sim, openai:NAME, responses:NAME, anthropic:NAME, gemini:NAME"),
        ("", "is not known. Known are sim, openai:NAME, responses:NAME, anthropic:NAME, gemini:NAME"),
        ("openai:", "write it as openai:NAME"),
        ("sim:german", "speaks openai-chat, anthropic, openai-responses, gemini"),
    ],
)
def test_an_unknown_model_is_refused_with_what_is_known(reference: str, hint: str) -> None:
    with pytest.raises(UnknownModelError) as caught:
        open_model(reference, environ=KEYS)
    assert hint in str(caught.value)


@pytest.mark.parametrize(("provider", "variable"), [("openai", "OPENAI_API_KEY"), ("anthropic", "ANTHROPIC_API_KEY")])
@pytest.mark.parametrize("environ", [{}, {"OPENAI_API_KEY": " ", "ANTHROPIC_API_KEY": ""}])
def test_a_missing_key_is_named(provider: str, variable: str, environ: dict[str, str]) -> None:
    with pytest.raises(MissingKeyError, match=f"set {variable}"):
        open_model(f"{provider}:m", environ=environ)


def test_a_key_that_cannot_stand_in_a_header_is_refused_without_being_shown() -> None:
    with pytest.raises(UsageError) as caught:
        open_model("openai:m", environ={"OPENAI_API_KEY": "sk-one\nsk-two"})
    assert "OPENAI_API_KEY has characters" in str(caught.value)
    assert "sk-" not in str(caught.value)


@pytest.mark.parametrize("environ", [{"OPENAI_BASE_URL": "http://box:8000/v1/"}, {}])
def test_an_endpoint_of_ones_own_may_do_without_a_key_and_declares_nothing(environ: dict[str, str]) -> None:
    base_url = None if environ else "http://box:8000/v1"
    model = open_model("openai:gpt-4o", base_url=base_url, environ=environ)
    assert (model.issuer, model.limits) == ("openai-chat:box:8000:gpt-4o", Limits())


def test_an_argument_wins_over_the_environment() -> None:
    model = open_model("anthropic:m", base_url="https://a.example", environ={"ANTHROPIC_BASE_URL": "https://b.example"})
    assert model.issuer == "anthropic:a.example:m"


@pytest.mark.parametrize(
    "url",
    [
        "box:8000",
        "ftp://box",
        "http://",
        "http://box:port",
        "http://box:99999",
        "http://a b",
        "http://u:pw@box",
        "http://box?x=1",
    ],
)
def test_a_malformed_address_is_refused_with_the_name_of_its_variable(url: str) -> None:
    with pytest.raises(UsageError, match="OPENAI_BASE_URL") as caught:
        open_model("openai:m", environ={"OPENAI_BASE_URL": url})
    assert "pw" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("https://api.example.com:443/v1", "api.example.com"),
        ("http://api.example.com:443", "api.example.com:443"),
        ("http://[::1]:80/v1", "[::1]"),
        ("http://[::1]:8080/v1", "[::1]:8080"),
    ],
)
def test_a_port_is_named_only_where_it_is_unusual(url: str, place: str) -> None:
    assert parse_endpoint(url, "test", {}) == Endpoint(url, place)


@pytest.mark.parametrize(
    ("url", "environ", "proxy"),
    [
        ("https://a.example", {"HTTPS_PROXY": "http://p:1"}, "http://p:1"),
        ("https://a.example", {"https_proxy": "http://p:1"}, "http://p:1"),
        ("https://a.example", {"all_proxy": "http://p:1"}, "http://p:1"),
        ("https://a.example", {"http_proxy": "http://p:1"}, None),
        ("http://a.example", {"http_proxy": "http://p:1"}, "http://p:1"),
        ("https://a.example", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "b.example, .example"}, None),
        ("https://a.example", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "a.example"}, None),
        ("https://aa.example", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "a.example"}, "http://p:1"),
        ("https://a.example", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "*"}, None),
        ("http://localhost:1", {"http_proxy": "http://p:1"}, None),
    ],
)
def test_the_proxy_is_found_as_other_programs_find_it(url: str, environ: dict[str, str], proxy: str | None) -> None:
    assert parse_endpoint(url, "test", environ).proxy == proxy


def test_a_proxy_of_another_kind_is_refused() -> None:
    with pytest.raises(UsageError, match="only http:// and https:// proxies"):
        parse_endpoint("https://a.example", "test", {"HTTPS_PROXY": "socks5://p:1"})


@pytest.mark.parametrize(
    ("reference", "window"),
    [
        ("openai:gpt-4", 8_192),
        ("openai:gpt-4o-mini-2024-07-18", 128_000),
        ("openai:gpt-4.1-nano", 1_047_576),
        ("anthropic:claude-opus-4-1-20250805", 200_000),
        ("anthropic:claude-opus-4-6", 1_000_000),
        ("openai:something-new", None),
        ("anthropic:gpt-4", None),
    ],
)
def test_the_longest_name_that_fits_counts(reference: str, window: int | None) -> None:
    assert declared_limits(reference).window_tokens == window


def test_opening_a_model_does_not_load_the_http_client() -> None:
    command = """
import sys
from holdfast.models.catalogue import open_model, simulated_model
open_model("openai:m", environ={"OPENAI_API_KEY": "k"})
print("aiohttp" in sys.modules, "uvicorn" in sys.modules)
"""
    told = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True)
    assert told.stdout == "False False\n"
