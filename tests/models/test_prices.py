"""Declared prices and their overrides."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from holdfast.cli.commands.models import models
from holdfast.core.limits.prices import NO_PRICES, PRICE_SOURCES, PRICED, Prices, declared_prices
from holdfast.errors import UsageError
from holdfast.models.catalogue import open_model
from holdfast.models.limits import load_overrides
from holdfast.types.messages import Usage

FILE = """
[models."openai:*"]
input_usd = 1
output_usd = 4.5
[models."openai:gpt-5"]
cached_input_usd = 0
"""
KEYS = {"OPENAI_API_KEY": "k" * 9, "ANTHROPIC_API_KEY": "k" * 9}


def a_file(folder: Path, text: str) -> Path:
    path = folder / "models.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("reference", "prices"),
    [
        ("openai:gpt-4o", Prices(2.5, 1.25, 10.0)),
        ("responses:gpt-4o-2024-08-06", Prices(2.5, 1.25, 10.0)),
        ("openai:gpt-4o-mini", Prices(0.15, 0.075, 0.6)),
        ("anthropic:claude-sonnet-4-5-20250929", Prices(3.0, 0.3, 15.0, 3.75).above(200_000, 2, 1.5)),
        ("openai:gpt-5.9", NO_PRICES),
        ("openai:gpt-4o-audio", NO_PRICES),
        ("anthropic:claude-opus-4-9", NO_PRICES),
    ],
)
def test_a_name_has_the_price_of_its_own_model_and_of_no_other(reference: str, prices: Prices) -> None:
    assert declared_prices(reference) == prices


def test_no_price_in_the_table_is_free_and_none_is_a_slip_of_the_point() -> None:
    for prices in PRICED.values():
        assert 0 < (prices.input_usd or 0) < (prices.output_usd or 0) < 1_000
        assert (prices.cached_input_usd or 0) < (prices.input_usd or 0) <= (prices.cache_write_usd or 10**6)


@pytest.mark.parametrize(
    ("reference", "tokens", "usd"),
    [
        ("anthropic:claude-haiku-5-5", 100_000, 0.01 + 0.0005),
        ("anthropic:claude-haiku-5-5", 100_001, 5 * (0.0100001 + 0.0005)),
        ("openai:gpt-5.5", 300_000, 2 * 1.5 + 1.5 * 0.03),
        ("openai:gpt-5", 300_000, 0.375 + 0.01),
    ],
)
def test_a_prompt_above_a_models_step_costs_more_as_a_whole(reference: str, tokens: int, usd: float) -> None:
    assert declared_prices(reference).cost(Usage(tokens, 1_000)) == pytest.approx(usd)


def test_the_cached_part_of_a_long_prompt_costs_more_too() -> None:
    prices = Prices(1.0, 0.1, 2.0, 1.25).above(1_000, 3, 2)

    usage = Usage(2_000, 100, cached_input_tokens=1_000, cache_write_tokens=500)
    assert prices.cost(usage) == pytest.approx((3 * (500 * 1.0 + 1_000 * 0.1 + 500 * 1.25) + 2 * 100 * 2.0) / 1e6)
    assert Prices(1.0, None, 2.0, long_prompt_tokens=10).cost(Usage(20, 10)) == Prices(1.0, None, 2.0).cost(
        Usage(20, 10)
    )


def test_a_step_can_be_set_in_the_file_and_is_checked(tmp_path: Path) -> None:
    step = "long_prompt_tokens = 200_000\nlong_input_times = 2\nlong_output_times = 1.5"
    overrides = load_overrides(a_file(tmp_path, f'[models."openai:gpt-5"]\n{step}'))

    model = open_model("openai:gpt-5", environ=KEYS, overrides=overrides)
    assert model.prices == Prices(1.25, 0.125, 10.0).above(200_000, 2, 1.5)
    for mistake, said in (("long_prompt_tokens = 1.5", "a whole number"), ("long_input_times = -1", "a factor")):
        with pytest.raises(UsageError, match=said):
            load_overrides(a_file(tmp_path, f'[models."openai:gpt-5"]\n{mistake}'))


def test_a_price_list_has_steps_too(tmp_path: Path) -> None:
    row = (
        '{"litellm_provider": "openai", "input_cost_per_token": 2e-06, "output_cost_per_token": 1e-05,'
        ' "input_cost_per_token_above_272k_tokens": 4e-06, "output_cost_per_token_above_272k_tokens": 1.5e-05,'
        ' "output_cost_per_token_above_900k_tokens": 9e-05, "input_cost_per_token_above_128k_tokens": null}'
    )
    overrides = load_overrides(with_list(tmp_path, f'{{"gpt-9": {row}}}'))

    assert overrides.price_list == {"openai:gpt-9": Prices(2.0, None, 10.0).above(272_000, 2.0, 1.5)}


def test_only_the_providers_own_endpoint_has_its_prices() -> None:
    official = open_model("anthropic:claude-haiku-4-5", environ=KEYS)
    other = open_model("anthropic:claude-haiku-4-5", base_url="http://box:8000", environ=KEYS)

    assert (official.prices, other.prices) == (Prices(1.0, 0.1, 5.0, 1.25), NO_PRICES)


def test_the_file_wins_over_the_table_and_speaks_for_servers_of_ones_own(tmp_path: Path) -> None:
    overrides = load_overrides(a_file(tmp_path, FILE))

    listed = open_model("openai:gpt-5", environ=KEYS, overrides=overrides)
    own = open_model("openai:mine", base_url="http://box:8000/v1", environ={}, overrides=overrides)

    assert listed.prices == Prices(1, 0, 4.5)
    assert own.prices == Prices(1, None, 4.5)
    assert own.limits == open_model("openai:mine", base_url="http://box:8000/v1", environ={}).limits


@pytest.mark.parametrize("price", ["-1", "true", '"2"', "nan", "1e9"])
def test_a_price_that_cannot_be_one_is_named(tmp_path: Path, price: str) -> None:
    path = a_file(tmp_path, f'[models."openai:x"]\ninput_usd = {price}')

    with pytest.raises(UsageError, match="input_usd must be dollars per million tokens"):
        load_overrides(path)


LIST = """{
  "sample_spec": {"input_cost_per_token": "US dollars", "litellm_provider": "one of ..."},
  "gpt-5": {"litellm_provider": "openai", "input_cost_per_token": 9e-06, "output_cost_per_token": 9.9e-05,
            "cache_read_input_token_cost": 9e-07, "mode": "chat"},
  "gemini/gemini-9-pro": {"litellm_provider": "gemini", "input_cost_per_token": 2e-06, "output_cost_per_token": 1.2e-05,
                          "cache_creation_input_token_cost": 2.5e-06},
  "dall-e-9": {"litellm_provider": "openai"},
  "bedrock/gpt-5": {"litellm_provider": "bedrock", "input_cost_per_token": 7e-06, "output_cost_per_token": 7e-05}
}"""


def with_list(folder: Path, text: str = LIST, named: str = '"prices.json"') -> Path:
    (folder / "prices.json").write_text(text)
    return a_file(folder, f'price_list = {named}\n[models."openai:gpt-5"]\noutput_usd = 5\n')


def test_a_price_list_replaces_the_table_and_the_file_wins_over_both(tmp_path: Path) -> None:
    overrides = load_overrides(with_list(tmp_path))

    assert overrides.price_list == {
        "openai:gpt-5": Prices(9.0, 0.9, 99.0),
        "gemini:gemini-9-pro": Prices(2.0, None, 12.0, 2.5),
    }
    assert open_model("responses:gpt-5-2025-08-07", environ=KEYS, overrides=overrides).prices == Prices(9.0, 0.9, 99.0)
    assert open_model("openai:gpt-5", environ=KEYS, overrides=overrides).prices == Prices(9.0, 0.9, 5)
    assert open_model("openai:gpt-4o", environ=KEYS, overrides=overrides).prices == Prices(2.5, 1.25, 10.0)


def test_every_price_says_where_it_is_stated(tmp_path: Path) -> None:
    path = with_list(tmp_path)
    overrides = load_overrides(path)
    listed = str(tmp_path / "prices.json")

    assert overrides.effective_prices("openai:gpt-5") == (Prices(9.0, 0.9, 5), f"{listed}; {path}")
    assert overrides.listed_prices("gemini:gemini-9-pro") == (Prices(2.0, None, 12.0, 2.5), listed)
    assert overrides.effective_prices("anthropic:claude-opus-5-5") == (
        Prices(4.0, 0.2, 20.0, 5.0),
        "copies of https://platform.claude.com/docs/en/about-claude/pricing, compared on 2026-11-18",
    )
    assert overrides.effective_prices("openai:unheard-of") == (NO_PRICES, "")
    assert {"openai:gpt-5", "gemini:gemini-9-pro", "openai:gpt-5.6-terra"} <= set(overrides.priced_models)
    assert set(PRICE_SOURCES) == {name.partition(":")[0] for name in PRICED}


@pytest.mark.parametrize(
    ("text", "named", "sentence"),
    [
        ("[]", '"prices.json"', "is not a price list"),
        (LIST, '"other.json"', "cannot be read"),
        (LIST, "3", "price_list must be the path of a file"),
        (LIST, '" "', "price_list must be the path of a file"),
    ],
)
def test_a_price_list_that_cannot_be_read_is_named(tmp_path: Path, text: str, named: str, sentence: str) -> None:
    path = with_list(tmp_path, text, named)

    with pytest.raises(UsageError, match=sentence):
        load_overrides(path)


def test_a_model_is_printed_with_the_places_that_state_its_prices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = with_list(tmp_path)
    monkeypatch.setenv("HOLDFAST_MODELS", str(path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    one = CliRunner().invoke(models, ["gpt-5"]).output.splitlines()
    everything = CliRunner().invoke(models, []).output
    rows = [json.loads(line) for line in CliRunner().invoke(models, ["gemini-9", "--json"]).output.splitlines()]

    listed = tmp_path / "prices.json"
    assert f"openai:gpt-5: $ in, $ cached from {listed}" in one
    assert f"openai:gpt-5: $ out from {path}" in one
    assert f"openai:gpt-5.5: $ in, $ cached, $ out from {PRICE_SOURCES['openai']}" in one
    assert " from " not in everything
    assert [row["prices"]["input_usd"] for row in rows] == [{"value": 2.0, "from": "list", "stated_in": str(listed)}]
