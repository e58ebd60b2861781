"""Declared prices and their overrides."""

from pathlib import Path

import pytest

from holdfast.core.limits.prices import NO_PRICES, Prices
from holdfast.errors import UsageError
from holdfast.models.catalogue import open_model
from holdfast.models.limits import PRICED, declared_prices, load_overrides

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
        ("anthropic:claude-sonnet-4-5-20250929", Prices(3.0, 0.3, 15.0, 3.75)),
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
